//! The size of a journal, and its ceilings.
//!
//! Sizes are those of the stored texts. Every entry has a ceiling, and so has the journal as a whole, with one
//! exception: the entry that ends a query is always accepted, or a query with a full journal could not even fail.
//! Changes of a query have a ceiling of their own, below that of the journal, so that no client can fill the journal of
//! a query until it cannot make progress.

use std::ops::AddAssign;

use crate::{
    ceiling::{CHANGES_BYTES, ENTRY_BYTES, JOURNAL_BYTES},
    event::Event,
    json,
    machine::failure_code,
};

/// The size of a journal, or of one of its entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalSize {
    /// Of all entries, as they are stored.
    pub bytes: usize,
    /// Of entries that only [change](Event::Changed) metadata of the query.
    pub changes: usize,
    /// An upper estimate of what the entries take in memory.
    pub memory: usize,
}

/// Why an entry is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JournalFault {
    #[error("an entry of {0} bytes exceeds the {ENTRY_BYTES} bytes that one journal entry may have")]
    EntryTooLarge(usize),
    #[error("the journal of this query is full: it has {JOURNAL_BYTES} bytes, or {CHANGES_BYTES} bytes of changes")]
    Full,
}

impl JournalFault {
    /// The error code of the response, or of the query that fails with it.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::EntryTooLarge(_) => failure_code::ENTRY_TOO_LARGE,
            Self::Full => failure_code::JOURNAL_FULL,
        }
    }
}

impl JournalSize {
    /// The size of one entry; `body` is its text.
    #[must_use]
    pub fn of_entry(event: &Event, body: &str) -> Self {
        let changes = if matches!(event, Event::Changed(_)) { body.len() } else { 0 };
        Self { bytes: body.len(), changes, memory: json::memory_of(body) }
    }

    /// Counts an entry of size `entry` that is about to be appended.
    ///
    /// # Errors
    /// If it is larger than an entry may be, or the journal would be larger than a journal may be.
    pub fn admit(&mut self, event: &Event, entry: Self) -> Result<(), JournalFault> {
        if entry.bytes > ENTRY_BYTES {
            return Err(JournalFault::EntryTooLarge(entry.bytes));
        }
        *self += entry;
        let is_full = self.bytes > JOURNAL_BYTES || self.changes > CHANGES_BYTES;
        if is_full && !event.is_final() && !matches!(event, Event::Settled) { Err(JournalFault::Full) } else { Ok(()) }
    }
}

impl AddAssign for JournalSize {
    fn add_assign(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.changes += other.changes;
        self.memory += other.memory;
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Arc};

    use super::*;
    use crate::event::Changed;

    fn entry() -> Event {
        Event::Interrupted
    }

    fn change() -> Event {
        let labels = Some(Arc::new(BTreeMap::new()));
        Event::Changed(Box::new(Changed { labels, ..Changed::default() }))
    }

    fn admit(size: &mut JournalSize, event: &Event, bytes: usize) -> Result<(), JournalFault> {
        size.admit(event, JournalSize::of_entry(event, &"x".repeat(bytes)))
    }

    #[test]
    fn an_entry_is_accepted_up_to_its_ceiling() {
        let mut size = JournalSize::default();
        assert_eq!(admit(&mut size, &entry(), ENTRY_BYTES), Ok(()));
        let refused = Err(JournalFault::EntryTooLarge(ENTRY_BYTES + 1));
        assert_eq!(admit(&mut size, &entry(), ENTRY_BYTES + 1), refused);
        // Not even an end: its parts were bounded before.
        assert_eq!(admit(&mut size, &Event::Completed, ENTRY_BYTES + 1), refused);
    }

    #[test]
    fn a_full_journal_accepts_an_end_and_nothing_else() {
        let mut size = JournalSize::default();
        for _ in 0..JOURNAL_BYTES / ENTRY_BYTES {
            admit(&mut size, &entry(), ENTRY_BYTES).unwrap();
        }
        assert_eq!(size.bytes, JOURNAL_BYTES);
        assert_eq!(admit(&mut { size }, &entry(), 1), Err(JournalFault::Full));
        assert_eq!(admit(&mut size, &Event::Completed, 2), Ok(()));
    }

    #[test]
    fn changes_never_fill_a_journal() {
        let mut size = JournalSize::default();
        for _ in 0..CHANGES_BYTES / 1024 {
            admit(&mut size, &change(), 1024).unwrap();
        }
        assert_eq!(admit(&mut { size }, &change(), 1), Err(JournalFault::Full));
        assert_eq!(size.bytes, size.changes);
        const { assert!(CHANGES_BYTES + 2 * ENTRY_BYTES <= JOURNAL_BYTES) };
    }
}
