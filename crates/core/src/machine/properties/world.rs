//! What the scripts are run against: one query, the processes and workers that run its calls, and its clocks.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use serde_json::json;

use super::{
    super::{
        AskedByModel, CallDecision, CallDisposition, ChildReport, Decision, DecisionVerdict, Delivery, DeliveryState,
        DeliveryTarget, DeliveryVerdict, ModelTurnReply, Next, REPEATS_NOTICED, Takeover, advance, ask_person, cancel,
        change, child_ended, claim, clock_stepped, decide, delegate, deliver, delivery_state, end_turn, expire,
        failure_code, finish_call, interrupt, leave_pending, next, outcome_code, recover, resume, settle, start_call,
        tests::{created, spec},
    },
    CallKind, MAX_CALLS, MachineAct, Saw,
};
use crate::{
    Actor, CallId, Entry, Event, Head, Namespace, Outcome, QueryLimits, QueryName, QueryUid, Timestamp, Transcript,
    event::{CallQuestion, CallRoute, Changed},
    head::{CallState, Waiting, WaitingOn},
    json,
    query::AskedLimits,
    result_rendering::ResultRenderer,
    transcript::{Message, SentMessages},
    tree::Spent,
};

pub(super) struct MachineWorld {
    pub(super) head: Head,
    pub(super) journal: Vec<Entry>,
    now: Timestamp,
    /// Inside calls that a process is running right now.
    running: Vec<CallId>,
    thinking: bool,
    starts: HashMap<CallId, u32>,
    repeatable: HashMap<CallId, bool>,
    /// Calls that have been left pending: every later start is a poll.
    polled: BTreeSet<CallId>,
    /// Calls with a query of their own: those queries survive every crash.
    children: Vec<CallId>,
    accepted: HashMap<CallId, u32>,
    /// How often workers have claimed each call.
    claims: HashMap<CallId, u32>,
    /// The turn in which each call was asked for.
    turns: HashMap<CallId, u32>,
    /// The running time by a monotonic clock, and the part of it since the last entry.
    ran: Duration,
    ran_since_entry: Duration,
    /// By how much the wall clock has stepped since the last entry.
    stepped: i64,
    crashes: u32,
}

impl MachineWorld {
    pub(super) fn new() -> Self {
        let limits = QueryLimits {
            max_tool_calls: MAX_CALLS,
            external_timeout: Duration::from_secs(300),
            ..QueryLimits::default()
        };
        let head = created(limits);
        let first = Entry {
            seq: 1,
            at: head.created_at,
            event: Event::Created { spec: Arc::new(spec(limits)), by: Actor::local() },
        };
        Self {
            now: head.created_at,
            head,
            journal: vec![first],
            running: Vec::new(),
            thinking: false,
            starts: HashMap::new(),
            repeatable: HashMap::new(),
            polled: BTreeSet::new(),
            children: Vec::new(),
            accepted: HashMap::new(),
            claims: HashMap::new(),
            turns: HashMap::new(),
            ran: Duration::ZERO,
            ran_since_entry: Duration::ZERO,
            stepped: 0,
            crashes: 0,
        }
    }

    fn append(&mut self, mut events: Vec<Event>) {
        if events.is_empty() {
            return;
        }
        if self.stepped != 0 {
            events.splice(0..0, clock_stepped(&self.head, self.stepped));
            self.stepped = 0;
        }
        let ended = self.head.status().is_final();
        let moves = events.iter().any(|event| !matches!(event, Event::Changed(_) | Event::Settled));
        assert!(!moves || !ended, "a query that has ended never continues: {events:?}");
        for event in events {
            let entry = Entry { seq: self.head.seq + 1, at: self.now, event };
            self.head.apply(&entry).unwrap();
            if let Event::CallAsked(asked) = &entry.event {
                self.turns.insert(asked.call, self.head.turn);
            }
            if entry.event.moves() {
                self.ran_since_entry = Duration::ZERO;
            }
            if let Event::CallAsked(asked) = &entry.event
                && let CallRoute::Inside { repeatable } | CallRoute::Approval { repeatable, .. } = asked.route
            {
                self.repeatable.insert(asked.call, repeatable);
            }
            self.journal.push(entry);
        }
        assert_eq!(self.head.clock.spent(self.now), self.ran, "running time does not step");
    }

