mod malicious;

use serde_json::json;

use super::*;

#[track_caller]
fn compile(source: Value) -> Schema {
    Schema::compile(&Arc::new(source)).unwrap()
}

#[track_caller]
fn check(source: Value, arguments: &str, expect: &[&str]) {
    let messages: Vec<String> = match compile(source).check_arguments(arguments) {
        Ok(_) => Vec::new(),
        Err(violations) => violations.into_iter().map(|violation| violation.message).collect(),
    };
    assert_eq!(messages, expect);
}

fn search_database() -> Value {
    json!({
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "Search query"},
            "limit": {"type": "integer", "description": "Max results", "minimum": 1, "maximum": 100},
        },
        "required": ["query"],
    })
}

#[test]
fn correct_arguments_pass() {
    check(search_database(), r#"{"query": "test", "limit": 10}"#, &[]);
    check(search_database(), r#"{"query": "test", "limit": 10.0}"#, &[]);
}

#[test]
fn a_missing_required_parameter_is_named() {
    check(search_database(), r#"{"limit": 10}"#, &["Missing required parameter: query"]);
}

#[test]
fn a_wrong_type_is_named() {
    check(search_database(), r#"{"query": 5}"#, &["Parameter query has wrong type: expected string, got number"]);
    check(
        search_database(),
        r#"{"query": "x", "limit": "ten"}"#,
        &["Parameter limit has wrong type: expected integer, got string"],
    );
}

#[test]
fn a_fraction_is_not_an_integer() {
    check(search_database(), r#"{"query": "x", "limit": 2.5}"#, &["Parameter limit must be an integer, got: 2.5"]);
}

#[test]
fn extra_parameters_are_allowed_by_default() {
    check(search_database(), r#"{"query": "x", "extra": 1}"#, &[]);
}

#[test]
fn extra_parameters_are_unknown_when_the_schema_is_closed() {
    let mut schema = search_database();
    schema["additionalProperties"] = json!(false);
    check(schema, r#"{"query": "x", "b": 1, "a": 2}"#, &["Unknown parameter: b", "Unknown parameter: a"]);
}

#[test]
fn arguments_must_be_an_object() {
    for text in ["null", "[]", "\"text\"", "5"] {
        check(search_database(), text, &["Arguments are not valid: must be an object."]);
    }
    check(json!(true), "[]", &["Arguments are not valid: must be an object."]);
}

#[test]
fn arguments_must_be_strict_json() {
    check(
        search_database(),
        r#"{"query": "x""#,
        &["Invalid tool arguments JSON: EOF while parsing an object at line 1 column 13"],
    );
    check(
        search_database(),
        r#"{"query": "x", "query": "y"}"#,
        &["Invalid tool arguments JSON: key `query` appears twice in one object, at line 1 column 22"],
    );
}

#[test]
fn empty_text_is_no_arguments() {
    check(search_database(), " \n", &["Missing required parameter: query"]);
    check(json!({"type": "object"}), "", &[]);
}

fn order() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "address": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "zip": {"type": "string"}},
                "required": ["zip", "city"],
                "additionalProperties": false,
            },
            "tags": {"type": "array", "items": {"type": "string", "minLength": 2}},
            "age": {"type": "integer", "minimum": 0},
            "a.b": {"type": "string"},
        },
        "required": ["name", "age"],
        "additionalProperties": false,
    })
}

#[test]
fn all_faults_come_at_once_in_a_stable_order() {
    let arguments = r#"{"z": 1, "tags": ["x", 5, "ok"], "address": {"city": 7, "street": "s"}, "a.b": 1}"#;
    for _ in 0..3 {
        check(
            order(),
            arguments,
            &[
                "Missing required parameter: name",
                "Missing required parameter: age",
                "Missing required parameter: address.zip",
                "Unknown parameter: z",
                "Unknown parameter: address.street",
                "Parameter [\"a.b\"] has wrong type: expected string, got number",
                "Parameter address.city has wrong type: expected string, got number",
                "Parameter tags[1] has wrong type: expected string, got number",
                "Parameter tags[0] must have at least 2 characters, got: 1",
            ],
        );
    }
}

#[test]
fn every_keyword_has_a_sentence() {
    let property = |schema: Value, value: Value, expect: &str| {
        let schema = json!({"type": "object", "properties": {"p": schema}});
        check(schema, &json!({"p": value}).to_string(), &[expect]);
    };
    property(json!({"enum": ["a", "b"]}), json!("c"), "Parameter p must be one of \"a\", \"b\", got: \"c\"");
    property(json!({"const": 1}), json!(2), "Parameter p must be 1, got: 2");
    property(json!({"minimum": 1}), json!(0), "Parameter p must be at least 1, got: 0");
    property(json!({"maximum": 1}), json!(2), "Parameter p must be at most 1, got: 2");
    property(json!({"exclusiveMinimum": 1}), json!(1), "Parameter p must be greater than 1, got: 1");
    property(json!({"exclusiveMaximum": 1}), json!(1), "Parameter p must be less than 1, got: 1");
    property(json!({"multipleOf": 0.01}), json!(0.005), "Parameter p must be a multiple of 0.01, got: 0.005");
    property(json!({"minLength": 3}), json!("äö"), "Parameter p must have at least 3 characters, got: 2");
    property(json!({"maxLength": 1}), json!("ab"), "Parameter p must have at most 1 character, got: 2");
    property(json!({"minItems": 1}), json!([]), "Parameter p must have at least 1 item, got: 0");
    property(json!({"maxItems": 1}), json!([1, 2]), "Parameter p must have at most 1 item, got: 2");
    property(json!({"minProperties": 1}), json!({}), "Parameter p must have at least 1 member, got: 0");
    property(json!({"maxProperties": 0}), json!({"a": 1}), "Parameter p must have at most 0 members, got: 1");
    property(json!({"pattern": "^a"}), json!("b"), "Parameter p must match the pattern ^a, got: \"b\"");
    property(json!({"uniqueItems": true}), json!([1, 1]), "Parameter p must not have the same item twice");
    property(
        json!({"contains": {"const": 1}}),
        json!([2]),
        "Parameter p must contain an item that its schema requires, and has none or the wrong number",
    );
    property(json!({"not": {"const": 1}}), json!(1), "Parameter p must not match {\"const\":1}, got: 1");
    property(json!(false), json!(1), "Parameter p is not allowed");
    property(
        json!({"type": ["string", "null"]}),
        json!(1),
        "Parameter p has wrong type: expected null or string, got number",
    );
    property(json!({"type": ["integer", "null"]}), json!(1.5), "Parameter p must be an integer, got: 1.5");
    property(json!({"type": "boolean"}), json!([]), "Parameter p has wrong type: expected boolean, got array");
    property(
        json!({"propertyNames": {"pattern": "^[a-z]+$"}}),
        json!({"A": 1}),
        "Parameter p has a name that is not allowed: \"A\" must match the pattern ^[a-z]+$, got: \"A\"",
    );
    property(json!({"prefixItems": [true], "items": false}), json!([1, 2]), "Parameter p[1] is not allowed");
    property(
        json!({"anyOf": [{"type": "number"}, {"type": "object", "required": ["kind"]}]}),
        json!({}),
        "Parameter p matches none of its 2 alternatives; closest: Missing required parameter: p.kind",
    );
    property(
        json!({"oneOf": [{"type": "number"}, {"minimum": 0}]}),
        json!(1),
        "Parameter p must match exactly one of its 2 alternatives, and matches several",
    );
    property(json!({"dependentRequired": {"a": ["b"]}}), json!({"a": 1}), "Missing required parameter: p.b");
}

#[test]
fn the_closest_alternative_is_the_one_with_the_right_tag() {
    let shape = json!({"oneOf": [
        {"type": "object", "properties": {"kind": {"const": "circle"}}, "required": ["kind"]},
        {"type": "object", "properties": {"kind": {"const": "square"}, "side": {"type": "number"}}, "required": ["kind", "side"]},
    ]});
    check(
        json!({"type": "object", "properties": {"shape": shape}}),
        r#"{"shape": {"kind": "square", "side": "x"}}"#,
        &["Parameter shape matches none of its 2 alternatives; closest: \
           Parameter shape.side has wrong type: expected number, got string"],
    );
}

#[test]
fn formats_are_asserted() {
    for (format, good, bad) in [
        ("email", "a@example.com", "no-at-sign"),
        ("uri", "https://example.com/a", "not a uri"),
        ("date-time", "2026-11-15T20:00:00Z", "today"),
        ("date", "2026-11-15", "2026-13-01"),
        ("time", "20:00:00Z", "25:00"),
        ("uuid", "6f9619ff-8b86-d011-b42d-00cf4fc964ff", "6f9619ff"),
        ("ipv4", "127.0.0.1", "256.0.0.1"),
        ("ipv6", "::1", ":::"),
        ("hostname", "example.com", "-a-"),
    ] {
        for draft in ["https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#"] {
            let schema =
                json!({"$schema": draft, "type": "object", "properties": {"p": {"type": "string", "format": format}}});
            check(schema.clone(), &json!({"p": good}).to_string(), &[]);
            check(
                schema,
                &json!({"p": bad}).to_string(),
                &[&format!("Parameter p must be in the format {format}, got: \"{bad}\"")],
            );
        }
    }
}

#[track_caller]
fn check_nulls(source: Value, arguments: &str, expect: Result<(Value, &[&str]), &[&str]>) {
    match (compile(source).check_arguments(arguments), expect) {
        (Ok(arguments), Ok((value, dropped))) => {
            assert_eq!(arguments.dropped, dropped);
            assert_eq!(arguments.into_value(), value);
        }
        (Err(violations), Err(expect)) => {
            let messages: Vec<_> = violations.iter().map(|violation| violation.message.as_str()).collect();
            assert_eq!(messages, expect);
        }
        (got, expect) => panic!("{got:?} instead of {expect:?}"),
    }
}

#[test]
fn a_null_for_an_optional_parameter_is_dropped_and_recorded() {
    check_nulls(search_database(), r#"{"query": "x", "limit": null}"#, Ok((json!({"query": "x"}), &["limit"])));
    check_nulls(
        json!({"type": "object", "properties": {"a": {"properties": {"b": {"anyOf": [{"type": "string"}, {"type": "number"}]}, "c": {"enum": [1]}}}}}),
        r#"{"a": {"b": null, "c": null, "d": null}}"#,
        Ok((json!({"a": {"d": null}}), &["a.b", "a.c"])),
    );
}

#[test]
fn a_null_that_is_allowed_stays() {
    check_nulls(
        json!({"type": "object", "properties": {"a": {"type": ["string", "null"]}, "b": {}}}),
        r#"{"a": null, "b": null}"#,
        Ok((json!({"a": null, "b": null}), &[])),
    );
}

#[test]
fn a_null_for_a_required_parameter_is_missing() {
    check_nulls(search_database(), r#"{"query": null}"#, Err(&["Missing required parameter: query"]));
}

#[test]
fn a_null_in_an_array_is_a_fault() {
    check_nulls(
        json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}}),
        r#"{"a": [null]}"#,
        Err(&["Parameter a[0] has wrong type: expected string, got null"]),
    );
}

