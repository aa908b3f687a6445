//! The registry: agents, tools, models and the runners of inside calls.
//!
//! A registry is immutable; a new one shares all unchanged namespaces with the old one, and is swapped in as a whole. A
//! query reads it at submission (definitions are frozen there) and for the model and the runner at each step
//! (credentials are live).

mod catalogs;
mod servers;
mod team;

pub use team::{Team, TeamMember};

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    sync::Arc,
};

use bosun_core::{
    Namespace, Tool,
    query::{AskedLimits, TargetKind},
    template::{BadTemplate, MissingValues, RenderError, Template},
    tool::{BindingKind, Confirm, ToolApproval, label_selector::LabelSelector, preset::Preset},
};

use serde_json::Value;

use crate::{
    EngineError, Model, Runner,
    agent_server::AgentServers,
    engine::conversations::DEFAULT_MEMORY,
    reload::ResourceDiff,
    resource::{Manifest, ManifestBody, Resource, ResourceKey, ResourceKind, ResourceOrigin},
    runner::ResultFilter,
    tool_server::ToolServers,
    user_connections::UserConnections,
};

/// An agent as its manifest describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Agent {
    pub namespace: Namespace,
    pub name: String,
    pub description: Option<String>,
    pub prompt: Option<String>,
    /// The parameters of the prompt; without any, it is not a template.
    pub parameters: Vec<PromptParameter>,
    /// The JSON Schema that its answers must match.
    pub output_schema: Option<Arc<Value>>,
    /// The model's name in the agent's namespace. An agent behind an A2A server has none.
    pub model: String,
    /// The agent behind an A2A server that answers in its place: ARK's `executionEngine: {name: a2a}`.
    pub remote: Option<RemoteAgent>,
    pub tools: Vec<AgentTool>,
    /// Further tools of the namespace, by their labels.
    pub selected_tools: Vec<SelectedTools>,
    /// Whether calls wait for approval, where a tool does not say so; the server's policy where `None`.
    pub confirm: Option<Confirm>,
    /// Limits of the agent; those of the server where `None`.
    pub limits: AskedLimits,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
}

/// An agent behind an A2A server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteAgent {
    /// The server's name in the agent's namespace.
    pub server: String,
    /// The tool of the namespace that asks it; absent until the server has answered.
    pub tool: Option<String>,
}

/// A parameter of an agent's prompt, and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptParameter {
    pub name: String,
    pub value: PromptValue,
}

/// The value of a parameter of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromptValue {
    Literal(String),
    /// The query's parameter of this name.
    OfQuery(String),
}

/// Why an agent's prompt cannot be rendered for a query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PromptError {
    #[error("the prompt of agent `{agent}` is not a valid template: {source}")]
    NotATemplate {
        agent: String,
        #[source]
        source: BadTemplate,
    },
    #[error("the prompt of agent `{agent}` needs parameters that the query does not have: {}", names.join(", "))]
    MissingParameters { agent: String, names: Vec<String> },
    #[error("the prompt of agent `{agent}`, with its parameters substituted, is too large: {bytes} bytes")]
    TooLarge { agent: String, bytes: usize },
}

