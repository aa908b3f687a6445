//! Writes the body of one turn.
//!
//! It has a fixed order of fields, and `tools` is the toolset's own text byte for byte: the same
//! conversation always begins with the same bytes, which is what prompt caches look at.

use bosun_core::schema::dialect::{Dialect, answer_schema};
use bosun_engine::model::ModelRequest;
use serde_json::{Value, json};

use super::wire;
use crate::model::remote::Turn;

pub(super) fn body(turn: &Turn<'_>, echo: bool) -> Result<String, serde_json::Error> {
    let messages: Vec<_> = turn.request.messages.iter().map(|message| wire::Message::of(message, echo)).collect();
    let mut body = format!("{{\"model\":{}", serde_json::to_string(turn.model)?);
    let mut member = |name: &str, value: &str| {
        body.push_str(",\"");
        body.push_str(name);
        body.push_str("\":");
        body.push_str(value);
    };
    member("messages", &serde_json::to_string(&messages)?);
    let tools = turn.request.toolset.declarations(Dialect::OpenAiChat);
    // The API refuses an empty list.
    if tools.json != "[]" {
        member("tools", &tools.json);
        if !turn.request.tools_allowed {
            member("tool_choice", "\"none\"");
        }
    }
    member("stream", if turn.stream { "true" } else { "false" });
    if turn.stream {
        member("stream_options", "{\"include_usage\":true}");
    }
    if let Some(format) = response_format(turn.request) {
        member("response_format", &format.to_string());
    }
    let asked = options(turn);
    for (name, value) in &asked {
        member(name, &serde_json::to_string(value)?);
    }
    for (name, value) in turn.properties.iter().filter(|(name, _)| !asked.iter().any(|(asked, _)| asked == name)) {
        member(name, &serde_json::to_string(value)?);
    }
    body.push('}');
    Ok(body)
}

/// What the query asks of the model. Newer models of OpenAI know only `max_completion_tokens`, other servers
/// only `max_tokens`: which it is, the manifest shows if it sets one.
fn options(turn: &Turn<'_>) -> Vec<(&'static str, Value)> {
    const NEWER: &str = "max_completion_tokens";
    let limit = if turn.properties.iter().any(|(name, _)| *name == NEWER) { NEWER } else { "max_tokens" };
    let options = turn.request.options;
    let temperature = options.temperature.map(|temperature| ("temperature", Value::from(temperature)));
    let max_tokens = options.max_tokens.map(|tokens| (limit, Value::from(tokens)));
    temperature.into_iter().chain(max_tokens).collect()
}

/// Holds the model to the schema of its answer, strictly where the schema loses nothing by that.
fn response_format(request: &ModelRequest) -> Option<Value> {
    let format = request.answer.as_ref()?;
    let told = answer_schema(&format.schema)?;
    let named = json!({"name": format.name, "strict": told.strict, "schema": told.schema});
    Some(json!({"type": "json_schema", "json_schema": named}))
}
