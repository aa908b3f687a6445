//! `toolConverter.test.ts`, case by case.

use bosun_convert::{
    ConvertOptions, Documents, Format,
    client::{ClientTools, ToolCall, ToolResult},
    read, write,
};
use bosun_core::{
    Tool, Toolset,
    tool::{Binding, toolset::ToolSources},
};
use serde_json::{Value, json};

/// What `bosun convert tools.ts --to ark` writes.
fn convert_n8n_tools_to_ark(source: &str) -> Vec<Value> {
    let source = format!("import {{ z }} from 'zod';\nimport type {{ Tool }} from '@langchain/core/tools';\n{source}");
    let conversion = read(&source, ConvertOptions::default()).unwrap();
    assert_eq!(conversion.faults, []);
    let written = write(&conversion.tools, Format::Ark).unwrap();
    let Documents::One(Value::Array(tools)) = written.documents else { panic!("ARK's tools are a list") };
    tools
}

fn convert_n8n_tool_to_ark(source: &str) -> Value {
    let mut tools = convert_n8n_tools_to_ark(&format!("const tool: Tool = {source};"));
    assert_eq!(tools.len(), 1);
    tools.remove(0)
}

#[test]
fn should_convert_simple_calculator_tool() {
    let ark_tool = convert_n8n_tool_to_ark(
        "{
            name: 'calculator',
            description: 'Perform mathematical calculations',
            schema: z.object({
              expression: z.string().describe('Mathematical expression to evaluate'),
            }),
            call: jest.fn(),
        }",
    );
    // As text: the order of keys is part of it.
    let expected = json!({
        "type": "custom",
        "name": "calculator",
        "description": "Perform mathematical calculations",
        "parameters": {
            "type": "object",
            "properties": {
                "expression": {"type": "string", "description": "Mathematical expression to evaluate"},
            },
            "required": ["expression"],
        },
        "executionMode": "external",
    });
    assert_eq!(ark_tool.to_string(), expected.to_string());
}

#[test]
fn should_convert_http_request_tool_with_complex_schema() {
    let ark_tool = convert_n8n_tool_to_ark(
        "{
            name: 'http_request',
            description: 'Make HTTP requests',
            schema: z.object({
              url: z.string().url().describe('URL to request'),
              method: z.enum(['GET', 'POST', 'PUT', 'DELETE']).describe('HTTP method'),
              body: z.record(z.any()).optional().describe('Request body'),
            }),
            call: jest.fn(),
        }",
    );
    let properties = ark_tool["parameters"]["properties"].as_object().unwrap();
    assert!(["url", "method", "body"].iter().all(|name| properties.contains_key(*name)));
    let required = ark_tool["parameters"]["required"].as_array().unwrap();
    assert!(required.contains(&json!("url")) && required.contains(&json!("method")));
    assert!(!required.contains(&json!("body")), "optional");
}

#[test]
fn should_handle_tool_without_schema() {
    let ark_tool = convert_n8n_tool_to_ark(
        "{ name: 'simple_tool', description: 'A simple tool', schema: undefined, call: jest.fn() }",
    );
    assert_eq!(ark_tool["parameters"], json!({"type": "object", "properties": {}}));
}

/// A file contains no function to run. The callback stays with the client that owns the tool, which is
/// what `executionMode: external` says: a call is handed to it as it is.
#[test]
fn should_preserve_tool_callback_function() {
    let ark_tool =
        convert_n8n_tool_to_ark("{ name: 'test_tool', description: 'Test', schema: z.object({}), call: mockCallback }");
    let provider = ClientTools::new(&json!([ark_tool])).unwrap();
    let call: ToolCall = serde_json::from_value(
        json!({"id": "1", "function": {"name": "test_tool", "arguments": {"input": "test input"}}}),
    )
    .unwrap();
    let mut called_with = None;
    let result = provider.execute(&call, |call| {
        called_with = Some(call.function.arguments.clone());
        Ok::<_, String>(ToolResult::success(call, json!("42")))
    });
    assert_eq!(result.result, json!("42"));
    assert_eq!(called_with, Some(json!({"input": "test input"})));
}

