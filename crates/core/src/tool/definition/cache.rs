//! A cache of validated tool lists, by their JSON text.
//!
//! A client that brings tools sends the same list with every request. A hit costs a small part of validating the list,
//! and its tools share the parameters that other queries hold already. Invalid lists are not cached: the client will
//! fix them. The cache is purely an optimisation.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::{DefinitionFaults, Rules, check_all};
use crate::{cache::WeightedCache, ceiling::DEFINITION_CACHE_BYTES, json, schema::SchemaCache, tool::Tool};

/// A longer list is never cached: a few of them would evict all others.
const LONGEST: usize = DEFINITION_CACHE_BYTES / 128;

/// The key is the text itself, so that every client gets its tools back in the order in which it wrote them.
type CachedDefinition = WeightedCache<Arc<str>, Vec<Tool>>;

/// Validates lists of definitions, each once.
#[derive(Debug)]
pub struct DefinitionCache {
    rules: Rules,
    schemas: Arc<SchemaCache>,
    known: Mutex<CachedDefinition>,
}

impl DefinitionCache {
    /// A cache of lists that are valid under `rules`. Schemas are compiled in `schemas`, so that tools are ready to be
    /// called.
    #[must_use]
    pub fn new(rules: Rules, schemas: Arc<SchemaCache>) -> Self {
        Self { rules, schemas, known: Mutex::new(WeightedCache::new(DEFINITION_CACHE_BYTES)) }
    }

    /// [`super::check`], unless an equal list was checked before.
    ///
    /// # Errors
    /// As [`super::check`].
    pub fn check(&self, definitions: &Value) -> Result<Vec<Tool>, DefinitionFaults> {
        let text = json::compact(definitions);
        if text.len() > LONGEST {
            return check_all(definitions, self.rules, Some(&self.schemas));
        }
        if let Some(tools) = self.known().get(text.as_str()) {
            return Ok(tools.clone());
        }
        // Outside the lock, like dropping evicted values: these are the expensive parts.
        let tools = check_all(definitions, self.rules, Some(&self.schemas))?;
        let weight = text.len() + json::memory_of(&text);
        let evicted = self.known().insert(text.into(), tools.clone(), weight);
        drop(evicted);
        Ok(tools)
    }

    fn known(&self) -> MutexGuard<'_, CachedDefinition> {
        // A panic elsewhere cannot have left the cache half changed.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cache() -> DefinitionCache {
        DefinitionCache::new(Rules::Open, Arc::new(SchemaCache::new(1 << 20)))
    }

    fn list(name: &str, description: &str) -> Value {
        json!([{"name": name, "description": description, "parameters": {"type": "object", "properties": {}}}])
    }

    #[test]
    fn an_equal_list_is_checked_once() {
        let cache = cache();
        let (first, again) = (cache.check(&list("a", "A tool")).unwrap(), cache.check(&list("a", "A tool")).unwrap());
        assert_eq!(first, again);
        assert!(Arc::ptr_eq(&first[0].parameters, &again[0].parameters), "the cached tools are returned");
        let other = cache.check(&list("a", "Another tool")).unwrap();
        assert_eq!(other[0].description, "Another tool");
    }

    #[test]
    fn every_client_gets_the_order_in_which_it_wrote() {
        let cache = cache();
        for keys in [["x", "y"], ["y", "x"]] {
            let properties: serde_json::Map<_, _> = keys.iter().map(|key| ((*key).into(), json!({}))).collect();
            let tools = cache.check(&json!([{"name": "a", "parameters": {"properties": properties}}])).unwrap();
            let kept: Vec<_> = tools[0].parameters["properties"].as_object().unwrap().keys().collect();
            assert_eq!(kept, keys);
        }
    }

    #[test]
    fn an_invalid_list_is_not_cached_and_has_the_same_faults_again() {
        let cache = cache();
        let faults = cache.check(&list("", "")).unwrap_err();
        assert_eq!(cache.check(&list("", "")).unwrap_err(), faults);
        assert!(cache.known().is_empty());
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let cache = cache();
        cache.check(&list("long", &"x".repeat(LONGEST))).unwrap_err();
        let tool = |number: usize| json!({"name": format!("tool-{number}"), "description": "x".repeat(16 * 1024)});
        let long: Vec<_> = (0..LONGEST / (16 * 1024)).map(tool).collect();
        cache.check(&Value::Array(long)).unwrap();
        assert!(cache.known().is_empty(), "too long to be cached");
        for number in 0..3_000 {
            cache.check(&json!([tool(number)])).unwrap();
            assert!(cache.known().weight() <= DEFINITION_CACHE_BYTES);
        }
        assert!((100..3_000).contains(&cache.known().len()), "the oldest were evicted");
    }
}
