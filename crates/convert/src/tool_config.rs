//! `tool-config.json`: tools as configuration, run through Nango.
//!
//! `{"tools": […]}`, or the older `{"Category": […]}`. It is a file format of our own, so an unknown field is a fault.
//! An entry is read by [`bosun_reading::tool_config`]. The behaviour of a tool is data: `source`, `action` and
//! `cache_model`, where `{entityType}` in a model is replaced by an enum of the tool's input. What tools of one provider
//! have in common may be in `providers`, in the same file or in a [`PROVIDERS_FILE`] beside it.

use std::cell::OnceCell;

use bosun_core::{
    Binding, Tool, duration,
    tool::{Nango, missing::REQUEST_MISSING_PARAMETERS},
};
use bosun_reading::{Syntax, tool_config};
use serde_json::{Map, Value, json};

use crate::{
    FolderFiles, Warning,
    document::{Document, Path},
    fields::{Fields, owned, write_cache},
    format::is_by_category,
    found::{Found, InsideTool, Report, ToolOrigin},
};

/// The file with the settings of providers, for files that have none of their own.
const PROVIDERS_FILE: &str = "providers.json";

/// The settings of providers that the tools of one document have in common.
struct Providers<'a> {
    own: Map<String, Value>,
    beside: &'a OnceCell<Map<String, Value>>,
    files: Option<&'a dyn FolderFiles>,
}

impl Providers<'_> {
    /// The model, or the template of models, that tools of a provider read.
    fn cache_model(&self, provider: &str, at: &Path, report: &Report) -> Option<String> {
        let model_in =
            |settings: &Map<String, Value>| Some(settings.get(provider)?.get("cache_model")?.as_str()?.to_owned());
        model_in(&self.own).or_else(|| model_in(self.beside.get_or_init(|| read_beside(self.files, at, report))))
    }
}

/// The settings in the file beside the document. One that does not exist has none.
fn read_beside(files: Option<&dyn FolderFiles>, at: &Path, report: &Report) -> Map<String, Value> {
    let Some(text) = files.and_then(|files| files.read(PROVIDERS_FILE).ok()) else { return Map::new() };
    let settings = match Document::read(&text) {
        Ok(document) => document.parts().next().and_then(|(_, value)| value.get("providers")?.as_object().cloned()),
        Err(error) => {
            report.warn(at, "providers_unreadable", format!("`{PROVIDERS_FILE}` cannot be read: {error}"));
            return Map::new();
        }
    };
    settings.unwrap_or_else(|| {
        report.warn(at, "providers_unreadable", format!("`{PROVIDERS_FILE}` has no object `providers`"));
        Map::new()
    })
}

pub(crate) fn read(document: &Document<'_>, files: Option<&dyn FolderFiles>, report: &Report) -> Vec<Found> {
    let mut tools = Vec::new();
    let beside = OnceCell::new();
    for (path, value) in document.parts() {
        read_config(value, path, Providers { own: Map::new(), beside: &beside, files }, &mut tools, report);
    }
    tools
}

fn read_config(value: &Value, path: Path, mut providers: Providers<'_>, tools: &mut Vec<Found>, report: &Report) {
    match value {
        Value::Array(list) => read_list(list, &path, None, &providers, tools, report),
        Value::Object(object) if object.contains_key("tools") => {
            let Some(fields) = report.fields_at(value, path, "a tool-config") else { return };
            let own = fields.fields("providers").and_then(|providers| providers.node().as_object());
            providers.own = own.cloned().unwrap_or_default();
            let list = fields.list("tools");
            fields.ignore(&["$schema"]);
            for (key, why) in [("beats", "they are not tools"), ("strict_optional", "`required` alone decides")] {
                if fields.get(key).is_some() {
                    report.warn(&fields.path_of(key), "field_dropped", format!("`{key}` is not used: {why}"));
                }
            }
            read_list(list, &fields.path_of("tools"), None, &providers, tools, report);
            fields.finish();
        }
        Value::Object(object) if is_by_category(object) => {
            for (category, list) in object {
                let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
                read_list(list, &path.key(category), Some(category), &providers, tools, report);
            }
        }
        // One tool, as examples show it.
        Value::Object(object) if object.get("name").is_some_and(Value::is_string) => {
            let Some(fields) = report.fields_at(value, path, "a tool") else { return };
            let faults = report.fault_count();
            let found = read_tool(fields, None, &providers, report);
            tools.extend(found.filter(|_| report.fault_count() == faults));
        }
        other => {
            let message =
                format!("a tool-config is an object with a list of `tools`, not {}", Syntax::Json.kind_of(other));
            report.fault(&path, "not_a_tool_config", message);
        }
    }
}

