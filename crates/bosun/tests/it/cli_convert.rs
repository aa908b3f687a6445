//! `bosun convert` and `bosun check` on files as people have them: secrets, several files, packages, folders.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use serde_json::{Value, json};

use crate::program::program;

struct Ran {
    code: i32,
    stdout: String,
    stderr: String,
}

fn run(folder: &Path, arguments: &[&str]) -> Ran {
    let Output { status, stdout, stderr } =
        Command::new(program()).args(arguments).current_dir(folder).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: status.code().unwrap(), stdout: text(stdout), stderr: text(stderr) }
}

/// A folder with these files.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn fixtures() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/convert")
}

#[test]
fn secrets_of_a_workflow_never_leave_it() {
    for target in ["ark-manifest", "external-tools", "ark", "openai", "mcp", "tool-config"] {
        let Ran { stdout, stderr, .. } = run(&fixtures(), &["convert", "n8n/flowers.in.json", "--to", target]);
        assert!(stdout.contains("search-by-key") || stdout.contains("Search_by_key"), "{target}: {stdout}");
        for secret in ["not-a-real", "abcdefghijklmnopqrstuvwxyz"] {
            assert!(!stdout.contains(secret) && !stderr.contains(secret), "{target} shows {secret}");
        }
    }
    let Ran { stdout, stderr, .. } = run(&fixtures(), &["convert", "n8n/flowers.in.json", "--to", "ark-manifest"]);
    for (part, key) in [
        ("api_token={{.api-token}}", "api-token"),
        ("key={{.key}}", "key"),
        ("\"api_key\": \"{{.api-key}}\"", "api-key"),
        ("\"password\": \"{{.password}}\"", "password"),
    ] {
        assert!(stdout.replace("\\\"", "\"").contains(part), "{part} is not in {stdout}");
        assert!(stderr.contains(&format!("key `{key}`")), "{key} is not in {stderr}");
    }
}

/// A node of n8n.
fn node(name: &str, kind: &str, version: f64, parameters: Value) -> Value {
    json!({"name": name, "type": kind, "typeVersion": version, "parameters": parameters})
}

/// A workflow with these nodes as the tools of one agent.
fn workflow(nodes: &[Value]) -> String {
    let wire = json!({"ai_tool": [[{"node": "Agent", "type": "ai_tool", "index": 0}]]});
    let connections: serde_json::Map<_, _> =
        nodes.iter().map(|node| (node["name"].as_str().unwrap().to_owned(), wire.clone())).collect();
    json!({"nodes": nodes, "connections": connections}).to_string()
}

const HTTP: &str = "n8n-nodes-base.httpRequestTool";

