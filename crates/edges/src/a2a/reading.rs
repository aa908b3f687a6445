//! The parameters of operations, from both generations and both bindings to one form.
//!
//! Strict in what is required, tolerant where the protocol is: unknown fields are ignored, and names may be in
//! snake_case, as ProtoJSON allows. Messages of 0.3 are read in both of its forms: with `kind`s, and as the ProtoJSON of
//! its `.proto`, which clients send over HTTP. All faults of a request are reported at once, each with its path.

use bosun_core::{
    Timestamp,
    ceiling::{CONVERSATION_ID_BYTES, MESSAGE_ID_BYTES, TASK_PAGE_ENTRIES},
};
use bosun_reading::Path;
use serde_json::{Map, Value};

use super::{
    error::{A2aError, ErrorKind},
    negotiate::Generation,
    push::{self, PushConfig},
    wire::{MessagePart, Metadata, PartContent, TaskState},
};
use crate::http::{
    error::{Code, clip},
    report::{BodyFields, RequestReport, kind_of},
};

/// The number of tasks on a page, by default.
const DEFAULT_PAGE: usize = 50;

/// A message to an agent.
#[derive(Debug)]
pub(super) struct SendParams {
    pub(super) message: IncomingMessage,
    pub(super) history_length: Option<usize>,
    /// Whether the answer waits for the agent's next action.
    pub(super) is_blocking: bool,
    pub(super) metadata: Metadata,
    /// Seed 003's `params.tools`.
    pub(super) tools: Option<Value>,
    /// Where to post what happens to the task.
    pub(super) push: Option<PushConfig>,
}

#[derive(Debug)]
pub(super) struct IncomingMessage {
    /// Absent only in the form of the client tool provider.
    pub(super) message_id: Option<String>,
    pub(super) context_id: Option<String>,
    pub(super) task_id: Option<String>,
    pub(super) parts: Vec<MessagePart>,
    pub(super) metadata: Metadata,
}

/// Which task, and how much of it.
#[derive(Debug)]
pub(super) struct TaskParams {
    pub(super) id: String,
    pub(super) history_length: Option<usize>,
}

/// Which tasks of an agent.
#[derive(Debug)]
pub(super) struct ListParams {
    pub(super) context_id: Option<String>,
    pub(super) state: Option<TaskState>,
    pub(super) page_size: usize,
    pub(super) page_token: Option<String>,
    pub(super) history_length: Option<usize>,
    pub(super) after: Option<Timestamp>,
    pub(super) include_artifacts: bool,
}

/// Seed 003's `tasks/resume`.
#[derive(Debug)]
pub(super) struct ResumeParams {
    pub(super) task_id: String,
    pub(super) results: Value,
}

/// The parameters of a request, which must be an object.
pub(super) struct ReadParams {
    report: RequestReport,
}

impl ReadParams {
    pub(super) fn new() -> Self {
        Self { report: RequestReport::new(Code::InvalidRequest, Vec::new()) }
    }

    pub(super) fn fields(&self, params: Value) -> Result<BodyFields<'_>, A2aError> {
        let params = if params.is_null() { Value::Object(Map::new()) } else { params };
        let kind = kind_of(&params);
        self.report.body(params).map_err(|_| {
            A2aError::new(ErrorKind::InvalidParams, format!("the parameters must be an object, not {kind}"))
        })
    }

    pub(super) fn conclude(self) -> Result<(), A2aError> {
        self.report.conclude().map(drop).map_err(Into::into)
    }
}

/// The name under which a field is sent: as the specification writes it, or in snake_case.
pub(super) fn name_in(fields: &BodyFields<'_>, camel: &str) -> String {
    if fields.has(camel) {
        return camel.to_owned();
    }
    let mut snake = String::with_capacity(camel.len() + 4);
    for letter in camel.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    if fields.has(&snake) { snake } else { camel.to_owned() }
}

pub(super) fn text(fields: &BodyFields<'_>, name: &str) -> Option<String> {
    fields.text(&name_in(fields, name))
}

/// A text that must be there and not be empty.
pub(super) fn required_text(fields: &BodyFields<'_>, name: &str) -> Option<String> {
    let key = name_in(fields, name);
    let Some(value) = fields.get(&key) else {
        fields.reject(name, "missing", "is missing");
        return None;
    };
    let text = fields.text_of(value, &key)?;
    if text.is_empty() {
        fields.reject(&key, "empty", "must not be empty");
    }
    Some(text)
}

fn metadata(fields: &BodyFields<'_>) -> Metadata {
    fields.fields("metadata").map(BodyFields::into_members).unwrap_or_default()
}

