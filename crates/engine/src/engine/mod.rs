//! The engine: all operations of the server, as methods of [`Engine`].
//!
//! | file | methods |
//! |---|---|
//! | `mod` | `start`, `get`, `watch`, `list`, `definitions`, `compile_ahead`, `has_compiled`, `settings`, `store`, `busy`, `draining`, `drain`, `close`, `shut_down` |
//! | `submit` | `submit` |
//! | `deliver` | `deliver`, `resume`, `cancel`, `delete` |
//! | `decide` | `decide` |
//! | `update` | `update`, `bounds` |
//! | `results`, `large_results` | `result`, `delivery_state`, `upload`, `sweep_blobs` |
//! | `conversations` | `conversations`, `conversation_turns`, `delete_conversations` |
//! | `tool_cache` | `clear_tool_cache` |
//! | `tree` | `tree` |
//! | `workers` | `claim_calls`, `extend_lease` |
//! | `resources` | `registry`, `refresh`, `has_namespace`, `namespaces`, `create_resource`, `update_resource`, `replace_resource`, `delete_resource`, `approve_tools` |
//! | `audit` | `audit`, `usage`, `record_acts`, `note_refusals`, `now` |
//! | `metrics` | `metrics`, `write_metrics` |
//!
//! A method that changes a query locks it, asks the machine what follows, appends that as one transaction and answers
//! once it is durable. It runs to completion even if its caller disconnects ([`Engine::detached`]).

pub(crate) mod audit;
pub(crate) mod conversations;
pub(crate) mod decide;
mod deliver;
pub(crate) mod freeze;
pub(crate) mod large_results;
mod metrics;
pub(crate) mod owners;
pub(crate) mod resources;
pub(crate) mod results;
mod submit;
mod tool_cache;
pub(crate) mod tree;
pub(crate) mod update;
pub(crate) mod upload_limits;
pub(crate) mod workers;

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use bosun_core::{
    Event, Head, Namespace, QueryLimits, QueryUid, Status, Timestamp, Transcript,
    audit::ArgumentsInAudit,
    ceiling::SCHEMA_CACHE_BYTES,
    json,
    machine::DeliveryVerdict,
    schema::SchemaCache,
    tool::{
        Confirm,
        definition::{DefinitionCache, Rules},
    },
};
use serde_json::Value;
use tokio::sync::Notify;
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
    engine::upload_limits::UploadDrafts,
    fault,
    metrics::Metrics,
    queries::watch::Watch,
    queries::{
        append::never,
        live::{LiveQueries, LiveQuery, LockedQuery, QueryKey},
        state::QueryState,
    },
    resource::Assemble,
    store::{ListedQueries, Position, QueryPage, has_work},
    turns::driver::{self, DriverStart},
    turns::isolation::Isolation,
    turns::pending,
    turns::result_cache::ResultCache,
    turns::toolset_cache::Toolsets,
};

/// The configuration of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineSettings {
    /// The limits of a query that asks for none.
    pub limits: QueryLimits,
    /// Upper bounds of what an agent, a query or a tool may ask for.
    pub ceilings: QueryLimits,
    /// How many queries run at the same time; the others are queued.
    pub max_running: usize,
    /// The maximum length of the queue; beyond it new queries are refused.
    pub max_queued: usize,
    /// The percentage of both that one namespace may use of what the other namespaces leave free.
    pub namespace_share: u8,
    /// Whether calls of tools wait for approval, where neither the tool nor the agent says so.
    pub confirm: Confirm,
    /// What the audit log records of the arguments of calls.
    pub audited_arguments: ArgumentsInAudit,
    /// Whether spans are exported: then they have more fields, and models get our span as parent instead of the
    /// caller's.
    pub exports_spans: bool,
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            limits: QueryLimits::default(),
            ceilings: QueryLimits::default(),
            max_running: 256,
            max_queued: 10_000,
            namespace_share: 90,
            confirm: Confirm::default(),
            audited_arguments: ArgumentsInAudit::default(),
            exports_spans: false,
        }
    }
}

/// An accepted query: created now, or by an earlier request with the same idempotency key or name.
#[derive(Clone, Debug)]
pub struct Submitted {
    pub snapshot: Snapshot,
    /// The request is a replay: the query already existed.
    pub replayed: bool,
}

/// A snapshot of a query; durable when it is handed out.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub head: Arc<Head>,
    pub transcript: Arc<Transcript>,
    /// The open queries of its calls, and theirs.
    pub below: Arc<[Snapshot]>,
}

impl Snapshot {
    /// The status of the query. While it waits for queries of its own, what these need from a client comes first.
    #[must_use]
    pub fn status(&self) -> Status {
        let own = self.head.status();
        if own != Status::Running {
            return own;
        }
        let needs = [Status::Waiting, Status::AwaitingApproval, Status::AwaitingParameters];
        needs.into_iter().find(|wanted| self.below.iter().any(|one| one.head.status() == *wanted)).unwrap_or(own)
    }
}