impl Agent {
    /// The prompt with its parameters substituted; `parameters` are those of the query.
    ///
    /// # Errors
    /// If the query lacks a parameter that the prompt needs, or the prompt would be too large.
    pub fn prompt_for(&self, parameters: &BTreeMap<String, String>) -> Result<Option<String>, PromptError> {
        let Some(prompt) = self.prompt.as_deref().filter(|_| !self.parameters.is_empty()) else {
            return Ok(self.prompt.clone());
        };
        let template =
            Template::parse(prompt).map_err(|source| PromptError::NotATemplate { agent: self.name.clone(), source })?;
        // A prompt may use as many names as there are parameters; the first parameter of a name counts.
        let own: HashMap<&str, &PromptValue> =
            self.parameters.iter().rev().map(|parameter| (parameter.name.as_str(), &parameter.value)).collect();
        let value = |name: &str| match own.get(name)? {
            PromptValue::Literal(text) => Some(text.as_str()),
            PromptValue::OfQuery(name) => parameters.get(name).map(String::as_str),
        };
        let agent = || self.name.clone();
        match template.render(value) {
            Ok(filled) => Ok(Some(filled)),
            Err(RenderError::TooLarge(bytes)) => Err(PromptError::TooLarge { agent: agent(), bytes }),
            Err(RenderError::Missing(MissingValues { names })) => {
                let in_query = |name: String| match own.get(name.as_str()) {
                    Some(PromptValue::OfQuery(name)) => name.clone(),
                    _ => name,
                };
                let names = names.into_iter().map(in_query).collect();
                Err(PromptError::MissingParameters { agent: agent(), names })
            }
        }
    }
}

/// One tool of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentTool {
    /// The name that the agent's model sees. Without `partial`, it is also that of the tool.
    pub name: String,
    /// Shown to this agent's model instead of the tool's own description.
    pub description: Option<String>,
    /// Set if the agent sets parameters of the tool itself.
    pub partial: Option<PartialTool>,
    /// Whether its calls wait for approval, if this agent says so.
    pub approval: Option<ToolApproval>,
    /// jq filters that are applied to the results.
    pub functions: Vec<String>,
    /// Set if the entry may name an agent or a team itself, and not a tool that stands for it.
    pub asks: Option<TargetKind>,
    /// The tools of the client that are passed on to that agent or team.
    pub passes: Vec<String>,
}

/// The tools of an agent with certain labels, whichever these are when a query is submitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectedTools {
    pub selector: LabelSelector,
    /// jq filters that are applied to the results.
    pub functions: Vec<String>,
    /// Whether their calls wait for approval, if this agent says so.
    pub approval: Option<ToolApproval>,
}

/// A tool, and the parameters of it that an agent sets: ARK's `partial`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialTool {
    /// The tool's name in the catalogue of the namespace.
    pub tool: String,
    pub parameters: Vec<Preset>,
}

impl AgentTool {
    /// The tool's name in the catalogue of the namespace.
    #[must_use]
    pub fn tool(&self) -> &str {
        self.partial.as_ref().map_or(&self.name, |partial| &partial.tool)
    }
}

/// A store of conversations, as its manifest describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedMemory {
    pub namespace: Namespace,
    pub name: String,
    pub description: Option<String>,
    pub window: MemoryWindow,
}

/// How much of a conversation is included in a new query of it. It is always cut between two queries, and the latest
/// query is always included whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryWindow {
    /// At most this many messages.
    Messages(u32),
    /// At most this many tokens, as [`bosun_core::conversation::estimate_tokens`] counts them.
    Tokens(u32),
}

impl Default for MemoryWindow {
    fn default() -> Self {
        Self::Messages(50)
    }
}

/// Everything that is configured, by namespace and name.
#[derive(Clone, Default)]
pub struct Registry {
    /// How many registries this server had before it.
    generation: u64,
    namespaces: BTreeMap<Namespace, Arc<Configured>>,
    runners: HashMap<BindingKind, Arc<dyn Runner>>,
    result_filter: Option<Arc<dyn ResultFilter>>,
    tool_servers: Option<Arc<dyn ToolServers>>,
    agent_servers: Option<Arc<dyn AgentServers>>,
    pub(crate) user_connections: Option<Arc<dyn UserConnections>>,
    /// The resources of the tools that ship with the server: each namespace has them.
    builtin_tools: Vec<Resource>,
    catalogs: catalogs::AgentCatalogs,
}

/// Everything that is configured in one namespace, by name.
#[derive(Clone, Default)]
struct Configured {
    resources: BTreeMap<(ResourceKind, String), Arc<Resource>>,
    agents: BTreeMap<String, Arc<Agent>>,
    tools: HashMap<String, Tool>,
    models: HashMap<String, Arc<dyn Model>>,
    memories: BTreeMap<String, DescribedMemory>,
    teams: BTreeMap<String, Arc<Team>>,
}

