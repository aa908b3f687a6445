//! A circuit breaker: requests to an API that fails repeatedly are suspended for a while.
//!
//! ```text
//!            5 failures in a row                time is up
//!   Closed ──────────────────────▶ Open ───────────────────────▶ HalfOpen
//!     ▲                             ▲                               │  │
//!     │                             └──── the probe failed, ────────┘  │
//!     └────────────────────────────────── twice as long     succeeded ─┘
//! ```
//! Half open, one request is sent as a probe and all others are still refused. A probe that ends without a
//! verdict (its query was cancelled, for example) allows another one. There is no clock here.

use std::time::Duration;

/// The number of consecutive failures that opens the breaker.
const FAILURES: u32 = 5;
/// How long it is open the first time.
const FIRST_REST: Duration = Duration::from_secs(5);
/// The time doubles with each probe that fails, up to this.
const LONGEST_REST: Duration = Duration::from_secs(60);

/// What a request has shown about the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BreakerVerdict {
    /// It answered, even if it refused the request.
    Alive,
    /// It could not be reached, failed with a server error, or broke off.
    Failing,
    /// Nothing.
    Unknown,
}

/// Permission to send one request; to be returned with a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BreakerPermit {
    Normal,
    Probe,
}

/// The breaker is open: no requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenCircuit {
    pub(crate) failures: u32,
    pub(crate) remaining: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BreakerState {
    Closed,
    Open { until: Duration },
    HalfOpen { probing: bool },
}

/// The state of one address. Times are relative to an arbitrary origin of the caller.
#[derive(Debug)]
pub(super) struct Breaker {
    state: BreakerState,
    /// Consecutive failures, over all states.
    failures: u32,
    rest: Duration,
}

impl Default for Breaker {
    fn default() -> Self {
        Self { state: BreakerState::Closed, failures: 0, rest: FIRST_REST }
    }
}

impl Breaker {
    /// # Errors
    /// If the breaker is open, with the remaining time.
    pub(super) fn admit(&mut self, now: Duration) -> Result<BreakerPermit, OpenCircuit> {
        match self.state {
            BreakerState::Closed => Ok(BreakerPermit::Normal),
            BreakerState::Open { until } if now < until => {
                Err(OpenCircuit { failures: self.failures, remaining: until.saturating_sub(now) })
            }
            BreakerState::Open { .. } | BreakerState::HalfOpen { probing: false } => {
                self.state = BreakerState::HalfOpen { probing: true };
                Ok(BreakerPermit::Probe)
            }
            BreakerState::HalfOpen { probing: true } => {
                Err(OpenCircuit { failures: self.failures, remaining: FIRST_REST })
            }
        }
    }

    /// Returns a permit with its verdict. `Some` if the breaker opens.
    pub(super) fn record(
        &mut self,
        permit: BreakerPermit,
        verdict: BreakerVerdict,
        now: Duration,
    ) -> Option<OpenCircuit> {
        match (permit, verdict) {
            (BreakerPermit::Normal, BreakerVerdict::Unknown) => None,
            (BreakerPermit::Probe, BreakerVerdict::Unknown) => {
                self.state = BreakerState::HalfOpen { probing: false };
                None
            }
            (BreakerPermit::Normal, BreakerVerdict::Alive) => {
                // A request that was sent before the failures says nothing about the time after them.
                if self.state == BreakerState::Closed {
                    self.failures = 0;
                }
                None
            }
            (BreakerPermit::Probe, BreakerVerdict::Alive) => {
                *self = Self::default();
                None
            }
            (BreakerPermit::Normal, BreakerVerdict::Failing) => {
                self.failures = self.failures.saturating_add(1);
                (self.state == BreakerState::Closed && self.failures >= FAILURES).then(|| self.open(now))
            }
            (BreakerPermit::Probe, BreakerVerdict::Failing) => {
                self.failures = self.failures.saturating_add(1);
                self.rest = self.rest.saturating_mul(2).min(LONGEST_REST);
                Some(self.open(now))
            }
        }
    }

    fn open(&mut self, now: Duration) -> OpenCircuit {
        self.state = BreakerState::Open { until: now.saturating_add(self.rest) };
        OpenCircuit { failures: self.failures, remaining: self.rest }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Just, Strategy, any, prop_assert, prop_oneof, proptest};

    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn fail(breaker: &mut Breaker, times: u32, now: u64) {
        for _ in 0..times {
            let permit = breaker.admit(seconds(now)).unwrap();
            breaker.record(permit, BreakerVerdict::Failing, seconds(now));
        }
    }

