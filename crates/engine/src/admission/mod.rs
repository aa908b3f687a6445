//! Admission: which queries run now, and which are rows that wait for a permit.
//!
//! At most `max_running` queries run, each with a [`Permit`]. The queue of the others *is* the store's index of queries
//! with work: no task, no memory but an estimate of its length for each namespace. A query that gets work starts at
//! once if [its namespace's share](shares) allows it and nothing in the queue has to go first; otherwise
//! [`Admission::run`] fetches it from the store when a permit becomes free. Notifications are only hints: the
//! loop looks into the store every second, so a lost one costs a second and never a query. What an earlier process
//! left comes in the same way.

mod shares;

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bosun_core::Namespace;
use tokio::{sync::Notify, time::Instant};

pub(crate) use self::shares::AdmissionLimits;
use self::shares::Shares;
use crate::{
    StoreError,
    engine::Inner,
    queries::live::QueryKey,
    store::{Runnable, WantedQueries},
    turns::driver::{self, DriverStart},
};

/// How many queries are fetched at a time: a fetch costs about as much as starting one of them.
const FETCHED: usize = 256;
/// How often the store is polled although no notification came.
const PERIOD: Duration = Duration::from_secs(1);
/// A row counts as missed only if it is still there after this time: most are about to be committed.
const SECOND_LOOK: Duration = Duration::from_millis(100);

pub(crate) struct Admission {
    state: Mutex<AdmissionState>,
    /// There is something in the queue, or a permit was released while there is.
    changed: Notify,
}

struct AdmissionState {
    shares: Shares,
    /// The queries that have a permit. One may have two for a moment, when it continues just as a driver that found
    /// nothing to do ends.
    running: HashMap<QueryKey, usize>,
    /// Queries that this program cannot read; they keep their rows, and get no permit.
    parked: HashSet<QueryKey>,
    /// Counts up with every query that joins the queue, so that a fetch can tell whether one did meanwhile.
    enqueued: u64,
}

/// The permit to run one query; dropping it lets the next one run.
pub(crate) struct Permit {
    inner: Arc<Inner>,
    key: QueryKey,
    /// Whether it counts against the share of its namespace.
    is_counted: bool,
}

impl Admission {
    pub(crate) fn new(limits: AdmissionLimits) -> Self {
        let state = AdmissionState {
            shares: Shares::new(limits),
            running: HashMap::new(),
            parked: HashSet::new(),
            enqueued: 0,
        };
        Self { state: Mutex::new(state), changed: Notify::new() }
    }

    /// Whether the queue of the namespace is so long that new queries are refused.
    pub(crate) fn is_full(&self, namespace: &Namespace) -> bool {
        !self.state().shares.may_queue(namespace)
    }

    /// How many queries of the namespace wait for a permit, approximately.
    pub(crate) fn queued_of(&self, namespace: &Namespace) -> usize {
        self.state().shares.queued_of(namespace)
    }

    pub(crate) fn running(&self) -> usize {
        self.state().shares.running()
    }

    /// How many queries wait for a permit if `with_work` queries have work: never less than is known to be queued, and
    /// never zero while there is one that neither runs nor is parked.
    pub(crate) fn queued(&self, with_work: usize) -> usize {
        let state = self.state();
        let unaccounted = with_work.saturating_sub(state.shares.running() + state.parked.len());
        state.shares.queued().max(unaccounted)
    }

    /// A permit for a query that has just got work, if it may run at once; otherwise the query is queued.
    pub(crate) fn enter(inner: &Arc<Inner>, key: &QueryKey) -> Option<Permit> {
        let permit = Self::enter_at_once(inner, key);
        if permit.is_none() {
            inner.admission.enqueue(&key.0);
        }
        permit
    }

    /// A permit for a query that is just getting work, if it may run at once.
    pub(crate) fn enter_at_once(inner: &Arc<Inner>, key: &QueryKey) -> Option<Permit> {
        let mut state = inner.admission.state();
        state.shares.may_run_at_once(&key.0).then(|| state.issue(inner, key))
    }

    /// A permit for a query whose driver had released its permit and has to continue after a failed write. It may
    /// exceed `max_running`: the outcomes that the driver holds must not be lost.
    pub(crate) fn enter_again(inner: &Arc<Inner>, key: &QueryKey) -> Permit {
        inner.admission.state().issue(inner, key)
    }

