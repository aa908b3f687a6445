//! The queries that somebody is busy with right now.
//!
//! A query has an entry here only while a task drives it, a request changes it or a reader watches
//! it. Of those that wait for their client, only the last few stay: most results come within a moment,
//! and to read such a query again would be the largest part of taking its result. Whoever appends
//! keeps the entry until the append is durable, so what is here and what is in the store never
//! disagree for a reader of both. There is one entry for each name, and its lock is what orders all
//! changes of the query within the process.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bosun_core::{
    CallId, Entry, Event, Head, Namespace, QueryName, QueryUid, Seq, Timestamp, Transcript,
    audit::{self, Arguments},
    ceiling::{RECENT_ENTRIES_BYTES, WAITING_CACHE_BYTES},
    head::{CallState, FoldError},
    journal::JournalSize,
    machine,
    transcript::Message,
};
use tokio::sync::{Mutex as AsyncMutex, MutexGuard, Notify, futures::Notified, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    Clock,
    background::clock_step::Reading,
    metrics::Metrics,
    queries::fan_out::Broadcast,
    queries::journal_log,
    store::{
        Append, Document, Encoded, Position, Request, Store, StoreError, Stored,
        conversations::{Exchange, Joining, Part},
    },
};

/// What a query is found by.
pub type QueryKey = (Namespace, QueryName);

/// How many entries are kept for watchers that are a little behind, within [`RECENT_ENTRIES_BYTES`]; the others read
/// the journal.
const RECENT: usize = 256;
/// A query that is kept is weighed again when it has grown by this.
const REWEIGHED: usize = 64 * 1024;

/// A step of the wall clock by so much is kept out of the running time of a query. Smaller ones cannot be told from the time
/// that passes between two readings.
const STEP_COUNTED_MS: i64 = 1_000;

pub(crate) struct LiveQueries {
    /// What the audit log says about the arguments of calls.
    arguments: Arguments,
    metrics: Arc<Metrics>,
    clock: Arc<dyn Clock>,
    open: Mutex<HashMap<QueryKey, Weak<LiveQuery>>>,
    waiting: Mutex<WaitingQueries>,
    /// How many of those are kept, within [`WAITING_CACHE_BYTES`]. As many as may run at once: then they take no more memory than work does.
    max_waiting: usize,
}

/// Queries that wait for their client.
#[derive(Default)]
struct WaitingQueries {
    /// The longest waiting first.
    kept: VecDeque<Arc<LiveQuery>>,
    /// The sum of their weights.
    bytes: usize,
}

/// One query that somebody is busy with.
pub(crate) struct LiveQuery {
    pub(crate) key: QueryKey,
    live_queries: Weak<LiveQueries>,
    arguments: Arguments,
    metrics: Arc<Metrics>,
    clock: Arc<dyn Clock>,
    slot: AsyncMutex<QuerySlot>,
    /// Whether the desk keeps it although nobody is busy with it. Changes under the lock of those that it keeps.
    is_kept: AtomicBool,
    /// What it counts for among those, in bytes; changes under the same lock.
    weight: AtomicUsize,
    /// Counts up with every entry, while somebody listens.
    changed: watch::Sender<u64>,
    /// Told when the server has nothing more to do for the query, or does not know what it has.
    settled: Notify,
    /// What readers are told: by the herald, when entries are durable, and of every delta.
    told: watch::Sender<Arc<Broadcast>>,
    has_fan_out: Mutex<bool>,
    draft: Mutex<TextDraft>,
    /// Fires when the query has ended, whoever ended it. A new one after a failed write: that end never was.
    ended: Mutex<CancellationToken>,
}

#[derive(Default)]
struct QuerySlot {
    /// `None` until loaded, or after a failed write: then the store knows better.
    state: Option<QueryState>,
    /// Whether a task drives the query.
    driven: bool,
}

