//! Reloading: manifests and tools are read again while the server runs.
//!
//! A change of a file, SIGHUP and `POST /v1/reload` all lead to the same attempt: everything is read and checked, and
//! the registry is swapped as a whole or not at all. A faulty manifest changes nothing; a faulty source of `--tools`
//! keeps the tools that it last had. Running queries are not affected: their definitions were frozen when they were
//! submitted.

pub(crate) mod collection;
mod watch;

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bosun_adapters::{
    manifests::{self, Library, Manifests},
    runner::builtin::Builtins,
};
use bosun_core::{
    Actor, Namespace, Timestamp,
    audit::{Action, AuditRecord},
};
use bosun_engine::{
    Engine, EngineError, StoreError,
    reload::{Reload, ReloadStatus, ResourceDiff},
    resource::{ResourceKey, ResourceKind, ResourceOrigin},
};
use bosun_reading::{Fault, Faults, SourcePlace};
use tokio::{
    signal::unix::Signal,
    time::{Instant, MissedTickBehavior},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::commands::input;

use collection::{Collection, SourceContents, ToolSource, Tools};
use watch::{Due, FileEvents, WatchedFiles};

/// How often URLs of tools are fetched; one with an unchanged ETag is not transferred.
const URLS_INTERVAL: Duration = Duration::from_secs(60);

/// Where a server reads its configuration.
#[derive(Debug)]
pub(crate) struct Sources {
    manifests: Vec<PathBuf>,
    builtins: Arc<Builtins>,
    collection: Collection,
}

/// The sources as they were read together.
#[derive(Debug)]
struct Loaded {
    manifests: Manifests,
    /// Faults of sources whose last tools stay in effect.
    faults: Vec<Fault>,
    warnings: Vec<String>,
    good: Tools,
}

/// What a server has read at its start, besides its manifests.
#[derive(Debug)]
pub(crate) struct Opened {
    fingerprint: u64,
    faults: Vec<Fault>,
    warnings: Vec<String>,
}

impl Opened {
    /// What an operator should know, one sentence each.
    pub(crate) fn findings(&self) -> impl Iterator<Item = String> {
        self.faults.iter().map(ToString::to_string).chain(self.warnings.iter().cloned())
    }
}

impl Sources {
    pub(crate) fn new(manifests: Vec<PathBuf>, tools: Vec<ToolSource>, builtins: Arc<Builtins>) -> Self {
        Self { manifests, builtins, collection: Collection::new(tools) }
    }

    /// Reads everything for the first time. A URL that cannot be fetched is tried again later, unless an agent needs its
    /// tools.
    pub(crate) async fn open(&mut self) -> Result<(Manifests, Opened), Faults> {
        self.collection.fetch().await;
        let fingerprint = self.files().fingerprint();
        let Loaded { manifests, faults, warnings, good } = self.load()?;
        let (unavailable, faulty): (Vec<_>, Vec<_>) =
            faults.into_iter().partition(|fault| fault.code == collection::UNAVAILABLE);
        Faults::none_or(faulty, ())?;
        self.collection.keep(good);
        Ok((manifests, Opened { fingerprint, faults: unavailable, warnings }))
    }

    /// Reads all files, and takes the documents of URLs as they were last fetched.
    fn load(&self) -> Result<Loaded, Faults> {
        let SourceContents { tools, good, mut faults, mut warnings } = self.collection.gather();
        let origins: Vec<_> = tools.iter().map(|one| (one.tool.name.clone(), one.origin.clone())).collect();
        let (manifests, of_manifests) = manifests::review(&self.manifests, &self.builtins, tools);
        match manifests {
            Ok(manifests) => {
                warnings.extend(of_manifests.into_iter().map(|Fault { file, place, message, .. }| {
                    format!("{}:{}: {message}", file.display(), place.unwrap_or(SourcePlace::START))
                }));
                warnings.extend(origins.iter().filter_map(|(name, origin)| hidden(name, origin, &manifests)));
                Ok(Loaded { manifests, faults, warnings, good })
            }
            Err(found) => {
                faults.extend(found.clone());
                Faults::none_or(faults, ()).and(Err(found))
            }
        }
    }

    /// Every file that is read.
    fn files(&self) -> WatchedFiles {
        let tools = self.collection.paths();
        let mut files = manifests::find(&self.manifests);
        files.extend(input::sources(&tools).into_iter().flatten().map(|source| source.path));
        let roots = self.manifests.iter().cloned().chain(tools).collect();
        WatchedFiles { roots, files }
    }
}

/// A warning that a tool of the collection has no effect because a manifest declares one of its name.
fn hidden(name: &str, origin: &ResourceOrigin, manifests: &Manifests) -> Option<String> {
    let key = ResourceKey::new(ResourceKind::Tool, Namespace::default(), name);
    let in_effect = manifests.resources.iter().find(|resource| resource.manifest.key == key)?;
    let place = |origin: &ResourceOrigin| match origin {
        ResourceOrigin::File(file) => file.display().to_string(),
        ResourceOrigin::Url(url) => url.clone(),
        _ => "the server".to_owned(),
    };
    let (here, there) = (place(origin), place(&in_effect.origin));
    (*origin != in_effect.origin)
        .then(|| format!("tool `{name}` of {here} has no effect, since {there} declares one of that name"))
}

/// Reloads the sources of one server. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Reloader(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Held by one attempt at a time.
    sources: Arc<tokio::sync::Mutex<Sources>>,
    /// The fingerprint of the files that were last read.
    known: AtomicU64,
    library: Arc<Library>,
    engine: Engine,
    status: Mutex<ReloadStatus>,
    /// An attempt is completed even if the request for it is dropped.
    attempts: TaskTracker,
}

