//! A request to create a query, from every dialect to the engine's one form.
//!
//! The body may be flat or `{metadata, spec}`; both are laid flat first, and from there on each field
//! is read in one place. Fields of ARK that are known and not served are refused by name, since a
//! client that sends one expects its effect; fields that nobody knows are warned about.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bosun_core::{
    Namespace, QueryName,
    query::{AskedLimits, Limits, ModelOptions, TargetKind, View},
    schema::path::with_key,
    tool::duration_from_json,
};
use bosun_engine::{Engine, Submission, store::RequestKey};
use serde_json::Value;

use super::{
    conversations, duration, input,
    options::{Options, clamp_wait, read_wait},
    target::{self, Target},
    tools,
};
use crate::http::{
    error::{ApiError, Code, clip},
    json::{Findings, Object, kind_of},
};

/// What the client asked for.
#[derive(Debug)]
pub(super) struct NewQuery {
    pub(super) submission: Submission,
    pub(super) wait: Option<Duration>,
    pub(super) stream: bool,
}

/// Fields of ARK's query that this version does not serve, and what to do instead.
pub(super) const UNSERVED: &[(&str, &str)] = &[
    ("serviceAccount", "there is no Kubernetes account to act as"),
    ("overrides", "headers belong to the manifests of models and tools"),
    ("evaluators", "this version evaluates no answers"),
    ("evaluatorSelector", "this version evaluates no answers"),
];

/// Labels, and annotations, together: as many bytes as Kubernetes takes of annotations.
const MAX_TEXTS: usize = bosun_core::ceiling::LABELS_BYTES;

/// What makes no sense for a query that is not there yet.
const NOT_OF_NEW: &[(&str, &str)] = &[("cancel", "a query is cancelled with `PATCH …/queries/{name}/cancel`")];

pub(super) fn read(engine: &Engine, options: &Options, body: Value) -> Result<NewQuery, ApiError> {
    let mut findings = Findings::new(Code::InvalidRequest, options.warnings.clone());
    let mut fields = lay_flat(Object::body(body)?, &mut findings);
    refuse_unserved(&mut fields, UNSERVED, &mut findings);
    refuse_unserved(&mut fields, NOT_OF_NEW, &mut findings);
    let metadata = read_metadata(&mut fields, options, &mut findings)?;
    let name = read_name(&mut fields, metadata.name, &mut findings);
    let input = input::read(&mut fields, &mut findings);
    let target = target::read(&mut fields, &engine.registry(), &metadata.namespace, &mut findings);
    let model = target::read_model(&mut fields, target.as_ref(), &metadata.namespace, &mut findings);
    let parameters = input::read_parameters(&mut fields, &mut findings);
    let options_of_model = read_model_options(&mut fields, &mut findings);
    let output_schema = fields.object("outputSchema", &mut findings).map(|schema| schema.into_members().into());
    let tools = tools::read(&mut fields, engine, &metadata.namespace, &mut findings);
    let limits = read_limits(&mut fields, &mut findings);
    let named = target.as_ref().map_or((TargetKind::Agent, ""), |target| (target.kind, &target.name));
    warn_of_narrowed(&limits, &engine.bounds(&metadata.namespace, named.0, named.1), &mut findings);
    let joined = conversations::join(&mut fields, &metadata.namespace, &mut findings);
    if let Some(target) = &target {
        let brings_tools = !tools.outside.is_empty() || tools.selected.is_some() || tools.filter.is_some();
        target.refuse_what_it_cannot_have(brings_tools, output_schema.is_some(), input.as_ref(), &mut findings);
        if target.kind == TargetKind::Tool && joined.conversation.memory.is_some() {
            findings.fault("memory", "not_used", "a tool alone has no conversation");
        }
    }
    let wait = read_body_wait(&mut fields, &mut findings);
    let stream = fields.flag("stream", &mut findings);
    fields.finish(&mut findings);
    let warnings = findings.conclude()?;
    let view = options.view.unwrap_or(if tools.speaks_rfc { View::Rfc } else { View::Ark });
    let Target { kind: target_kind, name: target, selector } = target.unwrap_or_default();
    Ok(NewQuery {
        wait: options.wait_or(wait),
        stream: options.stream.or(stream).unwrap_or(false),
        submission: Submission {
            by: options.actor().clone(),
            namespace: metadata.namespace,
            name,
            // Both are there: a missing one is a fault.
            target,
            target_kind,
            selector,
            model,
            input: input.unwrap_or_else(|| "".into()),
            parameters,
            options: options_of_model,
            output_schema: output_schema.map(|schema: Value| Arc::new(schema)),
            client_tools: tools.outside,
            mode: tools.mode,
            selected_tools: tools.selected,
            tool_filter: tools.filter,
            limits,
            view,
            session_id: joined.session_id,
            conversation: joined.conversation,
            labels: metadata.labels,
            annotations: metadata.annotations,
            warnings,
            request: options.idempotency_key.clone().map(|key| RequestKey {
                actor: options.actor().id(),
                route: "queries",
                key,
            }),
            trace: None,
        },
    })
}

