//! The server under attack, an idle one next to it, and requests of any form.

use std::{path::PathBuf, time::Duration};

use reqwest::Method;
use serde_json::Value;

use super::{Attack, mib, process::Process, watch::Watch};
use crate::{
    program::{bosun, run, stderr, stdout},
    support::server::{Server, World, tail},
};

/// The address space of an attacked server, in KiB: many times what it needs, and a fraction of a machine.
const ADDRESS_SPACE: u64 = 4 << 20;
/// Longer than an attack may take.
const TIMEOUT: Duration = Duration::from_secs(180);
/// What is kept of an answer; the rest is counted.
const KEPT: usize = 1 << 20;

/// The server under attack.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) world: World,
    pub(super) server: Server,
    control: Server,
    _control_world: World,
    pub(super) http: reqwest::Client,
    /// The client's credential, where keys are needed.
    pub(super) key: Option<String>,
}

/// What the server answered.
#[derive(Clone, Debug, Default)]
pub(super) struct Reply {
    pub(super) status: u16,
    /// All of its bytes.
    pub(super) length: u64,
    pub(super) body: Value,
}

impl Reply {
    pub(super) fn code(&self) -> &str {
        self.body.pointer("/error/code").and_then(Value::as_str).unwrap_or_default()
    }

    /// The engine's state of the query.
    pub(super) fn state(&self) -> &str {
        self.body["state"].as_str().unwrap_or_default()
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.state(), "completed" | "failed" | "cancelled")
    }
}

impl Target {
    pub(super) async fn start(options: &[&str]) -> Self {
        Self::start_in(World::new().with(options)).await
    }

    pub(super) async fn start_in(world: World) -> Self {
        Self::start_by(world, &format!("ulimit -v {ADDRESS_SPACE}")).await
    }

    /// Starts the server in a shell that has run `command` before.
    pub(super) async fn start_by(mut world: World, command: &str) -> Self {
        world.start_by(&["sh", "-c", &format!("{command}; exec \"$@\""), "sh"]);
        let server = world.start().await;
        let control_world = World::new();
        let control = control_world.start().await;
        Self { world, server, control, _control_world: control_world, http: client(), key: None }
    }

    pub(super) fn process(&self) -> Process {
        Process(self.server.pid())
    }

    pub(super) fn watch(&self) -> Watch {
        Watch::begin(&self.server.base, &self.control.base)
    }

    /// Whether the process is still there.
    pub(super) fn lives(&self) -> bool {
        self.process().memory() > 0
    }

    /// Starts another process if the last one has ended.
    pub(super) async fn restart(&mut self) {
        self.server.kill().await;
        self.server = self.world.start().await;
    }

    /// The last line of the server's log.
    pub(super) fn log(&self) -> String {
        let log = tail(&self.world.log());
        log.lines().last().unwrap_or_default().chars().take(200).collect()
    }

    pub(super) fn request(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        let method: Method = method.parse().expect("a method");
        let request = self.http.request(method, format!("{}{path}", self.server.base));
        match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }

    /// Sends a body as it is; `None` if there was no answer.
    pub(super) async fn send(&self, method: &str, path: &str, kind: &str, body: Vec<u8>) -> Option<Reply> {
        let request = |body| self.request(method, path).header("content-type", kind).body(body);
        match read(request(body.clone())).await {
            // A pooled connection that the server has closed meanwhile is not the server's fault.
            None if self.lives() => read(request(body)).await,
            reply => reply,
        }
    }

    pub(super) async fn json(&self, method: &str, path: &str, body: &Value) -> Option<Reply> {
        self.send(method, path, "application/json", body.to_string().into_bytes()).await
    }

    pub(super) async fn get(&self, path: &str) -> Option<Reply> {
        read(self.request("GET", path)).await
    }

