//! Deletion of queries, a bounded number at a time.
//!
//! A transaction deletes at most [`AT_MOST`] queries and a bounded number of bytes of journals, so that appends are not
//! held up; a caller that wants more deleted asks again. With a query its journal is deleted and, if no other query
//! refers to it, its toolset. Its idempotency key is kept for a while; its deletion is recorded in the same
//! transaction, also if it was due to retention.

use std::sync::Arc;

use bosun_core::{ContentHash, Namespace, QueryName, QueryUid, Timestamp, audit::AuditRecord};
use bosun_engine::{
    fault,
    store::{REQUESTS_KEPT, Rejection, Removal},
};
use rusqlite::{OptionalExtension as _, Row, params};

use super::{
    audit::{AuditChanges, EncodedRecords, RecordWriter},
    transaction::{SEQ_BITS, WriteConnection, unavailable},
};

/// One transaction deletes at most this many queries, and about this many bytes of their journals.
const AT_MOST: usize = 128;
const AT_MOST_BYTES: usize = 1 << 20;
/// One transaction deletes at most this many expired idempotency keys.
const REQUESTS_AT_MOST: usize = 1_000;

const ONE: &str = "SELECT id, uid, toolset, history, bytes, namespace, name, head FROM queries \
     WHERE namespace = ?1 AND uid = ?2";
pub(super) const OUTDATED: &str = "SELECT id, uid, toolset, history, bytes, namespace, name, head FROM queries \
     WHERE expires <= ?1 ORDER BY expires LIMIT ?2";
const DELETE_JOURNAL: &str = "DELETE FROM journal WHERE key > ?1 AND key < ?2";
const DELETE_QUERY: &str = "DELETE FROM queries WHERE id = ?1";
const EXPIRE_REQUEST: &str = "UPDATE requests SET expires = ?2 WHERE uid = ?1";
const DELETE_REQUESTS: &str = "DELETE FROM requests WHERE (namespace, actor, route, key) IN \
     (SELECT namespace, actor, route, key FROM requests WHERE expires <= ?1 LIMIT ?2)";
pub(super) const STILL_USED: &str = "SELECT 1 FROM queries WHERE toolset = ?1";
pub(super) const STILL_READ: &str = "SELECT 1 FROM queries WHERE history = ?1";
const DELETE_DOCUMENT: &str = "DELETE FROM documents WHERE id = ?1 RETURNING hash";

struct RemovedQuery {
    id: i64,
    uid: [u8; 16],
    toolset: Option<i64>,
    history: Option<i64>,
    bytes: usize,
    namespace: Namespace,
    name: Option<QueryName>,
    agent: Option<Arc<str>>,
}

impl RemovedQuery {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        /// The fields of a head that a record needs.
        #[derive(serde::Deserialize)]
        struct RemovalTarget {
            agent: Arc<str>,
        }
        // An unreadable row must not prevent a deletion: then the record says less, and belongs to the server's own
        // namespace if the row's is not known.
        let namespace = row.get_ref(5)?.as_str()?.parse().unwrap_or_else(|_| Namespace::of_server());
        let name = row.get_ref(6)?.as_str()?.parse().ok();
        let agent = serde_json::from_str(row.get_ref(7)?.as_str()?).ok().map(|RemovalTarget { agent }| agent);
        let (toolset, history, bytes) = (row.get(2)?, row.get(3)?, row.get(4)?);
        Ok(Self { id: row.get(0)?, uid: row.get(1)?, toolset, history, bytes, namespace, name, agent })
    }

    fn record(&self, now: Timestamp) -> AuditRecord {
        AuditRecord::of_outdated(QueryUid::from_bytes(self.uid), self.name.clone(), self.agent.clone(), now)
    }
}

impl WriteConnection {
    /// Deletes a bounded part of the removal, in one transaction. The connection must not be used after a failure.
    pub(super) fn remove(&mut self, epoch: i64, removal: &Removal, now: Timestamp) -> Result<usize, Rejection> {
        if !self.begin(epoch).map_err(unavailable)? {
            return Err(Rejection::Fenced);
        }
        self.known_queries.clear();
        let mut changes = AuditChanges::default();
        let removed = self.remove_all(removal, now, &mut changes).map_err(unavailable)?;
        fault::point("store.remove");
        self.run("COMMIT").map_err(unavailable)?;
        fault::point("store.removed");
        self.audit.committed(changes);
        Ok(removed)
    }

