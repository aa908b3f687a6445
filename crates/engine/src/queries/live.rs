//! The table of live queries: those that are in use right now, and a bounded cache of those that wait.
//!
//! A query has an entry here only while a task drives it, a request changes it or a reader watches it. Of those that
//! wait for their client, only the most recent stay in the cache: most results arrive within a moment, and loading
//! the query again would be most of the cost of accepting one. An appender keeps the entry until the append is durable,
//! so memory and store never disagree for a reader of both. There is one entry for each name, and its lock orders all
//! changes of the query within the process.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use bosun_core::{
    CallId, Head, Namespace, QueryName, QueryUid, audit::ArgumentsInAudit, cache::WeightedCache,
    ceiling::WAITING_CACHE_BYTES,
};
use tokio::sync::{Mutex as AsyncMutex, MutexGuard as AsyncMutexGuard, Notify, futures::Notified, watch};
use tokio_util::sync::CancellationToken;

use super::state::QueryState;
use crate::{
    Clock,
    metrics::Metrics,
    queries::fan_out::Broadcast,
    runner::Progress,
    store::{Position, Store, StoreError},
};

/// The key of a query.
pub type QueryKey = (Namespace, QueryName);

pub(crate) struct LiveQueries {
    /// What the audit log records of the arguments of calls.
    arguments: ArgumentsInAudit,
    metrics: Arc<Metrics>,
    clock: Arc<dyn Clock>,
    open: Mutex<HashMap<QueryKey, Weak<LiveQuery>>>,
    /// The cache of queries that wait for their client. Dropping the last reference to a query locks `open`, so an
    /// evicted one is dropped after this lock is released.
    waiting: Mutex<WaitingQueries>,
}

type WaitingQueries = WeightedCache<QueryKey, Arc<LiveQuery>>;

/// One live query.
pub(crate) struct LiveQuery {
    pub(crate) key: QueryKey,
    pub(super) live_queries: Weak<LiveQueries>,
    pub(super) arguments: ArgumentsInAudit,
    pub(super) metrics: Arc<Metrics>,
    pub(super) clock: Arc<dyn Clock>,
    slot: AsyncMutex<QuerySlot>,
    /// The size in bytes under which the cache of waiting queries last counted it. Changes under the lock of the query.
    pub(super) weight: AtomicUsize,
    /// Counts up with every entry while there are subscribers.
    changed: watch::Sender<u64>,
    /// Notified when the server has nothing more to do for the query, or does not know whether it has.
    pub(super) settled: Notify,
    /// Counts the changes of queries below this one.
    below: AtomicU64,
    /// Broadcasts to readers: durable entries, by the fan-out, and every delta.
    broadcast: watch::Sender<Arc<Broadcast>>,
    has_fan_out: Mutex<bool>,
    draft: Mutex<TextDraft>,
    progress: Mutex<RunningCalls>,
    /// Fires when the query has ended, for whatever reason. Replaced after a failed write: then the query has not
    /// ended.
    ended: Mutex<CancellationToken>,
}

#[derive(Default)]
pub(super) struct QuerySlot {
    /// `None` until loaded, or after a failed write: then it has to be reloaded from the store.
    pub(super) state: Option<QueryState>,
    /// Whether a task drives the query.
    pub(super) driven: bool,
}

/// The text of the current turn so far.
#[derive(Debug, Default)]
pub(crate) struct TextDraft {
    pub(crate) turn: u32,
    pub(crate) attempt: u32,
    pub(crate) text: String,
}

/// The latest report of each call that runs, and makes progress.
#[derive(Debug, Default)]
struct RunningCalls {
    /// Counts reports.
    version: u64,
    calls: Vec<(u64, CallInProgress)>,
}

/// The progress of a running call.
#[derive(Clone, Debug, PartialEq)]
pub struct CallInProgress {
    pub call: CallId,
    pub tool: Arc<str>,
    pub progress: Progress,
}

/// The new text of a turn.
pub(crate) enum DraftText {
    Nothing,
    More(String),
    /// There is text, but of a turn that the reader does not know yet.
    OfAnotherTurn,
}

impl LiveQueries {
    /// At most `max_running` waiting queries are cached, within [`WAITING_CACHE_BYTES`], so that they take no more
    /// memory than running ones.
    pub(crate) fn new(
        arguments: ArgumentsInAudit,
        metrics: Arc<Metrics>,
        clock: Arc<dyn Clock>,
        max_running: usize,
    ) -> Self {
        let waiting = WaitingQueries::new(WAITING_CACHE_BYTES).with_max_entries(max_running);
        Self { arguments, metrics, clock, open: Mutex::default(), waiting: Mutex::new(waiting) }
    }

