//! Descriptions in several files, and servers that the user names.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue should say where and stop")]

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

#[test]
fn a_variable_of_a_server_without_a_default_is_told() {
    let base = "servers: [{url: '/{base}', variables: {base: {enum: [v1, v2]}}}]";
    let whole = "servers: [{url: 'https://a.example/{base}/v1'}]";
    let number = "servers: [{url: 'https://a.example:{port}', variables: {port: {default: 8443}}}]";
    let path = "servers: [{url: '{base}', variables: {base: {default: /v1}}}]";
    for (own, named, expect) in [
        (whole, None, Err("`base`")),
        (whole, Some("https://b.example"), Ok("https://b.example/x")),
        (base, None, Err("`base`")),
        (base, Some("https://b.example"), Err("`base`")),
        (base, Some("https://b.example/v2"), Ok("https://b.example/v2/x")),
        (number, None, Ok("https://a.example:8443/x")),
        (path, Some("https://b.example"), Ok("https://b.example/v1/x")),
    ] {
        let text = format!("openapi: 3.1.0\n{own}\npaths: {{/x: {{get: {{operationId: x, summary: X}}}}}}\n");
        let conversion = read(&text, ConvertOptions { server: named, ..ConvertOptions::default() }).unwrap();
        match (&conversion.tools[0].inside, expect) {
            (InsideTool::AsRequest(request), Ok(url)) => assert_eq!(request.http.url, url),
            (InsideTool::Never(reason), Err(name)) => assert!(reason.contains(name), "{reason}"),
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

/// A path of Swagger 2 in a file of its own, its operation behind a chain of references.
#[test]
fn swagger_in_several_files_is_that_of_one_file() {
    let item = json!({
        "parameters": [{"$ref": "#/ids"}],
        "get": {"$ref": "operation.yaml#/list"},
        "post": {"operationId": "add", "summary": "S", "parameters": [
            {"name": "boat", "in": "body", "required": true, "schema": {"type": "object", "properties": {"name": {"type": "string"}}}},
        ]},
        "ids": {"name": "ids", "in": "query", "type": "array", "collectionFormat": "csv", "items": {"type": "integer"}},
    });
    let files = Files(BTreeMap::from([
        ("a.yaml", "$ref: b.yaml\n".to_owned()),
        ("b.yaml", item.to_string()),
        ("operation.yaml", "list: {$ref: '#/other'}\nother: {operationId: list, summary: S}\n".to_owned()),
    ]));
    let text = "swagger: '2.0'\nhost: pier.example.com\npaths: {/boats: {$ref: a.yaml}}\n";
    let conversion = read(text, ConvertOptions { files: Some(&files), ..ConvertOptions::default() }).unwrap();
    assert_eq!(codes(&conversion), []);
    let [list, add] = &conversion.tools[..] else { panic!("{:?}", conversion.tools) };
    let ids = json!({"type": "array", "items": {"type": "integer"}});
    assert_eq!((list.tool.name.as_str(), &list.tool.parameters["properties"]), ("list", &json!({"ids": ids})));
    assert_eq!(url(list), "https://pier.example.com/boats?ids={ids:csv}");
    assert_eq!(add.tool.parameters["properties"]["body"]["properties"], json!({"name": {"type": "string"}}));
    let InsideTool::AsRequest(request) = &add.inside else { panic!("{:?}", add.inside) };
    assert_eq!(request.http.body.as_deref(), Some("{{.input.body}}"));
}

/// References are copied to their places, so many of them to one large path would multiply it.
#[test]
fn swagger_copies_a_bounded_number_of_values() {
    let large: Vec<usize> = (0..100_000).collect();
    let paths: serde_json::Map<_, _> =
        (0..20).map(|index| (format!("/{index}"), json!({"$ref": "#/x-large"}))).collect();
    let text = json!({
        "swagger": "2.0", "host": "e.example.com", "paths": paths,
        "x-large": {"get": {"summary": "S", "parameters": [{"name": "a", "in": "query", "type": "integer", "enum": large}]}},
    });
    let conversion = read(&text.to_string(), ConvertOptions::default()).unwrap();
    assert!(conversion.tools.len() < 10, "{} tools", conversion.tools.len());
    assert!(conversion.faults.iter().any(|fault| fault.code == "too_large"), "{:?}", conversion.faults);
}

#[track_caller]
fn url(found: &bosun_convert::Found) -> &str {
    let InsideTool::AsRequest(request) = &found.inside else { panic!("{:?}", found.inside) };
    &request.http.url
}

/// The only tool of a description with this server, this path and these parameters.
fn of(server: serde_json::Value, path: &str, parameters: serde_json::Value) -> bosun_convert::Found {
    let api = json!({
        "openapi": "3.0.3", "info": {"title": "T", "version": "1"}, "servers": [server],
        "paths": {path: {"get": {"operationId": "x", "summary": "S", "parameters": parameters}}},
    });
    let conversion = read(&api.to_string(), ConvertOptions::default()).unwrap();
    conversion.tools.into_iter().next().unwrap()
}

#[test]
fn a_server_without_a_whole_address_is_an_obstacle() {
    for server in [
        "https://a.example.com/v1?k=1",
        "https://a.example.com/v1#x",
        "https://{host}.example.com",
        "https://<x>.example.com",
        "https://a b.example.com",
        "https://user:pass@a.example.com",
        "https://",
        "https://:80/x",
    ] {
        let found = of(json!({"url": server}), "/x", json!([]));
        let InsideTool::Never(reason) = found.inside else { panic!("{server}: {:?}", found.inside) };
        assert!(reason.starts_with("the server's URL") && !reason.contains("pass@"), "{reason}");
    }
    for (server, expect) in [
        ("http://localhost:80/v1/", "http://localhost:80/v1/x"),
        ("https://[::1]/", "https://[::1]/x"),
        ("//api.example.com.", "https://api.example.com./x"),
    ] {
        assert_eq!(url(&of(json!({"url": server}), "/x", json!([]))), expect);
    }
}

#[test]
fn a_parameter_of_the_path_that_is_never_sent_is_an_obstacle() {
    let parameter = json!([{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}]);
    for path in ["/send#env/{id}", "/send"] {
        let found = of(json!({"url": "https://a.example.com"}), path, parameter.clone());
        let InsideTool::Never(reason) = found.inside else { panic!("{path}: {:?}", found.inside) };
        assert_eq!(reason, "what is sent of its path has no place for the parameter `id`");
    }
    let found = of(json!({"url": "https://a.example.com"}), "/send/{id}#env", parameter);
    assert_eq!(url(&found), "https://a.example.com/send/{id}");
}

/// How a value becomes XML, for one, is not described.
#[test]
fn a_text_has_no_members_and_a_form_has_some() {
    for (media, schema, is_sent) in [
        ("application/x-www-form-urlencoded", json!({"type": "string"}), false),
        ("application/x-www-form-urlencoded", json!({"type": "object"}), true),
        ("text/xml", json!({"type": "object", "properties": {"a": {"type": "string"}}}), false),
        ("text/plain", json!({"type": "array", "items": {"type": "string"}}), false),
        ("text/xml", json!({"type": "string"}), true),
        ("text/plain", json!({}), true),
        ("text/json", json!({"type": "object"}), true),
    ] {
        let api = json!({
            "openapi": "3.0.3", "info": {"title": "T", "version": "1"}, "servers": [{"url": "https://a.example.com"}],
            "paths": {"/x": {"post": {
                "operationId": "x", "summary": "S", "requestBody": {"required": true, "content": {media: {"schema": schema}}},
            }}},
        });
        let conversion = read(&api.to_string(), ConvertOptions::default()).unwrap();
        match &conversion.tools[0].inside {
            InsideTool::AsRequest(_) => assert!(is_sent, "{media} {schema}"),
            InsideTool::Never(reason) => assert!(!is_sent, "{media} {schema}: {reason}"),
            other => panic!("{media} {schema}: {other:?}"),
        }
    }
}

#[test]
fn a_parameter_that_is_in_the_path_too_is_sent_once() {
    let server = || json!({"url": "https://a.example.com"});
    let parameter = |required| json!([{"name": "a", "in": "query", "required": required, "schema": {"type": "array", "items": {}}, "explode": false}]);
    let found = of(server(), "/x?b=1&a={a}", parameter(false));
    assert_eq!(url(&found), "https://a.example.com/x?b=1&a={a:csv}");
    assert_eq!(url(&of(server(), "/x?a={a}", parameter(false))), "https://a.example.com/x?a={a:csv}");
    // A fixed value is the path's own.
    let found = of(server(), "/x?a=list", parameter(true));
    assert_eq!(url(&found), "https://a.example.com/x?a=list");
    let InsideTool::AsRequest(request) = &found.inside else { panic!("{:?}", found.inside) };
    assert_eq!(request.losses[0].code, "parameter_dropped");
    assert_eq!(request.takes.as_ref().unwrap().parameters["properties"], json!({}));
}

#[test]
fn secrets_of_a_description_are_not_copied() {
    let key = "sk-proj-not-a-real-key-0123456789";
    let found = of(
        json!({"url": "https://a.example.com"}),
        "/q?api_key=hunter2&x={x}",
        json!([
            {"name": "x", "in": "query", "schema": {"type": "string", "default": key, "description": format!("As {key}.")}},
            {"name": "token", "in": "query", "schema": {"type": "string", "default": "hunter2hunter2hunter2"}},
        ]),
    );
    let shown = format!("{found:?}");
    assert!(!shown.contains("not-a-real") && !shown.contains("hunter2hunter2"), "{shown}");
    assert_eq!(url(&found), "https://a.example.com/q?api_key={{.api-key}}&x={x}&token={token}");
    let InsideTool::AsRequest(request) = &found.inside else { panic!("{:?}", found.inside) };
    assert_eq!((request.losses[0].code, request.http.body_parameters.len()), ("secret_needed", 1));
    assert!(!request.losses[0].message.contains("hunter2"), "{}", request.losses[0]);
    // A name that is made of the path has no secret either.
    let api = "openapi: 3.0.0\nservers: [{url: 'https://a.example.com'}]\npaths: {'/q?api_key=hunter2': {get: {}}}\n";
    let conversion = read(api, ConvertOptions::default()).unwrap();
    let tool = &conversion.tools[0].tool;
    assert_eq!((tool.name.as_str(), tool.description.as_str()), ("get_q_api_key", "GET /q?api_key=…"));
    assert!(
        conversion.warnings.iter().all(|warning| !warning.message.contains("hunter2")),
        "{:?}",
        conversion.warnings
    );
}

#[test]
fn the_fields_of_a_form_may_be_behind_all_of() {
    let form = |media: &str, encoding: serde_json::Value| {
        let api = json!({
            "openapi": "3.0.3", "info": {"title": "T", "version": "1"}, "servers": [{"url": "https://e.example.com"}],
            "paths": {"/x": {"post": {"operationId": "x", "summary": "S", "requestBody": {"required": true, "content": {media: {
                "schema": {"allOf": [{"$ref": "#/components/schemas/Base"}, {"type": "object", "properties": {"n": {"type": "integer"}}}]},
                "encoding": encoding,
            }}}}}},
            "components": {"schemas": {"Base": {"allOf": [{"type": "object", "properties": {
                "l": {"type": "array", "items": {"type": "string"}}, "o": {"type": "object"},
            }}]}}},
        });
        let conversion = read(&api.to_string(), ConvertOptions::default()).unwrap();
        match conversion.tools.into_iter().next().unwrap().inside {
            InsideTool::AsRequest(request) => request.http.body.unwrap(),
            InsideTool::Never(reason) => reason,
            InsideTool::AsBound => panic!("no request"),
        }
    };
    let urlencoded = "application/x-www-form-urlencoded";
    assert_eq!(
        form(urlencoded, json!({"l": {"explode": false}, "o": {"style": "deepObject"}})),
        "n={{.input.body.n}}&l={{.input.body.l:csv}}&o={{.input.body.o:deepObject}}"
    );
    assert_eq!(
        form("multipart/form-data", json!({"l": {"explode": false}})),
        "n={{.input.body.n}}&l={{.input.body.l:csv}}&o={{.input.body.o:json}}"
    );
    let unknown = form(urlencoded, json!({"other": {"style": "deepObject"}}));
    assert!(unknown.contains("the field `other` of its form has a style"), "{unknown}");
}
