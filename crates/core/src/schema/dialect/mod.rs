//! Declarations of tools for each model API.
//!
//! The source schema is kept verbatim; a dialect derives a copy that its API accepts, and reports what it had to omit.
//! Arguments are always validated against the source, so a loss here can make the model guess, but never lets an
//! invalid call through. A tool that cannot be expressed is quarantined: most APIs reject a whole request for one bad
//! tool. The order is stable, byte for byte, so that prompt caches hit.
//!
//! These are the dialects of the APIs that a server calls. Others are written with [`declare_with`]; `bosun-convert`
//! has them.
//!
//! ```
//! use bosun_core::{schema::dialect::Dialect, tool::{Binding, Tool, toolset::{ToolSources, Toolset}}};
//! use serde_json::json;
//!
//! let parameters = json!({"type": "object", "properties": {"to": {"type": "string", "optional": true}}});
//! let tools = vec![Tool::new("send_email", "Sends an email", parameters, Binding::External)];
//! let toolset = Toolset::merge(ToolSources::Client, vec![], tools);
//! assert_eq!(
//!     toolset.declarations(Dialect::Anthropic).json,
//!     r#"[{"name":"send_email","description":"Sends an email","input_schema":{"type":"object","properties":{"to":{"type":"string"}}}}]"#,
//! );
//! ```

use std::{collections::HashSet, sync::Arc};

use serde_json::{Map, Value, json};

use super::{normalize, type_name};
use crate::{text::clip, tool::Tool};

mod anthropic;
mod anthropic_strict;
mod modern;
mod openai;
mod strict;

/// A model API that a server calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Chat completions: `{"type": "function", "function": {…}}`.
    OpenAiChat,
    /// Chat completions with `strict: true` for every tool that loses nothing by it.
    OpenAiChatStrict,
    /// Responses: the same, flat.
    OpenAiResponses,
    /// Messages: `input_schema`.
    Anthropic,
    /// Messages with `strict: true` for every tool that keeps its shape by it.
    AnthropicStrict,
}

impl Dialect {
    pub const ALL: [Self; 5] =
        [Self::OpenAiChat, Self::OpenAiChatStrict, Self::OpenAiResponses, Self::Anthropic, Self::AnthropicStrict];

    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// Its name in commands and settings.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenAiChat => "openai",
            Self::OpenAiChatStrict => "openai-strict",
            Self::OpenAiResponses => "openai-responses",
            Self::Anthropic => "anthropic",
            Self::AnthropicStrict => "anthropic-strict",
        }
    }
}

/// The declarations of some tools in one dialect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declarations {
    /// The array that goes into the request, serialised once.
    pub json: String,
    pub losses: Vec<Loss>,
    /// Tools that cannot be expressed and are not in `json`.
    pub quarantined: Vec<Quarantined>,
}

impl Declarations {
    /// An estimate of the tokens that these tools cost: four bytes a token.
    #[must_use]
    pub fn estimated_tokens(&self) -> usize {
        self.json.len().div_ceil(4)
    }
}

/// A part of a schema that is omitted from the declaration, or weakened.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Loss {
    pub tool: String,
    /// Its path in the parameters.
    pub path: String,
    pub message: String,
}

impl std::fmt::Display for Loss {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "tool `{}`: ", self.tool)?;
        if !self.path.is_empty() {
            write!(formatter, "{}: ", self.path)?;
        }
        formatter.write_str(&self.message)
    }
}

/// A tool that is omitted from the declarations altogether.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Quarantined {
    pub tool: String,
    pub reason: String,
}

/// The schema of an answer, as an API gets it.
#[derive(Clone, Debug, PartialEq)]
pub struct AnswerSchema {
    pub schema: Value,
    /// Whether the API constrains the model's output. Then every property is required, and an optional one is `null`.
    pub strict: bool,
}

