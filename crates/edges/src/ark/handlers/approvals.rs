//! Handlers of approvals: what waits for a person, and what the person decides.
//!
//! A decision is read whole before anything is recorded. Only the words `approved` and `rejected` decide something; any
//! other text that a person sends while an approval is open is a rejection with that reason, never consent.

use std::time::Duration;

use axum::{extract::State, response::Response};
use bosun_core::{CallId, ContentHash, Namespace, machine::Decision};
use bosun_engine::{AskedDecision, DecisionTarget, QueryKey, store::QueryPage};
use bosun_reading::{Field, FieldTable, table::text_schema};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::queries::{WaitParams, answer, list_page, mark_replayed};
use crate::{
    AppState,
    ark::{
        answering::convert,
        params::{
            DEFAULT_WAIT, Paging, Params, QueryToken,
            path::{QueryPath, ResourcePath},
        },
        reading::fields::{WAIT, read_body_wait},
    },
    asking::decisions::{accepted, bounded, read_decision, read_hash},
    auth::gate::{Caller, RequestNamespace},
    http::{
        answer::Json,
        error::{ApiError, Code, call_not_found, clip},
        extract::JsonBody,
        report::RequestReport,
        warning::with_warnings,
    },
};

const DECISION_WORD: Field = Field::new("decision", || json!({"enum": ["approved", "rejected"]}));
const REASON: Field = Field::new("reason", text_schema);
const HASH: Field = Field::new(
    "hash",
    || json!({"type": "string", "description": "Of the arguments that the person has seen; others are refused"}),
);
const ARGUMENTS: Field = Field::new(
    "arguments",
    || json!({"type": "object", "description": "To run instead; they are validated like those of the model"}),
);
/// The body of a decision.
pub(crate) const DECISION: FieldTable = &[
    Field::new("toolCallId", text_schema),
    DECISION_WORD,
    HASH,
    ARGUMENTS,
    REASON,
    Field::new(
        "text",
        || json!({"type": "string", "description": "What a person has written instead of deciding: a rejection"}),
    ),
    WAIT,
];
/// The same, for the one call that ARK's path names.
pub(crate) const TASK_DECISION: FieldTable = &[DECISION_WORD, HASH, ARGUMENTS, REASON];

/// The outcome of a decision, in ARK's format.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DecidedTask {
    name: String,
    namespace: String,
    task_id: String,
    decision: &'static str,
}

/// The batch size when queries are searched for one call.
const PAGE: usize = 100;

/// `GET …/approvals`
pub(crate) async fn list_approvals(
    State(app): State<AppState>,
    caller: Caller,
    namespace: RequestNamespace,
    Params { given: paging, warnings }: Params<Paging<QueryToken>>,
) -> Result<Response, ApiError> {
    let page = QueryPage { limit: paging.limit(), before: paging.before()?, approvals: true, ..QueryPage::default() };
    let listed = list_page(&app, &caller, &namespace, &page).await?;
    Ok(with_warnings(Json(convert::open_approvals(&listed)), &warnings))
}

/// `POST …/queries/{name}/approval`
pub(crate) async fn decide_approval(
    State(app): State<AppState>,
    caller: Caller,
    Params { given: (waiting, choice), warnings }: Params<WaitParams>,
    path: QueryPath,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let post = body.read(|body| read(warnings, body))?;
    let wait = waiting.or(post.wait.or(Some(DEFAULT_WAIT)));
    let report = app.engine.decide(caller.actor.clone(), path.key()?, post.asked()?, wait).await?;
    let replayed = accepted(&report)?;
    let mut response = answer(&report.snapshot, &caller, choice.view, &post.warnings);
    mark_replayed(&mut response, replayed);
    Ok(response)
}

