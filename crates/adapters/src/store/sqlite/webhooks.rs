//! The table of webhooks.
//!
//! They change seldom compared with journals, so each change is a transaction of its own, on the writer thread.

use bosun_core::{Namespace, QueryUid, Timestamp};
use bosun_engine::{
    StoreError, fault,
    store::{Rejection, Webhook, WebhookChange, WebhookProgress},
};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::{
    audit::AuditChanges,
    transaction::{WriteConnection, unavailable},
};

const OF_UID: &str = "SELECT id FROM queries WHERE namespace = ?1 AND uid = ?2";
const OTHERS: &str = "SELECT count(*) FROM webhooks WHERE query = ?1 AND id <> ?2";
const PUT: &str = "INSERT OR REPLACE INTO webhooks (query, id, target, seq, attempts, next_at) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
const ADVANCE: &str = "UPDATE webhooks SET seq = ?3, attempts = ?4, next_at = ?5 WHERE query = ?1 AND id = ?2";
const REMOVE: &str = "DELETE FROM webhooks WHERE query = ?1 AND id = ?2";
const OF_QUERY: &str = "SELECT namespace, name, uid, webhooks.id, target, webhooks.seq, attempts, next_at \
     FROM queries JOIN webhooks ON query = queries.id WHERE namespace = ?1 AND uid = ?2 ORDER BY webhooks.id";
const DUE: &str = "SELECT namespace, name, uid, webhooks.id, target, webhooks.seq, attempts, next_at \
     FROM webhooks JOIN queries ON query = queries.id WHERE next_at <= ?1 AND queries.seq > webhooks.seq \
     ORDER BY next_at, query, webhooks.id LIMIT ?2";

impl WriteConnection {
    /// Makes one change, in one transaction, and returns whether there was anything to change. The connection must not
    /// be used after a failure.
    pub(super) fn change_webhook(&mut self, epoch: i64, change: &WebhookChange) -> Result<bool, Rejection> {
        if !self.begin(epoch).map_err(unavailable)? {
            return Err(Rejection::Fenced);
        }
        let changed = self.write_webhook(change).map_err(unavailable)?;
        let mut changes = AuditChanges::default();
        if let Some((namespace, record)) = change.record().filter(|_| changed) {
            self.write_record(namespace, record, &mut changes).map_err(unavailable)?;
        }
        fault::point("store.webhook");
        self.run("COMMIT").map_err(unavailable)?;
        fault::point("store.webhook_kept");
        self.audit.committed(changes);
        Ok(changed)
    }

    fn write_webhook(&self, change: &WebhookChange) -> rusqlite::Result<bool> {
        let row_of = |namespace: &Namespace, uid: QueryUid| {
            let mut statement = self.connection.prepare_cached(OF_UID)?;
            statement.query_row(params![namespace.as_str(), uid.as_bytes()], |row| row.get::<_, i64>(0)).optional()
        };
        let changed = match change {
            WebhookChange::Put { webhook, at_most, .. } => {
                let Some(query) = row_of(&webhook.namespace, webhook.query)? else { return Ok(false) };
                let mut others = self.connection.prepare_cached(OTHERS)?;
                let others: usize = others.query_row(params![query, webhook.id], |row| row.get(0))?;
                if others >= *at_most {
                    return Ok(false);
                }
                let WebhookProgress { seq, attempts, next_at } = webhook.progress;
                let row = params![query, webhook.id, webhook.target, seq, attempts, next_at.0];
                self.connection.prepare_cached(PUT)?.execute(row)?
            }
            WebhookChange::Advance { key, progress: WebhookProgress { seq, attempts, next_at } } => {
                let Some(query) = row_of(&key.namespace, key.query)? else { return Ok(false) };
                self.connection.prepare_cached(ADVANCE)?.execute(params![query, key.id, seq, attempts, next_at.0])?
            }
            WebhookChange::Remove { key, .. } => {
                let Some(query) = row_of(&key.namespace, key.query)? else { return Ok(false) };
                self.connection.prepare_cached(REMOVE)?.execute(params![query, key.id])?
            }
        };
        Ok(changed > 0)
    }
}

/// The webhooks of one query.
pub(super) fn of_query(
    connection: &Connection,
    namespace: &Namespace,
    query: QueryUid,
) -> Result<Vec<Webhook>, StoreError> {
    list(connection, OF_QUERY, params![namespace.as_str(), query.as_bytes()])
}

/// Those that are due.
pub(super) fn due(connection: &Connection, now: Timestamp, limit: usize) -> Result<Vec<Webhook>, StoreError> {
    list(connection, DUE, params![now.0, limit])
}

fn list(connection: &Connection, sql: &str, params: &[&dyn rusqlite::ToSql]) -> Result<Vec<Webhook>, StoreError> {
    let read = || {
        let mut statement = connection.prepare_cached(sql)?;
        let rows = statement.query_map(params, read)?;
        rows.collect::<rusqlite::Result<Vec<_>>>()
    };
    read().map_err(|error| StoreError::Unavailable(Box::new(error)))
}

fn read(row: &Row<'_>) -> rusqlite::Result<Webhook> {
    let text = |index: usize| row.get::<_, String>(index);
    let unreadable = |index: usize, error: Box<dyn std::error::Error + Send + Sync>| {
        rusqlite::Error::FromSqlConversionFailure(index, rusqlite::types::Type::Text, error)
    };
    Ok(Webhook {
        namespace: text(0)?.parse().map_err(|error| unreadable(0, Box::new(error)))?,
        name: text(1)?.parse().map_err(|error| unreadable(1, Box::new(error)))?,
        query: QueryUid::from_bytes(row.get(2)?),
        id: text(3)?,
        target: text(4)?,
        progress: WebhookProgress { seq: row.get(5)?, attempts: row.get(6)?, next_at: Timestamp(row.get(7)?) },
    })
}