#[test]
fn a_secret_that_no_reference_can_replace_keeps_its_tool() {
    let (secret, vendor) = ("not-a-real-key", "sk-proj-not-a-real-key-0123456789");
    let url = "https://a.example.com/x";
    let list = |name: &str, value: &str| json!({"parameters": [{"name": name, "value": value}]});
    let slot = format!("={secret} {{{{ $fromAI('a') }}}}");
    let body = |parameters: Value| {
        let mut all = json!({"method": "POST", "url": url, "sendBody": true});
        all.as_object_mut().unwrap().extend(parameters.as_object().unwrap().clone());
        all
    };
    let refused = [
        json!({"url": url, "sendQuery": true, "queryParameters": list("token", &slot)}),
        json!({"url": format!("={url}?token={secret}{{{{ $fromAI('a') }}}}")}),
        json!({"url": url, "sendHeaders": true, "headerParameters": list("X-Thing", &format!("={vendor} {{{{ $fromAI('a') }}}}"))}),
        body(json!({"bodyParameters": list("password", &slot)})),
        body(
            json!({"specifyBody": "json", "jsonBody": format!("={{\"password\": \"{secret} {{{{ $fromAI('a') }}}}\"}}")}),
        ),
        body(json!({"contentType": "raw", "rawContentType": "text/xml", "body": format!("<a token=\"{secret}\"/>")})),
        json!({"url": url, "sendHeaders": true, "headerParameters": list("Authorization", &format!("={{{{ 'Bearer {vendor}' + $json.x }}}}"))}),
        json!({"url": url, "sendQuery": true, "queryParameters": list("password", &format!("={{{{ '{secret}' + $json.x }}}}"))}),
    ];
    let old =
        json!({"values": [{"name": "api_key", "valueProvider": "fieldValue", "value": format!("{secret}-{{q}}")}]});
    let mut nodes: Vec<Value> = refused
        .into_iter()
        .enumerate()
        .map(|(index, parameters)| node(&format!("n{index}"), HTTP, 4.2, parameters))
        .collect();
    let old = json!({"url": url, "sendQuery": true, "parametersQuery": old});
    nodes.push(node("old", "@n8n/n8n-nodes-langchain.toolHttpRequest", 1.1, old));
    let refused = nodes.len();
    nodes.push(node("text", HTTP, 4.2, body(json!({"specifyBody": "json", "jsonBody": json!({"payload": json!({"api_key": secret}).to_string()}).to_string()}))));
    nodes.push(node(
        "list",
        HTTP,
        4.2,
        body(json!({"specifyBody": "json", "jsonBody": json!({"secret": [secret]}).to_string()})),
    ));
    let folder = folder(&[("workflow.json", &workflow(&nodes))]);
    let Ran { stdout, stderr, .. } = run(folder.path(), &["convert", "workflow.json", "--to", "ark-manifest"]);
    assert!(!stdout.contains("not-a-real") && !stderr.contains("not-a-real"), "{stdout}{stderr}");
    assert_eq!(stderr.matches("warning[cannot_move]").count(), refused, "{stderr}");
    assert!(stdout.contains("{{.payload}}") && stdout.contains("{{.secret}}"), "{stdout}");
}

#[test]
fn secrets_of_a_description_never_leave_it() {
    let api = "openapi: 3.0.0\ninfo: {title: T, version: '1'}\nservers: [{url: 'https://a.example.com'}, {url: 'https://user:not-a-real-key@a.example.com'}]\npaths:\n  '/q?api_key=not-a-real-key': {get: {}}\n  /x: {servers: [{url: 'https://user:not-a-real-key@a.example.com'}], get: {operationId: x, summary: X}}\n";
    let folder = folder(&[("api.yaml", api)]);
    for target in ["ark-manifest", "external-tools", "mcp"] {
        let Ran { stdout, stderr, .. } = run(folder.path(), &["convert", "api.yaml", "--to", target]);
        assert!(!stdout.contains("not-a-real") && !stderr.contains("not-a-real"), "{target}: {stdout}{stderr}");
        assert!(stdout.contains("get_q_api_key") || stdout.contains("get-q-api-key"), "{target}: {stdout}");
    }
}

#[test]
fn keys_in_texts_for_the_model_are_left_out() {
    let key = "sk-proj-not-a-real-key-0123456789";
    let url = "https://a.example.com/{id}";
    let placeholder = json!({"values": [{"name": "id", "description": format!("default {key}")}]});
    let nodes = [
        node(
            "new",
            "n8n-nodes-base.httpRequestTool",
            4.2,
            json!({"toolDescription": format!("Use {key}."), "url": "https://a.example.com"}),
        ),
        node(
            "old",
            "@n8n/n8n-nodes-langchain.toolHttpRequest",
            1.0,
            json!({"toolDescription": format!("Use {key}"), "url": url, "placeholderDefinitions": placeholder}),
        ),
    ];
    let folder = folder(&[("workflow.json", &workflow(&nodes))]);
    for target in ["ark-manifest", "external-tools"] {
        let Ran { stdout, stderr, .. } = run(folder.path(), &["convert", "workflow.json", "--to", target]);
        assert!(stdout.contains("Use …") && !stdout.contains("not-a-real"), "{target}: {stdout}");
        assert_eq!(stderr.matches("warning[secret_dropped]").count(), 2, "{target}: {stderr}");
        assert!(!stderr.contains("not-a-real"), "{target}: {stderr}");
    }
}

