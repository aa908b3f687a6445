//! Access control, kept up to date while the server runs.
//!
//! The key file is read every second, and at once on SIGHUP; the keys of an identity provider are fetched every ten
//! minutes, and when a token names an unknown key, but at most every half minute. A file that has become invalid
//! changes nothing: the last valid one stays in force, and the log reports the faults of the new one. Neither a
//! provider nor the disk is waited for: providers are fetched concurrently with everything else, so that a key is
//! revoked in time whatever they do.

pub(crate) mod edit;
pub(crate) mod file;

use std::{
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use bosun_core::audit::{Action, AuditRecord};
use bosun_edges::auth::{
    Access, Policy,
    jwt::{Issuer, Jwks},
    keys::Keyring,
};
use bosun_engine::{Engine, SystemClock};
use bosun_reading::Faults;
use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, MissedTickBehavior},
};
use tokio_util::sync::CancellationToken;

use file::{KeyFile, KeySource};

/// A revoked key is refused at most two seconds later, even on a busy machine.
const FILE_INTERVAL: Duration = Duration::from_secs(1);
const KEYS_INTERVAL: Duration = Duration::from_secs(600);
/// The minimum interval of fetches that tokens with unknown keys cause.
const MIN_FETCH_INTERVAL: Duration = Duration::from_secs(30);
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
/// A limit far above any real key set.
const MAX_KEY_SET: usize = 1024 * 1024;

/// Reads the key file and the providers' keys, and notifies the server of changes.
#[derive(Debug)]
pub(crate) struct AccessWatcher {
    path: PathBuf,
    /// As it was last read; `None` if it could not be read.
    text: Option<String>,
    file: KeyFile,
    /// One for each issuer of the file.
    fetched: Vec<Jwks>,
    /// Sources with a fetch in progress.
    asked: Vec<KeySource>,
    /// When a token last caused a fetch.
    last_wanted: Option<Instant>,
    policy: watch::Sender<Arc<Policy>>,
    keys_wanted: Arc<Notify>,
}

impl AccessWatcher {
    /// Reads the file and fetches what it refers to. A provider that does not answer is retried later.
    pub(crate) async fn open(path: &Path) -> anyhow::Result<Self> {
        let text = read(path)?;
        let file = file::parse(path, &text)?;
        let mut access_watcher = Self {
            path: path.to_owned(),
            text: Some(text),
            fetched: vec![Jwks::default(); file.issuers.len()],
            asked: Vec::new(),
            file,
            last_wanted: None,
            policy: watch::Sender::new(Arc::new(Policy::guarded(Keyring::default(), Vec::new()))),
            keys_wanted: Arc::default(),
        };
        let mut work = FuturesUnordered::new();
        access_watcher.fetch(&mut work);
        while let Some(done) = work.next().await {
            access_watcher.take(done);
        }
        access_watcher.publish();
        Ok(access_watcher)
    }

    /// What requests are authorized against.
    pub(crate) fn access(&self) -> Access {
        Access::new(self.policy.subscribe(), Arc::new(SystemClock), Arc::clone(&self.keys_wanted))
    }

    /// Keeps everything up to date until `stopping` is cancelled. `hangup` delivers SIGHUP. Changes are recorded
    /// through `engine`.
    pub(crate) async fn run(
        mut self,
        mut hangup: tokio::signal::unix::Signal,
        stopping: CancellationToken,
        engine: &Engine,
    ) {
        let mut interval = tokio::time::interval(FILE_INTERVAL);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut refresh = tokio::time::interval_at(Instant::now() + KEYS_INTERVAL, KEYS_INTERVAL);
        let keys_wanted = Arc::clone(&self.keys_wanted);
        let mut work = FuturesUnordered::new();
        loop {
            tokio::select! {
                () = stopping.cancelled() => return,
                _ = interval.tick() => self.reload_if_changed(engine, &mut work),
                _ = hangup.recv() => self.reload_if_changed(engine, &mut work),
                _ = refresh.tick() => self.fetch(&mut work),
                () = keys_wanted.notified() => self.fetch_if_due(&mut work),
                Some(done) = work.next(), if !work.is_empty() => self.take(done),
            }
        }
    }

