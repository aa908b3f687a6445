//! Assembly of a server: store, manifests, engine, routes.
//!
//! This is the only place that sees adapters and edges at the same time; each is chosen here and nowhere else. Faults
//! of the files are found before the store is opened.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use bosun_adapters::{
    address::Reachable,
    blob::BlobDirectory,
    manifests::Library,
    outbound::{Pool, WebhookClient},
    runner::{a2a::A2aServers, builtin::Builtins},
    secret::Secrets,
    store::sqlite::{OpenError, Sqlite, audit::spool},
};
use bosun_edges::auth::Access;
use bosun_engine::{Engine, SystemClock, resource::Assemble, store::StoreStats};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    time::MissedTickBehavior,
};
use tokio_util::sync::CancellationToken;

use crate::{
    access::AccessWatcher,
    config::Config,
    mcp::McpServers,
    reload::{Reloader, Sources},
};

/// The grace period for requests and calls in progress when a server stops.
pub(crate) const GRACE: Duration = Duration::from_secs(30);

/// How often the server checks the spool of audit records from other commands.
const SPOOL_INTERVAL: Duration = Duration::from_secs(2);

/// A server that does not accept requests yet.
#[derive(Debug)]
pub(crate) struct App {
    engine: Engine,
    reloader: Reloader,
    access_watcher: Option<AccessWatcher>,
    data: PathBuf,
    hosts: Vec<String>,
    max_connections: usize,
    a2a_errors: bosun_edges::ErrorMapping,
    /// The names of all agents.
    pub(crate) agents: Vec<String>,
    mcp: McpServers,
    a2a: Arc<A2aServers>,
    webhooks: Arc<WebhookClient>,
}

impl App {
    /// `exports_spans` is true if there is a collector for them.
    pub(crate) async fn open(config: &Config, exports_spans: bool) -> anyhow::Result<Self> {
        let access_watcher = match &config.auth {
            Some(path) => Some(AccessWatcher::open(path).await.context("the keys cannot be used")?),
            None => None,
        };
        let clock = Arc::new(SystemClock);
        let mut builtins = Builtins::new(clock.clone());
        if let Some(file) = &config.ledger {
            builtins = add_ledger(builtins, file)?;
        }
        let builtins = Arc::new(builtins);
        let mut sources = Sources::new(config.manifests.clone(), config.tools.clone(), Arc::clone(&builtins));
        let (manifests, opened) = sources
            .open()
            .await
            .map_err(|faults| anyhow::anyhow!("{}", Unusable { faults, directories: &config.manifests }))?;
        let agents = manifests.agents.iter().map(|agent| agent.name.clone()).collect();
        let secrets = Arc::new(Secrets::new(Some(config.secrets.clone()), std::env::vars()));
        let reachable = Reachable::new(config.allow_private.iter().cloned());
        let webhooks = WebhookClient::new(Pool::new(reachable.clone()));
        let mut library = Library::new(manifests, Arc::clone(&secrets), reachable, builtins);
        if let Some(settings) = config.nango() {
            library = library.with_nango(settings, clock.clone());
        }
        let store =
            Arc::new(Sqlite::open_with(&config.data, &config.audit()).map_err(|error| explain(error, &config.data))?);
        // Only now: the lock of the store protects its blobs too.
        let blobs = config.data.join("blobs");
        let blobs = BlobDirectory::open(&blobs)
            .with_context(|| format!("the directory of large results {} cannot be used", blobs.display()))?;
        let (mcp, library) = McpServers::open(&config.data, secrets, library)?;
        let (library, a2a) = library.with_a2a_servers(clock.clone());
        let library = Arc::new(library);
        let settings = bosun_engine::EngineSettings { exports_spans, ..config.settings() };
        let assembler = Arc::clone(&library) as Arc<dyn Assemble>;
        let engine = Engine::start(store, Arc::new(blobs), assembler, clock, settings).await?;
        let reloader = Reloader::new(sources, opened, library, engine.clone());
        let (hosts, max_connections) = (config.allow_host.clone(), config.max_connections);
        let a2a_errors = config.a2a_errors.unwrap_or_default();
        let data = config.data.clone();
        let webhooks = Arc::new(webhooks);
        Ok(Self {
            engine,
            reloader,
            access_watcher,
            data,
            hosts,
            max_connections,
            a2a_errors,
            agents,
            mcp,
            a2a,
            webhooks,
        })
    }

    /// Serves until `stopping` is cancelled and all work in progress has ended. Streams end when the engine drains, so
    /// connections and engine stop concurrently; the store is closed after its last reader.
    pub(crate) async fn serve(
        self,
        listener: TcpListener,
        grpc: Option<TcpListener>,
        stopping: &CancellationToken,
    ) -> anyhow::Result<()> {
        let access = self.access_watcher.as_ref().map_or_else(Access::open, AccessWatcher::access);
        let hangup = || signal(SignalKind::hangup()).context("cannot listen for signals");
        let (of_keys, of_sources) = (hangup()?, hangup()?);
        let access_reloads = async {
            if let Some(access_watcher) = self.access_watcher {
                access_watcher.run(of_keys, stopping.clone(), &self.engine).await;
            }
        };
        let reloads = self.reloader.run(of_sources, stopping);
        let reload = Arc::new(self.reloader.clone());
        let (engine, webhooks) = (self.engine.clone(), Some(self.webhooks as _));
        let state = bosun_edges::AppState::with_reload(engine, access, self.hosts, reload, self.a2a_errors, webhooks);
        let notified = bosun_edges::deliver_notifications(state.clone());
        let limits = bosun_edges::ConnectionLimits { max_connections: self.max_connections, grace: GRACE };
        let served_grpc = serve_grpc(grpc, state.clone(), stopping, limits);
        let router = bosun_edges::router(state);
        let served = bosun_edges::serve(listener, router, stopping.cancelled(), limits);
        let drained = async {
            stopping.cancelled().await;
            self.engine.drain(GRACE).await;
            // No call is running any more.
            self.mcp.shutdown().await;
            self.a2a.shutdown().await;
        };
        let acts = import_spooled_records(&self.engine, &self.data, stopping);
        let announced = self.mcp.keep_announced(&self.engine, stopping);
        let discovered = keep_discovered(&self.a2a, &self.engine, stopping);
        tokio::join!(served, served_grpc, drained, access_reloads, reloads, acts, announced, discovered, notified);
        let closed = self.engine.close().await;
        let StoreStats { appends, commits, awaited_commits } = self.engine.store().stats();
        tracing::info!(appends, commits, awaited_commits, "stopped");
        closed.context("the last commit failed; everything that was acknowledged is durable")
    }
}

