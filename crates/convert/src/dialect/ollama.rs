//! Ollama's `/api/chat`: the envelope of chat completions around a fraction of JSON Schema.
//!
//! Its templates and grammars support `type`, `items`, `properties`, `required`, `enum` and `description`. References
//! are expanded; a choice keeps its first alternative that is not null.

use bosun_core::{
    Tool,
    schema::{
        dialect::{LostKeyword, describe_more, named},
        path,
    },
    text::clip,
};
use serde_json::{Map, Value, json};

use super::expand::{Expansion, Reduce};

pub(super) fn function(tool: &Tool, alias: &str, root: Map<String, Value>, lost: &mut LostKeyword) -> Value {
    let root = Value::Object(root);
    let mut reducer = Reducer { expansion: Expansion::new(&root, lost) };
    let mut reduced = reducer.reduce(&root, "", 0);
    if let Value::Object(fields) = &mut reduced
        && !fields.contains_key("properties")
    {
        fields.insert("properties".to_owned(), json!({}));
    }
    let mut function = named(alias, tool);
    function.insert("parameters".to_owned(), reduced);
    json!({"type": "function", "function": function})
}

struct Reducer<'a> {
    expansion: Expansion<'a>,
}

impl<'a> Reduce<'a> for Reducer<'a> {
    fn expansion(&mut self) -> &mut Expansion<'a> {
        &mut self.expansion
    }

    fn anything(&mut self, _: &str) -> Value {
        json!({})
    }

    fn reduce_fields(&mut self, fields: &Map<String, Value>, here: &str, depth: usize) -> Value {
        let mut reduced = Map::new();
        for (name, value) in fields {
            let at = path::with_key(here, name);
            match name.as_str() {
                "type" | "description" | "enum" | "required" => _ = reduced.insert(name.clone(), value.clone()),
                "const" => _ = reduced.insert("enum".to_owned(), json!([value])),
                "items" if value.is_object() && !fields.contains_key("prefixItems") => {
                    _ = reduced.insert(name.clone(), self.reduce(value, &at, depth + 1));
                }
                "properties" => {
                    let members: Map<String, Value> = value
                        .as_object()
                        .into_iter()
                        .flatten()
                        .map(|(key, property)| {
                            (key.clone(), self.reduce(property, &path::with_key(&at, key), depth + 1))
                        })
                        .collect();
                    // An empty map breaks the grammars of llama.cpp.
                    if !members.is_empty() {
                        reduced.insert(name.clone(), Value::Object(members));
                    }
                }
                // Positions cannot be distinguished; the item at each is described.
                "prefixItems" => {
                    self.expansion.lost.keyword(here, name, "is not supported; the description states it instead");
                }
                "anyOf" | "oneOf" => self.choose(name, value, here, depth, &mut reduced),
                "$defs" | "definitions" | "$schema" | "$id" | "$comment" | "title" | "examples" | "default" => {}
                _ => self.expansion.lost.keyword(here, name, "is not supported; the model does not see it"),
            }
        }
        if let Some(places) = fields.get("prefixItems") {
            describe_more(&mut reduced, &format!("items, in this order: {}", clip(&places.to_string(), 400)));
        }
        Value::Object(reduced)
    }
}

impl Reducer<'_> {
    /// Alternatives cannot be expressed; the first that is not null is used.
    fn choose(
        &mut self,
        keyword: &str,
        alternatives: &Value,
        here: &str,
        depth: usize,
        reduced: &mut Map<String, Value>,
    ) {
        let alternatives = alternatives.as_array().map(Vec::as_slice).unwrap_or_default();
        let real: Vec<(usize, &Value)> =
            alternatives.iter().enumerate().filter(|(_, schema)| **schema != json!({"type": "null"})).collect();
        let Some(&(index, first)) = real.first() else { return };
        if real.len() > 1 {
            self.expansion.lost.keyword(here, keyword, "is not supported; the model sees only its first alternative");
        }
        let at = path::with_index(&path::with_key(here, keyword), index);
        if let Value::Object(chosen) = self.reduce(first, &at, depth + 1) {
            for (key, value) in chosen {
                reduced.entry(key).or_insert(value);
            }
        }
    }
}
