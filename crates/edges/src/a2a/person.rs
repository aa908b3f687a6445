//! What a task waits for from a person: approvals, and values of parameters.
//!
//! Both are data parts of an input-required status, next to a text for people. Values are delivered like the results of
//! client tools; a plain message is never consent.

use bosun_core::{Head, Transcript};
use serde_json::{Value, json};

use super::wire::MessagePart;

/// The parts of the status message, if the task waits for a person.
pub(super) fn parts(head: &Head, transcript: &Transcript) -> Option<Vec<MessagePart>> {
    let approvals = approvals(head, transcript);
    let requests = parameter_requests(head, transcript);
    let names = |list: &[Value]| {
        let names: Vec<_> =
            list.iter().map(|item| format!("`{}`", item["name"].as_str().unwrap_or_default())).collect();
        names.join(", ")
    };
    let mut parts = Vec::new();
    if !approvals.is_empty() {
        parts.push(MessagePart::text(format!("Waiting for a person to approve {}.", names(&approvals))));
        parts.push(MessagePart::data(json!({ "approvals": approvals })));
    }
    if !requests.is_empty() {
        let questions = requests.iter().filter_map(|request| request["question"].as_str());
        parts.push(MessagePart::text(questions.collect::<Vec<_>>().join("\n")));
        parts.push(MessagePart::data(json!({ "parameterRequests": requests })));
    }
    (!parts.is_empty()).then_some(parts)
}

fn approvals(head: &Head, transcript: &Transcript) -> Vec<Value> {
    let open = head.approvals().filter_map(|(call, deadline)| {
        let asked = &transcript.call(call.id)?.asked;
        Some(json!({
            "id": call.id,
            "name": asked.tool,
            "arguments": asked.arguments,
            "hash": call.arguments,
            "deadline": deadline.to_rfc3339(),
        }))
    });
    open.collect()
}

fn parameter_requests(head: &Head, transcript: &Transcript) -> Vec<Value> {
    let open = head.parameter_requests().filter_map(|(call, deadline)| {
        let asked = &transcript.call(call.id)?.asked;
        Some(json!({
            "id": call.id,
            "name": asked.tool,
            "tool": asked.arguments["intended_tool_name"],
            "question": asked.arguments["clarification_question"],
            "parameters": asked.arguments["parameters"],
            "deadline": deadline.to_rfc3339(),
        }))
    });
    open.collect()
}
