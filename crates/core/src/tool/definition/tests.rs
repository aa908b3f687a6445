use super::*;
use crate::ceiling::FAULTS_LISTED;

fn search_database() -> Value {
    json!({
        "name": "search_database",
        "description": "Search the client database",
        "parameters": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "Search query"},
                "limit": {"type": "integer", "description": "Max results", "minimum": 1, "maximum": 100},
            },
            "required": ["query"],
        },
    })
}

/// The tool of the seed's section on full JSON Schema support.
fn my_tool() -> Value {
    json!({
        "name": "my_tool",
        "description": "Description",
        "parameters": {
            "type": "object",
            "properties": {
                "name": {
                    "type": "string", "description": "Name", "minLength": 1, "maxLength": 100,
                    "pattern": "^[a-z]+$", "format": "email",
                },
                "age": {"type": "integer", "description": "Age", "minimum": 0, "maximum": 150},
                "price": {"type": "number", "minimum": 0.01, "multipleOf": 0.01},
                "status": {"type": "string", "enum": ["active", "inactive"]},
                "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 10},
                "address": {
                    "type": "object",
                    "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
                    "required": ["city"],
                },
            },
            "required": ["name", "age"],
            "additionalProperties": false,
        },
    })
}

fn with(definition: &Value, pointer: &str, value: Value) -> Value {
    let mut changed = definition.clone();
    *changed.pointer_mut(pointer).unwrap() = value;
    changed
}

fn without(definition: &Value, key: &str) -> Value {
    let mut changed = definition.clone();
    changed.as_object_mut().unwrap().shift_remove(key);
    changed
}

fn fault_lines(definitions: &Value, rules: Rules) -> Vec<String> {
    match check(definitions, rules) {
        Ok(_) => Vec::new(),
        Err(faults) => faults
            .faults
            .listed()
            .iter()
            .map(|fault| format!("{} {} {}", fault.path, fault.code, fault.message))
            .collect(),
    }
}

#[track_caller]
fn strict(definition: &Value, expect: &[&str]) {
    assert_eq!(fault_lines(&json!([definition]), Rules::Strict), expect);
}

#[track_caller]
fn open(definition: &Value, expect: &[&str]) {
    assert_eq!(fault_lines(&json!([definition]), Rules::Open), expect);
}

#[test]
fn valid_definitions_become_tools_that_the_client_runs() {
    for rules in [Rules::Strict, Rules::Open] {
        let tools = check(&json!([search_database(), my_tool()]), rules).unwrap();
        assert_eq!(tools[0].name, "search_database");
        assert_eq!(*tools[1].parameters, my_tool()["parameters"]);
        assert!(tools.iter().all(Tool::is_external));
        assert_eq!(check(&json!([]), rules), Ok(vec![]));
    }
}

#[test]
fn openais_envelope_is_accepted_too() {
    let wrapped = json!([{"type": "function", "function": search_database()}]);
    for rules in [Rules::Strict, Rules::Open] {
        assert_eq!(check(&wrapped, rules), check(&json!([search_database()]), rules));
    }
    let bad = json!([{"type": "function", "function": with(&search_database(), "/name", json!(""))}]);
    assert_eq!(check(&bad, Rules::Strict).unwrap_err().faults.listed()[0].path.as_str(), "[0].function.name");
}

#[test]
fn the_list_must_be_an_array() {
    let expect = [" invalid_type Invalid input: expected array, received object"];
    assert_eq!(fault_lines(&json!({}), Rules::Strict), expect);
    assert_eq!(
        fault_lines(&json!(["x"]), Rules::Strict),
        ["[0] invalid_type Invalid input: expected object, received string"]
    );
    let many: Vec<Value> = (0..1_001).map(|_| json!({})).collect();
    assert_eq!(fault_lines(&json!(many), Rules::Open), [" too_big Too big: expected array to have <=1000 items"]);
}

const ONLY: &str = "Tool name must contain only alphanumeric characters, underscores, and hyphens";

