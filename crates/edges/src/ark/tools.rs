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
use serde_json::Value;

use super::request::{refuse_unserved, refuse_unserved_field};
use crate::http::{
    error::{Code, clip},
    extract::JsonBody,
    json::{Findings, Object, kind_of},
};

#[derive(Debug)]
pub(super) struct Tools {
    pub(super) outside: Vec<Tool>,
    /// Only these of the agent's; all of them where absent.
    pub(super) selected: Option<Vec<String>>,
    /// And of those only these.
    pub(super) filter: Option<Selection>,
    pub(super) mode: Mode,
    /// The client brings tools, so it knows the RFC's words.
    pub(super) speaks_rfc: bool,
}

/// What a definition may have; the checker reads them.
const DEFINITION: &[&str] = &[
    "name",
    "description",
    "parameters",
    "type",
    "executionMode",
    "function",
    "annotations",
    "timeout",
    "cache",
    "deprecated",
    "version",
    "displayName",
];

/// Fields of ARK's agent tools that an entry of a query cannot have.
const UNSERVED: &[(&str, &str)] = &[
    ("labelSelector", "tools cannot be selected by label; name them"),
    ("functions", "results are not transformed by this version"),
    ("partial", "parameters cannot be fixed by this version; say them in the input"),
    ("approval", "this version asks nobody for approval"),
];

/// A definition and where it stood.
type Placed = (String, Value);

pub(super) fn read(fields: &mut Object, engine: &Engine, namespace: &Namespace, findings: &mut Findings) -> Tools {
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
            // Said below, once.
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
    Tools { outside, selected, filter, mode, speaks_rfc }
}

/// Of a body that is longer than this, even small schemas are not compiled on a worker: there may be a thousand.
const LONG_BODY: usize = 64 * 1024;

/// Compiles the parameters of tools that a body brings, if that is more than a worker should do: [`read`] then finds
/// them compiled. What is not a definition is left to [`read`], too.
pub(super) async fn compile_ahead(engine: &Engine, body: &JsonBody) {
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
fn read_filter(fields: &mut Object, findings: &mut Findings) -> Option<Selection> {
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
fn too_many(path: &str, count: usize, findings: &mut Findings) {
    let message = format!("has {count} entries; {TOOLS} are the most");
    findings.refuse(Code::InvalidToolDefinitions, path, "too_big", message);
}

fn read_mode(fields: &mut Object, findings: &mut Findings) -> Mode {
    // Without a word from the client, both kinds are shown: whoever sends tools wants them used.
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
fn read_selected(path: String, entry: Value, findings: &mut Findings) -> Option<String> {
    let mut entry = match entry {
        Value::String(name) => return Some(name),
        entry @ Value::Object(_) => Object::at(path, entry, findings)?,
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
    // What else a definition says is the catalogue's to say.
    for known in DEFINITION {
        let _ = entry.take(known);
    }
    entry.finish(findings);
    name
}

/// Holds all definitions of the client against the open rules; their faults get the places that the
/// client knows.
fn check(definitions: Vec<Placed>, known: &DefinitionCache, findings: &mut Findings) -> Vec<Tool> {
    if definitions.is_empty() {
        return Vec::new();
    }
    let (paths, definitions): (Vec<String>, Vec<Value>) = definitions.into_iter().unzip();
    for (path, definition) in paths.iter().zip(&definitions) {
        look_for_strangers(path, definition, findings);
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
fn look_for_strangers(path: &str, definition: &Value, findings: &mut Findings) {
    let members = definition.as_object().into_iter().flatten();
    let is_strange = |name: &String, value: &Value| !DEFINITION.contains(&name.as_str()) && !value.is_null();
    for (name, value) in members.filter(|(name, value)| is_strange(name, value)) {
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
