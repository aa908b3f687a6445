//! Servers that are programs on this machine, spoken to over standard input and output.
//!
//! A program leads a process group of its own, and the whole group is killed: `npx`, `uvx` and `sh -c` leave the real
//! server behind otherwise. It gets a few variables of the environment and those of its manifest, never all, since the
//! server's own environment holds secrets. What it writes to standard error is kept in a bounded buffer.

use std::{
    collections::VecDeque,
    ffi::OsStr,
    io,
    os::fd::AsFd as _,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bosun_adapters::{manifests::McpCommand, secret::Secret};
use rustix::{
    fs::Access,
    process::{Pid, Signal, kill_process_group},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt as _, BufReader},
    process::{Child, ChildStdin, ChildStdout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    error::McpError,
    reaper::{RELEASE, Reaper, WatchedGroup},
    redact::Redactor,
};

/// Variables that programs need to find their files, their language and each other.
const INHERITED: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "npm_config_cache",
    "XDG_CACHE_HOME",
];
/// How much of standard error is kept.
const KEPT_BYTES: usize = 8 * 1024;
const LONGEST_LINE: usize = 1024;
/// How long a program may take to end by itself once its input is closed, and again after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);
/// How long a fault waits for its program to end, so that it can report the exit status.
const EXIT_TIMEOUT: Duration = Duration::from_millis(500);
/// How many lines of standard error are shown with a fault.
const ERROR_LINES: usize = 5;

/// A running program. Dropping it kills its process group.
#[derive(Debug)]
pub(crate) struct Program {
    child: Child,
    group: Option<Pid>,
    /// Dropped after the group was killed.
    _watched: Option<WatchedGroup>,
    errors: ErrorOutput,
    /// Cancelled when standard error is closed.
    drained: CancellationToken,
}

/// The ends of the pipes that the protocol uses.
#[derive(Debug)]
pub(crate) struct Pipes {
    pub(crate) output: ChildStdout,
    pub(crate) input: ChildStdin,
}

impl Pipes {
    /// Whether the program has not yet read all of its input, whenever that is asked. The pipe stays open while it can be.
    pub(crate) fn is_unread(&self) -> impl Fn() -> bool + Send + Sync + use<> {
        let input = self.input.as_fd().try_clone_to_owned().ok();
        move || input.as_ref().is_some_and(|input| rustix::io::ioctl_fionread(input).is_ok_and(|bytes| bytes > 0))
    }
}

/// Starts the program of a server, as a process that becomes the program once the reaper knows its group.
pub(crate) async fn start(
    command: &McpCommand,
    env: &[(String, Secret)],
    redactor: &Arc<Redactor>,
    tasks: &TaskTracker,
    reaper: &Arc<Reaper>,
) -> Result<(Program, Pipes), McpError> {
    let unavailable =
        |reason: String| McpError::Unavailable(format!("program `{}` cannot be started: {reason}", command.command));
    let own_path = env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.expose().into());
    let path = own_path.or_else(|| std::env::var_os("PATH")).unwrap_or_default();
    find_program(command, &path).map_err(|error| unavailable(error.to_string()))?;
    let mut program = reaper.awaiting_release(&command.command);
    program
        .args(&command.args)
        .env_clear()
        .envs(INHERITED.iter().filter_map(|name| Some((*name, std::env::var_os(name)?))))
        .envs(env.iter().map(|(name, value)| (name, value.expose())))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    if let Some(directory) = &command.cwd {
        program.current_dir(directory);
    }
    let mut child = program.spawn().map_err(|error| unavailable(error.to_string()))?;
    let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    let (output, input, stderr) = (child.stdout.take(), child.stdin.take(), child.stderr.take());
    let errors = ErrorOutput { lines: Arc::default(), redactor: Arc::clone(redactor) };
    let drained = CancellationToken::new();
    let watched = group.map(|group| reaper.watch(group));
    let program = Program { child, group, _watched: watched, errors, drained: drained.clone() };
    let (Some(output), Some(mut input), Some(stderr)) = (output, input, stderr) else {
        return Err(unavailable("it has no pipes".to_owned()));
    };
    input.write_all(RELEASE).await.map_err(|error| unavailable(error.to_string()))?;
    let lines = Arc::clone(&program.errors.lines);
    tasks.spawn(async move {
        keep_errors(stderr, lines).await;
        drained.cancel();
    });
    Ok((program, Pipes { output, input }))
}

