//! The state of a query in memory.

use std::{collections::VecDeque, sync::Arc};

use bosun_core::{
    CallId, Entry, Event, Head, Seq, Transcript, ceiling::RECENT_ENTRIES_BYTES, head::FoldError, journal::JournalSize,
};

use crate::{
    background::clock_step::ClockReading,
    store::{Position, StoreError, Stored},
};

/// How many recent entries are kept for subscribers that lag a little, within [`RECENT_ENTRIES_BYTES`]; others read the
/// journal.
const RECENT: usize = 256;

/// The state of a query in memory.
pub(crate) struct QueryState {
    pub(crate) head: Arc<Head>,
    pub(crate) transcript: Arc<Transcript>,
    /// Of the last append; zero if everything is durable.
    pub(crate) position: Position,
    /// Of the first append since the query was created or loaded, if any.
    pub(super) first: Option<Position>,
    /// Both clocks at the last append of this process, while the query runs.
    pub(super) read: Option<ClockReading>,
    pub(crate) size: JournalSize,
    /// Work that was started in an append, for the next driver to take.
    pub(super) started: Started,
    pub(super) recent: Recent,
}

/// Work that this process has [started](bosun_core::machine::advance) in an append. It is in memory only: after a
/// failed write or a crash it is gone, and the query is recovered.
#[derive(Debug, Default)]
pub(crate) struct Started {
    /// The attempt at a turn.
    pub(crate) turn: Option<(u32, u32)>,
    pub(crate) calls: Vec<CallId>,
}

impl Started {
    pub(super) fn note(&mut self, events: &[Event]) {
        for event in events {
            match event {
                Event::TurnStarted { turn, attempt, .. } => self.turn = Some((*turn, *attempt)),
                Event::CallStarted { call, .. } => self.calls.push(*call),
                _ => {}
            }
        }
    }
}

/// The most recent entries, for subscribers.
#[derive(Default)]
pub(super) struct Recent {
    entries: VecDeque<(Arc<Entry>, usize)>,
    bytes: usize,
}

impl Recent {
    /// Adds entries, and evicts the oldest beyond the limits.
    pub(super) fn extend(&mut self, entries: impl IntoIterator<Item = (Arc<Entry>, usize)>) {
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

impl QueryState {
    pub(super) fn from_stored(stored: Stored) -> Result<Self, StoreError> {
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

    /// The size of the recent entries.
    #[cfg(test)]
    pub(crate) fn recent_bytes(&self) -> usize {
        self.recent.bytes
    }

    /// The entries after `seen`, if all of them are still in memory.
    pub(crate) fn recent_after(&self, seen: Seq) -> Option<Vec<Arc<Entry>>> {
        if seen >= self.head.seq {
            return Some(Vec::new());
        }
        let recent = self.recent.entries.iter().map(|(entry, _)| entry);
        let first = recent.clone().next()?.seq;
        (first <= seen + 1).then(|| recent.filter(|entry| entry.seq > seen).cloned().collect())
    }
}
