//! Clean shutdowns, crashes, and the takeover after them.

use std::sync::Arc;

use super::{Next, fail, failure_code, next, outcome_code};
use crate::{
    Event, Head, Outcome,
    head::{CallState, Phase},
};

/// Number of crashes in the middle of the same turn after which a query may be their cause: from then on it is retried
/// in isolation, so that it can be distinguished from queries that were merely running at the same time.
pub const CRASHES_TOGETHER: u32 = 3;

/// Number of crashes during isolated retries after which a query is considered their cause, and fails.
pub const CRASHES_ALONE: u32 = 3;

/// Why a query is taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takeover {
    /// An earlier process left it unfinished: that process crashed, unless the journal says otherwise.
    Inherited,
    /// A write of this process failed.
    FailedWrite,
}

/// The process shuts down cleanly while the query has work in progress. Empty if it has none.
#[must_use]
pub fn interrupt(head: &Head) -> Vec<Event> {
    if head.works_inside() && !head.interrupted { vec![Event::Interrupted] } else { Vec::new() }
}

/// Whether a crash interrupted a query that an earlier process left unfinished, and it is to be retried.
#[must_use]
pub fn is_hit(head: &Head) -> bool {
    let is_retried = is_crash(head, Takeover::Inherited) && !is_poisoned(head, Takeover::Inherited);
    is_retried || needs_isolation(head, Takeover::Inherited)
}

/// Whether a query that is taken over has to be retried in isolation: crashes have interrupted it so often that it may
/// be their cause.
#[must_use]
pub fn needs_isolation(head: &Head, takeover: Takeover) -> bool {
    let crashes = head.recoveries + u32::from(is_crash(head, takeover));
    has_to_be_recovered(head) && crashes >= CRASHES_TOGETHER && !is_poisoned(head, takeover)
}

/// The number of crashes during isolated retries, including the one before this takeover.
#[must_use]
pub fn isolated_crashes(head: &Head, takeover: Takeover) -> u32 {
    head.isolated_crashes + u32::from(head.isolated && is_crash(head, takeover))
}

/// Whether the query is the cause of crashes: it was retried in isolation, and the server crashed again.
fn is_poisoned(head: &Head, takeover: Takeover) -> bool {
    isolated_crashes(head, takeover) >= CRASHES_ALONE
}

fn has_to_be_recovered(head: &Head) -> bool {
    !matches!(next(head), Next::Settle | Next::Wait | Next::End)
}

/// Whether the query had work in progress when a process crashed. A query that was only queued had none.
fn is_crash(head: &Head, takeover: Takeover) -> bool {
    let was_at_work =
        head.phase == Phase::Thinking || head.calls.iter().any(|call| matches!(call.state, CallState::Started { .. }));
    takeover == Takeover::Inherited && !head.interrupted && was_at_work
}

/// Takes the query over. Folding `Recovered` makes idempotent calls ready again; the others get the outcome
/// `outcome_unknown`. A query that repeatedly crashes the server fails.
#[must_use]
pub fn recover(head: &Head, takeover: Takeover) -> Vec<Event> {
    if !has_to_be_recovered(head) {
        return Vec::new();
    }
    let crashed = is_crash(head, takeover);
    if is_poisoned(head, takeover) {
        let times = head.recoveries + 1;
        let message = format!("the server stopped {times} times in the middle of this turn; it is not tried again");
        return fail(head, failure_code::POISONED, message);
    }
    let mut events = vec![Event::Recovered { orderly: !crashed, alone: needs_isolation(head, takeover) }];
    events.extend(head.calls.iter().filter_map(|call| match call.state {
        CallState::Started { repeatable: false, .. } => {
            Some(Event::CallFinished { call: call.id, outcome: Arc::new(lost()) })
        }
        _ => None,
    }));
    events
}

/// The outcome of a call that a crash has interrupted. It is not a result: a model that repeats such a call is not in a
/// loop, and is not warned.
pub(super) fn lost() -> Outcome {
    let message = "the server stopped while this call ran; whether it took effect is not known";
    Outcome::failure(outcome_code::OUTCOME_UNKNOWN, message)
}
