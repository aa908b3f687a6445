//! Deleting queries, a little at a time.
//!
//! A transaction deletes at most so many queries and so many bytes of journals that those who append do
//! not notice it; whoever wants more gone asks again. With a query go its journal and, if it was the
//! last that referred to it, its toolset. That it answered a request is remembered for a while; that it was
//! deleted is on record, in the same transaction, also if nobody asked for it.

use std::sync::Arc;

use bosun_core::{ContentHash, Namespace, QueryName, QueryUid, Timestamp, audit::Record};
use bosun_engine::{
    fault,
    store::{REQUESTS_KEPT, Rejection, Removal},
};
use rusqlite::{OptionalExtension as _, Row, params};

use super::{
    audit::{Lines, Pages, Pen},
    group::{Open, SEQ_BITS, unavailable},
};

/// How many queries, and about how many bytes of their journals, one transaction deletes.
const AT_MOST: usize = 128;
const AT_MOST_BYTES: usize = 1 << 20;
/// How many forgotten requests one transaction deletes.
const REQUESTS_AT_MOST: usize = 1_000;

const ONE: &str = "SELECT id, uid, toolset, history, bytes, namespace, name, head FROM queries \
     WHERE namespace = ?1 AND uid = ?2";
pub(super) const OUTDATED: &str = "SELECT id, uid, toolset, history, bytes, namespace, name, head FROM queries \
     WHERE expires <= ?1 ORDER BY expires LIMIT ?2";
const DELETE_JOURNAL: &str = "DELETE FROM journal WHERE key > ?1 AND key < ?2";
const DELETE_QUERY: &str = "DELETE FROM queries WHERE id = ?1";
const FORGET_LATER: &str = "UPDATE requests SET expires = ?2 WHERE uid = ?1";
const FORGET: &str = "DELETE FROM requests WHERE (namespace, actor, route, key) IN \
     (SELECT namespace, actor, route, key FROM requests WHERE expires <= ?1 LIMIT ?2)";
pub(super) const STILL_USED: &str = "SELECT 1 FROM queries WHERE toolset = ?1";
pub(super) const STILL_READ: &str = "SELECT 1 FROM queries WHERE history = ?1";
const DELETE_DOCUMENT: &str = "DELETE FROM documents WHERE id = ?1 RETURNING hash";

struct Doomed {
    id: i64,
    uid: [u8; 16],
    toolset: Option<i64>,
    history: Option<i64>,
    bytes: usize,
    namespace: Namespace,
    name: Option<QueryName>,
    agent: Option<Arc<str>>,
}

impl Doomed {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        /// What a record needs of a head.
        #[derive(serde::Deserialize)]
        struct Target {
            agent: Arc<str>,
        }
        // Whatever is not readable any more must not keep anything from being deleted: then the record says less, and
        // is the server's own if nobody knows whose it was.
        let namespace = row.get_ref(5)?.as_str()?.parse().unwrap_or_else(|_| Namespace::of_server());
        let name = row.get_ref(6)?.as_str()?.parse().ok();
        let agent = serde_json::from_str(row.get_ref(7)?.as_str()?).ok().map(|Target { agent }| agent);
        let (toolset, history, bytes) = (row.get(2)?, row.get(3)?, row.get(4)?);
        Ok(Self { id: row.get(0)?, uid: row.get(1)?, toolset, history, bytes, namespace, name, agent })
    }

    fn record(&self, now: Timestamp) -> Record {
        Record::of_outdated(QueryUid::from_bytes(self.uid), self.name.clone(), self.agent.clone(), now)
    }
}

impl Open {
    /// Deletes some of what is to be deleted, in one transaction. Nothing may be done with this connection
    /// after a failure.
    pub(super) fn remove(&mut self, epoch: i64, removal: &Removal, now: Timestamp) -> Result<usize, Rejection> {
        if !self.begin(epoch).map_err(unavailable)? {
            return Err(Rejection::Fenced);
        }
        self.left.clear();
        let mut pages = Pages::default();
        let removed = self.remove_all(removal, now, &mut pages).map_err(unavailable)?;
        fault::point("store.remove");
        self.run("COMMIT").map_err(unavailable)?;
        fault::point("store.removed");
        self.book.turn(pages);
        Ok(removed)
    }

