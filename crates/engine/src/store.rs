//! Where journals live.
//!
//! Two steps, on purpose: [`Store::append`] orders, [`Store::durable`] makes safe. Appends that
//! nobody waits for ride along with the next commit that somebody does wait for, so a query that
//! thinks, calls and pauses costs one disk flush. `testing::store_contract` is the specification.

use std::{collections::HashSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use bosun_core::{
    ContentHash, Entry, Event, Head, Namespace, QueryName, QueryUid, Seq, Status, Timestamp,
    audit::Record,
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
mod records;
mod rejections;

pub use conversations::Conversations;
pub use records::{Found, Numbered, Records, Search};
pub use rejections::{Rejection, Rejections};

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A place in the order of all appends that a store has taken since it was opened. Zero is before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position(pub u64);

/// Entries to be added to one journal, in one piece.
#[derive(Clone, Debug)]
pub struct Append {
    /// The head with `entries` folded in; it replaces the stored one.
    pub head: Arc<Head>,
    /// The last entry that the writer knew of; 0 creates the query.
    pub seen: Seq,
    /// The writer's own append that this one builds on; zero if it builds on what was loaded. Numbers
    /// alone would not do: after a conflict, another writer's entries have the same ones.
    pub after: Position,
    pub entries: Vec<Encoded>,
    /// The toolset that a creation refers to; stored once, whoever brings it, and kept as long as anybody refers to it.
    pub toolset: Option<Document>,
    /// What a creation answers, if its client said how it would ask again.
    pub request: Option<Request>,
    /// What the audit log says of the entries.
    pub records: Vec<Record>,
    /// What a creation or a completion has to do with a conversation.
    pub conversation: Option<conversations::Part>,
}

/// An entry and the text of its event. It is encoded once, by the writer: the text is what a store keeps, and its length
/// is what [ceilings](bosun_core::journal) are about.
#[derive(Clone, Debug)]
pub struct Encoded {
    pub entry: Arc<Entry>,
    pub body: String,
}

impl Encoded {
    /// # Errors
    /// Only if the event holds a value that JSON cannot, which no event does.
    pub fn new(entry: Entry) -> Result<Self, StoreError> {
        let body = entry.event.encode().map_err(|error| StoreError::Unavailable(Box::new(error)))?;
        Ok(Self { entry: Arc::new(entry), body })
    }
}

impl std::ops::Deref for Encoded {
    type Target = Entry;

    fn deref(&self) -> &Entry {
        &self.entry
    }
}

/// How a client will call its request if it has to repeat it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestKey {
    /// Who asks; keys of different actors have nothing to do with each other.
    pub actor: String,
    /// By which door: a key is good for one.
    pub route: &'static str,
    pub key: String,
}

/// A request under its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub key: RequestKey,
    /// What was asked for.
    pub fingerprint: ContentHash,
}

/// The query that was the answer to a request. It may have been deleted since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    pub fingerprint: ContentHash,
    pub uid: QueryUid,
    pub name: QueryName,
}

/// How long a request is remembered after its query was deleted.
pub const REQUESTS_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// What is to be deleted: queries, with their journals and what nobody else refers to, or conversations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// This one, and what the audit log says of that.
    Query(Namespace, QueryUid, Box<Record>),
    /// Those that have been kept for long enough; and requests and conversations that have been remembered for
    /// long enough.
    Outdated,
    /// Conversations, or what one query has said in them, and what the audit log says of that if anything was deleted.
    Conversations(Namespace, conversations::Wanted, Option<Box<Record>>),
}

impl Append {
    /// Whether the entries follow `seen` without a gap and end where the head does. Stores refuse
    /// what does not with [`StoreError::Conflict`], so that no journal ever has a hole.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let follows = self.entries.iter().zip(self.seen + 1..).all(|(entry, seq)| entry.seq == seq);
        follows && !self.entries.is_empty() && self.head.seq == self.seen + self.entries.len() as u64
    }

    /// Whether the query goes on by it. One that an earlier process left in the middle is still there if not.
    #[must_use]
    pub fn moves(&self) -> bool {
        self.entries.iter().any(|entry| entry.event.moves())
    }
}

/// Whether the query has work for somebody: then [`Store::runnable`] lists it.
#[must_use]
pub fn has_work(head: &Head) -> bool {
    !matches!(machine::next(head), Next::Wait | Next::End)
}