#[test]
fn strict_names_are_short_and_plain() {
    let named = |name: Value| with(&search_database(), "/name", name);
    for good in ["a", "get-weather", "get_weather", "A1", &"a".repeat(64)] {
        strict(&named(json!(good)), &[]);
    }
    strict(
        &without(&search_database(), "name"),
        &["[0].name invalid_type Invalid input: expected string, received undefined"],
    );
    strict(&named(json!(5)), &["[0].name invalid_type Invalid input: expected string, received number"]);
    strict(
        &named(json!("")),
        &[
            "[0].name too_small Too small: expected string to have >=1 characters",
            &format!("[0].name invalid_format {ONLY}"),
        ],
    );
    strict(&named(json!("a".repeat(65))), &["[0].name too_big Too big: expected string to have <=64 characters"]);
    for bad in ["a b", "a.b", "a/b", "a[0]", "ä", "a\u{200b}"] {
        strict(&named(json!(bad)), &[&format!("[0].name invalid_format {ONLY}")]);
    }
}

#[test]
fn strict_descriptions_are_neither_empty_nor_long() {
    let described = |text: String| with(&search_database(), "/description", json!(text));
    strict(&described("a".repeat(1_024)), &[]);
    strict(&described(String::new()), &["[0].description too_small Too small: expected string to have >=1 characters"]);
    // Two UTF-16 units each, as the original counts.
    strict(
        &described("😀".repeat(513)),
        &["[0].description too_big Too big: expected string to have <=1024 characters"],
    );
    strict(
        &without(&search_database(), "description"),
        &["[0].description invalid_type Invalid input: expected string, received undefined"],
    );
}

#[test]
fn descriptions_hide_nothing() {
    let definition = with(&search_database(), "/description", json!("Search\u{e0041}"));
    let expect =
        "[0].description invalid_format Description must not contain the control or invisible character U+E0041";
    strict(&definition, &[expect]);
    open(&definition, &[expect]);
}

#[test]
fn strict_parameters_are_an_object_with_properties() {
    let given = |parameters: Value| with(&search_database(), "/parameters", parameters);
    strict(
        &without(&search_database(), "parameters"),
        &["[0].parameters invalid_type Invalid input: expected object, received undefined"],
    );
    strict(&given(json!([])), &["[0].parameters invalid_type Invalid input: expected object, received array"]);
    strict(&given(json!({"type": "object", "properties": {}})), &[]);
    strict(
        &given(json!({"type": "string", "properties": {}})),
        &["[0].parameters.type invalid_value Invalid input: expected \"object\""],
    );
    strict(
        &given(json!({"type": "object"})),
        &["[0].parameters.properties invalid_type Invalid input: expected record, received undefined"],
    );
    strict(
        &given(json!({"type": "object", "properties": {}, "additionalProperties": {"type": "string"}})),
        &["[0].parameters.additionalProperties invalid_type Invalid input: expected boolean, received object"],
    );
}

#[test]
fn strict_properties_say_their_type() {
    let property =
        |schema: Value| with(&search_database(), "/parameters", json!({"type": "object", "properties": {"x": schema}}));
    let options = "Invalid option: expected one of \
                   \"string\"|\"number\"|\"integer\"|\"boolean\"|\"array\"|\"object\"|\"null\"";
    strict(&property(json!({"type": "text"})), &[&format!("[0].parameters.properties.x.type invalid_value {options}")]);
    strict(&property(json!({})), &[&format!("[0].parameters.properties.x.type invalid_value {options}")]);
    strict(
        &property(json!({"type": "array", "items": {"type": "object", "properties": {"y": {"type": "x"}}}})),
        &[&format!("[0].parameters.properties.x.items.properties.y.type invalid_value {options}")],
    );
    strict(
        &property(json!({"type": "string", "enum": ["a", 1, true, null]})),
        &[
            "[0].parameters.properties.x.enum[2] invalid_union Invalid input",
            "[0].parameters.properties.x.enum[3] invalid_union Invalid input",
        ],
    );
    // JSON Schema that the original stripped or rejected is kept.
    for good in [
        json!({"type": ["string", "null"]}),
        json!({"anyOf": [{"type": "string"}, {"type": "number"}]}),
        json!({"const": 5}),
        json!({"type": "string", "title": "X", "x-mine": true}),
    ] {
        strict(&property(good), &[]);
    }
}

