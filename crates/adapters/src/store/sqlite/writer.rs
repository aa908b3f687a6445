//! The thread that writes.
//!
//! It takes everything that has queued up, commits it as one group, tells those who wait, and looks
//! after the log. Whatever goes wrong, those who wait are told: a group that fails, or that makes the
//! writer panic, is rejected as a whole, and the next one begins on a fresh connection.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

use bosun_core::Timestamp;
use bosun_engine::{
    resource::ResourceChange,
    store::{Rejection, Removal},
};

use super::{
    audit::Chore,
    ledger::{Changing, Doomed, Gather, Ledger, Note, Queued, Settled, Tending},
};

/// What groups are committed to.
pub(super) trait Disk {
    /// Commits what can be kept of a group, and the notes with it. The ledger knows what was rejected before.
    ///
    /// # Errors
    /// If nothing of it was kept, or nobody knows.
    fn commit(&mut self, group: &[Queued], notes: &[Note], ledger: &Ledger) -> Result<Settled, Rejection>;

    /// Deletes, and says how many queries that were.
    ///
    /// # Errors
    /// If nothing was deleted, or nobody knows.
    fn remove(&mut self, removal: &Removal, now: Timestamp) -> Result<usize, Rejection>;

    /// Keeps or removes a resource.
    ///
    /// # Errors
    /// If nothing was changed, or nobody knows.
    fn change_resource(&mut self, change: &ResourceChange) -> Result<(), Rejection>;

    /// Looks after the audit log; false if that cannot be done.
    ///
    /// # Errors
    /// If nothing was changed, or nobody knows.
    fn tend(&mut self, chore: &Chore) -> Result<bool, Rejection>;

    /// Called when nobody is waiting for the last commit any more.
    fn tidy(&mut self);
}

#[derive(Debug, thiserror::Error)]
#[error("the store's writer crashed")]
struct Crashed;

/// Writes until the ledger stops.
pub(super) fn run(ledger: &Ledger, disk: &mut impl Disk) {
    let mut pace = Pace::default();
    let mut failing = false;
    while let Some(work) = ledger.next_work(pace.gather()) {
        if let Some(last) = work.last() {
            let began = Instant::now();
            match guarded(|| disk.commit(&work.group, &work.notes, ledger)).flatten() {
                Ok(settled) => {
                    if settled.committed {
                        ledger.note_commit(began.elapsed(), work.group.len() + work.notes.len());
                    }
                    let served = ledger.settle(last, settled);
                    pace.note(served, began.elapsed());
                    if std::mem::take(&mut failing) {
                        tracing::info!("the store can be written to again");
                    }
                }
                Err(reason) => {
                    let fenced = matches!(reason, Rejection::Fenced);
                    // Said once: those who wait are told each time.
                    if !std::mem::replace(&mut failing, true) {
                        report(&reason);
                    }
                    if fenced {
                        // First, so that whoever is told can rely on it.
                        ledger.stop(reason.clone());
                    }
                    ledger.reject(&work, &reason);
                    if fenced {
                        work.refuse_rest(&reason);
                        return ledger.abandon(&reason);
                    }
                }
            }
        }
        for Changing { change, done } in work.changing {
            // Nobody may be there any more.
            let _ = done.send(guarded(|| disk.change_resource(&change)).flatten());
        }
        for Doomed { removal, now, done } in work.doomed {
            // Nobody may be there any more.
            let _ = done.send(guarded(|| disk.remove(&removal, now)).flatten());
        }
        for Tending { chore, done } in work.tending {
            // Nobody may be there any more.
            let _ = done.send(guarded(|| disk.tend(&chore)).flatten());
        }
        if guarded(|| disk.tidy()).is_err() {
            tracing::error!("looking after the log crashed");
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

/// A panic ends what it interrupted, not the thread. The disk keeps nothing of a commit that did not end.
fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, Rejection> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| Rejection::Unavailable(Arc::new(Crashed)))
}

/// How long to wait for company before a commit.
///
/// A commit that served many will be followed by as many, since those who were served come back; to
/// begin at once would give each of them a half-empty commit of its own. So the writer waits, but
/// never longer than a commit takes, never for a single client, and not when nobody has come for a
/// while: the others are not back soon then, and the writer would be idle beside idle cores.
#[derive(Debug, Default)]
struct Pace {
    served: usize,
    took: Duration,
}

/// Nobody waits longer than this for company.
const LONGEST_GATHER: Duration = Duration::from_millis(1);
/// When nobody has come for so long, nobody is waited for.
const LULL: Duration = Duration::from_micros(200);

impl Pace {
    fn note(&mut self, served: usize, took: Duration) {
        self.served = served;
        self.took = (self.took * 7 + took) / 8;
    }

    fn gather(&self) -> Option<Gather> {
        let at_most = self.took.min(LONGEST_GATHER);
        (self.served > 1).then_some(Gather { waiters: self.served, at_most, lull: LULL })
    }
}
