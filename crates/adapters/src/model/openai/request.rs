//! The request body of one turn.
//!
//! It has a fixed order of fields, and `tools` is the toolset's own text byte for byte: the same conversation always
//! begins with the same bytes, which is the condition for a prompt cache hit.

use bosun_core::schema::dialect::{Dialect, answer_schema};
use bosun_engine::model::ModelRequest;
use serde_json::{Value, json};

use super::message;
use crate::model::remote::{RemoteTurn, RequestBody};

pub(super) fn body(turn: &RemoteTurn<'_>, echo: bool) -> Result<String, serde_json::Error> {
    let messages: Vec<_> = turn.request.messages.iter().map(|message| message::of(message, echo)).collect();
    let mut body = RequestBody::of(turn.model)?;
    body.value("messages", &messages)?;
    let tools = turn.request.toolset.declarations(Dialect::OpenAiChat);
    // The API rejects an empty list.
    if tools.json != "[]" {
        body.json("tools", &tools.json);
        if !turn.request.tools_allowed {
            body.json("tool_choice", "\"none\"");
        }
    }
    body.value("stream", &turn.stream)?;
    if turn.stream {
        body.json("stream_options", "{\"include_usage\":true}");
    }
    if let Some(format) = response_format(turn.request) {
        body.value("response_format", &format)?;
    }
    body.settings(&options(turn), turn.properties)?;
    Ok(body.end())
}

/// The options of the query. OpenAI's newer models accept only `max_completion_tokens`, other servers only
/// `max_tokens`: the manifest shows which, if it sets one.
fn options(turn: &RemoteTurn<'_>) -> Vec<(&'static str, Value)> {
    const NEWER: &str = "max_completion_tokens";
    let limit = if turn.properties.iter().any(|(name, _)| *name == NEWER) { NEWER } else { "max_tokens" };
    let options = turn.request.options;
    let temperature = options.temperature.map(|temperature| ("temperature", Value::from(temperature)));
    let max_tokens = options.max_tokens.map(|tokens| (limit, Value::from(tokens)));
    temperature.into_iter().chain(max_tokens).collect()
}

/// Requires the answer to match its schema; strictly where strict mode supports the whole schema.
fn response_format(request: &ModelRequest) -> Option<Value> {
    let format = request.answer.as_ref()?;
    let declared = answer_schema(&format.schema)?;
    let named = json!({"name": format.name, "strict": declared.strict, "schema": declared.schema});
    Some(json!({"type": "json_schema", "json_schema": named}))
}
