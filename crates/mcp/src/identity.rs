//! Which callers may share a session with a server.
//!
//! A server may keep state for a session: a login, a working directory, an open document. Callers nevertheless share
//! one session, since most servers keep none and a session for each caller costs a connection or a program. They do not
//! share it where the manifest says so (`sessions: per-actor`), or where a header depends on the query, since such a
//! header tells the server on whose behalf it is called.

use bosun_adapters::manifests::{EndpointHeader, McpServerManifest, McpTransport, SessionSharing};
use bosun_core::Actor;
use bosun_engine::runner::RunContext;

/// The identity of a caller towards a server that does not share its sessions among all callers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SessionIdentity {
    actor: Actor,
    /// The headers that depend on the query, by name.
    pub(crate) headers: Vec<(String, String)>,
}

/// A header refers to a parameter that the query does not have.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("header `{header}` needs the parameter `{parameter}`, which the query does not have")]
pub(crate) struct MissingParameter {
    header: String,
    parameter: String,
}

impl SessionIdentity {
    /// The identity of a caller whose headers do not depend on its query.
    #[cfg(test)]
    pub(crate) fn of_actor(context: &RunContext) -> Self {
        Self { actor: context.actor.clone(), headers: Vec::new() }
    }

    /// The identity of a call; `None` if it may use the session that all callers share.
    pub(crate) fn of(server: &McpServerManifest, context: &RunContext) -> Result<Option<Self>, MissingParameter> {
        let mut headers = Vec::new();
        if let McpTransport::Http(endpoint) = &server.transport {
            for (name, value) in &endpoint.headers {
                let EndpointHeader::QueryParameter(parameter) = value else { continue };
                let missing = || MissingParameter { header: name.clone(), parameter: parameter.clone() };
                let value = context.parameters().get(parameter).ok_or_else(missing)?;
                headers.push((name.clone(), value.clone()));
            }
        }
        let is_shared = server.sharing == SessionSharing::Shared && headers.is_empty();
        Ok((!is_shared).then(|| Self { actor: context.actor.clone(), headers }))
    }
}