/// What an attempt reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// Files, and documents of URLs as they were last fetched.
    Files,
    Everything,
}

impl Reloader {
    /// `opened` is what `engine` was started with.
    pub(crate) fn new(sources: Sources, opened: Opened, library: Arc<Library>, engine: Engine) -> Self {
        let Opened { fingerprint, faults, warnings } = opened;
        let status = ReloadStatus {
            generation: engine.registry().generation(),
            reloaded_at: Some(engine.now()),
            faults,
            warnings,
            succeeded: 1,
            ..ReloadStatus::default()
        };
        log_findings(&status);
        Self(Arc::new(Inner {
            sources: Arc::new(tokio::sync::Mutex::new(sources)),
            known: AtomicU64::new(fingerprint),
            library,
            engine,
            status: Mutex::new(status),
            attempts: TaskTracker::new(),
        }))
    }

    /// Reloads after every change of a file or of a document at a URL, and on SIGHUP, until `stopping` is cancelled.
    pub(crate) async fn run(&self, mut hangup: Signal, stopping: &CancellationToken) {
        let watching = async {
            let has_urls = self.0.sources.lock().await.collection.has_urls();
            let mut fetching = tokio::time::interval_at(Instant::now() + URLS_INTERVAL, URLS_INTERVAL);
            fetching.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut events = FileEvents::open();
            let mut due = Due::Poll;
            loop {
                self.reload_if_changed(&mut events, due).await;
                due = Due::Poll;
                tokio::select! {
                    next = events.next() => due = next,
                    _ = hangup.recv() => self.attempt_and_log(Scope::Everything).await,
                    _ = fetching.tick(), if has_urls => {
                        if self.0.sources.lock().await.collection.fetch().await {
                            self.attempt_and_log(Scope::Files).await;
                        }
                    }
                }
            }
        };
        stopping.run_until_cancelled(watching).await;
    }

    /// Watches the current files, and reloads if they differ from those that were read and their changes have ended.
    async fn reload_if_changed(&self, events: &mut FileEvents, due: Due) {
        let sources = Arc::clone(&self.0.sources).lock_owned().await;
        let Ok(files) = tokio::task::spawn_blocking(move || sources.files()).await else { return };
        // Watched before they are compared: no change is missed in between.
        events.watch(&files);
        let Ok(fingerprint) = tokio::task::spawn_blocking(move || files.fingerprint()).await else { return };
        if self.0.known.load(Ordering::Acquire) != fingerprint {
            match due {
                Due::Poll => events.notify(),
                Due::Changed => self.attempt_and_log(Scope::Files).await,
            }
        }
    }

    async fn attempt_and_log(&self, scope: Scope) {
        if let Err(error) = self.attempt(scope, None).await {
            tracing::error!(%error, "the configuration cannot be reloaded");
        }
    }

