//! What is specific to the audit log in a file: no tampering goes unnoticed.

mod exporting;
mod keeping;

use std::{fs, os::unix::fs::PermissionsExt as _, sync::Arc, time::Duration};

use bosun_core::{Timestamp, audit::Action};
use bosun_engine::{
    store::{RecordSearch, Records as _, Store as _},
    testing::query_writer::QueryWriter,
};
use rusqlite::Connection;
use tempfile::TempDir;

use super::*;
use crate::store::sqlite::{OpenError, Sqlite};

const LONG: Duration = Duration::from_secs(600);

/// A store with a log of two namespaces.
async fn written(queries: u32) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    add_to(dir.path(), 0..queries).await;
    dir
}

async fn add_to(dir: &Path, queries: std::ops::Range<u32>) {
    let store = Sqlite::open(dir).unwrap();
    for number in queries {
        let namespace = if number % 3 == 0 { "other" } else { "default" };
        let mut writer = QueryWriter::new(namespace, &format!("q{number}"), number + 1);
        writer.start_and_pause(&store, LONG);
        let position = writer.resolve_and_complete(&store);
        store.durable(position).await.unwrap();
    }
    store.close().await.unwrap();
}

fn faults(dir: &Path) -> Vec<AuditFault> {
    verify(dir, &Audit::default()).unwrap().faults
}

#[tokio::test]
async fn an_untouched_log_is_verified() {
    let dir = written(6).await;
    let verified = verify(dir.path(), &Audit::default()).unwrap();
    assert_eq!(verified, Verified { namespaces: 2, records: 24, heads: 2, faults: Vec::new() });
    let mode = fs::metadata(dir.path().join(KEY_FILE)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "the key is readable by its owner only");
}

/// A small deterministic generator.
struct AuditRng(u64);

