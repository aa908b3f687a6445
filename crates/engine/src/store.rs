//! The store of journals.
//!
//! Two steps, on purpose: [`Store::append`] orders, [`Store::durable`] waits for the commit. Appends without a waiter
//! are batched into the next commit that has one, so a query that asks its model, runs calls and pauses costs one disk
//! flush.
//!
//! `testing::store_contract` is the specification.

use std::{collections::HashSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use bosun_core::{
    CallId, ContentHash, Entry, Event, Head, Namespace, QueryName, QueryUid, Seq, Timestamp,
    audit::AuditRecord,
    event::DecodeError,
    head::FoldError,
    journal::{JournalFault, JournalSize},
    machine::{self, Next},
};

use crate::{
    metrics::HistogramCounts,
    resource::{ResourceChange, StoredResource},
};

pub mod conversations;
mod finding;
mod records;
mod rejections;
mod webhooks;

pub use conversations::Conversations;
pub use finding::{QueryPage, QueryTerm, TermChange};
pub use records::{FoundRecords, Numbered, RecordSearch, Records};
pub use rejections::{Rejection, Rejections};
pub use webhooks::{Webhook, WebhookChange, WebhookKey, WebhookProgress, Webhooks};

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A position in the order of all appends since the store was opened. Zero is before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position(pub u64);

/// Entries to be appended to one journal, atomically.
#[derive(Clone, Debug)]
pub struct Append {
    /// The head with `entries` folded in; it replaces the stored one.
    pub head: Arc<Head>,
    /// The sequence number of the last entry that the writer knew of; 0 creates the query.
    pub seen: Seq,
    /// The writer's own append that this one builds on; zero if it builds on what was loaded. Sequence numbers alone
    /// would not do: after a conflict, another writer's entries have the same ones.
    pub after: Position,
    pub entries: Vec<Encoded>,
    /// The toolset that a creation refers to; deduplicated by its hash, and kept as long as any query refers to it.
    pub toolset: Option<StoredDocument>,
    /// The request of a creation, if its client sent an idempotency key.
    pub request: Option<IdempotentRequest>,
    /// The audit records of the entries.
    pub records: Vec<AuditRecord>,
    /// What a creation or a completion does to a conversation.
    pub conversation: Option<conversations::ConversationPart>,
}

/// An entry and its event as JSON text. It is encoded and measured once, by the writer: the text is what a store keeps,
/// and its size is what the [ceilings](bosun_core::journal) limit.
#[derive(Clone, Debug)]
pub struct Encoded {
    pub entry: Arc<Entry>,
    pub body: String,
    pub size: JournalSize,
}

impl Encoded {
    /// # Errors
    /// Only if the event contains a value that JSON cannot represent, which no event does.
    pub fn new(entry: Entry) -> Result<Self, StoreError> {
        let body = entry.event.encode().map_err(|error| StoreError::Unavailable(Box::new(error)))?;
        let size = JournalSize::of_entry(&entry.event, &body);
        Ok(Self { entry: Arc::new(entry), body, size })
    }
}

impl std::ops::Deref for Encoded {
    type Target = Entry;

    fn deref(&self) -> &Entry {
        &self.entry
    }
}

/// A client's idempotency key, scoped to actor and route.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestKey {
    /// The caller; keys of different actors are independent.
    pub actor: String,
    /// The route; a key is valid for one.
    pub route: &'static str,
    pub key: String,
}

/// A request with its idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotentRequest {
    pub key: RequestKey,
    /// The hash of the request.
    pub fingerprint: ContentHash,
}

/// The query that a request created. It may have been deleted since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    pub fingerprint: ContentHash,
    pub uid: QueryUid,
    pub name: QueryName,
}

/// How long an idempotency key is kept after its query was deleted.
pub const REQUESTS_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// What is to be deleted: queries, with their journals and unshared documents, or conversations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// This one, and the audit record of that.
    Query(Namespace, QueryUid, Box<AuditRecord>),
    /// Queries, idempotency keys and conversations past their retention.
    Outdated,
    /// Conversations, or the messages of one query in them, and the audit record if anything was deleted.
    Conversations(Namespace, conversations::WantedConversations, Option<Box<AuditRecord>>),
}

impl Append {
    /// Whether the entries follow `seen` without a gap and end where the head does. Stores reject any other append with
    /// [`StoreError::Conflict`], so that no journal ever has a gap.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let follows = self.entries.iter().zip(self.seen + 1..).all(|(entry, seq)| entry.seq == seq);
        follows && !self.entries.is_empty() && self.head.seq == self.seen + self.entries.len() as u64
    }

    /// Whether the query advances by it. If not, one that an earlier process left in the middle is still in the middle.
    #[must_use]
    pub fn moves(&self) -> bool {
        self.entries.iter().any(|entry| entry.event.moves())
    }
}

/// Whether the query has work to do: then [`Store::runnable`] lists it.
#[must_use]
pub fn has_work(head: &Head) -> bool {
    !matches!(machine::next(head), Next::Wait | Next::End)
}