/// Brings `{apiVersion, kind, metadata, spec: {…}}` into the flat form.
pub(super) fn lay_flat(mut body: Object, findings: &mut Findings) -> Object {
    if let Some(kind) = body.text("kind", findings).filter(|kind| kind != "Query") {
        findings.fault("kind", "wrong_kind", format!("must be `Query`, not `{}`", clip(&kind)));
    }
    // One version exists, and its fields are checked one by one.
    let _ = body.text("apiVersion", findings);
    if let Some(spec) = body.object("spec", findings) {
        body.absorb(spec, findings);
    }
    body
}

/// Takes out fields that are known and not served.
pub(super) fn refuse_unserved(fields: &mut Object, unserved: &[(&str, &str)], findings: &mut Findings) {
    for (name, advice) in unserved {
        let path = fields.path_of(name);
        if let Some(value) = fields.take(name) {
            refuse_unserved_field(path, &value, advice, findings);
        }
    }
}

/// A field that is not served may stand there as long as it asks for nothing.
pub(super) fn refuse_unserved_field(path: impl Into<String>, value: &Value, advice: &str, findings: &mut Findings) {
    if !asks_for_nothing(value) {
        findings.refuse(Code::UnsupportedField, path, "unsupported_field", format!("is not served: {advice}"));
    }
}

fn asks_for_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

