//! What each model API is sent of a tool.
//!
//! The source schema is kept verbatim; a dialect derives a copy that its API takes, and says what it
//! had to leave out. Arguments are always checked against the source, so a loss here can make the
//! model guess, but never let a wrong call through. Order is stable, byte for byte: prompt caches hit.

use serde_json::{Map, Value, json};

use crate::tool::Tool;

mod openai;

/// A model API, or another reader of tool definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Chat completions: `{"type": "function", "function": {…}}`.
    OpenAiChat,
}

impl Dialect {
    pub const ALL: [Self; 1] = [Self::OpenAiChat];

    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

/// What one dialect says about some tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declarations {
    /// The array that goes into the request, serialised once.
    pub json: String,
    pub losses: Vec<Loss>,
    /// Tools that cannot be expressed and are not in `json`.
    pub quarantined: Vec<Quarantined>,
}

/// Something of a schema that the API is not told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    pub tool: String,
    /// Where in the parameters.
    pub path: String,
    pub message: String,
}

/// A tool that the API is not told of at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    pub tool: String,
    pub reason: String,
}

/// Declares tools, each under the name that the model sees.
pub(crate) fn declare<'a>(dialect: Dialect, tools: impl Iterator<Item = (&'a Tool, &'a str)>) -> Declarations {
    let mut declared = Vec::new();
    let mut losses = Vec::new();
    let mut quarantined = Vec::new();
    for (tool, alias) in tools {
        let mut lost = Vec::new();
        let declaration = match dialect {
            Dialect::OpenAiChat => openai::chat(tool, alias, &mut lost),
        };
        match declaration {
            Ok(declaration) => {
                declared.push(declaration);
                losses.extend(lost.into_iter().map(|(path, message)| Loss { tool: tool.name.clone(), path, message }));
            }
            Err(reason) => quarantined.push(Quarantined { tool: tool.name.clone(), reason }),
        }
    }
    Declarations { json: Value::Array(declared).to_string(), losses, quarantined }
}

/// Place and sentence of what was left out.
type Lost = Vec<(String, String)>;

/// The parameters as an object schema with `properties`, which every API insists on.
fn object_schema(parameters: &Value) -> Result<Map<String, Value>, String> {
    let mut schema = match parameters {
        Value::Object(schema) => schema.clone(),
        Value::Bool(true) => Map::new(),
        other => return Err(format!("parameters are not a schema but {}", super::type_name(other))),
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