#[track_caller]
fn refuses(source: Value, expect: &str) {
    assert_eq!(Schema::compile(&Arc::new(source)).unwrap_err().to_string(), expect);
}

#[test]
fn a_reference_stays_inside_the_schema() {
    let tail = "leads out of the schema; only `#…` is followed";
    for reference in ["https://example.com/schema.json", "other.json#/a", "file:///etc/passwd", "//host/x"] {
        refuses(
            json!({"type": "object", "properties": {"p": {"$ref": reference}}}),
            &format!("properties.p.$ref: reference `{reference}` {tail}"),
        );
    }
    refuses(json!({"$ref": "#/$defs/none"}), "$ref: reference `#/$defs/none` has no target in the schema");
    refuses(
        json!({"properties": {"p": {"$id": "https://example.com/x"}}}),
        "properties.p.$id: `$id` `https://example.com/x` below the root would change what the references next to it resolve to",
    );
    check(
        json!({"$defs": {"a b": {"type": "string", "$anchor": "text"}}, "properties": {"p": {"$ref": "#/$defs/a%20b"}, "q": {"$ref": "#text"}}}),
        r#"{"p": 1, "q": 2}"#,
        &[
            "Parameter p has wrong type: expected string, got number",
            "Parameter q has wrong type: expected string, got number",
        ],
    );
}

