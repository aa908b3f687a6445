//! Descriptions in several files, and servers that the user names.

use std::collections::BTreeMap;

use bosun_convert::{Conversion, ConvertOptions, FolderFiles, Format, InsideTool, read, write};
use serde_json::json;

/// Files by their paths from the description.
#[derive(Debug)]
struct Files(BTreeMap<&'static str, String>);

impl FolderFiles for Files {
    fn read(&self, path: &str) -> Result<String, String> {
        self.0.get(path).cloned().ok_or_else(|| "there is no such file".to_owned())
    }
}

const MAIN: &str = "
openapi: 3.0.0
info: {title: Pier, version: '1'}
servers: [{url: https://pier.example.com}]
paths:
  /boats:
    $ref: paths/boats.yaml
  /boats/{id}:
    get: {$ref: 'paths/boat.yaml#/get'}
  /gone:
    get: {$ref: 'paths/gone.yaml#/get'}
  /out:
    get: {$ref: 'https://example.com/api.yaml'}
";

fn files() -> Files {
    Files(BTreeMap::from([
        (
            "paths/boats.yaml",
            "post:\n  operationId: addBoat\n  summary: Adds a boat\n  requestBody:\n    content:\n      application/json:\n        schema: {$ref: '../schemas/boat.yaml#/Boat'}\n".to_owned(),
        ),
        (
            "paths/boat.yaml",
            "get:\n  operationId: getBoat\n  summary: One boat\n  parameters: [{$ref: '#/id'}]\nid: {name: id, in: path, required: true, schema: {type: string}}\n".to_owned(),
        ),
        (
            "schemas/boat.yaml",
            "Boat:\n  type: object\n  properties:\n    name: {type: string}\n    next: {$ref: '#/Boat'}\n    port: {$ref: 'port.yaml'}\n".to_owned(),
        ),
        ("schemas/port.yaml", "type: string\nmaxLength: 9\n".to_owned()),
    ]))
}

fn codes(conversion: &Conversion) -> Vec<(&str, String)> {
    conversion.faults.iter().map(|fault| (fault.code, fault.path.to_string())).collect()
}

#[test]
fn references_to_files_of_the_folder_are_followed() {
    let files = files();
    let options = ConvertOptions { files: Some(&files), ..ConvertOptions::default() };
    let conversion = read(MAIN, options).unwrap();
    let names: Vec<_> = conversion.tools.iter().map(|found| found.tool.name.as_str()).collect();
    assert_eq!(names, ["addBoat", "getBoat"]);
    let body = &conversion.tools[0].tool.parameters;
    assert_eq!(body["$defs"]["Boat"]["properties"]["next"], json!({"$ref": "#/$defs/Boat"}));
    assert_eq!(body["$defs"]["Boat"]["properties"]["port"], json!({"type": "string", "maxLength": 9}));
    assert_eq!(conversion.tools[1].tool.parameters["required"], json!(["id"]));
    assert_eq!(
        codes(&conversion),
        [
            ("ref_unreadable", "paths[\"/gone\"].get.$ref".to_owned()),
            ("remote_ref", "paths[\"/out\"].get.$ref".to_owned()),
        ]
    );
}

#[test]
fn an_operation_behind_a_reference_that_cannot_be_followed_is_never_an_empty_tool() {
    let conversion = read(MAIN, ConvertOptions::default()).unwrap();
    assert!(conversion.tools.is_empty());
    assert!(conversion.faults.iter().all(|fault| fault.code == "remote_ref"), "{:?}", conversion.faults);
    assert_eq!(conversion.faults.len(), 4);
}

#[test]
fn the_server_that_the_user_names_replaces_or_completes_the_own_one() {
    for (own, named, expect) in [
        ("servers: [{url: https://a.example}]", None, Some("https://a.example/x")),
        ("servers: [{url: https://a.example}]", Some("https://b.example/v2/"), Some("https://b.example/v2/x")),
        ("servers: [{url: /v1}]", Some("https://b.example"), Some("https://b.example/v1/x")),
        ("servers: [{url: /v1}]", None, None),
        ("info: {title: T, version: '1'}", Some("http://b.example"), Some("http://b.example/x")),
        ("info: {title: T, version: '1'}", None, None),
    ] {
        let text = format!("openapi: 3.1.0\n{own}\npaths: {{/x: {{get: {{operationId: x, summary: X}}}}}}\n");
        let conversion = read(&text, ConvertOptions { server: named, ..ConvertOptions::default() }).unwrap();
        match (&conversion.tools[0].inside, expect) {
            (InsideTool::AsRequest(request), Some(url)) => assert_eq!(request.http.url, url),
            (InsideTool::Never(reason), None) => assert!(reason.contains("`--server`"), "{reason}"),
            (inside, expect) => panic!("{own} {named:?}: {inside:?} is not {expect:?}"),
        }
    }
}

/// A bundle may refer to itself in circles, and to more than fits.
#[test]
fn files_that_refer_to_each_other_end() {
    let files =
        Files(BTreeMap::from([("a.yaml", "$ref: b.yaml\n".to_owned()), ("b.yaml", "$ref: a.yaml\n".to_owned())]));
    let text = "openapi: 3.1.0\npaths: {/x: {get: {$ref: a.yaml}}}\n";
    let conversion = read(text, ConvertOptions { files: Some(&files), ..ConvertOptions::default() }).unwrap();
    assert_eq!(codes(&conversion), [("cyclic_ref", "paths[\"/x\"].get.$ref".to_owned())]);
    assert!(write(&conversion.tools, Format::ArkManifest).is_ok());
}

#[test]
fn what_is_read_only_behind_a_reference_is_not_sent() {
    for (media, body) in [("application/json", "{{.input.body}}"), ("multipart/form-data", "name={{.input.body.name}}")]
    {
        let api = json!({
            "openapi": "3.0.3", "info": {"title": "T", "version": "1"}, "servers": [{"url": "https://e.example.com"}],
            "paths": {"/boats": {"post": {"operationId": "add", "summary": "S", "requestBody": {"required": true, "content": {media: {"schema": {
                "type": "object", "required": ["id", "name"],
                "properties": {"id": {"$ref": "#/components/schemas/Number"}, "name": {"type": "string"}},
            }}}}}}},
            "components": {"schemas": {
                "Number": {"$ref": "#/components/schemas/Id"}, "Id": {"type": "string", "readOnly": true},
            }},
        });
        let conversion = read(&api.to_string(), ConvertOptions::default()).unwrap();
        let found = &conversion.tools[0];
        let sent = &found.tool.parameters["properties"]["body"];
        assert_eq!((&sent["properties"], &sent["required"]), (&json!({"name": {"type": "string"}}), &json!(["name"])));
        let InsideTool::AsRequest(request) = &found.inside else { panic!("{media}: {:?}", found.inside) };
        assert_eq!(request.http.body.as_deref(), Some(body), "{media}");
    }
}

#[test]
fn names_and_paths_with_characters_that_an_address_cannot_have() {
    let api = "
openapi: 3.0.0
info: {title: Pier, version: '1'}
servers: [{url: https://pier.example.com}]
paths:
  /all boats/{id}:
    get:
      operationId: getBoat
      summary: One boat
      parameters:
        - {name: id, in: path, required: true, schema: {type: string}}
        - {name: 'port ', in: query, schema: {type: string}}
  /docks:
    get:
      operationId: getDocks
      summary: All docks
      parameters: [{name: 'a, or {b}', in: query, required: true, schema: {type: string}}]
";
    let conversion = read(api, ConvertOptions::default()).unwrap();
    let [boat, docks] = &conversion.tools[..] else { panic!("two tools") };
    let InsideTool::AsRequest(request) = &boat.inside else { panic!("a request") };
    assert_eq!(request.http.url, "https://pier.example.com/all%20boats/{id}");
    assert_eq!(request.losses[0].code, "parameter_dropped");
    let reason = "the name of the query parameter `a, or {b}` cannot be that of a slot";
    assert!(matches!(&docks.inside, InsideTool::Never(why) if why == reason), "{:?}", docks.inside);
}
