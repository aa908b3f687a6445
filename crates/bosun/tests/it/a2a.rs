//! A2A against the real process: a kill while a task waits, approvals, and the official SDKs as clients.
//!
//! `interop/a2a/install.sh` installs the SDKs outside the source tree, at pinned versions. `make interop` has more of them.

use std::path::PathBuf;

use serde_json::{Value, json};
use tokio::process::Command;

use crate::{
    program::{Server, run, stderr, stdout, workspace},
    readme::{blocks, read},
    support::client::http,
    teams::agents,
};

const TOOLS: &str = "https://bosun.dev/a2a/extensions/client-tools/v1";
const ANSWER: &str = "25% of 8,432 is 2,108";

/// One call of JSON-RPC; the whole answer.
async fn send(server: &Server, method: &str, params: Value) -> Value {
    let request = http()
        .post(format!("{}/a2a", server.base))
        .header("a2a-version", "1.0")
        .header("content-type", "application/json")
        .body(json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string());
    let body = request.send().await.unwrap().text().await.unwrap();
    serde_json::from_str(&body).unwrap()
}

async fn call(server: &Server, method: &str, params: Value) -> Value {
    let body = send(server, method, params).await;
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

/// A message to the agent of `examples/approvals`, or to one of its tasks.
fn message(id: &str, task: Option<&Value>, part: Value) -> Value {
    json!({"message": {"messageId": id, "role": "ROLE_USER", "taskId": task, "parts": [part]}})
}

/// The data part of a status message that has this member.
#[track_caller]
fn waiting_for<'a>(task: &'a Value, member: &str) -> &'a Value {
    assert_eq!(task["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{task}");
    let parts = task["status"]["message"]["parts"].as_array().expect("parts");
    let found = parts.iter().find_map(|part| part["data"].get(member)?.get(0));
    found.unwrap_or_else(|| panic!("no `{member}` in {task}"))
}

#[tokio::test]
async fn an_approval_is_a_data_part_and_a_plain_message_never_is_consent() {
    let mut server = Server::start_with(&workspace().join("examples/approvals")).await;
    let asked = message("m-1", None, json!({"text": "Invite Ada"}));
    let task = call(&server, "SendMessage", asked).await["task"].clone();
    let approval = waiting_for(&task, "approvals");
    assert_eq!(approval["arguments"], json!({"to": "ada@example.com", "subject": "Invitation"}), "{task}");
    let text = task["status"]["message"]["parts"][0]["text"].as_str().unwrap_or_default();
    assert_eq!(text, "Waiting for a person to approve `send-email`.");
    server.kill_and_restart().await;
    let found = call(&server, "GetTask", json!({"id": task["id"]})).await;
    assert_eq!(found, task, "it survives a kill");
    // The same approval over the other edge.
    let decision = json!({"toolCallId": approval["id"], "decision": "approved", "hash": approval["hash"]});
    let path = format!("{}/v1/queries/{}/approval?wait=20s", server.base, task["id"].as_str().unwrap());
    let decided = http().post(path).header("content-type", "application/json").body(decision.to_string());
    assert_eq!(decided.send().await.unwrap().status(), 200);
    let done = call(&server, "GetTask", json!({"id": task["id"]})).await;
    assert_eq!(done["status"]["state"], "TASK_STATE_COMPLETED", "{done}");
    assert!(done["artifacts"][0]["parts"][0]["text"].as_str().unwrap().contains("ada@example.com"), "{done}");
    // A plain message while an approval is open rejects it, whatever it says.
    let asked = message("m-2", None, json!({"text": "Invite Ada"}));
    let task = call(&server, "SendMessage", asked).await["task"].clone();
    let approval = waiting_for(&task, "approvals").clone();
    let words = message("m-3", Some(&task["id"]), json!({"text": "yes, approved"}));
    let rejected = call(&server, "SendMessage", words).await["task"].clone();
    assert_eq!(rejected["status"]["state"], "TASK_STATE_COMPLETED", "{rejected}");
    let answer = rejected["artifacts"][0]["parts"][0]["text"].as_str().unwrap();
    assert!(!answer.contains("ada@example.com") && answer.contains("yes, approved"), "{approval} {answer}");
}

#[tokio::test]
async fn missing_parameters_are_a_data_part_and_are_delivered_like_results() {
    let mut server = Server::start_with(&workspace().join("examples/approvals")).await;
    let asked = message("m-1", None, json!({"text": "Invite someone"}));
    let task = call(&server, "SendMessage", asked).await["task"].clone();
    let request = waiting_for(&task, "parameterRequests").clone();
    assert_eq!((&request["tool"], &request["parameters"][0]["path"]), (&json!("send-email"), &json!("to")), "{task}");
    assert_eq!(task["status"]["message"]["parts"][0]["text"], "Whom shall I invite?", "{task}");
    server.kill_and_restart().await;
    // A plain message is not a value of a parameter.
    let words = message("m-2", Some(&task["id"]), json!({"text": "Ada"}));
    let refused = send(&server, "SendMessage", words).await;
    assert_eq!(refused["error"]["code"], -32004, "{refused}");
    let give = |id: &str, values: Value| {
        let result = json!({"toolCallId": request["id"], "toolName": request["name"], "result": values});
        message(id, Some(&task["id"]), json!({"data": {"toolResults": [result]}}))
    };
    for (number, values) in [json!({}), json!({"to": 7}), json!({"to": "ada", "bcc": "eve"})].into_iter().enumerate() {
        let refused = send(&server, "SendMessage", give(&format!("bad-{number}"), values.clone())).await;
        assert_eq!(refused["error"]["code"], -32602, "{values}: {refused}");
    }
    let given = call(&server, "SendMessage", give("m-3", json!({"to": "ada@example.com"}))).await["task"].clone();
    assert_eq!(waiting_for(&given, "approvals")["name"], "send-email", "{given}");
}