    /// The entry for `key`, created if necessary.
    pub(crate) fn entry(self: &Arc<Self>, key: &QueryKey) -> Arc<LiveQuery> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(live) = open.get(key).and_then(Weak::upgrade) {
            return live;
        }
        let live = Arc::new(LiveQuery {
            key: key.clone(),
            live_queries: Arc::downgrade(self),
            arguments: self.arguments,
            metrics: Arc::clone(&self.metrics),
            clock: Arc::clone(&self.clock),
            slot: AsyncMutex::default(),
            weight: AtomicUsize::default(),
            changed: watch::Sender::new(0),
            settled: Notify::new(),
            below: AtomicU64::default(),
            broadcast: watch::Sender::new(Arc::default()),
            has_fan_out: Mutex::default(),
            draft: Mutex::default(),
            progress: Mutex::default(),
            ended: Mutex::default(),
        });
        open.insert(key.clone(), Arc::downgrade(&live));
        live
    }

    /// The entry for `key`, if there is one.
    fn find(&self, key: &QueryKey) -> Option<Arc<LiveQuery>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).get(key).and_then(Weak::upgrade)
    }

    /// Caches a query that waits for its client and evicts those that have waited longest. `weight` is its approximate
    /// size in memory.
    pub(crate) fn keep(&self, live: &Arc<LiveQuery>, weight: usize) {
        live.weight.store(weight, Ordering::Relaxed);
        let evicted = self.waiting().insert(live.key.clone(), Arc::clone(live), weight);
        drop(evicted);
    }

    /// Updates the weight of a query that has grown, if it is cached.
    pub(super) fn reweigh(&self, live: &LiveQuery, weight: usize) {
        live.weight.store(weight, Ordering::Relaxed);
        let evicted = self.waiting().weigh(&live.key, weight);
        drop(evicted);
    }

    /// Evicts a query that has ended: the store may delete it without notice.
    pub(super) fn evict(&self, live: &LiveQuery) {
        let evicted = self.waiting().remove(&live.key);
        drop(evicted);
    }

    /// The cached waiting queries, the longest waiting first.
    #[cfg(test)]
    pub(crate) fn cached_waiting(&self) -> Vec<QueryKey> {
        self.waiting().values().map(|live| live.key.clone()).collect()
    }

    /// Their approximate size in memory.
    #[cfg(test)]
    pub(crate) fn weight(&self) -> usize {
        self.waiting().weight()
    }

    /// How many queries are in use, without those that are only cached.
    pub(crate) fn len(&self) -> usize {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.len() - self.waiting().values().filter(|live| Arc::strong_count(live) == 1).count()
    }

    fn waiting(&self) -> MutexGuard<'_, WaitingQueries> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for LiveQuery {
    fn drop(&mut self) {
        let Some(live_queries) = self.live_queries.upgrade() else { return };
        let mut open = live_queries.open.lock().unwrap_or_else(PoisonError::into_inner);
        // A new entry may have been made since the last strong reference was dropped.
        if open.get(&self.key).is_some_and(|entry| entry.strong_count() == 0) {
            open.remove(&self.key);
        }
    }
}

/// A query, locked against all other changes in this process.
pub(crate) struct LockedQuery<'a> {
    pub(super) live: &'a LiveQuery,
    pub(super) slot: AsyncMutexGuard<'a, QuerySlot>,
}