/// Checks that there is such a program, so that its absence is reported by this process. As `execvp` does, a name
/// without a slash is searched for in `path`.
fn find_program(command: &McpCommand, path: &OsStr) -> io::Result<()> {
    let name = Path::new(&command.command);
    let directory = command.cwd.as_deref().unwrap_or(Path::new("."));
    if command.command.contains('/') {
        return rustix::fs::access(directory.join(name), Access::EXEC_OK).map_err(io::Error::from);
    }
    let is_there = |place: PathBuf| rustix::fs::access(directory.join(place).join(name), Access::EXEC_OK).is_ok();
    if std::env::split_paths(path).any(is_there) { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
}

impl Program {
    /// Waits for the program, whose input is closed, to end; then sends SIGTERM; then kills it and all that it started.
    pub(crate) async fn stop(mut self) {
        if tokio::time::timeout(GRACE, self.child.wait()).await.is_err() {
            self.signal(Signal::TERM);
            let _ = tokio::time::timeout(GRACE, self.child.wait()).await;
        }
    }

    /// How the program ended, and the last lines of its standard error; empty if neither is known. A program that is
    /// ending gets a moment to do so.
    pub(crate) async fn exit_report(&mut self) -> String {
        let ending = async {
            let status = self.child.wait().await;
            self.drained.cancelled().await;
            status
        };
        let mut report = String::new();
        if let Ok(Ok(status)) = tokio::time::timeout(EXIT_TIMEOUT, ending).await {
            report.push_str(&format!("; the program ended with {status}"));
        }
        if let Some(lines) = self.errors.tail(ERROR_LINES) {
            report.push_str(&format!("; it wrote to standard error:\n{lines}"));
        }
        report
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // Fails if the whole group has ended.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// The last lines of a program's standard error.
#[derive(Clone, Debug)]
pub(crate) struct ErrorOutput {
    lines: Arc<Mutex<Lines>>,
    redactor: Arc<Redactor>,
}

#[derive(Debug, Default)]
struct Lines {
    kept: VecDeque<String>,
    bytes: usize,
}

impl Lines {
    fn push(&mut self, line: String) {
        self.bytes += line.len();
        self.kept.push_back(line);
        while self.bytes > KEPT_BYTES {
            let Some(first) = self.kept.pop_front() else { break };
            self.bytes -= first.len();
        }
    }
}

impl ErrorOutput {
    /// The last lines, without secrets; `None` if there are none.
    pub(crate) fn tail(&self, lines: usize) -> Option<String> {
        let kept = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let from = kept.kept.len().saturating_sub(lines);
        let tail: Vec<&str> = kept.kept.iter().skip(from).map(String::as_str).collect();
        (!tail.is_empty()).then(|| self.redactor.clean(&tail.join("\n")))
    }
}

/// Reads standard error until it is closed: a program whose pipe is full would hang.
async fn keep_errors(stderr: impl AsyncRead + Unpin, lines: Arc<Mutex<Lines>>) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        let Ok(read) = reader.fill_buf().await else { return };
        if read.is_empty() {
            return;
        }
        let end = read.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(read.len(), |end| end + 1);
        let room = LONGEST_LINE.saturating_sub(line.len());
        line.extend_from_slice(&read[..end.unwrap_or(taken).min(room)]);
        reader.consume(taken);
        if end.is_some() {
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            if !text.is_empty() {
                lines.lock().unwrap_or_else(PoisonError::into_inner).push(text);
            }
            line.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reaper of these tests only becomes the program.
    async fn started(command: &McpCommand) -> Result<(Program, Pipes), McpError> {
        let reaper = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/stdio/reap.sh");
        start(command, &[], &Arc::default(), &TaskTracker::new(), &Arc::new(Reaper::new(reaper))).await
    }

    #[tokio::test]
    async fn the_end_of_standard_error_is_kept_within_bounds() {
        let lines = Arc::new(Mutex::new(Lines::default()));
        let mut text = "first\n\n".to_owned();
        for number in 0..1000 {
            text.push_str(&format!("line {number} {}\n", "x".repeat(number * 3)));
        }
        keep_errors(text.as_bytes(), Arc::clone(&lines)).await;
        let kept = lines.lock().unwrap();
        assert!(kept.bytes <= KEPT_BYTES && kept.kept.iter().all(|line| line.len() <= LONGEST_LINE));
        assert!(kept.kept.back().unwrap().starts_with("line 999 "));
    }

    #[tokio::test]
    async fn a_program_and_what_it_started_are_gone_when_it_is_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pid");
        let script = format!("sleep 600 & echo $! > {0}.draft; mv {0}.draft {0}; wait", file.display());
        let command = McpCommand { command: "sh".into(), args: vec!["-c".into(), script], env: Vec::new(), cwd: None };
        let (program, _pipes) = started(&command).await.unwrap();
        let grandchild = loop {
            match std::fs::read_to_string(&file) {
                Ok(text) => break text.trim().parse::<i32>().unwrap(),
                Err(_) => tokio::task::yield_now().await,
            }
        };
        let is_there = || {
            let status = std::fs::read_to_string(format!("/proc/{grandchild}/stat")).unwrap_or_default();
            // A process that has ended and was not waited for is a zombie.
            !status.is_empty() && !status.contains(") Z ")
        };
        assert!(is_there());
        drop(program);
        while is_there() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_program_that_does_not_exist_says_so() {
        let command = McpCommand { command: "/nowhere/at-all".into(), args: vec![], env: vec![], cwd: None };
        let error = started(&command).await.unwrap_err();
        assert!(error.to_string().starts_with("program `/nowhere/at-all` cannot be started: "), "{error}");
        let command = McpCommand { command: "no-such-program-anywhere".into(), ..command };
        let error = started(&command).await.unwrap_err();
        assert!(error.to_string().ends_with("cannot be started: entity not found"), "{error}");
    }
}
