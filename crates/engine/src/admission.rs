//! Who runs now, and who waits for a seat.
//!
//! At most so many queries run as there are seats. The others are rows of the store and nothing else:
//! no task, no memory but a count. Whoever finds a seat free and nobody before him starts at once;
//! otherwise [`Admission::run`] fetches the next ones from the store as seats become free, one of each
//! namespace in turn, oldest first, so that a busy namespace does not hold up a quiet one. What an
//! earlier process left comes in by the same door.

use std::{
    collections::{HashSet, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use bosun_core::Namespace;
use tokio::sync::Notify;

use crate::{
    StoreError,
    desk::Key,
    driver::{self, Found},
    engine::Inner,
    store::{Runnable, Wanted},
};

/// How many queries are fetched at a time: a fetch costs about as much as starting one of them.
const FETCHED: usize = 256;

pub(crate) struct Admission {
    seats: usize,
    max_queued: usize,
    room: Mutex<Room>,
    /// How many have been sent to the queue and not been called up. Some may have ended meanwhile, so
    /// it may be too high, and never is when the queue is found empty.
    queued: AtomicUsize,
    /// Somebody joined the queue, or left a seat while there is one.
    changed: Notify,
}

#[derive(Default)]
struct Room {
    taken: usize,
    /// Who is known to have a seat. A query may have two for a moment, when it goes on just as its last
    /// driver leaves; nothing rests on this list but that its members need not be fetched.
    seated: HashSet<Key>,
    /// Queries that this program cannot read; they keep their place in the store, and no seat.
    parked: HashSet<Key>,
}

/// The right to run one query; dropping it lets the next one in.
pub(crate) struct Seat {
    inner: Arc<Inner>,
    key: Key,
    /// Whether it is one of those that [`Admission`] has to give.
    counted: bool,
}

impl Admission {
    pub(crate) fn new(seats: usize, max_queued: usize) -> Self {
        Self { seats, max_queued, room: Mutex::default(), queued: AtomicUsize::new(0), changed: Notify::new() }
    }

    /// Whether so many wait already that no new query is taken on.
    pub(crate) fn is_full(&self) -> bool {
        self.queued() >= self.max_queued
    }

    /// How many wait for a seat, or a little more.
    pub(crate) fn queued(&self) -> usize {
        self.queued.load(Ordering::Acquire)
    }

    /// How many run.
    pub(crate) fn running(&self) -> usize {
        self.room().taken
    }

    /// A seat for a query that has just got work, if there is one and nobody waits for it; otherwise
    /// the query is in the queue from now on.
    pub(crate) fn enter(inner: &Arc<Inner>, key: &Key) -> Option<Seat> {
        let seat = Self::enter_at_once(inner, key);
        if seat.is_none() {
            inner.admission.join(1);
        }
        seat
    }

    /// A seat for a query that is just getting work, if there is one and nobody waits for it.
    pub(crate) fn enter_at_once(inner: &Arc<Inner>, key: &Key) -> Option<Seat> {
        if inner.admission.queued() == 0 { Self::take_seat(inner, key) } else { None }
    }

    /// So many more wait.
    pub(crate) fn join(&self, count: usize) {
        self.queued.fetch_add(count, Ordering::AcqRel);
        self.changed.notify_one();
    }

    /// This query cannot be run by this program; it is not called up again.
    pub(crate) fn park(&self, key: Key) {
        self.room().parked.insert(key);
    }

    pub(crate) fn is_parked(&self, key: &Key) -> bool {
        self.room().parked.contains(key)
    }

    /// There is another query of this name now.
    pub(crate) fn forget_parked(&self, key: &Key) {
        self.room().parked.remove(key);
    }

    fn take_seat(inner: &Arc<Inner>, key: &Key) -> Option<Seat> {
        let mut room = inner.admission.room();
        if room.taken == inner.admission.seats {
            return None;
        }
        room.taken += 1;
        room.seated.insert(key.clone());
        Some(Seat { inner: Arc::clone(inner), key: key.clone(), counted: true })
    }

    fn has_free_seat(&self) -> bool {
        self.room().taken < self.seats
    }

    fn leave(&self, count: usize) {
        let less = |queued: usize| Some(queued.saturating_sub(count));
        // The closure never refuses.
        let _ = self.queued.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
    }

    fn room(&self) -> MutexGuard<'_, Room> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls queries up until the engine drains.
    pub(crate) async fn run(inner: Arc<Inner>) {
        let admission = &inner.admission;
        let mut line = Line::default();
        loop {
            if (admission.queued() == 0 && line.next.is_empty()) || !admission.has_free_seat() {
                tokio::select! {
                    () = admission.changed.notified() => {}
                    () = inner.draining.cancelled() => return,
                }
                continue;
            }
            if inner.draining.is_cancelled() {
                return;
            }
            if let Err(error) = line.advance(&inner).await {
                tracing::warn!(error = %error, "the queries that wait for a seat cannot be read");
                tokio::time::sleep(driver::AFTER_STORE_FAILURE).await;
            }
        }
    }
}

/// The part of the queue that has been fetched.
#[derive(Default)]
struct Line {
    next: VecDeque<Runnable>,
    /// Whose turn it was last.
    last: Option<Namespace>,
}

impl Line {
    /// Seats as many as there is room for.
    async fn advance(&mut self, inner: &Arc<Inner>) -> Result<(), StoreError> {
        if self.next.is_empty() {
            self.fetch(inner).await?;
        }
        while let Some(Runnable { key, inherited }) = self.next.front() {
            let Some(seat) = Admission::take_seat(inner, key) else { return Ok(()) };
            let live = inner.desk.entry(key);
            if live.claim().await {
                let found = if *inherited { Found::Inherited } else { Found::Due };
                inner.tasks.spawn(driver::drive(live, seat, found, None));
            }
            inner.admission.leave(1);
            self.last = Some(key.0.clone());
            self.next.pop_front();
        }
        Ok(())
    }

    async fn fetch(&mut self, inner: &Inner) -> Result<(), StoreError> {
        let admission = &inner.admission;
        // Whoever joins from here on is looked for next time.
        let known = admission.queued();
        // A row that is still on its way to the disk is not found. That its commit failed is told to
        // those who made it.
        let _ = inner.store.durable(inner.store.last_position()).await;
        let except = {
            let room = admission.room();
            room.seated.union(&room.parked).cloned().collect()
        };
        let wanted = Wanted { except, after: self.last.clone(), limit: FETCHED };
        self.next = inner.store.runnable(wanted).await?.into();
        if self.next.is_empty() {
            admission.leave(known);
        }
        Ok(())
    }
}

impl Seat {
    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    /// Lets another query in. This one is still not fetched again, and may run: there is one such at a time.
    pub(crate) fn stop_counting(&mut self) {
        if std::mem::replace(&mut self.counted, false) {
            self.inner.admission.room().taken -= 1;
            self.inner.admission.changed.notify_one();
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let admission = &self.inner.admission;
        {
            let mut room = admission.room();
            room.taken -= usize::from(self.counted);
            room.seated.remove(&self.key);
        }
        if admission.queued() > 0 {
            admission.changed.notify_one();
        }
    }
}
