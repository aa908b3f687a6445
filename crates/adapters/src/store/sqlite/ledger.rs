//! Where those who append and the one who writes meet.
//!
//! Callers put appends into one queue and get positions; the writer takes the whole queue as a group,
//! and says up to which position everything is settled: committed, or rejected for a reason. There is
//! no SQL here. A caller's side never blocks for longer than a push; the writer's side sleeps when
//! there is nothing to do, and is woken no more often than it has to be.

use std::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bosun_core::{ContentHash, Head, Namespace, Seq, Timestamp, audit::Record};
use bosun_engine::{
    metrics::{Histogram, SECONDS, SIZES},
    resource::ResourceChange,
    store::{
        Append, CommitFigures, Document, Encoded, Position, Rejection, Rejections, Removal, Request, StoreError,
        StoreStats,
        conversations::{Joining, Part},
    },
};
use tokio::sync::oneshot;

use super::{
    audit::{Chore, Lines},
    conversations::QueuedExchange,
};

/// How long an append that nobody waits for may stay uncommitted.
const UNAWAITED: Duration = Duration::from_millis(2);
/// For how many of those spans the writer looks by itself after work has ceased, before it sleeps
/// until it is called. An append then costs no system call while there is traffic.
const LINGER: u32 = 25;

/// An append as the writer wants it: the entries are text already, made by those who append, who are many.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) position: Position,
    pub(super) head: Arc<Head>,
    pub(super) seen: Seq,
    pub(super) after: Position,
    pub(super) is_whole: bool,
    pub(super) moves: bool,
    pub(super) rows: Vec<Row>,
    pub(super) toolset: Option<Document>,
    pub(super) request: Option<Request>,
    /// What the entries refer to.
    pub(super) blobs: Vec<ContentHash>,
    /// What the audit log says of them.
    pub(super) lines: Lines,
    pub(super) joins: Option<Joining>,
    pub(super) adds: Option<QueuedExchange>,
}

/// Records that no append brings.
#[derive(Debug)]
pub(super) struct Note {
    pub(super) position: Position,
    pub(super) namespace: Namespace,
    pub(super) lines: Lines,
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

impl Note {
    pub(super) fn new(namespace: &Namespace, records: &[Record], audited: bool) -> Result<Self, StoreError> {
        let lines = Lines::of(records, audited).map_err(unwritable)?;
        Ok(Self { position: Position::default(), namespace: namespace.clone(), lines })
    }
}

impl Queued {
    pub(super) fn new(append: Append, audited: bool) -> Result<Self, StoreError> {
        let (is_whole, moves) = (append.is_whole(), append.moves());
        let blobs = append.entries.iter().filter_map(|entry| Some(entry.event.large()?.hash)).collect();
        let row = |Encoded { entry, body }| Row { seq: entry.seq, at: entry.at, body };
        let rows = append.entries.into_iter().map(row).collect();
        let (joins, adds) = match append.conversation {
            Some(Part::Joins(joining)) => (Some(joining), None),
            Some(Part::Adds(exchange)) => (None, Some(QueuedExchange::new(exchange).map_err(unwritable)?)),
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
            lines: Lines::of(&append.records, audited).map_err(unwritable)?,
            joins,
            adds,
        })
    }
}

/// Something to delete, and whoever waits for that.
#[derive(Debug)]
pub(super) struct Doomed {
    pub(super) removal: Removal,
    pub(super) now: Timestamp,
    pub(super) done: oneshot::Sender<Result<usize, Rejection>>,
}

/// A change of a resource, and whoever waits for that.
#[derive(Debug)]
pub(super) struct Changing {
    pub(super) change: ResourceChange,
    pub(super) done: oneshot::Sender<Result<(), Rejection>>,
}

/// Something to look after, and whoever waits for that.
#[derive(Debug)]
pub(super) struct Tending {
    pub(super) chore: Chore,
    pub(super) done: oneshot::Sender<Result<bool, Rejection>>,
}

/// What the writer has to do: first to add, then to change resources, then to delete, then to look after the log.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub(super) group: Vec<Queued>,
    pub(super) notes: Vec<Note>,
    pub(super) changing: Vec<Changing>,
    pub(super) doomed: Vec<Doomed>,
    pub(super) tending: Vec<Tending>,
}

