//! The tools of a request: those that the client runs, and those of the agent that it picks.
//!
//! `externalTools` are the client's. So are entries of `tools` that say `executionMode: external`,
//! and `custom` ones that bring their own parameters and that the catalogue does not know. Every
//! other entry of `tools` picks one of the agent's by name.

use std::sync::Arc;

use bosun_core::{
    Namespace, Tool,
    ceiling::TOOLS,
    schema::{self, path::with_key},
    tool::{
        catalog::Selection,
        definition::{DefinitionCache, DefinitionFault},
        toolset::Mode,
    },
};
use bosun_engine::{Engine, Registry};
use serde_json::{Value, json};

use super::{
    fields::{duration_schema, object_schema, texts_schema},
    request::{refuse_unserved, refuse_unserved_field},
};
use crate::http::{
    error::{Code, clip},
    extract::JsonBody,
    json::{BodyField, FieldTable, Object, RequestFindings, kind_of},
};

#[derive(Debug)]
pub(crate) struct RequestTools {
    pub(crate) outside: Vec<Tool>,
    /// Only these of the agent's; all of them where absent.
    pub(crate) selected: Option<Vec<String>>,
    /// And of those only these.
    pub(crate) filter: Option<Selection>,
    pub(crate) mode: Mode,
    /// The client sends tools, so it knows the RFC's view.
    pub(crate) speaks_rfc: bool,
}

/// The fields of a definition; `bosun_core::tool::definition` reads them.
const DEFINITION: FieldTable = &[
    BodyField { name: "name", schema: || json!({"type": "string", "minLength": 1, "maxLength": 128}) },
    BodyField { name: "description", schema: || json!({"type": "string", "maxLength": 16_384}) },
    BodyField { name: "parameters", schema: || json!({"type": "object", "description": "JSON Schema of an object"}) },
    BodyField { name: "type", schema: || json!({"type": "string", "examples": ["custom", "function"]}) },
    BodyField { name: "executionMode", schema: || json!({"enum": ["external", "internal"]}) },
    BodyField {
        name: "function",
        schema: || json!({"type": "object", "description": "A definition as OpenAI has it"}),
    },
    BodyField { name: "annotations", schema: || json!({"type": "object"}) },
    BodyField { name: "timeout", schema: duration_schema },
    BodyField { name: "cache", schema: || json!({}) },
    BodyField { name: "deprecated", schema: || json!({}) },
    BodyField { name: "version", schema: || json!({}) },
    BodyField { name: "displayName", schema: || json!({}) },
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
    ("labelSelector", "tools cannot be selected by label; name them"),
    ("functions", "results are not transformed by this version"),
    ("partial", "parameters cannot be fixed by this version; say them in the input"),
    ("approval", "this version has no approvals"),
];

/// A definition and its path in the body.
type Placed = (String, Value);

pub(crate) fn read(
    fields: &mut Object,
    engine: &Engine,
    namespace: &Namespace,
    findings: &mut RequestFindings,
) -> RequestTools {
    let mut speaks_rfc = fields.has("externalTools");
    let mode = read_mode(fields, findings);
    let (mut outside, mut selected): (Vec<Placed>, _) = (Vec::new(), Vec::new());
    let path = fields.path_of("externalTools");
    let items = fields.list("externalTools", findings).unwrap_or_default();
    if items.len() > TOOLS {
        too_many(&path, items.len(), findings);
    } else {
        findings.each(&path, items, |_, path, entry| outside.push((path, entry)));
    }
    let (path, registry) = (fields.path_of("tools"), engine.registry());
    let items = fields.list("tools", findings).unwrap_or_default();
    let count = items.len();
    findings.each(&path, items, |findings, place, entry| {
        if outside.len() + selected.len() >= TOOLS {
            // Reported below, once.
        } else if is_outside(&entry, &registry, namespace) {
            speaks_rfc = true;
            outside.push((place, entry));
        } else {
            selected.extend(read_selected(place, entry, findings));
        }
    });
    if outside.len() + selected.len() >= TOOLS && count > TOOLS {
        too_many(&path, count, findings);
    }
    let outside = check(outside, engine.definitions(), findings);
    if mode == Mode::Ark && !outside.is_empty() {
        findings.warn("`toolSource` is `ark`, so the tools of the request are not shown to the model");
    }
    let filter = read_filter(fields, findings);
    let selected = Some(selected).filter(|selected| !selected.is_empty());
    RequestTools { outside, selected, filter, mode, speaks_rfc }
}

/// Of a body that is longer than this, even small schemas are not compiled on a worker: there may be a thousand.
const LONG_BODY: usize = 64 * 1024;

