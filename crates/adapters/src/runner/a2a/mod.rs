//! Agents behind A2A servers, as tools and as agents of ours.
//!
//! A message begins a task there, and the answer to it comes at once: the id of the task is the handle that the engine
//! journals, and a later process polls it. The id of the message follows from the call, so a server that recognizes ids
//! never begins a second task. Other servers are not sent a message again whose effect is not known: after a crash the
//! task is looked for, and the outcome is unknown if it is not found. An agent that asks for input makes the query wait
//! for a person. Streams and push notifications are deliberately absent: a poll needs no connection and no open port.

mod card;
mod client;
mod content;
mod error;
mod handle;
mod link;
mod question;
mod server;
mod servers;
mod v03;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bosun_core::{Binding, ContentHash, Outcome, event::CallQuestion, machine::outcome_code};
use bosun_engine::{
    Clock, Runner,
    runner::{InsideCall, RunContext, RunReply},
};
use bosun_wire::a2a::{MessagePart, MessageRole, SendMessageResponse, Task, TaskMessage};
use serde_json::Value;

use self::{
    client::AgentClient,
    error::{A2aError, unknown},
    handle::TaskHandle,
    server::{KnownAgent, Server},
    servers::ServerTable,
};
use crate::outbound::retry::{self, Backoff};

pub use servers::{A2aServers, AnnouncedAgent};

/// ARK's annotation of a query: the context at the agent that it continues.
const CONTEXT_ID: &str = "ark.mckinsey.com/a2a-context-id";
/// How long a poll waits for a server whose card was not read since the process began.
const NOT_KNOWN_YET: Duration = Duration::from_secs(1);

/// Runs tools with [`Binding::A2a`].
struct A2aRunner {
    servers: ServerTable,
    clock: Arc<dyn Clock>,
    backoff: Backoff,
}

impl A2aRunner {
    fn new(servers: ServerTable, clock: Arc<dyn Clock>) -> Self {
        Self { servers, clock, backoff: Backoff::default() }
    }

    fn server(&self, call: &InsideCall) -> Result<Arc<Server>, A2aError> {
        let Binding::A2a { server, .. } = &call.tool.binding else {
            let message = format!("tool `{}` is not an agent behind an A2A server", call.tool.name);
            return Err(A2aError::Misconfigured(message));
        };
        self.servers.get(&call.namespace, server).ok_or_else(|| {
            A2aError::Misconfigured(format!("A2A server `{server}` is no longer configured; do not call it again"))
        })
    }

    async fn start(&self, call: &InsideCall, context: &RunContext) -> Result<RunReply, A2aError> {
        let server = self.server(call)?;
        let known = server.wait_for_agent(context.time_left().mul_f64(0.5)).await?;
        let client = client(&server, &known, Some(context));
        let context_id = context_id(call, context);
        let is_idempotent = server.manifest().idempotent;
        if call.attempt > 1 && !is_idempotent {
            return Ok(self.find(&client, call, &context_id).await);
        }
        let input = call.arguments.get("input").and_then(Value::as_str).unwrap_or_default();
        let mut message = message(call.id.to_string(), vec![MessagePart::text(input)]);
        message.context_id.clone_from(&context_id);
        let answer = match self.send(&client, &message, is_idempotent, context).await {
            // An agent may refuse contexts that it did not name; it has done nothing then.
            Err(A2aError::Refused { is_invalid: true, .. }) if context.annotation(CONTEXT_ID).is_none() => {
                message.context_id.clear();
                self.send(&client, &message, is_idempotent, context).await
            }
            other => other,
        };
        Ok(match answer {
            Ok(SendMessageResponse::Message(message)) => {
                RunReply::Done(Outcome::Success { content: content::of_message(*message) })
            }
            Ok(SendMessageResponse::Task(task)) if task.id.is_empty() => {
                RunReply::Done(unknown("the agent accepted the message without naming a task"))
            }
            Ok(SendMessageResponse::Task(task)) => {
                let handle = TaskHandle::new(task.id.clone(), task.context_id.clone(), self.clock.now());
                self.reply(*task, handle)
            }
            Err(error) => RunReply::Done(error.into_unknown()),
        })
    }

