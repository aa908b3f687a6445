//! The state machine of a query.
//!
//! The functions here are the only code that decides what happens to a query. They are pure and
//! total: they read a [`Head`], the time and what came in, and return [`Event`]s. The engine appends
//! those to the journal, folds them into the head, and only then does what [`next`] says. There is
//! no clock, no I/O and no store here, and no state beside the head.

mod deliver;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
mod turn;

pub use deliver::{Delivered, Delivery, Standing, Target, Verdict, deliver, standing};
pub use turn::{Asked, Output, Reply, Way, end_turn, fail, start_turn};

use std::sync::Arc;

use crate::{
    Actor, CallId, Head, Outcome, Timestamp,
    event::{Changed, Event},
    head::{CallHead, CallState, Phase},
};

/// The same call with the same result this often is worth a word to the model; once more ends the query.
pub const REPEATS_NOTICED: usize = 3;

/// A query that is in the middle of the same turn after so many crashes is likely their cause.
pub const MAX_RECOVERIES: u32 = 5;

/// A model whose answer does not fit is told why and asked again this often.
pub const MAX_REJECTIONS: u32 = 2;

/// Codes of outcomes that the engine itself writes, for the model and for the history.
pub mod outcome_code {
    pub const CALL_EXPIRED: &str = "call_expired";
    /// Nobody here runs tools of its kind.
    pub const NO_RUNNER: &str = "no_runner";
    pub const OUTCOME_UNKNOWN: &str = "outcome_unknown";
    pub const TOOL_CALL_LIMIT: &str = "tool_call_limit";
}

/// Codes with which a query fails.
pub mod failure_code {
    pub const HOLD_EXPIRED: &str = "hold_expired";
    pub const INTERNAL_ERROR: &str = "internal_error";
    pub const OUTPUT_INVALID: &str = "output_invalid";
    pub const POISONED: &str = "poisoned";
    pub const QUERY_TIMEOUT: &str = "query_timeout";
    pub const TOKEN_LIMIT: &str = "token_limit";
    pub const TOOL_CALL_LIMIT: &str = "tool_call_limit";
    pub const TOOL_LOOP: &str = "tool_loop";
}

/// What the engine has to do for a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Ask the model.
    Turn { turn: u32, attempt: u32, tools: bool },
    /// Run these inside calls; others may be running already.
    Calls(Vec<CallId>),
    /// Inside calls are running; their end will say more.
    Busy,
    /// Nothing, until somebody outside acts or the head's deadline passes.
    Wait,
    /// Nothing, ever again.
    End,
}

/// What has to be done next. Asked by whoever drives the query, after every change of its head.
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
    } else if head.waiting().next().is_some() || head.held_until.is_some() {
        Next::Wait
    } else {
        next_turn(head)
    }
}

fn next_turn(head: &Head) -> Next {
    let tools = !head.tools_spent && head.calls.len() <= head.limits.max_tool_calls as usize;
    if head.phase == Phase::Thinking {
        // Its attempt died: with its process, perhaps before anybody was asked, or with a store that did not take the
        // answer.
        Next::Turn { turn: head.turn, attempt: head.attempt + 1, tools }
    } else {
        Next::Turn { turn: head.turn + 1, attempt: 1, tools }
    }
}

/// A call that is ready is about to be run. Empty if it is not ready (any more).
#[must_use]
pub fn start_call(head: &Head, call: CallId) -> Vec<Event> {
    match head.call(call).map(|call| call.state) {
        Some(CallState::Ready { attempts, .. }) => vec![Event::CallStarted { call, attempt: attempts + 1 }],
        _ => Vec::new(),
    }
}

/// All ready calls that may be run twice are about to be run. One that must not is [started](start_call) by itself, when
/// its run really is the next thing: what is started and not finished is `outcome_unknown` after a crash.
#[must_use]
pub fn start_repeatable_calls(head: &Head) -> Vec<Event> {
    let started = head.calls.iter().filter_map(|call| match call.state {
        CallState::Ready { repeatable: true, attempts } => {
            Some(Event::CallStarted { call: call.id, attempt: attempts + 1 })
        }
        _ => None,
    });
    started.collect()
}

/// A running call ended. Empty if the query ended first: the outcome then has no reader.
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

/// What the recorded outcome of `call` means for a model that goes round in circles. Polling is not a
/// circle: only the same *result* counts.
fn notice_loop(head: &Head, call: &CallHead, outcome: &Outcome) -> Option<Event> {
    let times = head.repeats_of(call, outcome) + 1;
    match times.cmp(&REPEATS_NOTICED) {
        std::cmp::Ordering::Less => None,
        std::cmp::Ordering::Equal => Some(Event::LoopNoticed { call: call.id }),
        std::cmp::Ordering::Greater => Some(Event::Failed {
            code: failure_code::TOOL_LOOP.into(),
            message: format!("tool `{}` was called {times} times with the same arguments and result", call.tool),
        }),
    }
}

/// What time alone has decided: outside calls that nobody answered, and a hold that nobody ended.
#[must_use]
pub fn expire(head: &Head, now: Timestamp) -> Vec<Event> {
    if head.status().is_final() {
        return Vec::new();
    }
    if head.held_until.is_some_and(|until| until <= now) {
        return vec![Event::Failed {
            code: failure_code::HOLD_EXPIRED.into(),
            message: "the query was held (`continueExecution: false`) and nobody continued it in time".into(),
        }];
    }
    head.waiting()
        .filter(|(_, deadline)| *deadline <= now)
        .map(|(call, _)| Event::CallExpired { call: call.id })
        .collect()
}

/// Somebody wants the query to end. Empty if it has ended already.
#[must_use]
pub fn cancel(head: &Head, reason: Option<String>, by: &Actor) -> Vec<Event> {
    if head.status().is_final() { Vec::new() } else { vec![Event::Cancelled { reason, by: by.clone() }] }
}

/// Somebody wants a held query to go on. Empty if it is not held.
#[must_use]
pub fn resume(head: &Head, by: &Actor) -> Vec<Event> {
    if head.held_until.is_some() { vec![Event::Continued { by: by.clone() }] } else { Vec::new() }
}

/// Somebody wants the query to be other than it is, before or after its end. Empty if `changed` changes nothing.
#[must_use]
pub fn change(changed: Changed) -> Vec<Event> {
    if changed.names().next().is_none() { Vec::new() } else { vec![Event::Changed(Box::new(changed))] }
}

/// A new process takes the query over. Folding `Recovered` makes calls that may run twice ready again;
/// the others get the outcome that is true: unknown. A query that seems to bring servers down ends.
#[must_use]
pub fn recover(head: &Head) -> Vec<Event> {
    if head.status().is_final() || next(head) == Next::Wait {
        return Vec::new();
    }
    if head.recoveries >= MAX_RECOVERIES {
        return fail(
            head,
            failure_code::POISONED,
            format!("the server stopped {} times in the middle of this turn; it is not tried again", head.recoveries),
        );
    }
    let mut events = vec![Event::Recovered];
    events.extend(head.calls.iter().filter_map(|call| match call.state {
        CallState::Started { repeatable: false, .. } => Some(Event::CallFinished {
            call: call.id,
            outcome: Arc::new(Outcome::failure(
                outcome_code::OUTCOME_UNKNOWN,
                "the server stopped while this call ran; whether it took effect is not known",
            )),
        }),
        _ => None,
    }));
    events
}
