//! What the engine wants of whoever runs inside calls.

use std::sync::Arc;

use async_trait::async_trait;
use bosun_core::{CallId, Namespace, Outcome, Tool};
use serde_json::Value;

use crate::Results;

/// Runs the calls of one kind of binding.
///
/// The engine stops waiting when the tool's timeout has passed and drops the future; a runner must
/// not leave work behind then. A failure of the tool is an [`Outcome`] that the model reads, never a
/// failure of the query.
#[async_trait]
pub trait Runner: Send + Sync + 'static {
    async fn run(&self, call: &InsideCall) -> Outcome;
}

/// One call, checked against the tool's schema.
#[derive(Clone, Debug)]
pub struct InsideCall {
    pub namespace: Namespace,
    pub id: CallId,
    pub tool: Arc<Tool>,
    pub arguments: Arc<Value>,
    /// 1, or more when a call that may be repeated is started again after a crash. The [`CallId`] stays
    /// the same and is the idempotency key.
    pub attempt: u32,
    /// What earlier calls of the same query have given, for tools that read it.
    pub results: Results,
}
