//! One group of appends, one transaction.
//!
//! First everything is decided, then the rest is written: an append that conflicts is left out before
//! a row of it exists, so nothing has to be undone and no append needs a savepoint of its own. A head
//! is written once for each query of the group, however often it changed. If SQLite itself refuses an
//! append (a row that should not be there, a value too large), the group is done again without it.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    error::Error,
    sync::Arc,
};

use bosun_core::{ContentHash, Head, Namespace, QueryName, QueryUid, Seq, Timestamp, conversation::ConversationKey};
use bosun_engine::{
    fault,
    resource::ResourceChange,
    store::{Position, Rejection, Removal, Request, RequestKey, has_work},
};
use rusqlite::{Connection, ErrorCode, OptionalExtension as _, Statement, params};

use super::{
    audit::{AuditKeys, Book, Chore, Heads, Pages, Pen},
    checkpoint::Checkpoints,
    connect::Connector,
    conversations,
    ledger::{Ledger, Note, Queued, Settled},
    writer::Disk,
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
     (id, status, seq, epoch, unfinished, deadline, expires, bytes, head, uid, namespace, name, toolset, \
     conversation, history) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)";
const CHANGE_QUERY: &str = "UPDATE queries SET status = ?2, seq = ?3, epoch = coalesce(?4, epoch), unfinished = ?5, deadline = ?6, \
     expires = ?7, bytes = bytes + ?8, head = ?9 WHERE id = ?1";

/// How many bits of a journal's key are the entry's number; the others are its query.
pub(super) const SEQ_BITS: u32 = 24;

/// How many documents are remembered as stored; then the list is begun anew.
const KNOWN_DOCUMENTS: usize = 4_096;
/// The same of queries that have not ended.
const KNOWN_QUERIES: usize = 4_096;

/// The database file, as the writer has it.
pub(super) struct File {
    connector: Connector,
    /// Of this process; a commit fails when the database has another.
    epoch: i64,
    /// Dropped before the connection below, which then is the last one and cleans the log up.
    checkpoints: Checkpoints,
    /// What the audit log is sealed with, if there is one.
    keys: Option<Arc<AuditKeys>>,
    heads: Arc<Heads>,
    /// Put back only after a commit that went well: what failed, or panicked, gets a fresh connection.
    open: Option<Open>,
}

pub(super) struct Open {
    pub(super) connection: Connection,
    next_id: i64,
    /// The rows of documents that were used lately.
    pub(super) known: HashMap<ContentHash, i64>,
    /// The rows of queries that were written lately and go on: nobody else writes, so they are as they were left.
    pub(super) left: HashMap<QueryUid, Left>,
    pub(super) book: Book,
}

/// How a commit left the row of a query.
pub(super) struct Left {
    namespace: Namespace,
    id: i64,
    seq: Seq,
}

#[derive(Debug, thiserror::Error)]
#[error("the query's journal is full: it has {} entries", 1 << SEQ_BITS)]
struct JournalFull;

/// Why a group was not committed.
enum Fault {
    Fenced,
    /// SQLite refused this append of the group; the others may be fine.
    Append(usize, rusqlite::Error),
    /// The whole group failed, and whether it was kept is not known.
    Disk(rusqlite::Error),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Disk(error)
    }
}

impl File {
    pub(super) fn new(
        connector: Connector,
        epoch: i64,
        checkpoints: Checkpoints,
        keys: Option<Arc<AuditKeys>>,
        heads: Arc<Heads>,
    ) -> Self {
        Self { connector, epoch, checkpoints, keys, heads, open: None }
    }

    /// The connection of the last commit that went well, or a fresh one.
    fn take_open(&mut self) -> Result<Open, Rejection> {
        match self.open.take() {
            Some(open) => Ok(open),
            None => {
                let book = Book::new(self.keys.clone(), Arc::clone(&self.heads));
                Open::new(&self.connector, book).map_err(unavailable)
            }
        }
    }
}

impl Disk for File {
    fn commit(&mut self, group: &[Queued], notes: &[Note], ledger: &Ledger) -> Result<Settled, Rejection> {
        let mut open = self.take_open()?;
        let mut refused = BTreeMap::new();
        loop {
            match open.try_commit(self.epoch, group, notes, ledger, &refused) {
                Ok(settled) => {
                    self.open = Some(open);
                    return Ok(settled);
                }
                Err(Fault::Fenced) => return Err(Rejection::Fenced),
                Err(Fault::Disk(error)) => return Err(unavailable(error)),
                Err(Fault::Append(index, error)) => {
                    open.connection.execute_batch("ROLLBACK").map_err(unavailable)?;
                    open.known.clear();
                    refused.insert(group[index].position, unavailable(error));
                }
            }
        }
    }

