//! How namespaces share the permits to run and the length of the queue.
//!
//! One rule for both: a namespace may hold at most a share of what the other namespaces leave free. So a single
//! tenant gets most of the server, something is always left for the next one, and tenants that all want more than
//! there is end up with equal parts. There is no preemption: a namespace that is over its share gets no new permit
//! until it is below it again.
//!
//! Pure bookkeeping: no lock, no store. Queue lengths are estimates that the caller corrects.

use std::collections::{BTreeMap, HashMap};

use bosun_core::Namespace;

/// The bounds of running and queued queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AdmissionLimits {
    /// Queries that run at the same time.
    pub(crate) max_running: usize,
    /// Queries that wait for a permit; beyond it new ones are refused.
    pub(crate) max_queued: usize,
    /// The percentage of the permits, and of the queue, that one namespace may use of what the other namespaces leave
    /// free.
    pub(crate) namespace_share: u8,
}

/// Fewer than this are not shared: the reserve for others would be too large a part of them.
const FEWEST_SHARED: usize = 4;

impl AdmissionLimits {
    /// Rounded down, so that something is left for others, but at least 1.
    fn share_of(&self, available: usize) -> usize {
        if available < FEWEST_SHARED {
            return available;
        }
        (available.saturating_mul(usize::from(self.namespace_share)) / 100).max(1)
    }
}

#[derive(Debug)]
pub(super) struct Shares {
    limits: AdmissionLimits,
    running: HashMap<Namespace, usize>,
    total_running: usize,
    /// Ordered by name, so that namespaces are served round-robin.
    queued: BTreeMap<Namespace, usize>,
    total_queued: usize,
}

impl Shares {
    pub(super) fn new(limits: AdmissionLimits) -> Self {
        Self { limits, running: HashMap::new(), total_running: 0, queued: BTreeMap::new(), total_queued: 0 }
    }

    pub(super) fn running(&self) -> usize {
        self.total_running
    }

    pub(super) fn queued(&self) -> usize {
        self.total_queued
    }

    pub(super) fn queued_of(&self, namespace: &Namespace) -> usize {
        self.queued.get(namespace).copied().unwrap_or(0)
    }

    fn running_of(&self, namespace: &Namespace) -> usize {
        self.running.get(namespace).copied().unwrap_or(0)
    }

    /// Whether one more query of the namespace may run.
    pub(super) fn may_run(&self, namespace: &Namespace) -> bool {
        let running = self.running_of(namespace);
        let others = self.total_running - running;
        let left = self.limits.max_running.saturating_sub(others);
        self.total_running < self.limits.max_running && running < self.limits.share_of(left)
    }

    /// Whether one more query of the namespace may be queued. The queue may exceed its bound, since results and expired
    /// calls are always accepted; what others have in it beyond the bound costs a namespace no more than its last
    /// reserve.
    pub(super) fn may_queue(&self, namespace: &Namespace) -> bool {
        let AdmissionLimits { max_queued, .. } = self.limits;
        let queued = self.queued_of(namespace);
        let left = max_queued.saturating_sub(self.total_queued - queued);
        let reserve = max_queued - self.limits.share_of(max_queued);
        queued < self.limits.share_of(left).max(reserve)
    }

    /// Whether a query that just got work may run without being queued: nothing in the queue has to go first.
    pub(super) fn may_run_at_once(&self, namespace: &Namespace) -> bool {
        self.may_run(namespace)
            && self.queued_of(namespace) == 0
            && !self.queued.keys().any(|waiting| self.may_run(waiting))
    }

