//! Writes the body of one turn.
//!
//! It has a fixed order of fields, and `tools` is the toolset's own text byte for byte: the same
//! conversation always begins with the same bytes, which is what prompt caches look at.

use bosun_core::schema::dialect::Dialect;

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
    for (name, value) in turn.properties {
        member(name, &serde_json::to_string(value)?);
    }
    body.push('}');
    Ok(body)
}
