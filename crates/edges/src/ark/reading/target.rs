//! The target of a query, in every form that a client may give it in.
//!
//! `target`, a list `targets` of one, or a `selector`, which takes the first agent by name that has all of
//! its labels. A target may be an agent, a team, a model or a tool; `modelRef` replaces the agent's model, for this
//! query alone.

use std::sync::Arc;

use bosun_core::{Namespace, query::TargetKind};
use bosun_engine::{Input, Registry};
use bosun_reading::{
    FaultClass, Field, FieldTable, Report,
    table::{filled_text_schema, object_schema, text_schema, texts_schema},
};
use serde_json::{Value, json};

use super::reference;
use crate::http::{error::clip, report::BodyFields};

const TARGET: FieldTable = &[
    Field::new("type", || json!({"enum": ["agent", "team", "model", "tool"]})),
    Field::new("name", filled_text_schema),
    Field::new("namespace", text_schema),
];
const SELECTOR: FieldTable = &[Field::new("matchLabels", texts_schema)];

/// A target, described.
pub(crate) fn schema() -> Value {
    let mut schema = object_schema(TARGET, &["type", "name"]);
    schema["properties"]["name"]["examples"] = json!(["math-assistant"]);
    schema
}

/// A selector, described.
pub(crate) fn selector_schema() -> Value {
    object_schema(SELECTOR, &["matchLabels"])
}

/// The agent, model or tool that answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueryTarget {
    pub(crate) kind: TargetKind,
    pub(crate) name: String,
    /// The labels that it was found by, as they were sent.
    pub(crate) selector: Option<Arc<Value>>,
}

fn unsupported(fields: &BodyFields<'_>, name: &str, message: &str) {
    fields.refuse(FaultClass::UnservedTarget, name, "unsupported_target", message);
}

/// The one target of a query.
pub(crate) fn read(fields: &BodyFields<'_>, registry: &Registry, namespace: &Namespace) -> Option<QueryTarget> {
    let selector = fields.get("selector");
    let single = fields.get("target");
    let mut several = fields.items("targets");
    if let (Some(target), Some(targets)) = (&single, &several) {
        if targets.as_slice() != std::slice::from_ref(target) {
            fields.reject("targets", "mismatch", format!("is not the same as `{}`", fields.path_of("target")));
            return None;
        }
        several = None;
    }
    // Only the first entry of a list is read: a second one is refused, whatever it is.
    let mut several = several.unwrap_or_default().into_iter();
    let first = match single {
        Some(target) => Some((fields.path_of("target"), target)),
        None => several.next().map(|target| (fields.path_of("targets").index(0), target)),
    };
    let (path, target) = match (first, selector) {
        (Some(target), None) => target,
        (Some(_), Some(_)) => {
            let message = "selects a target, and so does `target`; leave one of them out";
            fields.reject("selector", "mismatch", message);
            return None;
        }
        (None, Some(sent)) => {
            let selector = fields.inner(sent.clone(), "selector")?.with_table(SELECTOR);
            let found = select(selector, registry, namespace)?;
            return Some(QueryTarget { selector: Some(Arc::new(sent)), ..found });
        }
        (None, None) => {
            let message = "is missing: name an agent, as in `{\"type\": \"agent\", \"name\": \"…\"}`";
            fields.reject("target", "missing", message);
            return None;
        }
    };
    if several.next().is_some() {
        unsupported(fields, "targets", "one query has one target; send one query for each");
        return None;
    }
    let target = fields.at(path, target)?.with_table(TARGET);
    let read = read_one(&target, namespace);
    target.finish();
    read
}

