//! The engine: everything that can be asked of the server, as verbs of [`Engine`].
//!
//! | file | verbs |
//! |---|---|
//! | `mod` | `start`, `get`, `watch`, `list`, `compile_ahead`, `drain`, `close`, `shut_down` |
//! | `submit` | `submit` |
//! | `deliver` | `deliver`, `resume`, `cancel`, `delete` |
//! | `update` | `update`, `bounds` |
//! | `results`, `large_results` | `result`, `standing`, `upload`, `sweep_blobs` |
//! | `conversations` | `conversations`, `said`, `forget` |
//! | `resources` | `registry`, `namespaces`, `create_resource`, `update_resource`, `replace_resource`, `delete_resource` |
//! | `audit` | `audit`, `usage`, `record_acts`, `note_refusals` |
//! | `metrics` | `metrics`, `write_metrics` |
//!
//! A verb that changes a query locks it, asks the machine what follows, appends that in one piece and answers once it is
//! durable. It runs to its end even if its caller goes away ([`Engine::detached`]).

pub(crate) mod audit;
pub(crate) mod conversations;
mod deliver;
pub(crate) mod freeze;
pub(crate) mod large_results;
pub(crate) mod resources;
pub(crate) mod results;
mod submit;
pub(crate) mod update;
pub(crate) mod upload_limits;

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use bosun_core::{
    Event, Head, Limits, Namespace, Timestamp, Transcript,
    audit::Arguments,
    ceiling::SCHEMA_CACHE_BYTES,
    json,
    machine::Verdict,
    schema::SchemaCache,
    tool::definition::{DefinitionCache, Rules},
};
use serde_json::Value;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Span;

use crate::{
    Blobs, Clock, EngineError, Store, StoreError,
    admission::{Admission, AdmissionLimits, Permit},
    background::clock_step::ClockSteps,
    background::deadlines::Deadlines,
    background::detached::DetachedWork,
    background::offload::Offload,
    background::retention,
    engine::resources::Resources,
    engine::upload_limits::Drafts,
    fault,
    metrics::Metrics,
    queries::watch::Watch,
    queries::{
        append::never,
        live::{LiveQueries, LiveQuery, LockedQuery, QueryKey},
        state::QueryState,
    },
    resource::Assemble,
    store::{Listed, Page, Position, has_work},
    turns::driver::{self, Found},
    turns::isolation::Isolation,
    turns::toolset_cache::Toolsets,
};

/// How the engine is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What any query may use at most.
    pub limits: Limits,
    /// How many queries run at the same time; the others wait their turn.
    pub max_running: usize,
    /// How many wait their turn at most; then no new query is taken on.
    pub max_queued: usize,
    /// The percentage of both that one namespace may take of what the other namespaces leave it.
    pub namespace_share: u8,
    /// What the audit log says about the arguments of calls.
    pub audited_arguments: Arguments,
    /// Whether somebody collects spans: then they say more, and models are told of ours instead of the caller's.
    pub exports_spans: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            max_running: 256,
            max_queued: 10_000,
            namespace_share: 90,
            audited_arguments: Arguments::default(),
            exports_spans: false,
        }
    }
}

/// A query that was taken on, now or when the same was asked for before.
#[derive(Clone, Debug)]
pub struct Submitted {
    pub snapshot: Snapshot,
    /// It was there already: the request repeats an earlier one.
    pub replayed: bool,
}

/// A query at one moment; durable when it is handed out.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub head: Arc<Head>,
    pub transcript: Arc<Transcript>,
}

/// What became of a post of results, and where the query stands after it.
#[derive(Clone, Debug)]
pub struct DeliverReport {
    pub verdicts: Vec<Verdict>,
    pub snapshot: Snapshot,
}

/// Runs queries. Cheap to clone; all clones are one engine.
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) blobs: Arc<dyn Blobs>,
    pub(crate) drafts: Arc<Drafts>,
    pub(crate) resources: Resources,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Settings,
    pub(crate) live_queries: Arc<LiveQueries>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) toolsets: Toolsets,
    pub(crate) schemas: Arc<SchemaCache>,
    pub(crate) definitions: DefinitionCache,
    pub(crate) admission: Admission,
    pub(crate) deadlines: Deadlines,
    pub(crate) clock_steps: ClockSteps,
    pub(crate) isolation: Isolation,
    pub(crate) offload: Offload,
    pub(crate) tasks: TaskTracker,
    /// No new work is taken on.
    pub(crate) draining: CancellationToken,
    /// Work in hand is dropped.
    pub(crate) stopped: CancellationToken,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Engine").field("registry", &self.registry()).finish_non_exhaustive()
    }
}

