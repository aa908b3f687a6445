//! A retry budget: an API that is down must not get three times as many requests.
//!
//! Each request earns a tenth of a retry, so retries stay below a tenth of the traffic; a small reserve, which is
//! refilled slowly, lets a quiet server retry at all. Counted in thousandths of a retry, so that sums are exact. There
//! is no clock here.

use std::time::Duration;

/// The cost of one retry.
const RETRY: u64 = 1_000;
/// What one request earns.
const EARNED: u64 = RETRY / 10;
/// The maximum of the budget.
const RESERVE: u64 = 10 * RETRY;
/// The refill per second: the reserve is full again after a minute.
const PER_SECOND: u64 = RESERVE / 60;

/// The budget of one address. Times are relative to an arbitrary origin of the caller.
#[derive(Debug)]
pub(super) struct Budget {
    balance: u64,
    /// The time up to which the budget has been refilled; whole seconds only, so that nothing is lost to rounding.
    paid: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self { balance: RESERVE, paid: 0 }
    }
}

impl Budget {
    pub(super) fn note_request(&mut self, now: Duration) {
        self.refill(now);
        self.earn(EARNED);
    }

    /// Spends one retry; false if the budget is exhausted.
    pub(super) fn spend(&mut self, now: Duration) -> bool {
        self.refill(now);
        let Some(rest) = self.balance.checked_sub(RETRY) else { return false };
        self.balance = rest;
        true
    }

    fn refill(&mut self, now: Duration) {
        let elapsed = now.as_secs().saturating_sub(self.paid);
        self.paid = self.paid.max(now.as_secs());
        self.earn(elapsed.saturating_mul(PER_SECOND));
    }

    fn earn(&mut self, amount: u64) {
        self.balance = self.balance.saturating_add(amount).min(RESERVE);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Just, Strategy, prop_assert, prop_oneof, proptest};

    use super::*;

    #[test]
    fn a_reserve_then_a_tenth_of_the_requests() {
        let (mut budget, now) = (Budget::default(), Duration::ZERO);
        assert_eq!((0..20).filter(|_| budget.spend(now)).count(), 10);
        for _ in 0..9 {
            budget.note_request(now);
            assert!(!budget.spend(now));
        }
        budget.note_request(now);
        assert!(budget.spend(now));
        assert!(!budget.spend(now));
    }

    #[test]
    fn the_reserve_is_refilled_up_to_its_maximum() {
        let mut budget = Budget::default();
        while budget.spend(Duration::ZERO) {}
        assert!(!budget.spend(Duration::from_secs(6)));
        assert!(budget.spend(Duration::from_secs(7)));
        let later = Duration::from_secs(3_600);
        assert_eq!((0..20).filter(|_| budget.spend(later)).count(), 10);
    }

    #[derive(Clone, Debug)]
    enum BudgetStep {
        Request,
        Retry,
        Wait(u64),
    }

    fn step() -> impl Strategy<Value = BudgetStep> {
        prop_oneof![5 => Just(BudgetStep::Request), 10 => Just(BudgetStep::Retry), 1 => (0..20_000_u64).prop_map(BudgetStep::Wait)]
    }

    proptest! {
        #[test]
        fn retries_never_exceed_their_share(steps in proptest::collection::vec(step(), 0..400)) {
            let (mut budget, mut now) = (Budget::default(), Duration::ZERO);
            let (mut requests, mut retries) = (0_u64, 0_u64);
            for step in steps {
                match step {
                    BudgetStep::Request => {
                        requests += 1;
                        budget.note_request(now);
                    }
                    BudgetStep::Retry => retries += u64::from(budget.spend(now)),
                    BudgetStep::Wait(millis) => now += Duration::from_millis(millis),
                }
                prop_assert!(retries * RETRY <= RESERVE + requests * EARNED + now.as_secs() * PER_SECOND);
            }
        }
    }
}
