//! The client tool provider: its usage examples, its rules, its error texts, and its list of tests.

use bosun_convert::client::{
    ClientTools, ToolCall, ToolResult, Validation, safe_validate_definitions, validate_definitions,
};
use bosun_core::schema::dialect::Dialect;
use serde_json::{Value, json};

fn client_tools() -> Value {
    json!([{
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
    }])
}

/// The tool of the section on full JSON Schema support.
fn my_tool() -> Value {
    json!({
        "name": "my_tool",
        "description": "Description",
        "parameters": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "Name", "minLength": 1, "maxLength": 100, "pattern": "^[a-z]+$"},
                "contact": {"type": "string", "format": "email"},
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

fn provider(definitions: &Value) -> ClientTools {
    ClientTools::new(definitions).unwrap()
}

fn call(name: &str, arguments: Value) -> ToolCall {
    serde_json::from_value(
        json!({"id": "call-123", "type": "function", "function": {"name": name, "arguments": arguments}}),
    )
    .unwrap()
}

fn never_called(_: &ToolCall) -> Result<ToolResult, String> {
    panic!("the client must not be called")
}

#[track_caller]
fn validates(definition: &Value, arguments: Value, errors: &[&str]) {
    let name = definition["name"].as_str().unwrap();
    let validation = provider(&json!([definition])).validate_arguments(&call(name, arguments));
    let expect =
        Validation { valid: errors.is_empty(), errors: errors.iter().map(|text| (*text).to_owned()).collect() };
    assert_eq!(validation, expect);
}

#[track_caller]
fn rejects(definitions: &Value, expect: &str) {
    assert_eq!(ClientTools::new(definitions).unwrap_err().to_string(), expect);
}

#[test]
fn basic_example() {
    let provider = provider(&client_tools());
    let tools = provider.tools();
    assert_eq!(tools[0].name, "search_database");
    assert_eq!(*tools[0].parameters, client_tools()[0]["parameters"]);
    // The call reaches the client as the model wrote it, and its answer comes back untouched.
    let result = provider.execute(&call("search_database", json!({"query": "users"})), |call| {
        Ok::<_, String>(ToolResult::success(call, json!({"users": ["ada"]})))
    });
    assert_eq!(
        serde_json::to_value(result).unwrap(),
        json!({"toolCallId": "call-123", "toolName": "search_database", "success": true, "result": {"users": ["ada"]}})
    );
}

#[test]
fn validation_example() {
    assert_eq!(validate_definitions(&client_tools()).unwrap()[0].name, "search_database");
    let invalid = json!([{"name": "", "description": "x", "parameters": {"type": "object", "properties": {}}}]);
    let error = validate_definitions(&invalid).unwrap_err();
    assert!(error.to_string().starts_with("Invalid client tool definitions: [0].name: Too small"), "{error}");

    let result = serde_json::to_value(safe_validate_definitions(&client_tools())).unwrap();
    assert_eq!((&result["success"], result["data"][0]["name"].as_str()), (&json!(true), Some("search_database")));
    assert_eq!(result.get("errors"), None);
    let result = serde_json::to_value(safe_validate_definitions(&invalid)).unwrap();
    assert_eq!(result["success"], json!(false));
    assert_eq!(result["errors"][0]["path"], "[0].name");
    assert_eq!(result.get("data"), None);
}

#[test]
fn argument_validation() {
    let provider = provider(&client_tools());
    let tool_call = call("search_database", json!(json!({"query": "test", "limit": 10}).to_string()));
    assert!(provider.validate_arguments(&tool_call).valid);
    let result = provider.execute(&tool_call, |call| Ok::<_, String>(ToolResult::success(call, json!([]))));
    assert!(result.success);
}

#[test]
fn full_json_schema_support() {
    let fits = json!({"name": "ada", "age": 36, "price": 9.99, "status": "active", "tags": ["x"], "address": {"city": "London"}});
    validates(&my_tool(), fits, &[]);
    validates(
        &my_tool(),
        json!({"name": "Ada", "age": 151, "price": 0.005, "status": "x", "tags": [], "address": {}, "contact": "no-at-sign", "extra": 1}),
        &[
            "Missing required parameter: address.city",
            "Unknown parameter: extra",
            "Parameter age must be at most 150, got: 151",
            "Parameter contact must be in the format email, got: \"no-at-sign\"",
            "Parameter name must match the pattern ^[a-z]+$, got: \"Ada\"",
            "Parameter price must be at least 0.01, got: 0.005",
            "Parameter price must be a multiple of 0.01, got: 0.005",
            "Parameter status must be one of \"active\", \"inactive\", got: \"x\"",
            "Parameter tags must have at least 1 item, got: 0",
        ],
    );
}

#[test]
fn supported_json_schema_types() {
    for (kind, fits, other, shown) in [
        ("string", json!("a"), json!(1), "number"),
        ("number", json!(1.5), json!("a"), "string"),
        ("integer", json!(1), json!("a"), "string"),
        ("boolean", json!(true), json!("true"), "string"),
        ("array", json!([1]), json!({}), "object"),
        ("object", json!({}), json!([]), "array"),
        ("null", json!(null), json!(0), "number"),
    ] {
        let definition = json!({"name": "t", "description": "T", "parameters": {
            "type": "object", "properties": {"p": {"type": kind}}, "required": ["p"]}});
        validates(&definition, json!({"p": fits}), &[]);
        let message = format!("Parameter p has wrong type: expected {kind}, got {shown}");
        validates(&definition, json!({"p": other}), &[&message]);
    }
}

#[test]
fn rule_1_tool_name() {
    let named =
        |name: &str| json!([{"name": name, "description": "x", "parameters": {"type": "object", "properties": {}}}]);
    for name in ["a", "A-b_9", &"n".repeat(64)] {
        assert!(ClientTools::new(&named(name)).is_ok(), "{name}");
    }
    let characters = "Tool name must contain only alphanumeric characters, underscores, and hyphens";
    rejects(&named("get weather"), &format!("Invalid client tool definitions: [0].name: {characters}"));
    rejects(&named("a.b"), &format!("Invalid client tool definitions: [0].name: {characters}"));
    rejects(
        &named(&"n".repeat(65)),
        "Invalid client tool definitions: [0].name: Too big: expected string to have <=64 characters",
    );
    rejects(
        &named(""),
        &format!(
            "Invalid client tool definitions: [0].name: Too small: expected string to have >=1 characters; [0].name: {characters}"
        ),
    );
}

#[test]
fn rule_2_description() {
    let described =
        |text: &str| json!([{"name": "a", "description": text, "parameters": {"type": "object", "properties": {}}}]);
    assert!(ClientTools::new(&described(&"d".repeat(1_024))).is_ok());
    rejects(
        &described(""),
        "Invalid client tool definitions: [0].description: Too small: expected string to have >=1 characters",
    );
    rejects(
        &described(&"d".repeat(1_025)),
        "Invalid client tool definitions: [0].description: Too big: expected string to have <=1024 characters",
    );
}

#[test]
fn rule_3_parameters() {
    let with = |parameters: Value| json!([{"name": "a", "description": "x", "parameters": parameters}]);
    rejects(
        &with(json!({"type": "array", "properties": {}})),
        "Invalid client tool definitions: [0].parameters.type: Invalid input: expected \"object\"",
    );
    rejects(
        &with(json!({"type": "object"})),
        "Invalid client tool definitions: [0].parameters.properties: Invalid input: expected record, received undefined",
    );
    assert!(ClientTools::new(&with(json!({"type": "object", "properties": {}}))).is_ok());
}

#[test]
fn rule_4_required_parameters() {
    validates(&client_tools()[0], json!({}), &["Missing required parameter: query"]);
}

#[test]
fn rule_5_type_checking() {
    validates(
        &client_tools()[0],
        json!({"query": 5}),
        &["Parameter query has wrong type: expected string, got number"],
    );
}

#[test]
fn rule_6_integer_validation() {
    validates(
        &client_tools()[0],
        json!({"query": "x", "limit": 2.5}),
        &["Parameter limit must be an integer, got: 2.5"],
    );
    validates(&client_tools()[0], json!({"query": "x", "limit": 2.0}), &[]);
}

#[test]
fn rule_7_additional_properties() {
    validates(&client_tools()[0], json!({"query": "x", "extra": true}), &[]);
    let mut closed = client_tools()[0].clone();
    closed["parameters"]["additionalProperties"] = json!(false);
    validates(&closed, json!({"query": "x", "extra": true}), &["Unknown parameter: extra"]);
}

/// The definition that the request of the example carries, in OpenAI's envelope.
#[test]
fn input_required_flow() {
    let definitions = json!([{"type": "function", "function": {
        "name": "search_users",
        "description": "Search users in client system",
        "parameters": {"type": "object", "properties": {"text": {"type": "string"}}},
    }}]);
    let provider = provider(&definitions);
    assert!(provider.can_handle("search_users") && !provider.can_handle("search_database"));
    let mut asked = None;
    let result = provider.execute(&call("search_users", json!({"text": "ada"})), |call| {
        asked = Some(serde_json::to_value(call).unwrap());
        Ok::<_, String>(ToolResult::success(call, json!({"users": []})))
    });
    // What the event carries is the call itself.
    assert_eq!(
        asked,
        Some(
            json!({"id": "call-123", "type": "function", "function": {"name": "search_users", "arguments": {"text": "ada"}}})
        )
    );
    assert!(result.success);
}

#[test]
fn error_handling_invalid_tool_definitions() {
    let invalid = json!([{"name": "a b", "description": "x", "parameters": {"type": "object", "properties": {}}}]);
    assert!(ClientTools::new(&invalid).unwrap_err().to_string().starts_with("Invalid client tool definitions: "));
}

#[test]
fn error_handling_tool_execution() {
    let provider = provider(&client_tools());
    let fails = |name: &str, arguments: Value, error: &str| {
        let result = provider.execute(&call(name, arguments), never_called);
        assert_eq!((result.success, result.error.as_deref()), (false, Some(error)));
    };
    fails("xyz", json!({}), "Tool xyz not found in client tools");
    fails(
        "search_database",
        json!("{query: 1}"),
        "Invalid tool arguments JSON: key must be a string at line 1 column 2",
    );
    let result = provider.execute(&call("search_database", json!({"query": "x"})), |_| Err("the database is down"));
    assert_eq!(result.error.as_deref(), Some("the database is down"));
}

#[test]
fn error_handling_argument_validation() {
    let definition = json!({"name": "t", "description": "T", "parameters": {
        "type": "object",
        "properties": {"xyz": {"type": "string"}, "count": {"type": "integer"}, "needed": {"type": "string"}},
        "required": ["needed"],
        "additionalProperties": false,
    }});
    validates(
        &definition,
        json!({"abc": 1, "xyz": 5, "count": 2.5}),
        &[
            "Missing required parameter: needed",
            "Unknown parameter: abc",
            "Parameter xyz has wrong type: expected string, got number",
            "Parameter count must be an integer, got: 2.5",
        ],
    );
}

#[test]
fn type_safety() {
    let tool = json!({"type": "function", "function": {
        "name": "test",
        "description": "Test tool",
        "parameters": {"type": "object", "properties": {"param": {"type": "string"}}},
    }});
    let toolset = provider(&json!([tool])).into_toolset();
    let declared: Value = serde_json::from_str(&toolset.declarations(Dialect::OpenAiChat).json).unwrap();
    assert_eq!(declared, json!([tool]), "the definitions come back unchanged");
}

#[test]
fn testing_duplicate_tool_name_detection() {
    let twice = json!([client_tools()[0], client_tools()[0], my_tool(), my_tool()]);
    rejects(&twice, "Duplicate tool names: search_database, my_tool");
}

#[test]
fn testing_error_handling_for_unknown_tools_and_invalid_json() {
    let provider = provider(&client_tools());
    let errors = |name: &str, arguments: Value| provider.validate_arguments(&call(name, arguments)).errors;
    assert_eq!(errors("xyz", json!({})), ["Tool xyz not found"]);
    assert_eq!(errors("search_database", json!(null)), ["Arguments are not valid: must be an object."]);
    assert_eq!(
        errors("search_database", json!("{\"query\": ")),
        ["Invalid tool arguments JSON: EOF while parsing a value at line 1 column 10"]
    );
}

#[test]
fn testing_client_callback_error_handling() {
    let provider = provider(&client_tools());
    let result = provider.execute(&call("search_database", json!({"query": "x"})), |_| Err(std::fmt::Error));
    assert_eq!(
        (result.success, result.result, result.error.as_deref()),
        (false, json!(null), Some("an error occurred when formatting an argument"))
    );
}
