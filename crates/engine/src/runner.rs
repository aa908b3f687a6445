//! The trait of a runner of inside calls.

use std::sync::Arc;

use async_trait::async_trait;
use bosun_core::{CallId, Namespace, Outcome, Tool};
use serde_json::Value;

use crate::Results;

/// Runs the calls of one kind of binding.
///
/// When the tool's timeout has passed, the engine drops the future; a runner must not leave work behind then. A failure
/// of the tool is an [`Outcome`] that the model reads, never a failure of the query.
#[async_trait]
pub trait Runner: Send + Sync + 'static {
    async fn run(&self, call: &InsideCall) -> Outcome;
}

/// One call, validated against the tool's schema.
#[derive(Clone, Debug)]
pub struct InsideCall {
    pub namespace: Namespace,
    pub id: CallId,
    pub tool: Arc<Tool>,
    pub arguments: Arc<Value>,
    /// 1, or more if a call that may be repeated is started again after a crash. The [`CallId`] stays the same and is
    /// the idempotency key.
    pub attempt: u32,
    /// The results of earlier calls of the same query, for tools that read them.
    pub results: Results,
}