/// A query that has work to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runnable {
    pub key: (Namespace, QueryName),
    /// This process has not advanced it yet: an earlier one may have left it in the middle.
    pub inherited: bool,
}

/// A request for queries with work.
#[derive(Clone, Debug, Default)]
pub struct WantedQueries {
    /// Those that are being driven already.
    pub except: HashSet<(Namespace, QueryName)>,
    /// The namespace that was served last.
    pub after: Option<Namespace>,
    pub limit: usize,
}

impl WantedQueries {
    /// Orders the namespaces that have work round-robin.
    #[must_use]
    pub fn round_robin(&self, namespaces: Vec<Namespace>) -> Vec<Namespace> {
        let after = |namespace: &Namespace| self.after.as_ref().is_none_or(|last| namespace > last);
        let (mut next, rest): (Vec<_>, Vec<_>) = namespaces.into_iter().partition(after);
        next.extend(rest);
        next
    }

    /// How many queries are fetched of each of `namespaces` namespaces. If some have fewer, the others get no more this
    /// time: the caller will ask again.
    #[must_use]
    pub fn share(&self, namespaces: usize) -> usize {
        self.limit.div_ceil(namespaces.max(1))
    }

    /// Takes one of each list in turn, until nothing is left or the limit is reached.
    #[must_use]
    pub fn interleave(&self, lists: Vec<Vec<Runnable>>) -> Vec<Runnable> {
        let mut lists: Vec<_> = lists.into_iter().map(Vec::into_iter).collect();
        let mut taken = Vec::new();
        while taken.len() < self.limit {
            let round: Vec<_> = lists.iter_mut().filter_map(Iterator::next).collect();
            if round.is_empty() {
                break;
            }
            taken.extend(round);
        }
        taken.truncate(self.limit);
        taken
    }
}

/// A text stored by the hash of its content: toolsets, which many queries share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredDocument {
    pub hash: ContentHash,
    pub body: Arc<str>,
}

/// A query as it is stored.
#[derive(Clone, Debug)]
pub struct Stored {
    pub head: Head,
    pub entries: Vec<Entry>,
    /// The size of the entries, as they are stored.
    pub size: JournalSize,
}

/// A page of a list ends when the journals of its queries have more bytes than this: answers may be large, and a
/// thousand of them must not be in memory at once.
pub const PAGE_BYTES: usize = bosun_core::ceiling::PAGE_BYTES;

/// One page of a list.
#[derive(Clone, Debug)]
pub struct ListedQueries {
    /// Heads, and the part of each journal that a list shows: the entry that created the query, and its end, which is
    /// the last answer of the model and the final entry, or the answer with the calls that it [waits for](shown_from).
    /// A list does not read the entries in between.
    pub queries: Vec<(Head, Vec<Entry>)>,
    /// The query after which the next page begins, if there is one. It need not be on this page: unreadable queries are
    /// skipped.
    pub next: Option<QueryUid>,
    pub total: u64,
}

/// The number of entries at the end of a journal that show how a query has ended: the last answer and the final entry.
/// If the query was changed after its end, they are further back and have to be searched for.
pub const ENDING: usize = 2;

/// Where the part that a list shows begins among the later entries of a query; `None` if it begins before them.
pub fn shown_from<'a>(
    head: &Head,
    mut later: impl ExactSizeIterator<Item = &'a Event> + DoubleEndedIterator,
) -> Option<usize> {
    let count = later.len();
    if head.status().is_final() {
        // Changes after the end are skipped.
        let end = later.by_ref().rev().find(|event| event.is_final())?;
        // The answer precedes it, if there is one.
        let before = later.len().checked_sub(1);
        if matches!(end, Event::Completed) { before } else { Some(before.unwrap_or(0)) }
    } else if head.waits().all(|wait| wait.call.is_none()) {
        Some(count)
    } else {
        // Open calls always belong to the last answer.
        later.rposition(|event| matches!(event, Event::TurnEnded { .. }))
    }
}

/// Counters of a store since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    pub appends: u64,
    /// Commits that reached the disk.
    pub commits: u64,
    /// Commits that a caller waited for.
    pub awaited_commits: u64,
}

/// Commits since a store was opened.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommitFigures {
    pub seconds: HistogramCounts,
    pub appends: HistogramCounts,
}

