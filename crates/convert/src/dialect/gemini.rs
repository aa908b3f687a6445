//! Gemini's function declarations.
//!
//! `parametersJsonSchema` accepts ordinary JSON Schema; the older `parameters` accepts a small part of OpenAPI's, and
//! is [`super::gemini_openapi`]. Parameter names are restricted, and never renamed here: a call would come back with
//! names that the tool does not know.

use bosun_core::{
    Tool,
    schema::dialect::{named, without_identity},
    text::clip,
};
use serde_json::{Map, Value, json};

const LONGEST_PARAMETER: usize = 64;

pub(super) fn function(tool: &Tool, alias: &str, root: Map<String, Value>) -> Result<Value, String> {
    check_names(&root)?;
    let mut fields = named(alias, tool);
    fields.insert("parametersJsonSchema".to_owned(), Value::Object(without_identity(root)));
    Ok(Value::Object(fields))
}

/// Rejects parameters with names that the API does not accept.
pub(super) fn check_names(root: &Map<String, Value>) -> Result<(), String> {
    let names = root.get("properties").and_then(Value::as_object).into_iter().flatten().map(|(name, _)| name);
    match names.into_iter().find(|name| !is_parameter_name(name)) {
        None => Ok(()),
        Some(name) => Err(format!(
            "parameter `{}` has a name that Gemini does not accept: it needs a letter or `_`, then letters, digits and `_`, at most {LONGEST_PARAMETER}",
            clip(name, 80)
        )),
    }
}

fn is_parameter_name(name: &str) -> bool {
    name.len() <= LONGEST_PARAMETER
        && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// All functions are one tool.
pub(super) fn envelope(functions: Vec<Value>) -> Value {
    if functions.is_empty() { json!([]) } else { json!([{"functionDeclarations": functions}]) }
}
