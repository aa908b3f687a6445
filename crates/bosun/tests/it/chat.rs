//! `bosun chat` against a real server: over a pipe, and on a terminal.

use std::{path::Path, process::Stdio, time::Duration};

use serde_json::Value;
use tokio::{io::AsyncWriteExt, process::Command};

use crate::{
    program::{Server, bosun, run, stderr, stdout},
    scripted::{Folder, SCENES},
    support::soon,
    terminal::Terminal,
};

/// Further scenes.
const SCRIPT: &str = r#"
  - when: slowly
    turns:
      - {words: 1m, say: "beginning end"}
otherwise:
  - say: "you said {{ input }}"
"#;

async fn serve() -> (Server, Folder) {
    let folder = Folder::new(&format!("{SCENES}{SCRIPT}"), "").with_tools(&["probe"]);
    (folder.serve().await, folder)
}

/// Exit code, standard output and standard error of a conversation of these lines.
async fn chat(base: &str, directory: &Path, arguments: &[&str], lines: &str) -> (i32, String, String) {
    let mut command: Command = bosun();
    command.args(["chat", "--server", base]).args(arguments).current_dir(directory);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A program that ends at once reads nothing.
    let _ = child.stdin.take().unwrap().write_all(lines.as_bytes()).await;
    let output = soon("the end of the conversation", child.wait_with_output()).await.unwrap();
    (output.status.code().unwrap(), stdout(&output), stderr(&output))
}

async fn get(server: &Server, path: &str) -> Value {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let answer = http.get(format!("{}{path}", server.base)).send().await.unwrap();
    serde_json::from_str(&answer.text().await.unwrap()).unwrap()
}

