//! One batch of appends, one transaction.
//!
//! First every append is decided, then the accepted ones are written: an append that conflicts is left out before a row
//! of it exists, so nothing has to be undone and no append needs a savepoint. A head is written once for each query of
//! the batch, however often it changed. If SQLite itself refuses an append (a constraint, a value too large), the batch
//! is retried without it.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    error::Error,
    sync::Arc,
};

use bosun_core::{
    ContentHash, Head, Namespace, QueryName, QueryUid, Seq, Timestamp, cache::WeightedCache,
    conversation::ConversationKey,
};
use bosun_engine::{
    fault,
    resource::ResourceChange,
    store::{IdempotentRequest, Position, Rejection, Removal, RequestKey, WebhookChange, has_work},
};
use rusqlite::{Connection, ErrorCode, OptionalExtension as _, Statement, params};

use super::{
    append_queue::{AppendQueue, Queued, QueuedRecords, Settled},
    audit::{AuditChanges, AuditKeys, AuditWriter, Heads, Maintenance, RecordWriter},
    checkpoint::Checkpoints,
    connection::Connector,
    conversations,
    writer::CommitTarget,
};

const STORED: &str = "SELECT id, seq FROM queries WHERE namespace = ?1 AND uid = ?2";
const TAKEN: &str = "SELECT 1 FROM queries WHERE namespace = ?1 AND name = ?2";
const ADD_ENTRY: &str = "INSERT INTO journal (key, at, body) VALUES (?1, ?2, ?3)";
const ADD_DOCUMENT: &str = "INSERT INTO documents (hash, body) VALUES (?1, ?2)";
const FIND_DOCUMENT: &str = "SELECT id FROM documents WHERE hash = ?1";
const ADD_REQUEST: &str = "INSERT INTO requests (namespace, actor, route, key, fingerprint, uid, name) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
const REQUESTED: &str = "SELECT 1 FROM requests WHERE namespace = ?1 AND actor = ?2 AND route = ?3 AND key = ?4";
const ADD_REFERENCE: &str = "INSERT INTO blobs (hash, query) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
const ADD_QUERY: &str = "INSERT INTO queries \
     (id, status, seq, epoch, unfinished, deadline, expires, bytes, head, approvals, uid, namespace, name, toolset, \
     conversation, history) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)";
const CHANGE_QUERY: &str = "UPDATE queries SET status = ?2, seq = ?3, epoch = coalesce(?4, epoch), unfinished = ?5, deadline = ?6, \
     expires = ?7, bytes = bytes + ?8, head = ?9, approvals = ?10 WHERE id = ?1";

/// The number of low bits of a journal key that hold the entry's sequence number; the others hold the query's row id.
pub(super) const SEQ_BITS: u32 = 24;

/// The size of the cache of document rows.
const KNOWN_DOCUMENTS: usize = 4_096;
/// The size of the cache of rows of unfinished queries.
const KNOWN_QUERIES: usize = 4_096;
/// Both are counted, not weighed: every row takes the same.
const ENTRY: usize = 1;

/// The database file, as the writer uses it.
pub(super) struct DatabaseFile {
    connector: Connector,
    /// This process's epoch; a commit fails when the database has another one.
    epoch: i64,
    /// Dropped before the connection below, which is then the last one and removes the WAL.
    checkpoints: Checkpoints,
    /// The keys that seal the audit log, if it is enabled.
    keys: Option<Arc<AuditKeys>>,
    heads: Arc<Heads>,
    /// Put back only after a successful commit: a failure or a panic leads to a fresh connection.
    open: Option<WriteConnection>,
}

pub(super) struct WriteConnection {
    pub(super) connection: Connection,
    next_id: i64,
    /// Cache of the rows of recently used documents.
    pub(super) known_documents: WeightedCache<ContentHash, i64>,
    /// Cache of the rows of recently written, unfinished queries. There is no other writer, so a cached row is up to
    /// date.
    pub(super) known_queries: WeightedCache<QueryUid, KnownQuery>,
    pub(super) audit: AuditWriter,
}

/// The row of a query after the last commit.
pub(super) struct KnownQuery {
    namespace: Namespace,
    id: i64,
    seq: Seq,
}

