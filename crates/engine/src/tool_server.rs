//! Servers that announce tools: the trait of what connects to them, and their state as it is shown.
//!
//! The registry holds the tools that were announced and accepted. Everything else about a server changes without a new
//! registry, so it is asked for here.

use std::fmt;

use async_trait::async_trait;
use bosun_core::{ContentHash, Namespace, Timestamp};

use crate::resource::Availability;

/// The phase of the connection to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerPhase {
    /// It has not answered yet.
    Discovering,
    /// Its tools are known.
    Ready,
    /// The last attempt failed. Tools that were known stay.
    Failed,
    /// Tools of it are withheld until their changed definitions are approved.
    Quarantined,
}

impl ServerPhase {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Discovering => "discovering",
            Self::Ready => "ready",
            Self::Failed => "failed",
            Self::Quarantined => "quarantined",
        }
    }
}

/// The state of one server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerStatus {
    pub phase: ServerPhase,
    /// When the phase began.
    pub since: Timestamp,
    /// Why it failed, or what was found.
    pub message: String,
    /// Accepted and withheld ones, by name.
    pub tools: Vec<ServerTool>,
    /// The name and version that the server gives itself, and its revision of the protocol.
    pub peer: Option<String>,
}

impl ServerStatus {
    /// How many of its tools can be used.
    #[must_use]
    pub fn tool_count(&self) -> usize {
        self.tools.iter().filter(|tool| tool.changes.is_empty()).count()
    }

    /// The state as ARK's condition `Available`.
    #[must_use]
    pub fn availability(&self) -> Availability {
        let (is_available, reason) = match self.phase {
            ServerPhase::Discovering => (false, "Discovering"),
            ServerPhase::Ready => (true, "ToolsDiscovered"),
            ServerPhase::Failed => (false, "ConnectionFailed"),
            ServerPhase::Quarantined => (true, "ToolsWithheld"),
        };
        Availability { is_available, reason, message: self.message.clone() }
    }
}

/// One tool of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerTool {
    /// The name in the catalogue: `<server>-<tool>`.
    pub name: String,
    /// The server's own name of it.
    pub original: String,
    pub description: String,
    /// The hash of its definition, in canonical JSON.
    pub hash: ContentHash,
    /// Why it is withheld; empty if it is not.
    pub changes: Vec<DefinitionChange>,
}

/// One field of a definition that differs from the approved one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionChange {
    /// `name` for a tool that is new.
    pub field: String,
    /// Canonical JSON; absent if the field is new.
    pub approved: Option<String>,
    /// Canonical JSON; absent if the field is gone.
    pub announced: Option<String>,
}

/// Why the changed definitions of a server were not approved.
#[derive(Debug, thiserror::Error)]
pub enum ApproveError {
    #[error("MCP server `{0}` does not exist, or this server does not connect to it")]
    NotFound(String),
    #[error("MCP server `{server}` withholds no tool `{tool}`")]
    NotWithheld { server: String, tool: String },
    #[error("the approved definitions cannot be saved")]
    NotSaved(#[source] std::io::Error),
}

/// The servers that this one connects to.
#[async_trait]
pub trait ToolServers: fmt::Debug + Send + Sync + 'static {
    /// The state of one server; `None` if there is none of this name.
    fn status(&self, namespace: &Namespace, name: &str) -> Option<ServerStatus>;

    /// Approves the withheld definitions of a server, or only these, by their names in the catalogue. Returns the
    /// names; they are durable, and in effect with the next registry.
    async fn approve(&self, namespace: &Namespace, name: &str, tools: &[String]) -> Result<Vec<String>, ApproveError>;
}

/// Whether a tool of this name may be one of the server: they are called `<server>-<tool>`.
#[must_use]
pub fn is_tool_of(server: &str, tool: &str) -> bool {
    tool.strip_prefix(server).is_some_and(|rest| rest.len() > 1 && rest.starts_with('-'))
}