impl Engine {
    /// Starts the engine and takes up what an earlier process left in `store`. Resources are those that
    /// `assembler` knows and those that are stored.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn start(
        store: Arc<dyn Store>,
        blobs: Arc<dyn Blobs>,
        assembler: impl Into<Arc<dyn Assemble>>,
        clock: Arc<dyn Clock>,
        settings: Settings,
    ) -> Result<Self, EngineError> {
        let metrics = Arc::new(Metrics::default());
        let resources = Resources::new(assembler.into(), &store.resources(None).await?);
        let schemas = Arc::new(SchemaCache::new(SCHEMA_CACHE_BYTES));
        let live_queries = LiveQueries::new(
            settings.audited_arguments,
            Arc::clone(&metrics),
            Arc::clone(&clock),
            settings.max_running,
        );
        let tasks = TaskTracker::new();
        let inner = Arc::new(Inner {
            store,
            blobs,
            drafts: Arc::default(),
            resources,
            clock,
            settings,
            live_queries: Arc::new(live_queries),
            metrics,
            toolsets: Toolsets::default(),
            definitions: DefinitionCache::new(Rules::Open, Arc::clone(&schemas)),
            schemas,
            admission: Admission::new(AdmissionLimits {
                max_running: settings.max_running,
                max_queued: settings.max_queued,
                namespace_share: settings.namespace_share,
            }),
            deadlines: Deadlines::default(),
            clock_steps: ClockSteps::default(),
            isolation: Isolation::default(),
            offload: Offload::new(tasks.clone()),
            tasks,
            draining: CancellationToken::new(),
            stopped: CancellationToken::new(),
        });
        inner.admission.recount(inner.store.count_runnable().await?);
        inner.tasks.spawn(Admission::run(Arc::clone(&inner)));
        inner.tasks.spawn(Deadlines::watch(Arc::clone(&inner)));
        inner.tasks.spawn(retention::run(Arc::clone(&inner)));
        inner.tasks.spawn(retention::tend_records(Arc::clone(&inner)));
        inner.tasks.spawn(Inner::tend_blobs(Arc::clone(&inner)));
        Ok(Self { inner })
    }

    /// Where a query stands. With `wait`, answers when it pauses or ends, or when that time is over.
    ///
    /// # Errors
    /// If the query does not exist or the store fails.
    pub async fn get(&self, key: &QueryKey, wait: Option<Duration>) -> Result<Snapshot, EngineError> {
        let live = self.inner.live_queries.entry(key);
        match wait {
            Some(wait) => self.inner.settle(&live, wait).await,
            None => self.inner.read(&live).await,
        }
    }

    /// Follows a query from the entry after `seen`.
    ///
    /// # Errors
    /// If the query does not exist or the store fails.
    pub async fn watch(&self, key: &QueryKey, seen: u64) -> Result<Watch, EngineError> {
        let live = self.inner.live_queries.entry(key);
        self.inner.read(&live).await?;
        Ok(Watch::new(Arc::clone(&self.inner), live, seen))
    }

    /// One page of the queries of a namespace, newest first.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn list(&self, namespace: &Namespace, page: &Page) -> Result<Listed, EngineError> {
        Ok(self.inner.store.list(namespace, page).await?)
    }

    /// Compiles the parameters of tools that a request brings before they are [checked](Self::definitions), off the
    /// runtime's workers: after that, the check finds them compiled.
    pub async fn compile_ahead(&self, parameters: Vec<Arc<Value>>) {
        let schemas = Arc::clone(&self.inner.schemas);
        self.inner.offload.run(move || freeze::compile_all(&schemas, &parameters)).await;
    }

    /// Whether these parameters are compiled already, or are known to be none.
    #[must_use]
    pub fn has_compiled(&self, parameters: &Value) -> bool {
        self.inner.schemas.get(json::content_hash(parameters)).is_some()
    }

    /// What checks the tools that clients bring, before they are submitted.
    #[must_use]
    pub fn definitions(&self) -> &DefinitionCache {
        &self.inner.definitions
    }

    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    #[must_use]
    pub fn store(&self) -> &dyn Store {
        &*self.inner.store
    }

    /// How many queries are in memory right now. A waiting query is not one of them.
    #[must_use]
    pub fn busy(&self) -> usize {
        self.inner.live_queries.len()
    }

    /// Fires when the engine takes no new work on: streams should end.
    #[must_use]
    pub fn draining(&self) -> &CancellationToken {
        &self.inner.draining
    }

    /// [Drains](Self::drain) and [closes](Self::close).
    ///
    /// # Errors
    /// If the last commit fails.
    pub async fn shut_down(&self, grace: Duration) -> Result<(), EngineError> {
        self.drain(grace).await;
        self.close().await
    }

    /// Commits what was appended and closes the store. Whoever still reads may fail from then on.
    ///
    /// # Errors
    /// If the last commit fails.
    pub async fn close(&self) -> Result<(), EngineError> {
        Ok(self.inner.store.close().await?)
    }

    /// Takes no new work on, ends what waits and watches with what there is, and gives running inside
    /// calls `grace`. Reads are still answered.
    pub async fn drain(&self, grace: Duration) {
        self.inner.draining.cancel();
        self.inner.tasks.close();
        if tokio::time::timeout(grace, self.inner.tasks.wait()).await.is_err() {
            tracing::warn!(tasks = self.inner.tasks.len(), "stopping work that did not end in time");
            self.inner.stopped.cancel();
            self.inner.tasks.wait().await;
        }
    }

    pub(crate) async fn change(
        &self,
        key: QueryKey,
        wait: Option<Duration>,
        point: &'static str,
        decide: impl FnOnce(&QueryState) -> Result<Vec<Event>, EngineError> + Send + 'static,
    ) -> Result<Snapshot, EngineError> {
        self.detached(async move |inner| {
            let live = inner.live_queries.entry(&key);
            let mut locked = live.lock(&*inner.store).await?;
            let state = Inner::state_of(&locked, &key)?;
            let events = match decide(state) {
                Ok(events) => events,
                Err(refusal) => {
                    let position = state.position;
                    drop(locked);
                    // A refusal shows the state of the query, like any other answer.
                    inner.make_durable(&live, position).await?;
                    return Err(refusal);
                }
            };
            let now = inner.clock.now();
            // A query that waits its turn already must not get into the queue once more.
            let gives_work = events.iter().any(|event| event.moves() && !event.is_final());
            let position = if gives_work {
                inner.move_on(&live, &mut locked, now, events, point)?
            } else {
                let position = locked.append(&*inner.store, now, events, never)?;
                fault::point(point);
                position
            };
            drop(locked);
            inner.answer(&live, position, wait).await
        })
        .await
    }

    /// Runs a change to its end even if the caller goes away.
    pub(crate) async fn detached<Change, Running, Output>(&self, change: Change) -> Result<Output, EngineError>
    where
        Change: FnOnce(Arc<Inner>) -> Running,
        Running: Future<Output = Result<Output, EngineError>> + Send + 'static,
        Output: Send + 'static,
    {
        if self.inner.draining.is_cancelled() {
            return Err(EngineError::ShuttingDown);
        }
        let running = change(Arc::clone(&self.inner));
        DetachedWork::new(self.inner.tasks.track_future(running)).await
    }
}

