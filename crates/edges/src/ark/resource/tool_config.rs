//! A tool as `tool-config.json` has it, in the body of a request.
//!
//! An entry of that file is a second form of a tool's body. [`bosun_reading::tool_config`] reads it; here it becomes the
//! `spec` of the manifest that says the same, with the values as they were written.

use std::collections::BTreeMap;

use bosun_core::{
    Binding,
    tool::{Confirm, Nango},
};
use bosun_reading::{
    Path, spec,
    tool::{CATEGORY, DEPRECATED, LC_NAME, VERSION},
    tool_config,
};
use serde_json::{Map, Value, json};

use crate::http::report::BodyFields;

/// Fields that only this form has. ARK's has a `type`, next to them or in its `spec`.
const OWN: &[&str] = &["providerConfigKey", "source", "cache_model", "parameters", "category", "display_name"];

/// What an entry says, as a manifest.
#[derive(Debug, Default)]
pub(super) struct EntryManifest {
    pub(super) spec: Map<String, Value>,
    /// What a `spec` has no field for.
    pub(super) annotations: BTreeMap<String, String>,
}

/// Whether a body has this form.
pub(super) fn is_meant(fields: &BodyFields<'_>) -> bool {
    !fields.has("type") && !fields.has("spec") && OWN.iter().any(|name| fields.has(name))
}

/// How much of a tool an entry describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryScope {
    /// All of it.
    Whole,
    /// What is to be changed; the rest stays.
    Change,
}

/// Reads an entry. `name` is the tool's.
pub(super) fn read(fields: BodyFields<'_>, name: &str, scope: EntryScope) -> EntryManifest {
    let report = fields.report();
    let body = Value::Object(fields.into_members());
    let fields = report.fields_at(&body, Path::root(), "the body");
    let entry = fields.map(|fields| {
        let fields = fields.with_table(spec::TOOL_CONFIG);
        match scope {
            EntryScope::Whole => tool_config::read(&fields, name, |_| None),
            EntryScope::Change => tool_config::read_change(&fields, name),
        }
    });
    let (Some(entry), Value::Object(mut members)) = (entry, body) else { return EntryManifest::default() };
    let mut take = |field: &str| members.shift_remove(field).filter(|value| !value.is_null());
    let mut manifest = EntryManifest::default();
    for (annotation, text) in [(CATEGORY, entry.category), (VERSION, entry.version), (LC_NAME, entry.lc_name)] {
        manifest.annotations.extend(text.map(|text| (annotation.to_owned(), text)));
    }
    manifest.annotations.extend(take("deprecated").map(|written| (DEPRECATED.to_owned(), written.to_string())));
    let spec = &mut manifest.spec;
    let (timeout, approval_timeout) = (take("timeout"), take("approval_timeout"));
    if let Some(binding) = &entry.binding {
        let kind = binding.kind().as_str();
        let mut block = block(binding);
        block.extend(timeout.map(|timeout| ("timeout".to_owned(), timeout)));
        spec.insert("type".to_owned(), kind.into());
        if *binding != Binding::External || !block.is_empty() {
            spec.insert(kind.to_owned(), block.into());
        }
    }
    let required = match entry.confirm {
        Some(Confirm::Always) => Some(true),
        Some(Confirm::Never) => Some(false),
        // Actions wait for approval by default.
        Some(Confirm::Auto) | None => {
            let is_action = matches!(entry.binding, Some(Binding::Nango(Nango::Action { .. })));
            (is_action && approval_timeout.is_some()).then_some(true)
        }
    };
    if let Some(required) = required {
        let mut approval = Map::from_iter([("required".to_owned(), required.into())]);
        approval.extend(approval_timeout.map(|timeout| ("timeout".to_owned(), timeout)));
        spec.insert("approval".to_owned(), approval.into());
    }
    let mut annotations = json!(entry.annotations);
    if let Some(title) = entry.display_name {
        annotations["title"] = title.into();
    }
    if annotations.as_object().is_some_and(|annotations| !annotations.is_empty()) {
        spec.insert("annotations".to_owned(), annotations);
    }
    for (field, name) in [("description", "description"), ("parameters", "inputSchema"), ("cache", "cache")] {
        spec.extend(take(field).map(|value| (name.to_owned(), value)));
    }
    // An unknown field is left to the reader of manifests, as in every other body.
    for (name, value) in
        members.into_iter().filter(|(name, _)| !spec::TOOL_CONFIG.iter().any(|field| field.name == name))
    {
        spec.entry(name).or_insert(value);
    }
    manifest
}

/// The block of the `spec` with the name of the binding's type.
fn block(binding: &Binding) -> Map<String, Value> {
    let block = match binding {
        Binding::Nango(Nango::Action { provider, action }) => {
            json!({"provider": provider, "source": "action", "action": action})
        }
        Binding::Nango(Nango::Cache { provider, model, entity_aliases }) if entity_aliases.is_empty() => {
            json!({"provider": provider, "source": "cache", "model": model})
        }
        Binding::Nango(Nango::Cache { provider, model, entity_aliases }) => {
            json!({"provider": provider, "source": "cache", "model": model, "entityAliases": entity_aliases})
        }
        Binding::Builtin { name } => json!({"name": name}),
        _ => json!({}),
    };
    block.as_object().cloned().unwrap_or_default()
}
