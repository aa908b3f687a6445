//! Conversations in memory.

use std::collections::BTreeMap;

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

/// The conversations, and the queries that are or were in them.
#[derive(Debug, Default)]
pub(super) struct MemoryConversations {
    known: BTreeMap<(Namespace, ConversationKey), MemoryConversation>,
    /// Stored queries by the conversation that they joined.
    joined: BTreeMap<(Namespace, ConversationKey), Vec<QueryUid>>,
    /// How many turns were ever added.
    added: u64,
}

/// A conversation that has at least one turn.
#[derive(Debug, Default)]
struct MemoryConversation {
    /// Oldest first.
    turns: Vec<MemoryTurn>,
    /// How many it ever had.
    messages: u64,
    kept_until: Timestamp,
}

#[derive(Debug)]
struct MemoryTurn {
    /// In the order in which turns were added, over all conversations.
    number: u64,
    turn: ConversationTurn,
    size: Size,
}

impl MemoryConversations {
    pub(super) fn join(&mut self, namespace: &Namespace, key: &ConversationKey, query: QueryUid) {
        self.joined.entry((namespace.clone(), key.clone())).or_default().push(query);
    }

    /// Undoes [`MemoryConversations::join`], for a query that is deleted.
    pub(super) fn leave(&mut self, namespace: &Namespace, key: ConversationKey, query: QueryUid) {
        let place = (namespace.clone(), key);
        if let Some(queries) = self.joined.get_mut(&place) {
            queries.retain(|joined| *joined != query);
            if queries.is_empty() {
                self.joined.remove(&place);
            }
        }
    }

    pub(super) fn add(&mut self, namespace: &Namespace, exchange: Exchange) {
        let Exchange { key, query, name, at, kept_until, messages } = exchange;
        let bytes = messages.iter().map(|message| message::write(message).to_string().len()).sum();
        let size = Size::of(&messages, bytes);
        let conversation = self.known.entry((namespace.clone(), key.clone())).or_default();
        let first = conversation.messages + 1;
        conversation.messages += messages.len() as u64;
        conversation.kept_until = kept_until.max(conversation.kept_until);
        let turn = ConversationTurn { key, query, name, at, first, messages };
        conversation.turns.push(MemoryTurn { number: self.added, turn, size });
        self.added += 1;
    }

    /// The namespace of each conversation.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &Namespace> {
        self.known.keys().map(|(namespace, _)| namespace)
    }

    fn turns(&self, namespace: &Namespace, key: &ConversationKey) -> &[MemoryTurn] {
        self.known.get(&(namespace.clone(), key.clone())).map_or(&[], |conversation| &conversation.turns)
    }

    /// The turns that are wanted, by conversation.
    fn of<'a>(
        &'a self,
        namespace: &'a Namespace,
        wanted: &'a WantedConversations,
    ) -> impl Iterator<Item = (&'a ConversationKey, Vec<&'a MemoryTurn>)> {
        let conversations =
            self.known.iter().filter(move |((owner, key), _)| owner == namespace && wanted.includes(key));
        conversations.map(move |((_, key), conversation)| {
            (key, conversation.turns.iter().filter(|kept| kept.is_wanted(wanted)).collect())
        })
    }

    /// Deletes what is wanted; returns how many conversations, or how many queries of one, that were.
    pub(super) fn delete(&mut self, namespace: &Namespace, wanted: &WantedConversations) -> usize {
        let (mut conversations, mut queries) = (0, 0);
        self.known.retain(|(owner, key), conversation| {
            if owner == namespace && wanted.includes(key) {
                let before = conversation.turns.len();
                conversation.turns.retain(|kept| !kept.is_wanted(wanted));
                let deleted = before - conversation.turns.len();
                queries += deleted;
                conversations += usize::from(deleted > 0);
            }
            !conversation.turns.is_empty()
        });
        if wanted.query.is_some() { queries } else { conversations }
    }

    /// Deletes conversations past their retention, and returns the audit records of that.
    pub(super) fn delete_expired(&mut self, now: Timestamp) -> Vec<(Namespace, AuditRecord)> {
        let expired = self.known.extract_if(.., |_, conversation| conversation.kept_until <= now);
        expired.map(|((namespace, key), _)| (namespace, outdated(&key, now))).collect()
    }

    fn listed(&self, namespace: &Namespace, wanted: &WantedConversations) -> Vec<Conversation> {
        let mut listed: Vec<(u64, Conversation)> = Vec::new();
        for (key, turns) in self.of(namespace, wanted) {
            let Some(last) = turns.last() else { continue };
            let conversation = Conversation {
                key: key.clone(),
                messages: turns.iter().map(|kept| kept.turn.messages.len() as u64).sum(),
                latest: last.turn.query,
                updated_at: last.turn.at,
            };
            listed.push((last.number, conversation));
        }
        listed.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
        listed.into_iter().map(|(_, conversation)| conversation).collect()
    }
}

impl MemoryTurn {
    fn is_wanted(&self, wanted: &WantedConversations) -> bool {
        wanted.includes_query(&self.turn.name, self.turn.query)
    }
}

impl MemoryState {
    /// Whether another query of the conversation is open, or has ended since its history was read.
    pub(super) fn is_busy(&self, namespace: &Namespace, joining: &Joining) -> bool {
        let joined = self.conversations.joined.get(&(namespace.clone(), joining.key.clone()));
        let mut queries = joined.into_iter().flatten().filter_map(|uid| self.queries.get(uid));
        let latest = self.conversations.turns(namespace, &joining.key).last();
        queries.any(|query| !query.head.status().is_final()) || latest.map(|kept| kept.turn.query) != joining.after
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
        let latest_first = state.conversations.turns(namespace, key).iter().rev();
        let mut taken: Vec<_> =
            latest_first.take_while(|kept| frame.take(kept.size)).map(|kept| kept.turn.clone()).collect();
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
        let mut all: Vec<_> = state.conversations.of(namespace, wanted).flat_map(|(_, turns)| turns).collect();
        all.sort_by_key(|kept| kept.number);
        let total = all.iter().map(|kept| kept.turn.messages.len() as u64).sum();
        let (wanted, mut more) = behind(all, after, |kept, uid| kept.turn.query == uid, limit);
        let (mut items, mut bytes) = (Vec::new(), 0);
        for MemoryTurn { turn, size, .. } in wanted {
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
