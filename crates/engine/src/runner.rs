//! The trait of a runner of inside calls, and what a runner knows of the query that makes one.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use bosun_core::{
    Actor, CallId, Content, Namespace, Outcome, QueryUid, Spec, Timestamp, Tool, ceiling::HTTP_RESPONSE_BYTES,
    event::CallQuestion, machine::outcome_code, trace::TraceContext,
};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{Clock, Results};

/// A runner that asks to be polled sooner waits this long: in a query, each poll is two entries of the journal.
pub(crate) const SHORTEST_POLL: Duration = Duration::from_millis(200);

/// Runs the calls of one kind of binding.
///
/// When the tool's timeout has passed or the query has ended, the engine drops the future; a runner must not leave work
/// behind then, other than work that it has reported with [`RunReply::Pending`]. A failure of the tool is an
/// [`Outcome`] that the model reads, never a failure of the query.
#[async_trait]
pub trait Runner: Send + Sync + 'static {
    async fn run(&self, call: &InsideCall, context: &RunContext) -> RunReply;

    /// Asks for the result of a call that is pending, perhaps since an earlier process. May be repeated.
    async fn poll(&self, call: &InsideCall, handle: &Value, context: &RunContext) -> RunReply {
        let (_, _, name) = (handle, context, &call.tool.name);
        let message = format!("the server that ran `{name}` can no longer be asked for its result");
        RunReply::Done(Outcome::failure(outcome_code::OUTCOME_UNKNOWN, message))
    }

    /// Passes a person's answer on to a call that has asked for it with [`RunReply::NeedsInput`]. May be repeated: a
    /// process that died may have passed it on.
    async fn answer(&self, call: &InsideCall, handle: &Value, answer: &Value, context: &RunContext) -> RunReply {
        let _ = answer;
        self.poll(call, handle, context).await
    }

    /// Cancels a pending call, as far as possible: its query has ended, or it has taken too long.
    async fn cancel(&self, call: &InsideCall, handle: &Value) {
        let _ = (call, handle);
    }
}

/// Applies an agent's filters to a result that a client has delivered. Runners apply those of inside results themselves.
#[async_trait]
pub trait ResultFilter: Send + Sync + 'static {
    /// The outcome that the model gets. `content` is at most [`LARGEST_FILTERED`] bytes long.
    async fn filter(&self, filters: &[String], content: Content) -> Outcome;
}

/// The largest result that is filtered; a larger one is shown as it is.
pub const LARGEST_FILTERED: usize = HTTP_RESPONSE_BYTES;

/// What a runner says of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum RunReply {
    Done(Outcome),
    /// The call runs on elsewhere. The engine journals the handle, frees everything that the query holds, and polls at
    /// this time, in this process or in a later one.
    Pending {
        handle: Value,
        poll_at: Timestamp,
    },
    /// The same, and it needs a person's answer to go on. The engine journals both, and the query waits for the answer.
    NeedsInput {
        handle: Value,
        question: CallQuestion,
    },
}

impl From<Outcome> for RunReply {
    fn from(outcome: Outcome) -> Self {
        Self::Done(outcome)
    }
}

