//! Handlers of workers: claim calls, extend their leases, and deliver their results.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::State,
    http::{HeaderName, HeaderValue},
    response::Response,
};
use bosun_core::{CallId, Namespace, Outcome, duration as durations};
use bosun_engine::{ClaimRequest, ClaimedCall, LeaseToken};
use bosun_reading::{
    Field, FieldTable,
    table::{object_schema, text_schema},
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::{
    AppState,
    ark::{
        params::{ClaimOptions, DEFAULT_LEASE, LEASE, Params, WaitTime, clamp_lease, path::ClaimedCallPath},
        results::delivery,
    },
    asking::results,
    auth::gate::{Caller, RequestNamespace},
    http::{
        answer::Json,
        error::{ApiError, Code, clip},
        extract::JsonBody,
        report::{BodyFields, RequestReport},
        warning::with_warnings,
    },
};

pub(crate) type ClaimParams = (ClaimOptions, WaitTime);

const LEASE_TOKEN: Field = Field::new("lease", text_schema);
/// The body of a heartbeat.
const HEARTBEAT: FieldTable = &[LEASE_TOKEN, LEASE];
/// The body of a result.
const CLAIMED_RESULT: FieldTable =
    &[LEASE_TOKEN, results::TOOL_RESULT, results::SHORT_RESULT, results::SUCCESS, results::FAILED_WITH, results::TOOK];

pub(crate) fn heartbeat_schema() -> Value {
    object_schema(HEARTBEAT, &["lease"])
}

pub(crate) fn result_schema() -> Value {
    object_schema(CLAIMED_RESULT, &["lease"])
}

/// The calls that a worker has claimed.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ClaimedCalls {
    items: Vec<WorkerCall>,
    count: usize,
}

/// One call that a worker has claimed.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorkerCall {
    id: String,
    name: Arc<str>,
    arguments: Arc<Value>,
    query_name: String,
    /// When the call expires, regardless of its lease.
    deadline: String,
    /// The lease token, to be sent with heartbeats and with the result.
    lease: String,
    /// When the lease expires without a heartbeat.
    leased_until: String,
    /// 1, or more if earlier workers were lost.
    attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tracestate: Option<String>,
}

/// A lease that was extended.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExtendedLease {
    id: String,
    lease: String,
    leased_until: String,
}

/// A result that was delivered.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DeliveredResult {
    id: String,
    /// `accepted`, or `replayed` if the same result was accepted before.
    status: &'static str,
}

/// `GET …/tool-calls`
pub(crate) async fn claim_calls(
    State(app): State<AppState>,
    caller: Caller,
    namespace: RequestNamespace,
    Params { given: (ClaimOptions { tools, limit, lease }, waiting), warnings }: Params<ClaimParams>,
) -> Result<Response, ApiError> {
    let request = ClaimRequest { tools, limit, lease, wait: waiting.or(None) };
    let claimed = app.engine.claim_calls(caller.actor, Namespace::clone(&namespace), request).await?;
    let items: Vec<_> = claimed.into_iter().map(WorkerCall::from).collect();
    Ok(with_warnings(Json(ClaimedCalls { count: items.len(), items }), &warnings))
}

/// `POST …/tool-calls/{id}/heartbeat`
pub(crate) async fn extend_lease(
    State(app): State<AppState>,
    Params { warnings, .. }: Params,
    ClaimedCallPath { namespace, call_id }: ClaimedCallPath,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let (token, lease, warnings) = body.read(|body| read_heartbeat(warnings, body))?;
    let (call, lease_token) = claimed_call(&call_id, &token)?;
    let until = app.engine.extend_lease(namespace, call, lease_token, lease).await?;
    let extended = ExtendedLease { id: call.to_string(), lease: token, leased_until: until.to_rfc3339() };
    Ok(with_warnings(Json(extended), &warnings))
}

