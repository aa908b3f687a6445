//! What an operator does with a store: check it, back it up, restore it; and the messages when it is damaged.

use std::{
    fs,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Output,
};

use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;

use crate::{
    program::{bosun, run, stderr, stdout},
    support::{
        client::{Address, Client, introduce, result},
        oracle,
        rng::Rng,
        scenarios::{self, Scenario},
        server::{ProcessExit, World},
        soon,
        volume::ReadOnly,
        workload::Workload,
    },
};

/// A store with a query of each kind, and no server.
async fn store() -> World {
    let world = World::new();
    let mut server = world.start().await;
    let client = Client::of(&server.base);
    for (name, scenario) in [("waiting", Scenario::Outside), ("done", Scenario::Outside), ("told", Scenario::Text)] {
        let created = client.post("?wait=20s", &scenarios::query(name, scenario)).await;
        assert_eq!(created.status, 200, "{}", created.body);
        if name == "done" {
            let (call, _) = &created.waiting_calls()[0];
            client.post("/done/tool-result", &result(call, "42")).await;
        }
    }
    server.terminate();
    assert_eq!(soon("the end", server.exit()).await, ProcessExit::Exited(0));
    world
}

async fn check(data: &Path) -> Output {
    run(bosun().args(["check", "--data"]).arg(data)).await
}

async fn backup(data: &Path, to: &Path, options: &[&str]) -> Output {
    run(bosun().arg("backup").args(options).arg("--data").arg(data).arg(to)).await
}

#[track_caller]
fn assert_ok(output: &Output, expected: &str) {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    assert!(stdout(output).starts_with(expected), "{}", stdout(output));
}

#[track_caller]
fn assert_refused(output: &Output, expected: &[&str]) {
    let text = stderr(output);
    assert_eq!(output.status.code(), Some(1), "{}{text}", stdout(output));
    for words in expected {
        assert!(text.contains(words), "`{words}` is not in:\n{text}");
    }
}

/// A copy of a store that may be damaged.
fn copy(world: &World) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    copy_files(&world.data(), &data);
    (directory, data)
}