    pub(super) fn perform(&mut self, act: MachineAct) {
        match act {
            MachineAct::Drive(kinds) => self.drive(&kinds),
            MachineAct::Finish(index, content) => {
                if !self.running.is_empty() {
                    let call = self.running.remove(index % self.running.len());
                    let events = finish_call(&self.head, call, Outcome::success(content));
                    self.append(events);
                }
            }
            MachineAct::Leave(index) => self.leave(index),
            MachineAct::Question(index) => self.question(index),
            MachineAct::Delegate { call, recorded } => self.delegate(call, recorded),
            MachineAct::ChildEnds(index, content) => self.end_child(index, content),
            MachineAct::Decide { call, approve, edit, saw } => self.decide(call, approve, edit, saw),
            MachineAct::Post { call, by_name, content, hold } => self.post(call, by_name, content, hold),
            MachineAct::Pass(seconds) => {
                let passed = Duration::from_secs(seconds.into());
                self.now = self.now.after(passed);
                if self.head.works_inside() {
                    self.ran += passed;
                    self.ran_since_entry += passed;
                }
            }
            MachineAct::Step(seconds) => {
                let by_ms = 1_000 * i64::from(seconds);
                self.now = self.now.shifted(by_ms);
                self.stepped += by_ms;
            }
            MachineAct::Sweep => {
                let events = expire(&self.head, self.now);
                self.append(events);
            }
            MachineAct::Claim => {
                let open =
                    self.head.claimable().next().and_then(|(call, _)| Some((call.id, call.claim.as_ref()?.repeatable)));
                let Some((call, repeatable)) = open else { return };
                let lease: Arc<str> = format!("lease {}", self.head.seq).into();
                let until = self.now.after(Duration::from_secs(30));
                let events = claim(&self.head, self.now, call, &lease, until, &Actor::local());
                if !events.is_empty() {
                    let claims = self.claims.entry(call).or_default();
                    *claims += 1;
                    assert!(repeatable || *claims == 1, "a call that must not run twice was claimed twice");
                }
                self.append(events);
            }
            MachineAct::Cancel => {
                let events = cancel(&self.head, None, &Actor::local());
                self.append(events);
            }
            MachineAct::Resume => {
                let events = resume(&self.head, self.now, &Actor::local());
                self.append(events);
            }
            MachineAct::Change(max_tool_calls) => {
                let stepped = self.stepped != 0;
                let before = (self.head.status(), next(&self.head), self.head.updated_at, self.head.clock);
                let limits = AskedLimits { max_tool_calls: Some(max_tool_calls), ..AskedLimits::default() };
                self.append(change(Changed { limits, ..Changed::default() }));
                assert_eq!(self.head.limits.max_tool_calls, max_tool_calls);
                let after = (self.head.status(), next(&self.head), self.head.updated_at, self.head.clock);
                if !matches!(before.1, Next::Turn { .. }) && !stepped {
                    assert_eq!(after, before, "a change of limits does not change the state");
                }
            }
            MachineAct::Restart { orderly } => {
                if orderly {
                    let events = interrupt(&self.head);
                    self.append(events);
                } else {
                    self.crashes += 1;
                }
                // What the process knew of the time since the last entry is lost with it.
                self.ran -= std::mem::take(&mut self.ran_since_entry);
                self.stepped = 0;
                self.running.clear();
                self.thinking = false;
                self.head = fold(&self.journal);
                let events = recover(&self.head, Takeover::Inherited);
                self.append(events);
            }
        }
    }

