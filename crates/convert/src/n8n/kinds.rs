//! Descriptions of each kind of node as a tool.

use bosun_core::{Binding, Tool};
use serde_json::{Map, Value, json};

use super::{
    N8nNode,
    from_ai::{self, object_schema},
    http, placeholders, tool_name,
};
use crate::found::{Found, InsideTool, Report, ToolOrigin};

/// A node that takes one text and whose description is built into n8n and not in the export.
struct KnownNode {
    kind: &'static str,
    /// `None` if the tool is named after its node.
    name: Option<&'static str>,
    description: &'static str,
    input: &'static str,
    why_outside: &'static str,
}

const KNOWN: [KnownNode; 5] = [
    KnownNode {
        kind: "toolCalculator",
        name: None,
        description: "Evaluates an arithmetic expression.",
        input: "Expression",
        why_outside: "n8n runs it; Bosun has a calculator of its own built in",
    },
    KnownNode {
        kind: "toolWikipedia",
        name: None,
        description: "Looks something up in Wikipedia.",
        input: "Search words",
        why_outside: "n8n runs it",
    },
    KnownNode {
        kind: "toolSerpApi",
        name: Some("search"),
        description: "Searches the web with Google.",
        input: "Search words",
        why_outside: "n8n runs it",
    },
    KnownNode {
        kind: "toolWolframAlpha",
        name: Some("wolfram_alpha"),
        description: "Asks Wolfram|Alpha a question.",
        input: "Question",
        why_outside: "n8n runs it",
    },
    KnownNode {
        kind: "toolSearXng",
        name: Some("searxng-search"),
        description: "Searches the web with SearXNG.",
        input: "Search words",
        why_outside: "n8n runs it",
    },
];

impl KnownNode {
    fn describe(&self, node: &N8nNode<'_>, report: &Report) -> Found {
        let Self { description, input, .. } = self;
        let message =
            format!("n8n's own description of `{}` is not in the export; ours is used: {description:?}", node.name);
        report.warn(&node.path, "description_assumed", message);
        let parameters = json!({
            "type": "object", "properties": {"input": {"type": "string", "description": input}}, "required": ["input"],
        });
        let name = self.name.map_or_else(|| tool_name(node.name), str::to_owned);
        external(node, name, (*description).to_owned(), parameters, self.why_outside)
    }
}

/// The tool of a node; `None` if only the running n8n knows it, or if it cannot be read.
pub(super) fn describe(node: &N8nNode<'_>, report: &Report) -> Option<Found> {
    if let Some(known) = KNOWN.iter().find(|known| known.kind == node.kind) {
        return Some(known.describe(node, report));
    }
    match node.kind {
        "mcpClientTool" | "mcpRegistryClientTool" => {
            needs_n8n(node, report, "its tools are those of an MCP server; connect Bosun to that server instead");
            None
        }
        kind if kind.ends_with("HitlTool") => {
            needs_n8n(node, report, "it asks a person before it calls the tools behind it");
            None
        }
        "toolThink" => {
            let name = if node.version <= 1.0 { "thinking_tool".to_owned() } else { tool_name(node.name) };
            let description = description(
                node,
                "description",
                "A place to think before acting. Nothing is looked up or changed.",
                report,
            );
            Some(one_text(node, name, description, "n8n runs it"))
        }
        "toolCode" => code(node, report),
        "toolWorkflow" => workflow(node, report),
        "toolHttpRequest" => placeholders::describe(node, report),
        "toolVectorStore" => {
            let name = own_name(node, "name", 1.0, report)?;
            let data = description(node, "description", "", report);
            let text = format!(
                "Useful for when you need to answer questions about {name}. Whenever you need information about {data} \
                 you should ALWAYS use this. Input should be a fully formed question."
            );
            Some(one_text(node, name, text, "it searches a vector store of n8n"))
        }
        _ if node.text("mode") == Some("retrieve-as-tool") => {
            let name = own_name(node, "toolName", 1.2, report)?;
            let description = description(node, "toolDescription", "Searches a vector store.", report);
            Some(one_text(node, name, description, "it searches a vector store of n8n"))
        }
        _ => node_as_tool(node, report),
    }
}

fn needs_n8n(node: &N8nNode<'_>, report: &Report, why: &str) {
    report.warn(
        &node.path,
        "needs_n8n",
        format!("`{}` is left out, since only the running n8n knows it: {why}", node.name),
    );
}

/// Older versions of a node have a field for the tool's name; newer ones use the node's.
fn own_name(node: &N8nNode<'_>, field: &str, until_version: f64, report: &Report) -> Option<String> {
    if node.version > until_version {
        return Some(tool_name(node.name));
    }
    let name = node.text(field);
    if name.is_none() {
        report.fault(node.path_of(field), "name_missing", format!("the node `{}` has no `{field}`", node.name));
    }
    name.map(str::to_owned)
}

/// The description for the model; `fallback` if the export does not have it.
fn description(node: &N8nNode<'_>, field: &str, fallback: &str, report: &Report) -> String {
    let Some(text) = node.text(field) else {
        let message = format!("the export has no description of `{}`; ours is used: {fallback:?}", node.name);
        report.warn(&node.path, "description_assumed", message);
        return fallback.to_owned();
    };
    match text.strip_prefix('=') {
        Some(expression) if expression.contains("{{") => {
            let message = format!("the description of `{}` has expressions, which only n8n evaluates", node.name);
            report.warn(&node.path_of(field), "description_expression", message);
            expression.to_owned()
        }
        Some(text) => text.to_owned(),
        None => text.to_owned(),
    }
}

