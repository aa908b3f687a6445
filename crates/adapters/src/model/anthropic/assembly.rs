//! Strict assembly of an answer.
//!
//! An answer is complete only after a `stop_reason`, `message_stop` and the end of the body, in this order and with
//! every block ended; otherwise everything that had arrived is discarded. Inconsistent input is refused, never
//! repaired: a guessed argument would be executed.

use bosun_engine::model::{Deltas, ModelCall, ModelError, ModelReply, ReplySize};
use serde_json::{Map, Value, json};

use super::{
    WIRE, block_layout,
    wire::{ErrorBody, Event, Message, Usage},
};
use crate::model::{
    provider_fields,
    remote::{AssembleReply, Failure, RemoteAnswer, malformed, unreadable},
};

/// Reads a non-streamed answer: the same blocks, each as a whole.
pub(super) fn plain(body: &[u8], deltas: &dyn Deltas) -> Result<RemoteAnswer, Failure> {
    let message: Message = serde_json::from_slice(body).map_err(|error| unreadable("message", &error))?;
    if let Some(error) = message.error {
        return Err(reported(&error));
    }
    let Some(content) = message.content else { return Err(malformed("the message has no `content`").into()) };
    let mut assembly = MessagesAssembly::default();
    assembly.begin(message.role.as_deref(), message.usage)?;
    for (index, block) in content.into_iter().enumerate() {
        assembly.start_block(index, block)?;
        if let Some(ReplyBlock { kind: BlockKind::Text(text), .. }) = assembly.blocks.last()
            && !text.is_empty()
        {
            deltas.push(text);
        }
        assembly.end_block(index)?;
    }
    assembly.stop_reason(message.stop_reason)?;
    assembly.progress = AssemblyProgress::Stopped;
    assembly.end()
}

