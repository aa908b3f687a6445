//! Reads, concurrent to the writer and never blocking it.
//!
//! Every read is one statement or one transaction, so it sees whole commits and never a part of one. A few idle
//! connections are pooled; a connection that has failed is not reused.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use bosun_core::{
    CallId, ContentHash, Entry, Event, Head, Namespace, QueryName, QueryUid, Seq, Timestamp, event::DecodeError,
    journal::JournalSize,
};
use bosun_engine::store::{Answered, RequestKey, Runnable, StoreError, Stored, WantedQueries};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::connection::Connector;

/// The number of idle connections that are kept.
const IDLE: usize = 8;

#[derive(Debug)]
pub(super) struct Readers {
    connector: Connector,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(super) fn new(connector: Connector) -> Self {
        Self { connector, idle: Mutex::default() }
    }

    /// Reads on a connection that no other reader uses meanwhile.
    pub(super) fn read<T>(&self, read: impl FnOnce(&Connection) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => self.connector.read().map_err(unavailable)?,
        };
        let result = read(&connection);
        if !matches!(result, Err(StoreError::Unavailable(_))) {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.len() < IDLE {
                idle.push(connection);
            }
        }
        result
    }

    /// Closes the idle connections.
    pub(super) fn close(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

pub(super) fn unavailable(error: rusqlite::Error) -> StoreError {
    StoreError::Unavailable(Box::new(error))
}

/// A journal is contiguous, from `id << 24` on; its first entry has sequence number 1.
pub(super) const LOAD: &str = "SELECT uid, bytes, head, journal.seq, at, body FROM queries JOIN journal \
     ON key > id << 24 AND key < (id + 1) << 24 WHERE namespace = ?1 AND name = ?2 ORDER BY key";
pub(super) const IN_USE: &str = "SELECT EXISTS (SELECT 1 FROM queries WHERE namespace = ?1) \
     OR EXISTS (SELECT 1 FROM conversations WHERE namespace = ?1)";
pub(super) const NEXT_NAMESPACE: &str = "SELECT namespace FROM queries WHERE namespace > ?1 ORDER BY namespace LIMIT 1";
pub(super) const NEXT_NAMESPACE_WITH_CONVERSATIONS: &str =
    "SELECT namespace FROM conversations WHERE namespace > ?1 ORDER BY namespace LIMIT 1";
pub(super) const NEXT_NAMESPACE_WITH_WORK: &str =
    "SELECT namespace FROM queries WHERE unfinished = 1 AND namespace > ?1 ORDER BY namespace LIMIT 1";
// No LIMIT either: rows that already have a driver do not count.
pub(super) const RUNNABLE: &str =
    "SELECT name, epoch FROM queries WHERE unfinished = 1 AND namespace = ?1 ORDER BY uid";
pub(super) const COUNT_RUNNABLE: &str =
    "SELECT namespace, count(*) FROM queries WHERE unfinished = 1 GROUP BY namespace";
pub(super) const COUNT_WAITING: &str = "SELECT count(*) FROM queries WHERE deadline IS NOT NULL";
pub(super) const ANSWERED: &str = "SELECT fingerprint, uid, name FROM requests \
     WHERE namespace = ?1 AND actor = ?2 AND route = ?3 AND key = ?4";
pub(super) const IS_OUTDATED: &str = "SELECT EXISTS (SELECT 1 FROM queries WHERE expires <= ?1) \
     OR EXISTS (SELECT 1 FROM requests WHERE expires <= ?1) \
     OR EXISTS (SELECT 1 FROM conversations WHERE expires <= ?1)";
pub(super) const REFERRED: &str = "SELECT 1 FROM blobs WHERE hash = ?1";
pub(super) const CLAIMABLE: &str = "SELECT queries.id, queries.name, claimable.call FROM claimable \
     JOIN queries ON queries.id = claimable.query WHERE claimable.namespace = ?1 AND claimable.tool = ?2 \
     ORDER BY claimable.query LIMIT ?3";
pub(super) const DUE: &str = "SELECT namespace, name FROM queries WHERE deadline <= ?1 ORDER BY deadline LIMIT ?2";
pub(super) const NEXT_DEADLINE: &str = "SELECT min(deadline) FROM queries WHERE deadline IS NOT NULL";

/// The result of a bounded load.
pub(super) enum FoundRow {
    Nothing,
    Query(Box<Stored>),
    /// The journal has more bytes than the caller allows.
    TooLong,
}

/// A query and its journal, if that has at most `longest` bytes.
pub(super) fn load(
    connection: &Connection,
    namespace: &Namespace,
    name: &QueryName,
    longest: u64,
) -> Result<FoundRow, StoreError> {
    let mut statement = connection.prepare_cached(LOAD).map_err(unavailable)?;
    let mut rows = statement.query(params![namespace.as_str(), name.as_str()]).map_err(unavailable)?;
    let Some(first) = rows.next().map_err(unavailable)? else { return Ok(FoundRow::Nothing) };
    let uid = uid(first, 0)?;
    if first.get::<_, u64>(1).map_err(unavailable)? > longest {
        return Ok(FoundRow::TooLong);
    }
    let head = head(uid, first, 2);
    let mut size = JournalSize::default();
    let mut entries = vec![counted(uid, first, 3, &mut size)?];
    while let Some(row) = rows.next().map_err(unavailable)? {
        entries.push(counted(uid, row, 3, &mut size)?);
    }
    let head = match head {
        Ok(head) => head,
        Err(error) => fold(uid, namespace, name, &entries, error)?,
    };
    Ok(FoundRow::Query(Box::new(Stored { head, entries, size })))
}

/// The head is a cache of the fold of the journal. If it cannot be read, the journal is folded again.
fn fold(
    uid: QueryUid,
    namespace: &Namespace,
    name: &QueryName,
    entries: &[Entry],
    error: StoreError,
) -> Result<Head, StoreError> {
    tracing::warn!(query = %uid, error = %error, "the head is not readable and is folded from the journal");
    let Some((first, rest)) = entries.split_first() else { return Err(error) };
    let mut head = Head::new(uid, namespace.clone(), name.clone(), first)?;
    rest.iter().try_for_each(|entry| head.apply(entry))?;
    Ok(head)
}

pub(super) fn answered(
    connection: &Connection,
    namespace: &Namespace,
    key: &RequestKey,
) -> Result<Option<Answered>, StoreError> {
    let mut statement = connection.prepare_cached(ANSWERED).map_err(unavailable)?;
    let mut rows = statement.query(params![namespace.as_str(), key.actor, key.route, key.key]).map_err(unavailable)?;
    let Some(row) = rows.next().map_err(unavailable)? else { return Ok(None) };
    let fingerprint = row.get(0).map(ContentHash::from_bytes).map_err(unavailable)?;
    Ok(Some(Answered { fingerprint, uid: uid(row, 1)?, name: name(row, 2)? }))
}

/// Whether anything is past its retention.
pub(super) fn is_outdated(connection: &Connection, now: Timestamp) -> Result<bool, StoreError> {
    connection
        .prepare_cached(IS_OUTDATED)
        .and_then(|mut statement| statement.query_row([now.0], |row| row.get(0)))
        .map_err(unavailable)
}

pub(super) fn document(connection: &Connection, hash: ContentHash) -> Result<Option<Arc<str>>, StoreError> {
    connection
        .prepare_cached("SELECT body FROM documents WHERE hash = ?1")
        .and_then(|mut statement| statement.query_row([hash.as_bytes()], |row| row.get(0)).optional())
        .map_err(unavailable)
}

pub(super) fn referred(connection: &Connection, blobs: &[ContentHash]) -> Result<HashSet<ContentHash>, StoreError> {
    let mut statement = connection.prepare_cached(REFERRED).map_err(unavailable)?;
    let mut referred = HashSet::new();
    for hash in blobs {
        if statement.exists([hash.as_bytes()]).map_err(unavailable)? {
            referred.insert(*hash);
        }
    }
    Ok(referred)
}

pub(super) fn is_in_use(connection: &Connection, namespace: &Namespace) -> Result<bool, StoreError> {
    connection
        .prepare_cached(IN_USE)
        .and_then(|mut statement| statement.query_row([namespace.as_str()], |row| row.get(0)))
        .map_err(unavailable)
}

pub(super) fn namespaces(connection: &Connection) -> Result<Vec<Namespace>, StoreError> {
    let mut found = each_namespace(connection, NEXT_NAMESPACE)?;
    found.extend(each_namespace(connection, NEXT_NAMESPACE_WITH_CONVERSATIONS)?);
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// The namespaces that `next` finds, one index lookup each.
fn each_namespace(connection: &Connection, next: &str) -> Result<Vec<Namespace>, StoreError> {
    let mut statement = connection.prepare_cached(next).map_err(unavailable)?;
    let mut found: Vec<Namespace> = Vec::new();
    loop {
        let last = found.last().map_or("", Namespace::as_str);
        let mut rows = statement.query([last]).map_err(unavailable)?;
        match rows.next().map_err(unavailable)? {
            Some(row) => found.push(name(row, 0)?),
            None => return Ok(found),
        }
    }
}

pub(super) fn runnable(
    connection: &Connection,
    epoch: i64,
    wanted: &WantedQueries,
) -> Result<Vec<Runnable>, StoreError> {
    let snapshot = connection.unchecked_transaction().map_err(unavailable)?;
    let namespaces = wanted.round_robin(each_namespace(&snapshot, NEXT_NAMESPACE_WITH_WORK)?);
    let share = wanted.share(namespaces.len());
    let mut lists = Vec::with_capacity(namespaces.len());
    for namespace in namespaces {
        let mut statement = snapshot.prepare_cached(RUNNABLE).map_err(unavailable)?;
        let mut rows = statement.query([namespace.as_str()]).map_err(unavailable)?;
        let mut list = Vec::new();
        while list.len() < share
            && let Some(row) = rows.next().map_err(unavailable)?
        {
            let key = (namespace.clone(), name(row, 0)?);
            if !wanted.except.contains(&key) {
                list.push(Runnable { key, inherited: row.get::<_, i64>(1).map_err(unavailable)? < epoch });
            }
        }
        lists.push(list);
    }
    Ok(wanted.interleave(lists))
}

pub(super) fn count_waiting(connection: &Connection) -> Result<usize, StoreError> {
    connection
        .prepare_cached(COUNT_WAITING)
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
        .map_err(unavailable)
}

pub(super) fn count_runnable(connection: &Connection) -> Result<Vec<(Namespace, usize)>, StoreError> {
    let mut statement = connection.prepare_cached(COUNT_RUNNABLE).map_err(unavailable)?;
    let mut rows = statement.query([]).map_err(unavailable)?;
    let mut counts = Vec::new();
    while let Some(row) = rows.next().map_err(unavailable)? {
        counts.push((name(row, 0)?, row.get(1).map_err(unavailable)?));
    }
    Ok(counts)
}

pub(super) fn due(
    connection: &Connection,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<(Namespace, QueryName)>, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(DUE).map_err(unavailable)?;
    let mut rows = statement.query(params![now.0, limit]).map_err(unavailable)?;
    let mut due = Vec::new();
    while let Some(row) = rows.next().map_err(unavailable)? {
        due.push((name(row, 0)?, name(row, 1)?));
    }
    Ok(due)
}

/// Open calls of these tools, of the oldest queries first.
pub(super) fn claimable(
    connection: &Connection,
    namespace: &Namespace,
    tools: &[String],
    limit: usize,
) -> Result<Vec<(QueryName, CallId)>, StoreError> {
    let mut statement = connection.prepare_cached(CLAIMABLE).map_err(unavailable)?;
    let rows_of_all = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut found = Vec::new();
    for tool in tools {
        let mut rows = statement.query(params![namespace.as_str(), tool, rows_of_all]).map_err(unavailable)?;
        while let Some(row) = rows.next().map_err(unavailable)? {
            let id: i64 = row.get(0).map_err(unavailable)?;
            let call: CallId = name(row, 2)?;
            found.push((id, name(row, 1)?, call));
        }
    }
    found.sort_by_key(|(id, _, _)| *id);
    found.truncate(limit);
    Ok(found.into_iter().map(|(_, query, call)| (query, call)).collect())
}

pub(super) fn next_deadline(connection: &Connection) -> Result<Option<Timestamp>, StoreError> {
    connection
        .prepare_cached(NEXT_DEADLINE)
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
        .map(|deadline: Option<i64>| deadline.map(Timestamp))
        .map_err(unavailable)
}

/// A query that cannot be read must not hide the others: it is left out, and logged.
pub(super) fn readable<T>(uid: QueryUid, result: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error @ StoreError::Unreadable { .. }) => {
            tracing::error!(query = %uid, error = %error, "a query is left out because it is not readable");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

pub(super) fn uid(row: &Row<'_>, column: usize) -> Result<QueryUid, StoreError> {
    row.get(column).map(QueryUid::from_bytes).map_err(unavailable)
}

pub(super) fn name<T: std::str::FromStr<Err: std::error::Error + Send + Sync + 'static>>(
    row: &Row<'_>,
    column: usize,
) -> Result<T, StoreError> {
    let text = row.get_ref(column).and_then(|value| Ok(value.as_str()?)).map_err(unavailable)?;
    text.parse().map_err(|error| StoreError::Unavailable(Box::new(error)))
}

pub(super) fn head(uid: QueryUid, row: &Row<'_>, column: usize) -> Result<Head, StoreError> {
    let text = row.get_ref(column).and_then(|value| Ok(value.as_str()?)).map_err(unavailable)?;
    serde_json::from_str(text).map_err(|error| StoreError::Unreadable { uid, source: DecodeError::Malformed(error) })
}

/// The entry in three columns: `seq`, `at` and `body`.
pub(super) fn entry(uid: QueryUid, row: &Row<'_>, column: usize) -> Result<Entry, StoreError> {
    counted(uid, row, column, &mut JournalSize::default())
}

fn counted(uid: QueryUid, row: &Row<'_>, column: usize, size: &mut JournalSize) -> Result<Entry, StoreError> {
    let seq: Seq = row.get(column).map_err(unavailable)?;
    let at: i64 = row.get(column + 1).map_err(unavailable)?;
    let body = row.get_ref(column + 2).and_then(|value| Ok(value.as_str()?)).map_err(unavailable)?;
    let event = Event::decode(body).map_err(|source| StoreError::Unreadable { uid, source })?;
    *size += JournalSize::of_entry(&event, body);
    Ok(Entry { seq, at: Timestamp(at), event })
}