/// What is known of a query.
pub(crate) struct QueryState {
    pub(crate) head: Arc<Head>,
    pub(crate) transcript: Arc<Transcript>,
    /// Of the last append; zero if all is durable.
    pub(crate) position: Position,
    /// Of the first append since the query was created or loaded, if there was one.
    first: Option<Position>,
    /// The clocks at the last append of this process, while the query runs.
    read: Option<Reading>,
    pub(crate) size: JournalSize,
    /// What was started in an append, for the next driver to take up.
    started: Started,
    recent: Recent,
}

/// Work that this process has [started](machine::advance) in an append. It is kept in memory only: after a failed write
/// or a crash it is gone, and the query is recovered.
#[derive(Debug, Default)]
pub(crate) struct Started {
    /// The attempt at a turn.
    pub(crate) turn: Option<(u32, u32)>,
    pub(crate) calls: Vec<CallId>,
}

impl Started {
    fn note(&mut self, events: &[Event]) {
        for event in events {
            match event {
                Event::TurnStarted { turn, attempt, .. } => self.turn = Some((*turn, *attempt)),
                Event::CallStarted { call, .. } => self.calls.push(*call),
                _ => {}
            }
        }
    }
}

/// What is to be appended.
#[derive(Default)]
pub(crate) struct Change {
    pub(crate) events: Vec<Event>,
    /// Added to the conversation of the query if it completes by this.
    pub(crate) said: Option<Arc<[Message]>>,
}

impl From<Vec<Event>> for Change {
    fn from(events: Vec<Event>) -> Self {
        Self { events, said: None }
    }
}

/// The last entries, for watchers.
#[derive(Default)]
struct Recent {
    entries: VecDeque<(Arc<Entry>, usize)>,
    bytes: usize,
}

impl Recent {
    /// Adds entries, and evicts the oldest above the ceilings.
    fn extend(&mut self, entries: impl IntoIterator<Item = (Arc<Entry>, usize)>) {
        for (entry, bytes) in entries {
            self.bytes += bytes;
            self.entries.push_back((entry, bytes));
        }
        while self.entries.len() > RECENT || self.bytes > RECENT_ENTRIES_BYTES {
            let Some((_, bytes)) = self.entries.pop_front() else { return };
            self.bytes -= bytes;
        }
    }
}

/// The text of the current turn, as far as it has come.
#[derive(Debug, Default)]
pub(crate) struct TextDraft {
    pub(crate) turn: u32,
    pub(crate) attempt: u32,
    pub(crate) text: String,
}

/// What has come of a turn's text.
pub(crate) enum DraftText {
    Nothing,
    More(String),
    /// There is text, but of a turn that the reader has not heard of.
    OfAnotherTurn,
}

impl LiveQueries {
    pub(crate) fn new(arguments: Arguments, metrics: Arc<Metrics>, clock: Arc<dyn Clock>, max_waiting: usize) -> Self {
        Self { arguments, metrics, clock, open: Mutex::default(), waiting: Mutex::default(), max_waiting }
    }