    fn remove_all(&mut self, removal: &Removal, now: Timestamp, pages: &mut Pages) -> rusqlite::Result<usize> {
        let doomed = self.doomed(removal, now)?;
        for query in &doomed {
            self.remove_one(query, now)?;
        }
        match removal {
            Removal::Outdated => {
                self.connection.prepare_cached(FORGET)?.execute(params![now.0, REQUESTS_AT_MOST])?;
                let forgotten = self.forget_outdated(now)?;
                let of_queries = doomed.iter().map(|query| (query.namespace.clone(), query.record(now)));
                let acts: Vec<_> = of_queries.chain(forgotten).collect();
                self.write_acts(&acts, pages)?;
                return Ok(acts.len());
            }
            Removal::Conversations(namespace, wanted, record) => {
                let forgotten = self.forget(namespace, wanted)?;
                if let Some(record) = record.as_ref().filter(|_| forgotten > 0) {
                    self.write_act(namespace, record, pages)?;
                }
                return Ok(forgotten);
            }
            Removal::Query(namespace, _, record) if !doomed.is_empty() => self.write_act(namespace, record, pages)?,
            Removal::Query(..) => {}
        }
        Ok(doomed.len())
    }

    /// What the audit log says of the change that this transaction makes.
    pub(super) fn write_act(&self, namespace: &Namespace, record: &Record, pages: &mut Pages) -> rusqlite::Result<()> {
        self.write_acts(&[(namespace.clone(), record.clone())], pages)
    }

    fn write_acts(&self, acts: &[(Namespace, Record)], pages: &mut Pages) -> rusqlite::Result<()> {
        let mut pen = Pen::new(&self.connection)?;
        for (namespace, record) in acts {
            let lines = Lines::of(std::slice::from_ref(record), self.book.is_audited());
            let lines = lines.map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
            self.book.write(&mut pen, pages, namespace, &lines)?;
        }
        self.book.finish(&self.connection, pages)
    }

    fn doomed(&self, removal: &Removal, now: Timestamp) -> rusqlite::Result<Vec<Doomed>> {
        match removal {
            Removal::Query(namespace, uid, _) => self
                .connection
                .prepare_cached(ONE)?
                .query_map(params![namespace.as_str(), uid.as_bytes()], Doomed::read)?
                .collect(),
            Removal::Conversations(..) => Ok(Vec::new()),
            Removal::Outdated => {
                let mut statement = self.connection.prepare_cached(OUTDATED)?;
                let mut rows = statement.query(params![now.0, AT_MOST])?;
                let (mut doomed, mut bytes) = (Vec::new(), 0);
                while bytes < AT_MOST_BYTES
                    && let Some(row) = rows.next()?
                {
                    let query = Doomed::read(row)?;
                    bytes += query.bytes;
                    doomed.push(query);
                }
                Ok(doomed)
            }
        }
    }

    fn remove_one(&mut self, query: &Doomed, now: Timestamp) -> rusqlite::Result<()> {
        let connection = &self.connection;
        let (first, end) = (query.id << SEQ_BITS, (query.id + 1) << SEQ_BITS);
        connection.prepare_cached(DELETE_JOURNAL)?.execute([first, end])?;
        connection.prepare_cached(DELETE_QUERY)?.execute([query.id])?;
        connection.prepare_cached(FORGET_LATER)?.execute(params![query.uid, now.after(REQUESTS_KEPT).0])?;
        for (document, still_used) in [(query.toolset, STILL_USED), (query.history, STILL_READ)] {
            let Some(document) = document else { continue };
            if connection.prepare_cached(still_used)?.exists([document])? {
                continue;
            }
            let hash: Option<[u8; 32]> =
                connection.prepare_cached(DELETE_DOCUMENT)?.query_row([document], |row| row.get(0)).optional()?;
            if let Some(hash) = hash {
                self.known.remove(&ContentHash::from_bytes(hash));
            }
        }
        Ok(())
    }
}
