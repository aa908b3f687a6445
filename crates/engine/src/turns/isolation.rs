//! Retries of queries that a crash has hit, isolated so that the one that causes crashes can be identified.
//!
//! The first few times, all queries that were hit are retried together. A query that was hit more often is retried in
//! isolation: one at a time, and none while a retry of the others is under way. A crash during such a retry counts
//! against this one query, and those with the fewest such crashes go first, so that crashes with another cause are
//! spread over all of them. Work that no crash has hit is not delayed. `docs/decisions/012-crashes.md` has the reasons.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bosun_core::{
    QueryUid,
    machine::{self, Takeover},
};
use tokio::sync::Notify;

use crate::{admission::Permit, engine::Inner, queries::live::LiveQuery};

/// Isolated retries begin only after the retries together have had this long to begin.
const SETTLES: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct Isolation {
    retries: Mutex<Retries>,
    changed: Notify,
}

#[derive(Default)]
struct Retries {
    /// The number of those that are retried together.
    together: usize,
    /// Whether one is being retried in isolation.
    alone: bool,
    /// Those that are to be retried in isolation, by how many crashes count against them.
    waiting: BTreeSet<Rank>,
}

type Rank = (u32, QueryUid);

/// The guard of a retry; dropped when the step that was hit has been repeated.
pub(crate) struct Retry {
    inner: Arc<Inner>,
    alone: bool,
}

/// The guard of a query that waits for isolation.
struct WaitingRetry<'a> {
    isolation: &'a Isolation,
    rank: Rank,
}

/// How an inherited query may be resumed.
pub(crate) enum Admitted {
    /// No crash has hit it.
    Freely,
    Retried(Retry),
    /// Not at all: the engine drains.
    Refused,
}

impl Isolation {
    /// Decides how a query that an earlier process left is resumed, and waits until it may be. While it waits, its
    /// permit does not count, so that another query may run.
    pub(crate) async fn admit(permit: &mut Permit, live: &LiveQuery) -> Admitted {
        let inner = &Arc::clone(permit.inner());
        let hit = match live.lock(&*inner.store).await {
            Ok(locked) => locked.state().filter(|state| machine::is_hit(&state.head)).map(|state| {
                let (head, takeover) = (&state.head, Takeover::Inherited);
                let rank = (machine::isolated_crashes(head, takeover), head.uid);
                (machine::needs_isolation(head, takeover), rank)
            }),
            // The driver will find the same error, and handles it.
            Err(_) => None,
        };
        match hit {
            None => Admitted::Freely,
            Some((false, _)) => {
                inner.isolation.retries().together += 1;
                Admitted::Retried(Retry { inner: Arc::clone(inner), alone: false })
            }
            Some((true, rank)) => {
                permit.stop_counting();
                tokio::select! {
                    retry = Self::enter(inner, rank) => Admitted::Retried(retry),
                    () = inner.draining.cancelled() => Admitted::Refused,
                }
            }
        }
    }

    async fn enter(inner: &Arc<Inner>, rank: Rank) -> Retry {
        let isolation = &inner.isolation;
        isolation.retries().waiting.insert(rank);
        let _waiting = WaitingRetry { isolation, rank };
        tokio::time::sleep(SETTLES).await;
        loop {
            let changed = isolation.changed.notified();
            if isolation.retries().begin(rank) {
                return Retry { inner: Arc::clone(inner), alone: true };
            }
            changed.await;
        }
    }

    fn retries(&self) -> MutexGuard<'_, Retries> {
        self.retries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Retries {
    fn begin(&mut self, rank: Rank) -> bool {
        let is_next = self.waiting.first() == Some(&rank) && self.together == 0 && !self.alone;
        self.alone |= is_next;
        is_next
    }
}

impl Drop for WaitingRetry<'_> {
    fn drop(&mut self) {
        self.isolation.retries().waiting.remove(&self.rank);
        self.isolation.changed.notify_waiters();
    }
}

impl Drop for Retry {
    fn drop(&mut self) {
        let isolation = &self.inner.isolation;
        {
            let mut retries = isolation.retries();
            if self.alone {
                retries.alone = false;
            } else {
                retries.together -= 1;
            }
        }
        isolation.changed.notify_waiters();
    }
}
