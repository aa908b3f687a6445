//! A request to create a query, from every dialect to the engine's one form.
//!
//! The body may be flat or `{metadata, spec}`; both are flattened first, and from there on each field
//! is read in one place. Fields of ARK that are known and not served are refused by name, since a
//! client that sends one expects its effect; unknown fields are warned about.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bosun_core::{
    Namespace, QueryName,
    query::{AskedLimits, ExpiryPolicy, ModelOptions, NarrowedLimit, QueryLimits, TargetKind},
};
use bosun_engine::{Engine, Submission, store::RequestKey};
use bosun_reading::{
    FaultClass, Field, FieldTable, Path, Report,
    table::{flag_schema, name_schema, object_schema, text_schema, texts_schema},
};
use serde_json::{Value, json};

use super::{
    conversation,
    fields::{self, WAIT, read_body_wait, read_count, read_duration, read_timeout, with_limits},
    input, reference,
    target::{self, QueryTarget},
    tool_source, tools,
};
use crate::{
    ark::params::{ArkView, IdempotencyKey, Params, Streaming, ViewChoice, WaitTime},
    auth::gate::{Caller, RequestNamespace},
    http::{
        error::{ApiError, Code, clip},
        report::{BodyFields, RequestReport},
    },
};

/// What the client asked for.
#[derive(Debug)]
pub(crate) struct NewQuery {
    pub(crate) submission: Submission,
    pub(crate) wait: Option<Duration>,
    pub(crate) stream: bool,
}

/// The parameters of a new query outside its body.
pub(crate) type CreateParams = (WaitTime, Streaming, ViewChoice, IdempotencyKey);

/// The body of a new query. The fields of `spec` may be inside it or next to it.
pub(crate) const FIELDS: FieldTable = with_limits!(
    [
        Field::new("apiVersion", text_schema),
        Field::new("kind", || json!({"const": "Query"})),
        Field::new("metadata", || object_schema(METADATA, &[])),
        Field::new("spec", || json!({"type": "object"})),
        Field::new("name", name_schema),
        Field::new("type", || json!({"enum": ["user", "messages"]})),
        Field::new("input", input::schema),
        Field::new("parameters", || json!({"type": "array", "items": input::parameter_schema()})),
        Field::new("target", target::schema),
        Field::new("targets", || json!({"type": "array", "items": target::schema(), "minItems": 1, "maxItems": 1})),
        Field::new("selector", target::selector_schema),
        Field::new("modelRef", reference::schema),
        Field::new("modelOptions", || object_schema(fields::MODEL_OPTIONS, &[])),
        Field::new(
            "outputSchema",
            || json!({"type": "object", "description": "JSON Schema of an object that the answer must be"}),
        ),
        Field::new("externalTools", || json!({"type": "array", "items": tools::definition_schema()})),
        Field::new("tools", || json!({"type": "array", "items": tools::selected_schema()})),
        Field::new("toolSource", tool_source::schema),
        Field::new("toolFilter", tools::filter_schema),
    ],
    [
        Field::new("onExpired", || json!({"enum": ["tell", "fail"]})),
        Field::new("memory", reference::schema),
        Field::new("sessionId", conversation::id_schema),
        Field::new("conversationId", conversation::id_schema),
        Field::new("conversationPolicy", || json!({"enum": ["allow", "reject"]})),
        WAIT,
        Field::new("stream", flag_schema),
    ]
);

const METADATA: FieldTable = &[
    Field::new("name", name_schema),
    Field::new("namespace", text_schema),
    Field::new("labels", texts_schema),
    Field::new("annotations", texts_schema),
];

/// What a new query must have, as keywords of its schema.
pub(crate) fn required() -> Value {
    let who = ["target", "targets", "selector"].map(|field| json!({"required": [field]}));
    json!({"required": ["input"], "anyOf": who})
}

