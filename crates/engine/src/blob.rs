//! Where large values live, beside the journals that refer to them.
//!
//! A blob is written as a draft and exists only when it is sealed: then it is durable, has the hash of
//! its bytes for a name, and never changes. References are made after that, so a journal never names
//! a blob that is not there; a blob that no journal names is removed when it is old enough not to be
//! on its way into one. `testing::blob_contract` is the specification.

mod memory;

use std::time::Duration;

use async_trait::async_trait;
use bosun_core::ContentHash;
use bytes::Bytes;

use crate::StoreError;

pub use memory::MemoryBlobs;

/// Where large values live. `testing::blob_contract` is the specification.
#[async_trait]
pub trait Blobs: Send + Sync + 'static {
    /// Begins a blob. A draft that is dropped leaves nothing behind, at the latest when the blobs are
    /// opened again.
    async fn begin(&self) -> Result<Box<dyn Draft>, StoreError>;

    /// How many bytes a blob has; `None` if there is no such blob.
    async fn size(&self, hash: ContentHash) -> Result<Option<u64>, StoreError>;

    /// Up to `length` bytes of a blob from `offset` on, fewer only at its end; `None` if there is no
    /// such blob. What is read has the hash: a blob that was changed behind our back fails with
    /// [`StoreError::DamagedBlob`].
    async fn read(&self, hash: ContentHash, offset: u64, length: usize) -> Result<Option<Bytes>, StoreError>;

    /// The blobs that have not been sealed for as long as `age`.
    async fn aged(&self, age: Duration) -> Result<Vec<ContentHash>, StoreError>;

    /// Removes a blob, unless it has been sealed (again) within `age`; whether it did. Nobody can seal
    /// it between the look and the removal.
    async fn remove(&self, hash: ContentHash, age: Duration) -> Result<bool, StoreError>;
}

/// A blob that is being written.
#[async_trait]
pub trait Draft: Send {
    async fn write(&mut self, bytes: Bytes) -> Result<(), StoreError>;

    /// Makes the blob durable under `hash`, which the writer has computed of the bytes as they passed.
    /// A blob with the same hash has the same bytes; it counts as sealed anew.
    async fn seal(self: Box<Self>, hash: ContentHash) -> Result<(), StoreError>;
}