impl Work {
    /// Tells everybody who waits for anything but the group why it was not done.
    pub(super) fn refuse_rest(self, reason: &Rejection) {
        // Nobody may be there any more.
        self.changing.into_iter().for_each(|Changing { done, .. }| drop(done.send(Err(reason.clone()))));
        self.doomed.into_iter().for_each(|Doomed { done, .. }| drop(done.send(Err(reason.clone()))));
        self.tending.into_iter().for_each(|Tending { done, .. }| drop(done.send(Err(reason.clone()))));
    }

    fn is_nothing(&self) -> bool {
        let is_nothing_to_add = self.group.is_empty() && self.notes.is_empty();
        is_nothing_to_add && self.changing.is_empty() && self.doomed.is_empty() && self.tending.is_empty()
    }

    /// The last position that it decides about.
    pub(super) fn last(&self) -> Option<Position> {
        let appended = self.group.last().map(|append| append.position);
        appended.max(self.notes.last().map(|note| note.position))
    }
}

/// When the writer should go on waiting for company: until so many wait, so much time is over, or nobody has come
/// for a while.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gather {
    pub(super) waiters: usize,
    pub(super) at_most: Duration,
    pub(super) lull: Duration,
}

/// What became of a group.
#[derive(Debug, Default)]
pub(super) struct Settled {
    /// Whether anything was written to the disk.
    pub(super) committed: bool,
    pub(super) rejected: Vec<(Position, Rejection)>,
}

#[derive(Debug, Default)]
pub(super) struct Ledger {
    book: Mutex<Book>,
    /// Calls the writer.
    work: Condvar,
    /// The last position of which the fate is known; those before it are, too.
    settled: AtomicU64,
    rejections: Mutex<Rejections>,
    any_rejected: AtomicBool,
    commits: AtomicU64,
    awaited_commits: AtomicU64,
    commit_seconds: Histogram<{ SECONDS.len() }>,
    commit_appends: Histogram<{ SIZES.len() }>,
}

#[derive(Debug, Default)]
struct Book {
    last: Position,
    queue: Vec<Queued>,
    notes: Vec<Note>,
    waiters: Vec<Waiter>,
    changing: Vec<Changing>,
    doomed: Vec<Doomed>,
    tending: Vec<Tending>,
    writer: Writer,
    /// Why nothing more is taken.
    stopped: Option<Rejection>,
}

impl Book {
    /// Whether the writer is asked for something that is no append.
    fn is_asked(&self) -> bool {
        !(self.changing.is_empty() && self.doomed.is_empty() && self.tending.is_empty())
    }
}

#[derive(Debug)]
struct Waiter {
    position: Position,
    settled: oneshot::Sender<()>,
}

/// What the writer wants to be called for.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Writer {
    /// It is at work and will look by itself.
    #[default]
    Busy,
    AnyAppend,
    Waiters(usize),
}

impl Ledger {
    /// Puts an append into the queue.
    pub(super) fn push(&self, mut append: Queued) -> Result<Position, StoreError> {
        let mut book = self.book();
        if let Some(reason) = &book.stopped {
            return Err(reason.clone().into());
        }
        book.last.0 += 1;
        append.position = book.last;
        let position = book.last;
        book.queue.push(append);
        let wanted = book.writer == Writer::AnyAppend;
        self.call_if(wanted, book);
        Ok(position)
    }

    /// Puts records into the queue.
    pub(super) fn note(&self, mut note: Note) -> Result<Position, StoreError> {
        let mut book = self.book();
        if let Some(reason) = &book.stopped {
            return Err(reason.clone().into());
        }
        book.last.0 += 1;
        let position = book.last;
        note.position = position;
        book.notes.push(note);
        let wanted = book.writer == Writer::AnyAppend;
        self.call_if(wanted, book);
        Ok(position)
    }

