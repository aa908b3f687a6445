//! Agents behind A2A servers, asked by the whole program: another server of ours, and peers that misbehave.

mod crashes;
mod peers;

use std::fs;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::{
    program::{self, bosun, run, stderr, stdout, workspace},
    resources::api,
    support::{
        server::{ProcessExit, Server, World},
        soon,
    },
};

/// The server behind: an agent that takes its time, and one that asks its client.
const REMOTE: &str = r#"
apiVersion: ark.mckinsey.com/v1alpha1
kind: Model
metadata: {name: default}
spec: {provider: scripted, config: {scripted: {file: remote.script.yaml}}}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Agent
metadata: {name: weather}
spec: {description: Knows the weather of every city, prompt: Be brief.}
"#;

const REMOTE_SCRIPT: &str = r#"
scenes:
  - when: "slowly"
    turns:
      - {delay: 1500ms, say: "Slowly: sunny"}
  - when: "without end"
    turns:
      - {delay: 1h, say: "never"}
otherwise:
  - say: "Sunny"
"#;

/// The server in front: an agent of ours that asks the one behind.
const OURS: &str = r#"
apiVersion: ark.mckinsey.com/v1alpha1
kind: Model
metadata: {name: default}
spec: {provider: scripted, config: {scripted: {file: ours.script.yaml}}}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Agent
metadata: {name: asker}
spec:
  prompt: Ask the others.
  tools: [{type: agent, name: TOOL}]
"#;

const OUR_SCRIPT: &str = r#"
scenes:
  - when: "slowly"
    turns:
      - call: [{tool: TOOL, arguments: {input: "slowly"}}]
      - say: "They say: {{ result.TOOL }}"
otherwise:
  - call: [{tool: TOOL, arguments: {input: "hello"}}]
  - say: "They say: {{ result.TOOL }}"
"#;

/// A manifest of an A2A server.
fn manifest(name: &str, address: &str, more: &str) -> String {
    format!(
        "---\napiVersion: ark.mckinsey.com/v1prealpha1\nkind: A2AServer\nmetadata: {{name: {name}}}\nspec:\n  \
         address: {{value: \"{address}\"}}\n  pollInterval: 1s\n{more}"
    )
}

/// A server of ours, with an agent that has the tool `tool`, and with these A2A servers.
fn world(tool: &str, servers: &str) -> World {
    let world = World::new();
    let manifests = world.path("manifests");
    fs::remove_dir_all(&manifests).unwrap();
    fs::create_dir_all(&manifests).unwrap();
    fs::write(manifests.join("ours.yaml"), format!("{}{servers}", OURS.replace("TOOL", tool))).unwrap();
    fs::write(manifests.join("ours.script.yaml"), OUR_SCRIPT.replace("TOOL", tool)).unwrap();
    world
}

/// Another server of ours, with the agent `weather`.
async fn remote() -> (program::Server, tempfile::TempDir) {
    let manifests = tempfile::tempdir().unwrap();
    fs::write(manifests.path().join("remote.yaml"), REMOTE).unwrap();
    fs::write(manifests.path().join("remote.script.yaml"), REMOTE_SCRIPT).unwrap();
    (program::Server::start_with(manifests.path()).await, manifests)
}

fn address(remote: &program::Server) -> String {
    format!("{}/a2a/agents/default/weather", remote.base)
}

/// The A2A server as it is shown, once that is `wanted`.
async fn discovered(server: &Server, name: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let found = async {
        loop {
            let found = api(server, "GET", &format!("/v1/a2a-servers/{name}"), None).await.body;
            if wanted(&found) {
                return found;
            }
            tokio::task::yield_now().await;
        }
    };
    soon("the card of the server", found).await
}

async fn is_ready(server: &Server, name: &str) -> Value {
    discovered(server, name, |found| found["ready"] == true).await
}

/// Asks, and returns the query once it has this status.
async fn ask(server: &Server, body: &Value) -> Value {
    let asked = api(server, "POST", "/v1/queries?wait=50s&view=rfc", Some(body)).await;
    assert!(asked.status < 300, "{}", asked.text);
    asked.body
}

