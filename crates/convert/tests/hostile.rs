//! Malicious texts: reading them terminates soon, with a result.
//!
//! None of these has a timeout. Each would take minutes, gigabytes or an unbounded stack if the work grew faster than
//! the text.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue should say where and stop")]

use bosun_convert::{Conversion, ConvertOptions, Format, check, read, write};
use serde_json::{Map, Value, json};

fn read_value(value: &Value) -> Conversion {
    read(&value.to_string(), ConvertOptions::default()).unwrap()
}

fn codes(conversion: &Conversion) -> Vec<&'static str> {
    let mut codes: Vec<_> = conversion.faults.iter().map(|fault| fault.code).collect();
    codes.dedup();
    codes
}

fn api(paths: &Value, schemas: &Value) -> Value {
    json!({
        "openapi": "3.1.0", "info": {"title": "T", "version": "1"}, "servers": [{"url": "https://e.com"}],
        "paths": paths, "components": {"schemas": schemas},
    })
}

fn operation(name: &str, schema: &Value) -> Value {
    let body = json!({"content": {"application/json": {"schema": schema}}});
    json!({"post": {"operationId": name, "summary": "S", "requestBody": body}})
}

#[test]
fn references_that_double_at_each_level_stay_references() {
    let schemas: Map<String, Value> = (0..64)
        .map(|level| {
            let next = json!({"$ref": format!("#/components/schemas/S{}", level + 1)});
            (format!("S{level}"), json!({"type": "object", "properties": {"left": next, "right": next}}))
        })
        .chain([("S64".to_owned(), json!({"type": "string"}))])
        .collect();
    let root = json!({"$ref": "#/components/schemas/S0"});
    let conversion = read_value(&api(&json!({"/a": operation("a", &root)}), &schemas.into()));
    assert_eq!(codes(&conversion), [""; 0]);
    assert!(conversion.tools[0].tool.parameters.to_string().len() < 20_000);
}

#[test]
fn a_long_chain_of_references_is_followed_to_its_end() {
    let schemas: Map<String, Value> = (0..20_000)
        .map(|link| {
            let next = json!({"$ref": format!("#/components/schemas/S{}", (link + 1) % 20_000)});
            (format!("S{link}"), json!({"type": "object", "properties": {"next": next}}))
        })
        .collect();
    let root = json!({"$ref": "#/components/schemas/S0"});
    let conversion = read_value(&api(&json!({"/a": operation("a", &root)}), &schemas.into()));
    assert_eq!(codes(&conversion), [""; 0]);
    assert_eq!(conversion.tools.len(), 1);
}

#[test]
fn the_copies_of_a_large_schema_are_bounded() {
    let properties: Map<String, Value> =
        (0..5_000).map(|index| (format!("p{index}"), json!({"type": "string"}))).collect();
    let large = json!({"type": "object", "properties": properties});
    let root = json!({"$ref": "#/components/schemas/Large"});
    let paths: Map<String, Value> =
        (0..2_000).map(|index| (format!("/{index}"), operation(&format!("o{index}"), &root))).collect();
    let conversion = read_value(&api(&paths.into(), &json!({"Large": large})));
    assert!(!conversion.tools.is_empty() && conversion.tools.len() < 2_000);
    assert_eq!(codes(&conversion), ["too_large", "more"]);
}

#[test]
fn every_copy_of_a_large_schema_counts() {
    let mut properties: Map<String, Value> =
        (0..50_000).map(|index| (format!("p{index}"), json!({"type": "string"}))).collect();
    let large = json!({"type": "object", "properties": properties});
    properties.insert("absent".to_owned(), json!({"$ref": "#/components/schemas/Absent"}));
    let faulty = json!({"type": "object", "properties": properties});

    // Also those of operations with faults.
    let root = json!({"$ref": "#/components/schemas/Faulty"});
    let paths: Map<String, Value> =
        (0..5_000).map(|index| (format!("/{index}"), operation(&format!("o{index}"), &root))).collect();
    let conversion = read_value(&api(&paths.into(), &json!({"Faulty": faulty})));
    assert!(conversion.tools.is_empty());

    // And those that are behind no reference of a schema.
    let body = json!({"$ref": "#/components/requestBodies/Large"});
    let post = |name: &str| json!({"post": {"operationId": name, "summary": "S", "requestBody": body}});
    let paths: Map<String, Value> = (0..50).map(|index| (format!("/{index}"), post(&format!("o{index}")))).collect();
    let mut description = api(&paths.into(), &json!({}));
    description["components"]["requestBodies"] = json!({"Large": {"content": {"application/json": {"schema": large}}}});
    let conversion = read_value(&description);
    assert!(!conversion.tools.is_empty() && conversion.tools.len() < 50);
    assert!(conversion.tools.iter().all(|found| !found.tool.parameters.to_string().contains("null")));
    assert_eq!(codes(&conversion), ["too_large"]);
}