/// A number of messages, which must not be negative.
fn history_length(fields: &BodyFields<'_>) -> Option<usize> {
    let name = name_in(fields, "historyLength");
    let value = fields.get(&name)?;
    let length = value.as_u64().and_then(|length| usize::try_from(length).ok());
    if length.is_none() {
        fields.reject(&name, "invalid_number", "must be a whole number, zero or more");
    }
    length
}

pub(super) fn send(params: Value, generation: Generation) -> Result<SendParams, A2aError> {
    let reading = ReadParams::new();
    let fields = reading.fields(params)?;
    let tools = fields.get("tools");
    let message = match fields.get("message") {
        None => {
            fields.reject("message", "missing", "is missing");
            None
        }
        Some(value) => fields.inner(value, "message").map(|inner| incoming(&inner, generation, tools.is_some())),
    };
    let mut read = SendParams {
        message: IncomingMessage {
            message_id: None,
            context_id: None,
            task_id: None,
            parts: Vec::new(),
            metadata: Map::new(),
        },
        history_length: None,
        is_blocking: true,
        metadata: metadata(&fields),
        tools,
        push: None,
    };
    if let Some(configuration) = fields.fields("configuration") {
        read.history_length = history_length(&configuration);
        // The two generations have opposite flags.
        let immediately = configuration.bool(&name_in(&configuration, "returnImmediately"));
        let blocking = configuration.bool("blocking");
        read.is_blocking = match generation {
            Generation::V1 => !immediately.unwrap_or(false),
            Generation::V03 => blocking.unwrap_or(true),
        };
        check_output_modes(&configuration)?;
        let name = match generation {
            Generation::V1 => name_in(&configuration, "taskPushNotificationConfig"),
            Generation::V03 => name_in(&configuration, "pushNotificationConfig"),
        };
        read.push = configuration.fields(&name).and_then(|config| push::read_config(&config, generation));
    }
    drop(fields);
    reading.conclude()?;
    if let Some(message) = message {
        read.message = message;
    }
    Ok(read)
}

/// Answers are text, or JSON in a data part.
fn check_output_modes(configuration: &BodyFields<'_>) -> Result<(), A2aError> {
    let modes = configuration.list(&name_in(configuration, "acceptedOutputModes"));
    let is_served = |mode: &Value| {
        mode.as_str().is_some_and(|mode| ["text", "text/plain", "application/json", "*/*"].contains(&mode))
    };
    if modes.is_empty() || modes.iter().any(is_served) {
        return Ok(());
    }
    let message = "this agent answers with text/plain or application/json";
    Err(A2aError::new(ErrorKind::ContentTypeNotSupported, message))
}

fn incoming(fields: &BodyFields<'_>, generation: Generation, is_seeds: bool) -> IncomingMessage {
    let message_id = if is_seeds {
        text(fields, "messageId").filter(|id| !id.is_empty())
    } else {
        required_text(fields, "messageId")
    };
    if message_id.as_ref().is_some_and(|id| id.len() > MESSAGE_ID_BYTES) {
        fields.reject("messageId", "too_large", format!("has more than {MESSAGE_ID_BYTES} bytes"));
    }
    let context_id = text(fields, "contextId").filter(|id| !id.is_empty());
    let is_bad = |id: &String| id.len() > CONVERSATION_ID_BYTES || id.chars().any(char::is_control);
    if context_id.as_ref().is_some_and(is_bad) {
        let message = format!("must have at most {CONVERSATION_ID_BYTES} bytes and no control characters");
        fields.reject("contextId", "invalid_id", message);
    }
    read_role(fields, generation);
    let mut parts = Vec::new();
    let is_proto = is_proto_of_0_3(fields, generation);
    let name = if is_proto { "content" } else { "parts" };
    match fields.items(name) {
        None if !fields.has(name) => fields.reject("parts", "missing", "is missing: what should the agent do?"),
        None => {}
        Some(items) if items.is_empty() => fields.reject(name, "empty", "must have at least one part"),
        Some(items) => fields.each_of(name, items, |path, item| {
            if let Some(part) = fields.at(path, item) {
                parts.extend(match generation {
                    Generation::V1 => read_part(&part),
                    Generation::V03 if is_proto => read_proto_part(&part),
                    Generation::V03 => read_old_part(&part),
                });
            }
        }),
    }
    IncomingMessage {
        message_id,
        context_id,
        task_id: text(fields, "taskId").filter(|id| !id.is_empty()),
        parts,
        metadata: metadata(fields),
    }
}

