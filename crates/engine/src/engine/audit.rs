//! What the engine writes into the audit log beside what its appends bring along, and reading it.

use bosun_core::{
    Actor, Head, Namespace, Timestamp,
    audit::Record,
    machine::{Delivery, Verdict},
    usage::{Hour, Usage},
};

use crate::{
    EngineError, Store, StoreError,
    engine::Engine,
    store::{Found, Search},
};

/// Records results that did not count. Nobody waits for the disk: that a result was refused changes nothing.
pub(crate) fn record_refusals(
    store: &dyn Store,
    head: &Head,
    now: Timestamp,
    by: &Actor,
    refused: &[(Delivery, Verdict)],
) -> Result<(), StoreError> {
    let of = |(delivery, verdict): &(Delivery, Verdict)| {
        Record::of_refusal(head, now, by, &delivery.target, &delivery.outcome, *verdict)
    };
    let records: Vec<_> = refused.iter().filter_map(of).collect();
    if !records.is_empty() {
        store.record(&head.namespace, records)?;
    }
    Ok(())
}

impl Engine {
    /// Looks into the audit log of a namespace.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn audit(&self, namespace: &Namespace, search: &Search) -> Result<Found, EngineError> {
        Ok(self.inner.store.search(namespace, search).await?)
    }

    /// How the tools of a namespace were used since that hour.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn usage(&self, namespace: &Namespace, since: Hour) -> Result<Usage, EngineError> {
        Ok(self.inner.store.usage(namespace, since).await?)
    }

    /// Records acts that concern the server and no tenant, and that nobody did through the engine, durably: they
    /// have been done, so nothing is undone if that fails.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn record_acts(&self, records: Vec<Record>) -> Result<(), EngineError> {
        let position = self.inner.store.record(&Namespace::of_server(), records)?;
        Ok(self.inner.store.durable(position).await?)
    }

    /// Records requests that were refused before they reached the engine. Nobody waits for the disk, and if the store
    /// fails, the log of the server says so.
    pub fn note_refusals(&self, records: Vec<Record>) {
        if records.is_empty() {
            return;
        }
        if let Err(error) = self.inner.store.record(&Namespace::of_server(), records) {
            tracing::warn!(error = %error, "refused requests are not on record");
        }
    }

    /// What time it is for whoever records an act.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }
}