    fn remove(&mut self, removal: &Removal, now: Timestamp) -> Result<usize, Rejection> {
        let mut open = self.take_open()?;
        let removed = open.remove(self.epoch, removal, now)?;
        self.open = Some(open);
        Ok(removed)
    }

    fn change_resource(&mut self, change: &ResourceChange) -> Result<(), Rejection> {
        let mut open = self.take_open()?;
        open.change_resource(self.epoch, change)?;
        self.open = Some(open);
        Ok(())
    }

    fn tend(&mut self, chore: &Chore) -> Result<bool, Rejection> {
        let mut open = self.take_open()?;
        let done = open.tend(self.epoch, chore)?;
        self.open = Some(open);
        Ok(done)
    }

    fn tidy(&mut self) {
        if let Some(open) = &self.open
            && let Err(error) = self.checkpoints.tend(&open.connection)
        {
            tracing::warn!(error = %error, "the store's log cannot be looked after");
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

/// Where a query of the group stands after the appends that have been looked at.
struct Standing<'a> {
    id: i64,
    seq: Seq,
    /// There is no row yet.
    is_new: bool,
    /// The first append of the group; if the query is new, its creation.
    first: usize,
    /// The append whose head is to be stored.
    latest: usize,
    bytes: usize,
    /// Whether it goes on by any of them.
    moves: bool,
    /// The conversation that it joins, if it is new.
    joins: Option<&'a ConversationKey>,
    has_ended: bool,
}

impl<'a> Standing<'a> {
    fn new(id: i64, seq: Seq, index: usize, append: &'a Queued) -> Self {
        let joins = append.joins.as_ref().map(|joining| &joining.key);
        Self { id, seq, is_new: seq == 0, first: index, latest: index, bytes: 0, moves: false, joins, has_ended: false }
    }
}

/// What the row of a new query refers to.
struct Refers {
    /// Its toolset, and what was said before it.
    documents: [Option<i64>; 2],
    conversation: Option<String>,
}

/// What is to be written.
#[derive(Default)]
struct Plan<'a> {
    queries: HashMap<(&'a Namespace, QueryUid), Standing<'a>>,
    names: HashSet<(&'a Namespace, &'a QueryName)>,
    requests: HashSet<(&'a Namespace, &'a RequestKey)>,
    /// The query that adds last to each conversation that is added to.
    added: HashMap<(&'a Namespace, &'a ConversationKey), QueryUid>,
    /// Appends that are kept, and the row of their query.
    kept: Vec<(usize, i64)>,
    rejected: BTreeMap<Position, Rejection>,
}

impl Open {
    fn new(connector: &Connector, book: Book) -> rusqlite::Result<Self> {
        let connection = connector.write_on_certain_ground()?;
        let last: i64 = connection.query_row("SELECT coalesce(max(id), 0) FROM queries", [], |row| row.get(0))?;
        Ok(Self { connection, next_id: last + 1, known: HashMap::new(), left: HashMap::new(), book })
    }

    fn try_commit(
        &mut self,
        epoch: i64,
        group: &[Queued],
        notes: &[Note],
        ledger: &Ledger,
        refused: &BTreeMap<Position, Rejection>,
    ) -> Result<Settled, Fault> {
        if !self.begin(epoch)? {
            return Err(Fault::Fenced);
        }
        let plan = self.decide(group, ledger, refused)?;
        let committed = !plan.kept.is_empty() || !notes.is_empty();
        if committed {
            self.write(epoch, group, &plan)?;
            let pages = self.write_records(group, notes, &plan)?;
            fault::point("store.commit");
            self.run("COMMIT")?;
            fault::point("store.committed");
            self.book.turn(pages);
            self.remember(&plan);
            self.next_id += plan.queries.values().filter(|query| query.is_new).count() as i64;
        } else {
            self.run("ROLLBACK")?;
        }
        Ok(Settled { committed, rejected: plan.rejected.into_iter().collect() })
    }

    /// Begins a transaction; false if the store is no longer ours.
    pub(super) fn begin(&self, epoch: i64) -> rusqlite::Result<bool> {
        self.run("BEGIN IMMEDIATE")?;
        let current: i64 =
            self.connection.prepare_cached("SELECT epoch FROM writer")?.query_row([], |row| row.get(0))?;
        Ok(current == epoch)
    }

    pub(super) fn run(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([]).map(|_| ())
    }

    /// Which appends are kept. Reads only.
    fn decide<'a>(
        &self,
        group: &'a [Queued],
        ledger: &Ledger,
        refused: &BTreeMap<Position, Rejection>,
    ) -> rusqlite::Result<Plan<'a>> {
        let mut plan = Plan { rejected: refused.clone(), ..Plan::default() };
        let mut next_id = self.next_id;
        for (index, append) in group.iter().enumerate() {
            if refused.contains_key(&append.position) {
                continue;
            }
            let built_on = plan.rejected.get(&append.after).cloned().map_or_else(|| ledger.fate(append.after), Err);
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

    /// Takes one append into the plan, or says why not.
    fn admit<'a>(
        &self,
        plan: &mut Plan<'a>,
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
            let standing = match self.stored(head)? {
                Some((id, seq)) => Standing::new(id, seq, index, append),
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
                    Standing::new(*next_id - 1, 0, index, append)
                }
            };
            plan.queries.insert(key, standing);
        }
        let Some(standing) = plan.queries.get_mut(&key).filter(|standing| standing.seq == append.seen) else {
            return Ok(Err(Rejection::Conflict(head.uid)));
        };
        standing.seq = head.seq;
        standing.latest = index;
        standing.moves |= append.moves;
        standing.has_ended = head.status().is_final();
        standing.bytes += append.rows.iter().map(|row| row.body.len()).sum::<usize>();
        plan.kept.push((index, standing.id));
        plan.added.extend(append.adds.as_ref().map(|adds| ((&head.namespace, adds.key()), head.uid)));
        Ok(Ok(()))
    }

    /// The plan is committed.
    fn remember(&mut self, plan: &Plan<'_>) {
        if self.left.len() >= KNOWN_QUERIES {
            self.left.clear();
        }
        for (&(namespace, uid), &Standing { id, seq, has_ended, .. }) in &plan.queries {
            if has_ended {
                self.left.remove(&uid);
            } else {
                self.left.insert(uid, Left { namespace: namespace.clone(), id, seq });
            }
        }
    }

    fn stored(&self, head: &Head) -> rusqlite::Result<Option<(i64, Seq)>> {
        if let Some(left) = self.left.get(&head.uid).filter(|left| left.namespace == head.namespace) {
            return Ok(Some((left.id, left.seq)));
        }
        self.connection
            .prepare_cached(STORED)?
            .query_row(params![head.namespace.as_str(), head.uid.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()
    }

    fn is_taken(&self, head: &Head) -> rusqlite::Result<bool> {
        self.connection.prepare_cached(TAKEN)?.exists(params![head.namespace.as_str(), head.name.as_str()])
    }

    /// Whether another creation, of this group or before it, answered the request of this one.
    fn is_requested(&self, plan: &Plan<'_>, append: &Queued) -> rusqlite::Result<bool> {
        let Some(Request { key, .. }) = &append.request else { return Ok(false) };
        let namespace = &append.head.namespace;
        if plan.requests.contains(&(namespace, key)) {
            return Ok(true);
        }
        let mut statement = self.connection.prepare_cached(REQUESTED)?;
        statement.exists(params![namespace.as_str(), key.actor, key.route, key.key])
    }

    /// Whether the creation wants to be alone in its conversation and is not, or does not know all of it. What the
    /// group does before it counts: queries that it creates, and queries that it ends.
    fn is_busy(&self, plan: &Plan<'_>, append: &Queued) -> rusqlite::Result<bool> {
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

    fn write(&mut self, epoch: i64, group: &[Queued], plan: &Plan<'_>) -> Result<(), Fault> {
        let mut add_entry = self.connection.prepare_cached(ADD_ENTRY)?;
        for &(index, id) in &plan.kept {
            for row in &group[index].rows {
                add_entry
                    .execute(params![(id << SEQ_BITS) + row.seq as i64, row.at.0, row.body])
                    .map_err(|error| self.blame(index, error))?;
            }
            for hash in &group[index].blobs {
                self.connection
                    .prepare_cached(ADD_REFERENCE)?
                    .execute(params![hash.as_bytes(), id])
                    .map_err(|error| self.blame(index, error))?;
            }
        }
        drop(add_entry);
        for &(index, _) in &plan.kept {
            let append = &group[index];
            self.write_creation(append).map_err(|error| self.blame(index, error))?;
            if let Some(exchange) = &append.adds {
                self.add_exchange(&append.head.namespace, exchange).map_err(|error| self.blame(index, error))?;
            }
        }
        let mut heads = Vec::with_capacity(plan.queries.len());
        for standing in plan.queries.values().filter(|standing| standing.bytes > 0) {
            let first = &group[standing.first];
            let history = first.joins.as_ref().and_then(|joining| joining.history.as_ref());
            let mut documents = [None, None];
            for (row, document) in documents.iter_mut().zip([first.toolset.as_ref(), history]) {
                if let Some(document) = document {
                    *row = self.row_of(document.hash).map_err(|error| self.blame(standing.first, error))?;
                }
            }
            let conversation = first.joins.as_ref().map(|joining| conversations::text(&joining.key));
            heads.push((standing, Refers { documents, conversation }));
        }
        let mut add_query = self.connection.prepare_cached(ADD_QUERY)?;
        let mut change_query = self.connection.prepare_cached(CHANGE_QUERY)?;
        for (standing, refers) in &heads {
            let statement = if standing.is_new { &mut add_query } else { &mut change_query };
            write_head(statement, epoch, standing, &group[standing.latest].head, refers)
                .map_err(|error| self.blame(standing.latest, error))?;
        }
        Ok(())
    }

    /// What the audit log says of what is kept, in the order in which it was appended.
    fn write_records(&self, group: &[Queued], notes: &[Note], plan: &Plan<'_>) -> Result<Pages, Fault> {
        let mut pages = Pages::default();
        let mut pen = Pen::new(&self.connection)?;
        let mut notes = notes.iter().peekable();
        for &(index, _) in &plan.kept {
            let append = &group[index];
            while let Some(note) = notes.next_if(|note| note.position < append.position) {
                self.book.write(&mut pen, &mut pages, &note.namespace, &note.lines)?;
            }
            self.book
                .write(&mut pen, &mut pages, &append.head.namespace, &append.lines)
                .map_err(|error| self.blame(index, error))?;
        }
        for note in notes {
            self.book.write(&mut pen, &mut pages, &note.namespace, &note.lines)?;
        }
        self.book.finish(&self.connection, &pages)?;
        Ok(pages)
    }

    /// What a creation brings beside its entries.
    fn write_creation(&mut self, append: &Queued) -> rusqlite::Result<()> {
        if let Some(Request { key, fingerprint }) = &append.request {
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
                self.known.insert(document.hash, id);
            }
        }
        Ok(())
    }

    /// Where this document lies, if it is there.
    fn row_of(&mut self, hash: ContentHash) -> rusqlite::Result<Option<i64>> {
        if let Some(id) = self.known.get(&hash) {
            return Ok(Some(*id));
        }
        let mut find = self.connection.prepare_cached(FIND_DOCUMENT)?;
        let found = find.query_row([hash.as_bytes()], |row| row.get(0)).optional()?;
        drop(find);
        if self.known.len() >= KNOWN_DOCUMENTS {
            self.known.clear();
        }
        self.known.extend(found.map(|id| (hash, id)));
        Ok(found)
    }

    /// Whether the fault is this append's or the disk's.
    fn blame(&self, index: usize, error: rusqlite::Error) -> Fault {
        let of_the_append = match error.sqlite_error_code() {
            Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch) => true,
            // It never came to SQLite: the value has no form there.
            None => true,
            Some(_) => false,
        };
        // Some faults end the transaction; then there is nothing left to save.
        if of_the_append && !self.connection.is_autocommit() { Fault::Append(index, error) } else { Fault::Disk(error) }
    }
}

