//! Who calls the engine: HTTP in front, translation behind it.
//!
//! An edge reads a request, turns it into the engine's words, and writes the engine's answer in the
//! words of its protocol. It decides nothing about a query and keeps nothing of it: a connection may
//! break at any moment without a trace. What is here speaks ARK's REST API and the tool calls that
//! the n8n RFC adds to it; other protocols become modules beside [`ark`](self).

mod ark;
pub mod auth;
mod http;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bosun_engine::Engine;

use http::metrics::Requests;

pub use http::serve::{Terms, serve};

/// What every handler works on.
#[derive(Clone, Debug)]
pub struct App {
    pub engine: Engine,
    /// Who may do what.
    pub access: auth::Access,
    /// Names under which the server may be asked for, beside those of its machine.
    pub hosts: Vec<String>,
}

/// All routes of the server, with everything that guards them.
pub fn router(app: App) -> axum::Router {
    let draining = app.engine.draining().clone();
    let hosts = http::guard::Hosts::new(&app.hosts, !app.access.is_open());
    let requests = Arc::new(Requests::default());
    http::guarded(ark::routes::router(app, Arc::clone(&requests)), draining, hosts, requests)
}