fn copy_files(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in from.read_dir().unwrap() {
        let file = file.unwrap();
        if file.file_type().unwrap().is_dir() {
            copy_files(&file.path(), &to.join(file.file_name()));
        } else {
            fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
    }
}

fn sql(data: &Path, script: &str) {
    Connection::open(data.join("bosun.db")).unwrap().execute_batch(script).unwrap();
}

#[tokio::test]
async fn an_intact_store_passes_the_check_with_and_without_a_server() {
    let world = store().await;
    assert_ok(&check(&world.data()).await, "3 queries, 16 entries, ok");
    let mut server = world.start().await;
    assert_ok(&check(&world.data()).await, "3 queries, 16 entries, ok");
    // Killed: there is a WAL that has not been checkpointed.
    assert_eq!(server.kill().await, ProcessExit::Killed);
    assert_ok(&check(&world.data()).await, "3 queries, 16 entries, ok");
    let output = run(bosun().args(["check", "--json", "--data"]).arg(world.data())).await;
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(report, json!({"queries": 3, "entries": 16, "blobs": 0, "faults": []}));
}

#[tokio::test]
async fn every_fault_of_a_store_is_reported_at_once() {
    let world = store().await;
    let (_directory, data) = copy(&world);
    let entry = |seq: i64| format!("key = (SELECT id FROM queries WHERE name = 'told') << 24 | {seq}");
    sql(
        &data,
        &format!(
            "DROP INDEX queries_by_deadline;
             UPDATE queries SET status = 'failed', deadline = 7 WHERE name = 'waiting';
             UPDATE queries SET head = '{{}}' WHERE name = 'done';
             UPDATE journal SET body = '{{\"v\":1,\"kind\":\"unheard_of\"}}' WHERE {};
             UPDATE journal SET body = '{{\"v\":99,\"kind\":\"of_tomorrow\"}}' WHERE {};
             INSERT INTO journal (key, at, body) VALUES (9999 << 24 | 1, 0, '{{}}');
             UPDATE documents SET body = replace(body, 'lookup', 'lookdown');",
            entry(2),
            entry(3),
        ),
    );
    let before = fs::read(data.join("bosun.db")).unwrap();
    let output = check(&data).await;
    assert_refused(
        &output,
        &[
            "error[schema_changed]: `queries_by_deadline` is missing",
            "error[head_differs]: query `default/waiting`: its status does not match its journal",
            "error[head_differs]: query `default/waiting`: its deadline does not match its journal",
            "error[head_differs]: query `default/done`: its head does not match its journal",
            "error[entry_unreadable]: query `default/told`: entry 2 of its journal cannot be read",
            "unknown variant `unheard_of`",
            "entry 3 of its journal cannot be read: journal entry has version 99, newer than this program's",
            "error[stray_entries]: 1 entries belong to no query",
            "error[document_changed]: document",
            "3 queries, 16 entries, 8 faults",
            "bosun check --data BACKUP",
        ],
    );
    assert!(before == fs::read(data.join("bosun.db")).unwrap(), "a check changes nothing");

    let (_directory, data) = copy(&world);
    sql(&data, "DELETE FROM documents; DELETE FROM journal WHERE key & 16777215 = 2;");
    assert_refused(
        &check(&data).await,
        &[
            "error[journal_broken]: query `default/told`",
            "jumps from entry 1 to 3",
            "error[journal_broken]: query `default/done`",
        ],
    );
    let (_directory, data) = copy(&world);
    sql(&data, "DELETE FROM documents;");
    assert_refused(
        &check(&data).await,
        &["error[document_missing]: query `default/told`", "3 faults", "Only the named queries are damaged"],
    );
}

#[tokio::test]
async fn a_directory_without_a_store_is_reported_as_such() {
    let world = store().await;
    let nothing = tempfile::tempdir().unwrap();
    assert_refused(&check(nothing.path()).await, &["error[store_missing]: there is no store in", "given with --data"]);
    assert!(nothing.path().read_dir().unwrap().next().is_none(), "a check leaves nothing behind");
    assert_refused(&check(&nothing.path().join("deeper")).await, &["error[store_missing]"]);

    let (_directory, data) = copy(&world);
    sql(&data, "PRAGMA user_version = 99");
    assert_refused(
        &check(&data).await,
        &["error[newer_schema]", "its schema is 99", "with the version of Bosun that wrote it"],
    );

    let (_directory, data) = copy(&world);
    sql(&data, "PRAGMA application_id = 7");
    assert_refused(&check(&data).await, &["error[not_a_store]"]);

    let (_directory, data) = copy(&world);
    fs::write(data.join("bosun.db"), "").unwrap();
    assert_refused(&check(&data).await, &["error[store_unreadable]", "it is empty", "keep what there is"]);
}

#[tokio::test]
async fn a_store_that_cannot_be_written_to_is_read_and_not_served() {
    let world = store().await;
    for is_killed in [false, true] {
        if is_killed {
            assert_eq!(world.start().await.kill().await, ProcessExit::Killed);
            assert!(world.data().join("bosun.db-wal").exists());
        }
        let _read_only = ReadOnly::make(&world.data());
        assert_ok(&check(&world.data()).await, "3 queries, 16 entries, ok");
        let to = world.path(if is_killed { "copy-of-killed" } else { "copy" });
        assert_ok(&backup(&world.data(), &to, &[]).await, "3 queries, 16 entries, ok: ");
        // Where all files exist already, permissions of the directory do not prevent writes to them.
        if !is_killed {
            assert_refused(&serve(&world).await, &["store"]);
        }
    }
    drop(world.start().await);
}

async fn serve(world: &World) -> Output {
    let mut command = bosun();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(world.data());
    command.arg("--manifests").arg(world.path("manifests")).arg("--ledger").arg(world.ledger());
    run(&mut command).await
}

/// Overwrites a part in the middle of a table's page.
fn corrupt(data: &Path) {
    let database = data.join("bosun.db");
    let root: u64 = Connection::open(&database)
        .unwrap()
        .query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'journal'", [], |row| row.get(0))
        .unwrap();
    let file = fs::File::options().write(true).open(&database).unwrap();
    file.write_all_at(&[0x5a; 600], (root - 1) * 4096 + 8).unwrap();
}

#[tokio::test]
async fn a_damaged_store_is_refused_by_the_server_which_says_where_to_look() {
    let world = store().await;
    corrupt(&world.data());
    let before = fs::read(world.data().join("bosun.db")).unwrap();
    let output = check(&world.data()).await;
    assert_refused(&output, &["error[page_damaged]", "The store is damaged as a whole", "cp -a"]);
    let output = serve(&world).await;
    let command = format!("bosun check --data {}", world.data().display());
    assert_refused(&output, &["is damaged", &command, "`bosun backup`"]);
    assert!(before == fs::read(world.data().join("bosun.db")).unwrap(), "nothing was changed");
    // Nor is it backed up as if it were intact.
    let to = world.path("copy");
    assert_refused(&backup(&world.data(), &to, &[]).await, &["bosun check --data"]);
    assert!(!to.exists());
}

#[tokio::test]
async fn blobs_are_checked_and_copied_with_their_store() {
    let world = store().await;
    let hash = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"; // of `hello`
    let blobs = world.data().join("blobs");
    fs::create_dir_all(&blobs).unwrap();
    fs::write(blobs.join(hash), "hello").unwrap();
    fs::write(blobs.join("1.new"), "half a bl").unwrap();
    sql(
        &world.data(),
        &format!(
            "CREATE TABLE IF NOT EXISTS blobs (hash BLOB NOT NULL, query INTEGER NOT NULL);
             INSERT INTO blobs (hash, query) SELECT x'{hash}', id FROM queries;"
        ),
    );
    assert_ok(&check(&world.data()).await, "3 queries, 16 entries, 1 blob, ok");
    let to = world.path("copy");
    assert_ok(&backup(&world.data(), &to, &[]).await, "3 queries, 16 entries, 1 blob, ok: ");
    assert_eq!(fs::read_to_string(to.join("blobs").join(hash)).unwrap(), "hello");
    assert_eq!(to.join("blobs").read_dir().unwrap().count(), 1, "drafts stay behind");
    fs::write(blobs.join(hash), "hullo").unwrap();
    assert_refused(
        &check(&world.data()).await,
        &[&format!("error[blob_damaged]: blob {hash} does not match its hash")],
    );
    fs::remove_file(blobs.join(hash)).unwrap();
    assert_refused(&check(&world.data()).await, &[&format!("error[blob_missing]: blob {hash} is missing")]);
    assert_refused(&backup(&world.data(), &to, &["--force"]).await, &["was not kept", "bosun check --data"]);
    assert_ok(&check(&to).await, "3 queries, 16 entries, 1 blob, ok");
}

#[tokio::test]
async fn a_copy_replaces_nothing_by_accident() {
    let world = store().await;
    let (data, to) = (world.data(), world.path("copy"));
    assert_ok(&backup(&data, &to, &[]).await, "3 queries, 16 entries, ok: ");
    assert_ok(&check(&to).await, "3 queries, 16 entries, ok");
    assert_eq!(to.read_dir().unwrap().count(), 3, "the database, the key of its audit log and the ends of that");
    assert_refused(&backup(&data, &to, &[]).await, &["exists", "`--force` replaces it"]);
    fs::write(to.join("note"), "of last week").unwrap();
    assert_ok(&backup(&data, &to, &["--force"]).await, "3 queries, 16 entries, ok: ");
    assert!(!to.join("note").exists(), "it is a new copy");

    let other = world.path("photos");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("1.jpeg"), "").unwrap();
    assert_refused(&backup(&data, &other, &["--force"]).await, &["is not a backup of a store and is not replaced"]);
    assert!(other.join("1.jpeg").exists());
    for inside in [data.clone(), data.join("copy"), data.join("deep/er")] {
        assert_refused(&backup(&data, &inside, &["--force"]).await, &["is inside the directory of the store itself"]);
    }
    assert_refused(&backup(&world.path("nowhere"), &world.path("x"), &[]).await, &["there is no store in"]);
    assert_refused(&backup(&data, Path::new("/proc/copy"), &[]).await, &["cannot be written to"]);
    let left: Vec<_> = world.path("").read_dir().unwrap().map(|file| file.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().ends_with(".partial")), "{left:?}");
    // What a killed backup left is not in the way.
    fs::create_dir(world.path("copy2.partial")).unwrap();
    fs::write(world.path("copy2.partial").join("bosun.db"), "half").unwrap();
    assert_ok(&backup(&data, &world.path("copy2"), &[]).await, "3 queries, 16 entries, ok: ");
}