/// The verdict on each delivered result, and the query after the delivery.
#[derive(Clone, Debug)]
pub struct DeliverReport {
    pub verdicts: Vec<DeliveryVerdict>,
    pub snapshot: Snapshot,
}

/// Runs queries. Cheap to clone; all clones share one engine.
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

/// Orders the ends of turns within each tree. Trees may share a lock: it is held for an append.
pub(crate) struct TreeTurns([tokio::sync::Mutex<()>; 64]);

impl Default for TreeTurns {
    fn default() -> Self {
        Self(std::array::from_fn(|_| tokio::sync::Mutex::default()))
    }
}

impl TreeTurns {
    pub(crate) async fn lock(&self, root: QueryUid) -> tokio::sync::MutexGuard<'_, ()> {
        let last = usize::from(root.as_bytes()[15]);
        self.0[last % self.0.len()].lock().await
    }
}

pub(crate) struct Inner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) blobs: Arc<dyn Blobs>,
    pub(crate) drafts: Arc<UploadDrafts>,
    pub(crate) resources: Resources,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: EngineSettings,
    pub(crate) live_queries: Arc<LiveQueries>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) toolsets: Toolsets,
    pub(crate) schemas: Arc<SchemaCache>,
    pub(crate) result_cache: ResultCache,
    pub(crate) definitions: DefinitionCache,
    pub(crate) strict_definitions: DefinitionCache,
    pub(crate) admission: Admission,
    pub(crate) deadlines: Deadlines,
    /// There may be a call for a worker.
    pub(crate) claimable: Notify,
    pub(crate) clock_steps: ClockSteps,
    pub(crate) isolation: Isolation,
    pub(crate) tree_turns: TreeTurns,
    pub(crate) offload: Offload,
    pub(crate) tasks: TaskTracker,
    /// No new work is accepted.
    pub(crate) draining: CancellationToken,
    /// Work under way is dropped.
    pub(crate) stopped: CancellationToken,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Engine").field("registry", &self.registry()).finish_non_exhaustive()
    }
}

