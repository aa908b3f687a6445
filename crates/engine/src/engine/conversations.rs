//! How a query takes part in a conversation.
//!
//! Which conversation it is follows from what the client says and from the memories of its namespace. What
//! was said before is read once, when the query is taken on, and kept with the query as a document: what is
//! added or deleted while it runs does not reach it.

use bosun_core::{
    Actor, ContentHash, Namespace, QueryUid,
    audit::{Action, Record},
    conversation::{ConversationKey, History},
    query::TargetKind,
};
use serde::Serialize;

use crate::{
    EngineError, StoreError, Submission,
    engine::{Engine, Inner},
    registry::Window,
    store::{
        Document, Removal,
        conversations::{Conversation, Frame, Joining, Listing, Said, Size, Wanted},
    },
};

/// The memory that is used where none is named. Every namespace has it; a manifest of that name says how it is.
pub const DEFAULT_MEMORY: &str = "default";

/// A history is no longer than this, whatever the window of the memory says, unless one query alone is.
const HISTORY_BYTES: u64 = 1 << 20;

/// What a client says about the conversation of its query.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AskedConversation {
    /// The name of a memory; where absent, the one called `default`.
    pub memory: Option<String>,
    /// What the client calls the conversation. Where absent, a new one begins, if there is a manifest of the memory: the
    /// one that every namespace has keeps only what a client has given a name to.
    pub id: Option<String>,
    /// Only if no other query of it is open.
    pub alone: bool,
}

impl AskedConversation {
    /// Whether it says no more than the session does.
    pub(crate) fn is_only(&self, session: Option<&str>) -> bool {
        self.memory.is_none() && !self.alone && self.id.as_deref() == session
    }
}

impl Window {
    fn frame(self) -> Frame {
        let (messages, tokens) = match self {
            Self::Messages(messages) => (u64::from(messages), u64::MAX),
            Self::Tokens(tokens) => (u64::MAX, u64::from(tokens)),
        };
        Frame::new(Size { messages, tokens, bytes: HISTORY_BYTES })
    }
}

impl Inner {
    /// How the query takes part in a conversation; not at all if it names none and no memory is described, or if there
    /// is no model that could be shown what was said.
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
            // Nothing can have been said in a conversation that begins now.
            let key = ConversationKey { memory, id: uid.to_string() };
            return Ok(Some(Joining { key, alone, after: None, history: None }));
        };
        let key = ConversationKey { memory, id };
        let said = self.store.history(namespace, &key, window.frame()).await?;
        let after = said.last().map(|said| said.query);
        let messages: Vec<_> = said.iter().flat_map(|said| said.messages.iter().cloned()).collect();
        let history = if messages.is_empty() { None } else { Some(document(&History { messages })?) };
        Ok(Some(Joining { key, alone, after, history }))
    }
}

fn document(history: &History) -> Result<Document, StoreError> {
    let body = history.to_document().map_err(|error| StoreError::Unavailable(Box::new(error)))?;
    Ok(Document { hash: ContentHash::of(body.as_bytes()), body: body.into() })
}

impl Engine {
    /// Conversations of a namespace, the one that was added to last first.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn conversations(
        &self,
        namespace: &Namespace,
        wanted: &Wanted,
        after: Option<QueryUid>,
        limit: usize,
    ) -> Result<Listing<Conversation>, EngineError> {
        Ok(self.store().conversations(namespace, wanted, after, limit).await?)
    }

    /// What was said in conversations of a namespace, in order.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn said(
        &self,
        namespace: &Namespace,
        wanted: &Wanted,
        after: Option<QueryUid>,
        limit: usize,
    ) -> Result<Listing<Said>, EngineError> {
        Ok(self.store().said(namespace, wanted, after, limit).await?)
    }

    /// Forgets conversations, or what one query has said in them, and says how many that were. Queries that
    /// are open are not touched: they know what they were told, and add to the conversation when they complete.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn forget(&self, by: Actor, namespace: Namespace, wanted: Wanted) -> Result<usize, EngineError> {
        self.detached(async move |inner| {
            let record =
                Record::of_act(inner.clock.now(), Action::ConversationDeleted, Some(&by), Some(wanted.to_string()));
            let record = Box::new(record);
            let mut forgotten = 0;
            loop {
                // However many pieces it takes, it is one act: the first of them says so.
                let record = (forgotten == 0).then(|| record.clone());
                let removal = Removal::Conversations(namespace.clone(), wanted.clone(), record);
                match inner.store.remove(removal, inner.clock.now()).await? {
                    0 => return Ok(forgotten),
                    count => forgotten += count,
                }
            }
        })
        .await
    }
}