    /// What follows in the same append.
    fn advance(&mut self) {
        let events = advance(&self.head);
        for call in events.iter().filter_map(Event::started_call) {
            assert!(self.head.call(call).is_some_and(|call| call.state.is_open()));
            self.running.push(call);
            *self.starts.entry(call).or_default() += 1;
        }
        self.thinking = events.iter().any(|event| matches!(event, Event::TurnStarted { .. }));
        self.append(events);
    }

    fn drive(&mut self, kinds: &[CallKind]) {
        if self.thinking {
            self.thinking = false;
            let tools_spent = self.head.tools_spent;
            let calls = kinds.iter().enumerate().map(|(index, kind)| asked(index, *kind)).collect();
            let reply = ModelTurnReply { text: Some("text".into()), calls, ..ModelTurnReply::default() };
            let events = end_turn(&self.head, self.now, reply);
            self.append(events);
            assert!(!tools_spent || self.head.status().is_final(), "no turn follows the last one");
            // A driver that is shutting down starts nothing.
            if !kinds.len().is_multiple_of(3) {
                self.advance();
            }
            return;
        }
        match next(&self.head) {
            Next::Turn { .. } => {
                self.advance();
                assert!(self.thinking);
            }
            Next::Calls(_) => {
                self.advance();
                let Next::Calls(calls) = next(&self.head) else { return };
                for call in calls {
                    let events = start_call(&self.head, call);
                    assert_eq!(events.len(), 1);
                    self.append(events);
                    self.running.push(call);
                    *self.starts.entry(call).or_default() += 1;
                }
            }
            Next::Busy => assert!(!self.running.is_empty(), "busy without a running call"),
            Next::Settle => {
                assert!(self.head.status().is_final());
                assert_eq!(self.head.kept_until(), None, "its children would be forgotten");
                let waited = self.head.unsettled.iter().flat_map(|unsettled| &unsettled.children);
                assert!(waited.into_iter().all(|call| self.children.contains(call)));
                self.append(settle(&self.head));
                assert_eq!(next(&self.head), Next::End);
            }
            Next::Wait if self.head.child_calls().next().is_some() => {}
            Next::Wait => {
                let polls = self.head.waits().any(|wait| matches!(wait.waiting.on, WaitingOn::Runner { .. }));
                assert!(self.head.status().is_settled() || polls);
                assert!(self.head.deadline().is_some(), "it would never wake up");
            }
            Next::End => assert!(self.head.status().is_final()),
        }
    }

    fn leave(&mut self, index: usize) {
        if self.running.is_empty() {
            return;
        }
        let call = self.running.remove(index % self.running.len());
        let (poll_at, deadline) = (self.now.after(Duration::from_secs(30)), self.now.after(Duration::from_secs(200)));
        let events = leave_pending(&self.head, call, Arc::new(json!(1)), poll_at, deadline);
        if !events.is_empty() {
            self.polled.insert(call);
        }
        self.append(events);
    }

    fn question(&mut self, index: usize) {
        if self.running.is_empty() {
            return;
        }
        let call = self.running.remove(index % self.running.len());
        let question = CallQuestion { text: "Which?".into(), needs_authorization: false, data: Vec::new() };
        let deadline = self.now.after(Duration::from_secs(200));
        let events = ask_person(&self.head, call, Arc::new(json!(1)), Arc::new(question), deadline);
        if !events.is_empty() {
            self.polled.insert(call);
        }
        self.append(events);
    }

    fn delegate(&mut self, index: usize, recorded: bool) {
        if self.running.is_empty() {
            return;
        }
        let index = index % self.running.len();
        let call = self.running[index];
        self.children.push(call);
        if recorded {
            self.running.remove(index);
            let events = delegate(&self.head, call, QueryUid::for_child(self.head.uid, call));
            self.append(events);
        }
    }