/// Backups are made while clients work; each is complete, has all that was acknowledged before it was started, and a
/// server continues from it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_made_under_load_is_complete_and_can_be_served() {
    let world = World::new();
    let (announce, address) = watch::channel(Address::default());
    let workload = Workload::new(Client::new(address), Rng::new(7));
    let mut server = world.start().await;
    introduce(&announce, &server);
    let clients = workload.begin(12);
    for number in 0..3 {
        workload.client().answered(60).await;
        let name = format!("before-{number}");
        let created = workload.client().post("", &scenarios::query(&name, Scenario::Text)).await;
        assert_eq!(created.status, 200, "{}", created.body);
        let restored = World::new();
        let output = backup(&world.data(), &restored.data(), &[]).await;
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(check(&restored.data()).await.status.success());
        let mut second = restored.start().await;
        let found = Client::of(&second.base).get(&format!("/{name}?wait=20s")).await;
        assert_eq!(found.state(), "completed", "{}", found.body);
        assert_eq!(second.kill().await, ProcessExit::Killed);
        let mut violations = Vec::new();
        oracle::read_journals(&restored.data(), &mut violations);
        assert!(violations.is_empty(), "{violations:?}");
    }
    let records = clients.end().await;
    assert_eq!(server.kill().await, ProcessExit::Killed);
    let (_, violations) = oracle::judge(&world, &records);
    assert!(violations.is_empty(), "{violations:?}");
}
