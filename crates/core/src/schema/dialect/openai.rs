//! OpenAI's function calling, which most servers imitate.

use serde_json::{Map, Value, json};

use super::{LostKeyword, named, strict, without_identity, without_root_choices};
use crate::{schema::keyword, tool::Tool};

/// Chat completions: nearly all of JSON Schema, but the root must be a plain object.
pub(super) fn chat(tool: &Tool, alias: &str, root: Map<String, Value>, lost: &mut LostKeyword) -> Value {
    let mut function = named(alias, tool);
    function.insert("parameters".to_owned(), plain(root, lost));
    json!({"type": "function", "function": function})
}

/// Chat completions, strict if that loses nothing.
pub(super) fn chat_strict(tool: &Tool, alias: &str, root: Map<String, Value>, lost: &mut LostKeyword) -> Value {
    let mut function = named(alias, tool);
    match strict::convert(&root, lost) {
        Ok(parameters) => {
            function.insert("parameters".to_owned(), parameters);
            function.insert("strict".to_owned(), json!(true));
        }
        Err(refusal) => {
            lost.add(refusal.path, format!("not strict: {}", refusal.reason));
            function.insert("parameters".to_owned(), plain(root, lost));
            function.insert("strict".to_owned(), json!(false));
        }
    }
    json!({"type": "function", "function": function})
}

/// Responses: flat, and `strict` must be explicit, since it defaults to true there.
pub(super) fn responses(tool: &Tool, alias: &str, root: Map<String, Value>, lost: &mut LostKeyword) -> Value {
    let mut function = Map::new();
    function.insert("type".to_owned(), json!("function"));
    function.extend(named(alias, tool));
    function.insert("parameters".to_owned(), plain(root, lost));
    function.insert("strict".to_owned(), json!(false));
    Value::Object(function)
}

/// The schema of an answer, and whether it is strict.
pub(super) fn answer(root: Map<String, Value>) -> (Value, bool) {
    match strict::convert(&root, &mut LostKeyword::default()) {
        Ok(schema) => (schema, true),
        Err(_) => (plain(root, &mut LostKeyword::default()), false),
    }
}

fn plain(root: Map<String, Value>, lost: &mut LostKeyword) -> Value {
    let mut root = without_identity(root);
    without_root_choices(&mut root, &["anyOf", "oneOf", "allOf", "enum", "not"], lost);
    let mut root = Value::Object(root);
    give_items(&mut root);
    root
}

/// The API rejects an array without `items`; `{}` is equivalent.
pub(super) fn give_items(schema: &mut Value) {
    let Value::Object(fields) = schema else { return };
    let is_array = match fields.get("type") {
        Some(Value::String(name)) => name == "array",
        Some(Value::Array(names)) => names.iter().any(|name| name == "array"),
        _ => false,
    };
    if is_array && !fields.contains_key("items") {
        fields.insert("items".to_owned(), json!({}));
    }
    keyword::for_each_subschema_mut(fields, &mut |_, subschema| give_items(subschema));
}