#[test]
fn a_reference_that_never_ends_is_refused() {
    let endless = "reference leads back to itself without descending into the value";
    refuses(json!({"$ref": "#"}), endless);
    refuses(
        json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"allOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"}),
        endless,
    );
    refuses(json!({"$anchor": "a", "not": {"$ref": "#a"}}), endless);
}

#[test]
fn a_recursive_schema_checks_recursive_values() {
    let tree = json!({"type": "object", "properties": {"value": {"type": "number"}, "left": {"$ref": "#"}, "right": {"$ref": "#"}}});
    check(
        tree.clone(),
        r#"{"value": 1, "left": {"right": {"value": "x"}}}"#,
        &["Parameter left.right.value has wrong type: expected number, got string"],
    );
    let deep = (0..63).fold("{}".to_owned(), |inner, _| format!("{{\"left\":{inner}}}"));
    check(tree, &deep, &[]);
}

#[test]
fn alternatives_that_multiply_are_bounded() {
    let double = |next: usize| json!([{"$ref": format!("#/$defs/{next}")}, {"$ref": format!("#/$defs/{next}")}]);
    let mut definitions = serde_json::Map::new();
    for level in 0..40 {
        definitions.insert(level.to_string(), json!({"allOf": double(level + 1)}));
    }
    definitions.insert("40".to_owned(), json!({"type": "object"}));
    refuses(
        json!({"$ref": "#/$defs/0", "$defs": definitions}),
        "schema could take too long to check: its alternatives multiply",
    );

    let recursive = json!({"properties": {"n": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}});
    check(recursive.clone(), r#"{"n": {"n": {}}}"#, &[]);
    let deep = (0..60).fold("{}".to_owned(), |inner, _| format!("{{\"n\":{inner}}}"));
    check(recursive, &deep, &["Arguments are too large and too deep for a schema with so many alternatives"]);
}

#[test]
fn a_schema_of_shared_definitions_compiles_quickly() {
    let mut definitions = serde_json::Map::new();
    for level in 0..60 {
        let next = json!({"$ref": format!("#/$defs/{}", level + 1)});
        definitions.insert(level.to_string(), json!({"properties": {"a": next.clone(), "b": next}}));
    }
    definitions.insert("60".to_owned(), json!({"type": "object"}));
    check(json!({"$ref": "#/$defs/0", "$defs": definitions}), r#"{"a": {"b": {}}}"#, &[]);
}

/// Each definition adds a parameter to those of the next, and every parameter is the whole again: counting the cost of
/// validating 13 KB took seconds, and a body has room for eighty of them. So the count itself is bounded too.
#[test]
fn a_schema_whose_cost_takes_too_long_to_count_is_refused() {
    let schema = |levels: usize| {
        let mut definitions = serde_json::Map::new();
        for level in 0..levels {
            let parameter = json!({format!("p{level}"): {"$ref": "#"}});
            let next = format!("#/$defs/{}", level + 1);
            definitions.insert(level.to_string(), json!({"$ref": next, "properties": parameter}));
        }
        definitions.insert(levels.to_string(), json!({}));
        json!({"allOf": [{"$ref": "#/$defs/0"}], "$defs": definitions})
    };
    check(schema(200), r#"{"p7": {"p9": {}}}"#, &[]);
    refuses(schema(300), "schema could take too long to check: its alternatives multiply");
}

/// Built by moves alone: `json!` would copy, and copying recurses.
fn nested(key: &str, depth: usize) -> Value {
    (0..depth).fold(json!({}), |inner, _| Value::Object([(key.to_owned(), inner)].into_iter().collect()))
}

#[test]
fn sizes_and_counts_are_bounded() {
    refuses(nested("not", 5_000), "schema is nested deeper than 64 levels");
    refuses(json!({"description": "x".repeat(300_000)}), "schema is larger than 262144 bytes");
    let many: serde_json::Map<String, Value> = (0..3_000).map(|index| (format!("p{index}"), json!({}))).collect();
    refuses(json!({"properties": many}), "schema has more than 2000 subschemas");
    let values: Vec<usize> = (0..1_001).collect();
    refuses(json!({"enum": values}), "enum: `enum` has 1001 values, and at most 1000 are allowed");
}

#[test]
fn a_schema_must_follow_its_draft() {
    refuses(
        json!({"properties": {"p": {"type": "strnig"}}}),
        "properties.p.type: `type` must be one of string, number, integer, boolean, array, object, null, \
         or a list of them, got: \"strnig\"",
    );
    refuses(
        json!({"$schema": "https://example.com/mine"}),
        "$schema: `$schema` `https://example.com/mine` is not a supported draft",
    );
    check(
        json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {"p": {"items": [{"type": "string"}]}}}),
        r#"{"p": [1, 2]}"#,
        &["Parameter p[0] has wrong type: expected string, got number"],
    );
}

#[test]
fn all_faults_of_a_schema_are_reported() {
    let found = faults(&json!({"properties": {
        "a": {"pattern": "[a"}, "b": {"$ref": "http://x"}, "c": {"type": "none"}, "d": {"patternProperties": {"(?=x)": {}}},
    }}));
    let codes: Vec<(&str, &str)> = found.iter().map(|error| (error.path.as_str(), error.fault.code())).collect();
    assert_eq!(
        codes,
        [
            ("properties.a.pattern", "pattern_invalid"),
            ("properties.d.patternProperties[\"(?=x)\"]", "pattern_not_linear"),
            ("properties.b.$ref", "reference_remote"),
            ("properties.c.type", "schema_invalid"),
        ]
    );
}

#[test]
fn a_value_deeper_than_any_stack_is_refused() {
    let schema = compile(json!({"type": "object", "additionalProperties": {"$ref": "#"}}));
    assert_eq!(schema.validate(&nested("a", 5_000))[0].message, "Arguments are nested deeper than 64 levels");
}

#[test]
fn a_null_inside_an_alternative_is_dropped_if_that_makes_it_fit() {
    let filter = json!({"anyOf": [
        {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "number"}}, "required": ["b"]},
        {"type": "string"},
    ]});
    let schema = json!({"type": "object", "properties": {"filter": filter}});
    check_nulls(schema.clone(), r#"{"filter": {"a": null, "b": 1}}"#, Ok((json!({"filter": {"b": 1}}), &["filter.a"])));
    check_nulls(
        schema,
        r#"{"filter": {"a": null}}"#,
        Err(&["Parameter filter matches none of its 2 alternatives; closest: \
               Missing required parameter: filter.b; \
               Parameter filter.a has wrong type: expected string, got null"]),
    );
}

