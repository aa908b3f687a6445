//! Results of outside calls: what clients post, and the verdict that each result gets.
//!
//! A post is read whole before anything is recorded, so a bad one consumes no call. What becomes of a
//! good one is the machine's verdict, one for each result; this file only gives it a status and a
//! word. A result that came too late or twice is written to the log by its hash, never its content.

use std::time::Duration;

use bosun_core::{
    Actor, CallId, Content, Head, Outcome,
    ceiling::RESULTS_DELIVERED,
    head::CallState,
    machine::{CallStanding, Delivery, DeliveryTarget, DeliveryVerdict, outcome_code},
};
use bosun_engine::{DeliverReport, Engine, QueryKey, Snapshot};
use bosun_reading::{
    Field, FieldTable,
    table::{flag_schema, object_schema, text_schema},
};
use serde_json::{Value, json};

use crate::{
    ark::{
        reading::fields::{WAIT, read_body_wait},
        wire,
    },
    http::{
        error::{ApiError, Code, clip},
        report::{BodyFields, RequestReport},
        warning::Warnings,
    },
};

const TOOL_CALL_ID: Field = Field::new("toolCallId", text_schema);
const TOOL_NAME: Field = Field::new("toolName", text_schema);
const TOOL_RESULT: Field = Field::new("toolResult", result_schema);
const SHORT_RESULT: Field = Field::new("result", result_schema);
const SUCCESS: Field = Field::new("success", flag_schema);
const FAILED_WITH: Field =
    Field::new("error", || json!({"anyOf": [{"type": "string"}, object_schema(ERROR, &["message"])]}));
/// One result.
const RESULT: FieldTable = &[TOOL_CALL_ID, TOOL_NAME, TOOL_RESULT, SHORT_RESULT, SUCCESS, FAILED_WITH];
/// A body: one result, or several.
const POST: FieldTable = &[
    TOOL_CALL_ID,
    TOOL_NAME,
    TOOL_RESULT,
    SHORT_RESULT,
    SUCCESS,
    FAILED_WITH,
    Field::new(
        "toolResults",
        || json!({"type": "array", "items": object_schema(RESULT, &[]), "minItems": 1, "maxItems": RESULTS_DELIVERED}),
    ),
    Field::new("continueExecution", flag_schema),
    WAIT,
];
const ERROR: FieldTable = &[Field::new("code", text_schema), Field::new("message", text_schema)];

fn result_schema() -> Value {
    json!({"description": "What the tool answered: text or any JSON"})
}

/// A body, described.
pub(crate) fn schema() -> Value {
    object_schema(POST, &[])
}

/// A valid post.
#[derive(Debug)]
pub(crate) struct ResultPost {
    results: Vec<Posted>,
    /// Whether it came as `toolResults`.
    batch: bool,
    hold: bool,
    pub(crate) wait: Option<Duration>,
    warnings: Vec<String>,
}

#[derive(Debug)]
struct Posted {
    which: Which,
    tool_name: Option<String>,
    outcome: Outcome,
}

#[derive(Debug)]
enum Which {
    Call(CallId),
    /// Not an id of this server: as unknown as any other.
    Foreign(String),
    Tool(String),
}

/// The outcome of a post of which at least one result counts.
#[derive(Debug)]
pub(crate) struct DeliveredPost {
    pub(crate) snapshot: Snapshot,
    /// For a batch: one for each result, in order.
    pub(crate) results: Option<Vec<wire::PostedResult>>,
    /// Nothing was new.
    pub(crate) replayed: bool,
    pub(crate) warnings: Vec<String>,
}

/// The code of a failure for which the client gave none.
pub(crate) const DEFAULT_FAILURE: &str = outcome_code::TOOL_FAILED;
/// The message of a failure for which the client gave none.
pub(crate) const NO_REASON: &str = "the tool failed without saying why";

impl ResultPost {
    /// One result, for the call with this id.
    pub(crate) fn of_call(id: &str, outcome: Outcome, hold: bool, warnings: Vec<String>) -> Self {
        let results = vec![Posted { which: Which::of(id.to_owned()), tool_name: None, outcome }];
        Self { results, batch: false, hold, wait: None, warnings }
    }
}

impl Which {
    /// The call as the client named it.
    fn named(&self) -> String {
        match self {
            Self::Call(id) => format!("call `{id}`"),
            Self::Foreign(id) => format!("call `{}`", clip(id)),
            Self::Tool(name) => format!("tool `{}`", clip(name)),
        }
    }

    fn of(id: String) -> Self {
        id.parse().map_or(Self::Foreign(id), Self::Call)
    }
}

