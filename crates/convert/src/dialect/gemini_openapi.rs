//! Gemini's older field `parameters`: a small part of OpenAPI 3.0.
//!
//! For servers that do not know `parametersJsonSchema` yet. References are expanded, since the format has none;
//! `nullable` expresses null; a choice is always `anyOf`; an `enum` has strings only. Whatever cannot be expressed is
//! omitted and reported, and also described where a model can use it.

use bosun_core::{
    Tool,
    schema::{
        dialect::{LostKeyword, describe_more, named},
        path,
    },
    text::clip,
};
use serde_json::{Map, Value, json};

use super::{
    expand::{Expansion, Reduce},
    gemini,
};

/// The formats that the API accepts; it rejects a request with any other.
const FORMATS: &[&str] = &["date-time", "enum", "float", "double", "int32", "int64"];

/// Copied as they are.
const TAKEN: &[&str] = &[
    "title",
    "minItems",
    "maxItems",
    "required",
    "minProperties",
    "maxProperties",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "default",
];

/// Keywords that do not affect which values are valid, or are handled elsewhere.
const SILENT: &[&str] = &[
    "$schema",
    "$id",
    "$anchor",
    "$comment",
    "$defs",
    "definitions",
    "description",
    "examples",
    "deprecated",
    "prefixItems",
    "readOnly",
    "writeOnly",
    "type",
    "enum",
    "const",
    "anyOf",
    "oneOf",
    "allOf",
];

pub(super) fn function(
    tool: &Tool,
    alias: &str,
    root: Map<String, Value>,
    lost: &mut LostKeyword,
) -> Result<Value, String> {
    gemini::check_names(&root)?;
    let root = Value::Object(root);
    let mut reducer = Reducer { expansion: Expansion::new(&root, lost) };
    let reduced = reducer.reduce(&root, "", 0);
    let mut fields = named(alias, tool);
    // This API refuses an object without properties: a function that takes nothing has no parameters.
    if reduced.get("properties").and_then(Value::as_object).is_some_and(|properties| !properties.is_empty()) {
        fields.insert("parameters".to_owned(), reduced);
    }
    Ok(Value::Object(fields))
}

struct Reducer<'a> {
    expansion: Expansion<'a>,
}

impl<'a> Reduce<'a> for Reducer<'a> {
    fn expansion(&mut self) -> &mut Expansion<'a> {
        &mut self.expansion
    }

    fn anything(&mut self, here: &str) -> Value {
        self.guessed(Map::new(), here)
    }

    fn reduce_fields(&mut self, fields: &Map<String, Value>, here: &str, depth: usize) -> Value {
        let mut reduced = Map::new();
        self.types(fields, &mut reduced, here, depth);
        if let Some(description) = fields.get("description") {
            reduced.insert("description".to_owned(), description.clone());
        }
        self.values(fields, &mut reduced, here);
        for keyword in ["anyOf", "oneOf", "allOf"] {
            self.choice(keyword, fields, &mut reduced, here, depth);
        }
        self.tuple(fields, &mut reduced, here, depth);
        for (name, value) in fields {
            self.keyword(name, value, &mut reduced, here, depth);
        }
        if reduced.contains_key("anyOf") {
            self.leave_choice_alone(&mut reduced, here);
            Value::Object(reduced)
        } else if reduced.contains_key("type") {
            Value::Object(reduced)
        } else {
            self.guessed(reduced, here)
        }
    }
}

