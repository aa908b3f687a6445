//! A clock that follows tokio's, so that a test which pauses time pauses deadlines too.

use bosun_core::Timestamp;
use tokio::time::Instant;

use crate::Clock;

/// Begins on 15 November 2026 and goes with tokio's time.
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    start: Instant,
}

impl TokioClock {
    const BEGINNING: Timestamp = Timestamp(1_794_700_800_000);

    #[must_use]
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for TokioClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Self::BEGINNING.after(self.start.elapsed())
    }
}
