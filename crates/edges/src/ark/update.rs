//! `PUT …/queries/{name}`: what can be changed about a query, which is one thing: it can be cancelled.
//!
//! A query is frozen when it is taken on: what it runs with stands in the first entry of its journal. Clients of
//! ARK read a query, change a field and send all of it back, so a field that has the value it has is fine; one that
//! has another value is refused by name, since whoever sends it expects it to change something.

use bosun_core::{query::Spec, tool::duration_from_json};
use bosun_engine::Snapshot;
use serde_json::{Map, Value, json};

use super::{convert, options::Options, request};
use crate::http::{
    error::{ApiError, Code, clip, internal},
    json::{Findings, Object},
};

/// Fields of answers. A client that sends back what it has read means nothing by them.
const OF_ANSWERS: &[&str] = &[
    "uid",
    "state",
    "status",
    "creationTimestamp",
    "results",
    "warnings",
    "toolCall",
    "toolCalls",
    "response",
    "output",
    "error",
    "toolExecutionHistory",
    "usage",
    "duration",
];
/// Fields that a request has and no answer shows as they were sent.
const NOT_SHOWN: &[&str] = &["externalTools", "tools", "toolSource", "toolFilter", "conversationPolicy"];
/// Fields whose texts are durations, which can be written in many ways.
const DURATIONS: &[&str] = &["timeout", "ttl", "toolTimeout", "externalTimeout"];
/// Fields that are an object with a name, or the name alone.
const REFERENCES: &[&str] = &["memory", "modelRef"];

/// A request to change a query, read as far as that needs no query.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) cancel: bool,
    /// What is to be what it is.
    kept: Object,
    findings: Findings,
}

pub(super) fn read(options: &Options, body: Value) -> Result<Change, ApiError> {
    let mut findings = Findings::new(Code::InvalidRequest, options.warnings.clone());
    let mut kept = request::lay_flat(Object::body(body)?, &mut findings);
    let cancel = kept.flag("cancel", &mut findings).unwrap_or(false);
    request::refuse_unserved(&mut kept, request::UNSERVED, &mut findings);
    for name in OF_ANSWERS {
        let _ = kept.take_any(name);
    }
    // Whoever cannot be understood is told so before anybody looks for the query.
    findings.check()?;
    Ok(Change { cancel, kept, findings })
}

impl Change {
    /// What the client should know, if nothing is to become other than it is.
    pub(super) fn check(self, snapshot: &Snapshot) -> Result<Vec<String>, ApiError> {
        let Self { mut kept, mut findings, .. } = self;
        for (name, is) in frozen(snapshot)? {
            let path = kept.path_of(&name);
            if let Some(sent) = kept.take(&name)
                && !is_same(&name, &sent, &is)
            {
                refuse(&mut findings, path);
            }
        }
        if let Some(mut metadata) = kept.object("metadata", &mut findings) {
            keep_metadata(&mut metadata, snapshot, &mut findings);
            metadata.finish(&mut findings);
        }
        for name in NOT_SHOWN {
            let path = kept.path_of(name);
            if kept.take(name).is_some() {
                refuse(&mut findings, path);
            }
        }
        kept.finish(&mut findings);
        findings.conclude()
    }
}

fn refuse(findings: &mut Findings, path: impl AsRef<str>) {
    let message = "cannot be changed: a query is frozen when it is taken on; create another one";
    findings.refuse(Code::FrozenField, clip(path.as_ref()), "frozen", message);
}

/// Every field that a query was asked with, as an answer shows it, and what is shown nowhere.
fn frozen(snapshot: &Snapshot) -> Result<Map<String, Value>, ApiError> {
    let (head, spec) = (&*snapshot.head, &*snapshot.transcript.spec);
    let Ok(Value::Object(mut fields)) = serde_json::to_value(convert::query_spec(head, spec)) else {
        return Err(internal());
    };
    fields.shift_remove("cancel");
    fields.insert("name".into(), head.name.as_str().into());
    fields.insert("namespace".into(), head.namespace.as_str().into());
    fields.insert("toolTimeout".into(), millis(head.limits.tool_timeout));
    fields.insert("externalTimeout".into(), millis(head.limits.external_timeout));
    fields.insert("maxToolCalls".into(), head.limits.max_tool_calls.into());
    fields.insert("maxTokens".into(), head.limits.max_tokens.into());
    fields.insert("outputSchema".into(), spec.output_schema.as_deref().cloned().unwrap_or_default());
    fields.insert("modelOptions".into(), model_options(spec));
    for name in ["sessionId", "conversationId", "modelRef"] {
        fields.entry(name).or_insert(Value::Null);
    }
    Ok(fields)
}

fn millis(duration: std::time::Duration) -> Value {
    super::duration::format(duration).into()
}

fn model_options(spec: &Spec) -> Value {
    let mut options = Map::new();
    options.extend(spec.options.temperature.map(|temperature| ("temperature".to_owned(), json!(temperature))));
    options.extend(spec.options.max_tokens.map(|tokens| ("maxTokens".to_owned(), json!(tokens))));
    Value::Object(options)
}

fn is_same(name: &str, sent: &Value, is: &Value) -> bool {
    if DURATIONS.contains(&name) {
        return duration_from_json(sent).is_some_and(|sent| duration_from_json(is) == Some(sent));
    }
    if REFERENCES.contains(&name) {
        // Both are in the namespace of the query, or would have been refused.
        let named = |value: &Value| value.as_str().or_else(|| value["name"].as_str()).map(str::to_owned);
        return named(sent).is_some() && named(sent) == named(is);
    }
    sent == is
}

/// A name and a namespace that are the query's own, and its labels and annotations as they are.
fn keep_metadata(metadata: &mut Object, snapshot: &Snapshot, findings: &mut Findings) {
    let (head, spec) = (&snapshot.head, &snapshot.transcript.spec);
    let is = json!({
        "name": head.name.as_str(), "namespace": head.namespace.as_str(),
        "labels": spec.labels, "annotations": spec.annotations, "queryName": head.name.as_str(),
    });
    for name in ["name", "namespace", "labels", "annotations", "queryName"] {
        let path = metadata.path_of(name);
        if metadata.take(name).is_some_and(|sent| sent != is[name]) {
            refuse(findings, path);
        }
    }
    for written in ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "waitingForTool"] {
        let _ = metadata.take_any(written);
    }
}
