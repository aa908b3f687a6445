//! A2A 0.3 on the wire, read into the objects of 1.0 and written from them.
//!
//! Objects have a `kind`, enums are in lowercase kebab-case, and files are nested. A part that cannot be read is left
//! out: a task with one is still a task.

use bosun_wire::a2a::{Artifact, MessagePart, MessageRole, PartContent, Task, TaskMessage, TaskState, TaskStatus};
use serde_json::{Value, json};

/// The parameters of `message/send`.
pub(super) fn send_params(message: &TaskMessage) -> Value {
    let mut written = json!({
        "kind": "message",
        "messageId": message.message_id,
        "role": "user",
        "parts": message.parts.iter().map(write_part).collect::<Vec<_>>(),
    });
    for (field, value) in [("contextId", &message.context_id), ("taskId", &message.task_id)] {
        if !value.is_empty() {
            written[field] = json!(value);
        }
    }
    json!({"message": written, "configuration": {"blocking": false}})
}

fn write_part(part: &MessagePart) -> Value {
    match &part.content {
        PartContent::Text(text) => json!({"kind": "text", "text": text}),
        PartContent::Raw(bytes) => json!({"kind": "file", "file": {"bytes": bytes}}),
        PartContent::Url(url) => json!({"kind": "file", "file": {"uri": url}}),
        // Data of 0.3 is always an object.
        PartContent::Data(data @ Value::Object(_)) => json!({"kind": "data", "data": data}),
        PartContent::Data(other) => json!({"kind": "data", "data": {"value": other}}),
    }
}

/// A task; `None` if it has no id or no status.
pub(super) fn task(value: &Value) -> Option<Task> {
    let status = value.get("status")?;
    let list = |field: &str| value.get(field).and_then(Value::as_array);
    Some(Task {
        id: text(value, "id").filter(|id| !id.is_empty())?,
        context_id: text(value, "contextId").unwrap_or_default(),
        status: TaskStatus {
            state: state(status.get("state").and_then(Value::as_str).unwrap_or_default()),
            message: status.get("message").and_then(message),
            timestamp: text(status, "timestamp").unwrap_or_default(),
        },
        artifacts: list("artifacts").map(|artifacts| artifacts.iter().map(artifact).collect()),
        history: list("history").map(|history| history.iter().filter_map(message).collect()),
        metadata: value.get("metadata").and_then(Value::as_object).cloned(),
    })
}

/// A message; `None` if it is none.
pub(super) fn message(value: &Value) -> Option<TaskMessage> {
    let role = match value.get("role").and_then(Value::as_str)? {
        "user" => MessageRole::User,
        _ => MessageRole::Agent,
    };
    Some(TaskMessage {
        message_id: text(value, "messageId").unwrap_or_default(),
        context_id: text(value, "contextId").unwrap_or_default(),
        task_id: text(value, "taskId").unwrap_or_default(),
        role,
        parts: parts(value),
        metadata: serde_json::Map::new(),
        extensions: Vec::new(),
    })
}

fn artifact(value: &Value) -> Artifact {
    Artifact {
        artifact_id: text(value, "artifactId").unwrap_or_default(),
        name: text(value, "name"),
        parts: parts(value),
    }
}

fn parts(value: &Value) -> Vec<MessagePart> {
    value.get("parts").and_then(Value::as_array).into_iter().flatten().filter_map(part).collect()
}

fn part(part: &Value) -> Option<MessagePart> {
    // Version 0.2.0 calls it `type`.
    let kind = part.get("kind").or_else(|| part.get("type")).and_then(Value::as_str)?;
    match kind {
        "text" => text(part, "text").map(MessagePart::text),
        "data" => part.get("data").cloned().map(MessagePart::data),
        "file" => {
            let file = part.get("file")?;
            let content =
                text(file, "bytes").map(PartContent::Raw).or_else(|| text(file, "uri").map(PartContent::Url))?;
            Some(MessagePart { content, filename: text(file, "name"), media_type: text(file, "mimeType") })
        }
        _ => None,
    }
}

fn state(word: &str) -> TaskState {
    match word {
        "submitted" => TaskState::Submitted,
        "working" => TaskState::Working,
        "input-required" => TaskState::InputRequired,
        "auth-required" => TaskState::AuthRequired,
        "completed" => TaskState::Completed,
        "failed" => TaskState::Failed,
        "canceled" => TaskState::Canceled,
        "rejected" => TaskState::Rejected,
        _ => TaskState::Unspecified,
    }
}

fn text(value: &Value, field: &str) -> Option<String> {
    value.get(field).and_then(Value::as_str).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_of_0_3_becomes_one_of_1_0() {
        let value = json!({
            "kind": "task", "id": "t", "contextId": "c",
            "status": {"state": "input-required", "message": {
                "kind": "message", "messageId": "m", "role": "agent", "parts": [{"kind": "text", "text": "Which?"}, {"kind": "hologram"}],
            }},
            "artifacts": [{"artifactId": "a", "parts": [
                {"kind": "data", "data": {"n": 1}}, {"kind": "file", "file": {"uri": "https://f", "name": "f", "mimeType": "text/plain"}},
            ]}],
        });
        let task = task(&value).unwrap();
        assert_eq!((task.status.state, task.context_id.as_str()), (TaskState::InputRequired, "c"));
        assert_eq!(task.status.message.unwrap().parts, [MessagePart::text("Which?")]);
        let artifact = &task.artifacts.unwrap()[0];
        assert_eq!(artifact.parts[1].content, PartContent::Url("https://f".into()));
        assert_eq!(artifact.parts[1].media_type.as_deref(), Some("text/plain"));
    }

    #[test]
    fn what_is_no_task_is_none_and_an_unknown_state_is_unspecified() {
        for value in
            [json!(null), json!({"id": "t"}), json!({"status": {"state": "working"}}), json!({"id": "", "status": {}})]
        {
            assert_eq!(task(&value), None, "{value}");
        }
        assert_eq!(task(&json!({"id": "t", "status": {}})).unwrap().status.state, TaskState::Unspecified);
    }
}
