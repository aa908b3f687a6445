//! The running time of a query.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// The query's own clock: it runs while the model or an inside call works, and only then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunClock {
    pub spent_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_since: Option<Timestamp>,
    /// The sum of all steps of the wall clock while the query ran.
    #[serde(default, skip_serializing_if = "is_zero_ms")]
    pub stepped_ms: i64,
}

impl RunClock {
    /// The running time up to `now`.
    #[must_use]
    pub fn spent(&self, now: Timestamp) -> Duration {
        let current = self.running_since.map_or(Duration::ZERO, |since| now.since(since));
        Duration::from_millis(self.spent_ms).saturating_add(current)
    }

    pub(super) fn stop(&mut self, now: Timestamp) {
        self.spent_ms = u64::try_from(self.spent(now).as_millis()).unwrap_or(u64::MAX);
        self.running_since = None;
    }

    /// The wall clock has stepped: the start of the current run moves by the same amount.
    pub(super) fn step(&mut self, by_ms: i64) {
        self.stepped_ms = self.stepped_ms.saturating_add(by_ms);
        if let Some(since) = &mut self.running_since {
            *since = since.shifted(by_ms);
        }
    }

    pub(super) fn set(&mut self, running: bool, now: Timestamp) {
        match (self.running_since, running) {
            (None, true) => self.running_since = Some(now),
            (Some(_), false) => self.stop(now),
            (None, false) | (Some(_), true) => {}
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_zero_ms(number: &i64) -> bool {
    *number == 0
}
