//! The task that takes one query as far as it will go.
//!
//! A driver asks the machine what is next, does it, appends what came of it, and ends when the query
//! waits or has ended. At most one drives a query at a time. If a write fails, it reads the query
//! again and goes on from what the store has; outcomes that it holds are appended again, and nothing
//! that must not repeat is run again.
//!
//! What a driver keeps between two steps is bound to the uid of a query, not to its name: a name may be deleted and
//! created again at any moment, and the next query must not be asked, answered or failed with what belongs to the last.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use bosun_core::{
    CallId, Event, Head, Outcome, QueryUid, Timestamp, Transcript,
    machine::{self, Next, Takeover, failure_code},
    transcript::{Message, Told},
};

use futures_util::{FutureExt, future::BoxFuture};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use crate::{
    StoreError,
    admission::{Admission, Permit},
    engine::Inner,
    engine::large_results,
    fault,
    queries::{
        append::{Change, never},
        live::{LiveQuery, LockedQuery},
        state::QueryState,
    },
    turns::dispatch,
    turns::isolation::{Admitted, Isolation, Retry},
    turns::spans,
    turns::turn,
};

/// How long a driver waits before it reads again after a failed write.
pub(crate) const AFTER_STORE_FAILURE: Duration = Duration::from_millis(500);

/// How a driver finds its query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// With something to do, or with work that was started for it.
    Due,
    /// As an earlier process left it: perhaps in the middle of something.
    Inherited,
}

/// Drives a query that the caller has claimed, for as long as it has its permit. `cause` is the span of whoever had it
/// taken up, where spans are collected.
///
/// In a box: a runtime moves what it is given to run, and moves as much again when that has ended.
pub(crate) fn drive(
    live: Arc<LiveQuery>,
    mut permit: Permit,
    found: Found,
    cause: Option<Span>,
) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let retry = match found {
            Found::Inherited => match Isolation::admit(&mut permit, &live).await {
                Admitted::Freely => None,
                Admitted::Retried(retry) => Some(retry),
                Admitted::Refused => return live.release().await,
            },
            Found::Due => None,
        };
        let span = spans::run(permit.inner(), &live, cause).await;
        let driver = Driver { retry, ..Driver::new(permit, live, found) };
        guarded(driver).instrument(span).await;
    })
}

/// A panic, ours or a runner's, ends this query and no other.
async fn guarded(mut driver: Driver) {
    if AssertUnwindSafe(driver.run()).catch_unwind().await.is_ok() {
        return;
    }
    let query = driver.live.key.1.clone();
    tracing::error!(%query, "the driver of this query panicked; the query fails");
    let message = "the server failed while it ran this query; its log says more";
    let failed = match driver.append(|head| machine::fail(head, failure_code::INTERNAL_ERROR, message)).await {
        Ok(position) => driver.inner.make_durable(&driver.live, position).await,
        Err(error) => Err(error),
    };
    if let Err(error) = failed {
        tracing::error!(%query, error = %error, "the failure could not be recorded");
    }
    driver.live.release().await;
}

pub(crate) struct Driver {
    pub(crate) inner: Arc<Inner>,
    pub(crate) live: Arc<LiveQuery>,
    /// Given back with the claim, when the driver comes to rest.
    permit: Option<Permit>,
    /// The query that everything below belongs to; none until it has been looked at.
    uid: Option<QueryUid>,
    /// Fires when that query has ended.
    pub(crate) ended: CancellationToken,
    /// Outcomes that this driver has seen since it last knew that the store has them. What is lost by a failed write is
    /// appended again, and not run again.
    pub(crate) finished: Vec<(CallId, Arc<Outcome>)>,
    /// Turns in a row that broke off.
    pub(crate) failed_turns: u32,
    /// What the model knows of the query.
    pub(crate) told: Told,
    /// What the store says may have been left in the middle, by another process or by a failed write.
    recovering: Option<Takeover>,
    /// A crash has hit what this driver repeats first.
    retry: Option<Retry>,
}

/// What a driver does next.
enum Step {
    /// This turn has begun: ask the model.
    Turn(Begun),
    Run(Calls),
    /// Calls are marked as started, and no driver runs them: this driver's own write failed.
    Recover,
    Rest,
}

/// A turn that has begun: the query as it was then, and what fires when it has ended.
pub(crate) struct Begun {
    pub(crate) head: Arc<Head>,
    pub(crate) transcript: Arc<Transcript>,
    pub(crate) ended: CancellationToken,
}

/// Inside calls to run.
pub(crate) struct Calls {
    /// Those that must not run twice: each is started when its run is the next thing.
    pub(crate) ready: Vec<CallId>,
    pub(crate) started: Vec<CallId>,
}

impl Driver {
    pub(crate) fn new(permit: Permit, live: Arc<LiveQuery>, found: Found) -> Self {
        Self {
            inner: Arc::clone(permit.inner()),
            live,
            permit: Some(permit),
            uid: None,
            ended: CancellationToken::new(),
            finished: Vec::new(),
            failed_turns: 0,
            told: Told::default(),
            recovering: (found == Found::Inherited).then_some(Takeover::Inherited),
            retry: None,
        }
    }

