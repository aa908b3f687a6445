//! Tables of fields: what a reader takes, and the schema that describes it.
//!
//! A mapping that is read by a table and the description of it cannot drift apart: reading a field that is not in the
//! table is a bug, which debug builds report.

use serde_json::{Map, Value, json};

/// A field that a reader takes, and the schema that describes it.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    pub name: &'static str,
    pub schema: fn() -> Value,
}

impl Field {
    #[must_use]
    pub const fn new(name: &'static str, schema: fn() -> Value) -> Self {
        Self { name, schema }
    }
}

/// All fields that the reader of a mapping takes.
pub type FieldTable = &'static [Field];

/// The schemas of the fields, by name.
#[must_use]
pub fn properties(table: FieldTable) -> Map<String, Value> {
    table.iter().map(|field| (field.name.to_owned(), (field.schema)())).collect()
}

/// What is described of an object with these fields.
#[must_use]
pub fn object_schema(table: FieldTable, required: &[&str]) -> Value {
    let mut schema = json!({"type": "object", "properties": properties(table)});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

#[must_use]
pub fn list_schema(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

#[must_use]
pub fn text_schema() -> Value {
    json!({"type": "string"})
}

#[must_use]
pub fn filled_text_schema() -> Value {
    json!({"type": "string", "minLength": 1})
}

#[must_use]
pub fn flag_schema() -> Value {
    json!({"type": "boolean"})
}

/// A duration as [`duration::positive_from_json`](bosun_core::duration::positive_from_json) reads it, as a regular
/// expression: Go's units, a number of seconds without one.
pub const DURATION: &str = "([0-9]+(\\.[0-9]*)?|\\.[0-9]+)|(([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+";

#[must_use]
pub fn duration_schema() -> Value {
    json!({"anyOf": [
        {"type": "string", "pattern": format!("^({DURATION})$"), "examples": ["30s", "1h30m"]},
        {"type": "number", "exclusiveMinimum": 0, "description": "Seconds"},
    ]})
}

/// The name of a query, or of any other resource: DNS-1123, as in Kubernetes.
#[must_use]
pub fn name_schema() -> Value {
    json!({"type": "string", "pattern": "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", "maxLength": 253})
}

/// The name of a tool: that of every resource, or one that model APIs accept.
#[must_use]
pub fn tool_name_schema() -> Value {
    json!({"anyOf": [name_schema(), {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_-]{0,63}$"}]})
}

#[must_use]
pub fn namespace_schema() -> Value {
    json!({"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63})
}

/// Labels, or annotations.
#[must_use]
pub fn texts_schema() -> Value {
    json!({"type": "object", "additionalProperties": {"type": "string"}})
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bosun_core::{Namespace, QueryName, duration, schema::Schema};
    use serde_json::json;

    use super::{duration_schema, name_schema, namespace_schema};

    #[test]
    fn a_name_is_described_as_it_is_read() {
        let name = Schema::compile(&Arc::new(name_schema())).unwrap();
        let namespace = Schema::compile(&Arc::new(namespace_schema())).unwrap();
        let long = "a".repeat(64);
        for text in ["a", "a-b", "a.b", "0", "", "-a", "a-", "A", "a_b", "ä", &long, &long.repeat(4)] {
            assert_eq!(name.validate(&json!(text)).is_empty(), text.parse::<QueryName>().is_ok(), "{text}");
            assert_eq!(namespace.validate(&json!(text)).is_empty(), text.parse::<Namespace>().is_ok(), "{text}");
        }
    }

    /// What the schema says of a value is what the reader does with it.
    #[test]
    fn a_duration_is_described_as_it_is_read() {
        let schema = Schema::compile(&Arc::new(duration_schema())).unwrap();
        let read = json!(["30s", "1h30m", "1.5s", ".5h", "250ms", "30", 30, 1.5]);
        let refused = json!(["", "-1s", "1d", "five", 0, -1, true, null]);
        for (values, is_read) in [(read, true), (refused, false)] {
            for value in values.as_array().unwrap() {
                assert_eq!(duration::positive_from_json(value).is_some(), is_read, "{value}");
                assert_eq!(schema.validate(value).is_empty(), is_read, "{value}");
            }
        }
    }
}
