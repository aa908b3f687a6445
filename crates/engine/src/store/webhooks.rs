//! The webhooks of a store: where the events of a query are posted.
//!
//! A webhook is a row with a cursor into the journal of its query. The journal is the outbox: what was not acknowledged
//! is posted again, by the same process or by a later one, so an event arrives at least once. Webhooks are deleted with
//! their query.

use std::fmt;

use async_trait::async_trait;
use bosun_core::{Namespace, QueryName, QueryUid, Seq, Timestamp, audit::AuditRecord};

use super::StoreError;

/// Where the events of one query are posted.
#[derive(Clone, PartialEq, Eq)]
pub struct Webhook {
    pub namespace: Namespace,
    pub name: QueryName,
    pub query: QueryUid,
    /// Unique in its query.
    pub id: String,
    /// The address, its credentials, and the form of its events: opaque to the engine.
    pub target: String,
    pub progress: WebhookProgress,
}

/// Which webhook.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WebhookKey {
    pub namespace: Namespace,
    pub query: QueryUid,
    pub id: String,
}

impl Webhook {
    #[must_use]
    pub fn key(&self) -> WebhookKey {
        WebhookKey { namespace: self.namespace.clone(), query: self.query, id: self.id.clone() }
    }
}

/// How far the events of a query have been posted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WebhookProgress {
    /// The last entry whose events were acknowledged.
    pub seq: Seq,
    /// Failed attempts to post the next one.
    pub attempts: u32,
    /// No attempt is made before this time.
    pub next_at: Timestamp,
}

/// The target has credentials and is not shown.
impl fmt::Debug for Webhook {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, name, id, progress, .. } = self;
        formatter
            .debug_struct("Webhook")
            .field("query", &format_args!("{namespace}/{name}"))
            .field("id", id)
            .field("progress", progress)
            .finish_non_exhaustive()
    }
}

/// A change of one webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookChange {
    /// Stores it, or replaces the one with its id, unless the query is gone or has `at_most` others.
    Put { webhook: Webhook, at_most: usize, record: Box<AuditRecord> },
    /// Moves its cursor, if it still exists.
    Advance { key: WebhookKey, progress: WebhookProgress },
    /// Deletes it. The end of a webhook that has posted everything has no record: the end of its query has one.
    Remove { key: WebhookKey, record: Option<Box<AuditRecord>> },
}

impl WebhookChange {
    /// The namespace whose log has the record, and the record.
    #[must_use]
    pub fn record(&self) -> Option<(&Namespace, &AuditRecord)> {
        match self {
            Self::Put { webhook, record, .. } => Some((&webhook.namespace, record)),
            Self::Remove { key, record } => record.as_deref().map(|record| (&key.namespace, record)),
            Self::Advance { .. } => None,
        }
    }
}

#[async_trait]
pub trait Webhooks: Send + Sync {
    /// Makes a change and writes its record, behind all earlier appends, and returns whether there was anything to
    /// change; if not, there is no record. Durable when this resolves.
    async fn change_webhook(&self, change: WebhookChange) -> Result<bool, StoreError>;

    /// The webhooks of a query, by their ids.
    async fn webhooks(&self, namespace: &Namespace, query: QueryUid) -> Result<Vec<Webhook>, StoreError>;

    /// Up to `limit` webhooks that are due at `now` and whose query has entries after their cursor, the most overdue
    /// first.
    async fn due_webhooks(&self, now: Timestamp, limit: usize) -> Result<Vec<Webhook>, StoreError>;
}
