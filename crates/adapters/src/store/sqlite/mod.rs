//! The store for one process: a SQLite file in a directory of its own.
//!
//! One writer thread commits in batches: what is appended while one commit waits for the disk is the next commit. The
//! file is in WAL mode with `synchronous = FULL`, so readers never wait and a commit that was reported is on the disk.
//! After a failed commit it is not known whether anything was kept; the waiters get an error, and the store continues
//! with a fresh connection. A second process on the same file is refused.

mod append_queue;
pub mod audit;
mod backup;
mod checkpoint;
mod claimable;
mod connection;
mod conversations;
mod inspect;
mod list;
mod open;
mod read;
mod remove;
mod resources;
mod schema;
mod terms;
#[cfg(test)]
mod tests;
mod transaction;
mod webhooks;
mod writer;

use std::{
    collections::HashSet,
    fmt,
    fs::File,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use async_trait::async_trait;
use bosun_core::{
    CallId, ContentHash, Namespace, QueryName, QueryUid, Timestamp,
    audit::AuditRecord,
    conversation::ConversationKey,
    usage::{Hour, UsageTotals},
};
use bosun_engine::resource::{ResourceChange, StoredResource};
use bosun_engine::store::{
    Answered, Append, CommitFigures, Conversations, FoundRecords, ListedQueries, Position, QueryPage, RecordSearch,
    Records, Rejection, Removal, RequestKey, Runnable, Store, StoreError, StoreStats, Stored, WantedQueries, Webhook,
    WebhookChange, Webhooks,
    conversations::{Conversation, ConversationTurn, Frame, Listing, WantedConversations},
};
use rusqlite::Connection;

use self::{
    append_queue::{AppendQueue, Queued, QueuedRecords},
    audit::{Audit, AuditKeys, HeadExporter, Heads, Maintenance},
    checkpoint::Checkpoints,
    open::Opened,
    read::{FoundRow, Readers},
};

pub use self::{
    backup::{BackupError, BackupProgress, backup},
    inspect::{StoreFault, StoreInspection, inspect},
    open::OpenError,
};

/// Journals of up to this size are read on the caller's thread; a blocking thread would cost more than it saves.
const SHORT_JOURNAL: u64 = 64 << 10;

/// A store in a directory. Dropping it commits what was appended and waits for the commit.
pub struct Sqlite {
    queue: Arc<AppendQueue>,
    readers: Arc<Readers>,
    epoch: i64,
    /// Whether audit records are written, or only usage counters.
    audited: bool,
    /// How long they are kept, if not forever.
    retention: Option<Duration>,
    /// Namespaces whose audit log was tampered with, and is therefore not shortened.
    tampered: Mutex<HashSet<Namespace>>,
    writer: Mutex<Option<WriterThread>>,
}

/// What is stopped when the store is closed.
struct WriterThread {
    thread: JoinHandle<()>,
    exporter: Option<HeadExporter>,
    /// Released last: the file is in use until the thread has ended.
    _lock: File,
}

#[derive(Debug, thiserror::Error)]
#[error("the store is closed")]
struct StoreClosed;

#[derive(Debug, thiserror::Error)]
#[error("the store crashed")]
struct StoreCrashed(#[source] tokio::task::JoinError);

fn crashed(error: tokio::task::JoinError) -> StoreError {
    StoreError::Unavailable(Box::new(StoreCrashed(error)))
}

impl Sqlite {
    /// Opens the store in `dir`, which is created if it is missing, and takes it over from an earlier process.
    ///
    /// # Errors
    /// If another process has it open, or `dir` does not contain a store that this program can use.
    pub fn open(dir: &Path) -> Result<Self, OpenError> {
        Self::open_with(dir, &Audit::default())
    }

    /// The same, with the given settings of the audit log.
    ///
    /// # Errors
    /// If another process has it open, `dir` does not contain a store that this program can use, or the keys of the
    /// audit log are missing.
    pub fn open_with(dir: &Path, audit: &Audit) -> Result<Self, OpenError> {
        let queue = Arc::new(AppendQueue::default());
        let opened = open::open(dir)?;
        let keys = open::audit_keys(dir, audit, &opened.connector)?;
        let heads = audit.on.then(|| audit.heads_file(dir));
        Self::start(queue, opened, keys, heads, audit.retention)
            .map_err(|source| OpenError::Directory { dir: dir.into(), source })
    }

    fn start(
        queue: Arc<AppendQueue>,
        opened: Opened,
        keys: Option<Arc<AuditKeys>>,
        heads_file: Option<PathBuf>,
        retention: Option<Duration>,
    ) -> std::io::Result<Self> {
        let Opened { lock, connector, epoch } = opened;
        let audited = keys.is_some();
        let heads = Arc::new(Heads::default());
        let exporter = heads_file.map(|file| HeadExporter::start(Arc::clone(&heads), file)).transpose()?;
        let readers = Arc::new(Readers::new(connector.clone()));
        let checkpoints = Checkpoints::start(connector.clone())?;
        let mut file = transaction::DatabaseFile::new(connector, epoch, checkpoints, keys, heads);
        let writer_queue = Arc::clone(&queue);
        let thread =
            thread::Builder::new().name("bosun-store".into()).spawn(move || writer::run(&writer_queue, &mut file))?;
        let writer = Mutex::new(Some(WriterThread { thread, exporter, _lock: lock }));
        Ok(Self { queue, readers, epoch, audited, retention, tampered: Mutex::default(), writer })
    }

    /// Stops and waits for the writer. Blocks for as long as the last commit takes.
    fn stop(queue: &AppendQueue, readers: &Readers, writer: WriterThread) {
        // First the readers: the last connection removes the WAL, and only the writer's can.
        readers.close();
        queue.stop(Rejection::Unavailable(Arc::new(StoreClosed)));
        if writer.thread.join().is_err() {
            tracing::error!("the store's writer crashed");
            queue.abandon(&Rejection::Unavailable(Arc::new(StoreClosed)));
        }
        if let Some(exporter) = writer.exporter {
            exporter.stop();
        }
    }

    fn take_writer(&self) -> Option<WriterThread> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Reads on a thread that may block.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let readers = Arc::clone(&self.readers);
        tokio::task::spawn_blocking(move || readers.read(read)).await.unwrap_or_else(|error| Err(crashed(error)))
    }
}

#[async_trait]
impl Records for Sqlite {
    fn record(&self, namespace: &Namespace, records: Vec<AuditRecord>) -> Result<Position, StoreError> {
        self.queue.push_records(QueuedRecords::new(namespace, &records, self.audited)?)
    }

    async fn search(&self, namespace: &Namespace, search: &RecordSearch) -> Result<FoundRecords, StoreError> {
        let (namespace, search) = (namespace.clone(), search.clone());
        self.read(move |connection| audit::search(connection, &namespace, &search)).await
    }

    async fn usage(&self, namespace: &Namespace, since: Hour) -> Result<UsageTotals, StoreError> {
        let namespace = namespace.clone();
        self.read(move |connection| audit::usage(connection, &namespace, since)).await
    }

    async fn maintain_records(&self, now: Timestamp) -> Result<bool, StoreError> {
        if !self.audited {
            return Ok(false);
        }
        let outdated = self.retention.map(|kept| now.before(kept));
        let tampered = self.tampered.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let task = self.read(move |connection| audit::next_maintenance(connection, outdated, &tampered)).await?;
        let Some(task) = task else { return Ok(false) };
        let of = match &task {
            Maintenance::Shorten(namespace, _) => Some(namespace.clone()),
            Maintenance::Index(_) => None,
        };
        if !self.queue.maintain(task).await? {
            // The writer has logged it; it is not tried again.
            self.tampered.lock().unwrap_or_else(PoisonError::into_inner).extend(of);
        }
        Ok(true)
    }
}

#[async_trait]
impl Conversations for Sqlite {
    async fn history(
        &self,
        namespace: &Namespace,
        key: &ConversationKey,
        frame: Frame,
    ) -> Result<Vec<ConversationTurn>, StoreError> {
        let (namespace, key) = (namespace.clone(), key.clone());
        self.read(move |connection| conversations::history(connection, &namespace, &key, frame)).await
    }

    async fn conversations(
        &self,
        namespace: &Namespace,
        wanted: &WantedConversations,
        after: Option<QueryUid>,
        limit: usize,
    ) -> Result<Listing<Conversation>, StoreError> {
        let (namespace, wanted) = (namespace.clone(), wanted.clone());
        self.read(move |connection| conversations::conversations(connection, &namespace, &wanted, after, limit)).await
    }

    async fn conversation_turns(
        &self,
        namespace: &Namespace,
        wanted: &WantedConversations,
        after: Option<QueryUid>,
        limit: usize,
    ) -> Result<Listing<ConversationTurn>, StoreError> {
        let (namespace, wanted) = (namespace.clone(), wanted.clone());
        self.read(move |connection| conversations::conversation_turns(connection, &namespace, &wanted, after, limit))
            .await
    }
}

#[async_trait]
impl Webhooks for Sqlite {
    async fn change_webhook(&self, change: WebhookChange) -> Result<bool, StoreError> {
        self.queue.change_webhook(change).await
    }

    async fn webhooks(&self, namespace: &Namespace, query: QueryUid) -> Result<Vec<Webhook>, StoreError> {
        let namespace = namespace.clone();
        self.read(move |connection| webhooks::of_query(connection, &namespace, query)).await
    }

    async fn due_webhooks(&self, now: Timestamp, limit: usize) -> Result<Vec<Webhook>, StoreError> {
        self.read(move |connection| webhooks::due(connection, now, limit)).await
    }
}

#[async_trait]
impl Store for Sqlite {
    fn append(&self, append: Append) -> Result<Position, StoreError> {
        self.queue.push(Queued::new(append, self.audited)?)
    }

    async fn durable(&self, position: Position) -> Result<(), StoreError> {
        self.queue.settled(position).await
    }

    fn last_position(&self) -> Position {
        self.queue.last()
    }

    async fn load(&self, namespace: &Namespace, name: &QueryName) -> Result<Option<Stored>, StoreError> {
        match self.readers.read(|connection| read::load(connection, namespace, name, SHORT_JOURNAL))? {
            FoundRow::Nothing => return Ok(None),
            FoundRow::Query(stored) => return Ok(Some(*stored)),
            FoundRow::TooLong => {}
        }
        let (namespace, name) = (namespace.clone(), name.clone());
        match self.read(move |connection| read::load(connection, &namespace, &name, u64::MAX)).await? {
            FoundRow::Query(stored) => Ok(Some(*stored)),
            FoundRow::Nothing | FoundRow::TooLong => Ok(None),
        }
    }

    async fn answered(&self, namespace: &Namespace, key: &RequestKey) -> Result<Option<Answered>, StoreError> {
        self.readers.read(|connection| read::answered(connection, namespace, key))
    }

    async fn remove(&self, removal: Removal, now: Timestamp) -> Result<usize, StoreError> {
        // Checked by a reader first, so that the writer is not woken for nothing.
        if removal == Removal::Outdated && !self.read(move |connection| read::is_outdated(connection, now)).await? {
            return Ok(0);
        }
        self.queue.remove(removal, now).await
    }

    async fn change_resource(&self, change: ResourceChange) -> Result<(), StoreError> {
        self.queue.change_resource(change).await
    }

    async fn resources(&self, namespace: Option<&Namespace>) -> Result<Vec<StoredResource>, StoreError> {
        let namespace = namespace.cloned();
        self.read(move |connection| resources::list(connection, namespace.as_ref())).await
    }

    async fn document(&self, hash: ContentHash) -> Result<Option<Arc<str>>, StoreError> {
        self.read(move |connection| read::document(connection, hash)).await
    }

    async fn referred(&self, blobs: &[ContentHash]) -> Result<HashSet<ContentHash>, StoreError> {
        let blobs = blobs.to_vec();
        self.read(move |connection| read::referred(connection, &blobs)).await
    }

    async fn list(&self, namespace: &Namespace, page: &QueryPage) -> Result<ListedQueries, StoreError> {
        let (namespace, page) = (namespace.clone(), page.clone());
        self.read(move |connection| list::list(connection, &namespace, &page)).await
    }

    async fn is_in_use(&self, namespace: &Namespace) -> Result<bool, StoreError> {
        let namespace = namespace.clone();
        self.read(move |connection| read::is_in_use(connection, &namespace)).await
    }

    async fn namespaces(&self) -> Result<Vec<Namespace>, StoreError> {
        self.read(read::namespaces).await
    }

    async fn runnable(&self, wanted: WantedQueries) -> Result<Vec<Runnable>, StoreError> {
        let epoch = self.epoch;
        self.read(move |connection| read::runnable(connection, epoch, &wanted)).await
    }

    async fn count_waiting(&self) -> Result<usize, StoreError> {
        self.read(read::count_waiting).await
    }

    async fn count_runnable(&self) -> Result<Vec<(Namespace, usize)>, StoreError> {
        self.read(read::count_runnable).await
    }

    async fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<(Namespace, QueryName)>, StoreError> {
        self.read(move |connection| read::due(connection, now, limit)).await
    }

    async fn claimable(
        &self,
        namespace: &Namespace,
        tools: &[String],
        limit: usize,
    ) -> Result<Vec<(QueryName, CallId)>, StoreError> {
        let (namespace, tools) = (namespace.clone(), tools.to_vec());
        self.read(move |connection| read::claimable(connection, &namespace, &tools, limit)).await
    }

    async fn next_deadline(&self) -> Result<Option<Timestamp>, StoreError> {
        self.readers.read(read::next_deadline)
    }

    fn stats(&self) -> StoreStats {
        self.queue.stats()
    }

    fn commit_figures(&self) -> CommitFigures {
        self.queue.commit_figures()
    }

    async fn close(&self) -> Result<(), StoreError> {
        let Some(writer) = self.take_writer() else { return Ok(()) };
        let (queue, readers) = (Arc::clone(&self.queue), Arc::clone(&self.readers));
        tokio::task::spawn_blocking(move || Self::stop(&queue, &readers, writer)).await.map_err(crashed)?;
        let last = self.queue.last();
        // Waiters have been notified of conflicts; only a failed commit is an error here.
        match self.queue.settled(last).await {
            Err(error @ (StoreError::Unavailable(_) | StoreError::Fenced)) => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        if let Some(writer) = self.take_writer() {
            Self::stop(&self.queue, &self.readers, writer);
        }
    }
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sqlite").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}
