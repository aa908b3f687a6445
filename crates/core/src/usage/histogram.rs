//! Latency histogram with buckets of exponential size.
//!
//! Up to 16 ms every millisecond has its bucket; beyond, each power of two has eight, so a quantile is never off by
//! more than a sixteenth. Bucket boundaries never change: histograms of different hours, and of different versions of
//! this program, can be added.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Buckets per power of two, as a power of two.
const PARTS: u32 = 3;
/// Below this, each value has a bucket of its own.
const EXACT: u64 = 2 << PARTS;

/// Counts by bucket; empty buckets take no memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Histogram(BTreeMap<u16, u64>);

fn bucket(value: u64) -> u16 {
    if value < EXACT {
        return u16::try_from(value).unwrap_or(u16::MAX);
    }
    let doubling = value.ilog2() - PARTS;
    // The leading one and the bits behind it.
    let part = (value >> doubling) & ((1 << PARTS) - 1);
    let index = u64::from(doubling - 1) * (1 << PARTS) + EXACT + part;
    u16::try_from(index).unwrap_or(u16::MAX)
}

/// The smallest and the largest value of a bucket.
fn bounds(bucket: u16) -> (u64, u64) {
    let bucket = u64::from(bucket);
    if bucket < EXACT {
        return (bucket, bucket);
    }
    let (doubling, part) = ((bucket - EXACT) >> PARTS, (bucket - EXACT) & ((1 << PARTS) - 1));
    let width = 1_u64 << (doubling + 1).min(60);
    let low = ((1 << PARTS) + part).saturating_mul(width);
    (low, low.saturating_add(width - 1))
}

impl Histogram {
    pub fn add(&mut self, value: u64) {
        *self.0.entry(bucket(value)).or_default() += 1;
    }

    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.values().sum()
    }

    /// The value at this quantile; the middle of its bucket.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rank is a share of a count that is far below 2^52"
    )]
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let count = self.count();
        let rank = ((share * count as f64).ceil() as u64).clamp(1, count.max(1));
        let mut seen = 0;
        self.0.iter().find_map(|(index, count)| {
            seen += count;
            let (low, high) = bounds(*index);
            (seen >= rank).then_some(low + (high - low) / 2)
        })
    }
}

impl std::ops::AddAssign<&Self> for Histogram {
    fn add_assign(&mut self, other: &Self) {
        for (bucket, count) in &other.0 {
            *self.0.entry(*bucket).or_default() += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, proptest};

    use super::*;

    #[test]
    fn buckets_follow_each_other_without_a_gap() {
        let mut next = 0;
        for index in 0..400 {
            let (low, high) = bounds(index);
            assert_eq!(low, next, "bucket {index}");
            assert!(high >= low);
            assert_eq!((bucket(low), bucket(high)), (index, index));
            next = high + 1;
        }
    }

    #[test]
    fn the_largest_value_has_a_bucket() {
        let mut histogram = Histogram::default();
        histogram.add(u64::MAX);
        assert!(histogram.quantile(1.0).is_some_and(|value| value > u64::MAX / 2));
        assert_eq!(Histogram::default().quantile(0.5), None);
    }

    proptest! {
        #[test]
        fn a_quantile_is_within_a_sixteenth(mut values in prop::collection::vec(0..10_000_000_u64, 1..200), share in 0.0..=1.0_f64) {
            let mut histogram = Histogram::default();
            values.iter().for_each(|value| histogram.add(*value));
            values.sort_unstable();
            let rank = ((share * values.len() as f64).ceil() as usize).clamp(1, values.len());
            let (exact, found) = (values[rank - 1], histogram.quantile(share).unwrap());
            assert!(exact.abs_diff(found) * 16 <= exact, "{exact} {found}");
        }

        #[test]
        fn histograms_add_up(values in prop::collection::vec((any::<u32>(), any::<bool>()), 0..100)) {
            let (mut all, mut left, mut right) = (Histogram::default(), Histogram::default(), Histogram::default());
            for (value, is_left) in values {
                all.add(value.into());
                if is_left { left.add(value.into()) } else { right.add(value.into()) }
            }
            left += &right;
            assert_eq!(left, all);
            let text = serde_json::to_string(&all).unwrap();
            assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), all);
        }
    }
}
