//! The same cycle by LangGraph, in JavaScript and in Python, each with its SQLite saver.
//!
//! Not like for like, and the output says how: LangGraph runs inside its caller, without HTTP; it stores a checkpoint
//! after every step, five and ten rows a cycle, where Bosun stores a journal of seven entries and one head; and its
//! JavaScript saver does not wait for the disk (`synchronous = NORMAL`). A peer installs itself into a cache outside
//! the tree; one that cannot be installed is reported as not measured.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::{
    cycle::{self, Crowd},
    options::Options,
    process::World,
    report::{Figure, Report, micros},
};

/// How long the installation of a peer may take: one of them compiles SQLite.
const INSTALLING: Duration = Duration::from_secs(30 * 60);

pub(crate) struct Peer {
    pub(crate) name: &'static str,
    /// Where its files are, from the project's root.
    pub(crate) sources: &'static str,
    /// The folder in the cache.
    pub(crate) folder: &'static str,
    /// The lock file: an installation is reused as long as it is unchanged.
    pub(crate) lock: &'static str,
    pub(crate) files: &'static [&'static str],
    /// Commands that install it, in its folder.
    pub(crate) install: &'static [&'static [&'static str]],
    /// The command that runs cycles, in its folder.
    pub(crate) run: &'static [&'static str],
}

const PEERS: [Peer; 2] = [
    Peer {
        name: "LangGraph JS",
        sources: "bench/peers/langgraph",
        folder: "langgraph-js",
        lock: "package-lock.json",
        files: &["package.json", "package-lock.json", "cycle.mjs"],
        install: &[&["npm", "ci", "--no-audit", "--no-fund"]],
        run: &["node", "cycle.mjs"],
    },
    Peer {
        name: "LangGraph Python",
        sources: "bench/peers/langgraph",
        folder: "langgraph-python",
        lock: "requirements.txt",
        files: &["requirements.txt", "cycle.py"],
        install: &[
            &["python3", "-m", "venv", "venv"],
            &["venv/bin/pip", "install", "--no-deps", "--requirement", "requirements.txt"],
        ],
        run: &["venv/bin/python", "cycle.py"],
    },
];

pub(crate) async fn measure(world: &World, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    for peer in &PEERS {
        for concurrency in [1, options.concurrency] {
            let clients = if concurrency == 1 { "one client".to_owned() } else { format!("{concurrency} clients") };
            let what = format!("cycles a second, {clients}, compared with {}", peer.name);
            let theirs = match peer.cycles(world, concurrency, options.time).await {
                Ok(theirs) => theirs,
                Err(error) => {
                    report.not_measured(&what, &error);
                    continue;
                }
            };
            let data = world.data(&format!("beside-{}-{concurrency}", peer.folder));
            let ours = cycle::crowd(world.serve(&data).await?, concurrency, options.time).await?;
            compare(&what, &ours, &theirs, report)?;
        }
    }
    Ok(())
}

fn compare(what: &str, ours: &Crowd, theirs: &Value, report: &mut Report) -> anyhow::Result<()> {
    let number = |name: &str| theirs[name].as_f64().with_context(|| format!("the peer did not report `{name}`"));
    let (checkpoints, writes) = (&theirs["rows"]["checkpoints"], &theirs["rows"]["writes"]);
    let synchronous = theirs["synchronous"].as_str().unwrap_or_default();
    report.figure(&Figure {
        what,
        value: ours.per_second,
        floor: Some(number("per_second")?),
        n: ours.cycles,
        note: format!(
            "p50 {:.1} ms and {:.1} ms, CPU {:.2} ms and {:.1} ms; theirs: in process, synchronous = {synchronous}, \
             {checkpoints} + {writes} rows of history a cycle",
            micros(ours.p50) / 1e3,
            number("p50_us")? / 1e3,
            micros(ours.server_cpu) / 1e3,
            number("cpu_us")? / 1e3,
        ),
        details: json!({
            "p50_us": micros(ours.p50), "p99_us": micros(ours.p99), "server_cpu_us": micros(ours.server_cpu),
            "peer": theirs,
        }),
        ..Figure::default()
    });
    Ok(())
}

impl Peer {
    /// The report of one run of the peer.
    async fn cycles(&self, world: &World, concurrency: usize, time: Duration) -> anyhow::Result<Value> {
        let folder = self.installed().await.with_context(|| format!("{} cannot be installed", self.name))?;
        let database = world.data(&format!("{}-{concurrency}.db", self.folder));
        let mut command = command(self.run, &folder)?;
        command.arg(database).arg(time.as_secs().to_string()).arg(concurrency.to_string());
        let output = finish(command, INSTALLING).await?;
        serde_json::from_str(output.trim()).with_context(|| format!("{} said {output:?}", self.name))
    }

    /// Installs the peer, unless it is installed.
    pub(crate) async fn installed(&self) -> anyhow::Result<PathBuf> {
        let folder = cache()?.join(self.folder);
        fs::create_dir_all(&folder)?;
        for file in self.files {
            let (from, to) = (Path::new(self.sources).join(file), folder.join(file));
            fs::create_dir_all(to.parent().context("a folder")?)?;
            fs::copy(&from, to).with_context(|| from.display().to_string())?;
        }
        let (lock, done) = (fs::read(folder.join(self.lock))?, folder.join("installed"));
        if fs::read(&done).is_ok_and(|installed| installed == lock) {
            return Ok(folder);
        }
        eprintln!("installing {} into {}", self.name, folder.display());
        for words in self.install {
            finish(command(words, &folder)?, INSTALLING).await?;
        }
        fs::write(done, lock)?;
        Ok(folder)
    }
}

/// Outside the tree: third-party code is not part of it.
fn cache() -> anyhow::Result<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("BOSUN_BENCH_CACHE")
        .or_else(|| Some(set("XDG_CACHE_HOME")?.join("bosun-bench")))
        .or_else(|| Some(set("HOME")?.join(".cache/bosun-bench")))
        .context("there is no folder for the peers: set BOSUN_BENCH_CACHE")
}

pub(crate) fn command(words: &[&str], folder: &Path) -> anyhow::Result<Command> {
    let (program, arguments) = words.split_first().context("a command")?;
    // A program of the peer itself is relative to its folder.
    let program = if program.contains('/') { folder.join(program) } else { program.into() };
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder);
    Ok(command)
}

/// Runs a command to its end and returns its output.
async fn finish(mut command: Command, patience: Duration) -> anyhow::Result<String> {
    let name = format!("{:?}", command.as_std());
    let running = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let output = tokio::time::timeout(patience, running)
        .await
        .with_context(|| format!("{name} did not end in time"))?
        .with_context(|| format!("{name} does not start"))?;
    let log = String::from_utf8_lossy(&output.stderr);
    let last: Vec<&str> = log.lines().rev().take(3).collect();
    ensure!(output.status.success(), "{name} failed: {}", last.join(" | "));
    Ok(String::from_utf8(output.stdout)?)
}
