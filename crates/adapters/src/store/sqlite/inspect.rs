//! Read-only inspection of a store.
//!
//! Everything that a store consists of is read in one snapshot, and every fault is reported, not only the first.
//! Nothing is locked and nothing is written, so this may run next to a server and in a read-only directory. Nothing is
//! repaired either: what a journal said cannot be guessed, only restored.

pub(super) mod tables;

use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
};

use bosun_core::{ContentHash, Entry, Event, Head, QueryUid, Timestamp, Toolset, conversation::History, id::IdError};
use bosun_engine::store::has_work;
use rusqlite::{Connection, Row, Statement, Transaction};

use super::{
    connection::Connector,
    open::{self, DATABASE, OpenError},
    schema,
};

/// The directory of blobs next to the database.
pub(super) const BLOBS: &str = "blobs";

/// What a store consists of, and its faults.
#[derive(Debug, Default)]
pub struct StoreInspection {
    pub queries: u64,
    pub entries: u64,
    /// Large values in files of their own.
    pub blobs: u64,
    pub faults: Vec<StoreFault>,
}

/// A fault of a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreFault {
    #[error("there is no store in `{}`", .0.display())]
    Missing(PathBuf),
    #[error(transparent)]
    Unusable(OpenError),
    #[error("the database cannot be read")]
    Database(#[source] rusqlite::Error),
    #[error("a page of the database is damaged: {0}")]
    Page(String),
    #[error("`{0}` is missing in the database, or differs from the schema")]
    Schema(String),
    #[error("query `{query}` cannot be read")]
    Row {
        query: String,
        #[source]
        source: rusqlite::Error,
    },
    #[error("query `{query}`: entry {seq} of its journal cannot be read: {reason}")]
    Entry { query: String, seq: u64, reason: String },
    #[error("query `{query}`: its journal has no first entry, a gap, or an extra entry: {reason}")]
    Journal { query: String, reason: String },
    #[error("query `{query}`: {what} does not match its journal")]
    Head { query: String, what: &'static str },
    #[error("{0} entries belong to no query")]
    Stray(u64),
    #[error("query `{query}`: its tools, document {hash}, are missing")]
    DocumentMissing { query: String, hash: ContentHash },
    #[error("document {0} does not match its hash")]
    DocumentChanged(ContentHash),
    #[error("table `{table}`, row `{row}`: {reason}")]
    Table { table: &'static str, row: String, reason: String },
    #[error("blob {0} is missing")]
    BlobMissing(ContentHash),
    #[error("blob {0} does not match its hash")]
    BlobChanged(ContentHash),
    #[error("blob {hash} cannot be read")]
    Blob {
        hash: ContentHash,
        #[source]
        source: io::Error,
    },
}

impl StoreFault {
    /// A stable identifier of the kind of fault.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing(_) => "store_missing",
            Self::Unusable(OpenError::Newer { .. }) => "newer_schema",
            Self::Unusable(OpenError::Foreign { .. }) => "not_a_store",
            Self::Unusable(_) | Self::Database(_) => "store_unreadable",
            Self::Page(_) => "page_damaged",
            Self::Schema(_) => "schema_changed",
            Self::Row { .. } => "query_unreadable",
            Self::Entry { .. } => "entry_unreadable",
            Self::Journal { .. } => "journal_broken",
            Self::Head { .. } => "head_differs",
            Self::Stray(_) => "stray_entries",
            Self::DocumentMissing { .. } => "document_missing",
            Self::DocumentChanged(_) => "document_changed",
            Self::Table { .. } => "row_damaged",
            Self::BlobMissing(_) => "blob_missing",
            Self::BlobChanged(_) | Self::Blob { .. } => "blob_damaged",
        }
    }

    /// Whether the rest of the store can be used in spite of it: then only what it names is affected.
    #[must_use]
    pub fn is_of_one_query(&self) -> bool {
        match self {
            Self::Missing(_)
            | Self::Unusable(_)
            | Self::Database(_)
            | Self::Page(_)
            | Self::Schema(_)
            | Self::Stray(_) => false,
            Self::Row { .. }
            | Self::Entry { .. }
            | Self::Journal { .. }
            | Self::Head { .. }
            | Self::DocumentMissing { .. }
            | Self::DocumentChanged(_)
            | Self::Table { .. }
            | Self::BlobMissing(_)
            | Self::BlobChanged(_)
            | Self::Blob { .. } => true,
        }
    }
}

/// Inspects the store in `dir`.
#[must_use]
pub fn inspect(dir: &Path) -> StoreInspection {
    let mut inspection = StoreInspection::default();
    match snapshot(dir) {
        Ok(connection) => inspection.inspect_all(dir, &connection),
        Err(fault) => inspection.faults.push(fault),
    }
    inspection
}

