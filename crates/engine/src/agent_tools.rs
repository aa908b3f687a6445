//! The tools of an agent, as they are shown to clients.

use bosun_core::{Namespace, Tool};

use crate::Registry;

impl Registry {
    /// The tools of an agent as its model sees them: with its own descriptions, and without the parameters that it
    /// sets. Those that do not exist, or that an MCP server has not announced yet, are left out.
    #[must_use]
    pub fn agent_tools(&self, namespace: &Namespace, agent: &str) -> Vec<Tool> {
        let Some(agent) = self.agent(namespace, agent) else { return Vec::new() };
        let existing = || {
            let exists = agent.tools.iter().filter(|entry| self.tool(namespace, entry.tool()).is_some());
            exists.map(|entry| entry.name.clone()).collect::<Vec<_>>()
        };
        let all = self.tools_of(namespace, agent, None);
        all.or_else(|_| self.tools_of(namespace, agent, Some(&existing()))).unwrap_or_default()
    }
}