impl Reducer<'_> {
    fn keyword(&mut self, name: &str, value: &Value, reduced: &mut Map<String, Value>, here: &str, depth: usize) {
        let at = path::with_key(here, name);
        match name {
            // Reported with the items before them.
            "items" if reduced.contains_key(name) => {}
            "items" if value.is_object() => _ = reduced.insert(name.to_owned(), self.reduce(value, &at, depth + 1)),
            "items" if *value == json!(true) => {}
            "properties" => {
                let members: Map<String, Value> = value
                    .as_object()
                    .into_iter()
                    .flatten()
                    .map(|(key, property)| (key.clone(), self.reduce(property, &path::with_key(&at, key), depth + 1)))
                    .collect();
                reduced.insert(name.to_owned(), Value::Object(members));
            }
            "format" if !value.as_str().is_some_and(|format| FORMATS.contains(&format)) => {
                self.state_in_description(name, value, reduced, here);
            }
            "format" => _ = reduced.insert(name.to_owned(), value.clone()),
            // Open or closed: the arguments are validated either way.
            "additionalProperties" if value.is_boolean() => {}
            taken if TAKEN.contains(&taken) => _ = reduced.insert(name.to_owned(), value.clone()),
            silent if SILENT.contains(&silent) => {}
            "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => {
                self.state_in_description(name, value, reduced, here);
            }
            _ => self.expansion.lost.keyword(here, name, "is not supported; the model does not see it"),
        }
    }

    /// `["string", "null"]` is a nullable string; several types are a choice.
    fn types(&mut self, fields: &Map<String, Value>, reduced: &mut Map<String, Value>, here: &str, depth: usize) {
        match fields.get("type") {
            Some(Value::String(name)) => _ = reduced.insert("type".to_owned(), json!(name)),
            Some(Value::Array(names)) => {
                let real: Vec<&Value> = names.iter().filter(|name| **name != json!("null")).collect();
                if real.len() < names.len() {
                    reduced.insert("nullable".to_owned(), json!(true));
                }
                match real.as_slice() {
                    [] => _ = reduced.insert("type".to_owned(), json!("null")),
                    [one] => _ = reduced.insert("type".to_owned(), (*one).clone()),
                    several => {
                        let alternatives = several.iter().map(|name| {
                            let mut alternative = fields.clone();
                            alternative.retain(|keyword, _| is_about(keyword, name));
                            alternative.shift_insert(0, "type".to_owned(), (*name).clone());
                            self.reduce(&Value::Object(alternative), here, depth + 1)
                        });
                        let alternatives = alternatives.collect();
                        reduced.insert("anyOf".to_owned(), Value::Array(alternatives));
                    }
                }
            }
            _ => {}
        }
    }

    /// `enum` and `const`, of which only strings can be expressed.
    fn values(&mut self, fields: &Map<String, Value>, reduced: &mut Map<String, Value>, here: &str) {
        let (keyword, values) = match (fields.get("enum"), fields.get("const")) {
            (Some(Value::Array(values)), _) => ("enum", values.clone()),
            (None, Some(value)) => ("const", vec![value.clone()]),
            _ => return,
        };
        let (nulls, real): (Vec<Value>, Vec<Value>) = values.into_iter().partition(Value::is_null);
        if !nulls.is_empty() {
            reduced.insert("nullable".to_owned(), json!(true));
        }
        if real.iter().all(Value::is_string) && !real.is_empty() {
            reduced.entry("type").or_insert_with(|| json!("string"));
            reduced.insert("enum".to_owned(), Value::Array(real));
        } else if !real.is_empty() {
            if let Some(kind) = common_type(&real) {
                reduced.entry("type").or_insert_with(|| json!(kind));
            }
            self.state_in_description(keyword, &Value::Array(real), reduced, here);
        }
    }

    fn choice(
        &mut self,
        keyword: &str,
        fields: &Map<String, Value>,
        reduced: &mut Map<String, Value>,
        here: &str,
        depth: usize,
    ) {
        let Some(Value::Array(alternatives)) = fields.get(keyword) else { return };
        let at = path::with_key(here, keyword);
        let real: Vec<(usize, &Value)> =
            alternatives.iter().enumerate().filter(|(_, schema)| **schema != json!({"type": "null"})).collect();
        if keyword != "allOf" && real.len() < alternatives.len() {
            reduced.insert("nullable".to_owned(), json!(true));
        }
        match real.as_slice() {
            [] => {}
            // A choice of one is none, and so is an `allOf` of one.
            [(index, only)] => {
                if let Value::Object(only) = self.reduce(only, &path::with_index(&at, *index), depth + 1) {
                    for (key, value) in only {
                        reduced.entry(key).or_insert(value);
                    }
                }
            }
            _ if keyword == "allOf" || reduced.contains_key("anyOf") => {
                self.expansion.lost.keyword(here, keyword, "is not supported; the model does not see it");
            }
            several => {
                if keyword == "oneOf" {
                    self.expansion.lost.keyword(
                        here,
                        keyword,
                        "became `anyOf`: the model does not see that only one may match",
                    );
                }
                let alternatives = several
                    .iter()
                    .map(|(index, schema)| self.reduce(schema, &path::with_index(&at, *index), depth + 1));
                let alternatives = alternatives.collect();
                reduced.insert("anyOf".to_owned(), Value::Array(alternatives));
            }
        }
    }

    /// Positions cannot be distinguished: an item is any of the types in the tuple.
    fn tuple(&mut self, fields: &Map<String, Value>, reduced: &mut Map<String, Value>, here: &str, depth: usize) {
        let Some(Value::Array(places)) = fields.get("prefixItems") else { return };
        let at = path::with_key(here, "prefixItems");
        let count = places.len();
        let mut alternatives: Vec<Value> = Vec::new();
        let places = places.iter().enumerate().map(|(index, place)| (place, path::with_index(&at, index)));
        let rest =
            fields.get("items").filter(|rest| rest.is_object()).map(|rest| (rest, path::with_key(here, "items")));
        for (place, at) in places.chain(rest) {
            let alternative = self.reduce(place, &at, depth + 1);
            if !alternatives.contains(&alternative) {
                alternatives.push(alternative);
            }
        }
        let items = if alternatives.len() == 1 { alternatives.remove(0) } else { json!({"anyOf": alternatives}) };
        reduced.insert("items".to_owned(), items);
        if fields.get("items") == Some(&json!(false)) {
            reduced.insert("maxItems".to_owned(), json!(count));
        }
        self.expansion.lost.keyword(
            here,
            "prefixItems",
            "is not supported; the model sees which items are allowed, but not at which position",
        );
    }

    /// Next to a choice, a schema may have hardly any other keyword.
    fn leave_choice_alone(&mut self, reduced: &mut Map<String, Value>, here: &str) {
        reduced.retain(|keyword, _| {
            let stays = ["anyOf", "nullable", "description", "title", "default"].contains(&keyword.as_str());
            // Keywords about one type are in the alternatives of that type already.
            if !stays && keyword != "type" && !ABOUT_ONE_TYPE.iter().any(|(words, _)| words.contains(&keyword.as_str()))
            {
                self.expansion.lost.keyword(
                    here,
                    keyword,
                    "is not supported next to a choice; the model does not see it",
                );
            }
            stays
        });
    }

    /// Describes a keyword that cannot be expressed.
    fn state_in_description(&mut self, keyword: &str, value: &Value, reduced: &mut Map<String, Value>, here: &str) {
        self.expansion.lost.keyword(here, keyword, "is not supported; the description states it instead");
        let statement = format!("{keyword}: {}", clip(&value.to_string(), 400));
        describe_more(reduced, &statement);
    }

    /// The API rejects a schema without a type; it is inferred from the keywords.
    fn guessed(&mut self, mut reduced: Map<String, Value>, here: &str) -> Value {
        let kind = if reduced.contains_key("properties") {
            "object"
        } else if reduced.contains_key("items") {
            "array"
        } else {
            self.expansion.lost.add(here, "accepts any type; the model sees a string");
            "string"
        };
        reduced.shift_insert(0, "type".to_owned(), json!(kind));
        Value::Object(reduced)
    }
}

/// The type that all of these values have.
fn common_type(values: &[Value]) -> Option<&'static str> {
    let is_whole = |value: &Value| value.is_i64() || value.is_u64();
    match values {
        [] => None,
        _ if values.iter().all(is_whole) => Some("integer"),
        _ if values.iter().all(Value::is_number) => Some("number"),
        _ if values.iter().all(Value::is_boolean) => Some("boolean"),
        _ => None,
    }
}

/// Keywords that apply to values of some types only.
const ABOUT_ONE_TYPE: [(&[&str], &[&str]); 4] = [
    (&["minItems", "maxItems", "items", "prefixItems", "uniqueItems"], &["array"]),
    (&["properties", "required", "additionalProperties", "minProperties", "maxProperties"], &["object"]),
    (&["minLength", "maxLength", "pattern", "format"], &["string"]),
    (&["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"], &["number", "integer"]),
];

fn is_about(keyword: &str, kind: &Value) -> bool {
    let kind = kind.as_str().unwrap_or_default();
    ABOUT_ONE_TYPE.iter().any(|(keywords, kinds)| keywords.contains(&keyword) && kinds.contains(&kind))
}
