//! What is to be done next.

use crate::{
    CallId, Event, Head,
    head::{CallState, Phase},
};

/// What the engine has to do for a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Ask the model.
    Turn { turn: u32, attempt: u32, tools: bool },
    /// Run these inside calls; others may be running already.
    Calls(Vec<CallId>),
    /// Inside calls are running; the end of one of them decides what follows.
    Busy,
    /// The query has ended: cancel its open children, and report to its parent.
    Settle,
    /// Nothing, until one of the [waits](Head::waits) ends.
    Wait,
    /// Nothing, ever again.
    End,
}

/// What has to be done next. The driver of a query evaluates this after every change of its head.
#[must_use]
pub fn next(head: &Head) -> Next {
    match head.phase {
        Phase::Completed | Phase::Failed | Phase::Cancelled if head.unsettled.is_some() => return Next::Settle,
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
    } else if head.waits().next().is_some() {
        Next::Wait
    } else {
        next_turn(head)
    }
}

fn next_turn(head: &Head) -> Next {
    // The calls that are too many were refused and count as well.
    let tools = !head.tools_spent
        && head.counted_calls() <= head.limits.max_tool_calls
        && head.tree.is_none_or(|tree| head.counted_calls().saturating_add(tree.others.calls) <= tree.max_tool_calls);
    if head.phase == Phase::Thinking {
        // The attempt was lost: with its process, perhaps before the model was asked, or because the store failed to
        // append the answer.
        Next::Turn { turn: head.turn, attempt: head.attempt + 1, tools }
    } else {
        Next::Turn { turn: head.turn + 1, attempt: 1, tools }
    }
}

/// All events that follow from the head in the same append, once a driver can act on them: the next turn begins, or all
/// ready calls that are idempotent start. A call that must not run twice is [started](super::start_call) in an append of its
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
        Next::Busy | Next::Settle | Next::Wait | Next::End => Vec::new(),
    }
}
