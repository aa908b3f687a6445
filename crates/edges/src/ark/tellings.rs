//! Entries as they were told, for queries that many read at the same time.
//!
//! The words for an entry follow from its journal alone, so the first reader's are good for all. What
//! is kept is little and recent: a reader that is behind makes its own.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use axum::body::Bytes;
use bosun_core::{QueryUid, Seq};

/// How much of what was told last is kept.
const KEPT_BYTES: usize = 1024 * 1024;
/// And of how many entries: they are searched one after another, from the newest.
const KEPT_TEXTS: usize = 64;

/// For all queries of the process: no two have the same uid.
pub(super) static TELLINGS: Tellings = Tellings::new();

#[derive(Debug)]
pub(super) struct Tellings {
    kept: Mutex<Kept>,
}

#[derive(Debug)]
struct Kept {
    /// The newest last.
    texts: VecDeque<((QueryUid, Seq), Bytes)>,
    bytes: usize,
}

impl Tellings {
    const fn new() -> Self {
        Self { kept: Mutex::new(Kept { texts: VecDeque::new(), bytes: 0 }) }
    }

    pub(super) fn find(&self, id: (QueryUid, Seq)) -> Option<Bytes> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.texts.iter().rev().find(|(of, _)| *of == id).map(|(_, text)| text.clone())
    }

    pub(super) fn keep(&self, id: (QueryUid, Seq), text: Bytes) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.bytes += text.len() + size_of::<((QueryUid, Seq), Bytes)>();
        kept.texts.push_back((id, text));
        while kept.bytes > KEPT_BYTES || kept.texts.len() > KEPT_TEXTS {
            let Some((_, oldest)) = kept.texts.pop_front() else { return };
            kept.bytes -= oldest.len() + size_of::<((QueryUid, Seq), Bytes)>();
        }
    }
}
