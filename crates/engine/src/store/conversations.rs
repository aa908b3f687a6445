//! The part of a store that is conversations: what completed queries have said to each other.
//!
//! A query adds its messages in the transaction of its completion, so a conversation is always the completed
//! queries of it, in the order in which they completed, and nothing else. What several queries would add at
//! once is ordered as their appends are. Whoever wants to be alone in a conversation is refused in the
//! transaction of its creation, if another query of it is open then, or has ended since the history was read.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use bosun_core::{
    Namespace, QueryName, QueryUid, Timestamp,
    audit::{Action, Record},
    conversation::{ConversationKey, estimate_tokens},
    transcript::Message,
};

use super::{Document, StoreError};

/// What an append has to do with a conversation.
#[derive(Clone, Debug)]
pub enum Part {
    /// A creation that takes part in it.
    Joins(Joining),
    /// A completion that adds to it.
    Adds(Exchange),
}

/// How a query takes part in a conversation.
#[derive(Clone, Debug)]
pub struct Joining {
    pub key: ConversationKey,
    /// Only if no other query of it is open, and none has added to it behind `after`.
    pub alone: bool,
    /// The query that had added to it last when `history` was read.
    pub after: Option<QueryUid>,
    /// What was said before; kept as long as the query.
    pub history: Option<Document>,
}

/// What one query adds to its conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    pub key: ConversationKey,
    pub query: QueryUid,
    pub name: QueryName,
    pub at: Timestamp,
    /// Until when the conversation is kept at least: what keeps it longer already is not undone.
    pub kept_until: Timestamp,
    pub messages: Arc<[Message]>,
}

/// What one query has added to its conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    pub key: ConversationKey,
    pub query: QueryUid,
    pub name: QueryName,
    pub at: Timestamp,
    /// The number of its first message in the conversation; the first of all is 1. Numbers are not given twice.
    pub first: u64,
    pub messages: Arc<[Message]>,
}

/// How large something is that was said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    pub messages: u64,
    pub tokens: u64,
    pub bytes: u64,
}

impl Size {
    /// Of messages that are `bytes` long as they are stored.
    #[must_use]
    pub fn of(messages: &[Message], bytes: usize) -> Self {
        let tokens = messages.iter().map(estimate_tokens).sum();
        Self { messages: messages.len() as u64, tokens, bytes: bytes as u64 }
    }
}

/// How much of a conversation is wanted. It is filled from the end, with what whole queries have said; the
/// last one always is in it.
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

    /// Whether what is `size` large is still wanted. Once it is not, nothing earlier is.
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

/// Which conversations; what is absent does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    pub memory: Option<String>,
    pub id: Option<String>,
    /// A query by its name or its uid: only what it has said.
    pub query: Option<String>,
}

/// `<memory>/<conversation>`, with `*` for all of them, and the query if it is only of one.
impl fmt::Display for Wanted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What nobody has checked may be as long as a URL.
        let clip = |text: &Option<String>| text.as_deref().unwrap_or("*").chars().take(256).collect::<String>();
        write!(formatter, "{}/{}", clip(&self.memory), clip(&self.id))?;
        match &self.query {
            Some(_) => write!(formatter, " of query {}", clip(&self.query)),
            None => Ok(()),
        }
    }
}

/// What the audit log says of a conversation that has been remembered for long enough: nobody asked for that.
#[must_use]
pub fn outdated(key: &ConversationKey, at: Timestamp) -> Record {
    let ConversationKey { memory, id } = key.clone();
    let detail = Wanted { memory: Some(memory), id: Some(id), query: None }.to_string();
    Record::of_act(at, Action::ConversationDeleted, None, Some(detail))
}

impl Wanted {
    #[must_use]
    pub fn includes(&self, key: &ConversationKey) -> bool {
        self.memory.as_ref().is_none_or(|memory| *memory == key.memory)
            && self.id.as_ref().is_none_or(|id| *id == key.id)
    }

    /// Whether what this query has said is wanted.
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

/// A part of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Listing<T> {
    pub items: Vec<T>,
    /// Whether there are more behind the last one.
    pub more: bool,
    /// Of the whole list; of what was said, messages are counted.
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
    ) -> Result<Vec<Said>, StoreError>;

    /// Conversations, the one that was added to last first; from behind the one that `after` added to last.
    async fn conversations(
        &self,
        namespace: &Namespace,
        wanted: &Wanted,
        after: Option<QueryUid>,
        limit: usize,
    ) -> Result<Listing<Conversation>, StoreError>;

    /// What was said, in the order in which it was added; from behind what `after` has said. A page has at most
    /// `limit` queries, and fewer if they are [large](super::PAGE_BYTES).
    async fn said(
        &self,
        namespace: &Namespace,
        wanted: &Wanted,
        after: Option<QueryUid>,
        limit: usize,
    ) -> Result<Listing<Said>, StoreError>;
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
