//! Reading the log and the counts.
//!
//! There is no index but the order of the records. Times follow that order except where a clock was set
//! back, so a time is looked for by halving, with an hour to spare; the rest is read record by record,
//! so many at a time and no more.

use bosun_core::{
    Namespace, Timestamp,
    audit::{Record, Source},
    usage::{CallTally, Hour, Key, QueryTally, Usage},
};
use bosun_engine::store::{Found, Numbered, Search, StoreError};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{
    super::read::unavailable,
    chain::{Mac, SEQ_BITS, row},
    write::from_text,
};

/// How many records one look reads at most.
const SCANNED: usize = 20_000;
/// How far a clock may have been set back without hiding a record from a search by time.
const SLACK_MS: i64 = 3_600_000;

const FIND_CHAIN: &str = "SELECT id, seq FROM audit_chains WHERE namespace = ?1";
pub(in super::super) const SCAN: &str =
    "SELECT key, body, mac FROM audit WHERE key > ?1 AND key < ?2 ORDER BY key DESC";
const FIND_BODY: &str = "SELECT body FROM audit WHERE key = ?1";
pub(in super::super) const CALLS: &str =
    "SELECT agent, tool, source, calls, errors, latency FROM usage_of_calls WHERE namespace = ?1 AND hour >= ?2";
pub(in super::super) const QUERIES: &str =
    "SELECT agent, tally FROM usage_of_queries WHERE namespace = ?1 AND hour >= ?2";

pub(in super::super) fn search(
    connection: &Connection,
    namespace: &Namespace,
    search: &Search,
) -> Result<Found, StoreError> {
    look(connection, namespace, search).map_err(unavailable)
}

fn look(connection: &Connection, namespace: &Namespace, search: &Search) -> rusqlite::Result<Found> {
    let snapshot = connection.unchecked_transaction()?;
    let mut find = snapshot.prepare_cached(FIND_CHAIN)?;
    let chain: Option<(i64, u64)> =
        find.query_row([namespace.as_str()], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let Some((chain, last)) = chain else { return Ok(Found::default()) };
    let mut end = search.before.unwrap_or(u64::MAX).min(last + 1);
    if let Some(to) = search.to {
        end = end.min(first_since(&snapshot, chain, last, Timestamp(to.0.saturating_add(SLACK_MS)))?);
    }
    let begin = match search.from {
        Some(from) => first_since(&snapshot, chain, last, Timestamp(from.0.saturating_sub(SLACK_MS)))?,
        None => 1,
    };
    let mut found = Found::default();
    let mut statement = snapshot.prepare_cached(SCAN)?;
    let mut rows = statement.query([row(chain, begin.saturating_sub(1)), row(chain, end)])?;
    let mut scanned = 0;
    while let Some(next) = rows.next()? {
        let key: i64 = next.get(0)?;
        let seq = u64::try_from(key & ((1 << SEQ_BITS) - 1)).unwrap_or_default();
        if found.records.len() == search.limit || scanned == SCANNED {
            found.next = Some(seq + 1);
            break;
        }
        scanned += 1;
        let record: Record = from_text(next.get_ref(1)?.as_str()?)?;
        if search.wants(&record) {
            let mac = Mac::try_from(next.get_ref(2)?.as_blob()?).ok();
            found.records.push(Numbered { seq, record, mac });
        }
    }
    Ok(found)
}

/// The number of the first record that is not before `time`; one behind the last if there is none.
fn first_since(connection: &Connection, chain: i64, last: u64, time: Timestamp) -> rusqlite::Result<u64> {
    let mut find = connection.prepare_cached(FIND_BODY)?;
    let (mut low, mut high) = (1, last + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        let body: Option<String> = find.query_row([row(chain, middle)], |row| row.get(0)).optional()?;
        // A record that somebody has taken out has no time; the search goes on below it.
        let is_before = match body {
            Some(body) => from_text::<Record>(&body)?.at < time,
            None => false,
        };
        if is_before {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

pub(in super::super) fn usage(
    connection: &Connection,
    namespace: &Namespace,
    since: Hour,
) -> Result<Usage, StoreError> {
    add_up(connection, namespace, since).map_err(unavailable)
}

fn add_up(connection: &Connection, namespace: &Namespace, since: Hour) -> rusqlite::Result<Usage> {
    let snapshot = connection.unchecked_transaction()?;
    let mut usage = Usage::default();
    let mut calls = snapshot.prepare_cached(CALLS)?;
    let mut rows = calls.query(params![namespace.as_str(), since.0])?;
    while let Some(row) = rows.next()? {
        let source = match row.get_ref(2)?.as_str()? {
            "inside" => Source::Inside,
            "outside" => Source::Outside,
            _ => Source::Refused,
        };
        let key = Key { agent: row.get(0)?, tool: row.get(1)?, source };
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
