//! Messages as chat clients write them: OpenAI's chat messages.
//!
//! [`read`] validates untrusted messages and reports all faults at once: a conversation with a tool result for a call
//! that was never made, or with a call that has no result, is rejected here and not by a model API in the middle of a
//! query. [`openai`] is the same form for what this program wrote itself: journals and histories store messages in it.
//! Images, sound and files are rejected by name, since not every model behind this program accepts them; nothing is
//! dropped silently except for what `warnings` list.

use std::collections::{BTreeSet, HashMap};

use bosun_wire::chat;
use serde_json::{Map, Value};

use crate::{
    ceiling::WARNINGS_KEPT,
    content::Images,
    fault::{Fault, FaultBounds, FaultClass, FaultList},
    json::{self, JsonLimits},
    schema::path::Path,
    text::clip,
    transcript::{Message, MessageCall},
};

/// Messages that form a valid conversation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChatMessages {
    pub messages: Vec<Message>,
    /// Fields that were read and have no effect: at most [`WARNINGS_KEPT`].
    pub warnings: Vec<String>,
    /// Further warnings.
    pub warnings_omitted: usize,
}

/// Maximum length of a call's id; model APIs reject longer ones.
const LONGEST_ID: usize = 64;

/// Validates a list of chat messages that a model is to answer.
///
/// # Errors
/// With all faults, up to the number that is listed.
pub fn read(items: &[Value]) -> Result<ChatMessages, FaultList> {
    let mut reader = MessageReader::new();
    for (index, item) in items.iter().enumerate() {
        if reader.faults.is_full() {
            reader.faults.omit(items.len() - index);
            break;
        }
        reader.read(&format!("[{index}]"), item);
    }
    reader.conclude()
}

struct MessageReader {
    messages: Vec<Message>,
    warnings: BTreeSet<String>,
    warnings_omitted: usize,
    faults: FaultList,
    /// Calls without a result yet, by id. Several have the same id only if that is a fault.
    open: HashMap<String, Vec<OpenCall>>,
    ids: BTreeSet<String>,
    /// How many calls were read.
    calls: usize,
}

/// A call without a result.
struct OpenCall {
    name: String,
    path: String,
    /// Faults are reported in the order in which calls were read.
    number: usize,
}

impl MessageReader {
    fn new() -> Self {
        Self {
            messages: Vec::new(),
            warnings: BTreeSet::new(),
            warnings_omitted: 0,
            faults: FaultList::new(FaultBounds::LISTED),
            open: HashMap::new(),
            ids: BTreeSet::new(),
            calls: 0,
        }
    }

    fn fault(&mut self, path: impl Into<Path>, code: &'static str, message: impl Into<String>) {
        self.faults.add(Fault::new(path, code, message));
    }

    /// A valid form that is not served.
    fn refuse(&mut self, path: impl Into<Path>, message: impl Into<String>) {
        let fault = Fault::new(path, "unsupported_content", message);
        self.faults.add(Fault { class: FaultClass::Unserved, ..fault });
    }

    fn read(&mut self, path: &str, item: &Value) {
        let Value::Object(fields) = item else {
            return self.fault(path, "wrong_type", "must be an object with a `role`");
        };
        let role = fields.get("role").and_then(Value::as_str);
        if role != Some("tool") {
            self.close_calls();
        }
        match role {
            Some("system" | "developer") => {
                let text = self.text(path, fields, true).unwrap_or_default();
                self.messages.push(Message::System(text));
            }
            Some("user") => {
                let text = self.text(path, fields, true).unwrap_or_default();
                self.messages.push(Message::User(text));
            }
            Some("assistant") => self.assistant(path, fields),
            Some("tool") => self.tool(path, fields),
            Some("function") => self.refuse(
                format!("{path}.role"),
                "`function` messages are not served: write `tool` messages and `tool_calls`",
            ),
            Some(other) => self.fault(
                format!("{path}.role"),
                "unknown_role",
                format!("`{}` is none of `system`, `developer`, `user`, `assistant` and `tool`", clip(other, 40)),
            ),
            None => self.fault(format!("{path}.role"), "missing", "is missing"),
        }
        self.check_unknown_fields(path, fields);
    }