/// Assembles the registry again whenever an A2A server has another agent.
async fn keep_discovered(servers: &A2aServers, engine: &Engine, stopping: &CancellationToken) {
    while stopping.run_until_cancelled(servers.agents_changed()).await.is_some() {
        if let Err(error) = engine.refresh().await {
            tracing::error!(error = %error, "agents behind A2A servers are not in effect");
        }
    }
}

#[cfg(feature = "grpc")]
async fn serve_grpc(
    listener: Option<TcpListener>,
    state: bosun_edges::AppState,
    stopping: &CancellationToken,
    limits: bosun_edges::ConnectionLimits,
) {
    let Some(listener) = listener else { return };
    if let Ok(address) = listener.local_addr() {
        state.announce_grpc(address.port());
    }
    bosun_edges::serve_grpc(listener, bosun_edges::grpc_router(state), stopping.cancelled(), limits).await;
}

/// The configuration has refused the listener.
#[cfg(not(feature = "grpc"))]
async fn serve_grpc(
    _: Option<TcpListener>,
    _: bosun_edges::AppState,
    _: &CancellationToken,
    _: bosun_edges::ConnectionLimits,
) {
}

#[cfg(feature = "standin")]
fn add_ledger(builtins: Builtins, file: &Path) -> anyhow::Result<Builtins> {
    let added = bosun_standin::ledger::add(builtins, file);
    added.with_context(|| format!("the ledger {} cannot be opened", file.display()))
}

#[cfg(not(feature = "standin"))]
fn add_ledger(_: Builtins, _: &Path) -> anyhow::Result<Builtins> {
    Err(crate::features::not_built("`--ledger`", "standin").into())
}

/// Records the acts of commands outside the server, at its start and from then on.
async fn import_spooled_records(engine: &Engine, data: &Path, stopping: &CancellationToken) {
    let mut interval = tokio::time::interval(SPOOL_INTERVAL);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stopping.cancelled() => return,
            _ = interval.tick() => {}
        }
        let (dir, taken) = (data.to_owned(), tokio::task::spawn_blocking);
        match taken(move || spool::take(&dir)).await {
            Ok(Ok(None)) => {}
            // They stay in the spool until they are recorded, so they may be recorded twice but are never lost.
            Ok(Ok(Some(taken))) => match engine.record_acts(taken.records.clone()).await {
                Ok(()) => {
                    if let Err(error) = taken.clear() {
                        tracing::error!(error = %error, "recorded acts cannot be removed from the audit spool");
                    }
                }
                Err(error) => tracing::error!(error = %error, "spooled acts cannot be recorded"),
            },
            Ok(Err(error)) => tracing::error!(error = %error, "the audit spool cannot be read"),
            Err(error) => tracing::error!(error = %error, "the audit spool cannot be read"),
        }
    }
}

/// Adds where to look, if the store itself is at fault.
fn explain(error: OpenError, dir: &Path) -> anyhow::Error {
    match error {
        OpenError::Damaged { .. } => anyhow::anyhow!(
            "{error}

  bosun check --data {}   reports every fault, and how to restore what `bosun backup` made",
            dir.display()
        ),
        _ => error.into(),
    }
}

/// The smallest working agent, for an operator who starts a server in an empty directory.
const SMALLEST: &str = "\
apiVersion: ark.mckinsey.com/v1alpha1
kind: Model
metadata: {name: default}
spec:
  provider: openai
  model: {value: gpt-4o-mini}
  config:
    openai:
      baseUrl: {value: https://api.openai.com/v1}
      apiKey: {valueFrom: {secretKeyRef: {name: openai, key: api-key}}}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Agent
metadata: {name: assistant}
spec:
  prompt: You are a helpful assistant.
";

/// All faults of the manifests, with instructions if there are no manifests at all.
pub(crate) struct Unusable<'a> {
    pub(crate) faults: bosun_reading::Faults,
    pub(crate) directories: &'a [PathBuf],
}

impl fmt::Display for Unusable<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.faults.iter().all(|fault| fault.code == "manifests_missing") {
            let directory = self.directories.first().cloned().unwrap_or_default();
            let directory = directory.display();
            return write!(
                formatter,
                "there are no agents in {directory}

Start with the examples, which need no key:

  bosun demo --examples {directory}

Or with the smallest working agent: put the key into BOSUN_SECRET_OPENAI_API_KEY, and this into {directory}/assistant.yaml:

{SMALLEST}",
            );
        }
        write!(formatter, "the manifests cannot be used\n\n{}", self.faults)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_agent_works() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("assistant.yaml"), SMALLEST).unwrap();
        let builtins = Builtins::new(Arc::new(SystemClock));
        let manifests = bosun_adapters::manifests::load(&[directory.path().to_owned()], &builtins).unwrap();
        assert_eq!(manifests.agents[0].name, "assistant");
    }
}
