//! The conversion cases of the first specification's test file, each under its own name.

use serde_json::{Value, json};

use super::super::{Converted, Options, convert};

fn converted(source: &str) -> Converted {
    let source = format!("import {{ z }} from 'zod';\n{source}");
    convert(&source, "tools.ts", Options::default()).expect("the source converts")
}

/// The tool as ARK takes it.
fn ark(converted: &Converted, index: usize) -> Value {
    let tool = &converted.tools[index].tool;
    assert!(tool.is_external());
    json!({
        "type": "custom",
        "name": tool.name,
        "description": tool.description,
        "parameters": *tool.parameters,
        "executionMode": "external",
    })
}

#[test]
fn should_convert_simple_calculator_tool() {
    let converted = converted(
        "const calculatorTool: Tool = {
            name: 'calculator',
            description: 'Perform mathematical calculations',
            schema: z.object({
              expression: z.string().describe('Mathematical expression to evaluate'),
            }),
            call: jest.fn(),
        };",
    );
    let expected = json!({
        "type": "custom",
        "name": "calculator",
        "description": "Perform mathematical calculations",
        "parameters": {
            "type": "object",
            "properties": {
                "expression": { "type": "string", "description": "Mathematical expression to evaluate" },
            },
            "required": ["expression"],
        },
        "executionMode": "external",
    });
    assert_eq!(ark(&converted, 0).to_string(), expected.to_string());
    assert_eq!(converted.warnings, []);
}

#[test]
fn should_convert_http_request_tool_with_complex_schema() {
    let converted = converted(
        "const httpTool: Tool = {
            name: 'http_request',
            description: 'Make HTTP requests',
            schema: z.object({
              url: z.string().url().describe('URL to request'),
              method: z.enum(['GET', 'POST', 'PUT', 'DELETE']).describe('HTTP method'),
              body: z.record(z.any()).optional().describe('Request body'),
            }),
            call: jest.fn(),
        };",
    );
    let expected = json!({
        "type": "object",
        "properties": {
            "url": { "type": "string", "format": "uri", "description": "URL to request" },
            "method": { "type": "string", "enum": ["GET", "POST", "PUT", "DELETE"], "description": "HTTP method" },
            "body": { "type": "object", "additionalProperties": {}, "description": "Request body" },
        },
        "required": ["url", "method"],
    });
    assert_eq!(ark(&converted, 0)["parameters"], expected);
}

#[test]
fn should_handle_tool_without_schema() {
    let converted = converted(
        "const simpleTool: Tool = {
            name: 'simple_tool',
            description: 'A simple tool',
            schema: undefined,
            call: jest.fn(),
        };",
    );
    assert_eq!(ark(&converted, 0)["parameters"], json!({ "type": "object", "properties": {} }));
}

/// Source has no live function to keep; the tool stays with the client that owns it.
#[test]
fn should_preserve_tool_callback_function() {
    let converted = converted(
        "const tool: Tool = { name: 'test_tool', description: 'Test', schema: z.object({}), call: mockCallback };",
    );
    assert!(converted.tools[0].tool.is_external());
    assert_eq!(ark(&converted, 0)["parameters"], json!({ "type": "object", "properties": {} }));
}

#[test]
fn should_convert_multiple_tools() {
    let converted = converted(
        "const tools: Tool[] = [
            { name: 'tool1', description: 'Tool 1', schema: z.object({ param1: z.string() }), call: jest.fn() },
            { name: 'tool2', description: 'Tool 2', schema: z.object({ param2: z.number() }), call: jest.fn() },
        ];",
    );
    let names: Vec<&str> = converted.tools.iter().map(|found| found.tool.name.as_str()).collect();
    assert_eq!(names, ["tool1", "tool2"]);
}

#[test]
fn should_handle_empty_array() {
    let converted = converted("export const tools: Tool[] = [];");
    assert_eq!(converted.tools, []);
    assert_eq!(converted.warnings[0].code, "no_tools");
}