#[test]
fn nullable_and_optional_are_understood() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string", "nullable": true}, "b": {"type": "string", "optional": true}}, "required": ["a"]});
    check_nulls(schema.clone(), r#"{"a": null, "b": null}"#, Ok((json!({"a": null}), &["b"])));
    assert_eq!(*compile(schema.clone()).source().as_ref(), schema, "the source is kept");
    refuses(
        json!({"properties": {"a": {"optional": true}}, "required": ["a"]}),
        "properties.a.optional: parameter is `optional: true` here and required in `required`",
    );
}

#[test]
fn a_long_list_of_faults_is_truncated() {
    let schema = json!({"type": "object", "required": ["z"], "properties": {"a": {"items": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}});
    let violations = compile(schema.clone()).check_value(json!({"a": vec![1; 1_000]})).unwrap_err();
    assert_eq!(violations.len(), 101);
    assert_eq!(violations[0].message, "Missing required parameter: z");
    assert_eq!(violations[100].message, "Arguments have 901 more faults");
    let violations = compile(schema).check_value(json!({"a": vec![1; 100_000]})).unwrap_err();
    assert_eq!(violations.len(), 1, "too many even to list");
}

/// What `z.email()` and `z.string().regex(/^(?=.*\d)(?=.*[A-Z])/)` of Zod 4 become.
#[test]
fn a_pattern_with_look_ahead_is_checked_within_bounds() {
    let schema = json!({"type": "object", "properties": {
        "email": {
            "type": "string", "format": "email",
            "pattern": r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$",
        },
        "password": {"type": "string", "pattern": r"^(?=.*\d)(?=.*[A-Z]).{8,}$"},
        "plain": {"type": "string", "pattern": "^[a-z]+$"},
        "hard": {"type": "string", "pattern": r"^(?:a(?=[ab])|aa(?=[ab]))+c$"},
    }});
    let fits = r#"{"email": "ada@example.com", "password": "Passw0rd", "plain": "abc"}"#;
    check(schema.clone(), fits, &[]);
    let hard = format!("{}b", "a".repeat(60));
    check(
        schema,
        &json!({"email": "a..da@example.com", "password": "password", "plain": "ABC", "hard": hard}).to_string(),
        &[
            r#"Parameter email must be in the format email, got: "a..da@example.com""#,
            r#"Parameter email must match the pattern ^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$, got: "a..da@example.com""#,
            r#"Parameter hard is too long or too complex for the pattern ^(?:a(?=[ab])|aa(?=[ab]))+c$, got: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab""#,
            r#"Parameter password must match the pattern ^(?=.*\d)(?=.*[A-Z]).{8,}$, got: "password""#,
            r#"Parameter plain must match the pattern ^[a-z]+$, got: "ABC""#,
        ],
    );
}

#[test]
fn many_patterns_with_look_ahead_are_not_applied_to_one_text() {
    let pattern = json!({"pattern": "^(?!x)a"});
    let schema = |count: usize| json!({"properties": {"a": {"allOf": vec![pattern.clone(); count]}, "b": pattern}});
    assert!(Schema::compile(&Arc::new(schema(8))).is_ok());
    refuses(schema(9), "schema could take too long to check: its alternatives multiply");
}
