//! The AI tools of an n8n workflow export.
//!
//! A tool is a node that is connected to another by `ai_tool`. Each is described as n8n would describe it to a model:
//! by the node's name, its description, and the values that it lets the model fill in. n8n runs them, so they are
//! external; [`http`] determines which of them could be run inside instead. What only a running n8n knows (the tools of
//! a toolkit, texts that are not in the export) is reported, never invented.

use std::collections::HashMap;

use bosun_reading::Syntax;
use indexmap::IndexSet;
use serde_json::{Map, Value};

use crate::{
    ConvertOptions,
    document::{Document, Path},
    format::clip,
    found::{Found, Report},
    secrets::leave_out_keys,
};

pub use node_types::NodeTypes;

mod from_ai;
mod http;
mod kinds;
mod node_types;
mod placeholders;
mod template;

/// One node of a workflow.
struct N8nNode<'a> {
    name: &'a str,
    /// The type without its package: `toolHttpRequest`.
    kind: &'a str,
    package: &'a str,
    /// Of n8n's own package of AI nodes, and of its package of all others.
    is_langchain: bool,
    is_base: bool,
    version: f64,
    parameters: &'a Value,
    credentials: Option<&'a Map<String, Value>>,
    object: &'a Map<String, Value>,
    path: Path,
    types: Option<&'a NodeTypes>,
}

/// A tool and the agents that have it.
struct WiredTool<'a> {
    found: Found,
    agents: Vec<&'a str>,
    workflow: Workflow<'a>,
}

/// One workflow of a list.
#[derive(Clone, Copy)]
struct Workflow<'a> {
    name: Option<&'a str>,
    number: usize,
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

pub(crate) fn read<'a>(document: &'a Document<'_>, options: ConvertOptions<'a>, report: &Report) -> Vec<Found> {
    let mut wired = Vec::new();
    let mut add =
        |workflow: &'a Value, path: &Path, number| wired.extend(read_workflow(workflow, path, number, options, report));
    match document.value() {
        Value::Array(workflows) => {
            for (index, workflow) in workflows.iter().enumerate() {
                add(workflow, &Path::root().index(index), index + 1);
            }
        }
        Value::Object(object) => match object.get("data") {
            Some(workflow) if !object.contains_key("nodes") => add(workflow, &Path::root().key("data"), 1),
            _ => add(document.value(), &Path::root(), 1),
        },
        other => {
            let message = format!("a workflow is an object, not {}", Syntax::Json.kind_of(other));
            report.fault(Path::root(), "not_a_workflow", message);
        }
    }
    let agents: IndexSet<&str> = wired.iter().flat_map(|tool| tool.agents.iter().copied()).collect();
    if let Some(agent) = options.agent.filter(|agent| !agents.contains(agent)) {
        let message = format!("no agent `{}` has tools here", clip(agent));
        let names: Vec<String> = agents.iter().map(|agent| format!("`{}`", clip(agent))).collect();
        let hint = if names.is_empty() { String::new() } else { format!("agents are {}", names.join(", ")) };
        report.fault_with_hint(Path::root(), "agent_unknown", message, hint);
    }
    let mut tools = of_agent(wired, options.agent, report);
    tools.iter_mut().for_each(|found| leave_out_keys(found, report));
    tools
}

/// The tools of one agent, or of all of them. Different agents may have tools of the same name; taken together, these
/// are qualified by their agents, and by their workflows where agents share a name, too.
fn of_agent(mut wired: Vec<WiredTool<'_>>, agent: Option<&str>, report: &Report) -> Vec<Found> {
    if let Some(agent) = agent {
        wired.retain(|tool| tool.agents.contains(&agent));
    }
    for by_workflow in [false, true] {
        if agent.is_none() || by_workflow {
            qualify(&mut wired, by_workflow, report);
        }
    }
    wired.into_iter().map(|tool| tool.found).collect()
}