#[test]
fn should_convert_multiple_tools() {
    let ark_tools = convert_n8n_tools_to_ark(
        "const tools: Tool[] = [
            { name: 'tool1', description: 'Tool 1', schema: z.object({ param1: z.string() }), call: jest.fn() },
            { name: 'tool2', description: 'Tool 2', schema: z.object({ param2: z.number() }), call: jest.fn() },
        ];",
    );
    assert_eq!(ark_tools.len(), 2);
    assert_eq!(ark_tools[0]["name"], "tool1");
    assert_eq!(ark_tools[1]["name"], "tool2");
}

#[test]
fn should_handle_empty_array() {
    assert_eq!(convert_n8n_tools_to_ark("export const tools: Tool[] = [];"), [""; 0]);
}

fn ark(name: &str, description: &str) -> Tool {
    Tool::new(name, description, json!({}), Binding::Builtin { name: "noop".to_owned() })
}

fn n8n(name: &str, description: &str) -> Tool {
    Tool::new(name, description, json!({}), Binding::External)
}

fn merge_ark_and_n8n_tools(ark: Vec<Tool>, n8n: Vec<Tool>) -> Vec<Tool> {
    Toolset::merge(ToolSources::Both, ark, n8n).tools().iter().map(|member| Tool::clone(&member.tool)).collect()
}

fn names(tools: &[Tool]) -> Vec<&str> {
    tools.iter().map(|tool| tool.name.as_str()).collect()
}

#[test]
fn should_merge_ark_and_n8n_tools() {
    let merged = merge_ark_and_n8n_tools(vec![ark("ark_tool", "ARK")], vec![n8n("n8n_tool", "n8n")]);
    assert_eq!(merged.len(), 2);
    assert!(names(&merged).contains(&"ark_tool") && names(&merged).contains(&"n8n_tool"));
}

#[test]
fn should_deduplicate_by_name_ark_takes_precedence() {
    let merged =
        merge_ark_and_n8n_tools(vec![ark("shared_tool", "ARK version")], vec![n8n("shared_tool", "n8n version")]);
    assert_eq!(merged.len(), 1);
    assert_eq!(merged[0].description, "ARK version");
    assert!(!merged[0].is_external(), "the ARK version has no executionMode");
}

/// The words `ark`, `n8n` and `hybrid`, and what an unknown one means, are the ARK API's:
/// `edges::ark::reading::tool_source`.
fn filter_tools_by_source(sources: ToolSources) -> Vec<Tool> {
    let toolset = Toolset::merge(
        sources,
        vec![ark("ark1", "ARK 1"), ark("ark2", "ARK 2")],
        vec![n8n("n8n1", "n8n 1"), n8n("n8n2", "n8n 2")],
    );
    toolset.tools().iter().map(|member| Tool::clone(&member.tool)).collect()
}

#[test]
fn should_return_only_ark_tools_in_ark_mode() {
    let filtered = filter_tools_by_source(ToolSources::Catalog);
    assert_eq!(filtered, [ark("ark1", "ARK 1"), ark("ark2", "ARK 2")]);
}

#[test]
fn should_return_only_n8n_tools_in_n8n_mode() {
    let filtered = filter_tools_by_source(ToolSources::Client);
    assert_eq!(filtered, [n8n("n8n1", "n8n 1"), n8n("n8n2", "n8n 2")]);
}

#[test]
fn should_return_merged_tools_in_hybrid_mode() {
    let filtered = filter_tools_by_source(ToolSources::Both);
    assert_eq!(filtered.len(), 4);
    assert!(names(&filtered).contains(&"ark1") && names(&filtered).contains(&"n8n2"));
}