#[test]
fn faults_are_counted_and_not_all_listed() {
    let tools: Vec<Value> = (0..50_000).map(|index| json!({"description": index})).collect();
    let conversion = read_value(&json!({"tools": [{"name": "a", "description": "A", "source": "x"}, tools]}));
    assert!(conversion.faults.len() < 10);
    let conversion = read(
        &json!({"tools": tools}).to_string(),
        ConvertOptions { from: Some(Format::ToolConfig), ..ConvertOptions::default() },
    );
    let faults = conversion.unwrap().faults;
    assert_eq!(faults.len(), 1_001);
    assert!(faults.last().unwrap().message.ends_with("more faults"), "{:?}", faults.last());
}

#[test]
fn unknown_fields_are_counted_and_not_all_listed() {
    let fields: Map<String, Value> = (0..100_000).map(|index| (format!("unknown_{index}"), Value::Null)).collect();
    let mut tool = json!({"name": "a", "description": "A", "providerConfigKey": "p"});
    tool.as_object_mut().unwrap().extend(fields);
    let conversion = read_value(&json!({"tools": [tool]}));
    assert_eq!(conversion.faults.len(), 21);
    assert_eq!(conversion.faults[20].message, "99980 more fields are unknown");
}

#[test]
fn a_node_may_have_a_hundred_thousand_placeholders() {
    let calls: String = (0..100_000).map(|index| format!("{{{{ $fromAI('k{index}') }}}}")).collect();
    let placeholders: String = (0..100_000).map(|index| format!("{{p{index}}}")).collect();
    let conversion = read_value(&json!({
        "nodes": [
            {"name": "new", "type": "n8n-nodes-base.httpRequestTool", "typeVersion": 4.2, "parameters": {
                "toolDescription": "A", "url": format!("=https://e.com/{calls}")}},
            {"name": "old", "type": "@n8n/n8n-nodes-langchain.toolHttpRequest", "typeVersion": 1.1, "parameters": {
                "toolDescription": "B", "url": format!("https://e.com/{placeholders}")}},
        ],
        "connections": {"new": {"ai_tool": [[{"node": "x"}]]}, "old": {"ai_tool": [[{"node": "x"}]]}},
    }));
    assert_eq!(codes(&conversion), [""; 0]);
    for found in &conversion.tools {
        assert_eq!(found.tool.parameters["required"].as_array().unwrap().len(), 100_000);
    }
}

#[test]
fn a_long_key_over_many_values_is_not_copied_for_each() {
    let calls: Vec<Value> = (0..50_000).map(|index| json!(format!("$fromAI('k{index}', $json.x)"))).collect();
    let conversion = read_value(&json!({
        "nodes": [{"name": "n", "type": "n8n-nodes-base.xTool", "parameters": {"toolDescription": "A", "k".repeat(100_000): calls}}],
        "connections": {"n": {"ai_tool": [[{"node": "x"}]]}},
    }));
    assert_eq!(conversion.tools.len(), 1);
}

/// A generated file is often one line. Locating one remark locates every value of it.
#[test]
fn one_line_of_megabytes_is_located_in_one_pass() {
    let tools: Vec<Value> = (0..20_000)
        .map(|number| {
            let property = json!({"type": "string", "description": "Größe", "requried": true});
            json!({"name": format!("tool_{number}"), "parameters": {"type": "object", "properties": {"p": property}}})
        })
        .collect();
    let text = json!({"tools": tools}).to_string();
    assert!(text.len() > 2_000_000 && !text.contains('\n'));
    let checked = check(&text, ConvertOptions::default());
    assert!(!checked.problems.is_empty());
    let last = checked.place_of("tools[19999].parameters.properties.p.requried");
    let expect = text[..text.rfind("\"requried\":").unwrap()].chars().count() + "\"requried\":".len() + 1;
    assert_eq!((last.line, last.column), (1, expect));
}