/// A connection to a database that is ours according to its header.
pub(super) fn snapshot(dir: &Path) -> Result<Connection, StoreFault> {
    let path = dir.join(DATABASE);
    let is_absent = open::is_absent(dir, &path)
        .map_err(|source| StoreFault::Unusable(OpenError::Directory { dir: dir.into(), source }))?;
    if is_absent {
        return Err(StoreFault::Missing(dir.into()));
    }
    open::check_header(&path).map_err(StoreFault::Unusable)?;
    let connection = Connector::new(path.clone()).inspect().map_err(StoreFault::Database)?;
    let found = schema::version(&connection).map_err(StoreFault::Database)?;
    if found > schema::NEWEST as i64 {
        let known = schema::NEWEST as i64;
        return Err(StoreFault::Unusable(OpenError::Newer { path, found, known }));
    }
    Ok(connection)
}

/// A query's row, with the columns that duplicate its head.
struct ListedFile {
    id: i64,
    uid: QueryUid,
    namespace: String,
    name: String,
    status: String,
    seq: i64,
    unfinished: bool,
    deadline: Option<i64>,
    approvals: usize,
    bytes: u64,
    head: String,
}

const QUERIES: &str = "SELECT id, uid, namespace, name, status, seq, unfinished, deadline, bytes, head, approvals FROM queries ORDER BY id";
const JOURNAL: &str = "SELECT seq, at, body FROM journal WHERE key > ?1 << 24 AND key < (?1 + 1) << 24 ORDER BY key";

impl StoreInspection {
    fn inspect_all(&mut self, dir: &Path, connection: &Connection) {
        // One snapshot for everything: next to a running server, heads and journals change meanwhile.
        let snapshot = match connection.unchecked_transaction() {
            Ok(snapshot) => snapshot,
            Err(error) => return self.faults.push(StoreFault::Database(error)),
        };
        // What one check cannot read, another may.
        let looked = [
            self.check_pages(&snapshot),
            self.check_schema(&snapshot),
            self.check_documents(&snapshot),
            self.check_queries(&snapshot),
            self.check_blobs(dir, &snapshot),
            self.check_tables(&snapshot),
        ];
        self.faults.extend(looked.into_iter().filter_map(Result::err).map(StoreFault::Database));
    }

