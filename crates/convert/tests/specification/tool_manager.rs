//! The scenarios of the plain collection: MCP tools and custom tools side by side, as they are.

use std::time::Duration;

use bosun_convert::{
    ConvertOptions, Format,
    client::{ClientTools, ToolCall, ToolResult},
    read,
};
use bosun_core::{
    QueryLimits, Schema, Tool, Toolset,
    schema::dialect::Dialect,
    tool::{Binding, catalog::Catalog, toolset::ToolSources},
};
use serde_json::{Value, json};

/// What an MCP server answers to `tools/list`.
const DISCOVERED: &str = r#"{"tools": [{
    "name": "get_device",
    "description": "Reads the state of a device",
    "inputSchema": {"type": "object", "properties": {"device_name": {"type": "string"}}, "required": ["device_name"]}
}]}"#;

fn mcp_tools() -> Vec<Tool> {
    let conversion = read(DISCOVERED, ConvertOptions::default()).unwrap();
    assert_eq!(conversion.format, Format::Mcp);
    conversion.tools.into_iter().map(|found| found.tool).collect()
}

fn custom_tool() -> Tool {
    let parameters = json!({"type": "object", "properties": {"expression": {"type": "string"}}});
    Tool::new("calculator", "Calculates", parameters, Binding::External)
}

#[test]
fn add_mcp_tools_from_langchain_adapters() {
    let tools = mcp_tools();
    let source: Value = serde_json::from_str(DISCOVERED).unwrap();
    assert_eq!(*tools[0].parameters, source["tools"][0]["inputSchema"], "no schema is converted");
    // The adapters' own form holds the same.
    let langchain = json!([{"name": "get_device", "description": "Reads the state of a device",
        "schema": source["tools"][0]["inputSchema"]}]);
    let adapted =
        read(&langchain.to_string(), ConvertOptions { from: Some(Format::Langchain), ..ConvertOptions::default() })
            .unwrap();
    assert_eq!(adapted.tools[0].tool.parameters, tools[0].parameters);
}

#[test]
fn add_custom_tools() {
    let catalog = Catalog::new(1, vec![custom_tool()]).unwrap();
    assert_eq!(catalog.get("calculator"), Some(&custom_tool()), "nothing is wrapped around it");
}

#[test]
fn get_all_tools_for_ai_client() {
    let tools: Vec<Tool> = mcp_tools().into_iter().chain([custom_tool()]).collect();
    let catalog = Catalog::new(1, tools.clone()).unwrap();
    assert!(catalog.tools().eq(&tools), "as they were added");
    let toolset = Toolset::merge(ToolSources::Catalog, tools, vec![]);
    let declared: Value = serde_json::from_str(&toolset.declarations(Dialect::OpenAiChat).json).unwrap();
    assert_eq!(declared[1]["function"]["parameters"], *custom_tool().parameters);
}

#[test]
fn find_tool_by_name_for_execution() {
    let mut search = custom_tool();
    search.name = "search".to_owned();
    search.lc_name = Some("WebSearch".to_owned());
    let catalog = Catalog::new(1, vec![custom_tool(), search]).unwrap();
    assert_eq!(catalog.find("calculator").unwrap().name, "calculator");
    assert_eq!(catalog.find("WebSearch").unwrap().name, "search");
    assert_eq!(catalog.find("unknown"), None);
}

#[test]
fn execute_tool_directly_via_invoke() {
    let provider = ClientTools::new(&json!([{"name": "calculator", "description": "Calculates",
        "parameters": {"type": "object", "properties": {"expression": {"type": "string"}}}}]))
    .unwrap();
    let call: ToolCall = serde_json::from_value(
        json!({"id": "1", "function": {"name": "calculator", "arguments": {"expression": "6*7"}}}),
    )
    .unwrap();
    let result = provider.execute(&call, |call| {
        assert_eq!(call.function.arguments, json!({"expression": "6*7"}), "what the tool gets is what was asked");
        Ok::<_, String>(ToolResult::success(call, json!("42")))
    });
    assert_eq!(result.result, json!("42"));
}

#[test]
fn tool_execution_timeout_and_error_handling() {
    assert_eq!(QueryLimits::default().tool_timeout, Duration::from_secs(30));
    let provider = ClientTools::new(&json!([{"name": "slow", "description": "Is slow",
        "parameters": {"type": "object", "properties": {}}}]))
    .unwrap();
    let call: ToolCall =
        serde_json::from_value(json!({"id": "1", "function": {"name": "slow", "arguments": {}}})).unwrap();
    let result = provider.execute(&call, |_| Err("the tool did not answer within 30 s"));
    assert_eq!((result.success, result.error.as_deref()), (false, Some("the tool did not answer within 30 s")));
}

#[test]
fn combine_mcp_and_custom_tools() {
    let catalog = Catalog::new(1, mcp_tools().into_iter().chain([custom_tool()]).collect()).unwrap();
    assert_eq!(catalog.tools().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["get_device", "calculator"]);
    assert_eq!(catalog.find("get_device").unwrap().name, "get_device");
}

/// The goal for twenty tools holds for a hundred thousand; the bench has the figure.
#[test]
fn tool_lookup_performance() {
    let tools = (0..20).map(|number| Tool { name: format!("tool{number}"), ..custom_tool() }).collect();
    let catalog = Catalog::new(1, tools).unwrap();
    assert!((0..20).all(|number| catalog.find(&format!("tool{number}")).is_some()));
}

/// The decision is: nothing is ever renamed. The adapters rename nothing either.
#[test]
fn test_mcp_tools_without_normalization() {
    let schema = Schema::compile(&mcp_tools()[0].parameters).unwrap();
    let arguments = schema.check_arguments(r#"{"device_name": "r1"}"#).unwrap();
    assert_eq!(arguments.into_value(), json!({"device_name": "r1"}));
    let violations = schema.check_arguments(r#"{"deviceName": "r1"}"#).unwrap_err();
    assert_eq!(violations[0].message, "Missing required parameter: device_name");
}
