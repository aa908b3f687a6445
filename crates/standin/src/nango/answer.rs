//! Answers in Nango's format.

use axum::{
    body::Body,
    http::{HeaderMap, StatusCode, header::CONTENT_TYPE},
    response::Response,
};
use serde_json::{Value, json};

pub(super) fn ok(body: &Value) -> Response {
    with_status(StatusCode::OK, body)
}

pub(super) fn with_status(status: StatusCode, body: &Value) -> Response {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, axum::http::HeaderValue::from_static("application/json"));
    response
}

/// `{error: {code, message}}`; some errors have no message.
pub(super) fn error(status: StatusCode, code: &str, message: Option<&str>) -> Response {
    let mut error = json!({"code": code});
    if let Some(message) = message {
        error["message"] = json!(message);
    }
    with_status(status, &json!({"error": error}))
}

/// An error of validation, with the path of the value.
pub(super) fn invalid(code: &str, message: &str, path: &str) -> Response {
    let errors = json!([{"code": "invalid", "message": message, "path": [path]}]);
    with_status(StatusCode::BAD_REQUEST, &json!({"error": {"code": code, "errors": errors}}))
}

/// The integration and the connection that a request names.
#[expect(clippy::result_large_err, reason = "a refusal is the answer itself")]
pub(super) fn connection_headers(headers: &HeaderMap) -> Result<(String, String), Response> {
    let get = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).filter(|value| !value.is_empty());
    match (get("provider-config-key"), get("connection-id")) {
        (Some(provider), Some(connection)) => Ok((provider.to_owned(), connection.to_owned())),
        (None, _) => Err(invalid("invalid_headers", "Required", "provider-config-key")),
        (_, None) => Err(invalid("invalid_headers", "Required", "connection-id")),
    }
}
