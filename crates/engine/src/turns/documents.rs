//! Documents that a query refers to by hash: its toolset and its history.

use std::sync::Arc;

use bosun_core::ContentHash;

use crate::{StoreError, turns::driver::Driver};

/// The document with this hash. A query may be ahead of the commit that has its documents, since its first turn does
/// not wait for the disk; if one is not found, this waits for that commit and reads again.
pub(crate) async fn read(driver: &Driver, hash: ContentHash) -> Result<Option<Arc<str>>, StoreError> {
    let inner = &driver.inner;
    if let Some(document) = inner.store.document(hash).await? {
        return Ok(Some(document));
    }
    let position = driver.live.lock(&*inner.store).await?.state().map(|state| state.position);
    let Some(position) = position else { return Ok(None) };
    inner.make_durable(&driver.live, position).await?;
    inner.store.document(hash).await
}
