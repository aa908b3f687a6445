//! Bodies of all dialects as manifests.
//!
//! A body is flat (`{name, prompt, …}`), or has a `spec` with or without `metadata` next to it, or is a
//! whole Kubernetes object. [`BodyFields::absorb`] makes one form of them. A tool may also be an entry of
//! `tool-config.json` ([`tool_config`]). What differs by kind is in one
//! table: strings in place of an object, and fields that only an answer has. Everything else goes into
//! the manifest as it is, and the reader of manifests reports its faults.

use std::collections::BTreeMap;

use bosun_core::{Namespace, schema::path::with_key};
use bosun_engine::resource::{Amendment, Manifest, ManifestBody, ResourceKey, ResourceKind};
use bosun_reading::{Report, spec};
use serde_json::{Map, Value, json};

use super::{
    secrets,
    tool_config::{self, EntryScope},
};
use crate::http::{
    error::{ApiError, Code, clip},
    error_echo::HIDDEN,
    report::{BodyFields, RequestReport},
};

/// What was read, and what the client should know.
#[derive(Debug)]
pub(super) struct BodyRead<T> {
    pub(super) value: T,
    pub(super) warnings: Vec<String>,
}

/// Fields of answers. They are ignored: clients send back what they have read.
const OF_ANSWERS: &[&str] = &[
    "available",
    "status",
    "managedBy",
    "generation",
    "creationTimestamp",
    "warnings",
    "isA2A",
    "skills",
    "resolved_address",
    "status_message",
    "tool_count",
    "ready",
    "discovering",
    "discovery",
    "agent",
    "last_resolved_address",
    "toolDetails",
];

/// Where a string may be in place of an object: the path of the field, `*` for any name, and the name that the text
/// gets in the object.
const SHORT_FORMS: &[(ResourceKind, &[&str], &str)] = &[
    (ResourceKind::Agent, &["modelRef"], "name"),
    (ResourceKind::Model, &["model"], "value"),
    (ResourceKind::Model, &["config", "*", "baseUrl"], "value"),
    (ResourceKind::Model, &["config", "*", "apiKey"], "value"),
    (ResourceKind::Model, &["config", "*", "apiVersion"], "value"),
    (ResourceKind::Model, &["config", "*", "properties", "*"], "value"),
    (ResourceKind::McpServer, &["address"], "value"),
    (ResourceKind::A2aServer, &["address"], "value"),
    (ResourceKind::Evaluator, &["address"], "value"),
];

/// A new resource.
pub(super) fn create(
    kind: ResourceKind,
    namespace: &Namespace,
    warnings: Vec<String>,
    body: Value,
) -> Result<BodyRead<Manifest>, ApiError> {
    let report = RequestReport::new(Code::InvalidRequest, warnings);
    let mut fields = report.body(body)?.with_table(spec::BODY);
    let mut head = read_head(kind, namespace, &mut fields);
    let missing = !fields.has("name");
    let name = fields.text("name").unwrap_or_default();
    if missing {
        report.fault("name", "missing", "is missing");
    }
    let spec = read_spec(kind, &name, EntryScope::Whole, &mut head, fields);
    let warnings = report.conclude()?;
    let key = ResourceKey::new(kind, namespace.clone(), name);
    let amendment = Amendment { labels: head.labels, annotations: head.annotations, spec };
    Ok(BodyRead { value: Manifest { key, description: whole(amendment) }, warnings })
}

/// What replaces a resource.
pub(super) fn replace(key: ResourceKey, warnings: Vec<String>, body: Value) -> Result<BodyRead<Manifest>, ApiError> {
    let BodyRead { value, warnings } = amend(&key, EntryScope::Whole, warnings, body)?;
    Ok(BodyRead { value: Manifest { key, description: whole(value) }, warnings })
}

/// A description that replaces an earlier one as a whole, so that `null` has nothing to remove.
fn whole(amendment: Amendment) -> ManifestBody {
    ManifestBody {
        labels: amendment.labels.unwrap_or_default(),
        annotations: amendment.annotations.unwrap_or_default(),
        spec: amendment.spec.into_iter().filter(|(_, value)| !value.is_null()).collect(),
    }
}

/// What is to be changed of a resource.
pub(super) fn update(key: &ResourceKey, warnings: Vec<String>, body: Value) -> Result<BodyRead<Amendment>, ApiError> {
    amend(key, EntryScope::Change, warnings, body)
}

fn amend(
    key: &ResourceKey,
    scope: EntryScope,
    warnings: Vec<String>,
    body: Value,
) -> Result<BodyRead<Amendment>, ApiError> {
    let report = RequestReport::new(Code::InvalidRequest, warnings);
    let mut fields = report.body(body)?.with_table(spec::BODY);
    let mut head = read_head(key.kind, &key.namespace, &mut fields);
    if let Some(name) = fields.text("name").filter(|name| *name != key.name) {
        let message = format!("is `{}`, and the path says `{}`", clip(&name), clip(&key.name));
        fields.reject("name", "mismatch", message);
    }
    let spec = read_spec(key.kind, &key.name, scope, &mut head, fields);
    let warnings = report.conclude()?;
    Ok(BodyRead { value: Amendment { labels: head.labels, annotations: head.annotations, spec }, warnings })
}

