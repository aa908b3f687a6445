//! The clauses of the store's contract about deletion, and about idempotency keys, which outlive their queries.

#![expect(clippy::expect_used, reason = "compiled for tests only: a failure here is a failed test")]

use std::time::Duration;

use bosun_core::{
    Actor, ContentHash, Event, Timestamp,
    audit::{Action, AuditRecord},
    event::Changed,
    machine,
    query::AskedLimits,
};

use super::{
    query_writer::{QueryWriter, document, spec},
    store_contract::{LONG, StorePlace, conflicts, durable, load, namespace, page, removal},
};
use crate::store::{Answered, Append, IdempotentRequest, REQUESTS_KEPT, RecordSearch, Removal, RequestKey, StoreError};

fn request(key: &str, body: &str) -> IdempotentRequest {
    let key = RequestKey { actor: "an actor".into(), route: "queries", key: key.into() };
    IdempotentRequest { key, fingerprint: ContentHash::of(body.as_bytes()) }
}

pub async fn a_request_is_answered_once_under_its_idempotency_key(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let create = |writer: &mut QueryWriter, request: IdempotentRequest| {
        let append = Append { request: Some(request), ..writer.create() };
        writer.send(&*store, append)
    };
    let mut first = QueryWriter::new("default", "first", 1);
    let mut same_key = QueryWriter::new("default", "same-key", 2);
    let kept = create(&mut first, request("k1", "body"));
    // In the same commit, and once more when the first exists.
    let lost = create(&mut same_key, request("k1", "body"));
    durable(&*store, kept).await;
    let later = create(&mut QueryWriter::new("default", "later", 3), request("k1", "other"));
    for position in [lost, later] {
        let refused = store.durable(position).await;
        assert!(matches!(refused, Err(StoreError::RequestTaken)), "{refused:?}");
    }
    // Keys are scoped: another key, namespace, actor or route is independent.
    let mut actor = request("k1", "body");
    actor.key.actor = "another actor".into();
    let mut route = request("k1", "body");
    route.key.route = "messages";
    for (namespace, name, request) in [
        ("default", "a", request("k2", "body")),
        ("other", "b", request("k1", "body")),
        ("default", "c", actor),
        ("default", "d", route),
    ] {
        let position = create(&mut QueryWriter::new(namespace, name, 4 + u32::from(name.as_bytes()[0])), request);
        durable(&*store, position).await;
    }
    let found = store.answered(&namespace("default"), &request("k1", "").key).await.expect("readable");
    let expected =
        Answered { fingerprint: ContentHash::of(b"body"), uid: first.uid(), name: first.head().name.clone() };
    assert_eq!(found, Some(expected));
    assert_eq!(store.answered(&namespace("default"), &request("k3", "").key).await.expect("readable"), None);
}

pub async fn a_deleted_query_is_gone_and_its_name_is_free(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let (mut deleted, mut other) = (QueryWriter::new("default", "a", 1), QueryWriter::new("default", "b", 2));
    let append = Append { request: Some(request("k", "body")), ..deleted.create() };
    deleted.send(&*store, append);
    deleted.ask_outside(&*store, LONG);
    other.start_and_pause(&*store, LONG);
    // The deletion is ordered behind earlier appends, awaited or not.
    let (this, now) = (removal(&deleted), Timestamp(1_000));
    assert_eq!(store.remove(this.clone(), now).await.expect("writable"), 1);
    assert!(load(&*store, &deleted).await.is_none());
    assert!(load(&*store, &other).await.is_some());
    assert_eq!(store.next_deadline().await.expect("readable"), other.head().deadline());
    assert_eq!(store.remove(this, now).await.expect("writable"), 0, "it is gone already");
    let lost = deleted.append(&*store, machine::cancel(deleted.head(), None, &Actor::local()));
    assert!(conflicts(&*store, lost).await, "nothing can be appended to it");
    let answered = async |key: &str| {
        let found = store.answered(&namespace("default"), &request(key, "").key).await.expect("readable");
        found.map(|answered| answered.uid)
    };
    assert_eq!(answered("k").await, Some(deleted.uid()), "its idempotency key is kept");

    let mut heir = QueryWriter::new("default", "a", 3);
    let position = heir.start(&*store);
    durable(&*store, position).await;
    assert_eq!(load(&*store, &heir).await.expect("the name is free").head.uid, heir.uid());
    drop(store);
    let store = place.open();
    assert_eq!(load(&*store, &heir).await.expect("it stays").head.uid, heir.uid());
    let answered = async |now: Timestamp| {
        assert_eq!(store.remove(Removal::Outdated, now).await.expect("writable"), 0);
        store.answered(&namespace("default"), &request("k", "").key).await.expect("readable").is_some()
    };
    let forgotten = now.after(REQUESTS_KEPT);
    assert!(answered(Timestamp(forgotten.0 - 1)).await);
    assert!(!answered(forgotten).await, "and deleted in time");
}

