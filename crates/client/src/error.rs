//! Why a request or a question failed.

use std::{io, time::Duration};

use reqwest::StatusCode;
use serde_json::Value;

/// Why there is no answer. [`ClientError::is_passing`] distinguishes transient errors from the others; the client
/// has retried those already.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("`{0}` is not a URL of a server, such as http://127.0.0.1:8080")]
    InvalidUrl(String),
    #[error("the key contains characters that cannot be sent in a header")]
    InvalidKey,
    #[error("the definition of a tool has no `name`: {0}")]
    UnnamedTool(Value),
    #[error("the HTTP client cannot be started ({0})")]
    NoHttpClient(String),
    /// Nothing was sent.
    #[error("no server answers at {server} ({reason}); start one with `bosun serve`")]
    Unreachable { server: String, reason: String },
    /// It is not known whether the server has processed the request.
    #[error("the connection to {server} broke ({reason})")]
    Broken { server: String, reason: String },
    /// The server is temporarily unavailable, or another request was faster: the request is safe to repeat.
    #[error("the server is busy or going down: {refusal}")]
    Unavailable { refusal: Refusal, retry_after: Option<Duration> },
    #[error("{0}")]
    Refused(Refusal),
    #[error("the server's answer cannot be read: {0}")]
    Unreadable(String),
    #[error("query `{query}` failed: {message} [{code}]")]
    QueryFailed { query: String, code: String, message: String },
    #[error("query `{query}` was cancelled")]
    QueryCancelled { query: String },
    /// The observer of the question failed: its output was closed, for instance.
    #[error("{0}")]
    Observer(#[from] io::Error),
}

impl ClientError {
    /// Whether the same request may succeed a little later.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Broken { .. } | Self::Unavailable { .. })
    }

    /// The server's code, if the server has answered.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Refused(refusal) | Self::Unavailable { refusal, .. } => Some(&refusal.code),
            Self::QueryFailed { code, .. } => Some(code),
            Self::InvalidUrl(_)
            | Self::InvalidKey
            | Self::UnnamedTool(_)
            | Self::NoHttpClient(_)
            | Self::Unreachable { .. }
            | Self::Broken { .. }
            | Self::Unreadable(_)
            | Self::QueryCancelled { .. }
            | Self::Observer(_) => None,
        }
    }

    /// How long the server asked the client to wait.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Unavailable { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// The error of an answer without success.
    pub(crate) fn of_answer(refusal: Refusal, retry_after: Option<Duration>) -> Self {
        match refusal.status {
            StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::BAD_GATEWAY
            | StatusCode::GATEWAY_TIMEOUT
            | StatusCode::TOO_MANY_REQUESTS => Self::Unavailable { refusal, retry_after },
            // Two writers conflicted; the server asks for a retry.
            StatusCode::CONFLICT if refusal.code == "query_changed" => Self::Unavailable { refusal, retry_after },
            _ => Self::Refused(refusal),
        }
    }
}

/// A request that the server refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} [{code}]")]
pub struct Refusal {
    pub status: StatusCode,
    /// The stable code of the fault; the number of the status if the answer has none.
    pub code: String,
    pub message: String,
    /// The messages of the single faults, where the server lists them.
    pub details: Vec<String>,
}

impl Refusal {
    pub(crate) fn read(status: StatusCode, body: &[u8]) -> Self {
        // A proxy answers with HTML, for instance: then the status is all that is known.
        let error = serde_json::from_slice::<Value>(body).unwrap_or_default();
        let text = |pointer: &str| error.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let details = error.pointer("/error/details").and_then(Value::as_array).into_iter().flatten();
        Self {
            status,
            details: details.filter_map(|detail| detail["message"].as_str()).map(str::to_owned).collect(),
            code: text("/error/code").unwrap_or_else(|| status.as_u16().to_string()),
            message: text("/error/message").unwrap_or_else(|| {
                let body = String::from_utf8_lossy(body);
                format!("the server answered {status}: {}", body.chars().take(200).collect::<String>())
            }),
        }
    }
}
