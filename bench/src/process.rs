//! The processes that are measured: starting, resource usage, stopping.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, ensure};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

/// The kernel counts CPU time in hundredths of a second.
const TICK: Duration = Duration::from_millis(10);

const MANIFESTS: &str = "\
apiVersion: ark.mckinsey.com/v1alpha1
kind: Model
metadata: {name: scripted}
spec: {provider: scripted, config: {scripted: {file: script.yaml}}}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Agent
metadata: {name: math-assistant}
spec: {prompt: You are a careful mathematician., modelRef: {name: scripted}}
";

/// The same agent, with a model that is reached over HTTP.
const MANIFESTS_HTTP: &str = "\
apiVersion: ark.mckinsey.com/v1alpha1
kind: Model
metadata: {name: remote}
spec:
  provider: openai
  model: {value: scripted}
  config: {openai: {baseUrl: {value: 'http://AUTHORITY/v1'}}}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Agent
metadata: {name: math-assistant}
spec: {prompt: You are a careful mathematician., modelRef: {name: remote}}
";

/// How often the scene `relay` asks its client before it ends.
pub(crate) const RELAYS: usize = 60;

/// The RFC's first example, without a delay; and a query that calls its client repeatedly.
pub(crate) fn script() -> String {
    format!(
        "\
scenes:
  - when: '25% of'
    turns:
      - call: [{{tool: calculator, arguments: {{expression: 0.25 * 8432}}}}]
      - say: '25% of 8,432 is {{{{ result.calculator }}}}'
  - when: Hello
    turns:
      - say: 'Hello!'
  - when: relay
    turns:
{}      - say: 'the end'
",
        "      - call: [{tool: relay, arguments: {what: the next line}}]\n".repeat(RELAYS)
    )
}

/// A directory for everything, and the program.
#[derive(Debug)]
pub(crate) struct World {
    server: PathBuf,
    directory: TempDir,
    /// The script of the model.
    pub(crate) script: PathBuf,
}

impl World {
    pub(crate) fn new(server: &Path) -> anyhow::Result<Self> {
        ensure!(server.is_file(), "there is no server at `{}`; `bench/run` builds one", server.display());
        let directory = tempfile::Builder::new().prefix("bosun-bench-").tempdir()?;
        let manifests = directory.path().join("manifests");
        fs::create_dir(&manifests)?;
        fs::write(manifests.join("agent.yaml"), MANIFESTS)?;
        let script = manifests.join("script.yaml");
        fs::write(&script, self::script())?;
        Ok(Self { server: server.to_owned(), directory, script })
    }

    /// A directory of this name for one server or floor.
    pub(crate) fn data(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Starts a server and waits until it prints its address.
    pub(crate) async fn serve(&self, data: &Path) -> anyhow::Result<Running> {
        self.serve_with(data, &[]).await
    }

    /// The same, with further options.
    pub(crate) async fn serve_with(&self, data: &Path, options: &[&str]) -> anyhow::Result<Running> {
        let mut command = self.server(data, &self.data("manifests"));
        command.args(options);
        Running::start(command).await
    }

    /// Starts a server with other manifests.
    pub(crate) async fn serve_manifests(&self, data: &Path, manifests: &Path) -> anyhow::Result<Running> {
        Running::start(self.server(data, manifests)).await
    }

    /// Starts a server whose model is the one that listens at `model`.
    pub(crate) async fn serve_remote(&self, data: &Path, model: &str) -> anyhow::Result<Running> {
        let manifests = self.data("manifests-http");
        fs::create_dir(&manifests)?;
        fs::write(manifests.join("agent.yaml"), MANIFESTS_HTTP.replace("AUTHORITY", model))?;
        Running::start(self.server(data, &manifests)).await
    }

    fn server(&self, data: &Path, manifests: &Path) -> Command {
        let mut command = Command::new(&self.server);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--log", "json", "--until-stdin-ends"])
            .arg("--data")
            .arg(data)
            .arg("--manifests")
            .arg(manifests);
        command
    }

    /// Starts the floor on a store that a server has created.
    pub(crate) async fn floor(&self, data: &Path, sample: &Path) -> anyhow::Result<Running> {
        let mut command = own("floor")?;
        command.arg(data).arg(sample);
        Running::start(command).await
    }

    /// Starts the edges on a store in memory, with the same agent.
    pub(crate) async fn in_memory(&self) -> anyhow::Result<Running> {
        let mut command = own("a2a")?;
        command.arg(self.data("manifests"));
        Running::start(command).await
    }

    /// Starts the model that is reached over HTTP.
    pub(crate) async fn model(&self) -> anyhow::Result<Running> {
        let mut command = own("model")?;
        command.arg(&self.script);
        Running::start(command).await
    }
}

/// One of the other commands of this program.
pub(crate) fn own(command: &str) -> anyhow::Result<Command> {
    let mut process = Command::new(std::env::current_exe()?);
    process.arg(command);
    Ok(process)
}

/// A process that answers requests until its standard input ends.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    pub(crate) authority: String,
    _lines: Lines<BufReader<ChildStdout>>,
}

