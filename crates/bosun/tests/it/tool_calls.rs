//! `bosun tools call`: one tool by hand, in the program itself and on a real server.

use std::{path::Path, process::Output};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use crate::program::{Server, bosun, run, stderr, stdout};

const MANIFESTS: &str = "
apiVersion: ark.mckinsey.com/v1alpha1
kind: Model
metadata: {name: default}
spec: {provider: scripted, config: {scripted: {file: model.script.yaml}}}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Agent
metadata: {name: tester}
spec: {prompt: Do as the script says.}
---
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

fn workplace() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let manifests = directory.path().join("agents");
    std::fs::create_dir(&manifests).unwrap();
    std::fs::write(manifests.join("agents.yaml"), MANIFESTS).unwrap();
    std::fs::write(manifests.join("model.script.yaml"), "scenes: [{when: hello, turns: [{say: hello}]}]").unwrap();
    directory
}

fn call(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = bosun();
    command.args(["tools", "call"]).args(arguments).current_dir(directory);
    command
}

#[track_caller]
fn check(output: &Output, code: i32, result: &str, said: &str) {
    let (stdout, stderr) = (stdout(output), stderr(output));
    assert_eq!(output.status.code(), Some(code), "{stdout}{stderr}");
    assert_eq!(stdout, result, "{stderr}");
    assert!(if said.is_empty() { stderr.is_empty() } else { stderr.contains(said) }, "{stderr}");
}

/// The same calls, in this process and on the server.
async fn both_ways(check: impl AsyncFn(&Path, &[&str])) {
    let workplace = workplace();
    check(workplace.path(), &[]).await;
    let server = Server::start_with(&workplace.path().join("agents")).await;
    check(workplace.path(), &["--server", &server.base]).await;
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
async fn a_failure_ends_with_one_and_says_why() {
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
    let workplace = workplace();
    let server = Server::start_with(&workplace.path().join("agents")).await;
    let arguments = ["sum", r#"{"expression": "6 * 7"}"#, "--server", &server.base];
    check(&run(&mut call(workplace.path(), &arguments)).await, 0, "42\n", "");
    let get = async |path: &str| {
        let url = format!("{}/v1/{path}", server.base);
        stdout(&run(Command::new("curl").args(["--silent", "--fail", &url])).await)
    };
    let queries: Value = serde_json::from_str(&get("queries").await).unwrap();
    assert_eq!(queries["items"].as_array().unwrap().len(), 1, "{queries}");
    let audit = get("audit").await;
    assert!(audit.contains("\"sum\""), "{audit}");
}
