//! The queue between callers that append and the one writer thread.
//!
//! Callers push appends and get positions; the writer takes the whole queue as one batch and settles positions in
//! order: everything up to a position is committed, or rejected for a reason. There is no SQL here. A caller never
//! blocks for longer than a push; the writer sleeps on a condition variable when the queue is empty, and is notified
//! only when its wake condition is met.

use std::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bosun_core::{ContentHash, Head, Namespace, Seq, Timestamp, audit::AuditRecord};
use bosun_engine::{
    metrics::{MetricHistogram, SECONDS, SIZES},
    resource::ResourceChange,
    store::{
        Append, CommitFigures, Encoded, IdempotentRequest, Position, Rejection, Rejections, Removal, StoreError,
        StoreStats, StoredDocument, TermChange, WebhookChange,
        conversations::{ConversationPart, Joining},
    },
};
use tokio::sync::oneshot;

use super::{
    audit::{EncodedRecords, Maintenance},
    conversations::QueuedExchange,
};

/// How long an append without a waiter may stay uncommitted.
const UNAWAITED: Duration = Duration::from_millis(2);
/// The number of such periods that the writer keeps polling after the queue has become empty, before it sleeps until it
/// is notified. While there is traffic, an append then costs no system call.
const LINGER: u32 = 25;

/// An append as the writer needs it. The entries are serialized by the callers, which run in parallel; the writer is
/// one thread.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) position: Position,
    pub(super) head: Arc<Head>,
    pub(super) seen: Seq,
    pub(super) after: Position,
    pub(super) is_whole: bool,
    pub(super) moves: bool,
    pub(super) rows: Vec<Row>,
    pub(super) toolset: Option<StoredDocument>,
    pub(super) request: Option<IdempotentRequest>,
    /// The blobs that the entries refer to.
    pub(super) blobs: Vec<ContentHash>,
    /// The audit records of the entries.
    pub(super) records: EncodedRecords,
    pub(super) joins: Option<Joining>,
    pub(super) adds: Option<QueuedExchange>,
    /// What it does to the index of queries.
    pub(super) terms: Option<TermChange>,
}

/// Audit records that are queued without an append.
#[derive(Debug)]
pub(super) struct QueuedRecords {
    pub(super) position: Position,
    pub(super) namespace: Namespace,
    pub(super) records: EncodedRecords,
}

/// One entry of a journal, as it is stored.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) seq: Seq,
    pub(super) at: Timestamp,
    pub(super) body: String,
}

fn unwritable(error: serde_json::Error) -> StoreError {
    StoreError::Unavailable(Box::new(error))
}

impl QueuedRecords {
    pub(super) fn new(namespace: &Namespace, records: &[AuditRecord], audited: bool) -> Result<Self, StoreError> {
        let records = EncodedRecords::of(records, audited).map_err(unwritable)?;
        Ok(Self { position: Position::default(), namespace: namespace.clone(), records })
    }
}

impl Queued {
    pub(super) fn new(append: Append, audited: bool) -> Result<Self, StoreError> {
        let (is_whole, moves) = (append.is_whole(), append.moves());
        let terms = TermChange::of(&append.entries);
        let blobs = append.entries.iter().filter_map(|entry| Some(entry.event.large()?.hash)).collect();
        let row = |Encoded { entry, body, .. }| Row { seq: entry.seq, at: entry.at, body };
        let rows = append.entries.into_iter().map(row).collect();
        let (joins, adds) = match append.conversation {
            Some(ConversationPart::Joins(joining)) => (Some(joining), None),
            Some(ConversationPart::Adds(exchange)) => (None, Some(QueuedExchange::new(exchange).map_err(unwritable)?)),
            None => (None, None),
        };
        Ok(Self {
            position: Position::default(),
            head: append.head,
            seen: append.seen,
            after: append.after,
            is_whole,
            moves,
            rows,
            toolset: append.toolset,
            request: append.request,
            blobs,
            records: EncodedRecords::of(&append.records, audited).map_err(unwritable)?,
            joins,
            adds,
            terms,
        })
    }
}

/// A queued removal, and the sender that notifies its caller.
#[derive(Debug)]
pub(super) struct QueuedRemoval {
    pub(super) removal: Removal,
    pub(super) now: Timestamp,
    pub(super) done: oneshot::Sender<Result<usize, Rejection>>,
}

/// A queued change of a resource, and the sender that notifies its caller.
#[derive(Debug)]
pub(super) struct QueuedChange {
    pub(super) change: ResourceChange,
    pub(super) done: oneshot::Sender<Result<(), Rejection>>,
}

/// A queued change of a webhook, and the sender that notifies its caller.
#[derive(Debug)]
pub(super) struct QueuedWebhook {
    pub(super) change: WebhookChange,
    pub(super) done: oneshot::Sender<Result<bool, Rejection>>,
}

