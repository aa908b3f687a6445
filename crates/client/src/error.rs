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
    /// Nothing was sent.
    #[error("{url} is not an agent of A2A 1.0: {reason}")]
    NotAnAgent { url: String, reason: String },
    /// A card must not redirect the key of a client.
    #[error("the card of {url} names the endpoint {endpoint} on another server; give its URL if the key is for it")]
    ForeignEndpoint { url: String, endpoint: String },
    #[error("A2A has no field for `{0}`")]
    NotInProtocol(String),
    #[error("agent `{0}` does not take tools of its clients: its card lacks the client-tools extension")]
    NoClientTools(String),
    /// The agent asks for more input. Over A2A, [`A2aAgent::reply`](crate::A2aAgent::reply) answers it.
    #[error("task `{query}` waits for an answer: {question}")]
    InputRequired { query: String, question: String },
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
            | Self::NotAnAgent { .. }
            | Self::ForeignEndpoint { .. }
            | Self::NotInProtocol(_)
            | Self::NoClientTools(_)
            | Self::InputRequired { .. }
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
        let body_json = serde_json::from_slice::<Value>(body).unwrap_or_default();
        let error = &body_json["error"];
        if error["message"].is_string() {
            return Self::of_error(status, error);
        }
        let body = String::from_utf8_lossy(body);
        let message = format!("the server answered {status}: {}", body.chars().take(200).collect::<String>());
        let code = error["code"].as_str().map_or_else(|| status.as_u16().to_string(), str::to_owned);
        Self { status, code, message, details: Vec::new() }
    }

    /// Reads the error of an answer: with our `code` and `details`, or with the `ErrorInfo` and `BadRequest` that A2A puts
    /// into `details` over HTTP and into `data` over JSON-RPC.
    fn of_error(status: StatusCode, error: &Value) -> Self {
        // A2A over HTTP has the same status for all faults of a request; those of its content have another one here.
        let is_of_content = status == StatusCode::BAD_REQUEST && error["status"] == "INVALID_ARGUMENT";
        let status = if is_of_content { StatusCode::UNPROCESSABLE_ENTITY } else { status };
        let listed = ["details", "data"].iter().find_map(|name| error[*name].as_array());
        let listed = listed.map(Vec::as_slice).unwrap_or_default();
        let reason = listed.iter().find_map(|detail| detail["reason"].as_str()).map(str::to_lowercase);
        let own = error["code"].as_str().map(str::to_owned);
        let code = own.or(reason).or_else(|| error["code"].as_i64().map(rpc_name));
        let violation = |violation: &Value| {
            Some(format!("{}: {}", violation["field"].as_str()?, violation["description"].as_str()?))
        };
        let violations = listed.iter().flat_map(|detail| detail["fieldViolations"].as_array()).flatten();
        let details = listed.iter().filter_map(|detail| detail["message"].as_str().map(str::to_owned));
        Self {
            status,
            details: details.chain(violations.filter_map(violation)).collect(),
            code: code.unwrap_or_else(|| status.as_u16().to_string()),
            message: error["message"].as_str().unwrap_or_default().to_owned(),
        }
    }

    /// Whether the content of the request is at fault: the same in other words may be accepted.
    pub(crate) fn is_of_content(&self) -> bool {
        matches!(self.status, StatusCode::PAYLOAD_TOO_LARGE | StatusCode::UNPROCESSABLE_ENTITY)
            || self.code == "json_too_deep"
    }

    /// The error of a JSON-RPC answer, with the status that it would have over HTTP.
    pub(crate) fn of_rpc(error: &Value) -> Self {
        let status = match error["code"].as_i64() {
            Some(-32001) => StatusCode::NOT_FOUND,
            Some(-32602) => StatusCode::UNPROCESSABLE_ENTITY,
            Some(-32603) => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::BAD_REQUEST,
        };
        Self::of_error(status, error)
    }
}

/// The name of an error of A2A that has no `ErrorInfo`.
fn rpc_name(code: i64) -> String {
    match code {
        -32001 => "task_not_found",
        -32002 => "task_not_cancelable",
        -32004 => "unsupported_operation",
        -32602 => "invalid_params",
        other => return other.to_string(),
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(refusal: &Refusal, code: &str, details: &[&str]) {
        assert_eq!((refusal.code.as_str(), refusal.message.as_str()), (code, "no"));
        assert_eq!(refusal.details, details);
    }

    #[test]
    fn errors_of_all_protocols_have_a_code_and_details() {
        let read = |body: Value| Refusal::read(StatusCode::BAD_REQUEST, body.to_string().as_bytes());
        let own =
            json!({"error": {"code": "invalid_request", "message": "no", "details": [{"message": "`x` is missing"}]}});
        check(&read(own), "invalid_request", &["`x` is missing"]);
        let info = json!({"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "CALL_EXPIRED", "domain": "bosun.dev"});
        let bad = json!({"@type": "type.googleapis.com/google.rpc.BadRequest",
            "fieldViolations": [{"field": "message.parts", "description": "is missing"}]});
        let over_http =
            json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "no", "details": [info, bad]}});
        check(&read(over_http), "call_expired", &["message.parts: is missing"]);
        check(
            &Refusal::of_rpc(&json!({"code": -32602, "message": "no", "data": [bad]})),
            "invalid_params",
            &["message.parts: is missing"],
        );
        check(&Refusal::of_rpc(&json!({"code": -32004, "message": "no"})), "unsupported_operation", &[]);
        let html = Refusal::read(StatusCode::BAD_GATEWAY, b"<html>");
        assert_eq!((html.code.as_str(), html.message.as_str()), ("502", "the server answered 502 Bad Gateway: <html>"));
    }
}
