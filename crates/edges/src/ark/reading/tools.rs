//! The tools of a request: those that the client runs, and those of the agent that it picks.
//!
//! `externalTools` are the client's. So are entries of `tools` that say `executionMode: external`,
//! and `custom` ones that bring their own parameters and that the catalogue does not know. Every
//! other entry of `tools` picks one of the agent's by name.

use bosun_core::{
    Namespace, Tool,
    ceiling::TOOLS,
    schema::path::with_key,
    tool::{
        catalog::Selection,
        definition::{DefinitionCache, DefinitionFaults, Rules},
        toolset::ToolSources,
    },
};
use bosun_engine::{Engine, Registry};
use bosun_reading::{
    Fault, FaultClass, Field, FieldTable, Path, Report, spec,
    table::{duration_schema, object_schema, texts_schema},
};
use serde_json::{Value, json};

use super::{
    request::{refuse_unserved, refuse_unserved_field},
    tool_source,
};
use crate::{
    asking::compile,
    http::{
        error::clip,
        extract::JsonBody,
        report::{BodyFields, kind_of},
    },
};

#[derive(Debug)]
pub(crate) struct RequestTools {
    pub(crate) outside: Vec<Tool>,
    /// Only these of the agent's; all of them where absent.
    pub(crate) selected: Option<Vec<String>>,
    /// A further filter on those.
    pub(crate) filter: Option<Selection>,
    pub(crate) sources: ToolSources,
    /// The client sends tools, so it knows the RFC's view.
    pub(crate) speaks_rfc: bool,
}

/// The fields of a definition; `bosun_core::tool::definition` reads them.
const DEFINITION: FieldTable = &[
    Field::new("name", || json!({"type": "string", "minLength": 1, "maxLength": 128})),
    Field::new("description", || json!({"type": "string", "maxLength": 16_384})),
    Field::new("parameters", || json!({"type": "object", "description": "JSON Schema of an object"})),
    Field::new("type", || json!({"type": "string", "examples": ["custom", "function"]})),
    Field::new("executionMode", || json!({"enum": ["external", "internal"]})),
    Field::new("function", || json!({"type": "object", "description": "A definition as OpenAI has it"})),
    Field::new("annotations", || json!({"type": "object"})),
    Field::new("timeout", duration_schema),
    Field::new("onExpired", || json!({"enum": ["tell", "fail"]})),
    Field::new("cache", spec::cache_schema),
    Field::new("deprecated", || json!({})),
    Field::new("version", || json!({})),
    Field::new("displayName", || json!({})),
];

/// A definition of a tool, described.
pub(crate) fn definition_schema() -> Value {
    let mut schema = object_schema(DEFINITION, &[]);
    schema["anyOf"] = json!([{"required": ["name"]}, {"required": ["function"]}]);
    schema
}

/// An entry of `tools`, described: a definition, or one of the agent's tools by name.
pub(crate) fn selected_schema() -> Value {
    json!({"anyOf": [{"type": "string", "description": "The name of one of the agent's tools"}, definition_schema()]})
}

/// `toolFilter`, described: a [`Selection`].
pub(crate) fn filter_schema() -> Value {
    let names = || json!({"type": "array", "items": {"type": "string"}});
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "names": names(),
            "categories": names(),
            "providers": names(),
            "labels": texts_schema(),
            "readOnly": {"type": "boolean"},
            "text": {"type": "string"},
            "limit": {"type": "integer", "minimum": 0},
        },
    })
}

/// Fields of ARK's agent tools that an entry of a query cannot have.
const UNSERVED: &[(&str, &str)] = &[
    ("labelSelector", "select tools by their labels with `toolFilter`"),
    ("functions", "filters of results belong to the manifest of the agent or the tool"),
    ("partial", "preset parameters belong to the manifest of the agent"),
    ("approval", "whether calls wait for approval is set by the tool, its agent or the server"),
];

/// A definition and its path in the body.
type Placed = (Path, Value);

pub(crate) fn read(fields: &BodyFields<'_>, engine: &Engine, namespace: &Namespace) -> RequestTools {
    let mut speaks_rfc = fields.has("externalTools");
    let sources = tool_source::read(fields);
    let (mut outside, mut selected): (Vec<Placed>, _) = (Vec::new(), Vec::new());
    let items = fields.list("externalTools");
    if items.len() > TOOLS {
        too_many(fields, "externalTools", items.len());
    } else {
        fields.each_of("externalTools", items, |path, entry| outside.push((path, entry)));
    }
    let registry = engine.registry();
    let items = fields.list("tools");
    let count = items.len();
    fields.each_of("tools", items, |path, entry| {
        if outside.len() + selected.len() >= TOOLS {
            // Reported below, once.
        } else if is_outside(&entry, &registry, namespace) {
            speaks_rfc = true;
            outside.push((path, entry));
        } else {
            selected.extend(read_selected(fields, path, entry));
        }
    });
    if outside.len() + selected.len() >= TOOLS && count > TOOLS {
        too_many(fields, "tools", count);
    }
    let outside = check(outside, engine.definitions(Rules::Open), fields.report());
    if sources == ToolSources::Catalog && !outside.is_empty() {
        fields.report().note("`toolSource` is `ark`, so the tools of the request are not shown to the model");
    }
    let filter = read_filter(fields);
    let selected = Some(selected).filter(|selected| !selected.is_empty());
    RequestTools { outside, selected, filter, sources, speaks_rfc }
}