impl Engine {
    /// Starts the engine and recovers what an earlier process left in `store`. Resources are those of `assembler` and
    /// those that are stored.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn start(
        store: Arc<dyn Store>,
        blobs: Arc<dyn Blobs>,
        assembler: impl Into<Arc<dyn Assemble>>,
        clock: Arc<dyn Clock>,
        settings: EngineSettings,
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
            strict_definitions: DefinitionCache::new(Rules::Strict, Arc::clone(&schemas)),
            schemas,
            result_cache: ResultCache::default(),
            admission: Admission::new(AdmissionLimits {
                max_running: settings.max_running,
                max_queued: settings.max_queued,
                namespace_share: settings.namespace_share,
            }),
            deadlines: Deadlines::default(),
            claimable: Notify::new(),
            clock_steps: ClockSteps::default(),
            isolation: Isolation::default(),
            tree_turns: TreeTurns::default(),
            offload: Offload::new(tasks.clone()),
            tasks,
            draining: CancellationToken::new(),
            stopped: CancellationToken::new(),
        });
        inner.admission.recount(inner.store.count_runnable().await?);
        inner.tasks.spawn(Admission::run(Arc::clone(&inner)));
        inner.tasks.spawn(Deadlines::watch(Arc::clone(&inner)));
        inner.tasks.spawn(retention::run(Arc::clone(&inner)));
        inner.tasks.spawn(retention::maintain_records(Arc::clone(&inner)));
        inner.tasks.spawn(Inner::sweep_blobs_periodically(Arc::clone(&inner)));
        Ok(Self { inner })
    }

    /// The current snapshot of a query. With `wait`, answers when the query pauses or ends, or after that time.
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

    /// Subscribes to a query, from the entry after `seen`.
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
    pub async fn list(&self, namespace: &Namespace, page: &QueryPage) -> Result<ListedQueries, EngineError> {
        Ok(self.inner.store.list(namespace, page).await?)
    }

    /// Compiles the parameters of a request's tools, off the runtime's workers, before they are
    /// [checked](Self::definitions): the check then finds them in the cache.
    pub async fn compile_ahead(&self, parameters: Vec<Arc<Value>>) {
        let schemas = Arc::clone(&self.inner.schemas);
        self.inner.offload.run(move || freeze::compile_all(&schemas, &parameters)).await;
    }

    /// Whether these parameters are in the cache, compiled or as invalid.
    #[must_use]
    pub fn has_compiled(&self, parameters: &Value) -> bool {
        self.inner.schemas.get(json::content_hash(parameters)).is_some()
    }

    /// Validates the tools of clients before they are submitted.
    #[must_use]
    pub fn definitions(&self, rules: Rules) -> &DefinitionCache {
        match rules {
            Rules::Open => &self.inner.definitions,
            Rules::Strict => &self.inner.strict_definitions,
        }
    }

    #[must_use]
    pub fn settings(&self) -> &EngineSettings {
        &self.inner.settings
    }

    #[must_use]
    pub fn store(&self) -> &dyn Store {
        &*self.inner.store
    }

    /// How many queries are driven, changed or watched right now. Cached waiting queries do not count.
    #[must_use]
    pub fn busy(&self) -> usize {
        self.inner.live_queries.len()
    }

    /// Fires when the engine accepts no new work: streams should end.
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

    /// Commits what was appended and closes the store. Reads may fail from then on.
    ///
    /// # Errors
    /// If the last commit fails.
    pub async fn close(&self) -> Result<(), EngineError> {
        Ok(self.inner.store.close().await?)
    }

    /// Stops accepting work, ends waits and watches with the current state, and gives running inside calls `grace` to
    /// finish. Reads are still answered.
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
            // A query that is already queued must not be queued twice.
            let gives_work = events.iter().any(|event| event.moves() && !event.is_final());
            let position = if gives_work {
                inner.append_and_drive(&live, &mut locked, now, events, point)?
            } else {
                let position = locked.append(&*inner.store, now, events, never)?;
                fault::point(point);
                if let Some(state) = locked.state() {
                    pending::cancel(&inner, state, &[]);
                }
                // The end of a query may have to reach its tree. A query that is only changed is queued already.
                if locked.state().is_some_and(|state| state.head.unsettled.is_some()) {
                    inner.drive_if_due(&live, &mut locked, None);
                }
                position
            };
            drop(locked);
            inner.answer(&live, position, wait).await
        })
        .await
    }

    /// Runs a change to completion even if the caller disconnects.
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

    /// Appends an external change, passes `point`, registers the query's deadline and drives the query on if it has
    /// work. Does nothing if there are no events.
    pub(crate) fn append_and_drive(
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
        let given_up: Vec<_> = events.iter().filter_map(Event::given_up_call).collect();
        let position = locked.append(&*self.store, now, events, may_advance)?;
        fault::point(point);
        if let Some(state) = locked.state() {
            pending::cancel(self, state, &given_up);
        }
        driver::expect_deadline(self, locked);
        self.drive_if_due(live, locked, permit);
        Ok(position)
    }

    /// Whether a query may continue in the append that gives it work: only with a permit for the driver that is started
    /// next.
    pub(crate) fn may_begin(self: &Arc<Self>, key: &QueryKey, permit: &mut Option<Permit>) -> bool {
        if self.draining.is_cancelled() {
            return false;
        }
        *permit = Admission::enter_at_once(self, key);
        permit.is_some()
    }

    /// Starts a driver, or queues the query, unless it is already driven or has no work.
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
            self.tasks.spawn(driver::drive(Arc::clone(live), permit, DriverStart::Due, cause));
        }
    }

    /// Waits until `position` is durable. If that fails, memory may be ahead of the store and is discarded.
    pub(crate) async fn make_durable(&self, live: &LiveQuery, position: Position) -> Result<(), StoreError> {
        let durable = self.store.durable(position).await;
        if durable.is_err() {
            live.discard(position).await;
        }
        durable
    }

    /// The query after the change at `position`: when it has settled, after `wait`, or at once. Fails if the change was
    /// not committed: the query then continues from what the store has, and its state would not reflect the change.
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
        // Usually resolves at once: the snapshot of a settled query is durable, and so is everything before it.
        self.make_durable(live, position).await?;
        match settled {
            Some(settled) => settled,
            None => self.read(live).await,
        }
    }

    /// The current snapshot, durable.
    async fn read(&self, live: &LiveQuery) -> Result<Snapshot, EngineError> {
        let locked = live.lock(&*self.store).await?;
        let state = Self::state_of(&locked, &live.key)?;
        let (mut snapshot, position) = (state.snapshot(), state.position);
        drop(locked);
        self.make_durable(live, position).await?;
        snapshot.below = self.below(&snapshot.head).await?;
        Ok(snapshot)
    }

    /// Waits, at most for `timeout`, until the server has nothing more to do for the query.
    async fn settle(&self, live: &LiveQuery, timeout: Duration) -> Result<Snapshot, EngineError> {
        let mut over = pin!(tokio::time::sleep(timeout));
        loop {
            // Registered before the check, so that no later notification is missed.
            let mut settled = pin!(live.settled());
            settled.as_mut().enable();
            let locked = live.lock(&*self.store).await?;
            let mut snapshot = Self::state_of(&locked, &live.key)?.snapshot();
            drop(locked);
            snapshot.below = self.below(&snapshot.head).await?;
            let is_settled = snapshot.status().is_settled();
            drop(snapshot);
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
        Snapshot { head: Arc::clone(&self.head), transcript: Arc::clone(&self.transcript), below: Arc::default() }
    }
}
