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
    turns: Vec<(Namespace, ConversationTurn, Size)>,
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
        self.turns.push((namespace.clone(), ConversationTurn { key, query, name, at, first, messages }, size));
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
        self.turns.iter().filter(move |(owner, turn, _)| {
            owner == namespace && wanted.includes(&turn.key) && wanted.includes_query(&turn.name, turn.query)
        })
    }

    /// Deletes what is wanted; returns how many conversations, or how many queries of one, that were.
    pub(super) fn delete(&mut self, namespace: &Namespace, wanted: &WantedConversations) -> usize {
        let conversations: std::collections::BTreeSet<_> =
            self.of(namespace, wanted).map(|(_, turn, _)| turn.key.clone()).collect();
        let queries = self.of(namespace, wanted).count();
        self.turns.retain(|(owner, turn, _)| {
            owner != namespace || !wanted.includes(&turn.key) || !wanted.includes_query(&turn.name, turn.query)
        });
        self.drop_empty();
        if wanted.query.is_some() { queries } else { conversations.len() }
    }

    /// Deletes conversations past their retention, and returns the audit records of that.
    pub(super) fn delete_expired(&mut self, now: Timestamp) -> Vec<(Namespace, AuditRecord)> {
        let mut records = Vec::new();
        self.known.retain(|(namespace, key), (_, until)| {
            let stays = *until > now;
            if !stays {
                records.push((namespace.clone(), outdated(key, now)));
            }
            stays
        });
        let known = &self.known;
        self.turns.retain(|(namespace, turn, _)| known.contains_key(&(namespace.clone(), turn.key.clone())));
        records
    }

    /// Removes conversations without messages.
    fn drop_empty(&mut self) {
        let turns = &self.turns;
        self.known
            .retain(|(owner, key), _| turns.iter().any(|(namespace, turn, _)| namespace == owner && turn.key == *key));
    }

    fn listed(&self, namespace: &Namespace, wanted: &WantedConversations) -> Vec<Conversation> {
        let mut listed: Vec<Conversation> = Vec::new();
        for (_, turn, _) in self.of(namespace, wanted).collect::<Vec<_>>().into_iter().rev() {
            let count = turn.messages.len() as u64;
            match listed.iter_mut().find(|conversation| conversation.key == turn.key) {
                Some(conversation) => conversation.messages += count,
                None => listed.push(Conversation {
                    key: turn.key.clone(),
                    messages: count,
                    latest: turn.query,
                    updated_at: turn.at,
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
        let latest = self
            .conversations
            .turns
            .iter()
            .rev()
            .find(|(owner, turn, _)| owner == namespace && turn.key == joining.key);
        is_open || latest.map(|(_, turn, _)| turn.query) != joining.after
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
            .map(|(_, turn, _)| turn.clone())
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
        let total = all.iter().map(|(_, turn, _)| turn.messages.len() as u64).sum();
        let (wanted, mut more) = behind(all, after, |(_, turn, _), uid| turn.query == uid, limit);
        let (mut items, mut bytes) = (Vec::new(), 0);
        for (_, turn, size) in wanted {
            if bytes > PAGE_BYTES as u64 {
                more = true;
                break;
            }
            bytes += size.bytes;
            items.push(turn.clone());
        }
        Ok(Listing { items, more, total })
    }
}
