//! Why a server cannot be used, or a call of it has no result.

use std::time::Duration;

use bosun_core::{Outcome, machine::outcome_code};

/// A failure of a session. Messages are for operators and for models: they name no address and no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum McpError {
    /// There is no session, and none could be made. Nothing was sent.
    #[error("{0}")]
    Unavailable(String),
    /// The server does not know the session, so that it has not processed the request.
    #[error("the server does not know the session any more: {0}")]
    Stale(String),
    /// The session ended while an answer was awaited, which may have had its effect.
    #[error("the connection to the server broke: {0}")]
    Broken(String),
    #[error("no answer, and no progress, within {0:?}")]
    Silent(Duration),
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// The server answered with an error of the protocol.
    #[error("the server answered with the error {code}: {message}")]
    Refused { code: i32, message: String },
    /// The answer is not one that the protocol has for this request.
    #[error("the server's answer cannot be read: {0}")]
    Unreadable(String),
    /// The server answered `server/discover` when that was no longer awaited: it speaks the newer protocol.
    #[error("the server answered the first request late")]
    AnsweredLate,
    /// The server wants something of the client that this one does not do.
    #[error("{0}")]
    Unsupported(String),
}

impl McpError {
    /// What the model reads.
    pub(crate) fn to_outcome(&self, server: &str) -> Outcome {
        let code = match self {
            Self::Unavailable(_) | Self::Stale(_) | Self::AnsweredLate => outcome_code::MCP_SERVER_UNAVAILABLE,
            Self::Broken(_) => outcome_code::OUTCOME_UNKNOWN,
            Self::Silent(_) | Self::TimedOut(_) => outcome_code::TOOL_TIMEOUT,
            Self::Refused { .. } | Self::Unreadable(_) | Self::Unsupported(_) => outcome_code::TOOL_FAILED,
        };
        Outcome::failure(code, format!("MCP server `{server}`: {self}"))
    }
}
