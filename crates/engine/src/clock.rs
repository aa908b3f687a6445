//! The engine's clock.

use std::{
    sync::LazyLock,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use bosun_core::Timestamp;

/// The engine's only source of time. Sleeping is tokio's part; tests pause that.
pub trait Clock: Send + Sync + 'static {
    /// The time of day, by the wall clock. Deadlines must survive a restart, so they use this one; it may step.
    fn now(&self) -> Timestamp;

    /// The time since some fixed moment in the past. It never steps: running time uses this one.
    fn monotonic(&self) -> Duration;
}

/// The clocks of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Timestamp(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
    }

    fn monotonic(&self) -> Duration {
        ORIGIN.elapsed()
    }
}
