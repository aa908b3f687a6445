//! `POST …/models/{name}/query`: one question to a model, without an agent.
//!
//! The route that the ARK model node for n8n calls, and that ARK itself never had. It is a query with a target of type
//! `model` like any other: it is durable, listed, and can be read again under its `queryName`.

use std::time::Duration;

use axum::{extract::State, response::Response};
use bosun_core::{Status, query::TargetKind};
use bosun_engine::{Input, Snapshot, Submission};
use bosun_reading::{Field, FieldTable};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    AppState,
    ark::{
        answering::convert,
        params::{ArkView, MAX_WAIT, Params, WaitTime, path::ResourcePath},
        reading::fields::{self, MAX_TOKENS, TEMPERATURE, WAIT},
        wire,
    },
    auth::gate::Caller,
    http::{
        answer::Json,
        error::{ApiError, Code},
        extract::JsonBody,
        report::RequestReport,
        trace::Trace,
        warning::with_warnings,
    },
};

/// The body of the request.
pub(crate) const FIELDS: FieldTable =
    &[Field::new("prompt", || json!({"type": "string", "minLength": 1})), TEMPERATURE, MAX_TOKENS, WAIT];

/// What the model answered.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ModelAnswer {
    query_name: String,
    prompt: String,
    /// `null` as long as there is none.
    response: Option<String>,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration: Option<String>,
    model: String,
    token_usage: wire::TokenUsage,
    warnings: Vec<String>,
}

/// `POST …/models/{name}/query`
pub(crate) async fn query_model(
    State(app): State<AppState>,
    caller: Caller,
    params: Params<WaitTime>,
    path: ResourcePath,
    Trace(trace): Trace,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let (mut submission, wait) = body.read(|body| read(&caller, path, params, body))?;
    submission.trace = trace;
    let warnings = submission.warnings.clone();
    let submitted = app.engine.submit(submission, wait).await?;
    Ok(with_warnings(Json(answer(&submitted.snapshot)?), &warnings))
}

/// The query that the body asks for, and how long to wait for its end.
fn read(
    caller: &Caller,
    path: ResourcePath,
    params: Params<WaitTime>,
    body: Value,
) -> Result<(Submission, Option<Duration>), ApiError> {
    let report = RequestReport::new(Code::InvalidRequest, params.warnings);
    let fields = report.body(body)?.with_table(FIELDS);
    let missing = !fields.has("prompt");
    let prompt = fields.text("prompt");
    if missing {
        fields.reject("prompt", "missing", "is missing: what should the model answer?");
    } else if prompt.as_deref().is_some_and(|prompt| prompt.trim().is_empty()) {
        fields.reject("prompt", "empty", "must not be empty");
    }
    let model_options = fields::read_model_options(&fields);
    let wait = fields::read_body_wait(&fields);
    fields.finish();
    drop(fields);
    let warnings = report.conclude()?;
    let submission = Submission {
        options: model_options,
        warnings,
        edge_note: ArkView::Ark.into(),
        ..Submission::to(
            TargetKind::Model,
            caller.actor.clone(),
            path.namespace,
            path.name,
            Input::Text(prompt.unwrap_or_default()),
        )
    };
    Ok((submission, params.given.or(wait.or(Some(MAX_WAIT)))))
}

/// The outcome. A client that asks a model in one request wants its answer or an error.
fn answer(snapshot: &Snapshot) -> Result<ModelAnswer, ApiError> {
    let (head, transcript) = (&snapshot.head, &snapshot.transcript);
    if let Some(failure) = convert::failure(transcript) {
        let details = vec![json!({"queryName": head.name, "code": failure.code})];
        return Err(ApiError::new(Code::ModelFailed, failure.message).with_details(details));
    }
    debug_assert_ne!(head.status(), Status::Failed);
    Ok(ModelAnswer {
        query_name: head.name.to_string(),
        prompt: transcript.spec.input.clone(),
        response: transcript.response().map(str::to_owned),
        status: convert::rfc_status(head.status()),
        duration: convert::whole_duration(head, transcript),
        model: transcript.spec.model.clone(),
        token_usage: convert::usage(head.usage),
        warnings: transcript.spec.warnings.clone(),
    })
}