struct ResourceMetadata {
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
}

/// Makes the body flat, and takes out what is not the spec.
fn read_head(kind: ResourceKind, namespace: &Namespace, fields: &mut BodyFields<'_>) -> ResourceMetadata {
    for (name, expected) in [("kind", kind.as_str()), ("apiVersion", kind.api_version())] {
        if let Some(other) = fields.text(name).filter(|text| text != expected) {
            fields.reject(name, "mismatch", format!("is `{}`, and this route takes `{expected}`", clip(&other)));
        }
    }
    if let Some(metadata) = fields.fields("metadata") {
        fields.absorb(metadata);
    }
    if let Some(other) = fields.text("namespace").filter(|name| *name != namespace.as_str()) {
        let message = format!("is `{}`, and the path says `{namespace}`", clip(&other));
        fields.reject("namespace", "mismatch", message);
    }
    for written in OF_ANSWERS {
        let _ = fields.discard(written);
    }
    for of_cluster in ["uid", "resourceVersion", "managedFields", "ownerReferences", "finalizers", "selfLink"] {
        let _ = fields.discard(of_cluster);
    }
    // A tool's own `annotations` are in its spec; those of the resource are outside.
    let labels = texts(fields, "labels");
    let annotations = texts(fields, "annotations");
    ResourceMetadata { labels, annotations }
}

fn texts(fields: &BodyFields<'_>, name: &str) -> Option<BTreeMap<String, String>> {
    let mut texts = BTreeMap::new();
    fields.fields(name)?.consume(|fields, name, value| match value {
        Value::String(text) => drop(texts.insert(name, text)),
        _ => fields.reject(&name, "wrong_type", "must be a string"),
    });
    Some(texts)
}

/// What is left of the body is the spec: in `spec`, next to it, or both.
fn read_spec(
    kind: ResourceKind,
    name: &str,
    scope: EntryScope,
    head: &mut ResourceMetadata,
    fields: BodyFields<'_>,
) -> Map<String, Value> {
    let report = fields.report();
    if kind == ResourceKind::Tool && tool_config::is_meant(&fields) {
        let entry = tool_config::read(fields, name, scope);
        if !entry.annotations.is_empty() {
            head.annotations.get_or_insert_default().extend(entry.annotations);
        }
        return entry.spec;
    }
    let inner = fields.fields("spec");
    let mut spec = inner.map(BodyFields::into_members).unwrap_or_default();
    for (name, value) in fields.into_members() {
        // Clients send back both spellings of a field that answers show twice.
        if spec.get(&name).is_none_or(|known| *known == value || value.is_null()) {
            spec.entry(name).or_insert(value);
        } else if is_derived(kind, &name) {
            // Shown in another form than it was written in.
        } else {
            let message = format!("appears twice: here and as `spec.{}`", clip(&name));
            report.fault(with_key("", &name), "duplicate_field", message);
        }
    }
    // Answers have an empty list of what is not served.
    if spec.get("overrides").and_then(Value::as_array).is_some_and(Vec::is_empty) {
        spec.shift_remove("overrides");
    }
    if kind == ResourceKind::Memory {
        absorb_config(&mut spec, report);
    }
    let mut spec = Value::Object(spec);
    for (_, path, name) in SHORT_FORMS.iter().filter(|(of, ..)| *of == kind) {
        expand(&mut spec, path, name);
    }
    if kind == ResourceKind::Model {
        rename_provider(&mut spec);
    }
    if secrets::is_hidden(&spec) {
        let message = format!("has `{HIDDEN}` in it, which is shown in place of a key; send the key, or leave it out");
        report.fault("spec", "hidden_value", message);
    }
    match spec {
        Value::Object(spec) => spec,
        _ => Map::new(),
    }
}

/// ARK's API has the settings of a memory in `config`, where a manifest has them in its `spec`. Answers show
/// both, so both may come back.
fn absorb_config(spec: &mut Map<String, Value>, report: &Report) {
    let Some(Value::Object(config)) = spec.get("config").cloned() else { return };
    spec.shift_remove("config");
    for (name, value) in config {
        let known = spec.get(&name);
        if known.is_some_and(|known| *known != value) {
            report.note(format!("`config.{0}` was ignored, since there is another `{0}`", clip(&name)));
        } else if known.is_none() {
            spec.insert(name, value);
        }
    }
}

/// Fields that answers derive from the spec, so that both may come back and differ.
fn is_derived(kind: ResourceKind, name: &str) -> bool {
    matches!(
        (kind, name),
        (ResourceKind::Tool, "description" | "type")
            | (ResourceKind::Agent, "modelRef")
            | (ResourceKind::McpServer | ResourceKind::A2aServer, "address")
            | (ResourceKind::Team, "members")
            | (ResourceKind::Memory, _)
    )
}

