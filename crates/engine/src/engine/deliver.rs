//! What clients do to an existing query: deliver results, resume, cancel, delete.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bosun_core::{
    Actor, CallId, Event, Outcome,
    audit::AuditRecord,
    machine::{self, Delivery, DeliveryVerdict},
};

use crate::{
    DeliverReport, Engine, EngineError, QueryKey, Snapshot,
    engine::{Inner, audit, large_results::LargeResults, owners::ResultOwner, tree},
    fault,
    queries::{append::never, state::QueryState},
    store::Removal,
    turns::pending,
    turns::result_cache::{CallingQuery, ResultKey},
};

impl Engine {
    /// Delivers results of outside calls. With `wait`, answers with the agent's next action. `hold` keeps the query
    /// paused until a later delivery or [`Engine::resume`].
    ///
    /// # Errors
    /// If the query does not exist or the store fails. The report has a verdict for each result.
    #[tracing::instrument(level = "debug", name = "query.deliver", skip_all, fields(query = %key.1, results = deliveries.len()))]
    pub async fn deliver(
        &self,
        by: Actor,
        key: QueryKey,
        mut deliveries: Vec<Delivery>,
        hold: bool,
        wait: Option<Duration>,
    ) -> Result<DeliverReport, EngineError> {
        if let Some(owners) = self.inner.result_owners(&key, &deliveries).await? {
            return self.deliver_in_tree(by, key, owners.into_iter().zip(deliveries).collect(), hold, wait).await;
        }
        self.detached(async move |inner| {
            let live = inner.live_queries.entry(&key);
            let mut large = LargeResults::extract_large(&mut deliveries);
            // Values of parameters are validated without the lock, for the entries up to this one.
            let mut validated = 0;
            let (mut locked, now, delivered) = loop {
                let locked = live.lock(&*inner.store).await?;
                let state = Inner::state_of(&locked, &key)?;
                if validated != state.head.seq && state.head.parameter_requests().next().is_some() {
                    let snapshot = state.snapshot();
                    drop(locked);
                    inner.check_values(&snapshot, &deliveries).await?;
                    validated = snapshot.head.seq;
                    continue;
                }
                let (head, now) = (&Inner::state_of(&locked, &key)?.head, inner.clock.now());
                let posted = if large.is_empty() { std::mem::take(&mut deliveries) } else { deliveries.clone() };
                let delivered = machine::deliver(head, now, posted, hold, &by);
                if large.are_kept(&delivered.verdicts) {
                    break (locked, now, delivered);
                }
                drop(locked);
                large.keep(&*inner.blobs, &delivered.verdicts).await?;
            };
            let head = &Inner::state_of(&locked, &key)?.head;
            audit::record_refusals(&*inner.store, head, now, &by, &delivered.refused)?;
            inner.metrics.delivery_refused(delivered.refused.len());
            let changed = !delivered.events.is_empty();
            let resolved: Vec<_> = delivered.events.iter().filter_map(resolved).collect();
            let position = inner.append_and_drive(&live, &mut locked, now, delivered.events, "deliver.appended")?;
            let cached = locked.state().map(|state| inner.cache_results(state, resolved)).unwrap_or_default();
            drop(locked);
            let wait = wait.filter(|_| awaits_next_action(&delivered.verdicts));
            let snapshot = inner.answer(&live, position, wait).await.inspect_err(|_| {
                // They may not have been committed, and no answer has claimed that they were.
                cached.iter().for_each(|key| inner.result_cache.remove(key));
            })?;
            if changed {
                fault::point("deliver.durable");
            }
            Ok(DeliverReport { verdicts: delivered.verdicts, snapshot })
        })
        .await
    }

    /// Delivers results to the queries of a tree that they are for. Those of one query are one append.
    async fn deliver_in_tree(
        &self,
        by: Actor,
        key: QueryKey,
        results: Vec<(ResultOwner, Delivery)>,
        hold: bool,
        wait: Option<Duration>,
    ) -> Result<DeliverReport, EngineError> {
        let mut verdicts = vec![DeliveryVerdict::Unknown; results.len()];
        let mut by_owner: BTreeMap<QueryKey, (Vec<usize>, Vec<Delivery>)> = BTreeMap::new();
        let mut ambiguous = Vec::new();
        for (index, (owner, delivery)) in results.into_iter().enumerate() {
            match owner {
                ResultOwner::Query(owner) => {
                    let (places, deliveries) = by_owner.entry(owner).or_default();
                    places.push(index);
                    deliveries.push(delivery);
                }
                ResultOwner::Ambiguous => {
                    verdicts[index] = DeliveryVerdict::Ambiguous;
                    ambiguous.push((delivery, DeliveryVerdict::Ambiguous));
                }
            }
        }
        let inner = &self.inner;
        // One invalid entry refuses the whole post, whichever query it is for.
        for (owner, (_, deliveries)) in &by_owner {
            let snapshot = inner.snapshot_of(&inner.live_queries.entry(owner), owner).await?;
            inner.check_values(&snapshot, deliveries).await?;
        }
        if !ambiguous.is_empty() {
            let snapshot = inner.snapshot_of(&inner.live_queries.entry(&key), &key).await?;
            audit::record_refusals(&*inner.store, &snapshot.head, inner.clock.now(), &by, &ambiguous)?;
            inner.metrics.delivery_refused(ambiguous.len());
        }
        for (owner, (places, deliveries)) in by_owner {
            let report = Box::pin(self.deliver(by.clone(), owner, deliveries, hold, None)).await?;
            for (place, verdict) in places.into_iter().zip(report.verdicts) {
                verdicts[place] = verdict;
            }
        }
        let wait = wait.filter(|_| awaits_next_action(&verdicts));
        let snapshot = self.get(&key, wait).await?;
        Ok(DeliverReport { verdicts, snapshot })
    }

