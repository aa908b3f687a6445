//! `PUT …/queries/{name}`: a partial update of an accepted query.
//!
//! Its limits, `ttl`, labels and annotations become what is sent, and it can be cancelled. What it was asked is
//! frozen: it is in the first entry of its journal, and the query runs by that. Clients of ARK read a query, change
//! a field and send all of it back, so such a field is fine with the value that it has; one that has another value
//! is refused by name, since a client that sends it expects another answer.

use bosun_core::query::Spec;
use bosun_engine::{Engine, Snapshot, Update};
use serde_json::{Map, Value, json};

use super::{
    fields::{count_schema, duration_schema, flag_schema, object_schema, read_texts, text_schema, texts_schema},
    request,
};
use crate::{
    ark::answering::convert,
    auth::{Right, gate::Caller},
    http::{
        error::{ApiError, Code, clip, internal},
        json::{BodyField, FieldTable, Object, RequestFindings},
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
    "usage",
    "duration",
];
/// Fields that a request has and no answer shows as they were sent.
const NOT_SHOWN: &[&str] = &["externalTools", "tools", "toolSource", "toolFilter", "conversationPolicy"];
/// Fields that are an object with a name, or the name alone.
const REFERENCES: &[&str] = &["memory", "modelRef"];

/// What can be changed of a query; every other field must have the value that it has.
pub(crate) const FIELDS: FieldTable = &[
    BodyField { name: "cancel", schema: flag_schema },
    BodyField { name: "timeout", schema: duration_schema },
    BodyField { name: "toolTimeout", schema: duration_schema },
    BodyField { name: "externalTimeout", schema: duration_schema },
    BodyField { name: "ttl", schema: duration_schema },
    BodyField { name: "maxToolCalls", schema: count_schema },
    BodyField { name: "maxTokens", schema: count_schema },
    BodyField { name: "apiVersion", schema: text_schema },
    BodyField { name: "kind", schema: || json!({"const": "Query"}) },
    BodyField { name: "metadata", schema: || object_schema(METADATA, &[]) },
    BodyField {
        name: "spec",
        schema: || json!({"type": "object", "description": "The same fields, instead of beside it"}),
    },
];
const METADATA: FieldTable =
    &[BodyField { name: "labels", schema: texts_schema }, BodyField { name: "annotations", schema: texts_schema }];

/// A request to change a query, read as far as that needs no query.
#[derive(Debug)]
pub(crate) struct QueryChange {
    update: Update,
    /// Fields that must have the values that the query has.
    kept: Object,
    metadata: Option<Object>,
    findings: RequestFindings,
}

pub(crate) fn read(caller: &Caller, warnings: Vec<String>, body: Value) -> Result<QueryChange, ApiError> {
    let mut findings = RequestFindings::new(Code::InvalidRequest, warnings);
    let mut kept = request::flatten(Object::body(body)?, &mut findings);
    let mut metadata = kept.object("metadata", &mut findings);
    let mut texts = |name| read_texts(metadata.as_mut()?, name, &mut findings);
    let (labels, annotations) = (texts("labels"), texts("annotations"));
    let update = Update {
        of: None,
        cancel: kept.flag("cancel", &mut findings).unwrap_or(false),
        limits: request::read_limits(&mut kept, &mut findings),
        labels,
        annotations,
        may_shorten: caller.grant().rights.has(Right::Manage),
    };
    request::refuse_unserved(&mut kept, request::UNSERVED, &mut findings);
    for name in OF_ANSWERS {
        let _ = kept.discard(name);
    }
    // Faults of the body are reported before the query is looked up.
    findings.check()?;
    Ok(QueryChange { update, kept, metadata, findings })
}

impl QueryChange {
    /// The update and the warnings, unless a frozen field has another value.
    pub(crate) fn check(self, engine: &Engine, snapshot: &Snapshot) -> Result<(Update, Vec<String>), ApiError> {
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

/// Warns of limits that are narrowed, or that have no effect any more.
fn warn(update: &Update, engine: &Engine, snapshot: &Snapshot, findings: &mut RequestFindings) {
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

fn refuse(findings: &mut RequestFindings, path: impl AsRef<str>) {
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
fn keep_metadata(metadata: &mut Object, snapshot: &Snapshot, findings: &mut RequestFindings) {
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