    fn check_unknown_fields(&mut self, path: &str, fields: &Map<String, Value>) {
        for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
            match name.as_str() {
                "role" | "content" | "tool_calls" | "tool_call_id" => {}
                "function_call" => {
                    self.refuse(format!("{path}.function_call"), "is not served: write `tool_calls`");
                }
                "audio" => self.refuse(format!("{path}.audio"), "is not served: only text is"),
                "refusal" if value == "" => {}
                "refusal" => self.refuse(format!("{path}.refusal"), "is not served: write it as `content`"),
                other => {
                    let warning = format!("field `{}` of messages is not shown to the model", clip(other, 40));
                    if self.warnings.len() < WARNINGS_KEPT {
                        self.warnings.insert(warning);
                    } else if !self.warnings.contains(&warning) {
                        self.warnings_omitted += 1;
                    }
                }
            }
        }
    }

    /// The text of a message: a string, or parts of text.
    fn text(&mut self, path: &str, fields: &Map<String, Value>, required: bool) -> Option<String> {
        let path = format!("{path}.content");
        let text = match fields.get("content") {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Array(parts)) => {
                let texts: Vec<_> = parts
                    .iter()
                    .enumerate()
                    .filter_map(|(index, part)| self.part(&format!("{path}[{index}]"), part))
                    .collect();
                // The parts are joined by line breaks.
                Some(texts.join("\n"))
            }
            Some(_) => {
                self.fault(path, "wrong_type", "must be a string, or an array of parts of text");
                return None;
            }
        };
        if required && text.is_none() {
            self.fault(path, "missing", "is missing");
        }
        text
    }

    fn part(&mut self, path: &str, part: &Value) -> Option<String> {
        match part.get("type").and_then(Value::as_str) {
            Some("text") => {
                let text = part.get("text").and_then(Value::as_str).map(str::to_owned);
                if text.is_none() {
                    self.fault(format!("{path}.text"), "missing", "is missing, or not a string");
                }
                text
            }
            Some(kind @ ("image_url" | "input_audio" | "file" | "refusal")) => {
                self.refuse(path, format!("parts of type `{kind}` are not served: only text is"));
                None
            }
            Some(other) => {
                self.fault(path, "unknown_type", format!("`{}` is not a type of part", clip(other, 40)));
                None
            }
            None => {
                self.fault(path, "wrong_type", "must be an object with a `type`");
                None
            }
        }
    }

    fn assistant(&mut self, path: &str, fields: &Map<String, Value>) {
        let text = self.text(path, fields, false);
        let at = format!("{path}.tool_calls");
        let calls = match fields.get("tool_calls") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(calls)) => calls
                .iter()
                .enumerate()
                .filter_map(|(index, call)| self.call(&format!("{at}[{index}]"), call))
                .collect(),
            Some(_) => {
                self.fault(at, "wrong_type", "must be an array");
                Vec::new()
            }
        };
        let says_nothing = text.is_none() && fields.get("tool_calls").is_none_or(Value::is_null);
        if says_nothing {
            self.fault(format!("{path}.content"), "missing", "is missing, and there are no `tool_calls` either");
        }
        self.messages.push(Message::Assistant { text, calls, provider: None });
    }

    fn call(&mut self, path: &str, call: &Value) -> Option<MessageCall> {
        let text = |pointer: &str| call.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        if call.get("type").is_some_and(|kind| kind != "function") {
            self.fault(format!("{path}.type"), "unknown_type", "must be `function`");
        }
        let id = text("/id").filter(|id| (1..=LONGEST_ID).contains(&id.len()));
        if id.is_none() {
            let message = format!("must be a string of 1 to {LONGEST_ID} characters");
            self.fault(format!("{path}.id"), "invalid_id", message);
        }
        let name = text("/function/name").filter(|name| is_callable(name));
        if name.is_none() {
            let message = "must be a name of 1 to 64 letters, digits, `_` and `-`";
            self.fault(format!("{path}.function.name"), "invalid_name", message);
        }
        let arguments = text("/function/arguments");
        match arguments.as_deref().map(is_object) {
            Some(true) => {}
            Some(false) => {
                self.fault(format!("{path}.function.arguments"), "invalid_arguments", "must be a JSON object as text");
            }
            None => self.fault(format!("{path}.function.arguments"), "missing", "is missing, or not a string"),
        }
        let (id, name) = (id?, name?);
        if !self.ids.insert(id.clone()) {
            self.fault(format!("{path}.id"), "duplicate_id", format!("`{id}` is the id of an earlier call"));
        }
        self.calls += 1;
        let open = OpenCall { name: name.clone(), path: path.to_owned(), number: self.calls };
        self.open.entry(id.clone()).or_default().push(open);
        Some(MessageCall { provider_id: id.into(), alias: name.into(), arguments: arguments.unwrap_or_default() })
    }

    fn tool(&mut self, path: &str, fields: &Map<String, Value>) {
        let content = self.text(path, fields, true).unwrap_or_default();
        let at = format!("{path}.tool_call_id");
        let Some(id) = fields.get("tool_call_id").and_then(Value::as_str) else {
            return self.fault(at, "missing", "is missing, or not a string");
        };
        match self.open.get_mut(id).and_then(Vec::pop) {
            Some(open) => {
                let (provider_id, alias) = (id.into(), open.name.into());
                let images = Images::default();
                self.messages.push(Message::Tool { provider_id, alias, content, images, is_error: false });
            }
            None => {
                let message = format!(
                    "`{}` is not a call of the assistant message before, or has its answer already",
                    clip(id, LONGEST_ID)
                );
                self.fault(at, "unknown_call", message);
            }
        }
    }

    /// Another message follows: the calls before it should have had their results.
    fn close_calls(&mut self) {
        let open = std::mem::take(&mut self.open).into_iter();
        let mut open: Vec<_> =
            open.flat_map(|(id, calls)| calls.into_iter().map(move |call| (id.clone(), call))).collect();
        open.sort_by_key(|(_, call)| call.number);
        for (id, call) in open {
            self.fault(call.path, "unanswered_call", format!("call `{id}` has no `tool` message that answers it"));
        }
    }

    fn conclude(mut self) -> Result<ChatMessages, FaultList> {
        self.close_calls();
        if self.faults.count() == 0 {
            if !self.messages.iter().any(|message| matches!(message, Message::User(_))) {
                self.fault("", "no_user_message", "must have at least one `user` message");
            } else if matches!(self.messages.last(), Some(Message::Assistant { .. } | Message::System(_))) {
                self.fault("", "nothing_to_answer", "must end with a `user` or `tool` message for the model to answer");
            }
        }
        if self.faults.count() == 0 {
            let Self { messages, warnings, warnings_omitted, .. } = self;
            Ok(ChatMessages { messages, warnings: warnings.into_iter().collect(), warnings_omitted })
        } else {
            Err(self.faults)
        }
    }
}

