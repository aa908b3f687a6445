//! Malicious schemas and arguments. Everything here must terminate with a verdict.

use std::sync::Arc;

use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
use serde_json::{Map, Value, json};

use super::super::{Schema, dialect::Dialect, faults};
use crate::tool::{
    Binding, Tool, definition,
    toolset::{ToolSources, Toolset},
};

/// Two hundred patterns that keep a backtracking engine busy for years.
fn catastrophic_patterns() -> Vec<String> {
    let inner = ["a", "a+", "a*", "[a-z]+", "a|a", "a|ab?", "(a|aa)", "\\w+", ".*", "[a-z\\d]*"];
    let around = [
        "^({})+$",
        "^({})*b$",
        "({})+!",
        "^(({})+)+$",
        "^({}){1,20}$",
        "({})*({})*({})*x",
        "^(({})|({}))*$",
        "^.*({})+.*y$",
        "^({}\\s?)+z$",
        "^(({}),?)*#$",
        "({})+@({})+\\.({})+$",
        "^({})+({})+({})+$",
        "(x+x+)+({})y",
        "^((a{0,9}){0,9}{})$",
        "^({})*?$",
        "(?:({})+)+=",
        "^[^=]*({})+=$",
        "^({})+(\\d+)+$",
        "^(({})*)*$",
        "({})+({})+q",
    ];
    around.iter().flat_map(|around| inner.iter().map(|inner| around.replace("{}", inner))).collect()
}

#[test]
fn catastrophic_patterns_are_matched_in_linear_time_or_refused() {
    let patterns = catastrophic_patterns();
    assert_eq!(patterns.len(), 200);
    let texts = ["a".repeat(100_000), "a".repeat(50_000) + "!", "a1 ".repeat(30_000), "xxxx".repeat(20_000)];
    let mut compiled = 0;
    for pattern in patterns {
        let schema = json!({"type": "object", "properties": {"p": {"type": "string", "pattern": pattern}}});
        let Ok(schema) = Schema::compile(&Arc::new(schema)) else { continue };
        compiled += 1;
        for text in &texts {
            // Either verdict is right; that there is one is the point.
            let _ = schema.check_value(json!({"p": text}));
        }
    }
    assert!(compiled > 150, "only {compiled} of the patterns were tried");
}

#[test]
fn a_bomb_of_shared_references_is_bounded() {
    for combine in ["allOf", "anyOf", "oneOf"] {
        let mut definitions = Map::new();
        for level in 0..60 {
            let next = json!({"$ref": format!("#/$defs/{}", level + 1)});
            definitions.insert(level.to_string(), json!({combine: [next, next, {"$anchor": format!("x{level}")}]}));
        }
        definitions.insert("60".to_owned(), json!({"type": "object"}));
        let error = Schema::compile(&Arc::new(json!({"$ref": "#/$defs/0", "$defs": definitions}))).unwrap_err();
        assert_eq!(error.fault.code(), "schema_too_costly", "{combine}");
    }
}

#[test]
fn names_of_object_prototypes_are_ordinary_names() {
    let schema = json!({
        "type": "object", "properties": {"toString": {"type": "string"}}, "required": ["toString", "__proto__"],
        "additionalProperties": false,
    });
    let schema = Schema::compile(&Arc::new(schema)).unwrap();
    let messages: Vec<String> = schema
        .check_arguments(r#"{"constructor": 1}"#)
        .unwrap_err()
        .into_iter()
        .map(|violation| violation.message)
        .collect();
    assert_eq!(
        messages,
        [
            "Missing required parameter: toString",
            "Missing required parameter: __proto__",
            "Unknown parameter: constructor",
        ]
    );
}

#[test]
fn magic_keys_of_serde_are_ordinary_keys() {
    let schema = Schema::compile(&Arc::new(json!({"type": "object"}))).unwrap();
    for key in ["$serde_json::private::RawValue", "$serde_json::private::Number"] {
        let text = json!({"a": {key: "[1]"}}).to_string();
        assert_eq!(schema.check_arguments(&text).unwrap().into_value().to_string(), text);
    }
}

/// Schemas that use every construct, well or badly.
fn any_schema() -> impl Strategy<Value = Value> {
    let reference = prop_oneof![
        Just("#"),
        Just("#/$defs/a"),
        Just("#/properties/p"),
        Just("#a"),
        Just("#/nowhere"),
        Just("http://x/y"),
        Just("#/$defs/a/items"),
    ];
    let leaf = prop_oneof![
        Just(json!({})),
        Just(json!(true)),
        Just(json!(false)),
        Just(json!({"type": "string", "nullable": true})),
        Just(json!({"type": ["integer", "null"], "minimum": 1})),
        Just(json!({"enum": ["a", 1, null]})),
        Just(json!({"const": {"optional": true}})),
        Just(json!({"type": "string", "pattern": "^a+$", "format": "email"})),
        Just(json!({"type": "array"})),
        Just(json!({"type": "nonsense", "pattern": "("})),
        reference.prop_map(|reference| json!({"$ref": reference})),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let list = prop::collection::vec(inner.clone(), 1..3);
        prop_oneof![
            (inner.clone(), inner.clone(), any::<bool>(), any::<bool>()).prop_map(|(p, q, required, optional)| {
                let mut p = p;
                if let (Value::Object(fields), true) = (&mut p, optional) {
                    fields.insert("optional".to_owned(), json!(true));
                }
                let required = if required { json!(["p"]) } else { json!([]) };
                json!({"type": "object", "properties": {"p": p, "input": q}, "required": required, "additionalProperties": false})
            }),
            (list, prop_oneof![Just("allOf"), Just("anyOf"), Just("oneOf"), Just("prefixItems"), Just("items")])
                .prop_map(|(list, keyword)| json!({keyword: list})),
            (
                inner.clone(),
                prop_oneof![
                    Just("not"), Just("items"), Just("additionalProperties"), Just("contains"), Just("if"), Just("propertyNames"),
                    Just("unevaluatedProperties"),
                ]
            )
                .prop_map(|(schema, keyword)| json!({keyword: schema})),
            (inner.clone(), inner).prop_map(|(a, p)| json!({"$defs": {"a": a}, "properties": {"p": p}, "$anchor": "a"})),
        ]
    })
}

