//! The request body of one turn.
//!
//! The API orders a prompt as tools, then system, then messages, and caches the prefix up to a mark (`cache_control`).
//! So the marks are after the last tool, after the system prompt, and after the last two messages of the user: the
//! second last is where the previous turn ended, and this turn reads the cache up to there. Apart from the marks, a
//! turn begins with the bytes of the turn before it: arguments are the model's own text, and tools the toolset's.

use std::borrow::Cow;

use bosun_core::{
    ContentHash,
    content::Image,
    schema::dialect::Dialect,
    transcript::{Message, MessageCall},
};
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::{
    MAX_TOKENS, WIRE,
    block_layout::{self, BlockPlace},
};
use crate::model::{
    provider_fields,
    remote::{RemoteTurn, RequestBody},
};

/// Marks the prefix up to here for the prompt cache.
const MARK: &str = ",\"cache_control\":{\"type\":\"ephemeral\"}}";

/// The API rejects a request with a larger image; it counts base64.
const IMAGE_BYTES: usize = 5 * 1024 * 1024;

pub(super) fn body(turn: &RemoteTurn<'_>, cache: bool) -> Result<String, serde_json::Error> {
    let mut body = RequestBody::of(turn.model)?;
    body.settings(&options(turn), turn.properties)?;
    body.value("stream", &turn.stream)?;
    let tools = turn.request.toolset.declarations(Dialect::Anthropic);
    if tools.json != "[]" {
        let marked = tools.json.strip_suffix("}]").filter(|_| cache).map(|tools| format!("{tools}{MARK}]"));
        body.json("tools", marked.as_deref().unwrap_or(&tools.json));
        if !turn.request.tools_allowed {
            body.json("tool_choice", "{\"type\":\"none\"}");
        }
    }
    let (mut system, mut messages) = (Vec::new(), WireMessages::default());
    for message in &turn.request.messages {
        match message {
            Message::System(text) => system.extend(text_block(text, None)),
            message => messages.add(message),
        }
    }
    if let Some(format) = &turn.request.answer {
        // Not every model here supports a schema; each one can be instructed, and all answers are validated.
        let instruction =
            format!("Answer with nothing but one JSON object that fits this JSON Schema: {}", format.schema);
        system.extend(text_block(&instruction, None));
    }
    if cache {
        system.last_mut().into_iter().for_each(mark);
        messages.mark();
    }
    if !system.is_empty() {
        body.json("system", &list(&system));
    }
    body.json("messages", &messages.into_json());
    Ok(body.end())
}

/// The options of the query, and the maximum length of an answer, which the API requires.
fn options(turn: &RemoteTurn<'_>) -> Vec<(&'static str, Value)> {
    let options = turn.request.options;
    let is_set = turn.properties.iter().any(|(name, _)| *name == "max_tokens");
    let max_tokens = options.max_tokens.or((!is_set).then_some(MAX_TOKENS.into()));
    let max_tokens = max_tokens.map(|tokens| ("max_tokens", Value::from(tokens)));
    let temperature = options.temperature.map(|temperature| ("temperature", Value::from(temperature)));
    max_tokens.into_iter().chain(temperature).collect()
}

