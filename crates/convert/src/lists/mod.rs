//! Lists of tools: those of model APIs, of MCP, of LangChain and of clients.
//!
//! They differ in the position of the list and in the names of three members. Further fields of a format are carried
//! over where a tool has a field for them, and reported where it has none.

use bosun_core::{Binding, Tool, tool::Annotations};
use bosun_reading::tool;
use serde_json::{Value, json};

use crate::{
    Format,
    document::{Document, Path},
    fields::{Fields, text},
    found::{Found, InsideTool, Report, ToolOrigin},
};

mod gemini;
mod langchain;

pub(crate) fn read(document: &Document<'_>, format: Format, report: &Report) -> Vec<Found> {
    let mut tools = Vec::new();
    for (path, value) in document.parts() {
        for (path, entry) in entries(value, path, report) {
            read_entry(entry, path, format, &mut tools, report);
        }
    }
    tools
}

fn read_entry(entry: &Value, path: Path, format: Format, tools: &mut Vec<Found>, report: &Report) {
    let Some(fields) = report.fields_at(entry, path, "a tool") else { return };
    match format {
        Format::OpenAi => tools.extend(openai(fields, report)),
        Format::OpenAiResponses => tools.extend(openai_responses(fields, report)),
        Format::Anthropic => tools.extend(anthropic(fields, report)),
        Format::Gemini => gemini::read(fields, tools, report),
        Format::Mcp => tools.extend(mcp(fields, report)),
        Format::Langchain => tools.extend(langchain::read(fields, report)),
        _ => tools.extend(plain(fields, report)),
    }
}

/// The tools of a document: a list, one tool, or an answer or request that has a list of `tools`.
fn entries<'a>(value: &'a Value, path: Path, report: &Report) -> Vec<(Path, &'a Value)> {
    match value {
        Value::Array(items) => items.iter().enumerate().map(|(index, item)| (path.index(index), item)).collect(),
        Value::Object(object) => {
            for key in ["result", "data"] {
                if let Some(inner @ Value::Object(_)) = object.get(key) {
                    return entries(inner, path.key(key), report);
                }
            }
            match object.get("tools") {
                Some(tools) => {
                    if object.get("nextCursor").is_some_and(|cursor| !cursor.is_null()) {
                        let message = "this is one page of several: `nextCursor` names the next, which is not here";
                        report.warn(&path.key("nextCursor"), "page_of_many", message);
                    }
                    entries(tools, path.key("tools"), report)
                }
                None => vec![(path, value)],
            }
        }
        other => vec![(path, other)],
    }
}

/// The fields that every format has.
struct Described<'a> {
    name: &'a str,
    description: &'a str,
    parameters: Value,
    origin: ToolOrigin,
}

/// Name, description and parameters. A tool without a schema has no parameters.
fn described<'a>(fields: &Fields<'a>, schema_keys: &[&'static str], report: &Report) -> Option<Described<'a>> {
    let name = fields.required_text("name", "").map(|text| text.value);
    let description = text(fields, "description");
    let schema = fields.get_any(schema_keys);
    let name = name?;
    let description = description.unwrap_or_else(|| {
        report.warn(fields.path(), "description_missing", format!("`{name}` has no description for the model to read"));
        ""
    });
    let (parameters, parameters_path) = match schema {
        Some((key, schema)) => (schema.clone(), Some(fields.path_of(key))),
        None => (json!({"type": "object", "properties": {}}), None),
    };
    let origin = ToolOrigin { path: fields.path().clone(), parameters: parameters_path };
    Some(Described { name, description, parameters, origin })
}

impl Described<'_> {
    fn external(self, why_outside: &str) -> Found {
        let tool = Tool::new(self.name, self.description, self.parameters, Binding::External);
        Found { inside: InsideTool::Never(why_outside.to_owned()), ..Found::new(tool, self.origin) }
    }
}

const NOT_SAID: &str = "its format does not say how it is run";

