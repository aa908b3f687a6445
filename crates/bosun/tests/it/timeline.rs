//! The timeline of a tree of queries in `bosun query`: what every agent of the tree does, in one order, whatever breaks.

use std::path::Path;

use axum::{http::StatusCode, response::IntoResponse as _};
use bosun_client::{Client, Event, Observer};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpListener,
    process::Command,
};

use crate::{
    client::{events, refusal, stream},
    http_tools::service::{ReceivedRequest, Service},
    program::{Server, bosun, run, run_with_input, stderr, stdout},
    support::{client::http, soon},
    teams::{agents, chain, team},
};

/// Asks the root of the chain of three agents.
fn query(base: &str, folder: &Path, name: &str, lookup: &str) -> Command {
    let tools = json!([{"name": "lookup", "description": "Looks up", "parameters": {"type": "object"}}]);
    std::fs::write(folder.join("tools.json"), tools.to_string()).unwrap();
    let mut command = bosun();
    command.args(["query", "--agent", "first", "go", "--server", base, "--name", name, "--tool-source", "hybrid"]);
    command.args(["--tools", "tools.json", "--run", &format!("lookup={lookup}")]).current_dir(folder);
    command
}

/// What was printed about the run, line by line, without the times.
fn steps(text: &str) -> Vec<&str> {
    text.lines().map(|line| line.split_once(" s  ").map_or(line, |(_, step)| step)).collect()
}

/// What the chain does. Each step causes the next one, so there is only one right order.
const CHAIN_STEPS: &[&str] = &[
    "first  go",
    "· thinking",
    r#"· second {"input":"on"} on the server"#,
    "· second is thinking",
    r#"· second › third {"input":"end"} on the server"#,
    "· second › third is thinking",
    r#"→ second › third › lookup {"key":"one"}"#,
    "← lookup 42",
    "· the server has the result of second › third › lookup",
    "✓ second › third completed",
    "✓ second › third third(42)",
    "✓ second completed",
    "✓ second second(third(42))",
    "✓ completed",
];

#[tokio::test]
async fn a_tree_of_three_levels_is_one_timeline() {
    let (manifests, folder) = (chain(), TempDir::new().unwrap());
    let server = Server::start_with(manifests.path()).await;
    let output = run(&mut query(&server.base, folder.path(), "q", "echo 42")).await;
    assert_eq!(stdout(&output), "first(second(third(42)))\n", "{}", stderr(&output));
    assert_eq!(steps(&stderr(&output)), CHAIN_STEPS);
    // Another client that asks the same sees the same, and runs nothing again.
    let output = run(&mut query(&server.base, folder.path(), "q", "echo never")).await;
    assert_eq!(stdout(&output), "first(second(third(42)))\n", "{}", stderr(&output));
    let replayed: Vec<_> = CHAIN_STEPS.iter().filter(|step| !step.starts_with('←')).copied().collect();
    assert_eq!(steps(&stderr(&output)), replayed);
}

#[tokio::test]
async fn the_timeline_of_a_tree_continues_after_a_kill() {
    let (manifests, folder) = (chain(), TempDir::new().unwrap());
    let mut server = Server::start_with(manifests.path()).await;
    // The command sends a request here when it runs, and continues when it gets an answer.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let call = format!("curl --silent http://{}", listener.local_addr().unwrap());
    let mut command = query(&server.base, folder.path(), "q", &call);
    let restart = async {
        let (connection, _) = listener.accept().await.unwrap();
        let mut connection = BufReader::new(connection);
        while connection.read_line(&mut String::new()).await.unwrap() > "\r\n".len() {}
        server.kill_and_restart().await;
        connection.write_all(b"HTTP/1.0 200 OK\r\n\r\n42").await.unwrap();
    };
    let (output, ()) = tokio::join!(run(&mut command), restart);
    let errors = stderr(&output);
    assert_eq!(stdout(&output), "first(second(third(42)))\n", "{errors}");
    // No step is lost and none is repeated; how often the client retries, and when, depends on the restart.
    let shown: Vec<_> = steps(&errors).into_iter().filter(|step| !step.starts_with(['!', '↻'])).collect();
    assert_eq!(shown, CHAIN_STEPS);
}

/// An agent that asks another one, which wants to write.
fn asking_writer() -> TempDir {
    let script = "
scenes:
  - when: {exactly: go}
    turns:
      - call: [{tool: second, arguments: {input: on}}]
      - say: 'first({{ result.second }})'
  - when: {exactly: on}
    turns:
      - call: [{tool: write, arguments: {message: hello}}]
      - say: 'second({{ result.write }})'
";
    let tool = "---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Tool
metadata: {name: write}
spec: {type: builtin, builtin: {name: noop}, description: Writes, approval: {required: true}}
";
    let second = "[{type: custom, name: write}]";
    agents(&[("first", "[{type: agent, name: second}]"), ("second", second)], tool, script)
}

