//! A long log: a search covers all of it, and records past their retention are deleted in order.

use bosun_core::{Namespace, audit::AuditRecord};
use bosun_engine::store::RecordSearch;

use super::*;
use crate::store::sqlite::audit::BLOCK;

/// The beginning of the log in these tests: long after its records about itself, which have the time of the machine.
const BEGIN: i64 = 4_102_444_800_000;
const SECOND: i64 = 1_000;

fn namespace() -> Namespace {
    "default".parse().unwrap()
}

/// An action of a client, at that second.
fn act(number: i64) -> AuditRecord {
    let actors = ["ann", "bob", "cid"];
    let actor = actors[usize::try_from(number).unwrap() % 3].to_owned();
    // Each query has a few records, close to each other, and some tools have only very few.
    let query = format!("q-{}", number / 5).parse().unwrap();
    let tool = if number % 401 == 7 { "rare" } else { "common" };
    let action = if number % 100 == 50 { Action::QueryCancelled } else { Action::CallDelivered };
    // The clock was set back once.
    let at = if number > 900 { number - 120 } else { number };
    AuditRecord {
        actor: Some(actor.into()),
        query: Some(query),
        tool: Some(tool.into()),
        ..AuditRecord::of_act(Timestamp(BEGIN + at * SECOND), action, None, None)
    }
}

/// A store with this many acts, and a complete index.
async fn long(dir: &Path, acts: i64, audit: &Audit) -> Sqlite {
    let store = Sqlite::open_with(dir, audit).unwrap();
    let position = store.record(&namespace(), (0..acts).map(act).collect()).unwrap();
    store.durable(position).await.unwrap();
    store
}

async fn maintain(store: &Sqlite, now: i64) -> u32 {
    let mut times = 0;
    while store.maintain_records(Timestamp(now)).await.unwrap() {
        times += 1;
    }
    times
}

/// All pages of a search, each with at most `search.limit` records.
async fn find(store: &Sqlite, search: &RecordSearch) -> Vec<u64> {
    let (mut found, mut before) = (Vec::new(), None);
    loop {
        let page = store.search(&namespace(), &RecordSearch { before, ..search.clone() }).await.unwrap();
        assert!(page.records.len() <= search.limit);
        found.extend(page.records.iter().map(|numbered| numbered.seq));
        before = page.next;
        if before.is_none() {
            return found;
        }
    }
}

#[tokio::test]
async fn a_search_finds_the_same_with_and_without_the_index() {
    let dir = tempfile::tempdir().unwrap();
    let acts = 1_500;
    let store = long(dir.path(), acts, &Audit::default()).await;
    let time = |second: i64| Some(Timestamp(BEGIN + second * SECOND));
    let all = RecordSearch { limit: 70, ..RecordSearch::default() };
    let searches = [
        all.clone(),
        RecordSearch { actor: Some("bob".into()), ..all.clone() },
        RecordSearch { tool: Some("rare".into()), ..all.clone() },
        RecordSearch { tool: Some("rare".into()), actor: Some("ann".into()), ..all.clone() },
        RecordSearch { query: Some("q-3".parse().unwrap()), ..all.clone() },
        RecordSearch { query: Some("q-299".parse().unwrap()), ..all.clone() },
        RecordSearch { query: Some("q-999".parse().unwrap()), ..all.clone() },
        RecordSearch { action: Some(Action::QueryCancelled), ..all.clone() },
        RecordSearch { action: Some(Action::KeyRevoked), ..all.clone() },
        RecordSearch { from: time(850), to: time(950), ..all.clone() },
        RecordSearch { to: time(10), ..all.clone() },
        RecordSearch { from: time(1_370), ..all.clone() },
        RecordSearch { from: time(5_000), ..all.clone() },
    ];
    let mut before = Vec::new();
    for search in &searches {
        before.push(find(&store, search).await);
        let expect = (0..acts).rev().filter(|number| search.wants(&act(*number))).map(|number| number as u64 + 1);
        assert_eq!(before[before.len() - 1], expect.collect::<Vec<_>>(), "{search:?}");
    }
    assert_eq!(maintain(&store, BEGIN).await, 1, "all complete blocks at once");
    let connection = Connection::open(dir.path().join("bosun.db")).unwrap();
    let blocks: u64 = connection.query_row("SELECT count(*) FROM audit_blocks", [], |row| row.get(0)).unwrap();
    assert_eq!(blocks, 1_500 / BLOCK);
    for (search, expect) in searches.iter().zip(before) {
        assert_eq!(find(&store, search).await, expect, "{search:?}");
    }
    assert!(crate::store::sqlite::inspect(dir.path()).faults.is_empty());
}

#[tokio::test]
async fn a_search_reads_only_the_blocks_that_may_match() {
    let dir = tempfile::tempdir().unwrap();
    let store = long(dir.path(), 5 * i64::try_from(BLOCK).unwrap(), &Audit::default()).await;
    maintain(&store, BEGIN).await;
    // Records of blocks that are not read may be anything.
    let connection = Connection::open(dir.path().join("bosun.db")).unwrap();
    connection.execute("UPDATE audit SET body = 'x' WHERE (key & 1099511627775) NOT BETWEEN 257 AND 512", []).unwrap();
    let search = RecordSearch { query: Some("q-60".parse().unwrap()), limit: 9, ..RecordSearch::default() };
    assert_eq!(find(&store, &search).await, [305, 304, 303, 302, 301]);
    // This shows that they were not read.
    connection.execute("DELETE FROM audit_blocks", []).unwrap();
    connection.execute("UPDATE audit SET body = 'x'", []).unwrap();
    assert!(find(&store, &search).await.is_empty());
}

