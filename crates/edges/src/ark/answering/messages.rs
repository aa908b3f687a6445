//! The messages of a query, as chat messages in one text: ARK's `status.response.raw`.
//!
//! Only what the query has added: the answers of the model, the calls in them and their results, in OpenAI's
//! form. The calls have our ids and the tools their real names, as everywhere else where clients read them. A
//! result that is too large for the journal is cut to its beginning. Serialized from the transcript in memory, in
//! one pass: nothing is read for it, and no answer is copied first.

use bosun_core::{
    Transcript, json,
    result_rendering::ResultRenderer,
    transcript::{Call, Turn},
};
use bosun_wire::chat::{Function, Message, ToolCall};

/// The messages of a query that has ended.
pub(crate) fn raw(transcript: &Transcript) -> Option<String> {
    transcript.end.as_ref()?;
    // Rejected answers are between the server and the model.
    let taken = transcript.turns.iter().filter(|turn| turn.rejected.is_none());
    let messages: Vec<_> = taken.flat_map(|turn| of_turn(turn)).collect();
    // Strings and numbers can always be serialized.
    serde_json::to_string(&messages).ok()
}

fn of_turn(turn: &Turn) -> impl Iterator<Item = Message<'_>> {
    let answer = Message::Assistant {
        // OpenAI sends `null` next to calls where the model said nothing.
        content: turn.text.as_deref().or(if turn.calls.is_empty() { Some("") } else { None }).map(Into::into),
        tool_calls: turn.calls.iter().map(call).collect(),
        own: None,
    };
    std::iter::once(answer).chain(turn.calls.iter().filter_map(result))
}

fn call(call: &Call) -> ToolCall<'_> {
    let asked = &call.asked;
    let arguments = asked.written.clone().unwrap_or_else(|| json::compact(&asked.arguments));
    let function = Function { name: (&*asked.tool).into(), arguments: arguments.into() };
    ToolCall { id: asked.call.to_string().into(), kind: "function".into(), function, own: None }
}

fn result(call: &Call) -> Option<Message<'_>> {
    let recorded = call.result.as_ref()?;
    Some(Message::Tool {
        tool_call_id: call.asked.call.to_string().into(),
        name: Some((&*call.asked.tool).into()),
        content: ResultRenderer::default().render(call.asked.call, &recorded.outcome).into(),
        own: None,
    })
}