    async fn run(&mut self) {
        let inner = Arc::clone(&self.inner);
        loop {
            match self.step().await {
                Ok(true) => self.retry = None,
                Ok(false) => return,
                Err(error @ (StoreError::Unreadable { .. } | StoreError::Inconsistent(_))) => {
                    // To try again would fail again. The others are not touched by it.
                    tracing::error!(query = %self.live.key.1, error = %error, "this query cannot be read and is not run");
                    inner.admission.park(self.live.key.clone());
                    return self.live.release().await;
                }
                // It has failed by that, or an end that it may have is yet to come.
                Err(StoreError::Journal(fault)) => {
                    tracing::warn!(query = %self.live.key.1, error = %fault, "the journal of this query takes no more");
                }
                Err(error) => {
                    // Said once: a full disk may stay so for hours, and the log may lie on it.
                    if self.recovering.is_none() {
                        self.recovering = Some(Takeover::FailedWrite);
                        tracing::warn!(query = %self.live.key.1, error = %error, "write failed, reading the query again");
                    }
                    tokio::select! {
                        () = tokio::time::sleep(AFTER_STORE_FAILURE) => {}
                        () = inner.draining.cancelled() => return self.live.release().await,
                    }
                }
            }
        }
    }

    /// The query that is driven, if it is still there. Under its name there may be another one by now, which this driver
    /// has not looked at yet.
    pub(crate) async fn lock(&self) -> Result<Option<LockedQuery<'_>>, StoreError> {
        self.live.lock_query(&*self.inner.store, self.uid).await
    }

    /// Binds the driver to the query that there is now. What it knows of another one is forgotten.
    fn bind(&mut self, uid: QueryUid, ended: CancellationToken) {
        self.ended = ended;
        if self.uid.replace(uid).is_none_or(|earlier| earlier == uid) {
            return;
        }
        self.finished.clear();
        self.failed_turns = 0;
        self.told = Told::default();
        self.recovering = None;
        self.retry = None;
    }

    /// Does the next thing; false when there is nothing more to do.
    async fn step(&mut self) -> Result<bool, StoreError> {
        if let Some(takeover) = self.recovering {
            self.recover(takeover).await?;
        }
        match self.look().await? {
            Step::Turn(begun) => turn::take(self, begun).await.map(|()| true),
            Step::Run(calls) => dispatch::run(self, calls).await.map(|()| true),
            Step::Recover => {
                self.recovering = Some(Takeover::FailedWrite);
                Ok(true)
            }
            Step::Rest => Ok(false),
        }
    }

    /// Decides with the lock held whether to go on, so that no result slips in unseen.
    async fn look(&mut self) -> Result<Step, StoreError> {
        let (inner, live) = (Arc::clone(&self.inner), Arc::clone(&self.live));
        let mut locked = live.lock(&*inner.store).await?;
        let Some(state) = locked.state() else {
            locked.release();
            self.permit = None;
            return Ok(Step::Rest);
        };
        let (next, position, weight) = (machine::next(&state.head), state.position, state.size.memory);
        self.bind(state.head.uid, live.ended());
        if !matches!(next, Next::Wait | Next::End) && !inner.draining.is_cancelled() {
            return self.take_up(&mut locked);
        }
        spans::rests(&inner, &state.head, &state.transcript);
        // The engine drains: the next process must not take this for a crash.
        let interrupted = machine::interrupt(&state.head);
        let position = if interrupted.is_empty() {
            position
        } else {
            locked.append(&*inner.store, inner.clock.now(), interrupted, never)?
        };
        locked.release();
        // With the claim, and before the wait for the disk: what comes in from here on finds neither a driver nor a permit.
        self.permit = None;
        if matches!(next, Next::Wait) {
            inner.live_queries.keep(&live, weight);
        }
        drop(locked);
        // The entry must not leave the desk before the store has what it knows.
        if let Err(error) = inner.make_durable(&live, position).await {
            // Another driver may have claimed the query meanwhile; then it is that one's to repeat. The claim does not read
            // the query: a second failure here must not leave this driver at work without it.
            if !live.claim().await {
                return Ok(Step::Rest);
            }
            self.permit = Some(Admission::enter_again(&inner, &live.key));
            return Err(error);
        }
        Ok(Step::Rest)
    }

    /// Takes up what was started for this driver, and starts what is not.
    fn take_up(&self, locked: &mut LockedQuery<'_>) -> Result<Step, StoreError> {
        let mut started = locked.take_started();
        if started.turn.is_none() {
            locked.advance(&*self.inner.store, self.inner.clock.now())?;
            let further = locked.take_started();
            started.turn = further.turn;
            started.calls.extend(further.calls);
        }
        let Some(QueryState { head, transcript, .. }) = locked.state() else { return Ok(Step::Rest) };
        if started.turn.is_some() {
            self.live.start_draft(head.turn, head.attempt);
            let (head, transcript) = (Arc::clone(head), Arc::clone(transcript));
            return Ok(Step::Turn(Begun { head, transcript, ended: self.ended.clone() }));
        }
        let ready = if let Next::Calls(ready) = machine::next(head) { ready } else { Vec::new() };
        let calls = Calls { ready, started: started.calls };
        Ok(if calls.ready.is_empty() && calls.started.is_empty() { Step::Recover } else { Step::Run(calls) })
    }

    async fn recover(&mut self, takeover: Takeover) -> Result<(), StoreError> {
        let (inner, live) = (Arc::clone(&self.inner), Arc::clone(&self.live));
        let found = live.lock(&*inner.store).await?.state().map(|state| (state.head.uid, live.ended()));
        if let Some((uid, ended)) = found {
            self.bind(uid, ended);
        }
        if self.recovering.is_none() {
            return Ok(());
        }
        for (call, outcome) in &self.finished {
            let outcome = large_results::keep(&*self.inner.blobs, outcome).await?;
            self.append(|head| machine::finish_call(head, *call, outcome)).await?;
        }
        let position = self.append(|head| machine::recover(head, takeover)).await?;
        fault::point("recover.appended");
        // Nothing is done again before the store can keep it: a full disk must not become a model call every
        // half second.
        self.inner.make_durable(&self.live, position).await?;
        // They are kept, or the query does not ask for them any more.
        self.finished.clear();
        self.recovering = None;
        Ok(())
    }

    /// Appends what `decide` makes of the head, under the lock.
    pub(crate) async fn append(
        &self,
        decide: impl FnOnce(&Head) -> Vec<Event>,
    ) -> Result<crate::store::Position, StoreError> {
        let Some(mut locked) = self.lock().await? else { return Ok(crate::store::Position::default()) };
        let events = locked.state().map(|state| decide(&state.head)).unwrap_or_default();
        let position = locked.append(&*self.inner.store, self.inner.clock.now(), events, never)?;
        expect_deadline(&self.inner, &locked);
        Ok(position)
    }

    /// Whether this driver may start more work.
    fn may_advance(&self) -> bool {
        !self.inner.draining.is_cancelled()
    }

    /// Appends what `decide` makes of the model's answer. If the query completes by it, `said` is added to its
    /// conversation.
    pub(crate) async fn end_turn(
        &mut self,
        said: Option<Arc<[Message]>>,
        decide: impl FnOnce(&Head, Timestamp) -> Vec<Event>,
    ) -> Result<(), StoreError> {
        let store = &*self.inner.store;
        let Some(mut locked) = self.live.lock_query(store, self.uid).await? else { return Ok(()) };
        let now = self.inner.clock.now();
        let earlier = locked.state().map_or(0, |state| state.head.calls.len());
        let events = locked.state().map(|state| decide(&state.head, now)).unwrap_or_default();
        locked.append(store, now, Change { events, said }, |_| self.may_advance())?;
        // A turn that was lost and taken again may ask for other calls, under the same ids.
        let asked = locked.state().and_then(|state| state.head.calls.get(earlier..)).unwrap_or_default();
        self.finished.retain(|(id, _)| asked.iter().all(|call| call.id != *id));
        expect_deadline(&self.inner, &locked);
        Ok(())
    }

    /// Records the outcome of an inside call. If it was the last one, the next turn begins in the same append.
    pub(crate) async fn finish(&self, call: CallId, outcome: Arc<Outcome>) -> Result<(), StoreError> {
        let Some(mut locked) = self.lock().await? else { return Ok(()) };
        let events = locked.state().map(|state| machine::finish_call(&state.head, call, outcome)).unwrap_or_default();
        locked.append(&*self.inner.store, self.inner.clock.now(), events, |_| self.may_advance()).map(|_| ())
    }

    /// Fails the query when it has run for as long as it may, which may become more or less meanwhile. It is to be
    /// waited for beside what runs: whatever that appends takes the same lock.
    pub(crate) async fn time_out(&self) -> Result<(), StoreError> {
        let mut changes = self.live.subscribe();
        let mut since = None;
        loop {
            let left = match self.lock().await {
                // A query that is gone has no time left either.
                Ok(None) => return Ok(()),
                Ok(Some(mut locked)) => {
                    let (running_time, now) = (locked.running_time(), self.inner.clock.now());
                    let Some(QueryState { head, .. }) = locked.state() else { return Ok(()) };
                    let limit = head.limits.query_timeout;
                    let (spent, began) = *since.get_or_insert_with(|| (running_time, Instant::now()));
                    let left = limit.saturating_sub(spent + began.elapsed());
                    if left.is_zero() {
                        let message = format!("the query ran longer than {limit:?}");
                        let events = machine::fail(head, failure_code::QUERY_TIMEOUT, message);
                        return locked.append(&*self.inner.store, now, events, never).map(|_| ());
                    }
                    left
                }
                // What runs may still come to its end, and finds out more.
                Err(_) => AFTER_STORE_FAILURE,
            };
            tokio::select! {
                () = tokio::time::sleep(left) => {}
                // The sender lives as long as `live`.
                _ = changes.changed() => {}
            }
        }
    }
}

fn expect_deadline(inner: &Inner, locked: &LockedQuery<'_>) {
    if let Some(deadline) = locked.state().and_then(|state| state.head.deadline()) {
        inner.deadlines.expect(deadline);
    }
}
