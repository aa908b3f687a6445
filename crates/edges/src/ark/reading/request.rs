//! A request to create a query, from every dialect to the engine's one form.
//!
//! The body may be flat or `{metadata, spec}`; both are flattened first, and from there on each field
//! is read in one place. Fields of ARK that are known and not served are refused by name, since a
//! client that sends one expects its effect; unknown fields are warned about.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bosun_core::{
    Namespace, QueryName,
    query::{AskedLimits, ModelOptions, QueryLimits, TargetKind, View},
};
use bosun_engine::{Engine, Submission, store::RequestKey};
use serde_json::{Value, json};

use super::{
    conversation,
    fields::{
        self, WAIT, count_schema, duration_schema, flag_schema, object_schema, read_body_wait, read_count,
        read_duration, text_schema, texts_schema,
    },
    input, reference,
    target::{self, QueryTarget},
    tools,
};
use crate::{
    ark::{
        duration,
        params::{IdempotencyKey, Params, Streaming, ViewChoice, WaitTime, name_schema},
    },
    auth::gate::{Caller, RequestNamespace},
    http::{
        error::{ApiError, Code, clip},
        json::{BodyField, FieldTable, Object, RequestFindings},
    },
};

/// What the client asked for.
#[derive(Debug)]
pub(crate) struct NewQuery {
    pub(crate) submission: Submission,
    pub(crate) wait: Option<Duration>,
    pub(crate) stream: bool,
}

/// What a new query is asked with beside its body.
pub(crate) type CreateParams = (WaitTime, Streaming, ViewChoice, IdempotencyKey);

/// The body of a new query. Those of `spec` may be beside it or in it.
pub(crate) const FIELDS: FieldTable = &[
    BodyField { name: "apiVersion", schema: text_schema },
    BodyField { name: "kind", schema: || json!({"const": "Query"}) },
    BodyField { name: "metadata", schema: || object_schema(METADATA, &[]) },
    BodyField {
        name: "spec",
        schema: || json!({"type": "object", "description": "The fields of a query, instead of beside it"}),
    },
    BodyField { name: "name", schema: name_schema },
    BodyField { name: "type", schema: || json!({"enum": ["user", "messages"]}) },
    BodyField { name: "input", schema: input::schema },
    BodyField { name: "parameters", schema: || json!({"type": "array", "items": input::parameter_schema()}) },
    BodyField { name: "target", schema: target::schema },
    BodyField {
        name: "targets",
        schema: || json!({"type": "array", "items": target::schema(), "minItems": 1, "maxItems": 1}),
    },
    BodyField { name: "selector", schema: target::selector_schema },
    BodyField { name: "modelRef", schema: reference::schema },
    BodyField { name: "modelOptions", schema: || object_schema(fields::MODEL_OPTIONS, &[]) },
    BodyField {
        name: "outputSchema",
        schema: || json!({"type": "object", "description": "JSON Schema of an object that the answer must be"}),
    },
    BodyField { name: "externalTools", schema: || json!({"type": "array", "items": tools::definition_schema()}) },
    BodyField { name: "tools", schema: || json!({"type": "array", "items": tools::selected_schema()}) },
    BodyField { name: "toolSource", schema: || json!({"enum": ["ark", "n8n", "hybrid"]}) },
    BodyField { name: "toolFilter", schema: tools::filter_schema },
    BodyField { name: "timeout", schema: duration_schema },
    BodyField { name: "toolTimeout", schema: duration_schema },
    BodyField { name: "externalTimeout", schema: duration_schema },
    BodyField { name: "ttl", schema: duration_schema },
    BodyField { name: "maxToolCalls", schema: count_schema },
    BodyField { name: "maxTokens", schema: count_schema },
    BodyField { name: "memory", schema: reference::schema },
    BodyField { name: "sessionId", schema: conversation::id_schema },
    BodyField { name: "conversationId", schema: conversation::id_schema },
    BodyField { name: "conversationPolicy", schema: || json!({"enum": ["allow", "reject"]}) },
    WAIT,
    BodyField { name: "stream", schema: flag_schema },
];

const METADATA: FieldTable = &[
    BodyField { name: "name", schema: name_schema },
    BodyField { name: "namespace", schema: text_schema },
    BodyField { name: "labels", schema: texts_schema },
    BodyField { name: "annotations", schema: texts_schema },
];

/// The body of a new query, described: flat, or with `spec`.
pub(crate) fn schema() -> Value {
    let mut schema = object_schema(FIELDS, &[]);
    let who = ["target", "targets", "selector"].map(|field| json!({"required": [field]}));
    schema["anyOf"] = json!([{"required": ["input"], "anyOf": who}, {"required": ["spec"]}]);
    schema
}

/// Fields of ARK's query that this version does not serve, and what to do instead.
pub(crate) const UNSERVED: &[(&str, &str)] = &[
    ("serviceAccount", "there is no Kubernetes account to act as"),
    ("overrides", "headers belong to the manifests of models and tools"),
    ("evaluators", "this version evaluates no answers"),
    ("evaluatorSelector", "this version evaluates no answers"),
];

/// Fields that make no sense for a query that does not exist yet.
const NOT_OF_NEW: &[(&str, &str)] = &[("cancel", "a query is cancelled with `PATCH …/queries/{name}/cancel`")];