/// Renames the tools that share a name and are of different agents, or of different workflows.
fn qualify(wired: &mut [WiredTool<'_>], by_workflow: bool, report: &Report) {
    let mut owners: HashMap<String, (usize, IndexSet<String>)> = HashMap::new();
    let mut titles: HashMap<&str, IndexSet<usize>> = HashMap::new();
    for WiredTool { found, agents, workflow } in wired.iter() {
        let (count, owners) = owners.entry(found.tool.name.clone()).or_default();
        *count += 1;
        titles.entry(workflow.name.unwrap_or_default()).or_default().insert(workflow.number);
        if by_workflow {
            owners.insert(workflow.number.to_string());
        } else {
            owners.extend(agents.iter().map(|agent| (*agent).to_owned()));
        }
    }
    for WiredTool { found, agents, workflow } in wired {
        let name = &found.tool.name;
        let is_shared = owners.get(name).is_some_and(|(count, owners)| *count > 1 && owners.len() > 1);
        let Some(agent) = agents.first().filter(|_| is_shared) else { continue };
        let (qualified, message) = if by_workflow {
            let Workflow { name: title, number } = workflow;
            let title = title.filter(|title| titles.get(title).is_some_and(|workflows| workflows.len() == 1));
            let title = title.map_or_else(|| format!("workflow_{number}"), str::to_owned);
            let qualified = tool_name(&format!("{title}_{name}"));
            let message =
                format!("`{name}` is a tool of several workflows; that of number {number} is named `{qualified}`");
            (qualified, message)
        } else {
            let qualified = tool_name(&format!("{agent}_{name}"));
            let message = format!(
                "`{name}` is a tool of several agents; that of `{}` is named `{qualified}` (`--agent` chooses one agent)",
                clip(agent)
            );
            (qualified, message)
        };
        report.warn(&found.origin.path, "renamed", message);
        found.tool.name = qualified;
    }
}

fn read_workflow<'a>(
    workflow: &'a Value,
    path: &Path,
    number: usize,
    options: ConvertOptions<'a>,
    report: &Report,
) -> Vec<WiredTool<'a>> {
    let workflow_of_tools = Workflow { name: workflow.get("name").and_then(Value::as_str), number };
    let (Some(Value::Array(nodes)), Some(Value::Object(connections))) =
        (workflow.get("nodes"), workflow.get("connections"))
    else {
        report.fault(path, "not_a_workflow", "a workflow has a list of `nodes` and an object of `connections`");
        return Vec::new();
    };
    let nodes: HashMap<&str, N8nNode<'_>> = nodes
        .iter()
        .enumerate()
        .filter_map(|(index, node)| read_node(node, path.key("nodes").index(index), options, report))
        .map(|node| (node.name, node))
        .collect();
    let mut tools = Vec::new();
    for (source, outputs) in connections {
        let targets = ai_tool_targets(source, outputs, &path.key("connections"), report);
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
        tools.push(WiredTool { found, agents: targets, workflow: workflow_of_tools });
    }
    tools
}

fn read_node<'a>(node: &'a Value, path: Path, options: ConvertOptions<'a>, report: &Report) -> Option<N8nNode<'a>> {
    let (Some(object), Some(name), Some(kind)) =
        (node.as_object(), node.get("name").and_then(Value::as_str), node.get("type").and_then(Value::as_str))
    else {
        report.fault(&path, "node_unreadable", "a node is an object with `name` and `type`");
        return None;
    };
    let (package, kind) = kind.rsplit_once('.').unwrap_or(("", kind));
    Some(N8nNode {
        name,
        kind,
        package,
        is_langchain: package == "@n8n/n8n-nodes-langchain",
        is_base: package == "n8n-nodes-base",
        version: node.get("typeVersion").and_then(Value::as_f64).unwrap_or(1.0),
        parameters: node.get("parameters").unwrap_or(&Value::Null),
        credentials: node.get("credentials").and_then(Value::as_object),
        object,
        path,
        types: options.n8n_nodes,
    })
}

/// The nodes that a node is connected to as a tool: `{"ai_tool": [[{"node": "AI Agent", …}]]}`. n8n ignores a connection
/// of another form; here it is reported, since its tool would be missing for no visible reason.
fn ai_tool_targets<'a>(source: &str, outputs: &'a Value, connections: &Path, report: &Report) -> Vec<&'a str> {
    let lanes = match outputs.get("ai_tool") {
        None | Some(Value::Null) => return Vec::new(),
        Some(Value::Array(lanes)) => lanes.as_slice(),
        Some(other) => std::slice::from_ref(other),
    };
    let mut targets = Vec::new();
    let mut is_malformed = false;
    for lane in lanes.iter().filter(|lane| !lane.is_null()) {
        let Value::Array(wires) = lane else {
            is_malformed = true;
            continue;
        };
        for wire in wires {
            match wire.get("node").and_then(Value::as_str) {
                Some(target) => targets.push(target),
                None => is_malformed = true,
            }
        }
    }
    if is_malformed {
        let message = format!(
            "a connection of `{}` is not read, and n8n ignores it too: it must be a list of lists of objects with `node`",
            clip(source)
        );
        report.warn(&connections.key(source).key("ai_tool"), "connection_unreadable", message);
    }
    targets
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
    let gate = targets.iter().find(|target| nodes.get(*target).is_some_and(|target| kinds::is_gate(target.kind)));
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
