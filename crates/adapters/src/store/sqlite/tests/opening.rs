//! What is opened, and what is refused with instructions.

use std::fs;

use super::*;

/// Asserts that opening is refused with these words, and that the files are unchanged.
#[track_caller]
fn check(directory: &TestDirectory, expect: &[&str]) {
    let files = || {
        let mut files: Vec<_> = fs::read_dir(directory.path())
            .unwrap()
            .map(|file| file.unwrap().path())
            .filter(|path| !path.ends_with("bosun.lock") && !path.ends_with("bosun.db-shm"))
            .map(|path| (fs::read(&path).unwrap(), path))
            // SQLite creates an empty WAL in order to read.
            .filter(|(bytes, path)| !(bytes.is_empty() && path.ends_with("bosun.db-wal")))
            .collect();
        files.sort();
        files
    };
    let before = files();
    let message = Sqlite::open(directory.path()).unwrap_err().to_string();
    for words in expect {
        assert!(message.contains(words), "`{words}` is not in: {message}");
    }
    assert!(message.contains(&directory.path().display().to_string()), "{message}");
    assert!(files() == before, "a refused store was changed");
}

async fn written() -> TestDirectory {
    let directory = TestDirectory::new();
    let store = directory.store();
    for number in 1..=50 {
        QueryWriter::new("default", &format!("q{number}"), number).start(&store);
    }
    store.close().await.unwrap();
    directory
}

#[test]
fn a_missing_directory_is_created_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = TestDirectory::new();
    let deep = directory.path().join("a").join("b");
    drop(Sqlite::open(&deep).unwrap());
    assert!(deep.join("bosun.db").exists());
    let mode = || fs::metadata(&deep).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(), 0o700);
    // An operator's own choice is respected.
    fs::set_permissions(&deep, fs::Permissions::from_mode(0o750)).unwrap();
    drop(Sqlite::open(&deep).unwrap());
    assert_eq!(mode(), 0o750);
}

#[test]
fn a_second_process_is_refused_while_the_first_runs() {
    let directory = TestDirectory::new();
    let store = directory.store();
    let pid = format!("(pid {})", std::process::id());
    check(&directory, &["in use by another process", &pid, "stop that one"]);
    drop(store);
    drop(directory.store());
}

#[tokio::test]
async fn a_closed_store_can_be_opened_again_at_once() {
    let directory = TestDirectory::new();
    let store = directory.store();
    store.close().await.unwrap();
    drop(directory.store());
    store.close().await.unwrap();
}

#[test]
fn a_file_where_the_directory_should_be_is_refused() {
    let directory = TestDirectory::new();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let message = Sqlite::open(&file).unwrap_err().to_string();
    assert!(message.contains("cannot be used"), "{message}");
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let directory = written().await;
    directory.connection().pragma_update(None, "user_version", 99).unwrap();
    check(&directory, &["was written by a newer version", "99"]);
}

#[tokio::test]
async fn another_programs_database_is_refused() {
    let directory = written().await;
    directory.connection().pragma_update(None, "application_id", 7).unwrap();
    check(&directory, &["is not a Bosun store"]);
}

#[test]
fn a_file_that_is_not_a_database_is_refused() {
    let directory = TestDirectory::new();
    fs::write(directory.database(), "these are my notes, do not lose them").unwrap();
    check(&directory, &["is not a Bosun store", "move it away"]);
    fs::rename(directory.database(), directory.path().join("notes")).unwrap();
    drop(directory.store());
}

#[tokio::test]
async fn a_damaged_file_is_refused_and_never_overwritten() {
    let cut_off = written().await;
    fs::write(cut_off.database(), "").unwrap();
    check(&cut_off, &["is damaged", "restore"]);

    let halved = written().await;
    let bytes = fs::read(halved.database()).unwrap();
    fs::write(halved.database(), &bytes[..bytes.len() / 2]).unwrap();
    check(&halved, &["is damaged", "restore"]);

    let scribbled = written().await;
    let mut bytes = fs::read(scribbled.database()).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..].fill(0x5a);
    fs::write(scribbled.database(), bytes).unwrap();
    check(&scribbled, &["is damaged", "restore"]);
}

#[tokio::test]
async fn a_wal_without_its_database_is_refused() {
    let directory = written().await;
    fs::rename(directory.database(), directory.path().join("bosun.db-wal")).unwrap();
    check(&directory, &["is damaged", "its log exists without it"]);
}

#[tokio::test]
async fn a_schema_that_was_changed_by_hand_is_refused() {
    let directory = written().await;
    directory.connection().execute_batch("DROP INDEX queries_by_deadline").unwrap();
    let message = Sqlite::open(directory.path()).unwrap_err().to_string();
    assert!(message.contains("`queries_by_deadline` is missing"), "{message}");
    // Objects that a user has added are allowed.
    let directory = written().await;
    directory.connection().execute_batch("CREATE INDEX mine ON queries (status)").unwrap();
    drop(directory.store());
}

#[test]
fn a_crash_while_the_store_is_created_does_not_prevent_the_next_start() {
    let directory = TestDirectory::new();
    fs::write(directory.path().join("bosun.db.new"), "half a data").unwrap();
    fs::write(directory.path().join("bosun.db.new-journal"), "half a journal").unwrap();
    drop(directory.store());
    assert!(!directory.path().join("bosun.db.new").exists());
}

#[test]
fn every_opening_raises_the_epoch() {
    let directory = TestDirectory::new();
    let epochs: Vec<_> = (0..3).map(|_| directory.store().epoch).collect();
    assert_eq!(epochs, [1, 2, 3]);
}

#[tokio::test]
async fn commits_survive_a_process_that_did_not_close_the_store() {
    let directory = TestDirectory::new();
    let store = directory.store();
    let mut writer = QueryWriter::new("default", "a", 1);
    let position = writer.start(&store);
    store.durable(position).await.unwrap();
    // The files as a killed process leaves them: the WAL has not been checkpointed.
    let crashed = TestDirectory::new();
    for name in ["bosun.db", "bosun.db-wal", "audit.key"] {
        fs::copy(directory.path().join(name), crashed.path().join(name)).unwrap();
    }
    let found = crashed.store();
    let head = writer.head();
    assert_eq!(&found.load(&head.namespace, &head.name).await.unwrap().unwrap().head, head);
    assert_eq!(found.count_runnable().await.unwrap(), [(Namespace::default(), 1)]);
}
