//! The clauses of the contract about webhooks.

#![expect(clippy::expect_used, reason = "compiled for tests only: a failure here is a failed test")]

use bosun_core::{
    Actor, Timestamp,
    audit::{Action, AuditRecord},
    machine,
};

use super::{
    query_writer::QueryWriter,
    store_contract::{LONG, StorePlace, durable, namespace, removal},
};
use crate::store::{RecordSearch, Store, Webhook, WebhookChange, WebhookProgress};

fn webhook(writer: &QueryWriter, id: &str, next_at: i64) -> Webhook {
    let head = writer.head();
    Webhook {
        namespace: head.namespace.clone(),
        name: head.name.clone(),
        query: head.uid,
        id: id.to_owned(),
        target: format!("{{\"url\":\"https://{id}.example\"}}"),
        progress: WebhookProgress { seq: 0, attempts: 0, next_at: Timestamp(next_at) },
    }
}

async fn put(store: &dyn Store, webhook: Webhook, at_most: usize) -> bool {
    let record = Box::new(act(Action::WebhookSet, &webhook.id));
    store.change_webhook(WebhookChange::Put { webhook, at_most, record }).await.expect("the store takes it")
}

fn act(action: Action, id: &str) -> AuditRecord {
    AuditRecord::of_act(Timestamp(1), action, Some(&Actor::local()), Some(id.to_owned()))
}

/// What the log says about webhooks, in order.
async fn recorded(store: &dyn Store) -> Vec<(Action, String)> {
    let search = RecordSearch { limit: 100, ..RecordSearch::default() };
    let found = store.search(&namespace("default"), &search).await.expect("the log is readable");
    let is_about = |action| matches!(action, Action::WebhookSet | Action::WebhookDeleted);
    let records = found.records.into_iter().rev().map(|numbered| numbered.record);
    let records = records.filter(|record| is_about(record.action));
    records.map(|record| (record.action, record.detail.unwrap_or_default())).collect()
}

async fn due(store: &dyn Store, now: i64) -> Vec<String> {
    let due = store.due_webhooks(Timestamp(now), 10).await.expect("the store is readable");
    due.into_iter().map(|webhook| webhook.id).collect()
}

/// A query that waits.
async fn created(store: &dyn Store, name: &str) -> QueryWriter {
    let mut writer = QueryWriter::new("default", name, 1);
    durable(store, writer.start_and_pause(store, LONG)).await;
    writer
}

pub async fn a_webhook_is_kept_replaced_and_bounded_in_number(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let query = created(&*store, "q").await;
    assert!(put(&*store, webhook(&query, "a", 0), 2).await);
    assert!(put(&*store, webhook(&query, "b", 0), 2).await);
    assert!(!put(&*store, webhook(&query, "c", 0), 2).await, "there are two");
    let changed = Webhook { target: "other".into(), ..webhook(&query, "b", 0) };
    assert!(put(&*store, changed.clone(), 2).await, "the same id again replaces it");
    drop(store);
    let store = place.open();
    let kept = store.webhooks(&namespace("default"), query.uid()).await.expect("the store is readable");
    assert_eq!(kept, [webhook(&query, "a", 0), changed.clone()]);
    let remove = |id: &str| {
        let record = Some(Box::new(act(Action::WebhookDeleted, id)));
        WebhookChange::Remove { key: webhook(&query, id, 0).key(), record }
    };
    assert!(store.change_webhook(remove("a")).await.expect("the store takes it"));
    assert!(!store.change_webhook(remove("a")).await.expect("the store takes it"), "it is gone");
    let set = |id: &str| (Action::WebhookSet, id.to_owned());
    let expect = [set("a"), set("b"), set("b"), (Action::WebhookDeleted, "a".to_owned())];
    assert_eq!(recorded(&*store).await, expect, "what changed nothing has no record");
    let silently = WebhookChange::Remove { key: webhook(&query, "b", 0).key(), record: None };
    assert!(store.change_webhook(silently).await.expect("the store takes it"));
    assert_eq!(recorded(&*store).await, expect);
    put(&*store, changed, 2).await;
    assert_eq!(store.webhooks(&namespace("default"), query.uid()).await.expect("the store is readable").len(), 1);
}

pub async fn webhooks_are_due_while_their_query_has_entries_after_their_cursor(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let mut query = created(&*store, "q").await;
    put(&*store, webhook(&query, "late", 20), 10).await;
    put(&*store, webhook(&query, "early", 10), 10).await;
    assert_eq!(due(&*store, 9).await, [""; 0]);
    assert_eq!(due(&*store, 10).await, ["early"]);
    assert_eq!(due(&*store, 20).await, ["early", "late"]);
    let progress = WebhookProgress { seq: query.head().seq, attempts: 0, next_at: Timestamp(10) };
    let advance = |id: &str| WebhookChange::Advance { key: webhook(&query, id, 0).key(), progress };
    assert!(store.change_webhook(advance("early")).await.expect("the store takes it"));
    assert!(!store.change_webhook(advance("none")).await.expect("the store takes it"));
    assert_eq!(due(&*store, 20).await, ["late"]);
    let cancelled = machine::cancel(query.head(), None, &Actor::local());
    durable(&*store, query.append(&*store, cancelled)).await;
    drop(store);
    let store = place.open();
    assert_eq!(due(&*store, 20).await, ["early", "late"], "the cursor is kept, and the journal has grown");
}

pub async fn webhooks_are_deleted_with_their_query(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let query = created(&*store, "q").await;
    put(&*store, webhook(&query, "a", 0), 10).await;
    store.remove(removal(&query), Timestamp(1_000)).await.expect("it is deleted");
    assert_eq!(due(&*store, 20).await, [""; 0]);
    assert_eq!(store.webhooks(&namespace("default"), query.uid()).await.expect("the store is readable"), []);
    assert!(!put(&*store, webhook(&query, "a", 0), 10).await, "there is no query");
}
