//! The audit log: who did what, when, with which tool, and how it ended.
//!
//! An [`AuditRecord`] is a projection of a journal entry, or an action that is in no journal: a rejected result, a deleted
//! query, a changed key. [`of_entries`] is pure and total over all events, so nothing that changes a query can be left
//! out by accident. A record holds no prompt, no answer and no result; of a call's arguments it holds the hash and, by
//! default, a redacted copy. The hash chain that makes records tamper-evident is the store's.

mod redact;
#[cfg(test)]
mod tests;

pub use redact::{
    REDACTED, begins_with_url, hide_in_urls, is_secret_name, is_vendor_key, redact, redact_keys, redact_text,
};

use std::{borrow::Cow, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Actor, CallId, ContentHash, Head, Outcome, QueryName, QueryUid, Timestamp, Transcript,
    event::{AskedCall, CallRoute, Entry, Event},
    head::Status,
    json,
    machine::{DeliveryTarget, DeliveryVerdict, outcome_code},
    text,
    transcript::{Call, expired},
};

/// Maximum size of the copy of a call's arguments; of larger ones only the size is recorded.
pub const SHOWN_BYTES: usize = 4_096;

/// What a record holds of a call's arguments, in addition to their hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ArgumentsInAudit {
    /// Nothing.
    Hash,
    /// A redacted copy, up to [`SHOWN_BYTES`].
    #[default]
    Redacted,
    /// An unredacted copy.
    Full,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Action {
    #[serde(rename = "query.created")]
    QueryCreated,
    #[serde(rename = "query.held")]
    QueryHeld,
    #[serde(rename = "query.continued")]
    QueryContinued,
    /// Limits, labels or annotations were changed; `detail` names the fields.
    #[serde(rename = "query.changed")]
    QueryChanged,
    #[serde(rename = "query.recovered")]
    QueryRecovered,
    #[serde(rename = "query.completed")]
    QueryCompleted,
    #[serde(rename = "query.failed")]
    QueryFailed,
    #[serde(rename = "query.cancelled")]
    QueryCancelled,
    #[serde(rename = "query.deleted")]
    QueryDeleted,
    /// The model called an inside tool.
    #[serde(rename = "call.asked")]
    CallAsked,
    /// The model called an outside tool: the call was handed to the client.
    #[serde(rename = "call.handed_out")]
    CallHandedOut,
    /// The model called a tool, and a cached result answered it.
    #[serde(rename = "call.cached")]
    CallCached,
    /// The model made a call that is never run.
    #[serde(rename = "call.refused")]
    CallRefused,
    /// The model called a tool that a person has to approve first.
    #[serde(rename = "approval.required")]
    ApprovalRequired,
    /// A person approved a call; `argumentsHash` is that of the arguments that will be run.
    #[serde(rename = "approval.approved")]
    CallApproved,
    #[serde(rename = "approval.rejected")]
    CallRejected,
    /// A decision that was not accepted: late, already decided, or about no waiting call.
    #[serde(rename = "approval.refused")]
    DecisionRefused,
    #[serde(rename = "call.started")]
    CallStarted,
    #[serde(rename = "call.finished")]
    CallFinished,
    #[serde(rename = "call.delivered")]
    CallDelivered,
    /// A person answered a question of a call that continues elsewhere.
    #[serde(rename = "call.answered")]
    CallAnswered,
    /// A worker claimed the call; `attempt` counts workers.
    #[serde(rename = "call.claimed")]
    CallClaimed,
    /// The lease of a worker lapsed, and the call is open again.
    #[serde(rename = "call.released")]
    CallReleased,
    #[serde(rename = "call.expired")]
    CallExpired,
    #[serde(rename = "call.looping")]
    CallLooping,
    /// A result that was not accepted: late, already resolved, or for no waiting call.
    #[serde(rename = "delivery.refused")]
    DeliveryRefused,
    /// Cached results of tools were dropped; `detail` is the tool, or `*`.
    #[serde(rename = "cache.cleared")]
    CacheCleared,
    #[serde(rename = "resource.created")]
    ResourceCreated,
    #[serde(rename = "resource.updated")]
    ResourceUpdated,
    #[serde(rename = "resource.deleted")]
    ResourceDeleted,
    /// Conversations, or the messages of one query in them, were deleted; `detail` is `<memory>/<conversation>`.
    #[serde(rename = "conversation.deleted")]
    ConversationDeleted,
    /// A webhook of a query was stored or replaced; `detail` is its id and its host.
    #[serde(rename = "webhook.set")]
    WebhookSet,
    /// A webhook was deleted, by a caller or because its receiver failed too often; `detail` is its id.
    #[serde(rename = "webhook.deleted")]
    WebhookDeleted,
    /// A request without a valid key or the required permission was rejected; `outcome` is the code, `detail` the
    /// route, or how many more there were.
    #[serde(rename = "access.refused")]
    AccessRefused,
    /// The key file was reloaded; each changed key has a record of its own.
    #[serde(rename = "keys.reloaded")]
    KeysReloaded,
    /// The key file is invalid: the keys that were in force stay so.
    #[serde(rename = "keys.refused")]
    KeysRefused,
    /// Manifests and tools were reloaded, by a caller or because a file has changed; `detail` counts what has changed.
    #[serde(rename = "configuration.reloaded")]
    ConfigurationReloaded,
    /// Manifests or tools are invalid: those that were in effect stay so.
    #[serde(rename = "configuration.refused")]
    ConfigurationRefused,
    #[serde(rename = "key.added")]
    KeyAdded,
    /// Its permissions or its secret were changed.
    #[serde(rename = "key.changed")]
    KeyChanged,
    /// It was revoked, or removed from the file.
    #[serde(rename = "key.revoked")]
    KeyRevoked,
    /// A caller made a copy of the store; `detail` is where.
    #[serde(rename = "store.backed_up")]
    StoreBackedUp,
    /// Records past their retention were deleted; `detail` is the last of them.
    #[serde(rename = "audit.shortened")]
    AuditShortened,
    /// The last record under the old key; `detail` is the id of the new one.
    #[serde(rename = "audit.key_rotated")]
    AuditKeyRotated,
    /// The log does not end where its seal says: it was tampered with.
    #[serde(rename = "audit.broken")]
    AuditBroken,
}

