//! The trait of what connects to MCP servers: an MCP *host*, in the words of the protocol.
//!
//! The client of the protocol is a crate of its own, which a build may lack. Here is what the manifests hand over to
//! it, and what they get back for the registry.

use std::{fmt, sync::Arc};

use bosun_core::{Namespace, Tool};
use bosun_engine::{Runner, tool_server::ToolServers};

use crate::manifests::McpServerManifest;

/// A tool that a server has announced, under its name in the catalogue.
#[derive(Clone, Debug, PartialEq)]
pub struct AnnouncedTool {
    pub namespace: Namespace,
    pub server: String,
    pub tool: Tool,
}

/// Connects to MCP servers.
pub trait McpHost: fmt::Debug + Send + Sync + 'static {
    /// Makes these the servers of a namespace, or of all. Servers that are new or changed are connected to in the
    /// background, and those that are gone are disconnected; the others are left alone.
    fn configure(&self, namespace: Option<&Namespace>, servers: Vec<McpServerManifest>);

    /// The accepted tools of the servers of a namespace, or of all, as far as they are known.
    fn announced(&self, namespace: Option<&Namespace>) -> Vec<AnnouncedTool>;

    /// The runner of tools with an MCP binding.
    fn runner(&self) -> Arc<dyn Runner>;

    /// The state of the servers.
    fn tool_servers(&self) -> Arc<dyn ToolServers>;
}
