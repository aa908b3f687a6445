//! A store in memory: for tests, and for servers that may forget.
//!
//! It keeps every promise of [`Store`] but the one about power cuts, in the simplest way there is:
//! one lock over ordered maps, and every append decided at once. [`Memory::reopen`] plays the restart
//! of a process, so that recovery can be tested without a disk.

mod conversations;

use std::{
    collections::{BTreeMap, BTreeSet, HashSet, btree_map},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use bosun_core::{
    ContentHash, Entry, Head, Namespace, QueryName, QueryUid, Timestamp,
    audit::Record,
    conversation::ConversationKey,
    journal::JournalSize,
    usage::{Hour, Sample, Usage},
};

use crate::{
    resource::{Change, ResourceChange, ResourceKey, StoredResource},
    store::{
        Answered, Append, Document, Found, Listed, Numbered, PAGE_BYTES, Page, Position, REQUESTS_KEPT, Records,
        Rejection, Rejections, Removal, Request, RequestKey, Runnable, Search, Store, StoreError, StoreStats, Stored,
        Wanted,
        conversations::{Joining, Part},
        has_work, shown_from,
    },
};

/// Journals in memory. Dropping the last handle forgets them.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    shelves: Arc<Mutex<Shelves>>,
    epoch: u64,
}

#[derive(Debug, Default)]
struct Shelves {
    /// Raised by every [`Memory::reopen`]; only the handle that has it may write.
    epoch: u64,
    queries: BTreeMap<QueryUid, Shelf>,
    names: BTreeMap<(Namespace, QueryName), QueryUid>,
    documents: BTreeMap<ContentHash, Arc<str>>,
    requests: BTreeMap<(Namespace, RequestKey), Remembered>,
    resources: BTreeMap<ResourceKey, StoredResource>,
    /// The pieces that were written, as they came: no record is ever moved.
    records: BTreeMap<Namespace, Vec<Vec<Record>>>,
    usage: BTreeMap<(Namespace, Hour), Usage>,
    talks: conversations::Talks,
    rejections: Rejections,
    last: Position,
    /// Up to here somebody has waited.
    awaited: Position,
    stats: StoreStats,
    closed: bool,
}

#[derive(Debug)]
struct Shelf {
    head: Arc<Head>,
    entries: Vec<Arc<Entry>>,
    size: JournalSize,
    /// Its toolset, and what was said before it.
    documents: Vec<ContentHash>,
    conversation: Option<ConversationKey>,
    /// Of the process that wrote last.
    epoch: u64,
}

#[derive(Debug)]
struct Remembered {
    answered: Answered,
    /// Set when the query is deleted.
    until: Option<Timestamp>,
}

#[derive(Debug, thiserror::Error)]
#[error("the store is closed")]
struct Closed;

impl Memory {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same journals, as a later process finds them; this handle can write no more.
    #[must_use]
    pub fn reopen(&self) -> Self {
        let mut shelves = self.lock();
        shelves.epoch += 1;
        shelves.closed = false;
        Self { shelves: Arc::clone(&self.shelves), epoch: shelves.epoch }
    }