    fn enqueue(&self, namespace: &Namespace) {
        let mut state = self.state();
        state.shares.enqueue(namespace);
        state.enqueued += 1;
        drop(state);
        self.changed.notify_one();
    }

    /// Parks a query that this program cannot run: it gets no permit any more.
    pub(crate) fn park(&self, key: QueryKey) {
        self.state().parked.insert(key);
    }

    pub(crate) fn is_parked(&self, key: &QueryKey) -> bool {
        self.state().parked.contains(key)
    }

    /// Unparks a name: it belongs to another query now.
    pub(crate) fn unpark(&self, key: &QueryKey) {
        self.state().parked.remove(key);
    }

    /// Corrects the estimates with the number of queries with work of each namespace.
    pub(crate) fn recount(&self, with_work: Vec<(Namespace, usize)>) {
        self.state().recount(with_work);
    }

    fn state(&self) -> MutexGuard<'_, AdmissionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts queued queries until the engine drains.
    pub(crate) async fn run(inner: Arc<Inner>) {
        let mut queue = FetchedQueue::default();
        let mut looked = None;
        loop {
            let is_due = looked.is_none_or(|looked: Instant| looked.elapsed() >= PERIOD);
            let advanced = if is_due { queue.look(&inner).await } else { queue.advance(&inner).await };
            if is_due {
                looked = Some(Instant::now());
            }
            if let Err(error) = advanced {
                tracing::warn!(error = %error, "the queue cannot be read");
                tokio::select! {
                    () = tokio::time::sleep(driver::AFTER_STORE_FAILURE) => {}
                    () = inner.draining.cancelled() => return,
                }
                // The fetch is still to be done.
                looked = None;
                continue;
            }
            let next = looked.map_or_else(Instant::now, |looked| looked + PERIOD);
            tokio::select! {
                () = inner.admission.changed.notified() => {}
                () = tokio::time::sleep_until(next) => {}
                () = inner.draining.cancelled() => return,
            }
            if inner.draining.is_cancelled() {
                return;
            }
        }
    }
}

impl AdmissionState {
    fn issue(&mut self, inner: &Arc<Inner>, key: &QueryKey) -> Permit {
        self.shares.start(&key.0);
        *self.running.entry(key.clone()).or_default() += 1;
        Permit { inner: Arc::clone(inner), key: key.clone(), is_counted: true }
    }

    fn recount(&mut self, mut with_work: Vec<(Namespace, usize)>) {
        for (namespace, count) in &mut with_work {
            let parked = self.parked.iter().filter(|key| key.0 == *namespace).count();
            *count = count.saturating_sub(parked);
        }
        self.shares.recount(&with_work);
    }

    /// The queries that a fetch must skip.
    fn accounted_for(&self) -> HashSet<QueryKey> {
        self.running.keys().chain(&self.parked).cloned().collect()
    }
}

/// The part of the queue that has been fetched: the oldest queries of each namespace.
#[derive(Default)]
struct FetchedQueue {
    next: BTreeMap<Namespace, VecDeque<Runnable>>,
    /// The namespace that was served last.
    last: Option<Namespace>,
}

impl FetchedQueue {
    /// Starts as many queries as may run.
    async fn advance(&mut self, inner: &Arc<Inner>) -> Result<(), StoreError> {
        self.start_fetched(inner).await;
        loop {
            let fetched = |namespace: &Namespace| self.next.contains_key(namespace);
            if !inner.admission.state().shares.has_more_than(fetched) {
                return Ok(());
            }
            self.fetch(inner).await?;
            if !self.start_fetched(inner).await {
                return Ok(());
            }
        }
    }

    /// The poll of every second: finds what no notification announced, and corrects the estimates.
    async fn look(&mut self, inner: &Arc<Inner>) -> Result<(), StoreError> {
        let is_known = inner.admission.state().shares.queued() > 0;
        if is_known || self.has_missed(inner).await? {
            self.fetch(inner).await?;
        }
        self.advance(inner).await?;
        if !self.next.is_empty() {
            let with_work = inner.store.count_runnable().await?;
            inner.admission.recount(with_work);
        }
        Ok(())
    }