/// A queued maintenance task, and the sender that notifies its caller.
#[derive(Debug)]
pub(super) struct QueuedMaintenance {
    pub(super) task: Maintenance,
    pub(super) done: oneshot::Sender<Result<bool, Rejection>>,
}

/// A batch for the writer, in this order: appends and records, changes of resources and of webhooks, removals,
/// maintenance of the audit log.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) appends: Vec<Queued>,
    pub(super) records_only: Vec<QueuedRecords>,
    pub(super) changes: Vec<QueuedChange>,
    pub(super) webhooks: Vec<QueuedWebhook>,
    pub(super) removals: Vec<QueuedRemoval>,
    pub(super) maintenance: Vec<QueuedMaintenance>,
}

impl Batch {
    /// Rejects everything in the batch but the appends and records, and notifies the callers.
    pub(super) fn refuse_rest(self, reason: &Rejection) {
        // A send fails only if the caller has stopped waiting.
        self.changes.into_iter().for_each(|QueuedChange { done, .. }| drop(done.send(Err(reason.clone()))));
        self.webhooks.into_iter().for_each(|QueuedWebhook { done, .. }| drop(done.send(Err(reason.clone()))));
        self.removals.into_iter().for_each(|QueuedRemoval { done, .. }| drop(done.send(Err(reason.clone()))));
        self.maintenance.into_iter().for_each(|QueuedMaintenance { done, .. }| drop(done.send(Err(reason.clone()))));
    }

    fn is_empty(&self) -> bool {
        let has_no_appends = self.appends.is_empty() && self.records_only.is_empty();
        let has_no_changes = self.changes.is_empty() && self.webhooks.is_empty();
        has_no_appends && has_no_changes && self.removals.is_empty() && self.maintenance.is_empty()
    }

    /// The last position of the batch.
    pub(super) fn last(&self) -> Option<Position> {
        let appended = self.appends.last().map(|append| append.position);
        appended.max(self.records_only.last().map(|record| record.position))
    }
}

/// How long the writer waits for a batch to fill up: until `waiters` callers wait, `at_most` has elapsed, or no further
/// caller arrived within `lull`.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchWait {
    pub(super) waiters: usize,
    pub(super) at_most: Duration,
    pub(super) lull: Duration,
}

/// The result of a batch.
#[derive(Debug, Default)]
pub(super) struct Settled {
    /// Whether anything was committed.
    pub(super) committed: bool,
    pub(super) rejected: Vec<(Position, Rejection)>,
}

#[derive(Debug, Default)]
pub(super) struct AppendQueue {
    state: Mutex<QueueState>,
    /// Notifies the writer.
    wake: Condvar,
    /// The last settled position; all positions before it are settled, too.
    settled: AtomicU64,
    rejections: Mutex<Rejections>,
    any_rejected: AtomicBool,
    commits: AtomicU64,
    awaited_commits: AtomicU64,
    commit_seconds: MetricHistogram<{ SECONDS.len() }>,
    commit_appends: MetricHistogram<{ SIZES.len() }>,
}

#[derive(Debug, Default)]
struct QueueState {
    last: Position,
    appends: Vec<Queued>,
    records_only: Vec<QueuedRecords>,
    waiters: Vec<Waiter>,
    changes: Vec<QueuedChange>,
    webhooks: Vec<QueuedWebhook>,
    removals: Vec<QueuedRemoval>,
    maintenance: Vec<QueuedMaintenance>,
    wake_on: WakeOn,
    /// Why further appends are rejected.
    stopped: Option<Rejection>,
}

impl QueueState {
    /// Whether anything but appends and records is queued.
    fn has_requests(&self) -> bool {
        let has_changes = !(self.changes.is_empty() && self.webhooks.is_empty());
        has_changes || !(self.removals.is_empty() && self.maintenance.is_empty())
    }
}

#[derive(Debug)]
struct Waiter {
    position: Position,
    settled: oneshot::Sender<()>,
}

/// The condition on which the writer wants to be notified.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum WakeOn {
    /// It is working and will look at the queue by itself.
    #[default]
    Busy,
    AnyAppend,
    Waiters(usize),
}

impl AppendQueue {
    /// Queues an append.
    pub(super) fn push(&self, mut append: Queued) -> Result<Position, StoreError> {
        let mut state = self.lock();
        if let Some(reason) = &state.stopped {
            return Err(reason.clone().into());
        }
        state.last.0 += 1;
        append.position = state.last;
        let position = state.last;
        state.appends.push(append);
        let wanted = state.wake_on == WakeOn::AnyAppend;
        self.wake_if(wanted, state);
        Ok(position)
    }

