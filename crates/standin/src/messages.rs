//! Anthropic's messages: reads a request as strictly as the API does, and answers in its format.
//!
//! A thought is signed, with a hash in the place of a signature. It must come back as it was.

use std::time::Duration;

use bosun_core::ContentHash;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Answer, Part, ReadMessage, Turn};
use bosun_adapters::model::scripted::{ScriptedReply, WireFailure};

#[derive(Deserialize)]
struct Request {
    model: String,
    /// Not used, but required.
    #[serde(rename = "max_tokens")]
    _max_tokens: u32,
    messages: Vec<Message>,
    #[serde(default)]
    stream: bool,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    content: Content,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Blocks(Vec<Block>),
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text {
        text: String,
    },
    ToolUse {
        id: String,
        name: String,
        /// An object, and nothing else.
        #[serde(rename = "input")]
        _input: serde_json::Map<String, Value>,
    },
    ToolResult {
        tool_use_id: String,
        #[serde(default)]
        content: Option<ResultContent>,
    },
    Thinking {
        thinking: String,
        signature: String,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ResultContent {
    Text(String),
    Blocks(Vec<TextBlock>),
}

#[derive(Deserialize)]
struct TextBlock {
    text: String,
}

impl ResultContent {
    fn into_text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Blocks(blocks) => blocks.into_iter().map(|block| block.text).collect(),
        }
    }
}

/// Reads a request.
///
/// # Errors
/// With the API's own message.
pub(super) fn read(body: &[u8]) -> Result<Turn, String> {
    let request: Request = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let mut names: Vec<(String, String)> = Vec::new();
    let mut open: Vec<String> = Vec::new();
    let mut messages = Vec::new();
    for (index, message) in request.messages.into_iter().enumerate() {
        let blocks = match message.content {
            Content::Text(text) => vec![Block::Text { text }],
            Content::Blocks(blocks) if blocks.is_empty() => {
                return Err(format!("messages.{index}: all messages must have non-empty content"));
            }
            Content::Blocks(blocks) => blocks,
        };
        let is_user = match message.role.as_str() {
            "user" => true,
            "assistant" => false,
            other => {
                return Err(format!("messages.{index}.role: Input should be 'user' or 'assistant', not '{other}'"));
            }
        };
        if !is_user {
            let thinks = matches!(blocks.first(), Some(Block::Thinking { .. }));
            messages.push(ReadMessage::Assistant { thinks: Some(thinks) });
        }
        let mut whole = String::new();
        for (number, block) in blocks.into_iter().enumerate() {
            let place = format!("messages.{index}.content.{number}");
            match block {
                Block::Text { text } if text.trim().is_empty() => {
                    return Err(format!("{place}: text content blocks must contain non-whitespace text"));
                }
                Block::Text { text } => whole += &text,
                Block::ToolUse { id, name, .. } if !is_user => {
                    if names.iter().any(|(earlier, _)| *earlier == id) {
                        return Err(format!("{place}: `tool_use` ids must be unique"));
                    }
                    if !id.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-')) {
                        return Err(format!("{place}.id: String should match pattern '^[a-zA-Z0-9_-]+$'"));
                    }
                    open.push(id.clone());
                    names.push((id, name));
                }
                Block::ToolResult { tool_use_id, content } if is_user => {
                    if !open.contains(&tool_use_id) {
                        return Err(format!(
                            "{place}: unexpected `tool_use_id` found in `tool_result` blocks: {tool_use_id}"
                        ));
                    }
                    open.retain(|id| *id != tool_use_id);
                    let alias = names.iter().find(|(id, _)| *id == tool_use_id).map(|(_, name)| name.clone());
                    let content = content.map(ResultContent::into_text).unwrap_or_default();
                    messages.push(ReadMessage::Result { alias: alias.unwrap_or_default(), content });
                }
                Block::Thinking { thinking, signature: signed } if !is_user => {
                    if signed != signature(&thinking) {
                        return Err(format!("{place}: Invalid `signature` in `thinking` block"));
                    }
                }
                Block::ToolUse { .. } | Block::ToolResult { .. } | Block::Thinking { .. } => {
                    return Err(format!("{place}: this block is not allowed in a message of role `{}`", message.role));
                }
                Block::Other => {}
            }
        }
        if is_user {
            if let Some(id) = open.first() {
                return Err(format!(
                    "messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: {id}"
                ));
            }
            if !whole.is_empty() {
                messages.push(ReadMessage::User(whole));
            }
        }
    }
    Ok(Turn { model: request.model, messages, stream: request.stream, with_usage: true })
}

/// A hash in place of a signature.
pub(super) fn signature(thought: &str) -> String {
    ContentHash::of_parts(&[b"thought", thought.as_bytes()]).to_string()
}

/// An error in the format of the API.
pub(super) fn failure(failure: &WireFailure) -> Answer {
    let kind = match failure.status {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        529 => "overloaded_error",
        400..=499 => "invalid_request_error",
        _ => "api_error",
    };
    let error = json!({"type": kind, "message": failure.message});
    let body = json!({"type": "error", "error": error, "request_id": "req_scripted"});
    Answer::failure(failure, &body).header("request-id", "req_scripted")
}

