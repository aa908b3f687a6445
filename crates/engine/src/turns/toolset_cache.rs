//! A cache of recently used toolsets, by content hash.
//!
//! Deriving declarations and hashing is paid once for each toolset, not for each query. The least recently used is
//! evicted when the cache is too large, and read from the store again.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bosun_core::{ContentHash, cache::WeightedCache, ceiling::TOOLSET_CACHE_BYTES, tool::toolset::Toolset};

pub(crate) struct Toolsets {
    known: Mutex<CachedToolset>,
}

struct CachedToolset {
    by_hash: WeightedCache<ContentHash, Arc<Toolset>>,
    /// The same toolsets by content: finding an equal one costs less than hashing.
    by_content: HashSet<Arc<Toolset>>,
}

impl Default for Toolsets {
    fn default() -> Self {
        Self::new(TOOLSET_CACHE_BYTES)
    }
}

impl Toolsets {
    /// A cache of at most `capacity` bytes.
    fn new(capacity: usize) -> Self {
        let known = CachedToolset { by_hash: WeightedCache::new(capacity), by_content: HashSet::new() };
        Self { known: Mutex::new(known) }
    }

    pub(crate) fn get(&self, hash: ContentHash) -> Option<Arc<Toolset>> {
        self.known().by_hash.get(&hash).cloned()
    }

    /// The cached toolset with this content; otherwise this one, which is cached from now on.
    pub(crate) fn share(&self, toolset: Toolset) -> Arc<Toolset> {
        {
            let mut known = self.known();
            if let Some(found) = known.by_content.get(&toolset).cloned() {
                // Marks it as recently used.
                known.by_hash.get(&found.hash());
                return found;
            }
        }
        // Hashing, like dropping what is evicted, is expensive and therefore done outside the lock.
        let (hash, weight) = (toolset.hash(), toolset.weight());
        let (toolset, evicted) = self.known().keep(hash, Arc::new(toolset), weight);
        drop(evicted);
        toolset
    }

    fn known(&self) -> MutexGuard<'_, CachedToolset> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CachedToolset {
    /// The toolset that is cached under this hash now, and those that were evicted.
    fn keep(&mut self, hash: ContentHash, toolset: Arc<Toolset>, weight: usize) -> (Arc<Toolset>, Vec<Arc<Toolset>>) {
        // Not equal, but the same as JSON: `1` and `1.0`. Or another request was faster.
        if let Some(known) = self.by_hash.get(&hash) {
            return (Arc::clone(known), vec![toolset]);
        }
        self.by_content.insert(Arc::clone(&toolset));
        let evicted = self.by_hash.insert(hash, Arc::clone(&toolset), weight);
        for evicted in &evicted {
            self.by_content.remove(&**evicted);
        }
        (toolset, evicted)
    }
}

#[cfg(test)]
mod tests {
    use bosun_core::tool::{Binding, Tool, toolset::ToolSources};
    use serde_json::{Value, json};

    use super::*;

    fn toolset(name: &str, parameters: Value) -> Toolset {
        Toolset::merge(ToolSources::Client, Vec::new(), vec![Tool::new(name, "A tool", parameters, Binding::External)])
    }

    #[test]
    fn the_same_content_is_one_toolset() {
        let toolsets = Toolsets::default();
        let first = toolsets.share(toolset("a", json!({"type": "object", "maxProperties": 1})));
        for same in [json!({"type": "object", "maxProperties": 1}), json!({"maxProperties": 1.0, "type": "object"})] {
            assert!(Arc::ptr_eq(&first, &toolsets.share(toolset("a", same))));
        }
        assert!(!Arc::ptr_eq(&first, &toolsets.share(toolset("a", json!({"type": "object"})))));
        assert!(!Arc::ptr_eq(&first, &toolsets.share(toolset("b", json!({"type": "object", "maxProperties": 1})))));
        assert!(Arc::ptr_eq(&first, &toolsets.get(first.hash()).unwrap()));
    }

    #[test]
    fn the_least_recently_used_is_evicted() {
        const CAPACITY: usize = 256 * 1024;
        let toolsets = Toolsets::new(CAPACITY);
        let description = |number: usize| json!({"type": "object", "description": "x".repeat(1024), "title": number});
        let first = toolsets.share(toolset("first", description(0)));
        let second = toolsets.share(toolset("second", description(0)));
        for number in 0..500 {
            toolsets.share(toolset("tool", description(number)));
            assert!(Arc::ptr_eq(&first, &toolsets.share(toolset("first", description(0)))), "in use all the time");
            let known = toolsets.known();
            assert!(known.by_hash.weight() <= CAPACITY);
            assert_eq!(known.by_hash.len(), known.by_content.len());
        }
        assert!(toolsets.get(second.hash()).is_none());
        assert!((10..100).contains(&toolsets.known().by_hash.len()));
    }

    /// Many small properties take twenty times as much in memory as on the wire.
    #[test]
    fn a_toolset_weighs_its_size_in_memory_and_not_its_json() {
        let properties: serde_json::Map<_, _> = (0..1_000).map(|number| (number.to_string(), json!({}))).collect();
        let many = toolset("many", json!({"properties": properties}));
        assert!(many.weight() > 25 * many.to_document().len(), "{} of {}", many.weight(), many.to_document().len());
    }

    #[test]
    fn a_toolset_heavier_than_the_capacity_is_used_and_not_cached() {
        let toolsets = Toolsets::new(1_000);
        let large = toolsets.share(toolset("large", json!({"description": "x".repeat(1_000)})));
        assert!(toolsets.get(large.hash()).is_none());
        assert!(toolsets.known().by_content.is_empty());
    }
}