impl Running {
    pub(crate) async fn start(mut command: Command) -> anyhow::Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("starting a server")?;
        let mut lines = BufReader::new(child.stdout.take().context("a pipe")?).lines();
        while let Some(line) = lines.next_line().await? {
            if let Some((_, rest)) = line.split_once("http://") {
                let authority = rest.split([' ', '/']).next().unwrap_or_default().to_owned();
                return Ok(Self { child, authority, _lines: lines });
            }
        }
        let mut log = String::new();
        child.stderr.take().context("a pipe")?.read_to_string(&mut log).await?;
        anyhow::bail!("the server does not start: {log}")
    }

    /// The process id.
    pub(crate) fn id(&self) -> anyhow::Result<u32> {
        self.child.id().context("a process that runs")
    }

    /// CPU time of the process so far, user and system.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        cpu_of(&self.id()?.to_string())
    }

    /// The largest resident size so far, in KiB.
    pub(crate) fn peak_memory(&self) -> anyhow::Result<u64> {
        self.memory("VmHWM:")
    }

    /// The current resident size, in KiB: with all caches, SQLite's included.
    pub(crate) fn resident(&self) -> anyhow::Result<u64> {
        self.memory("VmRSS:")
    }

    fn memory(&self, name: &str) -> anyhow::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id()?))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name)).context("a size")?;
        Ok(line.trim().trim_end_matches(" kB").parse()?)
    }

    /// Ends the process with SIGKILL.
    pub(crate) async fn kill(mut self) -> anyhow::Result<()> {
        Ok(self.child.kill().await?)
    }

    /// Shuts the process down gracefully, and returns its store's counters, if it has one.
    pub(crate) async fn stop(mut self) -> anyhow::Result<Option<Commits>> {
        drop(self.child.stdin.take());
        let mut log = String::new();
        self.child.stderr.take().context("a pipe")?.read_to_string(&mut log).await?;
        let status = self.child.wait().await?;
        ensure!(status.success(), "the server ended with {status}: {log}");
        Ok(log.lines().filter_map(|line| serde_json::from_str(line).ok()).find_map(|line: Value| {
            Some(Commits { all: line.get("commits")?.as_u64()?, awaited: line.get("awaited_commits")?.as_u64()? })
        }))
    }
}

/// The counters of a store over the life of its process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Commits {
    pub(crate) all: u64,
    pub(crate) awaited: u64,
}

/// CPU time of this process.
pub(crate) fn own_cpu() -> anyhow::Result<Duration> {
    cpu_of("self")
}

fn cpu_of(process: &str) -> anyhow::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name may contain anything; it ends with the last parenthesis. User and system time are fields 14 and 15.
    let (_, fields) = stat.rsplit_once(')').context("a process")?;
    let ticks: u32 = fields.split_whitespace().skip(11).take(2).map(str::parse::<u32>).sum::<Result<_, _>>()?;
    Ok(TICK * ticks)
}

/// CPU time of the machine so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    all: u64,
    stolen: u64,
}

impl Machine {
    pub(crate) fn now() -> anyhow::Result<Self> {
        let stat = fs::read_to_string("/proc/stat")?;
        let line = stat.lines().next().context("the processors")?;
        // User, nice, system, idle, iowait, irq, softirq, steal; the following fields are part of the first two.
        let ticks: Vec<u64> = line.split_whitespace().skip(1).take(8).map(str::parse).collect::<Result<_, _>>()?;
        Ok(Self { all: ticks.iter().sum(), stolen: *ticks.get(7).context("the steal time")? })
    }

    /// The steal time since `before`, in per cent.
    pub(crate) fn stolen_since(self, before: Self) -> f64 {
        // The kernel may correct its idle time downwards a little.
        let all = self.all.saturating_sub(before.all).max(1);
        100.0 * self.stolen.saturating_sub(before.stolen) as f64 / all as f64
    }
}
