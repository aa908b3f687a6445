//! CPU time of short runs.
//!
//! The machine has other work, so wall-clock time says little. A batch is long enough for the clock to be exact; its
//! size is determined once, after a warm-up.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::cycle::median;

/// CPU time of this process so far.
pub(crate) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// A short run that is timed in batches.
pub(crate) struct Timed<F> {
    run: F,
    batch: u32,
}

/// A run that can be timed repeatedly.
pub(crate) trait Rounds {
    /// Nanoseconds of one run, by one batch.
    fn round(&mut self) -> f64;
}

impl<F: FnMut()> Rounds for Timed<F> {
    fn round(&mut self) -> f64 {
        self.spend().as_secs_f64() * 1e9 / f64::from(self.batch)
    }
}

impl<F: FnMut()> Timed<F> {
    /// Determines the batch size that takes `millis`, and warms up.
    pub(crate) fn new(millis: u64, run: F) -> Self {
        let mut timed = Self { run, batch: 1 };
        while timed.spend() < Duration::from_millis(millis) {
            timed.batch *= 2;
        }
        timed
    }

    fn spend(&mut self) -> Duration {
        let before = processor_time();
        for _ in 0..self.batch {
            (self.run)();
        }
        processor_time() - before
    }

    pub(crate) fn median_of(&mut self, rounds: usize) -> f64 {
        median(&mut (0..rounds).map(|_| self.round()).collect::<Vec<_>>())
    }
}

/// How far apart the rounds are, relative to their median.
pub(crate) fn spread(rounds: &[f64]) -> f64 {
    let most = rounds.iter().copied().fold(f64::MIN, f64::max);
    let least = rounds.iter().copied().fold(f64::MAX, f64::min);
    (most - least) / median(&mut rounds.to_vec())
}
