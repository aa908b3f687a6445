//! A script as a model API: the bytes that OpenAI's chat completions would answer.
//!
//! Pure: a request's body in, the parts of an answer out, each with the pause before it. Whoever has
//! an HTTP server can put this behind `POST /v1/chat/completions`, and any client of that API can be
//! tried without a key.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::script::{Line, Played, Script, ScriptError};

/// What to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub content_type: &'static str,
    pub parts: Vec<Part>,
}

/// A piece of the body, and how long to wait before it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub after: Duration,
    pub bytes: String,
}

#[derive(Deserialize)]
struct Request {
    model: String,
    messages: Vec<Message>,
    #[serde(default)]
    stream: bool,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
}

#[derive(Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

#[derive(Deserialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum Message {
    #[serde(alias = "developer")]
    System {},
    User {
        content: Content,
    },
    Assistant {
        #[serde(default)]
        tool_calls: Vec<Call>,
    },
    Tool {
        tool_call_id: String,
        content: Content,
    },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<TextPart>),
}

#[derive(Deserialize)]
struct TextPart {
    text: String,
}

#[derive(Deserialize)]
struct Call {
    id: String,
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    name: String,
}

impl Content {
    fn into_text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Parts(parts) => parts.into_iter().map(|part| part.text).collect(),
        }
    }
}

/// What the script answers to the body of a request.
#[must_use]
pub fn answer(script: &Script, body: &[u8]) -> Answer {
    let request: Request = match serde_json::from_slice(body) {
        Ok(request) => request,
        Err(error) => return failure(400, &format!("request is not readable: {error}")),
    };
    let mut names = Vec::new();
    let mut messages = Vec::new();
    for message in request.messages {
        match message {
            Message::System {} => {}
            Message::User { content } => messages.push((None, Some(content.into_text()))),
            Message::Assistant { tool_calls } => {
                names.extend(tool_calls.into_iter().map(|call| (call.id, call.function.name)));
                messages.push((None, None));
            }
            Message::Tool { tool_call_id, content } => {
                let Some((_, name)) = names.iter().find(|(id, _)| *id == tool_call_id) else {
                    return failure(400, &format!("no tool call has the id `{tool_call_id}`"));
                };
                messages.push((Some(name.clone()), Some(content.into_text())));
            }
        }
    }
    let lines: Vec<_> = messages
        .iter()
        .map(|message| match message {
            (Some(alias), Some(content)) => Line::Result { alias, content },
            (None, Some(text)) => Line::User(text),
            (_, None) => Line::Assistant,
        })
        .collect();
    match script.play(&lines, str::to_owned) {
        Err(ScriptError::Failed { status, message }) => failure(status, &message),
        Err(error) => failure(400, &error.to_string()),
        Ok(played) => {
            let turn = lines.iter().filter(|line| matches!(line, Line::Assistant)).count() + 1;
            let include_usage = request.stream_options.is_some_and(|options| options.include_usage);
            if request.stream {
                stream(&request.model, turn, &played, include_usage)
            } else {
                plain(&request.model, turn, &played)
            }
        }
    }
}

fn failure(status: u16, message: &str) -> Answer {
    let bytes = json!({"error": {"message": message, "type": "scripted_failure", "code": null}}).to_string();
    Answer { status, content_type: "application/json", parts: vec![Part { after: Duration::ZERO, bytes }] }
}

fn call_id(turn: usize, index: usize) -> String {
    format!("call_scripted_{turn}_{index}")
}

fn finish_reason(played: &Played<'_>) -> &'static str {
    if played.calls.is_empty() { "stop" } else { "tool_calls" }
}

fn usage(played: &Played<'_>) -> Value {
    json!({
        "prompt_tokens": played.usage.prompt_tokens,
        "completion_tokens": played.usage.completion_tokens,
        "total_tokens": played.usage.total(),
        "prompt_tokens_details": {"cached_tokens": played.usage.cached_tokens},
    })
}

fn plain(model: &str, turn: usize, played: &Played<'_>) -> Answer {
    let calls: Vec<_> = (played.calls.iter().enumerate())
        .map(|(index, (name, arguments))| {
            json!({"id": call_id(turn, index), "type": "function", "function": {"name": name, "arguments": arguments}})
        })
        .collect();
    let mut message = json!({"role": "assistant", "content": played.text});
    if !calls.is_empty() {
        message["tool_calls"] = Value::Array(calls);
    }
    let body = json!({
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason(played)}],
        "usage": usage(played),
    });
    let part = Part { after: played.delay, bytes: body.to_string() };
    Answer { status: 200, content_type: "application/json", parts: vec![part] }
}

fn stream(model: &str, turn: usize, played: &Played<'_>, include_usage: bool) -> Answer {
    let event = |choices: Value| {
        json!({
            "id": "chatcmpl-scripted", "object": "chat.completion.chunk", "created": 0, "model": model, "choices": choices,
        })
    };
    let delta =
        |delta: Value, reason: Option<&str>| event(json!([{"index": 0, "delta": delta, "finish_reason": reason}]));
    let mut parts = Vec::new();
    let mut send = |after: Duration, data: &Value| parts.push(Part { after, bytes: format!("data: {data}\n\n") });
    send(played.delay, &delta(json!({"role": "assistant", "content": ""}), None));
    for (index, text) in played.parts().enumerate() {
        let after = if index == 0 { Duration::ZERO } else { played.pace };
        send(after, &delta(json!({"content": text}), None));
    }
    for (index, (name, arguments)) in played.calls.iter().enumerate() {
        let function = json!({"name": name, "arguments": ""});
        let begin = json!({"index": index, "id": call_id(turn, index), "type": "function", "function": function});
        send(Duration::ZERO, &delta(json!({"tool_calls": [begin]}), None));
        let rest = json!({"index": index, "function": {"arguments": arguments}});
        send(Duration::ZERO, &delta(json!({"tool_calls": [rest]}), None));
    }
    send(Duration::ZERO, &delta(json!({}), Some(finish_reason(played))));
    if include_usage {
        let mut last = event(json!([]));
        last["usage"] = usage(played);
        send(Duration::ZERO, &last);
    }
    parts.push(Part { after: Duration::ZERO, bytes: "data: [DONE]\n\n".into() });
    Answer { status: 200, content_type: "text/event-stream", parts }
}
