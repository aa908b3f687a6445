//! What an agent asks in the middle of a task, and a person's answer to it.

use bosun_core::{ContentHash, event::CallQuestion, json};
use bosun_wire::a2a::{MessagePart, PartContent, TaskState, TaskStatus};
use serde_json::{Value, json};

use super::content;

/// The question of a task that needs input or authorization; `None` for other states.
pub(super) fn of_status(status: &TaskStatus) -> Option<CallQuestion> {
    let needs_authorization = match status.state {
        TaskState::InputRequired => false,
        TaskState::AuthRequired => true,
        _ => return None,
    };
    let parts = status.message.as_ref().map(|message| &message.parts[..]).unwrap_or_default();
    let data = parts.iter().filter_map(|part| match &part.content {
        PartContent::Data(data) => Some(data.clone()),
        _ => None,
    });
    let text = status.message.as_ref().map(content::text_of).unwrap_or_default();
    let text = match text.trim() {
        "" if needs_authorization => "the agent needs an authorization and does not say which".to_owned(),
        "" => "the agent needs input and does not say which".to_owned(),
        _ => text,
    };
    Some(CallQuestion { text, needs_authorization, data: data.collect() })
}

/// The identity of a question: a crash may hide whether its answer was passed on.
pub(super) fn identity(question: &CallQuestion) -> ContentHash {
    ContentHash::of(json::canonical(&json!(question)).as_bytes())
}

/// The parts of the message that answers a question: a text as a text, alone or as `answer`, and anything else as data.
pub(super) fn answer_parts(answer: &Value) -> Vec<MessagePart> {
    let named = answer.as_object().filter(|members| members.len() == 1).and_then(|members| members.get("answer"));
    match named.unwrap_or(answer) {
        Value::String(text) => vec![MessagePart::text(text)],
        _ => vec![MessagePart::data(answer.clone())],
    }
}

#[cfg(test)]
mod tests {
    use bosun_wire::a2a::{MessageRole, TaskMessage};

    use super::*;

    fn status(state: TaskState, parts: Vec<MessagePart>) -> TaskStatus {
        let message = TaskMessage {
            message_id: "m".into(),
            context_id: "c".into(),
            task_id: "t".into(),
            role: MessageRole::Agent,
            parts,
            metadata: serde_json::Map::new(),
            extensions: Vec::new(),
        };
        TaskStatus { state, message: Some(message), timestamp: String::new() }
    }

    #[test]
    fn a_question_has_its_text_and_its_data() {
        let parts = vec![MessagePart::text("Which city?"), MessagePart::data(json!({"choices": ["Rome"]}))];
        let question = of_status(&status(TaskState::InputRequired, parts)).unwrap();
        assert_eq!((question.text.as_str(), question.needs_authorization), ("Which city?", false));
        assert_eq!(question.data, [json!({"choices": ["Rome"]})]);
        let silent = of_status(&status(TaskState::AuthRequired, Vec::new())).unwrap();
        assert!(silent.needs_authorization && silent.text.contains("authorization"), "{silent:?}");
        assert_eq!(of_status(&status(TaskState::Working, Vec::new())), None);
        assert_ne!(identity(&question), identity(&silent));
    }

    #[test]
    fn an_answer_is_a_text_or_data() {
        for (answer, expect) in [
            (json!("Rome"), MessagePart::text("Rome")),
            (json!({"answer": "Rome"}), MessagePart::text("Rome")),
            (json!({"toolResults": []}), MessagePart::data(json!({"toolResults": []}))),
            (json!(7), MessagePart::data(json!(7))),
        ] {
            assert_eq!(answer_parts(&answer), [expect]);
        }
    }
}