/// Writes where a query stands, by [`ADD_QUERY`] if it is new and else by [`CHANGE_QUERY`].
fn write_head(
    statement: &mut Statement<'_>,
    epoch: i64,
    standing: &Standing<'_>,
    head: &Head,
    refers: &Refers,
) -> rusqlite::Result<()> {
    let mut text = Vec::with_capacity(1024);
    serde_json::to_writer(&mut text, head).map_err(unwritable)?;
    let text = str::from_utf8(&text).map_err(unwritable)?;
    let deadline = head.deadline().map(|deadline| deadline.0);
    statement.raw_bind_parameter(1, standing.id)?;
    statement.raw_bind_parameter(2, head.status().as_str())?;
    statement.raw_bind_parameter(3, head.seq)?;
    statement.raw_bind_parameter(4, standing.moves.then_some(epoch))?;
    statement.raw_bind_parameter(5, has_work(head))?;
    statement.raw_bind_parameter(6, deadline)?;
    statement.raw_bind_parameter(7, head.kept_until().map(|until| until.0))?;
    statement.raw_bind_parameter(8, standing.bytes)?;
    statement.raw_bind_parameter(9, text)?;
    if standing.is_new {
        statement.raw_bind_parameter(10, head.uid.as_bytes())?;
        statement.raw_bind_parameter(11, head.namespace.as_str())?;
        statement.raw_bind_parameter(12, head.name.as_str())?;
        let [toolset, history] = refers.documents;
        statement.raw_bind_parameter(13, toolset)?;
        statement.raw_bind_parameter(14, refers.conversation.as_deref())?;
        statement.raw_bind_parameter(15, history)?;
    }
    statement.raw_execute().map(|_| ())
}
