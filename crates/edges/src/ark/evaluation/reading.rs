//! The body of a new evaluation: flat, or `{metadata, spec}`.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bosun_core::{
    Namespace, QueryName,
    query::{AskedLimits, EdgeNote, TargetKind},
};
use bosun_engine::{
    EngineError, Input, Registry, Submission,
    resource::{ResourceError, ResourceKey, ResourceKind},
};
use bosun_reading::{
    FaultClass, Field, FieldTable,
    table::{duration_schema, name_schema, object_schema, text_schema, texts_schema},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::judge::{self, Judgement};
use crate::{
    ark::reading::fields::{self, WAIT, read_body_wait, read_duration, read_timeout},
    auth::gate::Caller,
    http::{
        error::{ApiError, Code, clip},
        report::{BodyFields, RequestReport},
    },
};

/// The note of the queries that are evaluations. No client can choose it for another query.
pub(super) const EDGE_NOTE: EdgeNote = EdgeNote::new("evaluation");
/// Labels by which evaluations are found.
const KIND: &str = "ark.mckinsey.com/kind";
const BY_EVALUATOR: &str = "ark.mckinsey.com/evaluator";
const OF_QUERY: &str = "ark.mckinsey.com/query";
/// The annotation with what was asked, [`Asked`] as JSON.
const ASKED: &str = "ark.mckinsey.com/evaluation";

pub(crate) const FIELDS: FieldTable = &[
    Field::new("apiVersion", text_schema),
    Field::new("kind", || json!({"const": "Evaluation"})),
    Field::new("metadata", || object_schema(METADATA, &[])),
    Field::new("spec", || json!({"type": "object"})),
    Field::new("name", name_schema),
    Field::new("type", || json!({"enum": ["direct", "query"]})),
    Field::new("config", || object_schema(CONFIG, &[])),
    Field::new("evaluator", || object_schema(EVALUATOR, &["name"])),
    Field::new("timeout", duration_schema),
    Field::new("ttl", duration_schema),
    WAIT,
];
const METADATA: FieldTable = &[
    Field::new("name", name_schema),
    Field::new("namespace", text_schema),
    Field::new("labels", texts_schema),
    Field::new("annotations", texts_schema),
];
const CONFIG: FieldTable = &[
    Field::new("input", text_schema),
    Field::new("output", text_schema),
    Field::new("queryRef", || object_schema(QUERY_REF, &["name"])),
];
const QUERY_REF: FieldTable = &[
    Field::new("name", name_schema),
    Field::new("namespace", text_schema),
    Field::new("responseTarget", || json!({"type": "string", "examples": ["agent:math"]})),
];
const EVALUATOR: FieldTable = &[
    Field::new("name", name_schema),
    Field::new("namespace", text_schema),
    Field::new("parameters", || json!({"type": "array", "items": object_schema(PARAMETER, &["name"])})),
];
const PARAMETER: FieldTable = &[Field::new("name", text_schema), Field::new("value", text_schema)];

/// What a new evaluation must have, as keywords of its schema.
pub(crate) fn required() -> Value {
    json!({"required": ["evaluator", "config"]})
}

/// What is judged.
#[derive(Debug)]
pub(super) enum Judged {
    /// The texts of the request.
    Texts,
    /// The answer of a query, and its target if the client names it.
    Query { name: QueryName, target: Option<String> },
}

/// A valid request.
#[derive(Debug)]
pub(super) struct NewEvaluation {
    name: Option<QueryName>,
    pub(super) judged: Judged,
    pub(super) input: String,
    pub(super) output: String,
    judgement: Judgement,
    asked: Asked,
    labels: BTreeMap<String, String>,
    limits: AskedLimits,
    pub(super) wait: Option<Duration>,
    pub(super) warnings: Vec<String>,
}

/// What an evaluation was asked, as it is shown again.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Asked {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) evaluator: AskedEvaluator,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) query_ref: Option<Value>,
    pub(super) min_score: f64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct AskedEvaluator {
    pub(super) name: String,
    #[serde(default)]
    pub(super) parameters: Vec<NamedText>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub(crate) struct NamedText {
    pub(super) name: String,
    pub(super) value: String,
}

impl Asked {
    /// What the query was asked when it was created; a later change of its annotations does not change that.
    pub(super) fn of(annotations: &BTreeMap<String, String>) -> Option<Self> {
        serde_json::from_str(annotations.get(ASKED)?).ok()
    }
}

/// The labels of evaluations, by this evaluator and of this query.
pub(super) fn labels_of(evaluator: Option<&str>, query: Option<&str>) -> BTreeMap<String, String> {
    let labels = [(KIND, Some("evaluation")), (BY_EVALUATOR, evaluator), (OF_QUERY, query)];
    labels.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned()))).collect()
}