    fn remove_all(&mut self, removal: &Removal, now: Timestamp, changes: &mut AuditChanges) -> rusqlite::Result<usize> {
        let queries = self.find_removed(removal, now)?;
        for query in &queries {
            self.remove_one(query, now)?;
        }
        match removal {
            Removal::Outdated => {
                self.connection.prepare_cached(DELETE_REQUESTS)?.execute(params![now.0, REQUESTS_AT_MOST])?;
                let deleted = self.delete_outdated(now)?;
                let of_queries = queries.iter().map(|query| (query.namespace.clone(), query.record(now)));
                let records: Vec<_> = of_queries.chain(deleted).collect();
                self.write_records_of(&records, changes)?;
                return Ok(records.len());
            }
            Removal::Conversations(namespace, wanted, record) => {
                let deleted = self.delete(namespace, wanted)?;
                if let Some(record) = record.as_ref().filter(|_| deleted > 0) {
                    self.write_record(namespace, record, changes)?;
                }
                return Ok(deleted);
            }
            Removal::Query(namespace, _, record) if !queries.is_empty() => {
                self.write_record(namespace, record, changes)?;
            }
            Removal::Query(..) => {}
        }
        Ok(queries.len())
    }

    /// Writes the audit record of the change that this transaction makes.
    pub(super) fn write_record(
        &self,
        namespace: &Namespace,
        record: &AuditRecord,
        changes: &mut AuditChanges,
    ) -> rusqlite::Result<()> {
        self.write_records_of(&[(namespace.clone(), record.clone())], changes)
    }

    fn write_records_of(
        &self,
        records: &[(Namespace, AuditRecord)],
        changes: &mut AuditChanges,
    ) -> rusqlite::Result<()> {
        let mut writer = RecordWriter::new(&self.connection)?;
        for (namespace, record) in records {
            let encoded = EncodedRecords::of(std::slice::from_ref(record), self.audit.is_audited());
            let encoded = encoded.map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
            self.audit.write(&mut writer, changes, namespace, &encoded)?;
        }
        self.audit.finish(&self.connection, changes)
    }

    fn find_removed(&self, removal: &Removal, now: Timestamp) -> rusqlite::Result<Vec<RemovedQuery>> {
        match removal {
            Removal::Query(namespace, uid, _) => self
                .connection
                .prepare_cached(ONE)?
                .query_map(params![namespace.as_str(), uid.as_bytes()], RemovedQuery::read)?
                .collect(),
            Removal::Conversations(..) => Ok(Vec::new()),
            Removal::Outdated => {
                let mut statement = self.connection.prepare_cached(OUTDATED)?;
                let mut rows = statement.query(params![now.0, AT_MOST])?;
                let (mut queries, mut bytes) = (Vec::new(), 0);
                while bytes < AT_MOST_BYTES
                    && let Some(row) = rows.next()?
                {
                    let query = RemovedQuery::read(row)?;
                    bytes += query.bytes;
                    queries.push(query);
                }
                Ok(queries)
            }
        }
    }

    fn remove_one(&mut self, query: &RemovedQuery, now: Timestamp) -> rusqlite::Result<()> {
        let connection = &self.connection;
        let (first, end) = (query.id << SEQ_BITS, (query.id + 1) << SEQ_BITS);
        connection.prepare_cached(DELETE_JOURNAL)?.execute([first, end])?;
        connection.prepare_cached(DELETE_QUERY)?.execute([query.id])?;
        connection.prepare_cached(EXPIRE_REQUEST)?.execute(params![query.uid, now.after(REQUESTS_KEPT).0])?;
        for (document, still_used) in [(query.toolset, STILL_USED), (query.history, STILL_READ)] {
            let Some(document) = document else { continue };
            if connection.prepare_cached(still_used)?.exists([document])? {
                continue;
            }
            let hash: Option<[u8; 32]> =
                connection.prepare_cached(DELETE_DOCUMENT)?.query_row([document], |row| row.get(0)).optional()?;
            if let Some(hash) = hash {
                self.known_documents.remove(&ContentHash::from_bytes(hash));
            }
        }
        Ok(())
    }
}