/// A query that has work for somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runnable {
    pub key: (Namespace, QueryName),
    /// This process has not moved it yet: an earlier one may have left it in the middle.
    pub inherited: bool,
}

/// Which queries with work are asked for.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Those that somebody is at already.
    pub except: HashSet<(Namespace, QueryName)>,
    /// The namespace that had its turn last.
    pub after: Option<Namespace>,
    pub limit: usize,
}

impl Wanted {
    /// Brings the namespaces that have work into the order of their turns.
    #[must_use]
    pub fn in_turn(&self, namespaces: Vec<Namespace>) -> Vec<Namespace> {
        let after = |namespace: &Namespace| self.after.as_ref().is_none_or(|last| namespace > last);
        let (mut next, rest): (Vec<_>, Vec<_>) = namespaces.into_iter().partition(after);
        next.extend(rest);
        next
    }

    /// How many of each of so many namespaces are looked for. Where some have less, the others get no
    /// more this time: whoever asks will ask again.
    #[must_use]
    pub fn share(&self, namespaces: usize) -> usize {
        self.limit.div_ceil(namespaces.max(1))
    }

    /// One of each list in turn, until nothing is left or there are enough.
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
pub struct Document {
    pub hash: ContentHash,
    pub body: Arc<str>,
}

/// A query as it is stored.
#[derive(Clone, Debug)]
pub struct Stored {
    pub head: Head,
    pub entries: Vec<Entry>,
    /// Of the entries, as they are stored.
    pub size: JournalSize,
}

/// A page of a list ends when the journals of its queries have more bytes than this: answers may be large, and a
/// thousand of them are not to be in memory at once.
pub const PAGE_BYTES: usize = bosun_core::ceiling::PAGE_BYTES;

/// Which part of a list is wanted, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// So many queries at most; fewer, if they are [large](PAGE_BYTES).
    pub limit: usize,
    /// Only queries created before this one.
    pub before: Option<QueryUid>,
    pub status: Option<Status>,
}

/// One part of a list.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Heads, and of each journal what a list shows: the entry that created the query, and behind it its end, which
    /// is the last answer of the model and how it ended, or the answer with the calls that it [waits for](shown_from).
    /// A list does not read what came before.
    pub queries: Vec<(Head, Vec<Entry>)>,
    /// The query behind which the next page begins, if there is one. It need not be on this page: what cannot be read
    /// is passed over.
    pub next: Option<QueryUid>,
    pub total: u64,
}

/// The number of entries at the end of a journal that tell how a query has ended: the last answer, and one more.
/// Unless it was changed since; then they are to be looked for.
pub const ENDING: usize = 2;

/// Where what a list shows begins among the later entries of a query; `None` if it begins before them.
pub fn shown_from<'a>(
    head: &Head,
    mut later: impl ExactSizeIterator<Item = &'a Event> + DoubleEndedIterator,
) -> Option<usize> {
    let count = later.len();
    if head.status().is_final() {
        // What was changed since is not what it ended with.
        let end = later.by_ref().rev().find(|event| event.is_final())?;
        // The answer stands in front of it, if there is one.
        let before = later.len().checked_sub(1);
        if matches!(end, Event::Completed) { before } else { Some(before.unwrap_or(0)) }
    } else if head.waiting().next().is_none() {
        Some(count)
    } else {
        // Open calls are in the last answer, always.
        later.rposition(|event| matches!(event, Event::TurnEnded { .. }))
    }
}

/// What a store has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    pub appends: u64,
    /// Commits that reached the disk.
    pub commits: u64,
    /// Commits that somebody waited for.
    pub awaited_commits: u64,
}

/// Commits since a store was opened.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommitFigures {
    pub seconds: HistogramCounts,
    pub appends: HistogramCounts,
}

