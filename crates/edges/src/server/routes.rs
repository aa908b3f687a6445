//! The routes of the server itself.

use axum::Router;

use super::{
    docs::{page, script, style},
    health::{get_metrics, health, ready},
    root::root,
};
use crate::{
    AppState,
    auth::{
        Right::Audit,
        gate::Needs::{Everywhere, Nothing},
    },
    http::routes::routes,
};

routes! {
    /// The paths that belong to no protocol.
    SERVER server {
        "/" => get root Nothing;
        "/health" => get health Nothing;
        "/ready" => get ready Nothing;
        "/metrics" => get get_metrics Everywhere(Audit);
        "/docs" => get page Nothing;
        "/docs/page.css" => get style Nothing;
        "/docs/page.js" => get script Nothing;
    }
}

pub(crate) fn add(router: Router<AppState>, app: &AppState) -> Router<AppState> {
    server(router, app, "")
}