pub(crate) fn read(warnings: Vec<String>, body: Value) -> Result<ResultPost, ApiError> {
    let report = RequestReport::new(Code::InvalidToolResult, warnings);
    refuse_too_many(&body)?;
    let fields = report.body(body)?.with_table(POST);
    let hold = fields.bool("continueExecution") == Some(false);
    let wait = read_body_wait(&fields);
    let batch = fields.has("toolResults");
    let results = if batch { read_batch(&fields) } else { read_one(&fields).into_iter().collect() };
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

fn read_batch(fields: &BodyFields<'_>) -> Vec<Posted> {
    let items = fields.list("toolResults");
    if items.is_empty() {
        fields.reject("toolResults", "empty", "must be an array with at least one result");
    }
    for name in ["toolName", "toolCallId", "toolResult", "result", "success", "error"] {
        if fields.get(name).is_some() {
            fields.reject(name, "mixed_forms", "belongs in the entries of `toolResults`");
        }
    }
    let mut results = Vec::with_capacity(items.len());
    fields.each_of("toolResults", items, |path, item| {
        if let Some(item) = fields.at(path, item) {
            let item = item.with_table(RESULT);
            results.extend(read_one(&item));
            item.finish();
        }
    });
    results
}

fn read_one(fields: &BodyFields<'_>) -> Option<Posted> {
    let named = fields.has("toolCallId") || fields.has("toolName");
    let id = fields.text("toolCallId");
    let tool_name = fields.text("toolName");
    if !named {
        let name_path = fields.path_of("toolName");
        let message = format!("is missing: say which call it is for, here or as `{name_path}`");
        fields.reject("toolCallId", "missing", message);
    }
    let outcome = read_outcome(fields);
    let which = match (id, &tool_name) {
        (Some(id), _) => Which::of(id),
        (None, Some(name)) => Which::Tool(name.clone()),
        (None, None) => return None,
    };
    Some(Posted { which, tool_name, outcome: outcome? })
}

fn read_outcome(fields: &BodyFields<'_>) -> Option<Outcome> {
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

/// The content of a failure beside its message, if any.
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
            None
        }
    }
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
    let deliveries = results.iter().filter_map(Posted::to_delivery).collect();
    let DeliverReport { verdicts, snapshot } = engine.deliver(by.clone(), key, deliveries, hold, wait).await?;
    let mut verdicts = verdicts.into_iter();
    let judged: Vec<_> = results
        .into_iter()
        .map(|posted| {
            let verdict = match posted.which {
                Which::Foreign(_) => DeliveryVerdict::Unknown,
                Which::Call(_) | Which::Tool(_) => verdicts.next().unwrap_or(DeliveryVerdict::Unknown),
            };
            (posted, verdict)
        })
        .collect();
    log_unused(&snapshot.head, &judged);
    let mut kept = Warnings::from(warnings);
    judged.iter().filter_map(|(posted, _)| misnamed(&snapshot, posted)).for_each(|warning| kept.add(warning));
    let warnings = kept.into();
    let counts = |(_, verdict): &(Posted, DeliveryVerdict)| {
        matches!(verdict, DeliveryVerdict::Accepted(_) | DeliveryVerdict::Replayed(_))
    };
    if !judged.iter().any(counts) {
        return Err(refusal(&snapshot.head, &judged, batch));
    }
    Ok(DeliveredPost {
        replayed: !judged.iter().any(|(_, verdict)| matches!(verdict, DeliveryVerdict::Accepted(_))),
        results: batch.then(|| judged.iter().map(|(posted, verdict)| to_wire(posted, *verdict)).collect()),
        snapshot,
        warnings,
    })
}

impl Posted {
    fn to_delivery(&self) -> Option<Delivery> {
        let target = match &self.which {
            Which::Call(id) => DeliveryTarget::Call(*id),
            Which::Tool(name) => DeliveryTarget::Tool(name.clone()),
            Which::Foreign(_) => return None,
        };
        Some(Delivery { target, outcome: self.outcome.clone() })
    }
}

/// The word for a verdict in a batch, and the code if it is a fault.
fn word(verdict: DeliveryVerdict) -> (&'static str, Option<Code>) {
    match verdict {
        DeliveryVerdict::Accepted(_) => ("accepted", None),
        DeliveryVerdict::Replayed(_) => ("replayed", None),
        DeliveryVerdict::AlreadyResolved(_) => ("conflict", Some(Code::AlreadyResolved)),
        DeliveryVerdict::Expired(_) => ("expired", Some(Code::CallExpired)),
        DeliveryVerdict::Cancelled(_) => ("cancelled", Some(Code::CallCancelled)),
        DeliveryVerdict::Unknown => ("unknown", Some(Code::CallNotFound)),
        DeliveryVerdict::Ambiguous => ("ambiguous", Some(Code::AmbiguousCall)),
        DeliveryVerdict::NotWaiting => ("not_waiting", Some(Code::CallNotWaiting)),
    }
}

fn call_of(verdict: DeliveryVerdict) -> Option<CallId> {
    match verdict {
        DeliveryVerdict::Accepted(id)
        | DeliveryVerdict::Replayed(id)
        | DeliveryVerdict::AlreadyResolved(id)
        | DeliveryVerdict::Expired(id)
        | DeliveryVerdict::Cancelled(id) => Some(id),
        DeliveryVerdict::Unknown | DeliveryVerdict::Ambiguous | DeliveryVerdict::NotWaiting => None,
    }
}

