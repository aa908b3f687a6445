//! Cancellation of pending calls whose results are not wanted any more.
//!
//! Best effort: a call that runs on elsewhere cannot be made to stop by a journal entry, and one that is not cancelled
//! because the process died ends by itself. No query waits for it.

use std::{sync::Arc, time::Duration};

use bosun_core::{CallId, Toolset, transcript::Call};

use crate::{Results, engine::Inner, queries::state::QueryState, runner::InsideCall};

/// How long a runner may take to cancel a call.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Cancels those pending calls of a query whose results are not wanted: the `expired` ones, or all if it has ended.
pub(crate) fn cancel(inner: &Arc<Inner>, state: &QueryState, expired: &[CallId]) {
    let is_over = state.head.status().is_final();
    if !is_over && expired.is_empty() {
        return;
    }
    let mut calls = state.transcript.calls().filter(|call| {
        call.pending.is_some() && ((is_over && call.result.is_none()) || expired.contains(&call.asked.call))
    });
    let Some(first) = calls.next() else { return };
    let abandoned: Vec<_> = [first].into_iter().chain(calls).cloned().collect();
    let (inner, head, transcript) = (Arc::clone(inner), Arc::clone(&state.head), Arc::clone(&state.transcript));
    let tasks = inner.tasks.clone();
    tasks.spawn(async move {
        let Some(toolset) = toolset(&inner, transcript.spec.toolset).await else { return };
        let results = Results::of(Arc::clone(&transcript), Arc::clone(&inner.blobs));
        for Call { asked, pending, .. } in abandoned {
            let (Some(pending), Some(member)) = (pending, toolset.get(&asked.tool)) else { continue };
            let tool = Arc::clone(&member.tool);
            let Some(runner) = inner.resources.registry().runner(tool.binding.kind()).cloned() else { continue };
            let call = InsideCall {
                namespace: head.namespace.clone(),
                id: asked.call,
                tool,
                arguments: Arc::clone(&asked.arguments),
                attempt: 1,
                results: results.clone(),
            };
            if tokio::time::timeout(TIMEOUT, runner.cancel(&call, &pending.handle)).await.is_err() {
                tracing::warn!(query = %head.name, call = %call.id, "a pending call was not cancelled in time");
            }
        }
    });
}

async fn toolset(inner: &Inner, hash: bosun_core::ContentHash) -> Option<Arc<Toolset>> {
    if let Some(toolset) = inner.toolsets.get(hash) {
        return Some(toolset);
    }
    let document = inner.store.document(hash).await.ok()??;
    Toolset::from_document(&document).ok().map(|toolset| inner.toolsets.share(toolset))
}
