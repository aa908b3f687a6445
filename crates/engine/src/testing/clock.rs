//! A clock that follows tokio's, so that a test which pauses time pauses deadlines too.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use bosun_core::Timestamp;
use tokio::time::Instant;

use crate::Clock;

/// Begins on 15 November 2026 and advances with tokio's time. A clone is the same clock.
#[derive(Clone, Debug)]
pub struct TokioClock {
    start: Instant,
    stepped_ms: Arc<AtomicI64>,
}

impl TokioClock {
    const BEGINNING: Timestamp = Timestamp(1_794_700_800_000);

    #[must_use]
    pub fn new() -> Self {
        Self { start: Instant::now(), stepped_ms: Arc::default() }
    }

    /// Sets the wall clock ahead by `seconds`, or back.
    pub fn step(&self, seconds: i64) {
        self.stepped_ms.fetch_add(1_000 * seconds, Ordering::SeqCst);
    }
}

impl Default for TokioClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Self::BEGINNING.after(self.start.elapsed()).shifted(self.stepped_ms.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }
}