    #[test]
    fn five_failures_in_a_row_open_it_and_four_do_not() {
        let mut breaker = Breaker::default();
        fail(&mut breaker, 4, 0);
        let permit = breaker.admit(seconds(0)).unwrap();
        breaker.record(permit, BreakerVerdict::Alive, seconds(0));
        fail(&mut breaker, 4, 0);
        assert_eq!(breaker.admit(seconds(0)), Ok(BreakerPermit::Normal));
        fail(&mut breaker, 1, 0);
        assert_eq!(breaker.admit(seconds(2)), Err(OpenCircuit { failures: 5, remaining: seconds(3) }));
    }

    #[test]
    fn one_probe_at_a_time_decides() {
        let mut breaker = Breaker::default();
        fail(&mut breaker, 5, 0);
        assert_eq!(breaker.admit(seconds(5)), Ok(BreakerPermit::Probe));
        assert!(breaker.admit(seconds(5)).is_err(), "another probe");
        // It has shown nothing: another probe is allowed.
        breaker.record(BreakerPermit::Probe, BreakerVerdict::Unknown, seconds(5));
        assert_eq!(breaker.admit(seconds(5)), Ok(BreakerPermit::Probe));
        assert_eq!(
            breaker.record(BreakerPermit::Probe, BreakerVerdict::Failing, seconds(6)),
            Some(OpenCircuit { failures: 6, remaining: seconds(10) })
        );
        assert!(breaker.admit(seconds(15)).is_err());
        assert_eq!(breaker.admit(seconds(16)), Ok(BreakerPermit::Probe));
        breaker.record(BreakerPermit::Probe, BreakerVerdict::Alive, seconds(16));
        assert_eq!(breaker.admit(seconds(16)), Ok(BreakerPermit::Normal));
        fail(&mut breaker, 5, 20);
        assert_eq!(
            breaker.admit(seconds(20)),
            Err(OpenCircuit { failures: 5, remaining: FIRST_REST }),
            "the initial time"
        );
    }

    #[test]
    fn a_late_answer_does_not_change_an_open_breaker() {
        let mut breaker = Breaker::default();
        let late = breaker.admit(seconds(0)).unwrap();
        fail(&mut breaker, 5, 0);
        breaker.record(late, BreakerVerdict::Alive, seconds(1));
        assert!(breaker.admit(seconds(1)).is_err(), "an old answer does not close it");
        breaker.record(BreakerPermit::Normal, BreakerVerdict::Failing, seconds(4));
        assert_eq!(breaker.admit(seconds(5)), Ok(BreakerPermit::Probe), "an old failure does not prolong it");
    }

    #[derive(Clone, Debug)]
    enum BreakerStep {
        Ask,
        End(usize, BreakerVerdict),
        Wait(u64),
    }

    fn step() -> impl Strategy<Value = BreakerStep> {
        let verdict =
            prop_oneof![Just(BreakerVerdict::Alive), Just(BreakerVerdict::Failing), Just(BreakerVerdict::Unknown)];
        prop_oneof![
            4 => Just(BreakerStep::Ask),
            4 => (any::<usize>(), verdict).prop_map(|(which, verdict)| BreakerStep::End(which, verdict)),
            1 => (0..30_u64).prop_map(BreakerStep::Wait),
        ]
    }

    proptest! {
        /// In any order of events: never two probes at once, no request while the breaker is open, never open longer
        /// than the maximum, never opened without five failures; and an API that answers is in use again after the
        /// longest time.
        #[test]
        fn it_is_never_stuck_and_allows_one_probe_at_a_time(steps in proptest::collection::vec(step(), 0..200)) {
            let mut breaker = Breaker::default();
            let (mut now, mut out, mut failing) = (Duration::ZERO, Vec::new(), 0_u32);
            for step in steps {
                match step {
                    BreakerStep::Wait(time) => now += seconds(time),
                    BreakerStep::Ask => match breaker.admit(now) {
                        Ok(permit) => {
                            prop_assert!(permit == BreakerPermit::Normal || !out.contains(&BreakerPermit::Probe));
                            out.push(permit);
                        }
                        Err(open) => {
                            prop_assert!(failing >= FAILURES);
                            prop_assert!(open.remaining <= LONGEST_REST && open.remaining > Duration::ZERO);
                        }
                    },
                    BreakerStep::End(which, verdict) if !out.is_empty() => {
                        let permit = out.remove(which % out.len());
                        failing += u32::from(verdict == BreakerVerdict::Failing);
                        let opened = breaker.record(permit, verdict, now);
                        prop_assert!(opened.is_none() || breaker.admit(now).is_err());
                    }
                    BreakerStep::End(..) => {}
                }
            }
            for permit in out {
                breaker.record(permit, BreakerVerdict::Unknown, now);
            }
            now += LONGEST_REST;
            let permit = breaker.admit(now);
            prop_assert!(permit.is_ok());
            breaker.record(permit.unwrap(), BreakerVerdict::Alive, now);
            prop_assert!(breaker.admit(now) == Ok(BreakerPermit::Normal));
        }
    }
}
