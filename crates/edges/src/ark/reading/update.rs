//! `PUT …/queries/{name}`: a partial update of an accepted query.
//!
//! Its limits, `ttl`, labels and annotations become what is sent, and it can be cancelled. What it was asked is
//! frozen: it is in the first entry of its journal, and the query runs by that. Clients of ARK read a query, change
//! a field and send all of it back, so an unchanged field is accepted; one with another value is refused by name, since
//! a client that sends it expects another answer.

use bosun_core::query::Spec;
use bosun_engine::{Engine, Snapshot, Update};
use bosun_reading::{
    FaultClass, Field, FieldTable, Report, UnreadFields,
    table::{flag_schema, object_schema, text_schema, texts_schema},
};
use serde_json::{Map, Value, json};

use super::{
    fields::{read_labels, with_limits},
    request,
};
use crate::{
    ark::answering::convert,
    auth::{Right, gate::Caller},
    http::{
        error::{ApiError, Code, clip, internal},
        report::{BodyFields, RequestReport},
    },
};

/// Fields of answers. They are ignored: clients send back what they have read.
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
    "approvals",
    "parameterRequests",
    "usage",
    "duration",
];
/// Fields of requests that no answer shows as they were sent.
const NOT_SHOWN: &[&str] = &["externalTools", "tools", "toolSource", "toolFilter", "conversationPolicy"];
/// Fields that are an object with a name, or the name alone.
const REFERENCES: &[&str] = &["memory", "modelRef"];

/// What can be changed of a query; every other field must have the value that it has.
pub(crate) const FIELDS: FieldTable = with_limits!(
    [Field::new("cancel", flag_schema),],
    [
        Field::new("apiVersion", text_schema),
        Field::new("kind", || json!({"const": "Query"})),
        Field::new("metadata", || object_schema(METADATA, &[])),
        Field::new(
            "spec",
            || json!({"type": "object", "description": "The same fields; they may be in here or next to it"})
        ),
    ]
);
const METADATA: FieldTable = &[Field::new("labels", texts_schema), Field::new("annotations", texts_schema)];

/// A request to change a query, read as far as that needs no query.
#[derive(Debug)]
pub(crate) struct QueryChange {
    update: Update,
    /// Fields that must have the values that the query has.
    kept: UnreadFields,
    metadata: Option<UnreadFields>,
    report: RequestReport,
}

pub(crate) fn read(caller: &Caller, warnings: Vec<String>, body: Value) -> Result<QueryChange, ApiError> {
    let report = RequestReport::new(Code::InvalidRequest, warnings);
    let kept = request::flatten(report.body(body)?);
    let metadata = kept.fields("metadata");
    let texts = |name| read_labels(metadata.as_ref()?, name);
    let (labels, annotations) = (texts("labels"), texts("annotations"));
    let update = Update {
        of: None,
        cancel: kept.bool("cancel").unwrap_or(false),
        limits: request::read_limits(&kept),
        labels,
        annotations,
        may_shorten: caller.grant().rights.has(Right::Manage),
    };
    request::refuse_unserved(&kept, request::UNSERVED);
    for name in OF_ANSWERS {
        let _ = kept.discard(name);
    }
    // Faults of the body are reported before the query is looked up.
    report.check()?;
    let (kept, metadata) = (kept.suspend(), metadata.map(BodyFields::suspend));
    Ok(QueryChange { update, kept, metadata, report })
}

impl QueryChange {
    /// The update and the warnings, unless a frozen field has another value.
    pub(crate) fn check(self, engine: &Engine, snapshot: &Snapshot) -> Result<(Update, Vec<String>), ApiError> {
        let Self { mut update, kept, metadata, report } = self;
        update.of = Some(snapshot.head.uid);
        let kept = kept.resume(&report);
        for (name, is) in frozen(snapshot)? {
            if kept.get(&name).is_some_and(|sent| !is_same(&name, &sent, &is)) {
                refuse(&kept, &name);
            }
        }
        if let Some(metadata) = metadata {
            let metadata = metadata.resume(&report);
            keep_metadata(&metadata, snapshot);
            metadata.finish();
        }
        for name in NOT_SHOWN {
            if kept.get(name).is_some() {
                refuse(&kept, name);
            }
        }
        kept.finish();
        drop(kept);
        warn(&update, engine, snapshot, &report);
        Ok((update, report.conclude()?))
    }
}

/// Warns of limits that are narrowed, or that have no effect any more.
fn warn(update: &Update, engine: &Engine, snapshot: &Snapshot, report: &Report) {
    let (head, spec) = (&*snapshot.head, &*snapshot.transcript.spec);
    let bounds = engine.bounds(&head.namespace, spec.target_kind, &head.target);
    request::warn_of_narrowed(&update.limits.other_than(head.limits), &bounds, report);
    if head.status().is_final() {
        let changes = update.limits.changes(head.limits, bounds);
        for name in changes.names().filter(|name| *name != "ttl") {
            report.note(format!("`{name}` has no effect any more: the query has ended"));
        }
    }
}

fn refuse(fields: &BodyFields<'_>, name: &str) {
    let message = "cannot be changed: what a query was asked is frozen when it is accepted; create another query";
    fields.report().refuse(FaultClass::Frozen, clip(fields.path_of(name).as_str()), "frozen", message);
}

/// Every frozen field of a query as an answer shows it, and those that no answer shows.
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
fn keep_metadata(metadata: &BodyFields<'_>, snapshot: &Snapshot) {
    let head = &snapshot.head;
    for (name, is) in
        [("name", head.name.as_str()), ("namespace", head.namespace.as_str()), ("queryName", head.name.as_str())]
    {
        if metadata.get(name).is_some_and(|sent| sent != is) {
            refuse(metadata, name);
        }
    }
    for written in ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "waitingForTool"] {
        let _ = metadata.discard(written);
    }
}
