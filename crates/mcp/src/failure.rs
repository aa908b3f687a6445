//! Maps rmcp's errors to those of this crate.

use std::{error::Error, time::Duration};

use bosun_adapters::manifests::NO_SSE;
use rmcp::{
    model::ErrorData,
    service::{ClientInitializeError, ServiceError},
    transport::{DynamicTransportError, streamable_http_client::StreamableHttpError},
};

use crate::{error::McpError, http::HttpError, redact::Redactor};

const NEEDS_OAUTH: &str = "the server requires authorization; set `authorization.bearer` or \
                           `authorization.clientCredentials` (the browser flow of OAuth is not served)";
/// The codes that servers use for a session that they do not know.
const SESSION_CODES: &[i32] = &[-32_000, -32_001, -32_600];

/// Why a server could not be connected to.
pub(crate) fn of_connecting(error: &ClientInitializeError, redactor: &Redactor) -> McpError {
    match error {
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => of_connecting(fallback, redactor),
        ClientInitializeError::TransportError { error, .. } => match of_transport(error, redactor) {
            // Nothing was asked of the server yet that could have had an effect.
            McpError::Broken(reason) | McpError::Stale(reason) => McpError::Unavailable(reason),
            // Servers of the transport before streamable HTTP refuse a `POST` in this way (MCP 2025-03-26, "Backwards
            // Compatibility").
            McpError::Unreadable(answer) if takes_no_post(&answer) => {
                let status = answer.trim_end_matches([':', ' ']);
                McpError::Unsupported(format!(
                    "it does not take messages at this address ({status}); is it the right one? If the server is an older one, {NO_SSE}"
                ))
            }
            other => other,
        },
        ClientInitializeError::JsonRpcError(error) => of_error(error, redactor),
        ClientInitializeError::ConnectionClosed(_) => {
            McpError::Unavailable("it closed the connection before it answered".to_owned())
        }
        ClientInitializeError::NoCompatibleProtocolVersion { .. } => {
            McpError::Unsupported("it speaks no revision of MCP that this client speaks".to_owned())
        }
        other => McpError::Unreadable(redactor.clean(&other.to_string())),
    }
}

/// Why a request has no answer. `limits` are its time limits: of silence, and in total.
pub(crate) fn of_request(
    error: &ServiceError,
    limits: (Option<Duration>, Option<Duration>),
    redactor: &Redactor,
) -> McpError {
    match error {
        ServiceError::McpError(error) => of_error(error, redactor),
        ServiceError::TransportSend(error) => of_transport(error, redactor),
        ServiceError::TransportClosed => McpError::Broken("it was closed".to_owned()),
        ServiceError::Cancelled { .. } => McpError::Broken("the server cancelled the request".to_owned()),
        ServiceError::Timeout { timeout } if limits.1 == Some(*timeout) => McpError::TimedOut(*timeout),
        ServiceError::Timeout { timeout } => McpError::Silent(*timeout),
        other => McpError::Unreadable(redactor.clean(&other.to_string())),
    }
}

/// Whether the status says that no messages are taken at the address.
fn takes_no_post(answer: &str) -> bool {
    ["HTTP 404", "HTTP 405"].iter().any(|status| answer.starts_with(status))
}

fn of_error(error: &ErrorData, redactor: &Redactor) -> McpError {
    let (code, message) = (error.code.0, redactor.clean(&error.message));
    if SESSION_CODES.contains(&code) && is_about_session(&message) {
        return McpError::Stale(message);
    }
    McpError::Refused { code, message }
}

/// Servers say that they do not know a session in many ways, and not always with the 404 of the specification.
fn is_about_session(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    let is_lost = |word: &str| message.contains(word);
    message.contains("session")
        && ["not found", "expired", "invalid", "unknown", "no valid", "missing"].into_iter().any(is_lost)
}

fn of_transport(error: &DynamicTransportError, redactor: &Redactor) -> McpError {
    let mut chain =
        std::iter::successors(Some(error.error.as_ref() as &(dyn Error + 'static)), |error| (*error).source());
    match chain.find_map(|error| error.downcast_ref::<StreamableHttpError<HttpError>>()) {
        Some(error) => of_http(error, redactor),
        None => McpError::Broken(redactor.clean(&error.error.to_string())),
    }
}

fn of_http(error: &StreamableHttpError<HttpError>, redactor: &Redactor) -> McpError {
    use bosun_adapters::outbound::OutboundError;
    match error {
        StreamableHttpError::Client(error) => match error {
            HttpError::Outbound(OutboundError::Broken(_)) | HttpError::Body => McpError::Broken(error.to_string()),
            HttpError::TooLarge => McpError::Unreadable(error.to_string()),
            other => McpError::Unavailable(other.to_string()),
        },
        StreamableHttpError::SessionExpired | StreamableHttpError::ReinitializationFailed(_) => {
            McpError::Stale("it answered with HTTP 404".to_owned())
        }
        StreamableHttpError::AuthRequired(_) | StreamableHttpError::InsufficientScope(_) => {
            McpError::Unsupported(NEEDS_OAUTH.to_owned())
        }
        StreamableHttpError::HttpStatus(status) => McpError::Refused {
            code: i32::from(status.status),
            message: "the server is overloaded or failing".to_owned(),
        },
        StreamableHttpError::UnexpectedServerResponse(message) => {
            let message = redactor.clean(message);
            let is_refused = message.starts_with("HTTP 400") || message.starts_with("HTTP 401");
            if is_refused && is_about_session(&message) {
                McpError::Stale(message)
            } else {
                McpError::Unreadable(message)
            }
        }
        StreamableHttpError::UnexpectedContentType(kind) => {
            let kind = kind.as_deref().map_or_else(|| "no type".to_owned(), |kind| redactor.clean_to(kind, 100));
            McpError::Unreadable(format!(
                "it answers with `{kind}` instead of JSON or an event stream; is the address right?"
            ))
        }
        StreamableHttpError::SessionRecoveryTimeout
        | StreamableHttpError::UnexpectedEndOfStream
        | StreamableHttpError::TransportChannelClosed
        | StreamableHttpError::Io(_)
        | StreamableHttpError::Sse(_) => McpError::Broken(redactor.clean(&error.to_string())),
        other => McpError::Unreadable(redactor.clean(&other.to_string())),
    }
}
