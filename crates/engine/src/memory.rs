//! A store in memory: for tests, and for servers that need no persistence.
//!
//! It keeps every promise of [`Store`] except durability, in the simplest way there is: one lock over ordered maps, and
//! every append decided at once. [`MemoryStore::reopen`] simulates the restart of a process, so that recovery can be tested
//! without a disk.

mod conversations;
mod webhooks;

use std::{
    collections::{BTreeMap, BTreeSet, HashSet, btree_map},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use bosun_core::{
    CallId, ContentHash, Entry, Event, Head, Namespace, QueryName, QueryUid, Spec, Timestamp,
    audit::AuditRecord,
    conversation::ConversationKey,
    journal::JournalSize,
    usage::{Hour, Sample, UsageTotals},
};

use crate::{
    resource::{ManifestChange, ResourceChange, ResourceKey, StoredResource},
    store::{
        Answered, Append, FoundRecords, IdempotentRequest, ListedQueries, Numbered, PAGE_BYTES, Position, QueryPage,
        REQUESTS_KEPT, RecordSearch, Records, Rejection, Rejections, Removal, RequestKey, Runnable, Store, StoreError,
        StoreStats, Stored, StoredDocument, WantedQueries,
        conversations::{ConversationPart, Joining},
        has_work, shown_from,
    },
};

/// Journals in memory, gone when the last handle is dropped.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    state: Arc<Mutex<MemoryState>>,
    epoch: u64,
}

#[derive(Debug, Default)]
struct MemoryState {
    /// Raised by every [`MemoryStore::reopen`]; only the handle with the current epoch may write.
    epoch: u64,
    queries: BTreeMap<QueryUid, MemoryQuery>,
    names: BTreeMap<(Namespace, QueryName), QueryUid>,
    documents: BTreeMap<ContentHash, SharedDocument>,
    requests: BTreeMap<(Namespace, RequestKey), Remembered>,
    resources: BTreeMap<ResourceKey, StoredResource>,
    webhooks: webhooks::MemoryWebhooks,
    /// In the batches in which they were written: no record is ever moved.
    records: BTreeMap<Namespace, Vec<Vec<AuditRecord>>>,
    usage: BTreeMap<(Namespace, Hour), UsageTotals>,
    conversations: conversations::MemoryConversations,
    rejections: Rejections,
    last: Position,
    /// The last position that a caller has waited for.
    awaited: Position,
    stats: StoreStats,
    closed: bool,
}

#[derive(Debug)]
struct MemoryQuery {
    head: Arc<Head>,
    entries: Vec<Arc<Entry>>,
    size: JournalSize,
    /// Its toolset and its history.
    documents: Vec<ContentHash>,
    /// Those that it answered.
    requests: Vec<RequestKey>,
    conversation: Option<ConversationKey>,
    /// Of the process that wrote last.
    epoch: u64,
}

impl MemoryQuery {
    /// What it was asked; every journal begins with that.
    fn spec(&self) -> Option<&Spec> {
        match &self.entries.first()?.event {
            Event::Created { spec, .. } => Some(spec),
            _ => None,
        }
    }
}

#[derive(Debug)]
struct SharedDocument {
    body: Arc<str>,
    /// How often queries refer to it; it goes with the last one.
    references: usize,
}

#[derive(Debug)]
struct Remembered {
    answered: Answered,
    /// Set when the query is deleted.
    until: Option<Timestamp>,
}

#[derive(Debug, thiserror::Error)]
#[error("the store is closed")]
struct MemoryClosed;

impl MemoryStore {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same journals, as a later process finds them; this handle is fenced and can no longer write.
    #[must_use]
    pub fn reopen(&self) -> Self {
        let mut state = self.lock();
        state.epoch += 1;
        state.closed = false;
        Self { state: Arc::clone(&self.state), epoch: state.epoch }
    }