#[derive(Debug, thiserror::Error)]
#[error("the query's journal is full: it has {} entries", 1 << SEQ_BITS)]
struct JournalFull;

/// Why a batch was not committed.
enum CommitError {
    Fenced,
    /// SQLite refused this append of the batch; the others may be fine.
    Append(usize, rusqlite::Error),
    /// The whole batch failed, and it is not known whether it was committed.
    Disk(rusqlite::Error),
}

impl From<rusqlite::Error> for CommitError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Disk(error)
    }
}

impl DatabaseFile {
    pub(super) fn new(
        connector: Connector,
        epoch: i64,
        checkpoints: Checkpoints,
        keys: Option<Arc<AuditKeys>>,
        heads: Arc<Heads>,
    ) -> Self {
        Self { connector, epoch, checkpoints, keys, heads, open: None }
    }

    /// The connection of the last successful commit, or a fresh one.
    fn take_open(&mut self) -> Result<WriteConnection, Rejection> {
        match self.open.take() {
            Some(open) => Ok(open),
            None => {
                let audit = AuditWriter::new(self.keys.clone(), Arc::clone(&self.heads));
                WriteConnection::new(&self.connector, audit).map_err(unavailable)
            }
        }
    }

    /// Runs a transaction of its own. After a failure, the next one gets a fresh connection.
    fn run<T>(&mut self, work: impl FnOnce(&mut WriteConnection, i64) -> Result<T, Rejection>) -> Result<T, Rejection> {
        let mut open = self.take_open()?;
        let done = work(&mut open, self.epoch)?;
        self.open = Some(open);
        Ok(done)
    }
}

impl CommitTarget for DatabaseFile {
    fn commit(
        &mut self,
        batch: &[Queued],
        records: &[QueuedRecords],
        queue: &AppendQueue,
    ) -> Result<Settled, Rejection> {
        let mut open = self.take_open()?;
        let mut refused = BTreeMap::new();
        loop {
            match open.try_commit(self.epoch, batch, records, queue, &refused) {
                Ok(settled) => {
                    self.open = Some(open);
                    return Ok(settled);
                }
                Err(CommitError::Fenced) => return Err(Rejection::Fenced),
                Err(CommitError::Disk(error)) => return Err(unavailable(error)),
                Err(CommitError::Append(index, error)) => {
                    open.connection.execute_batch("ROLLBACK").map_err(unavailable)?;
                    open.known_documents.clear();
                    refused.insert(batch[index].position, unavailable(error));
                }
            }
        }
    }

    fn remove(&mut self, removal: &Removal, now: Timestamp) -> Result<usize, Rejection> {
        self.run(|open, epoch| open.remove(epoch, removal, now))
    }

    fn change_resource(&mut self, change: &ResourceChange) -> Result<(), Rejection> {
        self.run(|open, epoch| open.change_resource(epoch, change))
    }

    fn change_webhook(&mut self, change: &WebhookChange) -> Result<bool, Rejection> {
        self.run(|open, epoch| open.change_webhook(epoch, change))
    }

    fn maintain(&mut self, task: &Maintenance) -> Result<bool, Rejection> {
        self.run(|open, epoch| open.maintain(epoch, task))
    }

    fn checkpoint(&mut self) {
        if let Some(open) = &self.open
            && let Err(error) = self.checkpoints.run(&open.connection)
        {
            tracing::warn!(error = %error, "the store's log cannot be checkpointed");
            self.open = None;
        }
    }
}

fn unwritable(error: impl Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(Box::new(error))
}

pub(super) fn unavailable(error: rusqlite::Error) -> Rejection {
    Rejection::Unavailable(Arc::new(error))
}

/// The state of a query after the appends of the batch that have been decided so far.
struct QueryPlan<'a> {
    id: i64,
    seq: Seq,
    /// There is no row yet.
    is_new: bool,
    /// The first append of the batch; if the query is new, its creation.
    first: usize,
    /// The append whose head will be stored.
    latest: usize,
    bytes: usize,
    /// Whether any of them advances the query.
    moves: bool,
    /// The conversation that it joins, if it is new.
    joins: Option<&'a ConversationKey>,
    has_ended: bool,
}