/// Where a call is run, or would have been if its result were not cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallSource {
    Inside,
    Outside,
    /// Nowhere: it was refused.
    Refused,
}

impl CallSource {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Inside => "inside",
            Self::Outside => "outside",
            Self::Refused => "refused",
        }
    }

    fn of(route: &CallRoute) -> Self {
        match route {
            CallRoute::Inside { .. } | CallRoute::Approval { .. } | CallRoute::Cached { outside: false, .. } => {
                Self::Inside
            }
            CallRoute::Outside { .. } | CallRoute::Parameters { .. } | CallRoute::Cached { outside: true, .. } => {
                Self::Outside
            }
            CallRoute::Refused { .. } => Self::Refused,
        }
    }
}

/// Counts of the calls of a query that has ended, for statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    pub inside: u32,
    pub outside: u32,
    pub refused: u32,
    /// Distinct tools.
    pub tools: u32,
}

/// One line of the audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditRecord {
    pub at: Timestamp,
    pub action: Action,
    /// The caller, if a caller did it; of a call that the model made, the creator of its query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<QueryName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<QueryUid>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<CallSource>,
    /// The hash of the arguments in canonical form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments_hash: Option<ContentHash>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Arc<Value>>,
    /// `success`, or the code of what went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Cow<'static, str>>,
    /// The hash of the delivered result or the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome_hash: Option<ContentHash>,
    /// From hand-out to result, from start to end, or the lifetime of a query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<Calls>,
    /// The kind and name of a resource, the id of a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// The outcome of a successful action.
pub const SUCCESS: &str = "success";