    fn end_child(&mut self, index: usize, content: u8) {
        if self.children.is_empty() {
            return;
        }
        let call = self.children[index % self.children.len()];
        let open = self.head.call(call).is_some_and(|call| call.state.is_open());
        let outcome = Arc::new(Outcome::success(content));
        let spent = Spent { calls: 1, ..Spent::default() };
        let events = child_ended(&self.head, call, ChildReport { outcome, spent, terminated: false });
        assert!(open || events.is_empty(), "a report that comes twice changes nothing");
        self.append(events);
        assert!(
            self.head.call(call).is_none_or(|call| !call.state.is_open() || !open || call.state.waiting().is_some())
        );
    }

    fn decide(&mut self, call: usize, approve: bool, edit: bool, saw: Saw) {
        let Some(call) = self.head.calls.get(call).cloned() else { return };
        let decision = if approve {
            Decision::Approved { arguments: edit.then(|| Arc::new(json!({"edited": true}))) }
        } else {
            Decision::Rejected { reason: edit.then(|| "no".to_owned()) }
        };
        let seen = match saw {
            Saw::Unsaid => None,
            Saw::TheCall => Some(call.arguments),
            Saw::Others => Some(json::content_hash(&json!({"other": true}))),
        };
        let decided = CallDecision { call: call.id, decision, seen };
        let (events, verdict) = decide(&self.head, self.now, decided, &Actor::local());
        match verdict {
            DecisionVerdict::Accepted => {
                let waiting = call.state.waiting().expect("it waited");
                assert!(self.now < waiting.deadline, "decided after its deadline");
                assert_ne!(saw, Saw::Others, "decided about arguments that the person has not seen");
            }
            DecisionVerdict::Expired => {}
            DecisionVerdict::Cancelled => assert!(events.iter().all(Event::is_final)),
            _ => assert_eq!(events, [], "only an accepted or late decision changes anything"),
        }
        self.append(events);
    }

    fn post(&mut self, call: usize, by_name: bool, content: u8, hold: bool) {
        let Some(call) = self.head.calls.get(call).cloned() else { return };
        let predicted = delivery_state(&self.head, self.now, call.id);
        let target = if by_name { DeliveryTarget::Tool(call.tool.to_string()) } else { DeliveryTarget::Call(call.id) };
        let before = self.head.clone();
        let delivered = deliver(
            &self.head,
            self.now,
            vec![Delivery { target, outcome: Outcome::success(content), took: None }],
            hold,
            &Actor::local(),
        );
        match delivered.verdicts[0] {
            DeliveryVerdict::Accepted(id) => {
                let waiting = before.call(id).and_then(|call| call.state.waiting()).expect("it waited");
                // An answer continues its call, which may ask again.
                if waiting.on.is_resolved_by_delivery() {
                    *self.accepted.entry(id).or_default() += 1;
                } else {
                    assert!(matches!(delivered.events[0], Event::CallAnswered { .. }), "{:?}", delivered.events);
                }
                assert!(waiting.on.is_delivered(), "only the client's own calls");
                assert!(self.now < waiting.deadline, "accepted after its deadline");
            }
            DeliveryVerdict::Expired(_) => {}
            _ if before.hold.is_some_and(|hold| hold.deadline <= self.now) => {
                assert!(delivered.events[0].is_final(), "a hold that has expired ends the query");
            }
            _ => assert_eq!(delivered.events, [], "only an accepted or late result changes anything"),
        }
        let is_question = matches!(call.state.waiting(), Some(Waiting { on: WaitingOn::Answer { .. }, .. }));
        if !by_name && !is_question && call.answered.is_none() {
            let met = match delivered.verdicts[0] {
                DeliveryVerdict::Accepted(_) => DeliveryState::Open,
                DeliveryVerdict::Replayed(_) | DeliveryVerdict::AlreadyResolved(_) => DeliveryState::Resolved,
                DeliveryVerdict::Expired(_) => DeliveryState::Expired,
                DeliveryVerdict::Cancelled(_) => DeliveryState::Cancelled,
                DeliveryVerdict::Unknown
                | DeliveryVerdict::Ambiguous
                | DeliveryVerdict::NotWaiting
                | DeliveryVerdict::LeaseLost(_) => DeliveryState::Unknown,
            };
            assert_eq!(predicted, met, "`delivery_state` predicts the verdict");
        }
        self.append(delivered.events);
    }

