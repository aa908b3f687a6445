//! OpenAI's chat completions: reads a request as strictly as the API does, and answers in its format.
//!
//! Answers are written as literals, and not with the structs that the server reads them with: a mistake in those would
//! otherwise agree with itself.

use std::time::Duration;

use bosun_wire::chat::{Content, Message};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Answer, Part, ReadMessage, Turn};
use bosun_adapters::model::scripted::{ScriptedReply, WireFailure};

#[derive(Deserialize)]
struct Request {
    model: String,
    messages: Vec<Message<'static>>,
    #[serde(default)]
    stream: bool,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
    #[serde(default)]
    tools: Option<Vec<Value>>,
}

#[derive(Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

fn text(content: Content<'_>) -> String {
    match content {
        Content::Text(text) => text.into_owned(),
        Content::Parts(parts) => parts.into_iter().map(|part| part.text).collect(),
    }
}

/// Reads a request.
///
/// # Errors
/// With the API's own message.
pub(super) fn read(body: &[u8]) -> Result<Turn, String> {
    let request: Request = serde_json::from_slice(body).map_err(|error| format!("request is not readable: {error}"))?;
    if request.tools.is_some_and(|tools| tools.is_empty()) {
        return Err("Invalid 'tools': empty array. Expected an array with minimum length 1".into());
    }
    let mut names: Vec<(String, String)> = Vec::new();
    let mut open: Vec<String> = Vec::new();
    let mut messages = Vec::new();
    for message in request.messages {
        if !matches!(message, Message::Tool { .. })
            && let Some(id) = open.first()
        {
            return Err(format!(
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each \
                 'tool_call_id'. The following tool_call_ids did not have response messages: {id}"
            ));
        }
        match message {
            Message::System { .. } => {}
            Message::User { content } => messages.push(ReadMessage::User(text(content))),
            Message::Assistant { tool_calls, .. } => {
                open = tool_calls.iter().map(|call| call.id.to_string()).collect();
                names
                    .extend(tool_calls.into_iter().map(|call| (call.id.into_owned(), call.function.name.into_owned())));
                messages.push(ReadMessage::Assistant { thinks: None });
            }
            Message::Tool { tool_call_id, content, .. } => {
                let Some((_, name)) = names.iter().rev().find(|(id, _)| *id == tool_call_id) else {
                    return Err(format!("no tool call has the id `{tool_call_id}`"));
                };
                open.retain(|id| *id != tool_call_id);
                messages.push(ReadMessage::Result { alias: name.clone(), content: text(content) });
            }
        }
    }
    if let Some(id) = open.first() {
        return Err(format!("tool call `{id}` has no tool message"));
    }
    Ok(Turn {
        model: request.model,
        messages,
        stream: request.stream,
        with_usage: request.stream_options.is_some_and(|options| options.include_usage),
    })
}

/// An error in the format of the API.
pub(super) fn failure(failure: &WireFailure) -> Answer {
    let (kind, code) = match failure.status {
        401 => ("invalid_request_error", Some("invalid_api_key")),
        404 => ("invalid_request_error", Some("model_not_found")),
        429 => ("requests", Some("rate_limit_exceeded")),
        400..=499 => ("invalid_request_error", None),
        _ => ("server_error", None),
    };
    let body = json!({"error": {"message": failure.message, "type": kind, "param": null, "code": code}});
    Answer::failure(failure, &body)
}

/// The list of models. A script answers for every name; this is one to choose.
pub(super) fn models() -> Answer {
    let model = json!({"id": "scripted", "object": "model", "created": 0, "owned_by": "bosun"});
    Answer::json(200, json!({"object": "list", "data": [model]}).to_string())
}

fn call_id(turn: usize, index: usize, played: &ScriptedReply<'_>) -> String {
    let index = if played.faults.is_some_and(|faults| faults.same_ids) { 0 } else { index };
    format!("call_scripted_{turn}_{index}")
}

fn finish_reason<'a>(played: &'a ScriptedReply<'_>) -> &'a str {
    let wrong = played.faults.and_then(|faults| faults.finish.as_deref());
    wrong.unwrap_or(if played.calls.is_empty() { "stop" } else { "tool_calls" })
}

fn has_usage(played: &ScriptedReply<'_>) -> bool {
    played.faults.is_none_or(|faults| !faults.no_usage)
}

fn usage(played: &ScriptedReply<'_>) -> Value {
    json!({
        "prompt_tokens": played.usage.prompt_tokens,
        "completion_tokens": played.usage.completion_tokens,
        "total_tokens": played.usage.total(),
        "prompt_tokens_details": {"cached_tokens": played.usage.cached_tokens},
    })
}

/// A whole answer.
pub(super) fn plain(turn: &Turn, played: &ScriptedReply<'_>) -> Answer {
    let calls: Vec<_> = (played.calls.iter().enumerate())
        .map(|(index, (name, arguments))| {
            let function = json!({"name": name, "arguments": arguments});
            json!({"id": call_id(turn.number(), index, played), "type": "function", "function": function})
        })
        .collect();
    let mut message = json!({"role": "assistant", "content": played.text});
    if let Some(thought) = played.thought {
        message["reasoning_content"] = json!(thought);
    }
    if !calls.is_empty() {
        message["tool_calls"] = Value::Array(calls);
    }
    let mut body = json!({
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 0,
        "model": turn.model,
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish_reason(played)}],
    });
    if has_usage(played) {
        body["usage"] = usage(played);
    }
    Answer::json(200, body.to_string()).after(played.delay)
}

/// The same, as it streams.
pub(super) fn stream(turn: &Turn, played: &ScriptedReply<'_>) -> Answer {
    let with_usage = turn.with_usage && has_usage(played);
    let event = |choices: Value| {
        let mut event = json!({
            "id": "chatcmpl-scripted",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": turn.model,
            "choices": choices,
        });
        if with_usage {
            event["usage"] = Value::Null;
        }
        event
    };
    let delta =
        |delta: Value, reason: Option<&str>| event(json!([{"index": 0, "delta": delta, "finish_reason": reason}]));
    let mut parts = Vec::new();
    let mut send =
        |after: Duration, data: &Value| parts.push(Part { after, bytes: format!("data: {data}\n\n").into_bytes() });
    send(played.delay, &delta(json!({"role": "assistant", "content": ""}), None));
    if let Some(thought) = played.thought {
        for piece in thought.split_inclusive(' ') {
            send(Duration::ZERO, &delta(json!({"reasoning_content": piece}), None));
        }
    }
    for (index, text) in played.parts().enumerate() {
        let after = if index == 0 { Duration::ZERO } else { played.pace };
        send(after, &delta(json!({"content": text}), None));
    }
    for (index, (name, arguments)) in played.calls.iter().enumerate() {
        let function = json!({"name": name, "arguments": ""});
        let id = call_id(turn.number(), index, played);
        let begin = json!({"index": index, "id": id, "type": "function", "function": function});
        send(Duration::ZERO, &delta(json!({"tool_calls": [begin]}), None));
        let rest = json!({"index": index, "function": {"arguments": arguments}});
        send(Duration::ZERO, &delta(json!({"tool_calls": [rest]}), None));
    }
    send(Duration::ZERO, &delta(json!({}), Some(finish_reason(played))));
    if with_usage {
        let mut last = event(json!([]));
        last["usage"] = usage(played);
        send(Duration::ZERO, &last);
    }
    parts.push(Part { after: Duration::ZERO, bytes: b"data: [DONE]\n\n".to_vec() });
    Answer::events(parts)
}
