//! The writer thread.
//!
//! It takes everything that is queued, commits it as one batch, notifies the waiters, and checkpoints the WAL. Waiters
//! are notified of every failure: a batch that fails, or that makes the writer panic, is rejected as a whole, and the
//! next one begins on a fresh connection.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

use bosun_core::Timestamp;
use bosun_engine::{
    resource::ResourceChange,
    store::{Rejection, Removal, WebhookChange},
};

use super::{
    append_queue::{
        AppendQueue, BatchWait, Queued, QueuedChange, QueuedMaintenance, QueuedRecords, QueuedRemoval, QueuedWebhook,
        Settled,
    },
    audit::Maintenance,
};

/// What batches are committed to.
pub(super) trait CommitTarget {
    /// Commits the appends of a batch that can be accepted, and its records with them. The queue knows earlier
    /// rejections.
    ///
    /// # Errors
    /// If nothing of it was committed, or it is not known whether it was.
    fn commit(
        &mut self,
        appends: &[Queued],
        records: &[QueuedRecords],
        queue: &AppendQueue,
    ) -> Result<Settled, Rejection>;

    /// Deletes, and returns the number of deleted queries.
    ///
    /// # Errors
    /// If nothing was deleted, or it is not known whether it was.
    fn remove(&mut self, removal: &Removal, now: Timestamp) -> Result<usize, Rejection>;

    /// Stores or removes a resource.
    ///
    /// # Errors
    /// If nothing was changed, or it is not known whether it was.
    fn change_resource(&mut self, change: &ResourceChange) -> Result<(), Rejection>;

    /// Changes a webhook; false if there was nothing to change.
    ///
    /// # Errors
    /// If nothing was changed, or it is not known whether it was.
    fn change_webhook(&mut self, change: &WebhookChange) -> Result<bool, Rejection>;

    /// Runs a maintenance task on the audit log; false if it cannot be done.
    ///
    /// # Errors
    /// If nothing was changed, or it is not known whether it was.
    fn maintain(&mut self, task: &Maintenance) -> Result<bool, Rejection>;

    /// Called when no caller is waiting for the last commit any more.
    fn checkpoint(&mut self);
}

#[derive(Debug, thiserror::Error)]
#[error("the store's writer crashed")]
struct WriterCrashed;

/// Writes until the queue is stopped.
pub(super) fn run(queue: &AppendQueue, target: &mut impl CommitTarget) {
    let mut pace = BatchPacing::default();
    let mut failing = false;
    while let Some(batch) = queue.next_batch(pace.wait()) {
        if let Some(last) = batch.last() {
            let began = Instant::now();
            match guarded(|| target.commit(&batch.appends, &batch.records_only, queue)).flatten() {
                Ok(settled) => {
                    if settled.committed {
                        queue.record_commit(began.elapsed(), batch.appends.len() + batch.records_only.len());
                    }
                    let served = queue.settle(last, settled);
                    pace.observe(served, began.elapsed());
                    if std::mem::take(&mut failing) {
                        tracing::info!("the store can be written to again");
                    }
                }
                Err(reason) => {
                    let fenced = matches!(reason, Rejection::Fenced);
                    // Logged once; the waiters are notified each time.
                    if !std::mem::replace(&mut failing, true) {
                        report(&reason);
                    }
                    if fenced {
                        // First, so that notified callers can rely on it.
                        queue.stop(reason.clone());
                    }
                    queue.reject(&batch, &reason);
                    if fenced {
                        batch.refuse_rest(&reason);
                        return queue.abandon(&reason);
                    }
                }
            }
        }
        for QueuedChange { change, done } in batch.changes {
            // The send fails only if the caller has stopped waiting.
            let _ = done.send(guarded(|| target.change_resource(&change)).flatten());
        }
        for QueuedWebhook { change, done } in batch.webhooks {
            // The send fails only if the caller has stopped waiting.
            let _ = done.send(guarded(|| target.change_webhook(&change)).flatten());
        }
        for QueuedRemoval { removal, now, done } in batch.removals {
            // The send fails only if the caller has stopped waiting.
            let _ = done.send(guarded(|| target.remove(&removal, now)).flatten());
        }
        for QueuedMaintenance { task, done } in batch.maintenance {
            // The send fails only if the caller has stopped waiting.
            let _ = done.send(guarded(|| target.maintain(&task)).flatten());
        }
        if guarded(|| target.checkpoint()).is_err() {
            tracing::error!("checkpointing the store's log crashed");
        }
    }
}

fn report(reason: &Rejection) {
    match reason {
        Rejection::Fenced => tracing::error!("the store was taken over by another process; nothing more is written"),
        Rejection::Unavailable(cause) => tracing::error!(error = %cause, "the store cannot be written to"),
        Rejection::Conflict(_) | Rejection::NameTaken(_) | Rejection::RequestTaken | Rejection::ConversationBusy(_) => {
        }
    }
}

/// Turns a panic into a rejection, so that the thread continues. A commit that did not end leaves nothing behind.
fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, Rejection> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| Rejection::Unavailable(Arc::new(WriterCrashed)))
}

/// How long to wait for a batch to fill up before a commit.
///
/// A commit that had many waiters will be followed by as many appends, since the notified callers come back; beginning
/// at once would split them over several half-empty commits. So the writer waits, but never longer than a commit takes,
/// never for a single client, and not when no caller has arrived for a while: then the others are not about to come
/// back either, and the writer would idle next to idle cores.
#[derive(Debug, Default)]
struct BatchPacing {
    served: usize,
    took: Duration,
}

/// No caller waits longer than this for a batch to fill up.
const LONGEST_WAIT: Duration = Duration::from_millis(1);
/// When no caller has arrived for this long, the batch is committed.
const LULL: Duration = Duration::from_micros(200);

impl BatchPacing {
    fn observe(&mut self, served: usize, took: Duration) {
        self.served = served;
        self.took = (self.took * 7 + took) / 8;
    }

    fn wait(&self) -> Option<BatchWait> {
        let at_most = self.took.min(LONGEST_WAIT);
        (self.served > 1).then_some(BatchWait { waiters: self.served, at_most, lull: LULL })
    }
}