    /// Waits until the fate of `position` is known.
    pub(super) async fn settled(&self, position: Position) -> Result<(), StoreError> {
        if let Some(settled) = self.wait_for(position) {
            // The sender is dropped only when everything has been settled, one way or the other.
            let _ = settled.await;
        }
        Ok(self.fate(position)?)
    }

    /// Deletes, behind everything that was appended before.
    pub(super) async fn remove(&self, removal: Removal, now: Timestamp) -> Result<usize, StoreError> {
        let (done, removed) = oneshot::channel();
        self.ask(|book| book.doomed.push(Doomed { removal, now, done }))?;
        // The writer answers as long as it lives, and is not let go before it has.
        Ok(removed.await.unwrap_or(Err(Rejection::Fenced))?)
    }

    /// Changes a resource, behind everything that was appended before.
    pub(super) async fn change_resource(&self, change: ResourceChange) -> Result<(), StoreError> {
        let (done, changed) = oneshot::channel();
        self.ask(|book| book.changing.push(Changing { change, done }))?;
        Ok(changed.await.unwrap_or(Err(Rejection::Fenced))?)
    }

    /// Looks after the log, behind everything that was appended before; false if it cannot be done.
    pub(super) async fn tend(&self, chore: Chore) -> Result<bool, StoreError> {
        let (done, tended) = oneshot::channel();
        self.ask(|book| book.tending.push(Tending { chore, done }))?;
        Ok(tended.await.unwrap_or(Err(Rejection::Fenced))?)
    }

    /// Asks the writer for something that is no append.
    fn ask(&self, ask: impl FnOnce(&mut Book)) -> Result<(), StoreError> {
        let mut book = self.book();
        if let Some(reason) = &book.stopped {
            return Err(reason.clone().into());
        }
        ask(&mut book);
        let wanted = book.writer != Writer::Busy;
        self.call_if(wanted, book);
        Ok(())
    }

