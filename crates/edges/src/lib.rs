//! The HTTP edges: servers of protocols in front of the engine.
//!
//! An edge parses a request, converts it to the engine's types, and serializes the engine's answer for its
//! protocol. It decides nothing about a query and holds no state of it: a connection may break at any moment
//! without effect. Here is ARK's REST API, with the tool calls that the n8n RFC adds to it; other protocols become
//! modules beside [`ark`](self).

mod ark;
pub mod auth;
mod http;
#[cfg(test)]
mod tests;

use std::{ops::Deref, sync::Arc};

use bosun_engine::{Engine, reload::Reload};

use auth::refusals::Refusals;
use http::metrics::Requests;

pub use http::serve::{ConnectionLimits, serve};

/// The state that every handler shares. Cheap to clone: each request does, several times.
#[derive(Clone, Debug)]
pub struct AppState(Arc<Served>);

/// The parts of an [`AppState`].
#[derive(Debug)]
pub struct Served {
    pub engine: Engine,
    /// Authentication and rights.
    pub access: auth::Access,
    /// Names by which the server may be addressed, beside those of its machine.
    hosts: Vec<String>,
    requests: Requests,
    refusals: Refusals,
    /// Reads the sources of the configuration again.
    reload: Arc<dyn Reload>,
}

impl AppState {
    /// A server of `engine` for callers that `access` authenticates, under the names of its machine and these `hosts`.
    /// Its configuration has no sources that could be reloaded.
    #[must_use]
    pub fn new(engine: Engine, access: auth::Access, hosts: Vec<String>) -> Self {
        let reload = Arc::new(engine.clone());
        Self::with_reload(engine, access, hosts, reload)
    }

    /// The same, with sources that `reload` reads again.
    #[must_use]
    pub fn with_reload(engine: Engine, access: auth::Access, hosts: Vec<String>, reload: Arc<dyn Reload>) -> Self {
        let (requests, refusals) = (Requests::default(), Refusals::default());
        Self(Arc::new(Served { engine, access, hosts, requests, refusals, reload }))
    }
}

impl Deref for AppState {
    type Target = Served;
    fn deref(&self) -> &Served {
        &self.0
    }
}

/// All routes of the server, with everything that guards them.
pub fn router(app: AppState) -> axum::Router {
    http::middleware::wrap(ark::routes::router(app.clone()), app)
}
