//! The conversations of a store: the messages of completed queries.
//!
//! A query adds its messages in the transaction of its completion, so a conversation always consists of its completed
//! queries, in the order in which they completed, and nothing else. Concurrent additions are ordered as their appends
//! are. A query that must be alone in a conversation is refused in the transaction of its creation if another query of
//! it is open then, or has completed since the history was read.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use bosun_core::{
    Namespace, QueryName, QueryUid, Timestamp,
    audit::{Action, AuditRecord},
    conversation::{ConversationKey, estimate_tokens},
    transcript::Message,
};

use super::{StoreError, StoredDocument};

/// What an append does to a conversation.
#[derive(Clone, Debug)]
pub enum ConversationPart {
    /// A creation that joins it.
    Joins(Joining),
    /// A completion that adds to it.
    Adds(Exchange),
}

/// How a query joins a conversation.
#[derive(Clone, Debug)]
pub struct Joining {
    pub key: ConversationKey,
    /// Only if no other query of it is open, and none has added to it after `after`.
    pub alone: bool,
    /// The query that had added to it last when `history` was read.
    pub after: Option<QueryUid>,
    /// The earlier messages; retained as long as the query.
    pub history: Option<StoredDocument>,
}

/// What one query adds to its conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    pub key: ConversationKey,
    pub query: QueryUid,
    pub name: QueryName,
    pub at: Timestamp,
    /// The conversation is retained at least until then; a later end of its retention is kept.
    pub kept_until: Timestamp,
    pub messages: Arc<[Message]>,
}

/// What one query has added to its conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct ConversationTurn {
    pub key: ConversationKey,
    pub query: QueryUid,
    pub name: QueryName,
    pub at: Timestamp,
    /// The number of its first message in the conversation; numbering starts at 1 and numbers are never reused.
    pub first: u64,
    pub messages: Arc<[Message]>,
}

/// The size of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    pub messages: u64,
    pub tokens: u64,
    pub bytes: u64,
}

impl Size {
    /// Of messages that take `bytes` as they are stored.
    #[must_use]
    pub fn of(messages: &[Message], bytes: usize) -> Self {
        let tokens = messages.iter().map(estimate_tokens).sum();
        Self { messages: messages.len() as u64, tokens, bytes: bytes as u64 }
    }
}

/// How much of a conversation is wanted. It is filled from the end with the messages of whole queries; those of the
/// last query are always included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    limit: Size,
    filled: Size,
    is_empty: bool,
}

impl Frame {
    #[must_use]
    pub fn new(limit: Size) -> Self {
        Self { limit, filled: Size::default(), is_empty: true }
    }

    /// Whether messages of this size still fit. Once one does not, nothing earlier does.
    pub fn take(&mut self, size: Size) -> bool {
        let with = Size {
            messages: self.filled.messages.saturating_add(size.messages),
            tokens: self.filled.tokens.saturating_add(size.tokens),
            bytes: self.filled.bytes.saturating_add(size.bytes),
        };
        let fits =
            with.messages <= self.limit.messages && with.tokens <= self.limit.tokens && with.bytes <= self.limit.bytes;
        let taken = fits || self.is_empty;
        self.filled = if taken { with } else { Size { messages: u64::MAX, ..self.filled } };
        self.is_empty = false;
        taken
    }
}

/// A filter of conversations; absent fields match all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WantedConversations {
    pub memory: Option<String>,
    pub id: Option<String>,
    /// A query by its name or its uid: only its messages.
    pub query: Option<String>,
}

/// `<memory>/<conversation>`, with `*` for all of them, and the query if the filter names one.
impl fmt::Display for WantedConversations {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A value that was never validated may be as long as a URL.
        let clip = |text: &Option<String>| text.as_deref().unwrap_or("*").chars().take(256).collect::<String>();
        write!(formatter, "{}/{}", clip(&self.memory), clip(&self.id))?;
        match &self.query {
            Some(_) => write!(formatter, " of query {}", clip(&self.query)),
            None => Ok(()),
        }
    }
}

/// The audit record of a conversation that was deleted at the end of its retention, which has no actor.
#[must_use]
pub fn outdated(key: &ConversationKey, at: Timestamp) -> AuditRecord {
    let ConversationKey { memory, id } = key.clone();
    let detail = WantedConversations { memory: Some(memory), id: Some(id), query: None }.to_string();
    AuditRecord::of_act(at, Action::ConversationDeleted, None, Some(detail))
}

impl WantedConversations {
    #[must_use]
    pub fn includes(&self, key: &ConversationKey) -> bool {
        self.memory.as_ref().is_none_or(|memory| *memory == key.memory)
            && self.id.as_ref().is_none_or(|id| *id == key.id)
    }

    /// Whether the messages of this query match.
    #[must_use]
    pub fn includes_query(&self, name: &QueryName, uid: QueryUid) -> bool {
        self.query.as_deref().is_none_or(|query| query == name.as_str() || query.parse() == Ok(uid))
    }
}

/// A conversation in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    pub key: ConversationKey,
    /// How many messages it has now.
    pub messages: u64,
    /// The query that added to it last, and when.
    pub latest: QueryUid,
    pub updated_at: Timestamp,
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Listing<T> {
    pub items: Vec<T>,
    /// Whether there are more after the last one.
    pub more: bool,
    /// The length of the whole list; for messages, the number of messages.
    pub total: u64,
}

impl<T> Default for Listing<T> {
    fn default() -> Self {
        Self { items: Vec::new(), more: false, total: 0 }
    }
}

/// The conversations of a store. `testing::store_contract` is the specification.
#[async_trait]
pub trait Conversations: Send + Sync {
    /// The end of a conversation, oldest first: as much as `frame` takes.
    async fn history(
        &self,
        namespace: &Namespace,
        key: &ConversationKey,
        frame: Frame,
    ) -> Result<Vec<ConversationTurn>, StoreError>;

    /// Conversations, most recently extended first; from after the one that `after` added to last.
    async fn conversations(
        &self,
        namespace: &Namespace,
        wanted: &WantedConversations,
        after: Option<QueryUid>,
        limit: usize,
    ) -> Result<Listing<Conversation>, StoreError>;

    /// Messages in the order in which they were added, from after those of `after`. A page has at most `limit` queries,
    /// and fewer if they are [large](super::PAGE_BYTES).
    async fn conversation_turns(
        &self,
        namespace: &Namespace,
        wanted: &WantedConversations,
        after: Option<QueryUid>,
        limit: usize,
    ) -> Result<Listing<ConversationTurn>, StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(limit: Size, sizes: &[Size], taken: usize) {
        let mut frame = Frame::new(limit);
        assert_eq!(sizes.iter().filter(|size| frame.take(**size)).count(), taken);
    }

    fn size(messages: u64, tokens: u64, bytes: u64) -> Size {
        Size { messages, tokens, bytes }
    }

    #[test]
    fn a_frame_takes_whole_queries_from_the_end_until_one_does_not_fit() {
        let limit = size(10, 100, 1000);
        check(limit, &[size(4, 1, 1), size(4, 1, 1), size(4, 1, 1)], 2);
        check(limit, &[size(1, 60, 1), size(1, 60, 1), size(1, 1, 1)], 1);
        check(limit, &[size(1, 1, 999), size(1, 1, 1), size(1, 1, 1)], 2);
        check(limit, &[], 0);
    }

    #[test]
    fn the_last_query_is_always_taken() {
        check(size(2, 2, 2), &[size(9, 9, 9), size(0, 0, 0)], 1);
        check(size(0, 0, 0), &[size(9, 9, 9), size(9, 9, 9)], 1);
    }
}
