//! The HTTP edges: servers of protocols in front of the engine.
//!
//! An edge parses a request, converts it to the engine's types, and serializes the engine's answer for its
//! protocol. It decides nothing about a query and holds no state of it: a connection may break at any moment
//! without effect. Here are ARK's REST API, with the tool calls that the n8n RFC adds to it, and A2A. What every edge
//! does with queries is in [`asking`](self), what HTTP needs in [`http`](self), and what belongs to no protocol in
//! [`server`](self).

mod a2a;
mod ark;
mod asking;
pub mod auth;
mod http;
mod server;
#[cfg(test)]
mod tests;

use std::{
    ops::Deref,
    sync::{Arc, OnceLock},
};

use bosun_engine::{Engine, reload::Reload, webhook::PostWebhooks};

use bosun_core::Timestamp;

use auth::refusals::Refusals;
use http::metrics::Requests;

pub use a2a::{error::ErrorMapping, push::deliver::deliver_notifications};
#[cfg(feature = "grpc")]
pub use http::serve::serve_grpc;
pub use http::serve::{ConnectionLimits, serve};

/// The protocols that are served, each with its own paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Edge {
    Ark,
    A2a,
}

impl Edge {
    /// The edge that a path belongs to; paths of no other edge belong to ARK's.
    pub(crate) fn of(path: &str) -> Self {
        if a2a::owns(path) { Self::A2a } else { Self::Ark }
    }
}

/// The state that every handler shares. Cheap to clone: each request does, several times.
#[derive(Clone, Debug)]
pub struct AppState(Arc<Served>);

/// The parts of an [`AppState`].
#[derive(Debug)]
pub struct Served {
    pub engine: Engine,
    /// Authentication and rights.
    pub access: auth::Access,
    /// Names by which the server may be addressed, in addition to those of its machine.
    hosts: Vec<String>,
    requests: Requests,
    refusals: Refusals,
    /// Reads the sources of the configuration again.
    reload: Arc<dyn Reload>,
    started_at: Timestamp,
    error_mapping: ErrorMapping,
    /// Posts push notifications; without it there are none.
    webhooks: Option<Arc<dyn PostWebhooks>>,
    /// The port where A2A is served over gRPC, if it is.
    grpc_port: OnceLock<u16>,
}

impl AppState {
    /// A server of `engine` for callers that `access` authenticates, under the names of its machine and these `hosts`.
    /// Its configuration has no sources that could be reloaded.
    #[must_use]
    pub fn new(engine: Engine, access: auth::Access, hosts: Vec<String>) -> Self {
        let reload = Arc::new(engine.clone());
        Self::with_reload(engine, access, hosts, reload, ErrorMapping::default(), None)
    }

    /// The same, with sources that `reload` reads again, errors of A2A as one edition of it maps them, and push
    /// notifications that `webhooks` posts.
    #[must_use]
    pub fn with_reload(
        engine: Engine,
        access: auth::Access,
        hosts: Vec<String>,
        reload: Arc<dyn Reload>,
        error_mapping: ErrorMapping,
        webhooks: Option<Arc<dyn PostWebhooks>>,
    ) -> Self {
        let (requests, refusals, started_at) = (Requests::default(), Refusals::default(), engine.now());
        let served = Served {
            engine,
            access,
            hosts,
            requests,
            refusals,
            reload,
            started_at,
            error_mapping,
            webhooks,
            grpc_port: OnceLock::new(),
        };
        Self(Arc::new(served))
    }

    /// Says in the cards of agents that they are served over gRPC at this port.
    pub fn announce_grpc(&self, port: u16) {
        // The port of a server does not change.
        let _ = self.0.grpc_port.set(port);
    }

    /// When this server began to serve.
    pub(crate) fn started_at(&self) -> Timestamp {
        self.0.started_at
    }

    /// Which edition of A2A 1.0 decides the HTTP status of its errors.
    pub(crate) fn error_mapping(&self) -> ErrorMapping {
        self.0.error_mapping
    }
}

impl Deref for AppState {
    type Target = Served;
    fn deref(&self) -> &Served {
        &self.0
    }
}

/// The service of A2A over gRPC, with everything that guards it.
#[cfg(feature = "grpc")]
pub fn grpc_router(app: AppState) -> axum::Router {
    http::middleware::wrap(a2a::grpc::router(&app).with_state(app.clone()), app)
}

/// All routes of the server, with everything that guards them.
pub fn router(app: AppState) -> axum::Router {
    let router = server::routes::add(axum::Router::new(), &app);
    let router = a2a::routes::add(router, &app);
    let router = ark::routes::add(router, &app).with_state(app.clone());
    http::middleware::wrap(http::extra_slashes::merge(router), app)
}
