//! What is specific to SQLite: batches, files, locks, full disks. The rest is in the contract.

mod against_memory;
mod inspection;
mod opening;

use std::{path::PathBuf, sync::atomic::Ordering, time::Duration};

use bosun_core::{
    Actor, Content, Outcome, Status, audit::Action, content::Large, machine, query::TargetKind,
    tool::label_selector::LabelSelector,
};
use bosun_engine::resource::{ManifestChange, ResourceKey, ResourceKind};
use bosun_engine::testing::{
    query_writer::QueryWriter,
    store_contract::{StorePlace, fold},
};
use futures_util::{FutureExt as _, future::BoxFuture};
use tempfile::TempDir;

use super::*;

/// A directory that is removed after the test.
struct TestDirectory(TempDir);

impl TestDirectory {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn database(&self) -> PathBuf {
        self.path().join("bosun.db")
    }

    fn store(&self) -> Sqlite {
        Sqlite::open(self.path()).unwrap()
    }

    /// A second connection, to look at the file and to damage it.
    fn connection(&self) -> Connection {
        Connection::open(self.database()).unwrap()
    }
}

impl StorePlace for TestDirectory {
    fn open(&mut self) -> Arc<dyn Store> {
        Arc::new(self.store())
    }
}

mod contract {
    use super::*;

    bosun_engine::store_contract!([tokio::test(flavor = "multi_thread", worker_threads = 2)] TestDirectory::new());
}

mod contract_on_one_thread {
    use super::*;

    bosun_engine::store_contract!([tokio::test] TestDirectory::new());
}

/// A queue without a writer yet: what is pushed and awaited now is one batch.
struct Held {
    queue: Arc<AppendQueue>,
    opened: Opened,
}

impl Held {
    fn new(directory: &TestDirectory) -> Self {
        Self { queue: Arc::default(), opened: open::open(directory.path()).unwrap() }
    }

    fn push(&self, append: Append) -> Position {
        self.queue.push(Queued::new(append, false).unwrap()).unwrap()
    }

    fn wait(&self, position: Position) -> BoxFuture<'static, Result<(), StoreError>> {
        let queue = Arc::clone(&self.queue);
        let mut waiting = Box::pin(async move { queue.settled(position).await });
        assert!(waiting.as_mut().now_or_never().is_none());
        waiting
    }

    fn release(self) -> Sqlite {
        Sqlite::start(self.queue, self.opened, None, None, None).unwrap()
    }
}

#[tokio::test]
async fn appends_without_a_waiter_cost_no_commit_of_their_own() {
    let directory = TestDirectory::new();
    let held = Held::new(&directory);
    let mut writer = QueryWriter::new("default", "a", 1);
    held.push(writer.create());
    held.push(writer.write(machine::advance(writer.head())));
    let last = held.push(writer.write(writer.reply(Vec::new())));
    let waiting = held.wait(last);
    let store = held.release();
    waiting.await.unwrap();
    assert_eq!(store.stats(), StoreStats { appends: 3, commits: 1, awaited_commits: 1 });
}

#[tokio::test]
async fn everything_that_is_queued_is_one_commit() {
    let directory = TestDirectory::new();
    let held = Held::new(&directory);
    let waiting: Vec<_> = (1..=64)
        .map(|number| {
            let position = held.push(QueryWriter::new("default", &format!("q{number}"), number).create());
            held.wait(position)
        })
        .collect();
    let store = held.release();
    for waiting in waiting {
        waiting.await.unwrap();
    }
    assert_eq!(store.stats(), StoreStats { appends: 64, commits: 1, awaited_commits: 1 });
}

#[tokio::test]
async fn an_append_without_a_waiter_is_committed_too() {
    let directory = TestDirectory::new();
    let store = directory.store();
    let mut writer = QueryWriter::new("default", "a", 1);
    writer.start(&store);
    let (namespace, name) = (writer.head().namespace.clone(), writer.head().name.clone());
    // A commit is counted after it has happened, so the test polls the count.
    while store.stats().commits == 0 {
        tokio::task::yield_now().await;
    }
    assert!(store.load(&namespace, &name).await.unwrap().is_some());
    assert_eq!(store.stats(), StoreStats { appends: 1, commits: 1, awaited_commits: 0 });
}

