//! Ends that no turn of the model brings about: a client cancels the query, or it fails.

use crate::{Actor, Event, Head};

/// Cancels the query. Empty if it has ended already.
#[must_use]
pub fn cancel(head: &Head, reason: Option<String>, by: &Actor) -> Vec<Event> {
    if head.status().is_final() { Vec::new() } else { vec![Event::Cancelled { reason, by: by.clone() }] }
}

/// Fails the query: the model failed permanently, or the running time is spent. Empty if it has ended.
#[must_use]
pub fn fail(head: &Head, code: impl Into<String>, message: impl Into<String>) -> Vec<Event> {
    if head.status().is_final() {
        return Vec::new();
    }
    vec![Event::Failed { code: code.into(), message: message.into() }]
}