impl LiveQuery {
    /// Locks the query and loads it if necessary; there is no state if no such query exists.
    pub(crate) async fn lock(&self, store: &dyn Store) -> Result<LockedQuery<'_>, StoreError> {
        let mut slot = self.slot.lock().await;
        if slot.state.is_none()
            && let Some(stored) = store.load(&self.key.0, &self.key.1).await?
        {
            let state = QueryState::from_stored(stored)?;
            if state.head.status().is_final() {
                self.ended().cancel();
            }
            slot.state = Some(state);
        }
        Ok(LockedQuery { live: self, slot })
    }

    /// Locks the query with this uid, or any if `uid` is absent; `None` if it is gone or its name belongs to another
    /// query.
    pub(crate) async fn lock_query(
        &self,
        store: &dyn Store,
        uid: Option<QueryUid>,
    ) -> Result<Option<LockedQuery<'_>>, StoreError> {
        let locked = self.lock(store).await?;
        let is_wanted = |state: &QueryState| uid.is_none_or(|uid| uid == state.head.uid);
        Ok(locked.state().is_some_and(is_wanted).then_some(locked))
    }

    /// Locks a query that cannot be in the store: its name was generated just now.
    pub(crate) async fn lock_new(&self) -> LockedQuery<'_> {
        LockedQuery { live: self, slot: self.slot.lock().await }
    }

    /// Claims the right to drive the query without loading it; false if a task already has it.
    pub(crate) async fn claim(&self) -> bool {
        !std::mem::replace(&mut self.slot.lock().await.driven, true)
    }

    /// Releases the right to drive.
    pub(crate) async fn release(&self) {
        self.slot.lock().await.driven = false;
    }

    /// Discards the state in memory if it was built on the append at `position`, which failed. State that was loaded or
    /// created since then was not.
    pub(crate) async fn discard(&self, position: Position) {
        let mut slot = self.slot.lock().await;
        let first = slot.state.as_ref().and_then(|state| state.first);
        if first.is_none_or(|first| first > position) {
            return;
        }
        slot.state = None;
        self.renew_end();
        drop(slot);
        self.notify();
        self.settled.notify_waiters();
    }

    /// Fires when the query has ended, for whatever reason.
    pub(crate) fn ended(&self) -> CancellationToken {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the token: there is no query, or not the one that ended, and the driver of the next must not see its
    /// end.
    pub(super) fn renew_end(&self) {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = CancellationToken::new();
    }

    /// Subscribes to all entries from now on, durable or not.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Resolves when the query settles after this call, or has to be checked again.
    pub(crate) fn settled(&self) -> Notified<'_> {
        self.settled.notified()
    }

    /// The broadcast of durable entries and of text.
    pub(crate) fn broadcast(&self) -> &watch::Sender<Arc<Broadcast>> {
        &self.broadcast
    }

    /// Claims the right to run the fan-out; false if a task already has it.
    pub(crate) fn claim_fan_out(&self) -> bool {
        !std::mem::replace(&mut *self.has_fan_out.lock().unwrap_or_else(PoisonError::into_inner), true)
    }

    /// Releases the right to run the fan-out, unless there is a new subscriber; then false.
    pub(crate) fn release_fan_out(&self) -> bool {
        let mut has_fan_out = self.has_fan_out.lock().unwrap_or_else(PoisonError::into_inner);
        *has_fan_out = self.broadcast.receiver_count() > 0;
        !*has_fan_out
    }

    pub(crate) fn push_delta(&self, text: &str) {
        self.draft.lock().unwrap_or_else(PoisonError::into_inner).text.push_str(text);
        wake(&self.broadcast, |_| {});
    }

    /// Replaces the latest report of a call.
    pub(crate) fn push_progress(&self, call: CallId, tool: &str, progress: Progress) {
        {
            let mut running = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
            running.version += 1;
            let version = running.version;
            match running.calls.iter_mut().find(|(_, known)| known.call == call) {
                Some((reported, known)) => {
                    *reported = version;
                    known.progress = progress;
                }
                None => running.calls.push((version, CallInProgress { call, tool: tool.into(), progress })),
            }
        }
        wake(&self.broadcast, |_| {});
    }

    pub(crate) fn end_progress(&self, call: CallId) {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).calls.retain(|(_, known)| known.call != call);
    }

    /// The oldest report after the one with the number `seen`, and its number.
    pub(crate) fn progress_after(&self, seen: u64) -> Option<(u64, CallInProgress)> {
        let running = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        running.calls.iter().filter(|(version, _)| *version > seen).min_by_key(|(version, _)| *version).cloned()
    }

    pub(crate) fn start_draft(&self, turn: u32, attempt: u32) {
        *self.draft.lock().unwrap_or_else(PoisonError::into_inner) = TextDraft { turn, attempt, text: String::new() };
    }

    /// The text of this attempt after the first `offset` bytes.
    pub(crate) fn draft_from(&self, turn: u32, attempt: u32, offset: usize) -> DraftText {
        let draft = self.draft.lock().unwrap_or_else(PoisonError::into_inner);
        if (draft.turn, draft.attempt) != (turn, attempt) {
            return if draft.text.is_empty() { DraftText::Nothing } else { DraftText::OfAnotherTurn };
        }
        draft
            .text
            .get(offset..)
            .filter(|text| !text.is_empty())
            .map_or(DraftText::Nothing, |text| DraftText::More(text.into()))
    }

    pub(super) fn notify(&self) {
        wake(&self.changed, |version| *version += 1);
    }

    /// The number of changes of queries below this one.
    pub(crate) fn changes_below(&self) -> u64 {
        self.below.load(Ordering::Acquire)
    }

    /// Notifies waiters and subscribers of the queries above this one: what they are shown includes it.
    pub(super) fn notify_root(&self, head: &Head) {
        let Some(lineage) = &head.lineage else { return };
        let Some(live_queries) = self.live_queries.upgrade() else { return };
        for key in [lineage.root_key(&head.namespace), lineage.parent_key(&head.namespace)] {
            let Some(above) = live_queries.find(&key) else { continue };
            above.notify_below();
        }
    }

    /// A query below this one has changed.
    pub(super) fn notify_below(&self) {
        self.below.fetch_add(1, Ordering::AcqRel);
        self.settled.notify_waiters();
        wake(&self.broadcast, |_| {});
    }
}

/// Notifies subscribers. Usually there are none, and checking `receiver_count` is cheaper than `send_modify`. No
/// notification is lost: the change was made under a lock that a subscriber takes after it has subscribed.
fn wake<T>(broadcast: &watch::Sender<T>, change: impl FnOnce(&mut T)) {
    if broadcast.receiver_count() > 0 {
        broadcast.send_modify(change);
    }
}

impl fmt::Debug for LiveQuery {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LiveQuery").field("key", &self.key).finish_non_exhaustive()
    }
}