#[test]
fn required_names_must_exist() {
    for rules in [Rules::Strict, Rules::Open] {
        let definition = with(&search_database(), "/parameters/required", json!(["query", "toString", 5]));
        assert_eq!(
            fault_lines(&json!([definition]), rules),
            [
                "[0].parameters.required[1] required_unknown Required parameter toString is not in properties",
                "[0].parameters.required[2] invalid_type Invalid input: expected string, received number",
            ]
        );
    }
}

#[test]
fn duplicates_are_named_each_time() {
    let named = |name: &str| with(&search_database(), "/name", json!(name));
    let faults =
        check(&json!([named("a"), named("b"), named("a"), named("b"), named("a")]), Rules::Strict).unwrap_err();
    assert_eq!(faults.to_string(), "Duplicate tool names: a, b, a");
    assert_eq!(faults.faults.listed()[0].path.as_str(), "[2].name");
}

#[test]
fn all_faults_are_reported_at_once_in_the_seeds_words() {
    let definitions = json!([
        {"name": "a b", "description": "", "parameters": {"type": "object", "properties": {"limit": {"type": "int"}}}},
        search_database(),
        search_database(),
        {"name": "ok", "description": "x", "parameters": {"type": "object", "properties": {"p": {"type": "string", "pattern": "(?=a"}}}},
    ]);
    assert_eq!(
        check(&definitions, Rules::Strict).unwrap_err().to_string(),
        "Invalid client tool definitions: \
         [0].name: Tool name must contain only alphanumeric characters, underscores, and hyphens; \
         [0].description: Too small: expected string to have >=1 characters; \
         [0].parameters.properties.limit.type: Invalid option: expected one of \
         \"string\"|\"number\"|\"integer\"|\"boolean\"|\"array\"|\"object\"|\"null\"; \
         [3].parameters.properties.p.pattern: pattern `(?=a` is not a regular expression; \
         Duplicate tool names: search_database"
    );
}

#[test]
fn schemas_are_bounded_under_both_rules() {
    let property =
        |schema: Value| with(&search_database(), "/parameters", json!({"type": "object", "properties": {"x": schema}}));
    for rules in [Rules::Strict, Rules::Open] {
        for (schema, code) in [
            (json!({"type": "string", "pattern": "[a"}), "pattern_invalid"),
            (json!({"$ref": "https://example.com/x"}), "reference_remote"),
            (json!({"type": "string", "enum": vec!["x"; 1_001]}), "enum_too_long"),
            (json!({"type": "string", "description": "x".repeat(300_000)}), "schema_too_large"),
        ] {
            let faults = check(&json!([property(schema)]), rules).unwrap_err().faults.into_listed();
            assert!(faults.iter().any(|fault| fault.code == code), "{code}: {faults:?}");
        }
        let mut deep = json!({"type": "object", "properties": {}});
        for _ in 0..5_000 {
            deep = Value::Object([("not".to_owned(), deep)].into_iter().collect());
        }
        let Value::Object(mut definition) = search_database() else { unreachable!() };
        definition.insert("parameters".to_owned(), deep);
        let faults = check(&Value::Array(vec![Value::Object(definition)]), rules).unwrap_err().faults.into_listed();
        assert!(faults.iter().any(|fault| fault.code == "schema_too_deep"), "{faults:?}");
    }
}

#[test]
fn open_definitions_may_leave_things_out() {
    let tools = check(&json!([{"name": "simple tool"}]), Rules::Open).unwrap();
    assert_eq!(tools[0].description, "");
    assert_eq!(*tools[0].parameters, json!({"type": "object", "properties": {}}));
    let tools = check(&json!([{"name": "x", "parameters": {}}]), Rules::Open).unwrap();
    assert_eq!(*tools[0].parameters, json!({}), "kept verbatim");
}

