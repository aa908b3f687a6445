//! The AI tools of an n8n workflow export.
//!
//! A tool is a node that is connected to another by `ai_tool`. Each is described as n8n would describe it to a model:
//! by the node's name, its description, and the values that it lets the model fill in. n8n runs them, so they are
//! external; [`http`] determines which of them could be run inside instead. What only a running n8n knows (the tools of
//! a toolkit, texts that are not in the export) is reported, never invented.

use std::collections::HashMap;

use bosun_reading::Syntax;
use serde_json::{Map, Value};

use crate::{
    document::{Document, Path},
    found::{Found, Report},
};

mod from_ai;
mod http;
mod kinds;
mod placeholders;
mod template;

/// One node of a workflow.
struct N8nNode<'a> {
    name: &'a str,
    /// The type without its package: `toolHttpRequest`.
    kind: &'a str,
    version: f64,
    parameters: &'a Value,
    credentials: Option<&'a Map<String, Value>>,
    object: &'a Map<String, Value>,
    path: Path,
}

impl N8nNode<'_> {
    fn parameter(&self, key: &str) -> Option<&Value> {
        self.parameters.get(key).filter(|value| !value.is_null())
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.parameter(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty())
    }

    fn is_on(&self, key: &str) -> bool {
        self.parameter(key) == Some(&Value::Bool(true))
    }

    fn path_of(&self, key: &str) -> Path {
        self.path.key("parameters").key(key)
    }
}

pub(crate) fn read(document: &Document<'_>, report: &Report) -> Vec<Found> {
    let mut tools = Vec::new();
    match document.value() {
        Value::Array(workflows) => {
            for (index, workflow) in workflows.iter().enumerate() {
                read_workflow(workflow, &Path::root().index(index), &mut tools, report);
            }
        }
        Value::Object(object) => match object.get("data") {
            Some(workflow) if !object.contains_key("nodes") => {
                read_workflow(workflow, &Path::root().key("data"), &mut tools, report);
            }
            _ => read_workflow(document.value(), &Path::root(), &mut tools, report),
        },
        other => {
            let message = format!("a workflow is an object, not {}", Syntax::Json.kind_of(other));
            report.fault(Path::root(), "not_a_workflow", message);
        }
    }
    tools
}

fn read_workflow(workflow: &Value, path: &Path, tools: &mut Vec<Found>, report: &Report) {
    let (Some(Value::Array(nodes)), Some(Value::Object(connections))) =
        (workflow.get("nodes"), workflow.get("connections"))
    else {
        report.fault(path, "not_a_workflow", "a workflow has a list of `nodes` and an object of `connections`");
        return;
    };
    let nodes: HashMap<&str, N8nNode<'_>> = nodes
        .iter()
        .enumerate()
        .filter_map(|(index, node)| read_node(node, path.key("nodes").index(index), report))
        .map(|node| (node.name, node))
        .collect();
    for (source, outputs) in connections {
        let targets = ai_tool_targets(outputs);
        if targets.is_empty() {
            continue;
        }
        let Some(node) = nodes.get(source.as_str()) else {
            report.fault(path.key("connections").key(source), "node_missing", format!("there is no node `{source}`"));
            continue;
        };
        if is_disabled(node) || is_gated(node, &targets, &nodes, report) {
            continue;
        }
        let Some(found) = kinds::describe(node, report) else { continue };
        if let Some(target) = targets.iter().find_map(|target| nodes.get(target).filter(|target| is_tool(target)))
            && targets.len() == 1
        {
            let message = format!(
                "`{}` is wired to `{}`, which is itself a tool: only that agent calls it",
                node.name, target.name
            );
            report.warn(&node.path, "nested_tool", message);
        }
        tools.push(found);
    }
}

fn read_node<'a>(node: &'a Value, path: Path, report: &Report) -> Option<N8nNode<'a>> {
    let (Some(object), Some(name), Some(kind)) =
        (node.as_object(), node.get("name").and_then(Value::as_str), node.get("type").and_then(Value::as_str))
    else {
        report.fault(&path, "node_unreadable", "a node is an object with `name` and `type`");
        return None;
    };
    Some(N8nNode {
        name,
        kind: kind.rsplit('.').next().unwrap_or(kind),
        version: node.get("typeVersion").and_then(Value::as_f64).unwrap_or(1.0),
        parameters: node.get("parameters").unwrap_or(&Value::Null),
        credentials: node.get("credentials").and_then(Value::as_object),
        object,
        path,
    })
}

/// The nodes that a node is connected to as a tool: `{"ai_tool": [[{"node": "AI Agent", …}]]}`.
fn ai_tool_targets(outputs: &Value) -> Vec<&str> {
    let lanes = outputs.get("ai_tool").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let wires = lanes.iter().filter_map(Value::as_array).flatten();
    wires.filter_map(|wire| wire.get("node").and_then(Value::as_str)).collect()
}

fn is_disabled(node: &N8nNode<'_>) -> bool {
    node.object.get("disabled") == Some(&Value::Bool(true))
}

/// Whether a node is a tool and not the agent that calls tools.
fn is_tool(node: &N8nNode<'_>) -> bool {
    node.kind == "agentTool"
}

/// A tool behind an approval gate is called through the gate. Offering it directly would skip the human approval.
fn is_gated(node: &N8nNode<'_>, targets: &[&str], nodes: &HashMap<&str, N8nNode<'_>>, report: &Report) -> bool {
    let gate = targets.iter().find(|target| nodes.get(*target).is_some_and(|target| target.kind.ends_with("HitlTool")));
    if let Some(gate) = gate {
        let message =
            format!("`{}` needs the approval that `{gate}` asks for, which only the running n8n can do", node.name);
        report.warn(&node.path, "needs_n8n", message);
    }
    gate.is_some()
}

/// The name that n8n derives for the tool of a node: every character except letters, digits, `_` and `-` becomes `_`.
fn tool_name(node_name: &str) -> String {
    let mut name = String::new();
    let mut replaced = false;
    for letter in node_name.chars() {
        let is_kept = letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
        if is_kept {
            name.push(letter);
        } else if !replaced {
            name.push('_');
        }
        replaced = !is_kept;
    }
    if name.len() > 64 {
        name.truncate(64);
        name.truncate(name.trim_end_matches(['_', '-']).len());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_named_after_its_node() {
        for (node, tool) in [
            ("HTTP Request", "HTTP_Request"),
            ("Get   weather (v2)!", "Get_weather_v2_"),
            ("tool_with-special.chars", "tool_with-special_chars"),
            ("Größe", "Gr_e"),
        ] {
            assert_eq!(tool_name(node), tool);
        }
        assert_eq!(tool_name(&format!("{} tail", "a".repeat(63))), "a".repeat(63));
    }
}
