//! What every HTTP edge needs: errors, bodies, guards, streams, and the server itself.

pub(crate) mod answer;
mod drain;
pub(crate) mod error;
pub(crate) mod extract;
pub(crate) mod guard;
pub(crate) mod json;
pub(crate) mod metrics;
mod observe;
pub(crate) mod serve;
pub(crate) mod sse;
pub(crate) mod trace;
pub(crate) mod warning;

use std::sync::Arc;

use axum::{Router, middleware};
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;

use error::{ApiError, Code};
use metrics::Requests;
use observe::Observer;

/// Puts `router` behind the guards; it takes nothing new when `draining` has fired. What comes first
/// here sees a request last.
pub(crate) fn guarded(
    router: Router,
    draining: CancellationToken,
    hosts: guard::Hosts,
    requests: Arc<Requests>,
    exports_spans: bool,
) -> Router {
    router
        .fallback(crate::ark::refused::no_route)
        .method_not_allowed_fallback(async || {
            ApiError::new(Code::MethodNotAllowed, "this route does not take this method")
        })
        .layer(middleware::from_fn_with_state(draining, drain::refuse_what_is_new))
        .layer(middleware::from_fn_with_state(hosts, guard::known_host))
        .layer(CatchPanicLayer::custom(observe::panicked))
        .layer(middleware::from_fn_with_state(Arc::new(Observer::new(requests, exports_spans)), observe::observe))
}