pub(crate) fn read(
    engine: &Engine,
    caller: &Caller,
    namespace: &RequestNamespace,
    params: Params<CreateParams>,
    body: Value,
) -> Result<NewQuery, ApiError> {
    let Params { given: (waiting, streaming, choice, idempotency), warnings } = params;
    let mut findings = RequestFindings::new(Code::InvalidRequest, warnings);
    let mut fields = flatten(Object::body(body)?.with_fields(FIELDS), &mut findings);
    refuse_unserved(&mut fields, UNSERVED, &mut findings);
    refuse_unserved(&mut fields, NOT_OF_NEW, &mut findings);
    let metadata = read_metadata(&mut fields, caller, namespace, &mut findings)?;
    let name = read_name(&mut fields, metadata.name, &mut findings);
    let input = input::read(&mut fields, &mut findings);
    let target = target::read(&mut fields, &engine.registry(), &metadata.namespace, &mut findings);
    let model = target::read_model(&mut fields, target.as_ref(), &metadata.namespace, &mut findings);
    let parameters = input::read_parameters(&mut fields, &mut findings);
    let options_of_model = read_options_of_model(&mut fields, &mut findings);
    let output_schema = fields.object("outputSchema", &mut findings).map(|schema| schema.into_members().into());
    let tools = tools::read(&mut fields, engine, &metadata.namespace, &mut findings);
    let limits = read_limits(&mut fields, &mut findings);
    let named = target.as_ref().map_or((TargetKind::Agent, ""), |target| (target.kind, &target.name));
    warn_of_narrowed(&limits, &engine.bounds(&metadata.namespace, named.0, named.1), &mut findings);
    let joined = conversation::join(&mut fields, &metadata.namespace, &mut findings);
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
    let view = choice.view.unwrap_or(if tools.speaks_rfc { View::Rfc } else { View::Ark });
    let QueryTarget { kind: target_kind, name: target, selector } = target.unwrap_or_default();
    Ok(NewQuery {
        wait: waiting.or(wait),
        stream: streaming.stream.or(stream).unwrap_or(false),
        submission: Submission {
            by: caller.actor.clone(),
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
            request: idempotency.key.map(|key| RequestKey { actor: caller.actor.id(), route: "queries", key }),
            trace: None,
        },
    })
}

/// Flattens `{apiVersion, kind, metadata, spec: {…}}`.
pub(crate) fn flatten(mut body: Object, findings: &mut RequestFindings) -> Object {
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

/// Removes fields that are known and not served, and refuses them.
pub(crate) fn refuse_unserved(fields: &mut Object, unserved: &[(&str, &str)], findings: &mut RequestFindings) {
    for (name, advice) in unserved {
        let path = fields.path_of(name);
        if let Some(value) = fields.discard(name) {
            refuse_unserved_field(path, &value, advice, findings);
        }
    }
}

/// A field that is not served is accepted as long as it is empty.
pub(crate) fn refuse_unserved_field(
    path: impl Into<String>,
    value: &Value,
    advice: &str,
    findings: &mut RequestFindings,
) {
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

struct QueryMetadata {
    name: Option<String>,
    namespace: Namespace,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

fn read_metadata(
    fields: &mut Object,
    caller: &Caller,
    namespace: &RequestNamespace,
    findings: &mut RequestFindings,
) -> Result<QueryMetadata, ApiError> {
    let mut read = QueryMetadata {
        name: None,
        namespace: Namespace::clone(namespace),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
    };
    let Some(metadata) = fields.object("metadata", findings) else { return Ok(read) };
    let mut metadata = metadata.with_fields(METADATA);
    read.name = metadata.text("name", findings);
    if let Some(named) = metadata.text("namespace", findings) {
        match named.parse::<Namespace>() {
            Ok(named) if named == read.namespace => {}
            Ok(named) if !namespace.is_named => {
                read.namespace = Namespace::clone(&*caller.reach(named)?);
            }
            Ok(_) => findings.fault("metadata.namespace", "mismatch", "is not the namespace of the request"),
            Err(error) => findings.fault("metadata.namespace", "invalid_name", error.to_string()),
        }
    }
    read.labels = fields::read_texts(&mut metadata, "labels", findings).unwrap_or_default();
    read.annotations = fields::read_texts(&mut metadata, "annotations", findings).unwrap_or_default();
    metadata.finish(findings);
    Ok(read)
}

fn read_name(fields: &mut Object, in_metadata: Option<String>, findings: &mut RequestFindings) -> Option<QueryName> {
    let flat = fields.text("name", findings);
    if flat.is_some() && in_metadata.is_some() && flat != in_metadata {
        findings.fault("metadata.name", "mismatch", "is not the `name` beside it");
    }
    let path = if flat.is_some() { fields.path_of("name") } else { "metadata.name".into() };
    let name = flat.or(in_metadata)?;
    name.parse().map_err(|error: bosun_core::id::IdError| findings.fault(path, "invalid_name", error.to_string())).ok()
}

/// The limits of the query, as they are asked for.
pub(crate) fn read_limits(fields: &mut Object, findings: &mut RequestFindings) -> AskedLimits {
    AskedLimits {
        query_timeout: read_duration(fields, "timeout", findings),
        tool_timeout: read_duration(fields, "toolTimeout", findings),
        external_timeout: read_duration(fields, "externalTimeout", findings),
        max_tool_calls: read_count(fields, "maxToolCalls", findings),
        max_tokens: read_count(fields, "maxTokens", findings).map(u64::from),
        ttl: read_duration(fields, "ttl", findings),
    }
}

/// A limit above the one of the server or the agent is narrowed, with a warning.
pub(crate) fn warn_of_narrowed(limits: &AskedLimits, bounds: &QueryLimits, findings: &mut RequestFindings) {
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

/// The options that the query sets for its model.
fn read_options_of_model(body: &mut Object, findings: &mut RequestFindings) -> ModelOptions {
    let Some(options) = body.object("modelOptions", findings) else { return ModelOptions::default() };
    let mut options = options.with_fields(fields::MODEL_OPTIONS);
    let read = fields::read_model_options(&mut options, findings);
    options.finish(findings);
    read
}