fn any_arguments() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        Just(json!("a")),
        Just(json!(1.5)),
        Just(json!(1)),
        Just(json!([])),
        Just(json!({})),
        Just(json!(true)),
    ];
    leaf.prop_recursive(5, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::btree_map(prop_oneof![Just("p"), Just("input"), Just("z")], inner, 0..3).prop_map(
                |members| { Value::Object(members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()) }
            ),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_compiled_schema_validates_any_arguments(schema in any_schema(), arguments in any_arguments()) {
        let source = Arc::new(schema);
        match Schema::compile(&source) {
            Err(_) => prop_assert!(!faults(&source).is_empty(), "a refusal has a fault that is found without compiling"),
            Ok(schema) => {
                prop_assert_eq!(faults(&source), []);
                match schema.check_value(arguments) {
                    Err(violations) => prop_assert!(!violations.is_empty()),
                    Ok(checked) => {
                        // Accepted arguments need no second repair.
                        let value = checked.into_value();
                        let again = schema.check_value(value.clone()).unwrap();
                        prop_assert!(again.dropped.is_empty());
                        prop_assert_eq!(again.into_value(), value);
                    }
                }
            }
        }
    }

    #[test]
    fn every_dialect_writes_json_or_quarantines(schema in any_schema()) {
        let toolset = Toolset::merge(ToolSources::Client, vec![], vec![Tool::new("t", "", schema, Binding::External)]);
        for dialect in Dialect::ALL {
            let declarations = toolset.declarations(dialect);
            let declared: Value = serde_json::from_str(&declarations.json).unwrap();
            prop_assert_eq!(declared.as_array().map(Vec::len), Some(1 - declarations.quarantined.len()));
        }
        let again = Toolset::from_document(&toolset.to_document()).unwrap();
        prop_assert_eq!(again.hash(), toolset.hash());
    }

    #[test]
    fn a_derived_schema_is_a_valid_schema(schema in any_schema()) {
        let toolset = Toolset::merge(ToolSources::Client, vec![], vec![Tool::new("t", "", schema, Binding::External)]);
        for (dialect, pointer) in [
            (Dialect::OpenAiChat, "/0/function/parameters"),
            (Dialect::OpenAiChatStrict, "/0/function/parameters"),
            (Dialect::Anthropic, "/0/input_schema"),
        ] {
            let declared: Value = serde_json::from_str(&toolset.declarations(dialect).json).unwrap();
            if let Some(parameters) = declared.pointer(pointer) {
                prop_assert_eq!(faults(parameters), [], "{:?} {}", dialect, parameters);
            }
        }
    }

    #[test]
    fn definitions_of_any_form_get_a_verdict(definitions in any_arguments(), schema in any_schema()) {
        for rules in [definition::Rules::Strict, definition::Rules::Open] {
            let _ = definition::check(&definitions, rules);
            let _ = definition::check(&json!([{"name": "x", "description": "x", "parameters": schema}]), rules);
        }
    }

    #[test]
    fn arguments_of_any_text_get_a_verdict(text in "\\PC{0,60}") {
        let schema = Schema::compile(&Arc::new(json!({"type": "object", "properties": {"a": {"type": "string"}}}))).unwrap();
        if let Ok(checked) = schema.check_arguments(&text) {
            prop_assert!(checked.into_value().is_object());
        }
    }
}
