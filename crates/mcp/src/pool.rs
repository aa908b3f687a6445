//! Sessions that belong to single callers, opened by the calls that need them.
//!
//! Their number is bounded. A session that no call has used for a while is closed; at the bound, a new caller evicts the
//! least recently used session that is idle, and is refused if none is.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::future::join_all;
use tokio::{sync::Notify, time::Instant};

use crate::{error::McpError, identity::SessionIdentity, session::Session};

/// Sessions of one server, besides the shared one.
pub(crate) const MOST_SESSIONS: usize = 32;
/// How long a session may be idle.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// What can be kept in a pool.
pub(crate) trait Poolable: Send + Sync {
    fn is_open(&self) -> bool;

    fn close(&self) -> impl Future<Output = ()> + Send;
}

impl Poolable for Session {
    fn is_open(&self) -> bool {
        self.is_open()
    }

    async fn close(&self) {
        self.close().await;
    }
}

/// The session of one caller, once it is open. Its lock is held while it is being opened, so that concurrent calls of
/// one caller open one session.
type Slot<S> = Arc<tokio::sync::Mutex<Option<Arc<S>>>>;

#[derive(Debug)]
struct Pooled<S> {
    slot: Slot<S>,
    /// Calls that use it, or wait for it.
    calls: usize,
    last_used: Instant,
}

/// The sessions of one server's callers.
#[derive(Debug)]
pub(crate) struct SessionPool<S = Session> {
    sessions: Mutex<HashMap<SessionIdentity, Pooled<S>>>,
    /// Notified when a session becomes idle.
    idle: Notify,
}

impl<S> Default for SessionPool<S> {
    fn default() -> Self {
        Self { sessions: Mutex::default(), idle: Notify::new() }
    }
}

/// A session that a call uses: it is not idle until this is dropped.
#[derive(Debug)]
pub(crate) struct BorrowedSession<S = Session> {
    pool: Arc<SessionPool<S>>,
    identity: SessionIdentity,
}

impl<S> Drop for BorrowedSession<S> {
    fn drop(&mut self) {
        let mut sessions = self.pool.lock();
        if let Some(pooled) = sessions.get_mut(&self.identity) {
            // A pool that was emptied meanwhile has another entry, or none.
            pooled.calls = pooled.calls.saturating_sub(1);
            pooled.last_used = Instant::now();
            if pooled.calls == 0 {
                self.pool.idle.notify_one();
            }
        }
    }
}

