//! The index of the audit log: what each block of records contains.
//!
//! A chain is split into blocks of [`BLOCK`] records, and an index row for each complete block holds its first and last
//! time and its actors, tools, queries and actions. A search reads the rows and only those blocks that may match. An
//! index of each column would be written with every record, on the path of every answer; this one is built afterwards,
//! one row for hundreds of records. It may select too many blocks, but never hides a record: a block without a row is
//! read.

use std::borrow::Cow;

use bosun_core::{ContentHash, Timestamp, audit::Action};
use bosun_engine::store::RecordSearch;
use rusqlite::{Connection, OptionalExtension as _, params};
use serde::Deserialize;

use super::chain::{self, row};

/// The number of records in a block.
pub(in super::super) const BLOCK: u64 = 256;

const ADD: &str = "INSERT OR REPLACE INTO audit_blocks (key, first_at, last_at, terms) VALUES (?1, ?2, ?3, ?4)";
pub(in super::super) const FIND: &str = "SELECT first_at, last_at, terms FROM audit_blocks WHERE key = ?1";

/// The index row of one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct AuditBlock {
    /// The row of its last record.
    pub(in super::super) key: i64,
    pub(in super::super) first_at: i64,
    pub(in super::super) last_at: i64,
    pub(in super::super) terms: Vec<u8>,
}

/// The last sequence number of the block that contains record `seq`.
pub(in super::super) fn last_of_block(seq: u64) -> u64 {
    seq.div_ceil(BLOCK) * BLOCK
}

/// A hash of one value of one column. A collision costs an unnecessary read and hides nothing.
fn term(column: u8, value: &str) -> [u8; 4] {
    let hash = ContentHash::of_parts(&[&[column], value.as_bytes()]);
    hash.as_bytes().first_chunk().copied().unwrap_or_default()
}

fn action(action: Action) -> String {
    serde_json::to_string(&action).unwrap_or_default()
}

/// The fields of a record that are indexed. The rest is not parsed: a block has hundreds of records.
#[derive(Deserialize)]
struct IndexedFields<'a> {
    at: Timestamp,
    action: Action,
    #[serde(borrow)]
    actor: Option<BlockText<'a>>,
    #[serde(borrow)]
    tool: Option<BlockText<'a>>,
    #[serde(borrow)]
    query: Option<BlockText<'a>>,
}

/// Copied only if it is written with escapes.
#[derive(Deserialize)]
struct BlockText<'a>(#[serde(borrow)] Cow<'a, str>);

/// The terms of one column. Consecutive records mostly have the same value, which is hashed once.
struct Column {
    tag: u8,
    last: Option<String>,
}

impl Column {
    fn new(tag: u8) -> Self {
        Self { tag, last: None }
    }

    fn note(&mut self, value: Option<BlockText<'_>>, terms: &mut Vec<[u8; 4]>) {
        let Some(BlockText(value)) = value.filter(|BlockText(value)| self.last.as_deref() != Some(&**value)) else {
            return;
        };
        terms.push(term(self.tag, &value));
        let last = self.last.get_or_insert_default();
        last.clear();
        last.push_str(&value);
    }
}

impl AuditBlock {
    /// Reads the block whose last record is `last`.
    pub(in super::super) fn of_records(connection: &Connection, chain: i64, last: u64) -> rusqlite::Result<Self> {
        let mut statement = connection.prepare_cached(super::chain_verifier::RECORDS)?;
        let mut rows = statement.query([row(chain, last - BLOCK), row(chain, last)])?;
        let (mut first_at, mut last_at) = (i64::MAX, i64::MIN);
        let (mut actors, mut tools, mut queries) = (Column::new(b'a'), Column::new(b't'), Column::new(b'q'));
        let (mut terms, mut actions) = (Vec::new(), Vec::new());
        while let Some(row) = rows.next()? {
            // An unreadable record matches no search.
            let Ok(found) = serde_json::from_str::<IndexedFields>(row.get_ref(1)?.as_str().unwrap_or_default()) else {
                continue;
            };
            (first_at, last_at) = (first_at.min(found.at.0), last_at.max(found.at.0));
            actors.note(found.actor, &mut terms);
            tools.note(found.tool, &mut terms);
            queries.note(found.query, &mut terms);
            if !actions.contains(&found.action) {
                actions.push(found.action);
            }
        }
        terms.extend(actions.into_iter().map(|found| term(b'x', &action(found))));
        terms.sort_unstable();
        terms.dedup();
        Ok(Self { key: row(chain, last), first_at, last_at, terms: terms.concat() })
    }

    pub(in super::super) fn find(connection: &Connection, key: i64) -> rusqlite::Result<Option<Self>> {
        let mut find = connection.prepare_cached(FIND)?;
        let read =
            |row: &rusqlite::Row<'_>| Ok(Self { key, first_at: row.get(0)?, last_at: row.get(1)?, terms: row.get(2)? });
        find.query_row([key], read).optional()
    }

    pub(in super::super) fn store(&self, connection: &Connection) -> rusqlite::Result<()> {
        let values = params![self.key, self.first_at, self.last_at, self.terms];
        connection.prepare_cached(ADD)?.execute(values).map(|_| ())
    }

    fn has(&self, term: [u8; 4]) -> bool {
        let (terms, _) = self.terms.as_chunks::<4>();
        terms.binary_search(&term).is_ok()
    }
}

/// The conditions of a search on a block.
#[derive(Debug)]
pub(super) struct BlockFilter {
    terms: Vec<[u8; 4]>,
    from: Option<Timestamp>,
    to: Option<Timestamp>,
}

impl BlockFilter {
    pub(super) fn of(search: &RecordSearch) -> Self {
        let mut terms = Vec::new();
        terms.extend(search.actor.as_deref().map(|actor| term(b'a', actor)));
        terms.extend(search.tool.as_deref().map(|tool| term(b't', tool)));
        terms.extend(search.query.as_ref().map(|query| term(b'q', query.as_str())));
        terms.extend(search.action.map(|wanted| term(b'x', &action(wanted))));
        Self { terms, from: search.from, to: search.to }
    }

    /// Whether every block matches.
    pub(super) fn matches_all(&self) -> bool {
        self.terms.is_empty() && self.from.is_none() && self.to.is_none()
    }

    /// Whether a record of the block may match.
    pub(super) fn may_match(&self, block: &AuditBlock) -> bool {
        self.terms.iter().all(|term| block.has(*term))
            && self.from.is_none_or(|from| block.last_at >= from.0)
            && self.to.is_none_or(|to| block.first_at < to.0)
    }
}

/// The last record of `chain` that is indexed; `pruned` if there is none.
pub(in super::super) fn indexed_up_to(connection: &Connection, chain: i64, pruned: u64) -> rusqlite::Result<u64> {
    let mut find = connection.prepare_cached("SELECT max(key) FROM audit_blocks WHERE key > ?1 AND key <= ?2")?;
    let last: Option<i64> = find.query_row(<[i64; 2]>::from(chain::rows(chain)), |row| row.get(0))?;
    Ok(last.map_or(pruned, chain::number))
}
