//! Claims of workers: one lease at a time for each call.
//!
//! A worker that has claimed a call runs it until its lease lapses. What happens then depends on the tool: a call that is
//! safe to repeat is open again, and any other call has the outcome `outcome_unknown`, since it may have run. A result
//! is accepted only under the current lease; the clients of the query may deliver without one.

use std::sync::Arc;

use super::outcome_code;
use crate::{
    Actor, CallId, Head, Outcome, Timestamp,
    event::Event,
    head::{CallHead, CallState},
};

/// The state of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// The call waits, and the lease is the current one.
    Held,
    /// The call waits, and the lease has lapsed or belongs to another worker.
    Lost,
    /// The call does not wait any more.
    Over,
    /// No such call, or not one that workers claim.
    Unknown,
}

/// Claims a call for a worker. Empty if it does not wait for one.
#[must_use]
pub fn claim(head: &Head, now: Timestamp, call: CallId, lease: &Arc<str>, until: Timestamp, by: &Actor) -> Vec<Event> {
    let open = head.claimable().find(|(found, deadline)| found.id == call && *deadline > now);
    let claimed = open.map(|(_, deadline)| Event::CallClaimed {
        call,
        lease: Arc::clone(lease),
        until: until.min(deadline),
        by: by.clone(),
    });
    claimed.into_iter().collect()
}

/// Extends a lease that has not lapsed.
///
/// # Errors
/// With the state of the lease, if it is not held.
pub fn extend_claim(
    head: &Head,
    now: Timestamp,
    call: CallId,
    lease: &str,
    until: Timestamp,
) -> Result<Vec<Event>, LeaseState> {
    let Some(found) = head.call(call) else { return Err(LeaseState::Unknown) };
    match (lease_state(found, lease), found.state) {
        (LeaseState::Held, CallState::Waiting(waiting)) if !is_lapsed(found, now) && !waiting.is_over(now) => {
            Ok(vec![Event::CallExtended { call, until: until.min(waiting.deadline) }])
        }
        (LeaseState::Held, _) => Err(LeaseState::Lost),
        (state, _) => Err(state),
    }
}

/// The state of a call's lease. One that has lapsed without being noticed is still held: no other worker has the
/// call, so its result is the result.
pub(super) fn lease_state(call: &CallHead, lease: &str) -> LeaseState {
    match (&call.claim, call.state) {
        (None, _) => LeaseState::Unknown,
        (Some(claim), CallState::Waiting(_)) => match &claim.lease {
            Some(current) if *current.token == *lease => LeaseState::Held,
            _ => LeaseState::Lost,
        },
        (Some(_), _) => LeaseState::Over,
    }
}

/// The events that follow from leases that have lapsed.
pub(super) fn lapsed(head: &Head, now: Timestamp) -> impl Iterator<Item = Event> {
    let lapsed = head.outside_calls().filter(move |(call, deadline)| *deadline > now && is_lapsed(call, now));
    lapsed.map(|(call, _)| {
        if call.claim.as_ref().is_some_and(|claim| claim.repeatable) {
            return Event::CallReleased { call: call.id };
        }
        let message = format!("the worker that ran `{}` was lost; whether it took effect is not known", call.tool);
        let outcome = Arc::new(Outcome::failure(outcome_code::OUTCOME_UNKNOWN, message));
        Event::CallFinished { call: call.id, outcome }
    })
}

fn is_lapsed(call: &CallHead, now: Timestamp) -> bool {
    let lease = call.claim.as_ref().and_then(|claim| claim.lease.as_ref());
    lease.is_some_and(|lease| lease.until <= now)
}
