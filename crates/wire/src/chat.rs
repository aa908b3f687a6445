//! OpenAI's chat completions: messages, and answers, plain and streamed.
//!
//! Journals and histories keep messages in this form, ARK's clients read it, and model APIs are asked in it. A field
//! that is declared here must have its declared type. What one API adds to a message is kept in `own`; what it adds elsewhere
//! is ignored.

use std::borrow::Cow;

use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::{Map, Value};

/// Fields that this specification does not have.
pub type Own<'a> = Option<Cow<'a, Map<String, Value>>>;

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub enum Message<'a> {
    #[serde(alias = "developer")]
    System {
        content: Content<'a>,
    },
    User {
        content: Content<'a>,
    },
    Assistant {
        /// `null` where the model only asked for tools.
        content: Option<Content<'a>>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall<'a>>,
        #[serde(flatten)]
        own: Own<'a>,
    },
    Tool {
        tool_call_id: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<Cow<'a, str>>,
        content: Content<'a>,
        #[serde(flatten)]
        own: Own<'a>,
    },
}

/// The text of a message, whole or in parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<TextPart<'a>>),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TextPart<'a> {
    #[serde(rename = "type")]
    pub kind: Cow<'a, str>,
    pub text: Cow<'a, str>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall<'a> {
    pub id: Cow<'a, str>,
    /// `function`.
    #[serde(rename = "type")]
    pub kind: Cow<'a, str>,
    pub function: Function<'a>,
    #[serde(flatten)]
    pub own: Own<'a>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Function<'a> {
    pub name: Cow<'a, str>,
    /// JSON in a text, as the model wrote it.
    pub arguments: Cow<'a, str>,
}

impl<'a, T: Into<Cow<'a, str>>> From<T> for Content<'a> {
    fn from(text: T) -> Self {
        Self::Text(text.into())
    }
}

/// A part of a streamed answer, or a whole plain one.
#[derive(Debug, Deserialize)]
pub struct Chunk {
    pub choices: Option<Vec<Choice>>,
    pub usage: Option<Usage>,
    pub error: Option<Value>,
}

#[derive(Debug, Deserialize)]
pub struct Choice {
    #[serde(default)]
    pub index: u32,
    /// In a stream.
    pub delta: Option<Delta>,
    /// In a plain answer.
    pub message: Option<Delta>,
    pub finish_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct Delta {
    pub role: Option<String>,
    pub content: Option<String>,
    pub refusal: Option<String>,
    pub tool_calls: Option<Vec<CallFragment>>,
    /// The form before `tool_calls`; it has no ids, so results could not be matched to calls.
    pub function_call: Option<IgnoredAny>,
    /// What only this API knows.
    #[serde(flatten)]
    pub own: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
pub struct CallFragment {
    pub index: Option<u32>,
    pub id: Option<String>,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub function: Option<FunctionFragment>,
    #[serde(flatten)]
    pub own: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
pub struct FunctionFragment {
    pub name: Option<String>,
    pub arguments: Option<String>,
}

/// What an answer cost.
#[derive(Debug, Deserialize)]
pub struct Usage {
    pub prompt_tokens: Option<u64>,
    pub completion_tokens: Option<u64>,
    pub prompt_tokens_details: Option<PromptTokensDetails>,
}

#[derive(Debug, Deserialize)]
pub struct PromptTokensDetails {
    pub cached_tokens: Option<u64>,
}
