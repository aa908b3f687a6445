//! What servers announce, as the manifests that would declare it: tools of MCP servers, and agents behind A2A servers.
//!
//! An agent behind an A2A server is two resources, as in ARK: an Agent that queries may target, and the tool with which
//! agents of ours ask it. Both have the same name.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::Duration,
};

use bosun_core::{
    Binding, Namespace, Tool,
    query::AskedLimits,
    tool::{BindingKind, Confirm, ToolOrigin},
};
use bosun_engine::{
    Agent,
    registry::RemoteAgent,
    resource::{Manifest, ManifestBody, Resource, ResourceKey, ResourceKind, ResourceOrigin},
};
use bosun_reading::a2a_options::SKILLS;
use serde_json::{Map, Value, json};

use super::{
    Manifests, McpServerManifest,
    agent::{A2A_ENGINE, A2A_SERVER_NAME},
};
use crate::{mcp::AnnouncedTool, runner::a2a::AnnouncedAgent};

/// ARK's label for the server of an agent.
const SERVER_LABEL: &str = "a2a/server";
const SERVER_ADDRESS: &str = "ark.mckinsey.com/a2a-server-address";

/// What the manifest of an MCP server says about the calls of its tools.
pub(super) struct ServerPolicy {
    confirm: Option<Confirm>,
    timeout: Option<Duration>,
}

/// The policies of MCP servers by namespace and name.
pub(super) type ServerPolicies = HashMap<(Namespace, String), ServerPolicy>;

pub(super) fn policies(servers: &[McpServerManifest]) -> ServerPolicies {
    let policy = |server: &McpServerManifest| {
        let policy = ServerPolicy { confirm: server.confirm, timeout: server.timeout };
        ((server.namespace.clone(), server.name.clone()), policy)
    };
    servers.iter().map(policy).collect()
}

/// Adds the tools of MCP servers that no manifest declares. The policies of the servers hold for all of their tools,
/// also for those that a manifest declares: another name for a tool waives nothing.
pub(super) fn add_tools(all: &mut Manifests, announced: Vec<AnnouncedTool>, policies: &ServerPolicies) {
    let is_destructive = |one: &&AnnouncedTool| one.tool.annotations.destructive_hint == Some(true);
    let destructive: HashSet<_> =
        announced.iter().filter(is_destructive).filter_map(|one| origin(&one.namespace, &one.tool)).collect();
    let mut declared: HashSet<_> =
        all.tools.iter().map(|(namespace, tool)| (namespace.clone(), tool.name.clone())).collect();
    for tool in announced {
        if declared.insert((tool.namespace.clone(), tool.tool.name.clone())) {
            all.resources.push(describe_tool(&tool));
            all.tools.push((tool.namespace, tool.tool));
        }
    }
    for (namespace, tool) in &mut all.tools {
        let Some((server, original)) = origin(namespace, tool) else { continue };
        if let Some(policy) = policies.get(&server) {
            // One that a client stores has none of its own, or asks for approval.
            tool.confirm = tool.confirm.or(policy.confirm);
            tool.timeout = tool.timeout.or(policy.timeout);
        }
        if tool.origin == ToolOrigin::Client && destructive.contains(&(server, original)) {
            tool.annotations.destructive_hint = Some(true);
        }
    }
}

/// The MCP server of a tool, and the server's own name of the tool.
fn origin(namespace: &Namespace, tool: &Tool) -> Option<((Namespace, String), String)> {
    let Binding::Mcp { server, tool } = &tool.binding else { return None };
    Some(((namespace.clone(), server.clone()), tool.clone()))
}

/// Adds the agents behind A2A servers, and the tools that ask them.
pub(super) fn add_agents(all: &mut Manifests, announced: Vec<AnnouncedAgent>) {
    for found in announced {
        let AnnouncedAgent { namespace, server, tool, .. } = &found;
        for agent in all.agents.iter_mut().filter(|agent| agent.namespace == *namespace) {
            if let Some(remote) = agent.remote.as_mut().filter(|remote| remote.server == *server) {
                remote.tool = Some(tool.name.clone());
            }
        }
        let is_declared = |kind| {
            let key = ResourceKey::new(kind, namespace.clone(), tool.name.as_str());
            all.resources.iter().any(|resource| resource.manifest.key == key)
        };
        let (agent_is_declared, tool_is_declared) = (is_declared(ResourceKind::Agent), is_declared(ResourceKind::Tool));
        if !agent_is_declared {
            let agent = describe_agent(&found);
            all.agents.push(to_agent(&found, agent.manifest.description.clone()));
            all.resources.push(agent);
        }
        if !tool_is_declared {
            all.resources.push(describe_asking_tool(&found));
            all.tools.push((found.namespace, found.tool));
        }
    }
}

