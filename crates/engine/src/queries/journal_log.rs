//! The program's log of a query: one line for each entry of its journal, and one for each run of an inside tool.
//!
//! Nothing happens to a query without an entry, so the log is complete, and each line has the query and, where there is
//! one, the call. A failed query is logged at `info`, everything else at `debug` (`RUST_LOG=bosun_engine=debug`).
//! Prompts, arguments, results and messages are never logged.

use std::time::Duration;

use bosun_core::{Entry, Event, Head, Outcome, event::CallRoute};

use crate::{QueryKey, runner::InsideCall};

/// Logs entries that have just been folded into `head`.
pub(crate) fn log<'a>(head: &Head, entries: impl IntoIterator<Item = &'a Entry>) {
    // One comparison for all of them if logging is off.
    if tracing::enabled!(tracing::Level::INFO) {
        entries.into_iter().for_each(|entry| log_one(head, &entry.event));
    }
}

fn log_one(head: &Head, event: &Event) {
    let (namespace, query) = (&head.namespace, &head.name);
    match event {
        Event::Created { .. } => {
            tracing::debug!(%namespace, %query, uid = %head.uid, agent = &*head.target, "query was created");
        }
        Event::TurnStarted { turn, attempt, .. } => tracing::debug!(%namespace, %query, turn, attempt, "turn began"),
        Event::TurnEnded { turn, calls, .. } => tracing::debug!(%namespace, %query, turn, calls, "turn ended"),
        Event::CallAsked(asked) => {
            let (call, tool) = (&asked.call, &*asked.tool);
            match &asked.route {
                CallRoute::Inside { .. } => tracing::debug!(%namespace, %query, %call, tool, "call was requested"),
                CallRoute::Outside { .. } => tracing::debug!(%namespace, %query, %call, tool, "call was handed out"),
                CallRoute::Approval { .. } => {
                    tracing::debug!(%namespace, %query, %call, tool, "call waits for approval");
                }
                CallRoute::Parameters { .. } => {
                    tracing::debug!(%namespace, %query, %call, tool, "call waits for parameters");
                }
                CallRoute::Cached { .. } => tracing::debug!(%namespace, %query, %call, tool, "call was cached"),
                // The name of the tool may be anything here: it comes from the model.
                CallRoute::Refused { code, .. } => tracing::debug!(%namespace, %query, %call, code, "call was refused"),
            }
        }
        Event::CallStarted { call, attempt } => {
            tracing::debug!(%namespace, %query, %call, attempt, "call was started");
        }
        Event::CallPending { call, .. } => tracing::debug!(%namespace, %query, %call, "call is pending"),
        Event::CallQuestioned { call, .. } => tracing::debug!(%namespace, %query, %call, "call asks a person"),
        Event::CallAnswered { call, .. } => tracing::debug!(%namespace, %query, %call, "call was answered"),
        Event::CallDue { call } => tracing::debug!(%namespace, %query, %call, "call is polled"),
        Event::CallDelegated { call, child } => {
            tracing::debug!(%namespace, %query, %call, %child, "call has a query of its own");
        }
        Event::ChildEnded { call, child, .. } => {
            tracing::debug!(%namespace, %query, %call, %child, "query of the call has ended");
        }
        Event::Settled => tracing::debug!(%namespace, %query, "other queries of the tree were notified of the end"),
        Event::CallFinished { call, outcome } => {
            tracing::debug!(%namespace, %query, %call, outcome = word(outcome), "call was finished");
        }
        Event::CallResolved { call, outcome, .. } => {
            tracing::debug!(%namespace, %query, %call, outcome = word(outcome), "call was delivered");
        }
        Event::CallApproved { call, .. } => tracing::debug!(%namespace, %query, %call, "call was approved"),
        Event::CallRejected { call, .. } => tracing::debug!(%namespace, %query, %call, "call was rejected"),
        Event::CallClaimed { call, .. } => tracing::debug!(%namespace, %query, %call, "call was claimed"),
        Event::CallExtended { call, .. } => tracing::debug!(%namespace, %query, %call, "lease was extended"),
        Event::CallReleased { call } => tracing::debug!(%namespace, %query, %call, "call was released"),
        Event::CallExpired { call } => tracing::debug!(%namespace, %query, %call, "call expired"),
        Event::LoopNoticed { call } => tracing::debug!(%namespace, %query, %call, "call repeats in a loop"),
        Event::Held { .. } => tracing::debug!(%namespace, %query, "query is held"),
        Event::Continued { .. } => tracing::debug!(%namespace, %query, "query was resumed"),
        Event::Changed(changed) => {
            let what = changed.names().collect::<Vec<_>>().join(" ");
            tracing::debug!(%namespace, %query, what, "query was changed");
        }
        Event::ClockStepped { by_ms } => {
            tracing::debug!(%namespace, %query, by_ms, "the clock stepped while the query ran");
        }
        Event::Interrupted => tracing::debug!(%namespace, %query, "query was interrupted by a graceful shutdown"),
        Event::Recovered { orderly, alone } => {
            tracing::debug!(%namespace, %query, orderly, alone, "query was taken over");
        }
        Event::Completed => tracing::debug!(%namespace, %query, "query completed"),
        Event::Failed { code, .. } => tracing::info!(%namespace, %query, code, "query failed"),
        Event::Cancelled { .. } => tracing::debug!(%namespace, %query, "query was cancelled"),
    }
}

/// Logs a run of an inside tool: the journal has no duration. A run that is interrupted by a crash has no such line.
pub(crate) fn ran((namespace, query): &QueryKey, call: &InsideCall, outcome: &Outcome, took: Duration) {
    let (id, tool, outcome) = (call.id, &*call.tool.name, word(outcome));
    tracing::debug!(%namespace, %query, call = %id, tool, ?took, outcome, "call was run");
}

/// A client's code may be any text; it is logged only as a failure.
fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Success { .. } => "success",
        Outcome::Failure { .. } => "failure",
    }
}
