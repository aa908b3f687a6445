//! A cache of journal entries serialized as server-sent events, for queries with several subscribers.
//!
//! The text of an entry depends on its journal and the edge alone, so the text that was made for the first subscriber
//! of an edge is valid for all others of that edge. The cache is small: a subscriber that is far behind serializes its
//! own.

use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;
use bosun_core::{QueryUid, Seq, cache::WeightedCache};

use crate::Edge;

/// The most bytes that are cached.
const MAX_BYTES: usize = 1024 * 1024;
/// The most entries that are cached.
const MAX_ENTRIES: usize = 64;

/// For all queries of the process: no two have the same uid.
pub(crate) static SSE_CACHE: LazyLock<SseCache> = LazyLock::new(SseCache::new);

#[derive(Debug)]
pub(crate) struct SseCache {
    texts: Mutex<SseTexts>,
}

/// Each edge has its own text for an entry.
pub(crate) type SseKey = (Edge, QueryUid, Seq);
type SseTexts = WeightedCache<SseKey, Bytes>;

impl SseCache {
    fn new() -> Self {
        Self { texts: Mutex::new(WeightedCache::new(MAX_BYTES).with_max_entries(MAX_ENTRIES)) }
    }

    pub(crate) fn get(&self, id: SseKey) -> Option<Bytes> {
        self.texts().get(&id).cloned()
    }

    pub(crate) fn insert(&self, id: SseKey, text: Bytes) {
        let weight = text.len() + size_of::<(SseKey, Bytes)>();
        let evicted = self.texts().insert(id, text, weight);
        drop(evicted);
    }

    fn texts(&self) -> MutexGuard<'_, SseTexts> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
