//! The driver: the task that runs one query until it waits or ends.
//!
//! A driver asks the machine what is next, does it and appends the outcome. At most one task drives a query at a time.
//! If a write fails, it reloads the query and continues from what the store has; outcomes that it holds are appended
//! again, and nothing that must not repeat is run again.
//!
//! What a driver keeps between two steps is bound to the uid of a query, not to its name: a name may be deleted and
//! created again at any moment, and the next query must not be asked, answered or failed with the state of the last.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use bosun_core::{
    Actor, CallId, Event, Head, Outcome, QueryUid, Timestamp, Transcript,
    event::CallQuestion,
    machine::{self, Next, Takeover, failure_code},
    transcript::{Message, SentMessages},
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
        append::{QueryChange, never},
        live::{LiveQuery, LockedQuery},
        state::QueryState,
    },
    runner::SHORTEST_POLL,
    turns::dispatch,
    turns::isolation::{Admitted, Isolation, Retry},
    turns::pending,
    turns::spans,
    turns::turn,
};

/// How long a driver backs off before it reloads the query after a failed write.
pub(crate) const AFTER_STORE_FAILURE: Duration = Duration::from_millis(500);

/// How often a query reads the running time of the other queries of its tree.
const LOOKS_AT_TREE: Duration = Duration::from_secs(1);

/// How a driver finds its query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DriverStart {
    /// With work to do, or with work that was started for it.
    Due,
    /// As an earlier process left it: perhaps in the middle of a step.
    Inherited,
}

/// Drives a query that the caller has claimed, for as long as it has its permit. `cause` is the span that caused the
/// query to be driven, if spans are exported.
///
/// Boxed, because tokio moves the future into its task cell and out again; it is several kilobytes.
pub(crate) fn drive(
    live: Arc<LiveQuery>,
    mut permit: Permit,
    found: DriverStart,
    cause: Option<Span>,
) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let retry = match found {
            DriverStart::Inherited => match Isolation::admit(&mut permit, &live).await {
                Admitted::Freely => None,
                Admitted::Retried(retry) => Some(retry),
                Admitted::Refused => return live.release().await,
            },
            DriverStart::Due => None,
        };
        let span = spans::run(permit.inner(), &live, cause).await;
        let driver = Driver { retry, ..Driver::new(permit, live, found) };
        guarded(driver).instrument(span).await;
    })
}

/// Contains a panic, ours or a runner's: it fails this query and no other.
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
    /// Released with the claim, when the driver stops.
    permit: Option<Permit>,
    /// The query that everything below belongs to; `None` until it has been loaded.
    uid: Option<QueryUid>,
    /// Fires when that query has ended.
    pub(crate) ended: CancellationToken,
    /// Outcomes that are not known to be durable yet. After a failed write they are appended again, and their calls are
    /// not run again.
    pub(crate) finished: Vec<(CallId, Arc<Outcome>)>,
    /// Consecutive turns that broke off.
    pub(crate) failed_turns: u32,
    /// What the model has been sent of the query so far.
    pub(crate) sent: SentMessages,
    /// What may have been interrupted, according to the store: by the end of another process or by a failed write.
    recovering: Option<Takeover>,
    /// Set if a crash has hit the step that this driver repeats first.
    retry: Option<Retry>,
    /// It is known that the parent waits for the query, if it is a child.
    has_parent: bool,
}

/// The next step of a driver.
enum DriverStep {
    /// This turn has begun: ask the model.
    Turn(StartedTurn),
    Run(Calls),
    /// The query has ended, and its tree is to be notified.
    Settle(QueryUid),
    /// Calls are marked as started, and no driver runs them: this driver's own write failed.
    Recover,
    Rest,
}

/// A turn that has begun: the query as it was then, and the token that fires when it ends.
pub(crate) struct StartedTurn {
    pub(crate) head: Arc<Head>,
    pub(crate) transcript: Arc<Transcript>,
    pub(crate) ended: CancellationToken,
}

/// Inside calls to run.
pub(crate) struct Calls {
    /// Those that must not run twice: each is marked as started right before it runs.
    pub(crate) ready: Vec<CallId>,
    pub(crate) started: Vec<CallId>,
}

impl Driver {
    pub(crate) fn new(permit: Permit, live: Arc<LiveQuery>, found: DriverStart) -> Self {
        Self {
            inner: Arc::clone(permit.inner()),
            live,
            permit: Some(permit),
            uid: None,
            ended: CancellationToken::new(),
            finished: Vec::new(),
            failed_turns: 0,
            sent: SentMessages::default(),
            recovering: (found == DriverStart::Inherited).then_some(Takeover::Inherited),
            retry: None,
            has_parent: false,
        }
    }