    /// Waits for the end of a query; its last state if it does not end.
    pub(super) async fn end_of(&self, path: &str) -> Reply {
        let mut last = Reply::default();
        for _ in 0..4 {
            match self.get(&format!("{path}?wait=20s&view=rfc")).await {
                Some(reply) if reply.has_ended() || reply.status >= 400 => return reply,
                Some(reply) => last = reply,
                None => return last,
            }
        }
        last
    }

    /// Queries that run and that wait to run, according to `/metrics`.
    pub(super) async fn load(&self) -> Option<(u64, u64)> {
        let text = self.request("GET", "/metrics").send().await.ok()?.text().await.ok()?;
        let gauge = |state: &str| {
            let name = format!("bosun_queries{{state=\"{state}\"}} ");
            text.lines().find_map(|line| line.strip_prefix(&name)?.parse::<f64>().ok())
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "gauges of queries are small counts"
        )]
        Some((gauge("running")? as u64, gauge("queued")? as u64))
    }

    /// Measures what `attack` costs the server.
    pub(super) fn measure(&self) -> Measure {
        let process = self.process();
        process.reset_peak();
        Measure { process, memory: process.memory(), cpu: process.cpu() }
    }
}

/// The figures of the server before an attack.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measure {
    process: Process,
    memory: u64,
    cpu: f64,
}

impl Measure {
    /// The maximum growth of its memory, in bytes.
    pub(super) fn grown(self) -> u64 {
        self.process.peak().saturating_sub(self.memory)
    }

    /// Seconds of processor time.
    pub(super) fn cpu(self) -> f64 {
        self.process.cpu() - self.cpu
    }

    /// Records what the attack cost, and what of it was too much.
    pub(super) fn judge(self, attack: &mut Attack, watch: &Watch, memory: u64) {
        let (grown, latency) = (self.grown(), watch.take());
        attack.at_least("memory_grown_mib", mib(grown) as f64);
        attack.at_least("cpu_seconds", self.cpu());
        attack.at_least("health_ms", latency.attacked.as_secs_f64() * 1_000.0);
        attack.at_least("control_ms", latency.control.as_secs_f64() * 1_000.0);
        attack.expect(grown <= memory, || format!("memory grew by {} MiB", mib(grown)));
        attack.expect(!latency.is_too_long(), || format!("`/health` took {:?}", latency.attacked));
    }
}

pub(super) fn client() -> reqwest::Client {
    // Another client of this process may have installed it before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .no_proxy()
        .pool_idle_timeout(Duration::from_secs(2))
        .timeout(TIMEOUT)
        .build()
        .expect("a client")
}

/// Reads an answer of any length.
pub(super) async fn read(request: reqwest::RequestBuilder) -> Option<Reply> {
    let mut response = request.send().await.ok()?;
    let status = response.status().as_u16();
    let (mut kept, mut length) = (Vec::new(), 0);
    while let Some(chunk) = response.chunk().await.ok()? {
        length += chunk.len() as u64;
        if kept.len() < KEPT {
            kept.extend_from_slice(&chunk);
        }
    }
    Some(Reply { status, length, body: serde_json::from_slice(&kept).unwrap_or_default() })
}

/// A file of keys that a server is started with.
#[derive(Debug)]
pub(super) struct Keys(PathBuf);

impl Keys {
    pub(super) fn new(world: &World) -> Self {
        Self(world.path("keys.toml"))
    }

    pub(super) fn path(&self) -> &str {
        self.0.to_str().expect("a path of text")
    }

    pub(super) async fn run(&self, arguments: &[&str]) -> String {
        let output = run(bosun().arg("keys").args(arguments).arg("--auth").arg(&self.0)).await;
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output)
    }

    /// Creates a key with these rights and returns its secret half.
    pub(super) async fn create(&self, name: &str, namespace: &str, rights: &[&str]) -> String {
        let mut arguments = vec!["create", "--json", name, "--namespace", namespace];
        for right in rights {
            arguments.extend(["--right", right]);
        }
        let key: Value = serde_json::from_str(&self.run(&arguments).await).expect("a key");
        key["secret_key"].as_str().expect("its secret half").to_owned()
    }
}