/// Fields of ARK's query that this version does not serve, and what to do instead.
pub(crate) const UNSERVED: &[(&str, &str)] = &[
    ("serviceAccount", "there is no Kubernetes account to act as"),
    ("overrides", "headers belong to the manifests of models and tools"),
    ("evaluators", "evaluate an answer with `POST …/evaluations`"),
    ("evaluatorSelector", "evaluate an answer with `POST …/evaluations`"),
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
    let report = RequestReport::new(Code::InvalidRequest, warnings);
    let fields = flatten(report.body(body)?.with_table(FIELDS));
    refuse_unserved(&fields, UNSERVED);
    refuse_unserved(&fields, NOT_OF_NEW);
    let metadata = read_metadata(&fields, caller, namespace)?;
    let name = read_name(&fields, metadata.name);
    let input = input::read(&fields);
    let target = target::read(&fields, &engine.registry(), &metadata.namespace);
    let model = target::read_model(&fields, target.as_ref(), &metadata.namespace);
    let parameters = input::read_parameters(&fields);
    let options_of_model = read_options_of_model(&fields);
    let output_schema = fields.fields("outputSchema").map(|schema| schema.into_members().into());
    let tools = tools::read(&fields, engine, &metadata.namespace);
    let limits = read_limits(&fields);
    let on_expired = read_expiry(&fields);
    let named = target.as_ref().map_or((TargetKind::Agent, ""), |target| (target.kind, &target.name));
    warn_of_narrowed(&limits, &engine.bounds(&metadata.namespace, named.0, named.1), &report);
    let joined = conversation::join(&fields, &metadata.namespace);
    if let Some(target) = &target {
        let brings_tools = !tools.outside.is_empty() || tools.selected.is_some() || tools.filter.is_some();
        let chooses_tools = tools.selected.is_some() || tools.filter.is_some();
        target.refuse_what_it_cannot_have(
            (brings_tools, chooses_tools),
            output_schema.is_some(),
            input.as_ref(),
            &report,
        );
        if target.kind == TargetKind::Tool && joined.conversation.memory.is_some() {
            report.fault("memory", "not_used", "a tool alone has no conversation");
        }
    }
    let wait = read_body_wait(&fields);
    let stream = fields.bool("stream");
    fields.finish();
    drop(fields);
    let warnings = report.conclude()?;
    let view = choice.view.unwrap_or(if tools.speaks_rfc { ArkView::Rfc } else { ArkView::Ark });
    let QueryTarget { kind: target_kind, name: target, selector } = target.unwrap_or_default();
    Ok(NewQuery {
        wait: waiting.or(wait),
        stream: streaming.stream.or(stream).unwrap_or(false),
        submission: Submission {
            by: caller.actor.clone(),
            namespace: metadata.namespace,
            name,
            // Both are present: a missing one is a fault.
            target,
            target_kind,
            selector,
            model,
            input: input.unwrap_or_else(|| "".into()),
            parameters,
            options: options_of_model,
            output_schema: output_schema.map(|schema: Value| Arc::new(schema)),
            client_tools: tools.outside,
            tool_sources: tools.sources,
            selected_tools: tools.selected,
            tool_filter: tools.filter,
            limits,
            edge_note: view.into(),
            on_expired,
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
pub(crate) fn flatten(mut body: BodyFields<'_>) -> BodyFields<'_> {
    if let Some(kind) = body.text("kind").filter(|kind| kind != "Query") {
        body.reject("kind", "wrong_kind", format!("must be `Query`, not `{}`", clip(&kind)));
    }
    // One version exists, and its fields are checked one by one.
    let _ = body.text("apiVersion");
    if let Some(spec) = body.fields("spec") {
        body.absorb(spec);
    }
    body
}

/// Removes fields that are known and not served, and refuses them.
pub(crate) fn refuse_unserved(fields: &BodyFields<'_>, unserved: &[(&str, &str)]) {
    for (name, advice) in unserved {
        if let Some(value) = fields.discard(name) {
            refuse_unserved_field(fields.path_of(name), &value, advice, fields.report());
        }
    }
}

/// A field that is not served is accepted as long as it is empty.
pub(crate) fn refuse_unserved_field(path: Path, value: &Value, advice: &str, report: &Report) {
    if !asks_for_nothing(value) {
        report.refuse(FaultClass::Unserved, path, "unsupported_field", format!("is not served: {advice}"));
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
    fields: &BodyFields<'_>,
    caller: &Caller,
    namespace: &RequestNamespace,
) -> Result<QueryMetadata, ApiError> {
    let mut read = QueryMetadata {
        name: None,
        namespace: Namespace::clone(namespace),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
    };
    let Some(metadata) = fields.fields("metadata") else { return Ok(read) };
    let metadata = metadata.with_table(METADATA);
    read.name = metadata.text("name");
    if let Some(named) = metadata.text("namespace") {
        match named.parse::<Namespace>() {
            Ok(named) if named == read.namespace => {}
            Ok(named) if !namespace.is_named => {
                read.namespace = Namespace::clone(&*caller.reach(named)?);
            }
            Ok(_) => fields.report().fault("metadata.namespace", "mismatch", "is not the namespace of the request"),
            Err(error) => fields.report().fault("metadata.namespace", "invalid_name", error.to_string()),
        }
    }
    read.labels = fields::read_labels(&metadata, "labels").unwrap_or_default();
    read.annotations = fields::read_labels(&metadata, "annotations").unwrap_or_default();
    metadata.finish();
    Ok(read)
}

fn read_name(fields: &BodyFields<'_>, in_metadata: Option<String>) -> Option<QueryName> {
    let flat = fields.text("name");
    let report = fields.report();
    if flat.is_some() && in_metadata.is_some() && flat != in_metadata {
        report.fault("metadata.name", "mismatch", "is not the `name` next to it");
    }
    let path = if flat.is_some() { fields.path_of("name") } else { "metadata.name".into() };
    let name = flat.or(in_metadata)?;
    name.parse().map_err(|error: bosun_core::id::IdError| report.fault(path, "invalid_name", error.to_string())).ok()
}

/// The limits of the query, as they are asked for.
pub(crate) fn read_limits(fields: &BodyFields<'_>) -> AskedLimits {
    AskedLimits {
        query_timeout: read_timeout(fields),
        tool_timeout: read_duration(fields, "toolTimeout"),
        external_timeout: read_duration(fields, "externalTimeout"),
        approval_timeout: read_duration(fields, "approvalTimeout"),
        max_tool_calls: read_count(fields, "maxToolCalls"),
        max_tokens: read_count(fields, "maxTokens").map(u64::from),
        ttl: read_duration(fields, "ttl"),
    }
}

/// What becomes of the query when a call of the client expires.
fn read_expiry(fields: &BodyFields<'_>) -> ExpiryPolicy {
    let Some(text) = fields.text("onExpired") else { return ExpiryPolicy::default() };
    ExpiryPolicy::parse(&text).unwrap_or_else(|| {
        fields.reject("onExpired", "invalid_value", format!("must be `tell` or `fail`, not `{}`", clip(&text)));
        ExpiryPolicy::default()
    })
}

/// A limit above the one of the server or the agent is narrowed, with a warning.
pub(crate) fn warn_of_narrowed(limits: &AskedLimits, bounds: &QueryLimits, report: &Report) {
    for NarrowedLimit { name, asked, granted, .. } in limits.above(*bounds) {
        report.note(format!("`{name}` of {asked} was narrowed to the limit of {granted}"));
    }
}

/// The options that the query sets for its model.
fn read_options_of_model(body: &BodyFields<'_>) -> ModelOptions {
    let Some(options) = body.fields("modelOptions") else { return ModelOptions::default() };
    let options = options.with_table(fields::MODEL_OPTIONS);
    let read = fields::read_model_options(&options);
    options.finish();
    read
}
