//! The events of an A2A stream as events of the REST API, which the loop and observers know.
//!
//! A status says everything that a task waits for, so calls that were reported before are not reported again. The answer
//! is the text of the artifacts; agents that put it into the message of the last status are understood, too.

use std::collections::HashSet;

use bosun_wire::a2a::{
    Artifact, ArtifactUpdate, MessagePart, PartContent, StreamEvent, Task, TaskState, TaskStatus,
    client_tools::OpenToolCalls,
};
use serde_json::{Value, json};

use crate::ClientError;

/// An event of the REST API: its name and its data.
pub(super) type ReadEvent = (&'static str, Value);

/// What is known of a task.
#[derive(Debug, Default)]
pub(super) struct TaskReader {
    state: Option<TaskState>,
    /// The text of each artifact, in their order.
    artifacts: Vec<(String, String)>,
    /// The calls that were reported.
    reported: HashSet<String>,
    /// Counts the attempts to write an answer.
    turn: u64,
    offset: usize,
    /// The task has ended, and its answer is not known.
    lacks_answer: bool,
}

impl TaskReader {
    /// The task waits for its client: the protocol lets the server close its streams then.
    pub(super) fn is_interrupted(&self) -> bool {
        matches!(self.state, Some(TaskState::InputRequired | TaskState::AuthRequired))
    }

    pub(super) fn lacks_answer(&self) -> bool {
        self.lacks_answer
    }

    pub(super) fn read(&mut self, event: StreamEvent) -> Result<Vec<ReadEvent>, ClientError> {
        match event {
            StreamEvent::Task(task) => self.task(*task),
            // An answer without a task.
            StreamEvent::Message(message) => Ok(ended_with(&text_of(&message.parts))),
            StreamEvent::StatusUpdate(update) => self.status(&update.status, false),
            StreamEvent::ArtifactUpdate(update) => Ok(self.artifact(&update)),
        }
    }

    pub(super) fn task(&mut self, task: Task) -> Result<Vec<ReadEvent>, ClientError> {
        if let Some(artifacts) = &task.artifacts {
            self.artifacts = artifacts.iter().map(text_of_artifact).collect();
        }
        self.status(&task.status, true)
    }

    fn artifact(&mut self, update: &ArtifactUpdate) -> Vec<ReadEvent> {
        let (id, text) = text_of_artifact(&update.artifact);
        match self.artifacts.iter_mut().find(|(known, _)| *known == id) {
            Some((_, known)) if update.append => known.push_str(&text),
            Some((_, known)) => known.clone_from(&text),
            None => self.artifacts.push((id, text.clone())),
        }
        let is_whole = update.last_chunk && !update.append;
        if is_whole || text.is_empty() {
            return Vec::new();
        }
        if !update.append {
            (self.turn, self.offset) = (self.turn + 1, 0);
        }
        let delta = json!({ "turn": self.turn, "attempt": 1, "offset": self.offset, "delta": text });
        self.offset += text.len();
        vec![("agent_response_delta", delta)]
    }

    /// `is_whole`: whether the artifacts of the task are known.
    fn status(&mut self, status: &TaskStatus, is_whole: bool) -> Result<Vec<ReadEvent>, ClientError> {
        let earlier = self.state.replace(status.state);
        let parts = status.message.as_ref().map(|message| message.parts.as_slice()).unwrap_or_default();
        match status.state {
            TaskState::Working if earlier != Some(TaskState::Working) => Ok(vec![("agent_thinking", json!({}))]),
            TaskState::Submitted | TaskState::Working | TaskState::AuthRequired | TaskState::Unspecified => {
                Ok(Vec::new())
            }
            TaskState::InputRequired => self.waiting(parts),
            TaskState::Completed => {
                let text = self.answer().unwrap_or_else(|| text_of(parts));
                self.lacks_answer = text.is_empty() && !is_whole;
                Ok(if self.lacks_answer { Vec::new() } else { ended_with(&text) })
            }
            TaskState::Canceled => Ok(vec![("complete", json!({ "status": "cancelled" }))]),
            TaskState::Failed | TaskState::Rejected => {
                let code = status.message.as_ref().and_then(|message| message.metadata.get("code")?.as_str());
                let word = if status.state == TaskState::Failed { "failed" } else { "rejected" };
                let error = json!({ "code": code.unwrap_or(word), "message": text_of(parts) });
                Ok(vec![("error", error), ("complete", json!({ "status": "failed" }))])
            }
        }
    }

    /// What the task waits for, as far as it was not reported.
    fn waiting(&mut self, parts: &[MessagePart]) -> Result<Vec<ReadEvent>, ClientError> {
        let (mut events, mut is_known) = (Vec::new(), false);
        for part in parts {
            let PartContent::Data(data) = &part.content else { continue };
            if data.get("toolCalls").is_some() {
                is_known = true;
                let open: OpenToolCalls = serde_json::from_value(data.clone())
                    .map_err(|error| ClientError::Unreadable(format!("a call cannot be read: {error}")))?;
                events.extend(open.tool_calls.into_iter().map(|call| {
                    let mut data =
                        json!({ "id": call.id, "name": call.function.name, "arguments": call.function.arguments });
                    if let Some(deadline) = call.deadline {
                        data["deadline"] = json!(deadline);
                    }
                    if !call.agent_path.is_empty() {
                        data["agentPath"] = json!(call.agent_path);
                    }
                    if call.workers {
                        data["workers"] = json!(true);
                    }
                    ("tool_call", data)
                }));
            }
            for (member, name) in [("approvals", "approval_required"), ("parameterRequests", "parameters_required")] {
                if let Some(listed) = data.get(member).and_then(Value::as_array) {
                    is_known = true;
                    events.extend(listed.iter().map(|request| (name, request.clone())));
                }
            }
        }
        if !is_known {
            // A question of the agent in its own words. Without any, the task waits for another client.
            let question = text_of(parts);
            let is_new = !question.is_empty();
            return Ok(is_new.then(|| ("input_required", json!({ "question": question }))).into_iter().collect());
        }
        events.retain(|(_, data)| data["id"].as_str().is_none_or(|id| self.reported.insert(id.to_owned())));
        Ok(events)
    }

    fn answer(&self) -> Option<String> {
        let texts: Vec<_> =
            self.artifacts.iter().map(|(_, text)| text.as_str()).filter(|text| !text.is_empty()).collect();
        (!texts.is_empty()).then(|| texts.join("\n"))
    }
}

fn ended_with(text: &str) -> Vec<ReadEvent> {
    vec![("agent_response", json!({ "response": text })), ("complete", json!({ "status": "completed" }))]
}

fn text_of_artifact(artifact: &Artifact) -> (String, String) {
    (artifact.artifact_id.clone(), text_of(&artifact.parts))
}

/// The text of some parts; of data without a text, its JSON.
fn text_of(parts: &[MessagePart]) -> String {
    let texts = |part: &MessagePart| match &part.content {
        PartContent::Text(text) => Some(text.clone()),
        _ => None,
    };
    let data = |part: &MessagePart| match &part.content {
        PartContent::Data(data) => Some(data.to_string()),
        _ => None,
    };
    let text: Vec<_> = parts.iter().filter_map(texts).collect();
    if text.is_empty() { parts.iter().filter_map(data).collect::<Vec<_>>().join("\n") } else { text.concat() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of the events that each of `events` becomes, and the data of the last one.
    #[track_caller]
    fn check(events: &[Value], expect: &[&[&str]], last: &Value) {
        let mut reader = TaskReader::default();
        let read: Vec<_> =
            events.iter().map(|event| reader.read(serde_json::from_value(event.clone()).unwrap()).unwrap()).collect();
        let names: Vec<Vec<_>> = read.iter().map(|events| events.iter().map(|(name, _)| *name).collect()).collect();
        assert_eq!(names, expect);
        let found = read.iter().flatten().last().map(|(_, data)| data.clone()).unwrap_or_default();
        assert_eq!(found, *last);
    }

    fn status(state: &str, parts: &Value) -> Value {
        let message =
            json!({"messageId": "m", "role": "ROLE_AGENT", "parts": parts, "metadata": {"code": "tool_loop"}});
        json!({"statusUpdate": {"taskId": "t", "status": {"state": format!("TASK_STATE_{state}"), "message": message}}})
    }

    fn chunk(text: &str, append: bool, last: bool) -> Value {
        let artifact = json!({"artifactId": "a", "parts": [{"text": text}]});
        json!({"artifactUpdate": {"taskId": "t", "artifact": artifact, "append": append, "lastChunk": last}})
    }

    #[test]
    fn a_call_is_reported_once_however_often_it_is_listed() {
        let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": {"x": 1}}, "agentPath": ["a", "b"], "workers": id == "2"});
        let one = status("INPUT_REQUIRED", &json!([{"text": "Waiting."}, {"data": {"toolCalls": [call("1")]}}]));
        let both = status("INPUT_REQUIRED", &json!([{"data": {"toolCalls": [call("1"), call("2")]}}]));
        let last = json!({"id": "2", "name": "f", "arguments": {"x": 1}, "agentPath": ["a", "b"], "workers": true});
        check(&[one.clone(), one, both], &[&["tool_call"], &[], &["tool_call"]], &last);
    }

    #[test]
    fn persons_are_asked_and_a_question_in_words_is_one() {
        let parts = json!([
            {"text": "Waiting for a person."}, {"data": {"approvals": [{"id": "1", "name": "f", "hash": "h"}]}},
            {"data": {"parameterRequests": [{"id": "2", "name": "g"}]}},
        ]);
        check(
            &[status("INPUT_REQUIRED", &parts)],
            &[&["approval_required", "parameters_required"]],
            &json!({"id": "2", "name": "g"}),
        );
        let words = status("INPUT_REQUIRED", &json!([{"text": "Which city?"}]));
        check(&[words], &[&["input_required"]], &json!({"question": "Which city?"}));
        check(&[status("INPUT_REQUIRED", &json!([]))], &[&[]], &Value::Null);
    }

    #[test]
    fn the_answer_is_the_text_of_the_artifacts_as_they_were_replaced_and_extended() {
        let done = json!({"status": "completed"});
        let end = status("COMPLETED", &json!([]));
        check(
            &[chunk("wrong", false, false), chunk("right", false, true), end.clone()],
            &[&["agent_response_delta"], &[], &["agent_response", "complete"]],
            &done,
        );
        let mut reader = TaskReader::default();
        let read = |reader: &mut TaskReader, event: &Value| reader.read(serde_json::from_value(event.clone()).unwrap());
        read(&mut reader, &chunk("a ", false, false)).unwrap();
        assert_eq!(read(&mut reader, &chunk("b", true, true)).unwrap()[0].1["offset"], 2);
        assert_eq!(read(&mut reader, &end).unwrap()[0].1, json!({"response": "a b"}));
        // An agent that answers in its last status.
        let spoken = status("COMPLETED", &json!([{"text": "hello"}]));
        assert_eq!(
            TaskReader::default().read(serde_json::from_value(spoken).unwrap()).unwrap()[0].1["response"],
            "hello"
        );
        let message = json!({"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"data": {"n": 1}}]}});
        assert_eq!(read(&mut TaskReader::default(), &message).unwrap()[0].1["response"], r#"{"n":1}"#);
    }

    #[test]
    fn an_end_without_its_answer_asks_for_the_task() {
        let mut reader = TaskReader::default();
        let end = serde_json::from_value(status("COMPLETED", &json!([]))).unwrap();
        assert!(reader.read(end).unwrap().is_empty() && reader.lacks_answer());
        let task = json!({"task": {"id": "t", "status": {"state": "TASK_STATE_COMPLETED"}}});
        let read = reader.read(serde_json::from_value(task).unwrap()).unwrap();
        assert_eq!((read[0].1["response"].as_str(), reader.lacks_answer()), (Some(""), false));
    }

    #[test]
    fn every_other_end_is_one() {
        check(&[status("CANCELED", &json!([]))], &[&["complete"]], &json!({"status": "cancelled"}));
        let failed = status("FAILED", &json!([{"text": "no"}]));
        check(
            &[status("WORKING", &json!([])), failed],
            &[&["agent_thinking"], &["error", "complete"]],
            &json!({"status": "failed"}),
        );
        let mut rejected = TaskReader::default();
        let status = json!({"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_REJECTED"}}});
        let read = rejected.read(serde_json::from_value(status).unwrap()).unwrap();
        assert_eq!(read[0].1, json!({"code": "rejected", "message": ""}));
    }
}
