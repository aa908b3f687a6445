//! Steps of the wall clock, detected by comparison with the monotonic clock.
//!
//! A machine that boots with a wrong clock, an operator, or NTP may set the wall clock; a suspended machine wakes up
//! with a later one. What is overdue after a step need not be: [`ClockSteps`] suspends deletion and expiry until the
//! wall clock has been steady for a while, so that a temporarily wrong clock destroys nothing. A step while no process
//! ran cannot be distinguished from downtime.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use bosun_core::Timestamp;

use crate::Clock;

/// How far the clocks may drift apart before it counts as a step: they are not read at the same instant, and NTP slews.
const TOLERANCE: Duration = Duration::from_secs(60);

/// Nothing is deleted for this long after a step. NTP polls its servers every 17 minutes at the latest, so a wrong
/// clock has been corrected by then.
pub(crate) const DELETES_AFTER: Duration = Duration::from_secs(60 * 60);

/// No deadline passes for this long after a step: results may still arrive, and being late is harmless.
pub(crate) const EXPIRES_AFTER: Duration = Duration::from_secs(10);

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockReading {
    pub(crate) wall: Timestamp,
    pub(crate) monotonic: Duration,
}

impl ClockReading {
    pub(crate) fn of(clock: &dyn Clock) -> Self {
        Self { wall: clock.now(), monotonic: clock.monotonic() }
    }

    /// By how many milliseconds the wall clock has stepped since `earlier`; ahead is positive.
    pub(crate) fn stepped_since(self, earlier: Self) -> i64 {
        let wall = self.wall.0.saturating_sub(earlier.wall.0);
        wall.saturating_sub(millis(self.monotonic)).saturating_add(millis(earlier.monotonic))
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Detects steps in a sequence of readings.
#[derive(Debug, Default)]
struct Detector {
    /// The first reading since the last step, so that many small steps add up to a large one.
    reference: Option<ClockReading>,
    /// When the last step was detected, by the monotonic clock.
    stepped_at: Option<Duration>,
}

impl Detector {
    /// Records a reading; returns by how many milliseconds the wall clock has stepped, if it has.
    fn observe(&mut self, reading: ClockReading) -> Option<i64> {
        let stepped = reading.stepped_since(*self.reference.get_or_insert(reading));
        if stepped.abs() <= millis(TOLERANCE) {
            return None;
        }
        self.reference = Some(reading);
        self.stepped_at = Some(reading.monotonic);
        Some(stepped)
    }

    /// Whether no step was detected for as long as `period` before a reading.
    fn is_steady(&self, reading: ClockReading, period: Duration) -> bool {
        self.stepped_at.is_none_or(|at| reading.monotonic.saturating_sub(at) >= period)
    }
}

/// Guards operations that must not follow a wall clock that has just stepped.
#[derive(Debug, Default)]
pub(crate) struct ClockSteps(Mutex<Detector>);

impl ClockSteps {
    /// The time of day, if the wall clock has been steady for as long as `period`. The returned time is the one that
    /// was judged: the caller must not read the clock again.
    pub(crate) fn steady_now(&self, clock: &dyn Clock, period: Duration) -> Option<Timestamp> {
        let mut detector = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let reading = ClockReading::of(clock);
        if let Some(by_ms) = detector.observe(reading) {
            tracing::warn!(
                by_seconds = by_ms / 1_000,
                "the wall clock stepped; once it is steady, deadlines resume in {} s and deletion resumes in {} s",
                EXPIRES_AFTER.as_secs(),
                DELETES_AFTER.as_secs()
            );
        }
        detector.is_steady(reading, period).then_some(reading.wall)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Observes these seconds of both clocks, in turn, and checks at which of them the wall clock counts as steady for
    /// ten seconds.
    #[track_caller]
    fn check(readings: &[(i64, u64)], expect: &[bool]) {
        let mut detector = Detector::default();
        let steady = readings.iter().map(|(wall, monotonic)| {
            let reading = ClockReading { wall: Timestamp(wall * 1_000), monotonic: Duration::from_secs(*monotonic) };
            detector.observe(reading);
            detector.is_steady(reading, Duration::from_secs(10))
        });
        assert_eq!(steady.collect::<Vec<_>>(), expect, "{readings:?}");
    }

    #[test]
    fn a_clock_without_steps_is_steady() {
        check(&[(1_000, 0), (1_001, 1), (1_061, 61), (9_000, 8_000)], &[true; 4]);
    }

    #[test]
    fn a_difference_of_up_to_a_minute_is_not_a_step() {
        check(&[(1_000, 0), (1_061, 1), (1_002, 2), (1_003, 63)], &[true; 4]);
    }

    #[test]
    fn a_step_suspends_work_until_the_clock_is_steady_again() {
        for step in [61, 31 * 24 * 3_600, -61, -3_600] {
            let readings = [(1_000, 0), (1_001 + step, 1), (1_010 + step, 10), (1_011 + step, 11)];
            check(&readings, &[true, false, false, true]);
        }
    }

    #[test]
    fn a_step_back_is_a_step_of_its_own() {
        check(&[(1_000, 0), (9_001, 1), (1_004, 4), (1_012, 12), (1_014, 14)], &[true, false, false, false, true]);
    }

    #[test]
    fn many_small_steps_are_found_like_a_large_one() {
        check(&[(1_000, 0), (1_032, 1), (1_064, 2), (1_075, 13)], &[true, true, false, true]);
    }

    #[test]
    fn readings_far_apart_show_no_step() {
        check(&[(1_000, 0), (1_000_000, 999_000)], &[true, true]);
    }
}
