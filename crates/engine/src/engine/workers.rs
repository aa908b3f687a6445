//! Workers: clients that run calls of queries that other clients have submitted.
//!
//! A worker claims open calls of tools that the catalogue declares as `type: external`. A claim is an entry of the
//! query's journal, durable before the call is handed out, so a lease survives a restart and no two workers have the same
//! call. A worker extends its lease while it runs the call, and delivers the result under it. The machine decides what
//! follows from a lease that lapses.

use std::{fmt, pin::pin, sync::Arc, time::Duration};

use bosun_core::{
    Actor, CallId, Namespace, QueryName, Timestamp, hex,
    machine::{self, LeaseState},
    trace::TraceContext,
};
use serde_json::Value;
use tokio::time::Instant;

use crate::{
    Engine, EngineError,
    engine::Inner,
    fault,
    queries::{live::LiveQuery, state::QueryState},
    store::Position,
};

/// How often workers that wait poll the store: a lost notification delays a call by no more than that.
const PERIOD: Duration = Duration::from_secs(1);

/// What a worker asks for.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// The names of the tools that it runs.
    pub tools: Vec<String>,
    /// At most this many calls.
    pub limit: usize,
    /// How long it has each of them without extending its lease.
    pub lease: Duration,
    /// How long to wait for a call.
    pub wait: Option<Duration>,
}

/// A call that a worker has claimed.
#[derive(Clone, Debug)]
pub struct ClaimedCall {
    pub query: QueryName,
    pub call: CallId,
    pub tool: Arc<str>,
    pub arguments: Arc<Value>,
    /// When the call expires, regardless of its lease.
    pub deadline: Timestamp,
    pub lease: LeaseToken,
    pub leased_until: Timestamp,
    /// 1, or more if the leases of earlier workers have lapsed.
    pub attempt: u32,
    pub trace: Option<Arc<TraceContext>>,
}

/// Names a lease. It cannot be guessed, and it has the name of the query, so that its holder need not know that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseToken(Arc<str>);

impl LeaseToken {
    fn new(query: &QueryName) -> Result<Self, EngineError> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(EngineError::NoRandomness)?;
        Ok(Self(format!("{}.{query}", hex::encode(&random)).into()))
    }

    /// Reads a token; `None` if it is not one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (random, query) = text.split_once('.')?;
        let is_token = random.len() == 32 && query.parse::<QueryName>().is_ok();
        is_token.then(|| Self(text.into()))
    }

    /// The query of the call.
    #[must_use]
    pub fn query(&self) -> Option<QueryName> {
        self.0.split_once('.').and_then(|(_, query)| query.parse().ok())
    }

    #[must_use]
    pub fn text(&self) -> &Arc<str> {
        &self.0
    }
}

impl fmt::Display for LeaseToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Engine {
    /// Claims open calls for a worker, oldest queries first. With `wait`, waits until there is one. The claims are
    /// durable when this returns.
    ///
    /// # Errors
    /// If the store fails. Calls that were claimed are then open again when their leases have lapsed.
    pub async fn claim_calls(
        &self,
        by: Actor,
        namespace: Namespace,
        request: ClaimRequest,
    ) -> Result<Vec<ClaimedCall>, EngineError> {
        let until = request.wait.map(|wait| Instant::now() + wait);
        loop {
            // Registered before the store is read, so that no later notification is missed.
            let mut opened = pin!(self.inner.claimable.notified());
            opened.as_mut().enable();
            let (by, namespace, request) = (by.clone(), namespace.clone(), request.clone());
            let claimed = self.detached(async move |inner| inner.claim(&by, &namespace, &request).await).await?;
            let left = until.map(|until| until.saturating_duration_since(Instant::now())).unwrap_or_default();
            if !claimed.is_empty() || left.is_zero() {
                return Ok(claimed);
            }
            tokio::select! {
                () = opened => {}
                () = tokio::time::sleep(left.min(PERIOD)) => {}
                () = self.inner.draining.cancelled() => return Ok(Vec::new()),
            }
        }
    }