    /// `None` if the fate of `position` is known already.
    fn wait_for(&self, position: Position) -> Option<oneshot::Receiver<()>> {
        if self.is_settled(position) {
            return None;
        }
        let mut book = self.book();
        // A position that was never given out is waited for no longer than those that were.
        let position = position.min(book.last);
        // Again, with the lock that is held when positions are settled.
        if self.is_settled(position) {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        book.waiters.push(Waiter { position, settled: sender });
        let wanted = matches!(book.writer, Writer::Waiters(enough) if book.waiters.len() >= enough);
        self.call_if(wanted, book);
        Some(receiver)
    }

    /// Calls the writer, once: until it looks, nobody else needs to.
    fn call_if(&self, wanted: bool, mut book: MutexGuard<'_, Book>) {
        if wanted {
            book.writer = Writer::Busy;
            drop(book);
            self.work.notify_one();
        }
    }

    fn is_settled(&self, position: Position) -> bool {
        position.0 <= self.settled.load(Ordering::Acquire)
    }

    /// Whether the append at `position` was kept, if that is known.
    pub(super) fn fate(&self, position: Position) -> Result<(), Rejection> {
        if self.any_rejected.load(Ordering::Acquire) { self.rejections().check(position) } else { Ok(()) }
    }

    pub(super) fn last(&self) -> Position {
        self.book().last
    }

    pub(super) fn stats(&self) -> StoreStats {
        StoreStats {
            // Positions are given out one by one.
            appends: self.book().last.0,
            commits: self.commits.load(Ordering::Relaxed),
            awaited_commits: self.awaited_commits.load(Ordering::Relaxed),
        }
    }

    pub(super) fn commit_figures(&self) -> CommitFigures {
        CommitFigures { seconds: self.commit_seconds.counts(&SECONDS), appends: self.commit_appends.counts(&SIZES) }
    }

    /// The writer's: a commit was made.
    #[expect(clippy::cast_precision_loss, reason = "a group is far smaller than 2^52")]
    pub(super) fn note_commit(&self, took: Duration, appends: usize) {
        self.commit_seconds.observe(took.as_secs_f64(), &SECONDS);
        self.commit_appends.observe(appends as f64, &SIZES);
    }

    /// Takes nothing more. What is in the queue is still the writer's.
    pub(super) fn stop(&self, reason: Rejection) {
        self.book().stopped.get_or_insert(reason);
        self.work.notify_one();
    }

    /// The writer's: sleeps until there is something to commit, and takes all of it. `None` when the
    /// ledger has stopped and nothing is left.
    pub(super) fn next_work(&self, gather: Option<Gather>) -> Option<Work> {
        let mut book = self.book();
        let mut quiet = 0;
        while book.waiters.is_empty() && !book.is_asked() && book.stopped.is_none() {
            if quiet == LINGER {
                book.writer = Writer::AnyAppend;
                book = self.work.wait(book).unwrap_or_else(PoisonError::into_inner);
                quiet = 0;
                continue;
            }
            book.writer = Writer::Waiters(1);
            let (woken, waited) = self.work.wait_timeout(book, UNAWAITED).unwrap_or_else(PoisonError::into_inner);
            book = woken;
            if waited.timed_out() && !(book.queue.is_empty() && book.notes.is_empty()) {
                break;
            }
            quiet += 1;
        }
        if let Some(gather) = gather {
            book = self.wait_for_company(book, gather);
        }
        book.writer = Writer::Busy;
        let work = Work {
            group: std::mem::take(&mut book.queue),
            notes: std::mem::take(&mut book.notes),
            changing: std::mem::take(&mut book.changing),
            doomed: std::mem::take(&mut book.doomed),
            tending: std::mem::take(&mut book.tending),
        };
        if work.is_nothing() && book.stopped.is_some() { None } else { Some(work) }
    }

    fn wait_for_company<'a>(
        &'a self,
        mut book: MutexGuard<'a, Book>,
        Gather { waiters: enough, at_most, lull }: Gather,
    ) -> MutexGuard<'a, Book> {
        let until = Instant::now() + at_most;
        book.writer = Writer::Waiters(enough);
        while !book.waiters.is_empty() && book.waiters.len() < enough && book.stopped.is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let present = book.waiters.len();
            (book, _) = self.work.wait_timeout(book, left.min(lull)).unwrap_or_else(PoisonError::into_inner);
            if book.waiters.len() == present {
                break;
            }
        }
        book
    }

    /// The writer's: the fate of everything up to `position` is known. Says how many waited for it.
    pub(super) fn settle(&self, position: Position, settled: Settled) -> usize {
        if !settled.rejected.is_empty() {
            let mut rejections = self.rejections();
            for (position, rejection) in settled.rejected {
                rejections.record(position, rejection);
            }
            self.any_rejected.store(true, Ordering::Release);
        }
        let mut book = self.book();
        let waiters = std::mem::take(&mut book.waiters);
        let (served, waiting): (Vec<_>, Vec<_>) = waiters.into_iter().partition(|waiter| waiter.position <= position);
        book.waiters = waiting;
        if settled.committed {
            self.commits.fetch_add(1, Ordering::Relaxed);
            self.awaited_commits.fetch_add(u64::from(!served.is_empty()), Ordering::Relaxed);
        }
        // Last: whoever finds the position settled finds the commit counted.
        self.settled.store(position.0, Ordering::Release);
        drop(book);
        let count = served.len();
        for waiter in served {
            // Nobody may be there any more.
            let _ = waiter.settled.send(());
        }
        count
    }

    /// The writer's: it can commit no more. Nobody is left waiting.
    pub(super) fn abandon(&self, reason: &Rejection) {
        self.stop(reason.clone());
        while let Some(work) = self.next_work(None) {
            self.reject(&work, reason);
            work.refuse_rest(reason);
        }
    }

    /// The writer's: nothing of `work` was kept, or whether it was is not known.
    pub(super) fn reject(&self, work: &Work, reason: &Rejection) {
        let positions = work.group.iter().map(|append| append.position);
        let mut positions: Vec<_> = positions.chain(work.notes.iter().map(|note| note.position)).collect();
        positions.sort_unstable();
        let rejected = positions.into_iter().map(|position| (position, reason.clone())).collect();
        if let Some(last) = work.last() {
            self.settle(last, Settled { committed: false, rejected });
        }
    }

    fn rejections(&self) -> MutexGuard<'_, Rejections> {
        self.rejections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
