//! Results of outside calls: how one is read, delivered, and answered with a verdict.
//!
//! A post is read whole before anything is recorded, so an invalid one consumes no call. The machine returns a verdict
//! for each result of a valid one; this file only maps verdicts to codes and messages. A result that came too late or
//! twice is written to the log by its hash, never its content.

use std::{sync::Arc, time::Duration};

use bosun_core::{
    Actor, CallId, Content, Head, Outcome, duration,
    head::CallState,
    machine::{Delivery, DeliveryTarget, DeliveryVerdict, outcome_code},
};
use bosun_engine::{DeliverReport, Engine, EngineError, QueryKey, Snapshot};
use bosun_reading::{
    Field, FieldTable,
    table::{duration_schema, flag_schema, object_schema, text_schema},
};
use serde_json::{Value, json};

use crate::http::{
    error::{ApiError, Code, clip},
    report::BodyFields,
};

pub(crate) const TOOL_CALL_ID: Field = Field::new("toolCallId", text_schema);
pub(crate) const TOOL_NAME: Field = Field::new("toolName", text_schema);
pub(crate) const TOOL_RESULT: Field = Field::new("toolResult", result_schema);
pub(crate) const SHORT_RESULT: Field = Field::new("result", result_schema);
pub(crate) const SUCCESS: Field = Field::new("success", flag_schema);
pub(crate) const TOOK: Field = Field::new("duration", duration_schema);
pub(crate) const FAILED_WITH: Field =
    Field::new("error", || json!({"anyOf": [{"type": "string"}, object_schema(ERROR, &["message"])]}));
const ERROR: FieldTable = &[Field::new("code", text_schema), Field::new("message", text_schema)];

fn result_schema() -> Value {
    json!({"description": "What the tool answered: text or any JSON"})
}

/// The code of a failure for which the client gave none.
pub(crate) const DEFAULT_FAILURE: &str = outcome_code::TOOL_FAILED;
/// The message of a failure for which the client gave none.
pub(crate) const NO_REASON: &str = "the tool failed without saying why";

/// One result as a client gave it.
#[derive(Debug)]
pub(crate) struct GivenResult {
    pub(crate) which: CallRef,
    pub(crate) tool_name: Option<String>,
    pub(crate) outcome: Outcome,
    /// How long the tool ran, if the client has measured it.
    pub(crate) took: Option<Duration>,
}

/// How a client names the call of a result.
#[derive(Debug)]
pub(crate) enum CallRef {
    Call(CallId),
    /// Not an id of this server, and so unknown like any other.
    Foreign(String),
    Tool(String),
    /// A call that a worker has claimed, and its lease.
    Claimed(CallId, Arc<str>),
}

impl CallRef {
    pub(crate) fn of(id: String) -> Self {
        id.parse().map_or(Self::Foreign(id), Self::Call)
    }

    /// The call as the client named it.
    pub(crate) fn named(&self) -> String {
        match self {
            Self::Call(id) | Self::Claimed(id, _) => format!("call `{id}`"),
            Self::Foreign(id) => format!("call `{}`", clip(id)),
            Self::Tool(name) => format!("tool `{}`", clip(name)),
        }
    }
}

/// A result, and what the machine decided about it.
pub(crate) type CheckedResult = (GivenResult, DeliveryVerdict);

/// A query after a delivery, and the verdicts in the order of the results.
#[derive(Debug)]
pub(crate) struct Delivered {
    pub(crate) snapshot: Snapshot,
    pub(crate) judged: Vec<CheckedResult>,
}

impl GivenResult {
    fn to_delivery(&self) -> Option<Delivery> {
        let target = match &self.which {
            CallRef::Call(id) => DeliveryTarget::Call(*id),
            CallRef::Tool(name) => DeliveryTarget::Tool(name.clone()),
            CallRef::Claimed(id, lease) => DeliveryTarget::Claimed(*id, Arc::clone(lease)),
            CallRef::Foreign(_) => return None,
        };
        Some(Delivery { target, outcome: self.outcome.clone(), took: self.took })
    }
}

