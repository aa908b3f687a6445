//! Toolsets that were used lately, by content hash.
//!
//! Compiling schemas, deriving declarations and hashing is paid once for each toolset, not for each query.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bosun_core::{ContentHash, tool::toolset::Toolset};

/// How many toolsets are kept; older ones are read from the store again.
const KEPT: usize = 1024;

#[derive(Default)]
pub(crate) struct Toolsets {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    by_hash: HashMap<ContentHash, Arc<Toolset>>,
    /// The same ones: to find an equal one costs less than to hash the one that is at hand.
    by_content: HashSet<Arc<Toolset>>,
    oldest_first: VecDeque<ContentHash>,
}

impl Toolsets {
    pub(crate) fn get(&self, hash: ContentHash) -> Option<Arc<Toolset>> {
        self.known().by_hash.get(&hash).cloned()
    }

    /// The toolset with this content that is known already, and has its schemas compiled; else this one,
    /// which is known from now on.
    pub(crate) fn share(&self, toolset: Toolset) -> Arc<Toolset> {
        if let Some(known) = self.known().by_content.get(&toolset) {
            return Arc::clone(known);
        }
        // Outside the lock: this is the expensive part.
        let hash = toolset.hash();
        self.known().keep(hash, Arc::new(toolset))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn keep(&mut self, hash: ContentHash, toolset: Arc<Toolset>) -> Arc<Toolset> {
        // Not equal, but the same as JSON: `1` and `1.0`. Or somebody was faster.
        if let Some(known) = self.by_hash.get(&hash) {
            return Arc::clone(known);
        }
        if self.oldest_first.len() >= KEPT
            && let Some(oldest) = self.oldest_first.pop_front().and_then(|hash| self.by_hash.remove(&hash))
        {
            self.by_content.remove(&*oldest);
        }
        self.oldest_first.push_back(hash);
        self.by_hash.insert(hash, Arc::clone(&toolset));
        self.by_content.insert(Arc::clone(&toolset));
        toolset
    }
}

#[cfg(test)]
mod tests {
    use bosun_core::tool::{Binding, Tool, toolset::Mode};
    use serde_json::{Value, json};

    use super::*;

    fn toolset(name: &str, parameters: Value) -> Toolset {
        Toolset::merge(Mode::N8n, Vec::new(), vec![Tool::new(name, "A tool", parameters, Binding::External)])
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
    fn the_oldest_is_forgotten() {
        let toolsets = Toolsets::default();
        let first = toolsets.share(toolset("first", json!({})));
        for number in 0..KEPT {
            toolsets.share(toolset(&format!("tool-{number}"), json!({})));
        }
        assert!(toolsets.get(first.hash()).is_none());
        let known = toolsets.known();
        assert_eq!((known.by_hash.len(), known.by_content.len(), known.oldest_first.len()), (KEPT, KEPT, KEPT));
    }
}
