//! The last moments of a server.
//!
//! What came in before the server began to stop is answered as ever. What comes in later, on connections
//! that were kept alive, is told to go elsewhere and to come back, since nothing new may be begun; only
//! the questions of whether the server lives and takes work are still answered. Every answer from then
//! on is the last on its connection.

use axum::{
    extract::Request,
    http::{HeaderValue, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use bosun_engine::EngineError;
use tokio_util::sync::CancellationToken;

use super::error::ApiError;

/// What an operator's machinery asks to the end.
const PROBES: &[&str] = &["/health", "/ready"];

/// Answers a request, unless the server has begun to stop.
pub(super) async fn answer(draining: &CancellationToken, request: Request, next: Next) -> Response {
    let mut response = if draining.is_cancelled() && !PROBES.contains(&request.uri().path()) {
        ApiError::from(EngineError::ShuttingDown).into_response()
    } else {
        next.run(request).await
    };
    if draining.is_cancelled() {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}
