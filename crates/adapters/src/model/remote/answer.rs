//! Reads the answer of an API, within limits of time and size.

use std::time::{Duration, SystemTime};

use bosun_core::ceiling::REPLY_BYTES;
use bosun_engine::model::{Deltas, ModelError};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::{Response, StatusCode, header::CONTENT_TYPE};
use serde_json::Value;

use super::{Failure, RemoteAnswer, Wire};
use crate::outbound::{Body, cause, retry};

/// The largest streamed answer on the wire, where a token takes some 200 bytes. What is kept of it has the ceiling of
/// a reply.
const LARGEST_STREAM: usize = 64 * 1024 * 1024;
/// The largest plain answer on the wire: a reply, in as many escapes as JSON may have.
const LARGEST_PLAIN: usize = 6 * REPLY_BYTES;
/// How much of an error's body is read.
const LARGEST_ERROR: usize = 64 * 1024;

/// Reads an answer that has begun.
pub(super) async fn read(
    wire: &dyn Wire,
    response: Response<Body>,
    asked_for_stream: bool,
    idle: Duration,
    deltas: &dyn Deltas,
) -> Result<RemoteAnswer, Failure> {
    let content_type = response.headers().get(CONTENT_TYPE).map(|value| value.to_str().unwrap_or_default().to_owned());
    // Some servers do not know streaming and answer plainly.
    let is =
        |kind: &str, wanted: &str| kind.get(..wanted.len()).is_some_and(|start| start.eq_ignore_ascii_case(wanted));
    let is_stream = match content_type.as_deref() {
        None => asked_for_stream,
        Some(kind) if is(kind, "text/event-stream") => true,
        Some(kind) if is(kind, "application/json") => false,
        Some(kind) => return Err(ModelError::Malformed(format!("the answer is of type `{kind}`")).into()),
    };
    let largest = if is_stream { LARGEST_STREAM } else { LARGEST_PLAIN };
    let mut parts = Parts::of(response, idle, largest);
    if is_stream {
        let mut reader = wire.reader();
        while let Some(part) = parts.next().await {
            reader.feed(&part?, deltas)?;
        }
        reader.end()
    } else {
        let mut body = Vec::new();
        while let Some(part) = parts.next().await {
            body.extend_from_slice(&part?);
        }
        wire.plain(&body, deltas)
    }
}

/// Reads why there is no answer.
pub(super) async fn refusal(response: Response<Body>, idle: Duration) -> Failure {
    let status = response.status();
    let asked_wait = retry::asked_wait(response.headers(), SystemTime::now());
    let may_retry = response.headers().get("x-should-retry").is_none_or(|value| value != "false");
    let mut body = Vec::new();
    let mut parts = Parts::of(response, idle, LARGEST_PLAIN);
    // What can be read of the body is enough: it is only a message.
    while let Some(Ok(part)) = parts.next().await {
        body.extend_from_slice(&part[..part.len().min(LARGEST_ERROR - body.len())]);
        if body.len() == LARGEST_ERROR {
            break;
        }
    }
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let message = match error_message(&body) {
        Some(message) => message.to_owned(),
        None if status.is_redirection() => "redirects are not followed; set `baseUrl` to the final address".into(),
        None => status.canonical_reason().unwrap_or("no reason given").to_owned(),
    };
    let is_busy = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT);
    let is_outage = status.is_server_error();
    // An exhausted quota is reported as 429, and waiting does not restore it.
    if (is_busy || is_outage) && may_retry && error_code(&body) != Some("insufficient_quota") {
        Failure::Passing { message: format!("{}: {message}", status.as_u16()), asked_wait, is_outage }
    } else {
        Failure::Final(ModelError::Refused { status: status.as_u16(), message })
    }
}

/// The body as it arrives, within the limits of time and size.
struct Parts {
    body: Body,
    idle: Duration,
    read: usize,
    largest: usize,
}

impl Parts {
    fn of(response: Response<Body>, idle: Duration, largest: usize) -> Self {
        Self { body: response.into_body(), idle, read: 0, largest }
    }

    async fn next(&mut self) -> Option<Result<Bytes, ModelError>> {
        loop {
            let frame = match tokio::time::timeout(self.idle, self.body.frame()).await {
                Ok(None) => return None,
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(error))) => {
                    let message = format!("the connection was lost: {}", cause(&error));
                    return Some(Err(ModelError::Incomplete(message)));
                }
                Err(_) => {
                    let message = format!("nothing arrived for {} s", self.idle.as_secs());
                    return Some(Err(ModelError::Incomplete(message)));
                }
            };
            // A frame without data has trailers, which are not part of the answer.
            let Ok(part) = frame.into_data() else { continue };
            self.read += part.len();
            if self.read > self.largest {
                let message = format!("it has more than {} bytes", self.largest);
                return Some(Err(ModelError::TooLong(message)));
            }
            return Some(Ok(part));
        }
    }
}

/// The message in an error body: `{error: {message}}` at OpenAI and Anthropic alike, and the variants of other servers.
pub(crate) fn error_message(body: &Value) -> Option<&str> {
    let error = body.get("error").unwrap_or(body);
    let message = match error {
        Value::String(message) => Some(message.as_str()),
        other => other.get("message").or_else(|| other.get("detail")).and_then(Value::as_str),
    };
    message.map(str::trim).filter(|message| !message.is_empty())
}

/// The code in an error body.
fn error_code(body: &Value) -> Option<&str> {
    body.get("error").unwrap_or(body).get("code").and_then(Value::as_str)
}
