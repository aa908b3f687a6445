//! What an agent says, as the content of a result: texts, data and files.
//!
//! Texts alone are one text, and a single piece of data is itself. Everything else is kept as content blocks in MCP's
//! spelling, which the core renders for models as far as their APIs accept them. Nothing is left out.

use bosun_core::{
    Outcome,
    content::{Blocks, Content},
    json,
    machine::outcome_code,
    text::visible,
};
use bosun_wire::a2a::{MessagePart, PartContent, Task, TaskMessage, TaskState};
use serde_json::{Value, json};

/// The longest message of a failure, and the longest question.
const LONGEST_MESSAGE: usize = 8 * 1024;

/// The outcome of a task that has ended.
pub(super) fn of_ended(task: Task) -> Outcome {
    let status_text = task.status.message.as_ref().map(text_of).filter(|text| !text.trim().is_empty());
    let failed = |otherwise: &str| {
        Outcome::failure(outcome_code::TOOL_FAILED, status_text.clone().unwrap_or_else(|| otherwise.to_owned()))
    };
    match task.status.state {
        TaskState::Completed => Outcome::Success { content: of_task(task) },
        TaskState::Rejected => failed("the agent has rejected the task and did not say why"),
        TaskState::Canceled => failed("the task was cancelled by the agent"),
        _ => failed("the agent has failed and did not say why"),
    }
}

/// The result of a task: its artifacts, or the message of its status if it has none.
fn of_task(task: Task) -> Content {
    let artifacts = task.artifacts.unwrap_or_default();
    let groups: Vec<Vec<MessagePart>> =
        artifacts.into_iter().map(|artifact| artifact.parts).filter(|parts| !parts.is_empty()).collect();
    if groups.is_empty() {
        return task.status.message.map_or_else(|| of_groups(Vec::new()), of_message);
    }
    of_groups(groups)
}

/// The result of an agent that answers without a task.
pub(super) fn of_message(message: TaskMessage) -> Content {
    of_groups(vec![message.parts])
}

fn of_groups(groups: Vec<Vec<MessagePart>>) -> Content {
    let text = |part: &MessagePart| match &part.content {
        PartContent::Text(text) => Some(text.clone()),
        _ => None,
    };
    let parts = || groups.iter().flatten();
    if parts().all(|part| text(part).is_some()) {
        // The parts of an artifact are what was appended to it.
        let texts: Vec<String> = groups.iter().map(|group| group.iter().filter_map(text).collect()).collect();
        return Content::Inline(Value::from(texts.join("\n\n")));
    }
    let mut all: Vec<MessagePart> = groups.into_iter().flatten().collect();
    if let [MessagePart { content: PartContent::Data(data), .. }] = &mut all[..] {
        return Content::Inline(data.take());
    }
    Content::Blocks(Blocks::new(all.into_iter().map(block).collect(), None))
}

fn block(part: MessagePart) -> Value {
    let MessagePart { content, filename, media_type } = part;
    let is = |kind: &str| media_type.as_deref().is_some_and(|media_type| media_type.starts_with(kind));
    match content {
        PartContent::Text(text) => json!({"type": "text", "text": text}),
        PartContent::Data(data) => json!({"type": "text", "text": json::compact(&data)}),
        PartContent::Raw(bytes) if is("image/") => json!({"type": "image", "data": bytes, "mimeType": media_type}),
        PartContent::Raw(bytes) if is("audio/") => json!({"type": "audio", "data": bytes, "mimeType": media_type}),
        PartContent::Raw(bytes) => {
            let uri = format!("a2a:{}", filename.as_deref().unwrap_or("file"));
            json!({"type": "resource", "resource": {"uri": uri, "mimeType": media_type, "blob": bytes}})
        }
        PartContent::Url(url) => {
            let name = filename.unwrap_or_else(|| url.clone());
            json!({"type": "resource_link", "uri": url, "name": name, "mimeType": media_type})
        }
    }
}

