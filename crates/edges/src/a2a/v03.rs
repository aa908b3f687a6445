//! A2A 0.3 on the wire, derived from the objects of 1.0.
//!
//! Objects have a `kind`, enums are in lowercase kebab-case, files are nested, and a stream says with `final` that it
//! ends. Seed 003's aliases exist in this generation only: they are how its clients read a call.

use serde_json::{Map, Value, json};

use super::wire::{
    AgentCard, Artifact, MessagePart, MessageRole, PartContent, StreamEvent, Task, TaskMessage, TaskState, TaskStatus,
};

pub(super) fn state(state: TaskState) -> &'static str {
    match state {
        TaskState::Submitted => "submitted",
        TaskState::Working => "working",
        TaskState::InputRequired => "input-required",
        TaskState::Completed => "completed",
        TaskState::Failed => "failed",
        TaskState::Canceled => "canceled",
        TaskState::Rejected => "rejected",
        TaskState::AuthRequired => "auth-required",
        TaskState::Unspecified => "unknown",
    }
}

/// A task. With `aliases`, an input-required status has the fields of the client tool provider.
pub(super) fn task(task: &Task, aliases: bool) -> Value {
    let mut value = json!({
        "kind": "task",
        "id": task.id,
        "contextId": task.context_id,
        "status": status(&task.status, aliases),
    });
    if let Some(artifacts) = &task.artifacts {
        value["artifacts"] = artifacts.iter().map(artifact).collect();
    }
    if let Some(history) = &task.history {
        value["history"] = history.iter().map(message).collect();
    }
    if let Some(metadata) = &task.metadata {
        value["metadata"] = Value::Object(metadata.clone());
    }
    value
}

fn status(status: &TaskStatus, aliases: bool) -> Value {
    let mut value = json!({ "state": state(status.state), "timestamp": status.timestamp });
    if let Some(current) = &status.message {
        value["message"] = message(current);
        if aliases && let Some(calls) = calls_of(current) {
            value["message"]["content"] = json!("");
            value["message"]["toolCalls"] = calls;
        }
    }
    value
}

/// The calls of a message, without the fields that the client tool provider does not have.
fn calls_of(message: &TaskMessage) -> Option<Value> {
    let calls = message.parts.iter().find_map(|part| match &part.content {
        PartContent::Data(data) => data.get("toolCalls").and_then(Value::as_array),
        _ => None,
    })?;
    let bare = |call: &Value| json!({ "id": call["id"], "type": "function", "function": call["function"] });
    Some(calls.iter().map(bare).collect())
}

pub(super) fn message(message: &TaskMessage) -> Value {
    let role = match message.role {
        MessageRole::User => "user",
        MessageRole::Agent => "agent",
    };
    let mut value = json!({
        "kind": "message",
        "messageId": message.message_id,
        "contextId": message.context_id,
        "taskId": message.task_id,
        "role": role,
        "parts": message.parts.iter().map(part).collect::<Vec<_>>(),
    });
    // The whole answer of an agent that replies with messages belongs to no task.
    if message.task_id.is_empty()
        && let Some(members) = value.as_object_mut()
    {
        members.shift_remove("taskId");
    }
    if !message.metadata.is_empty() {
        value["metadata"] = Value::Object(message.metadata.clone());
    }
    if !message.extensions.is_empty() {
        value["extensions"] = json!(message.extensions);
    }
    value
}

fn part(part: &MessagePart) -> Value {
    let file = |content: &'static str, value: &str| {
        let mut file = Map::from_iter([(content.to_owned(), json!(value))]);
        file.extend(part.filename.as_ref().map(|name| ("name".to_owned(), json!(name))));
        file.extend(part.media_type.as_ref().map(|media_type| ("mimeType".to_owned(), json!(media_type))));
        json!({ "kind": "file", "file": file })
    };
    match &part.content {
        PartContent::Text(text) => json!({ "kind": "text", "text": text }),
        PartContent::Raw(bytes) => file("bytes", bytes),
        PartContent::Url(url) => file("uri", url),
        // Data of 0.3 is always an object.
        PartContent::Data(data @ Value::Object(_)) => json!({ "kind": "data", "data": data }),
        PartContent::Data(other) => json!({ "kind": "data", "data": { "value": other } }),
    }
}

fn artifact(artifact: &Artifact) -> Value {
    json!({
        "artifactId": artifact.artifact_id,
        "name": artifact.name,
        "parts": artifact.parts.iter().map(part).collect::<Vec<_>>(),
    })
}

