//! What the engine can reach: agents, tools, models and the runners of inside calls.
//!
//! A registry is built whole and swapped whole. A query reads it at submit (definitions are frozen
//! there) and for the model and the runner at each step (credentials are live).

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Arc,
};

use bosun_core::{Binding, Limits, Namespace, Tool};
use serde::Serialize;
use serde_json::Value;

use crate::{Model, Runner};

/// An agent as its manifest describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Agent {
    pub namespace: Namespace,
    pub name: String,
    pub description: Option<String>,
    pub prompt: Option<String>,
    /// What its answers must be: a JSON Schema.
    pub output_schema: Option<Arc<Value>>,
    /// The model's name in the agent's namespace.
    pub model: String,
    pub tools: Vec<AgentTool>,
    /// Limits of the agent; `None` leaves the server's.
    pub limits: AgentLimits,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
}

/// One tool of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentTool {
    /// The tool's name in the catalogue of the namespace.
    pub name: String,
    /// What this agent's model reads instead of the tool's own description.
    pub description: Option<String>,
}

/// The part of the limits that an agent or a query may narrow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AgentLimits {
    pub query_timeout: Option<std::time::Duration>,
    pub tool_timeout: Option<std::time::Duration>,
    pub external_timeout: Option<std::time::Duration>,
    pub max_tool_calls: Option<u32>,
    pub max_tokens: Option<u64>,
    pub ttl: Option<std::time::Duration>,
}

impl AgentLimits {
    /// `wide` with whatever is narrower here: nobody gets more than the level above allows.
    #[must_use]
    pub fn narrow(&self, wide: Limits) -> Limits {
        Limits {
            query_timeout: self.query_timeout.unwrap_or(wide.query_timeout).min(wide.query_timeout),
            tool_timeout: self.tool_timeout.unwrap_or(wide.tool_timeout).min(wide.tool_timeout),
            external_timeout: self.external_timeout.unwrap_or(wide.external_timeout).min(wide.external_timeout),
            max_tool_calls: self.max_tool_calls.unwrap_or(wide.max_tool_calls).min(wide.max_tool_calls),
            max_tokens: [self.max_tokens, wide.max_tokens].into_iter().flatten().min(),
            ttl: self.ttl.unwrap_or(wide.ttl).min(wide.ttl),
        }
    }
}

/// A place where conversations are kept, as its manifest describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    pub namespace: Namespace,
    pub name: String,
    pub description: Option<String>,
    pub window: Window,
}

/// How much of a conversation a new query of it is shown. It is always cut between two queries, and the
/// latest query is always shown whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// At most so many messages.
    Messages(u32),
    /// At most so many tokens, as [`bosun_core::conversation::estimate_tokens`] counts them.
    Tokens(u32),
}

impl Default for Window {
    fn default() -> Self {
        Self::Messages(50)
    }
}

/// Everything that is configured, by namespace and name.
#[derive(Default)]
pub struct Registry {
    agents: BTreeMap<(Namespace, String), Arc<Agent>>,
    tools: HashMap<(Namespace, String), Tool>,
    models: HashMap<(Namespace, String), Arc<dyn Model>>,
    memories: BTreeMap<(Namespace, String), Memory>,
    builtins: Option<Arc<dyn Runner>>,
}

impl Registry {
    /// Adds an agent; an earlier one of the same name is replaced.
    pub fn add_agent(&mut self, agent: Agent) {
        self.agents.insert((agent.namespace.clone(), agent.name.clone()), Arc::new(agent));
    }

    pub fn add_tool(&mut self, namespace: Namespace, tool: Tool) {
        self.tools.insert((namespace, tool.name.clone()), tool);
    }

    pub fn add_model(&mut self, namespace: Namespace, name: impl Into<String>, model: Arc<dyn Model>) {
        self.models.insert((namespace, name.into()), model);
    }

    /// Adds a memory; an earlier one of the same name is replaced.
    pub fn add_memory(&mut self, memory: Memory) {
        self.memories.insert((memory.namespace.clone(), memory.name.clone()), memory);
    }

    /// Who runs tools with [`Binding::Builtin`].
    pub fn set_builtins(&mut self, runner: Arc<dyn Runner>) {
        self.builtins = Some(runner);
    }

    #[must_use]
    pub fn agent(&self, namespace: &Namespace, name: &str) -> Option<&Arc<Agent>> {
        self.agents.get(&(namespace.clone(), name.to_owned()))
    }

    /// The agents of a namespace, by name.
    pub fn agents<'a>(&'a self, namespace: &'a Namespace) -> impl Iterator<Item = &'a Arc<Agent>> {
        self.agents.iter().filter(move |((owner, _), _)| owner == namespace).map(|(_, agent)| agent)
    }

    #[must_use]
    pub fn tool(&self, namespace: &Namespace, name: &str) -> Option<&Tool> {
        self.tools.get(&(namespace.clone(), name.to_owned()))
    }

    #[must_use]
    pub fn model(&self, namespace: &Namespace, name: &str) -> Option<&Arc<dyn Model>> {
        self.models.get(&(namespace.clone(), name.to_owned()))
    }

    #[must_use]
    pub fn memory(&self, namespace: &Namespace, name: &str) -> Option<&Memory> {
        self.memories.get(&(namespace.clone(), name.to_owned()))
    }

    /// The memories of a namespace, by name.
    pub fn memories<'a>(&'a self, namespace: &'a Namespace) -> impl Iterator<Item = &'a Memory> {
        self.memories.iter().filter(move |((owner, _), _)| owner == namespace).map(|(_, memory)| memory)
    }

    /// Who runs tools of this binding; `None` if nobody here does.
    #[must_use]
    pub fn runner(&self, binding: &Binding) -> Option<&Arc<dyn Runner>> {
        match binding {
            Binding::Builtin { .. } => self.builtins.as_ref(),
            _ => None,
        }
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Registry")
            .field("agents", &self.agents.keys())
            .field("tools", &self.tools.keys())
            .field("models", &self.models.keys())
            .field("memories", &self.memories.keys())
            .finish_non_exhaustive()
    }
}