/// The schema of an answer for OpenAI: strict if that loses nothing. `None` if the schema cannot be expressed at all;
/// the answer is validated against the original in any case.
#[must_use]
pub fn answer_schema(source: &Arc<Value>) -> Option<AnswerSchema> {
    let normalized = normalize(source).ok()?;
    let root = modern(object_schema(&normalized.clean).ok()?);
    let (schema, strict) = openai::answer(root);
    Some(AnswerSchema { schema, strict })
}

/// Declares tools, each under the name that the model sees.
pub fn declare<'a>(dialect: Dialect, tools: impl Iterator<Item = (&'a Tool, &'a str)>) -> Declarations {
    let write = |tool: &Tool, alias: &str, parameters, lost: &mut LostKeyword| {
        let root = modern(parameters);
        Ok(match dialect {
            Dialect::OpenAiChat => openai::chat(tool, alias, root, lost),
            Dialect::OpenAiChatStrict => openai::chat_strict(tool, alias, root, lost),
            Dialect::OpenAiResponses => openai::responses(tool, alias, root, lost),
            Dialect::Anthropic => anthropic::tool(tool, alias, root, lost),
            Dialect::AnthropicStrict => anthropic::tool_strict(tool, alias, root, lost),
        })
    };
    declare_with(tools, write, Value::Array)
}

/// Declares tools in a dialect of the caller's. `write` gets a tool, its alias and its parameters as an object schema,
/// and writes it or returns why it cannot be expressed; `envelope` wraps everything that was written into one value.
pub fn declare_with<'a>(
    tools: impl Iterator<Item = (&'a Tool, &'a str)>,
    write: impl Fn(&Tool, &str, Map<String, Value>, &mut LostKeyword) -> Result<Value, String>,
    envelope: impl FnOnce(Vec<Value>) -> Value,
) -> Declarations {
    let mut declared = Vec::new();
    let mut losses = Vec::new();
    let mut quarantined = Vec::new();
    for (tool, alias) in tools {
        let mut lost = LostKeyword::default();
        match checked_parameters(tool).and_then(|parameters| write(tool, alias, parameters, &mut lost)) {
            Ok(declaration) => {
                declared.push(declaration);
                losses.extend(lost.0.into_iter().map(|(path, message)| Loss {
                    tool: tool.name.clone(),
                    path,
                    message,
                }));
            }
            Err(reason) => quarantined.push(Quarantined { tool: tool.name.clone(), reason }),
        }
    }
    Declarations { json: envelope(declared).to_string(), losses, quarantined }
}

/// The parameters as they are validated, without our extensions.
fn checked_parameters(tool: &Tool) -> Result<Map<String, Value>, String> {
    let parameters = tool.checked_parameters();
    // A schema that cannot be compiled could not validate the calls that it invites.
    if let Some(fault) = super::faults(&parameters).into_iter().next() {
        return Err(fault.to_string());
    }
    let normalized =
        normalize(&parameters).map_err(|faults| faults.first().map(ToString::to_string).unwrap_or_default())?;
    object_schema(&normalized.clean).map(without_unused_definitions)
}

/// Removes the definitions that nothing refers to: they cost tokens and say nothing. A reference that is not a path may
/// mean any of them, and then all are kept.
fn without_unused_definitions(mut root: Map<String, Value>) -> Map<String, Value> {
    const KEYWORDS: [&str; 2] = ["$defs", "definitions"];
    let mut found = Vec::new();
    for (_, value) in root.iter().filter(|(keyword, _)| !KEYWORDS.contains(&keyword.as_str())) {
        references(value, &mut found);
    }
    let mut used: HashSet<(&str, String)> = HashSet::new();
    while let Some(target) = found.pop() {
        if target != "#" && !target.starts_with("#/") {
            return root;
        }
        for keyword in KEYWORDS {
            let Some(rest) = target.strip_prefix(&format!("#/{keyword}/")) else { continue };
            let name = rest.split('/').next().unwrap_or_default().replace("~1", "/").replace("~0", "~");
            if let Some(definition) = root.get(keyword).and_then(|definitions| definitions.get(&name))
                && used.insert((keyword, name))
            {
                references(definition, &mut found);
            }
        }
    }
    for keyword in KEYWORDS {
        let Some(Value::Object(definitions)) = root.get_mut(keyword) else { continue };
        definitions.retain(|name, _| used.contains(&(keyword, name.clone())));
        if definitions.is_empty() {
            root.shift_remove(keyword);
        }
    }
    root
}

