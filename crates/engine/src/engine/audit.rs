//! Audit records that the engine writes on their own, outside the append of a query, and reading the audit log.

use bosun_core::{
    Actor, Head, Namespace, Timestamp,
    audit::AuditRecord,
    machine::{Delivery, DeliveryVerdict},
    usage::{Hour, UsageTotals},
};

use crate::{
    EngineError, Store, StoreError,
    engine::Engine,
    store::{FoundRecords, RecordSearch},
};

/// Records refused results. Does not wait for the disk: a refusal changes no state.
pub(crate) fn record_refusals(
    store: &dyn Store,
    head: &Head,
    now: Timestamp,
    by: &Actor,
    refused: &[(Delivery, DeliveryVerdict)],
) -> Result<(), StoreError> {
    let of = |(delivery, verdict): &(Delivery, DeliveryVerdict)| {
        AuditRecord::of_refusal(head, now, by, &delivery.target, &delivery.outcome, *verdict)
    };
    let records: Vec<_> = refused.iter().filter_map(of).collect();
    if !records.is_empty() {
        store.record(&head.namespace, records)?;
    }
    Ok(())
}

impl Engine {
    /// Searches the audit log of a namespace.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn audit(&self, namespace: &Namespace, search: &RecordSearch) -> Result<FoundRecords, EngineError> {
        Ok(self.inner.store.search(namespace, search).await?)
    }

    /// How the tools of a namespace were used since the given hour.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn usage(&self, namespace: &Namespace, since: Hour) -> Result<UsageTotals, EngineError> {
        Ok(self.inner.store.usage(namespace, since).await?)
    }

    /// Records, durably, acts that concern the server and no tenant and that did not go through the engine. They have
    /// already happened, so nothing is undone if recording fails.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn record_acts(&self, records: Vec<AuditRecord>) -> Result<(), EngineError> {
        let position = self.inner.store.record(&Namespace::of_server(), records)?;
        Ok(self.inner.store.durable(position).await?)
    }

    /// Records requests that were refused before they reached the engine. Does not wait for the disk; if the store
    /// fails, the server's log reports it.
    pub fn note_refusals(&self, records: Vec<AuditRecord>) {
        if records.is_empty() {
            return;
        }
        if let Err(error) = self.inner.store.record(&Namespace::of_server(), records) {
            tracing::warn!(error = %error, "refused requests were not recorded in the audit log");
        }
    }

    /// The timestamp to use in an audit record.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }
}
