//! The metrics of the engine: counters, and gauges that are read when metrics are requested.

use std::sync::Arc;

use crate::{
    Engine, EngineError,
    metrics::{Metrics, MetricsText, Readings},
};

impl Engine {
    #[must_use]
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.inner.metrics
    }

    /// Writes all metrics.
    ///
    /// # Errors
    /// If the store cannot count the queries.
    pub async fn write_metrics(&self, text: &mut MetricsText) -> Result<(), EngineError> {
        let (store, admission) = (&self.inner.store, &self.inner.admission);
        // Counted from the rows: a query with work that does not run is queued, whether or not admission knows of it.
        let with_work = store.count_runnable().await?.iter().map(|(_, count)| count).sum();
        let readings = Readings {
            running: admission.running(),
            queued: admission.queued(with_work),
            waiting: store.count_waiting().await?,
            cached_bytes: self.inner.result_cache.weight(),
            store: store.stats(),
            commits: store.commit_figures(),
        };
        self.inner.metrics.write(text, &readings);
        Ok(())
    }
}
