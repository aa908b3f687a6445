//! The model's turns: what its answer leads to.

use std::{sync::Arc, time::Duration};

use super::{MAX_REJECTIONS, failure_code, loops::notice_loop, outcome_code};
use crate::{
    CallId, Head, Outcome, Timestamp,
    event::{AskedCall, CallRoute, ClaimPolicy, Entry, Event},
    head::Phase,
    query::{ExpiryPolicy, Usage},
    tree::TreeBudget,
};

/// A complete answer of the model: its stream ended cleanly and each call was validated.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelTurnReply {
    pub text: Option<String>,
    pub calls: Vec<AskedByModel>,
    pub usage: Usage,
    /// Opaque data that the model API expects back with the next request.
    pub provider: Option<Arc<serde_json::Value>>,
    /// The model that answered, where it was not the query's own.
    pub answered_by: Option<String>,
    /// The result of validating the text against `outputSchema`.
    pub output: OutputCheck,
    /// The budget of the tree that the query belongs to.
    pub tree: Option<TreeBudget>,
}

/// Whether the text of an answer is valid.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum OutputCheck {
    /// It is valid as it is, or there is no `outputSchema`.
    #[default]
    Fits,
    /// It is valid without an explicit `null` for something optional; this is the value without it.
    FitsAs(serde_json::Value),
    /// It is invalid; the message is for the model.
    Misfits(String),
}

/// One call that the model asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct AskedByModel {
    pub provider_id: Arc<str>,
    pub tool: Arc<str>,
    pub alias: Arc<str>,
    pub arguments: Arc<serde_json::Value>,
    pub written: Option<String>,
    pub dropped: Vec<String>,
    pub deprecated: Option<String>,
    /// The tool's own policy for a call that the client does not answer in time.
    pub on_expired: Option<ExpiryPolicy>,
    pub way: CallDisposition,
}

/// The result of validating a call.
#[derive(Clone, Debug, PartialEq)]
pub enum CallDisposition {
    Inside {
        repeatable: bool,
    },
    Outside {
        timeout: Duration,
    },
    /// Outside, and a worker may claim it.
    Worker {
        timeout: Duration,
        repeatable: bool,
    },
    /// Run inside, if a person approves it within `timeout`.
    Approval {
        repeatable: bool,
        timeout: Duration,
    },
    /// The user is asked for parameters.
    Parameters {
        timeout: Duration,
    },
    Refused {
        code: String,
        message: String,
        details: Option<Arc<serde_json::Value>>,
    },
    /// An earlier call had this outcome, and it may be reused.
    Cached {
        outcome: Arc<Outcome>,
        outside: bool,
    },
}

