//! `bosun convert` and `bosun check` on files as people have them: secrets, several files, packages, folders.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

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

#[test]
fn keys_in_texts_for_the_model_are_left_out() {
    let node = |name: &str, kind: &str, version: f64, parameters: serde_json::Value| serde_json::json!({"name": name, "type": kind, "typeVersion": version, "parameters": parameters});
    let key = "sk-proj-not-a-real-key-0123456789";
    let url = "https://a.example.com/{id}";
    let placeholder = serde_json::json!({"values": [{"name": "id", "description": format!("default {key}")}]});
    let nodes = [
        node(
            "new",
            "n8n-nodes-base.httpRequestTool",
            4.2,
            serde_json::json!({"toolDescription": format!("Use {key}."), "url": "https://a.example.com"}),
        ),
        node(
            "old",
            "@n8n/n8n-nodes-langchain.toolHttpRequest",
            1.0,
            serde_json::json!({"toolDescription": format!("Use {key}"), "url": url, "placeholderDefinitions": placeholder}),
        ),
    ];
    let wire = serde_json::json!({"ai_tool": [[{"node": "Agent", "type": "ai_tool", "index": 0}]]});
    let workflow = serde_json::json!({"nodes": nodes, "connections": {"new": wire, "old": wire}});
    let folder = folder(&[("workflow.json", &workflow.to_string())]);
    for target in ["ark-manifest", "external-tools"] {
        let Ran { stdout, stderr, .. } = run(folder.path(), &["convert", "workflow.json", "--to", target]);
        assert!(stdout.contains("Use …") && !stdout.contains("not-a-real"), "{target}: {stdout}");
        assert_eq!(stderr.matches("warning[secret_dropped]").count(), 2, "{target}: {stderr}");
        assert!(!stderr.contains("not-a-real"), "{target}: {stderr}");
    }
}

#[test]
fn what_is_converted_passes_the_check() {
    for file in ["n8n/flowers.in.json", "openapi/styles.in.yaml", "openapi/swagger-2.in.json"] {
        let converted = run(&fixtures(), &["convert", file, "--to", "ark-manifest"]);
        let folder = folder(&[("tools.yaml", &converted.stdout)]);
        let checked = run(folder.path(), &["check", "tools.yaml"]);
        assert_eq!(checked.code, 0, "{file}: {}\n{}", checked.stderr, converted.stdout);
    }
}

/// As large as the APIs of Stripe and GitHub: more than a megabyte, and more than a thousand operations.
#[test]
fn a_large_api_moves_whole() {
    let description = "A part of a large API. ".repeat(50);
    let paths: serde_json::Map<String, serde_json::Value> = (0..1_100)
        .map(|index| {
            let operation = serde_json::json!({
                "operationId": format!("part{index}"),
                "description": description,
                "parameters": [{"name": "id", "in": "query", "schema": {"type": "integer"}}],
            });
            (format!("/parts/{index}"), serde_json::json!({"get": operation}))
        })
        .collect();
    let api = serde_json::json!({
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
