#![expect(clippy::needless_pass_by_value, reason = "a table of cases reads better without borrows")]

use bosun_core::Binding;
use serde_json::json;

use super::*;

fn tool(parameters: Value) -> Tool {
    Tool::new("my.tool", "Does things", parameters, Binding::External)
}

fn declared(dialect: AnyDialect, parameters: Value) -> (Value, Vec<String>) {
    let declarations = dialect.declare([(&tool(parameters), "my_tool_12345678")].into_iter());
    assert_eq!(declarations.quarantined, []);
    let losses = declarations.losses.iter().map(ToString::to_string).collect();
    (serde_json::from_str(&declarations.json).unwrap(), losses)
}

#[track_caller]
fn check(dialect: AnyDialect, parameters: Value, pointer: &str, expect: Value, losses: &[&str]) {
    let (declaration, lost) = declared(dialect, parameters);
    assert_eq!(declaration.pointer(pointer), Some(&expect), "{declaration:#}");
    assert_eq!(lost, losses);
}

fn simple() -> Value {
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"a": {"type": "string", "x-mine": 1}, "b": {"type": "integer"}},
        "required": ["a"],
    })
}

fn clean() -> Value {
    json!({
        "type": "object",
        "properties": {"a": {"type": "string", "x-mine": 1}, "b": {"type": "integer"}},
        "required": ["a"],
    })
}

#[test]
fn each_api_has_its_envelope() {
    check(
        AnyDialect::Served(Dialect::OpenAiChat),
        simple(),
        "/0",
        json!({"type": "function", "function": {"name": "my_tool_12345678", "description": "Does things", "parameters": clean()}}),
        &[],
    );
    check(
        AnyDialect::Served(Dialect::OpenAiResponses),
        simple(),
        "/0",
        json!({"type": "function", "name": "my_tool_12345678", "description": "Does things", "parameters": clean(), "strict": false}),
        &[],
    );
    check(
        AnyDialect::Served(Dialect::Anthropic),
        simple(),
        "/0",
        json!({"name": "my_tool_12345678", "description": "Does things", "input_schema": clean()}),
        &[],
    );
    check(
        AnyDialect::Gemini,
        simple(),
        "/0/functionDeclarations/0",
        json!({"name": "my_tool_12345678", "description": "Does things", "parametersJsonSchema": clean()}),
        &[],
    );
    check(
        AnyDialect::Mcp,
        simple(),
        "/0",
        json!({"name": "my.tool", "description": "Does things", "inputSchema": simple()}),
        &[],
    );
    check(
        AnyDialect::Ark,
        simple(),
        "/0",
        json!({"type": "custom", "name": "my.tool", "description": "Does things", "parameters": simple(), "executionMode": "external"}),
        &[],
    );
}

#[test]
fn the_seeds_calculator_is_an_ark_tool_to_the_letter() {
    let parameters = json!({
        "type": "object",
        "properties": {"expression": {"type": "string", "description": "Mathematical expression to evaluate"}},
        "required": ["expression"],
    });
    let calculator =
        Tool::new("calculator", "Perform mathematical calculations", parameters.clone(), Binding::External);
    let declarations = AnyDialect::Ark.declare([(&calculator, "calculator")].into_iter());
    assert_eq!(
        serde_json::from_str::<Value>(&declarations.json).unwrap(),
        json!([{
            "type": "custom", "name": "calculator", "description": "Perform mathematical calculations",
            "parameters": parameters, "executionMode": "external",
        }])
    );
}