fn to_agent(found: &AnnouncedAgent, ManifestBody { labels, annotations, .. }: ManifestBody) -> Agent {
    let AnnouncedAgent { namespace, server, tool, .. } = found;
    Agent {
        namespace: namespace.clone(),
        name: tool.name.clone(),
        description: Some(tool.description.clone()),
        prompt: None,
        parameters: Vec::new(),
        output_schema: None,
        model: String::new(),
        remote: Some(RemoteAgent { server: server.clone(), tool: Some(tool.name.clone()) }),
        tools: Vec::new(),
        selected_tools: Vec::new(),
        confirm: None,
        limits: AskedLimits::default(),
        labels,
        annotations,
    }
}

/// An agent behind an A2A server, with the labels and annotations that ARK gives it.
fn describe_agent(found: &AnnouncedAgent) -> Resource {
    let AnnouncedAgent { server, tool, address, skills, .. } = found;
    let mut spec = Map::new();
    spec.insert("description".into(), tool.description.as_str().into());
    spec.insert("executionEngine".into(), json!({"name": A2A_ENGINE}));
    let skill = |skill: &bosun_engine::agent_server::AgentSkill| json!({"id": skill.id, "name": skill.name, "description": skill.description, "tags": skill.tags});
    let skills = Value::from_iter(skills.iter().map(skill)).to_string();
    let mut annotations = BTreeMap::from([(A2A_SERVER_NAME.to_owned(), server.clone()), (SKILLS.to_owned(), skills)]);
    annotations.extend(address.clone().map(|address| (SERVER_ADDRESS.to_owned(), address)));
    announced(found, ResourceKind::Agent, ManifestBody { labels: labels(server), annotations, spec })
}

/// The tool that asks an agent behind an A2A server.
fn describe_asking_tool(found: &AnnouncedAgent) -> Resource {
    let AnnouncedAgent { server, tool, .. } = found;
    let mut spec = Map::new();
    spec.insert("type".into(), BindingKind::A2a.as_str().into());
    spec.insert("description".into(), tool.description.as_str().into());
    spec.insert("inputSchema".into(), Value::clone(&tool.parameters));
    if let Binding::A2a { server, agent } = &tool.binding {
        spec.insert("a2a".into(), json!({"a2aServerRef": {"name": server}, "agentName": agent}));
    }
    announced(found, ResourceKind::Tool, ManifestBody { labels: labels(server), spec, ..ManifestBody::default() })
}

fn labels(server: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(SERVER_LABEL.to_owned(), server.to_owned())])
}

fn announced(found: &AnnouncedAgent, kind: ResourceKind, description: ManifestBody) -> Resource {
    let AnnouncedAgent { namespace, server, tool, .. } = found;
    Resource {
        manifest: Manifest { key: ResourceKey::new(kind, namespace.clone(), tool.name.as_str()), description },
        origin: ResourceOrigin::Announced { by: ResourceKind::A2aServer, server: server.clone() },
        needs: vec![(ResourceKind::A2aServer, server.clone())],
        not_served: None,
        faults: Vec::new(),
        hides_stored: false,
    }
}

/// A tool of an MCP server as the manifest that would declare it, with the label that ARK gives it.
fn describe_tool(AnnouncedTool { namespace, server, tool }: &AnnouncedTool) -> Resource {
    let mut spec = Map::new();
    spec.insert("type".into(), "mcp".into());
    spec.insert("description".into(), tool.description.as_str().into());
    spec.insert("inputSchema".into(), Value::clone(&tool.parameters));
    if !tool.annotations.is_empty() {
        spec.insert("annotations".into(), json!(tool.annotations));
    }
    if let Binding::Mcp { server, tool } = &tool.binding {
        spec.insert("mcp".into(), json!({"mcpServerRef": {"name": server}, "toolName": tool}));
    }
    let labels = tool.labels.clone();
    Resource {
        manifest: Manifest {
            key: ResourceKey::new(ResourceKind::Tool, namespace.clone(), tool.name.clone()),
            description: ManifestBody { labels, spec, ..ManifestBody::default() },
        },
        origin: ResourceOrigin::Announced { by: ResourceKind::McpServer, server: server.clone() },
        needs: vec![(ResourceKind::McpServer, server.clone())],
        not_served: None,
        faults: Vec::new(),
        hides_stored: false,
    }
}