impl<'a> QueryPlan<'a> {
    fn new(id: i64, seq: Seq, index: usize, append: &'a Queued) -> Self {
        let joins = append.joins.as_ref().map(|joining| &joining.key);
        Self { id, seq, is_new: seq == 0, first: index, latest: index, bytes: 0, moves: false, joins, has_ended: false }
    }
}

/// What the row of a new query refers to.
struct RowReferences {
    /// Its toolset, and its history.
    documents: [Option<i64>; 2],
    conversation: Option<String>,
}

/// What is going to be written.
#[derive(Default)]
struct CommitPlan<'a> {
    queries: HashMap<(&'a Namespace, QueryUid), QueryPlan<'a>>,
    names: HashSet<(&'a Namespace, &'a QueryName)>,
    requests: HashSet<(&'a Namespace, &'a RequestKey)>,
    /// For each conversation, the query that adds to it last.
    added: HashMap<(&'a Namespace, &'a ConversationKey), QueryUid>,
    /// The accepted appends, and the row of their query.
    kept: Vec<(usize, i64)>,
    rejected: BTreeMap<Position, Rejection>,
}

impl WriteConnection {
    fn new(connector: &Connector, audit: AuditWriter) -> rusqlite::Result<Self> {
        let connection = connector.write_after_checkpoint()?;
        let last: i64 = connection.query_row("SELECT coalesce(max(id), 0) FROM queries", [], |row| row.get(0))?;
        Ok(Self {
            connection,
            next_id: last + 1,
            known_documents: WeightedCache::new(KNOWN_DOCUMENTS),
            known_queries: WeightedCache::new(KNOWN_QUERIES),
            audit,
        })
    }

    fn try_commit(
        &mut self,
        epoch: i64,
        batch: &[Queued],
        records: &[QueuedRecords],
        queue: &AppendQueue,
        refused: &BTreeMap<Position, Rejection>,
    ) -> Result<Settled, CommitError> {
        if !self.begin(epoch)? {
            return Err(CommitError::Fenced);
        }
        let plan = self.decide(batch, queue, refused)?;
        let committed = !plan.kept.is_empty() || !records.is_empty();
        if committed {
            self.write(epoch, batch, &plan)?;
            let changes = self.write_records(batch, records, &plan)?;
            fault::point("store.commit");
            self.run("COMMIT")?;
            fault::point("store.committed");
            self.audit.committed(changes);
            self.cache_rows(&plan);
            self.next_id += plan.queries.values().filter(|query| query.is_new).count() as i64;
        } else {
            self.run("ROLLBACK")?;
        }
        Ok(Settled { committed, rejected: plan.rejected.into_iter().collect() })
    }

    /// Begins a transaction; false if another process has taken over the store.
    pub(super) fn begin(&self, epoch: i64) -> rusqlite::Result<bool> {
        self.run("BEGIN IMMEDIATE")?;
        let current: i64 =
            self.connection.prepare_cached("SELECT epoch FROM writer")?.query_row([], |row| row.get(0))?;
        Ok(current == epoch)
    }

    pub(super) fn run(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([]).map(|_| ())
    }