    fn check_pages(&mut self, snapshot: &Transaction<'_>) -> rusqlite::Result<()> {
        let mut statement = snapshot.prepare("PRAGMA integrity_check")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let found: String = row.get(0)?;
            if found != "ok" {
                self.faults.push(StoreFault::Page(found));
            }
        }
        Ok(())
    }

    fn check_schema(&mut self, snapshot: &Transaction<'_>) -> rusqlite::Result<()> {
        // An older version is not a fault: it is upgraded when it is opened.
        let version = usize::try_from(schema::version(snapshot)?).unwrap_or_default();
        self.faults.extend(schema::differences(snapshot, version)?.into_iter().map(StoreFault::Schema));
        Ok(())
    }

    fn check_documents(&mut self, snapshot: &Transaction<'_>) -> rusqlite::Result<()> {
        let mut statement = snapshot.prepare("SELECT hash, body FROM documents")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let hash = ContentHash::from_bytes(row.get(0)?);
            let body = row.get_ref(1)?.as_str()?;
            let is_toolset = || Toolset::from_document(body).is_ok_and(|toolset| toolset.hash() == hash);
            let is_history = || History::from_document(body).is_ok() && ContentHash::of(body.as_bytes()) == hash;
            if !is_history() && !is_toolset() {
                self.faults.push(StoreFault::DocumentChanged(hash));
            }
        }
        Ok(())
    }

    fn check_queries(&mut self, snapshot: &Transaction<'_>) -> rusqlite::Result<()> {
        let mut journal = snapshot.prepare(JOURNAL)?;
        let mut document = snapshot.prepare("SELECT 1 FROM documents WHERE hash = ?1")?;
        let mut statement = snapshot.prepare(QUERIES)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            self.queries += 1;
            let query = match listed(row) {
                Ok(query) => query,
                Err(source) => {
                    let query = format!("number {}", row.get::<_, i64>(0).unwrap_or_default());
                    self.faults.push(StoreFault::Row { query, source });
                    continue;
                }
            };
            let title = format!("{}/{}", query.namespace, query.name);
            if let Err(source) = self.check_query(&query, &title, &mut journal, &mut document) {
                self.faults.push(StoreFault::Row { query: title, source });
            }
        }
        let all: u64 = snapshot.query_row("SELECT count(*) FROM journal", [], |row| row.get(0))?;
        if all > self.entries {
            self.faults.push(StoreFault::Stray(all - self.entries));
        }
        Ok(())
    }

    fn check_query(
        &mut self,
        query: &ListedFile,
        title: &str,
        journal: &mut Statement<'_>,
        document: &mut Statement<'_>,
    ) -> rusqlite::Result<()> {
        let mut entries = Vec::new();
        let (mut bytes, mut is_readable) = (0, true);
        let mut rows = journal.query([query.id])?;
        while let Some(row) = rows.next()? {
            self.entries += 1;
            let (seq, at, body) = (row.get(0)?, Timestamp(row.get(1)?), row.get_ref(2)?.as_str()?);
            bytes += body.len() as u64;
            match Event::decode(body) {
                Ok(event) => entries.push(Entry { seq, at, event }),
                Err(error) => {
                    is_readable = false;
                    let reason = reasons(&error);
                    self.faults.push(StoreFault::Entry { query: title.into(), seq, reason });
                }
            }
        }
        if !is_readable {
            return Ok(());
        }
        let folded = match fold(query, &entries) {
            Ok(folded) => folded,
            Err(reason) => {
                self.faults.push(StoreFault::Journal { query: title.into(), reason });
                return Ok(());
            }
        };
        self.compare(query, title, &folded, bytes);
        if let Some(Event::Created { spec, .. }) = entries.first().map(|entry| &entry.event) {
            let history = spec.conversation.as_ref().and_then(|conversation| conversation.history);
            for hash in std::iter::once(spec.toolset).chain(history) {
                if !document.exists([hash.as_bytes()])? {
                    self.faults.push(StoreFault::DocumentMissing { query: title.into(), hash });
                }
            }
        }
        Ok(())
    }

    /// Compares the row of a query with the fold of its journal.
    fn compare(&mut self, query: &ListedFile, title: &str, folded: &Head, bytes: u64) {
        let stored = serde_json::from_str::<Head>(&query.head);
        let differs = [
            ("its head", !stored.is_ok_and(|stored| stored == *folded)),
            ("its status", query.status != folded.status().as_str()),
            ("the sequence number of its last entry", u64::try_from(query.seq) != Ok(folded.seq)),
            ("whether it has work", query.unfinished != has_work(folded)),
            ("its deadline", query.deadline != folded.deadline().map(|deadline| deadline.0)),
            ("the number of its open approvals", query.approvals != folded.approvals().count()),
            ("the size of its journal", query.bytes != bytes),
        ];
        let differs = differs.into_iter().filter(|(_, differs)| *differs);
        self.faults.extend(differs.map(|(what, _)| StoreFault::Head { query: title.into(), what }));
    }

    fn check_blobs(&mut self, dir: &Path, snapshot: &Transaction<'_>) -> rusqlite::Result<()> {
        for hash in blobs(snapshot)? {
            self.blobs += 1;
            let fault = match fs::read(dir.join(BLOBS).join(hash.to_string())) {
                Ok(bytes) if ContentHash::of(&bytes) == hash => continue,
                Ok(_) => StoreFault::BlobChanged(hash),
                Err(error) if error.kind() == io::ErrorKind::NotFound => StoreFault::BlobMissing(hash),
                Err(source) => StoreFault::Blob { hash, source },
            };
            self.faults.push(fault);
        }
        Ok(())
    }
}

fn listed(row: &Row<'_>) -> rusqlite::Result<ListedFile> {
    Ok(ListedFile {
        id: row.get(0)?,
        uid: QueryUid::from_bytes(row.get(1)?),
        namespace: row.get(2)?,
        name: row.get(3)?,
        status: row.get(4)?,
        seq: row.get(5)?,
        unfinished: row.get(6)?,
        deadline: row.get(7)?,
        bytes: row.get(8)?,
        head: row.get(9)?,
        approvals: row.get(10)?,
    })
}

fn fold(query: &ListedFile, entries: &[Entry]) -> Result<Head, String> {
    let namespace = query.namespace.parse().map_err(|error: IdError| error.to_string())?;
    let name = query.name.parse().map_err(|error: IdError| error.to_string())?;
    let Some((first, rest)) = entries.split_first() else { return Err("it is empty".into()) };
    let mut head = Head::new(query.uid, namespace, name, first).map_err(|error| error.to_string())?;
    rest.iter().try_for_each(|entry| head.apply(entry)).map_err(|error| error.to_string())?;
    Ok(head)
}

/// The blobs that any query refers to.
pub(super) fn blobs(connection: &Connection) -> rusqlite::Result<HashSet<ContentHash>> {
    if !connection.table_exists(None, "blobs")? {
        return Ok(HashSet::new());
    }
    let mut statement = connection.prepare("SELECT DISTINCT hash FROM blobs")?;
    statement.query_map([], |row| row.get(0).map(ContentHash::from_bytes))?.collect()
}

/// An error with its sources, on one line.
fn reasons(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