/// Ends the model's turn. Calls that wait and calls that are refused are decided here, in the append that ends the turn. Empty if the
/// query ended meanwhile.
#[must_use]
pub fn end_turn(head: &Head, now: Timestamp, reply: ModelTurnReply) -> Vec<Event> {
    if head.phase != Phase::Thinking {
        return Vec::new();
    }
    let count = u32::try_from(reply.calls.len()).unwrap_or(u32::MAX);
    let tokens = head.usage.total().saturating_add(reply.usage.total());
    let tree = reply.tree;
    let (output, rejected) = match reply.output {
        // Text next to calls is not the answer yet.
        _ if count > 0 => (None, None),
        OutputCheck::Fits => (None, None),
        OutputCheck::FitsAs(value) => (Some(Arc::new(value)), None),
        OutputCheck::Misfits(reason) => (None, Some(reason)),
    };
    let misfits = rejected.is_some();
    let mut events = Vec::with_capacity(1 + reply.calls.len().max(1));
    events.push(Event::TurnEnded {
        turn: head.turn,
        text: reply.text,
        usage: reply.usage,
        calls: count,
        output,
        rejected,
        provider: reply.provider,
        answered_by: reply.answered_by,
        tree,
    });
    if count == 0 && !misfits {
        events.push(Event::Completed);
        return events;
    }
    if misfits && head.rejections >= MAX_REJECTIONS {
        events.push(Event::Failed {
            code: failure_code::OUTPUT_INVALID.into(),
            message: format!("the model's answer did not match `outputSchema` {} times in a row", head.rejections + 1),
        });
        return events;
    }
    // An answer that is already there is not discarded; only another turn is not begun.
    if let Some(limit) = head.limits.max_tokens.filter(|limit| tokens >= *limit) {
        events.push(Event::Failed {
            code: failure_code::TOKEN_LIMIT.into(),
            message: format!("the query has used {tokens} tokens, its limit is {limit}, and the model is not done"),
        });
        return events;
    }
    if let Some(message) = tree.and_then(|tree| tree.token_fault(tokens)) {
        events.push(Event::Failed { code: failure_code::TOKEN_LIMIT.into(), message });
        return events;
    }
    if head.tools_spent {
        events.push(Event::Failed {
            code: failure_code::TOOL_CALL_LIMIT.into(),
            message: format!(
                "the model asked for another tool after the limit of {} calls",
                head.limits.max_tool_calls
            ),
        });
        return events;
    }
    let limit = limit_of_calls(head, tree);
    for (index, asked) in (0..).zip(reply.calls) {
        let route = if !head.is_team && head.counted_calls().saturating_add(index) >= limit {
            CallRoute::Refused {
                code: outcome_code::TOOL_CALL_LIMIT.into(),
                message: format!(
                    "the limit of {} tool calls for this query is reached; answer with what you have",
                    tree.map_or(head.limits.max_tool_calls, |tree| tree.max_tool_calls.min(head.limits.max_tool_calls))
                ),
                details: None,
            }
        } else {
            match asked.way {
                CallDisposition::Inside { repeatable } => CallRoute::Inside { repeatable },
                CallDisposition::Outside { timeout } => {
                    CallRoute::Outside { deadline: now.after(timeout), claim: None }
                }
                CallDisposition::Worker { timeout, repeatable } => {
                    CallRoute::Outside { deadline: now.after(timeout), claim: Some(ClaimPolicy { repeatable }) }
                }
                CallDisposition::Approval { repeatable, timeout } => {
                    CallRoute::Approval { repeatable, deadline: now.after(timeout) }
                }
                CallDisposition::Parameters { timeout } => CallRoute::Parameters { deadline: now.after(timeout) },
                CallDisposition::Refused { code, message, details } => CallRoute::Refused { code, message, details },
                CallDisposition::Cached { outcome, outside } => CallRoute::Cached { outcome, outside },
            }
        };
        events.push(Event::CallAsked(Arc::new(AskedCall {
            call: CallId::derive(head.uid, head.turn, index),
            provider_id: asked.provider_id,
            tool: asked.tool,
            alias: asked.alias,
            arguments: asked.arguments,
            written: asked.written,
            dropped: asked.dropped,
            deprecated: asked.deprecated,
            on_expired: asked.on_expired.filter(|_| matches!(route, CallRoute::Outside { .. })),
            route,
        })));
    }
    notice_cached_loops(head, now, &mut events);
    events
}

/// How many calls of its own the query may have: by its own limit, and by what the others of its tree have left.
fn limit_of_calls(head: &Head, tree: Option<TreeBudget>) -> u32 {
    let left = tree.map_or(u32::MAX, |tree| tree.max_tool_calls.saturating_sub(tree.others.calls));
    head.limits.max_tool_calls.min(left)
}

/// Loop detection for calls that end in the append that asks for them. A cached result is a result: a model that keeps
/// asking for it is in a loop.
fn notice_cached_loops(head: &Head, now: Timestamp, events: &mut Vec<Event>) {
    let is_cached =
        |event: &Event| matches!(event, Event::CallAsked(asked) if matches!(asked.route, CallRoute::Cached { .. }));
    if !events.iter().any(is_cached) {
        return;
    }
    let (mut ahead, mut noticed) = (head.clone(), Vec::new());
    for event in events.iter() {
        // The entry is the next one by construction.
        let _ = ahead.apply(&Entry { seq: ahead.seq + 1, at: now, event: event.clone() });
        let Event::CallAsked(asked) = event else { continue };
        // Decided before later calls are applied, so that of equal calls of one turn the first one counts.
        if let (CallRoute::Cached { outcome, .. }, Some(call)) = (&asked.route, ahead.call(asked.call)) {
            noticed.extend(notice_loop(&ahead, call, outcome));
        }
    }
    // Nothing follows the end of a query.
    if let Some(end) = noticed.iter().position(Event::is_final) {
        noticed.truncate(end + 1);
    }
    events.extend(noticed);
}
