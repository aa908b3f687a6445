//! References from one resource to another.
//!
//! All references within the files must resolve. A stored manifest may refer to a resource that is created later, as in
//! a cluster; until then it is unavailable.

use bosun_core::{Namespace, tool::BindingKind};
use bosun_engine::resource::Manifest;
use bosun_reading::{Fault, SourcePlace, Text};
use serde_json::Value;

use super::{
    agent::{A2A_ENGINE, A2A_SERVER_NAME},
    document::{Document, LocatedManifest},
};

/// The name of a resource in another one's manifest.
#[derive(Clone, Debug)]
pub(super) struct Reference {
    pub(super) kind: Document,
    pub(super) name: String,
    pub(super) place: SourcePlace,
}

impl Reference {
    pub(super) fn new(kind: Document, name: Text<'_>) -> Self {
        Self { kind, name: name.value.to_owned(), place: name.place }
    }
}

/// A resource and what it refers to.
#[derive(Debug)]
pub(super) struct Referrer {
    pub(super) kind: Document,
    pub(super) namespace: Namespace,
    pub(super) name: String,
    pub(super) references: Vec<Reference>,
}

/// A fault for each reference that does not resolve.
pub(super) fn check(
    referrers: &[LocatedManifest<Referrer>],
    exists: impl Fn(Document, &Namespace, &str) -> bool,
) -> Vec<Fault> {
    let mut faults = Vec::new();
    for LocatedManifest { value, file, .. } in referrers {
        for Reference { kind, name, place } in &value.references {
            if exists(*kind, &value.namespace, name) {
                continue;
            }
            let (owner, of) = (value.kind.as_str(), &value.name);
            let message = format!(
                "{owner} `{of}` refers to {} `{name}`, which does not exist in namespace `{}`",
                kind.as_str(),
                value.namespace
            );
            let hint = format!("add a manifest of kind {} with the name `{name}`", kind.as_str());
            faults.push(Fault::of_file(file, code(*kind), message).at(*place).hint(hint));
        }
    }
    faults
}

fn code(kind: Document) -> &'static str {
    match kind {
        Document::Agent => "unknown_agent",
        Document::Model => "unknown_model",
        Document::Tool => "unknown_tool",
        Document::Memory => "unknown_memory",
        Document::Team => "unknown_team",
        Document::Evaluator => "unknown_evaluator",
        Document::McpServer => "unknown_mcp_server",
        Document::A2aServer => "unknown_a2a_server",
        Document::ConfigMap => "unknown_config_map",
        Document::Namespace => "unknown_namespace",
    }
}

/// The resources that a resource depends on, read from its manifest.
pub(super) fn needs(manifest: &Manifest) -> Vec<(Document, String)> {
    let spec = Value::Object(manifest.description.spec.clone());
    let named = |path: &str| spec.pointer(path).and_then(Value::as_str).map(str::to_owned);
    match manifest.key.kind {
        Document::Agent if spec.pointer("/executionEngine/name") == Some(&Value::from(A2A_ENGINE)) => {
            let server = manifest.description.annotations.get(A2A_SERVER_NAME);
            server.map(|name| (Document::A2aServer, name.clone())).into_iter().collect()
        }
        Document::Agent => {
            let model = named("/modelRef/name").unwrap_or_else(|| super::agent::DEFAULT_MODEL.to_owned());
            let entries = || spec["tools"].as_array().into_iter().flatten();
            let tools = entries().filter_map(|tool| {
                let name = tool.pointer("/partial/name").unwrap_or(&tool["name"]).as_str()?;
                let kind = match tool["type"].as_str() {
                    Some("agent") => Document::Agent,
                    Some("team") => Document::Team,
                    _ => Document::Tool,
                };
                Some((kind, name.to_owned()))
            });
            let presets = entries().filter_map(|tool| tool.pointer("/partial/parameters")?.as_array()).flatten();
            let parameters = spec["parameters"].as_array().into_iter().flatten().chain(presets);
            let settings = parameters
                .filter_map(|parameter| parameter.pointer("/valueFrom/configMapKeyRef")?.get("name")?.as_str())
                .map(|name| (Document::ConfigMap, name.to_owned()));
            [(Document::Model, model)].into_iter().chain(tools).chain(settings).collect()
        }
        Document::Model => {
            let fallback = spec["fallback"].as_array().into_iter().flatten().filter_map(Value::as_str);
            fallback.map(|name| (Document::Model, name.to_owned())).collect()
        }
        Document::Tool => {
            let server = named("/mcp/mcpServerRef/name").map(|name| (Document::McpServer, name));
            let agent = named("/agent/name").or_else(|| named("/agent")).map(|name| (Document::Agent, name));
            let team = named("/team/name").or_else(|| named("/team")).map(|name| (Document::Team, name));
            [server, agent, team].into_iter().flatten().collect()
        }
        Document::Team => {
            let members = spec["members"].as_array().into_iter().flatten();
            let member = |entry: &Value| {
                let kind = if entry["type"] == "team" { Document::Team } else { Document::Agent };
                Some((kind, entry["name"].as_str()?.to_owned()))
            };
            let selector = named("/selector/agent").map(|name| (Document::Agent, name));
            members.filter_map(member).chain(selector).collect()
        }
        Document::Evaluator => {
            let parameters = spec["parameters"].as_array().into_iter().flatten();
            let named = parameters.filter(|parameter| parameter["name"] == super::evaluator::MODEL);
            let model = named.filter_map(|parameter| parameter["value"].as_str()).next_back();
            vec![(Document::Model, model.unwrap_or(super::agent::DEFAULT_MODEL).to_owned())]
        }
        Document::Memory | Document::McpServer | Document::A2aServer | Document::ConfigMap | Document::Namespace => {
            Vec::new()
        }
    }
}

/// Why a valid resource has no effect in this version.
pub(super) fn not_served(manifest: &Manifest) -> Option<String> {
    match manifest.key.kind {
        Document::McpServer if manifest.description.spec.get("transport") == Some(&Value::from("sse")) => {
            Some(super::mcp_server::NO_SSE.to_owned())
        }
        Document::Tool => match manifest.description.spec.get("type").and_then(Value::as_str) {
            Some(kind) if kind == BindingKind::Inline.as_str() => {
                Some(format!("this version does not run tools of type `{kind}`"))
            }
            _ => None,
        },
        _ => None,
    }
}