#[test]
fn every_prefix_of_a_file_has_a_result() {
    for (name, text) in [
        ("n8n", include_str!("../../../fixtures/convert/n8n/support-desk.in.json")),
        ("openapi", include_str!("../../../fixtures/convert/openapi/kennel.in.yaml")),
        ("manifest", include_str!("../../../fixtures/convert/ark-manifest/tools.in.yaml")),
        ("tool-config", include_str!("../../../fixtures/convert/tool-config/tool-config.in.json")),
    ] {
        let ends = text.char_indices().map(|(end, _)| end).step_by(37);
        for end in ends {
            let checked = check(&text[..end], ConvertOptions::default());
            for target in Format::TARGETS {
                assert!(write(&checked.tools, target).is_ok(), "{name} up to {end}");
            }
        }
    }
}

#[test]
fn every_value_of_a_file_may_be_of_another_type() {
    for text in [
        include_str!("../../../fixtures/convert/n8n/support-desk.in.json"),
        include_str!("../../../fixtures/convert/openapi/library-3.1.in.json"),
        include_str!("../../../fixtures/convert/gemini/declarations.in.json"),
        include_str!("../../../fixtures/convert/mcp/tools-list.in.json"),
        include_str!("../../../fixtures/convert/external-tools/client.in.json"),
        include_str!("../../../fixtures/convert/langchain/tools.in.json"),
    ] {
        let format = read(text, ConvertOptions::default()).unwrap().format;
        let others = [json!(null), json!(7), json!("x"), json!([]), json!({}), json!([{}]), json!([7])];
        let parts = parts(&serde_json::from_str(text).unwrap());
        let places = parts.iter().flat_map(|(part, places)| places.iter().map(move |place| (part, place)));
        for (index, (part, place)) in places.enumerate() {
            // Each position gets two of them, and all positions together get all of them.
            for other in [&others[index % others.len()], &others[(index / 3 + 1) % others.len()]] {
                let mut changed = part.clone();
                *changed.pointer_mut(place).unwrap() = other.clone();
                let text = changed.to_string();
                let checked = check(&text, ConvertOptions { from: Some(format), ..ConvertOptions::default() });
                assert!(write(&checked.tools, Format::ArkManifest).is_ok());
            }
        }
    }
}

/// The documents in which values are changed, and the positions of these. An export of n8n is handled node by node,
/// each with its own connections, since a node is read by itself; as a whole only down to its nodes.
fn parts(value: &Value) -> Vec<(Value, Vec<String>)> {
    let Some(nodes) = value["nodes"].as_array() else { return vec![(value.clone(), pointers(value))] };
    let mut places = pointers(value);
    places.retain(|place| place.matches('/').count() <= if place.starts_with("/nodes/") { 2 } else { 1 });
    let mut parts = vec![(value.clone(), places)];
    for node in nodes {
        let name = node["name"].as_str().unwrap();
        let part = json!({"nodes": [node], "connections": {name: value["connections"][name]}});
        let places = pointers(&part);
        parts.push((part, places));
    }
    parts
}

/// JSON pointers to all values inside of one.
fn pointers(value: &Value) -> Vec<String> {
    let children: Vec<(String, &Value)> = match value {
        Value::Array(items) => items.iter().enumerate().map(|(index, item)| (index.to_string(), item)).collect(),
        Value::Object(members) => {
            members.iter().map(|(key, value)| (key.replace('~', "~0").replace('/', "~1"), value)).collect()
        }
        _ => Vec::new(),
    };
    children
        .into_iter()
        .flat_map(|(key, child)| {
            let inside = pointers(child).into_iter().map(move |pointer| format!("/{pointer}"));
            let key_of = key.clone();
            std::iter::once(format!("/{key}")).chain(inside.map(move |pointer| format!("/{key_of}{}", &pointer[1..])))
        })
        .collect()
}