impl Inner {
    pub(crate) fn state_of<'a>(locked: &'a LockedQuery<'_>, key: &QueryKey) -> Result<&'a QueryState, EngineError> {
        locked.state().ok_or_else(|| EngineError::QueryNotFound(key.0.clone(), key.1.clone()))
    }

    /// Appends what somebody outside has done, passes `point`, watches the query's deadline and lets it go on if it can.
    /// Nothing happens if there are no events.
    pub(crate) fn move_on(
        self: &Arc<Self>,
        live: &Arc<LiveQuery>,
        locked: &mut LockedQuery<'_>,
        now: Timestamp,
        events: Vec<Event>,
        point: &'static str,
    ) -> Result<Position, StoreError> {
        if events.is_empty() {
            return locked.append(&*self.store, now, events, never);
        }
        let (driven, mut permit) = (locked.is_driven(), None);
        let may_advance = |_: &Head| !driven && self.may_begin(&live.key, &mut permit);
        let position = locked.append(&*self.store, now, events, may_advance)?;
        fault::point(point);
        if let Some(deadline) = locked.state().and_then(|state| state.head.deadline()) {
            self.deadlines.expect(deadline);
        }
        self.drive_if_due(live, locked, permit);
        Ok(position)
    }

    /// Whether a query may go on in the append that gives it work: only with a permit for the driver that is started
    /// next.
    pub(crate) fn may_begin(self: &Arc<Self>, key: &QueryKey, permit: &mut Option<Permit>) -> bool {
        if self.draining.is_cancelled() {
            return false;
        }
        *permit = Admission::enter_at_once(self, key);
        permit.is_some()
    }