#[tokio::test]
async fn a_conflict_within_a_batch_does_not_affect_its_other_appends() {
    let directory = TestDirectory::new();
    let mut shared = QueryWriter::new("default", "shared", 1);
    shared.start(&directory.store());
    let mut stale = shared.clone();

    let held = Held::new(&directory);
    let first = held.push(QueryWriter::new("default", "first", 2).create());
    held.push(shared.write(machine::advance(shared.head())));
    let lost = held.push(stale.write(machine::cancel(stale.head(), None, &Actor::local())));
    let taken = held.push(QueryWriter::new("default", "first", 3).create());
    let last = held.push(shared.write(shared.reply(Vec::new())));
    let waiting = [first, lost, taken, last].map(|position| held.wait(position));
    let store = held.release();
    let [first, lost, taken, last] = futures_util::future::join_all(waiting).await.try_into().unwrap();
    assert!(first.is_ok() && last.is_ok());
    assert!(matches!(lost, Err(StoreError::Conflict(_))), "{lost:?}");
    assert!(matches!(taken, Err(StoreError::NameTaken(_))), "{taken:?}");
    assert_eq!(store.stats(), StoreStats { appends: 5, commits: 1, awaited_commits: 1 });
    let head = shared.head();
    let stored = store.load(&head.namespace, &head.name).await.unwrap().unwrap();
    assert_eq!(&stored.head, head);
    assert_eq!(fold(&stored), stored.head);
}

#[tokio::test]
async fn a_batch_of_conflicts_only_is_not_committed() {
    let directory = TestDirectory::new();
    let held = Held::new(&directory);
    let mut writer = QueryWriter::new("default", "a", 1);
    writer.create();
    let lost = held.push(writer.write(machine::advance(writer.head())));
    let waiting = held.wait(lost);
    let store = held.release();
    assert!(matches!(waiting.await, Err(StoreError::Conflict(_))));
    assert_eq!(store.stats().commits, 0);
}

#[tokio::test]
async fn an_append_that_sqlite_refuses_does_not_fail_its_batch() {
    let directory = TestDirectory::new();
    drop(directory.store());
    let trigger = "CREATE TRIGGER refuse BEFORE INSERT ON journal WHEN NEW.body LIKE '%refuse me%' \
                   BEGIN SELECT RAISE(ABORT, 'refused'); END";
    directory.connection().execute_batch(trigger).unwrap();

    let held = Held::new(&directory);
    let refused = bosun_core::Spec { input: "refuse me".into(), ..bosun_engine::testing::query_writer::spec() };
    let first = held.push(QueryWriter::new("default", "first", 1).create());
    let mut writer = QueryWriter::new("default", "a", 2);
    let lost = held.push(writer.create_as(refused));
    let builds_on_it = held.push(Append { after: lost, ..writer.write(machine::advance(writer.head())) });
    let last = held.push(QueryWriter::new("default", "last", 3).create());
    let waiting = [first, lost, builds_on_it, last].map(|position| held.wait(position));
    let store = held.release();
    let [first, lost, builds_on_it, last] = futures_util::future::join_all(waiting).await.try_into().unwrap();
    assert!(first.is_ok() && last.is_ok());
    assert!(matches!(lost, Err(StoreError::Unavailable(_))), "{lost:?}");
    assert!(matches!(builds_on_it, Err(StoreError::Unavailable(_))), "{builds_on_it:?}");
    assert_eq!(store.stats().commits, 1);
    let listed = store.list(&Namespace::default(), &QueryPage { limit: 9, ..QueryPage::default() }).await.unwrap();
    assert_eq!(listed.total, 2);
}

/// After `fault`, writes fail; after `repair`, the same store continues.
async fn check_failed_commit(fault: &str, repair: &str) {
    let directory = TestDirectory::new();
    let store = directory.store();
    let before = QueryWriter::new("default", "before", 1).start(&store);
    store.durable(before).await.unwrap();
    directory.connection().execute_batch(fault).unwrap();
    let mut writer = QueryWriter::new("default", "a", 2);
    let position = writer.start(&store);
    let lost = store.durable(position).await;
    assert!(matches!(lost, Err(StoreError::Unavailable(_))), "{lost:?}");
    let builds_on_it = writer.append(&store, machine::advance(writer.head()));

    directory.connection().execute_batch(repair).unwrap();
    assert!(matches!(store.durable(builds_on_it).await, Err(StoreError::Unavailable(_))));
    let (namespace, name) = (writer.head().namespace.clone(), writer.head().name.clone());
    assert!(store.load(&namespace, &name).await.unwrap().is_none(), "it was rolled back");
    let position = QueryWriter::new("default", "a", 3).start(&store);
    store.durable(position).await.unwrap();
    assert_eq!(store.stats().commits, 2);
}