#[test]
fn what_is_converted_passes_the_check() {
    for file in ["n8n/flowers.in.json", "n8n/bodies.in.json", "openapi/styles.in.yaml", "openapi/swagger-2.in.json"] {
        let converted = run(&fixtures(), &["convert", file, "--to", "ark-manifest"]);
        let folder = folder(&[("tools.yaml", &converted.stdout)]);
        let checked = run(folder.path(), &["check", "tools.yaml"]);
        assert_eq!(checked.code, 0, "{file}: {}\n{}", checked.stderr, converted.stdout);
    }
}

/// One faulty tool would make the whole file of manifests invalid.
#[test]
fn a_request_that_a_server_refuses_is_left_out() {
    let urls = [
        "https://a.example.com/../a",
        "https://<YourStore>.example.com/a",
        "=https://a.example.com/a?{{ $fromAI('q') }}",
        "https://a.example.com/a b/c ",
        "https://a.example.com/d\n",
    ];
    let nodes: Vec<Value> = urls
        .iter()
        .enumerate()
        .map(|(index, url)| node(&format!("n{index}"), HTTP, 4.2, json!({"url": url})))
        .collect();
    let api = |path: &str| {
        format!(
            "openapi: 3.0.0\ninfo: {{title: T, version: '1'}}\nservers: [{{url: 'https://a.example.com'}}]\npaths:\n  '{path}': {{get: {{operationId: a, summary: S}}}}\n  /ok: {{get: {{operationId: b, summary: S}}}}\n"
        )
    };
    let mut files = vec![("workflow.json".to_owned(), workflow(&nodes), 3)];
    for (index, path) in ["/a/../b", "/x/{a:.*}", "/x?{q}"].into_iter().enumerate() {
        files.push((format!("{index}.yaml"), api(path), 1));
    }
    for (name, text, refused) in files {
        let folder = folder(&[(&name, &text)]);
        let converted = run(folder.path(), &["convert", &name, "--to", "ark-manifest"]);
        assert_eq!(converted.code, 0, "{}", converted.stderr);
        assert_eq!(converted.stderr.matches("warning[cannot_move]").count(), refused, "{}", converted.stderr);
        fs::write(folder.path().join("tools.yaml"), &converted.stdout).unwrap();
        let checked = run(folder.path(), &["check", "tools.yaml"]);
        assert_eq!(checked.code, 0, "{}\n{}", checked.stderr, converted.stdout);
    }
}