    /// Sends a message, and repeats it where that cannot have a second effect.
    async fn send(
        &self,
        client: &AgentClient<'_>,
        message: &TaskMessage,
        is_idempotent: bool,
        context: &RunContext,
    ) -> Result<SendMessageResponse, A2aError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let error = match client.send(message).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let may_repeat = is_idempotent || error.was_not_processed();
            let Some(asked) = error.is_passing().filter(|_| may_repeat) else { return Err(error) };
            let spread = retry::spread(&[message.message_id.as_bytes(), &u32::to_be_bytes(attempts)]);
            let wait = self.backoff.wait(attempts, asked, spread).filter(|wait| *wait < context.time_left() / 2);
            let Some(wait) = wait else { return Err(error) };
            tracing::warn!(attempts, wait_ms = wait.as_millis(), "a message to an A2A server has no answer, retrying");
            tokio::time::sleep(wait).await;
        }
    }

    /// Looks for the task of a call that an earlier process may have sent.
    async fn find(&self, client: &AgentClient<'_>, call: &InsideCall, context_id: &str) -> RunReply {
        match client.find(context_id, &call.id.to_string()).await {
            Ok(Some(task)) => {
                let handle = TaskHandle::new(task.id, task.context_id, self.clock.now());
                let (handle, wait) = handle.polled();
                // A list may leave out results: the task itself is asked for.
                RunReply::Pending { handle: handle.written(), poll_at: self.clock.now().after(wait) }
            }
            Ok(None) | Err(_) => RunReply::Done(unknown("the server stopped while it sent the message")),
        }
    }

    /// The reply for a task in any state.
    fn reply(&self, task: Task, handle: TaskHandle) -> RunReply {
        if task.status.state.is_terminal() {
            return RunReply::Done(content::of_ended(task));
        }
        if let Some(question) = question::of_status(&task.status) {
            let handle = handle.asking(question::identity(&question));
            return RunReply::NeedsInput { handle: handle.written(), question };
        }
        if task.status.state == bosun_wire::a2a::TaskState::Unspecified {
            return self.faulty(handle, "the agent reports a state of its task that is not known");
        }
        self.pending(handle.polled())
    }

    fn pending(&self, (handle, wait): (TaskHandle, Duration)) -> RunReply {
        RunReply::Pending { handle: handle.written(), poll_at: self.clock.now().after(wait) }
    }

    fn faulty(&self, handle: TaskHandle, message: &str) -> RunReply {
        match handle.faulty() {
            Some(next) => self.pending(next),
            None => RunReply::Done(Outcome::failure(outcome_code::TOOL_FAILED, message.to_owned())),
        }
    }

    /// The reply for a request about a task that failed.
    fn failed(&self, handle: TaskHandle, error: A2aError) -> RunReply {
        match error {
            A2aError::TaskNotFound => RunReply::Done(unknown("the agent no longer knows the task")),
            A2aError::Malformed(message) => self.faulty(handle, &message),
            error if error.is_passing().is_some() => self.pending(handle.unanswered()),
            error => RunReply::Done(error.into_outcome()),
        }
    }

    async fn poll_task(&self, call: &InsideCall, handle: TaskHandle, context: &RunContext) -> RunReply {
        let server = match self.server(call) {
            Ok(server) => server,
            Err(error) => return RunReply::Done(unknown(&error.to_string())),
        };
        let Some(known) = server.agent() else {
            return RunReply::Pending { handle: handle.written(), poll_at: self.clock.now().after(NOT_KNOWN_YET) };
        };
        let client = client(&server, &known, Some(context));
        match client.get(&handle.task).await {
            Ok(task) if !task.status.state.is_terminal() && self.is_over(&server, &handle) => {
                // Best effort: the outcome is the same if it cannot be cancelled.
                let _ = client.cancel(&handle.task).await;
                let message = "the agent took longer than the `timeout` of its A2AServer".to_owned();
                RunReply::Done(Outcome::failure(outcome_code::TOOL_TIMEOUT, message))
            }
            Ok(task) => self.reply(task, handle),
            Err(error) => self.failed(handle, error),
        }
    }

    /// Whether an agent works on a task for longer than its server's timeout.
    fn is_over(&self, server: &Server, handle: &TaskHandle) -> bool {
        server.manifest().timeout.is_some_and(|timeout| self.clock.now().since(handle.since) > timeout)
    }

    async fn pass_on(&self, call: &InsideCall, handle: TaskHandle, answer: &Value, context: &RunContext) -> RunReply {
        let server = match self.server(call) {
            Ok(server) => server,
            Err(error) => return RunReply::Done(unknown(&error.to_string())),
        };
        let known = match server.wait_for_agent(context.time_left().mul_f64(0.5)).await {
            Ok(known) => known,
            Err(error) => return RunReply::Done(error.into_outcome()),
        };
        let client = client(&server, &known, Some(context));
        // An earlier process may have passed it on, and the agent may have gone on by itself.
        let task = match client.get(&handle.task).await {
            Ok(task) => task,
            Err(error) => return RunReply::Done(error.into_outcome()),
        };
        let asked = question::of_status(&task.status);
        let Some(question) = asked.filter(|question| handle.question == Some(question::identity(question))) else {
            return self.reply(task, handle);
        };
        let mut message = message(format!("{}-{}", call.id, handle.answers + 1), question::answer_parts(answer));
        message.context_id.clone_from(&handle.context);
        message.task_id.clone_from(&handle.task);
        let sent = self.send(&client, &message, server.manifest().idempotent, context).await;
        if let Err(A2aError::Refused { message, .. }) = sent {
            // The agent still waits for an answer, and the person may give another one.
            let text = format!("{}\n(The last answer was not accepted: {message})", question.text);
            return RunReply::NeedsInput { handle: handle.written(), question: CallQuestion { text, ..question } };
        }
        let handle = handle.answered(self.clock.now());
        match sent {
            Ok(SendMessageResponse::Task(task)) if task.id == handle.task => self.reply(*task, handle),
            // The task itself says what became of it.
            Ok(_) | Err(A2aError::Unavailable(_) | A2aError::Malformed(_) | A2aError::TooLarge(_)) => {
                self.pending(handle.unanswered())
            }
            Err(error) => RunReply::Done(error.into_outcome()),
        }
    }
}

