//! The clauses of the store's contract about the audit log and the usage counts.

#![expect(clippy::expect_used, reason = "compiled for tests only: a failure here is a failed test")]

use std::sync::Arc;

use bosun_core::{
    Timestamp,
    audit::{Action, AuditRecord, CallSource, SUCCESS},
    usage::{Hour, Sample, UsageTotals},
};

use super::{
    query_writer::QueryWriter,
    store_contract::{LONG, StorePlace, conflicts, durable, namespace, removal},
};
use crate::store::{Append, FoundRecords, RecordSearch, Store};

async fn search(store: &dyn Store, of: &str, search: RecordSearch) -> FoundRecords {
    store.search(&namespace(of), &search).await.expect("the log is readable")
}

fn all() -> RecordSearch {
    RecordSearch { limit: 1_000, ..RecordSearch::default() }
}

fn actions(found: &FoundRecords) -> Vec<Action> {
    found.records.iter().rev().map(|numbered| numbered.record.action).collect()
}

async fn usage(store: &dyn Store, of: &str) -> UsageTotals {
    store.usage(&namespace(of), Hour(0)).await.expect("usage is readable")
}

pub async fn what_is_appended_is_audited_and_counted(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let mut writer = QueryWriter::new("default", "a", 1);
    writer.start_and_pause(&*store, LONG);
    let position = writer.resolve_and_complete(&*store);
    durable(&*store, position).await;
    let found = search(&*store, "default", all()).await;
    let life = [Action::QueryCreated, Action::CallHandedOut, Action::CallDelivered, Action::QueryCompleted];
    assert_eq!(actions(&found), life);
    let numbers: Vec<_> = found.records.iter().map(|numbered| numbered.seq).collect();
    assert_eq!(numbers, [4, 3, 2, 1], "numbers have no gap");
    assert_eq!(found.next, None);
    let used = usage(&*store, "default").await;
    let ((tool, source), tally) = used.by_tool().into_iter().next().expect("a tool was used");
    assert_eq!((source, tally.calls, tally.errors, tally.latency.count()), (CallSource::Outside, 1, 0, 1), "{tool}");
    assert_eq!((used.all_queries().queries, used.all_queries().with_outside), (1, 1));
    assert!(search(&*store, "other", all()).await.records.is_empty(), "namespaces are separate");
    assert!(usage(&*store, "other").await.is_empty());
    let later = Hour::of(Timestamp(i64::MAX / 2));
    assert!(store.usage(&namespace("default"), later).await.expect("readable").is_empty());
}

pub async fn what_is_rejected_leaves_no_record(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let mut writer = QueryWriter::new("default", "a", 1);
    let mut twin = writer.clone();
    let position = writer.start_and_pause(&*store, LONG);
    durable(&*store, position).await;
    let late = Append { seen: 0, ..twin.create() };
    let lost = twin.send(&*store, late);
    assert!(conflicts(&*store, lost).await);
    assert_eq!(actions(&search(&*store, "default", all()).await), [Action::QueryCreated, Action::CallHandedOut]);
}

/// An act that concerns no query.
fn act(at: i64, actor: &str, detail: &str) -> AuditRecord {
    let record = AuditRecord::of_act(Timestamp(at), Action::ResourceCreated, None, Some(detail.to_owned()));
    AuditRecord { actor: Some(actor.into()), ..record }
}

pub async fn records_are_searched_newest_first_in_pages(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let mut writer = QueryWriter::new("default", "a", 1);
    writer.start_and_pause(&*store, LONG);
    for (index, actor) in ["ann", "bob", "ann", "bob", "ann"].into_iter().enumerate() {
        let at = i64::try_from(index).expect("a small number") * 10;
        store.record(&namespace("default"), vec![act(at, actor, &index.to_string())]).expect("the store is open");
    }
    let position = store.record(&namespace("elsewhere"), vec![act(0, "ann", "other")]).expect("the store is open");
    durable(&*store, position).await;
    let details = |found: &FoundRecords| -> Vec<String> {
        found.records.iter().filter_map(|numbered| numbered.record.detail.clone()).collect()
    };
    let ann = RecordSearch { actor: Some("ann".into()), ..all() };
    assert_eq!(details(&search(&*store, "default", ann.clone()).await), ["4", "2", "0"]);
    let window = RecordSearch { from: Some(Timestamp(10)), to: Some(Timestamp(40)), ..all() };
    assert_eq!(details(&search(&*store, "default", window).await), ["3", "2", "1"], "from is in, to is out");
    let of_query = RecordSearch { query: Some(writer.head().name.clone()), ..all() };
    assert_eq!(search(&*store, "default", of_query).await.records.len(), 2);
    let tool = writer.head().calls.first().map(|call| call.tool.to_string());
    let of_tool = search(&*store, "default", RecordSearch { tool, ..all() }).await;
    assert_eq!(actions(&of_tool), [Action::CallHandedOut]);
    let (mut paged, mut before) = (Vec::new(), None);
    loop {
        let page = search(&*store, "default", RecordSearch { limit: 1, before, ..ann.clone() }).await;
        assert!(page.records.len() <= 1);
        paged.extend(details(&page));
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    assert_eq!(paged, ["4", "2", "0"], "the pages are complete");
}

pub async fn the_log_outlives_its_queries_and_processes(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let mut writer = QueryWriter::new("default", "a", 1);
    writer.start_and_pause(&*store, LONG);
    let position = writer.resolve_and_complete(&*store);
    durable(&*store, position).await;
    assert_eq!(store.remove(removal(&writer), Timestamp(1_000)).await.expect("writable"), 1);
    assert_eq!(store.remove(removal(&writer), Timestamp(1_000)).await.expect("writable"), 0);
    let (log, used) = (search(&*store, "default", all()).await, usage(&*store, "default").await);
    assert_eq!(actions(&log).last(), Some(&Action::QueryDeleted), "deleted once, recorded once");
    assert_eq!(log.records.len(), 5);
    store.close().await.expect("the last commit is made");
    drop(store);
    let store: Arc<dyn Store> = place.open();
    assert_eq!(search(&*store, "default", all()).await, log, "a later process finds the same log");
    assert_eq!(usage(&*store, "default").await, used, "and the same counts");
    let mut recount = UsageTotals::default();
    log.records.iter().filter_map(|numbered| Sample::of(&numbered.record)).for_each(|sample| recount.add(sample));
    assert_eq!(used, recount, "counts match the log");
    let mut heir = QueryWriter::new("default", "a", 2);
    let position = heir.start(&*store);
    durable(&*store, position).await;
    assert_eq!(search(&*store, "default", all()).await.records.first().map(|numbered| numbered.seq), Some(6));
    assert!(log.records.iter().any(|numbered| numbered.record.outcome.as_deref() == Some(SUCCESS)));
}
