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

use std::{ops::Deref, sync::Arc};

use bosun_engine::Engine;

use auth::refusals::Refusals;
use http::metrics::Requests;

pub use http::serve::{Terms, serve};

/// What every handler works on. Cheap to clone: each request does, several times.
#[derive(Clone, Debug)]
pub struct App(Arc<Served>);

/// The parts of an [`App`].
#[derive(Debug)]
pub struct Served {
    pub engine: Engine,
    /// Who may do what.
    pub access: auth::Access,
    /// Names under which the server may be asked for, beside those of its machine.
    hosts: Vec<String>,
    requests: Requests,
    refusals: Refusals,
}

impl App {
    /// A server of `engine` for those whom `access` lets in, under the names of its machine and these `hosts`.
    #[must_use]
    pub fn new(engine: Engine, access: auth::Access, hosts: Vec<String>) -> Self {
        Self(Arc::new(Served { engine, access, hosts, requests: Requests::default(), refusals: Refusals::default() }))
    }
}

impl Deref for App {
    type Target = Served;
    fn deref(&self) -> &Served {
        &self.0
    }
}

/// All routes of the server, with everything that guards them.
pub fn router(app: App) -> axum::Router {
    http::door::behind(ark::routes::router(app.clone()), app)
}