impl Registry {
    /// The number of this registry among those of this server.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    pub(crate) fn set_generation(&mut self, generation: u64) {
        self.generation = generation;
    }

    /// Replaces everything that is configured in `namespace` with that of another registry.
    pub(crate) fn replace_namespace(&mut self, namespace: &Namespace, other: &Self) {
        match other.namespaces.get(namespace) {
            Some(configured) => self.namespaces.insert(namespace.clone(), Arc::clone(configured)),
            None => self.namespaces.remove(namespace),
        };
    }

    fn configured(&self, namespace: &Namespace) -> Option<&Configured> {
        self.namespaces.get(namespace).map(|configured| &**configured)
    }

    fn configured_mut(&mut self, namespace: Namespace) -> &mut Configured {
        Arc::make_mut(self.namespaces.entry(namespace).or_default())
    }

    /// What differs from the registry `before`. What only clients have stored is left out: it may change at any time, and
    /// its changes are answered one by one.
    #[must_use]
    pub fn diff(&self, before: &Self) -> ResourceDiff {
        let (mut diff, nothing) = (ResourceDiff::default(), Configured::default());
        for namespace in before.namespaces.keys().chain(self.namespaces.keys()).collect::<BTreeSet<_>>() {
            let old = before.configured(namespace).unwrap_or(&nothing);
            let new = self.configured(namespace).unwrap_or(&nothing);
            for key in old.resources.keys().chain(new.resources.keys()).collect::<BTreeSet<_>>() {
                let (was, is) = (old.resources.get(key), new.resources.get(key));
                if was.into_iter().chain(is).all(|one| matches!(one.origin, ResourceOrigin::Stored { .. })) {
                    continue;
                }
                let (kind, name) = key;
                let is_same = |was: &Resource, is: &Resource| {
                    let is_same_tool = *kind != ResourceKind::Tool || old.tools.get(name) == new.tools.get(name);
                    was.manifest == is.manifest && is_same_tool
                };
                let differing = match (was, is) {
                    (Some(was), Some(is)) if is_same(was, is) => continue,
                    (Some(_), Some(_)) => &mut diff.changed,
                    (Some(_), None) => &mut diff.removed,
                    (None, _) => &mut diff.added,
                };
                differing.push(ResourceKey::new(*kind, namespace.clone(), name.as_str()));
            }
        }
        diff
    }

    /// Adds a resource; an earlier one of the same key is replaced.
    pub fn add_resource(&mut self, resource: Resource) {
        let ResourceKey { kind, namespace, name } = resource.manifest.key.clone();
        self.configured_mut(namespace).resources.insert((kind, name), Arc::new(resource));
    }

    /// Adds a tool that every namespace has, unless it has another one of that name.
    pub fn add_builtin_tool(&mut self, resource: Resource) {
        self.builtin_tools.push(resource);
    }

    /// The description of one resource.
    #[must_use]
    pub fn resource(&self, kind: ResourceKind, namespace: &Namespace, name: &str) -> Option<Arc<Resource>> {
        let found =
            self.configured(namespace).and_then(|configured| configured.resources.get(&(kind, name.to_owned())));
        if let Some(resource) = found {
            return Some(Arc::clone(resource));
        }
        if kind == ResourceKind::Memory && name == DEFAULT_MEMORY {
            return Some(Arc::new(default_memory(namespace)));
        }
        let is_meant = |tool: &&Resource| kind == ResourceKind::Tool && tool.manifest.key.name == name;
        self.builtin_tools.iter().find(is_meant).map(|tool| Arc::new(in_namespace(tool, namespace)))
    }

    /// All resources of a kind in a namespace, by name.
    #[must_use]
    pub fn resources(&self, kind: ResourceKind, namespace: &Namespace) -> Vec<Arc<Resource>> {
        let described =
            self.configured(namespace).into_iter().flat_map(|one| one.resources.range((kind, String::new())..));
        let mut found: Vec<_> =
            described.take_while(|(key, _)| key.0 == kind).map(|(_, resource)| Arc::clone(resource)).collect();
        if kind == ResourceKind::Tool {
            let is_hidden =
                |tool: &Resource| found.iter().any(|found| found.manifest.key.name == tool.manifest.key.name);
            let shown: Vec<_> = self.builtin_tools.iter().filter(|tool| !is_hidden(tool)).collect();
            found.extend(shown.into_iter().map(|tool| Arc::new(in_namespace(tool, namespace))));
            found.sort_by(|left, right| left.manifest.key.name.cmp(&right.manifest.key.name));
        }
        if kind == ResourceKind::Memory {
            let place = found.partition_point(|memory| memory.manifest.key.name.as_str() < DEFAULT_MEMORY);
            if found.get(place).is_none_or(|memory| memory.manifest.key.name != DEFAULT_MEMORY) {
                found.insert(place, Arc::new(default_memory(namespace)));
            }
        }
        found
    }

    /// Whether this namespace was created, contains a resource, or is the default one.
    #[must_use]
    pub fn has_namespace(&self, namespace: &Namespace) -> bool {
        let is_described = self.configured(namespace).is_some_and(|configured| !configured.resources.is_empty());
        *namespace == Namespace::default() || is_described
    }

    /// All namespaces that were created or contain a resource, and the default one.
    #[must_use]
    pub fn namespaces(&self) -> BTreeSet<Namespace> {
        let described = self.namespaces.iter().filter(|(_, configured)| !configured.resources.is_empty());
        described.map(|(namespace, _)| namespace.clone()).chain([Namespace::default()]).collect()
    }

    /// Adds an agent; an earlier one of the same name is replaced.
    pub fn add_agent(&mut self, agent: Agent) {
        self.configured_mut(agent.namespace.clone()).agents.insert(agent.name.clone(), Arc::new(agent));
    }

    pub fn add_tool(&mut self, namespace: Namespace, tool: Tool) {
        self.configured_mut(namespace).tools.insert(tool.name.clone(), tool);
    }

    pub fn add_model(&mut self, namespace: Namespace, name: impl Into<String>, model: Arc<dyn Model>) {
        self.configured_mut(namespace).models.insert(name.into(), model);
    }

    /// Adds a memory; an earlier one of the same name is replaced.
    pub fn add_memory(&mut self, memory: DescribedMemory) {
        self.configured_mut(memory.namespace.clone()).memories.insert(memory.name.clone(), memory);
    }

    /// Sets the runner of tools of this kind.
    pub fn set_runner(&mut self, kind: BindingKind, runner: Arc<dyn Runner>) {
        self.runners.insert(kind, runner);
    }

    /// Sets what applies filters to the results of outside calls.
    pub fn set_result_filter(&mut self, filter: Arc<dyn ResultFilter>) {
        self.result_filter = Some(filter);
    }

    /// What applies filters to the results of outside calls.
    pub(crate) fn result_filter(&self) -> Option<&Arc<dyn ResultFilter>> {
        self.result_filter.as_ref()
    }

    #[must_use]
    pub fn agent(&self, namespace: &Namespace, name: &str) -> Option<&Arc<Agent>> {
        self.configured(namespace)?.agents.get(name)
    }

    /// The agents of a namespace, by name.
    pub fn agents<'a>(&'a self, namespace: &'a Namespace) -> impl Iterator<Item = &'a Arc<Agent>> {
        self.configured(namespace).into_iter().flat_map(|configured| configured.agents.values())
    }

    /// The tool of this name, or else the one to which LangChain gave it (`lc_name`).
    #[must_use]
    pub fn tool(&self, namespace: &Namespace, name: &str) -> Option<&Tool> {
        let tools = &self.configured(namespace)?.tools;
        tools.get(name).or_else(|| {
            let is_meant = |tool: &&Tool| tool.lc_name.as_deref() == Some(name);
            // Several may have it; which one is meant must not depend on the order of a hash map.
            tools.values().filter(is_meant).min_by(|left, right| left.name.cmp(&right.name))
        })
    }

    #[must_use]
    pub fn model(&self, namespace: &Namespace, name: &str) -> Option<&Arc<dyn Model>> {
        self.configured(namespace)?.models.get(name)
    }

    #[must_use]
    pub fn memory(&self, namespace: &Namespace, name: &str) -> Option<&DescribedMemory> {
        self.configured(namespace)?.memories.get(name)
    }

    /// The window of this memory: of one that is configured, or of the built-in one; `None` if there is no such memory.
    #[must_use]
    pub fn window(&self, namespace: &Namespace, name: &str) -> Option<MemoryWindow> {
        let described = self.memory(namespace, name).map(|memory| memory.window);
        described.or_else(|| (name == DEFAULT_MEMORY).then(MemoryWindow::default))
    }

    /// The memories of a namespace, by name.
    pub fn memories<'a>(&'a self, namespace: &'a Namespace) -> impl Iterator<Item = &'a DescribedMemory> {
        self.configured(namespace).into_iter().flat_map(|configured| configured.memories.values())
    }

    /// The tools of an agent as its model sees them; with `selected`, only those. A tool of a server that has not
    /// announced it is left out, unless it is selected: one server that is down must not stop all queries of an agent.
    pub(crate) fn tools_of(
        &self,
        namespace: &Namespace,
        agent: &Agent,
        selected: Option<&[String]>,
    ) -> Result<Vec<Tool>, EngineError> {
        let by_labels = self.tools_by_labels(namespace, agent);
        let is_known = |name: &String| {
            agent.tools.iter().any(|tool| tool.name == *name) || by_labels.iter().any(|tool| tool.name == *name)
        };
        let mut missing: Vec<String> =
            selected.unwrap_or_default().iter().filter(|name| !is_known(name)).cloned().collect();
        let mut tools = Vec::with_capacity(agent.tools.len());
        for entry in &agent.tools {
            if selected.is_some_and(|names| !names.contains(&entry.name)) {
                continue;
            }
            match self.tool_of(namespace, entry) {
                Some(mut tool) => {
                    if let Some(description) = &entry.description {
                        tool.description.clone_from(description);
                    }
                    if let Some(partial) = &entry.partial {
                        tool.name.clone_from(&entry.name);
                        tool.preset(&partial.parameters);
                    }
                    if let Some(approval) = entry.approval {
                        approval.apply(&mut tool);
                    }
                    tool.functions.clone_from(&entry.functions);
                    tool.passes.clone_from(&entry.passes);
                    tools.push(tool);
                }
                None if selected.is_none() && self.server_of(namespace, entry.tool()).is_some() => {}
                None => missing.push(self.absent(namespace, entry.tool())),
            }
        }
        if !missing.is_empty() {
            return Err(EngineError::ToolsNotFound { namespace: namespace.clone(), names: missing });
        }
        tools.extend(by_labels.into_iter().filter(|tool| selected.is_none_or(|names| names.contains(&tool.name))));
        Ok(tools)
    }

    /// The tools that an agent has by their labels and not by their names. By name, so that the order is stable.
    fn tools_by_labels(&self, namespace: &Namespace, agent: &Agent) -> Vec<Tool> {
        let mut found: BTreeMap<&str, Tool> = BTreeMap::new();
        let tools = self.configured(namespace).into_iter().flat_map(|configured| configured.tools.values());
        for tool in tools.filter(|tool| !agent.tools.iter().any(|entry| entry.name == tool.name)) {
            let Some(entry) = agent.selected_tools.iter().find(|entry| entry.selector.matches(&tool.labels)) else {
                continue;
            };
            let mut selected = Tool { functions: entry.functions.clone(), ..frozen(tool) };
            if let Some(approval) = entry.approval {
                approval.apply(&mut selected);
            }
            found.insert(&tool.name, selected);
        }
        found.into_values().collect()
    }

    /// Warnings about tools that have no runner.
    pub(crate) fn warn_of_idle(&self, tools: &[Tool]) -> impl Iterator<Item = String> {
        let idle = tools.iter().filter(move |tool| !tool.is_external() && !self.runs(tool.binding.kind()));
        let warning = |tool: &Tool| {
            let (name, kind) = (&tool.name, tool.binding.kind());
            format!(
                "tool `{name}` is of type `{kind}`, which this version does not run: a call of it fails with `no_runner`"
            )
        };
        idle.map(warning)
    }

    /// Whether this server runs tools of this kind: with a runner, or as queries of their own.
    #[must_use]
    pub fn runs(&self, kind: BindingKind) -> bool {
        matches!(kind, BindingKind::Agent | BindingKind::Team) || self.runner(kind).is_some()
    }

    /// The runner of tools of this kind; `None` if there is none.
    #[must_use]
    pub fn runner(&self, kind: BindingKind) -> Option<&Arc<dyn Runner>> {
        self.runners.get(&kind)
    }
}