#[tokio::test]
async fn a_failed_batch_is_reported_to_all_waiters_and_the_store_continues() {
    // The transaction is rolled back in the middle, as it is when the disk fails.
    let fault = "CREATE TRIGGER fail BEFORE INSERT ON journal BEGIN SELECT RAISE(ROLLBACK, 'failed'); END";
    check_failed_commit(fault, "DROP TRIGGER fail").await;
}

#[tokio::test]
async fn a_failed_commit_is_reported_to_all_waiters_and_the_store_continues() {
    // Everything is written, and then COMMIT itself fails.
    let fault = "CREATE TABLE parent (id INTEGER PRIMARY KEY);
                 CREATE TABLE child (id INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
                 CREATE TRIGGER fail AFTER INSERT ON journal BEGIN INSERT INTO child VALUES (1); END";
    check_failed_commit(fault, "DROP TRIGGER fail").await;
}

#[tokio::test]
async fn a_full_disk_refuses_writes_not_reads_and_recovers_without_a_restart() {
    let directory = TestDirectory::new();
    let held = Held::new(&directory);
    let limit = Arc::clone(&held.opened.connector.page_limit);
    limit.store(60, Ordering::SeqCst);
    let store = held.release();
    let spec = bosun_core::Spec { input: "x".repeat(8 << 10), ..bosun_engine::testing::query_writer::spec() };
    let mut kept = Vec::new();
    let mut number = 0;
    let mut create = async || {
        number += 1;
        let mut writer = QueryWriter::new("default", &format!("q{number}"), number);
        let append = writer.create_as(spec.clone());
        let position = writer.send(&store, append);
        store.durable(position).await.map(|()| writer)
    };
    let refused = loop {
        match create().await {
            Ok(writer) => kept.push(writer),
            Err(error) => break error,
        }
    };
    let StoreError::Unavailable(cause) = refused else { panic!("a full disk is unavailable, not {refused:?}") };
    assert!(cause.to_string().contains("full"), "{cause}");
    assert!(!kept.is_empty());
    assert!(create().await.is_err(), "it is still full");
    for writer in &kept {
        let head = writer.head();
        assert!(store.load(&head.namespace, &head.name).await.unwrap().is_some(), "reads still work");
    }
    limit.store(0, Ordering::SeqCst);
    // The current connection has the old limit; the failure makes the store open a new one.
    let recovered = match create().await {
        Ok(writer) => writer,
        Err(_) => create().await.unwrap(),
    };
    kept.push(recovered);
    let listed = store.list(&Namespace::default(), &QueryPage { limit: 99, ..QueryPage::default() }).await.unwrap();
    assert_eq!(listed.total, kept.len() as u64, "what failed left nothing behind");
    drop(store);
    let whole: String = directory.connection().query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(whole, "ok");
}

#[tokio::test]
async fn a_process_that_takes_over_the_store_fences_off_the_earlier_one() {
    let directory = TestDirectory::new();
    let store = directory.store();
    let position = QueryWriter::new("default", "a", 1).start(&store);
    store.durable(position).await.unwrap();
    // Like a process that bypassed the lock: on another machine, for example.
    directory.connection().execute_batch("UPDATE writer SET epoch = epoch + 1").unwrap();
    let position = QueryWriter::new("default", "b", 2).start(&store);
    assert!(matches!(store.durable(position).await, Err(StoreError::Fenced)));
    let refused = store.append(QueryWriter::new("default", "c", 3).create());
    assert!(matches!(refused, Err(StoreError::Fenced)), "{refused:?}");
    assert!(matches!(store.close().await, Err(StoreError::Fenced)));
    let listed: i64 = directory.connection().query_row("SELECT count(*) FROM queries", [], |row| row.get(0)).unwrap();
    assert_eq!(listed, 1);
}

/// A commit target that panics on its first commit, and succeeds on the second.
#[derive(Default)]
struct PanickingTarget(u32);

impl writer::CommitTarget for PanickingTarget {
    fn commit(
        &mut self,
        _: &[Queued],
        _: &[QueuedRecords],
        _: &AppendQueue,
    ) -> Result<append_queue::Settled, Rejection> {
        self.0 += 1;
        if self.0 == 1 {
            panic!("the first commit crashes")
        } else {
            Ok(append_queue::Settled { committed: true, rejected: Vec::new() })
        }
    }

    fn remove(&mut self, _: &Removal, _: Timestamp) -> Result<usize, Rejection> {
        panic!("and so does a removal")
    }

    fn change_resource(&mut self, _: &ResourceChange) -> Result<(), Rejection> {
        panic!("and so does a change of a resource")
    }

    fn change_webhook(&mut self, _: &WebhookChange) -> Result<bool, Rejection> {
        panic!("and so does a change of a webhook")
    }

    fn maintain(&mut self, _: &Maintenance) -> Result<bool, Rejection> {
        panic!("and so does maintenance of the log")
    }

    fn checkpoint(&mut self) {
        panic!("and so does the checkpoint")
    }
}

#[tokio::test]
async fn a_panic_of_the_writer_leaves_no_caller_waiting() {
    let queue = Arc::new(AppendQueue::default());
    let writing = Arc::clone(&queue);
    let thread = thread::spawn(move || writer::run(&writing, &mut PanickingTarget::default()));
    let lost = queue.push(Queued::new(QueryWriter::new("default", "a", 1).create(), true).unwrap()).unwrap();
    assert!(matches!(queue.settled(lost).await, Err(StoreError::Unavailable(_))));
    let kept = queue.push(Queued::new(QueryWriter::new("default", "b", 2).create(), true).unwrap()).unwrap();
    queue.settled(kept).await.unwrap();
    assert!(matches!(queue.remove(Removal::Outdated, Timestamp(0)).await, Err(StoreError::Unavailable(_))));
    let what = ManifestChange::Remove(ResourceKey::new(ResourceKind::Agent, Namespace::default(), "a"));
    let record = AuditRecord::of_act(Timestamp(0), Action::ResourceDeleted, None, None);
    let change = ResourceChange { what, record };
    assert!(matches!(queue.change_resource(change).await, Err(StoreError::Unavailable(_))));
    queue.stop(Rejection::Fenced);
    thread.join().unwrap();
}

#[tokio::test]
async fn an_unreadable_query_hides_no_other() {
    let directory = TestDirectory::new();
    let store = directory.store();
    let names = ["broken-head", "broken-journal", "newer", "fine"];
    let mut writers: Vec<_> =
        (1..).zip(names).map(|(number, name)| QueryWriter::new("default", name, number)).collect();
    for writer in &mut writers {
        let position = writer.start(&store);
        store.durable(position).await.unwrap();
    }
    drop(store);
    directory
        .connection()
        .execute_batch(
            "UPDATE queries SET head = '{\"of\":\"tomorrow\"}' WHERE name IN ('broken-head', 'newer');
             UPDATE journal SET body = '{\"v\":1,\"kind\":\"unheard_of\"}' WHERE query = 2;
             UPDATE journal SET body = '{\"v\":99,\"kind\":\"unheard_of\"}' WHERE query = 3;",
        )
        .unwrap();
    let store = directory.store();
    let load = async |index: usize| {
        let head = writers[index].head();
        store.load(&head.namespace, &head.name).await
    };
    assert_eq!(&load(0).await.unwrap().unwrap().head, writers[0].head(), "the journal says what the head was");
    assert!(matches!(load(1).await, Err(StoreError::Unreadable { uid, .. }) if uid == writers[1].uid()));
    let newer = load(2).await.unwrap_err();
    let cause = std::error::Error::source(&newer).unwrap().to_string();
    assert!(cause.contains("version 99, newer"), "{cause}");
    assert!(load(3).await.unwrap().is_some());
    let page = QueryPage { limit: 1, ..QueryPage::default() };
    let listed = store.list(&Namespace::default(), &page).await.unwrap();
    assert_eq!((listed.queries.len(), listed.total), (1, 4));
    assert_eq!(listed.queries[0].0.name.as_str(), "fine");
    // A driver that takes one of them finds out; the store cannot know without reading it.
    assert_eq!(store.count_runnable().await.unwrap(), [(Namespace::default(), 4)]);
}

#[tokio::test]
async fn pages_continue_after_a_query_whose_last_entry_cannot_be_read() {
    let directory = TestDirectory::new();
    let store = directory.store();
    for (number, name) in (1..).zip(["oldest", "broken", "youngest"]) {
        let mut writer = QueryWriter::new("default", name, number);
        writer.start_and_pause(&store, Duration::from_secs(600));
        let position = writer.resolve_and_complete(&store);
        store.durable(position).await.unwrap();
    }
    drop(store);
    let broken = "UPDATE journal SET body = '{\"v\":99,\"kind\":\"unheard_of\"}' \
         WHERE key = (SELECT (id << 24) + seq FROM queries WHERE name = 'broken')";
    assert_eq!(directory.connection().execute(broken, []).unwrap(), 1);
    let store = directory.store();
    let mut page = QueryPage { limit: 1, ..QueryPage::default() };
    let mut pages = Vec::new();
    loop {
        let listed = store.list(&Namespace::default(), &page).await.unwrap();
        let names: Vec<_> = listed.queries.iter().map(|(head, _)| head.name.to_string()).collect();
        pages.push(names.join(" "));
        page.before = listed.next;
        if page.before.is_none() {
            break;
        }
    }
    assert_eq!(pages, ["youngest", "", "oldest"]);
}

#[tokio::test]
async fn references_to_blobs_are_deleted_with_their_query() {
    let directory = TestDirectory::new();
    let store = directory.store();
    let content = |text: &str| Content::Large(Large::of(&text.into()).0);
    let all = ["shared", "own"].map(|text| Large::of(&text.into()).0.hash);
    for (number, texts) in [(1, ["shared", "own"]), (2, ["shared", "shared"])] {
        let mut writer = QueryWriter::new("default", &format!("q{number}"), number);
        writer.start(&store);
        for text in texts {
            writer.ask_outside(&store, Duration::from_secs(600));
            let events = writer.deliver(&Outcome::Success { content: content(text) }, false);
            writer.append(&store, events);
        }
        store.durable(writer.position()).await.unwrap();
    }
    assert_eq!(store.referred(&all).await.unwrap(), HashSet::from(all));
    drop(store);
    let delete = |name: &str| directory.connection().execute("DELETE FROM queries WHERE name = ?1", [name]).unwrap();
    delete("q1");
    assert_eq!(directory.store().referred(&all).await.unwrap(), HashSet::from([all[0]]));
    delete("q2");
    assert_eq!(directory.store().referred(&all).await.unwrap(), HashSet::new());
}

#[tokio::test]
async fn the_wal_is_checkpointed_during_writes() {
    let directory = TestDirectory::new();
    let store = directory.store();
    let log = directory.path().join("bosun.db-wal");
    let spec = bosun_core::Spec { input: "x".repeat(256 << 10), ..bosun_engine::testing::query_writer::spec() };
    let mut largest = 0;
    for number in 0..400 {
        let mut writer = QueryWriter::new("default", &format!("q{number}"), number);
        let append = writer.create_as(spec.clone());
        let position = writer.send(&store, append);
        store.durable(position).await.unwrap();
        largest = largest.max(std::fs::metadata(&log).unwrap().len());
    }
    // 100 MiB were written to it.
    assert!(largest < 64 << 20, "the WAL grew to {largest} bytes");
    store.close().await.unwrap();
    assert!(!log.exists(), "closing removes the WAL");
}

#[test]
fn every_read_uses_an_index() {
    let directory = TestDirectory::new();
    drop(directory.store());
    let connection = directory.connection();
    let plans = [
        (
            read::LOAD,
            vec![
                "SEARCH queries USING INDEX queries_by_name (namespace=? AND name=?)",
                "SEARCH journal USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
            ],
        ),
        (list::ENTRIES, vec!["SEARCH journal USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"]),
        (read::REFERRED, vec!["SEARCH blobs USING PRIMARY KEY (hash=?)"]),
        (
            read::IN_USE,
            vec![
                "SCAN CONSTANT ROW",
                "SCALAR SUBQUERY 1",
                "SEARCH queries USING COVERING INDEX queries_by_age (namespace=?)",
                "SCALAR SUBQUERY 2",
                "SEARCH conversations USING COVERING INDEX conversations_by_use (namespace=?)",
            ],
        ),
        (
            read::NEXT_NAMESPACE_WITH_CONVERSATIONS,
            vec!["SEARCH conversations USING COVERING INDEX conversations_by_use (namespace>?)"],
        ),
        (read::NEXT_NAMESPACE, vec!["SEARCH queries USING COVERING INDEX queries_by_age (namespace>?)"]),
        (read::NEXT_NAMESPACE_WITH_WORK, vec!["SEARCH queries USING COVERING INDEX queries_with_work (namespace>?)"]),
        (read::RUNNABLE, vec!["SEARCH queries USING INDEX queries_with_work (namespace=?)"]),
        (read::COUNT_RUNNABLE, vec!["SCAN queries USING COVERING INDEX queries_with_work"]),
        (read::COUNT_WAITING, vec!["SEARCH queries USING COVERING INDEX queries_by_deadline (deadline>?)"]),
        (remove::OUTDATED, vec!["SEARCH queries USING INDEX queries_by_expiry (expires<?)"]),
        (remove::STILL_USED, vec!["SEARCH queries USING COVERING INDEX queries_by_toolset (toolset=?)"]),
        (read::ANSWERED, vec!["SEARCH requests USING PRIMARY KEY (namespace=? AND actor=? AND route=? AND key=?)"]),
        (read::DUE, vec!["SEARCH queries USING INDEX queries_by_deadline (deadline<?)"]),
        (audit::SCAN, vec!["SEARCH audit USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"]),
        (audit::FIND_BLOCK, vec!["SEARCH audit_blocks USING INTEGER PRIMARY KEY (rowid=?)"]),
        (audit::CALLS, vec!["SEARCH usage_of_calls USING PRIMARY KEY (namespace=? AND hour>?)"]),
        (audit::QUERIES, vec!["SEARCH usage_of_queries USING PRIMARY KEY (namespace=? AND hour>?)"]),
        (read::NEXT_DEADLINE, vec!["SEARCH queries USING COVERING INDEX queries_by_deadline (deadline>?)"]),
    ];
    for (sql, expect) in plans {
        check_plan(&connection, sql, &expect);
    }
}

#[track_caller]
fn check_plan(connection: &Connection, sql: &str, expect: &[&str]) {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let unbound = vec![rusqlite::types::Null; statement.parameter_count()];
    let plan: Vec<String> = statement
        .query_map(rusqlite::params_from_iter(unbound), |row| row.get(3))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(plan, expect, "{sql}");
}

/// A list is read in the order of one index, and no list sorts or reads the rows of other sessions, labels or states.
#[test]
fn every_list_uses_an_index() {
    let directory = TestDirectory::new();
    drop(directory.store());
    let connection = directory.connection();
    let before = Some(QueryWriter::new("default", "q", 1).uid());
    let check = |page: QueryPage, expect: &str, also: &[&str]| {
        let search = list::ListSearch::new(&Namespace::default(), &QueryPage { before, ..page });
        let first = format!("SEARCH {expect}");
        let journal = "SEARCH journal USING INTEGER PRIMARY KEY (rowid=?)";
        // What is compared row by row is listed behind what is read.
        check_plan(&connection, &search.list, &[&[first.as_str()], also, &[journal]].concat());
    };
    check(QueryPage::default(), "queries USING INDEX queries_by_age (namespace=? AND uid<?)", &[]);
    let page = QueryPage { approvals: true, ..QueryPage::default() };
    check(page, "queries USING INDEX queries_with_approvals (namespace=? AND uid<?)", &[]);
    let page = QueryPage { status: Some(Status::Failed), ..QueryPage::default() };
    check(page, "queries USING INDEX queries_ended (namespace=? AND status=? AND uid<?)", &[]);
    let page = QueryPage { status: Some(Status::Waiting), ..QueryPage::default() };
    check(page, "queries USING INDEX queries_open (namespace=? AND uid<?)", &[]);
    let by_term = "found USING COVERING INDEX query_terms_by_value (namespace=? AND name=? AND value=? AND uid<?)";
    let row = "SEARCH queries USING INTEGER PRIMARY KEY (rowid=?)";
    let page = QueryPage { session: Some("s".to_owned()), status: Some(Status::Waiting), ..QueryPage::default() };
    check(page, by_term, &[row]);
    let page = QueryPage { target: Some((TargetKind::Agent, "a".to_owned())), ..QueryPage::default() };
    check(page, by_term, &[row]);
    let labels = LabelSelector::parse("team=red").unwrap();
    check(QueryPage { labels, ..QueryPage::default() }, by_term, &[row]);
}