impl AuditRecord {
    /// An action that concerns no query.
    #[must_use]
    pub fn of_act(at: Timestamp, action: Action, actor: Option<&Actor>, detail: Option<String>) -> Self {
        Self {
            at,
            action,
            actor: actor.map(Actor::name),
            agent: None,
            query: None,
            uid: None,
            call: None,
            tool: None,
            source: None,
            arguments_hash: None,
            arguments: None,
            outcome: None,
            outcome_hash: None,
            duration_ms: None,
            attempt: None,
            calls: None,
            detail,
        }
    }

    /// A request that was rejected with `code`.
    #[must_use]
    pub fn of_refused_access(at: Timestamp, actor: Option<&Actor>, code: &'static str, route: String) -> Self {
        Self { outcome: Some(code.into()), ..Self::of_act(at, Action::AccessRefused, actor, Some(route)) }
    }

    /// A decision about a call that was not accepted, with the code of the refusal.
    #[must_use]
    pub fn of_refused_decision(head: &Head, at: Timestamp, actor: &Actor, call: CallId, code: &'static str) -> Self {
        let tool = head.call(call).map(|call| Arc::clone(&call.tool));
        let refused = Self {
            call: Some(call),
            tool,
            outcome: Some(code.into()),
            ..Self::of_query(head, at, Action::DecisionRefused)
        };
        refused.by(actor)
    }

    /// A query was deleted by a caller.
    #[must_use]
    pub fn of_deletion(head: &Head, at: Timestamp, actor: &Actor) -> Self {
        Self::of_query(head, at, Action::QueryDeleted).by(actor)
    }

    /// A webhook of a query was set by a caller, or deleted by one or by none.
    #[must_use]
    pub fn of_webhook(head: &Head, at: Timestamp, action: Action, actor: Option<&Actor>, detail: &str) -> Self {
        let record = Self { detail: Some(clip(detail)), ..Self::of_query(head, at, action) };
        match actor {
            Some(actor) => record.by(actor),
            None => record,
        }
    }

    /// A query was deleted because its retention had passed: no caller requested that.
    #[must_use]
    pub fn of_outdated(uid: QueryUid, query: Option<QueryName>, agent: Option<Arc<str>>, at: Timestamp) -> Self {
        Self { agent, query, uid: Some(uid), ..Self::of_act(at, Action::QueryDeleted, None, None) }
    }

    /// A result that was not accepted; `None` for one that was.
    #[must_use]
    pub fn of_refusal(
        head: &Head,
        at: Timestamp,
        actor: &Actor,
        target: &DeliveryTarget,
        delivered: &Outcome,
        verdict: DeliveryVerdict,
    ) -> Option<Self> {
        let reason = verdict.refusal()?;
        let (named, tool) = match target {
            DeliveryTarget::Call(call) | DeliveryTarget::Claimed(call, _) => (Some(*call), None),
            DeliveryTarget::Tool(name) => (None, Some(clip(name).into())),
        };
        let call = verdict.call().or(named);
        let known = call.and_then(|call| head.call(call));
        let refused = Self {
            call,
            tool: known.map(|call| Arc::clone(&call.tool)).or(tool),
            outcome: Some(reason.into()),
            outcome_hash: Some(delivered.content_hash()),
            ..Self::of_query(head, at, Action::DeliveryRefused)
        };
        Some(refused.by(actor))
    }

    fn by(mut self, actor: &Actor) -> Self {
        self.actor = Some(actor.name());
        self
    }

    fn of_query(head: &Head, at: Timestamp, action: Action) -> Self {
        Self {
            agent: Some(Arc::clone(&head.target)),
            query: Some(head.name.clone()),
            uid: Some(head.uid),
            ..Self::of_act(at, action, None, None)
        }
    }

    fn of_call(head: &Head, at: Timestamp, action: Action, asked: &AskedCall) -> Self {
        Self {
            call: Some(asked.call),
            tool: Some(Arc::clone(&asked.tool)),
            source: Some(CallSource::of(&asked.route)),
            ..Self::of_query(head, at, action)
        }
    }
}

/// Shortens a name that a client chose and that matched nothing.
fn clip(text: &str) -> String {
    text::clip(text, 128)
}