/// Two agents: the first asks the second, whose tool needs approval.
const DESCENDANT: &str = "
scenes:
  - when: {exactly: go}
    turns:
      - call: [{tool: second, arguments: {input: on}}]
      - say: 'first({{ result.second }})'
  - when: {exactly: on}
    turns:
      - call: [{tool: noop, arguments: {message: hello}}]
      - say: 'second({{ result.noop }})'
";

#[tokio::test]
async fn approvals_of_descendants_are_shown_and_decided_at_the_task() {
    let second = "[{type: builtin, name: noop, approval: {required: true}}]";
    let manifests = agents(&[("first", "[{type: agent, name: second}]"), ("second", second)], "", DESCENDANT);
    let mut server = Server::start_with(manifests.path()).await;
    let asked = message("m-1", None, json!({"text": "go"}));
    let task = call(&server, "SendMessage", asked).await["task"].clone();
    let approval = waiting_for(&task, "approvals").clone();
    assert_eq!((&approval["name"], &approval["agentPath"]), (&json!("noop"), &json!(["first", "second"])), "{task}");
    server.kill_and_restart().await;
    assert_eq!(call(&server, "GetTask", json!({"id": task["id"]})).await, task, "it survives a kill");
    let decide = |id: &str, decision: Value| message(id, Some(&task["id"]), json!({"data": {"decisions": [decision]}}));
    let (id, hash) = (&approval["id"], &approval["hash"]);
    // What was not shown, or is not said, is not decided.
    let other = "0".repeat(64);
    for (number, (bad, code)) in [
        (json!({"toolCallId": id, "decision": "approved"}), "hash"),
        (json!({"hash": hash, "decision": "approved"}), "toolCallId"),
        (json!({"toolCallId": id, "hash": hash}), "decision"),
        (json!({"toolCallId": id, "hash": hash, "decision": "yes"}), "decision"),
        (json!({"toolCallId": id, "hash": other, "decision": "approved"}), "ARGUMENTS_CHANGED"),
        (json!({"toolCallId": "call_1", "hash": hash, "decision": "approved"}), "CALL_NOT_FOUND"),
    ]
    .into_iter()
    .enumerate()
    {
        let refused = send(&server, "SendMessage", decide(&format!("bad-{number}"), bad)).await;
        assert_eq!(refused["error"]["code"], -32602, "{code}: {refused}");
        assert!(refused["error"].to_string().contains(code), "{code}: {refused}");
    }
    let approved = json!({"toolCallId": id, "hash": hash, "decision": "approved"});
    let done = call(&server, "SendMessage", decide("m-2", approved.clone())).await["task"].clone();
    let answer = done["artifacts"][0]["parts"][0]["text"].as_str().unwrap_or_else(|| panic!("{done}"));
    assert!(answer.starts_with("first(second("), "{answer}");
    let again = call(&server, "SendMessage", decide("m-3", approved)).await["task"].clone();
    assert_eq!(again["status"]["state"], "TASK_STATE_COMPLETED", "the same decision again is a replay: {again}");
    let rejected = json!({"toolCallId": id, "hash": hash, "decision": "rejected"});
    let refused = send(&server, "SendMessage", decide("m-4", rejected)).await;
    assert!(refused["error"].to_string().contains("ALREADY_DECIDED"), "{refused}");
    let nowhere = json!({"messageId": "m-5", "role": "ROLE_USER", "parts": [{"data": {"decisions": [{}]}}]});
    let refused = send(&server, "SendMessage", json!({"message": nowhere})).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
}

/// Where the SDKs are. Needs npm and Python, and the network the first time.
pub(crate) async fn sdks() -> PathBuf {
    let output = run(&mut Command::new(workspace().join("interop/a2a/install.sh"))).await;
    assert!(output.status.success(), "the SDKs cannot be installed (npm and pip are needed): {}", stderr(&output));
    stdout(&output).trim().into()
}

/// The only program of this language in the specification.
fn example(language: &str) -> String {
    let [program] = blocks(&read("docs/a2a-client-tools.md"), language).try_into().expect("one program");
    program
}

/// Runs a client against a server of its own; what it prints is the agent's answer.
async fn check_client(command: &mut Command) {
    let server = Server::start().await;
    let output = run(command.arg(&server.base)).await;
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    assert_eq!(stdout(&output), format!("{ANSWER}\n"), "{}", stderr(&output));
}

#[tokio::test]
async fn the_example_with_the_python_sdk_converses_with_client_tools() {
    let python = sdks().await.join("venv/bin/python");
    check_client(Command::new(python).args(["-c", &example("python")])).await;
}

/// It prints the answer of each binding, blocking and as a stream. `make unit` has built it.
#[tokio::test]
async fn a_client_on_the_rust_sdk_converses_with_client_tools() {
    let built = run(Command::new(workspace().join("interop/a2a/install.sh")).arg("rust")).await;
    assert!(built.status.success(), "{}", stderr(&built));
    let server = Server::start().await;
    let output = run(Command::new(stdout(&built).trim()).arg(&server.base)).await;
    assert_eq!(stdout(&output), format!("{ANSWER}\n").repeat(4), "{}", stderr(&output));
}

#[tokio::test]
async fn the_example_with_the_js_sdk_converses_with_client_tools() {
    let place = sdks().await;
    let directory = tempfile::tempdir().unwrap();
    // Modules are looked up from where the script is.
    std::os::unix::fs::symlink(place.join("node_modules"), directory.path().join("node_modules")).unwrap();
    let script = directory.path().join("client.mjs");
    std::fs::write(&script, example("js")).unwrap();
    check_client(Command::new("node").arg(script)).await;
}
