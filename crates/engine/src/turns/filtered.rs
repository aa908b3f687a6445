//! An agent's filters, applied to what clients and other agents have delivered: ARK's `functions`.
//!
//! The journal has a result as it was delivered, since a repeated delivery is compared with it and clients read it
//! back. The filters belong to the view of the model, so they are applied when a turn is rendered: once in a process, and
//! again after a restart. `docs/decisions/022-jq-processes.md` has the reasons.

use std::sync::Arc;

use bosun_core::{
    Binding, Content, Outcome, QueryName, Toolset,
    content::Large,
    result_rendering::ResultRenderer,
    transcript::{Call, Turn},
};
use futures_util::future::join_all;

use crate::{
    StoreError,
    engine::{Inner, large_results},
    runner::LARGEST_FILTERED,
};

/// Adds to `renderer` the results of delivered calls in these turns that have filters.
pub(crate) async fn add(
    inner: &Inner,
    query: &QueryName,
    toolset: &Toolset,
    turns: &[Arc<Turn>],
    renderer: &mut ResultRenderer,
) -> Result<(), StoreError> {
    let mut found = Vec::new();
    for call in turns.iter().flat_map(|turn| &turn.calls) {
        let Some(filters) = filters(toolset, call) else { continue };
        let Some(Outcome::Success { content }) = call.result.as_ref().map(|recorded| &*recorded.outcome) else {
            continue;
        };
        let content = match content {
            Content::Large(large) => large_content(inner, query, large).await?,
            content => Some(content.clone()),
        };
        found.extend(content.map(|content| (call.asked.call, filters, content)));
    }
    if found.is_empty() {
        return Ok(());
    }
    let Some(filter) = inner.resources.registry().result_filter().cloned() else { return Ok(()) };
    let outcomes =
        found.into_iter().map(async |(call, filters, content)| (call, filter.filter(filters, content).await));
    renderer.filtered.extend(join_all(outcomes).await);
    Ok(())
}

/// The filters of a call that a client, an agent or a team has answered. Those of other calls were applied by their runner.
fn filters<'a>(toolset: &'a Toolset, call: &Call) -> Option<&'a [String]> {
    let tool = &toolset.get(&call.asked.tool)?.tool;
    let is_delivered = matches!(tool.binding, Binding::External | Binding::Agent { .. } | Binding::Team { .. });
    (is_delivered && !tool.functions.is_empty()).then_some(&tool.functions)
}

/// The JSON of a blob; `None` if it is not JSON, is lost or is too large: then it is shown unfiltered.
async fn large_content(inner: &Inner, query: &QueryName, large: &Large) -> Result<Option<Content>, StoreError> {
    if !large.media_type.is_json() || large.size > LARGEST_FILTERED as u64 {
        return Ok(None);
    }
    let Some(bytes) = large_results::read(&*inner.blobs, query, large, LARGEST_FILTERED).await? else {
        return Ok(None);
    };
    // Parsing megabytes would block a worker of the runtime for too long.
    let parsed = tokio::task::spawn_blocking(move || serde_json::from_slice(&bytes).ok().map(Content::Inline));
    parsed.await.map_err(|error| StoreError::Unavailable(Box::new(error)))
}