/// The texts of a message, for a person or a model.
pub(super) fn text_of(message: &TaskMessage) -> String {
    let texts: Vec<&str> = message
        .parts
        .iter()
        .filter_map(|part| match &part.content {
            PartContent::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let mut text = visible(&texts.join("\n"));
    text.truncate(text.floor_char_boundary(LONGEST_MESSAGE));
    text
}

#[cfg(test)]
mod tests {
    use bosun_wire::a2a::{Artifact, TaskStatus};

    use super::*;

    fn task(state: TaskState, artifacts: &[&[MessagePart]], status_text: Option<&str>) -> Task {
        let message = status_text.map(|text| TaskMessage {
            message_id: "m".into(),
            context_id: String::new(),
            task_id: String::new(),
            role: bosun_wire::a2a::MessageRole::Agent,
            parts: vec![MessagePart::text(text)],
            metadata: serde_json::Map::new(),
            extensions: Vec::new(),
        });
        let artifact = |parts: &&[MessagePart]| Artifact { artifact_id: "a".into(), name: None, parts: parts.to_vec() };
        Task {
            id: "t".into(),
            context_id: "c".into(),
            status: TaskStatus { state, message, timestamp: String::new() },
            artifacts: Some(artifacts.iter().map(artifact).collect()),
            history: None,
            metadata: None,
        }
    }

    #[track_caller]
    fn check(artifacts: &[&[MessagePart]], status_text: Option<&str>, expect: Content) {
        let outcome = of_ended(task(TaskState::Completed, artifacts, status_text));
        assert_eq!(outcome, Outcome::Success { content: expect });
    }

    #[test]
    fn texts_are_one_text_and_data_is_itself() {
        let inline = |value: Value| Content::Inline(value);
        let text = MessagePart::text;
        check(&[&[text("chunk-1 "), text("chunk-2")]], None, inline(json!("chunk-1 chunk-2")));
        check(&[&[text("a")], &[text("b")]], Some("not shown"), inline(json!("a\n\nb")));
        check(&[&[MessagePart::data(json!({"n": 1}))]], None, inline(json!({"n": 1})));
        check(&[], Some("done"), inline(json!("done")));
        check(&[&[]], None, inline(json!("")));
    }

    #[test]
    fn files_and_mixtures_are_blocks() {
        let file = |content: PartContent, media_type: &str| MessagePart {
            content,
            filename: Some("f".into()),
            media_type: Some(media_type.into()),
        };
        let parts = [
            MessagePart::text("see"),
            MessagePart::data(json!([1])),
            file(PartContent::Raw("QUI=".into()), "image/png"),
            file(PartContent::Raw("QUI=".into()), "application/pdf"),
            file(PartContent::Url("https://f".into()), "text/plain"),
        ];
        let blocks = vec![
            json!({"type": "text", "text": "see"}),
            json!({"type": "text", "text": "[1]"}),
            json!({"type": "image", "data": "QUI=", "mimeType": "image/png"}),
            json!({"type": "resource", "resource": {"uri": "a2a:f", "mimeType": "application/pdf", "blob": "QUI="}}),
            json!({"type": "resource_link", "uri": "https://f", "name": "f", "mimeType": "text/plain"}),
        ];
        check(&[&parts], None, Content::Blocks(Blocks::new(blocks, None)));
    }

    #[test]
    fn every_other_end_is_a_failure_with_what_the_agent_says() {
        for (state, status_text, expect) in [
            (TaskState::Failed, Some("no data"), "no data"),
            (TaskState::Failed, None, "the agent has failed and did not say why"),
            (TaskState::Rejected, None, "the agent has rejected the task and did not say why"),
            (TaskState::Canceled, Some(" "), "the task was cancelled by the agent"),
        ] {
            let outcome = of_ended(task(state, &[], status_text));
            assert_eq!(outcome, Outcome::failure(outcome_code::TOOL_FAILED, expect));
        }
    }
}