#[tokio::test]
async fn the_approval_of_a_descendant_is_in_the_stream_of_the_root_and_decided_there() {
    let manifests = asking_writer();
    let server = Server::start_with(manifests.path()).await;
    let body = json!({"name": "q", "input": "go", "target": {"type": "agent", "name": "first"}});
    let mut stream = http().post(format!("{}/v1/queries?stream=true", server.base)).json(&body).send().await.unwrap();
    let (mut text, mut approval) = (String::new(), None);
    while let Some(more) = stream.chunk().await.unwrap() {
        text.push_str(&String::from_utf8_lossy(&more));
        let Some((_, event)) = text.split_once("event: approval_required\n") else { continue };
        if approval.is_none() && event.contains("\n\n") {
            let data = event.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
            approval = Some(serde_json::from_str::<Value>(data).unwrap());
            let decision = json!({"decision": "approved"});
            let decided = http().post(format!("{}/v1/queries/q/approval?wait=0", server.base)).json(&decision);
            assert!(decided.send().await.unwrap().status().is_success());
        }
    }
    let approval = approval.unwrap_or_else(|| panic!("{text}"));
    assert_eq!((&approval["name"], &approval["agentPath"]), (&json!("write"), &json!(["first", "second"])), "{text}");
    assert_eq!(approval["arguments"], json!({"message": "hello"}), "{text}");
    assert_eq!(text.matches("event: approval_required\n").count(), 1, "{text}");
    assert!(text.contains("first(second(") && text.contains("event: complete"), "{text}");
}

#[tokio::test]
async fn a_command_asks_for_the_approval_of_a_descendant() {
    let manifests = asking_writer();
    let server = Server::start_with(manifests.path()).await;
    for (answer, ran) in [("y", true), ("n", false)] {
        let mut command = bosun();
        command.args(["query", "--agent", "first", "go", "--server", &server.base]);
        let output = run_with_input(&mut command, &format!("{answer}\n")).await;
        let (said, shown) = (stdout(&output), stderr(&output));
        assert!(shown.contains("? second › write waits for your approval"), "{answer}: {shown}");
        assert!(shown.contains("hello") && shown.contains("run write? [y/N]"), "{answer}: {shown}");
        assert_eq!(said.contains(r#"first(second({"message":"hello"}))"#), ran, "{answer}: {said} {shown}");
        assert_eq!(said.contains("the user rejected this call"), !ran, "{answer}: {said} {shown}");
    }
}

#[tokio::test]
async fn members_of_a_team_are_in_the_timeline() {
    let script = "
scenes:
  - when: 'a:'
    turns: [{say: 'after a'}]
  - when: start
    turns: [{say: 'first'}]
";
    let members = "{strategy: sequential, members: [{name: a, type: agent}, {name: b, type: agent}]}";
    let manifests = agents(&[("a", "[]"), ("b", "[]")], &team(members), script);
    let server = Server::start_with(manifests.path()).await;
    let output = run(bosun().args(["query", "--team", "team", "start", "--server", &server.base])).await;
    let errors = stderr(&output);
    assert_eq!(stdout(&output), "after a\n", "{errors}");
    let expect = [
        "team  start",
        "· thinking",
        r#"· a {"input":"start"} on the server"#,
        "· a is thinking",
        "✓ a completed",
        "✓ a first",
        r#"· b {"input":"start"} on the server"#,
        "· b is thinking",
        "✓ b completed",
        "✓ b after a",
        "✓ completed",
    ];
    assert_eq!(steps(&errors), expect);
    let output = run(bosun().args(["query", "--team", "none", "start", "--server", &server.base])).await;
    assert!(stderr(&output).contains("[team_not_found]"), "{}", stderr(&output));
    for targets in [&["--team", "team", "--agent", "a"][..], &[]] {
        let output = run(bosun().args(["query", "start"]).args(targets)).await;
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    }
}

#[derive(Default)]
struct Names(Vec<String>);

impl Observer for Names {
    fn event(&mut self, event: &Event, data: &Value) -> std::io::Result<()> {
        self.0.push(format!("{}.{}", data["queryName"].as_str().unwrap_or("q"), event.name));
        Ok(())
    }
}

/// The root's stream is complete before those of its child and its grandchild begin, as on a slow connection.
#[tokio::test]
async fn the_end_of_a_child_is_held_back_until_the_streams_below_it_have_ended() {
    let child = |name: &str| json!({"id": "call_1", "name": "agent", "childName": name});
    let of = |name: &str| json!({"queryName": name, "agentPath": ["first", name]});
    let with = |mut data: Value, more: Value| {
        data.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        data
    };
    let streams = move |request: &ReceivedRequest| match request.target.as_str() {
        "/v1/queries/below/events" => stream(events(&[
            ("child_started", 1, with(child("lowest"), of("below"))),
            // The middle of the tree was cancelled: it ends before what is below it.
            ("complete", 2, with(json!({"status": "cancelled"}), of("below"))),
        ])),
        "/v1/queries/lowest/events" => {
            stream(events(&[("complete", 1, with(json!({"status": "failed"}), of("lowest")))]))
        }
        // It was deleted.
        "/v1/queries/gone/events" => refusal(StatusCode::NOT_FOUND, "query_not_found"),
        target if target.starts_with("/v1/queries?") => stream(events(&[
            ("child_started", 1, child("below")),
            // Calls of descendants are in their own streams as well.
            ("tool_call", 1, child("lowest")),
            ("child_ended", 2, child("below")),
            ("tool_finished", 3, json!({"id": "call_1", "name": "agent", "success": true})),
            ("child_ended", 4, child("gone")),
            ("agent_response", 5, json!({"response": "done"})),
            ("complete", 6, json!({"status": "completed"})),
        ])),
        other => (StatusCode::IM_A_TEAPOT, other.to_owned()).into_response(),
    };
    let service = Service::start(streams).await;
    let client = Client::new(&service.url).unwrap();
    let mut names = Names::default();
    let answer = soon("an end", client.ask("first", "go").named("q").observed_by(&mut names)).await.unwrap();
    assert_eq!(answer.text, "done");
    // Two streams are read at the same time.
    names.0[2..4].sort();
    let expect = "q.child_started below.child_started below.complete lowest.complete q.child_ended q.tool_finished \
                  q.child_ended q.agent_response q.complete";
    assert_eq!(names.0.join(" "), expect);
}
