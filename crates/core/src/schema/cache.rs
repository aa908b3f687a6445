//! Compiled schemas, shared by everyone who has the same one.
//!
//! Compiling costs a hundred times what a check costs, and the same tools come with every request.
//! A [`SchemaCache`] compiles once per content, wherever the schema came from, and forgets what was
//! not used for longest. It is only a memory of answers: without it, everything works the same.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use serde_json::Value;

use super::{Schema, SchemaError, inspect};
use crate::{ContentHash, json};

type Compiled = Result<Arc<Schema>, SchemaError>;

/// A bounded memory of compiled schemas.
#[derive(Debug)]
pub struct SchemaCache {
    capacity: usize,
    slots: Mutex<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    by_hash: HashMap<ContentHash, Slot>,
    /// Counts uses; a clock that needs none.
    now: u64,
}

#[derive(Debug)]
struct Slot {
    compiled: Arc<OnceLock<Compiled>>,
    used: u64,
}

impl SchemaCache {
    /// A cache of at most `capacity` schemas.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), slots: Mutex::default() }
    }

    /// The compiled schema, made by the first who asks for this content.
    ///
    /// # Errors
    /// Why it is not a schema that is taken. Refusals are remembered, too.
    pub fn compile(&self, source: &Arc<Value>) -> Compiled {
        let slot = self.slot(json::content_hash(source));
        // Outside the lock: others need not wait for a schema that is not theirs.
        slot.get_or_init(|| Schema::compile(source).map(Arc::new)).clone()
    }

    /// [`super::faults`] of a schema, without a second look at one that has none.
    #[must_use]
    pub fn faults(&self, source: &Arc<Value>) -> Vec<SchemaError> {
        if inspect::measure(source).is_ok() && self.compile(source).is_ok() {
            Vec::new()
        } else {
            super::faults(source)
        }
    }

    fn slot(&self, hash: ContentHash) -> Arc<OnceLock<Compiled>> {
        // A panic elsewhere cannot have left the map half changed.
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.now += 1;
        let now = slots.now;
        if !slots.by_hash.contains_key(&hash) && slots.by_hash.len() >= self.capacity {
            slots.forget_oldest();
        }
        let slot = slots.by_hash.entry(hash).or_insert_with(|| Slot { compiled: Arc::default(), used: now });
        slot.used = now;
        Arc::clone(&slot.compiled)
    }
}

impl Slots {
    /// Forgets a quarter at once, so that the search for the oldest is rare.
    fn forget_oldest(&mut self) {
        let mut uses: Vec<u64> = self.by_hash.values().map(|slot| slot.used).collect();
        let quarter = uses.len() / 4;
        let (_, newest_to_go, _) = uses.select_nth_unstable(quarter);
        let newest_to_go = *newest_to_go;
        self.by_hash.retain(|_, slot| slot.used > newest_to_go);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_same_content_is_compiled_once() {
        let cache = SchemaCache::new(10);
        let one = cache.compile(&Arc::new(json!({"type": "object", "minProperties": 1}))).unwrap();
        let same = cache.compile(&Arc::new(json!({"minProperties": 1.0, "type": "object"}))).unwrap();
        let other = cache.compile(&Arc::new(json!({"type": "object", "minProperties": 2}))).unwrap();
        assert!(Arc::ptr_eq(&one, &same));
        assert!(!Arc::ptr_eq(&one, &other));
        assert!(cache.compile(&Arc::new(json!({"type": "nothing"}))).is_err());
    }

    #[test]
    fn what_was_not_used_for_longest_is_forgotten() {
        let cache = SchemaCache::new(8);
        let schema = |number: usize| Arc::new(json!({"maximum": number}));
        let first = cache.compile(&schema(0)).unwrap();
        for number in 1..100 {
            cache.compile(&schema(number)).unwrap();
            assert!(Arc::ptr_eq(&first, &cache.compile(&schema(0)).unwrap()), "in use all the time");
        }
        assert!(cache.slots.lock().unwrap().by_hash.len() <= 8);
    }
}
