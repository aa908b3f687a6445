//! Retries of queries that a crash has hit, so that the one that causes crashes is told from those beside it.
//!
//! The first few times, all that were hit are retried together. A query that was hit more often is retried in isolation: one
//! at a time, and none while a retry of the others is under way. A crash during such a retry counts against this one query,
//! and those that it counts against least go first, so that crashes with another cause are spread over all of them. Work
//! that no crash has hit is not held up. `docs/decisions/012-crashes.md` has the reasons.

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

/// Isolated retries begin when retries together have had so long to begin.
const SETTLES: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct Isolation {
    retries: Mutex<Retries>,
    changed: Notify,
}

#[derive(Default)]
struct Retries {
    /// How many are retried together.
    together: usize,
    /// Whether one is retried in isolation.
    alone: bool,
    /// Those that are to be retried in isolation, by how many crashes count against them.
    waiting: BTreeSet<Rank>,
}

type Rank = (u32, QueryUid);

/// A query is being retried; dropped when the step in which it was hit has been repeated.
pub(crate) struct Retry {
    inner: Arc<Inner>,
    alone: bool,
}

/// A place among those that wait for isolation.
struct Waiting<'a> {
    isolation: &'a Isolation,
    rank: Rank,
}

/// How an inherited query may be taken up.
pub(crate) enum Admitted {
    /// No crash has hit it.
    Freely,
    Retried(Retry),
    /// Not at all: the engine drains.
    Refused,
}

impl Isolation {
    /// Decides how a query that an earlier process left behind is taken up, and waits until it may be. While it waits it
    /// takes no other query's permit.
    pub(crate) async fn admit(permit: &mut Permit, live: &LiveQuery) -> Admitted {
        let inner = &Arc::clone(permit.inner());
        let hit = match live.lock(&*inner.store).await {
            Ok(locked) => locked.state().filter(|state| machine::is_hit(&state.head)).map(|state| {
                let (head, takeover) = (&state.head, Takeover::Inherited);
                let rank = (machine::isolated_crashes(head, takeover), head.uid);
                (machine::needs_isolation(head, takeover), rank)
            }),
            // The driver will find the same, and knows what to do.
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
        let _waiting = Waiting { isolation, rank };
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

impl Drop for Waiting<'_> {
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
