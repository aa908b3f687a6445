//! Anthropic's messages: draft 2020-12, with a plain object at the root.

use serde_json::{Map, Value};

use super::{Lost, modern, named, without_identity, without_root_choices};
use crate::tool::Tool;

pub(super) fn tool(tool: &Tool, alias: &str, root: Map<String, Value>, lost: &mut Lost) -> Value {
    let mut root = without_identity(root);
    without_root_choices(&mut root, &["oneOf", "anyOf", "allOf"], lost);
    let mut root = Value::Object(root);
    modern::modernize(&mut root);
    let mut fields = named(alias, tool);
    fields.insert("input_schema".to_owned(), root);
    Value::Object(fields)
}
