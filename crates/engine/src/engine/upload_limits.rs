//! How many results may be on their way in at a time, and how large they may be together.
//!
//! An upload that has begun takes a place on the disk before anybody knows whether it will ever end. A [`DraftPermit`] is
//! held for as long as there is a draft: it counts against its call and, byte by byte, against its namespace, and gives
//! both back when it is dropped, however the upload ends.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bosun_core::{
    CallId, Namespace,
    ceiling::{CALL_DRAFTS, NAMESPACE_DRAFT_BYTES},
};

use crate::EngineError;

/// The drafts of this process.
#[derive(Debug, Default)]
pub(crate) struct Drafts {
    counted: Mutex<Counted>,
}

#[derive(Debug, Default)]
struct Counted {
    of_call: HashMap<CallId, usize>,
    bytes_of: HashMap<Namespace, usize>,
}

/// The right to have one draft.
#[derive(Debug)]
pub(crate) struct DraftPermit {
    drafts: Arc<Drafts>,
    call: CallId,
    namespace: Namespace,
    bytes: usize,
}

impl Drafts {
    /// # Errors
    /// If the call has as many as it may have.
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
        // Counts are changed in single steps, so a panic elsewhere cannot have left them halfway.
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DraftPermit {
    /// Counts `bytes` that are about to be written.
    ///
    /// # Errors
    /// If the drafts of the namespace would have more than they may have.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), EngineError> {
        let mut counted = self.drafts.lock();
        let sum = counted.bytes_of.entry(self.namespace.clone()).or_default();
        if *sum + bytes > NAMESPACE_DRAFT_BYTES {
            return Err(EngineError::TooManyUploads(
                "the uploads of this namespace that are under way are too large together",
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
    fn a_call_has_a_number_of_drafts_and_other_calls_have_theirs() {
        let drafts = Arc::new(Drafts::default());
        let namespace = Namespace::default();
        let mut held: Vec<_> = (0..CALL_DRAFTS).map(|_| drafts.begin(&namespace, call(1)).unwrap()).collect();
        assert!(drafts.begin(&namespace, call(1)).is_err());
        let other = drafts.begin(&namespace, call(2)).unwrap();
        held.pop();
        held.push(drafts.begin(&namespace, call(1)).unwrap());
        drop((held, other));
        assert!(drafts.lock().of_call.is_empty(), "nothing is kept of what is over");
    }

    #[test]
    fn the_drafts_of_a_namespace_have_a_size_together_and_those_of_others_have_theirs() {
        let drafts = Arc::new(Drafts::default());
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
        assert!(drafts.lock().bytes_of.is_empty(), "nothing is kept of what is over");
    }
}
