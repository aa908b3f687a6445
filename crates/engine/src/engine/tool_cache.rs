//! Dropping cached results of tools.

use bosun_core::{
    Actor, Namespace,
    audit::{Action, AuditRecord},
    text::clip,
};

use crate::{Engine, EngineError};

/// The longest name of a tool in an audit record, in characters.
const LONGEST_NAME: usize = 128;

impl Engine {
    /// Drops the cached results of a namespace, of one tool or of all, and returns how many there were. Results that
    /// running queries have recorded stay in their journals.
    ///
    /// # Errors
    /// If the store fails; the results are dropped nevertheless.
    pub async fn clear_tool_cache(
        &self,
        by: Actor,
        namespace: Namespace,
        tool: Option<String>,
    ) -> Result<usize, EngineError> {
        self.detached(async move |inner| {
            let cleared = inner.result_cache.clear(&namespace, tool.as_deref());
            let detail = tool.map_or_else(|| "*".to_owned(), |tool| clip(&tool, LONGEST_NAME));
            let record = AuditRecord::of_act(inner.clock.now(), Action::CacheCleared, Some(&by), Some(detail));
            let position = inner.store.record(&namespace, vec![record])?;
            inner.store.durable(position).await?;
            Ok(cleared)
        })
        .await
    }
}
