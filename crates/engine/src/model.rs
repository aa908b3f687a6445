//! The trait of a model.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bosun_core::{
    QueryUid, ceiling, json,
    machine::failure_code,
    query::{ModelOptions, Usage},
    tool::toolset::Toolset,
    trace::TraceContext,
    transcript::Message,
};
use serde_json::Value;

/// One model, ready for requests. Implementations own their wire format, credentials and retries.
#[async_trait]
pub trait Model: Send + Sync + 'static {
    /// Answers one turn. Text goes to `deltas` as it arrives.
    ///
    /// Returns only complete answers: if the stream does not end cleanly, or a call's arguments are incomplete, the
    /// result is an error, whatever had arrived. Retries happen inside as long as no text has been pushed; after that
    /// the engine begins a new attempt, which readers are notified of.
    async fn reply(&self, request: &ModelRequest, deltas: &dyn Deltas) -> Result<ModelReply, ModelError>;

    /// The provider of the API, as named by OpenTelemetry's semantic conventions.
    fn provider(&self) -> &'static str {
        "bosun"
    }
}

/// Everything that one turn needs.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    pub query: QueryUid,
    pub turn: u32,
    pub messages: Vec<Message>,
    pub toolset: Arc<Toolset>,
    /// False on a last turn: the tools are still declared, so that prompt caches hit, but must not be used.
    pub tools_allowed: bool,
    /// The query's model options; they override those of the model's own manifest.
    pub options: ModelOptions,
    /// The format of the answer. A model with structured output should enforce it; it is validated in any case.
    pub answer: Option<AnswerFormat>,
    /// The trace context of the turn. Models that are called over HTTP propagate it.
    pub trace: Option<Arc<TraceContext>>,
}

/// A JSON Schema that the answer must match, and a name for it.
#[derive(Clone, Debug, PartialEq)]
pub struct AnswerFormat {
    /// At most 64 letters, digits, `_` and `-`.
    pub name: String,
    pub schema: Arc<Value>,
}

/// Receives the text of a turn while it is streamed.
pub trait Deltas: Send + Sync {
    fn push(&self, text: &str);
}

/// A complete answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelReply {
    pub text: Option<String>,
    pub calls: Vec<ModelCall>,
    pub usage: Usage,
    /// Provider-specific state that the API wants back with the next turn, such as signed reasoning. Stored opaquely;
    /// only the wire format that wrote it reads it.
    pub provider: Option<Arc<Value>>,
    /// The name of the model that answered, if it differs from the requested one.
    pub answered_by: Option<String>,
}

/// A call as the model wrote it, not validated yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelCall {
    pub provider_id: String,
    pub alias: String,
    pub arguments: String,
}

impl ModelReply {
    /// Whether the reply is within the size limits, whatever model it comes from.
    ///
    /// # Errors
    /// If it is not.
    pub fn check_size(&self) -> Result<(), ModelError> {
        let mut size = ReplySize::default();
        size.add_text(self.text.as_deref().unwrap_or_default())?;
        size.add(self.provider.as_deref().map_or(0, json::compact_size))?;
        for ModelCall { provider_id, alias, arguments } in &self.calls {
            size.add_call(provider_id, alias)?;
            size.add(arguments.len())?;
        }
        Ok(())
    }
}

/// The size of a reply so far. A streaming model counts while reading, so that a reply which is too large is not
/// buffered.
#[derive(Debug, Default)]
pub struct ReplySize {
    calls: usize,
    text: usize,
    all: usize,
}

impl ReplySize {
    /// Counts more text.
    ///
    /// # Errors
    /// If the text is now above [`ceiling::REPLY_TEXT_BYTES`], or the reply above [`ceiling::REPLY_BYTES`].
    pub fn add_text(&mut self, text: &str) -> Result<(), ModelError> {
        self.text += json::escaped_size(text);
        if self.text > ceiling::REPLY_TEXT_BYTES {
            return Err(ModelError::TooLong(format!("its text has more than {} bytes", ceiling::REPLY_TEXT_BYTES)));
        }
        self.add(text.len())
    }

    /// Counts one more call, without its arguments.
    ///
    /// # Errors
    /// If there are now more than [`ceiling::REPLY_CALLS`], or its id or name is invalid.
    pub fn add_call(&mut self, id: &str, name: &str) -> Result<(), ModelError> {
        self.calls += 1;
        if self.calls > ceiling::REPLY_CALLS {
            return Err(ModelError::Malformed(format!("it has more than {} tool calls", ceiling::REPLY_CALLS)));
        }
        if id.len().max(name.len()) > ceiling::CALL_NAME_BYTES {
            let most = ceiling::CALL_NAME_BYTES;
            return Err(ModelError::Malformed(format!("the id or the name of a tool call has more than {most} bytes")));
        }
        self.add(id.len() + name.len())
    }

    /// Counts anything else that is kept of the reply.
    ///
    /// # Errors
    /// If the reply is now above [`ceiling::REPLY_BYTES`].
    pub fn add(&mut self, bytes: usize) -> Result<(), ModelError> {
        self.all += bytes;
        if self.all > ceiling::REPLY_BYTES {
            return Err(ModelError::TooLong(format!("it has more than {} bytes", ceiling::REPLY_BYTES)));
        }
        Ok(())
    }
}

/// Why a model request failed. The messages reach the query's owner: they never contain a credential or a URL's query.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    #[error("model API answered {status}: {message}")]
    Refused { status: u16, message: String },
    #[error("model API is overloaded or down after {attempts} attempts: {message}")]
    Unavailable { attempts: u32, message: String, retry_after: Option<Duration> },
    /// Not asked at all: its circuit breaker is open.
    #[error("model API failed {failures} times in a row; it is not called again for {} s", .retry_after.as_secs().max(1))]
    CircuitOpen { failures: u32, retry_after: Duration },
    #[error("model's answer broke off: {0}")]
    Incomplete(String),
    /// It reached its length limit before its end. Retrying would end the same way.
    #[error("model's answer is too long: {0}")]
    TooLong(String),
    #[error("model's answer is not readable: {0}")]
    Malformed(String),
    #[error("model is not usable: {0}")]
    Misconfigured(String),
    /// It would have to send a secret to a host where that is not allowed.
    #[error("model is not usable: {0}")]
    SecretNotAllowed(String),
    /// It would have to call an address that clients may not make the server call.
    #[error("model is not usable: {0}")]
    AddressNotAllowed(String),
}

impl ModelError {
    /// The code with which the query fails.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Refused { .. } => failure_code::MODEL_REFUSED,
            Self::Unavailable { .. } => failure_code::MODEL_UNAVAILABLE,
            Self::CircuitOpen { .. } => failure_code::MODEL_CIRCUIT_OPEN,
            Self::Incomplete(_) => failure_code::MODEL_INCOMPLETE,
            Self::TooLong(_) => failure_code::MODEL_OUTPUT_LIMIT,
            Self::Malformed(_) => failure_code::MODEL_MALFORMED,
            Self::Misconfigured(_) => failure_code::MODEL_MISCONFIGURED,
            Self::SecretNotAllowed(_) => failure_code::SECRET_NOT_ALLOWED,
            Self::AddressNotAllowed(_) => failure_code::ADDRESS_NOT_ALLOWED,
        }
    }
}
