//! Calls that have a query of their own: delegated, and ended with the end of that query.
//!
//! The end of a child is one compare-and-set, `open → finished`: a report that is repeated after a crash finds the
//! outcome recorded and changes nothing. A child may end before its parent has recorded that it exists.

use std::sync::Arc;

use super::loops::notice_loop;
use crate::{
    CallId, Event, Head, Outcome, QueryUid,
    head::{CallHead, CallState, Waiting, WaitingOn},
    tree::Spent,
};

/// How a child has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct ChildReport {
    pub outcome: Arc<Outcome>,
    /// What the child and its own children have used.
    pub spent: Spent,
    /// It ended by a call of `terminate`.
    pub terminated: bool,
}

/// A started call has a query of its own. Empty if the query ended first, or that query has ended already.
#[must_use]
pub fn delegate(head: &Head, call: CallId, child: QueryUid) -> Vec<Event> {
    match head.call(call).map(|call| call.state) {
        Some(CallState::Started { .. }) => vec![Event::CallDelegated { call, child }],
        _ => Vec::new(),
    }
}

/// The query of a call has ended. Empty if its outcome is recorded, or the parent has ended.
#[must_use]
pub fn child_ended(head: &Head, call: CallId, report: ChildReport) -> Vec<Event> {
    let Some(found) = head.call(call).filter(|call| awaits_child(call)) else { return Vec::new() };
    let ChildReport { outcome, spent, terminated } = report;
    // A team has no model that could be in a loop.
    let noticed = if head.is_team { None } else { notice_loop(head, found, &outcome) };
    let child = QueryUid::for_child(head.uid, call);
    let mut events = vec![Event::ChildEnded { call, child, spent, terminated }, Event::CallFinished { call, outcome }];
    events.extend(noticed);
    events
}

/// Whether a child that has this call as its own may end it. Ready and started: the child was created, and the process
/// that created it stopped before it was recorded.
fn awaits_child(call: &CallHead) -> bool {
    match call.state {
        CallState::Ready { .. } | CallState::Started { .. } => true,
        CallState::Waiting(Waiting { on, .. }) => on == WaitingOn::Child,
        CallState::Finished { .. } | CallState::Resolved { .. } | CallState::Expired | CallState::Cancelled => false,
    }
}

/// The tree of an ended query has been notified of its end. Empty if there was nothing to notify it of.
#[must_use]
pub fn settle(head: &Head) -> Vec<Event> {
    if head.unsettled.is_some() { vec![Event::Settled] } else { Vec::new() }
}
