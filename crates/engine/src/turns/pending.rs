//! Cancellation of pending calls whose results are no longer wanted.
//!
//! Best effort: a journal entry cannot stop a call that runs elsewhere, and a call that is not cancelled because the
//! process died ends by itself. No query waits for it.

use std::{sync::Arc, time::Duration};

use bosun_core::{CallId, transcript::Call};

use crate::{Results, engine::Inner, queries::state::QueryState, runner::InsideCall};

/// How long a runner may take to cancel a call.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Cancels those pending calls of a query whose results are not wanted: the `given_up` ones, which have expired or whose
/// question was declined, or all if it has ended.
pub(crate) fn cancel(inner: &Arc<Inner>, state: &QueryState, given_up: &[CallId]) {
    let is_over = state.head.status().is_final();
    if !is_over && given_up.is_empty() {
        return;
    }
    let mut calls = state.transcript.calls().filter(|call| {
        call.pending.is_some() && ((is_over && call.result.is_none()) || given_up.contains(&call.asked.call))
    });
    let Some(first) = calls.next() else { return };
    let abandoned: Vec<_> = [first].into_iter().chain(calls).cloned().collect();
    let (inner, head, transcript) = (Arc::clone(inner), Arc::clone(&state.head), Arc::clone(&state.transcript));
    let tasks = inner.tasks.clone();
    tasks.spawn(async move {
        let Ok(Some(toolset)) = inner.frozen_toolset(transcript.spec.toolset).await else { return };
        let results = Results::of(Arc::clone(&transcript), Arc::clone(&inner.blobs));
        for call in abandoned {
            let arguments = Arc::clone(call.arguments());
            let Call { asked, pending, .. } = call;
            let (Some(pending), Some(member)) = (pending, toolset.get(&asked.tool)) else { continue };
            let tool = Arc::clone(&member.tool);
            let Some(runner) = inner.resources.registry().runner(tool.binding.kind()).cloned() else { continue };
            let call = InsideCall {
                namespace: head.namespace.clone(),
                id: asked.call,
                tool,
                arguments,
                attempt: 1,
                results: results.clone(),
            };
            if tokio::time::timeout(TIMEOUT, runner.cancel(&call, &pending.handle)).await.is_err() {
                tracing::warn!(query = %head.name, call = %call.id, "a pending call was not cancelled in time");
            }
        }
    });
}
