//! Cache of compiled schemas, by content hash.
//!
//! Compiling costs a hundred times as much as validating, and the same tools come with every request. A [`SchemaCache`]
//! compiles once per content, wherever the schema came from, and evicts the least recently used ones when the total is
//! too large. The cache is purely an optimisation.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use serde_json::Value;

use super::{Schema, SchemaError, SchemaRefusal};
use crate::{ContentHash, cache::WeightedCache, json};

/// The result of compiling a schema. Refusals are cached, too: finding all faults costs as much.
type Compiled = Result<Arc<Schema>, Arc<SchemaRefusal>>;
type SchemaSlot = Arc<OnceLock<Compiled>>;

/// The weight of an entry until its schema is compiled, and of a refusal in any case.
const SLOT_BYTES: usize = 1024;

/// A cache of compiled schemas, bounded by their memory.
#[derive(Debug)]
pub struct SchemaCache {
    slots: Mutex<WeightedCache<ContentHash, SchemaSlot>>,
}

impl SchemaCache {
    /// A cache of at most `capacity` bytes.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { slots: Mutex::new(WeightedCache::new(capacity)) }
    }

    /// The compiled schema, compiled by the first caller with this content.
    ///
    /// # Errors
    /// Why it is not a valid schema. Refusals are cached, too.
    pub fn compile(&self, source: &Arc<Value>) -> Result<Arc<Schema>, SchemaError> {
        self.compile_or_refuse(json::content_hash(source), source).map_err(|refusal| refusal.first())
    }

    /// The same for a source whose [`json::content_hash`] is known.
    ///
    /// # Errors
    /// With all faults.
    pub fn compile_or_refuse(&self, hash: ContentHash, source: &Arc<Value>) -> Compiled {
        let slot = self.slot(hash);
        let mut is_new = false;
        // Outside the lock: callers need not wait for the schemas of others.
        let compiled = slot.get_or_init(|| {
            is_new = true;
            Schema::compile_or_refuse(source).map(Arc::new).map_err(Arc::new)
        });
        if is_new {
            let weight = SLOT_BYTES
                + match compiled {
                    Ok(schema) => schema.weight(),
                    Err(refusal) => refusal.faults.iter().map(|fault| 256 + fault.path.len()).sum(),
                };
            let evicted = self.slots().weigh(&hash, weight);
            drop(evicted);
        }
        compiled.clone()
    }

    /// The cached result for the source with this hash.
    #[must_use]
    pub fn get(&self, hash: ContentHash) -> Option<Compiled> {
        self.slots().get(&hash).and_then(|slot| slot.get().cloned())
    }

    /// An estimate of the memory of all entries.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.slots().weight()
    }

    fn slot(&self, hash: ContentHash) -> SchemaSlot {
        let mut slots = self.slots();
        if let Some(slot) = slots.get(&hash) {
            return Arc::clone(slot);
        }
        let slot = SchemaSlot::default();
        let evicted = slots.insert(hash, Arc::clone(&slot), SLOT_BYTES);
        drop(slots);
        drop(evicted);
        slot
    }

    fn slots(&self) -> MutexGuard<'_, WeightedCache<ContentHash, SchemaSlot>> {
        // A panic elsewhere cannot have left the cache half changed.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_same_content_is_compiled_once() {
        let cache = SchemaCache::new(1 << 20);
        let one = cache.compile(&Arc::new(json!({"type": "object", "minProperties": 1}))).unwrap();
        let same = cache.compile(&Arc::new(json!({"minProperties": 1.0, "type": "object"}))).unwrap();
        let other = cache.compile(&Arc::new(json!({"type": "object", "minProperties": 2}))).unwrap();
        assert!(Arc::ptr_eq(&one, &same));
        assert!(!Arc::ptr_eq(&one, &other));
        assert!(cache.compile(&Arc::new(json!({"type": "nothing"}))).is_err());
    }

    #[test]
    fn the_least_recently_used_is_evicted() {
        let cache = SchemaCache::new(32 * 1024);
        let schema = |number: usize| Arc::new(json!({"maximum": number}));
        let first = cache.compile(&schema(0)).unwrap();
        for number in 1..100 {
            cache.compile(&schema(number)).unwrap();
            assert!(cache.weight() <= 32 * 1024);
            assert!(Arc::ptr_eq(&first, &cache.compile(&schema(0)).unwrap()), "most recently used");
        }
        assert!(cache.get(json::content_hash(&schema(1))).is_none());
        assert!(cache.get(json::content_hash(&schema(99))).is_some());
    }

    #[test]
    fn a_refusal_is_cached_with_all_of_its_faults() {
        let cache = SchemaCache::new(1 << 20);
        let source = Arc::new(json!({"properties": {"a": {"pattern": "[a"}, "b": {"$ref": "http://x"}}}));
        let hash = json::content_hash(&source);
        let first = cache.compile_or_refuse(hash, &source).unwrap_err();
        assert_eq!(first.faults.len(), 2, "{first:?}");
        assert!(Arc::ptr_eq(&first, &cache.compile_or_refuse(hash, &source).unwrap_err()));
        assert_eq!(cache.compile(&source).unwrap_err(), first.faults[0]);
    }

    /// The weight of what an attacker can make the cache hold is its real memory.
    #[test]
    fn patterns_weigh_what_they_take() {
        let cache = SchemaCache::new(16 << 20);
        for number in 0..100 {
            let source = json!({"properties": {"a": {"pattern": format!("z{number}[^b]{{300}}")}}});
            let schema = cache.compile(&Arc::new(source)).unwrap();
            assert!(schema.weight() > 300_000, "{}", schema.weight());
            assert!(cache.weight() <= 16 << 20);
        }
        assert!(cache.slots().len() < 60, "{}", cache.slots().len());
    }
}
