//! `bosun check`, `convert` and `tools`, from a user's view: the real program, its output, and its exit code.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::program::program;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/convert")
}

/// The whole output of one run, for a snapshot.
fn run_in(folder: &Path, arguments: &[&str], stdin: &[u8]) -> String {
    let mut child = Command::new(program())
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that stops at an invalid command line does not read its input.
    let _ = child.stdin.take().unwrap().write_all(stdin);
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    assert!(!stdout.contains('\u{1b}') && !stderr.contains('\u{1b}'), "colours belong on a terminal only");
    let code = output.status.code().unwrap();
    format!("exit code {code}\n--- stdout\n{stdout}--- stderr\n{stderr}")
}

fn run(arguments: &[&str]) -> String {
    run_in(&fixtures(), arguments, b"")
}

/// The part of a run that goes to standard error, with the exit code.
fn standard_error(arguments: &[&str]) -> String {
    let shown = run(arguments);
    let (head, tail) = (shown.lines().next().unwrap(), shown.split("--- stderr\n").last().unwrap());
    format!("{head}\n{tail}")
}

/// A file in a folder of its own.
fn with_file(name: &str, bytes: &[u8]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(name), bytes).unwrap();
    folder
}

#[test]
fn every_fault_is_reported_at_once_with_its_place() {
    insta::assert_snapshot!(run(&["check", "tool-config/broken.in.json", "ark-manifest/broken.in.yaml"]));
}

#[test]
fn a_good_file_passes_with_its_remarks() {
    insta::assert_snapshot!(run(&["check", "tool-config/tool-config.in.json", "openapi/library-3.1.in.json"]));
}

#[test]
fn faults_of_schemas_point_into_the_file() {
    let folder = with_file(
        "tools.json",
        br#"[
  {"name": "a", "description": "A", "parameters": {"type": "object", "properties": {"x": {"type": "strnig"}}, "required": ["y"]}},
  {"name": "b", "description": "B", "parameters": {"type": "object", "properties": {"x": {"pattern": "(a+)+$("}}}},
  {"name": "c", "description": "C", "parameters": {"type": "object", "properties": {"x": {"$ref": "https://example.com/x"}}}},
  {"name": "d\u200b", "description": "D", "parameters": {"type": "array"}}
]"#,
    );
    insta::assert_snapshot!(run_in(folder.path(), &["check", "tools.json"], b""));
}

/// Each is what one server reads: names may recur in another.
#[test]
fn the_examples_pass_the_check() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for path in
        ["examples/agents", "examples/database", "examples/models", "examples/n8n/agents", "examples/tools.json"]
    {
        let shown = run_in(&workspace, &["check", path], b"");
        let passes = shown.starts_with("exit code 0\n") && shown.ends_with(", 0 errors, 0 warnings\n");
        assert!(passes, "{path}: {shown}");
    }
}

/// A server and the check read a manifest with different code; what one accepts, the other must not call a fault.
#[test]
fn whatever_a_server_starts_with_passes_the_check() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let shown = run_in(&workspace, &["check", "fixtures/manifests/kinds", "fixtures/manifests/good"], b"");
    assert!(shown.starts_with("exit code 0\n") && shown.contains("5 files, 0 errors, "), "{shown}");
}

#[test]
fn agents_are_checked_with_the_tools_that_they_name() {
    let folder = with_file(
        "agents.yaml",
        b"apiVersion: ark.mckinsey.com/v1alpha1
kind: Agent
metadata: {name: helper}
spec:
  prompt: You help.
  modelRef: {name: nowhere}
  colour: red
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Tool
metadata: {name: forecast}
spec: {type: http, description: The forecast, http: {url: 'https://weather.example.com/{city}'}}
",
    );
    insta::assert_snapshot!(run_in(folder.path(), &["check", "."], b""));
}

#[test]
fn a_template_that_cannot_be_filled_is_a_fault_with_its_place() {
    let folder = with_file(
        "tool.yaml",
        b"apiVersion: ark.mckinsey.com/v1alpha1
kind: Tool
metadata: {name: forecast}
spec:
  type: http
  description: The forecast
  inputSchema: {type: object, properties: {city: {type: string}}}
  http:
    url: 'https://{host}/{city}'
    method: POST
    body: '{\"town\": \"{{.input.town}}\"}'
",
    );
    insta::assert_snapshot!(run_in(folder.path(), &["check", "tool.yaml"], b""));
}

