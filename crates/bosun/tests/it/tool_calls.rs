//! `bosun tools call`: one tool by hand, in the program itself and on a real server.

use std::{
    path::{Path, PathBuf},
    process::{Output, Stdio},
};

use axum::{Json, response::IntoResponse as _};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::{
    http_tools::service::Service,
    mcp,
    program::{bosun, run, running, stderr, stdout},
    scripted::Folder,
    support::until,
};

const TOOLS: &str = "---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Tool
metadata: {name: echo}
spec:
  type: builtin
  builtin: {name: noop}
  inputSchema: {type: object, properties: {message: {type: string}}, required: [message]}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Tool
metadata: {name: sum}
spec: {type: builtin, builtin: {name: calculator}}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Tool
metadata: {name: printer}
spec: {type: external, description: Prints, inputSchema: {type: object}}
";

fn folder() -> Folder {
    Folder::new("scenes: [{when: hello, turns: [{say: hello}]}]", TOOLS)
}

fn call(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = bosun();
    command.args(["tools", "call"]).args(arguments).current_dir(directory);
    command
}

#[track_caller]
fn check(output: &Output, code: i32, result: &str, expected: &str) {
    let (stdout, stderr) = (stdout(output), stderr(output));
    assert_eq!(output.status.code(), Some(code), "{stdout}{stderr}");
    assert_eq!(stdout, result, "{stderr}");
    assert!(if expected.is_empty() { stderr.is_empty() } else { stderr.contains(expected) }, "{stderr}");
}

/// The same calls, in this process and on the server.
async fn both_ways(check: impl AsyncFn(&Path, &[&str])) {
    let folder = folder();
    check(folder.path(), &[]).await;
    let server = folder.serve().await;
    check(folder.path(), &["--server", &server.base]).await;
}

