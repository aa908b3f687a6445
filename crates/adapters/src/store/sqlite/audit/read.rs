//! Reading the audit log and the usage counters.
//!
//! Records are read newest first, block by block, and a block that cannot match is skipped. One request reads a bounded
//! number of records; if that was not enough, its answer says where to continue.

use bosun_core::{
    Namespace,
    audit::{AuditRecord, CallSource},
    usage::{CallTally, Hour, QueryTally, UsageKey, UsageTotals},
};
use bosun_engine::store::{FoundRecords, Numbered, RecordSearch, StoreError};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{
    super::read::unavailable,
    blocks::{AuditBlock, BLOCK, BlockFilter, last_of_block},
    chain::{self, Mac, row},
    write::from_text,
};

/// One request reads at most this many records.
const SCANNED: usize = 20_000;

const FIND_CHAIN: &str = "SELECT id, seq, let_go FROM audit_chains WHERE namespace = ?1";
pub(in super::super) const SCAN: &str =
    "SELECT key, body, mac FROM audit WHERE key > ?1 AND key < ?2 ORDER BY key DESC";
pub(in super::super) const CALLS: &str =
    "SELECT agent, tool, source, calls, errors, latency FROM usage_of_calls WHERE namespace = ?1 AND hour >= ?2";
pub(in super::super) const QUERIES: &str =
    "SELECT agent, tally FROM usage_of_queries WHERE namespace = ?1 AND hour >= ?2";

pub(in super::super) fn search(
    connection: &Connection,
    namespace: &Namespace,
    search: &RecordSearch,
) -> Result<FoundRecords, StoreError> {
    scan(connection, namespace, search).map_err(unavailable)
}

fn scan(connection: &Connection, namespace: &Namespace, search: &RecordSearch) -> rusqlite::Result<FoundRecords> {
    let snapshot = connection.unchecked_transaction()?;
    let mut find = snapshot.prepare_cached(FIND_CHAIN)?;
    let chain: Option<(i64, u64, u64)> =
        find.query_row([namespace.as_str()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()?;
    let Some((chain, last, pruned)) = chain else { return Ok(FoundRecords::default()) };
    let filter = BlockFilter::of(search);
    let mut found = FoundRecords::default();
    let mut statement = snapshot.prepare_cached(SCAN)?;
    let mut scanned = 0;
    // Records below this one have not been read.
    let mut end = search.before.unwrap_or(u64::MAX).min(last + 1);
    while end > pruned + 1 {
        let block_end = last_of_block(end - 1);
        // The end of the block before it, or what was deleted, which is whole blocks.
        let before = (block_end - BLOCK).max(pruned);
        let block = if filter.matches_all() { None } else { AuditBlock::find(&snapshot, row(chain, block_end))? };
        if block.is_some_and(|block| !filter.may_match(&block)) {
            end = before + 1;
            continue;
        }
        let mut rows = statement.query([row(chain, before), row(chain, end)])?;
        while let Some(next) = rows.next()? {
            let seq = chain::number(next.get(0)?);
            if found.records.len() == search.limit || scanned == SCANNED {
                found.next = Some(seq + 1);
                return Ok(found);
            }
            scanned += 1;
            // A record that was made unreadable must not hide the others; `verify` reports it.
            let Ok(record) = from_text::<AuditRecord>(next.get_ref(1)?.as_str().unwrap_or_default()) else {
                tracing::error!(%namespace, seq, "an audit record is left out because it is not readable");
                continue;
            };
            if search.wants(&record) {
                let mac = Mac::try_from(next.get_ref(2)?.as_blob()?).ok();
                found.records.push(Numbered { seq, record, mac });
            }
        }
        end = before + 1;
    }
    Ok(found)
}

pub(in super::super) fn usage(
    connection: &Connection,
    namespace: &Namespace,
    since: Hour,
) -> Result<UsageTotals, StoreError> {
    add_up(connection, namespace, since).map_err(unavailable)
}

fn add_up(connection: &Connection, namespace: &Namespace, since: Hour) -> rusqlite::Result<UsageTotals> {
    let snapshot = connection.unchecked_transaction()?;
    let mut usage = UsageTotals::default();
    let mut calls = snapshot.prepare_cached(CALLS)?;
    let mut rows = calls.query(params![namespace.as_str(), since.0])?;
    while let Some(row) = rows.next()? {
        let source = match row.get_ref(2)?.as_str()? {
            "inside" => CallSource::Inside,
            "outside" => CallSource::Outside,
            _ => CallSource::Refused,
        };
        let key = UsageKey { agent: row.get(0)?, tool: row.get(1)?, source };
        let latency = from_text(row.get_ref(5)?.as_str()?)?;
        usage.add_calls(key, &CallTally { calls: row.get(3)?, errors: row.get(4)?, latency });
    }
    let mut queries = snapshot.prepare_cached(QUERIES)?;
    let mut rows = queries.query(params![namespace.as_str(), since.0])?;
    while let Some(row) = rows.next()? {
        let tally: QueryTally = from_text(row.get_ref(1)?.as_str()?)?;
        usage.add_queries(row.get(0)?, &tally);
    }
    Ok(usage)
}
