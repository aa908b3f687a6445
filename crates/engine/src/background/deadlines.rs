//! One timer for all deadlines of all queries.
//!
//! Deadlines are rows, not tasks: the timer sleeps until the smallest one, asks the store what is due and lets the
//! machine decide. Notifications in between are only hints, since the row may not be committed yet; it polls once a
//! second anyway. It may be late, never early, and being late is harmless: a late result is refused by comparing times,
//! not by the sweep.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use bosun_core::{Timestamp, machine};
use futures_util::{StreamExt as _, stream};
use tokio::sync::Notify;

use crate::{StoreError, background::clock_step::EXPIRES_AFTER, engine::Inner, queries::live::QueryKey};

/// How many overdue queries are expired at a time, each in an append of its own: the store commits them as a batch.
const BATCH: usize = 256;
/// The timer polls at least this often: a lost hint costs no more than that.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

pub(crate) struct Deadlines {
    /// The smallest deadline that the timer knows of.
    next: AtomicI64,
    sooner: Notify,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self { next: AtomicI64::new(i64::MAX), sooner: Notify::new() }
    }
}

impl Deadlines {
    /// Registers the deadline of a query.
    pub(crate) fn expect(&self, deadline: Timestamp) {
        if self.next.fetch_min(deadline.0, Ordering::AcqRel) > deadline.0 {
            self.sooner.notify_one();
        }
    }

    /// Runs until the engine drains.
    pub(crate) async fn watch(inner: Arc<Inner>) {
        loop {
            let pause = sweep(&inner).await.unwrap_or_else(|error| {
                tracing::warn!(error = %error, "deadlines cannot be read");
                LONGEST_SLEEP
            });
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = inner.deadlines.sooner.notified() => {}
                () = inner.draining.cancelled() => return,
            }
        }
    }
}

/// Expires what is due and returns how long the timer may sleep.
async fn sweep(inner: &Arc<Inner>) -> Result<Duration, StoreError> {
    inner.deadlines.next.store(i64::MAX, Ordering::Release);
    let mut passed_over = 0;
    // After a clock step, what looks overdue need not be.
    let Some(now) = inner.clock_steps.steady_now(&*inner.clock, EXPIRES_AFTER) else { return Ok(LONGEST_SLEEP) };
    loop {
        // Parked queries stay due; there are few of them, and they must not block the others.
        let wanted = BATCH + passed_over;
        let due = inner.store.due(now, wanted).await?;
        let full = due.len() == wanted;
        let (parked, due): (Vec<_>, Vec<_>) = due.into_iter().partition(|key| inner.admission.is_parked(key));
        passed_over = parked.len();
        // Regardless of the queue: an expired call needs no permit, and the query that it lets continue is queued.
        let mut expired = stream::iter(due).map(|key| expire(inner, key, now)).buffer_unordered(BATCH);
        while let Some(expired) = expired.next().await {
            match expired? {
                Expired::Expired => {}
                Expired::Unreadable => passed_over += 1,
            }
        }
        if !full {
            break;
        }
    }
    // A deadline that has just passed is found by the next sweep, unless its query was passed over.
    let next = inner.store.next_deadline().await?;
    if let Some(next) = next.filter(|next| passed_over == 0 || *next > inner.clock.now()) {
        inner.deadlines.next.fetch_min(next.0, Ordering::AcqRel);
    }
    let next = Timestamp(inner.deadlines.next.load(Ordering::Acquire));
    Ok(next.since(inner.clock.now()).clamp(Duration::from_millis(1), LONGEST_SLEEP))
}

enum Expired {
    Expired,
    /// The query cannot be read by this program and is parked.
    Unreadable,
}

async fn expire(inner: &Arc<Inner>, key: QueryKey, now: Timestamp) -> Result<Expired, StoreError> {
    match expire_readable(inner, &key, now).await {
        Ok(()) => Ok(Expired::Expired),
        Err(error @ (StoreError::Unreadable { .. } | StoreError::Inconsistent(_))) => {
            tracing::error!(query = %key.1, error = %error, "this query cannot be read; its deadline is not enforced");
            inner.admission.park(key);
            Ok(Expired::Unreadable)
        }
        // Its journal is full, and the query has failed because of that.
        Err(StoreError::Journal(_)) => Ok(Expired::Expired),
        Err(error) => Err(error),
    }
}

async fn expire_readable(inner: &Arc<Inner>, key: &QueryKey, now: Timestamp) -> Result<(), StoreError> {
    let live = inner.live_queries.entry(key);
    let mut locked = live.lock(&*inner.store).await?;
    let Some(state) = locked.state() else { return Ok(()) };
    let events = machine::expire(&state.head, now);
    let position = inner.append_and_drive(&live, &mut locked, now, events, "expire.appended")?;
    drop(locked);
    // Until it is durable, the store would return the query as due again.
    inner.make_durable(&live, position).await
}
