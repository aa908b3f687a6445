//! Decisions about calls that wait for approval, as data parts of a message to their task.
//!
//! `{"decisions": [{toolCallId, decision, hash, reason, arguments}]}`: what `POST …/approval` takes, with the id and the
//! hash required, since a decision must say what was decided on. A text is never consent.

use bosun_core::ceiling::RESULTS_DELIVERED;
use bosun_engine::{AskedDecision, DecisionTarget};
use serde_json::json;

use super::{error::A2aError, reading::part_path, tools::lists_of, wire::MessagePart};
use crate::{
    asking::decisions::{read_decision, read_hash},
    http::{
        error::{Code, call_not_found},
        report::RequestReport,
    },
};

/// The decisions in a message; `None` if it has none. All of them are read before one is recorded.
pub(super) fn decisions_of(parts: &[MessagePart]) -> Result<Option<Vec<AskedDecision>>, A2aError> {
    let lists = lists_of(parts, "decisions", "decisions")?;
    if lists.is_empty() {
        return Ok(None);
    }
    let mut decisions = Vec::new();
    for (index, list) in lists {
        let prefix = part_path(index);
        let report = RequestReport::new(Code::InvalidDecision, Vec::new());
        let fields = report.body(json!({ "decisions": list }))?;
        let items = fields.list("decisions");
        if items.is_empty() || items.len() + decisions.len() > RESULTS_DELIVERED {
            let message = format!("must be a list of 1 to {RESULTS_DELIVERED} decisions");
            return Err(A2aError::invalid(message.clone(), vec![(format!("{prefix}.decisions"), message)]));
        }
        let mut read = Vec::with_capacity(items.len());
        fields.each_of("decisions", items, |path, item| {
            let Some(item) = fields.at(format!("{prefix}.{path}").into(), item) else { return };
            for name in ["toolCallId", "hash"] {
                if !item.has(name) {
                    item.reject(name, "missing", "is missing: copy it from the approval that was shown");
                }
            }
            let (call, seen) = (item.text("toolCallId"), read_hash(&item));
            let decision = read_decision(&item);
            read.extend(call.zip(decision).map(|(call, decision)| (call, decision, seen)));
        });
        drop(fields);
        report.conclude()?;
        for (call, decision, seen) in read {
            let target = DecisionTarget::Call(call.parse().map_err(|_| call_not_found(&call))?);
            decisions.push(AskedDecision { target, decision, seen });
        }
    }
    Ok(Some(decisions))
}