/// Reads one result: which call it is for, and its outcome.
pub(crate) fn read_result(fields: &BodyFields<'_>) -> Option<GivenResult> {
    let named = fields.has("toolCallId") || fields.has("toolName");
    let id = fields.text("toolCallId");
    let tool_name = fields.text("toolName");
    if !named {
        let name_path = fields.path_of("toolName");
        let message = format!("is missing: say which call it is for, here or as `{name_path}`");
        fields.reject("toolCallId", "missing", message);
    }
    let (outcome, took) = (read_outcome(fields), read_took(fields));
    let which = match (id, &tool_name) {
        (Some(id), _) => CallRef::of(id),
        (None, Some(name)) => CallRef::Tool(name.clone()),
        (None, None) => return None,
    };
    Some(GivenResult { which, tool_name, outcome: outcome?, took })
}

pub(crate) fn read_outcome(fields: &BodyFields<'_>) -> Option<Outcome> {
    let success = fields.bool("success");
    let error = read_error(fields);
    let (long, short) = (fields.get_or_null("toolResult"), fields.get_or_null("result"));
    if long.is_some() && short.is_some() {
        fields.reject("toolResult", "duplicate_field", "appears twice: here and as `result`");
        return None;
    }
    let content = long.or(short);
    match (success, error, content) {
        (Some(true), Some(_), _) => {
            fields.reject("success", "contradiction", "is true, and there is an `error`");
            None
        }
        (Some(false) | None, Some((code, message)), content) => {
            Some(Outcome::Failure { code, message, content: some_content(content) })
        }
        (Some(false), None, content) => Some(Outcome::Failure {
            code: DEFAULT_FAILURE.into(),
            message: NO_REASON.into(),
            content: some_content(content),
        }),
        (Some(true) | None, None, Some(content)) => Some(Outcome::success(content)),
        (Some(true) | None, None, None) => {
            fields.reject("toolResult", "missing", "is missing: what did the tool return?");
            None
        }
    }
}

/// `duration`: how long the tool ran, as the client has measured it.
pub(crate) fn read_took(fields: &BodyFields<'_>) -> Option<Duration> {
    let took = duration::measured_from_json(&fields.get("duration")?);
    if took.is_none() {
        fields.reject("duration", "invalid_duration", "must be how long the tool ran, such as `70ms` or `1.5s`");
    }
    took
}

/// The content of a failure in addition to its message, if any.
fn some_content(value: Option<Value>) -> Option<Content> {
    value.filter(|value| !value.is_null()).map(Content::Inline)
}

/// `error` is a text, or `{code, message}`.
fn read_error(fields: &BodyFields<'_>) -> Option<(String, String)> {
    match fields.get("error")? {
        Value::String(message) => (!message.is_empty()).then(|| (DEFAULT_FAILURE.to_owned(), message)),
        value @ Value::Object(_) => {
            let error = fields.inner(value, "error")?.with_table(ERROR);
            let missing = !error.has("message");
            let code = error.text("code").filter(|code| !code.is_empty());
            let message = error.text("message");
            if missing {
                error.reject("message", "missing", "is missing: the agent reads it");
            }
            error.finish();
            Some((code.unwrap_or_else(|| DEFAULT_FAILURE.into()), message.unwrap_or_default()))
        }
        other => {
            fields.wrong_field("error", &other, "a string or an object", "");
            // It still means a failure: that there is no result is not a second fault.
            Some((DEFAULT_FAILURE.to_owned(), String::new()))
        }
    }
}

/// Delivers results to the engine.
pub(crate) async fn deliver(
    engine: &Engine,
    by: &Actor,
    key: QueryKey,
    results: Vec<GivenResult>,
    hold: bool,
    wait: Option<Duration>,
) -> Result<Delivered, EngineError> {
    let deliveries = results.iter().filter_map(GivenResult::to_delivery).collect();
    let DeliverReport { verdicts, snapshot } = engine.deliver(by.clone(), key, deliveries, hold, wait).await?;
    let mut verdicts = verdicts.into_iter();
    let judged: Vec<_> = results
        .into_iter()
        .map(|result| {
            let verdict = match result.which {
                CallRef::Foreign(_) => DeliveryVerdict::Unknown,
                CallRef::Call(_) | CallRef::Tool(_) | CallRef::Claimed(..) => {
                    verdicts.next().unwrap_or(DeliveryVerdict::Unknown)
                }
            };
            (result, verdict)
        })
        .collect();
    log_unused(&snapshot.head, &judged);
    Ok(Delivered { snapshot, judged })
}

