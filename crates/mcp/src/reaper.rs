//! A process that ends the programs of servers when this one can no longer do so.
//!
//! A program learns from the end of its input that its client is gone, and not every program ends then. This process
//! ends them all in a shutdown, and nothing of it runs after `kill -9` or when memory is exhausted. So it starts another
//! one, this program with the command [`REAP_COMMAND`], and tells it which process groups are running. The reaper waits
//! for the end of its own input, which the operating system closes however this process ends, and kills what is left.
//! A parent-death signal would do the same for the first process of each group only, and when a thread ends, too.
//!
//! A program runs only after the reaper knows its group: what this process starts is [`run_released`], which waits for a
//! line on its standard input and then becomes the program. If this process dies before, the input ends without a line,
//! and the program was never run.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    ffi::OsString,
    io::{self, BufRead, Read, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use std::os::unix::process::CommandExt as _;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

/// The hidden command of the program that runs [`reap`], or, with a command behind `--`, [`run_released`].
pub const REAP_COMMAND: &str = "reap";
/// The line that [`run_released`] waits for.
pub(crate) const RELEASE: &[u8] = b"\n";
/// How long programs may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// The reaper of this process, started with the first program.
#[derive(Debug)]
pub(crate) struct Reaper {
    program: PathBuf,
    state: Mutex<ReaperState>,
}

#[derive(Debug, Default)]
struct ReaperState {
    groups: BTreeSet<i32>,
    process: Option<Child>,
}

impl Reaper {
    pub(crate) fn new(program: PathBuf) -> Self {
        Self { program, state: Mutex::default() }
    }

    /// The command that becomes `program` once it has read [`RELEASE`].
    pub(crate) fn awaiting_release(&self, program: &str) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(&self.program);
        command.args([REAP_COMMAND, "--", program]);
        command
    }

    fn state(&self) -> MutexGuard<'_, ReaperState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a process group killed with this process, until the guard is dropped.
    pub(crate) fn watch(self: &Arc<Self>, group: Pid) -> WatchedGroup {
        let group = group.as_raw_pid();
        let mut state = self.state();
        state.groups.insert(group);
        self.notify(&mut state, &Line::Started(group));
        WatchedGroup { reaper: Arc::clone(self), group }
    }

    fn notify(&self, state: &mut ReaperState, line: &Line) {
        if let Err(error) = self.send(state, line) {
            tracing::warn!(error = %error, "programs of MCP servers may outlive this process if it is killed");
        }
    }

    /// Writes a line to the process. One that has ended, or was never started, is started and gets all groups.
    fn send(&self, state: &mut ReaperState, line: &Line) -> io::Result<()> {
        if let Some(process) = &mut state.process {
            if write(process, [line]).is_ok() {
                return Ok(());
            }
            // It has closed its input, so it has ended.
            let _ = process.kill().and_then(|()| process.wait());
            state.process = None;
        }
        if state.groups.is_empty() {
            return Ok(());
        }
        let mut process = start(&self.program)?;
        let lines: Vec<Line> = state.groups.iter().map(|group| Line::Started(*group)).collect();
        write(&mut process, &lines)?;
        state.process = Some(process);
        Ok(())
    }
}

/// A process group that the reaper knows.
#[derive(Debug)]
pub(crate) struct WatchedGroup {
    reaper: Arc<Reaper>,
    group: i32,
}

impl Drop for WatchedGroup {
    fn drop(&mut self) {
        let mut state = self.reaper.state();
        state.groups.remove(&self.group);
        self.reaper.notify(&mut state, &Line::Ended(self.group));
    }
}

fn start(program: &Path) -> io::Result<Child> {
    Command::new(program)
        .arg(REAP_COMMAND)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // A terminal's interrupt is for this process; the reaper must see its end.
        .process_group(0)
        .spawn()
}

fn write<'l>(process: &mut Child, lines: impl IntoIterator<Item = &'l Line>) -> io::Result<()> {
    let input = process.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
    let text: String = lines.into_iter().copied().map(Line::to_text).collect();
    input.write_all(text.as_bytes())
}

/// A line of the reaper's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Started(i32),
    Ended(i32),
}

impl Line {
    fn to_text(self) -> String {
        match self {
            Self::Started(group) => format!("+{group}\n"),
            Self::Ended(group) => format!("-{group}\n"),
        }
    }

    fn read(text: &str) -> Option<Self> {
        let group = |digits: &str| digits.parse().ok().filter(|group| *group > 1);
        match text.split_at_checked(1)? {
            ("+", digits) => group(digits).map(Self::Started),
            ("-", digits) => group(digits).map(Self::Ended),
            _ => None,
        }
    }
}

/// Reads process groups until the input ends; then ends those that are left: SIGTERM first, SIGKILL after a moment.
pub fn reap(input: impl BufRead) {
    let mut groups = BTreeSet::new();
    // An input that cannot be read has ended, too.
    for line in input.lines().map_while(Result::ok) {
        match Line::read(&line) {
            Some(Line::Started(group)) => groups.insert(group),
            Some(Line::Ended(group)) => groups.remove(&group),
            None => false,
        };
    }
    let groups: Vec<Pid> = groups.into_iter().filter_map(Pid::from_raw).collect();
    for group in &groups {
        let _ = kill_process_group(*group, Signal::TERM);
    }
    let until = Instant::now() + GRACE;
    while Instant::now() < until && groups.iter().any(|group| test_kill_process_group(*group).is_ok()) {
        thread::sleep(LOOK_INTERVAL);
    }
    for group in &groups {
        let _ = kill_process_group(*group, Signal::KILL);
    }
}

/// Waits for a line of `input`, reading nothing after it, and becomes the program: its standard input is what follows.
///
/// # Errors
/// If the input ends before, or the program cannot be executed.
pub fn run_released(mut input: impl Read, program: &OsString, arguments: &[OsString]) -> io::Result<Infallible> {
    let mut byte = [0; RELEASE.len()];
    input.read_exact(&mut byte)?;
    Err(Command::new(program).args(arguments).exec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written_and_no_other_names_a_group() {
        for line in [Line::Started(4711), Line::Ended(2)] {
            assert_eq!(Line::read(line.to_text().trim_end()), Some(line));
        }
        // 0 would be the reaper's own group, and 1 every process.
        for text in ["", "+", "+0", "+1", "+-5", "4711", "µ4711", "+47x"] {
            assert_eq!(Line::read(text), None, "{text}");
        }
    }

    #[test]
    fn groups_that_are_left_at_the_end_of_the_input_are_killed_and_no_others() {
        let sleeping = || Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
        // Ignores the first signal.
        let stubborn = || Command::new("sh").args(["-c", "trap '' TERM; sleep 600"]).process_group(0).spawn().unwrap();
        let (mut left, mut ended, mut stubborn) = (sleeping(), sleeping(), stubborn());
        let input = format!("+{}\n+{}\nnonsense\n+{}\n-{1}\n", left.id(), ended.id(), stubborn.id());
        // A process that has ended is part of its group until it is waited for.
        let reaper = thread::spawn(move || reap(input.as_bytes()));
        assert!(!left.wait().unwrap().success());
        assert!(!stubborn.wait().unwrap().success());
        reaper.join().unwrap();
        assert_eq!(ended.try_wait().unwrap(), None);
        ended.kill().unwrap();
        ended.wait().unwrap();
    }

    #[test]
    fn a_program_is_not_run_before_its_release() {
        // If it were executed, this process would end here, with the error 1.
        let error = run_released(io::empty(), &"false".into(), &[]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
