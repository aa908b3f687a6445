//! The schema of the database and its migrations.
//!
//! Each version is a file that migrates the one before it, in one transaction with its number: a process that is killed
//! in the middle leaves the last complete version behind, and the next one continues from there. A file is never
//! changed once it is released.

use bosun_engine::fault;
use rusqlite::{Connection, TransactionBehavior};

/// `bosn`, so that another program's database is not mistaken for ours.
pub(super) const APPLICATION_ID: i32 = 0x626f_736e;

const VERSIONS: &[&str] = &[
    include_str!("schema/1.sql"),
    include_str!("schema/2.sql"),
    include_str!("schema/3.sql"),
    include_str!("schema/4.sql"),
    include_str!("schema/5.sql"),
    include_str!("schema/6.sql"),
    include_str!("schema/7.sql"),
    include_str!("schema/8.sql"),
    include_str!("schema/9.sql"),
    include_str!("schema/10.sql"),
    include_str!("schema/11.sql"),
];

/// The version that this program writes.
pub(super) const NEWEST: usize = VERSIONS.len();

/// The version of a database, which may be one that this program does not know.
pub(super) fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Creates the schema in an empty database.
pub(super) fn create(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    upgrade(connection, 0, NEWEST)
}

/// Migrates a database from one version to a later one.
pub(super) fn upgrade(connection: &mut Connection, from: usize, to: usize) -> rusqlite::Result<()> {
    for (number, step) in (1..=to).zip(VERSIONS).skip(from) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(step)?;
        transaction.pragma_update(None, "user_version", number as i64)?;
        fault::point("upgrade.commit");
        transaction.commit()?;
        fault::point("upgrade.committed");
    }
    Ok(())
}

/// The names of schema objects that differ from those of `version`. Objects that a user has added are ignored.
pub(super) fn differences(connection: &Connection, version: usize) -> rusqlite::Result<Vec<String>> {
    let mut fresh = Connection::open_in_memory()?;
    upgrade(&mut fresh, 0, version)?;
    let mut expected = fresh.prepare("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL")?;
    let mut rows = expected.query([])?;
    let mut differences = Vec::new();
    while let Some(row) = rows.next()? {
        let (name, sql): (String, String) = (row.get(0)?, row.get(1)?);
        if !connection.prepare("SELECT 1 FROM sqlite_schema WHERE name = ?1 AND sql = ?2")?.exists([&name, &sql])? {
            differences.push(name);
        }
    }
    Ok(differences)
}
