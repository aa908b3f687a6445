//! Conversations in memory.

use async_trait::async_trait;
use bosun_core::{Namespace, QueryUid, Timestamp, audit::AuditRecord, conversation::ConversationKey, message};

use super::{MemoryState, MemoryStore};
use crate::store::{
    PAGE_BYTES, StoreError,
    conversations::{
        Conversation, ConversationTurn, Conversations, Exchange, Frame, Joining, Listing, Size, WantedConversations,
        outdated,
    },
};

/// Conversations and their messages, in the order in which they were added.
#[derive(Debug, Default)]
pub(super) struct MemoryConversations {
    said: Vec<(Namespace, ConversationTurn, Size)>,
    /// How many messages a conversation ever had, and when its retention ends.
    known: std::collections::BTreeMap<(Namespace, ConversationKey), (u64, Timestamp)>,
}

impl MemoryConversations {
    pub(super) fn add(&mut self, namespace: &Namespace, exchange: Exchange) {
        let Exchange { key, query, name, at, kept_until, messages } = exchange;
        let bytes = messages.iter().map(|message| message::write(message).to_string().len()).sum();
        let size = Size::of(&messages, bytes);
        let (count, until) = self.known.entry((namespace.clone(), key.clone())).or_default();
        let first = *count + 1;
        *count += messages.len() as u64;
        *until = kept_until.max(*until);
        self.said.push((namespace.clone(), ConversationTurn { key, query, name, at, first, messages }, size));
    }

    /// The namespace of each conversation.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &Namespace> {
        self.known.keys().map(|(namespace, _)| namespace)
    }

    fn of<'a>(
        &'a self,
        namespace: &'a Namespace,
        wanted: &'a WantedConversations,
    ) -> impl Iterator<Item = &'a (Namespace, ConversationTurn, Size)> {
        self.said.iter().filter(move |(owner, said, _)| {
            owner == namespace && wanted.includes(&said.key) && wanted.includes_query(&said.name, said.query)
        })
    }

    /// Deletes what is wanted; returns how many conversations, or how many queries of one, that were.
    pub(super) fn forget(&mut self, namespace: &Namespace, wanted: &WantedConversations) -> usize {
        let conversations: std::collections::BTreeSet<_> =
            self.of(namespace, wanted).map(|(_, said, _)| said.key.clone()).collect();
        let queries = self.of(namespace, wanted).count();
        self.said.retain(|(owner, said, _)| {
            owner != namespace || !wanted.includes(&said.key) || !wanted.includes_query(&said.name, said.query)
        });
        self.drop_empty();
        if wanted.query.is_some() { queries } else { conversations.len() }
    }

    /// Deletes conversations past their retention, and returns the audit records of that.
    pub(super) fn forget_outdated(&mut self, now: Timestamp) -> Vec<(Namespace, AuditRecord)> {
        let mut acts = Vec::new();
        self.known.retain(|(namespace, key), (_, until)| {
            let stays = *until > now;
            if !stays {
                acts.push((namespace.clone(), outdated(key, now)));
            }
            stays
        });
        let known = &self.known;
        self.said.retain(|(namespace, said, _)| known.contains_key(&(namespace.clone(), said.key.clone())));
        acts
    }

    /// Removes conversations without messages.
    fn drop_empty(&mut self) {
        let said = &self.said;
        self.known
            .retain(|(owner, key), _| said.iter().any(|(namespace, said, _)| namespace == owner && said.key == *key));
    }

    fn listed(&self, namespace: &Namespace, wanted: &WantedConversations) -> Vec<Conversation> {
        let mut listed: Vec<Conversation> = Vec::new();
        for (_, said, _) in self.of(namespace, wanted).collect::<Vec<_>>().into_iter().rev() {
            let count = said.messages.len() as u64;
            match listed.iter_mut().find(|conversation| conversation.key == said.key) {
                Some(conversation) => conversation.messages += count,
                None => listed.push(Conversation {
                    key: said.key.clone(),
                    messages: count,
                    latest: said.query,
                    updated_at: said.at,
                }),
            }
        }
        listed
    }
}

impl MemoryState {
    /// Whether another query of the conversation is open, or has ended since its history was read.
    pub(super) fn is_busy(&self, namespace: &Namespace, joining: &Joining) -> bool {
        let is_open = self.queries.values().any(|query| {
            query.head.namespace == *namespace
                && query.conversation.as_ref() == Some(&joining.key)
                && !query.head.status().is_final()
        });
        let said =
            self.conversations.said.iter().rev().find(|(owner, said, _)| owner == namespace && said.key == joining.key);
        is_open || said.map(|(_, said, _)| said.query) != joining.after
    }
}

/// The part of a list after the item that `is_last` matches.
fn behind<T>(
    items: Vec<T>,
    after: Option<QueryUid>,
    is_last: impl Fn(&T, QueryUid) -> bool,
    limit: usize,
) -> (Vec<T>, bool) {
    let start = match after {
        None => 0,
        Some(uid) => items.iter().position(|item| is_last(item, uid)).map_or(items.len(), |index| index + 1),
    };
    let more = items.len().saturating_sub(start) > limit;
    (items.into_iter().skip(start).take(limit).collect(), more)
}

#[async_trait]
impl Conversations for MemoryStore {
    async fn history(
        &self,
        namespace: &Namespace,
        key: &ConversationKey,
        mut frame: Frame,
    ) -> Result<Vec<ConversationTurn>, StoreError> {
        let state = self.lock();
        let wanted = WantedConversations { memory: Some(key.memory.clone()), id: Some(key.id.clone()), query: None };
        let all: Vec<_> = state.conversations.of(namespace, &wanted).collect();
        let mut taken: Vec<_> = all
            .into_iter()
            .rev()
            .take_while(|(_, _, size)| frame.take(*size))
            .map(|(_, said, _)| said.clone())
            .collect();
        taken.reverse();
        Ok(taken)
    }

    async fn conversations(
        &self,
        namespace: &Namespace,
        wanted: &WantedConversations,
        after: Option<QueryUid>,
        limit: usize,
    ) -> Result<Listing<Conversation>, StoreError> {
        let listed = self.lock().conversations.listed(namespace, wanted);
        let total = listed.len() as u64;
        let (items, more) = behind(listed, after, |conversation, uid| conversation.latest == uid, limit);
        Ok(Listing { items, more, total })
    }

    async fn conversation_turns(
        &self,
        namespace: &Namespace,
        wanted: &WantedConversations,
        after: Option<QueryUid>,
        limit: usize,
    ) -> Result<Listing<ConversationTurn>, StoreError> {
        let state = self.lock();
        let all: Vec<_> = state.conversations.of(namespace, wanted).collect();
        let total = all.iter().map(|(_, said, _)| said.messages.len() as u64).sum();
        let (wanted, mut more) = behind(all, after, |(_, said, _), uid| said.query == uid, limit);
        let (mut items, mut bytes) = (Vec::new(), 0);
        for (_, said, size) in wanted {
            if bytes > PAGE_BYTES as u64 {
                more = true;
                break;
            }
            bytes += size.bytes;
            items.push(said.clone());
        }
        Ok(Listing { items, more, total })
    }
}
