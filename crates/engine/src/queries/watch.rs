//! Subscribing to a query while it runs.
//!
//! A subscriber sees each entry of the journal once, in order, after it is durable, and between entries the text of the
//! current turn as it grows. It pulls: a slow reader delays no other and costs no memory, since missed text arrives as
//! one delta and entries that are no longer in memory are read from the journal. Dropping a subscriber cancels nothing.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use bosun_core::{
    CallId, Entry, Event, Head, QueryName, Seq, Timestamp,
    event::{AskedCall, CallQuestion},
    head::{Phase, Waiting, WaitingOn},
};

use crate::{
    EngineError, Snapshot,
    engine::Inner,
    queries::fan_out::{self, Broadcast, Unseen},
    queries::live::{CallInProgress, DraftText, LiveQuery},
};

/// What a subscriber receives.
#[derive(Clone, Debug, PartialEq)]
pub enum Watched {
    Entry(Arc<Entry>),
    /// More text of a turn. Not durable: if the turn is retried, `attempt` counts up.
    Delta {
        turn: u32,
        attempt: u32,
        offset: usize,
        text: String,
    },
    /// The progress of a running call. Not durable either; only the latest report of a call is kept.
    Progress(CallInProgress),
    /// A call of a query below this one waits for a client or a person. Durable, and not an entry of this query.
    Below(BelowCall),
    /// A call of a query below this one no longer waits; this subscriber was shown it.
    BelowEnded(CallId),
}

/// An open call of a query below the one that is watched.
#[derive(Clone, Debug, PartialEq)]
pub struct BelowCall {
    /// The agents and teams from the root to the query that makes the call.
    pub path: Vec<Arc<str>>,
    /// The name of that query.
    pub query: QueryName,
    pub asked: Arc<AskedCall>,
    pub at: Timestamp,
    /// When the wait ends.
    pub deadline: Timestamp,
    /// What the call asks a person, if it continues elsewhere and has a question.
    pub question: Option<Arc<CallQuestion>>,
}

/// One subscriber of one query.
pub struct Watch {
    inner: Arc<Inner>,
    live: Arc<LiveQuery>,
    broadcasts: tokio::sync::watch::Receiver<Arc<Broadcast>>,
    seen: Seq,
    /// From here on, broadcasts are enough.
    is_caught_up: bool,
    ahead: VecDeque<Arc<Entry>>,
    /// The turn that is being written, as far as this subscriber has seen it.
    draft: WatchedDraft,
    /// The number of the last report of progress that it has seen.
    progress: u64,
    /// The number of the last change below the query that it has looked at; `None` before the first look.
    below: Option<u64>,
    /// The open calls below the query that it has been shown.
    open_below: HashMap<CallId, WaitRound>,
    ahead_below: VecDeque<Watched>,
    ended: bool,
}

#[derive(Clone, Copy, Default)]
struct WatchedDraft {
    turn: u32,
    attempt: u32,
    offset: usize,
}

impl WatchedDraft {
    /// The draft of the turn that `entry` begins, if it begins one.
    fn begun_by(entry: &Entry) -> Option<Self> {
        match entry.event {
            Event::TurnStarted { turn, attempt, .. } => Some(Self { turn, attempt, offset: 0 }),
            _ => None,
        }
    }
}

/// Which wait of a call it is: a call that continues elsewhere may have one question after another, and each has a
/// deadline of its own. Every other call waits for something outside once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WaitRound(Option<Timestamp>);

impl WaitRound {
    fn of(waiting: Waiting) -> Self {
        Self(matches!(waiting.on, WaitingOn::Answer { .. }).then_some(waiting.deadline))
    }
}

/// The calls of a query that wait for a client or a person.
fn waits_outside(head: &Head) -> impl Iterator<Item = (CallId, Waiting)> {
    let waits = head.waits().filter_map(|wait| Some((wait.call?.id, wait.waiting)));
    waits.filter(|(_, waiting)| !matches!(waiting.on, WaitingOn::Runner { .. } | WaitingOn::Child))
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Watch").field("query", &self.live.key).field("seen", &self.seen).finish_non_exhaustive()
    }
}

