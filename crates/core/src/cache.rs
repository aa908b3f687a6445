//! A least-recently-used cache, bounded by the sum of the weights of its values.
//!
//! The weight is bytes wherever a client chooses how large a value is, since counting entries would bound nothing
//! there; values that are all of one size may weigh one each. The number of entries can be bounded in addition. The
//! cache has no lock of its own: callers that share one wrap it in theirs. Evicted values are returned, so that they
//! can be dropped outside of that lock.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, HashMap},
    hash::Hash,
};

/// An LRU cache with a maximum total weight.
#[derive(Debug)]
pub struct WeightedCache<K, V> {
    capacity: usize,
    max_entries: usize,
    weight: usize,
    /// Counts uses: a logical clock.
    now: u64,
    slots: HashMap<K, CacheSlot<V>>,
    by_use: BTreeMap<u64, K>,
}

#[derive(Debug)]
struct CacheSlot<V> {
    value: V,
    weight: usize,
    used: u64,
}

impl<K: Clone + Eq + Hash, V> WeightedCache<K, V> {
    /// A cache whose weights sum up to at most `capacity`.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { capacity, max_entries: usize::MAX, weight: 0, now: 0, slots: HashMap::new(), by_use: BTreeMap::new() }
    }

    /// The same, with at most `max_entries` values.
    #[must_use]
    pub fn with_max_entries(self, max_entries: usize) -> Self {
        Self { max_entries, ..self }
    }

    /// The value of `key`, which becomes the most recently used.
    pub fn get<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let slot = self.slots.get_mut(key)?;
        // The one that was used last need not be moved.
        if slot.used != self.now
            && let Some(key) = self.by_use.remove(&slot.used)
        {
            self.now += 1;
            slot.used = self.now;
            self.by_use.insert(self.now, key);
        }
        Some(&slot.value)
    }

    /// Inserts `value`, replacing an earlier one of its key and evicting the least recently used ones. Returns what was
    /// evicted; that may be `value` itself, if it is heavier than the capacity.
    #[must_use = "evicted values are dropped by the caller"]
    pub fn insert(&mut self, key: K, value: V, weight: usize) -> Vec<V> {
        let mut evicted: Vec<V> = self.remove(&key).into_iter().collect();
        if weight > self.capacity {
            evicted.push(value);
            return evicted;
        }
        self.now += 1;
        self.weight += weight;
        self.by_use.insert(self.now, key.clone());
        self.slots.insert(key, CacheSlot { value, weight, used: self.now });
        self.evict(&mut evicted);
        evicted
    }

    /// Updates the weight of the value of `key`, now that it is known.
    #[must_use = "evicted values are dropped by the caller"]
    pub fn weigh<Q: Eq + Hash + ?Sized>(&mut self, key: &Q, weight: usize) -> Vec<V>
    where
        K: Borrow<Q>,
    {
        let mut evicted = Vec::new();
        if weight > self.capacity {
            evicted.extend(self.remove(key));
        } else if let Some(slot) = self.slots.get_mut(key) {
            self.weight = self.weight - slot.weight + weight;
            slot.weight = weight;
            self.evict(&mut evicted);
        }
        evicted
    }

    pub fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let slot = self.slots.remove(key)?;
        self.by_use.remove(&slot.used);
        self.weight -= slot.weight;
        Some(slot.value)
    }

    /// Removes all values that match, and returns them.
    pub fn remove_where(&mut self, is_meant: impl Fn(&V) -> bool) -> Vec<V> {
        let slots = self.slots.iter().filter(|(_, slot)| is_meant(&slot.value));
        let keys: Vec<K> = slots.map(|(key, _)| key.clone()).collect();
        keys.iter().filter_map(|key| self.remove(key)).collect()
    }

    pub fn clear(&mut self) {
        self.weight = 0;
        self.slots.clear();
        self.by_use.clear();
    }

    /// All values, the least recently used first.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.by_use.values().filter_map(|key| self.slots.get(key)).map(|slot| &slot.value)
    }

    /// The sum of the weights.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.weight
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    fn evict(&mut self, evicted: &mut Vec<V>) {
        while self.weight > self.capacity || self.slots.len() > self.max_entries {
            let Some((_, key)) = self.by_use.pop_first() else { return };
            if let Some(slot) = self.slots.remove(&key) {
                self.weight -= slot.weight;
                evicted.push(slot.value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_is_evicted() {
        let mut cache = WeightedCache::new(10);
        for key in ["a", "b", "c"] {
            assert_eq!(cache.insert(key, key, 3), Vec::<&str>::new());
        }
        assert_eq!(cache.get("a"), Some(&"a"));
        assert_eq!(cache.insert("d", "d", 4), ["b"]);
        assert_eq!((cache.len(), cache.weight()), (3, 10));
        assert_eq!(cache.get("b"), None);
        assert_eq!(cache.get("c"), Some(&"c"));
    }

    #[test]
    fn the_number_of_entries_is_bounded_too() {
        let mut cache = WeightedCache::new(10).with_max_entries(2);
        assert_eq!(cache.insert("a", "a", 1), Vec::<&str>::new());
        assert_eq!(cache.insert("b", "b", 1), Vec::<&str>::new());
        assert_eq!(cache.insert("a", "a again", 1), ["a"], "not a third entry");
        assert_eq!(cache.insert("c", "c", 1), ["b"]);
        assert_eq!(cache.insert("d", "d", 10), ["a again", "c"], "the weight still counts");
        let mut none = WeightedCache::new(10).with_max_entries(0);
        assert_eq!(none.insert("a", "a", 1), ["a"]);
    }

    #[test]
    fn matching_values_are_removed_with_their_weight() {
        let mut cache = WeightedCache::new(10);
        for (key, weight) in [("a", 1), ("b", 2), ("c", 3)] {
            let _ = cache.insert(key, key, weight);
        }
        let mut removed = cache.remove_where(|value| *value != "b");
        removed.sort_unstable();
        assert_eq!((removed, cache.len(), cache.weight()), (vec!["a", "c"], 1, 2));
        assert!(cache.remove_where(|value| *value == "a").is_empty());
    }

    #[test]
    fn values_are_in_the_order_of_their_use() {
        let mut cache = WeightedCache::new(10);
        for key in ["a", "b", "c"] {
            let _ = cache.insert(key, key, 1);
        }
        let _ = cache.get("a");
        let _ = cache.weigh("b", 2);
        assert_eq!(cache.values().collect::<Vec<_>>(), [&"b", &"c", &"a"], "weighing is not a use");
    }

    #[test]
    fn the_sum_of_weights_never_exceeds_the_capacity() {
        let mut cache = WeightedCache::new(1_000);
        for number in 0..500_usize {
            let weight = number * 7 % 400;
            let _ = cache.insert(number % 50, number, weight);
            let _ = cache.weigh(&(number % 13), number * 11 % 1_100);
            let _ = cache.get(&(number % 7));
            assert!(cache.weight() <= 1_000);
            assert_eq!(cache.slots.len(), cache.by_use.len());
            assert_eq!(cache.weight(), cache.slots.values().map(|slot| slot.weight).sum::<usize>());
        }
    }

    #[test]
    fn a_value_heavier_than_the_cache_is_not_kept() {
        let mut cache = WeightedCache::new(10);
        let _ = cache.insert("a", 1, 10);
        assert_eq!(cache.insert("b", 2, 11), [2]);
        assert_eq!(cache.insert("a", 3, 5), [1], "the earlier value of its key");
        assert_eq!(cache.weigh("a", 11), [3]);
        assert!(cache.is_empty());
    }
}