    pub(super) fn check(&self) {
        assert_eq!(fold(&self.journal), self.head, "the head is the fold of its journal");
        for (call, times) in &self.accepted {
            assert_eq!(*times, 1, "{call} was accepted more than once");
        }
        for (call, starts) in &self.starts {
            let may_repeat = self.repeatable[call] || self.polled.contains(call);
            assert!(may_repeat || *starts == 1, "{call} must not run twice");
        }
        let mut outcomes: HashMap<CallId, u32> = HashMap::new();
        // Calls that were lost have no result, and do not repeat one.
        let mut lost_ones = BTreeSet::new();
        for entry in &self.journal {
            if let Event::CallFinished { outcome, .. } = &entry.event
                && matches!(&**outcome, Outcome::Failure { code, .. } if code == outcome_code::OUTCOME_UNKNOWN)
            {
                lost_ones.insert(outcome.content_hash());
            }
            match &entry.event {
                Event::CallAsked(asked) if matches!(asked.route, CallRoute::Cached { .. }) => {
                    *outcomes.entry(asked.call).or_default() += 1;
                }
                Event::CallFinished { call, .. }
                | Event::CallResolved { call, .. }
                | Event::CallRejected { call, .. }
                | Event::CallExpired { call } => {
                    *outcomes.entry(*call).or_default() += 1;
                }
                _ => {}
            }
        }
        assert!(outcomes.values().all(|count| *count == 1), "a call has one outcome");
        let finals = self.journal.iter().filter(|entry| entry.event.is_final()).count();
        assert_eq!(finals, usize::from(self.head.status().is_final()));
        let mut repeats = BTreeMap::<_, BTreeSet<u32>>::new();
        for call in self.head.calls.iter().filter(|call| outcomes.contains_key(&call.id)) {
            if let CallState::Finished { outcome } | CallState::Resolved { outcome } = call.state
                && !lost_ones.contains(&outcome)
            {
                let turns = repeats.entry((&call.tool, call.arguments, outcome)).or_default();
                turns.insert(self.turns[&call.id]);
            }
        }
        let most = repeats.values().map(BTreeSet::len).max().unwrap_or_default();
        let is_loop = |event: &Event| matches!(event, Event::Failed { code, .. } if code == failure_code::TOOL_LOOP);
        let ended_as_loop = self.journal.iter().any(|entry| is_loop(&entry.event));
        assert_eq!(most == REPEATS_NOTICED + 1, ended_as_loop, "a loop spans turns");
        assert!(most <= REPEATS_NOTICED + 1);
        let noticed = self.journal.iter().filter(|entry| matches!(entry.event, Event::LoopNoticed { .. })).count();
        let worth = repeats.values().filter(|turns| turns.len() >= REPEATS_NOTICED).count();
        assert_eq!(noticed, worth, "the model is warned of each once");
        assert!(self.head.recoveries <= self.crashes, "only crashes count");
        let ran = self.head.calls.iter().filter(|call| self.repeatable.contains_key(&call.id)).count();
        assert!(ran + self.accepted.len() <= MAX_CALLS as usize, "more calls than allowed");
        self.check_decisions();
        self.check_messages();
    }

    /// A call that needs an approval starts only after it was approved, and nothing is decided twice.
    fn check_decisions(&self) {
        let (mut needed, mut approved) = (BTreeSet::new(), BTreeSet::new());
        for entry in &self.journal {
            match &entry.event {
                Event::CallAsked(asked) if matches!(asked.route, CallRoute::Approval { .. }) => {
                    needed.insert(asked.call);
                }
                Event::CallApproved { call, .. } => {
                    assert!(needed.contains(call) && approved.insert(*call), "{call} is approved once");
                }
                Event::CallRejected { call, .. } => {
                    assert!(needed.remove(call) && !approved.contains(call), "{call} is decided once");
                }
                Event::CallStarted { call, .. } => {
                    assert!(!needed.contains(call) || approved.contains(call), "{call} was not approved");
                }
                _ => {}
            }
        }
    }

