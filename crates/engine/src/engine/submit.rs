//! Submitting a query: idempotent by name or key, frozen before its name is locked, durable before it is answered.

use std::{sync::Arc, time::Duration};

use bosun_core::{ContentHash, Event, QueryName, QueryUid};

use crate::{
    Clock, Engine, EngineError, Submission,
    engine::{Inner, Submitted},
    fault,
    queries::{
        append::CreationParts,
        live::{LiveQuery, LockedQuery},
    },
    store::{IdempotentRequest, RequestKey, StoredDocument},
};

/// What identifies a request for idempotency: its name or key, and its fingerprint.
pub(crate) struct AskedBefore {
    name: Option<QueryName>,
    key: Option<RequestKey>,
    fingerprint: Option<ContentHash>,
}

impl AskedBefore {
    pub(crate) fn new(submission: &Submission, fingerprint: Option<ContentHash>) -> Self {
        Self { name: submission.name.clone(), key: submission.request.clone(), fingerprint }
    }

    /// What the store keeps of it.
    pub(crate) fn into_request(self) -> Option<IdempotentRequest> {
        self.key.zip(self.fingerprint).map(|(key, fingerprint)| IdempotentRequest { key, fingerprint })
    }
}

/// What an earlier request left under the name of a new one.
pub(crate) enum EarlierRequest<'a> {
    /// Nothing: the name is free, and locked.
    None(LockedQuery<'a>),
    /// The query of an equal request.
    Answer(Submitted),
}

impl Engine {
    /// Submits a query. With `wait`, answers when it pauses or ends, or after that time; without, as soon as it is
    /// durable. A request that repeats an earlier one, by its name or its idempotency key, is answered with the query
    /// of that one.
    ///
    /// # Errors
    /// If the agent, its model or a tool does not exist, the name or the key is in use, the queue is full, or the store
    /// fails.
    #[tracing::instrument(level = "debug", name = "query.submit", skip_all, fields(agent = %submission.target))]
    pub async fn submit(&self, submission: Submission, wait: Option<Duration>) -> Result<Submitted, EngineError> {
        self.detached(async move |inner| {
            inner.compile_output_schema(&submission).await?;
            let uid = new_uid(&*inner.clock)?;
            let lasting_name = submission.lasting_name();
            let is_new = lasting_name.is_none();
            let fingerprint = lasting_name.is_some().then(|| submission.fingerprint());
            let key = (submission.namespace.clone(), lasting_name.unwrap_or_else(|| QueryName::for_uid(uid)));
            let live = inner.live_queries.entry(&key);
            let asked = AskedBefore::new(&submission, fingerprint);
            if !is_new && let EarlierRequest::Answer(earlier) = inner.earlier(&live, &asked, wait).await? {
                return Ok(earlier);
            }
            if inner.admission.is_full(&key.0) {
                return Err(EngineError::Overloaded(inner.admission.queued_of(&key.0)));
            }
            let by = submission.by.clone();
            // CPU-heavy, so never with the query locked.
            let joins = inner.join(&submission, uid).await?;
            let alone = joins.as_ref().is_some_and(|joining| joining.alone);
            let (spec, toolset) = inner.prepare(submission, joins.as_ref(), fingerprint).await?;
            let mut locked = if is_new {
                live.lock_new().await
            } else {
                // An equal request may have been faster.
                match inner.earlier(&live, &asked, wait).await? {
                    EarlierRequest::Answer(earlier) => return Ok(earlier),
                    EarlierRequest::None(locked) => locked,
                }
            };
            let toolset = StoredDocument { hash: toolset.hash(), body: toolset.to_document() };
            let brings = CreationParts { toolset, request: asked.into_request(), joins };
            let event = Event::Created { spec: Arc::new(spec), by };
            // Only the store knows whether a query is alone in its conversation, and no model is asked before that. And
            // the driver of an earlier query of this name may still be running: it must not mistake this query's turn
            // for its own.
            let (waits, mut permit) = (alone || locked.is_driven(), None);
            let position = locked.create(&*inner.store, uid, inner.clock.now(), event, brings, |_| {
                !waits && inner.may_begin(&key, &mut permit)
            })?;
            fault::point("submit.appended");
            inner.admission.unpark(&key);
            if alone {
                drop(locked);
                inner.make_durable(&live, position).await?;
                locked = live.lock(&*inner.store).await?;
            }
            inner.drive_if_due(&live, &mut locked, permit);
            drop(locked);
            let snapshot = inner.answer(&live, position, wait).await?;
            fault::point("submit.durable");
            Ok(Submitted { snapshot, replayed: false })
        })
        .await
    }
}

impl Inner {
    /// Looks up what an earlier request left under the name of `live`, and locks the name.
    ///
    /// # Errors
    /// If the earlier request was different, if its query was deleted, or if the store fails.
    pub(crate) async fn earlier<'a>(
        self: &Arc<Self>,
        live: &'a Arc<LiveQuery>,
        asked: &AskedBefore,
        wait: Option<Duration>,
    ) -> Result<EarlierRequest<'a>, EngineError> {
        let locked = live.lock(&*self.store).await?;
        if let Some(state) = locked.state() {
            let (position, replayed) = (state.position, state.transcript.spec.request == asked.fingerprint);
            drop(locked);
            if replayed {
                let snapshot = self.answer(live, position, wait).await?;
                return Ok(EarlierRequest::Answer(Submitted { snapshot, replayed }));
            }
            // Refusing the name states that the query exists, and a client that retries relies on it: wait until it is
            // durable.
            self.make_durable(live, position).await?;
            return Err(match &asked.name {
                Some(name) => EngineError::NameTaken(live.key.0.clone(), name.clone()),
                None => EngineError::RequestReused,
            });
        }
        if let Some(key) = &asked.key
            && let Some(earlier) = self.store.answered(&live.key.0, key).await?
        {
            let repeats = Some(earlier.fingerprint) == asked.fingerprint;
            return Err(if repeats {
                EngineError::QueryDeleted(live.key.1.clone())
            } else {
                EngineError::RequestReused
            });
        }
        Ok(EarlierRequest::None(locked))
    }
}

/// A new id: a timestamp first, so that ids sort, then randomness, so that they cannot be guessed.
fn new_uid(clock: &dyn Clock) -> Result<QueryUid, EngineError> {
    let mut random = [0; 10];
    getrandom::fill(&mut random).map_err(EngineError::NoRandomness)?;
    Ok(QueryUid::new(u64::try_from(clock.now().0).unwrap_or(0), random))
}