/// In a body that is longer than this, even small schemas are compiled off the runtime's workers: there may be a
/// thousand.
const LONG_BODY: usize = 64 * 1024;

/// Compiles the schemas of a body's tools off the runtime's workers, if they are expensive: [`read`] then finds them in
/// the cache. What is not a definition is left to [`read`], too.
pub(crate) async fn compile_ahead(engine: &Engine, body: &JsonBody) {
    let lists = [Some(body.value()), body.value().get("spec")].into_iter().flatten().flat_map(|fields| {
        ["externalTools", "tools"].into_iter().filter_map(|name| fields.get(name).and_then(Value::as_array))
    });
    let expensive = compile::expensive(engine, lists.flatten(), body.len() > LONG_BODY);
    if !expensive.is_empty() {
        engine.compile_ahead(expensive).await;
    }
}

/// Selects the agent's tools by their properties. The client's own are all used: otherwise it would not send them.
fn read_filter(fields: &BodyFields<'_>) -> Option<Selection> {
    match serde_json::from_value(fields.get("toolFilter")?) {
        Ok(selection) => Some(selection),
        Err(error) => {
            let message = format!(
                "is not a filter: {error}; it may have `names`, `categories`, `providers`, `labels`, `readOnly`, \
                 `text` and `limit`"
            );
            fields.reject("toolFilter", "invalid_filter", message);
            None
        }
    }
}

/// A list of tools that is too long is not read.
fn too_many(fields: &BodyFields<'_>, name: &str, count: usize) {
    let message = format!("has {count} entries; {TOOLS} are the most");
    fields.refuse(FaultClass::ToolDefinition, name, "too_big", message);
}

fn is_outside(entry: &Value, registry: &Registry, namespace: &Namespace) -> bool {
    match entry.get("executionMode").and_then(Value::as_str) {
        Some("external") => return true,
        Some(_) => return false,
        None => {}
    }
    let custom = entry.get("type").and_then(Value::as_str) == Some("custom");
    let known =
        || entry.get("name").and_then(Value::as_str).is_some_and(|name| registry.tool(namespace, name).is_some());
    custom && entry.get("parameters").is_some_and(|parameters| !parameters.is_null()) && !known()
}

/// The name of an agent's tool that the client picks.
fn read_selected(fields: &BodyFields<'_>, path: Path, entry: Value) -> Option<String> {
    let entry = match entry {
        Value::String(name) => return Some(name),
        entry @ Value::Object(_) => fields.at(path, entry)?.with_table(DEFINITION),
        other => {
            let message = format!("must be an object or a name, not {}", kind_of(&other));
            fields.report().fault(path, "wrong_type", message);
            return None;
        }
    };
    refuse_unserved(&entry, UNSERVED);
    if let Some(other) = entry.text("executionMode").filter(|mode| mode != "internal") {
        let message = format!("must be `external` or `internal`, not `{}`", clip(&other));
        entry.reject("executionMode", "unknown_mode", message);
    }
    let missing = !entry.has("name");
    let name = entry.text("name");
    if missing {
        entry.reject("name", "missing", "is missing");
    }
    // The catalogue has the rest of the definition.
    for known in DEFINITION {
        let _ = entry.discard(known.name);
    }
    entry.finish();
    name
}

/// Checks the client's definitions against the open rules, and reports each fault at its path in the body.
fn check(definitions: Vec<Placed>, known: &DefinitionCache, report: &Report) -> Vec<Tool> {
    if definitions.is_empty() {
        return Vec::new();
    }
    let (paths, definitions): (Vec<Path>, Vec<Value>) = definitions.into_iter().unzip();
    for (path, definition) in paths.iter().zip(&definitions) {
        warn_of_unknown(path, definition, report);
    }
    match known.check(&Value::Array(definitions)) {
        Ok(tools) => tools,
        Err(DefinitionFaults { faults, .. }) => {
            report.omit(faults.omitted());
            for fault in faults.into_listed() {
                report.add(Fault { path: path_in_body(&paths, &fault.path), ..fault });
            }
            Vec::new()
        }
    }
}

/// Fields of a definition that the checker does not read.
fn warn_of_unknown(path: &Path, definition: &Value, report: &Report) {
    let members = definition.as_object().into_iter().flatten();
    let is_unknown =
        |name: &String, value: &Value| !DEFINITION.iter().any(|field| field.name == name) && !value.is_null();
    for (name, value) in members.filter(|(name, value)| is_unknown(name, value)) {
        let path = with_key(path.as_str(), name);
        match UNSERVED.iter().find(|(unserved, _)| unserved == name) {
            Some((_, advice)) => refuse_unserved_field(path.into(), value, advice, report),
            None => report.note(format!("unknown field `{}` was ignored", clip(&path))),
        }
    }
}

/// `[3].name` in the list that was checked is `tools[1].name` to the client.
fn path_in_body(paths: &[Path], path: &Path) -> Path {
    let found = path.as_str().strip_prefix('[').and_then(|rest| rest.split_once(']')).and_then(|(index, rest)| {
        let path = paths.get(index.parse::<usize>().ok()?)?;
        Some(path.join(rest))
    });
    found.unwrap_or_else(|| "externalTools".into())
}
