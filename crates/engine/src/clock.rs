//! Where time comes from.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bosun_core::Timestamp;

/// The engine's only source of the time of day. Sleeping is tokio's part; tests pause that.
pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Timestamp;
}

/// The machine's wall clock: outside deadlines must survive a restart, so they cannot be monotonic.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Timestamp(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
    }
}
