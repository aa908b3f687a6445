//! `POST …/tool-result`: the RFC's body, one result or a batch, and the answer for each.
//!
//! Reading a result and its verdict are the same on every edge: [`results`].

use std::{sync::Arc, time::Duration};

use bosun_core::{
    Actor, CallId, Head, Outcome,
    ceiling::RESULTS_DELIVERED,
    machine::{DeliveryState, DeliveryVerdict},
};
use bosun_engine::{Engine, LeaseToken, QueryKey, Snapshot};
use bosun_reading::{
    Field, FieldTable,
    table::{flag_schema, object_schema},
};
use serde_json::{Value, json};

use crate::{
    ark::{
        reading::fields::{WAIT, read_body_wait},
        wire,
    },
    asking::results::{
        self, CallRef, CheckedResult, FAILED_WITH, GivenResult, SHORT_RESULT, SUCCESS, TOOK, TOOL_CALL_ID, TOOL_NAME,
        TOOL_RESULT, counts, read_result, recorded_hash, verdict_sentence, verdict_word,
    },
    http::{
        error::{ApiError, Code, clip},
        report::{BodyFields, RequestReport},
        warning::Warnings,
    },
};

/// One result.
const RESULT: FieldTable = &[TOOL_CALL_ID, TOOL_NAME, TOOL_RESULT, SHORT_RESULT, SUCCESS, FAILED_WITH, TOOK];
/// A body: one result, or several.
const POST: FieldTable = &[
    TOOL_CALL_ID,
    TOOL_NAME,
    TOOL_RESULT,
    SHORT_RESULT,
    SUCCESS,
    FAILED_WITH,
    TOOK,
    Field::new(
        "toolResults",
        || json!({"type": "array", "items": object_schema(RESULT, &[]), "minItems": 1, "maxItems": RESULTS_DELIVERED}),
    ),
    Field::new("continueExecution", flag_schema),
    WAIT,
];
/// A body, described.
pub(crate) fn schema() -> Value {
    object_schema(POST, &[])
}

/// A valid post.
#[derive(Debug)]
pub(crate) struct ResultPost {
    results: Vec<GivenResult>,
    /// Whether it came as `toolResults`.
    batch: bool,
    hold: bool,
    pub(crate) wait: Option<Duration>,
    warnings: Vec<String>,
}

/// The outcome of a post of which at least one result counts.
#[derive(Debug)]
pub(crate) struct DeliveredPost {
    pub(crate) snapshot: Snapshot,
    /// For a batch: one for each result, in order.
    pub(crate) results: Option<Vec<wire::PostedResult>>,
    /// No result was new: those that count are replays.
    pub(crate) replayed: bool,
    pub(crate) warnings: Vec<String>,
}

impl ResultPost {
    /// One result. `lease` is that of the worker that has claimed the call, if it is from one.
    pub(crate) fn of_call(
        call: CallId,
        lease: Option<&LeaseToken>,
        outcome: Outcome,
        took: Option<Duration>,
        warnings: Vec<String>,
    ) -> Self {
        let which = match lease {
            Some(lease) => CallRef::Claimed(call, Arc::clone(lease.text())),
            None => CallRef::Call(call),
        };
        let results = vec![GivenResult { which, tool_name: None, outcome, took }];
        Self { results, batch: false, hold: false, wait: None, warnings }
    }

    /// Holds the query where it is.
    pub(crate) fn holding(self, hold: bool) -> Self {
        Self { hold, ..self }
    }
}

pub(crate) fn read(warnings: Vec<String>, body: Value) -> Result<ResultPost, ApiError> {
    let report = RequestReport::new(Code::InvalidToolResult, warnings);
    refuse_too_many(&body)?;
    let fields = report.body(body)?.with_table(POST);
    let hold = fields.bool("continueExecution") == Some(false);
    let wait = read_body_wait(&fields);
    let batch = fields.has("toolResults");
    let results = if batch { read_batch(&fields) } else { read_result(&fields).into_iter().collect() };
    fields.finish();
    drop(fields);
    let warnings = report.conclude()?;
    Ok(ResultPost { results, batch, hold, wait, warnings })
}

/// A longer batch is not read: no query has that many open calls.
fn refuse_too_many(body: &Value) -> Result<(), ApiError> {
    let count = body["toolResults"].as_array().map_or(0, Vec::len);
    if count <= RESULTS_DELIVERED {
        return Ok(());
    }
    let message = format!("`toolResults` has {count} results; one delivery has at most {RESULTS_DELIVERED}");
    Err(ApiError::new(Code::TooManyResults, message))
}