fn kept_for(seconds: u64) -> Audit {
    Audit { retention: Some(Duration::from_secs(seconds)), ..Audit::default() }
}

async fn shortened(dir: &Path) -> Sqlite {
    let store = long(dir, 1_000, &kept_for(300)).await;
    // At this second, the first 600 are past their retention: two whole blocks.
    maintain(&store, BEGIN + 900 * SECOND).await;
    store
}

#[tokio::test]
async fn outdated_records_are_deleted_and_the_rest_still_verifies() {
    let dir = tempfile::tempdir().unwrap();
    let store = shortened(dir.path()).await;
    let all = RecordSearch { limit: 1_000, ..RecordSearch::default() };
    let left = find(&store, &all).await;
    assert_eq!((left.first(), left.last()), (Some(&1_001), Some(&513)), "whole blocks, and a record of that");
    let newest =
        &store.search(&namespace(), &RecordSearch { limit: 1, ..all.clone() }).await.unwrap().records[0].record;
    assert_eq!(newest.action, Action::AuditShortened);
    let until = Timestamp(BEGIN + 511 * SECOND).to_rfc3339();
    assert_eq!(newest.detail, Some(format!("up to record 512, of {until}")));
    assert_eq!(maintain(&store, BEGIN + 900 * SECOND).await, 0, "once");
    // It is continued, also by another process, and shortened again.
    store.close().await.unwrap();
    drop(store);
    assert!(faults(dir.path()).is_empty());
    let store = Sqlite::open_with(dir.path(), &kept_for(300)).unwrap();
    let position = store.record(&namespace(), (1_000..1_300).map(act).collect()).unwrap();
    store.durable(position).await.unwrap();
    maintain(&store, BEGIN + 1_100 * SECOND).await;
    let left = find(&store, &all).await;
    assert_eq!((left.first(), left.last()), (Some(&1_302), Some(&769)));
    store.close().await.unwrap();
    let verified = verify(dir.path(), &Audit::default()).unwrap();
    assert_eq!(verified, Verified { namespaces: 1, records: 534, heads: 2, faults: Vec::new() }, "{verified:?}");
    assert!(crate::store::sqlite::inspect(dir.path()).faults.is_empty());
}

#[tokio::test]
async fn without_a_retention_everything_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let store = long(dir.path(), 600, &Audit::default()).await;
    maintain(&store, i64::MAX / 2).await;
    assert_eq!(find(&store, &RecordSearch { limit: 1_000, ..RecordSearch::default() }).await.len(), 600);
}

#[tokio::test]
async fn tamperings_with_a_shortened_log_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let store = shortened(dir.path()).await;
    store.close().await.unwrap();
    drop(store);
    find_tamperings(dir, 300);
}

#[tokio::test]
async fn a_log_that_was_tampered_with_is_not_shortened() {
    let dir = tempfile::tempdir().unwrap();
    let store = long(dir.path(), 1_000, &kept_for(300)).await;
    let connection = Connection::open(dir.path().join("bosun.db")).unwrap();
    let changed = "UPDATE audit SET body = replace(body, 'bob', 'eve') WHERE key & 1099511627775 = 2";
    assert_eq!(connection.execute(changed, []), Ok(1));
    maintain(&store, BEGIN + 900 * SECOND).await;
    assert_eq!(
        find(&store, &RecordSearch { limit: 1_000, ..RecordSearch::default() }).await.len(),
        1_000,
        "it is evidence"
    );
    assert_eq!(faults(dir.path()).first(), Some(&AuditFault::Changed { namespace: "default".into(), seq: 2 }));
}

#[tokio::test]
async fn a_key_that_was_changed_before_the_cut_is_not_needed_any_more() {
    let dir = tempfile::tempdir().unwrap();
    let store = long(dir.path(), 100, &kept_for(300)).await;
    store.close().await.unwrap();
    drop(store);
    let key_file = dir.path().join(KEY_FILE);
    let old = fs::read_to_string(&key_file).unwrap();
    rotate(&key_file).unwrap();
    let store = Sqlite::open_with(dir.path(), &kept_for(300)).unwrap();
    let position = store.record(&namespace(), (100..900).map(act).collect()).unwrap();
    store.durable(position).await.unwrap();
    maintain(&store, BEGIN + 700 * SECOND).await;
    store.close().await.unwrap();
    drop(store);
    fs::remove_file(dir.path().join(HEADS_FILE)).unwrap();
    assert!(faults(dir.path()).is_empty());
    let both = fs::read_to_string(&key_file).unwrap();
    let newest = both.lines().last().unwrap();
    assert!(!old.contains(newest));
    fs::write(&key_file, format!("{newest}\n")).unwrap();
    assert!(faults(dir.path()).is_empty(), "what the old key sealed was deleted");
}