#[tokio::test]
async fn the_result_goes_to_standard_output() {
    both_ways(async |directory, way| {
        let ask = async |arguments: &[&str]| run(&mut call(directory, &[arguments, way].concat())).await;
        check(&ask(&["sum", r#"{"expression": "6 * 7"}"#]).await, 0, "42\n", "");
        check(&ask(&["echo", r#"{"message": "a"}"#]).await, 0, "{\"message\":\"a\"}\n", "");
        let output = ask(&["echo", r#"{"message": "a"}"#, "-o", "json"]).await;
        check(&output, 0, "{\"success\":true,\"result\":{\"message\":\"a\"}}\n", "");
    })
    .await;
}

#[tokio::test]
async fn a_failure_exits_with_code_1_and_its_reason() {
    both_ways(async |directory, way| {
        let ask = async |arguments: &[&str]| run(&mut call(directory, &[arguments, way].concat())).await;
        check(&ask(&["sum", r#"{"expression": "6 /"}"#]).await, 1, "", "[tool_failed]");
        check(&ask(&["echo", "{}"]).await, 1, "", "[invalid_tool_arguments]");
        let output = ask(&["echo", "-o", "json"]).await;
        assert_eq!(output.status.code(), Some(1));
        let outcome: Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert_eq!(
            (&outcome["success"], &outcome["error"]["code"]),
            (&json!(false), &json!("invalid_tool_arguments")),
            "{outcome}"
        );
        check(&ask(&["ehco", "{}"]).await, 1, "", "did you mean `echo`?");
        check(&ask(&["printer"]).await, 1, "", "the client of a query runs it, and no server can");
        check(&ask(&["echo", "[1]"]).await, 2, "", "the arguments of a call are a JSON object");
        check(&ask(&["echo", "{"]).await, 2, "", "the arguments are not JSON");
    })
    .await;
}

#[tokio::test]
async fn builtin_tools_need_no_files() {
    let directory = tempfile::tempdir().unwrap();
    let output = run(&mut call(directory.path(), &["calculator", r#"{"expression": "1 + 1"}"#])).await;
    check(&output, 0, "2\n", "");
    let output = run(&mut call(directory.path(), &["noop", "--manifests", "nowhere"])).await;
    check(&output, 1, "", "there are no agents in nowhere");
}

#[tokio::test]
async fn a_call_on_a_server_is_in_its_journal_and_its_audit_log() {
    let folder = folder();
    let server = folder.serve().await;
    let arguments = ["sum", r#"{"expression": "6 * 7"}"#, "--server", &server.base];
    check(&run(&mut call(folder.path(), &arguments)).await, 0, "42\n", "");
    let get = async |path: &str| {
        let url = format!("{}/v1/{path}", server.base);
        stdout(&run(Command::new("curl").args(["--silent", "--fail", &url])).await)
    };
    let queries: Value = serde_json::from_str(&get("queries").await).unwrap();
    assert_eq!(queries["items"].as_array().unwrap().len(), 1, "{queries}");
    let audit = get("audit").await;
    assert!(audit.contains("\"sum\""), "{audit}");
}

/// A tool of an API at `url`, as a file of `--tools` may have it.
fn petstore(url: &str) -> String {
    json!({
        "apiVersion": "ark.mckinsey.com/v1alpha1", "kind": "Tool", "metadata": {"name": "list-pets"},
        "spec": {
            "type": "http", "description": "Lists pets", "http": {"url": format!("{url}/pets/{{kind}}")},
            "inputSchema": {"type": "object", "properties": {"kind": {"type": "string"}}, "required": ["kind"]},
        },
    })
    .to_string()
}

#[tokio::test]
async fn tools_of_files_folders_and_urls_run_in_the_program_itself() {
    let api = Service::start(|arrived| match arrived.target.as_str() {
        "/pets/dog" => Json(json!(["Rex"])).into_response(),
        target => format!("{target} is not a kind").into_response(),
    })
    .await;
    let description = petstore(&api.url);
    let site = Service::start(move |_| description.clone()).await;
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("tools")).unwrap();
    std::fs::write(directory.path().join("tools/pets.json"), petstore(&api.url)).unwrap();
    std::fs::write(directory.path().join("tools/unrelated.json"), "{\"a\": 1}").unwrap();
    let url = format!("{}/pets.json", site.url);
    for source in ["tools/pets.json", "tools", &url] {
        let ask = async |arguments: &[&str]| {
            run(&mut call(directory.path(), &[arguments, &["--tools", source]].concat())).await
        };
        check(&ask(&["list-pets", r#"{"kind": "dog"}"#]).await, 0, "[\"Rex\"]\n", "");
        check(&ask(&["list-pets", "{}"]).await, 1, "", "[invalid_tool_arguments]");
        check(&ask(&["list-pet", "{}"]).await, 1, "", "did you mean `list-pets`?");
    }
    assert_eq!(api.received().len(), 3, "invalid arguments are not sent");

    std::fs::write(directory.path().join("bad.json"), "{\"tools\": [{\"name\": 1}]}").unwrap();
    let refused = run(&mut call(directory.path(), &["noop", "--tools", "bad.json"])).await;
    check(&refused, 1, "", "bad.json:1:");
    // A URL that cannot be fetched hides nothing else.
    let gone = run(&mut call(directory.path(), &["noop", "--tools", "http://127.0.0.1:1/tools.json"])).await;
    check(&gone, 0, "{}\n", "warning: http://127.0.0.1:1/tools.json");
    let both = run(&mut call(directory.path(), &["noop", "--tools", "tools", "--server", "http://127.0.0.1:1"])).await;
    check(&both, 2, "", "cannot be used with");
}

#[tokio::test]
async fn a_timeout_and_a_large_result_are_as_on_a_server() {
    let api = Service::start(|_| "x".repeat(400 * 1024)).await;
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("pets.json"), petstore(&api.url)).unwrap();
    let silent_url = format!("http://{}", silent.local_addr().unwrap());
    std::fs::write(directory.path().join("silent.json"), petstore(&silent_url)).unwrap();
    let arguments = ["list-pets", r#"{"kind": "dog"}"#, "--tools"];
    let large = run(&mut call(directory.path(), &[&arguments[..], &["pets.json"]].concat())).await;
    assert_eq!((large.status.code(), large.stdout.len()), (Some(0), 400 * 1024 + 1), "{}", stderr(&large));
    let slow = [&arguments[..], &["silent.json", "--tool-timeout", "200ms"]].concat();
    let late = run(&mut call(directory.path(), &slow)).await;
    check(&late, 1, "", "[tool_timeout]");
}

fn call_with(manifests: &Path, arguments: &[&str]) -> Command {
    call(manifests, &[arguments, &["--manifests", manifests.to_str().unwrap()]].concat())
}

#[tokio::test]
async fn an_mcp_server_is_started_for_a_call_and_ends_with_it() {
    let world = mcp::World::new(&["tiny-echo"], "otherwise: [{say: x}]\n");
    world.stand_in("tiny", "good", "");
    world.stand_in("other", "good", "");
    world.stand_in("stubborn", "ignores-end", "");
    world.write(
        "declared.yaml",
        "apiVersion: ark.mckinsey.com/v1alpha1\nkind: Tool\nmetadata: {name: say}\nspec: {type: mcp, inputSchema: \
         {type: object, properties: {text: {type: string}}, required: [text]}, mcp: {mcpServerRef: {name: tiny}, \
         toolName: echo}}\n",
    );
    let (tiny, other) = (world.path().join("tiny.marker"), world.path().join("other.marker"));
    let ask = async |arguments: &[&str]| run(&mut call_with(world.path(), arguments)).await;
    check(&ask(&["tiny-echo", r#"{"text": "hi"}"#]).await, 0, "hi\n", "");
    check(&ask(&["say", r#"{"text": "ho"}"#]).await, 0, "ho\n", "");
    check(&ask(&["tiny-add-numbers", r#"{"first": 2, "second": 3}"#]).await, 0, "{\"sum\":5.0}\n", "");
    check(&ask(&["tiny-echo", "{}"]).await, 1, "", "[invalid_tool_arguments]");
    check(&ask(&["tiny-ehco"]).await, 1, "", "tiny-ehco (MCP server `tiny` is ready");
    check(&ask(&["stubborn-echo", r#"{"text": "hi"}"#]).await, 0, "hi\n", "");
    assert_eq!((running(&tiny), running(&world.path().join("stubborn.marker"))), (0, 0), "a server is left");
    assert!(!other.exists(), "a server that the tool does not belong to was started");
}

#[tokio::test]
async fn an_mcp_server_that_fails_says_why() {
    let world = mcp::World::new(&[], "otherwise: [{say: x}]\n");
    for (name, expect) in [
        ("exit-at-start", "the licence has expired"),
        ("error-at-list", "no tools today"),
        ("failing-tool", "no such city"),
        ("exit-at-call", "[outcome_unknown]"),
    ] {
        world.stand_in(name, name, "");
        let output = run(&mut call_with(world.path(), &[&format!("{name}-echo"), r#"{"text": "hi"}"#])).await;
        check(&output, 1, "", expect);
        assert_eq!(running(&world.path().join(format!("{name}.marker"))), 0, "{name}");
    }
}

#[tokio::test]
async fn an_interrupt_cancels_the_call_and_ends_the_mcp_server() {
    let world = mcp::World::new(&[], "otherwise: [{say: x}]\n");
    world.stand_in("slow", "silent-at-call", "  timeout: 60s\n");
    let marker = world.path().join("slow.marker");
    let mut command = call_with(world.path(), &["slow-echo", r#"{"text": "hi"}"#, "--tool-timeout", "60s"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let last = || std::fs::read_to_string(&marker).unwrap_or_default();
    until("the call", || last() == "tools/call").await;
    let pid = child.id().unwrap().to_string();
    assert!(run(Command::new("kill").args(["-s", "INT", &pid])).await.status.success());
    let output = child.wait_with_output().await.unwrap();
    check(&output, 1, "", "the call was cancelled; it may have taken effect already");
    assert_eq!((last().as_str(), running(&marker)), ("notifications/cancelled", 0));
}

#[tokio::test]
async fn a_call_respects_the_pins_of_the_store_and_is_in_its_audit_log() {
    let world = mcp::World::new(&[], "otherwise: [{say: x}]\n");
    world.stand_in("tiny", "good", "  pin: strict\n");
    let mut server = world.start().await;
    world.until_tool(&server, "tiny-echo").await;
    let data: PathBuf = server.data().to_owned();
    let text = data.to_str().unwrap();
    let ask = async || run(&mut call_with(world.path(), &["tiny-echo", r#"{"text": "hi"}"#, "--data", text])).await;
    check(&ask().await, 0, "hi\n", "");
    let acts = data.join("audit.acts");
    until("the records", || std::fs::metadata(&acts).is_ok_and(|file| file.len() == 0)).await;
    let log = world.get(&server, "audit?namespace=bosun-server").await;
    let records = log["items"].as_array().unwrap();
    let finished = records.iter().find(|record| record["action"] == "call.finished");
    let finished = finished.unwrap_or_else(|| panic!("{log:#}"));
    assert_eq!((&finished["tool"], &finished["outcome"]), (&json!("tiny-echo"), &json!("success")), "{finished}");
    assert!(finished["actor"].as_str().unwrap().starts_with("uid:"), "{finished}");
    assert!(records.iter().any(|record| record["action"] == "query.created"), "{log:#}");

    // Another definition than the pinned one is withheld, and the file of the server is left alone.
    server.stop().await;
    let pins = data.join("mcp-pins.json");
    let pinned = std::fs::read_to_string(&pins).unwrap().replace("Repeats a text", "Repeats another text");
    std::fs::write(&pins, &pinned).unwrap();
    check(&ask().await, 1, "", "is quarantined");
    assert_eq!(std::fs::read_to_string(&pins).unwrap(), pinned);
}

#[tokio::test]
async fn cached_results_are_dropped_by_hand() {
    let api = Service::start(|received| format!("{} pets", received.target)).await;
    let tool = format!(
        "---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Tool
metadata: {{name: pets}}
spec:
  type: http
  description: Counts pets
  cache: {{ttl: 1h, scope: namespace}}
  inputSchema: {{type: object, properties: {{kind: {{type: string}}}}, required: [kind]}}
  http: {{url: '{}/pets/{{kind}}'}}
",
        api.url
    );
    let folder = Folder::new("scenes: [{when: hello, turns: [{say: hello}]}]", &tool);
    let server = folder.serve().await;
    let ask = async |kind: &str| {
        let arguments = json!({"kind": kind}).to_string();
        let output = run(&mut call(folder.path(), &["pets", &arguments, "--server", &server.base])).await;
        check(&output, 0, &format!("/pets/{kind} pets\n"), "");
        api.received().len()
    };
    let clear = async |more: &[&str]| {
        let arguments = [&["tools", "cache", "clear"], more, &["--server", &server.base]].concat();
        run(bosun().args(arguments)).await
    };
    assert_eq!((ask("dog").await, ask("cat").await, ask("dog").await), (1, 2, 2), "the third is cached");
    check(&clear(&["sum"]).await, 0, "dropped 0 cached results\n", "");
    assert_eq!(ask("dog").await, 2, "of another tool");
    check(&clear(&["pets"]).await, 0, "dropped 2 cached results\n", "");
    assert_eq!(ask("dog").await, 3);
    check(&clear(&[]).await, 0, "dropped 1 cached result\n", "");
    assert_eq!(ask("dog").await, 4);
    let lost = run(bosun().args(["tools", "cache", "clear", "--server", "http://127.0.0.1:1"])).await;
    assert_eq!(lost.status.code(), Some(1), "{}", stderr(&lost));
}
