//! Writes the journal of one query as the engine would, without running anything.
//!
//! What a `QueryWriter` appends is always decided by the machine of `bosun-core`, so tests of stores see the heads and events
//! that really occur. Time is the writer's own and is monotonic.

#![expect(clippy::expect_used, reason = "compiled for tests only: a failure here is a failed test")]

use std::{sync::Arc, time::Duration};

use bosun_core::{
    Actor, ContentHash, Entry, Event, Head, Outcome, QueryLimits, QueryUid, Spec, Timestamp, Transcript,
    audit::{self, ArgumentsInAudit},
    head::{CallState, Phase},
    machine::{
        self, AskedByModel, CallDecision, CallDisposition, Decision, Delivery, DeliveryTarget, ModelTurnReply, Next,
        Takeover,
    },
    query::{EdgeNote, Usage},
};

use crate::store::{Append, Encoded, Position, Store, StoredDocument};

/// When the first writer's time begins.
const BEGINNING: i64 = 1_700_000_000_000;

/// One query and its writer. A clone is a second writer with the same state.
#[derive(Clone, Debug)]
pub struct QueryWriter {
    uid: QueryUid,
    namespace: String,
    name: String,
    head: Option<Arc<Head>>,
    transcript: Option<Transcript>,
    position: Position,
    now: Timestamp,
}

impl QueryWriter {
    /// A query that does not exist yet. One with a higher `number` is newer.
    #[must_use]
    pub fn new(namespace: &str, name: &str, number: u32) -> Self {
        let now = Timestamp(BEGINNING + i64::from(number));
        let mut random = [0; 10];
        random[..4].copy_from_slice(&number.to_be_bytes());
        Self {
            uid: QueryUid::new(now.0.unsigned_abs(), random),
            namespace: namespace.into(),
            name: name.into(),
            head: None,
            transcript: None,
            position: Position::default(),
            now,
        }
    }

    /// Its creation, with the default spec.
    pub fn create(&mut self) -> Append {
        self.create_as(spec())
    }

    pub fn create_as(&mut self, spec: Spec) -> Append {
        let namespace = self.namespace.parse().expect("writers are given good namespaces");
        let name = self.name.parse().expect("writers are given good names");
        let entry = Entry { seq: 1, at: self.now, event: Event::Created { spec: Arc::new(spec), by: Actor::local() } };
        let head = Arc::new(Head::new(self.uid, namespace, name, &entry).expect("the first entry is a creation"));
        let transcript = Transcript::new(&entry).expect("the first entry is a creation");
        let records = audit::of_entries(&head, &transcript, [&entry].into_iter(), ArgumentsInAudit::Redacted);
        self.head = Some(Arc::clone(&head));
        self.transcript = Some(transcript);
        Append {
            head,
            seen: 0,
            after: self.position,
            entries: vec![Encoded::new(entry).expect("an event that JSON can hold")],
            toolset: Some(toolset()),
            request: None,
            records,
            conversation: None,
        }
    }

    /// The next entries, folded into the head.
    pub fn write(&mut self, events: Vec<Event>) -> Append {
        self.now = self.now.after(Duration::from_millis(1));
        let mut head = Head::clone(self.head());
        let mut transcript = self.transcript.clone().expect("a query that is written to was created");
        let seen = head.seq;
        let entries: Vec<_> = (seen + 1..)
            .zip(events)
            .map(|(seq, event)| Entry { seq, at: self.now, event })
            .map(|entry| Encoded::new(entry).expect("an event that JSON can hold"))
            .inspect(|entry| {
                head.apply(entry).expect("entries follow each other");
                transcript.apply(entry);
            })
            .collect();
        let head = Arc::new(head);
        let records =
            audit::of_entries(&head, &transcript, entries.iter().map(|entry| &**entry), ArgumentsInAudit::Redacted);
        self.head = Some(Arc::clone(&head));
        self.transcript = Some(transcript);
        Append { head, seen, after: self.position, entries, toolset: None, request: None, records, conversation: None }
    }

