//! Results from outside, values of parameters and answers: one compare-and-set for each call, `waiting → resolved`, or
//! `waiting → ready` for an answer, which its runner passes on.
//!
//! The deadline is compared here, so a result that comes after it is late even if no sweep has run. An invalid result
//! never gets this far: it is rejected before, and its call stays waiting.

use std::{sync::Arc, time::Duration};

use serde_json::Value;

use super::{
    claim::{self, LeaseState},
    expire::call_expired,
    hold::{hold_expired, is_hold_expired},
    loops::notice_loop,
    refusal_code,
};
use crate::{
    Actor, CallId, Head, Outcome, Timestamp,
    content::Content,
    event::{Entry, Event},
    head::{CallHead, CallState, Waiting, WaitingOn},
    json,
};

/// Which call a result is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryTarget {
    Call(CallId),
    /// The one waiting call of this tool, for clients that know no ids of calls.
    Tool(String),
    /// A call that a worker has claimed, and its lease.
    Claimed(CallId, Arc<str>),
}

/// One result, with its form and size already validated.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    pub target: DeliveryTarget,
    pub outcome: Outcome,
    /// How long the tool ran, if the client has measured it.
    pub took: Option<Duration>,
}

/// The verdict on one result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryVerdict {
    Accepted(CallId),
    /// The same result had been accepted before.
    Replayed(CallId),
    /// Another result had been accepted before.
    AlreadyResolved(CallId),
    Expired(CallId),
    Cancelled(CallId),
    /// No such call in this query.
    Unknown,
    /// Several calls of the tool are waiting, and the result does not say which one it is for.
    Ambiguous,
    /// No call of the tool is waiting.
    NotWaiting,
    /// The worker's lease has lapsed, and the call is open for others.
    LeaseLost(CallId),
}

impl DeliveryVerdict {
    /// The code of a result that was not accepted; `None` for one that is the outcome of its call.
    #[must_use]
    pub fn refusal(self) -> Option<&'static str> {
        match self {
            Self::Accepted(_) | Self::Replayed(_) => None,
            Self::AlreadyResolved(_) => Some(refusal_code::ALREADY_RESOLVED),
            Self::Expired(_) => Some(refusal_code::CALL_EXPIRED),
            Self::Cancelled(_) => Some(refusal_code::CALL_CANCELLED),
            Self::Unknown => Some(refusal_code::CALL_NOT_FOUND),
            Self::Ambiguous => Some(refusal_code::AMBIGUOUS_CALL),
            Self::NotWaiting => Some(refusal_code::CALL_NOT_WAITING),
            Self::LeaseLost(_) => Some(refusal_code::LEASE_LOST),
        }
    }

    /// The call that the result is for, if there is one.
    #[must_use]
    pub fn call(self) -> Option<CallId> {
        match self {
            Self::Accepted(id)
            | Self::Replayed(id)
            | Self::AlreadyResolved(id)
            | Self::Expired(id)
            | Self::Cancelled(id)
            | Self::LeaseLost(id) => Some(id),
            Self::Unknown | Self::Ambiguous | Self::NotWaiting => None,
        }
    }
}

/// The effect of a post of results on the query.
#[derive(Clone, Debug, PartialEq)]
pub struct DeliveryOutcome {
    pub events: Vec<Event>,
    /// One for each result, in order.
    pub verdicts: Vec<DeliveryVerdict>,
    /// Results that were not accepted, and why.
    pub refused: Vec<(Delivery, DeliveryVerdict)>,
}

/// The state of a call that decides about a result for it, whatever its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryState {
    /// The first result is accepted.
    Open,
    /// A result was accepted before: another one is either a replay or a conflict.
    Resolved,
    Expired,
    Cancelled,
    Unknown,
}

