//! MCP's `tools/list`: the real name where MCP accepts it, and every keyword of the schema.

use bosun_core::Tool;
use serde_json::{Map, Value, json};

pub(super) fn tool(tool: &Tool, alias: &str, root: Map<String, Value>) -> Value {
    let mut fields = Map::new();
    fields.insert("name".to_owned(), json!(if is_name(&tool.name) { &tool.name } else { alias }));
    if let Some(title) = &tool.display_name {
        fields.insert("title".to_owned(), json!(title));
    }
    if !tool.description.is_empty() {
        fields.insert("description".to_owned(), json!(tool.description));
    }
    fields.insert("inputSchema".to_owned(), Value::Object(root));
    if !tool.annotations.is_empty() {
        fields.insert("annotations".to_owned(), json!(tool.annotations));
    }
    Value::Object(fields)
}

fn is_name(name: &str) -> bool {
    (1..=128).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
}
