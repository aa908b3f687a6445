//! Inside calls: started, finished, or left pending while they continue elsewhere, perhaps with a question.

use std::sync::Arc;

use super::loops::notice_loop;
use crate::{
    CallId, Event, Head, Outcome, Timestamp,
    event::CallQuestion,
    head::{CallHead, CallState},
};

/// Starts a call that is ready. Empty if it is not, or no longer is.
#[must_use]
pub fn start_call(head: &Head, call: CallId) -> Vec<Event> {
    match head.call(call).map(|call| call.state) {
        Some(CallState::Ready { attempts, .. }) => vec![Event::CallStarted { call, attempt: attempts + 1 }],
        _ => Vec::new(),
    }
}

/// A running call ended. Empty if the query ended first: the outcome is then discarded.
#[must_use]
pub fn finish_call(head: &Head, call: CallId, outcome: impl Into<Arc<Outcome>>) -> Vec<Event> {
    match head.call(call) {
        Some(found @ CallHead { state: CallState::Started { .. }, .. }) => {
            let outcome = outcome.into();
            let noticed = notice_loop(head, found, &outcome);
            let mut events = vec![Event::CallFinished { call, outcome }];
            events.extend(noticed);
            events
        }
        _ => Vec::new(),
    }
}

/// A started call, which continues elsewhere, has a question for a person. Empty if the query ended first.
#[must_use]
pub fn ask_person(
    head: &Head,
    call: CallId,
    handle: Arc<serde_json::Value>,
    question: Arc<CallQuestion>,
    deadline: Timestamp,
) -> Vec<Event> {
    match head.call(call).map(|call| call.state) {
        Some(CallState::Started { .. }) => vec![Event::CallQuestioned { call, handle, question, deadline }],
        _ => Vec::new(),
    }
}

/// A started call continues elsewhere. Empty if the query ended first. A call past its deadline is not polled again.
#[must_use]
pub fn leave_pending(
    head: &Head,
    call: CallId,
    handle: Arc<serde_json::Value>,
    poll_at: Timestamp,
    deadline: Timestamp,
) -> Vec<Event> {
    match head.call(call).map(|call| call.state) {
        Some(CallState::Started { .. }) => vec![Event::CallPending { call, handle, poll_at, deadline }],
        _ => Vec::new(),
    }
}
