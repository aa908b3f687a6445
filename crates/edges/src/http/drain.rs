//! Graceful shutdown: how requests are answered once the server has begun to stop.
//!
//! Requests that arrived before are answered as usual. Later ones, on connections that were kept alive, get a 503 with
//! `Retry-After`, since no new work may begin; only the health and readiness probes are still answered. Every response
//! from then on closes its connection.

use axum::{
    extract::Request,
    http::{HeaderValue, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use bosun_engine::EngineError;
use tokio_util::sync::CancellationToken;

use super::error::ApiError;

/// The probes, which are answered to the end.
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