    /// Applies the file if it has changed.
    fn reload_if_changed<'a>(&mut self, engine: &'a Engine, work: &mut Work<'a>) {
        let text = match read(&self.path) {
            Ok(text) if self.text.as_ref() == Some(&text) => return,
            Ok(text) => text,
            Err(faults) => {
                // Logged once for each state of the file, not every second.
                if self.text.take().is_some() {
                    tracing::error!(%faults, "the keys cannot be read; the previous ones stay in force");
                    work.push(
                        record(engine, vec![(Action::KeysRefused, "the file cannot be read".to_owned())]).boxed(),
                    );
                }
                return;
            }
        };
        let parsed = file::parse(&self.path, &text);
        self.text = Some(text);
        match parsed {
            Ok(file) => {
                // A provider's published keys stay in force while they are fetched again, or cannot be.
                self.fetched = file.issuers.iter().map(|provider| self.keys_of(&provider.source)).collect();
                let before = std::mem::replace(&mut self.file, file);
                // A revoked key waits neither for the disk nor for an identity provider.
                self.publish();
                let (keys, issuers) = (self.file.keys.len(), self.file.issuers.len());
                let mut acts = vec![(Action::KeysReloaded, format!("{keys} keys, {issuers} issuers"))];
                acts.extend(file::changes(&before, &self.file));
                work.push(record(engine, acts).boxed());
                self.fetch(work);
                tracing::info!(keys, issuers, "keys were reloaded");
            }
            Err(faults) => {
                tracing::error!(%faults, "the keys are invalid; the previous ones stay in force");
                let found = format!("{} faults in the file", faults.iter().count());
                work.push(record(engine, vec![(Action::KeysRefused, found)]).boxed());
            }
        }
    }

    /// The last fetched keys of this source.
    fn keys_of(&self, source: &KeySource) -> Jwks {
        let known = self.file.issuers.iter().zip(&self.fetched).find(|(provider, _)| provider.source == *source);
        known.map(|(_, keys)| keys.clone()).unwrap_or_default()
    }

    fn fetch_if_due(&mut self, work: &mut Work<'_>) {
        if self.last_wanted.is_some_and(|last| last.elapsed() < MIN_FETCH_INTERVAL) {
            // Waiting requests learn that no fetch is in progress.
            self.publish();
        } else {
            self.last_wanted = Some(Instant::now());
            self.fetch(work);
        }
    }

    /// Fetches the keys of all issuers, concurrently. A fetch in progress is not repeated.
    fn fetch(&mut self, work: &mut Work<'_>) {
        let mut sources: Vec<_> = self.file.issuers.iter().map(|provider| provider.source.clone()).collect();
        sources.retain(|source| !self.asked.contains(source));
        for source in sources {
            self.asked.push(source.clone());
            work.push(
                async move {
                    let keys = load(&source).await;
                    Done::Fetched(source, keys)
                }
                .boxed(),
            );
        }
        // Also without a provider to fetch from: waiting requests are notified.
        self.publish();
    }

    /// Applies the keys that were fetched from an issuer.
    fn take(&mut self, done: Done) {
        let Done::Fetched(source, keys) = done else { return };
        self.asked.retain(|asked| *asked != source);
        let issuers = self.file.issuers.iter().zip(&mut self.fetched);
        for (provider, fetched) in issuers.filter(|(provider, _)| provider.source == source) {
            match &keys {
                Ok(keys) => fetched.clone_from(keys),
                Err(error) => {
                    let reason = format!("{error:#}");
                    tracing::error!(issuer = %provider.issuer.id, reason, "keys of an issuer cannot be fetched");
                }
            }
        }
        self.publish();
    }

    fn publish(&self) {
        let keys = Keyring::new(self.file.keys.iter().map(|listed| listed.key.clone()).collect());
        let with_keys =
            |(provider, keys): (&file::Provider, &Jwks)| Issuer { keys: keys.clone(), ..provider.issuer.clone() };
        let issuers = self.file.issuers.iter().zip(&self.fetched).map(with_keys).collect();
        let policy = Policy::guarded(keys, issuers).expecting_keys(!self.asked.is_empty());
        self.policy.send_replace(Arc::new(policy));
    }
}

/// Tasks that run concurrently with reading the file.
type Work<'a> = FuturesUnordered<BoxFuture<'a, Done>>;

/// Their results.
enum Done {
    Fetched(KeySource, anyhow::Result<Jwks>),
    Recorded,
}

/// Records changes of keys in the audit log. It is not known which user edited the file. The change is in force whether
/// or not it can be recorded: a store that rejects records must not keep a revoked key in force.
async fn record(engine: &Engine, acts: Vec<(Action, String)>) -> Done {
    let now = engine.now();
    let of = |(action, detail)| AuditRecord::of_act(now, action, None, Some(detail));
    if let Err(error) = engine.record_acts(acts.into_iter().map(of).collect()).await {
        tracing::error!(error = %error, "a change of keys is in force but cannot be recorded in the audit log");
    }
    Done::Recorded
}

/// The text of the file, if only its owner can change it.
fn read(path: &Path) -> Result<String, Faults> {
    let unusable = |message: String, hint: &str| file::unusable(path, message, Some(hint.to_owned()));
    let hint = "`bosun keys create` makes one";
    let text = std::fs::read_to_string(path).map_err(|error| unusable(format!("cannot be read: {error}"), hint))?;
    let mode = std::fs::metadata(path).map_err(|error| unusable(format!("cannot be read: {error}"), hint))?.mode();
    if mode & 0o022 != 0 {
        let message = "can be changed by users other than its owner, who could grant themselves access".to_owned();
        return Err(unusable(message, &format!("chmod 600 {}", path.display())));
    }
    Ok(text)
}

/// The HTTP client for a provider, created for each fetch: that is seldom, and a server without providers needs no
/// certificates. Like the client for models, it ignores the environment's proxies.
fn client(url: &str) -> anyhow::Result<reqwest::Client> {
    // The process has one crypto provider; an error means that it is already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder =
        reqwest::Client::builder().no_proxy().timeout(FETCH_TIMEOUT).redirect(reqwest::redirect::Policy::none());
    let builder = if url.starts_with("https:") { builder } else { builder.tls_certs_only([]) };
    builder.build().context("this machine cannot open secure connections")
}

async fn load(source: &KeySource) -> anyhow::Result<Jwks> {
    let text = match source {
        KeySource::File(path) => tokio::fs::read_to_string(path).await.with_context(|| path.display().to_string())?,
        KeySource::Url(url) => {
            let mut response = client(url)?.get(url).send().await?.error_for_status()?;
            let mut body = Vec::new();
            while let Some(piece) = response.chunk().await? {
                body.extend_from_slice(&piece);
                anyhow::ensure!(body.len() <= MAX_KEY_SET, "{url} answers with more than {MAX_KEY_SET} bytes");
            }
            String::from_utf8(body).with_context(|| format!("{url} does not answer with text"))?
        }
    };
    Jwks::parse(&text).map_err(Into::into)
}
