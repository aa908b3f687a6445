//! Changes of a locked query: one append path, in which everything that follows is appended with its cause.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bosun_core::{
    Entry, Event, Head, QueryUid, Seq, Timestamp, Transcript, audit,
    head::{CallState, FoldError},
    journal::JournalSize,
    machine,
    transcript::Message,
};

use super::{
    journal_log,
    live::LockedQuery,
    state::{QueryState, Recent, Started},
};
use crate::{
    background::clock_step::ClockReading,
    store::{
        Append, Encoded, IdempotentRequest, Position, Store, StoreError, StoredDocument,
        conversations::{ConversationPart, Exchange, Joining},
    },
};

/// The weight of a cached query is recomputed when the query has grown by this many bytes.
const REWEIGHED: usize = 64 * 1024;

/// A step of the wall clock of at least this size is subtracted from the running time of a query. Smaller ones cannot
/// be distinguished from the time that passes between two readings.
const STEP_COUNTED_MS: i64 = 1_000;

/// What is to be appended.
#[derive(Default)]
pub(crate) struct QueryChange {
    pub(crate) events: Vec<Event>,
    /// Added to the query's conversation if this append completes the query.
    pub(crate) remembered: Option<Arc<[Message]>>,
}

impl From<Vec<Event>> for QueryChange {
    fn from(events: Vec<Event>) -> Self {
        Self { events, remembered: None }
    }
}

/// What a creation has in addition to its entries.
pub(crate) struct CreationParts {
    pub(crate) toolset: StoredDocument,
    pub(crate) request: Option<IdempotentRequest>,
    pub(crate) joins: Option<Joining>,
}

