//! One span for each request, and one place that logs what went wrong in it.

use std::any::Any;

use axum::{
    extract::{MatchedPath, Request},
    http::StatusCode,
    middleware::Next,
    response::{IntoResponse, Response},
};
use tracing::Instrument;

use super::error::{Cause, internal};

/// Wraps a request in its span. Paths are logged as their route: names may be private, routes are not.
pub(super) async fn observe(request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str);
    // The status is a field of what is logged, not of the span: a span that learns it later has its fields
    // written anew for every request, and nearly all requests log nothing.
    let span = tracing::info_span!("http.request", method = %request.method(), route);
    async {
        let response = next.run(request).await;
        if let Some(Cause(cause)) = response.extensions().get::<Cause>() {
            log(response.status(), &**cause);
        }
        response
    }
    .instrument(span)
    .await
}

fn log(status: StatusCode, cause: &(dyn std::error::Error + 'static)) {
    let code = status.as_u16();
    if status == StatusCode::SERVICE_UNAVAILABLE {
        tracing::warn!(cause, status = code, "request was not done");
    } else if status.is_server_error() {
        tracing::error!(cause, status = code, "request failed");
    } else {
        tracing::debug!(cause, status = code, "request was refused");
    }
}

/// A handler panicked: the client learns nothing of why, the log does.
#[expect(clippy::needless_pass_by_value, reason = "the signature is tower-http's")]
pub(super) fn panicked(panic: Box<dyn Any + Send + 'static>) -> Response {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    tracing::error!(panic = text.unwrap_or("of unknown kind"), "request handler panicked");
    internal().into_response()
}
