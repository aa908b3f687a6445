//! Toolsets that were used lately, by content hash.
//!
//! Compiling schemas and deriving declarations is paid once for each toolset, not for each query.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
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
    oldest_first: VecDeque<ContentHash>,
}

impl Toolsets {
    pub(crate) fn get(&self, hash: ContentHash) -> Option<Arc<Toolset>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).by_hash.get(&hash).cloned()
    }

    /// Keeps `toolset`, unless one with the same content is known: that one has its schemas compiled.
    pub(crate) fn remember(&self, toolset: Arc<Toolset>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let hash = toolset.hash();
        if known.by_hash.contains_key(&hash) {
            return;
        }
        if known.oldest_first.len() >= KEPT
            && let Some(oldest) = known.oldest_first.pop_front()
        {
            known.by_hash.remove(&oldest);
        }
        known.by_hash.insert(hash, toolset);
        known.oldest_first.push_back(hash);
    }
}
