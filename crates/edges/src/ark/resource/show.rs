//! Resources in the formats of their readers.
//!
//! Nothing is decided here: what a manifest says and whether its resource is available come from the
//! registry. Secrets in a manifest are hidden.

use bosun_engine::{
    Registry,
    agent_server::{AgentSkill, ServedAgent},
    registry::MemoryWindow,
    resource::{Availability, Manifest, Resource, ResourceKind, ResourceOrigin},
    tool_server::{DefinitionChange, ServerPhase, ServerStatus, ServerTool},
};
use serde_json::{Map, Value, json};

use super::{secrets, wire};
use crate::ark::wire::Condition;

/// What a manifest says, without keys.
pub(super) fn spec(resource: &Resource) -> Map<String, Value> {
    let mut spec = Value::Object(resource.manifest.description.spec.clone());
    secrets::hide(&mut spec);
    match spec {
        Value::Object(spec) => spec,
        _ => Map::new(),
    }
}

fn text(spec: &Map<String, Value>, name: &str) -> Option<String> {
    spec.get(name).and_then(Value::as_str).map(str::to_owned)
}

fn list(spec: &Map<String, Value>, name: &str) -> Vec<Value> {
    spec.get(name).and_then(Value::as_array).cloned().unwrap_or_default()
}

fn word(availability: &Availability) -> &'static str {
    if availability.is_available { "True" } else { "False" }
}

fn phase(availability: &Availability) -> &'static str {
    if availability.is_available { "ready" } else { "error" }
}

/// A tool may be described by an annotation, as ARK has it.
fn description(resource: &Resource) -> Option<String> {
    let Manifest { key, description } = &resource.manifest;
    let annotated = || description.annotations.get("description").cloned();
    text(&description.spec, "description").or_else(|| if key.kind == ResourceKind::Tool { annotated() } else { None })
}

fn listed(resource: &Resource, availability: &Availability) -> wire::Listed {
    let key = &resource.manifest.key;
    wire::Listed {
        name: key.name.clone(),
        namespace: key.namespace.to_string(),
        description: description(resource),
        available: word(availability),
        annotations: resource.manifest.description.annotations.clone(),
    }
}

fn detail(registry: &Registry, resource: &Resource, warnings: Vec<String>) -> wire::Detail {
    wire::Detail {
        identity: identity(resource, warnings),
        description: description(resource),
        available: word(&resource.availability(registry)),
        status: status(registry, resource),
    }
}

fn identity(resource: &Resource, mut warnings: Vec<String>) -> wire::Identity {
    let Manifest { key, description } = &resource.manifest;
    let (name, kind) = (key.name.clone(), key.kind.as_str());
    if resource.hides_stored {
        warnings.push(format!("a stored {kind} '{name}' has no effect, since a file describes one of that name"));
    }
    let (managed_by, generation, created_at) = match &resource.origin {
        ResourceOrigin::File(_) => ("file", None, None),
        ResourceOrigin::Url(_) => ("url", None, None),
        ResourceOrigin::Builtin => ("server", None, None),
        ResourceOrigin::Announced { by: ResourceKind::A2aServer, .. } => ("a2a-server", None, None),
        ResourceOrigin::Announced { .. } => ("mcp-server", None, None),
        ResourceOrigin::Stored { generation, created_at, .. } => {
            ("api", Some(*generation), Some(created_at.to_rfc3339()))
        }
    };
    wire::Identity {
        name,
        namespace: key.namespace.to_string(),
        labels: description.labels.clone(),
        annotations: description.annotations.clone(),
        managed_by,
        generation,
        creation_timestamp: created_at,
        warnings,
    }
}

pub(super) fn status(registry: &Registry, resource: &Resource) -> wire::Status {
    let (availability, key) = (resource.availability(registry), &resource.manifest.key);
    let (tool_count, resolved_address) = match key.kind {
        ResourceKind::McpServer => (
            registry.tool_server(&key.namespace, &key.name).map(|status| status.tool_count()),
            value_of(&spec(resource), "address"),
        ),
        _ => (None, None),
    };
    wire::Status {
        phase: phase(&availability),
        state: if availability.is_available { "Ready" } else { "Error" },
        message: availability.message.clone(),
        conditions: conditions(key.kind, availability),
        tool_count,
        resolved_address,
    }
}

