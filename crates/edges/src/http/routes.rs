//! Tables of routes: every route of every edge is an entry, and its gate is built from what the entry needs.

use crate::auth::gate::Needs;

/// One method of one path, and what it requires of its caller.
#[derive(Debug)]
pub(crate) struct RouteEntry {
    pub(crate) path: &'static str,
    pub(crate) method: &'static str,
    pub(crate) needs: Needs,
}

/// A table of routes, and the router that is built of it, each behind its gate.
macro_rules! routes {
    ($(#[$doc:meta])* $table:ident $build:ident { $($path:literal => $($method:ident $handler:ident $needs:expr),+;)* }) => {
        $(#[$doc])*
        pub(crate) const $table: &[$crate::http::routes::RouteEntry] =
            &[$($($crate::http::routes::RouteEntry { path: $path, method: stringify!($method), needs: $needs },)+)*];

        /// Adds these routes, below `prefix`. They are not nested: stripping a prefix would cost every request.
        fn $build(router: axum::Router<AppState>, app: &AppState, prefix: &str) -> axum::Router<AppState> {
            use axum::handler::Handler as _;
            let gate = |needs: $crate::auth::gate::Needs| {
                axum::middleware::from_fn_with_state((app.clone(), needs), $crate::auth::gate::check)
            };
            router$(.route(
                &format!("{prefix}{}", $path),
                axum::routing::MethodRouter::new()$(.$method($handler.layer(gate($needs))))+,
            ))*
        }
    };
}

pub(crate) use routes;