    /// Appends, and builds on that from then on.
    pub fn send(&mut self, store: &dyn Store, append: Append) -> Position {
        self.position = store.append(append).expect("the store is open");
        self.position
    }

    /// Writes and appends.
    pub fn append(&mut self, store: &dyn Store, events: Vec<Event>) -> Position {
        let append = self.write(events);
        self.send(store, append)
    }

    /// Creates the query and appends that.
    pub fn start(&mut self, store: &dyn Store) -> Position {
        let append = self.create();
        self.send(store, append)
    }

    /// The query is created, the model asked, and its one outside call waits for `timeout`: three appends.
    pub fn start_and_pause(&mut self, store: &dyn Store, timeout: Duration) -> Position {
        self.start(store);
        self.ask_outside(store, timeout)
    }

    /// The model is asked and calls one outside tool: two appends.
    pub fn ask_outside(&mut self, store: &dyn Store, timeout: Duration) -> Position {
        self.append(store, machine::advance(self.head()));
        let events = self.reply(vec![CallDisposition::Outside { timeout }]);
        self.append(store, events)
    }

    /// The waiting calls are answered, the model is asked again and is done: two appends.
    pub fn resolve_and_complete(&mut self, store: &dyn Store) -> Position {
        let events = self.deliver(&Outcome::success("done"), false);
        self.append(store, events);
        let mut events = machine::advance(self.head());
        let mut ahead = self.clone();
        ahead.write(events.clone());
        events.extend(ahead.reply(Vec::new()));
        self.append(store, events)
    }

    /// The events that end the current turn with these calls.
    #[must_use]
    pub fn reply(&self, dispositions: Vec<CallDisposition>) -> Vec<Event> {
        let text = dispositions.is_empty().then(|| "That is all.".to_owned());
        let calls = dispositions
            .into_iter()
            .map(|way| AskedByModel {
                provider_id: "toolu_1".into(),
                tool: "look_up".into(),
                alias: "look_up".into(),
                arguments: serde_json::json!({"id": self.head().seq}).into(),
                written: None,
                dropped: Vec::new(),
                deprecated: None,
                on_expired: None,
                way,
            })
            .collect();
        let usage = Usage { prompt_tokens: 90, completion_tokens: 9, ..Usage::default() };
        machine::end_turn(self.head(), self.now, ModelTurnReply { text, calls, usage, ..ModelTurnReply::default() })
    }

    /// The events of delivering `outcome` to every waiting call.
    #[must_use]
    pub fn deliver(&self, outcome: &Outcome, hold: bool) -> Vec<Event> {
        let waiting: Vec<_> = self.head().outside_calls().map(|(call, _)| call.id).collect();
        let deliveries = waiting
            .into_iter()
            .map(|call| Delivery { target: DeliveryTarget::Call(call), outcome: outcome.clone(), took: None })
            .collect();
        machine::deliver(self.head(), self.now, deliveries, hold, &Actor::local()).events
    }

    /// One of the possible next steps, picked by `choice`; `None` if there is none.
    pub fn step(&mut self, choice: u32) -> Option<Append> {
        let head = self.head();
        let outside = CallDisposition::Outside { timeout: Duration::from_millis(u64::from(choice)) };
        let inside = CallDisposition::Inside { repeatable: choice.is_multiple_of(2) };
        let approval =
            CallDisposition::Approval { repeatable: false, timeout: Duration::from_millis(u64::from(choice)) };
        let refused =
            CallDisposition::Refused { code: "invalid_arguments".into(), message: "no".into(), details: None };
        let events = match machine::next(head) {
            _ if choice.is_multiple_of(41) => machine::cancel(head, Some("enough".into()), &Actor::local()),
            _ if choice.is_multiple_of(13) => machine::recover(head, Takeover::Inherited),
            Next::Turn { .. } if head.phase == Phase::Thinking => match choice % 8 {
                0 => machine::advance(head),
                1 | 2 => self.reply(vec![outside]),
                3 | 4 => self.reply(vec![outside, inside, refused]),
                5 => self.reply(vec![inside.clone(), inside]),
                6 => self.reply(vec![refused, approval.clone(), approval]),
                _ => self.reply(Vec::new()),
            },
            Next::Turn { .. } => machine::advance(head),
            Next::Calls(ready) => machine::start_call(head, ready[choice as usize % ready.len()]),
            Next::Busy => self.finish_one(),
            Next::Wait if choice.is_multiple_of(5) => machine::expire(head, head.deadline().unwrap_or_default()),
            Next::Wait if head.approvals().next().is_some() => self.decide_one(choice),
            Next::Wait if head.outside_calls().next().is_none() => machine::resume(head, self.now, &Actor::local()),
            Next::Wait => self.deliver(&Outcome::success(choice % 3), choice.is_multiple_of(4)),
            Next::Settle => machine::settle(head),
            Next::End => Vec::new(),
        };
        (!events.is_empty()).then(|| self.write(events))
    }

