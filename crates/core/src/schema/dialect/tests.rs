#![expect(clippy::needless_pass_by_value, reason = "a table of cases reads better without borrows")]

use super::*;
use crate::tool::Binding;

fn tool(parameters: Value) -> Tool {
    Tool::new("my.tool", "Does things", parameters, Binding::External)
}

fn declared(dialect: Dialect, parameters: Value) -> (Value, Vec<String>) {
    let declarations = declare(dialect, [(&tool(parameters), "my_tool_12345678")].into_iter());
    assert_eq!(declarations.quarantined, []);
    let losses = declarations.losses.iter().map(ToString::to_string).collect();
    (serde_json::from_str(&declarations.json).unwrap(), losses)
}

#[track_caller]
fn check(dialect: Dialect, parameters: Value, pointer: &str, expect: Value, losses: &[&str]) {
    let (declaration, lost) = declared(dialect, parameters);
    assert_eq!(declaration.pointer(pointer), Some(&expect), "{declaration:#}");
    assert_eq!(lost, losses);
}

#[test]
fn choices_at_the_root_are_omitted_and_reported() {
    let parameters =
        json!({"type": "object", "properties": {"a": {}}, "anyOf": [{"required": ["a"]}], "not": {"required": ["b"]}});
    check(
        Dialect::OpenAiChat,
        parameters.clone(),
        "/0/function/parameters",
        json!({"type": "object", "properties": {"a": {}}}),
        &[
            "tool `my.tool`: anyOf: `anyOf` is not supported at the root; the model does not see it",
            "tool `my.tool`: not: `not` is not supported at the root; the model does not see it",
        ],
    );
    check(
        Dialect::Anthropic,
        parameters,
        "/0/input_schema",
        json!({"type": "object", "properties": {"a": {}}, "not": {"required": ["b"]}}),
        &["tool `my.tool`: anyOf: `anyOf` is not supported at the root; the model does not see it"],
    );
}

#[test]
fn an_array_gets_items_where_they_are_demanded() {
    check(
        Dialect::OpenAiChat,
        json!({"properties": {"a": {"type": "array"}, "b": {"anyOf": [{"type": ["array", "null"]}]}}}),
        "/0/function/parameters/properties",
        json!({"a": {"type": "array", "items": {}}, "b": {"anyOf": [{"type": ["array", "null"], "items": {}}]}}),
        &[],
    );
}

#[test]
fn draft_7_is_declared_as_2020_12() {
    check(
        Dialect::Anthropic,
        json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "properties": {"a": {"items": [{"type": "string"}], "additionalItems": false}},
            "dependencies": {"a": ["b"], "b": {"required": ["c"]}},
        }),
        "/0/input_schema",
        json!({
            "type": "object",
            "properties": {"a": {"prefixItems": [{"type": "string"}], "items": false}},
            "dependentRequired": {"a": ["b"]},
            "dependentSchemas": {"b": {"required": ["c"]}},
        }),
        &[],
    );
}

/// A schema without `$schema` that has the shape of draft 7, as `zod-to-json-schema` writes it.
fn old_shape() -> Value {
    json!({
        "type": "object",
        "properties": {
            "pair": {"type": "array", "minItems": 2, "maxItems": 2, "items": [{"type": "string"}, {"type": "number"}]},
            "same": {"$ref": "#/properties/pair/items/1"},
            "rest": {"type": "array", "items": [{"type": "string"}], "additionalItems": {"type": "string"}},
            "none": {"type": "array", "items": [], "additionalItems": false},
            "size": {"type": "number", "minimum": 0, "exclusiveMinimum": true, "maximum": 9, "exclusiveMaximum": false},
        },
    })
}

#[test]
fn a_tuple_is_not_part_of_a_strict_subset() {
    for (dialect, strict) in
        [(Dialect::OpenAiChatStrict, "/0/function/strict"), (Dialect::AnthropicStrict, "/0/strict")]
    {
        let (declaration, lost) = declared(dialect, old_shape());
        assert_ne!(declaration.pointer(strict), Some(&json!(true)));
        assert!(
            lost[0].contains("properties.pair.prefixItems: not strict: `prefixItems` cannot be expressed"),
            "{lost:?}"
        );
    }
}

#[test]
fn strict_closes_objects_and_makes_optional_nullable() {
    let parameters = json!({
        "type": "object",
        "properties": {
            "to": {"type": "string", "format": "email", "default": "x"},
            "cc": {"type": "array", "items": {"type": "string"}},
            "mode": {"type": "string", "enum": ["a", "b"]},
            "size": {"$ref": "#/$defs/size", "description": "How large"},
            "either": {"anyOf": [{"type": "string"}, {"type": "number"}]},
            "at": {"type": "object", "properties": {"x": {"type": "number"}}},
        },
        "required": ["to"],
        "$defs": {"size": {"type": "integer", "minimum": 1}},
    });
    check(
        Dialect::OpenAiChatStrict,
        parameters,
        "/0/function",
        json!({
            "name": "my_tool_12345678",
            "description": "Does things",
            "parameters": {
                "type": "object",
                "$defs": {"size": {"type": "integer", "minimum": 1}},
                "properties": {
                    "to": {"type": "string", "format": "email"},
                    "cc": {"type": ["array", "null"], "items": {"type": "string"}},
                    "mode": {"type": ["string", "null"], "enum": ["a", "b", null]},
                    "size": {"anyOf": [{"$ref": "#/$defs/size"}, {"type": "null"}], "description": "How large"},
                    "either": {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "null"}]},
                    "at": {
                        "type": ["object", "null"],
                        "properties": {"x": {"type": ["number", "null"]}},
                        "required": ["x"],
                        "additionalProperties": false,
                    },
                },
                "required": ["to", "cc", "mode", "size", "either", "at"],
                "additionalProperties": false,
            },
            "strict": true,
        }),
        &[],
    );
}