    /// Queues audit records without an append.
    pub(super) fn push_records(&self, mut records: QueuedRecords) -> Result<Position, StoreError> {
        let mut state = self.lock();
        if let Some(reason) = &state.stopped {
            return Err(reason.clone().into());
        }
        state.last.0 += 1;
        let position = state.last;
        records.position = position;
        state.records_only.push(records);
        let wanted = state.wake_on == WakeOn::AnyAppend;
        self.wake_if(wanted, state);
        Ok(position)
    }

    /// Waits until `position` is settled.
    pub(super) async fn settled(&self, position: Position) -> Result<(), StoreError> {
        if let Some(settled) = self.wait_for(position) {
            // The sender is dropped only when everything has been settled, one way or the other.
            let _ = settled.await;
        }
        Ok(self.outcome(position)?)
    }

    /// Deletes, ordered behind all earlier appends.
    pub(super) async fn remove(&self, removal: Removal, now: Timestamp) -> Result<usize, StoreError> {
        let (done, removed) = oneshot::channel();
        self.request(|state| state.removals.push(QueuedRemoval { removal, now, done }))?;
        // The writer answers as long as it runs, and the queue does not close before it has answered.
        Ok(removed.await.unwrap_or(Err(Rejection::Fenced))?)
    }

    /// Changes a resource, ordered behind all earlier appends.
    pub(super) async fn change_resource(&self, change: ResourceChange) -> Result<(), StoreError> {
        let (done, changed) = oneshot::channel();
        self.request(|state| state.changes.push(QueuedChange { change, done }))?;
        Ok(changed.await.unwrap_or(Err(Rejection::Fenced))?)
    }

    /// Changes a webhook, ordered behind all earlier appends; false if there was nothing to change.
    pub(super) async fn change_webhook(&self, change: WebhookChange) -> Result<bool, StoreError> {
        let (done, changed) = oneshot::channel();
        self.request(|state| state.webhooks.push(QueuedWebhook { change, done }))?;
        Ok(changed.await.unwrap_or(Err(Rejection::Fenced))?)
    }

    /// Runs a maintenance task on the audit log, ordered behind all earlier appends; false if it cannot be done.
    pub(super) async fn maintain(&self, task: Maintenance) -> Result<bool, StoreError> {
        let (done, maintained) = oneshot::channel();
        self.request(|state| state.maintenance.push(QueuedMaintenance { task, done }))?;
        Ok(maintained.await.unwrap_or(Err(Rejection::Fenced))?)
    }

    /// Queues anything but appends and records.
    fn request(&self, push: impl FnOnce(&mut QueueState)) -> Result<(), StoreError> {
        let mut state = self.lock();
        if let Some(reason) = &state.stopped {
            return Err(reason.clone().into());
        }
        push(&mut state);
        let wanted = state.wake_on != WakeOn::Busy;
        self.wake_if(wanted, state);
        Ok(())
    }