    /// The shelves, if this handle may still write.
    fn open(&self) -> Result<MutexGuard<'_, Shelves>, StoreError> {
        let shelves = self.lock();
        if shelves.epoch != self.epoch {
            return Err(StoreError::Fenced);
        }
        if shelves.closed {
            return Err(StoreError::Unavailable(Box::new(Closed)));
        }
        Ok(shelves)
    }

    fn lock(&self) -> MutexGuard<'_, Shelves> {
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelves {
    /// Of everything that is in one.
    fn namespaces(&self) -> impl Iterator<Item = &Namespace> {
        self.queries.values().map(|shelf| &shelf.head.namespace).chain(self.talks.namespaces())
    }

    fn decide(&self, append: &Append) -> Result<(), Rejection> {
        self.rejections.check(append.after)?;
        let head = &append.head;
        let stored = self.queries.get(&head.uid);
        let seen_is_stored = append.seen == stored.map_or(0, |shelf| shelf.head.seq);
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
        if let Some(Part::Joins(joining)) = &append.conversation
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
        self.write_down(&head.namespace, records);
        if let Some(Request { key, fingerprint }) = request {
            let answered = Answered { fingerprint, uid: head.uid, name: head.name.clone() };
            self.requests.insert((head.namespace.clone(), key), Remembered { answered, until: None });
        }
        let (conversation, history) = match conversation {
            Some(Part::Joins(Joining { key, history, .. })) => (Some(key), history),
            Some(Part::Adds(exchange)) => {
                self.talks.add(&head.namespace, exchange);
                (None, None)
            }
            None => (None, None),
        };
        let mut documents = Vec::new();
        for Document { hash, body } in toolset.into_iter().chain(history) {
            documents.push(hash);
            self.documents.entry(hash).or_insert(body);
        }
        match self.queries.entry(head.uid) {
            btree_map::Entry::Occupied(mut known) => {
                let shelf = known.get_mut();
                shelf.head = head;
                shelf.epoch = if moves { epoch } else { shelf.epoch };
                entries.iter().for_each(|entry| shelf.size.add(&entry.event, &entry.body));
                shelf.entries.extend(entries.into_iter().map(|encoded| encoded.entry));
            }
            btree_map::Entry::Vacant(place) => {
                self.names.insert((head.namespace.clone(), head.name.clone()), head.uid);
                let mut size = JournalSize::default();
                entries.iter().for_each(|entry| size.add(&entry.event, &entry.body));
                let entries = entries.into_iter().map(|encoded| encoded.entry).collect();
                place.insert(Shelf { head, entries, size, documents, conversation, epoch });
            }
        }
    }

    fn write_down(&mut self, namespace: &Namespace, records: Vec<Record>) {
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
        let Some(shelf) = self.queries.remove(&uid) else { return };
        self.names.remove(&(shelf.head.namespace.clone(), shelf.head.name.clone()));
        for remembered in self.requests.values_mut().filter(|remembered| remembered.answered.uid == uid) {
            remembered.until = Some(now.after(REQUESTS_KEPT));
        }
        for hash in shelf.documents {
            if self.queries.values().all(|other| !other.documents.contains(&hash)) {
                self.documents.remove(&hash);
            }
        }
    }
}

#[async_trait]
impl Records for Memory {
    fn record(&self, namespace: &Namespace, records: Vec<Record>) -> Result<Position, StoreError> {
        let mut shelves = self.open()?;
        shelves.last.0 += 1;
        shelves.stats.appends += 1;
        shelves.write_down(namespace, records);
        Ok(shelves.last)
    }

    async fn search(&self, namespace: &Namespace, search: &Search) -> Result<Found, StoreError> {
        let shelves = self.lock();
        let records = shelves.records.get(namespace).into_iter().flatten().flatten();
        let is_before = |seq: u64| search.before.is_none_or(|before| seq < before);
        let numbered: Vec<_> = records.zip(1_u64..).take_while(|(_, seq)| is_before(*seq)).collect();
        let mut found = Found::default();
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

    async fn usage(&self, namespace: &Namespace, since: Hour) -> Result<Usage, StoreError> {
        let shelves = self.lock();
        let mut sum = Usage::default();
        for ((_, _), usage) in
            shelves.usage.range((namespace.clone(), since)..).take_while(|((of, _), _)| of == namespace)
        {
            usage.calls.iter().for_each(|(key, tally)| sum.add_calls(key.clone(), tally));
            usage.queries.iter().for_each(|(agent, tally)| sum.add_queries(agent.clone(), tally));
        }
        Ok(sum)
    }
}

#[async_trait]
impl Store for Memory {
    fn append(&self, append: Append) -> Result<Position, StoreError> {
        let mut shelves = self.open()?;
        shelves.last.0 += 1;
        shelves.stats.appends += 1;
        let position = shelves.last;
        match shelves.decide(&append) {
            Ok(()) => shelves.keep(append, self.epoch),
            Err(rejection) => shelves.rejections.record(position, rejection),
        }
        Ok(position)
    }

    async fn durable(&self, position: Position) -> Result<(), StoreError> {
        let mut shelves = self.lock();
        if position > shelves.awaited {
            // A disk would have been written to now, with all that was appended since the last time.
            shelves.awaited = shelves.last;
            shelves.stats.commits += 1;
            shelves.stats.awaited_commits += 1;
        }
        Ok(shelves.rejections.check(position)?)
    }

    fn last_position(&self) -> Position {
        self.lock().last
    }

