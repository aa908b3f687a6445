//! `bosun query` against a real server.

use std::{path::Path, process::Output};

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpListener,
    process::Command,
};

use crate::{
    program::{bosun, run, stderr, stdout},
    scripted::{Folder, SCENES},
};

/// Further scenes.
const SCRIPT: &str = r#"
  - when: two tools
    turns:
      - call:
          - {tool: left, arguments: {}}
          - {tool: right, arguments: {}}
      - say: "{{ result.left }} {{ result.right }}"
  - when: slowly
    turns:
      - {delay: 1m, say: "at last"}
"#;

/// A folder with a file of tools.
fn folder(tools: &[&str]) -> Folder {
    Folder::new(&format!("{SCENES}{SCRIPT}"), "").with_tools(tools)
}

fn query(base: &str, folder: &Path, input: &str) -> Command {
    let mut command = bosun();
    command.args(["query", "--agent", "tester", input, "--server", base]).current_dir(folder);
    command
}

#[track_caller]
fn check(output: &Output, code: i32, answer: &str, expected: &[&str]) {
    let (stdout, stderr) = (stdout(output), stderr(output));
    assert_eq!(output.status.code(), Some(code), "{stdout}{stderr}");
    assert_eq!(stdout, answer, "{stderr}");
    for sentence in expected {
        assert!(stderr.contains(sentence), "`{sentence}` is not in:\n{stderr}");
    }
    assert!(!stderr.contains('\u{1b}'), "colour goes to terminals only: {stderr}");
}

