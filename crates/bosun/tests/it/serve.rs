//! `bosun serve` from an operator's view: its error messages, and how it stops.

use std::process::{Output, Stdio};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    process::{Child, Command},
};

use crate::program::{Server, bosun, run, stderr, stdout, workspace};

#[track_caller]
fn check(output: &Output, code: i32, expected: &[&str]) {
    let stderr = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert_eq!(stdout(output), "");
    for sentence in expected {
        assert!(stderr.contains(sentence), "`{sentence}` is not in:\n{stderr}");
    }
}

fn serve() -> Command {
    let mut command = bosun();
    command.args(["serve", "--listen", "127.0.0.1:0"]);
    command
}

#[tokio::test]
async fn an_address_that_others_can_reach_is_refused() {
    for address in ["0.0.0.0:8080", "[::]:0", "192.0.2.1:80"] {
        let output = run(bosun().args(["serve", "--listen", address])).await;
        check(&output, 2, &["the server has no keys", "`--auth keys.toml`", "listen on 127.0.0.1"]);
    }
}

#[tokio::test]
async fn an_empty_directory_gets_the_smallest_agent_as_an_answer() {
    let directory = tempfile::tempdir().unwrap();
    let output = run(serve().current_dir(directory.path())).await;
    check(&output, 1, &["there are no agents in ./agents", "kind: Agent", "bosun demo --examples ./agents"]);
    assert!(!directory.path().join("data").exists(), "the store was touched");
}

#[tokio::test]
async fn all_faults_of_the_manifests_are_reported_at_once_with_their_places() {
    let directory = tempfile::tempdir().unwrap();
    let manifests = "apiVersion: ark.mckinsey.com/v1alpha1\nkind: Agent\nmetadata: {name: a}\nspec: {promt: hello}\n\
        ---\napiVersion: ark.mckinsey.com/v1alpha1\nkind: Agnt\nmetadata: {name: b}\nspec: {prompt: hello}\n";
    std::fs::create_dir(directory.path().join("agents")).unwrap();
    std::fs::write(directory.path().join("agents/broken.yaml"), manifests).unwrap();
    let output = run(serve().current_dir(directory.path())).await;
    check(&output, 1, &["the manifests cannot be used", "broken.yaml:4:8: ", "`promt`", "broken.yaml:7:7: ", "`Agnt`"]);
}

#[tokio::test]
async fn two_servers_do_not_share_a_store_or_a_port() {
    let server = Server::start().await;
    let examples = workspace().join("examples/agents");
    let output = run(serve().arg("--manifests").arg(&examples).arg("--data").arg(server.data())).await;
    let (data, pid) = (server.data().display().to_string(), format!("(pid {})", server.pid()));
    check(&output, 1, &["is in use by another process", &data, &pid, "stop that one"]);
    let directory = tempfile::tempdir().unwrap();
    let address = server.base.trim_start_matches("http://");
    let mut command = bosun();
    command.args(["serve", "--listen", address]).arg("--manifests").arg(&examples).arg("--data").arg(directory.path());
    check(&run(&mut command).await, 1, &["cannot listen on", "`--listen 127.0.0.1:0` takes a free port"]);
}

#[tokio::test]
async fn a_fault_point_that_does_not_exist_is_a_misuse() {
    check(&run(serve().args(["--fault", "nowhere"])).await, 2, &["`nowhere` names no fault point"]);
}

/// A server that is ready, and its process.
async fn ready(log: &str) -> (Child, String, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let mut child = serve()
        .args(["--log", log, "--manifests"])
        .arg(workspace().join("examples/agents"))
        .current_dir(directory.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    let line = lines.next_line().await.unwrap().unwrap();
    assert!(line.starts_with("listening on http://127.0.0.1:"), "{line}");
    assert!(line.ends_with("with 2 agents (math-assistant, research-assistant), data in ./data"), "{line}");
    let address = line["listening on http://".len()..].split(' ').next().unwrap().to_owned();
    (child, address, directory)
}

async fn signal(child: &Child, name: &str) {
    let pid = child.id().unwrap().to_string();
    assert!(run(Command::new("kill").args(["-s", name, &pid])).await.status.success());
}

#[tokio::test]
async fn a_signal_stops_it_gracefully() {
    for name in ["TERM", "INT"] {
        let (child, _, _directory) = ready("text").await;
        signal(&child, name).await;
        let output = child.wait_with_output().await.unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(stderr(&output).contains("stopping; a second signal stops at once"), "{}", stderr(&output));
    }
}

#[tokio::test]
async fn a_second_signal_stops_it_at_once() {
    let (mut child, address, _directory) = ready("text").await;
    // A pending request that never ends: its body is announced and does not arrive.
    let mut connection = TcpStream::connect(&address).await.unwrap();
    let request = format!(
        "POST /v1/queries HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
        content-length: 9\r\nexpect: 100-continue\r\n\r\n"
    );
    connection.write_all(request.as_bytes()).await.unwrap();
    // The server requests the body when a handler has begun to wait for it.
    let mut answer = [0; 12];
    connection.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 100");
    signal(&child, "TERM").await;
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
    while !log.next_line().await.unwrap().expect("it says that it stops").contains("stopping") {}
    signal(&child, "TERM").await;
    assert_eq!(child.wait().await.unwrap().code(), Some(130));
}

#[tokio::test]
async fn the_log_is_json_where_a_machine_reads_it() {
    let (child, _, _directory) = ready("json").await;
    signal(&child, "TERM").await;
    let output = child.wait_with_output().await.unwrap();
    let lines: Vec<serde_json::Value> =
        stderr(&output).lines().map(|line| serde_json::from_str(line).expect("a JSON object a line")).collect();
    assert!(lines.iter().any(|line| line["level"] == "INFO" && line["message"].is_string()), "{lines:?}");
}