/// Whether a message is in the ProtoJSON of 0.3, which calls its parts `content`.
fn is_proto_of_0_3(message: &BodyFields<'_>, generation: Generation) -> bool {
    generation == Generation::V03 && !message.has("parts") && message.has("content")
}

/// The role of clients is `user`; ProtoJSON also accepts the number of an enum value.
fn read_role(fields: &BodyFields<'_>, generation: Generation) {
    let is_proto = generation == Generation::V1 || is_proto_of_0_3(fields, generation);
    let expected = if is_proto { "ROLE_USER" } else { "user" };
    match fields.get("role") {
        None => fields.reject("role", "missing", format!("is missing; it is `{expected}`")),
        Some(Value::String(role)) if role == expected => {}
        Some(Value::Number(role)) if is_proto && role.as_u64() == Some(1) => {}
        Some(_) => fields.reject("role", "unknown_role", format!("must be `{expected}`")),
    }
}

fn read_part(part: &BodyFields<'_>) -> Option<MessagePart> {
    let present: Vec<_> = ["text", "raw", "url", "data"].into_iter().filter(|name| part.has(name)).collect();
    let [name] = present[..] else {
        let message = "must have exactly one of `text`, `raw`, `url` and `data`";
        part.report().fault(part.path().clone(), "invalid_part", message);
        return None;
    };
    let (filename, media_type) = (text(part, "filename"), text(part, "mediaType"));
    let content = match name {
        "text" => PartContent::Text(part.text("text")?),
        "raw" => PartContent::Raw(part.text("raw")?),
        "url" => PartContent::Url(part.text("url")?),
        _ => PartContent::Data(part.get_or_null("data")?),
    };
    Some(MessagePart { content, filename, media_type })
}

/// A part in the ProtoJSON of 0.3: `{text}`, `{data: {data}}` or `{file: {fileWithUri | fileWithBytes, mimeType}}`.
fn read_proto_part(part: &BodyFields<'_>) -> Option<MessagePart> {
    let present: Vec<_> = ["text", "data", "file"].into_iter().filter(|name| part.has(name)).collect();
    let [name] = present[..] else {
        let message = "must have exactly one of `text`, `data` and `file`";
        part.report().fault(part.path().clone(), "invalid_part", message);
        return None;
    };
    match name {
        "text" => Some(MessagePart::text(part.text("text")?)),
        "data" => {
            let data = part.fields("data")?;
            match data.get("data") {
                Some(inner @ Value::Object(_)) => Some(MessagePart::data(inner)),
                _ => {
                    data.reject("data", "wrong_type", "must be an object");
                    None
                }
            }
        }
        _ => {
            let file = part.fields("file")?;
            let of = |name: &str| text(&file, name).filter(|value| !value.is_empty());
            let content = match (of("fileWithBytes"), of("fileWithUri")) {
                (Some(bytes), None) => PartContent::Raw(bytes),
                (None, Some(uri)) => PartContent::Url(uri),
                _ => {
                    let message = "must have exactly one of `fileWithBytes` and `fileWithUri`";
                    file.report().fault(file.path().clone(), "invalid_part", message);
                    return None;
                }
            };
            Some(MessagePart { content, filename: text(&file, "name"), media_type: text(&file, "mimeType") })
        }
    }
}

fn read_old_part(part: &BodyFields<'_>) -> Option<MessagePart> {
    let kind = required_text(part, "kind")?;
    match kind.as_str() {
        "text" => {
            let text = part.get("text").map_or_else(
                || {
                    part.reject("text", "missing", "is missing");
                    None
                },
                |value| part.text_of(value, "text"),
            )?;
            Some(MessagePart::text(text))
        }
        "data" => match part.get("data") {
            Some(data @ Value::Object(_)) => Some(MessagePart::data(data)),
            Some(other) => {
                part.reject("data", "wrong_type", format!("must be an object, not {}", kind_of(&other)));
                None
            }
            None => {
                part.reject("data", "missing", "is missing");
                None
            }
        },
        "file" => {
            let Some(file) = part.fields("file") else {
                if !part.has("file") {
                    part.reject("file", "missing", "is missing");
                }
                return None;
            };
            let content = match (file.text("bytes"), file.text("uri")) {
                (Some(bytes), None) => PartContent::Raw(bytes),
                (None, Some(uri)) => PartContent::Url(uri),
                _ => {
                    let message = "must have exactly one of `bytes` and `uri`";
                    file.report().fault(file.path().clone(), "invalid_part", message);
                    return None;
                }
            };
            Some(MessagePart { content, filename: file.text("name"), media_type: file.text("mimeType") })
        }
        other => {
            part.reject("kind", "unknown_kind", format!("`{}` is not `text`, `file` or `data`", clip(other)));
            None
        }
    }
}