/// The fixed size that each block counts for, in addition to its content.
const BLOCK_BYTES: usize = 64;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum AssemblyProgress {
    #[default]
    Nothing,
    Begun,
    /// `message_stop` has arrived.
    Stopped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    EndTurn,
    ToolUse,
    /// A server-side tool takes long: the request is repeated with what is there.
    Pause,
    TooLong(&'static str),
    Refusal,
}

/// An answer in progress.
#[derive(Debug, Default)]
pub(super) struct MessagesAssembly {
    progress: AssemblyProgress,
    blocks: Vec<ReplyBlock>,
    usage: Usage,
    size: ReplySize,
    stop: Option<Stop>,
}

#[derive(Debug)]
struct ReplyBlock {
    is_open: bool,
    kind: BlockKind,
    /// The block as it started, without what `kind` holds, and with what its deltas have added.
    fields: Map<String, Value>,
}

#[derive(Debug)]
enum BlockKind {
    Text(String),
    ToolUse {
        id: String,
        name: String,
        /// The `input` at the start of the block: all of it, if no JSON delta follows.
        input: Value,
        json: String,
    },
    /// A provider-specific block; its JSON deltas are its `input`.
    Own {
        json: String,
    },
}

impl AssembleReply for MessagesAssembly {
    fn event(&mut self, data: &str, deltas: &dyn Deltas) -> Result<(), Failure> {
        let event = serde_json::from_str(data)
            .map_err(|error| malformed(format!("an event is not one of a message: {error}")))?;
        self.take(event, deltas)
    }

    fn end(self) -> Result<RemoteAnswer, Failure> {
        if self.progress != AssemblyProgress::Stopped {
            return Err(ModelError::Incomplete("the stream ended without `message_stop`".into()).into());
        }
        let Some(stop) = self.stop else {
            return Err(ModelError::Incomplete("the message ended without a `stop_reason`".into()).into());
        };
        if let Some(open) = self.blocks.iter().position(|block| block.is_open) {
            return Err(ModelError::Incomplete(format!("block {open} of the message has no end")).into());
        }
        let has_calls = self.calls().next().is_some();
        match stop {
            Stop::TooLong(message) => return Err(ModelError::TooLong(message.into()).into()),
            Stop::Refusal => {
                let message = "the model refused to answer, or the API withheld its answer".into();
                return Err(ModelError::Refused { status: 200, message }.into());
            }
            Stop::ToolUse if !has_calls => {
                return Err(malformed("`stop_reason` announces tool calls, and there are none").into());
            }
            Stop::EndTurn | Stop::Pause if has_calls => {
                return Err(malformed("the message asks for tools, and its `stop_reason` does not").into());
            }
            Stop::ToolUse | Stop::EndTurn | Stop::Pause => {}
        }
        let reply = self.reply(stop == Stop::Pause);
        Ok(if stop == Stop::Pause { RemoteAnswer::Paused(reply) } else { RemoteAnswer::Whole(reply) })
    }
}

impl MessagesAssembly {
    fn take(&mut self, event: Event, deltas: &dyn Deltas) -> Result<(), Failure> {
        match (self.progress, &event) {
            (_, Event::Ping | Event::Unknown | Event::Error { .. })
            | (AssemblyProgress::Nothing, Event::MessageStart { .. }) => {}
            (AssemblyProgress::Nothing, _) => {
                return Err(malformed("the stream does not begin with `message_start`").into());
            }
            (AssemblyProgress::Begun, Event::MessageStart { .. }) => {
                return Err(malformed("a second message begins in the stream").into());
            }
            (AssemblyProgress::Begun, _) => {}
            (AssemblyProgress::Stopped, _) => return Err(malformed("something follows the end of the message").into()),
        }
        match event {
            Event::MessageStart { message } => self.begin(message.role.as_deref(), message.usage)?,
            Event::ContentBlockStart { index, content_block } => {
                if self.stop.is_some() {
                    return Err(malformed("a block follows `stop_reason`").into());
                }
                self.start_block(index, content_block)?;
            }
            Event::ContentBlockDelta { index, delta } => self.grow_block(index, delta, deltas)?,
            Event::ContentBlockStop { index } => self.end_block(index)?,
            Event::MessageDelta { delta, usage } => {
                self.usage.update(usage.unwrap_or_default());
                self.stop_reason(delta.stop_reason)?;
            }
            Event::MessageStop => self.progress = AssemblyProgress::Stopped,
            Event::Error { error } => return Err(reported(&error)),
            Event::Ping | Event::Unknown => {}
        }
        Ok(())
    }

    fn begin(&mut self, role: Option<&str>, usage: Option<Usage>) -> Result<(), ModelError> {
        if let Some(role) = role.filter(|role| *role != "assistant") {
            return Err(malformed(format!("the answer comes from `{role}`, not from the assistant")));
        }
        self.progress = AssemblyProgress::Begun;
        self.usage.update(usage.unwrap_or_default());
        Ok(())
    }

    fn start_block(&mut self, index: usize, mut fields: Map<String, Value>) -> Result<(), ModelError> {
        if index != self.blocks.len() {
            return Err(malformed(format!("block {index} begins where block {} should", self.blocks.len())));
        }
        if self.blocks.last().is_some_and(|block| block.is_open) {
            return Err(malformed(format!("block {index} begins before the last one has ended")));
        }
        let kind = fields.get("type").and_then(Value::as_str).map(str::to_owned);
        // Its text is counted below, as text; an empty block has a size too.
        self.size
            .add(BLOCK_BYTES + if kind.as_deref() == Some("text") { 0 } else { provider_fields::size(&fields) })?;
        let mut text = |name: &str| match fields.shift_remove(name) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        let kind = match kind.as_deref() {
            None => return Err(malformed(format!("block {index} has no `type`"))),
            Some("text") => {
                let text = text("text").ok_or_else(|| malformed(format!("block {index} has no `text`")))?;
                self.size.add_text(&text)?;
                BlockKind::Text(text)
            }
            Some("tool_use") => {
                let (id, name) = (text("id"), text("name"));
                let some = |value: Option<String>| value.filter(|value| !value.is_empty());
                let id = some(id).ok_or_else(|| malformed(format!("tool call {index} has no `id`")))?;
                let name = some(name).ok_or_else(|| malformed(format!("tool call {index} has no `name`")))?;
                self.size.add_call(&id, &name)?;
                if self.calls().any(|(earlier, ..)| *earlier == id) {
                    return Err(malformed(format!("two tool calls have the id `{id}`")));
                }
                let input = fields.shift_remove("input").unwrap_or(Value::Null);
                BlockKind::ToolUse { id, name, input, json: String::new() }
            }
            Some(_) => BlockKind::Own { json: String::new() },
        };
        if !matches!(kind, BlockKind::Own { .. }) {
            fields.shift_remove("type");
        }
        self.blocks.push(ReplyBlock { is_open: true, kind, fields });
        Ok(())
    }

    fn grow_block(&mut self, index: usize, delta: Map<String, Value>, deltas: &dyn Deltas) -> Result<(), ModelError> {
        let Some(block) = self.blocks.get_mut(index).filter(|block| block.is_open) else {
            return Err(malformed(format!("block {index} grows and is not open")));
        };
        let kind = delta.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        let text = |name: &str| {
            let text = delta.get(name).and_then(Value::as_str).map(str::to_owned);
            text.ok_or_else(|| malformed(format!("a `{kind}` has no `{name}`")))
        };
        if kind != "text_delta" {
            self.size.add(provider_fields::size(&delta))?;
        }
        match (&mut block.kind, kind.as_str()) {
            (BlockKind::Text(so_far), "text_delta") => {
                let more = text("text")?;
                self.size.add_text(&more)?;
                if !more.is_empty() {
                    deltas.push(&more);
                    so_far.push_str(&more);
                }
            }
            (BlockKind::ToolUse { json, .. } | BlockKind::Own { json }, "input_json_delta") => {
                json.push_str(&text("partial_json")?);
            }
            (_, "citations_delta") => {
                let citation = delta.get("citation").cloned().unwrap_or(Value::Null);
                provider_fields::merge_members(
                    &mut block.fields,
                    Map::from_iter([("citations".to_owned(), json!([citation]))]),
                );
            }
            // `thinking_delta` has `thinking`, `signature_delta` has `signature`, and so on.
            (BlockKind::Own { .. }, _) => {
                let mut delta = delta;
                delta.shift_remove("type");
                provider_fields::merge_members(&mut block.fields, delta);
            }
            (BlockKind::Text(_) | BlockKind::ToolUse { .. }, other) => {
                return Err(malformed(format!("a `{other}` does not belong in block {index}")));
            }
        }
        Ok(())
    }

    fn end_block(&mut self, index: usize) -> Result<(), ModelError> {
        let Some(block) = self.blocks.get_mut(index).filter(|block| block.is_open) else {
            return Err(malformed(format!("block {index} ends and is not open")));
        };
        block.is_open = false;
        block.fields.retain(|_, value| !value.is_null());
        match &mut block.kind {
            BlockKind::Text(_) => {}
            BlockKind::ToolUse { input, json, name, .. } => match (json.is_empty(), &*input) {
                (true, Value::Object(_)) => *json = input.to_string(),
                (true, _) => return Err(malformed(format!("tool call `{name}` has no arguments"))),
                (false, Value::Null) => {}
                (false, Value::Object(members)) if members.is_empty() => {}
                (false, _) => return Err(malformed(format!("tool call `{name}` has its arguments twice"))),
            },
            BlockKind::Own { json } if json.is_empty() => {}
            BlockKind::Own { json } => {
                let input: Value = serde_json::from_str(json)
                    .map_err(|error| malformed(format!("the input of block {index} is not JSON: {error}")))?;
                block.fields.insert("input".to_owned(), input);
            }
        }
        Ok(())
    }

    fn stop_reason(&mut self, reason: Option<String>) -> Result<(), ModelError> {
        let Some(reason) = reason else { return Ok(()) };
        let stop = match reason.as_str() {
            "end_turn" | "stop_sequence" => Stop::EndTurn,
            "tool_use" => Stop::ToolUse,
            "pause_turn" => Stop::Pause,
            "max_tokens" => {
                Stop::TooLong("it reached the limit of its length before its end; raise `max_tokens`, or ask for less")
            }
            "model_context_window_exceeded" => Stop::TooLong("the conversation fills the whole window of the model"),
            "refusal" => Stop::Refusal,
            other => return Err(malformed(format!("`stop_reason` is `{other}`"))),
        };
        if self.stop.is_some_and(|earlier| earlier != stop) {
            return Err(malformed("`stop_reason` changes within the answer"));
        }
        self.stop = Some(stop);
        Ok(())
    }

    fn calls(&self) -> impl Iterator<Item = (&String, &String, &String)> {
        self.blocks.iter().filter_map(|block| match &block.kind {
            BlockKind::ToolUse { id, name, json, .. } => Some((id, name, json)),
            BlockKind::Text(_) | BlockKind::Own { .. } => None,
        })
    }

    fn reply(self, keep_layout: bool) -> ModelReply {
        let (mut text, mut calls, mut layout) = (String::new(), Vec::new(), Vec::new());
        for ReplyBlock { kind, fields, .. } in self.blocks {
            match kind {
                // The API rejects empty texts, which it sometimes sends.
                BlockKind::Text(part) if part.is_empty() => {}
                BlockKind::Text(part) => {
                    layout.push(block_layout::text(part.len(), fields));
                    text.push_str(&part);
                }
                BlockKind::ToolUse { id, name, json, .. } => {
                    layout.push(block_layout::call(calls.len(), fields));
                    calls.push(ModelCall { provider_id: id, alias: name, arguments: json });
                }
                BlockKind::Own { .. } => layout.push(Value::Object(fields)),
            }
        }
        let is_kept = keep_layout || !block_layout::is_plain(&layout);
        ModelReply {
            text: Some(text).filter(|text| !text.is_empty()),
            calls,
            usage: self.usage.into(),
            provider: is_kept.then(|| provider_fields::wrap(WIRE, json!({"content": layout}))),
            answered_by: None,
        }
    }
}

/// An error that the API reports in a stream or with a successful status. Before anything was shown, an overload is
/// handled like one that came as a status.
fn reported(error: &ErrorBody) -> Failure {
    let message = if error.message.is_empty() { "no reason given" } else { &error.message };
    let refused = |status| Failure::Final(ModelError::Refused { status, message: message.to_owned() });
    match error.kind.as_str() {
        "invalid_request_error" => refused(400),
        "authentication_error" => refused(401),
        "billing_error" => refused(402),
        "permission_error" => refused(403),
        "not_found_error" => refused(404),
        "request_too_large" => refused(413),
        kind => Failure::Passing {
            message: format!("{}: {message}", if kind.is_empty() { "error" } else { kind }),
            asked_wait: None,
            is_outage: kind != "rate_limit_error",
        },
    }
}