#[test]
fn strict_reports_what_it_weakened() {
    check(
        Dialect::OpenAiChatStrict,
        json!({"properties": {"a": {"type": "string", "format": "uri", "description": "Where."}, "b": {"oneOf": [{"type": "null"}, {"type": "string"}]}}, "required": ["a", "b"]}),
        "/0/function/parameters/properties",
        json!({"a": {"type": "string", "description": "Where. Format: uri."}, "b": {"anyOf": [{"type": "null"}, {"type": "string"}]}}),
        &[
            "tool `my.tool`: properties.a.format: `format` is not supported; the description states it instead",
            "tool `my.tool`: properties.b.oneOf: `oneOf` became `anyOf`: the model does not know that only one may match",
        ],
    );
}

#[test]
fn what_cannot_be_strict_is_declared_without() {
    for (property, loss) in [
        (json!({"type": "object"}), "properties.p: not strict: an object must say what its properties are"),
        (
            json!({"type": "object", "properties": {}, "additionalProperties": {"type": "string"}}),
            "properties.p: not strict: an object with free keys cannot be expressed",
        ),
        (json!({"type": "array"}), "properties.p: not strict: an array must say what its items are"),
        (
            json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true}),
            "properties.p.uniqueItems: not strict: `uniqueItems` cannot be expressed",
        ),
        (json!({"not": {"type": "string"}}), "properties.p.not: not strict: `not` cannot be expressed"),
        (json!({}), "properties.p: not strict: a schema that takes anything cannot be expressed"),
        (json!(true), "properties.p: not strict: a schema that takes anything or nothing cannot be expressed"),
    ] {
        let (declaration, losses) = declared(Dialect::OpenAiChatStrict, json!({"properties": {"p": property}}));
        assert_eq!(declaration[0]["function"]["strict"], json!(false));
        assert_eq!(losses, [format!("tool `my.tool`: {loss}")]);
    }
}

#[test]
fn anthropic_strict_closes_objects_and_describes_bounds() {
    check(
        Dialect::AnthropicStrict,
        json!({"type": "object", "properties": {
            "email": {"type": "string", "format": "email", "pattern": "@", "description": "Whose"},
            "site": {"type": "string", "format": "iri"},
            "count": {"type": "integer", "minimum": 1, "default": 3},
            "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 5},
            "kind": {"oneOf": [{"const": "a"}, {"type": "object", "properties": {"x": {"$ref": "#/$defs/x"}}, "required": ["x"]}]},
        }, "required": ["email"], "$defs": {"x": {"enum": [1, 2]}}}),
        "/0",
        json!({
            "name": "my_tool_12345678", "description": "Does things", "strict": true,
            "input_schema": {"type": "object", "properties": {
                "email": {"type": "string", "format": "email", "description": "Whose (pattern: \"@\")"},
                "site": {"type": "string", "description": "format: \"iri\""},
                "count": {"type": "integer", "default": 3, "description": "minimum: 1"},
                "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "description": "maxItems: 5"},
                "kind": {"anyOf": [
                    {"const": "a"},
                    {"type": "object", "properties": {"x": {"$ref": "#/$defs/x"}}, "required": ["x"], "additionalProperties": false},
                ]},
            }, "required": ["email"], "$defs": {"x": {"enum": [1, 2]}}, "additionalProperties": false},
        }),
        &[
            "tool `my.tool`: properties.email.pattern: `pattern` is not supported; the description states it instead",
            "tool `my.tool`: properties.site.format: `format` is not supported; the description states it instead",
            "tool `my.tool`: properties.count.minimum: `minimum` is not supported; the description states it instead",
            "tool `my.tool`: properties.tags.maxItems: `maxItems` is not supported; the description states it instead",
            "tool `my.tool`: properties.kind.oneOf: `oneOf` became `anyOf`: the model does not know that only one may match",
        ],
    );
}

#[test]
fn what_anthropic_strict_cannot_express_is_declared_without() {
    for (property, reason) in [
        (json!({}), "properties.a: not strict: a schema that takes anything cannot be expressed"),
        (json!({"type": "object"}), "properties.a: not strict: an object with free keys cannot be expressed"),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            "properties.a.additionalProperties: not strict: `additionalProperties` cannot be expressed",
        ),
        (json!({"type": "string", "not": {"const": "x"}}), "properties.a.not: not strict: `not` cannot be expressed"),
    ] {
        let parameters = json!({"type": "object", "properties": {"a": property}});
        let (declaration, lost) = declared(Dialect::AnthropicStrict, parameters.clone());
        assert_eq!(declaration[0]["input_schema"], parameters, "{declaration:#}");
        assert!(declaration[0].get("strict").is_none());
        assert_eq!(lost, [format!("tool `my.tool`: {reason}")]);
    }
}

#[test]
fn a_dialect_is_found_at_its_index() {
    for dialect in Dialect::ALL {
        assert_eq!(Dialect::ALL[dialect.index()], dialect);
    }
}
