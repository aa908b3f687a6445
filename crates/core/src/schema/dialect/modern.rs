//! Draft 7 in the words of draft 2020-12, for readers that know only the latter.

use serde_json::{Map, Value};

use crate::schema::keyword;

/// Renames what was renamed: lists of `items`, `additionalItems`, `dependencies`. The rest is the same.
pub(super) fn modernize(schema: &mut Value) {
    let Value::Object(fields) = schema else { return };
    if fields.get("items").is_some_and(Value::is_array) {
        rename(fields, "items", "prefixItems");
        if fields.contains_key("additionalItems") {
            rename(fields, "additionalItems", "items");
        }
    }
    if let Some(Value::Object(dependencies)) = fields.shift_remove("dependencies") {
        let (names, schemas): (Map<_, _>, Map<_, _>) =
            dependencies.into_iter().partition(|(_, value)| value.is_array());
        for (keyword, members) in [("dependentRequired", names), ("dependentSchemas", schemas)] {
            if !members.is_empty() && !fields.contains_key(keyword) {
                fields.insert(keyword.to_owned(), Value::Object(members));
            }
        }
    }
    keyword::for_each_subschema_mut(fields, &mut |_, subschema| modernize(subschema));
}

/// Renames a key and leaves it where it stands.
fn rename(fields: &mut Map<String, Value>, from: &str, to: &str) {
    let Some(position) = fields.keys().position(|key| key == from) else { return };
    if let Some(value) = fields.shift_remove(from) {
        let position = position.min(fields.len());
        fields.shift_insert(position, to.to_owned(), value);
    }
}