    /// Decides which appends are accepted. Only reads the database.
    fn decide<'a>(
        &mut self,
        batch: &'a [Queued],
        queue: &AppendQueue,
        refused: &BTreeMap<Position, Rejection>,
    ) -> rusqlite::Result<CommitPlan<'a>> {
        let mut plan = CommitPlan { rejected: refused.clone(), ..CommitPlan::default() };
        let mut next_id = self.next_id;
        for (index, append) in batch.iter().enumerate() {
            if refused.contains_key(&append.position) {
                continue;
            }
            let built_on = plan.rejected.get(&append.after).cloned().map_or_else(|| queue.outcome(append.after), Err);
            let verdict = match built_on {
                Ok(()) => self.admit(&mut plan, index, append, &mut next_id)?,
                Err(reason) => Err(reason),
            };
            if let Err(reason) = verdict {
                plan.rejected.insert(append.position, reason);
            }
        }
        Ok(plan)
    }

    /// Adds one append to the plan, or returns why it is rejected.
    fn admit<'a>(
        &mut self,
        plan: &mut CommitPlan<'a>,
        index: usize,
        append: &'a Queued,
        next_id: &mut i64,
    ) -> rusqlite::Result<Result<(), Rejection>> {
        let head = &*append.head;
        if !append.is_whole {
            return Ok(Err(Rejection::Conflict(head.uid)));
        }
        if head.seq >> SEQ_BITS != 0 {
            return Ok(Err(Rejection::Unavailable(Arc::new(JournalFull))));
        }
        let key = (&head.namespace, head.uid);
        if !plan.queries.contains_key(&key) {
            let query = match self.stored(head)? {
                Some((id, seq)) => QueryPlan::new(id, seq, index, append),
                None if append.seen != 0 => return Ok(Err(Rejection::Conflict(head.uid))),
                None if plan.names.contains(&(&head.namespace, &head.name)) || self.is_taken(head)? => {
                    return Ok(Err(Rejection::NameTaken(head.name.clone())));
                }
                None if self.is_requested(plan, append)? => return Ok(Err(Rejection::RequestTaken)),
                None if self.is_busy(plan, append)? => {
                    let id = append.joins.as_ref().map(|joining| joining.key.id.clone());
                    return Ok(Err(Rejection::ConversationBusy(id.unwrap_or_default())));
                }
                None => {
                    plan.names.insert((&head.namespace, &head.name));
                    plan.requests.extend(append.request.as_ref().map(|request| (&head.namespace, &request.key)));
                    *next_id += 1;
                    QueryPlan::new(*next_id - 1, 0, index, append)
                }
            };
            plan.queries.insert(key, query);
        }
        let Some(query) = plan.queries.get_mut(&key).filter(|query| query.seq == append.seen) else {
            return Ok(Err(Rejection::Conflict(head.uid)));
        };
        query.seq = head.seq;
        query.latest = index;
        query.moves |= append.moves;
        query.has_ended = head.status().is_final();
        query.bytes += append.rows.iter().map(|row| row.body.len()).sum::<usize>();
        plan.kept.push((index, query.id));
        plan.added.extend(append.adds.as_ref().map(|adds| ((&head.namespace, adds.key()), head.uid)));
        Ok(Ok(()))
    }

    /// Updates the cache of rows after the plan has been committed.
    fn cache_rows(&mut self, plan: &CommitPlan<'_>) {
        for (&(namespace, uid), &QueryPlan { id, seq, has_ended, .. }) in &plan.queries {
            if has_ended {
                self.known_queries.remove(&uid);
            } else {
                let known = KnownQuery { namespace: namespace.clone(), id, seq };
                drop(self.known_queries.insert(uid, known, ENTRY));
            }
        }
    }

    fn stored(&mut self, head: &Head) -> rusqlite::Result<Option<(i64, Seq)>> {
        if let Some(known) = self.known_queries.get(&head.uid).filter(|known| known.namespace == head.namespace) {
            return Ok(Some((known.id, known.seq)));
        }
        self.connection
            .prepare_cached(STORED)?
            .query_row(params![head.namespace.as_str(), head.uid.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()
    }

    fn is_taken(&self, head: &Head) -> rusqlite::Result<bool> {
        self.connection.prepare_cached(TAKEN)?.exists(params![head.namespace.as_str(), head.name.as_str()])
    }

    /// Whether another creation, in this batch or before it, has used the same idempotency key.
    fn is_requested(&self, plan: &CommitPlan<'_>, append: &Queued) -> rusqlite::Result<bool> {
        let Some(IdempotentRequest { key, .. }) = &append.request else { return Ok(false) };
        let namespace = &append.head.namespace;
        if plan.requests.contains(&(namespace, key)) {
            return Ok(true);
        }
        let mut statement = self.connection.prepare_cached(REQUESTED)?;
        statement.exists(params![namespace.as_str(), key.actor, key.route, key.key])
    }

    /// Whether the creation requires to be the only open query of its conversation and is not, or has not seen its
    /// latest exchange. Earlier appends of the batch count: queries that they create, and queries that they end.
    fn is_busy(&self, plan: &CommitPlan<'_>, append: &Queued) -> rusqlite::Result<bool> {
        let Some(joining) = append.joins.as_ref().filter(|joining| joining.alone) else { return Ok(false) };
        let namespace = &append.head.namespace;
        let created = plan.queries.iter().any(|((owner, _), query)| {
            let joins = query.joins.is_some_and(|key| *key == joining.key);
            *owner == namespace && joins && !query.has_ended
        });
        if created {
            return Ok(true);
        }
        let open = self.open_in(namespace, &conversations::text(&joining.key))?;
        if open.into_iter().any(|uid| plan.queries.get(&(namespace, uid)).is_none_or(|query| !query.has_ended)) {
            return Ok(true);
        }
        let latest = match plan.added.get(&(namespace, &joining.key)) {
            Some(uid) => Some(*uid),
            None => self.latest_in(namespace, &joining.key)?,
        };
        Ok(latest != joining.after)
    }

    fn write(&mut self, epoch: i64, batch: &[Queued], plan: &CommitPlan<'_>) -> Result<(), CommitError> {
        let mut add_entry = self.connection.prepare_cached(ADD_ENTRY)?;
        for &(index, id) in &plan.kept {
            for row in &batch[index].rows {
                add_entry
                    .execute(params![(id << SEQ_BITS) + row.seq as i64, row.at.0, row.body])
                    .map_err(|error| self.classify(index, error))?;
            }
            if let Some(change) = &batch[index].terms {
                self.write_terms(id, &batch[index].head, change).map_err(|error| self.classify(index, error))?;
            }
            for hash in &batch[index].blobs {
                self.connection
                    .prepare_cached(ADD_REFERENCE)?
                    .execute(params![hash.as_bytes(), id])
                    .map_err(|error| self.classify(index, error))?;
            }
        }
        drop(add_entry);
        for &(index, _) in &plan.kept {
            let append = &batch[index];
            self.write_creation(append).map_err(|error| self.classify(index, error))?;
            if let Some(exchange) = &append.adds {
                self.add_exchange(&append.head.namespace, exchange).map_err(|error| self.classify(index, error))?;
            }
        }
        let mut heads = Vec::with_capacity(plan.queries.len());
        for query in plan.queries.values().filter(|query| query.bytes > 0) {
            let first = &batch[query.first];
            let history = first.joins.as_ref().and_then(|joining| joining.history.as_ref());
            let mut documents = [None, None];
            for (row, document) in documents.iter_mut().zip([first.toolset.as_ref(), history]) {
                if let Some(document) = document {
                    *row = self.row_of(document.hash).map_err(|error| self.classify(query.first, error))?;
                }
            }
            let conversation = first.joins.as_ref().map(|joining| conversations::text(&joining.key));
            heads.push((query, RowReferences { documents, conversation }));
        }
        let mut add_query = self.connection.prepare_cached(ADD_QUERY)?;
        let mut change_query = self.connection.prepare_cached(CHANGE_QUERY)?;
        for (query, references) in &heads {
            let statement = if query.is_new { &mut add_query } else { &mut change_query };
            let head = &batch[query.latest].head;
            write_head(statement, epoch, query, head, references)
                .and_then(|()| self.write_claimable(query.id, head))
                .map_err(|error| self.classify(query.latest, error))?;
        }
        Ok(())
    }

    /// Writes the audit records of the accepted appends, in the order of their positions.
    fn write_records(
        &self,
        batch: &[Queued],
        records: &[QueuedRecords],
        plan: &CommitPlan<'_>,
    ) -> Result<AuditChanges, CommitError> {
        let mut changes = AuditChanges::default();
        let mut writer = RecordWriter::new(&self.connection)?;
        let mut records = records.iter().peekable();
        for &(index, _) in &plan.kept {
            let append = &batch[index];
            while let Some(queued) = records.next_if(|queued| queued.position < append.position) {
                self.audit.write(&mut writer, &mut changes, &queued.namespace, &queued.records)?;
            }
            self.audit
                .write(&mut writer, &mut changes, &append.head.namespace, &append.records)
                .map_err(|error| self.classify(index, error))?;
        }
        for queued in records {
            self.audit.write(&mut writer, &mut changes, &queued.namespace, &queued.records)?;
        }
        self.audit.finish(&self.connection, &changes)?;
        Ok(changes)
    }

    /// Writes what a creation brings besides its entries: its idempotency key and its documents.
    fn write_creation(&mut self, append: &Queued) -> rusqlite::Result<()> {
        if let Some(IdempotentRequest { key, fingerprint }) = &append.request {
            let head = &append.head;
            self.connection.prepare_cached(ADD_REQUEST)?.execute(params![
                head.namespace.as_str(),
                key.actor,
                key.route,
                key.key,
                fingerprint.as_bytes(),
                head.uid.as_bytes(),
                head.name.as_str(),
            ])?;
        }
        let history = append.joins.as_ref().and_then(|joining| joining.history.as_ref());
        for document in append.toolset.iter().chain(history) {
            if self.row_of(document.hash)?.is_none() {
                let hash = document.hash.as_bytes();
                let id = self.connection.prepare_cached(ADD_DOCUMENT)?.insert(params![hash, document.body])?;
                drop(self.known_documents.insert(document.hash, id, ENTRY));
            }
        }
        Ok(())
    }

    /// The row of this document, if it is stored.
    fn row_of(&mut self, hash: ContentHash) -> rusqlite::Result<Option<i64>> {
        if let Some(id) = self.known_documents.get(&hash) {
            return Ok(Some(*id));
        }
        let mut find = self.connection.prepare_cached(FIND_DOCUMENT)?;
        let found = find.query_row([hash.as_bytes()], |row| row.get(0)).optional()?;
        drop(find);
        if let Some(id) = found {
            drop(self.known_documents.insert(hash, id, ENTRY));
        }
        Ok(found)
    }

    /// Whether the error concerns only this append or the whole transaction.
    fn classify(&self, index: usize, error: rusqlite::Error) -> CommitError {
        let concerns_append = match error.sqlite_error_code() {
            Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch) => true,
            // It never reached SQLite: the value cannot be converted.
            None => true,
            Some(_) => false,
        };
        // Some errors end the transaction; then there is nothing left to retry.
        if concerns_append && !self.connection.is_autocommit() {
            CommitError::Append(index, error)
        } else {
            CommitError::Disk(error)
        }
    }
}