fn client<'a>(server: &'a Server, known: &'a KnownAgent, context: Option<&'a RunContext>) -> AgentClient<'a> {
    AgentClient { link: &server.link, interface: known.interface(), context }
}

fn message(message_id: String, parts: Vec<MessagePart>) -> TaskMessage {
    TaskMessage {
        message_id,
        context_id: String::new(),
        task_id: String::new(),
        role: MessageRole::User,
        parts,
        metadata: serde_json::Map::new(),
        extensions: Vec::new(),
    }
}

/// The context of a call at its agent: the one that the query names, or one that follows from the conversation and the
/// caller, so that the next query of the conversation continues it, and no other caller does.
fn context_id(call: &InsideCall, context: &RunContext) -> String {
    if let Some(named) = context.annotation(CONTEXT_ID) {
        return named.to_owned();
    }
    let conversation = context.conversation().unwrap_or_else(|| call.id.to_string());
    let (namespace, server, actor) = (call.namespace.as_str(), call.tool.binding.provider(), context.actor.id());
    let parts = [namespace, server.unwrap_or_default(), &actor, &conversation].map(str::as_bytes);
    let hash = ContentHash::of_parts(&parts).to_string();
    format!("ctx-{}", hash.get(..32).unwrap_or(&hash))
}

#[async_trait]
impl Runner for A2aRunner {
    async fn run(&self, call: &InsideCall, context: &RunContext) -> RunReply {
        self.start(call, context).await.unwrap_or_else(|error| error.into_outcome().into())
    }

    async fn poll(&self, call: &InsideCall, handle: &Value, context: &RunContext) -> RunReply {
        match TaskHandle::read(handle) {
            Some(handle) => self.poll_task(call, handle, context).await,
            None => RunReply::Done(unknown("the handle of the task cannot be read")),
        }
    }

    async fn answer(&self, call: &InsideCall, handle: &Value, answer: &Value, context: &RunContext) -> RunReply {
        match TaskHandle::read(handle) {
            Some(handle) => self.pass_on(call, handle, answer, context).await,
            None => RunReply::Done(unknown("the handle of the task cannot be read")),
        }
    }

    async fn cancel(&self, call: &InsideCall, handle: &Value) {
        let (Some(handle), Ok(server)) = (TaskHandle::read(handle), self.server(call)) else { return };
        let Some(known) = server.agent() else { return };
        if let Err(error) = client(&server, &known, None).cancel(&handle.task).await {
            tracing::warn!(call = %call.id, reason = %error, "a task of an A2A server was not cancelled");
        }
    }
}
