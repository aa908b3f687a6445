//! A query as a task.
//!
//! The engine has one state; this maps it to A2A's names and objects. Nothing is decided here. The answer of the agent
//! and the files of its tools are artifacts; calls that the client must run are in the message of an input-required
//! status.

use bosun_core::{
    Head, Outcome, Status, Transcript,
    event::{AskedCall, CallRoute},
    transcript::{Call, Ending, Turn},
};
use serde_json::{Map, Value, json};

use super::{
    artifact,
    tools::{self, CLIENT_TOOLS, SUPERSEDED},
    waiting::OpenWork,
    wire::{MessagePart, MessageRole, PartContent, Task, TaskMessage, TaskState, TaskStatus},
};

/// The annotation that keeps the id of the message that created a task.
pub(super) const MESSAGE_ID: &str = "bosun.dev/a2a-message-id";

/// How much of a task is shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown {
    /// The last messages of the history: all if absent.
    pub(super) history: Option<usize>,
    pub(super) artifacts: bool,
    /// Without the right `read`, an answer has the state and the calls to run, and no messages.
    pub(super) content: bool,
    /// Calls that wait for approval, for those who read or decide.
    pub(super) approvals: bool,
}

impl Shown {
    pub(super) fn all(history: Option<usize>) -> Self {
        Self { history, artifacts: true, content: true, approvals: true }
    }
}

pub(super) fn state(status: Status) -> TaskState {
    match status {
        Status::Queued => TaskState::Submitted,
        Status::Running => TaskState::Working,
        Status::Waiting | Status::AwaitingApproval | Status::AwaitingParameters | Status::Held => {
            TaskState::InputRequired
        }
        Status::Completed => TaskState::Completed,
        Status::Failed => TaskState::Failed,
        Status::Cancelled => TaskState::Canceled,
    }
}

pub(super) fn task(head: &Head, transcript: &Transcript, open: &OpenWork, shown: Shown) -> Task {
    let history = (shown.content && shown.history != Some(0)).then(|| {
        let mut messages = history(head, transcript);
        if let Some(length) = shown.history {
            messages.drain(..messages.len().saturating_sub(length));
        }
        messages
    });
    let artifacts = (shown.artifacts && shown.content).then(|| artifact::artifacts(head, transcript));
    Task {
        id: head.name.to_string(),
        context_id: context_id(head, transcript),
        status: status(head, transcript, open, shown),
        artifacts: artifacts.filter(|artifacts| !artifacts.is_empty()),
        history,
        metadata: None,
    }
}

/// The conversation of a query; a query without one is a context of its own.
pub(super) fn context_id(head: &Head, transcript: &Transcript) -> String {
    let spec = &transcript.spec;
    let conversation = spec.conversation.as_ref().map(|conversation| conversation.key.id.clone());
    conversation.or_else(|| spec.session_id.clone()).unwrap_or_else(|| head.uid.to_string())
}

pub(super) fn status(head: &Head, transcript: &Transcript, open: &OpenWork, shown: Shown) -> TaskStatus {
    let message = match transcript.end.as_ref().map(|end| &end.how) {
        None => waiting_message(head, transcript, open, shown),
        Some(Ending::Failed { code, message }) if shown.content => {
            let ended = agent_message(head, transcript, "end", vec![MessagePart::text(message.clone())]);
            let metadata = Map::from_iter([("code".to_owned(), json!(code))]);
            Some(TaskMessage { metadata, ..ended })
        }
        Some(Ending::Cancelled { reason: Some(reason) }) if shown.content => {
            Some(agent_message(head, transcript, "end", vec![MessagePart::text(reason.clone())]))
        }
        Some(Ending::Completed | Ending::Failed { .. } | Ending::Cancelled { .. }) => None,
    };
    TaskStatus { state: open.state(head.status()), message, timestamp: head.updated_at.to_rfc3339() }
}

fn waiting_message(head: &Head, transcript: &Transcript, open: &OpenWork, shown: Shown) -> Option<TaskMessage> {
    let parts = open.parts(shown.approvals);
    if parts.is_empty() {
        return None;
    }
    let Some(expires) = open.calls.iter().map(|open| open.deadline).min() else {
        return Some(agent_message(head, transcript, &format!("person-{}", head.turn), parts));
    };
    let message = agent_message(head, transcript, &format!("calls-{}", head.turn), parts);
    let metadata = tools::metadata(json!({ "expiresAt": expires.to_rfc3339() }));
    Some(TaskMessage { metadata, extensions: vec![CLIENT_TOOLS.to_owned()], ..message })
}