/// Why a store rejected or failed an operation.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Not a fault: another writer advanced the query. Load it and decide again.
    #[error("query `{0}` was changed by another writer")]
    Conflict(QueryUid),
    #[error("query `{0}` already exists")]
    NameTaken(QueryName),
    #[error("the idempotency key was used for another request")]
    RequestTaken,
    #[error("another query of conversation `{0}` is open")]
    ConversationBusy(String),
    /// Fenced: another process has opened the store since, and this one must stop.
    #[error("store was taken over by another process")]
    Fenced,
    /// The query's journal cannot be read by this program; other queries are not affected.
    #[error("journal of query `{uid}` is not readable")]
    Unreadable {
        uid: QueryUid,
        #[source]
        source: DecodeError,
    },
    /// The stored entries are not consecutive: the store was changed by hand, or is damaged.
    #[error(transparent)]
    Inconsistent(#[from] FoldError),
    /// A journal refers to a missing blob: it was removed by hand, or a backup lacks it.
    #[error("blob `{0}` is missing")]
    MissingBlob(ContentHash),
    /// The bytes of a blob do not match its hash: the disk is faulty, or the file was changed.
    #[error("blob `{0}` is damaged")]
    DamagedBlob(ContentHash),
    /// The entry, or the journal with it, would exceed its size limit. Nothing was appended.
    #[error(transparent)]
    Journal(#[from] JournalFault),
    /// It is not known whether the last writes were committed: load and check.
    #[error("store is unavailable")]
    Unavailable(#[source] BoxError),
}

/// Stores journals. `testing::store_contract` is the specification.
#[async_trait]
pub trait Store: Records + Conversations + Webhooks + 'static {
    /// Orders `append` behind all earlier ones and returns at once; nothing is promised until [`Store::durable`]
    /// resolves. Commits follow within a few milliseconds even without a waiter.
    ///
    /// Fails only if the store has stopped. A conflict is found when the append is committed, and [`Store::durable`]
    /// reports it: that append is rejected, and so is any that builds on it, for the same reason; the others of the
    /// same commit are kept.
    fn append(&self, append: Append) -> Result<Position, StoreError>;

    /// Resolves when everything up to `position` would survive a power cut, or with the reason why the append *at*
    /// `position` was rejected.
    async fn durable(&self, position: Position) -> Result<(), StoreError>;

    /// The last position that was assigned.
    fn last_position(&self) -> Position;

    /// A query with its whole journal, as committed.
    async fn load(&self, namespace: &Namespace, name: &QueryName) -> Result<Option<Stored>, StoreError>;

    /// The query that the request with this idempotency key created, if any.
    async fn answered(&self, namespace: &Namespace, key: &RequestKey) -> Result<Option<Answered>, StoreError>;

    /// Deletes a batch and returns how many queries, or conversations, that were; zero means that nothing is left.
    /// Batches are small and interleaved with other writes, and durable when this resolves.
    async fn remove(&self, removal: Removal, now: Timestamp) -> Result<usize, StoreError>;

    /// Stores or removes a resource, behind all earlier appends. Durable when this resolves.
    async fn change_resource(&self, change: ResourceChange) -> Result<(), StoreError>;

    /// The stored resources, of one namespace or of all, by kind, namespace and name.
    async fn resources(&self, namespace: Option<&Namespace>) -> Result<Vec<StoredResource>, StoreError>;

    /// The document with this hash.
    async fn document(&self, hash: ContentHash) -> Result<Option<Arc<str>>, StoreError>;

    /// Those of `blobs` that a committed journal refers to.
    async fn referred(&self, blobs: &[ContentHash]) -> Result<HashSet<ContentHash>, StoreError>;

    async fn list(&self, namespace: &Namespace, page: &QueryPage) -> Result<ListedQueries, StoreError>;

    /// Whether there is a committed query or conversation in the namespace. Costs one index lookup for each.
    async fn is_in_use(&self, namespace: &Namespace) -> Result<bool, StoreError>;

    /// The namespaces that contain queries or conversations, by name. Costs one index lookup for each.
    async fn namespaces(&self) -> Result<Vec<Namespace>, StoreError>;

    /// Queries with work, round-robin over the namespaces, oldest first within a namespace.
    async fn runnable(&self, wanted: WantedQueries) -> Result<Vec<Runnable>, StoreError>;

    /// How many queries wait for a client.
    async fn count_waiting(&self) -> Result<usize, StoreError>;

    /// How many queries of each namespace have work; namespaces without any are omitted.
    async fn count_runnable(&self) -> Result<Vec<(Namespace, usize)>, StoreError>;

    /// Up to `limit` queries whose deadline is not after `now`, most overdue first.
    async fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<(Namespace, QueryName)>, StoreError>;

    /// Up to `limit` open calls of these tools that workers may claim and none has claimed, those of the oldest queries
    /// first.
    async fn claimable(
        &self,
        namespace: &Namespace,
        tools: &[String],
        limit: usize,
    ) -> Result<Vec<(QueryName, CallId)>, StoreError>;

    /// The smallest deadline of all waiting queries.
    async fn next_deadline(&self) -> Result<Option<Timestamp>, StoreError>;

    /// Whether the store can be read, found out by its cheapest read.
    async fn ping(&self) -> Result<(), StoreError> {
        self.next_deadline().await.map(drop)
    }

    fn stats(&self) -> StoreStats;

    /// How long commits took and how large they were; empty for a store without a disk.
    fn commit_figures(&self) -> CommitFigures {
        CommitFigures::default()
    }

    /// Commits what was appended and closes. Later appends fail; reads may fail too.
    async fn close(&self) -> Result<(), StoreError>;
}