#[tokio::test]
async fn a_command_may_answer_with_megabytes() {
    let folder = folder(&["probe"]);
    let server = folder.serve().await;
    let mut asking = query(&server.base, folder.path(), "one tool");
    // Quotes, which JSON would make twice as long as a post may be.
    asking.args(["--tools", "tools.json", "--run", r#"probe=yes '""' | head -c 3000000"#]);
    let output = run(&mut asking).await;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let answer = stdout(&output);
    let mark = "[truncated: the first 262144 of 2999999 bytes are shown; the rest cannot be read]";
    assert!(answer.starts_with("probe said \"\"\n\"\"\n") && answer.trim_end().ends_with(mark), "{}", stderr(&output));
    let blobs = std::fs::read_dir(server.data().join("blobs")).unwrap();
    assert_eq!(blobs.map(|blob| blob.unwrap().metadata().unwrap().len()).collect::<Vec<_>>(), [2_999_999]);
}

#[tokio::test]
async fn the_answer_is_all_that_standard_output_gets() {
    let folder = folder(&["probe"]);
    let server = folder.serve().await;
    let mut command = query(&server.base, folder.path(), "one tool");
    let output = run(command.args(["--tools", "tools.json", "--run", "probe=cat"])).await;
    let steps = ["· thinking", "→ probe {\"word\":\"one\"}", "← probe {\"word\":\"one\"}", "✓ completed"];
    check(&output, 0, "probe said {\"word\":\"one\"}\n", &steps);
}

#[tokio::test]
async fn calls_of_one_turn_run_at_the_same_time() {
    let folder = folder(&["left", "right"]);
    let server = folder.serve().await;
    // Each command waits for the other: one after the other, they would never end.
    let meet = |mine: &str, other: &str| format!("touch {mine}; until [ -e {other} ]; do :; done; echo {mine}");
    let mut command = query(&server.base, folder.path(), "two tools");
    command.args(["--tools", "tools.json"]);
    command.args(["--run", &format!("left={}", meet("l", "r")), "--run", &format!("right={}", meet("r", "l"))]);
    check(&run(&mut command).await, 0, "l r\n", &["← left l", "← right r"]);
}

#[tokio::test]
async fn the_model_reads_why_a_command_failed() {
    let folder = folder(&["probe"]);
    let server = folder.serve().await;
    let mut command = query(&server.base, folder.path(), "one tool");
    let output = run(command.args(["--tools", "tools.json", "--run", "probe=echo out of paper >&2; exit 3"])).await;
    let answer = "probe said Error: the command ended with exit status: 3: out of paper\n";
    check(&output, 0, answer, &["← probe failed: the command ended with exit status: 3"]);
}

#[tokio::test]
async fn a_server_that_restarts_in_the_middle_is_found_again() {
    let folder = folder(&["probe"]);
    let mut server = folder.serve().await;
    // The command sends a request here when it runs, and continues when it gets an answer.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let call = format!("probe=curl --silent http://{}", listener.local_addr().unwrap());
    let mut command = query(&server.base, folder.path(), "one tool");
    let asked = run(command.args(["--tools", "tools.json", "--run", &call]));
    let restart = async {
        let (connection, _) = listener.accept().await.unwrap();
        let mut connection = BufReader::new(connection);
        while connection.read_line(&mut String::new()).await.unwrap() > "\r\n".len() {}
        server.kill_and_restart().await;
        connection.write_all(b"HTTP/1.0 200 OK\r\n\r\nafter the restart").await.unwrap();
    };
    let (output, ()) = tokio::join!(asked, restart);
    check(&output, 0, "probe said after the restart\n", &["retrying", "reconnected", "✓ completed"]);
}

#[tokio::test]
async fn events_come_as_json_where_a_program_reads_them() {
    let folder = folder(&["probe"]);
    let server = folder.serve().await;
    let mut command = query(&server.base, folder.path(), "one tool");
    let output =
        run(command.args(["--tools", "tools.json", "--run", "probe=echo ok", "--json", "--name", "as-json"])).await;
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    let events: Vec<Value> = stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<_> = events.iter().filter_map(|event| event["event"].as_str()).collect();
    let durable: Vec<_> = names.iter().filter(|name| **name != "agent_response_delta").copied().collect();
    assert_eq!(durable, ["agent_thinking", "tool_call", "tool_result_received", "agent_response", "complete"]);
    assert_eq!(events[0]["data"]["queryName"], "as-json");
    assert!(events[0]["id"].is_string());
}

#[tokio::test]
async fn a_failed_query_exits_with_code_1() {
    let folder = folder(&[]);
    let server = folder.serve().await;
    let output = run(&mut query(&server.base, folder.path(), "nothing works")).await;
    check(&output, 1, "", &["no such deployment", "[model_refused]", "✗ failed"]);
}

#[tokio::test]
async fn what_the_server_refuses_is_an_error_with_its_code() {
    let folder = folder(&[]);
    let server = folder.serve().await;
    let ask = |arguments: &[&str]| {
        let mut command = bosun();
        command.args(["query", "--server", &server.base]).args(arguments);
        command
    };
    let output = run(&mut ask(&["--agent", "missing", "hello"])).await;
    check(&output, 1, "", &["error: Agent 'missing' not found in namespace default [agent_not_found]"]);
    for (input, expected) in [
        ("nothing works", "✗ failed"),
        // The same again is the same query; another one needs another name.
        ("nothing works", "✗ failed"),
        ("something else", "error: Query 'twice' already exists in namespace default [query_exists]"),
    ] {
        let output = run(&mut ask(&["--agent", "tester", input, "--name", "twice"])).await;
        check(&output, 1, "", &[expected]);
    }
}

#[tokio::test]
async fn a_limit_is_passed_on_and_a_warning_is_passed_back() {
    let folder = folder(&["probe"]);
    let server = folder.serve().await;
    let mut command = query(&server.base, folder.path(), "slowly");
    let output = run(command.args(["--timeout", "20ms"])).await;
    check(&output, 1, "", &["[query_timeout]", "✗ failed"]);
    let mut command = query(&server.base, folder.path(), "nothing works");
    let output = run(command.args(["--tools", "tools.json", "--run", "probe=cat", "--tool-source", "ark"])).await;
    check(&output, 1, "", &["! `toolSource` is `ark`, so the tools of the request are not shown to the model"]);
}

#[tokio::test]
async fn tools_and_commands_are_matched_before_anything_is_sent() {
    let folder = folder(&["probe"]);
    // No process listens there, and no request is sent.
    let nowhere = "http://127.0.0.1:1";
    let mut command = query(nowhere, folder.path(), "one tool");
    check(&run(command.args(["--tools", "tools.json"])).await, 2, "", &["error: tool `probe` has no command"]);
    let mut command = query(nowhere, folder.path(), "one tool");
    command.args(["--tools", "tools.json", "--run", "probe=cat", "--run", "prob=cat"]);
    check(&run(&mut command).await, 2, "", &["error: `--run prob=…` names no tool of the file, which has: probe"]);
    let mut command = query(nowhere, folder.path(), "one tool");
    check(&run(command.args(["--tools", "missing.json"])).await, 1, "", &["error: cannot read missing.json"]);
}

#[tokio::test]
async fn without_a_server_it_says_how_to_start_one() {
    let output = run(&mut query("http://127.0.0.1:1", Path::new("."), "hello")).await;
    check(&output, 1, "", &["error: no server answers at http://127.0.0.1:1", "start one with `bosun serve`"]);
    let output = run(&mut query("nonsense", Path::new("."), "hello")).await;
    check(&output, 1, "", &["error: `nonsense` is not a URL"]);
}