/// Puts the text at the end of `path` into an object, under `name`.
fn expand(value: &mut Value, path: &[&str], name: &str) {
    let Some((first, rest)) = path.split_first() else {
        if let Value::String(text) = value {
            *value = json!({name: text});
        }
        return;
    };
    let Value::Object(members) = value else { return };
    for (_, member) in members.iter_mut().filter(|(key, _)| *first == "*" || key == first) {
        expand(member, rest, name);
    }
}

/// Describes that a text may be in place of an object.
pub(crate) fn describe_short_forms(kind: ResourceKind, spec: &mut Value) {
    for (_, path, _) in SHORT_FORMS.iter().filter(|(of, ..)| *of == kind) {
        accept_text(spec, path);
    }
}

fn accept_text(schema: &mut Value, path: &[&str]) {
    let Some((first, rest)) = path.split_first() else {
        *schema = json!({"anyOf": [{"type": "string"}, schema.take()]});
        return;
    };
    if let Some(any) = schema.get_mut("additionalProperties").filter(|_| *first == "*") {
        accept_text(any, rest);
    }
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for (_, property) in properties.iter_mut().filter(|(key, _)| *first == "*" || key == first) {
        accept_text(property, rest);
    }
}

/// Answers have the provider in `type` too, where a manifest would say what kind of API it is.
fn rename_provider(spec: &mut Value) {
    if spec["type"] == spec["provider"]
        && let Value::Object(spec) = spec
    {
        spec.shift_remove("type");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kind: ResourceKind, path: &[&str], name: &str, before: Value, after: Value) {
        assert!(SHORT_FORMS.contains(&(kind, path, name)));
        let mut value = before;
        expand(&mut value, path, name);
        assert_eq!(value, after);
    }

    /// What is left of a body is the `spec`, so a field of the table that was not read would be in it.
    #[test]
    fn every_field_that_is_described_around_a_spec_is_read() {
        let read = |body: Value| create(ResourceKind::Memory, &Namespace::default(), Vec::new(), body);
        for field in spec::BODY {
            let mut body = json!({"name": "x"});
            // Of the wrong type for most fields, which is then a fault of the field.
            body[field.name] = json!({"x": []});
            if let Ok(read) = read(body) {
                assert!(matches!(field.name, "metadata" | "spec"), "{}", field.name);
                assert!(!read.value.description.spec.contains_key(field.name), "{}", field.name);
            }
        }
        for field in spec::METADATA {
            let body = json!({"name": "x", "metadata": {field.name: {"x": []}}});
            assert!(read(body).is_err(), "{}", field.name);
        }
        let stored = read(json!({"metadata": {"name": "x", "colour": "red"}})).unwrap().value.description.spec;
        assert!(stored.contains_key("colour"), "an unknown field is left to the reader of manifests");
    }

    #[test]
    fn a_change_of_a_tool_changes_how_it_runs_only_with_its_provider() {
        let key = ResourceKey::new(ResourceKind::Tool, Namespace::default(), "mail".to_owned());
        let change = |body: Value| update(&key, Vec::new(), body).map(|read| Value::Object(read.value.spec));
        assert_eq!(change(json!({"category": "Later"})).unwrap(), json!({}));
        let schema = json!({"type": "object"});
        assert_eq!(change(json!({"parameters": schema})).unwrap(), json!({"inputSchema": schema}));
        let approved = change(json!({"display_name": "Mail", "confirm": "always"})).unwrap();
        assert_eq!(approved["approval"], json!({"required": true}));
        let provider = change(json!({"providerConfigKey": "m", "action": "send"})).unwrap();
        assert_eq!(provider["type"], "nango");
        for field in ["source", "action", "cache_model", "timeout"] {
            let refused = change(json!({"category": "Later", field: "x"})).unwrap_err();
            assert!(format!("{:?}", refused.details()).contains("provider_missing"), "{field}: {refused:?}");
        }
        // A manifest that replaces another is whole: a tool without a provider is run by clients.
        let whole = replace(key.clone(), Vec::new(), json!({"category": "Later"})).unwrap();
        assert_eq!(whole.value.description.spec["type"], "external");
    }

    #[test]
    fn texts_in_place_of_objects_are_expanded() {
        check(ResourceKind::Agent, &["modelRef"], "name", json!({"modelRef": "m"}), json!({"modelRef": {"name": "m"}}));
        let written = json!({"modelRef": {"name": "m"}, "x": "y"});
        check(ResourceKind::Agent, &["modelRef"], "name", written.clone(), written);
        check(
            ResourceKind::Model,
            &["config", "*", "apiKey"],
            "value",
            json!({"config": {"openai": {"apiKey": "k", "baseUrl": "b"}}, "apiKey": "other"}),
            json!({"config": {"openai": {"apiKey": {"value": "k"}, "baseUrl": "b"}}, "apiKey": "other"}),
        );
        check(ResourceKind::Model, &["model"], "value", json!({"model": 5}), json!({"model": 5}));
        check(ResourceKind::McpServer, &["address"], "value", json!([]), json!([]));
    }
}
