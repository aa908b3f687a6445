//! Deletes queries that have been kept for long enough, and looks after the audit log.
//!
//! The store deletes a little at a time and this task asks until nothing is left, so that nobody who
//! writes meanwhile waits for it. It may be late, which is harmless: nothing is deleted while the wall clock is not steady.

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
                    tracing::info!(queries, "deleted queries that were kept for long enough");
                }
            }
            Ok(count) => {
                deleted += count;
                continue;
            }
            Err(error) => tracing::warn!(error = %error, "old queries cannot be deleted right now"),
        }
        inner.pause(PAUSE).await;
    }
}

/// Nobody notices if it is late.
const BETWEEN_TENDING: Duration = Duration::from_secs(5);

/// Looks after the audit log until the engine drains.
pub(crate) async fn tend_records(inner: Arc<Inner>) {
    while !inner.draining.is_cancelled() {
        let Some(now) = inner.clock_steps.steady_now(&*inner.clock, DELETES_AFTER) else {
            inner.pause(BETWEEN_TENDING).await;
            continue;
        };
        match inner.store.tend_records(now).await {
            Ok(true) => continue,
            Ok(false) => {}
            Err(error) => tracing::warn!(error = %error, "the audit log cannot be looked after right now"),
        }
        inner.pause(BETWEEN_TENDING).await;
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