/// `POST …/tool-calls/{id}/result`
pub(crate) async fn deliver_claimed(
    State(app): State<AppState>,
    caller: Caller,
    Params { warnings, .. }: Params,
    ClaimedCallPath { namespace, call_id }: ClaimedCallPath,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let WorkerResult { token, outcome, took, warnings } = body.read(|body| read_result(warnings, body))?;
    let (call, lease) = claimed_call(&call_id, &token)?;
    let query = lease.query().ok_or_else(|| unknown(&call_id))?;
    let post = delivery::ResultPost::of_call(call, Some(&lease), outcome, took, warnings);
    let delivered = delivery::deliver(&app.engine, &caller.actor, (namespace, query), post, None).await;
    let delivered = match delivered {
        Err(error) if error.code == Code::QueryNotFound => return Err(unknown(&call_id)),
        delivered => delivered?,
    };
    let status = if delivered.replayed { "replayed" } else { "accepted" };
    let mut response = with_warnings(Json(DeliveredResult { id: call.to_string(), status }), &delivered.warnings);
    if delivered.replayed {
        let replayed = HeaderName::from_static("idempotent-replayed");
        response.headers_mut().insert(replayed, HeaderValue::from_static("true"));
    }
    Ok(response)
}

impl From<ClaimedCall> for WorkerCall {
    fn from(call: ClaimedCall) -> Self {
        Self {
            id: call.call.to_string(),
            name: call.tool,
            arguments: call.arguments,
            query_name: call.query.to_string(),
            deadline: call.deadline.to_rfc3339(),
            lease: call.lease.to_string(),
            leased_until: call.leased_until.to_rfc3339(),
            attempt: call.attempt,
            traceparent: call.trace.as_ref().map(ToString::to_string),
            tracestate: call.trace.as_ref().and_then(|trace| trace.state()).map(str::to_owned),
        }
    }
}

fn read_heartbeat(warnings: Vec<String>, body: Value) -> Result<(String, Duration, Vec<String>), ApiError> {
    let report = RequestReport::new(Code::InvalidRequest, warnings);
    let fields = report.body(body)?.with_table(HEARTBEAT);
    let token = read_token(&fields);
    let lease = fields.get("for").map_or(Some(DEFAULT_LEASE), |value| {
        let lease = durations::positive_from_json(&value);
        if lease.is_none() {
            fields.reject("for", "invalid", "must be a duration above zero, such as `60s`");
        }
        lease
    });
    fields.finish();
    let lease = lease.map(|lease| clamp_lease(lease, fields.report()));
    drop(fields);
    let warnings = report.conclude()?;
    Ok((token.unwrap_or_default(), lease.unwrap_or(DEFAULT_LEASE), warnings))
}

/// What a worker has posted.
struct WorkerResult {
    token: String,
    outcome: Outcome,
    took: Option<Duration>,
    warnings: Vec<String>,
}

fn read_result(warnings: Vec<String>, body: Value) -> Result<WorkerResult, ApiError> {
    let report = RequestReport::new(Code::InvalidToolResult, warnings);
    let fields = report.body(body)?.with_table(CLAIMED_RESULT);
    let (token, outcome) = (read_token(&fields), results::read_outcome(&fields));
    let took = results::read_took(&fields);
    fields.finish();
    drop(fields);
    let warnings = report.conclude()?;
    match (token, outcome) {
        (Some(token), Some(outcome)) => Ok(WorkerResult { token, outcome, took, warnings }),
        // Without a fault there are both.
        _ => Err(ApiError::new(Code::InvalidToolResult, "the result cannot be read")),
    }
}

fn read_token(fields: &BodyFields<'_>) -> Option<String> {
    if !fields.has("lease") {
        fields.reject("lease", "missing", "is missing: the call was handed out with it");
    }
    fields.text("lease")
}

/// The call and its lease. An id that this server did not create is unknown.
fn claimed_call(call: &str, lease: &str) -> Result<(CallId, LeaseToken), ApiError> {
    let call_id = call.parse().map_err(|_| unknown(call))?;
    let lease = LeaseToken::parse(lease).ok_or_else(|| unknown(call))?;
    Ok((call_id, lease))
}

fn unknown(call: &str) -> ApiError {
    ApiError::new(Code::CallNotFound, format!("no worker has claimed a call `{}`", clip(call)))
}