    /// Whether there is a query with work that neither runs nor is about to be committed. Two reads instead of waiting
    /// for durability: on an idle server this must cost no commit.
    async fn has_missed(&self, inner: &Inner) -> Result<bool, StoreError> {
        let wanted = |except| WantedQueries { except, after: None, limit: FETCHED };
        let accounted_for = inner.admission.state().accounted_for();
        let first = inner.store.runnable(wanted(accounted_for)).await?;
        if first.is_empty() {
            return Ok(false);
        }
        tokio::time::sleep(SECOND_LOOK).await;
        let accounted_for = inner.admission.state().accounted_for();
        let second = inner.store.runnable(wanted(accounted_for)).await?;
        Ok(second.iter().any(|found| first.iter().any(|earlier| earlier.key == found.key)))
    }

    /// Whether any query was started.
    async fn start_fetched(&mut self, inner: &Arc<Inner>) -> bool {
        let mut has_started = false;
        while let Some((Runnable { key, inherited }, permit)) = self.take(inner) {
            let live = inner.live_queries.entry(&key);
            // Otherwise a driver has claimed it, and checks once more before it releases the claim.
            if live.claim().await {
                let found = if inherited { DriverStart::Inherited } else { DriverStart::Due };
                inner.tasks.spawn(driver::drive(live, permit, found, None));
                has_started = true;
            }
        }
        has_started
    }

    /// The next query that may run, with its permit.
    fn take(&mut self, inner: &Arc<Inner>) -> Option<(Runnable, Permit)> {
        let mut state = inner.admission.state();
        let namespace = state.shares.next_of(self.next.keys(), self.last.as_ref())?.clone();
        let queries = self.next.get_mut(&namespace)?;
        let next = queries.pop_front();
        if queries.is_empty() {
            self.next.remove(&namespace);
        }
        let next = next?;
        state.shares.dequeue(&namespace);
        let permit = state.issue(inner, &next.key);
        drop(state);
        self.last = Some(namespace);
        Some((next, permit))
    }

    async fn fetch(&mut self, inner: &Inner) -> Result<(), StoreError> {
        let admission = &inner.admission;
        let (except, enqueued, believed) = {
            let state = admission.state();
            (state.accounted_for(), state.enqueued, state.shares.queued_namespaces())
        };
        // A row that is not committed yet is not found, and that of a query that has just come to rest still is. A
        // failed commit is reported to those that wait for it.
        let _ = inner.store.durable(inner.store.last_position()).await;
        let found = inner.store.runnable(WantedQueries { except, after: self.last.clone(), limit: FETCHED }).await?;
        // Each namespace with work has at least one query in the result, if the result is not truncated.
        let is_complete = found.len() < FETCHED;
        self.next.clear();
        for runnable in found {
            self.next.entry(runnable.key.0.clone()).or_default().push_back(runnable);
        }
        let mut state = admission.state();
        for (namespace, queries) in &self.next {
            if state.shares.queued_of(namespace) < queries.len() {
                state.shares.set_queued(namespace, queries.len());
            }
        }
        // Unless a query was queued since the permits were listed: it may have been skipped for a permit that it has
        // released.
        if is_complete && state.enqueued == enqueued {
            for namespace in believed.iter().filter(|namespace| !self.next.contains_key(namespace)) {
                state.shares.set_queued(namespace, 0);
            }
        }
        Ok(())
    }
}

impl Permit {
    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    /// Lets another query run. This one may run too and is not fetched again: there is one such query at a time.
    pub(crate) fn stop_counting(&mut self) {
        if std::mem::replace(&mut self.is_counted, false) {
            self.inner.admission.state().shares.stop(&self.key.0);
            self.inner.admission.changed.notify_one();
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let admission = &self.inner.admission;
        let mut state = admission.state();
        if self.is_counted {
            state.shares.stop(&self.key.0);
        }
        if let Some(permits) = state.running.get_mut(&self.key) {
            *permits -= 1;
            if *permits == 0 {
                state.running.remove(&self.key);
            }
        }
        let is_awaited = state.shares.queued() > 0;
        drop(state);
        if is_awaited {
            admission.changed.notify_one();
        }
    }
}
