//! The server as a process: started, awaited, killed.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::Stdio,
};

use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

use super::{scenarios, soon};
use crate::program::program;

/// A directory with everything that one server has, across its processes.
#[derive(Debug)]
pub(crate) struct World {
    directory: TempDir,
    /// The environment of every process of this world.
    environment: Vec<(&'static str, OsString)>,
    /// The command that starts a process; empty if it is started directly.
    launcher: Vec<String>,
    /// Further options of the server.
    options: Vec<String>,
}

impl World {
    pub(crate) fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("bosun-proof-").tempdir().expect("a directory");
        scenarios::write(&directory.path().join("manifests"));
        Self { directory, environment: Vec::new(), launcher: Vec::new(), options: Vec::new() }
    }

    /// Every later process is started by this command, which gets the program and its arguments after its own.
    pub(crate) fn start_by(&mut self, launcher: &[&str]) {
        self.launcher = launcher.iter().map(|&part| part.to_owned()).collect();
    }

    /// Further options of every later process.
    pub(crate) fn with(mut self, options: &[&str]) -> Self {
        self.options.extend(options.iter().map(|&option| option.to_owned()));
        self
    }

    /// From the next process on.
    pub(crate) fn set(&mut self, variable: &'static str, value: impl Into<OsString>) {
        self.environment.push((variable, value.into()));
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path("data")
    }

    /// The file in which the ledger tools count their effects.
    pub(crate) fn ledger(&self) -> PathBuf {
        self.path("ledger")
    }

    /// The standard error of all processes of this world.
    pub(crate) fn log(&self) -> PathBuf {
        self.path("log")
    }

    /// A file or directory of this world.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Keeps the files for inspection, and prints their path.
    pub(crate) fn keep(mut self) -> PathBuf {
        self.directory.disable_cleanup(true);
        self.directory.path().to_owned()
    }

    /// Starts a process, which may die at once if `fault` says so.
    pub(crate) fn spawn(&self, fault: Option<&str>) -> Starting {
        let log = File::options().create(true).append(true).open(self.log()).expect("a log");
        let program = program().into_os_string();
        let mut words = self.launcher.iter().map(OsStr::new).chain([program.as_os_str()]);
        let mut command = Command::new(words.next().unwrap_or(&program));
        command
            .args(words)
            .args(["serve", "--listen", "127.0.0.1:0"])
            .arg("--data")
            .arg(self.data())
            .arg("--manifests")
            .arg(self.path("manifests"))
            .arg("--ledger")
            .arg(self.ledger())
            .args(&self.options)
            .env("RUST_LOG", "warn")
            .envs(self.environment.iter().map(|(variable, value)| (variable, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true);
        if let Some(fault) = fault {
            command.args(["--fault", fault]);
        }
        let mut child = command.spawn().expect("the server starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Starting { child, lines, log: self.log() }
    }

    /// Starts a server that dies at `fault`, after it has begun to answer.
    pub(crate) async fn start_dying(&self, fault: &str) -> Server {
        match soon("the start of the server", self.spawn(Some(fault)).ready()).await {
            Started::Ready(server) => *server,
            Started::Exited(exit) => panic!("the server died of {exit:?}: {}", tail(&self.log())),
        }
    }

    /// Starts a server that runs until it is killed.
    pub(crate) async fn start(&self) -> Server {
        match soon("the start of the server", self.spawn(None).ready()).await {
            Started::Ready(server) => *server,
            Started::Exited(exit) => panic!("the server died of {exit:?}: {}", tail(&self.log())),
        }
    }
}

/// A process that is not ready yet.
#[derive(Debug)]
pub(crate) struct Starting {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    log: PathBuf,
}

#[derive(Debug)]
pub(crate) enum Started {
    Ready(Box<Server>),
    /// A fault was planned for the start itself.
    Exited(ProcessExit),
}

/// A process that answers requests.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) base: String,
    child: Child,
    // Kept open: the test must not depend on a server that cannot print.
    _lines: Lines<BufReader<ChildStdout>>,
    log: PathBuf,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessExit {
    /// SIGKILL, from the test.
    Killed,
    /// SIGABRT, at a fault point.
    AtFaultPoint,
    /// By itself, with this code.
    Exited(i32),
}

impl Starting {
    /// Waits for the line with the address.
    pub(crate) async fn ready(mut self) -> Started {
        while let Some(line) = self.lines.next_line().await.expect("the server's output is text") {
            if let Some(start) = line.find("http://") {
                let base = line[start..].split_whitespace().next().unwrap_or_default().trim_end_matches('/').to_owned();
                let server = Server { base, child: self.child, _lines: self.lines, log: self.log };
                return Started::Ready(Box::new(server));
            }
        }
        Started::Exited(exit(&mut self.child, &self.log).await)
    }

    pub(crate) async fn kill(mut self) -> ProcessExit {
        kill(&mut self.child, &self.log).await
    }
}

impl Server {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id().expect("a process that lives")
    }

    pub(crate) async fn kill(&mut self) -> ProcessExit {
        kill(&mut self.child, &self.log).await
    }

    /// How much memory the process has whenever it is asked, in bytes.
    pub(crate) fn memory(&self) -> impl Fn() -> u64 + Send + use<> {
        let path = format!("/proc/{}/status", self.pid());
        move || {
            let status = std::fs::read_to_string(&path).expect("a process that lives");
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
            line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
        }
    }

    /// Stops the process by a signal, as an operator would.
    pub(crate) fn terminate(&self) {
        let pid = self.pid().to_string();
        let sent = std::process::Command::new("kill").args(["-s", "TERM", &pid]).status();
        assert!(sent.is_ok_and(|status| status.success()), "the signal is sent");
    }

    /// Waits until the process ends by itself.
    pub(crate) async fn exit(&mut self) -> ProcessExit {
        exit(&mut self.child, &self.log).await
    }
}

async fn kill(child: &mut Child, log: &Path) -> ProcessExit {
    // It may have died already.
    let _ = child.start_kill();
    exit(child, log).await
}

async fn exit(child: &mut Child, log: &Path) -> ProcessExit {
    let status = child.wait().await.expect("a child to wait for");
    match (status.signal(), status.code()) {
        (Some(9), _) => ProcessExit::Killed,
        (Some(6), _) => ProcessExit::AtFaultPoint,
        (_, Some(code)) => ProcessExit::Exited(code),
        _ => panic!("the server ended with {status}: {}", tail(log)),
    }
}

/// The end of a log, for a message.
pub(crate) fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}
