//! Deletes queries past their retention, and maintains the audit log.
//!
//! The store deletes in small batches and this task asks until nothing is left, so that writers are not delayed. Being
//! late is harmless, so nothing is deleted while the wall clock is not steady.

use std::{sync::Arc, time::Duration};

use crate::{background::clock_step::DELETES_AFTER, engine::Inner, store::Removal};

const PAUSE: Duration = Duration::from_secs(1);

/// Runs until the engine drains.
pub(crate) async fn run(inner: Arc<Inner>) {
    let mut deleted = 0;
    while !inner.draining.is_cancelled() {
        let Some(now) = inner.clock_steps.steady_now(&*inner.clock, DELETES_AFTER) else {
            inner.pause(PAUSE).await;
            continue;
        };
        match inner.store.remove(Removal::Outdated, now).await {
            Ok(0) => {
                let queries = std::mem::take(&mut deleted);
                if queries > 0 {
                    tracing::info!(queries, "deleted queries past their retention");
                }
            }
            Ok(count) => {
                deleted += count;
                continue;
            }
            Err(error) => tracing::warn!(error = %error, "queries past their retention cannot be deleted right now"),
        }
        inner.pause(PAUSE).await;
    }
}

/// Maintenance is not urgent.
const BETWEEN_MAINTENANCE: Duration = Duration::from_secs(5);

/// Maintains the audit log until the engine drains.
pub(crate) async fn maintain_records(inner: Arc<Inner>) {
    while !inner.draining.is_cancelled() {
        let Some(now) = inner.clock_steps.steady_now(&*inner.clock, DELETES_AFTER) else {
            inner.pause(BETWEEN_MAINTENANCE).await;
            continue;
        };
        match inner.store.maintain_records(now).await {
            Ok(true) => continue,
            Ok(false) => {}
            Err(error) => tracing::warn!(error = %error, "the audit log cannot be maintained right now"),
        }
        inner.pause(BETWEEN_MAINTENANCE).await;
    }
}

impl Inner {
    /// Sleeps, unless the engine drains.
    async fn pause(&self, period: Duration) {
        tokio::select! {
            () = tokio::time::sleep(period) => {}
            () = self.draining.cancelled() => {}
        }
    }
}