    async fn attempt(&self, scope: Scope, by: Option<Actor>) -> Result<ReloadStatus, EngineError> {
        let inner = Arc::clone(&self.0);
        self.0.attempts.spawn(async move { inner.attempt(scope, by).await }).await.map_err(unavailable)?
    }
}

#[async_trait]
impl Reload for Reloader {
    async fn reload(&self, by: Actor) -> Result<ReloadStatus, EngineError> {
        self.attempt(Scope::Everything, Some(by)).await
    }

    fn status(&self) -> ReloadStatus {
        self.0.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What the audit log says of a reload.
fn record(status: &ReloadStatus, by: Option<&Actor>, now: Timestamp) -> AuditRecord {
    let (action, detail) = match status.faults.len() {
        0 => {
            let ResourceDiff { added, removed, changed } = &status.diff;
            let counts = (added.len(), removed.len(), changed.len());
            (Action::ConfigurationReloaded, format!("{} added, {} removed, {} changed", counts.0, counts.1, counts.2))
        }
        faults => (Action::ConfigurationRefused, format!("{faults} faults")),
    };
    AuditRecord::of_act(now, action, by, Some(detail))
}

impl Inner {
    async fn attempt(&self, scope: Scope, by: Option<Actor>) -> Result<ReloadStatus, EngineError> {
        let mut sources = Arc::clone(&self.sources).lock_owned().await;
        if scope == Scope::Everything {
            sources.collection.fetch().await;
        }
        let read = tokio::task::spawn_blocking(move || {
            // Before the files are read: one that changes meanwhile is then read again.
            let fingerprint = sources.files().fingerprint();
            let loaded = sources.load();
            (sources, fingerprint, loaded)
        });
        let (mut sources, fingerprint, loaded) = read.await.map_err(unavailable)?;
        let status = match loaded {
            Ok(Loaded { manifests, faults, warnings, good }) => {
                let (generation, diff) = self.put_into_effect(manifests).await?;
                sources.collection.keep(good);
                let names = |keys: &[ResourceKey]| keys.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                let (added, removed, changed) = (names(&diff.added), names(&diff.removed), names(&diff.changed));
                tracing::info!(generation, added, removed, changed, "the configuration was reloaded");
                self.update(faults, |status| ReloadStatus {
                    generation,
                    reloaded_at: Some(self.engine.now()),
                    diff,
                    warnings,
                    ..status
                })
            }
            Err(faults) => self.update(faults.into_iter().collect(), |status| status),
        };
        self.known.store(fingerprint, Ordering::Release);
        log_findings(&status);
        // A file that was only touched is not an act.
        if by.is_some() || !status.faults.is_empty() || !status.diff.is_empty() {
            self.engine.record_acts(vec![record(&status, by.as_ref(), self.engine.now())]).await?;
        }
        Ok(status)
    }

    /// Swaps the registry; if the store fails, nothing changes.
    async fn put_into_effect(&self, manifests: Manifests) -> Result<(u64, ResourceDiff), EngineError> {
        let before = self.engine.registry();
        let replaced = self.library.replace(manifests);
        match self.engine.refresh().await {
            Ok(registry) => Ok((registry.generation(), registry.diff(&before))),
            Err(error) => {
                self.library.restore(replaced);
                Err(error)
            }
        }
    }

    fn update(&self, faults: Vec<Fault>, change: impl FnOnce(ReloadStatus) -> ReloadStatus) -> ReloadStatus {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        let mut new = change(status.clone());
        if faults.is_empty() {
            new.succeeded += 1;
        } else {
            new.failed += 1;
        }
        new.faults = faults;
        status.clone_from(&new);
        new
    }
}

/// Logs what an operator has to act on.
fn log_findings(status: &ReloadStatus) {
    for fault in status.faults.iter().map(Fault::to_line) {
        tracing::error!(fault, "a source of the configuration is faulty; its last valid content stays in effect");
    }
    for warning in &status.warnings {
        tracing::warn!(warning, "a source of the configuration has a warning");
    }
}

/// A task that panicked.
fn unavailable(error: tokio::task::JoinError) -> EngineError {
    EngineError::Store(StoreError::Unavailable(Box::new(error)))
}

#[cfg(test)]
mod tests;