impl AuditRng {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// One tampering by an attacker who has the file, but not the key.
fn tamper(connection: &Connection, rng: &mut AuditRng) -> String {
    let keys: Vec<i64> = connection
        .prepare("SELECT key FROM audit ORDER BY key")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let mut pick = || keys[usize::try_from(rng.below(keys.len() as u64)).unwrap()];
    let (one, other) = (pick(), pick());
    let body: String = connection.query_row("SELECT body FROM audit WHERE key = ?1", [one], |row| row.get(0)).unwrap();
    let mac: Vec<u8> = connection.query_row("SELECT mac FROM audit WHERE key = ?1", [one], |row| row.get(0)).unwrap();
    let run = |sql: &str| connection.execute_batch(sql).unwrap();
    match rng.below(15) {
        13 => {
            // As if it had been deleted for its age.
            run(&format!(
                "UPDATE audit_chains SET let_go = {one} & 1099511627775, let_go_mac = (SELECT mac FROM audit WHERE key = {one})
                 WHERE id = {one} >> 40; DELETE FROM audit WHERE key <= {one} AND key >> 40 = {one} >> 40"
            ));
            format!("the beginning cut at {one}, and moved there")
        }
        14 => {
            run(&format!("DELETE FROM audit WHERE key <= {one} AND key >> 40 = {one} >> 40"));
            format!("the beginning cut at {one}")
        }
        0 => {
            let at = usize::try_from(rng.below(body.len() as u64)).unwrap();
            let mut bytes = body.into_bytes();
            bytes[at] = if bytes[at] == b'x' { b'y' } else { b'x' };
            let changed = String::from_utf8_lossy(&bytes).into_owned();
            connection.execute("UPDATE audit SET body = ?2 WHERE key = ?1", (one, changed)).unwrap();
            format!("byte {at} of the body of {one}")
        }
        1 => {
            let mut mac = mac;
            mac[usize::try_from(rng.below(32)).unwrap()] ^= 1 << rng.below(8);
            connection.execute("UPDATE audit SET mac = ?2 WHERE key = ?1", (one, mac)).unwrap();
            format!("a bit of the seal of {one}")
        }
        2 => {
            run(&format!("DELETE FROM audit WHERE key = {one}"));
            format!("{one} deleted")
        }
        3 if one != other => {
            // Whole rows are swapped.
            run(&format!(
                "CREATE TEMP TABLE kept AS SELECT * FROM audit WHERE key IN ({one}, {other});
                 UPDATE audit SET (body, mac) = (SELECT body, mac FROM kept WHERE kept.key = {one} + {other} - audit.key)
                 WHERE key IN ({one}, {other}); DROP TABLE kept;"
            ));
            format!("{one} and {other} swapped")
        }
        4 => {
            run(&format!("INSERT INTO audit SELECT max(key) + 1, body, mac FROM audit WHERE key >> 40 = {one} >> 40"));
            format!("the last of {one}'s chain written again behind it")
        }
        5 => {
            // Everything behind it is shifted by one.
            run(&format!(
                "CREATE TEMP TABLE moved AS SELECT key + 1 AS key, body, mac FROM audit
                 WHERE key >= {one} AND key >> 40 = {one} >> 40;
                 INSERT OR REPLACE INTO audit SELECT * FROM moved; DROP TABLE moved;
                 UPDATE audit_chains SET seq = seq + 1 WHERE id = {one} >> 40"
            ));
            format!("one inserted at {one}")
        }
        6 => {
            run(&format!("DELETE FROM audit WHERE key >= {one} AND key >> 40 = {one} >> 40"));
            format!("cut at {one}")
        }
        7 => {
            // The chain's row is adjusted, as far as that is possible without the key.
            run(&format!(
                "DELETE FROM audit WHERE key >= {one} AND key >> 40 = {one} >> 40;
                 UPDATE audit_chains SET seq = ({one} & 1099511627775) - 1,
                 mac = coalesce((SELECT mac FROM audit WHERE key = {one} - 1), mac) WHERE id = {one} >> 40"
            ));
            format!("cut at {one}, and the end moved there")
        }
        8 => {
            run(&format!("UPDATE audit_chains SET seq = seq + 1 WHERE id = {one} >> 40"));
            "the end moved on".into()
        }
        9 => {
            run("UPDATE audit_chains SET namespace = namespace || '-x'");
            "the namespaces renamed".into()
        }
        10 => {
            run(&format!("DELETE FROM audit_chains WHERE id = {one} >> 40"));
            "a chain without its row".into()
        }
        11 => {
            run(&format!(
                "DELETE FROM audit WHERE key >> 40 = {one} >> 40; DELETE FROM audit_chains WHERE id = {one} >> 40"
            ));
            "a whole chain deleted".into()
        }
        _ => {
            run(&format!("UPDATE audit SET body = json_set(body, '$.actor', 'another-actor') WHERE key = {one}"));
            format!("another actor in {one}")
        }
    }
}

#[tokio::test]
async fn a_thousand_tamperings_are_found() {
    find_tamperings(written(8).await, 1_000);
}

/// Tampers `rounds` times with an intact log, and asserts that each is found.
fn find_tamperings(dir: TempDir, rounds: u32) {
    let database = dir.path().join("bosun.db");
    let pristine = fs::read(&database).unwrap();
    assert!(faults(dir.path()).is_empty());
    let mut rng = AuditRng(0x9e37_79b9_7f4a_7c15);
    for round in 0..rounds {
        fs::write(&database, &pristine).unwrap();
        let connection = Connection::open(&database).unwrap();
        connection.execute_batch("PRAGMA journal_mode = DELETE; PRAGMA synchronous = OFF").unwrap();
        let what = tamper(&connection, &mut rng);
        drop(connection);
        let found = faults(dir.path());
        assert!(!found.is_empty(), "round {round}: {what} was not found");
    }
}

#[tokio::test]
async fn the_first_bad_record_is_named() {
    let dir = written(4).await;
    let connection = Connection::open(dir.path().join("bosun.db")).unwrap();
    let changed = connection.execute(
        "UPDATE audit SET body = replace(body, 'query.completed', 'query.cancelled')
         WHERE key = (SELECT id << 40 | 4 FROM audit_chains WHERE namespace = 'default')",
        [],
    );
    assert_eq!(changed, Ok(1));
    let found = faults(dir.path());
    assert_eq!(found.first(), Some(&AuditFault::Changed { namespace: "default".into(), seq: 4 }));
    assert!(found[0].to_string().starts_with("namespace `default`: record 4 is not what was written"), "{}", found[0]);
}

#[tokio::test]
async fn an_unreadable_record_does_not_hide_the_others() {
    let dir = written(4).await;
    let connection = Connection::open(dir.path().join("bosun.db")).unwrap();
    assert_eq!(connection.execute("UPDATE audit SET body = 'x' WHERE key & 1099511627775 = 2", []), Ok(2));
    drop(connection);
    let store = Sqlite::open(dir.path()).unwrap();
    let all = RecordSearch { limit: 100, ..RecordSearch::default() };
    assert_eq!(store.search(&"default".parse().unwrap(), &all).await.unwrap().records.len(), 7);
    assert!(faults(dir.path()).iter().all(|fault| matches!(fault, AuditFault::Changed { seq: 2, .. })));
}

#[tokio::test]
async fn an_older_copy_of_the_whole_store_is_found_by_what_was_exported() {
    let dir = written(3).await;
    let database = dir.path().join("bosun.db");
    let old = fs::read(&database).unwrap();
    add_to(dir.path(), 3..6).await;
    assert!(faults(dir.path()).is_empty());
    fs::write(&database, old).unwrap();
    let found = faults(dir.path());
    assert!(matches!(found.as_slice(), [AuditFault::Head { .. }, ..]), "{found:?}");
}

#[tokio::test]
async fn a_truncated_log_is_continued_and_never_sealed_over() {
    let dir = written(6).await;
    let connection = Connection::open(dir.path().join("bosun.db")).unwrap();
    connection
        .execute_batch(
            "DELETE FROM audit WHERE key & 1099511627775 > 5;
             UPDATE audit_chains SET seq = 5, mac = (SELECT mac FROM audit WHERE key = id << 40 | 5)",
        )
        .unwrap();
    drop(connection);
    fs::remove_file(dir.path().join(HEADS_FILE)).unwrap();
    assert!(!faults(dir.path()).is_empty());
    add_to(dir.path(), 6..9).await;
    let found = faults(dir.path());
    let by_the_server = |fault: &AuditFault| matches!(fault, AuditFault::Found { seq: 6, .. });
    assert!(found.len() == 2 && found.iter().all(by_the_server), "{found:?}");
}

#[tokio::test]
async fn a_new_key_continues_where_the_old_one_ended() {
    let dir = written(3).await;
    let key_file = dir.path().join(KEY_FILE);
    let old = fs::read_to_string(&key_file).unwrap();
    let id = rotate(&key_file).unwrap();
    assert!(faults(dir.path()).is_empty(), "nothing is sealed with it yet");
    add_to(dir.path(), 3..6).await;
    let verified = verify(dir.path(), &Audit::default()).unwrap();
    assert!(verified.faults.is_empty(), "{:?}", verified.faults);
    let store = Sqlite::open(dir.path()).unwrap();
    let all = RecordSearch { limit: 100, ..RecordSearch::default() };
    let log = store.search(&"default".parse().unwrap(), &all).await.unwrap();
    let rotated: Vec<_> =
        log.records.iter().filter(|numbered| numbered.record.action == Action::AuditKeyRotated).collect();
    assert_eq!(rotated.len(), 1);
    assert_eq!(rotated[0].record.detail, Some(id.to_string()));
    drop(store);
    // Without the new key, what it sealed cannot be verified, and nothing can be added.
    fs::write(&key_file, old).unwrap();
    assert!(faults(dir.path()).iter().any(|fault| matches!(fault, AuditFault::Key { .. })), "{:?}", faults(dir.path()));
    let refused = Sqlite::open(dir.path()).unwrap_err();
    assert!(matches!(refused, OpenError::AuditKeys(KeyError::Unknown { .. })), "{refused}");
}

/// The operator who rotates keys may be root, and the server another user.
#[tokio::test]
async fn a_new_key_and_a_spooled_record_are_readable_by_the_server() {
    use std::os::unix::fs::{MetadataExt as _, chown};
    let dir = written(1).await;
    let key_file = dir.path().join(KEY_FILE);
    // If the test is not run as root, it owns everything.
    for path in [dir.path(), &key_file] {
        let _ = chown(path, Some(54_321), Some(54_322));
    }
    let owner = |path: &Path| fs::metadata(path).map(|found| (found.uid(), found.mode() & 0o777)).unwrap();
    rotate(&key_file).unwrap();
    spool::append(dir.path(), &bosun_core::audit::AuditRecord::of_act(Timestamp(1), Action::StoreBackedUp, None, None))
        .unwrap();
    let server = owner(dir.path()).0;
    assert_eq!(owner(&key_file), (server, 0o600));
    assert_eq!(owner(&dir.path().join(spool::ACTS_FILE)), (server, 0o600));
}

#[tokio::test]
async fn without_its_key_a_log_is_not_continued() {
    let dir = written(1).await;
    fs::remove_file(dir.path().join(KEY_FILE)).unwrap();
    let refused = Sqlite::open(dir.path()).unwrap_err();
    assert!(matches!(&refused, OpenError::AuditKeys(KeyError::Missing { .. })), "{refused}");
    assert!(refused.to_string().contains("put the file back"), "{refused}");
    let off = Audit { on: false, ..Audit::default() };
    let store = Sqlite::open_with(dir.path(), &off).unwrap();
    let mut writer = QueryWriter::new("default", "unaudited", 50);
    let position = writer.start_and_pause(&store, LONG);
    store.durable(position).await.unwrap();
    let position = writer.resolve_and_complete(&store);
    store.durable(position).await.unwrap();
    let found =
        store.search(&"default".parse().unwrap(), &RecordSearch { limit: 9, ..RecordSearch::default() }).await.unwrap();
    assert!(found.records.is_empty(), "nothing was recorded");
    let used = store.usage(&"default".parse().unwrap(), bosun_core::usage::Hour(0)).await.unwrap();
    assert_eq!(used.all_queries().queries, 1, "but it was counted");
}

#[tokio::test]
async fn an_invalid_key_file_is_refused_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("keys");
    let audit = Audit { key_file: Some(path.clone()), ..Audit::default() };
    for (text, expect) in
        [("# nothing\n", "cannot be read"), ("# a\n\nnot a key\n", "line 3 of"), ("abcd\n", "line 1 of")]
    {
        fs::write(&path, text).unwrap();
        let refused = Sqlite::open_with(dir.path(), &audit).unwrap_err().to_string();
        assert!(refused.contains(expect), "{text:?}: {refused}");
    }
    fs::remove_file(&path).unwrap();
    let store = Sqlite::open_with(dir.path(), &audit).unwrap();
    store.close().await.unwrap();
    assert!(
        fs::exists(&path).unwrap() && !fs::exists(dir.path().join(KEY_FILE)).unwrap(),
        "the key is stored in the configured file"
    );
}