fn read_list(
    list: &[Value],
    path: &Path,
    category: Option<&str>,
    providers: &Providers<'_>,
    tools: &mut Vec<Found>,
    report: &Report,
) {
    for (index, entry) in list.iter().enumerate() {
        let Some(fields) = report.fields_at(entry, path.index(index), "a tool") else { continue };
        let faults = report.fault_count();
        let found = read_tool(fields, category, providers, report);
        tools.extend(found.filter(|_| report.fault_count() == faults));
    }
}

fn read_tool(fields: Fields<'_>, category: Option<&str>, providers: &Providers<'_>, report: &Report) -> Option<Found> {
    let name = fields.required_text("name", "").map(|text| text.value);
    fields.require("description", "");
    let parameters_path = fields.path_of("parameters");
    let parameters = fields.fields("parameters").map(|parameters| parameters.node().clone());
    let labels = owned(fields.texts("labels"));
    let default_model = |provider: &str| providers.cache_model(provider, fields.path(), report);
    let entry = tool_config::read(&fields, name.unwrap_or_default(), default_model);
    fields.finish();

    let has_parameters = parameters.is_some();
    let parameters = parameters.unwrap_or_else(|| json!({"type": "object", "properties": {}}));
    let mut tool = Tool::new(name?, entry.description?, parameters, entry.binding?);
    tool.display_name = entry.display_name;
    tool.confirm = entry.confirm;
    tool.approval_timeout = entry.approval_timeout;
    tool.lc_name = entry.lc_name;
    tool.category = entry.category.or_else(|| category.map(str::to_owned));
    tool.version = entry.version;
    tool.timeout = entry.timeout;
    tool.set_cache(entry.cache);
    tool.annotations = entry.annotations;
    tool.deprecated = entry.deprecated;
    tool.labels = labels;
    let is_external = tool.is_external();
    let origin = ToolOrigin { path: fields.path().clone(), parameters: has_parameters.then_some(parameters_path) };
    let mut found = Found::new(tool, origin);
    if is_external {
        found.inside = InsideTool::Never("it names no provider".to_owned());
    }
    Some(found)
}

/// Tools as a `tool-config.json`.
pub(crate) fn write(tools: &[Found], warnings: &mut Vec<Warning>) -> Value {
    let entries: Vec<Value> = tools.iter().filter_map(|found| write_tool(found, warnings)).collect();
    json!({"tools": entries})
}

fn write_tool(found: &Found, warnings: &mut Vec<Warning>) -> Option<Value> {
    let tool = &found.tool;
    let mut entry = Map::new();
    let mut put = |key: &str, value: Value| entry.insert(key.to_owned(), value);
    put("name", tool.name.as_str().into());
    put("description", tool.description.as_str().into());
    for (key, value) in [
        ("display_name", &tool.display_name),
        ("lc_name", &tool.lc_name),
        ("category", &tool.category),
        ("version", &tool.version),
    ] {
        if let Some(value) = value {
            put(key, value.as_str().into());
        }
    }
    match &tool.binding {
        Binding::Nango(Nango::Action { provider, action }) => {
            put("providerConfigKey", provider.as_str().into());
            put("source", "action".into());
            put("action", action.as_str().into());
        }
        Binding::Nango(Nango::Cache { provider, model, entity_aliases }) => {
            put("providerConfigKey", provider.as_str().into());
            put("source", "cache".into());
            put("cache_model", model.as_str().into());
            if !entity_aliases.is_empty() {
                put("entity_aliases", json!(entity_aliases));
            }
        }
        Binding::External => {}
        Binding::Builtin { name } if name == REQUEST_MISSING_PARAMETERS && *name == tool.name => {}
        _ => {
            let message =
                format!("`{}` cannot move: a tool-config knows only tools of Nango and of clients", tool.name);
            warnings.push(Warning { path: found.origin.path.to_string(), code: "cannot_move", message });
            return None;
        }
    }
    if !tool.labels.is_empty() {
        put("labels", json!(tool.labels));
    }
    let hints = tool.annotations;
    for (key, hint) in [
        ("read_only", hints.read_only_hint),
        ("destructive", hints.destructive_hint),
        ("idempotent", hints.idempotent_hint),
        ("open_world", hints.open_world_hint),
    ] {
        if let Some(hint) = hint {
            put(key, hint.into());
        }
    }
    if let Some(confirm) = tool.confirm {
        put("confirm", confirm.as_str().into());
    }
    for (key, time) in [("timeout", tool.timeout), ("approval_timeout", tool.approval_timeout)] {
        if let Some(time) = time {
            put(key, duration::format(time).into());
        }
    }
    if let Some(cache) = write_cache(tool) {
        put("cache", cache);
    }
    if let Some(deprecated) = &tool.deprecated {
        put("deprecated", json!(deprecated));
    }
    put("parameters", tool.parameters.as_ref().clone());
    Some(entry.into())
}