    /// `None` if `position` is already settled.
    fn wait_for(&self, position: Position) -> Option<oneshot::Receiver<()>> {
        if self.is_settled(position) {
            return None;
        }
        let mut state = self.lock();
        // A position that was never assigned waits no longer than the last one that was.
        let position = position.min(state.last);
        // Checked again under the lock that is held while positions are settled.
        if self.is_settled(position) {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        state.waiters.push(Waiter { position, settled: sender });
        let wanted = matches!(state.wake_on, WakeOn::Waiters(enough) if state.waiters.len() >= enough);
        self.wake_if(wanted, state);
        Some(receiver)
    }

    /// Notifies the writer at most once until it looks at the queue again.
    fn wake_if(&self, wanted: bool, mut state: MutexGuard<'_, QueueState>) {
        if wanted {
            state.wake_on = WakeOn::Busy;
            drop(state);
            self.wake.notify_one();
        }
    }

    fn is_settled(&self, position: Position) -> bool {
        position.0 <= self.settled.load(Ordering::Acquire)
    }

    /// Whether the append at `position` was rejected, if that is already known.
    pub(super) fn outcome(&self, position: Position) -> Result<(), Rejection> {
        if self.any_rejected.load(Ordering::Acquire) { self.rejections().check(position) } else { Ok(()) }
    }

    pub(super) fn last(&self) -> Position {
        self.lock().last
    }

    pub(super) fn stats(&self) -> StoreStats {
        StoreStats {
            // Positions are assigned one by one.
            appends: self.lock().last.0,
            commits: self.commits.load(Ordering::Relaxed),
            awaited_commits: self.awaited_commits.load(Ordering::Relaxed),
        }
    }

    pub(super) fn commit_figures(&self) -> CommitFigures {
        CommitFigures { seconds: self.commit_seconds.counts(&SECONDS), appends: self.commit_appends.counts(&SIZES) }
    }

    /// Called by the writer after a commit.
    #[expect(clippy::cast_precision_loss, reason = "a batch has far fewer than 2^52 appends")]
    pub(super) fn record_commit(&self, took: Duration, appends: usize) {
        self.commit_seconds.observe(took.as_secs_f64(), &SECONDS);
        self.commit_appends.observe(appends as f64, &SIZES);
    }

    /// Rejects further appends. What is already queued is still processed by the writer.
    pub(super) fn stop(&self, reason: Rejection) {
        self.lock().stopped.get_or_insert(reason);
        self.wake.notify_one();
    }

    /// Called by the writer: sleeps until there is something to commit, and takes all of it. `None` when the queue has
    /// been stopped and is empty.
    pub(super) fn next_batch(&self, wait: Option<BatchWait>) -> Option<Batch> {
        let mut state = self.lock();
        let mut quiet = 0;
        while state.waiters.is_empty() && !state.has_requests() && state.stopped.is_none() {
            if quiet == LINGER {
                state.wake_on = WakeOn::AnyAppend;
                state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
                quiet = 0;
                continue;
            }
            state.wake_on = WakeOn::Waiters(1);
            let (woken, waited) = self.wake.wait_timeout(state, UNAWAITED).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            if waited.timed_out() && !(state.appends.is_empty() && state.records_only.is_empty()) {
                break;
            }
            quiet += 1;
        }
        if let Some(wait) = wait {
            state = self.wait_for_batch(state, wait);
        }
        state.wake_on = WakeOn::Busy;
        let batch = Batch {
            appends: std::mem::take(&mut state.appends),
            records_only: std::mem::take(&mut state.records_only),
            changes: std::mem::take(&mut state.changes),
            webhooks: std::mem::take(&mut state.webhooks),
            removals: std::mem::take(&mut state.removals),
            maintenance: std::mem::take(&mut state.maintenance),
        };
        if batch.is_empty() && state.stopped.is_some() { None } else { Some(batch) }
    }

    fn wait_for_batch<'a>(
        &'a self,
        mut state: MutexGuard<'a, QueueState>,
        BatchWait { waiters: enough, at_most, lull }: BatchWait,
    ) -> MutexGuard<'a, QueueState> {
        let until = Instant::now() + at_most;
        state.wake_on = WakeOn::Waiters(enough);
        while !state.waiters.is_empty() && state.waiters.len() < enough && state.stopped.is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let present = state.waiters.len();
            (state, _) = self.wake.wait_timeout(state, left.min(lull)).unwrap_or_else(PoisonError::into_inner);
            if state.waiters.len() == present {
                break;
            }
        }
        state
    }

    /// Called by the writer: settles everything up to `position` and returns the number of waiters that it notified.
    pub(super) fn settle(&self, position: Position, settled: Settled) -> usize {
        if !settled.rejected.is_empty() {
            let mut rejections = self.rejections();
            for (position, rejection) in settled.rejected {
                rejections.record(position, rejection);
            }
            self.any_rejected.store(true, Ordering::Release);
        }
        let mut state = self.lock();
        let waiters = std::mem::take(&mut state.waiters);
        let (served, waiting): (Vec<_>, Vec<_>) = waiters.into_iter().partition(|waiter| waiter.position <= position);
        state.waiters = waiting;
        if settled.committed {
            self.commits.fetch_add(1, Ordering::Relaxed);
            self.awaited_commits.fetch_add(u64::from(!served.is_empty()), Ordering::Relaxed);
        }
        // Stored last: a caller that sees the position settled also sees the commit counted.
        self.settled.store(position.0, Ordering::Release);
        drop(state);
        let count = served.len();
        for waiter in served {
            // A send fails only if the caller has stopped waiting.
            let _ = waiter.settled.send(());
        }
        count
    }

    /// Called by the writer when it can commit no more: rejects everything that is queued, so that no caller waits
    /// forever.
    pub(super) fn abandon(&self, reason: &Rejection) {
        self.stop(reason.clone());
        while let Some(batch) = self.next_batch(None) {
            self.reject(&batch, reason);
            batch.refuse_rest(reason);
        }
    }

    /// Called by the writer: rejects the appends and records of `batch`, which were not committed, or whose commit is in
    /// doubt.
    pub(super) fn reject(&self, batch: &Batch, reason: &Rejection) {
        let positions = batch.appends.iter().map(|append| append.position);
        let mut positions: Vec<_> = positions.chain(batch.records_only.iter().map(|record| record.position)).collect();
        positions.sort_unstable();
        let rejected = positions.into_iter().map(|position| (position, reason.clone())).collect();
        if let Some(last) = batch.last() {
            self.settle(last, Settled { committed: false, rejected });
        }
    }

    fn rejections(&self) -> MutexGuard<'_, Rejections> {
        self.rejections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
