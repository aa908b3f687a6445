//! `bosun demo`: what it claims is true, and it leaves nothing behind.

use std::{path::Path, process::Stdio};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    net::TcpStream,
    process::Command,
};

use crate::program::{bosun, free_port, run, run_shell, stderr, stdout, workspace};

#[tokio::test]
async fn every_step_is_shown_and_every_process_ends() {
    let temporary = tempfile::tempdir().unwrap();
    let output = run(bosun().arg("demo").env("TMPDIR", temporary.path())).await;
    let output_text = stdout(&output);
    assert!(output.status.success(), "{output_text}{}", stderr(&output));
    assert!(!output_text.contains('\u{1b}'), "colour goes to terminals only");
    for sentence in [
        "asks math-assistant “What is 25% of 8,432?” and brings a calculator",
        "tool_call_required: calculator {\"expression\":\"0.25 * 8432\"}",
        "runs calculator here: 2108",
        "tool_call_required: web_search",
        "runs current_time",
        "kill -9",
        "the stream broke, and the server no longer answers",
        "on the same store",
        "asks for the state of the query: waiting",
        "200, replayed",
        "409 already_resolved",
        "every answer was checked",
    ] {
        assert!(output_text.contains(sentence), "`{sentence}` is not in:\n{output_text}");
    }
    assert_eq!(output_text.matches("“25% of 8,432 is 2,108”").count(), 2, "{output_text}");
    let servers: Vec<_> = output_text.lines().filter_map(process).collect();
    assert_eq!(servers.len(), 2, "{output_text}");
    for (pid, _) in servers {
        assert!(!run(Command::new("kill").args(["-0", pid])).await.status.success(), "process {pid} is left");
    }
    assert_eq!(temporary.path().read_dir().unwrap().count(), 0, "files are left");
}

/// Number and address in a line such as `process 4711 on 127.0.0.1:40123, ready after …`.
fn process(line: &str) -> Option<(&str, &str)> {
    let (pid, rest) = line.split_once("process ")?.1.split_once(" on ")?;
    Some((pid, rest.split(',').next()?))
}

#[tokio::test]
async fn a_killed_demonstration_stops_its_server_too() {
    let mut demo = bosun().arg("demo").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    let server = loop {
        let line = lines.next_line().await.unwrap().expect("the server is announced");
        if let Some((_, address)) = process(&line) {
            break address.to_owned();
        }
    };
    let mut connection = TcpStream::connect(&server).await.unwrap();
    demo.kill().await.unwrap();
    // The server closes its connections after it has stopped listening.
    let mut rest = Vec::new();
    let _ = connection.read_to_end(&mut rest).await;
    assert!(TcpStream::connect(&server).await.is_err(), "the server is left");
}

#[tokio::test]
async fn the_examples_that_it_writes_are_those_of_the_source() {
    let directory = tempfile::tempdir().unwrap();
    let written = directory.path().join("agents");
    let output = run(bosun().args(["demo", "--examples"]).arg(&written)).await;
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(files(&written), files(&workspace().join("examples/agents")));
}

fn files(directory: &Path) -> Vec<(String, String)> {
    let mut files: Vec<_> = directory
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read_to_string(path).unwrap()))
        .collect();
    files.sort();
    files
}

#[tokio::test]
async fn the_commands_that_it_prints_at_the_end_work() {
    let output = run(bosun().arg("demo")).await;
    let output_text = stdout(&output);
    let (_, by_hand) = output_text.split_once("By hand").expect("commands to try");
    let commands: Vec<String> = by_hand
        .split("\n\n")
        .filter(|block| block.starts_with("    "))
        .map(|block| block.lines().map(|line| line.trim_start()).collect::<Vec<_>>().join("\n"))
        .collect();
    let [server, ask, deliver] = commands.as_slice() else { panic!("{commands:?}") };
    let port = free_port();
    let script = format!(
        "{server} --listen 127.0.0.1:{port} > server.log &\n\
         curl --silent --retry 9 --retry-connrefused localhost:8080/health\n\
         ({ask} > stream.log) &\n\
         stream=$!\n\
         curl --silent --fail --retry 9 --retry-all-errors 'localhost:8080/v1/queries/by-hand?wait=20s'\n\
         {deliver}\n\
         wait $stream\n\
         cat stream.log"
    );
    let directory = tempfile::tempdir().unwrap();
    let output = run_shell(&script.replace("localhost:8080", &format!("127.0.0.1:{port}")), directory.path()).await;
    let output_text = stdout(&output);
    assert!(output.status.success(), "{output_text}{}", stderr(&output));
    assert!(output_text.contains("event: tool_call") && output_text.contains("25% of 8,432 is 2,108"), "{output_text}");
}
