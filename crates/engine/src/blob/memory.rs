//! Blobs in memory, for use with a store in memory.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use bosun_core::ContentHash;
use bytes::{Bytes, BytesMut};
use tokio::time::Instant;

use super::{BlobDraft, Blobs};
use crate::StoreError;

/// Blobs that are gone when the last handle is dropped. Clones share the same blobs.
#[derive(Clone, Debug, Default)]
pub struct MemoryBlobs {
    sealed: Arc<Mutex<BTreeMap<ContentHash, Sealed>>>,
}

#[derive(Debug)]
struct Sealed {
    bytes: Bytes,
    at: Instant,
}

impl MemoryBlobs {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ContentHash, Sealed>> {
        self.sealed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct MemoryDraft {
    bytes: BytesMut,
    blobs: MemoryBlobs,
}

#[async_trait]
impl BlobDraft for MemoryDraft {
    async fn write(&mut self, bytes: Bytes) -> Result<(), StoreError> {
        self.bytes.extend_from_slice(&bytes);
        Ok(())
    }

    async fn seal(self: Box<Self>, hash: ContentHash) -> Result<(), StoreError> {
        let Self { bytes, blobs } = *self;
        blobs.lock().insert(hash, Sealed { bytes: bytes.freeze(), at: Instant::now() });
        Ok(())
    }
}

#[async_trait]
impl Blobs for MemoryBlobs {
    async fn begin(&self) -> Result<Box<dyn BlobDraft>, StoreError> {
        Ok(Box::new(MemoryDraft { bytes: BytesMut::new(), blobs: self.clone() }))
    }

    async fn size(&self, hash: ContentHash) -> Result<Option<u64>, StoreError> {
        Ok(self.lock().get(&hash).map(|sealed| sealed.bytes.len() as u64))
    }

    async fn read(&self, hash: ContentHash, offset: u64, length: usize) -> Result<Option<Bytes>, StoreError> {
        Ok(self.lock().get(&hash).map(|sealed| {
            let start = usize::try_from(offset).unwrap_or(usize::MAX).min(sealed.bytes.len());
            sealed.bytes.slice(start..start.saturating_add(length).min(sealed.bytes.len()))
        }))
    }

    async fn older_than(&self, age: Duration) -> Result<Vec<ContentHash>, StoreError> {
        Ok(self.lock().iter().filter(|(_, sealed)| sealed.at.elapsed() >= age).map(|(hash, _)| *hash).collect())
    }

    async fn remove(&self, hash: ContentHash, age: Duration) -> Result<bool, StoreError> {
        let mut sealed = self.lock();
        let older_than = sealed.get(&hash).is_some_and(|sealed| sealed.at.elapsed() >= age);
        Ok(older_than && sealed.remove(&hash).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::blob_contract::BlobPlace;

    #[derive(Default)]
    struct KeptBlob(MemoryBlobs);

    impl BlobPlace for KeptBlob {
        fn open(&mut self) -> Arc<dyn Blobs> {
            Arc::new(self.0.clone())
        }

        fn age(&mut self, hash: ContentHash, age: Duration) {
            let mut sealed = self.0.lock();
            let sealed = sealed.get_mut(&hash).unwrap();
            sealed.at = sealed.at.checked_sub(age).unwrap();
        }
    }

    mod contract {
        use super::*;

        crate::blob_contract!([tokio::test] KeptBlob::default());
    }
}