    /// Extends the lease of a call by `lease` from now, and returns until when the worker has it.
    ///
    /// # Errors
    /// If the lease has lapsed, if the call does not exist, or if the store fails.
    pub async fn extend_lease(
        &self,
        namespace: Namespace,
        call: CallId,
        token: LeaseToken,
        lease: Duration,
    ) -> Result<Timestamp, EngineError> {
        let query = token.query().ok_or(EngineError::CallNotFound(call))?;
        let clock = Arc::clone(&self.inner.clock);
        let changed = self.change((namespace, query), None, "extend.appended", move |QueryState { head, .. }| {
            let now = clock.now();
            machine::extend_claim(head, now, call, token.text(), now.after(lease)).map_err(|state| match state {
                LeaseState::Held | LeaseState::Lost | LeaseState::Over => EngineError::LeaseLost(call),
                LeaseState::Unknown => EngineError::CallNotFound(call),
            })
        });
        let snapshot = match changed.await {
            Err(EngineError::QueryNotFound(..)) => return Err(EngineError::CallNotFound(call)),
            changed => changed?,
        };
        let lease = snapshot.head.call(call).and_then(|call| call.claim.as_ref()?.lease.as_ref());
        Ok(lease.map_or(snapshot.head.updated_at, |lease| lease.until))
    }
}

impl Inner {
    async fn claim(
        self: &Arc<Self>,
        by: &Actor,
        namespace: &Namespace,
        request: &ClaimRequest,
    ) -> Result<Vec<ClaimedCall>, EngineError> {
        // A row that is not committed yet is not found. A failed commit is reported to those that wait for it.
        let _ = self.store.durable(self.store.last_position()).await;
        let open = self.store.claimable(namespace, &request.tools, request.limit).await?;
        let mut claimed = Vec::with_capacity(open.len());
        for (query, call) in open {
            let live = self.live_queries.entry(&(namespace.clone(), query));
            let Some((found, position)) = self.claim_one(&live, call, by, request.lease).await? else { continue };
            claimed.push((found, live, position));
        }
        let mut handed_out = Vec::with_capacity(claimed.len());
        for (call, live, position) in claimed {
            self.make_durable(&live, position).await?;
            handed_out.push(call);
        }
        if !handed_out.is_empty() {
            fault::point("claim.durable");
        }
        Ok(handed_out)
    }

    /// Claims one call, unless another worker or a result was faster.
    async fn claim_one(
        self: &Arc<Self>,
        live: &Arc<LiveQuery>,
        call: CallId,
        by: &Actor,
        lease: Duration,
    ) -> Result<Option<(ClaimedCall, Position)>, EngineError> {
        let mut locked = live.lock(&*self.store).await?;
        let Some(QueryState { head, .. }) = locked.state() else { return Ok(None) };
        let (now, token) = (self.clock.now(), LeaseToken::new(&head.name)?);
        let events = machine::claim(head, now, call, token.text(), now.after(lease), by);
        if events.is_empty() {
            return Ok(None);
        }
        let position = self.append_and_drive(live, &mut locked, now, events, "claim.appended")?;
        let Some(QueryState { head, transcript, .. }) = locked.state() else { return Ok(None) };
        let (Some(asked), Some((_, deadline))) =
            (transcript.call(call).map(|call| &call.asked), head.outside_calls().find(|(found, _)| found.id == call))
        else {
            return Ok(None);
        };
        let claim = head.call(call).and_then(|call| call.claim.as_ref());
        let found = ClaimedCall {
            query: head.name.clone(),
            call,
            tool: Arc::clone(&asked.tool),
            arguments: Arc::clone(&asked.arguments),
            deadline,
            leased_until: claim.and_then(|claim| claim.lease.as_ref()).map_or(now, |lease| lease.until),
            attempt: claim.map_or(1, |claim| claim.attempts),
            lease: token,
            trace: transcript.spec.trace.clone(),
        };
        Ok(Some((found, position)))
    }
}