pub(super) fn task(params: Value) -> Result<TaskParams, A2aError> {
    let reading = ReadParams::new();
    let fields = reading.fields(params)?;
    let id = required_text(&fields, "id");
    let history_length = history_length(&fields);
    drop(fields);
    reading.conclude()?;
    Ok(TaskParams { id: id.unwrap_or_default(), history_length })
}

pub(super) fn list(params: Value) -> Result<ListParams, A2aError> {
    let reading = ReadParams::new();
    let fields = reading.fields(params)?;
    let page = name_in(&fields, "pageSize");
    let page_size = match fields.get(&page).map(|size| size.as_u64().and_then(|size| usize::try_from(size).ok())) {
        None => Some(DEFAULT_PAGE),
        // ProtoJSON's default value means that the client has no preference.
        Some(Some(0)) => Some(DEFAULT_PAGE),
        Some(Some(size @ 1..=TASK_PAGE_ENTRIES)) => Some(size),
        Some(_) => {
            fields.reject(&page, "invalid_number", format!("must be a number from 1 to {TASK_PAGE_ENTRIES}"));
            None
        }
    };
    let after_name = name_in(&fields, "statusTimestampAfter");
    let after = fields.text(&after_name).filter(|after| !after.is_empty()).and_then(|after| {
        let read = Timestamp::from_rfc3339(&after);
        if read.is_none() {
            fields.reject(&after_name, "invalid_time", "must be a time such as `2026-11-15T08:00:00Z`");
        }
        read
    });
    let read = ListParams {
        context_id: text(&fields, "contextId").filter(|id| !id.is_empty()),
        state: read_state(&fields),
        page_size: page_size.unwrap_or(DEFAULT_PAGE),
        page_token: text(&fields, "pageToken").filter(|token| !token.is_empty()),
        history_length: history_length(&fields),
        after,
        include_artifacts: fields.bool(&name_in(&fields, "includeArtifacts")).unwrap_or(false),
    };
    drop(fields);
    reading.conclude()?;
    Ok(read)
}

fn read_state(fields: &BodyFields<'_>) -> Option<TaskState> {
    let word = fields.text("status").filter(|word| !word.is_empty())?;
    let bare = word.strip_prefix("TASK_STATE_").unwrap_or(&word).to_ascii_lowercase().replace('_', "-");
    match bare.as_str() {
        "submitted" => Some(TaskState::Submitted),
        "working" => Some(TaskState::Working),
        "input-required" => Some(TaskState::InputRequired),
        "completed" => Some(TaskState::Completed),
        "failed" => Some(TaskState::Failed),
        "canceled" => Some(TaskState::Canceled),
        // No query has them: the list is empty.
        "rejected" => Some(TaskState::Rejected),
        "auth-required" => Some(TaskState::AuthRequired),
        "unspecified" => None,
        _ => {
            fields.reject("status", "unknown_state", format!("`{}` is not a state of a task", clip(&word)));
            None
        }
    }
}

pub(super) fn resume(params: Value) -> Result<ResumeParams, A2aError> {
    let reading = ReadParams::new();
    let fields = reading.fields(params)?;
    let task_id = required_text(&fields, "taskId");
    let results = fields.get("toolResults");
    if results.is_none() {
        fields.reject("toolResults", "missing", "is missing: what did the tools return?");
    }
    drop(fields);
    reading.conclude()?;
    Ok(ResumeParams { task_id: task_id.unwrap_or_default(), results: results.unwrap_or_default() })
}

/// A query string as parameters: values that look like numbers and flags are read as such.
pub(super) fn of_query(query: &str) -> Value {
    let typed = |value: &str| match value {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => value.parse::<i64>().map_or_else(|_| Value::from(value), Value::from),
    };
    let numeric = ["pageSize", "page_size", "historyLength", "history_length", "includeArtifacts", "include_artifacts"];
    let pairs = form_urlencoded::parse(query.as_bytes()).map(|(name, value)| {
        let value = if numeric.contains(&&*name) { typed(&value) } else { Value::from(value.as_ref()) };
        (name.into_owned(), value)
    });
    Value::Object(pairs.collect())
}

/// The path of a tool result in a message, for faults.
pub(super) fn part_path(index: usize) -> Path {
    Path::from(format!("message.parts[{index}].data"))
}