    async fn run(&mut self) {
        let inner = Arc::clone(&self.inner);
        loop {
            match self.next_step().await {
                Ok(true) => self.retry = None,
                Ok(false) => return,
                Err(error @ (StoreError::Unreadable { .. } | StoreError::Inconsistent(_))) => {
                    // Retrying would fail again. Other queries are not affected.
                    tracing::error!(query = %self.live.key.1, error = %error, "this query cannot be read and is not run");
                    inner.admission.park(self.live.key.clone());
                    return self.live.release().await;
                }
                // The query has failed because of that, or its final entry is yet to come.
                Err(StoreError::Journal(fault)) => {
                    tracing::warn!(query = %self.live.key.1, error = %fault, "the journal of this query is full");
                }
                Err(error) => {
                    // Logged once: a disk may be full for hours, and the log may be on it.
                    if self.recovering.is_none() {
                        self.recovering = Some(Takeover::FailedWrite);
                        tracing::warn!(query = %self.live.key.1, error = %error, "write failed, reloading the query");
                    }
                    tokio::select! {
                        () = tokio::time::sleep(AFTER_STORE_FAILURE) => {}
                        () = inner.draining.cancelled() => return self.live.release().await,
                    }
                }
            }
        }
    }

    /// Locks the query that is driven, if it still exists. Its name may belong to another query by now, which this
    /// driver has not loaded yet.
    pub(crate) async fn lock(&self) -> Result<Option<LockedQuery<'_>>, StoreError> {
        self.live.lock_query(&*self.inner.store, self.uid).await
    }

    /// Binds the driver to the current query of its name, and discards what it knows of another one.
    fn bind(&mut self, uid: QueryUid, ended: CancellationToken) {
        self.ended = ended;
        if self.uid.replace(uid).is_none_or(|earlier| earlier == uid) {
            return;
        }
        self.finished.clear();
        self.failed_turns = 0;
        self.sent = SentMessages::default();
        self.recovering = None;
        self.retry = None;
    }

    /// Does the next step, after the first look at a child query has shown that its parent waits for it.
    async fn next_step(&mut self) -> Result<bool, StoreError> {
        if !self.has_parent {
            let head = self.live.lock(&*self.inner.store).await?.state().map(|state| Arc::clone(&state.head));
            if let Some(head) = head
                && self.inner.is_orphan(&head).await?
            {
                let reason = Some("the query that asked for it has ended".to_owned());
                let position = self.cancel(&head, reason).await?;
                self.inner.make_durable(&self.live, position).await?;
            }
            self.has_parent = true;
        }
        self.step().await
    }

    async fn cancel(&self, head: &Head, reason: Option<String>) -> Result<crate::store::Position, StoreError> {
        let Some(mut locked) = self.live.lock_query(&*self.inner.store, Some(head.uid)).await? else {
            return Ok(crate::store::Position::default());
        };
        let by = locked.state().map_or_else(Actor::local, |state| state.transcript.by.clone());
        let events = locked.state().map(|state| machine::cancel(&state.head, reason, &by)).unwrap_or_default();
        locked.append(&*self.inner.store, self.inner.clock.now(), events, never)
    }

    /// Does the next step; false when there is nothing more to do.
    async fn step(&mut self) -> Result<bool, StoreError> {
        if let Some(takeover) = self.recovering {
            self.recover(takeover).await?;
        }
        match self.look().await? {
            DriverStep::Turn(begun) => turn::take(self, begun).await.map(|()| true),
            DriverStep::Run(calls) => dispatch::run(self, calls).await.map(|()| true),
            DriverStep::Settle(uid) => self.inner.settle_end(&self.live, uid).await.map(|_| true),
            DriverStep::Recover => {
                self.recovering = Some(Takeover::FailedWrite);
                Ok(true)
            }
            DriverStep::Rest => Ok(false),
        }
    }

    /// Decides with the lock held whether to continue, so that no result is missed.
    async fn look(&mut self) -> Result<DriverStep, StoreError> {
        let (inner, live) = (Arc::clone(&self.inner), Arc::clone(&self.live));
        let mut locked = live.lock(&*inner.store).await?;
        let Some(state) = locked.state() else {
            locked.release();
            self.permit = None;
            return Ok(DriverStep::Rest);
        };
        let (next, position, weight) = (machine::next(&state.head), state.position, state.size.memory);
        self.bind(state.head.uid, live.ended());
        if matches!(next, Next::Settle) && !inner.draining.is_cancelled() {
            pending::cancel(&inner, state, &[]);
            return Ok(DriverStep::Settle(state.head.uid));
        }
        if !matches!(next, Next::Settle | Next::Wait | Next::End) && !inner.draining.is_cancelled() {
            return self.start_work(&mut locked);
        }
        spans::rests(&inner, &state.head, &state.transcript);
        if matches!(next, Next::End) {
            pending::cancel(&inner, state, &[]);
        }
        // The engine drains: the next process must not count this as a crash.
        let interrupted = machine::interrupt(&state.head);
        let position = if interrupted.is_empty() {
            position
        } else {
            locked.append(&*inner.store, inner.clock.now(), interrupted, never)?
        };
        locked.release();
        // Released with the claim, and before waiting for the disk: later work finds neither a driver nor a permit.
        self.permit = None;
        if matches!(next, Next::Wait) {
            inner.live_queries.keep(&live, weight);
        }
        drop(locked);
        // The entry must not leave the table of live queries before the store has its state.
        if let Err(error) = inner.make_durable(&live, position).await {
            // Another driver may have claimed the query in the meantime; repeating is then up to that one. The claim
            // does not load the query: a second failure here must not leave this driver running without the claim.
            if !live.claim().await {
                return Ok(DriverStep::Rest);
            }
            self.permit = Some(Admission::enter_again(&inner, &live.key));
            return Err(error);
        }
        Ok(DriverStep::Rest)
    }

    /// Takes the work that was started for this driver, and starts the rest.
    fn start_work(&self, locked: &mut LockedQuery<'_>) -> Result<DriverStep, StoreError> {
        let mut started = locked.take_started();
        if started.turn.is_none() {
            locked.advance(&*self.inner.store, self.inner.clock.now())?;
            let further = locked.take_started();
            started.turn = further.turn;
            started.calls.extend(further.calls);
        }
        let Some(QueryState { head, transcript, .. }) = locked.state() else { return Ok(DriverStep::Rest) };
        if started.turn.is_some() {
            self.live.start_draft(head.turn, head.attempt);
            let (head, transcript) = (Arc::clone(head), Arc::clone(transcript));
            return Ok(DriverStep::Turn(StartedTurn { head, transcript, ended: self.ended.clone() }));
        }
        let ready = if let Next::Calls(ready) = machine::next(head) { ready } else { Vec::new() };
        let calls = Calls { ready, started: started.calls };
        Ok(if calls.ready.is_empty() && calls.started.is_empty() {
            DriverStep::Recover
        } else {
            DriverStep::Run(calls)
        })
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
        // Nothing is repeated before the store can commit it: a full disk must not cause a model request every half
        // second.
        self.inner.make_durable(&self.live, position).await?;
        // They are durable, or the query no longer asks for them.
        self.finished.clear();
        self.recovering = None;
        Ok(())
    }

    /// Appends what `decide` returns for the head, under the lock.
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

    /// Appends what `decide` makes of the model's answer. If that completes the query, `remembered` is added to its
    /// conversation.
    pub(crate) async fn end_turn(
        &mut self,
        remembered: Option<Arc<[Message]>>,
        decide: impl FnOnce(&Head, Timestamp) -> Vec<Event>,
    ) -> Result<(), StoreError> {
        let store = &*self.inner.store;
        let Some(mut locked) = self.live.lock_query(store, self.uid).await? else { return Ok(()) };
        let now = self.inner.clock.now();
        let earlier = locked.state().map_or(0, |state| state.head.calls.len());
        let events = locked.state().map(|state| decide(&state.head, now)).unwrap_or_default();
        locked.append(store, now, QueryChange { events, remembered }, |_| self.may_advance())?;
        // A turn that was lost and repeated may ask for other calls, under the same ids.
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

    /// Records that an inside call continues elsewhere. It expires as an outside call would, counted from the first
    /// time.
    pub(crate) async fn leave_pending(
        &self,
        call: CallId,
        handle: Arc<serde_json::Value>,
        poll_at: Timestamp,
        deadline: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        let now = self.inner.clock.now();
        let poll_at = poll_at.max(now.after(SHORTEST_POLL));
        let leave = |head: &Head| {
            let deadline = deadline.unwrap_or_else(|| now.after(head.limits.external_timeout));
            machine::leave_pending(head, call, handle, poll_at, deadline)
        };
        let position = self.append(leave).await?;
        // The handle is all that is left of the call.
        self.inner.make_durable(&self.live, position).await?;
        // Only now, since the timer reads committed rows: notified earlier, it would find this one a second later.
        self.inner.deadlines.expect(poll_at);
        Ok(())
    }

    /// Leaves a call waiting for a person's answer.
    pub(crate) async fn ask_person(
        &self,
        call: CallId,
        handle: Arc<serde_json::Value>,
        question: Arc<CallQuestion>,
    ) -> Result<(), StoreError> {
        let now = self.inner.clock.now();
        let ask = |head: &Head| {
            let deadline = now.after(head.limits.approval_timeout);
            machine::ask_person(head, call, handle, question, deadline)
        };
        let position = self.append(ask).await?;
        // The handle is all that is left of the call.
        self.inner.make_durable(&self.live, position).await
    }

    /// Fails the query when it exceeds its running time, a limit that may change in the meantime. To be polled
    /// concurrently with the work, whose appends take the same lock.
    pub(crate) async fn time_out(&self) -> Result<(), StoreError> {
        let mut changes = self.live.subscribe();
        let mut since = None;
        loop {
            let Some(left) = self.time_left(&mut since).await? else { return Ok(()) };
            tokio::select! {
                () = tokio::time::sleep(left) => {}
                // The sender lives as long as `live`.
                _ = changes.changed() => {}
            }
        }
    }

    /// Fails the query if its tree has used up its tokens or its time since the last turn ended; returns whether it
    /// did.
    pub(crate) async fn fail_if_spent(&self, head: &Head) -> Result<bool, StoreError> {
        let budget = self.inner.tree_budget(head).await?;
        if let Some(message) = budget.and_then(|(tree, _)| tree.token_fault(head.usage.total())) {
            self.append(|head| machine::fail(head, failure_code::TOKEN_LIMIT, message)).await?;
            return Ok(true);
        }
        Ok(self.time_left(&mut None).await?.is_none())
    }

    /// How long the query may run before its time is to be looked at again; `None` if it is over, and the query has
    /// failed. `since` is the running time when it was first looked at, and when that was.
    async fn time_left(&self, since: &mut Option<(Duration, Instant)>) -> Result<Option<Duration>, StoreError> {
        let in_tree = self.time_in_tree().await.unwrap_or_default();
        let mut locked = match self.lock().await {
            // A query that is gone has no time left either.
            Ok(None) => return Ok(None),
            Ok(Some(locked)) => locked,
            // The work may still end by itself, and will learn more about the failure.
            Err(_) => return Ok(Some(AFTER_STORE_FAILURE)),
        };
        let (running_time, now) = (locked.running_time(), self.inner.clock.now());
        let Some(QueryState { head, .. }) = locked.state() else { return Ok(None) };
        let own = head.limits.query_timeout;
        let (spent, began) = *since.get_or_insert_with(|| (running_time, Instant::now()));
        let spent = spent + began.elapsed();
        let left = own.saturating_sub(spent);
        // The other queries of the tree may spend the rest meanwhile.
        let (limit, left) = match in_tree {
            Some((others, limit)) if limit.saturating_sub(others + spent) < left => {
                (limit, limit.saturating_sub(others + spent))
            }
            _ => (own, left),
        };
        if left.is_zero() {
            let message = format!("the query ran longer than {limit:?}");
            let events = machine::fail(head, failure_code::QUERY_TIMEOUT, message);
            locked.append(&*self.inner.store, now, events, never)?;
            return Ok(None);
        }
        Ok(Some(if in_tree.is_some() { left.min(LOOKS_AT_TREE) } else { left }))
    }
}

impl Driver {
    /// The running time of the other queries of the tree, and the root's limit; `None` if the query is alone.
    async fn time_in_tree(&self) -> Result<Option<(Duration, Duration)>, StoreError> {
        let head = self.lock().await?.as_ref().and_then(LockedQuery::state).map(|state| Arc::clone(&state.head));
        let Some(head) = head.filter(|head| head.is_in_tree()) else { return Ok(None) };
        let budget = self.inner.tree_budget(&head).await?;
        Ok(budget.map(|(tree, limits)| (Duration::from_millis(tree.others.running_ms), limits.query_timeout)))
    }
}

/// Registers the deadline of a query, and notifies the workers that wait for a call of it.
pub(crate) fn expect_deadline(inner: &Inner, locked: &LockedQuery<'_>) {
    let Some(QueryState { head, .. }) = locked.state() else { return };
    if let Some(deadline) = head.deadline() {
        inner.deadlines.expect(deadline);
    }
    if head.claimable().next().is_some() {
        inner.claimable.notify_waiters();
    }
}