struct Metadata {
    name: Option<String>,
    namespace: Namespace,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

fn read_metadata(fields: &mut Object, options: &Options, findings: &mut Findings) -> Result<Metadata, ApiError> {
    let mut read =
        Metadata { name: None, namespace: options.namespace(), labels: BTreeMap::new(), annotations: BTreeMap::new() };
    let Some(mut metadata) = fields.object("metadata", findings) else { return Ok(read) };
    read.name = metadata.text("name", findings);
    if let Some(namespace) = metadata.text("namespace", findings) {
        match namespace.parse::<Namespace>() {
            Ok(namespace) if namespace == read.namespace => {}
            Ok(namespace) if !options.place.is_named => {
                read.namespace = Namespace::clone(&*options.caller.reach(namespace)?);
            }
            Ok(_) => findings.fault("metadata.namespace", "mismatch", "is not the namespace of the request"),
            Err(error) => findings.fault("metadata.namespace", "invalid_name", error.to_string()),
        }
    }
    read.labels = read_texts(&mut metadata, "labels", findings).unwrap_or_default();
    read.annotations = read_texts(&mut metadata, "annotations", findings).unwrap_or_default();
    metadata.finish(findings);
    Ok(read)
}

pub(super) fn read_texts(
    metadata: &mut Object,
    name: &str,
    findings: &mut Findings,
) -> Option<BTreeMap<String, String>> {
    let path = metadata.path_of(name);
    let texts = metadata.object(name, findings)?;
    let mut read = BTreeMap::new();
    let mut members = texts.into_members().into_iter();
    while let Some((key, value)) = members.next() {
        if findings.is_full() {
            findings.omit(1 + members.len());
            break;
        }
        match value {
            Value::String(text) => {
                read.insert(key, text);
            }
            other => {
                let message = format!("must be a string, not {}", kind_of(&other));
                findings.fault(with_key(&path, &key), "wrong_type", message);
            }
        }
    }
    let bytes: usize = read.iter().map(|(key, text): (&String, &String)| key.len() + text.len()).sum();
    if bytes > MAX_TEXTS {
        findings.fault(path, "too_large", format!("has {bytes} bytes; {MAX_TEXTS} are the most"));
    }
    Some(read)
}

fn read_name(fields: &mut Object, in_metadata: Option<String>, findings: &mut Findings) -> Option<QueryName> {
    let flat = fields.text("name", findings);
    if flat.is_some() && in_metadata.is_some() && flat != in_metadata {
        findings.fault("metadata.name", "mismatch", "is not the `name` beside it");
    }
    let path = if flat.is_some() { fields.path_of("name") } else { "metadata.name".into() };
    let name = flat.or(in_metadata)?;
    name.parse().map_err(|error: bosun_core::id::IdError| findings.fault(path, "invalid_name", error.to_string())).ok()
}

/// The limits of the query, as they are asked for.
pub(super) fn read_limits(fields: &mut Object, findings: &mut Findings) -> AskedLimits {
    AskedLimits {
        query_timeout: read_duration(fields, "timeout", findings),
        tool_timeout: read_duration(fields, "toolTimeout", findings),
        external_timeout: read_duration(fields, "externalTimeout", findings),
        max_tool_calls: read_count(fields, "maxToolCalls", findings),
        max_tokens: read_count(fields, "maxTokens", findings).map(u64::from),
        ttl: read_duration(fields, "ttl", findings),
    }
}

/// What is more than the server or the agent allows is narrowed; whoever asked for it is told.
pub(super) fn warn_of_narrowed(limits: &AskedLimits, bounds: &Limits, findings: &mut Findings) {
    let granted = limits.narrow(*bounds);
    for (name, asked, granted) in [
        ("timeout", limits.query_timeout, granted.query_timeout),
        ("toolTimeout", limits.tool_timeout, granted.tool_timeout),
        ("externalTimeout", limits.external_timeout, granted.external_timeout),
        ("ttl", limits.ttl, granted.ttl),
    ] {
        if let Some(asked) = asked.filter(|asked| *asked > granted) {
            let (asked, granted) = (duration::format(asked), duration::format(granted));
            findings.warn(format!("`{name}` of {asked} was narrowed to the limit of {granted}"));
        }
    }
    for (name, asked, granted) in [
        ("maxToolCalls", limits.max_tool_calls.map(u64::from), Some(u64::from(granted.max_tool_calls))),
        ("maxTokens", limits.max_tokens, granted.max_tokens),
    ] {
        if let (Some(asked), Some(granted)) = (asked, granted)
            && asked > granted
        {
            findings.warn(format!("`{name}` of {asked} was narrowed to the limit of {granted}"));
        }
    }
}

/// What the query asks of its model.
fn read_model_options(fields: &mut Object, findings: &mut Findings) -> ModelOptions {
    let Some(mut options) = fields.object("modelOptions", findings) else { return ModelOptions::default() };
    let read = model_options(&mut options, findings);
    options.finish(findings);
    read
}

/// `temperature` and `maxTokens`, wherever they stand.
pub(super) fn model_options(fields: &mut Object, findings: &mut Findings) -> ModelOptions {
    let path = fields.path_of("temperature");
    let temperature = fields.take("temperature").and_then(|value| {
        let read = value.as_f64().filter(|temperature| (0.0..=2.0).contains(temperature));
        if read.is_none() {
            findings.fault(path, "invalid_number", "must be a number from 0 to 2");
        }
        read
    });
    let path = fields.path_of("maxTokens");
    let max_tokens = fields.take("maxTokens").and_then(|value| {
        let read = value.as_u64().filter(|tokens| (1..=u64::from(u32::MAX)).contains(tokens));
        if read.is_none() {
            findings.fault(path, "invalid_number", "must be a whole number above zero");
        }
        read
    });
    ModelOptions { temperature, max_tokens }
}

fn read_duration(fields: &mut Object, name: &str, findings: &mut Findings) -> Option<Duration> {
    let path = fields.path_of(name);
    let value = fields.take(name)?;
    let read = duration_from_json(&value);
    if read.is_none() {
        findings.fault(path, "invalid_duration", "must be a duration above zero, such as `30s` or `5m`");
    }
    read
}

fn read_count(fields: &mut Object, name: &str, findings: &mut Findings) -> Option<u32> {
    let path = fields.path_of(name);
    let value = fields.take(name)?;
    let count = value.as_u64().and_then(|count| u32::try_from(count).ok());
    if count.is_none() {
        findings.fault(path, "invalid_number", "must be a whole number, zero or more");
    }
    count
}

pub(super) fn read_body_wait(fields: &mut Object, findings: &mut Findings) -> Option<Duration> {
    let path = fields.path_of("wait");
    let value = fields.take("wait")?;
    match read_wait(&value) {
        Some(wait) => Some(clamp_wait(wait, findings)),
        None => {
            findings.fault(path, "invalid_duration", "must be true, false or a duration such as `20s`");
            None
        }
    }
}