/// Messages in the wire format: user and assistant alternate, and each one is a list of blocks.
#[derive(Default)]
struct WireMessages(Vec<(&'static str, Vec<String>)>);

impl WireMessages {
    fn add(&mut self, message: &Message) {
        let (role, blocks) = match message {
            Message::System(_) => return,
            // An empty input is the caller's fault, and the API's to reject.
            Message::User(text) => ("user", vec![text_block(text, None).unwrap_or_else(|| text_of(text, None))]),
            Message::Tool { provider_id, content, images, is_error, .. } => {
                // The API rejects an error with anything but text.
                let images = if *is_error { &[] } else { &**images };
                ("user", vec![result_block(provider_id, content, images, *is_error)])
            }
            Message::Assistant { text, calls, provider } => {
                let layout =
                    provider_fields::of_wire(WIRE, provider.as_ref()).and_then(|own| own.get("content")?.as_array());
                let layout = layout.map(Vec::as_slice).unwrap_or_default();
                ("assistant", answer(text.as_deref().unwrap_or_default(), calls, layout))
            }
        };
        match self.0.last_mut() {
            // All results of a turn are in one message, before the user's next text.
            Some((last, so_far)) if *last == role => so_far.extend(blocks),
            // The API rejects a message without blocks.
            _ if blocks.is_empty() => {}
            _ => self.0.push((role, blocks)),
        }
    }

    fn mark(&mut self) {
        let users = self.0.iter_mut().rev().filter(|(role, _)| *role == "user");
        users.take(2).filter_map(|(_, blocks)| blocks.last_mut()).for_each(mark);
    }

    fn into_json(self) -> String {
        let messages: Vec<_> = (self.0.iter())
            .map(|(role, blocks)| format!("{{\"role\":\"{role}\",\"content\":{}}}", list(blocks)))
            .collect();
        list(&messages)
    }
}

/// An answer of the model, block for block as it was received.
fn answer(text: &str, calls: &[MessageCall], layout: &[Value]) -> Vec<String> {
    let mut rest = text;
    let mut used = vec![false; calls.len()];
    let mut blocks = Vec::new();
    for entry in layout {
        match block_layout::read(entry) {
            BlockPlace::Text(bytes, own) => {
                let (part, after) = rest.split_at_checked(bytes).unwrap_or((rest, ""));
                rest = after;
                blocks.extend(text_block(part, own));
            }
            BlockPlace::Call(number, own) => {
                if let (Some(call), Some(used)) = (calls.get(number), used.get_mut(number)) {
                    *used = true;
                    blocks.push(call_block(call, own));
                }
            }
            BlockPlace::Own(block) => blocks.push(block.to_string()),
        }
    }
    blocks.extend(text_block(rest, None));
    blocks.extend(calls.iter().zip(used).filter(|(_, used)| !used).map(|(call, _)| call_block(call, None)));
    blocks
}

/// `None` for a text that the API rejects: a blank one.
fn text_block(text: &str, own: Option<&Map<String, Value>>) -> Option<String> {
    (!text.trim().is_empty()).then(|| text_of(text, own))
}

fn text_of(text: &str, own: Option<&Map<String, Value>>) -> String {
    with_own(&json!({"type": "text", "text": text}).to_string(), own)
}

fn call_block(call: &MessageCall, own: Option<&Map<String, Value>>) -> String {
    let is_object = serde_json::from_str::<std::collections::HashMap<String, IgnoredAny>>(&call.arguments).is_ok();
    // The API accepts objects only. Arguments that are not an object were refused, and the model has read why; so that
    // it sees what it wrote, they are wrapped as Anthropic's own documentation does.
    let input = if is_object {
        Cow::Borrowed(call.arguments.as_str())
    } else {
        Cow::Owned(json!({"INVALID_JSON": call.arguments}).to_string())
    };
    let [id, name] = [&*tool_id(&call.provider_id), &call.alias].map(|text| json!(text).to_string());
    with_own(&format!("{{\"type\":\"tool_use\",\"id\":{id},\"name\":{name},\"input\":{input}}}"), own)
}

fn result_block(id: &str, content: &str, images: &[Image], is_error: bool) -> String {
    let mut block = json!({"type": "tool_result", "tool_use_id": tool_id(id)});
    let images = images.iter().filter(|image| image.data.len() <= IMAGE_BYTES).map(image_block);
    let mut parts: Vec<_> = images.collect();
    if !parts.is_empty() {
        // Not blank: it has the marks of the images.
        parts.insert(0, json!({"type": "text", "text": content}));
        block["content"] = Value::Array(parts);
    } else if !content.is_empty() {
        block["content"] = json!(content);
    }
    if is_error {
        block["is_error"] = json!(true);
    }
    block.to_string()
}

fn image_block(image: &Image) -> Value {
    let Image { media_type, data } = image;
    json!({"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}})
}

/// The id of a call. Earlier turns may be from another API, with ids that this one rejects.
fn tool_id(id: &str) -> Cow<'_, str> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    if !id.is_empty() && id.chars().all(fits) {
        Cow::Borrowed(id)
    } else {
        Cow::Owned(format!("toolu_{:.24}", ContentHash::of_parts(&[id.as_bytes()]).to_string()))
    }
}

/// `block` with further, provider-specific members.
fn with_own(block: &str, own: Option<&Map<String, Value>>) -> String {
    let mut block = block.to_owned();
    for (name, value) in own.into_iter().flatten() {
        block.pop();
        block.push_str(&format!(",{}:{value}}}", json!(name)));
    }
    block
}

fn mark(block: &mut String) {
    block.pop();
    block.push_str(MARK);
}

fn list(items: &[String]) -> String {
    format!("[{}]", items.join(","))
}
