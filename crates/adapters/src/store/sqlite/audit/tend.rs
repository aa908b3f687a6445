//! Looking after the log when there is time: its index is brought up to date, and what is too old is let go.
//!
//! What is to be done is found out by a reader, and done by the writer, a little at a time, behind everything
//! that somebody waits for. Records are let go in whole blocks.

use std::collections::HashSet;

use bosun_core::{Namespace, Timestamp};
use bosun_engine::{StoreError, fault, store::Rejection};
use rusqlite::Connection;

use super::{
    super::{
        group::{Open, unavailable},
        read,
    },
    Pages,
    blocks::{BLOCK, Block, indexed_up_to},
    chain::{self, rows},
};

/// How many blocks are indexed, or let go, at a time.
const INDEXED_AT_MOST: usize = 32;
const LET_GO_AT_MOST: usize = 8;

/// Something to do.
#[derive(Debug)]
pub(in super::super) enum Chore {
    Index(Vec<Block>),
    /// Let the records of this log go, up to the one of this number.
    LetGo(Namespace, u64),
}

/// The next thing to do. Records before `outdated` are to go, but for logs that cannot be shortened.
pub(in super::super) fn next_chore(
    connection: &Connection,
    outdated: Option<Timestamp>,
    kept_whole: &HashSet<Namespace>,
) -> Result<Option<Chore>, StoreError> {
    look(connection, outdated, kept_whole).map_err(read::unavailable)
}

fn look(
    connection: &Connection,
    outdated: Option<Timestamp>,
    kept_whole: &HashSet<Namespace>,
) -> rusqlite::Result<Option<Chore>> {
    let snapshot = connection.unchecked_transaction()?;
    let sql = format!("SELECT {} FROM audit_chains", chain::COLUMNS);
    let mut statement = snapshot.prepare_cached(&sql)?;
    let mut chains = statement.query([])?;
    while let Some(row) = chains.next()? {
        let (namespace, chain, _) = chain::read(row)?;
        let indexed = indexed_up_to(&snapshot, chain.id, chain.let_go)?;
        let whole = (chain.seq.saturating_sub(indexed) / BLOCK).min(INDEXED_AT_MOST as u64);
        if whole > 0 {
            let block = |number| Block::of_records(&snapshot, chain.id, indexed + number * BLOCK);
            return Ok(Some(Chore::Index((1..=whole).map(block).collect::<rusqlite::Result<_>>()?)));
        }
        // A name that is none is not ours to write under.
        let (Some(outdated), Ok(namespace)) = (outdated, namespace.parse::<Namespace>()) else { continue };
        if kept_whole.contains(&namespace) {
            continue;
        }
        let mut first = snapshot.prepare_cached(
            "SELECT key, last_at FROM audit_blocks WHERE key > ?1 AND key <= ?2 ORDER BY key LIMIT ?3",
        )?;
        let (before, last) = rows(chain.id);
        let mut blocks = first.query((before, last, LET_GO_AT_MOST))?;
        let mut let_go = None;
        while let Some(block) = blocks.next()? {
            if block.get::<_, i64>(1)? >= outdated.0 {
                break;
            }
            let_go = Some(chain::number(block.get(0)?));
        }
        if let Some(last) = let_go {
            return Ok(Some(Chore::LetGo(namespace, last)));
        }
    }
    Ok(None)
}

impl Open {
    /// Does a chore, in one transaction; false if it cannot be done. Nothing may be done with this connection after a
    /// failure.
    pub(in super::super) fn tend(&mut self, epoch: i64, chore: &Chore) -> Result<bool, Rejection> {
        if !self.begin(epoch).map_err(unavailable)? {
            return Err(Rejection::Fenced);
        }
        let mut pages = Pages::default();
        let done = match chore {
            Chore::Index(blocks) => blocks.iter().try_for_each(|block| block.keep(&self.connection)).map(|()| true),
            Chore::LetGo(namespace, last) => self.book.shorten(&self.connection, &mut pages, namespace, *last),
        };
        if !done.map_err(unavailable)? {
            self.run("ROLLBACK").map_err(unavailable)?;
            return Ok(false);
        }
        fault::point("store.tend");
        self.run("COMMIT").map_err(unavailable)?;
        fault::point("store.tended");
        self.book.turn(pages);
        Ok(true)
    }
}
