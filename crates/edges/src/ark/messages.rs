//! What a query has said, as chat messages in one text: ARK's `status.response.raw`.
//!
//! Only what is new with the query: the answers of the model, the calls in them and their results, in OpenAI's
//! form. The calls have our ids and the tools their real names, as everywhere else where clients read them. Of a
//! result that is too large for the journal the beginning is in it. Written from what is at hand already, and in
//! one go: nothing is read for it, and no answer is copied first.

use bosun_core::{
    Transcript, json,
    showing::Showing,
    transcript::{Call, Turn},
};
use serde::Serialize;

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum Message<'a> {
    Assistant {
        content: Option<&'a str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall<'a>>,
    },
    Tool {
        tool_call_id: String,
        name: &'a str,
        content: String,
    },
}

#[derive(Serialize)]
struct ToolCall<'a> {
    id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    /// JSON in a text, as the model wrote it.
    arguments: String,
}

/// The messages of a query that has ended.
pub(super) fn raw(transcript: &Transcript) -> Option<String> {
    transcript.end.as_ref()?;
    // Answers that were not taken are between the server and the model.
    let taken = transcript.turns.iter().filter(|turn| turn.rejected.is_none());
    let messages: Vec<_> = taken.flat_map(|turn| of_turn(turn)).collect();
    // Texts and numbers always can be written.
    serde_json::to_string(&messages).ok()
}

fn of_turn(turn: &Turn) -> impl Iterator<Item = Message<'_>> {
    let answer = Message::Assistant {
        // OpenAI has no text beside calls where nothing was said.
        content: turn.text.as_deref().or(if turn.calls.is_empty() { Some("") } else { None }),
        tool_calls: turn.calls.iter().map(call).collect(),
    };
    std::iter::once(answer).chain(turn.calls.iter().filter_map(result))
}

fn call(call: &Call) -> ToolCall<'_> {
    let asked = &call.asked;
    let arguments = asked.written.clone().unwrap_or_else(|| json::compact(&asked.arguments));
    ToolCall { id: asked.call.to_string(), kind: "function", function: Function { name: &asked.tool, arguments } }
}

fn result(call: &Call) -> Option<Message<'_>> {
    let recorded = call.result.as_ref()?;
    Some(Message::Tool {
        tool_call_id: call.asked.call.to_string(),
        name: &call.asked.tool,
        content: Showing::default().show(call.asked.call, &recorded.outcome),
    })
}