fn conditions(kind: ResourceKind, availability: Availability) -> Vec<Condition> {
    let (status, Availability { reason, message, .. }) = (word(&availability), availability);
    let available = match kind {
        ResourceKind::Model => "ModelAvailable",
        ResourceKind::A2aServer => "Ready",
        _ => "Available",
    };
    let mut conditions = Vec::new();
    // ARK has both for servers.
    if matches!(kind, ResourceKind::McpServer | ResourceKind::A2aServer) {
        let status = if reason == "Discovering" { "True" } else { "False" };
        conditions.push(Condition { kind: "Discovering", status, reason, message: message.clone() });
    }
    conditions.insert(0, Condition { kind: available, status, reason, message });
    conditions
}

pub(crate) fn listed_agent(registry: &Registry, resource: &Resource) -> wire::ListedAgent {
    let spec = spec(resource);
    wire::ListedAgent {
        listed: listed(resource, &resource.availability(registry)),
        model_ref: if is_a2a(&spec) { String::new() } else { model_of(&spec) },
        prompt: text(&spec, "prompt"),
    }
}

fn model_of(spec: &Map<String, Value>) -> String {
    let named = spec.get("modelRef").and_then(|reference| reference["name"].as_str());
    named.unwrap_or("default").to_owned()
}

pub(crate) fn agent(registry: &Registry, resource: &Resource, warnings: Vec<String>) -> wire::Agent {
    let mut spec = spec(resource);
    let engine = spec.get("executionEngine").cloned();
    let is_a2a = is_a2a(&spec);
    let model_ref = if is_a2a { Value::Null } else { json!({"name": model_of(&spec)}) };
    // What ARK would have filled in.
    if !is_a2a {
        spec.entry("modelRef").or_insert_with(|| model_ref.clone());
    }
    wire::Agent {
        detail: detail(registry, resource, warnings),
        model_ref,
        prompt: text(&spec, "prompt"),
        parameters: list(&spec, "parameters"),
        tools: list(&spec, "tools"),
        tool_details: tool_details(registry, resource),
        execution_engine: engine,
        overrides: Vec::new(),
        is_a2a,
        skills: skills(registry, resource).into_iter().map(|skill| json!(skill)).collect(),
        spec,
    }
}

/// Whether an agent is behind an A2A server.
fn is_a2a(spec: &Map<String, Value>) -> bool {
    spec.get("executionEngine").is_some_and(|engine| engine["name"] == "a2a")
}

/// The skills of an agent behind an A2A server, as far as its card was read.
fn skills(registry: &Registry, resource: &Resource) -> Vec<wire::Skill> {
    let key = &resource.manifest.key;
    let remote = registry.agent(&key.namespace, &key.name).and_then(|agent| agent.remote.as_ref());
    let status = remote.and_then(|remote| registry.agent_server(&key.namespace, &remote.server));
    status
        .and_then(|status| status.agent)
        .map(|agent| agent.skills.into_iter().map(skill).collect())
        .unwrap_or_default()
}

fn skill(AgentSkill { id, name, description, tags }: AgentSkill) -> wire::Skill {
    wire::Skill { id, name, description, tags }
}

fn tool_details(registry: &Registry, resource: &Resource) -> Vec<wire::ToolDetail> {
    let key = &resource.manifest.key;
    let tools = registry.agent_tools(&key.namespace, &key.name).into_iter();
    tools
        .map(|tool| wire::ToolDetail {
            kind: tool.binding.kind().as_str(),
            execution_mode: if tool.is_external() { "external" } else { "internal" },
            input_schema: (*tool.parameters).clone(),
            name: tool.name,
            description: tool.description,
        })
        .collect()
}

/// The provider, in either of ARK's spellings.
fn provider(spec: &Map<String, Value>) -> Option<String> {
    text(spec, "provider").or_else(|| text(spec, "type").filter(|kind| kind != "completions"))
}

/// The text of a `{value: …}`; a reference is not resolved.
fn value_of(spec: &Map<String, Value>, name: &str) -> Option<String> {
    spec.get(name).and_then(|value| value["value"].as_str()).map(str::to_owned)
}

pub(crate) fn listed_model(registry: &Registry, resource: &Resource) -> wire::ListedModel {
    let (spec, availability) = (spec(resource), resource.availability(registry));
    wire::ListedModel {
        listed: listed(resource, &availability),
        kind: provider(&spec),
        provider: provider(&spec),
        model: value_of(&spec, "model"),
        phase: phase(&availability),
        status: phase(&availability),
    }
}

pub(crate) fn model(registry: &Registry, resource: &Resource, warnings: Vec<String>) -> wire::Model {
    let spec = spec(resource);
    let provider = provider(&spec);
    let config = spec.get("config").cloned().unwrap_or_else(|| json!({}));
    let address = provider.as_ref().and_then(|provider| config[provider]["baseUrl"]["value"].as_str());
    wire::Model {
        detail: detail(registry, resource, warnings),
        kind: provider.clone(),
        resolved_address: address.map(str::to_owned),
        provider,
        model: value_of(&spec, "model"),
        config,
        fallback: list(&spec, "fallback").iter().filter_map(Value::as_str).map(str::to_owned).collect(),
    }
}