fn is_callable(name: &str) -> bool {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    (1..=64).contains(&name.len()) && name.chars().all(fits)
}

fn is_object(text: &str) -> bool {
    json::parse(text, JsonLimits::ARGUMENTS).is_ok_and(|value| value.is_object())
}

/// The message in OpenAI's chat format.
#[must_use]
pub fn to_chat(message: &Message) -> chat::Message<'_> {
    match message {
        Message::System(text) => chat::Message::System { content: text.into() },
        Message::User(text) => chat::Message::User { content: text.into() },
        Message::Assistant { text, calls, .. } => chat::Message::Assistant {
            // Model APIs reject a message with neither text nor calls, but accept one with an empty text.
            content: text.as_deref().or(if calls.is_empty() { Some("") } else { None }).map(Into::into),
            tool_calls: calls.iter().map(to_chat_call).collect(),
            own: None,
        },
        Message::Tool { provider_id, alias, content, .. } => chat::Message::Tool {
            tool_call_id: (&**provider_id).into(),
            name: Some((&**alias).into()),
            content: content.into(),
            own: None,
        },
    }
}

fn to_chat_call(call: &MessageCall) -> chat::ToolCall<'_> {
    let function = chat::Function { name: (&*call.alias).into(), arguments: (&call.arguments).into() };
    chat::ToolCall { id: (&*call.provider_id).into(), kind: "function".into(), function, own: None }
}