pub(super) fn read(
    registry: &Registry,
    namespace: &Namespace,
    warnings: Vec<String>,
    body: Value,
) -> Result<NewEvaluation, ApiError> {
    let report = RequestReport::new(Code::InvalidRequest, warnings);
    let mut fields = report.body(body)?.with_table(FIELDS);
    if let Some(kind) = fields.text("kind").filter(|kind| kind != "Evaluation") {
        fields.reject("kind", "wrong_kind", format!("must be `Evaluation`, not `{}`", clip(&kind)));
    }
    // One version exists, and its fields are checked one by one.
    let _ = fields.text("apiVersion");
    if let Some(spec) = fields.fields("spec") {
        fields.absorb(spec);
    }
    let mut labels = BTreeMap::new();
    let mut in_metadata = None;
    if let Some(metadata) = fields.fields("metadata") {
        let metadata = metadata.with_table(METADATA);
        in_metadata = metadata.text("name");
        check_namespace(&metadata, namespace);
        labels = fields::read_labels(&metadata, "labels").unwrap_or_default();
        if fields::read_labels(&metadata, "annotations").is_some_and(|annotations| !annotations.is_empty()) {
            report.note("the annotations of an evaluation are not kept");
        }
        metadata.finish();
    }
    let name = fields.text("name").or(in_metadata).and_then(|name| {
        let parsed = name.parse::<QueryName>();
        parsed.map_err(|error| fields.reject("name", "invalid_name", error.to_string())).ok()
    });
    let evaluator = read_evaluator(&fields, namespace);
    let kind = read_kind(&fields);
    let (judged, input, output, query_ref) = read_config(&fields, &kind, namespace);
    let limits = AskedLimits {
        query_timeout: read_timeout(&fields),
        ttl: read_duration(&fields, "ttl"),
        // Nothing but the judge's answer is wanted.
        max_tool_calls: Some(0),
        ..AskedLimits::default()
    };
    let wait = read_body_wait(&fields);
    fields.finish();
    drop(fields);
    report.check()?;
    let mut judgement = Judgement::default();
    let parameters = evaluator_parameters(registry, namespace, &evaluator.name)?;
    for NamedText { name, value } in parameters.iter().chain(&evaluator.parameters) {
        if let Err(ignored) = judgement.set(&clip(name), value) {
            report.note(ignored);
        }
    }
    let query = match &judged {
        Judged::Query { name, .. } => Some(name.to_string()),
        Judged::Texts => None,
    };
    labels.extend(labels_of(Some(&evaluator.name), query.as_deref()));
    let asked = Asked { kind, evaluator, query_ref, min_score: judgement.min_score };
    let warnings = report.conclude()?;
    Ok(NewEvaluation { name, judged, input, output, judgement, asked, labels, limits, wait, warnings })
}

fn read_kind(fields: &BodyFields<'_>) -> String {
    let kind = fields.text("type").unwrap_or_else(|| "direct".to_owned());
    match kind.as_str() {
        "direct" | "query" => {}
        "baseline" | "batch" | "event" => {
            let message = "is not served: this server evaluates one answer at a time, with `direct` or `query`";
            fields.report().refuse(FaultClass::Unserved, fields.path_of("type"), "unsupported_field", message);
        }
        other => fields.reject("type", "invalid_value", format!("must be `direct` or `query`, not `{}`", clip(other))),
    }
    kind
}

fn read_evaluator(fields: &BodyFields<'_>, namespace: &Namespace) -> AskedEvaluator {
    let Some(evaluator) = fields.fields("evaluator") else {
        if !fields.has("evaluator") {
            fields.reject("evaluator", "missing", "is missing: write `{\"name\": …}`; `GET …/evaluators` lists them");
        }
        return AskedEvaluator::default();
    };
    let evaluator = evaluator.with_table(EVALUATOR);
    if !evaluator.has("name") {
        evaluator.reject("name", "missing", "is missing: the name of an evaluator");
    }
    let name = evaluator.text("name").unwrap_or_default();
    check_namespace(&evaluator, namespace);
    let mut parameters = Vec::new();
    let items = evaluator.list("parameters");
    evaluator.each_of("parameters", items, |path, item| {
        let Some(item) = evaluator.at(path, item) else { return };
        let item = item.with_table(PARAMETER);
        if !item.has("name") {
            item.reject("name", "missing", "is missing: the name of the parameter");
        }
        if let Some(name) = item.text("name") {
            parameters.push(NamedText { name, value: item.text("value").unwrap_or_default() });
        }
        item.finish();
    });
    evaluator.finish();
    AskedEvaluator { name, parameters }
}

