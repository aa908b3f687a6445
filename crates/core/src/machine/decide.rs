//! Decisions about calls that wait for approval: one compare-and-set for each call, `waiting → ready | finished`.
//!
//! An approval is for the arguments with one hash and for one run: it cannot be given twice, and a decision after the
//! deadline is late even if no sweep has run. Edited arguments have been validated before they get here.

use std::sync::Arc;

use serde_json::Value;

use super::{
    hold::{hold_expired, is_hold_expired},
    loops::notice_loop,
    outcome_code, refusal_code,
};
use crate::{
    Actor, CallId, ContentHash, Entry, Event, Head, Outcome, Timestamp,
    head::{CallState, Decided, WaitingOn},
    json,
};

/// What a person decided about a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// The call may run once: with these arguments, or with its own.
    Approved { arguments: Option<Arc<Value>> },
    /// The call never runs; the model reads the reason.
    Rejected { reason: Option<String> },
}

/// A decision, and which call it is about.
#[derive(Clone, Debug, PartialEq)]
pub struct CallDecision {
    pub call: CallId,
    pub decision: Decision,
    /// The hash of the arguments that the person has seen, if the client says so.
    pub seen: Option<ContentHash>,
}

/// The verdict on one decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionVerdict {
    Accepted,
    /// The same was decided before.
    Replayed,
    /// Something else was decided before.
    AlreadyDecided(Decided),
    /// The person has seen other arguments than those of the call.
    OtherArguments,
    Expired,
    Cancelled,
    /// No such call in this query.
    Unknown,
    /// The call never waited for approval.
    NotAwaiting,
}

impl DecisionVerdict {
    /// The code of a decision that was not accepted.
    #[must_use]
    pub fn refusal(self) -> Option<&'static str> {
        match self {
            Self::Accepted | Self::Replayed => None,
            Self::AlreadyDecided(_) => Some(refusal_code::ALREADY_DECIDED),
            Self::OtherArguments => Some(refusal_code::ARGUMENTS_CHANGED),
            Self::Expired => Some(refusal_code::APPROVAL_EXPIRED),
            Self::Cancelled => Some(refusal_code::CALL_CANCELLED),
            Self::Unknown => Some(refusal_code::CALL_NOT_FOUND),
            Self::NotAwaiting => Some(refusal_code::APPROVAL_NOT_OPEN),
        }
    }
}

/// Decides about several calls, one after the other; one verdict for each.
#[must_use]
pub fn decide_each(
    head: &Head,
    now: Timestamp,
    decisions: Vec<CallDecision>,
    by: &Actor,
) -> (Vec<Event>, Vec<DecisionVerdict>) {
    let (mut ahead, mut all, mut verdicts) = (head.clone(), Vec::new(), Vec::with_capacity(decisions.len()));
    for decision in decisions {
        let (events, verdict) = decide(&ahead, now, decision, by);
        verdicts.push(verdict);
        for event in events {
            let entry = Entry { seq: ahead.seq + 1, at: now, event };
            // The entry is the next one by construction.
            if ahead.apply(&entry).is_ok() {
                all.push(entry.event);
            }
        }
    }
    (all, verdicts)
}

/// Decides about one call.
#[must_use]
pub fn decide(head: &Head, now: Timestamp, decided: CallDecision, by: &Actor) -> (Vec<Event>, DecisionVerdict) {
    let CallDecision { call: id, decision, seen } = decided;
    let Some(call) = head.call(id) else { return (Vec::new(), DecisionVerdict::Unknown) };
    let waiting = call.state.waiting().filter(|waiting| matches!(waiting.on, WaitingOn::Approval { .. }));
    let Some(waiting) = waiting else {
        let verdict = match (call.decided, call.state) {
            (Some(known), _) if repeats(known, call.arguments, &decision, seen) => DecisionVerdict::Replayed,
            (Some(known), _) => DecisionVerdict::AlreadyDecided(known),
            (None, CallState::Expired) => DecisionVerdict::Expired,
            (None, CallState::Cancelled) => DecisionVerdict::Cancelled,
            (None, _) => DecisionVerdict::NotAwaiting,
        };
        return (Vec::new(), verdict);
    };
    // The sweep has not run yet.
    if is_hold_expired(head, now) {
        return (vec![hold_expired()], DecisionVerdict::Cancelled);
    }
    if waiting.is_over(now) {
        return (vec![Event::CallExpired { call: id }], DecisionVerdict::Expired);
    }
    if seen.is_some_and(|seen| seen != call.arguments) {
        return (Vec::new(), DecisionVerdict::OtherArguments);
    }
    let events = match decision {
        Decision::Approved { arguments } => {
            let edited = arguments.map(|arguments| (json::content_hash(&arguments), arguments));
            // Arguments that were sent back as they were are not edited.
            let edited = edited.filter(|(hash, _)| *hash != call.arguments);
            let (hash, arguments) = edited.map_or((call.arguments, None), |(hash, edited)| (hash, Some(edited)));
            vec![Event::CallApproved { call: id, hash, arguments, by: by.clone() }]
        }
        Decision::Rejected { reason } => {
            let noticed = notice_loop(head, call, &rejected(reason.as_deref()));
            let mut events = vec![Event::CallRejected { call: id, reason, by: by.clone() }];
            events.extend(noticed);
            events
        }
    };
    (events, DecisionVerdict::Accepted)
}

/// Whether a decision is the one that was recorded. The reason of a rejection is not compared: it was given once.
fn repeats(known: Decided, hash: ContentHash, decision: &Decision, seen: Option<ContentHash>) -> bool {
    match (known, decision) {
        (Decided::Approved, Decision::Approved { arguments: Some(edited) }) => json::content_hash(edited) == hash,
        (Decided::Approved, Decision::Approved { arguments: None }) => seen.is_none_or(|seen| seen == hash),
        (Decided::Rejected, Decision::Rejected { .. }) => true,
        (Decided::Approved, Decision::Rejected { .. }) | (Decided::Rejected, Decision::Approved { .. }) => false,
    }
}

/// The outcome of a call that was rejected.
#[must_use]
pub fn rejected(reason: Option<&str>) -> Outcome {
    let message = match reason {
        Some(reason) => format!("the user rejected this call: {reason}"),
        None => "the user rejected this call; do not repeat it".to_owned(),
    };
    Outcome::failure(outcome_code::APPROVAL_REJECTED, message)
}
