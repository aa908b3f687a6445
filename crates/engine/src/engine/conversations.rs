//! How a query joins a conversation.
//!
//! The client's request and the memories of its namespace determine the conversation. The history is read once, when
//! the query is accepted, and stored with the query as a document: messages that are added or deleted while it runs
//! do not reach it.

use bosun_core::{
    Actor, ContentHash, Namespace, QueryUid,
    audit::{Action, AuditRecord},
    conversation::{ConversationKey, History},
    query::TargetKind,
};
use serde::Serialize;

use crate::{
    EngineError, StoreError, Submission,
    engine::{Engine, Inner},
    registry::MemoryWindow,
    store::{
        Removal, StoredDocument,
        conversations::{Conversation, ConversationTurn, Frame, Joining, Listing, Size, WantedConversations},
    },
};

/// The memory that is used if the request names none. Every namespace has it; a manifest of that name configures it.
pub const DEFAULT_MEMORY: &str = "default";

/// The maximum size of a history, whatever the window of the memory allows, unless a single query exceeds it.
const HISTORY_BYTES: u64 = 1 << 20;

/// What a request says about the conversation of its query.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AskedConversation {
    /// The name of a memory; `default` if absent.
    pub memory: Option<String>,
    /// The client's id of the conversation. If absent, a new conversation begins, provided the memory has a manifest:
    /// the built-in default memory only keeps conversations that a client has named.
    pub id: Option<String>,
    /// Accept the query only if no other query of the conversation is open.
    pub alone: bool,
}

impl AskedConversation {
    /// Whether it adds nothing to the session id.
    pub(crate) fn is_only(&self, session: Option<&str>) -> bool {
        self.memory.is_none() && !self.alone && self.id.as_deref() == session
    }
}

impl MemoryWindow {
    fn frame(self) -> Frame {
        let (messages, tokens) = match self {
            Self::Messages(messages) => (u64::from(messages), u64::MAX),
            Self::Tokens(tokens) => (u64::MAX, u64::from(tokens)),
        };
        Frame::new(Size { messages, tokens, bytes: HISTORY_BYTES })
    }
}

impl Inner {
    /// How the query joins a conversation. `None` if it names none and the memory has no manifest, or if its target has
    /// no model that could be shown the history.
    pub(crate) async fn join(&self, submission: &Submission, uid: QueryUid) -> Result<Option<Joining>, EngineError> {
        let (namespace, asked) = (&submission.namespace, &submission.conversation);
        if submission.target_kind == TargetKind::Tool {
            return Ok(None);
        }
        let name = asked.memory.as_deref().unwrap_or(DEFAULT_MEMORY);
        let registry = self.resources.registry();
        let is_described = registry.memory(namespace, name).is_some();
        let Some(window) = registry.window(namespace, name) else {
            return Err(EngineError::MemoryNotFound(namespace.clone(), name.to_owned()));
        };
        if !is_described && asked.memory.is_none() && asked.id.is_none() {
            return Ok(None);
        }
        let (memory, alone) = (name.to_owned(), asked.alone);
        let Some(id) = asked.id.clone() else {
            // A conversation that begins now has no history.
            let key = ConversationKey { memory, id: uid.to_string() };
            return Ok(Some(Joining { key, alone, after: None, history: None }));
        };
        let key = ConversationKey { memory, id };
        let turns = self.store.history(namespace, &key, window.frame()).await?;
        let after = turns.last().map(|turn| turn.query);
        let messages: Vec<_> = turns.iter().flat_map(|turn| turn.messages.iter().cloned()).collect();
        let history = if messages.is_empty() { None } else { Some(document(&History { messages })?) };
        Ok(Some(Joining { key, alone, after, history }))
    }
}

fn document(history: &History) -> Result<StoredDocument, StoreError> {
    let body = history.to_document().map_err(|error| StoreError::Unavailable(Box::new(error)))?;
    Ok(StoredDocument { hash: ContentHash::of(body.as_bytes()), body: body.into() })
}

impl Engine {
    /// Conversations of a namespace, most recently extended first.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn conversations(
        &self,
        namespace: &Namespace,
        wanted: &WantedConversations,
        after: Option<QueryUid>,
        limit: usize,
    ) -> Result<Listing<Conversation>, EngineError> {
        Ok(self.store().conversations(namespace, wanted, after, limit).await?)
    }

    /// The messages of conversations of a namespace, in order.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn conversation_turns(
        &self,
        namespace: &Namespace,
        wanted: &WantedConversations,
        after: Option<QueryUid>,
        limit: usize,
    ) -> Result<Listing<ConversationTurn>, EngineError> {
        Ok(self.store().conversation_turns(namespace, wanted, after, limit).await?)
    }

    /// Deletes conversations, or the messages of one query in them, and returns how many were deleted. Open queries are
    /// not affected: their history is frozen, and they append to the conversation when they complete.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn delete_conversations(
        &self,
        by: Actor,
        namespace: Namespace,
        wanted: WantedConversations,
    ) -> Result<usize, EngineError> {
        self.detached(async move |inner| {
            let record = AuditRecord::of_act(
                inner.clock.now(),
                Action::ConversationDeleted,
                Some(&by),
                Some(wanted.to_string()),
            );
            let record = Box::new(record);
            let mut deleted = 0;
            loop {
                // However many batches it takes, it is one act: only the first batch carries the audit record.
                let record = (deleted == 0).then(|| record.clone());
                let removal = Removal::Conversations(namespace.clone(), wanted.clone(), record);
                match inner.store.remove(removal, inner.clock.now()).await? {
                    0 => return Ok(deleted),
                    count => deleted += count,
                }
            }
        })
        .await
    }
}
