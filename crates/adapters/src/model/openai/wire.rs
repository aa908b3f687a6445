//! Chat completions as they stand on the wire.
//!
//! Fields that are here must have the types that they have here. What an API adds to an answer is kept
//! and given back with the conversation; what it adds elsewhere is passed over. The names are OpenAI's.

use bosun_core::{query::Usage as Tokens, transcript};
use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::{Map, Value};

use super::WIRE;
use crate::model::fields;

/// One message of a request.
#[derive(Debug, Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub(super) enum Message<'a> {
    System {
        content: &'a str,
    },
    User {
        content: &'a str,
    },
    Assistant {
        /// `null` where the model only asked for tools.
        content: Option<&'a str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Call<'a>>,
        #[serde(flatten)]
        own: Option<&'a Map<String, Value>>,
    },
    Tool {
        tool_call_id: &'a str,
        content: &'a str,
    },
}

#[derive(Debug, Serialize)]
pub(super) struct Call<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function<'a>,
    #[serde(flatten)]
    own: Option<&'a Map<String, Value>>,
}

#[derive(Debug, Serialize)]
pub(super) struct Function<'a> {
    name: &'a str,
    arguments: &'a str,
}

impl<'a> Message<'a> {
    /// `echo` gives the API back what it said in fields of its own.
    pub(super) fn of(message: &'a transcript::Message, echo: bool) -> Self {
        match message {
            transcript::Message::System(content) => Self::System { content },
            transcript::Message::User(content) => Self::User { content },
            transcript::Message::Assistant { text, calls, provider } => {
                let own = fields::open(WIRE, provider.as_ref()).filter(|_| echo);
                let own_of = |index: usize| own?.get("calls")?.get(index)?.as_object();
                Self::Assistant {
                    // An assistant message with neither text nor calls is refused; an empty text is not.
                    content: text.as_deref().or(if calls.is_empty() { Some("") } else { None }),
                    tool_calls: (calls.iter().enumerate())
                        .map(|(index, call)| Call {
                            id: &call.provider_id,
                            kind: "function",
                            function: Function { name: &call.alias, arguments: &call.arguments },
                            own: own_of(index),
                        })
                        .collect(),
                    own: own.and_then(|own| own.get("message")?.as_object()),
                }
            }
            transcript::Message::Tool { provider_id, content, .. } => Self::Tool { tool_call_id: provider_id, content },
        }
    }
}

/// A part of a streamed answer, or a whole plain one.
#[derive(Debug, Deserialize)]
pub(super) struct Chunk {
    pub(super) choices: Option<Vec<Choice>>,
    pub(super) usage: Option<Usage>,
    pub(super) error: Option<Value>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Choice {
    #[serde(default)]
    pub(super) index: u32,
    /// In a stream.
    pub(super) delta: Option<Delta>,
    /// In a plain answer.
    pub(super) message: Option<Delta>,
    pub(super) finish_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Delta {
    pub(super) role: Option<String>,
    pub(super) content: Option<String>,
    pub(super) refusal: Option<String>,
    pub(super) tool_calls: Option<Vec<CallFragment>>,
    /// The form before `tool_calls`; it has no ids, so results could not be told apart.
    pub(super) function_call: Option<IgnoredAny>,
    /// What only this API knows.
    #[serde(flatten)]
    pub(super) own: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CallFragment {
    pub(super) index: Option<u32>,
    pub(super) id: Option<String>,
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) function: Option<FunctionFragment>,
    #[serde(flatten)]
    pub(super) own: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
pub(super) struct FunctionFragment {
    pub(super) name: Option<String>,
    pub(super) arguments: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Usage {
    #[serde(default)]
    prompt_tokens: Option<u64>,
    #[serde(default)]
    completion_tokens: Option<u64>,
    #[serde(default)]
    prompt_tokens_details: Option<PromptTokensDetails>,
}

#[derive(Debug, Deserialize)]
struct PromptTokensDetails {
    #[serde(default)]
    cached_tokens: Option<u64>,
}

impl From<Usage> for Tokens {
    fn from(usage: Usage) -> Self {
        Self {
            prompt_tokens: usage.prompt_tokens.unwrap_or_default(),
            completion_tokens: usage.completion_tokens.unwrap_or_default(),
            cached_tokens: usage.prompt_tokens_details.and_then(|details| details.cached_tokens).unwrap_or_default(),
            cache_write_tokens: 0,
        }
    }
}