/// The targets of all references in a schema.
fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        Value::Object(members) => {
            for (key, value) in members {
                match value {
                    Value::String(target) if matches!(key.as_str(), "$ref" | "$dynamicRef" | "$recursiveRef") => {
                        found.push(target.clone());
                    }
                    value => references(value, found),
                }
            }
        }
        _ => {}
    }
}

/// The losses of one tool in a dialect, each with its path in the parameters.
#[derive(Debug, Default)]
pub struct LostKeyword(Vec<(String, String)>);

impl LostKeyword {
    pub fn add(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.0.push((path.into(), message.into()));
    }

    /// Adds a keyword of the schema at `parent`.
    pub fn keyword(&mut self, parent: &str, keyword: &str, why: &str) {
        self.add(super::path::with_key(parent, keyword), format!("`{}` {why}", clip(keyword, 40)));
    }
}

/// The parameters as an object schema with `properties`, which every API requires.
fn object_schema(parameters: &Value) -> Result<Map<String, Value>, String> {
    let mut schema = match parameters {
        Value::Object(schema) => schema.clone(),
        Value::Bool(true) => Map::new(),
        other => return Err(format!("parameters are not a schema but {}", type_name(other))),
    };
    match schema.get("type") {
        None => _ = schema.shift_insert(0, "type".to_owned(), json!("object")),
        Some(Value::String(kind)) if kind == "object" => {}
        Some(other) => return Err(format!("parameters have type {other}, and only \"object\" can be called")),
    }
    if !schema.contains_key("properties") {
        let after_type = schema.keys().position(|key| key == "type").map_or(0, |index| index + 1);
        schema.shift_insert(after_type, "properties".to_owned(), json!({}));
    }
    Ok(schema)
}

/// The parameters as draft 2020-12, the only one that the APIs know: OpenAI and Anthropic reject a whole request for a
/// list of `items`.
#[must_use]
pub fn modern(root: Map<String, Value>) -> Map<String, Value> {
    let mut root = Value::Object(root);
    modern::modernize(&mut root);
    match root {
        Value::Object(root) => root,
        _ => Map::new(),
    }
}

/// Removes the keywords that do not constrain arguments: the schema's location and its draft.
#[must_use]
pub fn without_identity(mut root: Map<String, Value>) -> Map<String, Value> {
    for keyword in ["$schema", "$id", "$comment"] {
        root.shift_remove(keyword);
    }
    root
}

/// Removes the keywords that an API does not accept at the root.
fn without_root_choices(root: &mut Map<String, Value>, keywords: &[&str], lost: &mut LostKeyword) {
    for keyword in keywords {
        if root.shift_remove(*keyword).is_some() {
            lost.keyword("", keyword, "is not supported at the root; the model does not see it");
        }
    }
}

/// Adds a sentence to the description of a schema.
pub fn describe_more(schema: &mut Map<String, Value>, addition: &str) {
    let description = match schema.get("description").and_then(Value::as_str) {
        Some(text) if !text.is_empty() => format!("{text} ({addition})"),
        _ => addition.to_owned(),
    };
    schema.insert("description".to_owned(), json!(description));
}

/// The fields that nearly every API begins with.
#[must_use]
pub fn named(alias: &str, tool: &Tool) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("name".to_owned(), json!(alias));
    if !tool.description.is_empty() {
        fields.insert("description".to_owned(), json!(tool.description));
    }
    fields
}

#[cfg(test)]
mod tests;
