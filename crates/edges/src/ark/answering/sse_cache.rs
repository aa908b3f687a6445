//! A cache of journal entries serialized as server-sent events, for queries with several subscribers.
//!
//! The text of an entry follows from its journal alone, so what the first subscriber wrote is good for all. The
//! cache is small and evicts the oldest text first: a subscriber that is behind serializes its own.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use axum::body::Bytes;
use bosun_core::{QueryUid, Seq};

/// The most bytes that are cached.
const MAX_BYTES: usize = 1024 * 1024;
/// The most entries that are cached; they are searched one by one, from the newest.
const MAX_ENTRIES: usize = 64;

/// For all queries of the process: no two have the same uid.
pub(crate) static SSE_CACHE: SseCache = SseCache::new();

#[derive(Debug)]
pub(crate) struct SseCache {
    state: Mutex<CacheState>,
}

#[derive(Debug)]
struct CacheState {
    /// The newest last.
    texts: VecDeque<((QueryUid, Seq), Bytes)>,
    bytes: usize,
}

impl SseCache {
    const fn new() -> Self {
        Self { state: Mutex::new(CacheState { texts: VecDeque::new(), bytes: 0 }) }
    }

    pub(crate) fn get(&self, id: (QueryUid, Seq)) -> Option<Bytes> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.texts.iter().rev().find(|(of, _)| *of == id).map(|(_, text)| text.clone())
    }

    pub(crate) fn insert(&self, id: (QueryUid, Seq), text: Bytes) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.bytes += text.len() + size_of::<((QueryUid, Seq), Bytes)>();
        state.texts.push_back((id, text));
        while state.bytes > MAX_BYTES || state.texts.len() > MAX_ENTRIES {
            let Some((_, oldest)) = state.texts.pop_front() else { return };
            state.bytes -= oldest.len() + size_of::<((QueryUid, Seq), Bytes)>();
        }
    }
}
