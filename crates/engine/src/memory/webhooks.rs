//! The webhooks of the store in memory.

use std::collections::BTreeMap;

use async_trait::async_trait;
use bosun_core::{Namespace, QueryUid, Timestamp};

use super::MemoryStore;
use crate::store::{StoreError, Webhook, WebhookChange, Webhooks};

/// By query and id.
pub(super) type MemoryWebhooks = BTreeMap<(QueryUid, String), Webhook>;

/// Those of a query.
fn of(webhooks: &MemoryWebhooks, query: QueryUid) -> impl Iterator<Item = (&(QueryUid, String), &Webhook)> {
    webhooks.range((query, String::new())..).take_while(move |((of, _), _)| *of == query)
}

pub(super) fn remove_of(webhooks: &mut MemoryWebhooks, query: QueryUid) {
    let keys: Vec<_> = of(webhooks, query).map(|(key, _)| key.clone()).collect();
    for key in keys {
        webhooks.remove(&key);
    }
}

#[async_trait]
impl Webhooks for MemoryStore {
    async fn change_webhook(&self, change: WebhookChange) -> Result<bool, StoreError> {
        let mut state = self.open()?;
        let record = change.record().map(|(namespace, record)| (namespace.clone(), record.clone()));
        let is_changed = match change {
            WebhookChange::Put { webhook, at_most, .. } => {
                let others = of(&state.webhooks, webhook.query).filter(|((_, id), _)| *id != webhook.id).count();
                let is_kept = state.queries.contains_key(&webhook.query) && others < at_most;
                if is_kept {
                    state.webhooks.insert((webhook.query, webhook.id.clone()), webhook);
                }
                is_kept
            }
            WebhookChange::Advance { key, progress } => match state.webhooks.get_mut(&(key.query, key.id)) {
                Some(webhook) => {
                    webhook.progress = progress;
                    true
                }
                None => false,
            },
            WebhookChange::Remove { key, .. } => state.webhooks.remove(&(key.query, key.id)).is_some(),
        };
        if let Some((namespace, record)) = record.filter(|_| is_changed) {
            state.add_records(&namespace, vec![record]);
        }
        Ok(is_changed)
    }

    async fn webhooks(&self, namespace: &Namespace, query: QueryUid) -> Result<Vec<Webhook>, StoreError> {
        let state = self.lock();
        let webhooks = of(&state.webhooks, query).map(|(_, webhook)| webhook);
        Ok(webhooks.filter(|webhook| webhook.namespace == *namespace).cloned().collect())
    }

    async fn due_webhooks(&self, now: Timestamp, limit: usize) -> Result<Vec<Webhook>, StoreError> {
        let state = self.lock();
        let has_more = |webhook: &&Webhook| {
            let stored = state.queries.get(&webhook.query);
            stored.is_some_and(|query| query.head.seq > webhook.progress.seq)
        };
        let due = state.webhooks.values().filter(|webhook| webhook.progress.next_at <= now).filter(has_more);
        let mut due: Vec<_> = due.cloned().collect();
        due.sort_by_key(|webhook| webhook.progress.next_at);
        due.truncate(limit);
        Ok(due)
    }
}
