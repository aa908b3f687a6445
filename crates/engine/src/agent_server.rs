//! A2A servers: the trait of what connects to them, and their state as it is shown.
//!
//! The registry holds the agents that were found behind them. Everything else about a server changes without a new
//! registry, so it is asked for here.

use std::fmt;

use bosun_core::{Namespace, Timestamp};

use crate::{resource::Availability, tool_server::ServerPhase};

/// The state of one server.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentServerStatus {
    pub phase: ServerPhase,
    /// When the phase began.
    pub since: Timestamp,
    /// Why it failed, or what was found.
    pub message: String,
    /// The address that its card was last fetched from; absent if that is a secret.
    pub address: Option<String>,
    /// The agent behind it, once its card was read. It stays while the server is down.
    pub agent: Option<ServedAgent>,
}

/// An agent as its card describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct ServedAgent {
    /// The name of the agent and of the tool that asks it: `<server>-<agent>`.
    pub name: String,
    /// The name in the card.
    pub original: String,
    pub description: String,
    /// The version that the agent gives itself.
    pub version: Option<String>,
    /// The version of A2A in which it is asked, as `1.0`.
    pub protocol: &'static str,
    /// How it is asked: `JSONRPC` or `HTTP+JSON`.
    pub binding: &'static str,
    pub skills: Vec<AgentSkill>,
}

/// Something that an agent can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentSkill {
    pub id: String,
    pub name: String,
    pub description: String,
    pub tags: Vec<String>,
}

impl AgentServerStatus {
    /// The state as ARK's condition `Ready`.
    #[must_use]
    pub fn availability(&self) -> Availability {
        let (is_available, reason) = match self.phase {
            ServerPhase::Discovering => (false, "Discovering"),
            ServerPhase::Ready | ServerPhase::Quarantined => (true, "AgentDiscovered"),
            ServerPhase::Failed => (false, "ConnectionFailed"),
        };
        Availability { is_available, reason, message: self.message.clone() }
    }
}

/// The A2A servers that this server connects to.
pub trait AgentServers: fmt::Debug + Send + Sync + 'static {
    /// The state of one server; `None` if there is none of this name.
    fn status(&self, namespace: &Namespace, name: &str) -> Option<AgentServerStatus>;
}
