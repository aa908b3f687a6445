//! Limits of concurrent uploads: their number per call, and their total size per namespace.
//!
//! An upload occupies disk space before it is known whether it will ever complete. A [`DraftPermit`] is held for as
//! long as there is a draft: it counts against its call and, byte by byte, against its namespace, and releases both
//! when it is dropped, however the upload ends.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bosun_core::{
    CallId, Namespace,
    ceiling::{CALL_DRAFTS, NAMESPACE_DRAFT_BYTES},
};

use crate::EngineError;

/// The open drafts of this process.
#[derive(Debug, Default)]
pub(crate) struct UploadDrafts {
    counted: Mutex<Counted>,
}

#[derive(Debug, Default)]
struct Counted {
    of_call: HashMap<CallId, usize>,
    bytes_of: HashMap<Namespace, usize>,
}

/// The permit of one draft.
#[derive(Debug)]
pub(crate) struct DraftPermit {
    drafts: Arc<UploadDrafts>,
    call: CallId,
    namespace: Namespace,
    bytes: usize,
}

impl UploadDrafts {
    /// # Errors
    /// If the call has reached its limit of drafts.
    pub(crate) fn begin(self: &Arc<Self>, namespace: &Namespace, call: CallId) -> Result<DraftPermit, EngineError> {
        let mut counted = self.lock();
        let count = counted.of_call.entry(call).or_default();
        if *count >= CALL_DRAFTS {
            return Err(EngineError::TooManyUploads("other uploads for this call are under way"));
        }
        *count += 1;
        Ok(DraftPermit { drafts: Arc::clone(self), call, namespace: namespace.clone(), bytes: 0 })
    }

    fn lock(&self) -> MutexGuard<'_, Counted> {
        // Each count is updated in a single step, so a panic elsewhere cannot have left them inconsistent.
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DraftPermit {
    /// Counts `bytes` that are about to be written.
    ///
    /// # Errors
    /// If the drafts of the namespace would exceed their total size.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), EngineError> {
        let mut counted = self.drafts.lock();
        let sum = counted.bytes_of.entry(self.namespace.clone()).or_default();
        if *sum + bytes > NAMESPACE_DRAFT_BYTES {
            return Err(EngineError::TooManyUploads(
                "the uploads of this namespace that are under way exceed their total size limit",
            ));
        }
        *sum += bytes;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for DraftPermit {
    fn drop(&mut self) {
        let mut counted = self.drafts.lock();
        if let Some(count) = counted.of_call.get_mut(&self.call) {
            *count -= 1;
            if *count == 0 {
                counted.of_call.remove(&self.call);
            }
        }
        if let Some(sum) = counted.bytes_of.get_mut(&self.namespace) {
            *sum -= self.bytes;
            if *sum == 0 {
                counted.bytes_of.remove(&self.namespace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(number: u8) -> CallId {
        format!("call_{number:026}").parse().unwrap()
    }

    #[test]
    fn drafts_are_limited_per_call() {
        let drafts = Arc::new(UploadDrafts::default());
        let namespace = Namespace::default();
        let mut held: Vec<_> = (0..CALL_DRAFTS).map(|_| drafts.begin(&namespace, call(1)).unwrap()).collect();
        assert!(drafts.begin(&namespace, call(1)).is_err());
        let other = drafts.begin(&namespace, call(2)).unwrap();
        held.pop();
        held.push(drafts.begin(&namespace, call(1)).unwrap());
        drop((held, other));
        assert!(drafts.lock().of_call.is_empty(), "counts of finished uploads are removed");
    }

    #[test]
    fn the_total_size_of_drafts_is_limited_per_namespace() {
        let drafts = Arc::new(UploadDrafts::default());
        let namespace = Namespace::default();
        let (mut first, mut second) =
            (drafts.begin(&namespace, call(1)).unwrap(), drafts.begin(&namespace, call(2)).unwrap());
        first.grow(NAMESPACE_DRAFT_BYTES - 10).unwrap();
        second.grow(10).unwrap();
        assert!(second.grow(1).is_err() && first.grow(1).is_err());
        drafts.begin(&"other".parse().unwrap(), call(3)).unwrap().grow(NAMESPACE_DRAFT_BYTES).unwrap();
        drop(first);
        second.grow(NAMESPACE_DRAFT_BYTES - 10).unwrap();
        drop(second);
        assert!(drafts.lock().bytes_of.is_empty(), "counts of finished uploads are removed");
    }
}