    /// Resumes a held query.
    ///
    /// # Errors
    /// If the query does not exist, is not held or was held for too long, or the store fails.
    pub async fn resume(&self, by: Actor, key: QueryKey, wait: Option<Duration>) -> Result<Snapshot, EngineError> {
        let clock = Arc::clone(&self.inner.clock);
        self.change(key, wait, "resume.appended", move |QueryState { head, .. }| {
            let events = machine::resume(head, clock.now(), &by);
            match head.hold {
                _ if !events.is_empty() => Ok(events),
                Some(_) => Err(EngineError::HoldExpired(head.name.clone())),
                None => Err(EngineError::NotHeld(head.name.clone())),
            }
        })
        .await
    }

    /// Cancels a query. One that has already ended is left unchanged.
    ///
    /// # Errors
    /// If the query does not exist or the store fails.
    pub async fn cancel(&self, by: Actor, key: QueryKey, reason: Option<String>) -> Result<Snapshot, EngineError> {
        self.change(key, None, "cancel.appended", move |state| Ok(machine::cancel(&state.head, reason, &by))).await
    }

    /// Deletes a query and its journal, and those of all queries below it; one that has not ended is cancelled first.
    ///
    /// # Errors
    /// If the query does not exist or the store fails.
    pub async fn delete(&self, by: Actor, key: QueryKey) -> Result<(), EngineError> {
        let snapshot = self.get(&key, None).await?;
        let is_parent = snapshot.transcript.calls().any(tree::may_have_child);
        if is_parent || snapshot.head.lineage.is_some() {
            let reason = Some("the query was deleted".to_owned());
            self.cancel(by.clone(), key.clone(), reason).await?;
            // Its tree is notified first: after the deletion there is no row that records that this is still to be
            // done.
            let live = self.inner.live_queries.entry(&key);
            let position = self.inner.settle_end(&live, snapshot.head.uid).await?;
            self.inner.make_durable(&live, position).await?;
            self.delete_below(&by, &key).await?;
        }
        self.delete_one(by, key).await
    }

    pub(crate) async fn delete_one(&self, by: Actor, key: QueryKey) -> Result<(), EngineError> {
        self.detached(async move |inner| {
            let live = inner.live_queries.entry(&key);
            let mut locked = live.lock(&*inner.store).await?;
            let head = Arc::clone(&Inner::state_of(&locked, &key)?.head);
            let now = inner.clock.now();
            let reason = Some("the query was deleted".to_owned());
            let position = locked.append(&*inner.store, now, machine::cancel(&head, reason, &by), never)?;
            fault::point("delete.appended");
            if let Some(state) = locked.state() {
                pending::cancel(&inner, state, &[]);
            }
            let deleted = match inner.store.durable(position).await {
                Ok(()) => {
                    let record = Box::new(AuditRecord::of_deletion(&head, now, &by));
                    inner.store.remove(Removal::Query(key.0, head.uid, record), now).await
                }
                Err(error) => Err(error),
            };
            // The in-memory state may be wrong now, whether or not the deletion was committed: reload it from the
            // store.
            locked.discard();
            Ok(deleted.map(|_| ())?)
        })
        .await
    }
}

impl Inner {
    /// Caches delivered results of tools with a cache policy. If the toolset of a query is no longer in memory, its
    /// results are delivered and not cached: that is not worth a read of the store.
    fn cache_results(&self, state: &QueryState, resolved: Vec<(CallId, Arc<Outcome>)>) -> Vec<ResultKey> {
        let QueryState { head, transcript, .. } = state;
        if resolved.is_empty() {
            return Vec::new();
        }
        let Some(toolset) = self.toolsets.get(transcript.spec.toolset) else { return Vec::new() };
        let mut query = None;
        let mut cached = Vec::new();
        for (call, outcome) in resolved {
            let Some(asked) = transcript.call(call).map(|call| &call.asked) else { continue };
            let Some(tool) = toolset.get(&asked.tool).map(|member| &member.tool) else { continue };
            if tool.cache_for.is_none() {
                continue;
            }
            let query = query.get_or_insert_with(|| CallingQuery::new(&head.namespace, head.uid, transcript));
            if let Some(key) = query.key(tool, &asked.arguments) {
                self.result_cache.insert(key.clone(), &outcome, self.clock.monotonic());
                cached.push(key);
            }
        }
        cached
    }
}

/// The call that the event resolves, and its outcome.
fn resolved(event: &Event) -> Option<(CallId, Arc<Outcome>)> {
    match event {
        Event::CallResolved { call, outcome, .. } => Some((*call, Arc::clone(outcome))),
        _ => None,
    }
}

/// Whether a client that posted this waits for the agent's next action: also after a replay, since the first answer
/// may have been lost on the way.
fn awaits_next_action(verdicts: &[DeliveryVerdict]) -> bool {
    verdicts.iter().any(|verdict| matches!(verdict, DeliveryVerdict::Accepted(_) | DeliveryVerdict::Replayed(_)))
}