fn stop_reason<'a>(played: &'a ScriptedReply<'_>) -> &'a str {
    let wrong = played.faults.and_then(|faults| faults.finish.as_deref());
    wrong.unwrap_or(if played.calls.is_empty() { "end_turn" } else { "tool_use" })
}

fn usage(played: &ScriptedReply<'_>, output: u64) -> Value {
    if played.faults.is_some_and(|faults| faults.no_usage) {
        return Value::Null;
    }
    let (cached, written) = (played.usage.cached_tokens, played.usage.cache_write_tokens);
    json!({
        "input_tokens": played.usage.prompt_tokens.saturating_sub(cached).saturating_sub(written),
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": cached,
        "output_tokens": output,
    })
}

/// The blocks of the answer; calls with the text of their input, which need not be JSON.
fn blocks(turn: &Turn, played: &ScriptedReply<'_>) -> Vec<(Value, Option<String>)> {
    let same_ids = played.faults.is_some_and(|faults| faults.same_ids);
    let thought = played
        .thought
        .map(|thought| (json!({"type": "thinking", "thinking": thought, "signature": signature(thought)}), None));
    let text = played.text.as_ref().filter(|text| !text.is_empty());
    let text = text.map(|text| (json!({"type": "text", "text": text}), None));
    let calls = played.calls.iter().enumerate().map(|(index, (name, arguments))| {
        let id = format!("toolu_scripted_{}_{}", turn.number(), if same_ids { 0 } else { index });
        let input: Value = serde_json::from_str(arguments).unwrap_or_else(|_| json!({}));
        (json!({"type": "tool_use", "id": id, "name": name, "input": input}), Some((*arguments).to_owned()))
    });
    thought.into_iter().chain(text).chain(calls).collect()
}

fn head(turn: &Turn, content: Value, stop_reason: Value, usage: Value) -> Value {
    let mut head = json!({
        "id": "msg_scripted",
        "type": "message",
        "role": "assistant",
        "model": turn.model,
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": null,
    });
    if !usage.is_null() {
        head["usage"] = usage;
    }
    head
}

/// A whole answer.
pub(super) fn plain(turn: &Turn, played: &ScriptedReply<'_>) -> Answer {
    let content = blocks(turn, played).into_iter().map(|(block, _)| block).collect();
    let usage = usage(played, played.usage.completion_tokens);
    let body = head(turn, Value::Array(content), json!(stop_reason(played)), usage);
    Answer::json(200, body.to_string()).after(played.delay)
}

/// The same, as it streams.
pub(super) fn stream(turn: &Turn, played: &ScriptedReply<'_>) -> Answer {
    let mut parts = Vec::new();
    let mut send = |after: Duration, event: &Value| {
        let kind = event["type"].as_str().unwrap_or_default();
        parts.push(Part { after, bytes: format!("event: {kind}\ndata: {event}\n\n").into_bytes() });
    };
    let message = head(turn, json!([]), Value::Null, usage(played, 1));
    send(played.delay, &json!({"type": "message_start", "message": message}));
    for (index, (mut block, arguments)) in blocks(turn, played).into_iter().enumerate() {
        let kind = block["type"].as_str().unwrap_or_default().to_owned();
        let mut deltas = Vec::new();
        match kind.as_str() {
            "thinking" => {
                let thought = played.thought.unwrap_or_default();
                deltas.extend(
                    thought
                        .split_inclusive(' ')
                        .map(|piece| (Duration::ZERO, json!({"type": "thinking_delta", "thinking": piece}))),
                );
                deltas.push((Duration::ZERO, json!({"type": "signature_delta", "signature": signature(thought)})));
                (block["thinking"], block["signature"]) = (json!(""), json!(""));
            }
            "text" => {
                deltas.extend(played.parts().enumerate().map(|(number, text)| {
                    let after = if number == 0 { Duration::ZERO } else { played.pace };
                    (after, json!({"type": "text_delta", "text": text}))
                }));
                block["text"] = json!("");
            }
            _ => {
                let arguments = arguments.unwrap_or_default();
                // The API begins with an empty piece, and says nothing more of an empty input.
                deltas.push((Duration::ZERO, json!({"type": "input_json_delta", "partial_json": ""})));
                if arguments != "{}" {
                    deltas.push((Duration::ZERO, json!({"type": "input_json_delta", "partial_json": arguments})));
                }
                block["input"] = json!({});
            }
        }
        send(Duration::ZERO, &json!({"type": "content_block_start", "index": index, "content_block": block}));
        if index == 0 {
            send(Duration::ZERO, &json!({"type": "ping"}));
        }
        for (after, delta) in deltas {
            send(after, &json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        send(Duration::ZERO, &json!({"type": "content_block_stop", "index": index}));
    }
    let mut end = json!({
        "type": "message_delta",
        "delta": {"stop_reason": stop_reason(played), "stop_sequence": null},
    });
    let usage = usage(played, played.usage.completion_tokens);
    if !usage.is_null() {
        end["usage"] = usage;
    }
    send(Duration::ZERO, &end);
    send(Duration::ZERO, &json!({"type": "message_stop"}));
    Answer::events(parts)
}
