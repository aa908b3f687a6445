//! Descriptions of each kind of node as a tool.

use bosun_core::{Binding, Tool};
use serde_json::{Map, Value, json};

use super::{
    N8nNode,
    from_ai::{self, Argument, FromAiKind, object_schema},
    http, placeholders, tool_name,
};
use crate::found::{Found, InsideTool, Report, ToolOrigin};

/// A node that takes one text. Its name and description are constants of n8n, or of the LangChain class that it wraps.
struct KnownNode {
    kind: &'static str,
    /// `None` if the tool is named after its node.
    name: Option<&'static str>,
    description: &'static str,
    why_outside: &'static str,
}

const KNOWN: [KnownNode; 5] = [
    KnownNode {
        kind: "toolCalculator",
        name: None,
        description: "Useful for getting the result of a math expression. The input to this tool should be a valid \
                      mathematical expression that could be executed by a simple calculator.",
        why_outside: "n8n runs it; Bosun has a calculator of its own built in",
    },
    KnownNode {
        kind: "toolWikipedia",
        name: None,
        description: "A tool for interacting with and fetching data from the Wikipedia API. The input should always \
                      be a string query.",
        why_outside: "n8n runs it",
    },
    KnownNode {
        kind: "toolSerpApi",
        name: Some("search"),
        description: "a search engine. useful for when you need to answer questions about current events. input \
                      should be a search query.",
        why_outside: "n8n runs it",
    },
    KnownNode {
        kind: "toolWolframAlpha",
        name: Some("wolfram_alpha"),
        description: "A wrapper around Wolfram Alpha. Useful for when you need to answer questions about Math, \
                      Science, Technology, Culture, Society and Everyday Life. Input should be a search query.",
        why_outside: "n8n runs it",
    },
    KnownNode {
        kind: "toolSearXng",
        name: Some("searxng-search"),
        description: "A meta search engine. Useful for when you need to answer questions about current events. Input \
                      should be a search query. Output is a JSON array of the query results",
        why_outside: "n8n runs it",
    },
];

/// The default of a Think Tool's own parameter.
const THINK: &str = "Use the tool to think about something. It will not obtain new information or change the \
                     database, but just append the thought to the log. Use it when complex reasoning or some cache \
                     memory is needed.";

/// The tool of a node; `None` if only the running n8n knows it, or if it cannot be read.
pub(super) fn describe(node: &N8nNode<'_>, report: &Report) -> Option<Found> {
    if is_gate(node.kind) {
        needs_n8n(node, report, "it asks a person before it calls the tools behind it");
        return None;
    }
    // The package matters: a community node may have the name of one of n8n's own.
    if !node.is_langchain {
        return node_as_tool(node, report);
    }
    if let Some(known) = KNOWN.iter().find(|known| known.kind == node.kind) {
        let name = known.name.map_or_else(|| tool_name(node.name), str::to_owned);
        return Some(one_text(node, name, known.description.to_owned(), known.why_outside));
    }
    match node.kind {
        "mcpClientTool" | "mcpRegistryClientTool" => {
            needs_n8n(node, report, "its tools are those of an MCP server; connect Bosun to that server instead");
            None
        }
        "toolThink" => {
            let name = if node.version <= 1.0 { "thinking_tool".to_owned() } else { tool_name(node.name) };
            let text = node
                .text("description")
                .map_or_else(|| THINK.to_owned(), |_| description(node, "description", "", report));
            Some(one_text(node, name, text, "n8n runs it"))
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
            // The filter of the search may have values that the model fills in.
            let mut arguments = from_ai::collect(node.parameters, &node.path.key("parameters"), report)?;
            if !arguments.iter().any(|argument| argument.key == "input") {
                arguments.push(Argument {
                    key: "input".to_owned(),
                    description: Some("Query to search for. Required".to_owned()),
                    kind: FromAiKind::String,
                    default: None,
                });
            }
            let why = "it searches a vector store of n8n";
            Some(external(node, name, description, from_ai::schema(&arguments), why))
        }
        "code" => {
            needs_n8n(node, report, "its code makes the tool");
            None
        }
        kind if kind.starts_with("vectorStore") => {
            needs_n8n(node, report, "a vector store is a tool only in the mode `retrieve-as-tool`");
            None
        }
        _ => node_as_tool(node, report),
    }
}

/// Whether a node asks a person before it calls the tools behind it.
pub(super) fn is_gate(kind: &str) -> bool {
    kind.ends_with("HitlTool")
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
pub(super) fn description(node: &N8nNode<'_>, field: &str, fallback: &str, report: &Report) -> String {
    let Some(text) = node.text(field) else {
        if let Some(default) = node.types.and_then(|types| types.default_of(node, field)) {
            return default.to_owned();
        }
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
    let tool = Tool::new(name, description, parameters, Binding::External);
    let origin = ToolOrigin { path: node.path.clone(), parameters: None };
    Found { inside: InsideTool::Never(why_outside.to_owned()), ..Found::new(tool, origin) }
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
    let has_default = || node.types.and_then(|types| types.default_of(node, "toolDescription")).is_some();
    let is_automatic =
        node.text("descriptionType") == Some("auto") || (node.text("toolDescription").is_none() && !has_default());
    let own = if is_automatic { node.types.and_then(|types| types.describe(node)) } else { None };
    let description = if let Some(own) = own {
        own
    } else if is_automatic {
        let guess = automatic_description(node);
        let message = format!(
            "n8n makes the description of `{}` from its node type, which is not in the export; ours is used: \
             {guess:?} (`--n8n-nodes` takes the nodes.json of your n8n)",
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
        "httpRequestTool" | "httpRequest" if node.is_base => http::inside(node),
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