fn read_one(target: &BodyFields<'_>, namespace: &Namespace) -> Option<QueryTarget> {
    reference::refuse_other_namespace("targets", target, namespace);
    let missing = !target.has("type");
    let kind = match target.text("type").as_deref() {
        Some("agent") => Some(TargetKind::Agent),
        Some("model") => Some(TargetKind::Model),
        Some("tool") => Some(TargetKind::Tool),
        Some("team") => Some(TargetKind::Team),
        Some(other) => {
            target.reject("type", "unknown_type", format!("`{}` is not a type of target", clip(other)));
            None
        }
        None if missing => {
            target.reject("type", "missing", "is missing; it is `agent`, `team`, `model` or `tool`");
            None
        }
        None => None,
    };
    let missing = !target.has("name");
    let name = target.text("name").filter(|name| !name.is_empty());
    if missing {
        target.reject("name", "missing", "is missing");
    }
    Some(QueryTarget { kind: kind?, name: name?, selector: None })
}

/// The first agent by name that has all labels of the selector.
fn select(selector: BodyFields<'_>, registry: &Registry, namespace: &Namespace) -> Option<QueryTarget> {
    if selector.discard("matchExpressions").is_some_and(|value| !value.is_null()) {
        let message = "is not served: write `matchLabels`";
        selector.refuse(FaultClass::Unserved, "matchExpressions", "unsupported_field", message);
        return None;
    }
    let fields = selector.fields("matchLabels");
    selector.finish();
    let mut labels = Vec::new();
    if let Some(fields) = fields {
        fields.consume(|fields, name, value| labels.push((fields.text_of(value, &name), name)));
    }
    if labels.is_empty() {
        selector.reject("matchLabels", "missing", "is missing: which labels must the agent have?");
        return None;
    }
    let has = |agent: &bosun_engine::Agent, name: &str, value: &Option<String>| {
        value.is_some() && agent.labels.get(name) == value.as_ref()
    };
    let found = registry.agents(namespace).find(|agent| labels.iter().all(|(value, name)| has(agent, name, value)));
    if found.is_none() {
        let message = format!("no agent of namespace {namespace} has these labels");
        selector.report().fault(selector.path(), "no_match", message);
    }
    found.map(|agent| QueryTarget { kind: TargetKind::Agent, name: agent.name.clone(), selector: None })
}

/// The model that is asked instead of the agent's.
pub(crate) fn read_model(
    fields: &BodyFields<'_>,
    target: Option<&QueryTarget>,
    namespace: &Namespace,
) -> Option<String> {
    let name = reference::read("models", fields, "modelRef", namespace)?;
    match target {
        Some(QueryTarget { kind: TargetKind::Model, name: target, .. }) if *target != name => {
            fields.reject("modelRef", "mismatch", "is not the model that the query is for");
        }
        Some(QueryTarget { kind: kind @ (TargetKind::Tool | TargetKind::Team), .. }) => {
            fields.reject("modelRef", "not_asked", format!("a {} asks no model", kind.as_str()));
        }
        _ => {}
    }
    Some(name)
}

impl QueryTarget {
    /// Refuses fields that would have no effect: a client that sends one expects an effect.
    pub(crate) fn refuse_what_it_cannot_have(
        &self,
        (brings_tools, chooses_tools): (bool, bool),
        has_output_schema: bool,
        input: Option<&Input>,
        report: &Report,
    ) {
        if self.kind == TargetKind::Agent {
            return;
        }
        let kind = self.kind.as_str();
        // A team passes them on to its members.
        if brings_tools && self.kind != TargetKind::Team {
            let message = format!("a target of type `{kind}` has no tools; ask an agent");
            report.fault("tools", "not_used", message);
        }
        if chooses_tools && self.kind == TargetKind::Team {
            let message = "a team has no tools of its own to choose from; its members have theirs";
            report.fault("tools", "not_used", message);
        }
        if matches!(self.kind, TargetKind::Tool | TargetKind::Team) && has_output_schema {
            report.fault("outputSchema", "not_used", format!("a {kind} answers with a result of its own"));
        }
        if matches!(self.kind, TargetKind::Tool | TargetKind::Team) && matches!(input, Some(Input::Messages(_))) {
            report.fault("type", "not_used", format!("a {kind} takes one `input`, not a conversation"));
        }
    }
}