/// The same, as JSON.
#[must_use]
pub fn write(message: &Message) -> Value {
    // Texts can always be serialized.
    serde_json::to_value(to_chat(message)).unwrap_or_default()
}

/// Messages as this program stores them; for serde's `with`.
pub mod openai {
    use std::{borrow::Cow, sync::Arc};

    use bosun_wire::chat;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer, de::Error as _};
    use serde_json::{Map, Value};

    use crate::{
        content::Images,
        transcript::{Message, MessageCall},
    };

    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(messages: &[Message], serializer: S) -> Result<S::Ok, S::Error> {
        messages.iter().map(stored).collect::<Vec<_>>().serialize(serializer)
    }

    /// The chat message, with the opaque provider data.
    fn stored(message: &Message) -> chat::Message<'_> {
        let mut stored = super::to_chat(message);
        let field = |name: &str, value: Value| Some(Cow::Owned(Map::from_iter([(name.to_owned(), value)])));
        match (message, &mut stored) {
            (Message::Assistant { provider: Some(provider), .. }, chat::Message::Assistant { own, .. }) => {
                *own = field("provider", Value::clone(provider));
            }
            (Message::Tool { is_error: true, .. }, chat::Message::Tool { own, .. }) => {
                *own = field("is_error", Value::Bool(true));
            }
            _ => {}
        }
        stored
    }

    /// # Errors
    /// If a message is not one that was written here.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Message>, D::Error> {
        let stored = Vec::<chat::Message<'static>>::deserialize(deserializer)?;
        stored.into_iter().map(|stored| read(stored).ok_or_else(|| D::Error::custom("not a stored message"))).collect()
    }

    fn read(stored: chat::Message<'static>) -> Option<Message> {
        Some(match stored {
            chat::Message::System { content } => Message::System(text(content)?),
            chat::Message::User { content } => Message::User(text(content)?),
            chat::Message::Assistant { content, tool_calls, own } => Message::Assistant {
                text: content.and_then(text),
                calls: tool_calls.into_iter().map(call).collect(),
                provider: own.and_then(|own| own.into_owned().shift_remove("provider")).map(Arc::new),
            },
            chat::Message::Tool { tool_call_id, name, content, own } => Message::Tool {
                provider_id: tool_call_id.into(),
                alias: name?.into(),
                content: text(content)?,
                images: Images::default(),
                is_error: own.and_then(|own| own.get("is_error")?.as_bool()).unwrap_or_default(),
            },
        })
    }

    fn text(content: chat::Content<'static>) -> Option<String> {
        match content {
            chat::Content::Text(text) => Some(text.into_owned()),
            // Parts are joined before they are stored.
            chat::Content::Parts(_) => None,
        }
    }

    fn call(call: chat::ToolCall<'static>) -> MessageCall {
        let chat::Function { name, arguments } = call.function;
        MessageCall { provider_id: call.id.into(), alias: name.into(), arguments: arguments.into_owned() }
    }
}

#[cfg(test)]
mod tests;