pub(crate) fn listed_tool(registry: &Registry, resource: &Resource) -> wire::ListedTool {
    let key = &resource.manifest.key;
    let availability = resource.availability(registry);
    let kind = text(&resource.manifest.description.spec, "type");
    let tool = registry.tool(&key.namespace, &key.name).filter(|tool| tool.name == key.name);
    let (source, location) = match &resource.origin {
        // The path of the file is not for clients.
        ResourceOrigin::File(file) => {
            (wire::ToolSource::File, file.file_name().map(|name| name.to_string_lossy().into_owned()))
        }
        ResourceOrigin::Url(url) => (wire::ToolSource::Url, Some(url.clone())),
        ResourceOrigin::Stored { .. } => (wire::ToolSource::Stored, None),
        ResourceOrigin::Builtin => (wire::ToolSource::Builtin, None),
        ResourceOrigin::Announced { server, .. } => (wire::ToolSource::Server, Some(server.clone())),
    };
    let (state, reason) = tool_state(registry, tool, &availability);
    wire::ListedTool {
        listed: listed(resource, &availability),
        binding: tool.map(|tool| tool.binding.kind().to_string()).or_else(|| kind.clone()),
        kind,
        labels: resource.manifest.description.labels.clone(),
        lc_name: tool.and_then(|tool| tool.lc_name.clone()),
        category: tool.and_then(|tool| tool.category.clone()),
        provider: tool.and_then(|tool| tool.binding.provider()).map(str::to_owned),
        source,
        location,
        state,
        reason,
        registry_generation: registry.generation(),
    }
}

fn tool_state(
    registry: &Registry,
    tool: Option<&bosun_core::Tool>,
    availability: &Availability,
) -> (wire::ToolState, Option<String>) {
    if let Some(tool) = tool.filter(|tool| !tool.is_external() && !registry.runs(tool.binding.kind())) {
        let reason = format!("this server does not run tools of type `{}`", tool.binding.kind());
        return (wire::ToolState::NoRunner, Some(reason));
    }
    match availability {
        Availability { is_available: true, .. } => (wire::ToolState::Ready, None),
        Availability { reason: "Quarantined", message, .. } => (wire::ToolState::Quarantined, Some(message.clone())),
        Availability { message, .. } => (wire::ToolState::Unavailable, Some(message.clone())),
    }
}

pub(crate) fn tool(registry: &Registry, resource: &Resource, warnings: Vec<String>) -> wire::Tool {
    let spec = spec(resource);
    wire::Tool { detail: detail(registry, resource, warnings), kind: text(&spec, "type"), spec }
}

pub(crate) fn listed_memory(registry: &Registry, resource: &Resource) -> wire::ListedMemory {
    let availability = resource.availability(registry);
    wire::ListedMemory {
        listed: listed(resource, &availability),
        spec: memory_spec(registry, resource),
        status: phase(&availability),
    }
}

pub(crate) fn memory(registry: &Registry, resource: &Resource, warnings: Vec<String>) -> wire::Memory {
    let spec = memory_spec(registry, resource);
    wire::Memory { detail: detail(registry, resource, warnings), config: spec.clone(), spec }
}

fn memory_spec(registry: &Registry, resource: &Resource) -> wire::MemorySpec {
    let key = &resource.manifest.key;
    let window = registry.window(&key.namespace, &key.name).unwrap_or_default();
    let (max_messages, max_tokens) = match window {
        MemoryWindow::Messages(messages) => (Some(messages), None),
        MemoryWindow::Tokens(tokens) => (None, Some(tokens)),
    };
    wire::MemorySpec { kind: "buffer", max_messages, max_tokens, description: description(resource) }
}

pub(crate) fn listed_evaluator(registry: &Registry, resource: &Resource) -> wire::ListedEvaluator {
    let availability = resource.availability(registry);
    wire::ListedEvaluator { listed: listed(resource, &availability), status: phase(&availability) }
}

pub(crate) fn evaluator(registry: &Registry, resource: &Resource, warnings: Vec<String>) -> wire::Evaluator {
    let spec = spec(resource);
    wire::Evaluator {
        detail: detail(registry, resource, warnings),
        address: spec.get("address").cloned(),
        parameters: list(&spec, "parameters"),
        spec,
    }
}

