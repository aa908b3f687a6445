//! A store in memory with injected faults.
//!
//! [`Faults`] has the operations that can fail; everything else is the memory's own. So a test only writes what is
//! special about its store.

use std::{collections::HashSet, sync::Arc};

use async_trait::async_trait;
use bosun_core::{
    ContentHash, Namespace, QueryName, QueryUid, Timestamp,
    audit::Record,
    conversation::ConversationKey,
    usage::{Hour, Usage},
};

use crate::{
    Store, StoreError,
    memory::Memory,
    resource::{ResourceChange, StoredResource},
    store::{
        Answered, Append, Conversations, Found, Listed, Page, Position, Records, Removal, RequestKey, Runnable, Search,
        StoreStats, Stored, Wanted,
        conversations::{self, Conversation, Frame, Listing, Said},
    },
};

/// The faults; none by default.
#[async_trait]
pub(super) trait Faults: Send + Sync + 'static {
    fn append(&self, memory: &Memory, append: Append) -> Result<Position, StoreError> {
        memory.append(append)
    }

    async fn durable(&self, memory: &Memory, position: Position) -> Result<(), StoreError> {
        memory.durable(position).await
    }

    fn last_position(&self, memory: &Memory) -> Position {
        memory.last_position()
    }

    async fn load(
        &self,
        memory: &Memory,
        namespace: &Namespace,
        name: &QueryName,
    ) -> Result<Option<Stored>, StoreError> {
        memory.load(namespace, name).await
    }

    async fn document(&self, memory: &Memory, hash: ContentHash) -> Result<Option<Arc<str>>, StoreError> {
        memory.document(hash).await
    }

    async fn runnable(&self, memory: &Memory, wanted: Wanted) -> Result<Vec<Runnable>, StoreError> {
        memory.runnable(wanted).await
    }
}

/// The store with its faults.
pub(super) struct Faulty<F> {
    pub(super) memory: Memory,
    pub(super) faults: F,
}

#[async_trait]
impl<F: Faults> Records for Faulty<F> {
    fn record(&self, namespace: &Namespace, records: Vec<Record>) -> Result<Position, StoreError> {
        self.memory.record(namespace, records)
    }

    async fn search(&self, namespace: &Namespace, search: &Search) -> Result<Found, StoreError> {
        self.memory.search(namespace, search).await
    }

    async fn usage(&self, namespace: &Namespace, since: Hour) -> Result<Usage, StoreError> {
        self.memory.usage(namespace, since).await
    }
}

#[async_trait]
impl<F: Faults> Conversations for Faulty<F> {
    async fn history(
        &self,
        namespace: &Namespace,
        key: &ConversationKey,
        frame: Frame,
    ) -> Result<Vec<Said>, StoreError> {
        self.memory.history(namespace, key, frame).await
    }

    async fn conversations(
        &self,
        namespace: &Namespace,
        wanted: &conversations::Wanted,
        after: Option<QueryUid>,
        limit: usize,
    ) -> Result<Listing<Conversation>, StoreError> {
        self.memory.conversations(namespace, wanted, after, limit).await
    }

    async fn said(
        &self,
        namespace: &Namespace,
        wanted: &conversations::Wanted,
        after: Option<QueryUid>,
        limit: usize,
    ) -> Result<Listing<Said>, StoreError> {
        self.memory.said(namespace, wanted, after, limit).await
    }
}

#[async_trait]
impl<F: Faults> Store for Faulty<F> {
    fn append(&self, append: Append) -> Result<Position, StoreError> {
        self.faults.append(&self.memory, append)
    }

    async fn durable(&self, position: Position) -> Result<(), StoreError> {
        self.faults.durable(&self.memory, position).await
    }

    fn last_position(&self) -> Position {
        self.faults.last_position(&self.memory)
    }

    async fn load(&self, namespace: &Namespace, name: &QueryName) -> Result<Option<Stored>, StoreError> {
        self.faults.load(&self.memory, namespace, name).await
    }

    async fn document(&self, hash: ContentHash) -> Result<Option<Arc<str>>, StoreError> {
        self.faults.document(&self.memory, hash).await
    }

    async fn answered(&self, namespace: &Namespace, key: &RequestKey) -> Result<Option<Answered>, StoreError> {
        self.memory.answered(namespace, key).await
    }

    async fn remove(&self, removal: Removal, now: Timestamp) -> Result<usize, StoreError> {
        self.memory.remove(removal, now).await
    }

    async fn change_resource(&self, change: ResourceChange) -> Result<(), StoreError> {
        self.memory.change_resource(change).await
    }

    async fn resources(&self, namespace: Option<&Namespace>) -> Result<Vec<StoredResource>, StoreError> {
        self.memory.resources(namespace).await
    }

    async fn referred(&self, blobs: &[ContentHash]) -> Result<HashSet<ContentHash>, StoreError> {
        self.memory.referred(blobs).await
    }

    async fn list(&self, namespace: &Namespace, page: &Page) -> Result<Listed, StoreError> {
        self.memory.list(namespace, page).await
    }

    async fn is_in_use(&self, namespace: &Namespace) -> Result<bool, StoreError> {
        self.memory.is_in_use(namespace).await
    }

    async fn namespaces(&self) -> Result<Vec<Namespace>, StoreError> {
        self.memory.namespaces().await
    }

    async fn runnable(&self, wanted: Wanted) -> Result<Vec<Runnable>, StoreError> {
        self.faults.runnable(&self.memory, wanted).await
    }

    async fn count_waiting(&self) -> Result<usize, StoreError> {
        self.memory.count_waiting().await
    }

    async fn count_runnable(&self) -> Result<Vec<(Namespace, usize)>, StoreError> {
        self.memory.count_runnable().await
    }

    async fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<(Namespace, QueryName)>, StoreError> {
        self.memory.due(now, limit).await
    }

    async fn next_deadline(&self) -> Result<Option<Timestamp>, StoreError> {
        self.memory.next_deadline().await
    }

    fn stats(&self) -> StoreStats {
        self.memory.stats()
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.memory.close().await
    }
}