fn to_wire(posted: &Posted, verdict: DeliveryVerdict) -> wire::PostedResult {
    let sent = match &posted.which {
        Which::Call(id) => Some(id.to_string()),
        Which::Foreign(id) => Some(clip(id)),
        Which::Tool(_) => None,
    };
    let (status, code) = word(verdict);
    wire::PostedResult {
        id: call_of(verdict).map(|id| id.to_string()).or(sent),
        tool_name: posted.tool_name.as_deref().map(clip),
        status,
        code: code.map(Code::as_str),
    }
}

/// The error of a post of which nothing counts: that of its first result.
fn refusal(head: &Head, judged: &[(Posted, DeliveryVerdict)], batch: bool) -> ApiError {
    let Some((posted, verdict)) = judged.first() else {
        return ApiError::new(Code::InvalidToolResult, "the post has no result");
    };
    let message = sentence(&posted.which.named(), *verdict);
    let code = word(*verdict).1.unwrap_or(Code::InvalidToolResult);
    let details = if batch {
        judged.iter().map(|(posted, verdict)| json!(to_wire(posted, *verdict))).collect()
    } else {
        recorded_hash(head, *verdict).into_iter().collect()
    };
    ApiError::new(code, message).with_details(details)
}

fn sentence(named: &str, verdict: DeliveryVerdict) -> String {
    match verdict {
        // These count: the caller has checked that there is none of them.
        DeliveryVerdict::Accepted(_) | DeliveryVerdict::Replayed(_) => format!("{named} has its result"),
        DeliveryVerdict::AlreadyResolved(_) => format!("{named} already has another result, which stays"),
        DeliveryVerdict::Expired(_) => format!("{named} was not answered in time; the agent went on without it"),
        DeliveryVerdict::Cancelled(_) => format!("{named} is void: the query has ended"),
        DeliveryVerdict::Unknown => format!("{named} is not a call of this query that a client may answer"),
        DeliveryVerdict::Ambiguous => format!("several calls of {named} wait; say which one with `toolCallId`"),
        DeliveryVerdict::NotWaiting => format!("no call of {named} waits for a result"),
    }
}

/// The refusal of a large result before its body is read, if its call does not wait for one.
pub(crate) fn refuse_early(id: &str, standing: CallStanding) -> Option<ApiError> {
    let which = Which::of(id.to_owned());
    let verdict = match (&which, standing) {
        (_, CallStanding::Open | CallStanding::Resolved) => return None,
        (Which::Call(call), CallStanding::Expired) => DeliveryVerdict::Expired(*call),
        (Which::Call(call), CallStanding::Cancelled) => DeliveryVerdict::Cancelled(*call),
        _ => DeliveryVerdict::Unknown,
    };
    let code = word(verdict).1?;
    tracing::warn!(
        call = call_of(verdict).map(tracing::field::display),
        verdict = code.as_str(),
        "result was rejected"
    );
    Some(ApiError::new(code, sentence(&which.named(), verdict)))
}

/// The result that won, by its hash: enough to recognise it, too little to read it.
fn recorded_hash(head: &Head, verdict: DeliveryVerdict) -> Option<Value> {
    let DeliveryVerdict::AlreadyResolved(id) = verdict else { return None };
    match head.call(id)?.state {
        CallState::Resolved { outcome } => Some(json!({ "id": id, "recorded": outcome })),
        _ => None,
    }
}

/// The log has a line for each of the first results that were not used, and one for all others: a client chooses how
/// many there are.
fn log_unused(head: &Head, judged: &[(Posted, DeliveryVerdict)]) {
    const LINES: usize = 8;
    let unused: Vec<_> = judged.iter().filter(|(_, verdict)| word(*verdict).1.is_some()).collect();
    for (posted, verdict) in unused.iter().take(LINES) {
        tracing::warn!(
            query = %head.uid,
            call = call_of(*verdict).map(tracing::field::display),
            verdict = word(*verdict).0,
            content = %posted.outcome.content_hash(),
            "result was not used"
        );
    }
    if let Some(further) = unused.len().checked_sub(LINES).filter(|further| *further > 0) {
        tracing::warn!(query = %head.uid, further, "further results of the same delivery were not used");
    }
}

/// The id identifies the call; a tool name that does not match it gets a warning.
fn misnamed(snapshot: &Snapshot, posted: &Posted) -> Option<String> {
    let (Which::Call(id), Some(name)) = (&posted.which, &posted.tool_name) else { return None };
    let tool = &snapshot.transcript.call(*id)?.asked.tool;
    (**tool != **name)
        .then(|| format!("`toolName` is `{}`, but call `{id}` is one of `{tool}`; the id counts", clip(name)))
}
