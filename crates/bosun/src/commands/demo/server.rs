//! The server as a process of its own, which can be killed.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, bail};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

/// A server is ready long before this, or never.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// What all processes of the demonstration share.
#[derive(Debug)]
pub(super) struct DemoDirectory {
    directory: tempfile::TempDir,
}

/// One process. It ends with its owner: killed when dropped, and by the end of its standard input if even that does not
/// happen.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) base: String,
    pub(super) pid: u32,
    child: Child,
    _stdin: Option<ChildStdin>,
    _lines: Lines<BufReader<ChildStdout>>,
}

impl DemoDirectory {
    pub(super) fn new() -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new().prefix("bosun-demo-").tempdir();
        Ok(Self { directory: directory.context("cannot create a temporary directory")? })
    }

    pub(super) fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    pub(super) fn manifests(&self) -> PathBuf {
        self.directory.path().join("agents")
    }

    fn log(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    /// Starts a process and waits until it is ready.
    pub(super) async fn start(&self) -> anyhow::Result<Server> {
        let program = std::env::current_exe().context("cannot determine the path of this program")?;
        let log = File::options().create(true).append(true).open(self.log()).context("cannot open the log")?;
        let mut child = Command::new(program)
            .args(["serve", "--listen", "127.0.0.1:0", "--until-stdin-ends"])
            .arg("--data")
            .arg(self.data())
            .arg("--manifests")
            .arg(self.manifests())
            .env("RUST_LOG", "warn")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .context("the server cannot be started")?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (pid, stdout) = child.id().zip(stdout).context("the server ended before it started")?;
        let mut lines = BufReader::new(stdout).lines();
        match tokio::time::timeout(START_TIMEOUT, address(&mut lines)).await {
            Ok(Some(base)) => Ok(Server { base, pid, child, _stdin: stdin, _lines: lines }),
            Ok(None) => bail!("the server ended before it was ready:\n{}", read_end(&self.log())),
            Err(_) => bail!("the server was not ready within {START_TIMEOUT:?}:\n{}", read_end(&self.log())),
        }
    }
}

/// Reads the address from the line that says that the server is ready.
async fn address(lines: &mut Lines<BufReader<ChildStdout>>) -> Option<String> {
    while let Ok(Some(line)) = lines.next_line().await {
        if let Some(rest) = line.strip_prefix("listening on ") {
            return rest.split_whitespace().next().map(str::to_owned);
        }
    }
    None
}

impl Server {
    /// SIGKILL: the process gets no chance to do anything.
    pub(super) async fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill().await.context("the server could not be killed")
    }
}

/// The size of all files of a directory.
pub(super) fn size_of(directory: &Path) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for entry in directory.read_dir().with_context(|| format!("cannot read {}", directory.display()))? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}

fn read_end(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}
