//! The small fold of a journal: everything that decides what happens next.
//!
//! A head has no prompt, no arguments and no results, only their hashes, so that a store can keep it
//! in the query's row and the machine can decide without reading the journal. It changes in one
//! way: [`Head::apply`]. Rebuilding it from the journal gives the same value, always.

mod call;
mod claim;
mod clock;
mod tree;
mod waiting;

pub use call::{CallHead, CallState, Decided};
pub use claim::{CallClaim, Lease};
pub use clock::RunClock;
pub use tree::Unsettled;
pub use waiting::{QueryWait, Waiting, WaitingOn};

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    CallId, ContentHash, Namespace, Outcome, QueryName, QueryUid, Timestamp,
    event::{Changed, Entry, Event, Seq},
    json,
    machine::rejected,
    query::{EdgeNote, ExpiryPolicy, QueryLimits, Spec, TargetKind, Usage},
    tree::{Lineage, Spent, TreeBudget},
};

/// The current state of a query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Head {
    pub uid: QueryUid,
    pub namespace: Namespace,
    pub name: QueryName,
    /// The name of the target, as in the spec.
    #[serde(rename = "agent")]
    pub target: Arc<str>,
    #[serde(rename = "view")]
    pub edge_note: EdgeNote,
    pub seq: Seq,
    pub phase: Phase,
    pub turn: u32,
    pub attempt: u32,
    /// Every call of the query, in the order in which the model asked.
    pub calls: Vec<CallHead>,
    /// The wait of a held query, for its client.
    #[serde(rename = "heldUntil", default, skip_serializing_if = "Option::is_none", with = "waiting::hold")]
    pub hold: Option<Waiting>,
    /// The model has had its last turn with tools.
    #[serde(default)]
    pub tools_spent: bool,
    pub usage: Usage,
    /// What the ended children of the query have used.
    #[serde(default, skip_serializing_if = "Spent::is_zero")]
    pub below: Spent,
    /// The budget of the tree, as it was when the last turn ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreeBudget>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lineage: Option<Arc<Lineage>>,
    /// The target is a team: its calls are turns of its members.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_team: bool,
    /// The query has ended, and its tree has not been notified yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsettled: Option<Unsettled>,
    pub clock: RunClock,
    pub limits: QueryLimits,
    #[serde(default, skip_serializing_if = "ExpiryPolicy::is_tell")]
    pub on_expired: ExpiryPolicy,
    /// Present only if changed since the query was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<Arc<BTreeMap<String, String>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Arc<BTreeMap<String, String>>>,
    /// How many answers in a row failed validation against `outputSchema`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rejections: u32,
    /// How often the query was taken over after a crash since the model last answered.
    #[serde(default)]
    pub recoveries: u32,
    /// The process that ran the query shut down cleanly, and none has taken it over since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// The query is being retried in isolation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub isolated: bool,
    /// Crashes during isolated retries since the model last answered.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub isolated_crashes: u32,
    pub created_at: Timestamp,
    /// When the query last made progress. A change of limits or labels is not progress.
    pub updated_at: Timestamp,
}

/// The phase of the query's loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Accepted; the model has not been asked yet.
    Queued,
    /// The model is being asked.
    Thinking,
    /// The model has answered; its calls are open, or done and the next turn is due.
    Acting,
    Completed,
    Failed,
    Cancelled,
}

/// The status of a query in one word; every edge translates it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Queued,
    Running,
    /// At least one call waits for its client.
    Waiting,
    /// No call waits for its client, and at least one for a person's approval.
    AwaitingApproval,
    /// The same for values that the user has to give.
    AwaitingParameters,
    /// No call is open; a client holds the query.
    Held,
    Completed,
    Failed,
    Cancelled,
}

