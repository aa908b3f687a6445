//! Decisions about calls that wait for approval: how one is read, and the verdict on it.

use std::sync::Arc;

use bosun_core::{
    CallId, ContentHash,
    ceiling::REASON_BYTES,
    head::Decided,
    machine::{Decision, DecisionVerdict},
};
use bosun_engine::DecideReport;
use serde_json::Value;

use crate::http::{
    error::{ApiError, Code, call_not_found},
    report::BodyFields,
};

/// Reads `decision`, `reason` and `arguments`. Only the words `approved` and `rejected` decide something.
pub(crate) fn read_decision(fields: &BodyFields<'_>) -> Option<Decision> {
    let is_given = fields.has("decision");
    let word = fields.text("decision");
    let reason = bounded(fields, "reason");
    let arguments = match fields.get("arguments") {
        Some(value @ Value::Object(_)) => Some(Arc::new(value)),
        Some(other) => {
            fields.wrong_field("arguments", &other, "an object", "");
            None
        }
        None => None,
    };
    match word.as_deref() {
        Some("approved") => Some(Decision::Approved { arguments }),
        Some("rejected") if arguments.is_some() => {
            fields.reject("arguments", "contradiction", "have no effect on a call that is rejected");
            None
        }
        Some("rejected") => Some(Decision::Rejected { reason }),
        Some(_) => {
            fields.reject("decision", "invalid_value", "must be `approved` or `rejected`");
            None
        }
        None if is_given => None,
        None => {
            fields.reject("decision", "missing", "is missing: `approved` or `rejected`");
            None
        }
    }
}

/// A text that a person has written.
pub(crate) fn bounded(fields: &BodyFields<'_>, name: &str) -> Option<String> {
    let text = fields.text(name);
    if text.as_ref().is_some_and(|text| text.len() > REASON_BYTES) {
        fields.reject(name, "too_large", format!("has more than {REASON_BYTES} bytes"));
    }
    text
}

/// The hash of the arguments that the person has seen.
pub(crate) fn read_hash(fields: &BodyFields<'_>) -> Option<ContentHash> {
    let written = fields.text("hash")?;
    let hash = written.parse().ok();
    if hash.is_none() {
        fields.reject("hash", "invalid_value", "must be the `hash` of the approval: 64 hexadecimal digits");
    }
    hash
}

/// Whether a report only repeats what was decided before; an error if no decision was accepted.
pub(crate) fn accepted(report: &DecideReport) -> Result<bool, ApiError> {
    let is = |wanted| report.verdicts.iter().any(|(_, verdict)| *verdict == wanted);
    if is(DecisionVerdict::Accepted) {
        return Ok(false);
    }
    if is(DecisionVerdict::Replayed) {
        return Ok(true);
    }
    let refusal = report.verdicts.iter().find_map(|(call, verdict)| refusal(*call, *verdict));
    Err(refusal.unwrap_or_else(|| ApiError::new(Code::ApprovalNotOpen, "no call waits for approval")))
}

fn refusal(call: CallId, verdict: DecisionVerdict) -> Option<ApiError> {
    let (code, message) = match verdict {
        DecisionVerdict::Accepted | DecisionVerdict::Replayed => return None,
        DecisionVerdict::AlreadyDecided(Decided::Approved) => {
            (Code::AlreadyDecided, format!("call `{call}` was approved already; that decision stays"))
        }
        DecisionVerdict::AlreadyDecided(Decided::Rejected) => {
            (Code::AlreadyDecided, format!("call `{call}` was rejected already; that decision stays"))
        }
        DecisionVerdict::OtherArguments => {
            let message = format!("`hash` is not that of the arguments of call `{call}`: read the approval again");
            (Code::ArgumentsChanged, message)
        }
        DecisionVerdict::Expired => {
            (Code::ApprovalExpired, format!("call `{call}` was not decided in time; the agent continued without it"))
        }
        DecisionVerdict::Cancelled => (Code::CallCancelled, format!("call `{call}` is void: the query has ended")),
        DecisionVerdict::Unknown => return Some(call_not_found(&call.to_string())),
        DecisionVerdict::NotAwaiting => (Code::ApprovalNotOpen, format!("call `{call}` does not wait for approval")),
    };
    Some(ApiError::new(code, message))
}
