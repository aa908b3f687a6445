//! Counters, gauges and histograms that many threads update.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Upper bounds of the buckets of durations, in seconds.
pub const SECONDS: [f64; 13] = [0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0];
/// Upper bounds of the buckets of sizes.
pub const SIZES: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

/// A counter: only ever grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A gauge: goes up and down.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    pub fn add(&self, count: i64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts of streams are far below 2^52")]
    pub fn get(&self) -> f64 {
        self.0.load(Ordering::Relaxed) as f64
    }
}

/// A histogram. Its bounds are constants that are passed with each use.
#[derive(Debug)]
pub struct MetricHistogram<const BUCKETS: usize> {
    buckets: [AtomicU64; BUCKETS],
    above: AtomicU64,
    /// In millionths, so that a sum of seconds can be updated without a lock.
    millionths: AtomicU64,
}

impl<const BUCKETS: usize> Default for MetricHistogram<BUCKETS> {
    fn default() -> Self {
        Self {
            buckets: std::array::from_fn(|_| AtomicU64::new(0)),
            above: AtomicU64::new(0),
            millionths: AtomicU64::new(0),
        }
    }
}

impl<const BUCKETS: usize> MetricHistogram<BUCKETS> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "durations and sizes are not negative, and casts saturate"
    )]
    pub fn observe(&self, value: f64, bounds: &[f64; BUCKETS]) {
        let bucket = bounds.iter().position(|bound| value <= *bound).map_or(&self.above, |index| &self.buckets[index]);
        bucket.fetch_add(1, Ordering::Relaxed);
        self.millionths.fetch_add((value * 1e6) as u64, Ordering::Relaxed);
    }

    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a sum is shown to people")]
    pub fn counts(&self, bounds: &[f64; BUCKETS]) -> HistogramCounts {
        let mut sum = 0;
        let cumulative = |(bound, bucket): (&f64, &AtomicU64)| {
            sum += bucket.load(Ordering::Relaxed);
            (*bound, sum)
        };
        let buckets: Vec<_> = bounds.iter().zip(&self.buckets).map(cumulative).collect();
        let count = sum + self.above.load(Ordering::Relaxed);
        HistogramCounts { buckets, count, sum: self.millionths.load(Ordering::Relaxed) as f64 / 1e6 }
    }
}

/// A snapshot of a histogram.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistogramCounts {
    /// Upper bounds, and how many values do not exceed them.
    pub buckets: Vec<(f64, u64)>,
    pub count: u64,
    pub sum: f64,
}
