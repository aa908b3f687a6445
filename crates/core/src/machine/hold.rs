//! Holds: a client keeps the query where it is, with a deadline.

use super::failure_code;
use crate::{Actor, Event, Head, Timestamp};

pub(super) fn is_hold_expired(head: &Head, now: Timestamp) -> bool {
    head.hold.is_some_and(|hold| hold.is_over(now))
}

/// A hold that was not continued ends the query, whatever else is open.
pub(super) fn hold_expired() -> Event {
    Event::Failed {
        code: failure_code::HOLD_EXPIRED.into(),
        message: "the query was held (`continueExecution: false`) and was not continued in time".into(),
    }
}

/// Continues a held query. Empty if it is not, or no longer, held: the deadline is compared here, so that a `continue`
/// after it is late even if no sweep has run.
#[must_use]
pub fn resume(head: &Head, now: Timestamp, by: &Actor) -> Vec<Event> {
    if head.hold.is_none() || is_hold_expired(head, now) {
        return Vec::new();
    }
    vec![Event::Continued { by: by.clone() }]
}
