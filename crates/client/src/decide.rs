//! Decisions that an agent cannot make: whether a call may run, and values that the model does not know.

use std::io;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use crate::{Client, ClientError, OpenCall, transport::written_decision};

/// Decides for the client: a person at a terminal, for instance. `None` leaves the call to another client.
pub trait Decider: std::fmt::Debug + Send + Sync {
    /// Whether a call may run.
    fn decide<'a>(&'a self, approval: &'a OpenCall) -> BoxFuture<'a, io::Result<Option<Decision>>>;

    /// Values for the parameters of the event `parameters_required`, by their paths.
    fn fill_in<'a>(&'a self, request: &'a Value) -> BoxFuture<'a, io::Result<Option<Map<String, Value>>>>;
}

/// A decision about a call that waits for approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It runs once, with the arguments that were shown.
    Approve,
    /// It does not run, and the model reads the reason.
    Reject { reason: Option<String> },
}

impl Client {
    /// Decides about a call that waits for approval. `hash` is that of the arguments that were decided on.
    ///
    /// # Errors
    /// If the server is unreachable, or the call does not wait for this decision.
    pub async fn decide(
        &self,
        query: &str,
        call: &str,
        hash: &Value,
        decision: &Decision,
    ) -> Result<Value, ClientError> {
        let body = written_decision(call, hash, decision);
        self.post_to(&["queries", query, "approval"], &[("wait", "0")], &body).await
    }
}
