//! Why an agent behind an A2A server has not answered, and how that is reported.

use std::time::{Duration, SystemTime};

use bosun_core::{Outcome, machine::outcome_code, text::clip};
use hyper::{StatusCode, header::HeaderMap};
use serde_json::{Value, json};

use crate::{
    outbound::{OutboundError, cause, retry},
    secret::SecretError,
};

/// Characters of a message of another server.
const LONGEST_MESSAGE: usize = 500;
/// A2A's codes of JSON-RPC that mean something to a caller.
const TASK_NOT_FOUND: i64 = -32_001;
const VERSION_NOT_SUPPORTED: i64 = -32_009;
const INVALID_PARAMS: i64 = -32_602;

/// Why there is no answer. Messages are sentences that a model can act on, and contain no secret.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(super) enum A2aError {
    /// The manifest, a secret or the server's card: nothing that the model or the user can change.
    #[error("{0}")]
    Misconfigured(String),
    /// The address is one that the manifest may not reach.
    #[error("{0}")]
    AddressNotAllowed(String),
    #[error("{0}")]
    SecretNotAllowed(String),
    /// The server could not be connected to: nothing was sent.
    #[error("{0}")]
    Unreachable(String),
    /// The connection broke, or the server failed or was silent. Whether a request took effect is not known.
    #[error("{0}")]
    Unavailable(String),
    #[error("{message}")]
    RateLimited { message: String, retry_after: Option<Duration> },
    /// The server does not accept the credentials.
    #[error("{0}")]
    Unauthorized(String),
    #[error("the server does not know the task")]
    TaskNotFound,
    /// The server refused the request, and has done nothing. `is_invalid` is set if it objects to the parameters.
    #[error("{message}")]
    Refused { message: String, is_invalid: bool },
    /// The answer is not one of the protocol.
    #[error("{0}")]
    Malformed(String),
    #[error("{0}")]
    TooLarge(String),
}

impl A2aError {
    fn code(&self) -> &'static str {
        match self {
            Self::Misconfigured(_) | Self::Unauthorized(_) => outcome_code::TOOL_MISCONFIGURED,
            Self::AddressNotAllowed(_) => outcome_code::ADDRESS_NOT_ALLOWED,
            Self::SecretNotAllowed(_) => outcome_code::SECRET_NOT_ALLOWED,
            Self::Unreachable(_) => outcome_code::TOOL_UNREACHABLE,
            Self::RateLimited { .. } => outcome_code::RATE_LIMITED,
            Self::Unavailable(_) | Self::Refused { .. } | Self::Malformed(_) => outcome_code::TOOL_FAILED,
            Self::TaskNotFound => outcome_code::OUTCOME_UNKNOWN,
            Self::TooLarge(_) => outcome_code::RESULT_TOO_LARGE,
        }
    }

    /// The outcome that the model reads.
    pub(super) fn into_outcome(self) -> Outcome {
        let (code, message) = (self.code().to_owned(), self.to_string());
        let content = match self {
            Self::RateLimited { retry_after: Some(wait), .. } => {
                Some(json!({"retryAfterSeconds": wait.as_secs_f64().ceil()}).into())
            }
            _ => None,
        };
        Outcome::Failure { code, message, content }
    }

    /// The same for a message that may have begun a task: whether it did is not known.
    pub(super) fn into_unknown(self) -> Outcome {
        match self {
            Self::Unavailable(message) | Self::Malformed(message) | Self::TooLarge(message) => unknown(&message),
            other => other.into_outcome(),
        }
    }

    /// Whether the request was certainly not processed, and the same one may be accepted later.
    pub(super) fn was_not_processed(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::RateLimited { .. })
    }

    /// Whether the same request may succeed if it is repeated, and after which delay.
    pub(super) fn is_passing(&self) -> Option<Option<Duration>> {
        match self {
            Self::RateLimited { retry_after, .. } => Some(*retry_after),
            Self::Unreachable(_) | Self::Unavailable(_) => Some(None),
            _ => None,
        }
    }

    /// The error of an answer with a status of failure; `body` is its JSON, redacted.
    pub(super) fn of_status(status: StatusCode, headers: &HeaderMap, body: &Value) -> Self {
        let detail = body.get("error").unwrap_or(body).get("message").and_then(Value::as_str);
        let detail = detail.map(|message| format!(": {}", clip(message, LONGEST_MESSAGE))).unwrap_or_default();
        let message = format!("the A2A server answers with {}{detail}", status.as_u16());
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Self::Unauthorized(format!("{message}; check the `headers` of the A2AServer"))
            }
            StatusCode::TOO_MANY_REQUESTS => {
                Self::RateLimited { message, retry_after: retry::asked_wait(headers, SystemTime::now()) }
            }
            _ if has_reason(body, "TASK_NOT_FOUND") => Self::TaskNotFound,
            status if status.is_redirection() => {
                Self::Misconfigured(format!("{message}, a redirect, which is not followed; name the final address"))
            }
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => Self::Misconfigured(message),
            status if status.is_client_error() => {
                Self::Refused { message, is_invalid: status == StatusCode::BAD_REQUEST }
            }
            _ => Self::Unavailable(message),
        }
    }

    /// An error of JSON-RPC.
    pub(super) fn of_rpc(error: &Value) -> Self {
        let code = error.get("code").and_then(Value::as_i64).unwrap_or_default();
        let message = error.get("message").and_then(Value::as_str).unwrap_or("it does not say why");
        let message = format!("the agent refuses the request: {} ({code})", clip(message, LONGEST_MESSAGE));
        match code {
            TASK_NOT_FOUND => Self::TaskNotFound,
            VERSION_NOT_SUPPORTED => Self::Misconfigured(message),
            // An internal error says nothing about what was done before it.
            -32_603 => Self::Unavailable(message),
            _ => Self::Refused { message, is_invalid: code == INVALID_PARAMS },
        }
    }
}

/// Whether the details of an error (AIP-193) have this reason.
fn has_reason(body: &Value, reason: &str) -> bool {
    let details = body.pointer("/error/details").and_then(Value::as_array);
    details.into_iter().flatten().any(|detail| detail.get("reason").and_then(Value::as_str) == Some(reason))
}

/// The outcome of a message whose effect is not known.
pub(super) fn unknown(message: &str) -> Outcome {
    let message = format!("{message}; whether the agent works on it is not known");
    Outcome::failure(outcome_code::OUTCOME_UNKNOWN, message)
}

impl From<OutboundError> for A2aError {
    fn from(error: OutboundError) -> Self {
        match error {
            OutboundError::Connect(error) => {
                Self::Unreachable(format!("the A2A server cannot be reached: {}", cause(&error)))
            }
            OutboundError::Broken(error) => {
                Self::Unavailable(format!("the request to the A2A server broke off: {}", cause(&error)))
            }
            OutboundError::Tls(error) => {
                Self::Misconfigured(format!("this machine cannot open secure connections: {}", cause(&error)))
            }
            OutboundError::NotPublic(refused) => Self::AddressNotAllowed(refused.to_string()),
        }
    }
}

impl From<SecretError> for A2aError {
    fn from(error: SecretError) -> Self {
        if error.is_refusal() {
            Self::SecretNotAllowed(error.to_string())
        } else {
            Self::Misconfigured(error.to_string())
        }
    }
}
