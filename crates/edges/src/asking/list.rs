//! The part of a query that lists show.

use bosun_core::{Transcript, event::Entry};

/// The transcript of a listed query: what was asked, and what the query ended with or waits for.
pub(crate) fn beginning_and_end(entries: &[Entry]) -> Option<Transcript> {
    let (created, latest) = entries.split_first()?;
    let mut transcript = Transcript::new(created)?;
    latest.iter().for_each(|entry| transcript.apply(entry));
    Some(transcript)
}
