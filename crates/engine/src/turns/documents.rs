//! What a query refers to and does not hold: its toolset, and what was said before it.

use std::sync::Arc;

use bosun_core::ContentHash;

use crate::{StoreError, turns::driver::Driver};

/// The document with this hash. A query may be ahead of the commit that brings its documents, since its first turn
/// does not wait for the disk; whoever does not find one waits for that commit and looks again.
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