fn read_batch(fields: &BodyFields<'_>) -> Vec<GivenResult> {
    let items = fields.list("toolResults");
    if items.is_empty() {
        fields.reject("toolResults", "empty", "must be an array with at least one result");
    }
    for name in ["toolName", "toolCallId", "toolResult", "result", "success", "error", "duration"] {
        if fields.get(name).is_some() {
            fields.reject(name, "mixed_forms", "belongs in the entries of `toolResults`");
        }
    }
    let mut results = Vec::with_capacity(items.len());
    fields.each_of("toolResults", items, |path, item| {
        if let Some(item) = fields.at(path, item) {
            let item = item.with_table(RESULT);
            results.extend(read_result(&item));
            item.finish();
        }
    });
    results
}

/// Delivers a post to the engine and reports the outcome.
pub(crate) async fn deliver(
    engine: &Engine,
    by: &Actor,
    key: QueryKey,
    post: ResultPost,
    wait: Option<Duration>,
) -> Result<DeliveredPost, ApiError> {
    let ResultPost { results, batch, hold, warnings, .. } = post;
    let results::Delivered { snapshot, judged } = results::deliver(engine, by, key, results, hold, wait).await?;
    let mut kept = Warnings::from(warnings);
    judged.iter().filter_map(|(posted, _)| misnamed(&snapshot, posted)).for_each(|warning| kept.add(warning));
    let warnings = kept.into();
    if !judged.iter().any(|(_, verdict)| counts(*verdict)) {
        return Err(refusal(&snapshot.head, &judged, batch));
    }
    Ok(DeliveredPost {
        replayed: !judged.iter().any(|(_, verdict)| matches!(verdict, DeliveryVerdict::Accepted(_))),
        results: batch.then(|| judged.iter().map(|(posted, verdict)| to_wire(posted, *verdict)).collect()),
        snapshot,
        warnings,
    })
}

fn to_wire(posted: &GivenResult, verdict: DeliveryVerdict) -> wire::PostedResult {
    let sent = match &posted.which {
        CallRef::Call(id) | CallRef::Claimed(id, _) => Some(id.to_string()),
        CallRef::Foreign(id) => Some(clip(id)),
        CallRef::Tool(_) => None,
    };
    let (status, code) = verdict_word(verdict);
    wire::PostedResult {
        id: verdict.call().map(|id| id.to_string()).or(sent),
        tool_name: posted.tool_name.as_deref().map(clip),
        status,
        code: code.map(Code::as_str),
    }
}

/// The error of a post of which nothing counts: that of its first result.
fn refusal(head: &Head, judged: &[CheckedResult], batch: bool) -> ApiError {
    let Some((posted, verdict)) = judged.first() else {
        return ApiError::new(Code::InvalidToolResult, "the post has no result");
    };
    let message = verdict_sentence(&posted.which.named(), *verdict);
    let code = verdict_word(*verdict).1.unwrap_or(Code::InvalidToolResult);
    let details = if batch {
        judged.iter().map(|(posted, verdict)| json!(to_wire(posted, *verdict))).collect()
    } else {
        recorded_hash(head, *verdict).into_iter().collect()
    };
    ApiError::new(code, message).with_details(details)
}

/// The refusal of a large result before its body is read, if its call does not wait for one.
pub(crate) fn refuse_early(id: &str, delivery_state: DeliveryState) -> Option<ApiError> {
    let which = CallRef::of(id.to_owned());
    let verdict = match (&which, delivery_state) {
        (_, DeliveryState::Open | DeliveryState::Resolved) => return None,
        (CallRef::Call(call), DeliveryState::Expired) => DeliveryVerdict::Expired(*call),
        (CallRef::Call(call), DeliveryState::Cancelled) => DeliveryVerdict::Cancelled(*call),
        _ => DeliveryVerdict::Unknown,
    };
    let code = verdict_word(verdict).1?;
    tracing::warn!(call = verdict.call().map(tracing::field::display), verdict = code.as_str(), "result was rejected");
    Some(ApiError::new(code, verdict_sentence(&which.named(), verdict)))
}

/// The id identifies the call; a tool name that does not match it gets a warning.
fn misnamed(snapshot: &Snapshot, posted: &GivenResult) -> Option<String> {
    let (CallRef::Call(id), Some(name)) = (&posted.which, &posted.tool_name) else { return None };
    let tool = &snapshot.transcript.call(*id)?.asked.tool;
    (**tool != **name)
        .then(|| format!("`toolName` is `{}`, but call `{id}` is one of `{tool}`; the id counts", clip(name)))
}