/// `POST …/a2a-tasks/{name}/approval`, ARK's form: the task is the call.
pub(crate) async fn approve_task(
    State(app): State<AppState>,
    caller: Caller,
    Params { warnings, .. }: Params,
    ResourcePath { namespace, name }: ResourcePath,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let post = body.read(|body| read_task(warnings, body))?;
    let call: CallId = name.parse().map_err(|_| {
        let message = format!("A2ATask '{}' not found in namespace {namespace}", clip(&name));
        ApiError::new(Code::CallNotFound, message)
    })?;
    let Some(key) = find(&app, &namespace, call).await? else {
        return Err(ApiError::new(Code::ApprovalNotOpen, format!("A2ATask '{call}' is not awaiting approval")));
    };
    let decision = word(&post.decision);
    let asked = AskedDecision { target: DecisionTarget::Call(call), decision: post.decision, seen: post.seen };
    let report = app.engine.decide(caller.actor, key, asked, None).await?;
    accepted(&report)?;
    let name = report.snapshot.head.name.to_string();
    let decided = DecidedTask { name, namespace: namespace.to_string(), task_id: call.to_string(), decision };
    Ok(with_warnings(Json(decided), &post.warnings))
}

/// The query whose call this is, if it waits for approval.
async fn find(app: &AppState, namespace: &Namespace, call: CallId) -> Result<Option<QueryKey>, ApiError> {
    let mut page = QueryPage { limit: PAGE, approvals: true, ..QueryPage::default() };
    loop {
        let listed = app.engine.list(namespace, &page).await?;
        let found = listed.queries.iter().find(|(head, _)| head.approvals().any(|(open, _)| open.id == call));
        if let Some((head, _)) = found {
            return Ok(Some((head.namespace.clone(), head.name.clone())));
        }
        if listed.next.is_none() {
            return Ok(None);
        }
        page.before = listed.next;
    }
}

/// A valid decision.
#[derive(Debug)]
struct DecisionPost {
    /// The call that it is about, as the client has written it.
    call: Option<String>,
    decision: Decision,
    /// Whether it is a text, which is about every open approval.
    is_text: bool,
    seen: Option<ContentHash>,
    wait: Option<Duration>,
    warnings: Vec<String>,
}

impl DecisionPost {
    fn asked(&self) -> Result<AskedDecision, ApiError> {
        let target = match &self.call {
            Some(id) => DecisionTarget::Call(id.parse().map_err(|_| call_not_found(id))?),
            None if self.is_text => DecisionTarget::Every,
            None => DecisionTarget::Only,
        };
        Ok(AskedDecision { target, decision: self.decision.clone(), seen: self.seen })
    }
}

fn read(warnings: Vec<String>, body: Value) -> Result<DecisionPost, ApiError> {
    let report = RequestReport::new(Code::InvalidDecision, warnings);
    let fields = report.body(body)?.with_table(DECISION);
    let call = fields.text("toolCallId");
    let wait = read_body_wait(&fields);
    let is_text = fields.has("text");
    let decision = if is_text {
        for name in ["decision", "arguments", "reason"] {
            if fields.get(name).is_some() {
                fields.reject(name, "mixed_forms", "cannot be combined with `text`, which is a rejection");
            }
        }
        let reason = bounded(&fields, "text");
        Some(Decision::Rejected { reason })
    } else {
        read_decision(&fields)
    };
    let seen = read_hash(&fields);
    fields.finish();
    drop(fields);
    conclude(report, call, decision, is_text, seen, wait)
}

fn read_task(warnings: Vec<String>, body: Value) -> Result<DecisionPost, ApiError> {
    let report = RequestReport::new(Code::InvalidDecision, warnings);
    let fields = report.body(body)?.with_table(TASK_DECISION);
    let decision = read_decision(&fields);
    let seen = read_hash(&fields);
    fields.finish();
    drop(fields);
    conclude(report, None, decision, false, seen, None)
}

fn conclude(
    report: RequestReport,
    call: Option<String>,
    decision: Option<Decision>,
    is_text: bool,
    seen: Option<ContentHash>,
    wait: Option<Duration>,
) -> Result<DecisionPost, ApiError> {
    let warnings = report.conclude()?;
    // Without a decision the report has a fault.
    let decision = decision.ok_or_else(|| ApiError::new(Code::InvalidDecision, "there is no decision"))?;
    Ok(DecisionPost { call, decision, is_text, seen, wait, warnings })
}

fn word(decision: &Decision) -> &'static str {
    match decision {
        Decision::Approved { .. } => "approved",
        Decision::Rejected { .. } => "rejected",
    }
}