/// What the messages of a conversation say, in order.
async fn messages_of(server: &Server, conversation: &str) -> Vec<String> {
    let found = get(server, &format!("/v1/conversations/{conversation}")).await;
    let messages = found["messages"].as_array().unwrap_or_else(|| panic!("{found}")).iter();
    messages.map(|place| place["message"]["content"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn the_lines_of_a_pipe_are_asked_in_one_conversation_that_can_be_continued() {
    let (server, directory) = serve().await;
    let (code, answers, log) =
        chat(&server.base, directory.path(), &["--agent", "tester"], "I am Ada\n\nwho am I?\n").await;
    assert_eq!((code, answers.as_str()), (0, "you said I am Ada\nyou said who am I?\n"), "{log}");
    let conversation = log.split_once("begins conversation ").unwrap().1.trim();
    let arguments = ["--agent", "tester", "--conversation", conversation];
    let (code, answers, log) = chat(&server.base, directory.path(), &arguments, "and now?").await;
    assert_eq!((code, answers.as_str()), (0, "you said and now?\n"), "{log}");
    assert!(log.contains(&format!("continues conversation {conversation}")), "{log}");
    let expected =
        ["I am Ada", "you said I am Ada", "who am I?", "you said who am I?", "and now?", "you said and now?"];
    assert_eq!(messages_of(&server, conversation).await, expected);
}

#[tokio::test]
async fn local_commands_serve_the_tools_of_every_question() {
    let (server, directory) = serve().await;
    let arguments = ["--agent", "tester", "--tools", "tools.json", "--run", "probe=cat"];
    let (code, answers, log) = chat(&server.base, directory.path(), &arguments, "one tool\nhello\none tool\n").await;
    let answer = "probe said {\"word\":\"one\"}\n";
    assert_eq!((code, answers), (0, format!("{answer}you said hello\n{answer}")), "{log}");
    assert_eq!(log.matches("  → probe {\"word\":\"one\"}\n").count(), 2, "{log}");
    assert_eq!(log.matches("  ← probe {\"word\":\"one\"}\n").count(), 2, "{log}");
    assert!(!log.contains("thinking"), "{log}");
}

#[tokio::test]
async fn a_question_that_fails_does_not_end_the_conversation() {
    let (server, directory) = serve().await;
    let (code, answers, log) =
        chat(&server.base, directory.path(), &["--agent", "tester"], "nothing works\nhello\n").await;
    assert_eq!((code, answers.as_str()), (1, "you said hello\n"), "{log}");
    assert!(log.contains("no such deployment [model_refused]") && log.contains("✗ failed"), "{log}");
}

#[tokio::test]
async fn an_interrupt_cancels_the_question_of_a_pipe_and_asks_no_more() {
    let (server, directory) = serve().await;
    let mut command = bosun();
    command.args(["chat", "--server", &server.base, "--agent", "tester"]).current_dir(directory.path());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"slowly\nhello\n").await.unwrap();
    soon("a query that runs", async {
        while get(&server, "/v1/queries").await["items"][0]["state"] != "running" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    let pid = child.id().unwrap().to_string();
    assert!(run(Command::new("kill").args(["-s", "INT", &pid])).await.status.success());
    let output = soon("the end of the conversation", child.wait_with_output()).await.unwrap();
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(130), ""), "{}", stderr(&output));
    assert!(stderr(&output).contains("✗ cancelled"), "{}", stderr(&output));
    let queries = get(&server, "/v1/queries").await;
    assert_eq!((&queries["items"][0]["state"], queries["items"].as_array().unwrap().len()), (&"cancelled".into(), 1));
}

#[tokio::test]
async fn what_cannot_begin_is_an_error_before_a_line_is_read() {
    let (server, directory) = serve().await;
    let nowhere = "http://127.0.0.1:1";
    for (base, arguments, code, expected) in [
        (server.base.as_str(), &["--agent", "test"] as &[&str], 1, "there is no agent `test`; the server has: tester"),
        (nowhere, &["--agent", "tester"], 1, "no server answers at http://127.0.0.1:1"),
        (nowhere, &["--agent", "tester", "--tools", "tools.json"], 2, "tool `probe` has no command"),
    ] {
        let (found, answers, log) = chat(base, directory.path(), arguments, "hello\n").await;
        assert_eq!((found, answers.as_str()), (code, ""), "{log}");
        assert!(log.starts_with(&format!("error: {expected}")), "`{expected}` is not in:\n{log}");
    }
}

#[tokio::test]
async fn on_a_terminal_answers_are_streamed_and_arrow_keys_recall_lines() {
    let (server, directory) = serve().await;
    let mut terminal = Terminal::run(
        &["chat", "--agent", "tester", "--server", &server.base, "--conversation", "typed"],
        directory.path(),
    );
    terminal.sees("> ").await;
    terminal.types("hello\r").await;
    terminal.sees("you said hello").await;
    terminal.sees("> ").await;
    // Up to the earlier line, and more at its end.
    terminal.types("\u{1b}[A again\r").await;
    terminal.sees("you said hello again").await;
    terminal.sees("> ").await;
    // The second word would come in a minute: the first one is there before the answer is.
    terminal.types("slowly\r").await;
    terminal.sees("beginning").await;
    terminal.types("\u{3}").await;
    terminal.sees("cancelled").await;
    terminal.sees("> ").await;
    // Ctrl-C discards a line that is not entered yet, and Ctrl-D ends.
    terminal.types("discarded\u{3}").await;
    terminal.sees("> ").await;
    terminal.types("the end\r").await;
    terminal.sees("you said the end").await;
    terminal.sees("> ").await;
    terminal.types("\u{4}").await;
    terminal.sees("bosun chat --agent tester --conversation typed").await;
    assert_eq!(terminal.end().await, 0);
    let expected = ["hello", "you said hello", "hello again", "you said hello again", "the end", "you said the end"];
    assert_eq!(messages_of(&server, "typed").await, expected);
    let queries = get(&server, "/v1/queries").await;
    let cancelled = queries["items"].as_array().unwrap().iter().filter(|query| query["state"] == "cancelled");
    assert_eq!(cancelled.count(), 1, "{queries}");
}