/// Whether a result is the outcome of its call: accepted now, or a replay.
pub(crate) fn counts(verdict: DeliveryVerdict) -> bool {
    matches!(verdict, DeliveryVerdict::Accepted(_) | DeliveryVerdict::Replayed(_))
}

/// The error of a delivery without an accepted result: that of its first result.
pub(crate) fn refuse_unused(head: &Head, judged: &[CheckedResult]) -> Result<(), ApiError> {
    match judged.first() {
        None => Err(ApiError::new(Code::InvalidToolResult, "the post has no result")),
        Some(_) if judged.iter().any(|(_, verdict)| counts(*verdict)) => Ok(()),
        Some((result, verdict)) => {
            let code = verdict_word(*verdict).1.unwrap_or(Code::InvalidToolResult);
            let details = recorded_hash(head, *verdict).into_iter().collect();
            Err(ApiError::new(code, verdict_sentence(&result.which.named(), *verdict)).with_details(details))
        }
    }
}

/// The word for a verdict in a batch, and the code if it is a fault.
pub(crate) fn verdict_word(verdict: DeliveryVerdict) -> (&'static str, Option<Code>) {
    match verdict {
        DeliveryVerdict::Accepted(_) => ("accepted", None),
        DeliveryVerdict::Replayed(_) => ("replayed", None),
        DeliveryVerdict::AlreadyResolved(_) => ("conflict", Some(Code::AlreadyResolved)),
        DeliveryVerdict::Expired(_) => ("expired", Some(Code::CallExpired)),
        DeliveryVerdict::Cancelled(_) => ("cancelled", Some(Code::CallCancelled)),
        DeliveryVerdict::Unknown => ("unknown", Some(Code::CallNotFound)),
        DeliveryVerdict::Ambiguous => ("ambiguous", Some(Code::AmbiguousCall)),
        DeliveryVerdict::NotWaiting => ("not_waiting", Some(Code::CallNotWaiting)),
        DeliveryVerdict::LeaseLost(_) => ("lease_lost", Some(Code::LeaseLost)),
    }
}

pub(crate) fn verdict_sentence(named: &str, verdict: DeliveryVerdict) -> String {
    match verdict {
        // Results that were accepted: the caller has checked that there are none.
        DeliveryVerdict::Accepted(_) | DeliveryVerdict::Replayed(_) => format!("{named} has its result"),
        DeliveryVerdict::AlreadyResolved(_) => format!("{named} already has another result, which stays"),
        DeliveryVerdict::Expired(_) => format!("{named} was not answered in time; the agent continued without it"),
        DeliveryVerdict::Cancelled(_) => format!("{named} is void: the query has ended"),
        DeliveryVerdict::Unknown => format!("{named} is not a call of this query that a client may answer"),
        DeliveryVerdict::Ambiguous => format!("several calls of {named} wait; say which one with `toolCallId`"),
        DeliveryVerdict::NotWaiting => format!("no call of {named} waits for a result"),
        DeliveryVerdict::LeaseLost(_) => {
            format!("the lease of {named} has lapsed; the call was given to another worker, or given up")
        }
    }
}

/// The result that won, by its hash: enough to recognise it, too little to read it.
pub(crate) fn recorded_hash(head: &Head, verdict: DeliveryVerdict) -> Option<Value> {
    let DeliveryVerdict::AlreadyResolved(id) = verdict else { return None };
    match head.call(id)?.state {
        CallState::Resolved { outcome } => Some(json!({ "id": id, "recorded": outcome })),
        _ => None,
    }
}

/// The log has a line for each of the first results that were not used, and one for all others: a client chooses how
/// many there are.
fn log_unused(head: &Head, judged: &[CheckedResult]) {
    const LINES: usize = 8;
    let unused: Vec<_> = judged.iter().filter(|(_, verdict)| verdict_word(*verdict).1.is_some()).collect();
    for (result, verdict) in unused.iter().take(LINES) {
        tracing::warn!(
            query = %head.uid,
            call = verdict.call().map(tracing::field::display),
            verdict = verdict_word(*verdict).0,
            content = %result.outcome.content_hash(),
            "result was not used"
        );
    }
    if let Some(further) = unused.len().checked_sub(LINES).filter(|further| *further > 0) {
        tracing::warn!(query = %head.uid, further, "further results of the same delivery were not used");
    }
}
