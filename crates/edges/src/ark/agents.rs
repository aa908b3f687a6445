//! Agents as ARK's API shows them.

use bosun_core::{Binding, Namespace};
use bosun_engine::{Agent, Registry};

use super::wire;

pub(super) fn list(registry: &Registry, namespace: &Namespace) -> wire::List<wire::ListedAgent> {
    let items: Vec<_> = registry.agents(namespace).map(|agent| listed(registry, agent)).collect();
    wire::List { count: items.len(), total: items.len() as u64, items, continue_token: None }
}

fn listed(registry: &Registry, agent: &Agent) -> wire::ListedAgent {
    wire::ListedAgent {
        name: agent.name.clone(),
        namespace: agent.namespace.to_string(),
        description: agent.description.clone(),
        model_ref: agent.model.clone(),
        prompt: agent.prompt.clone(),
        available: available(&missing(registry, agent)),
        annotations: agent.annotations.clone(),
    }
}

pub(super) fn detail(registry: &Registry, agent: &Agent) -> wire::Agent {
    let spec = wire::AgentSpec {
        description: agent.description.clone(),
        model_ref: wire::ModelRef { name: agent.model.clone() },
        prompt: agent.prompt.clone(),
        tools: agent.tools.iter().map(|tool| agent_tool(registry, agent, tool)).collect(),
    };
    let missing = missing(registry, agent);
    wire::Agent {
        name: agent.name.clone(),
        namespace: agent.namespace.to_string(),
        flat: spec.clone(),
        is_a2a: false,
        skills: Vec::new(),
        available: available(&missing),
        labels: agent.labels.clone(),
        annotations: agent.annotations.clone(),
        spec,
        status: wire::AgentStatus { conditions: vec![condition(&missing)] },
    }
}

fn agent_tool(registry: &Registry, agent: &Agent, entry: &bosun_engine::registry::AgentTool) -> wire::AgentTool {
    let tool = registry.tool(&agent.namespace, &entry.name);
    wire::AgentTool {
        kind: tool.map_or("custom", |tool| kind(&tool.binding)),
        name: entry.name.clone(),
        description: entry.description.clone().or_else(|| tool.map(|tool| tool.description.clone())),
    }
}

/// ARK's word for how a tool is run. It has none for what it cannot run itself: those are `custom`.
fn kind(binding: &Binding) -> &'static str {
    match binding {
        Binding::Builtin { .. } => "builtin",
        Binding::Http(_) => "http",
        Binding::Mcp { .. } => "mcp",
        Binding::Agent { .. } | Binding::A2a { .. } => "agent",
        Binding::Team { .. } => "team",
        Binding::Nango(_) | Binding::External => "custom",
    }
}

/// What the agent refers to and cannot reach.
fn missing(registry: &Registry, agent: &Agent) -> Vec<String> {
    let model = registry.model(&agent.namespace, &agent.model).is_none().then(|| format!("model `{}`", agent.model));
    let tools = agent.tools.iter().filter(|tool| registry.tool(&agent.namespace, &tool.name).is_none());
    model.into_iter().chain(tools.map(|tool| format!("tool `{}`", tool.name))).collect()
}

fn available(missing: &[String]) -> &'static str {
    if missing.is_empty() { "True" } else { "False" }
}

fn condition(missing: &[String]) -> wire::Condition {
    let (reason, message) = if missing.is_empty() {
        ("AllDependenciesReady", "the model and all tools exist".to_owned())
    } else {
        ("DependencyMissing", format!("missing: {}", missing.join(", ")))
    };
    wire::Condition { kind: "Available", status: available(missing), reason, message }
}