    /// Between two turns the model reads one result for each call, in the order in which it asked.
    fn check_messages(&self) {
        if !matches!(next(&self.head), Next::Turn { .. }) {
            return;
        }
        let mut transcript = Transcript::new(&self.journal[0]).unwrap();
        let mut sent = SentMessages::default();
        for entry in &self.journal[1..] {
            transcript.apply(entry);
            if matches!(entry.event, Event::TurnStarted { .. }) {
                sent = transcript.extend_sent(sent, &[], &ResultRenderer::default());
            }
        }
        let messages = transcript.messages(&[], &ResultRenderer::default());
        assert_eq!(
            transcript.extend_sent(sent, &[], &ResultRenderer::default()).messages,
            messages,
            "rendered turn by turn"
        );
        let mut open: Vec<Arc<str>> = Vec::new();
        for message in messages {
            match message {
                Message::Assistant { calls, .. } => {
                    assert!(open.is_empty(), "a call has no result");
                    open = calls.into_iter().map(|call| call.provider_id).collect();
                }
                Message::Tool { provider_id, .. } => assert_eq!(open.remove(0), provider_id),
                Message::System(_) | Message::User(_) => {}
            }
        }
        assert!(open.is_empty(), "a call has no result");
    }

    /// Whatever happened, the query can still be brought to its end.
    pub(super) fn finish(&mut self) {
        for _ in 0..200 {
            if self.head.status().is_final() {
                return;
            }
            while !self.running.is_empty() {
                self.perform(MachineAct::Finish(0, 9));
            }
            loop {
                let open = self.head.child_calls().next().map(|call| call.id);
                let Some(call) = open else { break };
                let index = self.children.iter().position(|child| *child == call).expect("it has a query");
                self.end_child(index, 9);
            }
            self.drive(&[]);
            if next(&self.head) == Next::Wait {
                self.now = self.now.after(Duration::from_secs(10_000));
                self.perform(MachineAct::Sweep);
            }
        }
        panic!("the query never ends: {:?}", self.head);
    }
}

fn asked(index: usize, kind: CallKind) -> AskedByModel {
    let way = match kind {
        CallKind::Outside => CallDisposition::Outside { timeout: Duration::from_secs(60) },
        CallKind::Inside { repeatable } => CallDisposition::Inside { repeatable },
        CallKind::Approval { repeatable } => CallDisposition::Approval { repeatable, timeout: Duration::from_secs(90) },
        CallKind::Parameters => CallDisposition::Parameters { timeout: Duration::from_secs(90) },
        CallKind::Refused => {
            CallDisposition::Refused { code: "invalid_arguments".into(), message: "no".into(), details: None }
        }
        CallKind::Worker { repeatable } => CallDisposition::Worker { timeout: Duration::from_secs(60), repeatable },
        CallKind::Cached { outside } => CallDisposition::Cached { outcome: Arc::new(Outcome::success(0)), outside },
    };
    let tool: Arc<str> = ["a", "b"][index % 2].into();
    AskedByModel {
        provider_id: format!("p{index}").into(),
        alias: tool.clone(),
        tool,
        arguments: json!({}).into(),
        written: None,
        dropped: Vec::new(),
        deprecated: None,
        on_expired: None,
        way,
    }
}

fn fold(journal: &[Entry]) -> Head {
    let uid = QueryUid::new(1, [1; 10]);
    let mut head = Head::new(uid, Namespace::default(), QueryName::for_uid(uid), &journal[0]).unwrap();
    journal[1..].iter().for_each(|entry| head.apply(entry).unwrap());
    head
}
