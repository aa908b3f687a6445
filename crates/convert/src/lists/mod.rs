//! Lists of tools: what model APIs take, what MCP answers, what LangChain and clients write.
//!
//! They differ in where the list stands and in the names of three members. What a format says
//! beyond name, description and parameters is carried over where a tool has room for it, and named
//! where it has none.

use bosun_core::{Binding, Tool, tool::Annotations};
use serde_json::{Value, json};

use crate::{
    Format,
    document::{Document, Path},
    fields::Fields,
    found::{Found, Inside, Origin, Report},
};

mod gemini;
mod langchain;

pub(crate) fn read(document: &Document<'_>, format: Format, report: &mut Report) -> Vec<Found> {
    let mut tools = Vec::new();
    for (path, value) in document.parts() {
        for (path, entry) in entries(value, path, report) {
            read_entry(entry, path, format, &mut tools, report);
        }
    }
    tools
}

fn read_entry(entry: &Value, path: Path, format: Format, tools: &mut Vec<Found>, report: &mut Report) {
    let Some(fields) = Fields::of(entry, path, "a tool", report) else { return };
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
fn entries<'a>(value: &'a Value, path: Path, report: &mut Report) -> Vec<(Path, &'a Value)> {
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

/// What every format says of a tool.
struct Described<'a> {
    name: &'a str,
    description: &'a str,
    parameters: Value,
    origin: Origin,
}

/// Name, description and parameters. A tool without parameters takes none.
fn described<'a>(fields: &mut Fields<'a>, schema_keys: &[&'static str], report: &mut Report) -> Option<Described<'a>> {
    let name = fields.required_text("name", report);
    let description = fields.text("description", report);
    let schema = fields.take_any(schema_keys);
    let name = name?;
    let description = description.unwrap_or_else(|| {
        report.warn(fields.path(), "description_missing", format!("`{name}` has no description for the model to read"));
        ""
    });
    let (parameters, parameters_path) = match schema {
        Some((key, schema)) => (schema.clone(), Some(fields.path_of(key))),
        None => (json!({"type": "object", "properties": {}}), None),
    };
    let origin = Origin { path: fields.path().clone(), parameters: parameters_path };
    Some(Described { name, description, parameters, origin })
}

impl Described<'_> {
    fn external(self, why_outside: &str) -> Found {
        Found {
            tool: Tool::new(self.name, self.description, self.parameters, Binding::External),
            origin: self.origin,
            inside: Inside::Never(why_outside.to_owned()),
        }
    }
}

const NOT_SAID: &str = "its format does not say how it is run";

/// A tool that the provider runs has no definition that could be carried over.
fn is_function(fields: &mut Fields<'_>, kinds: &[&str], report: &mut Report) -> bool {
    let kind = fields.text("type", report);
    let is_function = kind.is_none_or(|kind| kinds.contains(&kind));
    if let Some(kind) = kind.filter(|_| !is_function) {
        let message = format!("a tool of type `{kind}` is run by the model's provider and is left out");
        report.warn(fields.path(), "provider_tool", message);
    }
    is_function
}

fn openai(mut fields: Fields<'_>, report: &mut Report) -> Option<Found> {
    if !is_function(&mut fields, &["function"], report) {
        return None;
    }
    let path = fields.path_of("function");
    let Some(function) = fields.object("function", report) else {
        report.fault(fields.path(), "field_missing", "`function` is missing");
        return None;
    };
    fields.warn_of_the_rest(report);
    let mut function = Fields::new(function, path);
    let described = described(&mut function, &["parameters"], report)?;
    function.warn_of_the_rest(report);
    Some(described.external(NOT_SAID))
}

fn openai_responses(mut fields: Fields<'_>, report: &mut Report) -> Option<Found> {
    if !is_function(&mut fields, &["function"], report) {
        return None;
    }
    let described = described(&mut fields, &["parameters"], report)?;
    fields.warn_of_the_rest(report);
    Some(described.external(NOT_SAID))
}

fn anthropic(mut fields: Fields<'_>, report: &mut Report) -> Option<Found> {
    if !is_function(&mut fields, &["custom"], report) {
        return None;
    }
    let described = described(&mut fields, &["input_schema"], report)?;
    fields.warn_of_the_rest(report);
    Some(described.external(NOT_SAID))
}

fn mcp(mut fields: Fields<'_>, report: &mut Report) -> Option<Found> {
    let described = described(&mut fields, &["inputSchema"], report)?;
    let title = fields.text("title", report).map(str::to_owned);
    let annotations = annotations(&mut fields, report);
    fields.warn_of_the_rest(report);
    let mut found = described.external("its MCP server is not named here; connect Bosun to that server instead");
    found.tool.display_name = title.or(annotations.title);
    found.tool.annotations = annotations.hints;
    Some(found)
}

/// A tool of ours: `{name, description, parameters}`, with what a client may add.
fn plain(mut fields: Fields<'_>, report: &mut Report) -> Option<Found> {
    let kind = fields.text("type", report);
    let mode = fields.text("executionMode", report);
    let described = described(&mut fields, &["parameters"], report)?;
    let annotations = annotations(&mut fields, report);
    let display_name = fields.text("displayName", report).map(str::to_owned);
    let version = fields.text("version", report).map(str::to_owned);
    let timeout = fields.duration("timeout", report);
    let cache_for = fields.duration("cache", report);
    let deprecated = fields.deprecation(report);
    fields.warn_of_the_rest(report);
    let mut found = match (kind, mode) {
        (Some("builtin"), _) => {
            let name = described.name.to_owned();
            let mut found = described.external("");
            found.tool.binding = Binding::Builtin { name };
            found.inside = Inside::AsBound;
            found
        }
        (_, Some("internal")) => {
            let message =
                format!("`{}` is run inside, but nothing says how; it is taken to be external", described.name);
            report.warn(&described.origin.path, "binding_unknown", message);
            described.external(NOT_SAID)
        }
        _ => described.external("the client that owns it runs it"),
    };
    found.tool.display_name = display_name.or(annotations.title);
    found.tool.annotations = annotations.hints;
    found.tool.version = version;
    found.tool.timeout = timeout;
    found.tool.cache_for = cache_for;
    found.tool.deprecated = deprecated;
    Some(found)
}

struct Hints {
    title: Option<String>,
    hints: Annotations,
}

/// MCP's `annotations`.
fn annotations(fields: &mut Fields<'_>, report: &mut Report) -> Hints {
    let path = fields.path_of("annotations");
    let Some(object) = fields.object("annotations", report) else {
        return Hints { title: None, hints: Annotations::default() };
    };
    let mut inner = Fields::new(object, path);
    let hints = Hints {
        title: inner.text("title", report).map(str::to_owned),
        hints: Annotations {
            read_only_hint: inner.boolean("readOnlyHint", report),
            destructive_hint: inner.boolean("destructiveHint", report),
            idempotent_hint: inner.boolean("idempotentHint", report),
            open_world_hint: inner.boolean("openWorldHint", report),
        },
    };
    inner.warn_of_the_rest(report);
    hints
}
