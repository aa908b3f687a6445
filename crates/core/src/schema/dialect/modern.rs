//! Rewrites older drafts as draft 2020-12, for readers that know only the latter.

use serde_json::{Map, Value};

use crate::schema::{draft, keyword, reference};

/// Renames the keywords that draft 2020-12 renamed: lists of `items`, `additionalItems`, `dependencies`, boolean
/// bounds. References keep their targets. The rest is unchanged.
pub(super) fn modernize(schema: &mut Value) {
    reference::follow_moves(schema, moved);
    rewrite(schema);
}

/// The new name of a keyword, if it has one.
fn moved(fields: &Map<String, Value>, name: &str, member: Option<&str>) -> Option<&'static str> {
    let has_list = fields.get("items").is_some_and(Value::is_array);
    match name {
        "items" if has_list => Some("prefixItems"),
        "additionalItems" if has_list => Some("items"),
        "dependencies" => {
            let dependency = fields.get(name).and_then(|dependencies| dependencies.get(member?));
            Some(if dependency.is_some_and(Value::is_array) { "dependentRequired" } else { "dependentSchemas" })
        }
        _ => None,
    }
}

fn rewrite(schema: &mut Value) {
    let Value::Object(fields) = schema else { return };
    draft::numeric_bounds(fields);
    draft::without_empty_items(fields);
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
    keyword::for_each_subschema_mut(fields, &mut |_, subschema| rewrite(subschema));
}

/// Renames a key and keeps its position.
fn rename(fields: &mut Map<String, Value>, from: &str, to: &str) {
    let Some(position) = fields.keys().position(|key| key == from) else { return };
    if let Some(value) = fields.shift_remove(from) {
        let position = position.min(fields.len());
        fields.shift_insert(position, to.to_owned(), value);
    }
}