/// Runs a call that no query makes, and polls it until it is done.
pub async fn run_alone(runner: &dyn Runner, call: &InsideCall, context: &RunContext, clock: &dyn Clock) -> Outcome {
    let timed_out = |is_pending: bool| {
        let unknown = if is_pending { "; whether it took effect is not known" } else { "" };
        let message = format!("Tool execution timeout: no result for `{}` in time{unknown}", call.tool.name);
        Outcome::failure(outcome_code::TOOL_TIMEOUT, message)
    };
    let mut is_pending = false;
    let mut reply = tokio::time::timeout_at(context.deadline, runner.run(call, context)).await;
    loop {
        match reply {
            Ok(RunReply::Done(outcome)) => return outcome,
            Ok(RunReply::NeedsInput { handle, question }) => {
                runner.cancel(call, &handle).await;
                let message = format!("it asks for input, which only a query can give it: {}", question.text);
                return Outcome::failure(outcome_code::TOOL_FAILED, message);
            }
            Ok(RunReply::Pending { handle, poll_at }) => {
                is_pending = true;
                let pause = poll_at.since(clock.now()).max(SHORTEST_POLL);
                if pause >= context.time_left() {
                    runner.cancel(call, &handle).await;
                    return timed_out(is_pending);
                }
                tokio::time::sleep(pause).await;
                reply = tokio::time::timeout_at(context.deadline, runner.poll(call, &handle, context)).await;
            }
            Err(_) => return timed_out(is_pending),
        }
    }
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

/// The query that makes a call, as far as its runner needs it.
#[derive(Clone)]
pub struct RunContext {
    /// The caller that created the query: calls are made in its name.
    pub actor: Actor,
    query: Option<QueryUid>,
    spec: Option<Arc<Spec>>,
    pub trace: Option<Arc<TraceContext>>,
    /// When the engine drops the call, unless it reports [progress](Self::progress) before.
    pub deadline: Instant,
    /// Fires when the query has ended.
    pub cancelled: CancellationToken,
    progress: Option<Arc<dyn ProgressSink>>,
}

/// How far a call is.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Grows with every report.
    pub done: f64,
    pub total: Option<f64>,
    pub message: Option<String>,
}

/// Receives reports of the progress of one call.
pub trait ProgressSink: Send + Sync {
    fn report(&self, progress: Progress);
}

impl RunContext {
    /// The context of a call that no query makes.
    #[must_use]
    pub fn alone(actor: Actor, timeout: Duration) -> Self {
        Self {
            actor,
            query: None,
            spec: None,
            trace: None,
            deadline: Instant::now() + timeout,
            cancelled: CancellationToken::new(),
            progress: None,
        }
    }

    pub(crate) fn of_query(
        query: QueryUid,
        actor: Actor,
        spec: Arc<Spec>,
        trace: Option<Arc<TraceContext>>,
        timeout: Duration,
        cancelled: CancellationToken,
        progress: Arc<dyn ProgressSink>,
    ) -> Self {
        let deadline = Instant::now() + timeout;
        Self { actor, query: Some(query), spec: Some(spec), trace, deadline, cancelled, progress: Some(progress) }
    }

    /// The same with a receiver of progress.
    #[must_use]
    pub fn reporting_to(self, progress: Arc<dyn ProgressSink>) -> Self {
        Self { progress: Some(progress), ..self }
    }

    /// The parameters of the query.
    #[must_use]
    pub fn parameters(&self) -> &BTreeMap<String, String> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        self.spec.as_ref().map_or(&NONE, |spec| &spec.parameters)
    }

    /// What ties the call to others of the same conversation: the conversation of the query, else its session, else the
    /// query itself. `None` for a call that no query makes.
    #[must_use]
    pub fn conversation(&self) -> Option<String> {
        let spec = self.spec.as_ref()?;
        let conversation = spec.conversation.as_ref().map(|frozen| format!("{}/{}", frozen.key.memory, frozen.key.id));
        let session = || spec.session_id.as_ref().map(|id| format!("session/{id}"));
        conversation.or_else(session).or_else(|| self.query.map(|query| format!("query/{query}")))
    }

    /// An annotation of the query.
    #[must_use]
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.spec.as_ref()?.annotations.get(name).map(String::as_str)
    }

    /// How long the call may still take without progress.
    #[must_use]
    pub fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Reports progress to the subscribers of the query, and restarts the timeout of the call. It is not journaled.
    pub fn progress(&self, progress: Progress) {
        if let Some(sink) = &self.progress {
            sink.report(progress);
        }
    }
}

impl fmt::Debug for RunContext {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RunContext").field("actor", &self.actor).finish_non_exhaustive()
    }
}
