//! Round trips from one format through another: nothing may be lost silently.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue should say where and stop")]

use bosun_convert::{Conversion, ConvertOptions, Format, read, write};
use serde_json::{Value, json};

/// Tools with nothing that any of the formats would have to change.
fn plain() -> Value {
    json!([
        {
            "type": "custom",
            "name": "calculator",
            "description": "Perform mathematical calculations",
            "parameters": {
                "type": "object",
                "properties": {"expression": {"type": "string", "description": "Mathematical expression to evaluate"}},
                "required": ["expression"],
            },
            "executionMode": "external",
        },
        {
            "type": "custom",
            "name": "plan_trip",
            "description": "Plans a trip \u{2014} \"quoted\", with: colons, # signs and {braces}\nover two lines",
            "parameters": {
                "type": "object",
                "properties": {
                    "legs": {
                        "type": "array",
                        "minItems": 1,
                        "items": {"$ref": "#/$defs/leg"},
                    },
                    "budget": {"type": ["number", "null"], "minimum": 0, "default": null},
                    "mode": {"enum": ["train", "bus", 3, null, true]},
                    "notes": {"type": "object", "additionalProperties": {"type": "string", "pattern": "^\\S+$"}},
                    "on": {"type": "string", "format": "date", "examples": ["2026-11-15", "no", "0x10", "1e3", "~"]},
                    "x_vendor": {"type": "boolean", "x-order": 3},
                },
                "required": ["legs"],
                "additionalProperties": false,
                "$defs": {"leg": {"type": "object", "properties": {"to": {"type": "string"}, "then": {"$ref": "#/$defs/leg"}}}},
            },
            "executionMode": "external",
        },
    ])
}

fn convert(value: &Value, target: Format, warnings: &mut Vec<String>) -> Value {
    let conversion = read_again(&value.to_string(), warnings);
    let written = write(&conversion.tools, target).unwrap();
    warnings.extend(written.warnings.iter().map(ToString::to_string));
    serde_json::from_str(&written.documents.to_json()).unwrap()
}

fn read_again(text: &str, warnings: &mut Vec<String>) -> Conversion {
    let conversion = read(text, ConvertOptions::default()).unwrap();
    assert_eq!(conversion.faults, [], "{text}");
    warnings.extend(conversion.warnings.iter().map(ToString::to_string));
    conversion
}

#[test]
fn ark_comes_back_from_every_list_as_it_was() {
    for target in [
        Format::OpenAi,
        Format::OpenAiResponses,
        Format::Anthropic,
        Format::Gemini,
        Format::Mcp,
        Format::Langchain,
        Format::ExternalTools,
        Format::Ark,
        Format::ToolConfig,
    ] {
        let mut warnings = Vec::new();
        let through = convert(&plain(), target, &mut warnings);
        let back = convert(&through, Format::Ark, &mut warnings);
        assert_eq!(back, plain(), "through {target}: {warnings:#?}");
        let expected = match target {
            // It must be explicit there, and means nothing elsewhere.
            Format::OpenAiResponses => vec!["[0].strict", "[1].strict"],
            _ => vec![],
        };
        let places: Vec<&str> = warnings.iter().filter_map(|warning| warning.split(':').next()).collect();
        assert_eq!(places, expected, "through {target}: {warnings:#?}");
    }
}

#[test]
fn every_list_comes_back_from_every_other() {
    let targets = [
        Format::OpenAi,
        Format::OpenAiResponses,
        Format::Anthropic,
        Format::Gemini,
        Format::Mcp,
        Format::Langchain,
        Format::ExternalTools,
        Format::Ark,
    ];
    for first in targets {
        let start = convert(&plain(), first, &mut Vec::new());
        for second in targets {
            let through = convert(&start, second, &mut Vec::new());
            assert_eq!(convert(&through, first, &mut Vec::new()), start, "{first} through {second}");
        }
    }
}

#[test]
fn yaml_and_json_are_equivalent() {
    // A dialect that is only written cannot be read again.
    for target in Format::TARGETS.into_iter().filter(|target| Format::ALL.contains(target)) {
        let conversion = read(&plain().to_string(), ConvertOptions::default()).unwrap();
        let documents = write(&conversion.tools, target).unwrap().documents;
        let yaml = documents.to_yaml().unwrap();
        if yaml.is_empty() {
            continue;
        }
        let from_yaml = read(&yaml, ConvertOptions { from: Some(target), ..ConvertOptions::default() }).unwrap();
        let from_json =
            read(&documents.to_json(), ConvertOptions { from: Some(target), ..ConvertOptions::default() }).unwrap();
        assert_eq!(from_yaml.faults, [], "{target}\n{yaml}");
        let tools =
            |conversion: &Conversion| conversion.tools.iter().map(|found| found.tool.clone()).collect::<Vec<_>>();
        assert_eq!(tools(&from_yaml), tools(&from_json), "{target}\n{yaml}");
    }
}

#[test]
fn manifests_come_back_with_their_bindings() {
    let text = include_str!("../../../fixtures/convert/ark-manifest/tools.in.yaml");
    let conversion = read(text, ConvertOptions::default()).unwrap();
    let yaml = write(&conversion.tools, Format::ArkManifest).unwrap().documents.to_yaml().unwrap();
    let again = read(&yaml, ConvertOptions::default()).unwrap();
    assert_eq!(again.faults, []);
    let tools = |conversion: &Conversion| conversion.tools.iter().map(|found| found.tool.clone()).collect::<Vec<_>>();
    assert_eq!(tools(&conversion), tools(&again));
}