    /// The stored data, if this handle may still write.
    fn open(&self) -> Result<MutexGuard<'_, MemoryState>, StoreError> {
        let state = self.lock();
        if state.epoch != self.epoch {
            return Err(StoreError::Fenced);
        }
        if state.closed {
            return Err(StoreError::Unavailable(Box::new(MemoryClosed)));
        }
        Ok(state)
    }

    fn lock(&self) -> MutexGuard<'_, MemoryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryState {
    /// The namespaces of all stored data.
    fn namespaces(&self) -> impl Iterator<Item = &Namespace> {
        self.queries.values().map(|query| &query.head.namespace).chain(self.conversations.namespaces())
    }

    fn decide(&self, append: &Append) -> Result<(), Rejection> {
        self.rejections.check(append.after)?;
        let head = &append.head;
        let stored = self.queries.get(&head.uid);
        let seen_is_stored = append.seen == stored.map_or(0, |query| query.head.seq);
        if !seen_is_stored || !append.is_whole() {
            return Err(Rejection::Conflict(head.uid));
        }
        if stored.is_none() && self.names.contains_key(&(head.namespace.clone(), head.name.clone())) {
            return Err(Rejection::NameTaken(head.name.clone()));
        }
        if let Some(request) = &append.request
            && self.requests.contains_key(&(head.namespace.clone(), request.key.clone()))
        {
            return Err(Rejection::RequestTaken);
        }
        if let Some(ConversationPart::Joins(joining)) = &append.conversation
            && joining.alone
            && self.is_busy(&head.namespace, joining)
        {
            return Err(Rejection::ConversationBusy(joining.key.id.clone()));
        }
        Ok(())
    }

    fn keep(&mut self, append: Append, epoch: u64) {
        let moves = append.moves();
        let Append { head, entries, toolset, request, records, conversation, .. } = append;
        self.add_records(&head.namespace, records);
        let answers = request.map(|IdempotentRequest { key, fingerprint }| {
            let answered = Answered { fingerprint, uid: head.uid, name: head.name.clone() };
            self.requests.insert((head.namespace.clone(), key.clone()), Remembered { answered, until: None });
            key
        });
        let (conversation, history) = match conversation {
            Some(ConversationPart::Joins(Joining { key, history, .. })) => (Some(key), history),
            Some(ConversationPart::Adds(exchange)) => {
                self.conversations.add(&head.namespace, exchange);
                (None, None)
            }
            None => (None, None),
        };
        let mut documents = Vec::new();
        for StoredDocument { hash, body } in toolset.into_iter().chain(history) {
            documents.push(hash);
            self.documents.entry(hash).or_insert(SharedDocument { body, references: 0 }).references += 1;
        }
        match self.queries.entry(head.uid) {
            btree_map::Entry::Occupied(mut known) => {
                let query = known.get_mut();
                query.head = head;
                query.epoch = if moves { epoch } else { query.epoch };
                entries.iter().for_each(|entry| query.size += entry.size);
                query.entries.extend(entries.into_iter().map(|encoded| encoded.entry));
                query.documents.extend(documents);
                query.requests.extend(answers);
            }
            btree_map::Entry::Vacant(place) => {
                self.names.insert((head.namespace.clone(), head.name.clone()), head.uid);
                let mut size = JournalSize::default();
                entries.iter().for_each(|entry| size += entry.size);
                let entries = entries.into_iter().map(|encoded| encoded.entry).collect();
                if let Some(key) = &conversation {
                    self.conversations.join(&head.namespace, key, head.uid);
                }
                let requests = answers.into_iter().collect();
                place.insert(MemoryQuery { head, entries, size, documents, requests, conversation, epoch });
            }
        }
    }

    fn add_records(&mut self, namespace: &Namespace, records: Vec<AuditRecord>) {
        for record in &records {
            if let Some(sample) = Sample::of(record) {
                self.usage.entry((namespace.clone(), Hour::of(record.at))).or_default().add(sample);
            }
        }
        if !records.is_empty() {
            self.records.entry(namespace.clone()).or_default().push(records);
        }
    }

    fn remove(&mut self, uid: QueryUid, now: Timestamp) {
        let Some(query) = self.queries.remove(&uid) else { return };
        let namespace = &query.head.namespace;
        self.names.remove(&(namespace.clone(), query.head.name.clone()));
        for key in query.requests {
            if let Some(remembered) = self.requests.get_mut(&(namespace.clone(), key)) {
                remembered.until = Some(now.after(REQUESTS_KEPT));
            }
        }
        webhooks::remove_of(&mut self.webhooks, uid);
        if let Some(key) = query.conversation {
            self.conversations.leave(namespace, key, uid);
        }
        for hash in query.documents {
            if let btree_map::Entry::Occupied(mut document) = self.documents.entry(hash) {
                document.get_mut().references -= 1;
                if document.get().references == 0 {
                    document.remove();
                }
            }
        }
    }
}