/// Writes the head of a query, by [`ADD_QUERY`] if it is new and otherwise by [`CHANGE_QUERY`].
fn write_head(
    statement: &mut Statement<'_>,
    epoch: i64,
    query: &QueryPlan<'_>,
    head: &Head,
    references: &RowReferences,
) -> rusqlite::Result<()> {
    let mut text = Vec::with_capacity(1024);
    serde_json::to_writer(&mut text, head).map_err(unwritable)?;
    let text = str::from_utf8(&text).map_err(unwritable)?;
    let deadline = head.deadline().map(|deadline| deadline.0);
    statement.raw_bind_parameter(1, query.id)?;
    statement.raw_bind_parameter(2, head.status().as_str())?;
    statement.raw_bind_parameter(3, head.seq)?;
    statement.raw_bind_parameter(4, query.moves.then_some(epoch))?;
    statement.raw_bind_parameter(5, has_work(head))?;
    statement.raw_bind_parameter(6, deadline)?;
    statement.raw_bind_parameter(7, head.kept_until().map(|until| until.0))?;
    statement.raw_bind_parameter(8, query.bytes)?;
    statement.raw_bind_parameter(9, text)?;
    statement.raw_bind_parameter(10, head.approvals().count())?;
    if query.is_new {
        statement.raw_bind_parameter(11, head.uid.as_bytes())?;
        statement.raw_bind_parameter(12, head.namespace.as_str())?;
        statement.raw_bind_parameter(13, head.name.as_str())?;
        let [toolset, history] = references.documents;
        statement.raw_bind_parameter(14, toolset)?;
        statement.raw_bind_parameter(15, references.conversation.as_deref())?;
        statement.raw_bind_parameter(16, history)?;
    }
    statement.raw_execute().map(|_| ())
}
