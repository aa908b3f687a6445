//! A store in memory with injected faults.
//!
//! [`StoreFaults`] has the operations that can fail; everything else is the memory's own. So a test only writes what is
//! special about its store.

use std::{collections::HashSet, sync::Arc};

use async_trait::async_trait;
use bosun_core::{
    CallId, ContentHash, Namespace, QueryName, QueryUid, Timestamp,
    audit::AuditRecord,
    conversation::ConversationKey,
    usage::{Hour, UsageTotals},
};

use crate::{
    Store, StoreError,
    memory::MemoryStore,
    resource::{ResourceChange, StoredResource},
    store::{
        Answered, Append, Conversations, FoundRecords, ListedQueries, Position, QueryPage, RecordSearch, Records,
        Removal, RequestKey, Runnable, StoreStats, Stored, WantedQueries, Webhook, WebhookChange, Webhooks,
        conversations::{self, Conversation, ConversationTurn, Frame, Listing},
    },
};

/// The faults; none by default.
#[async_trait]
pub(super) trait StoreFaults: Send + Sync + 'static {
    fn append(&self, memory: &MemoryStore, append: Append) -> Result<Position, StoreError> {
        memory.append(append)
    }

    async fn durable(&self, memory: &MemoryStore, position: Position) -> Result<(), StoreError> {
        memory.durable(position).await
    }

    fn last_position(&self, memory: &MemoryStore) -> Position {
        memory.last_position()
    }

    async fn load(
        &self,
        memory: &MemoryStore,
        namespace: &Namespace,
        name: &QueryName,
    ) -> Result<Option<Stored>, StoreError> {
        memory.load(namespace, name).await
    }

    async fn document(&self, memory: &MemoryStore, hash: ContentHash) -> Result<Option<Arc<str>>, StoreError> {
        memory.document(hash).await
    }

    async fn runnable(&self, memory: &MemoryStore, wanted: WantedQueries) -> Result<Vec<Runnable>, StoreError> {
        memory.runnable(wanted).await
    }
}

/// The store with its faults.
pub(super) struct Faulty<F> {
    pub(super) memory: MemoryStore,
    pub(super) faults: F,
}

#[async_trait]
impl<F: StoreFaults> Records for Faulty<F> {
    fn record(&self, namespace: &Namespace, records: Vec<AuditRecord>) -> Result<Position, StoreError> {
        self.memory.record(namespace, records)
    }

    async fn search(&self, namespace: &Namespace, search: &RecordSearch) -> Result<FoundRecords, StoreError> {
        self.memory.search(namespace, search).await
    }

    async fn usage(&self, namespace: &Namespace, since: Hour) -> Result<UsageTotals, StoreError> {
        self.memory.usage(namespace, since).await
    }
}

#[async_trait]
impl<F: StoreFaults> Conversations for Faulty<F> {
    async fn history(
        &self,
        namespace: &Namespace,
        key: &ConversationKey,
        frame: Frame,
    ) -> Result<Vec<ConversationTurn>, StoreError> {
        self.memory.history(namespace, key, frame).await
    }

    async fn conversations(
        &self,
        namespace: &Namespace,
        wanted: &conversations::WantedConversations,
        after: Option<QueryUid>,
        limit: usize,
    ) -> Result<Listing<Conversation>, StoreError> {
        self.memory.conversations(namespace, wanted, after, limit).await
    }

    async fn conversation_turns(
        &self,
        namespace: &Namespace,
        wanted: &conversations::WantedConversations,
        after: Option<QueryUid>,
        limit: usize,
    ) -> Result<Listing<ConversationTurn>, StoreError> {
        self.memory.conversation_turns(namespace, wanted, after, limit).await
    }
}

#[async_trait]
impl<F: StoreFaults> Webhooks for Faulty<F> {
    async fn change_webhook(&self, change: WebhookChange) -> Result<bool, StoreError> {
        self.memory.change_webhook(change).await
    }

    async fn webhooks(&self, namespace: &Namespace, query: QueryUid) -> Result<Vec<Webhook>, StoreError> {
        self.memory.webhooks(namespace, query).await
    }

    async fn due_webhooks(&self, now: Timestamp, limit: usize) -> Result<Vec<Webhook>, StoreError> {
        self.memory.due_webhooks(now, limit).await
    }
}

#[async_trait]
impl<F: StoreFaults> Store for Faulty<F> {
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

    async fn list(&self, namespace: &Namespace, page: &QueryPage) -> Result<ListedQueries, StoreError> {
        self.memory.list(namespace, page).await
    }

    async fn is_in_use(&self, namespace: &Namespace) -> Result<bool, StoreError> {
        self.memory.is_in_use(namespace).await
    }

    async fn namespaces(&self) -> Result<Vec<Namespace>, StoreError> {
        self.memory.namespaces().await
    }

    async fn runnable(&self, wanted: WantedQueries) -> Result<Vec<Runnable>, StoreError> {
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

    async fn claimable(
        &self,
        namespace: &Namespace,
        tools: &[String],
        limit: usize,
    ) -> Result<Vec<(QueryName, CallId)>, StoreError> {
        self.memory.claimable(namespace, tools, limit).await
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