/// Why a store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Not a fault: another writer moved the query on. Load it and decide again.
    #[error("query `{0}` was changed by another writer")]
    Conflict(QueryUid),
    #[error("query `{0}` already exists")]
    NameTaken(QueryName),
    #[error("another request was made under the same key")]
    RequestTaken,
    #[error("another query of conversation `{0}` is open")]
    ConversationBusy(String),
    /// Another process has opened the store since: this one must stop.
    #[error("store was taken over by another process")]
    Fenced,
    /// The query's journal cannot be read by this program; the others are not touched by that.
    #[error("journal of query `{uid}` is not readable")]
    Unreadable {
        uid: QueryUid,
        #[source]
        source: DecodeError,
    },
    /// The stored entries do not follow each other: the store was changed by hand, or is damaged.
    #[error(transparent)]
    Inconsistent(#[from] FoldError),
    /// A journal refers to a blob that is not there: somebody has removed it by hand, or a backup lacks it.
    #[error("blob `{0}` is missing")]
    MissingBlob(ContentHash),
    /// The bytes of a blob do not have its hash: the disk has changed them, or somebody has.
    #[error("blob `{0}` is damaged")]
    DamagedBlob(ContentHash),
    /// The entry, or the journal with it, would be larger than it may be. Nothing was appended.
    #[error(transparent)]
    Journal(#[from] JournalFault),
    /// Whether the last writes were kept is not known: load and see.
    #[error("store is unavailable")]
    Unavailable(#[source] BoxError),
}

/// Where journals live. `testing::store_contract` is the specification.
#[async_trait]
pub trait Store: Records + Conversations + 'static {
    /// Orders `append` behind all earlier ones and returns at once; nothing is promised until
    /// [`Store::durable`] says so. Commits follow within a few milliseconds even if nobody asks.
    ///
    /// Fails only if the store has stopped. A conflict is found when the append is committed, and
    /// [`Store::durable`] reports it: that append is not kept, nor is any that builds on it, for the
    /// same reason; the others of the same commit are.
    fn append(&self, append: Append) -> Result<Position, StoreError>;

    /// Resolves when everything up to `position` would survive a power cut, or with the reason why
    /// the append *at* `position` was not kept.
    async fn durable(&self, position: Position) -> Result<(), StoreError>;

    /// The last position that was given out.
    fn last_position(&self) -> Position;

    /// A query with its whole journal, as committed.
    async fn load(&self, namespace: &Namespace, name: &QueryName) -> Result<Option<Stored>, StoreError>;

    /// The query that answered the request of this key, if there was one.
    async fn answered(&self, namespace: &Namespace, key: &RequestKey) -> Result<Option<Answered>, StoreError>;

    /// Deletes some of what is to be deleted and says how many queries, or conversations, that were; zero means that nothing is
    /// left. It is done in small pieces beside everything else that is written, and is durable when it is done.
    async fn remove(&self, removal: Removal, now: Timestamp) -> Result<usize, StoreError>;

    /// Keeps or removes a resource, behind everything that was appended before. It is durable when it is done.
    async fn change_resource(&self, change: ResourceChange) -> Result<(), StoreError>;

    /// The resources that are kept, of one namespace or of all, by kind, namespace and name.
    async fn resources(&self, namespace: Option<&Namespace>) -> Result<Vec<StoredResource>, StoreError>;

    /// The document with this hash.
    async fn document(&self, hash: ContentHash) -> Result<Option<Arc<str>>, StoreError>;

    /// Those of `blobs` that a journal refers to, as committed.
    async fn referred(&self, blobs: &[ContentHash]) -> Result<HashSet<ContentHash>, StoreError>;

    async fn list(&self, namespace: &Namespace, page: &Page) -> Result<Listed, StoreError>;

    /// Whether there is a query or a conversation in the namespace, as committed. It costs a look into an index of each.
    async fn is_in_use(&self, namespace: &Namespace) -> Result<bool, StoreError>;

    /// The namespaces that there are queries or conversations in, by name. It costs one look into an index for each.
    async fn namespaces(&self) -> Result<Vec<Namespace>, StoreError>;

    /// Queries with work, one of each namespace in turn, the oldest of a namespace first.
    async fn runnable(&self, wanted: Wanted) -> Result<Vec<Runnable>, StoreError>;

    /// How many queries wait for somebody outside.
    async fn count_waiting(&self) -> Result<usize, StoreError>;

    /// How many queries of each namespace have work; namespaces without any are left out.
    async fn count_runnable(&self) -> Result<Vec<(Namespace, usize)>, StoreError>;

    /// Up to `limit` queries whose deadline is not after `now`, most overdue first.
    async fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<(Namespace, QueryName)>, StoreError>;

    /// The smallest deadline of all waiting queries.
    async fn next_deadline(&self) -> Result<Option<Timestamp>, StoreError>;

    fn stats(&self) -> StoreStats;

    /// How long commits took and how large they were; a store without a disk has nothing to say.
    fn commit_figures(&self) -> CommitFigures {
        CommitFigures::default()
    }

    /// Commits what was appended and closes. Later appends fail; so may reads.
    async fn close(&self) -> Result<(), StoreError>;
}
