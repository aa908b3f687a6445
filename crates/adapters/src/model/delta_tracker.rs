//! Tracks whether text was shown: after that, the turn must not be restarted unnoticed.

use std::sync::atomic::{AtomicBool, Ordering};

use bosun_engine::model::Deltas;

/// Forwards deltas, and records that there were some.
pub(super) struct DeltaTracker<'a> {
    deltas: &'a dyn Deltas,
    any: AtomicBool,
}

impl<'a> DeltaTracker<'a> {
    pub(super) fn new(deltas: &'a dyn Deltas) -> Self {
        Self { deltas, any: AtomicBool::new(false) }
    }

    pub(super) fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }
}

impl Deltas for DeltaTracker<'_> {
    fn push(&self, text: &str) {
        self.any.store(true, Ordering::Relaxed);
        self.deltas.push(text);
    }
}