pub async fn ended_queries_are_deleted_at_the_end_of_their_retention(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let mut waiting = QueryWriter::new("default", "waiting", 1);
    waiting.start_and_pause(&*store, LONG);
    let mut ended: Vec<_> =
        (2..=400).map(|number| QueryWriter::new("default", &format!("q{number}"), number)).collect();
    for (seconds, writer) in (1..).zip(&mut ended) {
        let mut spec = spec();
        spec.limits.ttl = Duration::from_secs(seconds);
        let created = writer.create_as(spec);
        writer.send(&*store, created);
        writer.append(&*store, machine::cancel(writer.head(), None, &Actor::local()));
    }
    durable(&*store, store.last_position()).await;
    let until: Vec<_> = ended.iter().map(|writer| writer.head().kept_until().expect("it has ended")).collect();
    let left = async |now: Timestamp| {
        // In batches, until there is nothing more to do.
        while store.remove(Removal::Outdated, now).await.expect("writable") > 0 {}
        store.list(&namespace("default"), &page(0)).await.expect("readable").total
    };
    assert_eq!(left(Timestamp(until[0].0 - 1)).await, 400);
    assert_eq!(left(until[0]).await, 399);
    assert!(load(&*store, &ended[0]).await.is_none() && load(&*store, &ended[1]).await.is_some());
    assert_eq!(left(Timestamp(i64::MAX)).await, 1, "what has not ended stays");
    assert!(load(&*store, &waiting).await.is_some());
    // Retention has no actor, and it is recorded: each once, when it was done.
    let search = RecordSearch { action: Some(Action::QueryDeleted), limit: 1_000, ..RecordSearch::default() };
    let found = store.search(&namespace("default"), &search).await.expect("readable").records;
    let recorded = |writer: &QueryWriter| {
        let head = writer.head();
        let of = |at| AuditRecord::of_outdated(head.uid, Some(head.name.clone()), Some(head.target.clone()), at);
        found.iter().filter(|numbered| numbered.record == of(numbered.record.at)).count()
    };
    assert!(ended.iter().all(|writer| recorded(writer) == 1));
    assert_eq!((found.len(), recorded(&waiting)), (ended.len(), 0));
    assert_eq!(
        found.last().map(|numbered| (numbered.record.at, numbered.record.actor.clone())),
        Some((until[0], None))
    );
}

pub async fn the_latest_retention_of_an_ended_query_counts(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let mut writers: Vec<_> =
        (1..=3).map(|number| QueryWriter::new("default", &format!("q{number}"), number)).collect();
    let change = |seconds| {
        let limits = AskedLimits { ttl: Some(Duration::from_secs(seconds)), ..AskedLimits::default() };
        machine::change(Changed { limits, ..Changed::default() })
    };
    for (changes, writer) in (1..).zip(&mut writers) {
        writer.start_and_pause(&*store, LONG);
        writer.resolve_and_complete(&*store);
        for seconds in 0..changes {
            writer.append(&*store, change(60 * changes + seconds));
        }
        durable(&*store, writer.position()).await;
    }
    let listed = store.list(&namespace("default"), &page(9)).await.expect("readable");
    for (head, entries) in &listed.queries {
        let shows = |is_it: fn(&Event) -> bool| entries.iter().any(|entry| is_it(&entry.event));
        assert!(shows(|event| matches!(event, Event::TurnEnded { .. })), "lists show what it ended with: {entries:?}");
        assert!(shows(Event::is_final), "lists show how it ended: {}: {entries:?}", head.name);
    }
    assert_eq!(listed.queries.len(), 3);
    for (left, writer) in [2, 1, 0].into_iter().zip(&writers) {
        let until = writer.head().kept_until().expect("it has ended");
        assert_eq!(store.remove(Removal::Outdated, Timestamp(until.0 - 1)).await.expect("writable"), 0);
        assert_eq!(store.remove(Removal::Outdated, until).await.expect("writable"), 1);
        assert_eq!(store.list(&namespace("default"), &page(0)).await.expect("readable").total, left);
    }
}

pub async fn a_toolset_is_deleted_with_the_last_query_that_refers_to_it(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let shared = document("shared");
    let mut writers: Vec<_> =
        (1..=2).map(|number| QueryWriter::new("default", &format!("q{number}"), number)).collect();
    for writer in &mut writers {
        let created = Append { toolset: Some(shared.clone()), ..writer.create() };
        writer.send(&*store, created);
    }
    let there = async || store.document(shared.hash).await.expect("readable").is_some();
    for (writer, left) in writers.iter().zip([true, false]) {
        let this = removal(writer);
        store.remove(this, Timestamp(1)).await.expect("writable");
        assert_eq!(there().await, left);
    }
    // And is stored again with the next query that refers to it.
    let mut again = QueryWriter::new("default", "again", 3);
    let created = Append { toolset: Some(shared.clone()), ..again.create() };
    let position = again.send(&*store, created);
    durable(&*store, position).await;
    assert!(there().await);
}