impl Status {
    pub const ALL: [Self; 9] = [
        Self::Queued,
        Self::Running,
        Self::Waiting,
        Self::AwaitingApproval,
        Self::AwaitingParameters,
        Self::Held,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// Whether the server has nothing to do until a client acts.
    #[must_use]
    pub fn is_settled(self) -> bool {
        !matches!(self, Self::Queued | Self::Running)
    }

    /// The engine's own word, as both views carry it in `state`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::AwaitingApproval => "awaiting_approval",
            Self::AwaitingParameters => "awaiting_parameters",
            Self::Held => "held",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A journal that does not begin with `Created`, or whose entries do not follow each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FoldError {
    #[error("journal of query `{0}` does not begin with its creation")]
    NotCreated(QueryUid),
    #[error("journal of query `{uid}` jumps from entry {have} to {found}")]
    Gap { uid: QueryUid, have: Seq, found: Seq },
}

impl Head {
    /// The head of a query that has just been created.
    ///
    /// # Errors
    /// If `entry` is not a creation, or not the first entry.
    pub fn new(uid: QueryUid, namespace: Namespace, name: QueryName, entry: &Entry) -> Result<Self, FoldError> {
        let Event::Created { spec, .. } = &entry.event else { return Err(FoldError::NotCreated(uid)) };
        if entry.seq != 1 {
            return Err(FoldError::Gap { uid, have: 0, found: entry.seq });
        }
        Ok(Self {
            uid,
            namespace,
            name,
            target: spec.target.as_str().into(),
            edge_note: spec.edge_note.clone(),
            seq: 1,
            phase: Phase::Queued,
            turn: 0,
            attempt: 0,
            calls: Vec::new(),
            hold: None,
            tools_spent: false,
            usage: Usage::default(),
            below: Spent::default(),
            tree: None,
            lineage: spec.lineage.clone(),
            is_team: spec.target_kind == TargetKind::Team,
            unsettled: None,
            clock: RunClock::default(),
            limits: spec.limits,
            on_expired: spec.on_expired,
            labels: None,
            annotations: None,
            rejections: 0,
            recoveries: 0,
            interrupted: false,
            isolated: false,
            isolated_crashes: 0,
            created_at: entry.at,
            updated_at: entry.at,
        })
    }

    /// Folds one more entry in.
    ///
    /// # Errors
    /// If `entry` is not the next one.
    pub fn apply(&mut self, entry: &Entry) -> Result<(), FoldError> {
        if entry.seq != self.seq + 1 {
            return Err(FoldError::Gap { uid: self.uid, have: self.seq, found: entry.seq });
        }
        self.seq = entry.seq;
        match &entry.event {
            Event::Created { .. } => return Err(FoldError::NotCreated(self.uid)),
            Event::TurnStarted { turn, attempt, tools } => {
                self.phase = Phase::Thinking;
                self.turn = *turn;
                self.attempt = *attempt;
                self.tools_spent |= !tools;
            }
            Event::TurnEnded { usage, rejected, tree, .. } => {
                self.tree = tree.or(self.tree);
                self.phase = Phase::Acting;
                self.rejections = if rejected.is_some() { self.rejections + 1 } else { 0 };
                self.attempt = 0;
                self.recoveries = 0;
                self.isolated = false;
                self.isolated_crashes = 0;
                self.usage += *usage;
            }
            Event::CallAsked(asked) => self.calls.push(CallHead::new(asked)),
            Event::CallStarted { call, attempt } => {
                if let Some(call) = self.call_mut(*call)
                    && let CallState::Ready { repeatable, .. } = call.state
                {
                    call.state = CallState::Started { repeatable, attempt: *attempt };
                }
            }
            Event::CallPending { call, poll_at, deadline, .. } => {
                if let Some(call) = self.call_mut(*call)
                    && let CallState::Started { attempt, .. } = call.state
                {
                    let on = WaitingOn::Runner { poll_at: *poll_at, attempt };
                    call.state = CallState::Waiting(Waiting { on, deadline: *deadline });
                }
            }
            Event::CallDue { call } => {
                if let Some(call) = self.call_mut(*call)
                    && let Some(Waiting { on: WaitingOn::Runner { attempt, .. }, .. }) = call.state.waiting()
                {
                    // To poll is always safe to repeat.
                    call.state = CallState::Ready { repeatable: true, attempts: attempt };
                }
            }
            Event::CallQuestioned { call, deadline, .. } => {
                if let Some(call) = self.call_mut(*call)
                    && let CallState::Started { attempt, .. } = call.state
                {
                    let on = WaitingOn::Answer { attempt };
                    call.state = CallState::Waiting(Waiting { on, deadline: *deadline });
                }
            }
            Event::CallAnswered { call, answer, .. } => {
                if let Some(call) = self.call_mut(*call)
                    && let Some(Waiting { on: WaitingOn::Answer { attempt }, .. }) = call.state.waiting()
                {
                    // A runner finds out whether an earlier process has passed it on.
                    call.state = CallState::Ready { repeatable: true, attempts: attempt };
                    call.answered = Some(json::content_hash(answer));
                }
            }
            Event::CallDelegated { call, .. } => {
                if let Some(call) = self.call_mut(*call)
                    && let CallState::Started { .. } = call.state
                {
                    call.state = CallState::Waiting(Waiting::CHILD);
                }
            }
            Event::ChildEnded { spent, .. } => self.below += *spent,
            Event::CallFinished { call, outcome } => {
                self.record(*call, outcome, |outcome| CallState::Finished { outcome });
            }
            Event::CallResolved { call, outcome, .. } => {
                self.record(*call, outcome, |outcome| CallState::Resolved { outcome });
            }
            Event::CallApproved { call, hash, .. } => {
                if let Some(call) = self.call_mut(*call)
                    && let Some(Waiting { on: WaitingOn::Approval { repeatable }, .. }) = call.state.waiting()
                {
                    call.state = CallState::Ready { repeatable, attempts: 0 };
                    call.arguments = *hash;
                    call.decided = Some(Decided::Approved);
                }
            }
            Event::CallRejected { call, reason, .. } => {
                self.record(*call, &rejected(reason.as_deref()), |outcome| CallState::Finished { outcome });
                if let Some(call) = self.call_mut(*call) {
                    call.decided = Some(Decided::Rejected);
                }
            }
            Event::CallExpired { call } => {
                if let Some(call) = self.call_mut(*call) {
                    call.state = CallState::Expired;
                }
            }
            Event::CallClaimed { call, lease, until, .. } => {
                if let Some(claim) = self.call_mut(*call).and_then(|call| call.claim.as_mut()) {
                    claim.attempts += 1;
                    claim.lease = Some(Lease { token: Arc::clone(lease), until: *until });
                }
            }
            Event::CallExtended { call, until } => {
                let claim = self.call_mut(*call).and_then(|call| call.claim.as_mut());
                if let Some(lease) = claim.and_then(|claim| claim.lease.as_mut()) {
                    lease.until = *until;
                }
            }
            Event::CallReleased { call } => {
                if let Some(claim) = self.call_mut(*call).and_then(|call| call.claim.as_mut()) {
                    claim.lease = None;
                }
            }
            Event::LoopNoticed { .. } => {}
            Event::Held { until, .. } => self.hold = Some(Waiting { on: WaitingOn::Client, deadline: *until }),
            Event::Continued { .. } => self.hold = None,
            Event::Changed(changed) => {
                self.change(changed);
                return Ok(());
            }
            Event::Settled => {
                self.unsettled = None;
                return Ok(());
            }
            Event::ClockStepped { by_ms } => self.clock.step(*by_ms),
            Event::Interrupted => self.interrupted = true,
            Event::Recovered { orderly, alone } => {
                // The process stopped some time after the last entry; no work was done since.
                self.clock.stop(self.updated_at);
                if !orderly {
                    self.recoveries += 1;
                    self.isolated_crashes += u32::from(self.isolated);
                }
                self.interrupted = false;
                self.isolated = *alone;
                for call in &mut self.calls {
                    if let CallState::Started { repeatable: true, attempt } = call.state {
                        call.state = CallState::Ready { repeatable: true, attempts: attempt };
                    }
                }
            }
            Event::Completed => self.end(Phase::Completed),
            Event::Failed { .. } => self.end(Phase::Failed),
            Event::Cancelled { .. } => self.end(Phase::Cancelled),
        }
        self.updated_at = entry.at;
        let works = self.works_inside();
        self.clock.set(works, entry.at);
        Ok(())
    }

    fn record(&mut self, call: CallId, outcome: &Outcome, state: impl FnOnce(ContentHash) -> CallState) {
        if let Some(call) = self.call_mut(call) {
            call.state = state(outcome.content_hash());
        }
    }

    fn change(&mut self, changed: &Changed) {
        let Changed { limits, labels, annotations, by: _ } = changed;
        self.limits = limits.replace_in(self.limits);
        if let Some(calls) = limits.max_tool_calls {
            // The raised limit allows calls again: the turn without tools was not the last one after all.
            self.tools_spent &= self.calls.len() > calls as usize;
        }
        self.labels = labels.clone().or(self.labels.take());
        self.annotations = annotations.clone().or(self.annotations.take());
    }

    fn end(&mut self, phase: Phase) {
        self.phase = phase;
        self.hold = None;
        let waits_for_child =
            |call: &&CallHead| matches!(call.state.waiting(), Some(Waiting { on: WaitingOn::Child, .. }));
        let children: Vec<_> = self.calls.iter().filter(waits_for_child).map(|call| call.id).collect();
        if self.lineage.is_some() || !children.is_empty() {
            self.unsettled = Some(Unsettled { children });
        }
        for call in self.calls.iter_mut().filter(|call| call.state.is_open()) {
            call.state = CallState::Cancelled;
        }
    }

    fn call_mut(&mut self, id: CallId) -> Option<&mut CallHead> {
        // Usually one of the last calls: only those are open.
        self.calls.iter_mut().rfind(|call| call.id == id)
    }

    #[must_use]
    pub fn call(&self, id: CallId) -> Option<&CallHead> {
        self.calls.iter().rfind(|call| call.id == id)
    }

    /// How often other calls of this tool with the same arguments have had this outcome. Refused calls count too; their
    /// outcomes never equal a tool's.
    #[must_use]
    pub fn repeats_of(&self, call: &CallHead, outcome: &Outcome) -> usize {
        let mut known = self.alike(call).filter_map(|other| other.state.outcome()).peekable();
        // Usually there is none, and nothing to compare.
        if known.peek().is_none() {
            return 0;
        }
        let outcome = outcome.content_hash();
        known.filter(|known| *known == outcome).count()
    }

    fn alike(&self, call: &CallHead) -> impl Iterator<Item = &CallHead> {
        self.calls.iter().filter(|other| other.is_alike(call))
    }

    /// In how many turns, including this one, calls like this one have had this outcome; equal calls of one turn count
    /// once. `None` if another call of the same turn has had it, so that it adds nothing.
    #[must_use]
    pub fn repeated_turns(&self, call: &CallHead, outcome: &Outcome) -> Option<usize> {
        let outcome = Some(outcome.content_hash());
        let (mut own, mut turns) = (None, Vec::new());
        for (turn, other) in self.calls_by_turn() {
            if other.id == call.id {
                own = Some(turn);
            } else if other.is_alike(call) && other.state.outcome() == outcome && turns.last() != Some(&turn) {
                turns.push(turn);
            }
        }
        let is_first = own.is_none_or(|own| !turns.contains(&own));
        is_first.then_some(turns.len() + 1)
    }

    /// Every call, with a number that is unique to its turn. It is derived from the ids, which are hashes, so call this
    /// only where calls repeat each other.
    fn calls_by_turn(&self) -> impl Iterator<Item = (usize, &CallHead)> {
        let (mut turn, mut index, mut number) = (0, 0, 0);
        self.calls.iter().map(move |call| {
            index += 1;
            if turn == 0 || call.id != CallId::derive(self.uid, turn, index) {
                let is_first = |turn: &u32| call.id == CallId::derive(self.uid, *turn, 0);
                // There may be turns without calls in between.
                turn = (turn + 1..=self.turn).find(is_first).unwrap_or(turn);
                index = 0;
                number += 1;
            }
            (number, call)
        })
    }

    /// Everything that the query waits for: its open calls, in their order, and then the client that holds it.
    pub fn waits(&self) -> impl Iterator<Item = QueryWait<'_>> {
        let calls =
            self.calls.iter().filter_map(|call| Some(QueryWait { call: Some(call), waiting: call.state.waiting()? }));
        calls.chain(self.hold.map(|waiting| QueryWait { call: None, waiting }))
    }

    /// The calls that wait for something that `is_wanted`, and when each wait ends.
    fn waiting_on(&self, is_wanted: fn(WaitingOn) -> bool) -> impl Iterator<Item = (&CallHead, Timestamp)> {
        self.calls.iter().filter_map(move |call| {
            let waiting = call.state.waiting().filter(|waiting| is_wanted(waiting.on))?;
            Some((call, waiting.deadline))
        })
    }

    /// The outside calls that the client must run.
    pub fn outside_calls(&self) -> impl Iterator<Item = (&CallHead, Timestamp)> {
        self.waiting_on(|on| on == WaitingOn::Client)
    }

    /// The calls that a person must approve or reject.
    pub fn approvals(&self) -> impl Iterator<Item = (&CallHead, Timestamp)> {
        self.waiting_on(|on| matches!(on, WaitingOn::Approval { .. }))
    }

    /// The calls that ask the user for something: for parameters, or for the answer to a question.
    pub fn parameter_requests(&self) -> impl Iterator<Item = (&CallHead, Timestamp)> {
        self.waiting_on(|on| matches!(on, WaitingOn::Parameters | WaitingOn::Answer { .. }))
    }

    /// The calls that wait for a worker.
    pub fn claimable(&self) -> impl Iterator<Item = (&CallHead, Timestamp)> {
        self.outside_calls().filter(|(call, _)| call.claim.as_ref().is_some_and(|claim| claim.lease.is_none()))
    }

    /// The calls that a worker has claimed.
    pub fn leases(&self) -> impl Iterator<Item = (&CallHead, &CallClaim, &Lease)> {
        self.outside_calls().filter_map(|(call, _)| {
            let claim = call.claim.as_ref()?;
            Some((call, claim, claim.lease.as_ref()?))
        })
    }

    /// Whether the model or an inside call is running.
    #[must_use]
    pub fn works_inside(&self) -> bool {
        match self.phase {
            Phase::Thinking => true,
            Phase::Acting => self.calls.iter().any(|call| call.state.is_inside()),
            Phase::Queued | Phase::Completed | Phase::Failed | Phase::Cancelled => false,
        }
    }

    /// The turn that the model is running, and its attempt; `None` if the model is not running.
    #[must_use]
    pub fn asking(&self) -> Option<(u32, u32)> {
        (self.phase == Phase::Thinking).then_some((self.turn, self.attempt))
    }

    #[must_use]
    pub fn status(&self) -> Status {
        match self.phase {
            Phase::Queued => Status::Queued,
            Phase::Thinking => Status::Running,
            Phase::Acting => self.status_of_calls(),
            Phase::Completed => Status::Completed,
            Phase::Failed => Status::Failed,
            Phase::Cancelled => Status::Cancelled,
        }
    }

    /// What a client can do comes first, even while inside calls run; a hold counts only when nothing else is open.
    fn status_of_calls(&self) -> Status {
        if self.outside_calls().next().is_some() {
            Status::Waiting
        } else if self.approvals().next().is_some() {
            Status::AwaitingApproval
        } else if self.parameter_requests().next().is_some() {
            Status::AwaitingParameters
        } else if self.hold.is_none() || self.calls.iter().any(|call| call.state.is_open()) {
            Status::Running
        } else {
            Status::Held
        }
    }

    /// The current labels; `spec` is the query's own.
    #[must_use]
    pub fn labels<'a>(&'a self, spec: &'a Spec) -> &'a BTreeMap<String, String> {
        self.labels.as_deref().unwrap_or(&spec.labels)
    }

    /// The current annotations; `spec` is the query's own.
    #[must_use]
    pub fn annotations<'a>(&'a self, spec: &'a Spec) -> &'a BTreeMap<String, String> {
        self.annotations.as_deref().unwrap_or(&spec.annotations)
    }

    /// Until when a query that has ended is retained.
    #[must_use]
    pub fn kept_until(&self) -> Option<Timestamp> {
        // Until its tree has been notified, the row records that this is still to be done.
        let is_over = self.status().is_final() && self.unsettled.is_none();
        is_over.then(|| self.updated_at.after(self.limits.ttl))
    }

    /// The next time at which the sweep has to act on the query.
    #[must_use]
    pub fn deadline(&self) -> Option<Timestamp> {
        let waits = self.waits().filter_map(|wait| wait.waiting.due_at());
        waits.chain(self.leases().map(|(_, _, lease)| lease.until)).min()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}
