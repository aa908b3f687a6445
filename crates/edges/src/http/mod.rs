//! What every HTTP edge needs: errors, bodies, guards, streams, and the server itself.

pub(crate) mod answer;
pub(crate) mod error;
pub(crate) mod extract;
mod guard;
pub(crate) mod json;
mod observe;
pub(crate) mod serve;
pub(crate) mod sse;
pub(crate) mod warning;

use axum::{Router, middleware};
use tower_http::catch_panic::CatchPanicLayer;

use error::{ApiError, Code};

/// Puts `router` behind the guards. What comes first here sees a request last.
pub(crate) fn guarded(router: Router) -> Router {
    router
        .fallback(async || ApiError::new(Code::RouteNotFound, "there is no such route; docs/api.md lists them"))
        .method_not_allowed_fallback(async || {
            ApiError::new(Code::MethodNotAllowed, "this route does not take this method")
        })
        .layer(middleware::from_fn(guard::same_machine))
        .layer(CatchPanicLayer::custom(observe::panicked))
        .layer(middleware::from_fn(observe::observe))
}