impl LockedQuery<'_> {
    pub(crate) fn state(&self) -> Option<&QueryState> {
        self.slot.state.as_ref()
    }

    /// How long the query has run, by the monotonic clock since its last entry.
    pub(crate) fn running_time(&self) -> Duration {
        let Some(QueryState { head, read, .. }) = self.state() else { return Duration::ZERO };
        match read {
            Some(read) => head.clock.spent(read.wall) + self.live.clock.monotonic().saturating_sub(read.monotonic),
            // This process has not appended to it yet.
            None => head.clock.spent(self.live.clock.now()),
        }
    }

    pub(crate) fn is_driven(&self) -> bool {
        self.slot.driven
    }

    /// Claims the right to drive the query; false if a task already has it.
    pub(crate) fn claim(&mut self) -> bool {
        !std::mem::replace(&mut self.slot.driven, true)
    }

    /// Releases the right to drive.
    pub(crate) fn release(&mut self) {
        self.slot.driven = false;
    }

    /// Takes the work that was started for a driver, if it is still under way.
    pub(crate) fn take_started(&mut self) -> Started {
        let Some(QueryState { head, started, .. }) = self.slot.state.as_mut() else { return Started::default() };
        let Started { turn, mut calls } = std::mem::take(started);
        calls.retain(|id| head.call(*id).is_some_and(|call| matches!(call.state, CallState::Started { .. })));
        Started { turn: turn.filter(|turn| head.asking() == Some(*turn)), calls }
    }

    /// Starts the next work if it is not started yet, for the caller to [take](Self::take_started).
    pub(crate) fn advance(&mut self, store: &dyn Store, now: Timestamp) -> Result<(), StoreError> {
        let Some(state) = self.slot.state.as_mut() else { return Ok(()) };
        let events = machine::advance(&state.head);
        state.started.note(&events);
        self.append(store, now, events, never).map(|_| ())
    }

    /// Creates the query: its first entry is `event`. If `may_advance` allows it, what [follows](machine::advance) is
    /// part of the same append.
    pub(crate) fn create(
        &mut self,
        store: &dyn Store,
        uid: QueryUid,
        now: Timestamp,
        event: Event,
        brings: CreationParts,
        may_advance: impl FnOnce(&Head) -> bool,
    ) -> Result<Position, StoreError> {
        let CreationParts { toolset, request, joins } = brings;
        let entry = Encoded::new(Entry { seq: 1, at: now, event })?;
        let mut size = JournalSize::default();
        size.admit(&entry.event, entry.size)?;
        let (namespace, name) = self.live.key.clone();
        let mut head = Head::new(uid, namespace, name, &entry)?;
        let mut transcript = Transcript::new(&entry).ok_or(StoreError::Inconsistent(FoldError::NotCreated(uid)))?;
        let mut entries = vec![entry];
        let mut started = Started::default();
        let following = follow(&head, now, may_advance, &mut started)?;
        fold(&mut head, &mut transcript, &mut size, &following)?;
        entries.extend(following);
        let head = Arc::new(head);
        let written = || entries.iter().map(|entry| &**entry);
        let records = audit::of_entries(&head, &transcript, written(), self.live.arguments);
        self.live.metrics.note(&records);
        journal_log::log(&head, written());
        let mut recent = Recent::default();
        recent.extend(entries.iter().map(|entry| (Arc::clone(&entry.entry), entry.size.bytes)));
        let position = store.append(Append {
            head: Arc::clone(&head),
            seen: 0,
            after: Position::default(),
            entries,
            toolset: Some(toolset),
            request,
            records,
            conversation: joins.map(ConversationPart::Joins),
        })?;
        self.live.notify_root(&head);
        let runs = head.clock.running_since.is_some();
        self.slot.state = Some(QueryState {
            head,
            transcript: Arc::new(transcript),
            position,
            first: Some(position),
            read: runs.then(|| ClockReading::of(&*self.live.clock)),
            size,
            started,
            recent,
        });
        self.live.notify();
        Ok(position)
    }

    /// Discards the state in memory: it is reloaded from the store, which may have no such query any more.
    pub(crate) fn discard(&mut self) {
        self.slot.state = None;
        self.live.renew_end();
        self.live.notify();
        self.live.settled.notify_waiters();
    }

    /// Appends a change atomically and folds it in. If `may_advance`, which sees the head after the change, allows it,
    /// what [follows](machine::advance) is part of the same append, for a driver to [take](Self::take_started). Does
    /// nothing if there are no events. If they exceed what the journal may hold, none of them is appended; if the query
    /// was to continue because of them, it fails.
    pub(crate) fn append(
        &mut self,
        store: &dyn Store,
        now: Timestamp,
        change: impl Into<QueryChange>,
        may_advance: impl FnOnce(&Head) -> bool,
    ) -> Result<Position, StoreError> {
        let QueryChange { mut events, remembered } = change.into();
        let Some(state) = self.slot.state.as_mut() else { return Ok(Position::default()) };
        if events.is_empty() {
            return Ok(state.position);
        }
        let reading = ClockReading::of(&*self.live.clock);
        let stepped = state.read.map_or(0, |read| reading.stepped_since(read));
        if stepped.abs() >= STEP_COUNTED_MS {
            events.splice(0..0, machine::clock_stepped(&state.head, stepped));
        }
        let seen = state.head.seq;
        let mut entries = encode(seen, now, events)?;
        let mut size = state.size;
        if let Err(fault) = entries.iter().try_for_each(|entry| size.admit(&entry.event, entry.size)) {
            if entries.iter().any(|entry| entry.event.moves()) {
                let failed = machine::fail(&state.head, fault.code(), fault.to_string());
                self.append(store, now, failed, never)?;
            }
            return Err(fault.into());
        }
        let head = Arc::make_mut(&mut state.head);
        let transcript = Arc::make_mut(&mut state.transcript);
        fold(head, transcript, &mut state.size, &entries)?;
        let following = follow(head, now, may_advance, &mut state.started)?;
        fold(head, transcript, &mut state.size, &following)?;
        entries.extend(following);
        let records = audit::of_entries(head, transcript, entries.iter().map(|entry| &**entry), self.live.arguments);
        state.read = head.clock.running_since.map(|_| reading);
        let completes = matches!(entries.last().map(|entry| &entry.event), Some(Event::Completed));
        let delegates = entries.iter().any(|entry| matches!(entry.event, Event::CallDelegated { .. }));
        let joined = transcript.spec.conversation.as_ref().filter(|_| completes);
        let conversation = joined.zip(remembered).map(|(conversation, messages)| {
            ConversationPart::Adds(Exchange {
                key: conversation.key.clone(),
                query: head.uid,
                name: head.name.clone(),
                at: now,
                kept_until: now.after(head.limits.ttl),
                messages,
            })
        });
        self.live.metrics.note(&records);
        journal_log::log(head, entries.iter().map(|entry| &**entry));
        state.recent.extend(entries.iter().map(|entry| (Arc::clone(&entry.entry), entry.size.bytes)));
        let append = Append {
            head: Arc::clone(&state.head),
            seen,
            after: state.position,
            entries,
            toolset: None,
            request: None,
            records,
            conversation,
        };
        match store.append(append) {
            Ok(position) => {
                state.position = position;
                state.first.get_or_insert(position);
            }
            Err(error) => {
                // Memory is ahead of the store now.
                self.discard();
                return Err(error);
            }
        }
        let position = state.position;
        let status = state.head.status();
        if state.size.memory > self.live.weight.load(Ordering::Relaxed) + REWEIGHED
            && let Some(live_queries) = self.live.live_queries.upgrade()
        {
            live_queries.reweigh(self.live, state.size.memory);
        }
        if status.is_final() {
            self.live.ended().cancel();
            if let Some(live_queries) = self.live.live_queries.upgrade() {
                live_queries.evict(self.live);
            }
        }
        self.live.notify();
        if status.is_settled() {
            self.live.settled.notify_waiters();
        }
        if delegates {
            // The child may already wait for something.
            self.live.notify_below();
        }
        self.live.notify_root(&state.head);
        Ok(position)
    }
}

/// What follows from `head`, if it may.
fn follow(
    head: &Head,
    now: Timestamp,
    may_advance: impl FnOnce(&Head) -> bool,
    started: &mut Started,
) -> Result<Vec<Encoded>, StoreError> {
    let events = machine::advance(head);
    if events.is_empty() || !may_advance(head) {
        return Ok(Vec::new());
    }
    started.note(&events);
    encode(head.seq, now, events)
}

/// `may_advance` for appends that nothing follows.
pub(crate) fn never(_: &Head) -> bool {
    false
}

/// Encodes `events` as the entries after `seen`.
fn encode(seen: Seq, now: Timestamp, events: Vec<Event>) -> Result<Vec<Encoded>, StoreError> {
    let entries = events.into_iter().zip(seen + 1..);
    entries.map(|(event, seq)| Encoded::new(Entry { seq, at: now, event })).collect()
}

/// Folds entries into the state.
fn fold(
    head: &mut Head,
    transcript: &mut Transcript,
    size: &mut JournalSize,
    entries: &[Encoded],
) -> Result<(), FoldError> {
    for entry in entries {
        head.apply(entry)?;
        transcript.apply(entry);
        *size += entry.size;
    }
    Ok(())
}