#[async_trait]
impl Records for MemoryStore {
    fn record(&self, namespace: &Namespace, records: Vec<AuditRecord>) -> Result<Position, StoreError> {
        let mut state = self.open()?;
        state.last.0 += 1;
        state.stats.appends += 1;
        state.add_records(namespace, records);
        Ok(state.last)
    }

    async fn search(&self, namespace: &Namespace, search: &RecordSearch) -> Result<FoundRecords, StoreError> {
        let state = self.lock();
        let records = state.records.get(namespace).into_iter().flatten().flatten();
        let is_before = |seq: u64| search.before.is_none_or(|before| seq < before);
        let numbered: Vec<_> = records.zip(1_u64..).take_while(|(_, seq)| is_before(*seq)).collect();
        let mut found = FoundRecords::default();
        for (record, seq) in numbered.into_iter().rev() {
            if found.records.len() == search.limit {
                found.next = Some(seq + 1);
                break;
            }
            if search.wants(record) {
                found.records.push(Numbered { seq, record: record.clone(), mac: None });
            }
        }
        Ok(found)
    }

    async fn usage(&self, namespace: &Namespace, since: Hour) -> Result<UsageTotals, StoreError> {
        let state = self.lock();
        let mut sum = UsageTotals::default();
        for ((_, _), usage) in
            state.usage.range((namespace.clone(), since)..).take_while(|((of, _), _)| of == namespace)
        {
            usage.calls.iter().for_each(|(key, tally)| sum.add_calls(key.clone(), tally));
            usage.queries.iter().for_each(|(agent, tally)| sum.add_queries(agent.clone(), tally));
        }
        Ok(sum)
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn append(&self, append: Append) -> Result<Position, StoreError> {
        let mut state = self.open()?;
        state.last.0 += 1;
        state.stats.appends += 1;
        let position = state.last;
        match state.decide(&append) {
            Ok(()) => state.keep(append, self.epoch),
            Err(rejection) => state.rejections.record(position, rejection),
        }
        Ok(position)
    }

    async fn durable(&self, position: Position) -> Result<(), StoreError> {
        let mut state = self.lock();
        if position > state.awaited {
            // A disk would be flushed now, with everything that was appended since the last flush.
            state.awaited = state.last;
            state.stats.commits += 1;
            state.stats.awaited_commits += 1;
        }
        Ok(state.rejections.check(position)?)
    }

    fn last_position(&self) -> Position {
        self.lock().last
    }

    async fn load(&self, namespace: &Namespace, name: &QueryName) -> Result<Option<Stored>, StoreError> {
        let state = self.lock();
        let uid = state.names.get(&(namespace.clone(), name.clone()));
        let query = uid.and_then(|uid| state.queries.get(uid));
        Ok(query.map(|query| Stored {
            head: Head::clone(&query.head),
            entries: query.entries.iter().map(|entry| Entry::clone(entry)).collect(),
            size: query.size,
        }))
    }

    async fn answered(&self, namespace: &Namespace, key: &RequestKey) -> Result<Option<Answered>, StoreError> {
        let state = self.lock();
        let remembered = state.requests.get(&(namespace.clone(), key.clone()));
        Ok(remembered.map(|remembered| remembered.answered.clone()))
    }

    async fn remove(&self, removal: Removal, now: Timestamp) -> Result<usize, StoreError> {
        let mut state = self.lock();
        if state.epoch != self.epoch {
            return Err(StoreError::Fenced);
        }
        let removed: Vec<_> = match removal {
            Removal::Conversations(namespace, wanted, record) => {
                let deleted = state.conversations.delete(&namespace, &wanted);
                if let Some(record) = record.filter(|_| deleted > 0) {
                    state.add_records(&namespace, vec![*record]);
                }
                return Ok(deleted);
            }
            Removal::Query(namespace, uid, record) => {
                let found = state.queries.get(&uid).is_some_and(|query| query.head.namespace == namespace);
                if found {
                    state.add_records(&namespace, vec![*record]);
                }
                Some(uid).filter(|_| found).into_iter().collect()
            }
            Removal::Outdated => {
                state.requests.retain(|_, remembered| remembered.until.is_none_or(|until| until > now));
                let mut acts = state.conversations.delete_expired(now);
                let deleted = acts.len();
                let outdated = |query: &MemoryQuery| query.head.kept_until().is_some_and(|until| until <= now);
                let heads = state.queries.values().filter(|query| outdated(query)).map(|query| Arc::clone(&query.head));
                let heads: Vec<_> = heads.collect();
                for head in &heads {
                    let record =
                        AuditRecord::of_outdated(head.uid, Some(head.name.clone()), Some(head.target.clone()), now);
                    acts.push((head.namespace.clone(), record));
                }
                acts.into_iter().for_each(|(namespace, record)| state.add_records(&namespace, vec![record]));
                heads.iter().for_each(|head| state.remove(head.uid, now));
                return Ok(heads.len() + deleted);
            }
        };
        removed.iter().for_each(|uid| state.remove(*uid, now));
        Ok(removed.len())
    }

    async fn change_resource(&self, change: ResourceChange) -> Result<(), StoreError> {
        let mut state = self.open()?;
        let ResourceChange { what, record } = change;
        state.add_records(&what.key().namespace, vec![record]);
        match what {
            ManifestChange::Keep(stored) => {
                state.resources.insert(stored.manifest.key.clone(), *stored);
            }
            ManifestChange::Remove(key) => {
                state.resources.remove(&key);
            }
        }
        Ok(())
    }

    async fn resources(&self, namespace: Option<&Namespace>) -> Result<Vec<StoredResource>, StoreError> {
        let is_wanted = |key: &ResourceKey| namespace.is_none_or(|wanted| key.namespace == *wanted);
        let state = self.lock();
        Ok(state.resources.iter().filter(|(key, _)| is_wanted(key)).map(|(_, stored)| stored.clone()).collect())
    }

    async fn document(&self, hash: ContentHash) -> Result<Option<Arc<str>>, StoreError> {
        Ok(self.lock().documents.get(&hash).map(|document| Arc::clone(&document.body)))
    }

    async fn referred(&self, blobs: &[ContentHash]) -> Result<HashSet<ContentHash>, StoreError> {
        let state = self.lock();
        let entries = state.queries.values().flat_map(|query| &query.entries);
        let referred = entries.filter_map(|entry| entry.event.large()).map(|large| large.hash);
        Ok(referred.filter(|hash| blobs.contains(hash)).collect())
    }

    async fn list(&self, namespace: &Namespace, page: &QueryPage) -> Result<ListedQueries, StoreError> {
        let state = self.lock();
        let wanted = |query: &&MemoryQuery| {
            query.head.namespace == *namespace && query.spec().is_some_and(|spec| page.wants(&query.head, spec))
        };
        let total = state.queries.values().filter(wanted).count() as u64;
        let older = state
            .queries
            .values()
            .rev()
            .filter(wanted)
            .filter(|query| page.before.is_none_or(|before| query.head.uid < before));
        let (mut queries, mut bytes, mut last, mut next) = (Vec::new(), 0, page.before, None);
        for query in older {
            if queries.len() == page.limit || bytes > PAGE_BYTES {
                next = last;
                break;
            }
            last = Some(query.head.uid);
            let Some((created, later)) = query.entries.split_first() else { continue };
            let latest = &later[shown_from(&query.head, later.iter().map(|entry| &entry.event)).unwrap_or(0)..];
            let entries = std::iter::once(created).chain(latest).map(|entry| Entry::clone(entry));
            queries.push((Head::clone(&query.head), entries.collect()));
            bytes += query.size.bytes;
        }
        Ok(ListedQueries { queries, next, total })
    }

    async fn is_in_use(&self, namespace: &Namespace) -> Result<bool, StoreError> {
        Ok(self.lock().namespaces().any(|used| used == namespace))
    }

    async fn namespaces(&self) -> Result<Vec<Namespace>, StoreError> {
        let namespaces: BTreeSet<_> = self.lock().namespaces().cloned().collect();
        Ok(namespaces.into_iter().collect())
    }

    async fn runnable(&self, wanted: WantedQueries) -> Result<Vec<Runnable>, StoreError> {
        let state = self.lock();
        let mut by_namespace: BTreeMap<Namespace, Vec<Runnable>> = BTreeMap::new();
        for query in state.queries.values().filter(|query| has_work(&query.head)) {
            let key = (query.head.namespace.clone(), query.head.name.clone());
            if !wanted.except.contains(&key) {
                let inherited = query.epoch < self.epoch;
                by_namespace.entry(key.0.clone()).or_default().push(Runnable { key, inherited });
            }
        }
        let order = wanted.round_robin(by_namespace.keys().cloned().collect());
        let share = wanted.share(order.len());
        let mut lists: Vec<_> = order.iter().filter_map(|namespace| by_namespace.remove(namespace)).collect();
        lists.iter_mut().for_each(|list| list.truncate(share));
        Ok(wanted.interleave(lists))
    }

    async fn count_waiting(&self) -> Result<usize, StoreError> {
        Ok(self.lock().queries.values().filter(|query| query.head.deadline().is_some()).count())
    }

    async fn count_runnable(&self) -> Result<Vec<(Namespace, usize)>, StoreError> {
        let mut counts: BTreeMap<Namespace, usize> = BTreeMap::new();
        for query in self.lock().queries.values().filter(|query| has_work(&query.head)) {
            *counts.entry(query.head.namespace.clone()).or_default() += 1;
        }
        Ok(counts.into_iter().collect())
    }

    async fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<(Namespace, QueryName)>, StoreError> {
        let state = self.lock();
        let deadlines = state.queries.values().filter_map(|query| Some((query.head.deadline()?, &query.head)));
        let mut due: Vec<_> = deadlines.filter(|(deadline, _)| *deadline <= now).collect();
        due.sort_by_key(|(deadline, head)| (*deadline, head.uid));
        Ok(due.into_iter().take(limit).map(|(_, head)| (head.namespace.clone(), head.name.clone())).collect())
    }

    async fn claimable(
        &self,
        namespace: &Namespace,
        tools: &[String],
        limit: usize,
    ) -> Result<Vec<(QueryName, CallId)>, StoreError> {
        let state = self.lock();
        let queries = state.queries.values().filter(|query| query.head.namespace == *namespace);
        let calls = queries.flat_map(|query| {
            let of_tools = query.head.claimable().filter(|(call, _)| tools.iter().any(|tool| **tool == *call.tool));
            of_tools.map(|(call, _)| (query.head.name.clone(), call.id))
        });
        Ok(calls.take(limit).collect())
    }

    async fn next_deadline(&self) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.lock().queries.values().filter_map(|query| query.head.deadline()).min())
    }

    fn stats(&self) -> StoreStats {
        self.lock().stats
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.lock().closed = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::store_contract::StorePlace;

    #[derive(Default)]
    struct ReopenedMemory(Option<MemoryStore>);

    impl StorePlace for ReopenedMemory {
        fn open(&mut self) -> Arc<dyn Store> {
            let memory = self.0.as_ref().map(MemoryStore::reopen).unwrap_or_default();
            let handle = MemoryStore { state: Arc::clone(&memory.state), epoch: memory.epoch };
            self.0 = Some(memory);
            Arc::new(handle)
        }
    }

    mod contract {
        use super::*;

        crate::store_contract!([tokio::test] ReopenedMemory::default());
    }

    #[tokio::test]
    async fn an_older_handle_is_fenced() {
        use crate::testing::query_writer::QueryWriter;
        let memory = MemoryStore::new();
        let _later = memory.reopen();
        let refused = QueryWriter::new("default", "a", 1).create();
        assert!(matches!(memory.append(refused), Err(StoreError::Fenced)));
    }
}
