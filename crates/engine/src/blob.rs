//! Blob storage: large values, stored next to the journals that refer to them.
//!
//! A blob is written as a draft and exists only once it is sealed: then it is durable, is named by the hash of its
//! bytes, and never changes. References are made after that, so a journal never refers to a missing blob; an
//! unreferenced blob is removed when it is old enough that no reference can be under way.
//! `testing::blob_contract` is the specification.

mod memory;

use std::time::Duration;

use async_trait::async_trait;
use bosun_core::ContentHash;
use bytes::Bytes;

use crate::StoreError;

pub use memory::MemoryBlobs;

/// Stores large values. `testing::blob_contract` is the specification.
#[async_trait]
pub trait Blobs: Send + Sync + 'static {
    /// Begins a blob. A dropped draft leaves nothing behind, at the latest when the blobs are opened again.
    async fn begin(&self) -> Result<Box<dyn BlobDraft>, StoreError>;

    /// The size of a blob in bytes; `None` if there is no such blob.
    async fn size(&self, hash: ContentHash) -> Result<Option<u64>, StoreError>;

    /// Up to `length` bytes of a blob from `offset` on, fewer only at its end; `None` if there is no such blob. The
    /// bytes are verified: a blob that no longer has its hash fails with [`StoreError::DamagedBlob`].
    async fn read(&self, hash: ContentHash, offset: u64, length: usize) -> Result<Option<Bytes>, StoreError>;

    /// The blobs that were last sealed at least `age` ago.
    async fn older_than(&self, age: Duration) -> Result<Vec<ContentHash>, StoreError>;

    /// Removes a blob, unless it was sealed (again) within `age`; returns whether it did. Check and removal are atomic
    /// with respect to sealing.
    async fn remove(&self, hash: ContentHash, age: Duration) -> Result<bool, StoreError>;
}

/// A blob that is being written.
#[async_trait]
pub trait BlobDraft: Send {
    async fn write(&mut self, bytes: Bytes) -> Result<(), StoreError>;

    /// Makes the blob durable under `hash`, which the writer has computed while writing. A blob with the same hash has
    /// the same bytes; it counts as sealed anew.
    async fn seal(self: Box<Self>, hash: ContentHash) -> Result<(), StoreError>;
}