impl Watch {
    pub(crate) fn new(inner: Arc<Inner>, live: Arc<LiveQuery>, seen: Seq) -> Self {
        let broadcasts = live.broadcast().subscribe();
        fan_out::ensure_running(&inner, &live);
        let draft = WatchedDraft::default();
        Self {
            inner,
            live,
            broadcasts,
            seen,
            is_caught_up: false,
            ahead: VecDeque::new(),
            draft,
            progress: 0,
            below: None,
            open_below: HashMap::new(),
            ahead_below: VecDeque::new(),
            ended: false,
        }
    }

    /// The subscriber was shown the open calls of these queries below the query, in a snapshot. Those that no longer
    /// wait at the first look end like any other.
    #[must_use]
    pub fn with_shown_below(mut self, below: &[Snapshot]) -> Self {
        let waits = below.iter().flat_map(|below| waits_outside(&below.head));
        self.open_below = waits.map(|(call, waiting)| (call, WaitRound::of(waiting))).collect();
        self
    }

    /// Whether the query has other subscribers.
    #[must_use]
    pub fn has_other_subscribers(&self) -> bool {
        self.live.broadcast().receiver_count() > 1
    }

    /// The next item; `None` when the query has ended or the server shuts down.
    ///
    /// # Errors
    /// If the store fails. The call may be repeated.
    pub async fn next(&mut self) -> Result<Option<Watched>, EngineError> {
        loop {
            if let Some(entry) = self.ahead.front().cloned() {
                if let Some(rest) = self.rest_of_draft(&entry.event) {
                    return Ok(Some(rest));
                }
                self.ahead.pop_front();
                self.see(&entry);
                return Ok(Some(Watched::Entry(entry)));
            }
            if self.ended {
                return Ok(None);
            }
            // Marked as seen before anything is read, so that later broadcasts are seen by the next call.
            let broadcast = Arc::clone(&self.broadcasts.borrow_and_update());
            match broadcast.after(self.seen) {
                Unseen::Entries(entries) if self.is_caught_up => {
                    self.ahead.extend(entries.iter().cloned());
                    continue;
                }
                Unseen::Nothing if self.is_caught_up => {}
                _ if self.look_ahead().await? || self.ended => continue,
                _ => self.is_caught_up = true,
            }
            match self.more_text() {
                DraftText::More(text) => return Ok(Some(self.delta(text))),
                DraftText::OfAnotherTurn if self.look_ahead().await? => continue,
                DraftText::OfAnotherTurn => {
                    if let DraftText::More(text) = self.more_text() {
                        return Ok(Some(self.delta(text)));
                    }
                }
                DraftText::Nothing => {}
            }
            if let Some((number, progress)) = self.live.progress_after(self.progress) {
                self.progress = number;
                return Ok(Some(Watched::Progress(progress)));
            }
            self.look_below().await?;
            if let Some(watched) = self.ahead_below.pop_front() {
                return Ok(Some(watched));
            }
            tokio::select! {
                // The sender lives as long as `live`.
                _ = self.broadcasts.changed() => {}
                () = self.inner.draining.cancelled() => return Ok(None),
            }
        }
    }