    /// Starts a driver, or has the query wait its turn, unless there is one or there is nothing to do.
    pub(crate) fn drive_if_due(
        self: &Arc<Self>,
        live: &Arc<LiveQuery>,
        locked: &mut LockedQuery<'_>,
        permit: Option<Permit>,
    ) {
        let due = locked.state().map(|state| &state.head).filter(|head| has_work(head));
        if due.is_none() || locked.is_driven() || self.draining.is_cancelled() {
            return;
        }
        if let Some(permit) = permit.or_else(|| Admission::enter(self, &live.key))
            && locked.claim()
        {
            let cause = self.settings.exports_spans.then(Span::current);
            self.tasks.spawn(driver::drive(Arc::clone(live), permit, Found::Due, cause));
        }
    }

    /// Waits for the disk. If that fails, memory may be ahead of the store and is forgotten.
    pub(crate) async fn make_durable(&self, live: &LiveQuery, position: Position) -> Result<(), StoreError> {
        let durable = self.store.durable(position).await;
        if durable.is_err() {
            live.forget(position).await;
        }
        durable
    }

    /// Where the query stands after the change at `position`: when it has settled, or `wait` is over, or
    /// at once. Without the change there is no answer: if it was not kept, the query goes on from what
    /// the store has, and that says nothing of the change.
    pub(crate) async fn answer(
        &self,
        live: &LiveQuery,
        position: Position,
        wait: Option<Duration>,
    ) -> Result<Snapshot, EngineError> {
        let settled = match wait {
            Some(wait) => Some(self.settle(live, wait).await),
            None => None,
        };
        // Waits only if nothing else has: what a settled query shows is durable, and so is what came before.
        self.make_durable(live, position).await?;
        match settled {
            Some(settled) => settled,
            None => self.read(live).await,
        }
    }

    /// Where the query stands, durably.
    async fn read(&self, live: &LiveQuery) -> Result<Snapshot, EngineError> {
        let locked = live.lock(&*self.store).await?;
        let state = Self::state_of(&locked, &live.key)?;
        let (snapshot, position) = (state.snapshot(), state.position);
        drop(locked);
        self.make_durable(live, position).await?;
        Ok(snapshot)
    }

    /// Waits until the server has nothing more to do for the query, at most for `patience`.
    async fn settle(&self, live: &LiveQuery, patience: Duration) -> Result<Snapshot, EngineError> {
        let mut over = pin!(tokio::time::sleep(patience));
        loop {
            // Before the look, so that nothing that happens after it is missed.
            let mut settled = pin!(live.settled());
            settled.as_mut().enable();
            let locked = live.lock(&*self.store).await?;
            let is_settled = Self::state_of(&locked, &live.key)?.head.status().is_settled();
            drop(locked);
            if is_settled || self.draining.is_cancelled() {
                return self.read(live).await;
            }
            tokio::select! {
                () = settled => {}
                () = &mut over => return self.read(live).await,
                () = self.draining.cancelled() => {}
            }
        }
    }
}

impl QueryState {
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot { head: Arc::clone(&self.head), transcript: Arc::clone(&self.transcript) }
    }
}