/// Compiles the schemas of a body's tools off the runtime's workers, if they are expensive: [`read`] then finds them in
/// the cache. What is not a definition is left to [`read`], too.
pub(crate) async fn compile_ahead(engine: &Engine, body: &JsonBody) {
    let lists = [Some(body.value()), body.value().get("spec")].into_iter().flatten().flat_map(|fields| {
        ["externalTools", "tools"].into_iter().filter_map(|name| fields.get(name).and_then(Value::as_array))
    });
    let parameters: Vec<&Value> = lists
        .flatten()
        .take(TOOLS)
        .filter_map(|entry| entry.get("function").filter(|inner| inner.is_object()).unwrap_or(entry).get("parameters"))
        .filter(|parameters| parameters.is_object())
        .collect();
    let is_long = body.len() > LONG_BODY;
    let is_heavy = |parameters: &&Value| (is_long || !schema::is_light(parameters)) && !engine.has_compiled(parameters);
    if parameters.iter().any(is_heavy) {
        engine.compile_ahead(parameters.into_iter().map(|parameters| Arc::new(parameters.clone())).collect()).await;
    }
}

/// Which of the agent's tools are wanted, by what they are. The client's own are all wanted, or it would
/// not send them.
fn read_filter(fields: &mut Object, findings: &mut RequestFindings) -> Option<Selection> {
    let path = fields.path_of("toolFilter");
    let value = fields.take("toolFilter")?;
    match serde_json::from_value(value) {
        Ok(selection) => Some(selection),
        Err(error) => {
            let message = format!(
                "is not a filter: {error}; it may have `names`, `categories`, `providers`, `labels`, `readOnly`, \
                 `text` and `limit`"
            );
            findings.fault(path, "invalid_filter", message);
            None
        }
    }
}

/// A list of tools that is too long is not read.
fn too_many(path: &str, count: usize, findings: &mut RequestFindings) {
    let message = format!("has {count} entries; {TOOLS} are the most");
    findings.refuse(Code::InvalidToolDefinitions, path, "too_big", message);
}

fn read_mode(fields: &mut Object, findings: &mut RequestFindings) -> Mode {
    // By default both kinds are shown: a client that sends tools wants them used.
    let Some(text) = fields.text("toolSource", findings) else { return Mode::Hybrid };
    let (mode, warning) = Mode::parse(&text);
    if let Some(warning) = warning {
        findings.warn(warning);
    }
    mode
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
fn read_selected(path: String, entry: Value, findings: &mut RequestFindings) -> Option<String> {
    let mut entry = match entry {
        Value::String(name) => return Some(name),
        entry @ Value::Object(_) => Object::at(path, entry, findings)?.with_fields(DEFINITION),
        other => {
            findings.fault(path, "wrong_type", format!("must be an object or a name, not {}", kind_of(&other)));
            return None;
        }
    };
    refuse_unserved(&mut entry, UNSERVED, findings);
    let path = entry.path_of("executionMode");
    if let Some(other) = entry.text("executionMode", findings).filter(|mode| mode != "internal") {
        findings.fault(path, "unknown_mode", format!("must be `external` or `internal`, not `{}`", clip(&other)));
    }
    let (missing, path) = (!entry.has("name"), entry.path_of("name"));
    let name = entry.text("name", findings);
    if missing {
        findings.fault(path, "missing", "is missing");
    }
    // The catalogue has the rest of the definition.
    for known in DEFINITION {
        let _ = entry.discard(known.name);
    }
    entry.finish(findings);
    name
}

/// Holds all definitions of the client against the open rules; their faults get the places that the
/// client knows.
fn check(definitions: Vec<Placed>, known: &DefinitionCache, findings: &mut RequestFindings) -> Vec<Tool> {
    if definitions.is_empty() {
        return Vec::new();
    }
    let (paths, definitions): (Vec<String>, Vec<Value>) = definitions.into_iter().unzip();
    for (path, definition) in paths.iter().zip(&definitions) {
        warn_of_unknown(path, definition, findings);
    }
    match known.check(&Value::Array(definitions)) {
        Ok(tools) => tools,
        Err(faults) => {
            findings.omit(faults.omitted);
            for fault in faults.faults {
                let path = place(&paths, &fault);
                findings.refuse(Code::InvalidToolDefinitions, path, fault.code, fault.message);
            }
            Vec::new()
        }
    }
}

/// Fields of a definition that the checker does not read.
fn warn_of_unknown(path: &str, definition: &Value, findings: &mut RequestFindings) {
    let members = definition.as_object().into_iter().flatten();
    let is_unknown =
        |name: &String, value: &Value| !DEFINITION.iter().any(|field| field.name == name) && !value.is_null();
    for (name, value) in members.filter(|(name, value)| is_unknown(name, value)) {
        let path = with_key(path, name);
        match UNSERVED.iter().find(|(unserved, _)| unserved == name) {
            Some((_, advice)) => refuse_unserved_field(path, value, advice, findings),
            None => findings.warn(format!("unknown field `{}` was ignored", clip(&path))),
        }
    }
}

/// `[3].name` in the list that was checked is `tools[1].name` to the client.
fn place(paths: &[String], fault: &DefinitionFault) -> String {
    let found = fault.path.strip_prefix('[').and_then(|rest| rest.split_once(']')).and_then(|(index, rest)| {
        let path = paths.get(index.parse::<usize>().ok()?)?;
        Some(format!("{path}{rest}"))
    });
    found.unwrap_or_else(|| "externalTools".to_owned())
}