    /// Looks for calls of queries below this one that this subscriber has not been shown, and for those that no longer
    /// wait.
    async fn look_below(&mut self) -> Result<(), EngineError> {
        // Read before the look, so that a later change is looked at by the next one.
        let changes = self.live.changes_below();
        if self.below.replace(changes) == Some(changes) {
            return Ok(());
        }
        let head = {
            let locked = self.live.lock(&*self.inner.store).await?;
            Arc::clone(&Inner::state_of(&locked, &self.live.key)?.head)
        };
        let mut open = HashMap::new();
        for below in self.inner.below(&head).await?.iter() {
            let path = below.head.lineage.as_ref().map(|lineage| lineage.path.clone()).unwrap_or_default();
            for (call, waiting) in waits_outside(&below.head) {
                let Some(found) = below.transcript.call(call) else { continue };
                let round = WaitRound::of(waiting);
                open.insert(call, round);
                let shown = self.open_below.get(&call);
                if shown == Some(&round) {
                    continue;
                }
                // Its last question was answered, and it has another one.
                self.ahead_below.extend(shown.map(|_| Watched::BelowEnded(call)));
                self.ahead_below.push_back(Watched::Below(BelowCall {
                    path: path.clone(),
                    query: below.head.name.clone(),
                    asked: Arc::clone(&found.asked),
                    at: found.asked_at,
                    deadline: waiting.deadline,
                    question: found.question.clone(),
                }));
            }
        }
        let ended = self.open_below.keys().filter(|call| !open.contains_key(call));
        self.ahead_below.extend(ended.copied().map(Watched::BelowEnded));
        self.open_below = open;
        Ok(())
    }

    /// Loads entries that this subscriber has not seen, and waits until they are durable.
    async fn look_ahead(&mut self) -> Result<bool, EngineError> {
        let locked = self.live.lock(&*self.inner.store).await?;
        let state = Inner::state_of(&locked, &self.live.key)?;
        if state.head.seq <= self.seen {
            self.ended = state.head.status().is_final();
            let joined = (self.draft.turn, self.draft.attempt) != (state.head.turn, state.head.attempt);
            if state.head.phase == Phase::Thinking && joined {
                // The subscriber joined in the middle of a turn: it gets the text from its beginning.
                self.draft = WatchedDraft { turn: state.head.turn, attempt: state.head.attempt, offset: 0 };
            }
            return Ok(false);
        }
        // A subscriber that reconnects may be in the middle of a turn; only the whole journal says which.
        let comes_back = self.seen > 0 && self.draft.turn == 0;
        let (recent, position) = (state.recent_after(self.seen).filter(|_| !comes_back), state.position);
        drop(locked);
        self.inner.make_durable(&self.live, position).await?;
        match recent {
            Some(entries) => self.ahead.extend(entries),
            None => {
                let (namespace, name) = &self.live.key;
                let stored = self.inner.store.load(namespace, name).await?;
                let (seen, ahead): (Vec<_>, Vec<_>) = stored
                    .map(|stored| stored.entries)
                    .unwrap_or_default()
                    .into_iter()
                    .partition(|entry| entry.seq <= self.seen);
                if comes_back {
                    self.draft = seen.iter().rev().find_map(WatchedDraft::begun_by).unwrap_or_default();
                }
                self.ahead.extend(ahead.into_iter().map(Arc::new));
            }
        }
        Ok(!self.ahead.is_empty())
    }

    /// The rest of a turn's text when the turn ends, if the subscriber would not get it otherwise.
    fn rest_of_draft(&mut self, ending: &Event) -> Option<Watched> {
        let Event::TurnEnded { turn, text: Some(text), calls, .. } = ending else { return None };
        let follows = *turn == self.draft.turn && (self.draft.offset > 0 || *calls > 0);
        let rest = text.get(self.draft.offset..).filter(|rest| follows && !rest.is_empty())?.to_owned();
        Some(self.delta(rest))
    }

    fn more_text(&self) -> DraftText {
        let WatchedDraft { turn, attempt, offset } = self.draft;
        self.live.draft_from(turn, attempt, offset)
    }

    fn delta(&mut self, text: String) -> Watched {
        let WatchedDraft { turn, attempt, offset } = self.draft;
        self.draft.offset += text.len();
        Watched::Delta { turn, attempt, offset, text }
    }

    fn see(&mut self, entry: &Entry) {
        self.seen = entry.seq;
        self.ended |= entry.event.is_final();
        self.draft = WatchedDraft::begun_by(entry).unwrap_or(self.draft);
    }
}
