//! The target of a query, in every form that a client may give it in.
//!
//! `target`, a list `targets` of one, or a `selector`, which takes the first agent by name that has all of
//! its labels. A target may be an agent, a model or a tool; `modelRef` puts another model in the place of
//! the agent's, for this query alone.

use std::sync::Arc;

use bosun_core::{
    Namespace,
    query::TargetKind,
    schema::path::{with_index, with_key},
};
use bosun_engine::{Input, Registry};
use serde_json::{Value, json};

use super::{
    fields::{filled_text_schema, object_schema, text_schema, texts_schema},
    reference,
};
use crate::http::{
    error::{Code, clip},
    json::{BodyField, FieldTable, Object, RequestFindings, kind_of},
};

const TARGET: FieldTable = &[
    BodyField { name: "type", schema: || json!({"enum": ["agent", "model", "tool"]}) },
    BodyField { name: "name", schema: filled_text_schema },
    BodyField { name: "namespace", schema: text_schema },
];
const SELECTOR: FieldTable = &[BodyField { name: "matchLabels", schema: texts_schema }];

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

fn unsupported(findings: &mut RequestFindings, path: impl Into<String>, message: impl Into<String>) {
    findings.refuse(Code::UnsupportedTarget, path, "unsupported_target", message);
}

/// The one target of a query.
pub(crate) fn read(
    fields: &mut Object,
    registry: &Registry,
    namespace: &Namespace,
    findings: &mut RequestFindings,
) -> Option<QueryTarget> {
    let path = fields.path_of("target");
    let paths = fields.path_of("targets");
    let selector = (fields.path_of("selector"), fields.take("selector"));
    let single = fields.take("target");
    let mut several = fields.list("targets", findings);
    if let (Some(target), Some(targets)) = (&single, &several) {
        if targets.as_slice() != std::slice::from_ref(target) {
            findings.fault(paths, "mismatch", format!("is not the same as `{path}`"));
            return None;
        }
        several = None;
    }
    // Of a list, no more than one is read: a second one is refused for being there.
    let mut several = several.unwrap_or_default().into_iter();
    let first = match single {
        Some(target) => Some((path.clone(), target)),
        None => several.next().map(|target| (with_index(&paths, 0).into(), target)),
    };
    let (place, target) = match (first, selector) {
        (Some(target), (_, None)) => target,
        (Some(_), (path, Some(_))) => {
            findings.fault(path, "mismatch", "selects a target, and so does `target`; leave one of them out");
            return None;
        }
        (None, (path, Some(sent))) => {
            let selector = Object::at(path.clone(), sent.clone(), findings)?;
            let found = select(&path, selector, registry, namespace, findings)?;
            return Some(QueryTarget { selector: Some(Arc::new(sent)), ..found });
        }
        (None, (_, None)) => {
            let message = "is missing: name an agent, as in `{\"type\": \"agent\", \"name\": \"…\"}`";
            findings.fault(path, "missing", message);
            return None;
        }
    };
    if several.next().is_some() {
        unsupported(findings, paths, "one query has one target; send one query for each");
        return None;
    }
    let mut target = Object::at(place, target, findings)?.with_fields(TARGET);
    let read = read_one(&mut target, namespace, findings);
    target.finish(findings);
    read
}

fn read_one(target: &mut Object, namespace: &Namespace, findings: &mut RequestFindings) -> Option<QueryTarget> {
    let path = target.path_of("namespace");
    if target.text("namespace", findings).is_some_and(|other| other != namespace.as_str()) {
        unsupported(findings, path, "what is in another namespace cannot be reached");
    }
    let (missing, path) = (!target.has("type"), target.path_of("type"));
    let kind = match target.text("type", findings).as_deref() {
        Some("agent") => Some(TargetKind::Agent),
        Some("model") => Some(TargetKind::Model),
        Some("tool") => Some(TargetKind::Tool),
        Some("team") => {
            unsupported(findings, path, "targets of type `team` are not served by this version");
            None
        }
        Some(other) => {
            findings.fault(path, "unknown_type", format!("`{}` is not a type of target", clip(other)));
            None
        }
        None if missing => {
            findings.fault(path, "missing", "is missing; it is `agent`, `model` or `tool`");
            None
        }
        None => None,
    };
    let (missing, path) = (!target.has("name"), target.path_of("name"));
    let name = target.text("name", findings).filter(|name| !name.is_empty());
    if name.is_none() && missing {
        findings.fault(path, "missing", "is missing");
    }
    Some(QueryTarget { kind: kind?, name: name?, selector: None })
}