/// A tool of the catalogue, as a query has it.
pub(crate) fn frozen(tool: &Tool) -> Tool {
    Tool { claimable: tool.is_external(), ..tool.clone() }
}

/// The memory that every namespace has, unless a manifest of its name replaces it.
fn default_memory(namespace: &Namespace) -> Resource {
    let description = "Keeps named conversations; every namespace has it";
    let spec = serde_json::Map::from_iter([("description".to_owned(), Value::from(description))]);
    Resource {
        manifest: Manifest {
            key: ResourceKey::new(ResourceKind::Memory, namespace.clone(), DEFAULT_MEMORY),
            description: ManifestBody { spec, ..ManifestBody::default() },
        },
        origin: ResourceOrigin::Builtin,
        needs: Vec::new(),
        not_served: None,
        faults: Vec::new(),
        hides_stored: false,
    }
}

/// A tool of the server as a resource of this namespace.
fn in_namespace(tool: &Resource, namespace: &Namespace) -> Resource {
    let mut tool = tool.clone();
    namespace.clone_into(&mut tool.manifest.key.namespace);
    tool
}

impl fmt::Debug for Registry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Registry").field("namespaces", &self.namespaces).finish_non_exhaustive()
    }
}

impl fmt::Debug for Configured {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Configured")
            .field("agents", &self.agents.keys())
            .field("tools", &self.tools.keys())
            .field("models", &self.models.keys())
            .field("memories", &self.memories.keys())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preset_tool_of_a_server_that_is_not_connected_is_warned_about_under_the_name_that_the_agent_gave_it() {
        let namespace = Namespace::default();
        let mut registry = Registry::default();
        registry.add_resource(Resource {
            manifest: Manifest {
                key: ResourceKey::new(ResourceKind::McpServer, namespace.clone(), "files"),
                description: ManifestBody::default(),
            },
            origin: ResourceOrigin::Builtin,
            needs: Vec::new(),
            not_served: None,
            faults: Vec::new(),
            hides_stored: false,
        });
        let partial = PartialTool { tool: "files-read".into(), parameters: Vec::new() };
        let agent = Agent {
            namespace: namespace.clone(),
            name: "reader".into(),
            description: None,
            prompt: None,
            parameters: Vec::new(),
            output_schema: None,
            model: "default".into(),
            remote: None,
            tools: vec![AgentTool { name: "read".into(), partial: Some(partial), ..AgentTool::default() }],
            selected_tools: Vec::new(),
            confirm: None,
            limits: AskedLimits::default(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
        };
        assert_eq!(registry.tools_of(&namespace, &agent, None).unwrap(), []);
        let warning = "the query has no tool `read`: MCP server `files` is not connected";
        assert_eq!(registry.warn_of_absent(&namespace, &agent), [warning]);
    }
}