    /// The one entry for `key`, made if need be.
    pub(crate) fn entry(self: &Arc<Self>, key: &QueryKey) -> Arc<LiveQuery> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(live) = open.get(key).and_then(Weak::upgrade) {
            return live;
        }
        let live = Arc::new(LiveQuery {
            key: key.clone(),
            live_queries: Arc::downgrade(self),
            arguments: self.arguments,
            metrics: Arc::clone(&self.metrics),
            clock: Arc::clone(&self.clock),
            slot: AsyncMutex::default(),
            is_kept: AtomicBool::default(),
            weight: AtomicUsize::default(),
            changed: watch::Sender::new(0),
            settled: Notify::new(),
            told: watch::Sender::new(Arc::default()),
            has_fan_out: Mutex::default(),
            draft: Mutex::default(),
            ended: Mutex::default(),
        });
        open.insert(key.clone(), Arc::downgrade(&live));
        live
    }

    /// Keeps a query in memory that waits for its client, in place of those that have waited longest. `weight` is the
    /// memory that it takes, about.
    pub(crate) fn keep(&self, live: &Arc<LiveQuery>, weight: usize) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if !live.is_kept.swap(true, Ordering::Relaxed) {
            waiting.kept.push_back(Arc::clone(live));
        }
        waiting.weigh(live, weight);
        let surplus = waiting.evict(self.max_waiting);
        // To drop the last reference takes the other lock.
        drop(waiting);
        drop(surplus);
    }

    /// A query that is kept has grown.
    fn reweigh(&self, live: &LiveQuery, weight: usize) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if live.is_kept.load(Ordering::Relaxed) {
            waiting.weigh(live, weight);
        }
        let surplus = waiting.evict(self.max_waiting);
        drop(waiting);
        drop(surplus);
    }

    /// Lets go of a query that has ended: the store may delete it without a word.
    fn let_go(&self, live: &LiveQuery) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if !live.is_kept.swap(false, Ordering::Relaxed) {
            return;
        }
        waiting.weigh(live, 0);
        let found = waiting.kept.iter().rposition(|kept| std::ptr::eq(&**kept, live));
        let kept = found.and_then(|index| waiting.kept.remove(index));
        drop(waiting);
        drop(kept);
    }

    /// The queries that are kept although nobody is busy with them.
    #[cfg(test)]
    pub(crate) fn at_hand(&self) -> Vec<QueryKey> {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.kept.iter().map(|live| live.key.clone()).collect()
    }

    /// What those take in memory, about.
    #[cfg(test)]
    pub(crate) fn weight(&self) -> usize {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).bytes
    }

    /// How many queries somebody is busy with.
    pub(crate) fn len(&self) -> usize {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        open.len() - waiting.kept.iter().filter(|live| Arc::strong_count(live) == 1).count()
    }
}

impl WaitingQueries {
    /// Counts `live` for so many bytes from now on.
    fn weigh(&mut self, live: &LiveQuery, weight: usize) {
        let before = live.weight.swap(weight, Ordering::Relaxed);
        self.bytes = self.bytes - before + weight;
    }

    /// Evicts the longest waiting until the others are within the ceilings.
    fn evict(&mut self, most: usize) -> Vec<Arc<LiveQuery>> {
        let mut surplus = Vec::new();
        while self.kept.len() > most || self.bytes > WAITING_CACHE_BYTES {
            let Some(live) = self.kept.pop_front() else { break };
            self.weigh(&live, 0);
            live.is_kept.store(false, Ordering::Relaxed);
            surplus.push(live);
        }
        surplus
    }
}

impl Drop for LiveQuery {
    fn drop(&mut self) {
        let Some(live_queries) = self.live_queries.upgrade() else { return };
        let mut open = live_queries.open.lock().unwrap_or_else(PoisonError::into_inner);
        // Somebody may have made a new entry since the last strong reference went.
        if open.get(&self.key).is_some_and(|entry| entry.strong_count() == 0) {
            open.remove(&self.key);
        }
    }
}

/// What a creation brings beside its entries.
pub(crate) struct CreationParts {
    pub(crate) toolset: Document,
    pub(crate) request: Option<Request>,
    pub(crate) joins: Option<Joining>,
}

/// A query, locked against all other changes in this process.
pub(crate) struct LockedQuery<'a> {
    live: &'a LiveQuery,
    slot: MutexGuard<'a, QuerySlot>,
}