    async fn load(&self, namespace: &Namespace, name: &QueryName) -> Result<Option<Stored>, StoreError> {
        let shelves = self.lock();
        let uid = shelves.names.get(&(namespace.clone(), name.clone()));
        let shelf = uid.and_then(|uid| shelves.queries.get(uid));
        Ok(shelf.map(|shelf| Stored {
            head: Head::clone(&shelf.head),
            entries: shelf.entries.iter().map(|entry| Entry::clone(entry)).collect(),
            size: shelf.size,
        }))
    }

    async fn answered(&self, namespace: &Namespace, key: &RequestKey) -> Result<Option<Answered>, StoreError> {
        let shelves = self.lock();
        let remembered = shelves.requests.get(&(namespace.clone(), key.clone()));
        Ok(remembered.map(|remembered| remembered.answered.clone()))
    }

    async fn remove(&self, removal: Removal, now: Timestamp) -> Result<usize, StoreError> {
        let mut shelves = self.lock();
        if shelves.epoch != self.epoch {
            return Err(StoreError::Fenced);
        }
        let doomed: Vec<_> = match removal {
            Removal::Conversations(namespace, wanted, record) => {
                let forgotten = shelves.talks.forget(&namespace, &wanted);
                if let Some(record) = record.filter(|_| forgotten > 0) {
                    shelves.write_down(&namespace, vec![*record]);
                }
                return Ok(forgotten);
            }
            Removal::Query(namespace, uid, record) => {
                let found = shelves.queries.get(&uid).is_some_and(|shelf| shelf.head.namespace == namespace);
                if found {
                    shelves.write_down(&namespace, vec![*record]);
                }
                Some(uid).filter(|_| found).into_iter().collect()
            }
            Removal::Outdated => {
                shelves.requests.retain(|_, remembered| remembered.until.is_none_or(|until| until > now));
                let mut acts = shelves.talks.forget_outdated(now);
                let forgotten = acts.len();
                let outdated = |shelf: &Shelf| shelf.head.kept_until().is_some_and(|until| until <= now);
                let heads =
                    shelves.queries.values().filter(|shelf| outdated(shelf)).map(|shelf| Arc::clone(&shelf.head));
                let heads: Vec<_> = heads.collect();
                for head in &heads {
                    let record = Record::of_outdated(head.uid, Some(head.name.clone()), Some(head.target.clone()), now);
                    acts.push((head.namespace.clone(), record));
                }
                acts.into_iter().for_each(|(namespace, record)| shelves.write_down(&namespace, vec![record]));
                heads.iter().for_each(|head| shelves.remove(head.uid, now));
                return Ok(heads.len() + forgotten);
            }
        };
        doomed.iter().for_each(|uid| shelves.remove(*uid, now));
        Ok(doomed.len())
    }

    async fn change_resource(&self, change: ResourceChange) -> Result<(), StoreError> {
        let mut shelves = self.open()?;
        let ResourceChange { what, record } = change;
        shelves.write_down(&what.key().namespace, vec![record]);
        match what {
            Change::Keep(stored) => {
                shelves.resources.insert(stored.manifest.key.clone(), *stored);
            }
            Change::Remove(key) => {
                shelves.resources.remove(&key);
            }
        }
        Ok(())
    }

    async fn resources(&self, namespace: Option<&Namespace>) -> Result<Vec<StoredResource>, StoreError> {
        let is_wanted = |key: &ResourceKey| namespace.is_none_or(|wanted| key.namespace == *wanted);
        let shelves = self.lock();
        Ok(shelves.resources.iter().filter(|(key, _)| is_wanted(key)).map(|(_, stored)| stored.clone()).collect())
    }

    async fn document(&self, hash: ContentHash) -> Result<Option<Arc<str>>, StoreError> {
        Ok(self.lock().documents.get(&hash).cloned())
    }

    async fn referred(&self, blobs: &[ContentHash]) -> Result<HashSet<ContentHash>, StoreError> {
        let shelves = self.lock();
        let entries = shelves.queries.values().flat_map(|shelf| &shelf.entries);
        let referred = entries.filter_map(|entry| entry.event.large()).map(|large| large.hash);
        Ok(referred.filter(|hash| blobs.contains(hash)).collect())
    }