fn read_config(fields: &BodyFields<'_>, kind: &str, namespace: &Namespace) -> (Judged, String, String, Option<Value>) {
    let nothing = (Judged::Texts, String::new(), String::new(), None);
    let Some(config) = fields.fields("config") else {
        if !fields.has("config") {
            fields.reject("config", "missing", "is missing: `input` and `output`, or a `queryRef`");
        }
        return nothing;
    };
    let config = config.with_table(CONFIG);
    let read = if kind == "query" { read_query(&config, namespace) } else { read_texts(&config) };
    config.finish();
    read.unwrap_or(nothing)
}

fn read_texts(config: &BodyFields<'_>) -> Option<(Judged, String, String, Option<Value>)> {
    let [input, output] = ["input", "output"].map(|name| {
        if !config.has(name) {
            config.reject(name, "missing", "is missing: it is what the judge reads");
        }
        config.text(name)
    });
    Some((Judged::Texts, input?, output?, None))
}

fn read_query(config: &BodyFields<'_>, namespace: &Namespace) -> Option<(Judged, String, String, Option<Value>)> {
    let Some(reference) = config.fields("queryRef") else {
        if !config.has("queryRef") {
            config.reject("queryRef", "missing", "is missing: write `{\"name\": …}`");
        }
        return None;
    };
    let reference = reference.with_table(QUERY_REF);
    if !reference.has("name") {
        reference.reject("name", "missing", "is missing: the name of a query");
    }
    let name = reference.text("name");
    let target = reference.text("responseTarget").filter(|target| !target.is_empty());
    check_namespace(&reference, namespace);
    reference.finish();
    let name = name?;
    let mut shown = json!({"name": name});
    if let Some(target) = &target {
        shown["responseTarget"] = target.as_str().into();
    }
    let parsed = name.parse::<QueryName>();
    let name = parsed.map_err(|error| reference.reject("name", "invalid_name", error.to_string())).ok()?;
    Some((Judged::Query { name, target }, String::new(), String::new(), Some(shown)))
}

/// Everything that an evaluation names is in its own namespace.
fn check_namespace(fields: &BodyFields<'_>, namespace: &Namespace) {
    if let Some(other) = fields.text("namespace").filter(|other| *other != namespace.as_str()) {
        let message = format!("is `{}`, and the evaluation is in `{namespace}`", clip(&other));
        fields.reject("namespace", "mismatch", message);
    }
}

/// What the manifest of an evaluator sets.
fn evaluator_parameters(registry: &Registry, namespace: &Namespace, name: &str) -> Result<Vec<NamedText>, ApiError> {
    let Some(resource) = registry.resource(ResourceKind::Evaluator, namespace, name) else {
        let key = ResourceKey::new(ResourceKind::Evaluator, namespace.clone(), name);
        return Err(EngineError::from(ResourceError::NotFound(key)).into());
    };
    let parameters = resource.manifest.description.spec.get("parameters").and_then(Value::as_array);
    let named = |parameter: &Value| serde_json::from_value(parameter.clone()).ok();
    Ok(parameters.into_iter().flatten().filter_map(named).collect())
}

impl NewEvaluation {
    /// The query that is the evaluation.
    pub(super) fn submission(self, caller: &Caller, namespace: &Namespace) -> Submission {
        let Self { name, input, output, judgement, asked, labels, limits, warnings, .. } = self;
        let question = Input::Messages(judgement.messages(&input, &output));
        let annotations = serde_json::to_string(&asked).map(|asked| (ASKED.to_owned(), asked));
        Submission {
            name,
            options: judgement.options,
            output_schema: Some(Arc::new(judge::answer_schema())),
            limits,
            edge_note: EDGE_NOTE,
            labels,
            annotations: annotations.into_iter().collect(),
            warnings,
            ..Submission::to(TargetKind::Model, caller.actor.clone(), namespace.clone(), judgement.model, question)
        }
    }
}