/// A tool that the provider runs has no definition that could be carried over.
fn is_function(fields: &Fields<'_>, kinds: &[&str], report: &Report) -> bool {
    let kind = text(fields, "type");
    let is_function = kind.is_none_or(|kind| kinds.contains(&kind));
    if let Some(kind) = kind.filter(|_| !is_function) {
        let message = format!("a tool of type `{kind}` is run by the model's provider and is left out");
        report.warn(fields.path(), "provider_tool", message);
    }
    is_function
}

fn openai(fields: Fields<'_>, report: &Report) -> Option<Found> {
    if !is_function(&fields, &["function"], report) {
        return None;
    }
    let function = fields.required_fields("function", "");
    fields.drop_unknown();
    let function = function?;
    let described = described(&function, &["parameters"], report)?;
    function.drop_unknown();
    Some(described.external(NOT_SAID))
}

fn openai_responses(fields: Fields<'_>, report: &Report) -> Option<Found> {
    if !is_function(&fields, &["function"], report) {
        return None;
    }
    let described = described(&fields, &["parameters"], report)?;
    fields.drop_unknown();
    Some(described.external(NOT_SAID))
}

fn anthropic(fields: Fields<'_>, report: &Report) -> Option<Found> {
    if !is_function(&fields, &["custom"], report) {
        return None;
    }
    let described = described(&fields, &["input_schema"], report)?;
    fields.drop_unknown();
    Some(described.external(NOT_SAID))
}

fn mcp(fields: Fields<'_>, report: &Report) -> Option<Found> {
    let described = described(&fields, &["inputSchema"], report)?;
    let title = text(&fields, "title").map(str::to_owned);
    let annotations = annotations(&fields, true);
    // The other fields are kept for MCP, and reported where another format loses them.
    let entry = Some(Box::new(fields.node().clone()));
    let mut found = described.external("its MCP server is not named here; connect Bosun to that server instead");
    found.tool.display_name = title.or(annotations.title);
    found.tool.annotations = annotations.hints;
    found.entry = entry;
    Some(found)
}

/// A tool in our own format: `{name, description, parameters}`, with the fields that a client may add.
fn plain(fields: Fields<'_>, report: &Report) -> Option<Found> {
    let kind = text(&fields, "type");
    let mode = text(&fields, "executionMode");
    let described = described(&fields, &["parameters"], report)?;
    let annotations = annotations(&fields, false);
    let display_name = text(&fields, "displayName").map(str::to_owned);
    let version = text(&fields, "version").map(str::to_owned);
    let timeout = fields.positive_duration("timeout");
    let cache = tool::cache(&fields);
    let deprecated = tool::deprecation(&fields);
    fields.drop_unknown();
    let mut found = match (kind, mode) {
        (Some("builtin"), _) => {
            let name = described.name.to_owned();
            let mut found = described.external("");
            found.tool.binding = Binding::Builtin { name };
            found.inside = InsideTool::AsBound;
            found
        }
        (_, Some("internal")) => {
            let message =
                format!("`{}` is run inside, but nothing says how; it is assumed to be external", described.name);
            report.warn(&described.origin.path, "binding_unknown", message);
            described.external(NOT_SAID)
        }
        _ => described.external("the client that owns it runs it"),
    };
    found.tool.display_name = display_name.or(annotations.title);
    found.tool.annotations = annotations.hints;
    found.tool.version = version;
    found.tool.timeout = timeout;
    found.tool.set_cache(cache);
    found.tool.deprecated = deprecated;
    Some(found)
}

struct Hints {
    title: Option<String>,
    hints: Annotations,
}

/// MCP's `annotations`. `keeps_others` if its other members go with the tool as it was read.
fn annotations(fields: &Fields<'_>, keeps_others: bool) -> Hints {
    let Some(inner) = fields.fields("annotations") else {
        return Hints { title: None, hints: Annotations::default() };
    };
    let hints = Hints {
        title: text(&inner, "title").map(str::to_owned),
        hints: Annotations {
            read_only_hint: inner.bool("readOnlyHint"),
            destructive_hint: inner.bool("destructiveHint"),
            idempotent_hint: inner.bool("idempotentHint"),
            open_world_hint: inner.bool("openWorldHint"),
        },
    };
    if !keeps_others {
        inner.drop_unknown();
    }
    hints
}
