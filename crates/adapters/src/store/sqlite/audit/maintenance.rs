//! Maintenance of the audit log in the background: its index is brought up to date, and records past their retention
//! are deleted.
//!
//! A reader finds the next task, and the writer runs it, a little at a time, behind everything that a caller waits for.
//! Records are deleted in whole blocks.

use std::collections::HashSet;

use bosun_core::{Namespace, Timestamp};
use bosun_engine::{StoreError, fault, store::Rejection};
use rusqlite::Connection;

use super::{
    super::{
        read,
        transaction::{WriteConnection, unavailable},
    },
    AuditChanges,
    blocks::{AuditBlock, BLOCK, indexed_up_to},
    chain::{self, rows},
};

/// At most this many blocks are indexed, or deleted, at a time.
const INDEXED_AT_MOST: usize = 32;
const DELETED_AT_MOST: usize = 8;

/// A maintenance task.
#[derive(Debug)]
pub(in super::super) enum Maintenance {
    Index(Vec<AuditBlock>),
    /// Delete the records of this log up to this sequence number.
    Shorten(Namespace, u64),
}

/// The next task. Records before `outdated` are deleted, except in logs that were tampered with.
pub(in super::super) fn next_maintenance(
    connection: &Connection,
    outdated: Option<Timestamp>,
    tampered: &HashSet<Namespace>,
) -> Result<Option<Maintenance>, StoreError> {
    find(connection, outdated, tampered).map_err(read::unavailable)
}

fn find(
    connection: &Connection,
    outdated: Option<Timestamp>,
    tampered: &HashSet<Namespace>,
) -> rusqlite::Result<Option<Maintenance>> {
    let snapshot = connection.unchecked_transaction()?;
    let sql = format!("SELECT {} FROM audit_chains", chain::COLUMNS);
    let mut statement = snapshot.prepare_cached(&sql)?;
    let mut chains = statement.query([])?;
    while let Some(row) = chains.next()? {
        let (namespace, chain, _) = chain::read(row)?;
        let indexed = indexed_up_to(&snapshot, chain.id, chain.pruned)?;
        let whole = (chain.seq.saturating_sub(indexed) / BLOCK).min(INDEXED_AT_MOST as u64);
        if whole > 0 {
            let block = |number| AuditBlock::of_records(&snapshot, chain.id, indexed + number * BLOCK);
            return Ok(Some(Maintenance::Index((1..=whole).map(block).collect::<rusqlite::Result<_>>()?)));
        }
        // An invalid name is never written under.
        let (Some(outdated), Ok(namespace)) = (outdated, namespace.parse::<Namespace>()) else { continue };
        if tampered.contains(&namespace) {
            continue;
        }
        let mut first = snapshot.prepare_cached(
            "SELECT key, last_at FROM audit_blocks WHERE key > ?1 AND key <= ?2 ORDER BY key LIMIT ?3",
        )?;
        let (before, last) = rows(chain.id);
        let mut blocks = first.query((before, last, DELETED_AT_MOST))?;
        let mut pruned = None;
        while let Some(block) = blocks.next()? {
            if block.get::<_, i64>(1)? >= outdated.0 {
                break;
            }
            pruned = Some(chain::number(block.get(0)?));
        }
        if let Some(last) = pruned {
            return Ok(Some(Maintenance::Shorten(namespace, last)));
        }
    }
    Ok(None)
}

impl WriteConnection {
    /// Runs a maintenance task in one transaction; false if it cannot be done. The connection must not be used after a
    /// failure.
    pub(in super::super) fn maintain(&mut self, epoch: i64, task: &Maintenance) -> Result<bool, Rejection> {
        if !self.begin(epoch).map_err(unavailable)? {
            return Err(Rejection::Fenced);
        }
        let mut changes = AuditChanges::default();
        let done = match task {
            Maintenance::Index(blocks) => {
                blocks.iter().try_for_each(|block| block.store(&self.connection)).map(|()| true)
            }
            Maintenance::Shorten(namespace, last) => {
                self.audit.shorten(&self.connection, &mut changes, namespace, *last)
            }
        };
        if !done.map_err(unavailable)? {
            self.run("ROLLBACK").map_err(unavailable)?;
            return Ok(false);
        }
        fault::point("store.maintain");
        self.run("COMMIT").map_err(unavailable)?;
        fault::point("store.maintained");
        self.audit.committed(changes);
        Ok(true)
    }
}