/// An event of a stream. A status says whether the stream ends with it.
pub(super) fn event(event: &StreamEvent, aliases: bool, is_final: bool) -> Value {
    match event {
        StreamEvent::Task(shown) => task(shown, aliases),
        StreamEvent::Message(direct) => message(direct),
        StreamEvent::StatusUpdate(update) => json!({
            "kind": "status-update",
            "taskId": update.task_id,
            "contextId": update.context_id,
            "status": status(&update.status, aliases),
            "final": is_final,
        }),
        StreamEvent::ArtifactUpdate(update) => json!({
            "kind": "artifact-update",
            "taskId": update.task_id,
            "contextId": update.context_id,
            "artifact": artifact(&update.artifact),
            "append": update.append,
            "lastChunk": update.last_chunk,
        }),
    }
}

/// A card that clients of both generations read: the fields of 0.3, and the interfaces of 1.0 next to them.
pub(super) fn hybrid_card(card: &AgentCard) -> Value {
    let url_of = |binding: &str| {
        let interface = card.supported_interfaces.iter().find(|interface| interface.protocol_binding == binding);
        interface.map(|interface| interface.url.clone()).unwrap_or_default()
    };
    // Clients of 0.3 add `/v1` themselves.
    let (rpc, rest) = (url_of("JSONRPC"), url_of("HTTP+JSON"));
    let mut value = json!(card);
    value["protocolVersion"] = json!("0.3.0");
    value["url"] = json!(rpc);
    value["preferredTransport"] = json!("JSONRPC");
    value["additionalInterfaces"] =
        json!([{ "url": rpc, "transport": "JSONRPC" }, { "url": rest, "transport": "HTTP+JSON" }]);
    value["supportsAuthenticatedExtendedCard"] = json!(card.capabilities.extended_agent_card);
    value["capabilities"]["stateTransitionHistory"] = json!(false);
    if !card.security_schemes.is_empty() {
        let schemes = card.security_schemes.iter().map(|(name, scheme)| (name.clone(), hybrid_scheme(scheme)));
        value["securitySchemes"] = Value::Object(schemes.collect());
        value["security"] = card.security_schemes.keys().map(|name| json!({ name.as_str(): [] })).collect();
    }
    value
}

/// A scheme of HTTP, with the fields of both generations.
fn hybrid_scheme(scheme: &Value) -> Value {
    let mut hybrid = scheme.clone();
    hybrid["type"] = json!("http");
    for (name, value) in scheme["httpAuthSecurityScheme"].as_object().into_iter().flatten() {
        hybrid[name.as_str()] = value.clone();
    }
    // Names of schemes are written in lowercase there.
    hybrid["scheme"] = json!(hybrid["scheme"].as_str().unwrap_or_default().to_lowercase());
    hybrid
}

#[cfg(test)]
mod tests {
    use super::{super::tools::CLIENT_TOOLS, *};

    fn status_message(parts: Vec<MessagePart>) -> TaskMessage {
        TaskMessage {
            message_id: "m".into(),
            context_id: "c".into(),
            task_id: "t".into(),
            role: MessageRole::Agent,
            parts,
            metadata: Map::new(),
            extensions: vec![CLIENT_TOOLS.into()],
        }
    }

    #[test]
    fn every_part_has_its_kind() {
        let file =
            |content| MessagePart { content, filename: Some("a.txt".into()), media_type: Some("text/plain".into()) };
        for (written, expect) in [
            (MessagePart::text("x"), json!({"kind": "text", "text": "x"})),
            (MessagePart::data(json!({"a": 1})), json!({"kind": "data", "data": {"a": 1}})),
            (MessagePart::data(json!([1])), json!({"kind": "data", "data": {"value": [1]}})),
            (
                file(PartContent::Raw("eA==".into())),
                json!({"kind": "file", "file": {"bytes": "eA==", "name": "a.txt", "mimeType": "text/plain"}}),
            ),
            (
                file(PartContent::Url("https://h/a".into())),
                json!({"kind": "file", "file": {"uri": "https://h/a", "name": "a.txt", "mimeType": "text/plain"}}),
            ),
        ] {
            assert_eq!(part(&written), expect);
        }
    }

    #[test]
    fn the_seeds_fields_are_there_only_for_its_clients() {
        let call =
            json!({"id": "call_1", "type": "function", "function": {"name": "f", "arguments": {}}, "deadline": "d"});
        let waiting = TaskStatus {
            state: TaskState::InputRequired,
            message: Some(status_message(vec![MessagePart::data(json!({"toolCalls": [call]}))])),
            timestamp: "now".into(),
        };
        let aliased = status(&waiting, true);
        let bare = json!([{"id": "call_1", "type": "function", "function": {"name": "f", "arguments": {}}}]);
        assert_eq!((&aliased["message"]["toolCalls"], &aliased["message"]["content"]), (&bare, &json!("")));
        let plain = status(&waiting, false);
        assert_eq!((plain["message"].get("toolCalls"), plain["message"].get("content")), (None, None));
    }
}