/// A tool that takes one text. n8n marks `input` as optional, but without it there is nothing to do.
fn one_text(node: &N8nNode<'_>, name: String, description: String, why_outside: &str) -> Found {
    let parameters = json!({"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]});
    external(node, name, description, parameters, why_outside)
}

fn external(node: &N8nNode<'_>, name: String, description: String, parameters: Value, why_outside: &str) -> Found {
    Found {
        tool: Tool::new(name, description, parameters, Binding::External),
        origin: ToolOrigin { path: node.path.clone(), parameters: None },
        inside: InsideTool::Never(why_outside.to_owned()),
    }
}

fn code(node: &N8nNode<'_>, report: &Report) -> Option<Found> {
    let name = own_name(node, "name", 1.1, report)?;
    let description = description(node, "description", "", report);
    let why = "its code is run by n8n";
    if !node.is_on("specifyInputSchema") {
        return Some(one_text(node, name, description, why));
    }
    let parameters = written_schema(node, node.version >= 1.3, report)?;
    Some(external(node, name, description, parameters, why))
}

fn workflow(node: &N8nNode<'_>, report: &Report) -> Option<Found> {
    let name = own_name(node, "name", 2.1, report)?;
    let description = description(node, "description", "", report);
    let why = "it runs a workflow of n8n";
    if node.version < 2.0 {
        if !node.is_on("specifyInputSchema") {
            return Some(one_text(node, name, description, why));
        }
        let parameters = written_schema(node, false, report)?;
        return Some(external(node, name, description, parameters, why));
    }
    let inputs = node.parameter("workflowInputs");
    let has_inputs =
        inputs.and_then(|inputs| inputs.get("schema")).and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    let arguments = from_ai::collect(node.parameters, &node.path.key("parameters"), report)?;
    if !has_inputs || arguments.is_empty() {
        return Some(one_text(node, name, description, why));
    }
    Some(external(node, name, description, from_ai::schema(&arguments), why))
}

/// Any other node: n8n derives a tool from the `$fromAI` calls in its parameters.
fn node_as_tool(node: &N8nNode<'_>, report: &Report) -> Option<Found> {
    let is_automatic = node.text("descriptionType") == Some("auto") || node.text("toolDescription").is_none();
    let description = if is_automatic {
        let guess = automatic_description(node);
        let message = format!(
            "n8n makes the description of `{}` from its node type, which is not in the export; ours is used: {guess:?}",
            node.name
        );
        report.warn(&node.path, "description_assumed", message);
        guess
    } else {
        description(node, "toolDescription", "", report)
    };
    let arguments = from_ai::collect(node.parameters, &node.path.key("parameters"), report)?;
    let mut found = external(node, tool_name(node.name), description, from_ai::schema(&arguments), "n8n runs it");
    found.inside = match node.kind {
        "httpRequestTool" | "httpRequest" => http::inside(node),
        kind => InsideTool::Never(format!("its node type `{kind}` is run by n8n")),
    };
    Some(found)
}

/// `create message in slack`, derived from the export: n8n words it much the same.
fn automatic_description(node: &N8nNode<'_>) -> String {
    let service = node.kind.strip_suffix("Tool").unwrap_or(node.kind);
    match (node.text("operation"), node.text("resource")) {
        (Some(operation), Some(resource)) => format!("{operation} {resource} in {service}"),
        (Some(operation), None) => format!("{operation} in {service}"),
        _ if service == "httpRequest" => {
            let method = node.text("method").unwrap_or("GET");
            format!("Makes an HTTP {method} request and returns the response")
        }
        _ => format!("{} ({service})", node.name),
    }
}

/// The schema that was given for a node, directly or by an example.
fn written_schema(node: &N8nNode<'_>, all_required: bool, report: &Report) -> Option<Value> {
    let from_example = node.text("schemaType").is_none_or(|kind| kind == "fromJson");
    let field = if from_example { "jsonSchemaExample" } else { "inputSchema" };
    let path = node.path_of(field);
    let Some(text) = node.text(field) else {
        report.fault(
            &path,
            "schema_missing",
            format!("the node `{}` asks for a schema and has no `{field}`", node.name),
        );
        return None;
    };
    let written: Value = match serde_json::from_str(text) {
        Ok(written) => written,
        Err(error) => {
            report.fault(&path, "schema_unreadable", format!("`{field}` of `{}` is not JSON: {error}", node.name));
            return None;
        }
    };
    if !from_example {
        return Some(written);
    }
    report.warn(
        &path,
        "schema_from_example",
        format!("the parameters of `{}` are inferred from an example", node.name),
    );
    Some(schema_of_example(&written, all_required))
}

/// The types of an example.
fn schema_of_example(example: &Value, all_required: bool) -> Value {
    match example {
        Value::Null => json!({"type": "null"}),
        Value::Bool(_) => json!({"type": "boolean"}),
        Value::Number(_) => json!({"type": "number"}),
        Value::String(_) => json!({"type": "string"}),
        Value::Array(items) => {
            let mut kinds: Vec<Value> = Vec::new();
            for item in items {
                let kind = schema_of_example(item, all_required);
                if !kinds.contains(&kind) {
                    kinds.push(kind);
                }
            }
            match kinds.len() {
                0 => json!({"type": "array"}),
                1 => json!({"type": "array", "items": kinds.remove(0)}),
                _ => json!({"type": "array", "items": {"anyOf": kinds}}),
            }
        }
        Value::Object(members) => {
            let properties: Map<_, _> =
                members.iter().map(|(key, value)| (key.clone(), schema_of_example(value, all_required))).collect();
            let required: Vec<&str> =
                if all_required { members.keys().map(String::as_str).collect() } else { Vec::new() };
            object_schema(properties, &required)
        }
    }
}
