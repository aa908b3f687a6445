//! OpenAI's function calling, which most servers imitate.

use serde_json::{Map, Value, json};

use super::{Lost, object_schema};
use crate::{schema::keyword, tool::Tool};

/// Chat completions, not strict: nearly all of JSON Schema, but the root must be a plain object.
pub(super) fn chat(tool: &Tool, alias: &str, lost: &mut Lost) -> Result<Value, String> {
    let mut function = Map::new();
    function.insert("name".to_owned(), json!(alias));
    if !tool.description.is_empty() {
        function.insert("description".to_owned(), json!(tool.description));
    }
    function.insert("parameters".to_owned(), Value::Object(plain(&tool.parameters, lost)?));
    Ok(json!({"type": "function", "function": function}))
}

fn plain(parameters: &Value, lost: &mut Lost) -> Result<Map<String, Value>, String> {
    let mut schema = object_schema(parameters)?;
    // The API refuses the whole request for one of these at the root.
    for keyword in ["anyOf", "oneOf", "allOf", "enum", "not"] {
        if schema.shift_remove(keyword).is_some() {
            lost.push((keyword.to_owned(), format!("`{keyword}` at the root is not taken")));
        }
    }
    for keyword in ["$schema", "$id"] {
        schema.shift_remove(keyword);
    }
    let mut root = Value::Object(schema);
    give_items(&mut root);
    match root {
        Value::Object(schema) => Ok(schema),
        _ => Err("parameters are not an object".to_owned()),
    }
}

/// An array without `items` is refused; `{}` says the same.
fn give_items(schema: &mut Value) {
    let Value::Object(fields) = schema else { return };
    if fields.get("type") == Some(&json!("array")) && !fields.contains_key("items") {
        fields.insert("items".to_owned(), json!({}));
    }
    keyword::for_each_subschema_mut(fields, &mut |_, subschema| give_items(subschema));
}