#[tokio::test]
async fn a_change_that_cannot_be_audited_is_not_made() {
    let dir = tempfile::tempdir().unwrap();
    let store = Sqlite::open(dir.path()).unwrap();
    let mut kept = QueryWriter::new("default", "kept", 1);
    let position = kept.start(&store);
    store.durable(position).await.unwrap();
    let connection = Connection::open(dir.path().join("bosun.db")).unwrap();
    connection
        .execute_batch(
            "CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'no room for records'); END",
        )
        .unwrap();
    let mut lost = QueryWriter::new("default", "lost", 2);
    let position = lost.start(&store);
    assert!(store.durable(position).await.is_err());
    assert!(store.load(&lost.head().namespace, &lost.head().name).await.unwrap().is_none(), "the state is unchanged");
    connection.execute_batch("DROP TRIGGER full").unwrap();
    let mut later = QueryWriter::new("default", "later", 3);
    let position = later.start(&store);
    store.durable(position).await.unwrap();
    store.close().await.unwrap();
    assert!(faults(dir.path()).is_empty());
}

#[tokio::test]
async fn an_export_has_every_record_as_it_was_sealed() {
    let dir = written(3).await;
    let mut lines = Vec::new();
    let exported = export(dir.path(), None, Some("default"), &mut lines).unwrap();
    assert_eq!(exported, Exported { namespaces: 1, records: 8, is_sealed: false });
    let text = String::from_utf8(lines).unwrap();
    let first: serde_json::Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
    assert_eq!((&first["seq"], &first["record"]["action"]), (&1.into(), &"query.created".into()));
    assert_eq!(first["time"], Timestamp(first["record"]["at"].as_i64().unwrap()).to_rfc3339());
    let mut all = Vec::new();
    assert_eq!(export(dir.path(), None, None, &mut all).unwrap().records, 12);
}

