//! The audit log of a store, and the usage counts that are derived from it.
//!
//! Records are written in the transaction of the change that they are about, or in one of their own if nothing changed;
//! they are never changed and never deleted with their query. Whether a store can prove that is up to the store. Usage
//! is counted from the same records, hour by hour.

use std::sync::Arc;

use async_trait::async_trait;
use bosun_core::{
    Namespace, QueryName, Timestamp,
    audit::{Action, AuditRecord},
    usage::{Hour, UsageTotals},
};

use super::{Position, StoreError};

/// A search of the audit log, newest first. Absent fields match all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordSearch {
    pub actor: Option<String>,
    pub tool: Option<String>,
    pub query: Option<QueryName>,
    pub action: Option<Action>,
    /// At or after.
    pub from: Option<Timestamp>,
    /// Before.
    pub to: Option<Timestamp>,
    /// Only records with a smaller number.
    pub before: Option<u64>,
    pub limit: usize,
}

impl RecordSearch {
    #[must_use]
    pub fn wants(&self, record: &AuditRecord) -> bool {
        let is = |wanted: &Option<String>, value: &Option<Arc<str>>| {
            wanted.is_none() || wanted.as_deref() == value.as_deref()
        };
        is(&self.actor, &record.actor)
            && is(&self.tool, &record.tool)
            && (self.query.is_none() || self.query == record.query)
            && self.action.is_none_or(|action| action == record.action)
            && self.from.is_none_or(|from| record.at >= from)
            && self.to.is_none_or(|to| record.at < to)
    }
}

/// A record with its sequence number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbered {
    /// Counts up from 1 in each namespace, without a gap.
    pub seq: u64,
    pub record: AuditRecord,
    /// The MAC that chains it to the previous record; absent in a store that proves nothing.
    pub mac: Option<[u8; 32]>,
}

/// A page of matching records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundRecords {
    pub records: Vec<Numbered>,
    /// Where to continue. There may be fewer records than wanted, or none, and still more to come: a search takes a
    /// bounded time.
    pub next: Option<u64>,
}

/// The audit log of a store. `testing::store_contract` is the specification.
#[async_trait]
pub trait Records: Send + Sync {
    /// Orders `records` of `namespace` behind all earlier appends, like an append.
    fn record(&self, namespace: &Namespace, records: Vec<AuditRecord>) -> Result<Position, StoreError>;

    /// Searches the committed log of a namespace.
    async fn search(&self, namespace: &Namespace, search: &RecordSearch) -> Result<FoundRecords, StoreError>;

    /// Does a little maintenance of the log, if any is due: indexing, and deletion of records past their retention.
    /// False when there is nothing to do.
    async fn maintain_records(&self, _now: Timestamp) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// How the tools of a namespace were used since the given hour.
    async fn usage(&self, namespace: &Namespace, since: Hour) -> Result<UsageTotals, StoreError>;
}
