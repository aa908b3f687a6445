//! The state machine of a query.
//!
//! The functions here are the only code that decides what happens to a query. They are pure and total: they read a
//! [`Head`], the time and the input, and return [`Event`]s. The engine appends those to the journal, folds them into
//! the head, and only then does what [`next`] says. There is no clock, no I/O and no store here, and no state other
//! than the head.

mod code;
mod deliver;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
mod turn;

pub use code::{failure_code, outcome_code};
pub use deliver::{CallStanding, Delivery, DeliveryOutcome, DeliveryTarget, DeliveryVerdict, deliver, standing};
pub use turn::{AskedByModel, CallWay, ModelTurnReply, OutputCheck, end_turn, fail};

use std::sync::Arc;

use crate::{
    Actor, CallId, Head, Outcome, Timestamp,
    event::{Changed, Event},
    head::{CallHead, CallState, Phase},
};

/// Number of turns with the same call and the same result after which the model is warned of a loop; one more turn
/// fails the query.
pub const REPEATS_NOTICED: usize = 3;

/// Number of crashes in the middle of the same turn after which a query may be their cause: from then on it is retried
/// in isolation, so that it can be distinguished from queries that were merely running at the same time.
pub const CRASHES_TOGETHER: u32 = 3;

/// Number of crashes during isolated retries after which a query is considered their cause, and fails.
pub const CRASHES_ALONE: u32 = 3;

/// How many times in a row a model whose answer does not match the schema is told why and asked again.
pub const MAX_REJECTIONS: u32 = 2;

/// What the engine has to do for a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Ask the model.
    Turn { turn: u32, attempt: u32, tools: bool },
    /// Run these inside calls; others may be running already.
    Calls(Vec<CallId>),
    /// Inside calls are running; the end of one of them decides what follows.
    Busy,
    /// Nothing, until a client acts or the head's deadline passes.
    Wait,
    /// Nothing, ever again.
    End,
}

/// What has to be done next. The driver of a query evaluates this after every change of its head.
#[must_use]
pub fn next(head: &Head) -> Next {
    match head.phase {
        Phase::Completed | Phase::Failed | Phase::Cancelled => return Next::End,
        Phase::Queued | Phase::Thinking => return next_turn(head),
        Phase::Acting => {}
    }
    let ready: Vec<_> =
        head.calls.iter().filter(|call| matches!(call.state, CallState::Ready { .. })).map(|call| call.id).collect();
    if !ready.is_empty() {
        Next::Calls(ready)
    } else if head.works_inside() {
        Next::Busy
    } else if head.waiting().next().is_some() || head.pending().next().is_some() || head.held_until.is_some() {
        Next::Wait
    } else {
        next_turn(head)
    }
}

fn next_turn(head: &Head) -> Next {
    let tools = !head.tools_spent && head.calls.len() <= head.limits.max_tool_calls as usize;
    if head.phase == Phase::Thinking {
        // The attempt was lost: with its process, perhaps before the model was asked, or because the store failed to
        // append the answer.
        Next::Turn { turn: head.turn, attempt: head.attempt + 1, tools }
    } else {
        Next::Turn { turn: head.turn + 1, attempt: 1, tools }
    }
}

/// Starts a call that is ready. Empty if it is not ready (any more).
#[must_use]
pub fn start_call(head: &Head, call: CallId) -> Vec<Event> {
    match head.call(call).map(|call| call.state) {
        Some(CallState::Ready { attempts, .. }) => vec![Event::CallStarted { call, attempt: attempts + 1 }],
        _ => Vec::new(),
    }
}

