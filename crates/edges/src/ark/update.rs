//! `PUT …/queries/{name}`: a partial update of a query that is taken on.
//!
//! What it may use, how long it is kept, its labels and annotations become what is sent, and it can be cancelled. What
//! it was asked is frozen: it stands in the first entry of its journal, and the query runs by that. Clients of ARK
//! read a query, change a field and send all of it back, so such a field is fine with the value that it has; one
//! that has another value is refused by name, since whoever sends it expects another answer.

use bosun_core::query::Spec;
use bosun_engine::{Engine, Snapshot, Update};
use serde_json::{Map, Value, json};

use super::{convert, options::Options, request};
use crate::{
    auth::Right,
    http::{
        error::{ApiError, Code, clip, internal},
        json::{Findings, Object},
    },
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
/// Fields that are an object with a name, or the name alone.
const REFERENCES: &[&str] = &["memory", "modelRef"];

/// A request to change a query, read as far as that needs no query.
#[derive(Debug)]
pub(super) struct Change {
    update: Update,
    /// What is to be what it is.
    kept: Object,
    metadata: Option<Object>,
    findings: Findings,
}

pub(super) fn read(options: &Options, body: Value) -> Result<Change, ApiError> {
    let mut findings = Findings::new(Code::InvalidRequest, options.warnings.clone());
    let mut kept = request::lay_flat(Object::body(body)?, &mut findings);
    let mut metadata = kept.object("metadata", &mut findings);
    let mut texts = |name| request::read_texts(metadata.as_mut()?, name, &mut findings);
    let (labels, annotations) = (texts("labels"), texts("annotations"));
    let update = Update {
        of: None,
        cancel: kept.flag("cancel", &mut findings).unwrap_or(false),
        limits: request::read_limits(&mut kept, &mut findings),
        labels,
        annotations,
        may_shorten: options.caller.grant().rights.has(Right::Manage),
    };
    request::refuse_unserved(&mut kept, request::UNSERVED, &mut findings);
    for name in OF_ANSWERS {
        let _ = kept.take_any(name);
    }
    // Whoever cannot be understood is told so before anybody looks for the query.
    findings.check()?;
    Ok(Change { update, kept, metadata, findings })
}

impl Change {
    /// What is to be done, and what the client should know, unless what was asked is to become something else.
    pub(super) fn check(self, engine: &Engine, snapshot: &Snapshot) -> Result<(Update, Vec<String>), ApiError> {
        let Self { mut update, mut kept, metadata, mut findings } = self;
        update.of = Some(snapshot.head.uid);
        for (name, is) in frozen(snapshot)? {
            let path = kept.path_of(&name);
            if let Some(sent) = kept.take(&name)
                && !is_same(&name, &sent, &is)
            {
                refuse(&mut findings, path);
            }
        }
        if let Some(mut metadata) = metadata {
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
        warn(&update, engine, snapshot, &mut findings);
        Ok((update, findings.conclude()?))
    }
}

/// What was asked for and is not given, or has no effect any more.
fn warn(update: &Update, engine: &Engine, snapshot: &Snapshot, findings: &mut Findings) {
    let (head, spec) = (&*snapshot.head, &*snapshot.transcript.spec);
    let bounds = engine.bounds(&head.namespace, spec.target_kind, &head.target);
    request::warn_of_narrowed(&update.limits.other_than(head.limits), &bounds, findings);
    if head.status().is_final() {
        let changes = update.limits.changes(head.limits, bounds);
        for name in changes.names().filter(|name| *name != "ttl") {
            findings.warn(format!("`{name}` has no effect any more: the query has ended"));
        }
    }
}

fn refuse(findings: &mut Findings, path: impl AsRef<str>) {
    let message = "cannot be changed: what a query was asked is frozen when it is taken on; create another one";
    findings.refuse(Code::FrozenField, clip(path.as_ref()), "frozen", message);
}

/// Every field of what a query was asked, as an answer shows it, and what is shown nowhere.
fn frozen(snapshot: &Snapshot) -> Result<Map<String, Value>, ApiError> {
    let (head, spec) = (&*snapshot.head, &*snapshot.transcript.spec);
    let Ok(Value::Object(mut fields)) = serde_json::to_value(convert::query_spec(head, spec)) else {
        return Err(internal());
    };
    for changeable in ["cancel", "timeout", "ttl"] {
        fields.shift_remove(changeable);
    }
    fields.insert("name".into(), head.name.as_str().into());
    fields.insert("namespace".into(), head.namespace.as_str().into());
    fields.insert("outputSchema".into(), spec.output_schema.as_deref().cloned().unwrap_or_default());
    fields.insert("modelOptions".into(), model_options(spec));
    fields.entry("modelRef").or_insert(Value::Null);
    Ok(fields)
}

fn model_options(spec: &Spec) -> Value {
    let mut options = Map::new();
    options.extend(spec.options.temperature.map(|temperature| ("temperature".to_owned(), json!(temperature))));
    options.extend(spec.options.max_tokens.map(|tokens| ("maxTokens".to_owned(), json!(tokens))));
    Value::Object(options)
}

fn is_same(name: &str, sent: &Value, is: &Value) -> bool {
    if REFERENCES.contains(&name) {
        // Both are in the namespace of the query, or would have been refused.
        let named = |value: &Value| value.as_str().or_else(|| value["name"].as_str()).map(str::to_owned);
        return named(sent).is_some() && named(sent) == named(is);
    }
    sent == is
}

/// A name and a namespace that are the query's own.
fn keep_metadata(metadata: &mut Object, snapshot: &Snapshot, findings: &mut Findings) {
    let head = &snapshot.head;
    for (name, is) in
        [("name", head.name.as_str()), ("namespace", head.namespace.as_str()), ("queryName", head.name.as_str())]
    {
        let path = metadata.path_of(name);
        if metadata.take(name).is_some_and(|sent| sent != is) {
            refuse(findings, path);
        }
    }
    for written in ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "waitingForTool"] {
        let _ = metadata.take_any(written);
    }
}