#[test]
fn two_files_of_one_catalogue_may_not_share_a_name() {
    let folder =
        with_file("tool-config.json", br#"{"tools": [{"name": "a", "description": "A", "providerConfigKey": "p"}]}"#);
    fs::create_dir(folder.path().join("more")).unwrap();
    let other = br#"{"tools": [{"name": "a", "description": "B", "providerConfigKey": "q"}]}"#;
    fs::write(folder.path().join("more/tools.json"), other).unwrap();
    fs::write(folder.path().join("more/package.json"), b"{\"private\": true}").unwrap();
    insta::assert_snapshot!(run_in(folder.path(), &["check", "tool-config.json", "more"], b""));
}

#[test]
fn the_report_is_data_when_asked_for() {
    insta::assert_snapshot!(run(&["check", "--json", "openapi/broken.in.yaml"]));
}

#[test]
fn source_code_becomes_ark_tools() {
    let source = br#"import { z } from "zod";

export const calculator = {
    name: "calculator",
    description: "Perform mathematical calculations",
    schema: z.object({ expression: z.string().describe("Mathematical expression to evaluate") }),
    call: async (input: string) => input,
};
"#;
    let folder = with_file("tools.ts", source);
    insta::assert_snapshot!(run_in(folder.path(), &["convert", "tools.ts", "--to", "ark"], b""));
    insta::assert_snapshot!(run_in(folder.path(), &["convert", "tools.ts", "--to", "ark-manifest", "--zod", "4"], b""));
}

#[test]
fn a_schema_that_only_the_running_program_knows_is_an_error_with_its_place() {
    let source = br#"import { z } from "zod";
export const lookup = {
    name: "lookup",
    description: "Looks something up",
    schema: z.object(await fieldsOf("table")),
    call: async () => "",
};
"#;
    let folder = with_file("tools.ts", source);
    insta::assert_snapshot!(run_in(folder.path(), &["check", "tools.ts"], b""));
}

#[test]
fn a_workflow_becomes_external_tools() {
    let shown = run(&["convert", "n8n/support-desk.in.json", "--to", "external-tools"]);
    let expected = fs::read_to_string(fixtures().join("n8n/support-desk.external-tools.json")).unwrap();
    let (stdout, stderr) = shown.split_once("--- stderr\n").unwrap();
    assert_eq!(stdout, format!("exit code 0\n--- stdout\n{expected}"));
    insta::assert_snapshot!(stderr);
}

#[test]
fn what_cannot_move_is_listed_with_its_reason() {
    insta::assert_snapshot!(standard_error(&["convert", "n8n/support-desk.in.json", "--to", "ark-manifest"]));
}

#[test]
fn an_api_becomes_manifests() {
    let shown = run(&["convert", "openapi/library-3.1.in.json", "--to", "ark-manifest"]);
    let expected = fs::read_to_string(fixtures().join("openapi/library-3.1.ark-manifest.yaml")).unwrap();
    let (stdout, _) = shown.split_once("--- stderr\n").unwrap();
    assert_eq!(stdout, format!("exit code 0\n--- stdout\n{expected}"));
}

#[test]
fn manifests_that_were_made_of_an_api_pass_the_check() {
    insta::assert_snapshot!(run(&[
        "check",
        "openapi/library-3.1.ark-manifest.yaml",
        "n8n/support-desk.ark-manifest.yaml"
    ]));
}

#[test]
fn a_conversion_keeps_what_is_right_and_says_what_is_wrong() {
    insta::assert_snapshot!(run(&["convert", "n8n/broken.in.json", "--to", "openai"]));
}

#[test]
fn standard_input_and_both_syntaxes() {
    let tools = br#"[{"name": "now", "description": "The time", "input_schema": {"type": "object"}}]"#;
    let arguments = ["convert", "-", "--to", "openai", "--format", "yaml"];
    insta::assert_snapshot!(run_in(&fixtures(), &arguments, tools));
}

#[test]
fn a_format_that_is_given_is_not_guessed() {
    let tools = br#"[{"name": "now", "description": "The time"}]"#;
    let arguments = ["convert", "-", "--from", "mcp", "--to", "ark"];
    insta::assert_snapshot!(run_in(&fixtures(), &arguments, tools));
}

#[test]
fn bad_input_is_a_clear_error() {
    let mut shown = String::new();
    for (what, bytes) in [
        ("nothing", b"".as_slice()),
        ("text", b"hello"),
        ("unknown", br#"{"a": 1}"#),
        ("truncated", br#"{"tools": [{"name": "a", "descr"#),
        ("invalid UTF-8", b"{\"name\": \"\xff\"}"),
        ("UTF-16", b"\xff\xfe{\0}\0"),
        ("twice", br#"{"name": "a", "name": "b"}"#),
        ("swagger", b"swagger: '2.0'\npaths: {}\n"),
        ("controls", br#"{"\u001b[31mred": 1}"#),
    ] {
        let output = run_in(&fixtures(), &["convert", "-", "--to", "ark"], bytes);
        shown.push_str(&format!("== {what}\n{output}"));
    }
    for arguments in [
        ["convert", "nowhere.json", "--to", "ark"],
        ["convert", "n8n", "--to", "ark"],
        ["convert", "n8n/broken.in.json", "--to", "zod"],
        ["check", "nowhere", "--json", "x"],
    ] {
        shown.push_str(&format!("== {}\n{}", arguments.join(" "), run(&arguments)));
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn size_and_depth_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    // A sparse file: nothing is written to the disk, and nothing may be read of it either.
    let large = fs::File::create(folder.path().join("large.json")).unwrap();
    large.set_len(100 * 1024 * 1024).unwrap();
    fs::write(folder.path().join("deep.json"), "[".repeat(10_000)).unwrap();
    fs::write(folder.path().join("deep.yaml"), format!("a: {}", "[".repeat(10_000))).unwrap();
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        bomb.push_str(&format!("a{level}: &a{level} [{}]\n", vec![format!("*a{}", level - 1); 9].join(", ")));
    }
    fs::write(folder.path().join("bomb.yaml"), bomb).unwrap();
    insta::assert_snapshot!(run_in(folder.path(), &["check", "."], b""));
}

const CATALOG: [&str; 4] = ["--catalog", "tool-config/tool-config.in.json", "--catalog", "ark-manifest/tools.in.yaml"];

fn tools(arguments: &[&str]) -> String {
    run(&[&["tools"], arguments, CATALOG.as_slice()].concat())
}

#[test]
fn a_catalogue_is_listed() {
    insta::assert_snapshot!(tools(&["list"]));
    insta::assert_snapshot!(tools(&["list", "--category", "Email", "--json"]));
    insta::assert_snapshot!(tools(&["list", "--provider", "notion"]));
    let labelled = tools(&["list", "--label", "owner=mail"]);
    assert!(labelled.contains("\nsend_email ") && labelled.contains("\n1 tool,"), "{labelled}");
    let unreadable = tools(&["list", "--label", "mail"]);
    assert!(
        unreadable.starts_with("exit code 2") && unreadable.contains("a label is written KEY=VALUE"),
        "{unreadable}"
    );
}

#[test]
fn a_catalogue_is_searched() {
    insta::assert_snapshot!(tools(&["search", "send", "an", "email", "--limit", "3"]));
}

#[test]
fn a_tool_is_shown_with_its_declaration_for_each_model() {
    insta::assert_snapshot!(tools(&["show", "fetch_emails"]));
    insta::assert_snapshot!(tools(&["show", "send_email", "--for", "anthropic"]));
    insta::assert_snapshot!(tools(&["show", "send_emial"]));
}

#[test]
fn the_arguments_of_a_call_are_checked() {
    insta::assert_snapshot!(tools(&["validate", "fetch_entity", r#"{"input": {"entityType": "Deal"}}"#]));
    insta::assert_snapshot!(tools(&["validate", "fetch_entity", r#"{"input": {"entityType": "Cat", "x": 1}}"#]));
    insta::assert_snapshot!(tools(&["validate", "send_email", "{}"]));
    insta::assert_snapshot!(tools(&["validate", "send_email", "{'to': 1}"]));
}

#[test]
fn a_catalogue_must_be_somewhere() {
    let folder = tempfile::tempdir().unwrap();
    insta::assert_snapshot!(run_in(folder.path(), &["tools", "list"], b""));
}

#[test]
fn help_has_an_example() {
    for command in [
        &["check"][..],
        &["convert"],
        &["tools"],
        &["tools", "list"],
        &["tools", "search"],
        &["tools", "show"],
        &["tools", "validate"],
        &["tools", "call"],
    ] {
        let shown = run(&[command, &["--help"]].concat());
        assert!(shown.starts_with("exit code 0"), "{shown}");
        assert!(shown.contains("Example") && shown.contains(&format!("bosun {}", command.join(" "))), "{shown}");
    }
}