pub(super) fn shown_call(asked: &AskedCall) -> Value {
    json!({
        "id": asked.call,
        "type": "function",
        "function": { "name": asked.tool, "arguments": asked.arguments },
    })
}

/// The answer as a message of its own, which belongs to no task: a client that continues sends a new message to the
/// context.
pub(super) fn reply(head: &Head, transcript: &Transcript, text: &str) -> TaskMessage {
    let parts = artifact::answer(head, transcript, text).parts;
    TaskMessage { task_id: String::new(), ..agent_message(head, transcript, "answer", parts) }
}

fn agent_message(head: &Head, transcript: &Transcript, suffix: &str, parts: Vec<MessagePart>) -> TaskMessage {
    message(head, transcript, MessageRole::Agent, format!("{}-{suffix}", head.uid), parts)
}

fn message(
    head: &Head,
    transcript: &Transcript,
    role: MessageRole,
    message_id: String,
    parts: Vec<MessagePart>,
) -> TaskMessage {
    TaskMessage {
        message_id,
        context_id: context_id(head, transcript),
        task_id: head.name.to_string(),
        role,
        parts,
        metadata: Map::new(),
        extensions: Vec::new(),
    }
}

/// The messages, in order: the first message, then calls that were handed out and the client's reply to them. The
/// journal stores the id of the first message only; later ones are identified by their calls.
fn history(head: &Head, transcript: &Transcript) -> Vec<TaskMessage> {
    let spec = &transcript.spec;
    let first = spec.annotations.get(MESSAGE_ID).cloned().unwrap_or_else(|| format!("{}-input", head.uid));
    let asked = message(head, transcript, MessageRole::User, first, vec![MessagePart::text(spec.input.clone())]);
    let mut messages = vec![asked];
    for (number, turn) in (1_u32..).zip(&transcript.turns) {
        messages.extend(exchange(head, transcript, number, turn));
    }
    messages
}

/// The calls of a turn and the client's reply, if all of them are answered.
fn exchange(head: &Head, transcript: &Transcript, number: u32, turn: &Turn) -> Vec<TaskMessage> {
    let is_outside = |call: &&Call| matches!(call.asked.route, CallRoute::Outside { .. });
    let calls: Vec<_> = turn.calls.iter().filter(is_outside).collect();
    if calls.is_empty() || calls.iter().any(|call| call.result.is_none()) {
        return Vec::new();
    }
    let shown: Vec<_> = calls.iter().map(|call| shown_call(&call.asked)).collect();
    let handed_out = TaskMessage {
        extensions: vec![CLIENT_TOOLS.to_owned()],
        ..agent_message(
            head,
            transcript,
            &format!("calls-{number}"),
            vec![MessagePart::data(json!({ "toolCalls": shown }))],
        )
    };
    let outcomes: Vec<_> = calls.iter().filter_map(|call| Some((*call, &*call.result.as_ref()?.outcome))).collect();
    let text = outcomes.iter().find_map(|(_, outcome)| match outcome {
        Outcome::Failure { message, content: Some(content), .. } if message == SUPERSEDED => content.inline_text(),
        _ => None,
    });
    let reply = match text {
        Some(text) => vec![MessagePart::text(text)],
        None => {
            let results: Vec<_> = outcomes.iter().map(|(call, outcome)| shown_result(call, outcome)).collect();
            vec![MessagePart {
                content: PartContent::Data(json!({ "toolResults": results })),
                ..MessagePart::data(Value::Null)
            }]
        }
    };
    let reply = message(head, transcript, MessageRole::User, format!("{}-results-{number}", head.uid), reply);
    vec![handed_out, reply]
}

fn shown_result(call: &Call, outcome: &Outcome) -> Value {
    let content = outcome.content().and_then(bosun_core::Content::inline_text);
    let mut shown = json!({
        "toolCallId": call.asked.call,
        "toolName": call.asked.tool,
        "success": outcome.is_success(),
        "result": content,
    });
    if let Outcome::Failure { message, .. } = outcome {
        shown["error"] = json!(message);
    }
    shown
}