pub(crate) fn listed_team(registry: &Registry, resource: &Resource) -> wire::ListedTeam {
    let (spec, availability) = (spec(resource), resource.availability(registry));
    wire::ListedTeam {
        listed: listed(resource, &availability),
        strategy: text(&spec, "strategy"),
        members_count: list(&spec, "members").len(),
        status: phase(&availability),
    }
}

/// The members of a team, each with its type: without one, it is an agent.
fn members(spec: &Map<String, Value>) -> Vec<Value> {
    let mut members = list(spec, "members");
    for member in members.iter_mut().filter_map(Value::as_object_mut) {
        member.entry("type").or_insert_with(|| "agent".into());
    }
    members
}

pub(crate) fn team(registry: &Registry, resource: &Resource, warnings: Vec<String>) -> wire::Team {
    let spec = spec(resource);
    wire::Team {
        detail: detail(registry, resource, warnings),
        strategy: text(&spec, "strategy"),
        members: members(&spec),
        graph: spec.get("graph").cloned(),
        max_turns: spec.get("maxTurns").cloned(),
        selector: spec.get("selector").cloned(),
        spec,
    }
}

/// An MCP server, and the state of the connection to it.
fn endpoint(registry: &Registry, resource: &Resource, availability: Availability) -> wire::Endpoint {
    let (spec, key) = (spec(resource), &resource.manifest.key);
    let status = registry.tool_server(&key.namespace, &key.name);
    wire::Endpoint {
        address: value_of(&spec, "address"),
        transport: text(&spec, "transport"),
        ready: availability.is_available,
        discovering: status.as_ref().is_some_and(|status| status.phase == ServerPhase::Discovering),
        status_message: availability.message,
        tool_count: status.as_ref().map_or(0, ServerStatus::tool_count),
        discovery: status.map(discovery),
    }
}

fn discovery(status: ServerStatus) -> wire::Discovery {
    let change = |change: DefinitionChange| wire::DefinitionChange {
        field: change.field,
        approved: change.approved,
        announced: change.announced,
    };
    let tool = |tool: ServerTool| wire::AnnouncedTool {
        name: tool.name,
        original: tool.original,
        description: tool.description,
        hash: tool.hash.to_string(),
        changes: tool.changes.into_iter().map(change).collect(),
    };
    wire::Discovery {
        phase: status.phase.as_str(),
        since: status.since.to_rfc3339(),
        peer: status.peer,
        tools: status.tools.into_iter().map(tool).collect(),
    }
}

pub(crate) fn server(registry: &Registry, resource: &Resource) -> wire::McpServer {
    let availability = resource.availability(registry);
    wire::McpServer {
        listed: listed(resource, &availability),
        endpoint: endpoint(registry, resource, availability),
        labels: resource.manifest.description.labels.clone(),
        authorization: None,
    }
}

pub(crate) fn server_detail(registry: &Registry, resource: &Resource, warnings: Vec<String>) -> wire::McpServerDetail {
    wire::McpServerDetail {
        detail: detail(registry, resource, warnings),
        endpoint: endpoint(registry, resource, resource.availability(registry)),
        spec: spec(resource),
    }
}

/// An A2A server, and the agent behind it.
fn connection(registry: &Registry, resource: &Resource, availability: Availability) -> wire::A2aConnection {
    let (spec, key) = (spec(resource), &resource.manifest.key);
    let status = registry.agent_server(&key.namespace, &key.name);
    let discovering = availability.reason == "Discovering";
    let (resolved, agent) = status.map_or((None, None), |status| (status.address, status.agent));
    wire::A2aConnection {
        address: value_of(&spec, "address"),
        last_resolved_address: resolved,
        ready: availability.is_available,
        discovering,
        status_message: availability.message,
        agent: agent.map(served_agent),
    }
}

fn served_agent(agent: ServedAgent) -> wire::ServedAgent {
    let ServedAgent { name, original, description, version, protocol, binding, skills } = agent;
    let skills = skills.into_iter().map(skill).collect();
    wire::ServedAgent { name, original, description, version, protocol, binding, skills }
}

pub(crate) fn agent_server(registry: &Registry, resource: &Resource) -> wire::A2aServer {
    let availability = resource.availability(registry);
    wire::A2aServer {
        listed: listed(resource, &availability),
        connection: connection(registry, resource, availability),
        labels: resource.manifest.description.labels.clone(),
    }
}

pub(crate) fn agent_server_detail(
    registry: &Registry,
    resource: &Resource,
    warnings: Vec<String>,
) -> wire::A2aServerDetail {
    wire::A2aServerDetail {
        detail: detail(registry, resource, warnings),
        connection: connection(registry, resource, resource.availability(registry)),
        spec: spec(resource),
    }
}
