//! The program as a person runs it: from a shell, with a server of its own.

use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    sync::atomic::{AtomicU16, Ordering},
    time::Duration,
};

use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

/// Longer than anything here takes on a busy machine; what takes longer is stuck.
const PATIENCE: Duration = Duration::from_secs(120);

/// The root of the source tree.
pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace is there")
}

/// Names another program to test than the one that was built with the tests: the one that is shipped.
pub(crate) const PROGRAM: &str = "BOSUN_PROGRAM";

/// The path of the program under test.
pub(crate) fn program() -> PathBuf {
    std::env::var_os(PROGRAM).map_or_else(|| env!("CARGO_BIN_EXE_bosun").into(), PathBuf::from)
}

/// The program, without environment variables that would change its output.
pub(crate) fn bosun() -> Command {
    let mut command = Command::new(program());
    command
        .env_remove("RUST_LOG")
        .env_remove("BOSUN_SERVER")
        .env_remove("BOSUN_KEY")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

/// Runs a command to its end.
pub(crate) async fn run(command: &mut Command) -> Output {
    let output = tokio::time::timeout(PATIENCE, command.output()).await;
    output.expect("the command ends").expect("the command starts")
}

/// Runs a command to its end, with this text as its standard input.
pub(crate) async fn run_with_input(command: &mut Command, input: &str) -> Output {
    use tokio::io::AsyncWriteExt as _;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the command starts");
    // A command that asks nothing does not read its input.
    let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes()).await;
    let output = tokio::time::timeout(PATIENCE, child.wait_with_output()).await;
    output.expect("the command ends").expect("the output is read")
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("output is text")
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("output is text")
}

/// A port for commands that must know it beforehand, and use it a little later.
///
/// It is below the ephemeral range of the operating system: a port from there may be taken by one of the many
/// connections of concurrent tests.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Tests run in many processes at once: each begins somewhere else.
    let first = 20_000 + (std::process::id() % 1_000) as u16 * 10;
    (0..1_000)
        .map(|_| first + NEXT.fetch_add(1, Ordering::Relaxed) % 2_000)
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .expect("a free port")
}

/// A server with a store of its own.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) base: String,
    child: Child,
    data: TempDir,
    manifests: PathBuf,
    options: Vec<String>,
}

impl Server {
    /// With the example agents.
    pub(crate) async fn start() -> Self {
        Self::start_with(&workspace().join("examples/agents")).await
    }

    pub(crate) async fn start_with(manifests: &Path) -> Self {
        Self::start_in(manifests, &[]).await
    }

    /// With further options.
    pub(crate) async fn start_in(manifests: &Path, options: &[&str]) -> Self {
        let data = tempfile::tempdir().expect("a directory");
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        let (child, base) = Self::spawn(data.path(), manifests, 0, &options).await;
        Self { base, child, data, manifests: manifests.to_owned(), options }
    }

    /// Stops the server and waits for its end.
    pub(crate) async fn stop(&mut self) {
        drop(self.child.stdin.take());
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        assert!(ended.expect("the server stops").expect("a process").success());
    }

    pub(crate) fn data(&self) -> &Path {
        self.data.path()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().expect("a process that lives")
    }

    pub(crate) fn port(&self) -> u16 {
        self.base.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port")
    }

    /// Kills the process, which cannot do anything about it.
    pub(crate) async fn kill(&mut self) {
        self.child.kill().await.expect("the server is killed");
    }

    /// Kills the process and starts another on the same data and the same port.
    pub(crate) async fn kill_and_restart(&mut self) {
        self.kill().await;
        (self.child, self.base) = Self::spawn(self.data.path(), &self.manifests, self.port(), &self.options).await;
    }

    async fn spawn(data: &Path, manifests: &Path, port: u16, options: &[String]) -> (Child, String) {
        let mut child = bosun()
            .args(["serve", "--listen", &format!("127.0.0.1:{port}"), "--until-stdin-ends"])
            .arg("--data")
            .arg(data)
            .arg("--manifests")
            .arg(manifests)
            .args(options)
            .env("RUST_LOG", "warn")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let line = tokio::time::timeout(PATIENCE, lines.next_line()).await.expect("the server is ready in time");
        let line = line.expect("output is text").expect("the server is ready");
        let base = line.strip_prefix("listening on ").and_then(|rest| rest.split(' ').next()).expect("an address");
        (child, base.to_owned())
    }
}

/// How many programs run with this file among their arguments.
pub(crate) fn running(marker: &Path) -> usize {
    let marker = marker.to_string_lossy().into_owned();
    let processes = std::fs::read_dir("/proc").expect("processes").filter_map(Result::ok);
    let commands = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    commands.filter(|command| String::from_utf8_lossy(command).contains(&marker)).count()
}

/// Runs the lines of a page in one shell, in a directory with the examples, and with the program on the path.
pub(crate) async fn run_shell(script: &str, directory: &Path) -> Output {
    let program = program();
    let program = program.parent().expect("the program is in a directory");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(program.to_owned()).chain(std::env::split_paths(&path)));
    let examples = directory.join("examples");
    if !examples.exists() {
        std::os::unix::fs::symlink(workspace().join("examples"), &examples).expect("a link to the examples");
    }
    let mut command = Command::new("bash");
    command
        .args(["-c", &format!("set -eu -o pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{script}")])
        .env("PATH", path.expect("a path"))
        .env("RUST_LOG", "warn")
        .env("NO_COLOR", "1")
        .current_dir(directory)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    run(&mut command).await
}