async fn until(server: &Server, query: &str, status: &str) -> Value {
    let path = format!("/v1/queries/{query}?view=rfc&wait=20s");
    let found = async {
        loop {
            let found = api(server, "GET", &path, None).await.body;
            if found["status"] == status {
                return found;
            }
            assert!(!matches!(found["status"].as_str(), Some("completed" | "failed" | "cancelled")), "{found}");
        }
    };
    soon("the status of the query", found).await
}

/// The tasks at the other server.
async fn tasks(remote: &program::Server) -> Vec<Value> {
    let listed = reqwest_get(&format!("{}/v1/queries", remote.base)).await;
    listed["items"].as_array().cloned().unwrap_or_default()
}

async fn reqwest_get(url: &str) -> Value {
    let text = crate::support::client::http().get(url).send().await.unwrap().text().await.unwrap();
    serde_json::from_str(&text).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_of_another_server_is_a_tool_and_an_agent_of_ours() {
    let (remote, _manifests) = remote().await;
    let world = world("remote-weather", &manifest("remote", &address(&remote), ""));
    let server = world.start().await;
    let shown = is_ready(&server, "remote").await;
    assert_eq!((&shown["agent"]["name"], &shown["agent"]["protocol"]), (&json!("remote-weather"), &json!("1.0")));
    assert_eq!(shown["status"]["conditions"][0]["type"], "Ready", "{shown}");
    let agent = api(&server, "GET", "/v1/agents/remote-weather", None).await.body;
    assert_eq!((&agent["isA2A"], &agent["executionEngine"]["name"]), (&json!(true), &json!("a2a")), "{agent}");
    assert_eq!(agent["description"], "Knows the weather of every city", "{agent}");
    assert_eq!(agent["annotations"]["ark.mckinsey.com/a2a-server-name"], "remote", "{agent}");
    let changed = api(&server, "PUT", "/v1/agents/remote-weather", Some(&json!({"prompt": "x"}))).await;
    assert_eq!(changed.body["error"]["code"], "managed_by_server", "{}", changed.text);

    // A tool of an agent of ours.
    let asked =
        ask(&server, &json!({"name": "by-tool", "input": "Rome?", "target": {"type": "agent", "name": "asker"}})).await;
    assert_eq!((&asked["status"], &asked["response"]), (&json!("completed"), &json!("They say: Sunny")), "{asked}");
    // The target of a query.
    let target = json!({"type": "agent", "name": "remote-weather"});
    let body = |name: &str| json!({"name": name, "input": "Rome?", "target": target, "conversationId": "trip"});
    for name in ["first", "second"] {
        let asked = ask(&server, &body(name)).await;
        assert_eq!((&asked["status"], &asked["response"]), (&json!("completed"), &json!("Sunny")), "{asked}");
    }
    // The queries of a conversation continue one context of the other server; another query has its own.
    let contexts = reqwest_get(&format!("{}/v1/conversations", remote.base)).await;
    assert_eq!(contexts["items"].as_array().map(Vec::len), Some(2), "{contexts}");
    assert_eq!(tasks(&remote).await.len(), 3);
    // From a shell, without a server.
    let path = world.path("manifests");
    let called =
        run(bosun().args(["tools", "call", "remote-weather", r#"{"input": "Rome?"}"#, "--manifests"]).arg(&path)).await;
    assert!(stdout(&called).contains("Sunny"), "{} {}", stdout(&called), stderr(&called));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_continues_and_is_begun_once_whichever_server_is_killed() {
    let (mut remote, _manifests) = remote().await;
    let world = world("remote-weather", &manifest("remote", &address(&remote), ""));
    let mut server = world.start().await;
    is_ready(&server, "remote").await;
    let body = json!({"name": "ours-killed", "input": "slowly", "target": {"type": "agent", "name": "asker"}});
    api(&server, "POST", "/v1/queries", Some(&body)).await;
    let begun = async {
        while tasks(&remote).await.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    soon("the task at the other server", begun).await;
    server.kill().await;
    let server = world.start().await;
    let done = until(&server, "ours-killed", "completed").await;
    assert_eq!(done["response"], "They say: Slowly: sunny", "{done}");
    assert_eq!(tasks(&remote).await.len(), 1);

    let body =
        json!({"name": "theirs-killed", "input": "slowly", "target": {"type": "agent", "name": "remote-weather"}});
    api(&server, "POST", "/v1/queries", Some(&body)).await;
    let begun = async {
        while tasks(&remote).await.len() < 2 {
            tokio::task::yield_now().await;
        }
    };
    soon("the second task", begun).await;
    remote.kill_and_restart().await;
    let done = until(&server, "theirs-killed", "completed").await;
    assert_eq!(done["response"], "Slowly: sunny", "{done}");
    assert_eq!(tasks(&remote).await.len(), 2);
}

/// Between the answer of the other server and the entry of the journal: the task is found there, and no second one is
/// begun. An operator who knows that message ids are recognized has the message sent again, with the same effect.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_before_the_task_is_journaled_begins_no_second_one() {
    for more in ["", "  idempotent: true\n"] {
        let (remote, _manifests) = remote().await;
        let world = world("remote-weather", &manifest("remote", &address(&remote), more));
        let mut server = world.start_dying("call.pending").await;
        is_ready(&server, "remote").await;
        let body = json!({"name": "once", "input": "slowly", "target": {"type": "agent", "name": "asker"}});
        let _ = crate::resources::send(&server, "POST", "/v1/queries", Some(&body), &[]).await;
        assert_eq!(server.exit().await, ProcessExit::AtFaultPoint);
        let server = world.start().await;
        let done = until(&server, "once", "completed").await;
        assert_eq!(done["response"], "They say: Slowly: sunny", "{done}");
        assert_eq!(tasks(&remote).await.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_query_cancels_its_task() {
    let (remote, _manifests) = remote().await;
    let world = world("remote-weather", &manifest("remote", &address(&remote), ""));
    let server = world.start().await;
    is_ready(&server, "remote").await;
    let body = json!({"name": "long", "input": "without end", "target": {"type": "agent", "name": "remote-weather"}});
    api(&server, "POST", "/v1/queries", Some(&body)).await;
    let pending = async {
        while !api(&server, "GET", "/v1/events?query=long", None).await.text.contains("ToolPending") {
            tokio::task::yield_now().await;
        }
    };
    soon("a pending call", pending).await;
    api(&server, "PATCH", "/v1/queries/long/cancel", None).await;
    let cancelled = async {
        while tasks(&remote).await.iter().any(|task| task["status"]["phase"] != "canceled") {
            tokio::task::yield_now().await;
        }
    };
    soon("the end of the task", cancelled).await;
}

/// Stored over the API, with a header that is a secret; a file is reloaded; a server that is gone takes its agent along.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_come_and_go_while_the_program_runs() {
    let (remote, _manifests) = remote().await;
    let file = manifest("filed", &address(&remote), "");
    let world = world("filed-weather", &file).with(&["--allow-private", "127.0.0.1"]);
    let server = world.start().await;
    is_ready(&server, "filed").await;
    let stored = json!({"name": "stored", "address": address(&remote), "description": "Another one"});
    let created = api(&server, "POST", "/v1/a2a-servers", Some(&stored)).await;
    assert_eq!(created.status, 200, "{}", created.text);
    is_ready(&server, "stored").await;
    let listed = api(&server, "GET", "/v1/namespaces/default/a2a-servers", None).await.body;
    let names: Vec<_> = listed["items"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["filed", "stored"], "{listed}");
    let hidden = api(&server, "PUT", "/v1/a2a-servers/filed", Some(&json!({"description": "x"}))).await;
    assert_eq!(hidden.body["error"]["code"], "managed_by_file", "{}", hidden.text);
    let asked = ask(&server, &json!({"input": "Rome?", "target": {"type": "agent", "name": "stored-weather"}})).await;
    assert_eq!(asked["response"], "Sunny", "{asked}");
    assert_eq!(api(&server, "DELETE", "/v1/a2a-servers/stored", None).await.status, 204);
    let gone = api(&server, "GET", "/v1/agents/stored-weather", None).await;
    assert_eq!(gone.status, 404, "{}", gone.text);
    // The file names another address: the agent stays until its card is read, and then is another one.
    let moved = file.replace("/default/weather", "/default/nothing");
    fs::write(world.path("manifests/ours.yaml"), format!("{}{moved}", OURS.replace("TOOL", "filed-weather"))).unwrap();
    let failed = discovered(&server, "filed", |found| found["ready"] == false && found["discovering"] == false).await;
    assert!(failed["status_message"].as_str().unwrap().contains("there is no card"), "{failed}");
    assert_eq!(failed["status"]["conditions"][0]["reason"], "ConnectionFailed", "{failed}");
}

/// The commands of `docs/a2a-servers.md`, with the address of a server that listens elsewhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_of_the_documentation_answers_as_printed() {
    let page = fs::read_to_string(workspace().join("docs/a2a-servers.md")).unwrap();
    let examples = workspace().join("examples/a2a");
    let behind = program::Server::start_with(&examples.join("behind")).await;
    let front = tempfile::tempdir().unwrap();
    for file in ["concierge.yaml", "concierge.script.yaml"] {
        let text = fs::read_to_string(examples.join("front").join(file)).unwrap();
        fs::write(front.path().join(file), text.replace("http://127.0.0.1:8090", &behind.base)).unwrap();
    }
    let server = program::Server::start_with(front.path()).await;
    let ready = async {
        while reqwest_get(&format!("{}/v1/a2a-servers/town", server.base)).await["ready"] != true {
            tokio::task::yield_now().await;
        }
    };
    soon("the card of the server", ready).await;
    let mut played = 0;
    let blocks: Vec<&str> = page.split("```").collect();
    for pair in blocks.windows(3) {
        let (Some(command), Some(expected)) = (pair[0].strip_prefix("sh\nbosun "), pair[2].strip_prefix("text\n"))
        else {
            continue;
        };
        let command = command.trim().replace("examples/a2a/front", front.path().to_str().unwrap());
        let words = shell_words(&command);
        let output = run(bosun().args(&words).env("BOSUN_SERVER", &server.base)).await;
        assert!(output.status.success(), "{command}: {}", stderr(&output));
        assert!(stdout(&output).contains(expected.trim()), "{command}: {}", stdout(&output));
        played += 1;
    }
    assert_eq!(played, 3);
}

/// The words of a command, of which some are quoted.
fn shell_words(command: &str) -> Vec<String> {
    let (mut words, mut quote) = (vec![String::new()], None);
    for letter in command.chars() {
        match (quote, letter) {
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), closing) if open == closing => quote = None,
            (None, ' ') => words.push(String::new()),
            (_, letter) => words.last_mut().unwrap().push(letter),
        }
    }
    words
}

/// Agents on the official Python SDK, in each generation and binding: it asks, and completes with the answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_on_the_python_sdk_is_asked_and_answered() {
    let python = crate::a2a::sdks().await.join("venv/bin/python");
    for (options, protocol, binding) in [
        (&["JSONRPC"][..], "1.0", "JSONRPC"),
        (&["HTTP+JSON"], "1.0", "HTTP+JSON"),
        (&["JSONRPC", "--v03"], "0.3", "JSONRPC"),
    ] {
        let mut command = tokio::process::Command::new(&python);
        let script = workspace().join("interop/a2a/peers/server.py");
        command.arg(script).args(options).stdout(std::process::Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let base = soon("the address of the SDK's server", lines.next_line()).await.unwrap().unwrap();
        let world = world("sdk-forecaster", &manifest("sdk", &base, ""));
        let server = world.start().await;
        let shown = is_ready(&server, "sdk").await;
        assert_eq!((&shown["agent"]["protocol"], &shown["agent"]["binding"]), (&json!(protocol), &json!(binding)));
        let body = json!({"name": "q", "input": "The weather?", "target": {"type": "agent", "name": "sdk-forecaster"}});
        let asked = ask(&server, &body).await;
        assert_eq!(asked["parameterRequests"][0]["question"], "Which city?", "{options:?}: {asked}");
        let answer = json!({"toolCallId": asked["parameterRequests"][0]["id"], "toolResult": "Rome"});
        api(&server, "POST", "/v1/queries/q/tool-result?wait=0", Some(&answer)).await;
        let done = until(&server, "q", "completed").await;
        assert_eq!(done["response"], "Sunny in Rome", "{options:?}: {done}");
    }
}
