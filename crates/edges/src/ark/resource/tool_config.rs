//! A tool as `tool-config.json` has it, in the body of a request.
//!
//! An entry of that file is a second form of a tool's body. Here it becomes the `spec` of the manifest that says the same;
//! the reader of manifests checks the values, as it does those of every other body. The file itself is read by
//! `convert::tool_config`, which has the same rules.

use std::collections::BTreeMap;

use bosun_core::tool::{Confirm, Nango};
use bosun_reading::{
    spec,
    tool::{CATEGORY, DEPRECATED, LC_NAME, VERSION, deprecation},
};
use serde_json::{Map, Value, json};

use crate::http::{error::clip, report::BodyFields};

/// The provider of tools that need none.
const META: &str = "__META__";
/// The tool that steers a conversation, and is run by the server.
const MISSING_PARAMETERS: &str = "request_missing_parameters";
/// Fields that only this form has. ARK's has a `type`, next to them or in its `spec`.
const OWN: &[&str] = &["providerConfigKey", "source", "cache_model", "parameters", "category", "display_name"];
/// The spelling of each hint here, and in a manifest.
const HINTS: [(&str, &str); 4] = [
    ("read_only", "readOnlyHint"),
    ("destructive", "destructiveHint"),
    ("idempotent", "idempotentHint"),
    ("open_world", "openWorldHint"),
];

/// What an entry says, as a manifest.
#[derive(Debug, Default)]
pub(super) struct ToolEntry {
    pub(super) spec: Map<String, Value>,
    /// What a `spec` has no field for.
    pub(super) annotations: BTreeMap<String, String>,
}

/// Whether a body has this form.
pub(super) fn is_meant(fields: &BodyFields<'_>) -> bool {
    !fields.has("type") && !fields.has("spec") && OWN.iter().any(|name| fields.has(name))
}

/// Reads an entry. `name` is the tool's.
pub(super) fn read(fields: BodyFields<'_>, name: &str) -> ToolEntry {
    let fields = fields.with_table(spec::TOOL_CONFIG);
    let mut entry = ToolEntry::default();
    for (field, annotation) in [("category", CATEGORY), ("version", VERSION), ("lc_name", LC_NAME)] {
        entry.annotations.extend(fields.text(field).map(|text| (annotation.to_owned(), text)));
    }
    if let Some(written) = fields.get("deprecated").map(|value| value.to_string()) {
        match deprecation(&written) {
            Ok(_) => drop(entry.annotations.insert(DEPRECATED.to_owned(), written)),
            Err(expected) => fields.reject("deprecated", "bad_value", expected),
        }
    }
    let spec = &mut entry.spec;
    let timeout = fields.get("timeout");
    let (confirm, approval_timeout) = (confirm(&fields), fields.get("approval_timeout"));
    if let Some((kind, mut block)) = binding(&fields, name) {
        block.extend(timeout.map(|timeout| ("timeout".to_owned(), timeout)));
        let is_action = block.get("source").is_some_and(|source| source == "action");
        spec.insert("type".to_owned(), kind.into());
        if kind != "external" || !block.is_empty() {
            spec.insert(kind.to_owned(), block.into());
        }
        let required = match confirm {
            Some(Confirm::Always) => Some(true),
            Some(Confirm::Never) => Some(false),
            // Actions wait for approval by default.
            Some(Confirm::Auto) | None => (is_action && approval_timeout.is_some()).then_some(true),
        };
        if let Some(required) = required {
            let mut approval = Map::from_iter([("required".to_owned(), required.into())]);
            approval.extend(approval_timeout.map(|timeout| ("timeout".to_owned(), timeout)));
            spec.insert("approval".to_owned(), approval.into());
        }
    }
    let mut annotations: Map<String, Value> =
        HINTS.into_iter().filter_map(|(field, hint)| Some((hint.to_owned(), fields.get(field)?))).collect();
    annotations.extend(fields.get("display_name").map(|title| ("title".to_owned(), title)));
    if !annotations.is_empty() {
        spec.insert("annotations".to_owned(), annotations.into());
    }
    for (field, name) in [("description", "description"), ("parameters", "inputSchema"), ("cache", "cache")] {
        spec.extend(fields.get(field).map(|value| (name.to_owned(), value)));
    }
    // An unknown field is left to the reader of manifests, as in every other body.
    for (name, value) in fields.into_members() {
        spec.entry(name).or_insert(value);
    }
    entry
}

fn confirm(fields: &BodyFields<'_>) -> Option<Confirm> {
    let written = fields.text("confirm")?;
    let confirm = Confirm::parse(&written);
    if confirm.is_none() {
        fields.reject("confirm", "bad_value", format!("is `never`, `always` or `auto`, not `{}`", clip(&written)));
    }
    confirm
}

/// The type of the tool, and the block of its `spec` with that name.
fn binding(fields: &BodyFields<'_>, name: &str) -> Option<(&'static str, Map<String, Value>)> {
    let provider = fields.text("providerConfigKey").map(|key| key.trim().to_owned());
    let provider = provider.filter(|key| !key.is_empty() && key != META);
    let (source, action) = (fields.text("source"), fields.text("action"));
    let (model, entity_aliases) = (fields.text("cache_model"), fields.get("entity_aliases"));
    let Some(provider) = provider else {
        return without_provider(fields, name, source.as_deref());
    };
    let mut block = Map::from_iter([("provider".to_owned(), provider.into())]);
    match source.as_deref() {
        // The default is `action`.
        None | Some("action") => {
            block.insert("source".to_owned(), "action".into());
            block.insert("action".to_owned(), action.unwrap_or_else(|| Nango::default_action(name)).into());
            let unused = [("cache_model", model.is_some()), ("entity_aliases", entity_aliases.is_some())];
            unused.into_iter().filter(|(_, is_there)| *is_there).for_each(|(field, _)| unused_field(fields, field));
        }
        Some("cache") => {
            let Some(model) = model else {
                let message = "is missing: the tool reads from the cache and does not say which model";
                fields.reject("cache_model", "cache_model_missing", message);
                return None;
            };
            block.insert("source".to_owned(), "cache".into());
            block.insert("model".to_owned(), model.into());
            block.extend(entity_aliases.map(|aliases| ("entityAliases".to_owned(), aliases)));
            if action.is_some() {
                unused_field(fields, "action");
            }
        }
        Some(other) => {
            let message = format!("is `{}`, which is neither `cache` nor `action`", clip(other));
            fields.reject("source", "source_unknown", message);
            return None;
        }
    }
    Some(("nango", block))
}

fn unused_field(fields: &BodyFields<'_>, name: &str) {
    fields.report().note(format!("`{name}` was ignored: it has no meaning for the tool's `source`"));
}

/// Tools that steer the conversation need no provider; any other is run by its client.
fn without_provider(
    fields: &BodyFields<'_>,
    name: &str,
    source: Option<&str>,
) -> Option<(&'static str, Map<String, Value>)> {
    if name == MISSING_PARAMETERS {
        let builtin = json!({"name": name});
        return Some(("builtin", builtin.as_object().cloned().unwrap_or_default()));
    }
    if source.is_some() {
        let message = "is missing: the tool has a `source`, which is an integration's";
        fields.reject("providerConfigKey", "provider_missing", message);
        return None;
    }
    fields.report().note(format!("`{}` names no provider: a client has to run it", clip(name)));
    Some(("external", Map::new()))
}