#[test]
fn a_conversion_that_writes_nothing_is_an_error() {
    let files = folder(&[("tools.json", r#"[{"name": "a", "description": "A", "input_schema": {"type": "object"}}]"#)]);
    let ran = run(files.path(), &["convert", "tools.json", "--to", "ark-manifest"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("none of the tools of tools.json can be written as ark-manifest"), "{}", ran.stderr);
}

/// As large as the APIs of Stripe and GitHub: more than a megabyte, and more than a thousand operations.
#[test]
fn a_large_api_moves_whole() {
    let description = "A part of a large API. ".repeat(50);
    let paths: serde_json::Map<String, Value> = (0..1_100)
        .map(|index| {
            let operation = json!({
                "operationId": format!("part{index}"),
                "description": description,
                "parameters": [{"name": "id", "in": "query", "schema": {"type": "integer"}}],
            });
            (format!("/parts/{index}"), json!({"get": operation}))
        })
        .collect();
    let api = json!({
        "openapi": "3.0.3", "info": {"title": "Parts", "version": "1"},
        "servers": [{"url": "https://parts.example.com"}], "paths": paths,
    });
    let folder = folder(&[("api.json", &api.to_string())]);
    let converted = run(folder.path(), &["convert", "api.json", "--to", "ark-manifest"]);
    assert_eq!(converted.code, 0, "{}", converted.stderr);
    assert!(converted.stdout.len() > 1024 * 1024, "{} bytes are no large file", converted.stdout.len());
    fs::create_dir(folder.path().join("agents")).unwrap();
    fs::write(folder.path().join("agents/parts.yaml"), &converted.stdout).unwrap();
    let checked = run(folder.path(), &["check", "agents"]);
    assert_eq!(checked.code, 0, "{}{}", checked.stdout, checked.stderr);
    // The check fails where a server would: it has fewer nodes than a file of that size may have, and this one more.
    let brackets = format!(
        "kind: Tool\nmetadata: {{name: a}}\nspec: {{type: http, description: A, labels: [{}]}}\n",
        "[],".repeat(60_000)
    );
    fs::write(folder.path().join("agents/parts.yaml"), brackets).unwrap();
    let checked = run(folder.path(), &["check", "agents"]);
    assert_eq!(checked.code, 1, "{}", checked.stderr);
    assert!(checked.stderr.contains("file expands to more than a manifest may hold"), "{}", checked.stderr);
}

#[test]
fn one_agent_can_be_chosen() {
    let one = run(&fixtures(), &["convert", "n8n/flowers.in.json", "--to", "external-tools", "--agent", "Gardener"]);
    assert_eq!(one.stdout.matches("\"name\":").count(), 1, "{}", one.stdout);
    assert!(one.stdout.contains("\"notes\""));
    let unknown = run(&fixtures(), &["convert", "n8n/flowers.in.json", "--to", "external-tools", "--agent", "Porter"]);
    assert_eq!(unknown.code, 1);
    assert!(unknown.stderr.contains("agents are `Florist`, `Gardener`"), "{}", unknown.stderr);
}

#[test]
fn the_users_own_node_types_give_n8ns_descriptions() {
    let types = r#"[{"name": "slack", "version": [2, 2.3], "defaults": {"name": "Slack"}, "description": "Consume Slack API", "properties": [
        {"name": "resource", "default": "message"},
        {"name": "operation", "default": "info", "displayOptions": {"show": {"resource": ["user"]}}, "options": [{"value": "info", "action": "Get information about a user"}]}
    ]}]"#;
    let files = folder(&[("nodes.json", types), ("bad.json", "{}")]);
    let nodes = files.path().join("nodes.json");
    let nodes = nodes.to_str().unwrap();
    let ran = run(&fixtures(), &["convert", "n8n/flowers.in.json", "--to", "external-tools", "--n8n-nodes", nodes]);
    assert!(ran.stdout.contains("Get information about a user in Slack"), "{}", ran.stdout);
    // A node of another package is not described by one of the same name.
    let types = json!([
        {"name": "@n8n/n8n-nodes-langchain.mcpClientTool", "version": 1, "defaults": {"name": "MCP Client"}, "description": "LangChain's"},
        {"name": "n8n-nodes-other.slack", "version": 2.3, "defaults": {"name": "Other"}, "description": "Another's"},
    ]);
    let nodes = [
        node("mcp", "n8n-nodes-mcp.mcpClientTool", 1.0, json!({"x": "={{ $fromAI('x') }}"})),
        node("slack", "n8n-nodes-base.slackTool", 2.3, json!({"x": "={{ $fromAI('x') }}"})),
        node("other", "n8n-nodes-other.slackTool", 2.3, json!({"x": "={{ $fromAI('x') }}"})),
    ];
    fs::write(files.path().join("types.json"), types.to_string()).unwrap();
    fs::write(files.path().join("workflow.json"), workflow(&nodes)).unwrap();
    let arguments = ["convert", "workflow.json", "--to", "external-tools", "--n8n-nodes", "types.json"];
    let ran = run(files.path(), &arguments);
    assert!(ran.stdout.contains("Another's") && !ran.stdout.contains("LangChain's"), "{}", ran.stdout);
    assert_eq!(ran.stderr.matches("warning[description_assumed]").count(), 2, "{}", ran.stderr);
    let bad = files.path().join("bad.json");
    let bad = bad.to_str().unwrap();
    let ran = run(&fixtures(), &["convert", "n8n/flowers.in.json", "--to", "external-tools", "--n8n-nodes", bad]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("these are not node types of n8n"), "{}", ran.stderr);
}

#[test]
fn an_empty_conversion_is_reported() {
    let files = folder(&[
        ("empty.json", r#"{"nodes": [], "connections": {}}"#),
        ("api.yaml", "openapi: 3.1.0\npaths: {}\n"),
        ("code.ts", "import { z } from 'zod';\nexport const a = 1;\n"),
        ("list.json", "[]"),
    ]);
    for (file, what) in [
        ("empty.json", "nodes with an `ai_tool` connection"),
        ("api.yaml", "operations under `paths`"),
        ("code.ts", "`registerTool`"),
        ("list.json", "a list of tools"),
    ] {
        for arguments in [vec!["convert", file, "--to", "openai"], vec!["check", file]] {
            let ran = run(files.path(), &arguments);
            assert_eq!(ran.code, 1, "{arguments:?}");
            assert!(ran.stderr.contains(&format!("no tools in {file}: looked for")), "{}", ran.stderr);
            assert!(ran.stderr.contains(what), "{}", ran.stderr);
        }
    }
}

#[test]
fn a_folder_is_checked_as_its_files_are() {
    let files = folder(&[
        ("tool-config.json", r#"{"tools": [{"name": "a"}]}"#),
        (
            "tools/bad.ts",
            "import { z } from 'zod';\ntool(run, { name: 'a', description: 'A', schema: z.object({ x: load() }) });\n",
        ),
        (
            "tools/good.ts",
            "import { z } from 'zod';\ntool(run, { name: 'b', description: 'B', schema: z.object({}) });\n",
        ),
        ("tools/other.ts", "export const nothing = 1;\n"),
        ("tools/view.js", "export const view = <b>no tool</b>;\n"),
        ("package.json", r#"{"name": "x"}"#),
    ]);
    let ran = run(files.path(), &["check", "."]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("tool-config.json:1:"), "{}", ran.stderr);
    assert!(ran.stderr.contains("bad.ts:2:64: error[unknown_name]"), "{}", ran.stderr);
    assert!(ran.stderr.contains("3 files, 2 errors"), "{}", ran.stderr);
    // A source that cannot be parsed may have tools if it imports a library of them.
    fs::write(files.path().join("tools/good.ts"), "import { z } from 'zod';\ntool(run, { name: 'b',").unwrap();
    let ran = run(files.path(), &["check", "."]);
    assert!(ran.stderr.contains("good.ts:2:23: error[syntax_error]"), "{}", ran.stderr);
    // A file with one of our names is checked whatever is in it.
    fs::write(files.path().join("tool-config.json"), r#"{"colour": "red"}"#).unwrap();
    assert!(run(files.path(), &["check", "."]).stderr.contains("error[unknown_format]"));
}

#[test]
fn a_folder_is_as_strict_as_its_files() {
    let tool = "import { z } from 'zod';\nimport { City } from '../schemas/city';\ntool(run, { name: 'a', description: 'A', schema: z.object({ city: City }) });\n";
    let view = "import { z } from 'zod';\nexport const view = <b>no tool</b>;\n";
    let city = "import { z } from 'zod';\nexport const City = z.string();\n";
    let wires = json!({"nodes": [node("a", HTTP, 4.2, json!({}))], "connections": {"a": {"ai_tool": ["Agent"]}}});
    let cases: [(&str, &str, i32, &str); 5] = [
        ("tool-config.json", r#"{"tools": []}"#, 1, "no tools in f/tool-config.json"),
        ("wires.json", &wires.to_string(), 1, "no tools in f/wires.json"),
        ("tools/a.tsx", &tool.replace("City } from", "Town } from"), 1, "a.tsx:3:67: error"),
        ("tools/a.tsx", tool, 0, "2 files, 0 errors, 0 warnings"),
        ("view.tsx", view, 0, "view.tsx:2:"),
    ];
    for (name, text, code, shown) in cases {
        let files = folder(&[(&format!("f/{name}"), text), ("f/schemas/city.ts", city), ("f/ok.json", OK)]);
        let ran = run(files.path(), &["check", "f"]);
        assert_eq!(ran.code, code, "{name}: {}", ran.stderr);
        assert!(ran.stderr.contains(shown), "{name}: {}", ran.stderr);
    }
}

/// A file without faults.
const OK: &str = r#"[{"name": "ok", "description": "A", "input_schema": {"type": "object"}}]"#;

#[test]
fn imports_and_the_version_of_zod_come_from_the_package() {
    let files = folder(&[
        ("app/package.json", r#"{"dependencies": {"zod": "^4.1.0"}}"#),
        (
            "app/src/tools/one.ts",
            "import { z } from 'zod';\nimport { City } from '../schemas.js';\nimport { secret } from '../../../outside';\ntool(run, { name: 'a', description: 'A', schema: z.object({ city: City }) });\ntool(run, { name: 'b', description: 'B', schema: z.object({ secret }) });\n",
        ),
        ("app/src/schemas.ts", "import { z } from 'zod';\nexport const City = z.string().max(60);\n"),
        ("outside.ts", "import { z } from 'zod';\nexport const secret = z.literal('outside');\n"),
    ]);
    let ran = run(files.path(), &["convert", "app/src/tools/one.ts", "--to", "external-tools"]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(ran.stdout.contains("\"maxLength\": 60") && ran.stdout.contains("2020-12"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("outside"), "{}", ran.stdout);
    assert!(ran.stderr.contains("one.ts:5:") && ran.stderr.contains("which is not read"), "{}", ran.stderr);
}

#[test]
fn the_side_of_a_schema_and_an_unclear_version_are_told() {
    let tool = "import { z } from 'zod';\ntool(run, { name: 'a', description: 'A', schema: z.object({ n: z.number().default(1) }) });\n";
    let package = |version: &str| json!({"dependencies": {"zod": version}}).to_string();
    let required = |version: &str, io: &[&str]| {
        let files = folder(&[("package.json", &package(version)), ("a.ts", tool)]);
        let ran = run(files.path(), &[&["convert", "a.ts", "--to", "external-tools"], io].concat());
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        (ran.stdout.contains("\"required\""), ran.stderr.contains("warning[zod_version_assumed]"))
    };
    assert_eq!(required("^4.1.0", &[]), (false, false));
    assert_eq!(required("^4.1.0", &["--io", "input"]), (false, false));
    assert_eq!(required("^4.1.0", &["--io", "output"]), (true, false));
    for version in ["latest", "catalog:", "*"] {
        assert_eq!(required(version, &[]), (false, true), "{version}");
        assert_eq!(required(version, &["--zod", "4"]), (false, false), "{version}");
    }
}

#[cfg(unix)]
#[test]
fn a_link_does_not_lead_out_of_the_folder() {
    let files = folder(&[
        ("secret.yaml", "get: {operationId: leaked, summary: Leaked}\n"),
        (
            "api/main.yaml",
            "openapi: 3.1.0\nservers: [{url: https://a.example}]\npaths: {/x: {$ref: link.yaml}, /y: {$ref: ../secret.yaml}}\n",
        ),
    ]);
    std::os::unix::fs::symlink(files.path().join("secret.yaml"), files.path().join("api/link.yaml")).unwrap();
    let ran = run(files.path(), &["convert", "api/main.yaml", "--to", "openai"]);
    assert_eq!(ran.code, 1);
    assert!(!ran.stdout.contains("leaked"), "{}", ran.stdout);
    assert_eq!(ran.stderr.matches("it is outside of the folder").count(), 2, "{}", ran.stderr);
}

#[test]
fn a_description_in_several_files_has_the_server_that_is_named() {
    let files = folder(&[
        (
            "main.yaml",
            "openapi: 3.0.0\ninfo: {title: T, version: '1'}\nservers: [{url: /v2}]\npaths: {/x: {$ref: paths/x.yaml}}\n",
        ),
        ("paths/x.yaml", "get: {operationId: x, summary: X}\n"),
    ]);
    let ran =
        run(files.path(), &["convert", "main.yaml", "--to", "ark-manifest", "--server", "https://api.example.com"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("https://api.example.com/v2/x"), "{}", ran.stdout);
    assert_eq!(run(files.path(), &["convert", "main.yaml", "--to", "openai", "--server", "example.com"]).code, 2);
}

#[test]
fn one_tool_is_a_document_and_categories_ignore_case() {
    let files = folder(&[(
        "tool-config.json",
        r#"{"name": "send_email", "description": "Send", "category": "Email", "providerConfigKey": "google-mail"}"#,
    )]);
    let list =
        |category: &str| run(files.path(), &["tools", "list", "--catalog", "tool-config.json", "--category", category]);
    assert!(list("email").stdout.contains("send_email"), "{}", list("email").stderr);
    let none = list("Emial");
    assert!(none.stderr.contains("there is no category `Emial`; categories: `Email`"), "{}", none.stderr);
}