#[tokio::test]
async fn many_different_tools_are_counted_as_others() {
    use bosun_core::{
        audit::{AuditRecord, CallSource, SUCCESS},
        usage::{Hour, MOST_KEYS, OTHER},
    };
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(Sqlite::open(dir.path()).unwrap());
    let namespace = "default".parse().unwrap();
    let call = |number: usize| AuditRecord {
        agent: Some("a".into()),
        tool: Some(format!("tool-{number}").into()),
        source: Some(CallSource::Outside),
        outcome: Some(SUCCESS.into()),
        duration_ms: Some(5),
        ..AuditRecord::of_act(Timestamp(0), Action::CallDelivered, None, None)
    };
    let position = store.record(&namespace, (0..MOST_KEYS + 50).map(call).collect()).unwrap();
    store.durable(position).await.unwrap();
    let used = store.usage(&namespace, Hour(0)).await.unwrap();
    assert_eq!(used.calls.len(), MOST_KEYS + 1);
    let others: u64 = used.calls.iter().filter(|(key, _)| *key.tool == *OTHER).map(|(_, tally)| tally.calls).sum();
    assert_eq!(others, 50);
}

#[tokio::test]
async fn a_search_by_time_finds_what_a_clock_that_was_set_back_has_written() {
    use bosun_core::audit::AuditRecord;
    let dir = tempfile::tempdir().unwrap();
    let store = Sqlite::open(dir.path()).unwrap();
    let namespace = "default".parse().unwrap();
    let minute = 60_000;
    // The clock was set back by forty minutes in the middle.
    let times: Vec<i64> =
        (0..200).map(|number| if number < 100 { number * minute } else { (number - 40) * minute }).collect();
    let act = |at: &i64| AuditRecord::of_act(Timestamp(*at), Action::KeysReloaded, None, None);
    let position = store.record(&namespace, times.iter().map(act).collect()).unwrap();
    store.durable(position).await.unwrap();
    for (from, to) in [(0, 30), (50, 70), (55, 100), (99, 101), (100, 200), (159, 160)] {
        let search = RecordSearch {
            from: Some(Timestamp(from * minute)),
            to: Some(Timestamp(to * minute)),
            limit: 500,
            ..RecordSearch::default()
        };
        let found = store.search(&namespace, &search).await.unwrap().records.len();
        let expect = times.iter().filter(|at| (from * minute..to * minute).contains(at)).count();
        assert_eq!(found, expect, "from {from} to {to}");
    }
}
