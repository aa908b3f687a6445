//! What a task waits for from a person, as parts of a message.
//!
//! Approvals and requests for parameters are data parts of an input-required status, next to a text for people. Values
//! are delivered like the results of client tools; a plain message is never consent.

use bosun_core::{Head, Transcript};
use serde_json::json;

use super::wire::MessagePart;
use crate::asking::person::{approvals, parameter_requests};

/// The parts of the status message, if the task waits for a person. What is to be approved is shown to readers and to
/// those who may approve.
pub(super) fn parts(head: &Head, transcript: &Transcript, shows_approvals: bool) -> Option<Vec<MessagePart>> {
    let mut parts = Vec::new();
    let open = if shows_approvals { approvals(head, transcript) } else { Vec::new() };
    if !open.is_empty() {
        let names: Vec<_> = open.iter().map(|approval| format!("`{}`", approval.name)).collect();
        parts.push(MessagePart::text(format!("Waiting for a person to approve {}.", names.join(", "))));
        parts.push(MessagePart::data(json!({ "approvals": open })));
    }
    let requests = parameter_requests(head, transcript);
    if !requests.is_empty() {
        let questions: Vec<_> = requests.iter().map(|request| request.question.as_str()).collect();
        parts.push(MessagePart::text(questions.join("\n")));
        parts.push(MessagePart::data(json!({ "parameterRequests": requests })));
    }
    (!parts.is_empty()).then_some(parts)
}