impl LiveQuery {
    /// Locks the query and loads it if need be; there is no state if no such query exists.
    pub(crate) async fn lock(&self, store: &dyn Store) -> Result<LockedQuery<'_>, StoreError> {
        let mut slot = self.slot.lock().await;
        if slot.state.is_none()
            && let Some(stored) = store.load(&self.key.0, &self.key.1).await?
        {
            let state = QueryState::from_stored(stored)?;
            if state.head.status().is_final() {
                self.ended().cancel();
            }
            slot.state = Some(state);
        }
        Ok(LockedQuery { live: self, slot })
    }

    /// Locks the query with this uid, or any if there is none; nothing if it is gone, or there is another one under its
    /// name.
    pub(crate) async fn lock_query(
        &self,
        store: &dyn Store,
        uid: Option<QueryUid>,
    ) -> Result<Option<LockedQuery<'_>>, StoreError> {
        let locked = self.lock(store).await?;
        let is_wanted = |state: &QueryState| uid.is_none_or(|uid| uid == state.head.uid);
        Ok(locked.state().is_some_and(is_wanted).then_some(locked))
    }

    /// Locks a query that cannot be in the store: its name was made just now.
    pub(crate) async fn lock_new(&self) -> LockedQuery<'_> {
        LockedQuery { live: self, slot: self.slot.lock().await }
    }

    /// Claims the right to drive the query without reading it; false if a task has it already.
    pub(crate) async fn claim(&self) -> bool {
        !std::mem::replace(&mut self.slot.lock().await.driven, true)
    }

    /// Gives the right to drive back.
    pub(crate) async fn release(&self) {
        self.slot.lock().await.driven = false;
    }

    /// Forgets what is in memory if it was built on the append at `position`, which failed: the store knows
    /// better. What was loaded or created since then was not.
    pub(crate) async fn forget(&self, position: Position) {
        let mut slot = self.slot.lock().await;
        let first = slot.state.as_ref().and_then(|state| state.first);
        if first.is_none_or(|first| first > position) {
            return;
        }
        slot.state = None;
        self.renew_end();
        drop(slot);
        self.notify();
        self.settled.notify_waiters();
    }

    /// Fires when the query has ended, whoever ended it.
    pub(crate) fn ended(&self) -> CancellationToken {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// There is no query here, or not the one that ended: whoever drives the next one must not take it for over.
    fn renew_end(&self) {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = CancellationToken::new();
    }

    /// Told of every entry from now on, durable or not.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Resolves when the query has settled after this was called, or has to be looked at again.
    pub(crate) fn settled(&self) -> Notified<'_> {
        self.settled.notified()
    }

    /// Where readers are told of what is durable, and of text.
    pub(crate) fn told(&self) -> &watch::Sender<Arc<Broadcast>> {
        &self.told
    }

    /// Claims the right to speak to the readers; false if a herald has it.
    pub(crate) fn claim_fan_out(&self) -> bool {
        !std::mem::replace(&mut *self.has_fan_out.lock().unwrap_or_else(PoisonError::into_inner), true)
    }

    /// Gives the right to speak back, unless a reader has come; then false.
    pub(crate) fn release_fan_out(&self) -> bool {
        let mut has_fan_out = self.has_fan_out.lock().unwrap_or_else(PoisonError::into_inner);
        *has_fan_out = self.told.receiver_count() > 0;
        !*has_fan_out
    }

    pub(crate) fn push_delta(&self, text: &str) {
        self.draft.lock().unwrap_or_else(PoisonError::into_inner).text.push_str(text);
        wake(&self.told, |_| {});
    }

    pub(crate) fn start_draft(&self, turn: u32, attempt: u32) {
        *self.draft.lock().unwrap_or_else(PoisonError::into_inner) = TextDraft { turn, attempt, text: String::new() };
    }

    /// What has come of this attempt's text behind the first `offset` bytes.
    pub(crate) fn draft_from(&self, turn: u32, attempt: u32, offset: usize) -> DraftText {
        let draft = self.draft.lock().unwrap_or_else(PoisonError::into_inner);
        if (draft.turn, draft.attempt) != (turn, attempt) {
            return if draft.text.is_empty() { DraftText::Nothing } else { DraftText::OfAnotherTurn };
        }
        draft
            .text
            .get(offset..)
            .filter(|text| !text.is_empty())
            .map_or(DraftText::Nothing, |text| DraftText::More(text.into()))
    }

    fn notify(&self) {
        wake(&self.changed, |version| *version += 1);
    }
}

/// Tells whoever listens. Mostly nobody does, and to find that out by waking them is dearer than to ask. Nobody is
/// missed: what is told of has changed under a lock that a listener takes after it has begun to listen.
fn wake<T>(told: &watch::Sender<T>, change: impl FnOnce(&mut T)) {
    if told.receiver_count() > 0 {
        told.send_modify(change);
    }
}