    /// Approves or rejects the first call that waits for it.
    fn decide_one(&self, choice: u32) -> Vec<Event> {
        let head = self.head();
        let decision = if choice.is_multiple_of(2) {
            Decision::Approved { arguments: None }
        } else {
            Decision::Rejected { reason: None }
        };
        let decide =
            |call| machine::decide(head, self.now, CallDecision { call, decision, seen: None }, &Actor::local()).0;
        head.approvals().next().map(|(call, _)| decide(call.id)).unwrap_or_default()
    }

    fn finish_one(&self) -> Vec<Event> {
        let started = self.head().calls.iter().find(|call| matches!(call.state, CallState::Started { .. }));
        started.map(|call| machine::finish_call(self.head(), call.id, Outcome::success("ran"))).unwrap_or_default()
    }

    /// Reloads the query from the store: after a conflict, this writer knows as much as the other.
    pub async fn reload(&mut self, store: &dyn Store) {
        let namespace = self.namespace.parse().expect("writers are given good namespaces");
        let name = self.name.parse().expect("writers are given good names");
        let stored = store.load(&namespace, &name).await.expect("the store is readable");
        self.transcript = stored.as_ref().and_then(|stored| {
            let (first, rest) = stored.entries.split_first()?;
            let mut transcript = Transcript::new(first)?;
            rest.iter().for_each(|entry| transcript.apply(entry));
            Some(transcript)
        });
        self.head = stored.map(|stored| Arc::new(stored.head));
        self.position = Position::default();
    }

    /// The head of the query.
    ///
    /// # Panics
    /// If it has not been created.
    #[must_use]
    pub fn head(&self) -> &Head {
        self.head.as_deref().expect("the query has been created")
    }

    #[must_use]
    pub fn exists(&self) -> bool {
        self.head.is_some()
    }

    #[must_use]
    pub fn uid(&self) -> QueryUid {
        self.uid
    }

    /// The position of the last append.
    #[must_use]
    pub fn position(&self) -> Position {
        self.position
    }
}

/// The default spec.
#[must_use]
pub fn spec() -> Spec {
    Spec {
        target: "helper".into(),
        target_kind: bosun_core::query::TargetKind::Agent,
        selector: None,
        model: "default".into(),
        prompt: Some("You help.".into()),
        input: "Where is my order?".into(),
        template: None,
        messages: Vec::new(),
        parameters: std::collections::BTreeMap::new(),
        options: bosun_core::query::ModelOptions::default(),
        output_schema: None,
        conversation: None,
        toolset: toolset().hash,
        limits: QueryLimits::default(),
        edge_note: EdgeNote::new("rfc"),
        session_id: None,
        labels: [("team".to_owned(), "blue".to_owned())].into(),
        annotations: std::collections::BTreeMap::new(),
        warnings: Vec::new(),
        request: None,
        on_expired: Default::default(),
        trace: None,
        lineage: None,
        team: None,
    }
}

fn toolset() -> StoredDocument {
    document("[]")
}

#[must_use]
pub fn document(body: &str) -> StoredDocument {
    StoredDocument { hash: ContentHash::of(body.as_bytes()), body: body.into() }
}
