//! Deletes queries that have been kept for long enough, and looks after the audit log.
//!
//! The store deletes a little at a time and this task asks until nothing is left, so that nobody who
//! writes meanwhile waits for it. It may be late, which is harmless.

use std::{sync::Arc, time::Duration};

use crate::{engine::Inner, store::Removal};

const PAUSE: Duration = Duration::from_secs(1);

/// Runs until the engine drains.
pub(crate) async fn run(inner: Arc<Inner>) {
    let mut deleted = 0;
    while !inner.draining.is_cancelled() {
        match inner.store.remove(Removal::Outdated, inner.clock.now()).await {
            Ok(0) => {
                let queries = std::mem::take(&mut deleted);
                if queries > 0 {
                    tracing::info!(queries, "deleted queries that were kept for long enough");
                }
            }
            Ok(count) => {
                deleted += count;
                continue;
            }
            Err(error) => tracing::warn!(error = %error, "old queries cannot be deleted right now"),
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = inner.draining.cancelled() => {}
        }
    }
}

/// Nobody notices if it is late.
const BETWEEN_TENDING: Duration = Duration::from_secs(5);

/// Looks after the audit log until the engine drains.
pub(crate) async fn tend_records(inner: Arc<Inner>) {
    while !inner.draining.is_cancelled() {
        match inner.store.tend_records(inner.clock.now()).await {
            Ok(true) => continue,
            Ok(false) => {}
            Err(error) => tracing::warn!(error = %error, "the audit log cannot be looked after right now"),
        }
        tokio::select! {
            () = tokio::time::sleep(BETWEEN_TENDING) => {}
            () = inner.draining.cancelled() => {}
        }
    }
}
