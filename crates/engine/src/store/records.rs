//! The part of a store that is the audit log, and the counts that are made of it.
//!
//! Records are written in the transaction of the change that they are about, or in one of their own if
//! nothing changed; they are never changed and never deleted with their query. Whether a store can prove
//! that is its own affair. Usage is counted from the same records, hour by hour.

use std::sync::Arc;

use async_trait::async_trait;
use bosun_core::{
    Namespace, QueryName, Timestamp,
    audit::{Action, Record},
    usage::{Hour, Usage},
};

use super::{Position, StoreError};

/// What is looked for in the audit log, newest first. What is absent does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    pub actor: Option<String>,
    pub tool: Option<String>,
    pub query: Option<QueryName>,
    pub action: Option<Action>,
    /// Not before.
    pub from: Option<Timestamp>,
    /// Before.
    pub to: Option<Timestamp>,
    /// Only records with a smaller number.
    pub before: Option<u64>,
    pub limit: usize,
}

impl Search {
    #[must_use]
    pub fn wants(&self, record: &Record) -> bool {
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

/// A record in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbered {
    /// Counts up from 1 in each namespace, without a gap.
    pub seq: u64,
    pub record: Record,
    /// What chains it to the one before; a store that proves nothing has none.
    pub mac: Option<[u8; 32]>,
}

/// Some of what was looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub records: Vec<Numbered>,
    /// Where to look on. There may be fewer records than wanted, or none, and still more behind them: a look
    /// takes a bounded time.
    pub next: Option<u64>,
}

/// The audit log of a store. `testing::store_contract` is the specification.
#[async_trait]
pub trait Records: Send + Sync {
    /// Orders `records` of `namespace` behind everything that was appended before, like an append.
    fn record(&self, namespace: &Namespace, records: Vec<Record>) -> Result<Position, StoreError>;

    /// Looks into the log of a namespace, as committed.
    async fn search(&self, namespace: &Namespace, search: &Search) -> Result<Found, StoreError>;

    /// Looks after the log a little, where that takes anything: what is looked for is found faster, what is too old is
    /// let go. False when there is nothing to do.
    async fn tend_records(&self, _now: Timestamp) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// How the tools of a namespace were used since that hour.
    async fn usage(&self, namespace: &Namespace, since: Hour) -> Result<Usage, StoreError>;
}