#[test]
fn open_definitions_carry_policy() {
    let tools = check(
        &json!([{
            "type": "custom", "name": "tool_with-special.chars", "description": "a".repeat(16 * 1024), "executionMode": "external",
            "annotations": {"readOnlyHint": true, "title": "Mine"}, "timeout": "5m", "cache": 60, "version": "2",
            "deprecated": {"since": "1", "replacedBy": "other"},
        }]),
        Rules::Open,
    )
    .unwrap();
    let tool = &tools[0];
    assert_eq!(tool.annotations.read_only_hint, Some(true));
    assert_eq!(tool.timeout, Some(std::time::Duration::from_secs(300)));
    assert_eq!(tool.cache_for, Some(std::time::Duration::from_secs(60)));
    assert_eq!(tool.version.as_deref(), Some("2"));
    assert_eq!(tool.deprecated.as_ref().unwrap().replaced_by.as_deref(), Some("other"));
}

#[test]
fn a_misspelt_type_is_named_with_what_was_meant() {
    let parameters = json!({"type": "objct", "properties": {
        "a": {"type": "strng"}, "b": {"type": "array", "items": {"type": "date"}}, "c": {"type": "integer"},
    }});
    open(
        &json!({"name": "a", "description": "A", "parameters": parameters}),
        &[
            "[0].parameters.type invalid_value `objct` is not a type; did you mean `object`?",
            "[0].parameters.properties.a.type invalid_value `strng` is not a type; did you mean `string`?",
            "[0].parameters.properties.b.items.type invalid_value `date` is not a type; types are string, number, integer, boolean, array, object, null",
        ],
    );
}

#[test]
fn open_definitions_are_still_checked() {
    open(
        &json!({
            "name": "a\u{200b}", "description": 5, "parameters": {"type": "array"}, "type": "builtin",
            "executionMode": "internal", "timeout": "soon", "annotations": {"readOnlyHint": "yes"}, "version": 2,
        }),
        &[
            "[0].name invalid_format Tool name must not contain the control or invisible character U+200B",
            "[0].description invalid_type Invalid input: expected string, received number",
            "[0].parameters.type invalid_value Invalid input: expected \"object\"",
            "[0].type invalid_value Invalid option: expected one of \"custom\"|\"function\"",
            "[0].executionMode invalid_value Invalid option: expected one of \"external\"",
            "[0].timeout invalid_format Invalid input: expected seconds, or a text such as \"30s\", \"5m\" or \"1h\"",
            "[0].annotations invalid_type Invalid input: invalid type: string \"yes\", expected a boolean",
            "[0].version invalid_type Invalid input: expected string, received number",
        ],
    );
    open(
        &json!({"name": "x", "description": "a".repeat(16 * 1024 + 1)}),
        &["[0].description too_big Too big: expected string to have <=16384 characters"],
    );
}

#[test]
fn a_cache_changes_nothing_but_the_cost() {
    let bad = with(&search_database(), "/parameters/properties/query/type", json!("strnig"));
    for rules in [Rules::Strict, Rules::Open] {
        let cache = DefinitionCache::new(rules, Arc::new(SchemaCache::new(1 << 20)));
        for definitions in [json!([search_database(), my_tool()]), json!([bad]), json!([]), json!(5)] {
            for _ in 0..2 {
                assert_eq!(cache.check(&definitions), check(&definitions, rules));
            }
        }
    }
}

#[test]
fn names_that_look_alike_are_refused() {
    assert_eq!(
        fault_lines(&json!([{"name": "copy"}, {"name": "сору"}]), Rules::Open),
        ["[1].name confusable_name Tool name сору looks like the name of [0]"]
    );
    assert_eq!(fault_lines(&json!([{"name": "l1"}, {"name": "ll"}]), Rules::Open), [""; 0]);
}

#[test]
fn faults_are_listed_up_to_a_number_and_counted() {
    for (list, omitted) in [
        (json!(vec![0; 500]), 400),
        (json!([with(&my_tool(), "/parameters/required", json!(vec![0; 50_000]))]), 49_900),
    ] {
        let faults = check(&list, Rules::Open).unwrap_err();
        assert_eq!(faults.faults.listed().len(), FAULTS_LISTED);
        assert!(faults.faults.omitted() >= omitted, "{}", faults.faults.omitted());
        assert!(faults.to_string().contains("further faults"));
    }
}
