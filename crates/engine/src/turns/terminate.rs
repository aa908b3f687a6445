//! The builtin tool `terminate`: a call of it is the final answer of the model.
//!
//! The call is like any other: asked, started and finished in the journal. Once all calls of its turn have their
//! outcomes, the next turn asks no model: its text is the result of the call, and so the query completes. After a
//! crash in between, the journal leads to the same turn again. There is no event for it: readers of the journal find an
//! answer, as in every query that completes.

use std::borrow::Cow;

use bosun_core::{
    Binding, Content, Transcript, result_rendering::ResultRenderer, tool::toolset::Toolset, transcript::Call,
};

/// The name of the builtin tool that ends a query.
pub const TERMINATE: &str = "terminate";

fn is_terminate(toolset: &Toolset, name: &str) -> bool {
    let binding = toolset.get(name).map(|member| &member.tool.binding);
    matches!(binding, Some(Binding::Builtin { name }) if name == TERMINATE)
}

/// Whether a query that has completed did so by a call of it.
pub(crate) fn has_ended(transcript: &Transcript, toolset: &Toolset) -> bool {
    let [.., before, _answer] = &transcript.turns[..] else { return false };
    let is_success = |call: &Call| call.result.as_ref().is_some_and(|recorded| recorded.outcome.is_success());
    before.calls.iter().any(|call| is_success(call) && is_terminate(toolset, &call.asked.tool))
}

/// The answer with which a call of the last turn ends the query, if one does: the first, if there are several.
pub(crate) fn response(transcript: &Transcript, toolset: &Toolset, renderer: &ResultRenderer) -> Option<String> {
    transcript.turns.last()?.calls.iter().find_map(|call| {
        let outcome = &call.result.as_ref()?.outcome;
        if !outcome.is_success() || !is_terminate(toolset, &call.asked.tool) {
            return None;
        }
        // An answer is not truncated as a result would be.
        let whole = outcome.content().and_then(Content::inline_text).map(Cow::into_owned);
        Some(whole.unwrap_or_else(|| renderer.render(call.asked.call, outcome)))
    })
}