    /// The namespace whose query runs next: of those that may have one more permit, the one with the fewest; ties are
    /// broken round-robin, after `last`.
    pub(super) fn next_of<'a>(
        &self,
        namespaces: impl Iterator<Item = &'a Namespace>,
        last: Option<&Namespace>,
    ) -> Option<&'a Namespace> {
        namespaces.filter(|namespace| self.may_run(namespace)).min_by_key(|namespace| {
            (self.running_of(namespace), last.is_some_and(|last| *namespace <= last), *namespace)
        })
    }

    /// Whether a namespace other than the `fetched` ones is estimated to have a query that may run now.
    pub(super) fn has_more_than(&self, fetched: impl Fn(&Namespace) -> bool) -> bool {
        self.queued.keys().any(|namespace| !fetched(namespace) && self.may_run(namespace))
    }

    pub(super) fn start(&mut self, namespace: &Namespace) {
        *self.running.entry(namespace.clone()).or_default() += 1;
        self.total_running += 1;
    }

    pub(super) fn stop(&mut self, namespace: &Namespace) {
        let Some(running) = self.running.get_mut(namespace) else { return };
        *running -= 1;
        self.total_running -= 1;
        if *running == 0 {
            self.running.remove(namespace);
        }
    }

    pub(super) fn enqueue(&mut self, namespace: &Namespace) {
        *self.queued.entry(namespace.clone()).or_default() += 1;
        self.total_queued += 1;
    }

    pub(super) fn dequeue(&mut self, namespace: &Namespace) {
        let queued = self.queued_of(namespace);
        self.set_queued(namespace, queued.saturating_sub(1));
    }

    /// Corrects the estimate of one namespace.
    pub(super) fn set_queued(&mut self, namespace: &Namespace, count: usize) {
        let before = match count {
            0 => self.queued.remove(namespace),
            count => self.queued.insert(namespace.clone(), count),
        };
        self.total_queued = self.total_queued - before.unwrap_or(0) + count;
    }

    /// Corrects all estimates: `with_work` has the number of queries with work of each namespace, including those that
    /// run.
    pub(super) fn recount(&mut self, with_work: &[(Namespace, usize)]) {
        self.queued.clear();
        self.total_queued = 0;
        for (namespace, count) in with_work {
            self.set_queued(namespace, count.saturating_sub(self.running_of(namespace)));
        }
    }

    /// The namespaces that are estimated to have something in the queue.
    pub(super) fn queued_namespaces(&self) -> Vec<Namespace> {
        self.queued.keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn namespace(name: &str) -> Namespace {
        name.parse().unwrap()
    }

    fn shares(max_running: usize, max_queued: usize, namespace_share: u8) -> Shares {
        Shares::new(AdmissionLimits { max_running, max_queued, namespace_share })
    }

    /// Starts queries of these namespaces in turn until none of them may start another.
    fn fill(shares: &mut Shares, names: &[&str]) {
        let names: Vec<_> = names.iter().map(|name| namespace(name)).collect();
        while let Some(next) = shares.next_of(names.iter(), None).cloned() {
            shares.start(&next);
        }
    }

    #[track_caller]
    fn check_running(max_running: usize, share: u8, steps: &[&[&str]], expect: &[(&str, usize)]) {
        let mut shares = shares(max_running, 10, share);
        steps.iter().for_each(|names| fill(&mut shares, names));
        let found: Vec<_> = expect.iter().map(|(name, _)| (*name, shares.running_of(&namespace(name)))).collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn a_single_namespace_leaves_a_reserve_for_the_next() {
        check_running(256, 90, &[&["a"]], &[("a", 230)]);
        check_running(256, 90, &[&["a"], &["b"]], &[("a", 230), ("b", 23)]);
        check_running(256, 90, &[&["a"], &["b"], &["c"]], &[("a", 230), ("b", 23), ("c", 3)]);
        check_running(256, 50, &[&["a"], &["b"]], &[("a", 128), ("b", 64)]);
    }

    #[test]
    fn concurrent_namespaces_get_equal_parts_and_never_more_than_half() {
        check_running(256, 90, &[&["a", "b"]], &[("a", 121), ("b", 121)]);
        check_running(256, 90, &[&["a", "b", "c"]], &[("a", 82), ("b", 82), ("c", 82)]);
    }

    #[test]
    fn fewer_than_four_permits_are_all_used_and_of_more_one_is_left() {
        check_running(1, 90, &[&["a"]], &[("a", 1)]);
        check_running(3, 90, &[&["a"]], &[("a", 3)]);
        check_running(4, 90, &[&["a"], &["b"]], &[("a", 3), ("b", 1)]);
        check_running(9, 90, &[&["a"]], &[("a", 8)]);
        check_running(8, 1, &[&["a"], &["b"]], &[("a", 1), ("b", 1)]);
        check_running(256, 100, &[&["a"]], &[("a", 256)]);
    }

    #[test]
    fn a_namespace_over_its_share_gets_none_until_it_is_below() {
        let mut shares = shares(100, 10, 90);
        fill(&mut shares, &["a"]);
        fill(&mut shares, &["b"]);
        assert_eq!((shares.running_of(&namespace("a")), shares.running_of(&namespace("b"))), (90, 9));
        (0..5).for_each(|_| shares.stop(&namespace("a")));
        assert!(!shares.may_run(&namespace("a")) && shares.may_run(&namespace("b")));
        (0..40).for_each(|_| shares.stop(&namespace("a")));
        assert!(shares.may_run(&namespace("a")));
    }

    #[test]
    fn a_full_queue_of_one_namespace_does_not_refuse_another() {
        let mut shares = shares(1, 10, 90);
        let (hostile, polite) = (namespace("hostile"), namespace("polite"));
        let mut taken = 0;
        while shares.may_queue(&hostile) {
            shares.enqueue(&hostile);
            taken += 1;
        }
        assert_eq!(taken, 9);
        assert!(shares.may_queue(&polite));
        // Results are always accepted, so the queue may be far over its bound.
        (0..100).for_each(|_| shares.enqueue(&hostile));
        assert!(shares.may_queue(&polite) && !shares.may_queue(&hostile));
        shares.enqueue(&polite);
        assert!(!shares.may_queue(&polite), "a tenth of the queue is its reserve");
    }

    #[test]
    fn queued_queries_that_may_run_go_first() {
        let mut shares = shares(2, 10, 100);
        let (a, b) = (namespace("a"), namespace("b"));
        assert!(shares.may_run_at_once(&a));
        shares.enqueue(&b);
        assert!(!shares.may_run_at_once(&a) && !shares.may_run_at_once(&b));
        shares.dequeue(&b);
        assert!(shares.may_run_at_once(&a));
    }

    #[test]
    fn a_queue_that_may_not_run_blocks_no_other_namespace() {
        let mut shares = shares(20, 10, 50);
        fill(&mut shares, &["hostile"]);
        shares.enqueue(&namespace("hostile"));
        assert!(shares.may_run_at_once(&namespace("polite")));
    }

    proptest! {
        #[test]
        fn counts_match_those_of_a_list(steps in vec((0..3_usize, 0..5_u8), 0..200), share in 1..=100_u8) {
            let names = ["a", "b", "c"].map(namespace);
            let mut shares = shares(16, 20, share);
            let (mut running, mut queued) = ([0_usize; 3], [0_usize; 3]);
            for (index, step) in steps {
                let name = &names[index];
                match step {
                    0 if shares.may_run(name) => { shares.start(name); running[index] += 1; }
                    1 if running[index] > 0 => { shares.stop(name); running[index] -= 1; }
                    2 => { shares.enqueue(name); queued[index] += 1; }
                    3 => { shares.dequeue(name); queued[index] = queued[index].saturating_sub(1); }
                    4 => { shares.set_queued(name, 7); queued[index] = 7; }
                    _ => {}
                }
                prop_assert_eq!(shares.running(), running.iter().sum::<usize>());
                prop_assert_eq!(shares.queued(), queued.iter().sum::<usize>());
                prop_assert!(shares.running() <= 16);
                for (name, count) in names.iter().zip(queued) {
                    prop_assert_eq!(shares.queued_of(name), count);
                }
            }
        }

        #[test]
        fn a_free_permit_can_always_be_used(held in vec(0..16_usize, 3), share in 1..=100_u8) {
            let names = ["a", "b", "c"].map(namespace);
            let mut shares = shares(16, 20, share);
            for (name, count) in names.iter().zip(held) {
                for _ in 0..count {
                    if shares.may_run(name) { shares.start(name); }
                }
            }
            let newcomer = namespace("newcomer");
            prop_assert!(shares.running() == 16 || shares.may_run(&newcomer));
        }
    }
}