/// The first agent by name that has all labels of the selector.
fn select(
    path: &str,
    selector: Object,
    registry: &Registry,
    namespace: &Namespace,
    findings: &mut RequestFindings,
) -> Option<QueryTarget> {
    let mut selector = selector.with_fields(SELECTOR);
    if selector.discard("matchExpressions").is_some_and(|value| !value.is_null()) {
        let path = selector.path_of("matchExpressions");
        findings.refuse(Code::UnsupportedField, path, "unsupported_field", "is not served: write `matchLabels`");
        return None;
    }
    let labels = selector.object("matchLabels", findings).map(Object::into_members).unwrap_or_default();
    selector.finish(findings);
    if labels.is_empty() {
        findings.fault(format!("{path}.matchLabels"), "missing", "is missing: which labels must the agent have?");
        return None;
    }
    for (name, value) in labels.iter().filter(|(_, value)| !value.is_string()) {
        let path = with_key(&with_key(path, "matchLabels"), name);
        findings.fault(path, "wrong_type", format!("must be a string, not {}", kind_of(value)));
    }
    let has = |agent: &bosun_engine::Agent, name: &str, value: &Value| {
        agent.labels.get(name).is_some_and(|label| value == label.as_str())
    };
    let found = registry.agents(namespace).find(|agent| labels.iter().all(|(name, value)| has(agent, name, value)));
    if found.is_none() {
        findings.fault(path, "no_match", format!("no agent of namespace {namespace} has these labels"));
    }
    found.map(|agent| QueryTarget { kind: TargetKind::Agent, name: agent.name.clone(), selector: None })
}

/// The model that is asked instead of the agent's.
pub(crate) fn read_model(
    fields: &mut Object,
    target: Option<&QueryTarget>,
    namespace: &Namespace,
    findings: &mut RequestFindings,
) -> Option<String> {
    let path = fields.path_of("modelRef");
    let name = reference::read("models", path.clone(), fields.take("modelRef")?, namespace, findings)?;
    match target {
        Some(QueryTarget { kind: TargetKind::Model, name: target, .. }) if *target != name => {
            findings.fault(path, "mismatch", "is not the model that the query is for");
        }
        Some(QueryTarget { kind: TargetKind::Tool, .. }) => findings.fault(path, "not_asked", "a tool asks no model"),
        _ => {}
    }
    Some(name)
}

impl QueryTarget {
    /// Refuses fields that would have no effect: a client that sends one expects an effect.
    pub(crate) fn refuse_what_it_cannot_have(
        &self,
        brings_tools: bool,
        has_output_schema: bool,
        input: Option<&Input>,
        findings: &mut RequestFindings,
    ) {
        if self.kind == TargetKind::Agent {
            return;
        }
        let kind = self.kind.as_str();
        if brings_tools {
            let message = format!("a target of type `{kind}` has no tools; ask an agent");
            findings.fault("tools", "not_used", message);
        }
        if self.kind == TargetKind::Tool && has_output_schema {
            findings.fault("outputSchema", "not_used", "a tool answers with its own result");
        }
        if self.kind == TargetKind::Tool && matches!(input, Some(Input::Messages(_))) {
            findings.fault("type", "not_used", "a tool takes one `input`, not a conversation");
        }
    }
}
