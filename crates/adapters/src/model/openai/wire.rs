//! Chat completions as they stand on the wire.
//!
//! Fields that an API adds are passed over; fields that are here must have the types that they have
//! here. The names are OpenAI's.

use bosun_core::{query::Usage as Tokens, transcript};
use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::Value;

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
}

#[derive(Debug, Serialize)]
pub(super) struct Function<'a> {
    name: &'a str,
    arguments: &'a str,
}

impl<'a> From<&'a transcript::Message> for Message<'a> {
    fn from(message: &'a transcript::Message) -> Self {
        match message {
            transcript::Message::System(content) => Self::System { content },
            transcript::Message::User(content) => Self::User { content },
            transcript::Message::Assistant { text, calls } => Self::Assistant {
                // An assistant message with neither text nor calls is refused; an empty text is not.
                content: text.as_deref().or(if calls.is_empty() { Some("") } else { None }),
                tool_calls: calls.iter().map(Call::from).collect(),
            },
            transcript::Message::Tool { provider_id, content, .. } => Self::Tool { tool_call_id: provider_id, content },
        }
    }
}

impl<'a> From<&'a transcript::MessageCall> for Call<'a> {
    fn from(call: &'a transcript::MessageCall) -> Self {
        let function = Function { name: &call.alias, arguments: &call.arguments };
        Self { id: &call.provider_id, kind: "function", function }
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
}

#[derive(Debug, Deserialize)]
pub(super) struct CallFragment {
    pub(super) index: Option<u32>,
    pub(super) id: Option<String>,
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) function: Option<FunctionFragment>,
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
        }
    }
}

/// The sentence in an error body: OpenAI's `{error: {message}}`, and what other servers make of it.
pub(super) fn error_message(body: &Value) -> Option<&str> {
    let error = body.get("error").unwrap_or(body);
    let message = match error {
        Value::String(message) => Some(message.as_str()),
        other => other.get("message").or_else(|| other.get("detail")).and_then(Value::as_str),
    };
    message.map(str::trim).filter(|message| !message.is_empty())
}

/// The code in an error body.
pub(super) fn error_code(body: &Value) -> Option<&str> {
    body.get("error").unwrap_or(body).get("code").and_then(Value::as_str)
}