/// The records of entries that have just been folded into `head` and `transcript`.
#[must_use]
pub fn of_entries<'a>(
    head: &Head,
    transcript: &Transcript,
    entries: impl ExactSizeIterator<Item = &'a Entry>,
    arguments: ArgumentsInAudit,
) -> Vec<AuditRecord> {
    let mut records = Vec::with_capacity(entries.len());
    records.extend(entries.filter_map(|entry| of_entry(head, transcript, entry, arguments)));
    records
}

fn of_entry(head: &Head, transcript: &Transcript, entry: &Entry, arguments: ArgumentsInAudit) -> Option<AuditRecord> {
    let at = entry.at;
    let of_query = |action| AuditRecord::of_query(head, at, action);
    let of_call = |action, call: CallId| {
        let call = transcript.call(call)?;
        Some((AuditRecord::of_call(head, at, action, &call.asked), call))
    };
    let ended = |action, outcome: Cow<'static, str>| AuditRecord {
        outcome: Some(outcome),
        duration_ms: Some(millis(at, head.created_at.shifted(head.clock.stepped_ms))),
        calls: Some(count(transcript)),
        ..of_query(action)
    };
    match &entry.event {
        Event::Created { by, .. } => Some(of_query(Action::QueryCreated).by(by)),
        // No record for the model's turns: their calls and their end have records.
        Event::TurnStarted { .. } | Event::TurnEnded { .. } => None,
        // The model makes the call, on behalf of the query's creator.
        Event::CallAsked(asked) => Some(of_asked(head, at, asked, arguments).by(&transcript.by)),
        Event::CallStarted { call, attempt } => {
            let (record, call) = of_call(Action::CallStarted, *call)?;
            // A poll starts nothing.
            let starts = call.pending.is_none();
            starts.then(|| AuditRecord { attempt: Some(*attempt), ..record }.by(&transcript.by))
        }
        Event::CallFinished { call, outcome } => {
            let (record, call) = of_call(Action::CallFinished, *call)?;
            Some(with_outcome(record, call, outcome).by(&transcript.by))
        }
        Event::CallResolved { call, outcome, by, .. } => {
            let (record, call) = of_call(Action::CallDelivered, *call)?;
            Some(with_outcome(record, call, outcome).by(by))
        }
        Event::CallAnswered { call, by, .. } => of_call(Action::CallAnswered, *call).map(|(record, _)| record.by(by)),
        Event::CallClaimed { call, by, .. } => {
            let (record, _) = of_call(Action::CallClaimed, *call)?;
            let attempt = head.call(*call).and_then(|call| call.claim.as_ref()).map(|claim| claim.attempts);
            Some(AuditRecord { attempt, ..record }.by(by))
        }
        Event::CallReleased { call } => of_call(Action::CallReleased, *call).map(|(record, _)| record),
        Event::CallExpired { call } => {
            let (record, call) = of_call(Action::CallExpired, *call)?;
            let outcome = match expired(&call.asked, call.decision.is_some()) {
                Outcome::Failure { code, .. } => Some(code.into()),
                Outcome::Success { .. } => None,
            };
            Some(AuditRecord { outcome, duration_ms: Some(millis(at, call.asked_at)), ..record })
        }
        Event::CallApproved { call, hash, arguments: edited, by } => {
            let (record, call) = of_call(Action::CallApproved, *call)?;
            let shown = edited.as_ref().and_then(|edited| shown(edited, arguments));
            let duration_ms = Some(millis(at, call.asked_at));
            Some(AuditRecord { arguments_hash: Some(*hash), arguments: shown, duration_ms, ..record }.by(by))
        }
        Event::CallRejected { call, by, .. } => {
            let (record, call) = of_call(Action::CallRejected, *call)?;
            let outcome = Some(outcome_code::APPROVAL_REJECTED.into());
            Some(AuditRecord { outcome, duration_ms: Some(millis(at, call.asked_at)), ..record }.by(by))
        }
        Event::LoopNoticed { call } => of_call(Action::CallLooping, *call).map(|(record, _)| record),
        Event::Held { by, .. } => Some(of_query(Action::QueryHeld).by(by)),
        Event::Continued { by } => Some(of_query(Action::QueryContinued).by(by)),
        Event::Changed(changed) => {
            let detail = changed.names().collect::<Vec<_>>().join(" ");
            Some(AuditRecord { detail: Some(detail), ..of_query(Action::QueryChanged).by(&changed.by) })
        }
        // Its start and its end have records.
        Event::CallPending { .. }
        | Event::CallDue { .. }
        | Event::CallQuestioned { .. }
        | Event::CallExtended { .. } => None,
        // The child has records of its own.
        Event::CallDelegated { .. } | Event::ChildEnded { .. } | Event::Settled => None,
        // The program's log reports it: it is not an action on the query.
        Event::ClockStepped { .. } | Event::Interrupted => None,
        Event::Recovered { .. } => Some(of_query(Action::QueryRecovered)),
        Event::Completed => Some(ended(Action::QueryCompleted, SUCCESS.into())),
        Event::Failed { code, .. } => Some(ended(Action::QueryFailed, code.clone().into())),
        Event::Cancelled { by, .. } => Some(ended(Action::QueryCancelled, Status::Cancelled.as_str().into()).by(by)),
    }
}

