//! Gemini's function declarations.
//!
//! `parametersJsonSchema` takes ordinary JSON Schema; the older `parameters` takes a small part of
//! OpenAPI's, and is not used. Parameter names are restricted, and never renamed here: a call would
//! come back under names that the tool does not know.

use serde_json::{Map, Value, json};

use super::{modern, named, without_identity};
use crate::{text::clip, tool::Tool};

const LONGEST_PARAMETER: usize = 64;

pub(super) fn function(tool: &Tool, alias: &str, root: Map<String, Value>) -> Result<Value, String> {
    if let Some(Value::Object(properties)) = root.get("properties")
        && let Some(name) = properties.keys().find(|name| !is_parameter_name(name))
    {
        return Err(format!(
            "parameter `{}` has a name that is not taken: a letter or `_`, then letters, digits and `_`, at most {LONGEST_PARAMETER}",
            clip(name, 80)
        ));
    }
    let mut root = Value::Object(without_identity(root));
    modern::modernize(&mut root);
    let mut fields = named(alias, tool);
    fields.insert("parametersJsonSchema".to_owned(), root);
    Ok(Value::Object(fields))
}

fn is_parameter_name(name: &str) -> bool {
    name.len() <= LONGEST_PARAMETER
        && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// All functions are one tool.
pub(super) fn envelope(functions: &[Value]) -> Value {
    if functions.is_empty() { json!([]) } else { json!([{"functionDeclarations": functions}]) }
}