/// Checks a call before a large result is uploaded; [`deliver`] decides once it has arrived.
#[must_use]
pub fn delivery_state(head: &Head, now: Timestamp, call: CallId) -> DeliveryState {
    match head.call(call).map(|call| call.state) {
        // The first result to arrive ends the query, and with it every open call, inside or outside.
        Some(state) if state.is_open() && is_hold_expired(head, now) => DeliveryState::Cancelled,
        // An answer is passed on, and never a file.
        Some(CallState::Waiting(waiting)) if !waiting.on.is_resolved_by_delivery() => DeliveryState::Unknown,
        Some(CallState::Waiting(waiting)) if !waiting.is_over(now) => DeliveryState::Open,
        Some(CallState::Waiting(_) | CallState::Expired) => DeliveryState::Expired,
        Some(CallState::Resolved { .. }) => DeliveryState::Resolved,
        Some(CallState::Cancelled) => DeliveryState::Cancelled,
        // Inside calls are not visible to clients.
        Some(CallState::Ready { .. } | CallState::Started { .. } | CallState::Finished { .. }) | None => {
            DeliveryState::Unknown
        }
    }
}

/// Decides a post of one or more results. `hold` keeps the query where it is afterwards, and a post without it ends an
/// earlier hold; a post that changes nothing else does neither.
#[must_use]
pub fn deliver(head: &Head, now: Timestamp, deliveries: Vec<Delivery>, hold: bool, by: &Actor) -> DeliveryOutcome {
    let mut ahead = head.clone();
    let mut delivered =
        DeliveryOutcome { events: Vec::new(), verdicts: Vec::with_capacity(deliveries.len()), refused: Vec::new() };
    let mut push = |ahead: &mut Head, event: Event| {
        let entry = Entry { seq: ahead.seq + 1, at: now, event };
        // The entry is the next one by construction.
        if ahead.apply(&entry).is_ok() {
            delivered.events.push(entry.event);
        }
    };
    // The sweep has not run yet, and a query whose hold has expired is over for its calls, too.
    if is_hold_expired(head, now) && !deliveries.is_empty() {
        push(&mut ahead, hold_expired());
    }
    for Delivery { target, outcome, took } in deliveries {
        let verdict = decide(&ahead, now, &target, &outcome);
        delivered.verdicts.push(verdict);
        match verdict {
            DeliveryVerdict::Accepted(call) => {
                if let Some(answer) = answer(&ahead, call, &outcome) {
                    push(&mut ahead, Event::CallAnswered { call, answer: Arc::new(answer), by: by.clone() });
                    continue;
                }
                let noticed = ahead.call(call).and_then(|call| notice_loop(&ahead, call, &outcome));
                let took_ms = took.map(|took| u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
                push(&mut ahead, Event::CallResolved { call, outcome: Arc::new(outcome), by: by.clone(), took_ms });
                if let Some(event) = noticed {
                    push(&mut ahead, event);
                }
            }
            DeliveryVerdict::Replayed(_) => {}
            _ => {
                // The sweep has not run yet: record the expiry that this post found.
                if let DeliveryVerdict::Expired(call) = verdict
                    && ahead.call(call).is_some_and(|call| call.state.is_open())
                {
                    let failed = ahead.call(call).and_then(|call| call_expired(&ahead, call));
                    push(&mut ahead, Event::CallExpired { call });
                    if let Some(event) = failed {
                        push(&mut ahead, event);
                    }
                }
                delivered.refused.push((Delivery { target, outcome, took }, verdict));
            }
        }
    }
    let accepted = delivered.verdicts.iter().any(|verdict| matches!(verdict, DeliveryVerdict::Accepted(_)));
    if accepted && !ahead.status().is_final() {
        if hold {
            delivered.events.push(Event::Held { until: now.after(head.limits.external_timeout), by: by.clone() });
        } else if ahead.hold.is_some() {
            delivered.events.push(Event::Continued { by: by.clone() });
        }
    }
    delivered
}

fn decide(head: &Head, now: Timestamp, target: &DeliveryTarget, outcome: &Outcome) -> DeliveryVerdict {
    match target {
        DeliveryTarget::Call(id) => {
            head.call(*id).map_or(DeliveryVerdict::Unknown, |call| decide_call(call, now, outcome))
        }
        DeliveryTarget::Tool(name) => decide_tool(head, now, name, outcome),
        DeliveryTarget::Claimed(id, lease) => head.call(*id).map_or(DeliveryVerdict::Unknown, |call| {
            match claim::lease_state(call, lease) {
                LeaseState::Held => decide_call(call, now, outcome),
                LeaseState::Lost => DeliveryVerdict::LeaseLost(*id),
                LeaseState::Unknown => DeliveryVerdict::Unknown,
                // The lease lapsed and the call was given up: this result comes too late.
                LeaseState::Over if matches!(call.state, CallState::Finished { .. }) => DeliveryVerdict::LeaseLost(*id),
                LeaseState::Over => decide_call(call, now, outcome),
            }
        }),
    }
}

fn decide_call(call: &CallHead, now: Timestamp, outcome: &Outcome) -> DeliveryVerdict {
    match call.state {
        CallState::Waiting(Waiting { on, .. }) if !on.is_delivered() => answered_before(call, outcome),
        // An answer is passed on as it is.
        CallState::Waiting(Waiting { on: WaitingOn::Answer { .. }, .. })
            if outcome.is_success() && inline(outcome).is_none() =>
        {
            DeliveryVerdict::Unknown
        }
        CallState::Waiting(waiting) if waiting.is_over(now) => DeliveryVerdict::Expired(call.id),
        CallState::Waiting(_) => DeliveryVerdict::Accepted(call.id),
        CallState::Resolved { outcome: known } if known == outcome.content_hash() => DeliveryVerdict::Replayed(call.id),
        CallState::Resolved { .. } => DeliveryVerdict::AlreadyResolved(call.id),
        CallState::Expired => DeliveryVerdict::Expired(call.id),
        CallState::Cancelled => DeliveryVerdict::Cancelled(call.id),
        // Inside calls are not visible to clients: reported like any other unknown id.
        CallState::Ready { .. } | CallState::Started { .. } | CallState::Finished { .. } => {
            answered_before(call, outcome)
        }
    }
}

/// The verdict on a result for a call that does not wait for one: it may repeat the answer to a question of the call.
fn answered_before(call: &CallHead, outcome: &Outcome) -> DeliveryVerdict {
    let given = inline(outcome).map(json::content_hash);
    match call.answered {
        None => DeliveryVerdict::Unknown,
        Some(known) if given == Some(known) => DeliveryVerdict::Replayed(call.id),
        Some(_) => DeliveryVerdict::AlreadyResolved(call.id),
    }
}

/// The answer to the question of a call, if it has one. A failure is no answer: the person declines, and the call ends.
fn answer(head: &Head, call: CallId, outcome: &Outcome) -> Option<Value> {
    let waiting = head.call(call)?.state.waiting()?;
    matches!(waiting.on, WaitingOn::Answer { .. }).then(|| inline(outcome).cloned())?
}

fn inline(outcome: &Outcome) -> Option<&Value> {
    match outcome {
        Outcome::Success { content: Content::Inline(value) } => Some(value),
        _ => None,
    }
}

fn decide_tool(head: &Head, now: Timestamp, name: &str, outcome: &Outcome) -> DeliveryVerdict {
    let of_tool = || head.calls.iter().filter(|call| *call.tool == *name);
    // A replay of the last result must not answer the *next* call of the same tool.
    let last = of_tool().rev().find_map(|call| match call.state {
        CallState::Resolved { outcome } => Some((call.id, outcome)),
        _ => None,
    });
    if let Some((call, known)) = last
        && known == outcome.content_hash()
    {
        return DeliveryVerdict::Replayed(call);
    }
    let mut waiting = of_tool().filter(|call| call.state.waiting().is_some_and(|waiting| waiting.on.is_delivered()));
    match (waiting.next(), waiting.next()) {
        (Some(call), None) => decide_call(call, now, outcome),
        (Some(_), Some(_)) => DeliveryVerdict::Ambiguous,
        (None, _) => DeliveryVerdict::NotWaiting,
    }
}
