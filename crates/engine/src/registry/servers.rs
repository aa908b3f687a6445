//! The servers that announce tools and agents: MCP servers and A2A servers.

use std::sync::Arc;

use bosun_core::Namespace;

use super::{Agent, AgentTool, Registry};
use crate::{
    agent_server::{AgentServerStatus, AgentServers},
    resource::{ResourceKey, ResourceKind},
    tool_server::{ServerStatus, ToolServers, is_tool_of},
};

impl Registry {
    /// Sets what connects to the servers that announce tools.
    pub fn set_tool_servers(&mut self, servers: Arc<dyn ToolServers>) {
        self.tool_servers = Some(servers);
    }

    /// What connects to the servers that announce tools; `None` in a build without it.
    #[must_use]
    pub fn tool_servers(&self) -> Option<&Arc<dyn ToolServers>> {
        self.tool_servers.as_ref()
    }

    /// The state of a server that announces tools.
    #[must_use]
    pub fn tool_server(&self, namespace: &Namespace, name: &str) -> Option<ServerStatus> {
        self.tool_servers.as_ref()?.status(namespace, name)
    }

    /// Sets what connects to A2A servers.
    pub fn set_agent_servers(&mut self, servers: Arc<dyn AgentServers>) {
        self.agent_servers = Some(servers);
    }

    /// What connects to A2A servers; `None` in a program that does not.
    #[must_use]
    pub fn agent_servers(&self) -> Option<&Arc<dyn AgentServers>> {
        self.agent_servers.as_ref()
    }

    /// The state of an A2A server.
    #[must_use]
    pub fn agent_server(&self, namespace: &Namespace, name: &str) -> Option<AgentServerStatus> {
        self.agent_servers.as_ref()?.status(namespace, name)
    }

    /// The server that may announce a tool of this name later.
    pub(super) fn server_of(&self, namespace: &Namespace, tool: &str) -> Option<ResourceKey> {
        let kinds = [ResourceKind::McpServer, ResourceKind::A2aServer].into_iter();
        let servers = kinds.flat_map(|kind| self.resources(kind, namespace));
        let keys = servers.map(|server| server.manifest.key.clone());
        keys.filter(|key| is_tool_of(&key.name, tool)).max_by_key(|key| key.name.len())
    }

    /// Warnings about the tools of an agent that their servers have not announced.
    pub(crate) fn warn_of_absent(&self, namespace: &Namespace, agent: &Agent) -> Vec<String> {
        let absent = agent.tools.iter().filter(|entry| self.tool_of(namespace, entry).is_none());
        let warning = |entry: &AgentTool| {
            let reason = self.why_absent(namespace, entry.tool())?;
            Some(format!("the query has no tool `{}`: {reason}", entry.name))
        };
        absent.filter_map(warning).collect()
    }

    /// The name of a tool that does not exist, and why, if it is one of a server.
    pub(crate) fn absent(&self, namespace: &Namespace, tool: &str) -> String {
        self.why_absent(namespace, tool).map_or_else(|| tool.to_owned(), |reason| format!("{tool} ({reason})"))
    }

    fn why_absent(&self, namespace: &Namespace, tool: &str) -> Option<String> {
        let ResourceKey { kind, name, .. } = self.server_of(namespace, tool)?;
        let state = match kind {
            ResourceKind::A2aServer => self.agent_server(namespace, &name).map(|one| (one.phase, one.message)),
            _ => self.tool_server(namespace, &name).map(|one| (one.phase, one.message)),
        };
        let kind = if kind == ResourceKind::A2aServer { "A2A server" } else { "MCP server" };
        Some(match state {
            Some((phase, message)) => format!("{kind} `{name}` is {}: {message}", phase.as_str()),
            None => format!("{kind} `{name}` is not connected"),
        })
    }
}