#[test]
fn what_is_missing_at_the_root_is_filled_in() {
    for dialect in [
        AnyDialect::Served(Dialect::OpenAiChat),
        AnyDialect::Served(Dialect::OpenAiResponses),
        AnyDialect::Served(Dialect::Anthropic),
        AnyDialect::Gemini,
        AnyDialect::Ollama,
        AnyDialect::Mcp,
    ] {
        let (declaration, _) = declared(dialect, json!({}));
        let text = declaration.to_string();
        assert!(text.contains(r#"{"type":"object","properties":{}}"#), "{text}");
    }
}

#[test]
fn extensions_never_reach_an_api() {
    let parameters = json!({"type": "object", "properties": {
        "a": {"type": "string", "optional": true, "nullable": true, "prompt": "?", "hint": "!"}, "optional": {"type": "boolean"},
    }});
    for dialect in AnyDialect::ALL {
        if dialect == AnyDialect::Ark {
            continue;
        }
        let (declaration, _) = declared(dialect, parameters.clone());
        let text = declaration.to_string();
        for word in ["prompt", "hint"] {
            assert!(!text.contains(word), "{text}");
        }
        if dialect == AnyDialect::GeminiOpenApi {
            assert!(text.contains(r#""nullable":true"#), "the word of OpenAPI: {text}");
        } else {
            assert!(!text.contains("nullable") && text.contains(r#"["string","null"]"#), "{text}");
        }
        assert!(text.contains(r#""optional":{"type":"#), "a property named so stays: {text}");
    }
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
fn tuples_and_boolean_bounds_are_declared_as_2020_12() {
    let properties = |items: Value| {
        let mut properties = json!({
            "pair": {"type": "array", "minItems": 2, "maxItems": 2, "prefixItems": [{"type": "string"}, {"type": "number"}]},
            "same": {"$ref": "#/properties/pair/prefixItems/1"},
            "rest": {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "string"}},
            "none": {"type": "array", "items": false},
            "size": {"type": "number", "exclusiveMinimum": 0, "maximum": 9},
        });
        if !items.is_null() {
            properties["pair"]["items"] = items;
        }
        properties
    };
    for (dialect, pointer, items) in [
        // An array must say what its items are.
        (AnyDialect::Served(Dialect::OpenAiChat), "/0/function/parameters/properties", json!({})),
        (AnyDialect::Served(Dialect::OpenAiResponses), "/0/parameters/properties", json!({})),
        (AnyDialect::Served(Dialect::Anthropic), "/0/input_schema/properties", Value::Null),
        (AnyDialect::Gemini, "/0/functionDeclarations/0/parametersJsonSchema/properties", Value::Null),
        (AnyDialect::Mcp, "/0/inputSchema/properties", Value::Null),
    ] {
        check(dialect, old_shape(), pointer, properties(items), &[]);
    }
    check(AnyDialect::Ark, old_shape(), "/0/parameters", old_shape(), &[]);
    // A schema that names its draft is read as that by MCP.
    let mut named = old_shape();
    named["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    named["properties"].as_object_mut().unwrap().retain(|name, _| ["pair", "same", "rest"].contains(&name.as_str()));
    check(AnyDialect::Mcp, named.clone(), "/0/inputSchema", named, &[]);
}

#[test]
fn a_tuple_that_cannot_be_expressed_is_reported_as_a_loss() {
    check(
        AnyDialect::GeminiOpenApi,
        old_shape(),
        "/0/functionDeclarations/0/parameters/properties",
        json!({
            "pair": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "number"}]}, "minItems": 2, "maxItems": 2},
            "same": {"type": "number"},
            "rest": {"type": "array", "items": {"type": "string"}},
            "none": {"type": "array"},
            "size": {"type": "number", "maximum": 9, "description": "exclusiveMinimum: 0"},
        }),
        &[
            "tool `my.tool`: properties.pair.prefixItems: `prefixItems` is not supported; the model sees which items are allowed, but not at which position",
            "tool `my.tool`: properties.rest.prefixItems: `prefixItems` is not supported; the model sees which items are allowed, but not at which position",
            "tool `my.tool`: properties.none.items: `items` is not supported; the model does not see it",
            "tool `my.tool`: properties.size.exclusiveMinimum: `exclusiveMinimum` is not supported; the description states it instead",
        ],
    );
    let (declaration, lost) = declared(AnyDialect::Ollama, old_shape());
    assert_eq!(
        declaration.pointer("/0/function/parameters/properties/pair"),
        Some(
            &json!({"type": "array", "description": r#"items, in this order: [{"type":"string"},{"type":"number"}]"#})
        )
    );
    assert!(lost[2].contains("`prefixItems` is not supported; the description states it instead"), "{lost:?}");
}

#[test]
fn ollama_gets_the_subset_that_it_supports() {
    check(
        AnyDialect::Ollama,
        json!({
            "type": "object",
            "properties": {
                "a": {"$ref": "#/$defs/name", "description": "Near"},
                "b": {"anyOf": [{"type": "null"}, {"type": "integer", "minimum": 1}]},
                "c": {"oneOf": [{"type": "string"}, {"type": "number"}], "title": "C"},
                "d": {"const": 5},
                "e": {"type": "object", "properties": {}},
                "f": {"type": "array", "items": {"type": "string", "pattern": "^a"}},
            },
            "required": ["a"],
            "additionalProperties": false,
            "$defs": {"name": {"type": "string", "description": "Far"}},
        }),
        "/0/function/parameters",
        json!({
            "type": "object",
            "properties": {
                "a": {"type": "string", "description": "Near"},
                "b": {"type": "integer"},
                "c": {"type": "string"},
                "d": {"enum": [5]},
                "e": {"type": "object"},
                "f": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["a"],
        }),
        &[
            "tool `my.tool`: properties.b.anyOf[1].minimum: `minimum` is not supported; the model does not see it",
            "tool `my.tool`: properties.c.oneOf: `oneOf` is not supported; the model sees only its first alternative",
            "tool `my.tool`: properties.f.items.pattern: `pattern` is not supported; the model does not see it",
            "tool `my.tool`: additionalProperties: `additionalProperties` is not supported; the model does not see it",
        ],
    );
}

#[test]
fn a_recursive_schema_is_expanded_to_a_maximum_depth() {
    let (declaration, losses) = declared(AnyDialect::Ollama, json!({"properties": {"next": {"$ref": "#"}}}));
    assert!(declaration.to_string().len() < 2_000);
    assert_eq!(losses.len(), 1);
    let twice = json!({"properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}, "c": {"$ref": "#"}}});
    let (declaration, _) = declared(AnyDialect::Ollama, twice);
    assert!(declaration.to_string().len() < 200_000);
}

#[test]
fn a_tool_that_cannot_be_expressed_is_quarantined_and_the_others_go() {
    let bad = [
        tool(json!({"type": "string"})),
        tool(json!({"properties": {"p": {"$ref": "https://example.com/x"}}})),
        tool(json!({"properties": {"p": {"optional": true}}, "required": ["p"]})),
        tool(json!(false)),
    ];
    let good = tool(simple());
    for dialect in AnyDialect::ALL {
        let tools = bad.iter().chain([&good]).map(|tool| (tool, "alias"));
        let declarations = dialect.declare(tools);
        assert_eq!(declarations.quarantined.len(), 4, "{dialect:?}");
        let text = declarations.json;
        assert!(text.contains("Does things"), "{text}");
    }
    let declarations = AnyDialect::Gemini.declare([(&tool(json!({"properties": {"a-b": {}}})), "x")].into_iter());
    assert_eq!(declarations.json, "[]");
    assert_eq!(
        declarations.quarantined[0].reason,
        "parameter `a-b` has a name that Gemini does not accept: it needs a letter or `_`, then letters, digits and `_`, at most 64"
    );
}

#[test]
fn names_of_dialects_are_read_back() {
    for dialect in AnyDialect::ALL {
        assert_eq!(AnyDialect::parse(dialect.as_str()), Some(dialect));
    }
    assert_eq!(AnyDialect::parse("cobol"), None);
}

#[test]
fn gemini_openapi_expresses_its_subset() {
    check(
        AnyDialect::GeminiOpenApi,
        json!({"type": "object", "additionalProperties": false, "properties": {
            "name": {"type": ["string", "null"], "format": "email", "minLength": 1, "description": "Whose"},
            "level": {"enum": [1, 2]},
            "kind": {"const": "a"},
            "either": {"type": ["string", "integer"], "minLength": 2, "minimum": 3, "description": "Both"},
            "place": {"$ref": "#/$defs/place", "description": "Where"},
            "choice": {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "number"}}, {"type": "null"}]},
            "any": true,
            "when": {"type": "string", "format": "date-time"},
            "above": {"type": "number", "exclusiveMinimum": 0},
        }, "required": ["name"], "$defs": {"place": {"type": "object", "properties": {"city": {"type": "string"}}, "patternProperties": {"^x": {}}}}}),
        "/0/functionDeclarations/0/parameters",
        json!({"type": "object", "properties": {
            "name": {"type": "string", "nullable": true, "description": "Whose (format: \"email\")", "minLength": 1},
            "level": {"type": "integer", "description": "enum: [1,2]"},
            "kind": {"type": "string", "enum": ["a"]},
            "either": {"anyOf": [{"type": "string", "minLength": 2}, {"type": "integer", "minimum": 3}], "description": "Both"},
            "place": {"type": "object", "properties": {"city": {"type": "string"}}, "description": "Where"},
            "choice": {"nullable": true, "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "number"}}]},
            "any": {"type": "string"},
            "when": {"type": "string", "format": "date-time"},
            "above": {"type": "number", "description": "exclusiveMinimum: 0"},
        }, "required": ["name"]}),
        &[
            "tool `my.tool`: properties.name.format: `format` is not supported; the description states it instead",
            "tool `my.tool`: properties.level.enum: `enum` is not supported; the description states it instead",
            "tool `my.tool`: properties.place.patternProperties: `patternProperties` is not supported; the model does not see it",
            "tool `my.tool`: properties.choice.oneOf: `oneOf` became `anyOf`: the model does not see that only one may match",
            "tool `my.tool`: properties.any: accepts any type; the model sees a string",
            "tool `my.tool`: properties.above.exclusiveMinimum: `exclusiveMinimum` is not supported; the description states it instead",
        ],
    );
}

#[test]
fn gemini_openapi_has_no_parameters_for_a_tool_that_takes_none() {
    for parameters in [json!({}), json!({"type": "object", "properties": {}})] {
        let (declaration, _) = declared(AnyDialect::GeminiOpenApi, parameters);
        let function = declaration.pointer("/0/functionDeclarations/0");
        assert_eq!(function, Some(&json!({"name": "my_tool_12345678", "description": "Does things"})));
    }
}

#[test]
fn definitions_that_nothing_refers_to_are_left_out() {
    let parameters = json!({
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/used"}},
        "$defs": {
            "used": {"type": "object", "properties": {"b": {"$ref": "#/$defs/through"}}},
            "through": {"type": "string"},
            "unused": {"anyOf": [{"$ref": "#/$defs/lonely"}]},
            "lonely": {"type": "number"},
        },
    });
    for dialect in [AnyDialect::Served(Dialect::OpenAiChat), AnyDialect::Served(Dialect::Anthropic), AnyDialect::Gemini]
    {
        let (declaration, lost) = declared(dialect, parameters.clone());
        let text = declaration.to_string();
        assert!(text.contains("through") && !text.contains("unused") && !text.contains("lonely"), "{text}");
        assert_eq!(lost, [""; 0]);
    }
    // A name that is not a path may mean any of them.
    let anchored =
        json!({"properties": {"a": {"$ref": "#here"}}, "$defs": {"x": {"$anchor": "here", "type": "string"}}});
    assert!(declared(AnyDialect::Gemini, anchored).0.to_string().contains("here"));
}

#[test]
fn gemini_openapi_bounds_a_recursion() {
    let parameters = json!({"type": "object", "properties": {"node": {"$ref": "#/$defs/node"}}, "$defs": {
        "node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}},
    }});
    let (declaration, lost) = declared(AnyDialect::GeminiOpenApi, parameters);
    assert!(!declaration.to_string().contains("$ref"));
    assert_eq!(lost.len(), 1);
    assert!(lost[0].ends_with("is too deep or too large; the model sees a plain object"), "{lost:?}");
}
