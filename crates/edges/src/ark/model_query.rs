//! `POST …/models/{name}/query`: a model alone, asked one thing, in one request.
//!
//! The call of the ARK model node for n8n, which ARK itself never had. It is a query with a target of type
//! `model` like any other: it is durable, listed, and can be read again under its `queryName`.

use std::time::Duration;

use bosun_core::{Status, query::TargetKind};
use bosun_engine::{Input, Snapshot, Submission};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    convert,
    options::{MAX_WAIT, Options},
    request, wire,
};
use crate::http::{
    error::{ApiError, Code},
    json::{Findings, Object},
};

/// What the model answered.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer {
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

/// The query that the body asks for, and how long to wait for its end.
pub(super) fn read(options: &Options, body: Value) -> Result<(Submission, Option<Duration>), ApiError> {
    let mut findings = Findings::new(Code::InvalidRequest, options.warnings.clone());
    let mut fields = Object::body(body)?;
    let missing = !fields.has("prompt");
    let prompt = fields.text("prompt", &mut findings);
    if missing {
        findings.fault("prompt", "missing", "is missing: what should the model answer?");
    } else if prompt.as_deref().is_some_and(|prompt| prompt.trim().is_empty()) {
        findings.fault("prompt", "empty", "must not be empty");
    }
    let model_options = request::model_options(&mut fields, &mut findings);
    let wait = request::read_body_wait(&mut fields, &mut findings);
    fields.finish(&mut findings);
    let warnings = findings.conclude()?;
    let submission = Submission {
        by: options.actor().clone(),
        options: model_options,
        warnings,
        ..Submission::to(
            TargetKind::Model,
            options.actor().clone(),
            options.namespace(),
            options.name.clone(),
            Input::Text(prompt.unwrap_or_default()),
        )
    };
    Ok((submission, options.wait_or(wait.or(Some(MAX_WAIT)))))
}

/// What came of it. Whoever asks a model in one request wants its answer or an error.
pub(super) fn answer(snapshot: &Snapshot) -> Result<Answer, ApiError> {
    let (head, transcript) = (&snapshot.head, &snapshot.transcript);
    if let Some(failure) = convert::failure(transcript) {
        let details = vec![json!({"queryName": head.name, "code": failure.code})];
        return Err(ApiError::new(Code::ModelFailed, failure.message).with_details(details));
    }
    debug_assert_ne!(head.status(), Status::Failed);
    Ok(Answer {
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
