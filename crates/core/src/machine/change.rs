//! Changes that advance nothing: of limits and labels, and steps of the wall clock.

use crate::{Event, Head, event::Changed};

/// Changes limits, labels or annotations of the query, before or after its end. Empty if `changed` changes nothing.
#[must_use]
pub fn change(changed: Changed) -> Vec<Event> {
    if changed.names().next().is_none() { Vec::new() } else { vec![Event::Changed(Box::new(changed))] }
}

/// The wall clock has stepped since the last entry. Empty if the query did not run meanwhile: then no time was counted.
#[must_use]
pub fn clock_stepped(head: &Head, by_ms: i64) -> Vec<Event> {
    if head.clock.running_since.is_some() { vec![Event::ClockStepped { by_ms }] } else { Vec::new() }
}
