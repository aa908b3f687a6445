//! A query whose target is a tool, or an agent behind an A2A server: one tool runs once, and no model is asked.
//!
//! The journal is that of any other query. Its first turn requests the call, as a model would have done; in its second
//! the result is the answer. So an outside tool waits for its client, a crash in the middle is recovered from, and
//! readers see the same events. If the call fails, so does the query, for the same reason: there is no model that could
//! try something else.

use bosun_core::{
    Outcome, Transcript,
    json::{self, JsonLimits},
    machine::failure_code,
    query::{Spec, TargetKind},
    result_rendering::ResultRenderer,
    tool::toolset::Toolset,
};

use crate::model::{ModelCall, ModelReply};

/// The outcome of a turn without a model.
pub(crate) enum ToolTargetAnswer {
    Reply(ModelReply),
    Failed { code: String, message: String },
}

/// The arguments for an input: the input itself if it is an object; otherwise an object with the one member `input`.
pub(crate) fn arguments(input: &str) -> String {
    match json::parse(input, JsonLimits::ARGUMENTS) {
        Ok(value) if value.is_object() => input.to_owned(),
        _ => wrapped(input),
    }
}

/// The arguments of a tool that takes a text.
fn wrapped(input: &str) -> String {
    serde_json::json!({ "input": input }).to_string()
}

/// The turn that is due.
pub(crate) fn answer(transcript: &Transcript, toolset: &Toolset, renderer: &ResultRenderer) -> ToolTargetAnswer {
    let Some(call) = transcript.calls().last() else {
        let alias = toolset.tools().first().map(|member| member.alias.to_string()).unwrap_or_default();
        let Spec { target_kind, input, .. } = &*transcript.spec;
        let arguments = if *target_kind == TargetKind::Tool { arguments(input) } else { wrapped(input) };
        let call = ModelCall { provider_id: "direct".into(), alias, arguments };
        return ToolTargetAnswer::Reply(ModelReply { calls: vec![call], ..ModelReply::default() });
    };
    match call.result.as_ref().map(|recorded| &*recorded.outcome) {
        Some(outcome @ Outcome::Success { .. }) => {
            let text = Some(renderer.render(call.asked.call, outcome));
            ToolTargetAnswer::Reply(ModelReply { text, ..ModelReply::default() })
        }
        Some(Outcome::Failure { code, message, .. }) => {
            ToolTargetAnswer::Failed { code: code.clone(), message: message.clone() }
        }
        // The machine begins a turn only when every call has its outcome.
        None => ToolTargetAnswer::Failed {
            code: failure_code::INTERNAL_ERROR.into(),
            message: "the call has no outcome".into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(input: &str, expect: &str) {
        assert_eq!(arguments(input), expect);
    }

    #[test]
    fn an_object_is_the_arguments_and_anything_else_is_wrapped() {
        check(r#"{"a": 1}"#, r#"{"a": 1}"#);
        check("hello", r#"{"input":"hello"}"#);
        check("[1]", r#"{"input":"[1]"}"#);
        check("42", r#"{"input":"42"}"#);
        check(r#"{"a": 1"#, r#"{"input":"{\"a\": 1"}"#);
        check(r#"{"a": 1, "a": 2}"#, r#"{"input":"{\"a\": 1, \"a\": 2}"}"#);
    }
}