impl QueryState {
    fn from_stored(stored: Stored) -> Result<Self, StoreError> {
        let uid = stored.head.uid;
        let mut entries = stored.entries.iter();
        let mut transcript =
            entries.next().and_then(Transcript::new).ok_or(StoreError::Inconsistent(FoldError::NotCreated(uid)))?;
        entries.for_each(|entry| transcript.apply(entry));
        Ok(Self {
            head: Arc::new(stored.head),
            transcript: Arc::new(transcript),
            position: Position::default(),
            first: None,
            read: None,
            size: stored.size,
            started: Started::default(),
            recent: Recent::default(),
        })
    }

    /// What is kept for watchers.
    #[cfg(test)]
    pub(crate) fn recent_bytes(&self) -> usize {
        self.recent.bytes
    }

    /// The entries after `seen`, if they are all still here.
    pub(crate) fn recent_after(&self, seen: Seq) -> Option<Vec<Arc<Entry>>> {
        if seen >= self.head.seq {
            return Some(Vec::new());
        }
        let recent = self.recent.entries.iter().map(|(entry, _)| entry);
        let first = recent.clone().next()?.seq;
        (first <= seen + 1).then(|| recent.filter(|entry| entry.seq > seen).cloned().collect())
    }
}

impl LockedQuery<'_> {
    pub(crate) fn state(&self) -> Option<&QueryState> {
        self.slot.state.as_ref()
    }

    /// For how long the query has run, by the monotonic clock since its last entry.
    pub(crate) fn running_time(&self) -> Duration {
        let Some(QueryState { head, read, .. }) = self.state() else { return Duration::ZERO };
        match read {
            Some(read) => head.clock.spent(read.wall) + self.live.clock.monotonic().saturating_sub(read.monotonic),
            // This process has not moved it yet.
            None => head.clock.spent(self.live.clock.now()),
        }
    }

    pub(crate) fn is_driven(&self) -> bool {
        self.slot.driven
    }

    /// Claims the right to drive the query; false if a task has it already.
    pub(crate) fn claim(&mut self) -> bool {
        !std::mem::replace(&mut self.slot.driven, true)
    }

    /// Gives the right to drive back.
    pub(crate) fn release(&mut self) {
        self.slot.driven = false;
    }

    /// Takes what was started for a driver, if it still is under way.
    pub(crate) fn take_started(&mut self) -> Started {
        let Some(QueryState { head, started, .. }) = self.slot.state.as_mut() else { return Started::default() };
        let Started { turn, mut calls } = std::mem::take(started);
        calls.retain(|id| head.call(*id).is_some_and(|call| matches!(call.state, CallState::Started { .. })));
        Started { turn: turn.filter(|turn| head.asking() == Some(*turn)), calls }
    }

    /// Starts what is next and not started yet, for the caller to [take up](Self::take_started).
    pub(crate) fn advance(&mut self, store: &dyn Store, now: Timestamp) -> Result<(), StoreError> {
        let Some(state) = self.slot.state.as_mut() else { return Ok(()) };
        let events = machine::advance(&state.head);
        state.started.note(&events);
        self.append(store, now, events, never).map(|_| ())
    }

    /// Creates the query: its first entry is `event`. With leave of `may_advance`, what [follows](machine::advance) is
    /// appended with it.
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
        size.admit(&entry.event, &entry.body)?;
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
        journal_log::tell(&head, written());
        let mut recent = Recent::default();
        recent.extend(entries.iter().map(|entry| (Arc::clone(&entry.entry), entry.body.len())));
        let position = store.append(Append {
            head: Arc::clone(&head),
            seen: 0,
            after: Position::default(),
            entries,
            toolset: Some(toolset),
            request,
            records,
            conversation: joins.map(Part::Joins),
        })?;
        let runs = head.clock.running_since.is_some();
        self.slot.state = Some(QueryState {
            head,
            transcript: Arc::new(transcript),
            position,
            first: Some(position),
            read: runs.then(|| Reading::of(&*self.live.clock)),
            size,
            started,
            recent,
        });
        self.live.notify();
        Ok(position)
    }

    /// The query has been deleted: there is none.
    pub(crate) fn forget(&mut self) {
        self.slot.state = None;
        self.live.renew_end();
        self.live.notify();
        self.live.settled.notify_waiters();
    }

    /// Appends a change in one piece and folds it in. With leave of `may_advance`, which sees the head after it, what
    /// [follows](machine::advance) is appended with it, for a driver to [take up](Self::take_started). Nothing happens if
    /// there are no events. If they are more than the journal may have, nothing of them is appended; if the query was to
    /// go on by them, it fails.
    pub(crate) fn append(
        &mut self,
        store: &dyn Store,
        now: Timestamp,
        change: impl Into<Change>,
        may_advance: impl FnOnce(&Head) -> bool,
    ) -> Result<Position, StoreError> {
        let Change { mut events, said } = change.into();
        let Some(state) = self.slot.state.as_mut() else { return Ok(Position::default()) };
        if events.is_empty() {
            return Ok(state.position);
        }
        let reading = Reading::of(&*self.live.clock);
        let stepped = state.read.map_or(0, |read| reading.stepped_since(read));
        if stepped.abs() >= STEP_COUNTED_MS {
            events.splice(0..0, machine::clock_stepped(&state.head, stepped));
        }
        let seen = state.head.seq;
        let mut entries = encode(seen, now, events)?;
        let mut size = state.size;
        if let Err(fault) = entries.iter().try_for_each(|entry| size.admit(&entry.event, &entry.body)) {
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
        let joined = transcript.spec.conversation.as_ref().filter(|_| completes);
        let conversation = joined.zip(said).map(|(conversation, messages)| {
            Part::Adds(Exchange {
                key: conversation.key.clone(),
                query: head.uid,
                name: head.name.clone(),
                at: now,
                kept_until: now.after(head.limits.ttl),
                messages,
            })
        });
        self.live.metrics.note(&records);
        journal_log::tell(head, entries.iter().map(|entry| &**entry));
        state.recent.extend(entries.iter().map(|entry| (Arc::clone(&entry.entry), entry.body.len())));
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
                self.forget();
                return Err(error);
            }
        }
        let position = state.position;
        let status = state.head.status();
        let has_grown = || state.size.memory > self.live.weight.load(Ordering::Relaxed) + REWEIGHED;
        if self.live.is_kept.load(Ordering::Relaxed)
            && has_grown()
            && let Some(live_queries) = self.live.live_queries.upgrade()
        {
            live_queries.reweigh(self.live, state.size.memory);
        }
        if status.is_final() {
            self.live.ended().cancel();
            if let Some(live_queries) = self.live.live_queries.upgrade() {
                live_queries.let_go(self.live);
            }
        }
        self.live.notify();
        if status.is_settled() {
            self.live.settled.notify_waiters();
        }
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

/// For appends that nothing follows.
pub(crate) fn never(_: &Head) -> bool {
    false
}

/// Makes entries of `events`, behind entry `seen`.
fn encode(seen: Seq, now: Timestamp, events: Vec<Event>) -> Result<Vec<Encoded>, StoreError> {
    let entries = events.into_iter().zip(seen + 1..);
    entries.map(|(event, seq)| Encoded::new(Entry { seq, at: now, event })).collect()
}

/// Folds entries in.
fn fold(
    head: &mut Head,
    transcript: &mut Transcript,
    size: &mut JournalSize,
    entries: &[Encoded],
) -> Result<(), FoldError> {
    for entry in entries {
        head.apply(entry)?;
        transcript.apply(entry);
        size.add(&entry.event, &entry.body);
    }
    Ok(())
}

impl fmt::Debug for LiveQuery {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LiveQuery").field("key", &self.key).finish_non_exhaustive()
    }
}
