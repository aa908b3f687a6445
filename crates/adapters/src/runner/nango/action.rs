//! `source: action`: runs an action script at Nango.
//!
//! An action is triggered asynchronously, so its execution has an id that outlives this process: the engine journals it,
//! and a later process asks for the result. Nango has no idempotency keys, so a trigger whose answer was lost is not
//! repeated, unless the operator declares the action idempotent: its outcome is unknown.

use std::time::Duration;

use bosun_core::{Namespace, Outcome, Timestamp, machine::outcome_code};
use bosun_engine::runner::RunReply;
use hyper::{StatusCode, header::HeaderName};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    client::{NangoAnswer, NangoClient, NangoRequest},
    error::NangoError,
};

const X_ASYNC: HeaderName = HeaderName::from_static("x-async");
/// The delay before the first poll; it doubles with each further one.
const FIRST_POLL: Duration = Duration::from_millis(250);
const LONGEST_POLL: Duration = Duration::from_secs(15);
/// The end of a tool's timeout, at most a tenth of it, in which Nango is not waited for any more: when all of it has
/// passed, the engine drops the call, and its outcome would be a timeout that says nothing of an action that may have run.
const REPORTING_TIME: Duration = Duration::from_millis(250);

/// The action of a call, and the connection that it uses.
pub(super) struct ActionRun<'a> {
    pub(super) client: &'a NangoClient,
    pub(super) namespace: &'a Namespace,
    pub(super) provider: &'a str,
    pub(super) action: &'a str,
    pub(super) now: Timestamp,
}

impl ActionRun<'_> {
    /// Triggers the action once.
    pub(super) async fn trigger(
        &self,
        connection: &str,
        input: Value,
        is_idempotent: bool,
        time_left: impl Fn() -> Duration,
    ) -> Result<RunReply, NangoError> {
        let body = json!({"action_name": self.action, "input": input});
        let request = NangoRequest::post(&["action", "trigger"], body).repeatable(is_idempotent);
        let request = request.on(self.provider, connection)?.header(X_ASYNC, "true")?;
        let Some(sent) = self.send(&request, time_left).await else {
            return Ok(RunReply::Done(unknown("Nango did not answer the trigger of the action in time")));
        };
        let answer = match sent {
            Ok(answer) => answer,
            Err(NangoError::NotFound(_)) => {
                let message = format!(
                    "the action `{}` is not deployed for `{}` at Nango; deploy it, or set the tool's `action`",
                    self.action, self.provider
                );
                return Err(NangoError::Misconfigured(message));
            }
            Err(error @ NangoError::NotConnected { .. }) => return Err(error),
            Err(error) => return Ok(RunReply::Done(error.into_unknown())),
        };
        match answer.body.get("id").and_then(Value::as_str).filter(|_| answer.status == StatusCode::ACCEPTED) {
            Some(id) => Ok(self.pending(id, 0)),
            // A version of Nango that runs the action at once.
            None if answer.status == StatusCode::OK => Ok(RunReply::Done(Outcome::success(answer.body))),
            None => Ok(RunReply::Done(unknown("Nango accepted the action without an id"))),
        }
    }

    /// Asks for the result of an action that was triggered, perhaps by an earlier process.
    pub(super) async fn poll(&self, handle: &Value, time_left: impl Fn() -> Duration) -> RunReply {
        let polls = handle.get("polls").and_then(Value::as_u64).unwrap_or_default();
        let Some(id) = handle.get("id").and_then(Value::as_str) else {
            return RunReply::Done(unknown("the handle of the action has no id"));
        };
        let request = NangoRequest::get(&["action", id]);
        let Some(sent) = self.send(&request, time_left).await else { return self.pending(id, polls + 1) };
        match sent {
            Ok(answer) => RunReply::Done(Outcome::success(answer.body)),
            // The same as for an unknown id; only ids that Nango gave us are asked for, and the engine has a deadline.
            Err(NangoError::NotFound(_)) => self.pending(id, polls + 1),
            Err(error) if error.is_passing().is_some() => self.pending(id, polls + 1),
            // Nango refuses the poll, as it does after a change of its key; the action was triggered before.
            Err(NangoError::Misconfigured(message)) => RunReply::Done(unknown(&message)),
            Err(error) => RunReply::Done(error.into_outcome()),
        }
    }

    /// `None` if there is no answer in time.
    async fn send(
        &self,
        request: &NangoRequest,
        time_left: impl Fn() -> Duration,
    ) -> Option<Result<NangoAnswer, NangoError>> {
        let left = time_left();
        let deadline = Instant::now() + (left - REPORTING_TIME.min(left / 10));
        let time_left = || deadline.saturating_duration_since(Instant::now());
        tokio::time::timeout_at(deadline, self.client.send(self.namespace, request, time_left)).await.ok()
    }

    fn pending(&self, id: &str, polls: u64) -> RunReply {
        let doubled = FIRST_POLL.saturating_mul(1 << u32::try_from(polls).unwrap_or(u32::MAX).min(8));
        let poll_at = self.now.after(doubled.min(LONGEST_POLL));
        RunReply::Pending { handle: json!({"id": id, "polls": polls}), poll_at }
    }
}

fn unknown(message: &str) -> Outcome {
    Outcome::failure(outcome_code::OUTCOME_UNKNOWN, format!("{message}; whether it took effect is not known"))
}
