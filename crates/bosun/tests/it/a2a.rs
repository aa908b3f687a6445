//! A2A against the real process: a kill while a task waits, and the official SDKs as clients.
//!
//! `interop/a2a/install.sh` installs the SDKs outside the source tree, at pinned versions.

use std::path::PathBuf;

use serde_json::{Value, json};
use tokio::process::Command;

use crate::{
    program::{Server, run, stderr, stdout, workspace},
    support::client::http,
};

const TOOLS: &str = "https://bosun.dev/a2a/extensions/client-tools/v1";
const ANSWER: &str = "25% of 8,432 is 2,108";

async fn call(server: &Server, method: &str, params: Value) -> Value {
    let request = http()
        .post(format!("{}/a2a", server.base))
        .header("a2a-version", "1.0")
        .header("content-type", "application/json")
        .body(json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string());
    let body = request.send().await.unwrap().text().await.unwrap();
    let body: Value = serde_json::from_str(&body).unwrap();
    assert!(body.get("error").is_none(), "{body}");
    body["result"].clone()
}

#[tokio::test]
async fn a_task_that_waits_for_its_client_survives_a_kill() {
    let mut server = Server::start().await;
    let tool = json!({
        "name": "calculator", "description": "Evaluates an arithmetic expression",
        "parameters": {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]},
    });
    let asked = json!({
        "message": {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "What is 25% of 8,432?"}]},
        "metadata": {TOOLS: {"tools": [tool]}},
    });
    let task = call(&server, "SendMessage", asked.clone()).await["task"].clone();
    assert_eq!(task["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{task}");
    server.kill_and_restart().await;
    // The client lost its answer with the process: the task is there, and so are its calls.
    let found = call(&server, "GetTask", json!({"id": task["id"]})).await;
    assert_eq!(found, task);
    assert_eq!(call(&server, "SendMessage", asked).await["task"], task, "a retried message is the same task");
    let id = &found["status"]["message"]["parts"][1]["data"]["toolCalls"][0]["id"];
    let results = json!({"message": {
        "messageId": "m-2", "role": "ROLE_USER", "taskId": task["id"],
        "parts": [{"data": {"toolResults": [{"toolCallId": id, "toolName": "calculator", "result": "2108"}]}}],
    }});
    let done = call(&server, "SendMessage", results).await["task"].clone();
    assert_eq!(done["artifacts"][0]["parts"][0]["text"], ANSWER, "{done}");
}

/// Where the SDKs are. Needs npm and Python, and the network the first time.
async fn sdks() -> PathBuf {
    let output = run(&mut Command::new(workspace().join("interop/a2a/install.sh"))).await;
    assert!(output.status.success(), "the SDKs cannot be installed (npm and pip are needed): {}", stderr(&output));
    stdout(&output).trim().into()
}

/// Runs a client against a server of its own; what it prints is the agent's answer, once for each way that it took.
async fn check_client(command: &mut Command, answers: usize) {
    let server = Server::start().await;
    let output = run(command.arg(&server.base)).await;
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    assert_eq!(stdout(&output), format!("{ANSWER}\n").repeat(answers), "{}", stderr(&output));
}

#[tokio::test]
async fn the_python_sdk_converses_with_client_tools_over_both_bindings() {
    let python = sdks().await.join("venv/bin/python");
    check_client(Command::new(python).arg(workspace().join("interop/a2a/peers/client.py")), 4).await;
}

#[tokio::test]
async fn the_js_sdk_converses_with_client_tools() {
    let place = sdks().await;
    // Modules are looked up from where the script is.
    let script = place.join("client.mjs");
    std::fs::copy(workspace().join("interop/a2a/peers/client.mjs"), &script).unwrap();
    check_client(Command::new("node").arg(script), 1).await;
}
