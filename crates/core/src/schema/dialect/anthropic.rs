//! Anthropic's messages: draft 2020-12, with a plain object at the root.

use serde_json::{Map, Value, json};

use super::{LostKeyword, anthropic_strict, named, without_identity, without_root_choices};
use crate::tool::Tool;

pub(super) fn tool(tool: &Tool, alias: &str, root: Map<String, Value>, lost: &mut LostKeyword) -> Value {
    let mut fields = named(alias, tool);
    fields.insert("input_schema".to_owned(), plain(root, lost));
    Value::Object(fields)
}

/// Strict, if that loses nothing which the description cannot express.
pub(super) fn tool_strict(tool: &Tool, alias: &str, root: Map<String, Value>, lost: &mut LostKeyword) -> Value {
    let mut fields = named(alias, tool);
    match anthropic_strict::convert(&root, lost) {
        Ok(schema) => {
            fields.insert("input_schema".to_owned(), schema);
            fields.insert("strict".to_owned(), json!(true));
        }
        Err(refusal) => {
            lost.add(refusal.path, format!("not strict: {}", refusal.reason));
            fields.insert("input_schema".to_owned(), plain(root, lost));
        }
    }
    Value::Object(fields)
}

fn plain(root: Map<String, Value>, lost: &mut LostKeyword) -> Value {
    let mut root = without_identity(root);
    without_root_choices(&mut root, &["oneOf", "anyOf", "allOf"], lost);
    Value::Object(root)
}