fn of_asked(head: &Head, at: Timestamp, asked: &AskedCall, arguments: ArgumentsInAudit) -> AuditRecord {
    let (action, outcome) = match &asked.route {
        CallRoute::Inside { .. } => (Action::CallAsked, None),
        CallRoute::Approval { .. } => (Action::ApprovalRequired, None),
        CallRoute::Outside { .. } | CallRoute::Parameters { .. } => (Action::CallHandedOut, None),
        CallRoute::Refused { code, .. } => (Action::CallRefused, Some(code.clone().into())),
        // Only successes are cached.
        CallRoute::Cached { .. } => (Action::CallCached, Some(SUCCESS.into())),
    };
    // The head has the hash already; a call that it does not have is impossible.
    let hash = head.call(asked.call).map_or_else(|| json::content_hash(&asked.arguments), |call| call.arguments);
    AuditRecord {
        arguments_hash: Some(hash),
        arguments: shown(&asked.arguments, arguments),
        outcome,
        ..AuditRecord::of_call(head, at, action, asked)
    }
}

/// The copy of arguments that a record holds.
fn shown(arguments: &Arc<Value>, wanted: ArgumentsInAudit) -> Option<Arc<Value>> {
    let shown = match wanted {
        ArgumentsInAudit::Hash => return None,
        ArgumentsInAudit::Redacted => redact(arguments, SHOWN_BYTES),
        ArgumentsInAudit::Full => Arc::clone(arguments),
    };
    Some(shown).filter(|shown| !shown.is_null())
}

fn with_outcome(record: AuditRecord, call: &Call, outcome: &Outcome) -> AuditRecord {
    let code = match outcome {
        Outcome::Success { .. } => SUCCESS.into(),
        Outcome::Failure { code, .. } => clip(code).into(),
    };
    let since = call.started_at.unwrap_or(call.asked_at);
    AuditRecord { outcome: Some(code), duration_ms: Some(millis(record.at, since)), ..record }
}

fn count(transcript: &Transcript) -> Calls {
    let mut calls = Calls::default();
    let mut tools: Vec<&str> = Vec::new();
    for call in transcript.calls() {
        match CallSource::of(&call.asked.route) {
            CallSource::Inside => calls.inside += 1,
            CallSource::Outside => calls.outside += 1,
            CallSource::Refused => {
                calls.refused += 1;
                continue;
            }
        }
        if !tools.contains(&&*call.asked.tool) {
            tools.push(&call.asked.tool);
        }
    }
    calls.tools = u32::try_from(tools.len()).unwrap_or(u32::MAX);
    calls
}

fn millis(at: Timestamp, since: Timestamp) -> u64 {
    u64::try_from(at.since(since).as_millis()).unwrap_or(u64::MAX)
}
