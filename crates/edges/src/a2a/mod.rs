//! A2A: agents on the wire, for clients of 1.0 and 0.3.
//!
//! - [`routes`]: the table of routes; [`rpc`] and [`rest`]: the two bindings;
//! - [`negotiate`]: the version and the extensions of a request;
//! - [`reading`]: parameters of both generations in one form; [`input`]: what the model reads of a message; [`operations`]: what is done with them;
//! - [`task`] and [`stream`]: queries as tasks and as events; [`artifact`]: their files and their answers; [`waiting`]:
//!   what a task waits for; [`task_page`]: pages of them; [`wire`](bosun_wire::a2a): the objects of 1.0, [`v03`]: those
//!   of 0.3;
//! - [`tools`]: the client-tools extension, and the forms of the client tool provider; [`decisions`]: about calls that wait for approval;
//! - [`card`]: agent cards; [`error`]: errors as the protocol writes them;
//! - [`push`]: webhooks of a task, and what is posted to them.
//!
//! - `grpc`: the binding to gRPC, in builds with the feature of that name.
//!
//! A task is a query and a context is a conversation; a task is stored in its journal and nowhere else.

mod artifact;
mod card;
mod decisions;
pub(crate) mod error;
#[cfg(feature = "grpc")]
pub(crate) mod grpc;
mod input;
mod negotiate;
mod operations;
pub(crate) mod push;
mod reading;
mod rest;
pub(crate) mod routes;
pub(crate) mod rpc;
mod stream;
mod task;
mod task_page;
mod tools;
mod v03;
mod waiting;

use std::sync::Arc;

use axum::{
    extract::{FromRequestParts, RawPathParams},
    http::request::Parts,
};
use bosun_core::Namespace;
use bosun_engine::Agent;
use bosun_wire::a2a as wire;

use crate::{
    AppState,
    http::error::{ApiError, Code, clip},
};

use error::A2aError;

const DEFAULT_BASE: &str = "/a2a";
const AGENT_BASE: &str = "/a2a/agents/{namespace}/{name}";

/// Whether a path belongs to this edge.
pub(crate) fn owns(path: &str) -> bool {
    path == DEFAULT_BASE
        || path.starts_with("/a2a/")
        || path.starts_with("/.well-known/agent")
        || path.starts_with("/lf.a2a.v1.A2AService/")
}

/// Whether a path of this edge is an endpoint of JSON-RPC.
fn is_rpc(path: &str) -> bool {
    let Some(below) = path.strip_prefix(DEFAULT_BASE) else { return false };
    let parts: Vec<&str> = below.split('/').filter(|part| !part.is_empty()).collect();
    let of_agent = match &parts[..] {
        ["agents", _, _, rest @ ..] => rest,
        other => other,
    };
    matches!(of_agent, [] | ["message", _] | ["tasks", "resume"])
}

/// The agent that a path names; without a name it is the default agent of the namespace.
#[derive(Debug)]
struct AgentPath(Option<String>);

impl AgentPath {
    fn find(&self, app: &AppState, namespace: &Namespace) -> Result<Arc<Agent>, A2aError> {
        let registry = app.engine.registry();
        let found = match &self.0 {
            Some(name) => registry.agent(namespace, name),
            None => card::default_agent(&registry, namespace),
        };
        found.cloned().ok_or_else(|| {
            let message = match &self.0 {
                Some(name) => format!("Agent '{}' not found in namespace {namespace}", clip(name)),
                None => format!("namespace {namespace} has no agent"),
            };
            ApiError::new(Code::ResourceNotFound, message).into()
        })
    }

    /// The path of the agent's endpoint.
    fn base(&self, namespace: &Namespace) -> String {
        match &self.0 {
            Some(name) => format!("/a2a/agents/{namespace}/{name}"),
            None => DEFAULT_BASE.to_owned(),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for AgentPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let params = RawPathParams::from_request_parts(parts, state)
            .await
            .map_err(|_| ApiError::new(Code::InvalidParameter, "the path is not UTF-8"))?;
        Ok(Self(card::named(&params)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_of_json_rpc_are_distinguished_from_routes() {
        for path in
            ["/a2a", "/a2a/", "/a2a/agents/ns/a", "/a2a/agents/ns/a/", "/a2a/message/stream", "/a2a/tasks/resume/"]
        {
            assert!(owns(path) && is_rpc(path), "{path}");
        }
        for path in [
            "/a2a/agents",
            "/a2a/tasks",
            "/a2a/tasks/t",
            "/a2a/message:send",
            "/a2a/agents/ns/a/tasks/t:cancel",
            "/.well-known/agent-card.json",
        ] {
            assert!(owns(path) && !is_rpc(path), "{path}");
        }
        for path in ["/", "/v1/queries", "/a2ab", "/v1/a2a-tasks"] {
            assert!(!owns(path), "{path}");
        }
    }
}