/// All events that follow from the head in the same append, once a driver can act on them: the next turn begins, or all
/// ready calls that are idempotent start. A call that must not run twice is [started](start_call) in an append of its
/// own, immediately before it runs: a call that is started and not finished is `outcome_unknown` after a crash.
#[must_use]
pub fn advance(head: &Head) -> Vec<Event> {
    match next(head) {
        Next::Turn { turn, attempt, tools } => vec![Event::TurnStarted { turn, attempt, tools }],
        Next::Calls(_) => {
            let started = head.calls.iter().filter_map(|call| match call.state {
                CallState::Ready { repeatable: true, attempts } => {
                    Some(Event::CallStarted { call: call.id, attempt: attempts + 1 })
                }
                _ => None,
            });
            started.collect()
        }
        Next::Busy | Next::Wait | Next::End => Vec::new(),
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

/// A running call runs on elsewhere. Empty if the query ended first. One that is past its deadline is not polled again.
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

/// Loop detection: what the recorded outcome of `call` means for a model that repeats itself. Polling is not a loop:
/// only an equal *result* counts.
fn notice_loop(head: &Head, call: &CallHead, outcome: &Outcome) -> Option<Event> {
    if head.repeats_of(call, outcome) + 1 < REPEATS_NOTICED {
        return None;
    }
    // Within one turn the model has not seen the earlier result yet: only turns count.
    let turns = head.repeated_turns(call, outcome)?;
    match turns.cmp(&REPEATS_NOTICED) {
        std::cmp::Ordering::Less => None,
        std::cmp::Ordering::Equal => Some(Event::LoopNoticed { call: call.id }),
        std::cmp::Ordering::Greater => Some(Event::Failed {
            code: failure_code::TOOL_LOOP.into(),
            message: format!("tool `{}` was called in {turns} turns with the same arguments and result", call.tool),
        }),
    }
}

/// Applies deadlines: outside calls without a result, pending calls that are to be polled or have expired, and a hold
/// that was not continued.
#[must_use]
pub fn expire(head: &Head, now: Timestamp) -> Vec<Event> {
    if head.status().is_final() {
        return Vec::new();
    }
    if is_hold_expired(head, now) {
        return vec![hold_expired()];
    }
    let expired = head.waiting().filter(|(_, deadline)| *deadline <= now);
    let expired = expired.map(|(call, _)| Event::CallExpired { call: call.id });
    let polled = head.pending().filter_map(|(call, poll_at, deadline)| {
        if deadline <= now {
            Some(Event::CallExpired { call: call.id })
        } else {
            (poll_at <= now).then_some(Event::CallDue { call: call.id })
        }
    });
    expired.chain(polled).collect()
}

fn is_hold_expired(head: &Head, now: Timestamp) -> bool {
    head.held_until.is_some_and(|until| until <= now)
}

fn hold_expired() -> Event {
    Event::Failed {
        code: failure_code::HOLD_EXPIRED.into(),
        message: "the query was held (`continueExecution: false`) and was not continued in time".into(),
    }
}

/// Cancels the query. Empty if it has ended already.
#[must_use]
pub fn cancel(head: &Head, reason: Option<String>, by: &Actor) -> Vec<Event> {
    if head.status().is_final() { Vec::new() } else { vec![Event::Cancelled { reason, by: by.clone() }] }
}

/// Continues a held query. Empty if it is not held (any more): the deadline is compared here, so that a `continue`
/// after it is late even if no sweep has run.
#[must_use]
pub fn resume(head: &Head, now: Timestamp, by: &Actor) -> Vec<Event> {
    if head.held_until.is_none() || is_hold_expired(head, now) {
        return Vec::new();
    }
    vec![Event::Continued { by: by.clone() }]
}

/// Changes limits, labels or annotations of the query, before or after its end. Empty if `changed` changes nothing.
#[must_use]
pub fn change(changed: Changed) -> Vec<Event> {
    if changed.names().next().is_none() { Vec::new() } else { vec![Event::Changed(Box::new(changed))] }
}

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
    !matches!(next(head), Next::Wait | Next::End)
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
fn lost() -> Outcome {
    let message = "the server stopped while this call ran; whether it took effect is not known";
    Outcome::failure(outcome_code::OUTCOME_UNKNOWN, message)
}

/// The wall clock has stepped since the last entry. Empty if the query did not run meanwhile: then no time was counted.
#[must_use]
pub fn clock_stepped(head: &Head, by_ms: i64) -> Vec<Event> {
    if head.clock.running_since.is_some() { vec![Event::ClockStepped { by_ms }] } else { Vec::new() }
}