    async fn list(&self, namespace: &Namespace, page: &Page) -> Result<Listed, StoreError> {
        let shelves = self.lock();
        let wanted = |shelf: &&Shelf| {
            shelf.head.namespace == *namespace && page.status.is_none_or(|status| shelf.head.status() == status)
        };
        let total = shelves.queries.values().filter(wanted).count() as u64;
        let older = shelves
            .queries
            .values()
            .rev()
            .filter(wanted)
            .filter(|shelf| page.before.is_none_or(|before| shelf.head.uid < before));
        let (mut queries, mut bytes, mut last, mut next) = (Vec::new(), 0, page.before, None);
        for shelf in older {
            if queries.len() == page.limit || bytes > PAGE_BYTES {
                next = last;
                break;
            }
            last = Some(shelf.head.uid);
            let Some((created, later)) = shelf.entries.split_first() else { continue };
            let latest = &later[shown_from(&shelf.head, later.iter().map(|entry| &entry.event)).unwrap_or(0)..];
            let entries = std::iter::once(created).chain(latest).map(|entry| Entry::clone(entry));
            queries.push((Head::clone(&shelf.head), entries.collect()));
            bytes += shelf.size.bytes;
        }
        Ok(Listed { queries, next, total })
    }

    async fn is_in_use(&self, namespace: &Namespace) -> Result<bool, StoreError> {
        Ok(self.lock().namespaces().any(|used| used == namespace))
    }

    async fn namespaces(&self) -> Result<Vec<Namespace>, StoreError> {
        let namespaces: BTreeSet<_> = self.lock().namespaces().cloned().collect();
        Ok(namespaces.into_iter().collect())
    }

    async fn runnable(&self, wanted: Wanted) -> Result<Vec<Runnable>, StoreError> {
        let shelves = self.lock();
        let mut by_namespace: BTreeMap<Namespace, Vec<Runnable>> = BTreeMap::new();
        for shelf in shelves.queries.values().filter(|shelf| has_work(&shelf.head)) {
            let key = (shelf.head.namespace.clone(), shelf.head.name.clone());
            if !wanted.except.contains(&key) {
                let inherited = shelf.epoch < self.epoch;
                by_namespace.entry(key.0.clone()).or_default().push(Runnable { key, inherited });
            }
        }
        let order = wanted.in_turn(by_namespace.keys().cloned().collect());
        let share = wanted.share(order.len());
        let mut lists: Vec<_> = order.iter().filter_map(|namespace| by_namespace.remove(namespace)).collect();
        lists.iter_mut().for_each(|list| list.truncate(share));
        Ok(wanted.interleave(lists))
    }

    async fn count_waiting(&self) -> Result<usize, StoreError> {
        Ok(self.lock().queries.values().filter(|shelf| shelf.head.deadline().is_some()).count())
    }

    async fn count_runnable(&self) -> Result<Vec<(Namespace, usize)>, StoreError> {
        let mut counts: BTreeMap<Namespace, usize> = BTreeMap::new();
        for shelf in self.lock().queries.values().filter(|shelf| has_work(&shelf.head)) {
            *counts.entry(shelf.head.namespace.clone()).or_default() += 1;
        }
        Ok(counts.into_iter().collect())
    }

    async fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<(Namespace, QueryName)>, StoreError> {
        let shelves = self.lock();
        let deadlines = shelves.queries.values().filter_map(|shelf| Some((shelf.head.deadline()?, &shelf.head)));
        let mut due: Vec<_> = deadlines.filter(|(deadline, _)| *deadline <= now).collect();
        due.sort_by_key(|(deadline, head)| (*deadline, head.uid));
        Ok(due.into_iter().take(limit).map(|(_, head)| (head.namespace.clone(), head.name.clone())).collect())
    }

    async fn next_deadline(&self) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.lock().queries.values().filter_map(|shelf| shelf.head.deadline()).min())
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
    use crate::testing::store_contract::{Place, store_contract};

    #[derive(Default)]
    struct Shelved(Option<Memory>);

    impl Place for Shelved {
        fn open(&mut self) -> Arc<dyn Store> {
            let memory = self.0.as_ref().map(Memory::reopen).unwrap_or_default();
            let handle = Memory { shelves: Arc::clone(&memory.shelves), epoch: memory.epoch };
            self.0 = Some(memory);
            Arc::new(handle)
        }
    }

    #[tokio::test]
    async fn keeps_the_contract() {
        store_contract(|| Box::new(Shelved::default())).await;
    }

    #[tokio::test]
    async fn an_older_handle_is_fenced() {
        use crate::testing::scribe::Scribe;
        let memory = Memory::new();
        let _later = memory.reopen();
        let refused = Scribe::new("default", "a", 1).create();
        assert!(matches!(memory.append(refused), Err(StoreError::Fenced)));
    }
}