impl<S> SessionPool<S> {
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionIdentity, Pooled<S>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Poolable> SessionPool<S> {
    /// The session of a caller, opened if there is none that can be used.
    pub(crate) async fn get(
        self: &Arc<Self>,
        identity: &SessionIdentity,
        open: impl Future<Output = Result<Arc<S>, McpError>>,
    ) -> Result<(Arc<S>, BorrowedSession<S>), McpError> {
        let (slot, evicted) = self.claim(identity)?;
        let borrowed = BorrowedSession { pool: Arc::clone(self), identity: identity.clone() };
        if let Some(evicted) = evicted {
            close(&evicted).await;
        }
        let mut current = slot.lock().await;
        if let Some(session) = current.as_ref().filter(|session| session.is_open()) {
            return Ok((Arc::clone(session), borrowed));
        }
        if let Some(ended) = current.take() {
            ended.close().await;
        }
        let session = open.await?;
        *current = Some(Arc::clone(&session));
        Ok((session, borrowed))
    }

    /// Counts a call of this caller; returns its slot, and the one that was evicted for it.
    fn claim(&self, identity: &SessionIdentity) -> Result<(Slot<S>, Option<Slot<S>>), McpError> {
        let mut sessions = self.lock();
        if let Some(pooled) = sessions.get_mut(identity) {
            pooled.calls += 1;
            return Ok((Arc::clone(&pooled.slot), None));
        }
        let mut evicted = None;
        if sessions.len() >= MOST_SESSIONS {
            let idle = sessions.iter().filter(|(_, pooled)| pooled.calls == 0);
            let oldest = idle.min_by_key(|(_, pooled)| pooled.last_used).map(|(identity, _)| identity.clone());
            evicted = oldest.and_then(|oldest| sessions.remove(&oldest)).map(|pooled| pooled.slot);
            if evicted.is_none() {
                let message =
                    format!("all {MOST_SESSIONS} sessions with it are in use by other callers; try again later");
                return Err(McpError::Unavailable(message));
            }
        }
        let slot = Slot::<S>::default();
        let pooled = Pooled { slot: Arc::clone(&slot), calls: 1, last_used: Instant::now() };
        sessions.insert(identity.clone(), pooled);
        Ok((slot, evicted))
    }

    /// Closes sessions that are idle for too long, forever.
    pub(crate) async fn close_idle(&self) {
        loop {
            let first = self.lock().values().filter(|pooled| pooled.calls == 0).map(|pooled| pooled.last_used).min();
            match first {
                Some(first) => tokio::time::sleep_until(first + IDLE_TIMEOUT).await,
                None => self.idle.notified().await,
            }
            let is_idle = |pooled: &Pooled<S>| pooled.calls == 0 && pooled.last_used.elapsed() >= IDLE_TIMEOUT;
            let idle: Vec<Pooled<S>> =
                self.lock().extract_if(|_, pooled| is_idle(pooled)).map(|(_, pooled)| pooled).collect();
            join_all(idle.iter().map(|pooled| close(&pooled.slot))).await;
        }
    }

    /// Closes all sessions, whether or not they are used.
    pub(crate) async fn close_all(&self) {
        let all = std::mem::take(&mut *self.lock());
        join_all(all.values().map(|pooled| close(&pooled.slot))).await;
    }
}

async fn close<S: Poolable>(slot: &Slot<S>) {
    let session = slot.lock().await.take();
    if let Some(session) = session {
        session.close().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use bosun_core::Actor;
    use bosun_engine::runner::RunContext;

    use super::*;

    #[derive(Debug, Default)]
    struct FakeSession {
        number: usize,
        is_closed: AtomicBool,
    }

    impl Poolable for FakeSession {
        fn is_open(&self) -> bool {
            !self.is_closed.load(Ordering::Relaxed)
        }

        async fn close(&self) {
            self.is_closed.store(true, Ordering::Relaxed);
        }
    }

    type FoundSession = (Arc<FakeSession>, BorrowedSession<FakeSession>);

    #[derive(Default)]
    struct PoolWorld {
        pool: Arc<SessionPool<FakeSession>>,
        opened: AtomicUsize,
    }

    impl PoolWorld {
        async fn get(&self, user: &str) -> Result<FoundSession, McpError> {
            let actor = Actor::of_key("n8n").unwrap().acting_for(user).unwrap();
            let identity = SessionIdentity::of_actor(&RunContext::alone(actor, Duration::from_secs(1)));
            let open = async {
                // Concurrent calls of one caller meet here.
                tokio::time::sleep(Duration::from_millis(1)).await;
                let number = self.opened.fetch_add(1, Ordering::Relaxed) + 1;
                Ok(Arc::new(FakeSession { number, ..FakeSession::default() }))
            };
            self.pool.get(&identity, open).await
        }

        async fn number(&self, user: &str) -> usize {
            self.get(user).await.unwrap().0.number
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_caller_has_one_session_that_concurrent_calls_share() {
        let world = PoolWorld::default();
        let (first, second, other) = tokio::join!(world.number("alice"), world.number("alice"), world.number("bob"));
        assert_eq!(first, second);
        assert_ne!(first, other);
        assert_eq!(world.number("alice").await, first);
        assert_eq!(world.opened.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_that_has_ended_is_opened_again_and_a_failure_leaves_none() {
        let world = PoolWorld::default();
        let (session, _) = world.get("alice").await.unwrap();
        session.close().await;
        assert_eq!(world.number("alice").await, 2);
        let identity = SessionIdentity::of_actor(&RunContext::alone(Actor::local(), Duration::from_secs(1)));
        let failed = async { Err(McpError::Unavailable("down".to_owned())) };
        assert!(world.pool.get(&identity, failed).await.is_err());
        let opened = async { Ok(Arc::default()) };
        assert!(world.pool.get(&identity, opened).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_is_closed_once_it_was_idle_for_long_enough_and_never_while_it_is_used() {
        let world = PoolWorld::default();
        let watch = async {
            let (used, borrowed) = world.get("alice").await.unwrap();
            let (idle, _) = world.get("bob").await.unwrap();
            tokio::time::sleep(IDLE_TIMEOUT - Duration::from_secs(1)).await;
            assert!(used.is_open() && idle.is_open());
            tokio::time::sleep(Duration::from_secs(2)).await;
            assert!(used.is_open() && !idle.is_open());
            drop(borrowed);
            tokio::time::sleep(IDLE_TIMEOUT + Duration::from_secs(1)).await;
            assert!(!used.is_open());
            assert!(world.pool.lock().is_empty());
        };
        tokio::select! {
            () = watch => {}
            () = world.pool.close_idle() => {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn at_the_bound_the_least_recently_used_idle_session_is_evicted() {
        let world = PoolWorld::default();
        let mut found = Vec::new();
        for number in 0..MOST_SESSIONS {
            found.push(world.get(&format!("user-{number}")).await.unwrap());
        }
        let refused = world.get("one-too-many").await.unwrap_err();
        assert!(refused.to_string().contains("in use by other callers"), "{refused}");
        // Two become idle, the second one first.
        let (first, borrowed) = found.swap_remove(0);
        let (second, also_borrowed) = found.swap_remove(0);
        drop(also_borrowed);
        tokio::time::sleep(Duration::from_secs(1)).await;
        drop(borrowed);
        assert!(world.get("one-too-many").await.is_ok());
        assert!(first.is_open() && !second.is_open());
        assert_eq!(world.pool.lock().len(), MOST_SESSIONS);
    }

    #[tokio::test(start_paused = true)]
    async fn all_sessions_are_closed_with_their_server() {
        let world = PoolWorld::default();
        let (session, borrowed) = world.get("alice").await.unwrap();
        world.pool.close_all().await;
        assert!(!session.is_open() && world.pool.lock().is_empty());
        drop(borrowed);
    }
}