#[test]
fn a_tool_config_comes_back_with_its_routes() {
    let text = include_str!("../../../fixtures/convert/tool-config/tool-config.in.json");
    let conversion = read(text, ConvertOptions::default()).unwrap();
    let json = write(&conversion.tools, Format::ToolConfig).unwrap().documents.to_json();
    let again = read(&json, ConvertOptions::default()).unwrap();
    assert_eq!(again.faults, []);
    let tools = |conversion: &Conversion| conversion.tools.iter().map(|found| found.tool.clone()).collect::<Vec<_>>();
    assert_eq!(tools(&conversion), tools(&again));
}

/// Every key of a schema that is gone must be named by a warning.
#[track_caller]
fn assert_losses_are_reported(target: Format, parameters: &Value, keywords: &[&str]) {
    let tools = json!([{"name": "t", "description": "d", "parameters": parameters, "executionMode": "external"}]);
    let conversion = read(&tools.to_string(), ConvertOptions::default()).unwrap();
    let written = write(&conversion.tools, target).unwrap();
    let warnings: String = written.warnings.iter().map(|warning| format!("{warning}\n")).collect();
    for keyword in keywords {
        assert!(warnings.contains(&format!("`{keyword}`")), "{target} does not report `{keyword}`:\n{warnings}");
    }
}

#[test]
fn a_keyword_is_never_lost_silently() {
    let parameters = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": "internal",
        "type": "object",
        "properties": {"a": {"type": "string", "prompt": "Which one?", "hint": "the first"}},
        "anyOf": [{"required": ["a"]}],
    });
    assert_losses_are_reported(Format::OpenAi, &parameters, &["$schema", "$comment", "prompt", "hint", "anyOf"]);
    assert_losses_are_reported(
        Format::OpenAiResponses,
        &parameters,
        &["$schema", "$comment", "prompt", "hint", "anyOf"],
    );
    assert_losses_are_reported(Format::Anthropic, &parameters, &["$schema", "$comment", "prompt", "hint", "anyOf"]);
    assert_losses_are_reported(Format::Gemini, &parameters, &["prompt", "hint"]);
    assert_losses_are_reported(Format::Mcp, &parameters, &["prompt", "hint"]);
}

#[test]
fn mcp_comes_back_as_it_was() {
    let text = include_str!("../../../fixtures/convert/mcp/tools-list.in.json");
    let original: Value = serde_json::from_str(text).unwrap();
    let conversion = read(text, ConvertOptions::default()).unwrap();
    let written = write(&conversion.tools, Format::Mcp).unwrap();
    let written_tools: Value = serde_json::from_str(&written.documents.to_json()).unwrap();
    assert_eq!(written_tools["tools"], original["result"]["tools"]);
    assert_eq!(written.warnings, []);
    // A server knows its tool by no other name, whatever the name is.
    let text = r#"{"tools": [{"name": "repos/list all", "inputSchema": {"type": "object", "properties": {}}}]}"#;
    let named = write(&read(text, ConvertOptions::default()).unwrap().tools, Format::Mcp).unwrap();
    assert!(named.documents.to_json().contains("repos/list all") && named.warnings.is_empty(), "{named:?}");
    // Another format says what it loses.
    let warnings: Vec<String> =
        write(&conversion.tools, Format::OpenAi).unwrap().warnings.iter().map(ToString::to_string).collect();
    assert!(warnings.iter().any(|warning| warning.contains("`outputSchema`")), "{warnings:?}");
    assert!(warnings.iter().any(|warning| warning.contains("`_meta`")), "{warnings:?}");
    // That includes fields that no version of MCP has yet.
    let text = r#"{"tools": [{"name": "a", "description": "A", "inputSchema": {"type": "object", "properties": {}}, "securitySchemes": [{"type": "noauth"}], "annotations": {"costHint": 1}}]}"#;
    let conversion = read(text, ConvertOptions::default()).unwrap();
    assert_eq!((conversion.warnings.len(), write(&conversion.tools, Format::Mcp).unwrap().warnings), (0, Vec::new()));
    let warnings = write(&conversion.tools, Format::OpenAi).unwrap().warnings;
    let messages: Vec<&str> = warnings.iter().map(|warning| warning.message.as_str()).collect();
    assert!(messages.iter().any(|message| message.starts_with("`securitySchemes` of `a`")), "{messages:?}");
    assert!(messages.iter().any(|message| message.starts_with("`annotations.costHint` of `a`")), "{messages:?}");
}

#[test]
fn a_reference_that_stays_or_is_expanded_is_not_a_loss() {
    let text = r##"{"tools": [{"name": "a", "description": "A", "inputSchema": {"type": "object",
        "properties": {"x": {"$ref": "#/$defs/U"}}, "$defs": {"U": {"type": "string"}}}}]}"##;
    let conversion = read(text, ConvertOptions::default()).unwrap();
    for target in [Format::OpenAiStrict, Format::AnthropicStrict, Format::GeminiOpenApi] {
        assert_eq!(write(&conversion.tools, target).unwrap().warnings, [], "{target}");
    }
}

#[test]
fn strict_dialects_can_be_written() {
    for (target, pointer) in [
        (Format::OpenAiStrict, "/0/function/strict"),
        (Format::AnthropicStrict, "/0/strict"),
        (Format::GeminiOpenApi, "/0/functionDeclarations/0/parameters/type"),
    ] {
        let conversion = read(&plain().to_string(), ConvertOptions::default()).unwrap();
        let written: Value =
            serde_json::from_str(&write(&conversion.tools, target).unwrap().documents.to_json()).unwrap();
        assert!(
            matches!(written.pointer(pointer), Some(Value::Bool(true) | Value::String(_))),
            "{target}: {written:#}"
        );
    }
}
