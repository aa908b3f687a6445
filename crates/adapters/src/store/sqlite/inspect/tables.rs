//! Inspection of all tables but the queries': one function for each table, and a list of all of them.
//!
//! [`TABLES`] lists every table of the schema with its check, so a new one cannot be forgotten: a test compares the
//! list with the schema, and damages each table to see that it is reported. For the audit log, this checks that it can
//! be read and has no gap; whether it was tampered with is checked by `bosun audit verify`.

use bosun_core::{
    Event, Head, Namespace, QueryName,
    audit::AuditRecord,
    conversation::History,
    usage::{Histogram, QueryTally},
};
use bosun_engine::store::QueryTerm;
use rusqlite::{Row, Transaction, types::FromSql};
use serde::de::DeserializeOwned;

use super::{
    super::{
        audit::{AuditBlock, BLOCK, chain_of, number_of},
        resources,
    },
    StoreFault, StoreInspection,
};

type TableCheck = fn(&mut StoreInspection, &Transaction<'_>) -> rusqlite::Result<()>;

/// Every table and its check. `None` where it is checked with the queries that it belongs to.
pub(in super::super) const TABLES: &[(&str, Option<TableCheck>)] = &[
    ("audit", None),
    ("audit_blocks", Some(check_blocks)),
    ("audit_chains", Some(check_chains)),
    ("blobs", Some(check_references)),
    ("claimable", Some(check_claimable)),
    ("conversations", Some(check_conversations)),
    ("documents", None),
    ("exchanges", Some(check_exchanges)),
    ("journal", None),
    ("queries", None),
    ("query_terms", Some(check_terms)),
    ("requests", Some(check_requests)),
    ("resources", Some(check_resources)),
    ("usage_of_calls", Some(check_calls)),
    ("usage_of_queries", Some(check_tallies)),
    ("webhooks", Some(check_webhooks)),
    ("writer", Some(check_writer)),
];

impl StoreInspection {
    /// A store of an older version lacks some tables, which is not a fault.
    pub(super) fn check_tables(&mut self, snapshot: &Transaction<'_>) -> rusqlite::Result<()> {
        for (table, check) in TABLES {
            let Some(check) = check else { continue };
            if snapshot.table_exists(None, *table)? {
                check(self, snapshot)?;
            }
        }
        Ok(())
    }

    fn report(&mut self, table: &'static str, row: impl ToString, reason: impl ToString) {
        self.faults.push(StoreFault::Table { table, row: row.to_string(), reason: reason.to_string() });
    }

    /// Goes through the rows of a statement; what `check` returns for a row is its fault.
    fn each_row(
        &mut self,
        snapshot: &Transaction<'_>,
        table: &'static str,
        sql: &str,
        check: impl Fn(&Row<'_>) -> rusqlite::Result<Option<String>>,
    ) -> rusqlite::Result<()> {
        let mut statement = snapshot.prepare(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            // The first column names the row.
            let name = row.get_ref(0).map(display).unwrap_or_default();
            match check(row) {
                Ok(None) => {}
                Ok(Some(reason)) => self.report(table, name, reason),
                Err(error) => self.report(table, name, error),
            }
        }
        Ok(())
    }
}

fn display(value: rusqlite::types::ValueRef<'_>) -> String {
    match value {
        rusqlite::types::ValueRef::Integer(number) => number.to_string(),
        rusqlite::types::ValueRef::Text(text) => String::from_utf8_lossy(text).chars().take(128).collect(),
        _ => "without a name".to_owned(),
    }
}

/// Why a text cannot be read as `T`, if it cannot.
fn unreadable<T: DeserializeOwned>(text: &str, what: &str) -> Option<String> {
    serde_json::from_str::<T>(text).err().map(|error| format!("{what} cannot be read: {error}"))
}

fn is_name<T: std::str::FromStr>(text: &str, what: &str) -> Option<String> {
    text.parse::<T>().is_err().then(|| format!("`{}` is not a {what}", text.chars().take(128).collect::<String>()))
}

fn get<T: FromSql>(row: &Row<'_>, index: usize) -> rusqlite::Result<T> {
    row.get(index)
}

/// A webhook belongs to a query, its cursor is not past the journal, and its target is JSON.
fn check_webhooks(inspection: &mut StoreInspection, snapshot: &Transaction<'_>) -> rusqlite::Result<()> {
    let sql =
        "SELECT webhooks.id, queries.seq, webhooks.seq, target FROM webhooks LEFT JOIN queries ON query = queries.id";
    inspection.each_row(snapshot, "webhooks", sql, |row| {
        let (seq, cursor): (Option<u64>, u64) = (row.get(1)?, row.get(2)?);
        let target: String = row.get(3)?;
        Ok(match seq {
            None => Some("its query is missing".to_owned()),
            Some(seq) if cursor > seq => Some("it is ahead of its query".to_owned()),
            Some(_) if serde_json::from_str::<serde_json::Value>(&target).is_err() => {
                Some("its target cannot be read".to_owned())
            }
            Some(_) => None,
        })
    })
}

/// Compares the open calls of each waiting query with its head, in both directions.
fn check_claimable(inspection: &mut StoreInspection, snapshot: &Transaction<'_>) -> rusqlite::Result<()> {
    let mut listed = snapshot.prepare("SELECT call, namespace, tool FROM claimable WHERE query = ?1 ORDER BY call")?;
    let mut queries = snapshot.prepare(
        "SELECT id, namespace || '/' || name, head FROM queries \
         WHERE status = 'waiting' OR id IN (SELECT query FROM claimable)",
    )?;
    let mut rows = queries.query([])?;
    while let Some(row) = rows.next()? {
        let (id, query): (i64, String) = (row.get(0)?, row.get(1)?);
        // A head that cannot be read is reported with its query.
        let Ok(head) = serde_json::from_str::<Head>(row.get_ref(2)?.as_str()?) else { continue };
        let found: Vec<(String, String, String)> =
            listed.query_map([id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect::<Result<_, _>>()?;
        let open =
            head.claimable().map(|(call, _)| (call.id.to_string(), head.namespace.to_string(), call.tool.to_string()));
        let mut open: Vec<_> = open.collect();
        open.sort();
        if found != open {
            inspection.report("claimable", query, "its open calls do not match its head");
        }
    }
    let sql = "SELECT count(*) FROM claimable WHERE query NOT IN (SELECT id FROM queries)";
    let stray: u64 = snapshot.query_row(sql, [], |row| row.get(0))?;
    if stray > 0 {
        inspection.report("claimable", stray, "open calls that belong to no query");
    }
    Ok(())
}

/// Compares what each query is found by with its journal, in both directions.
fn check_terms(inspection: &mut StoreInspection, snapshot: &Transaction<'_>) -> rusqlite::Result<()> {
    let mut listed = snapshot.prepare(
        "SELECT name, value FROM query_terms WHERE query = ?1 AND namespace = ?2 AND uid = ?3 ORDER BY name, value",
    )?;
    let mut count = snapshot.prepare("SELECT count(*) FROM query_terms WHERE query = ?1")?;
    let mut queries = snapshot
        .prepare("SELECT id, namespace, name, uid, head, body FROM queries JOIN journal ON key = id << 24 | 1")?;
    let mut rows = queries.query([])?;
    while let Some(row) = rows.next()? {
        let (id, namespace, name): (i64, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let uid: Vec<u8> = row.get(3)?;
        // A head or an entry that cannot be read is reported with its query.
        let Ok(head) = serde_json::from_str::<Head>(row.get_ref(4)?.as_str()?) else { continue };
        let Ok(Event::Created { spec, .. }) = Event::decode(row.get_ref(5)?.as_str()?) else { continue };
        let found =
            listed.query_map((id, &namespace, &uid), |row| Ok(QueryTerm { name: row.get(0)?, value: row.get(1)? }))?;
        let found: Vec<QueryTerm> = found.collect::<Result<_, _>>()?;
        let all: usize = count.query_row([id], |row| row.get(0))?;
        if found != QueryTerm::of(&spec, head.labels(&spec)) || all != found.len() {
            let reason = "its labels, session and target do not match its journal";
            inspection.report("query_terms", format!("{namespace}/{name}"), reason);
        }
    }
    let sql = "SELECT count(*) FROM query_terms WHERE query NOT IN (SELECT id FROM queries)";
    let stray: u64 = snapshot.query_row(sql, [], |row| row.get(0))?;
    if stray > 0 {
        inspection.report("query_terms", stray, "terms that belong to no query");
    }
    Ok(())
}

fn check_writer(inspection: &mut StoreInspection, snapshot: &Transaction<'_>) -> rusqlite::Result<()> {
    let rows: u64 = snapshot.query_row("SELECT count(*) FROM writer WHERE epoch >= 0", [], |row| row.get(0))?;
    if rows != 1 {
        inspection.report("writer", "only", "the writer's epoch is missing");
    }
    Ok(())
}

fn check_requests(inspection: &mut StoreInspection, snapshot: &Transaction<'_>) -> rusqlite::Result<()> {
    let sql = "SELECT key, namespace, name, length(fingerprint), length(uid), expires IS NULL AND NOT EXISTS \
         (SELECT 1 FROM queries WHERE queries.namespace = requests.namespace AND queries.uid = requests.uid) \
         FROM requests";
    inspection.each_row(snapshot, "requests", sql, |row| {
        let wrong_size = get::<i64>(row, 3)? != 32 || get::<i64>(row, 4)? != 16;
        Ok(is_name::<Namespace>(&get::<String>(row, 1)?, "namespace")
            .or(is_name::<QueryName>(&get::<String>(row, 2)?, "name of a query"))
            .or(wrong_size.then(|| "its hash or the id of its query has the wrong size".to_owned()))
            .or(get::<bool>(row, 5)?.then(|| "the query that answered it is missing".to_owned())))
    })
}

fn check_references(inspection: &mut StoreInspection, snapshot: &Transaction<'_>) -> rusqlite::Result<()> {
    let sql = "SELECT lower(hex(hash)), length(hash) FROM blobs \
         WHERE length(hash) != 32 OR NOT EXISTS (SELECT 1 FROM queries WHERE id = query)";
    inspection.each_row(snapshot, "blobs", sql, |_| Ok(Some("it belongs to no query".to_owned())))
}

fn check_conversations(inspection: &mut StoreInspection, snapshot: &Transaction<'_>) -> rusqlite::Result<()> {
    let sql = "SELECT name, namespace, messages, \
         (SELECT count(*) FROM exchanges WHERE conversation = conversations.id AND exchanges.id = latest), \
         (SELECT coalesce(max(first + messages - 1), 0) FROM exchanges WHERE conversation = conversations.id) \
         FROM conversations";
    inspection.each_row(snapshot, "conversations", sql, |row| {
        let is_latest_there = get::<i64>(row, 3)? == 1;
        let counts_fit = get::<i64>(row, 2)? >= get::<i64>(row, 4)?;
        Ok(is_name::<Namespace>(&get::<String>(row, 1)?, "namespace")
            .or((!is_latest_there).then(|| "its latest exchange is missing".to_owned()))
            .or((!counts_fit).then(|| "it has more messages than it counts".to_owned())))
    })
}

fn check_exchanges(inspection: &mut StoreInspection, snapshot: &Transaction<'_>) -> rusqlite::Result<()> {
    let sql = "SELECT name, length(query), messages, body, \
         EXISTS (SELECT 1 FROM conversations WHERE conversations.id = conversation) FROM exchanges";
    inspection.each_row(snapshot, "exchanges", sql, |row| {
        let body: String = get(row, 3)?;
        let fault = match History::from_document(&body) {
            Err(error) => Some(format!("its messages cannot be read: {error}")),
            Ok(history) if history.messages.len() as u64 != get::<u64>(row, 2)? => {
                Some("its count of messages is wrong".to_owned())
            }
            Ok(_) => None,
        };
        Ok(is_name::<QueryName>(&get::<String>(row, 0)?, "name of a query")
            .or((get::<i64>(row, 1)? != 16).then(|| "the id of its query has the wrong size".to_owned()))
            .or(fault)
            .or((!get::<bool>(row, 4)?).then(|| "its conversation is missing".to_owned())))
    })
}

fn check_resources(inspection: &mut StoreInspection, snapshot: &Transaction<'_>) -> rusqlite::Result<()> {
    inspection.each_row(snapshot, "resources", resources::BY_NAME, |row| {
        Ok(resources::read_named(row)?.err().map(|what| format!("{what} cannot be read")))
    })
}

fn check_calls(inspection: &mut StoreInspection, snapshot: &Transaction<'_>) -> rusqlite::Result<()> {
    let sql = "SELECT tool, namespace, latency, source, calls >= errors FROM usage_of_calls";
    inspection.each_row(snapshot, "usage_of_calls", sql, |row| {
        let source: String = get(row, 3)?;
        let is_known = matches!(source.as_str(), "inside" | "outside" | "refused");
        Ok(is_name::<Namespace>(&get::<String>(row, 1)?, "namespace")
            .or(unreadable::<Histogram>(&get::<String>(row, 2)?, "its latency"))
            .or((!is_known).then(|| format!("`{source}` is not a source")))
            .or((!get::<bool>(row, 4)?).then(|| "it has more errors than calls".to_owned())))
    })
}

fn check_tallies(inspection: &mut StoreInspection, snapshot: &Transaction<'_>) -> rusqlite::Result<()> {
    inspection.each_row(snapshot, "usage_of_queries", "SELECT agent, namespace, tally FROM usage_of_queries", |row| {
        Ok(is_name::<Namespace>(&get::<String>(row, 1)?, "namespace")
            .or(unreadable::<QueryTally>(&get::<String>(row, 2)?, "its count")))
    })
}

/// Chains, and their records: no gap, nothing behind the end, every record in a chain, and all readable.
fn check_chains(inspection: &mut StoreInspection, snapshot: &Transaction<'_>) -> rusqlite::Result<()> {
    let has_beginnings = snapshot.column_exists(None, "audit_chains", "let_go")?;
    let pruned = if has_beginnings { "let_go" } else { "0" };
    let sql = format!(
        "SELECT namespace, seq, {pruned}, count(audit.key), coalesce(min(audit.key) - (id << 40), 0), \
         coalesce(max(audit.key) - (id << 40), 0) FROM audit_chains \
         LEFT JOIN audit ON audit.key > id << 40 AND audit.key < (id + 1) << 40 GROUP BY id"
    );
    inspection.each_row(snapshot, "audit_chains", &sql, |row| {
        let (seq, pruned, count): (u64, u64, u64) = (get(row, 1)?, get(row, 2)?, get(row, 3)?);
        let (first, last): (u64, u64) = (get(row, 4)?, get(row, 5)?);
        let is_whole = if seq == pruned { count == 0 } else { (first, last, count) == (pruned + 1, seq, seq - pruned) };
        Ok(is_name::<Namespace>(&get::<String>(row, 0)?, "namespace")
            .or((!is_whole).then(|| "a record is missing, or there is an extra one".to_owned())))
    })?;
    inspection.each_row(snapshot, "audit", "SELECT key, body, length(mac) FROM audit", |row| {
        Ok(unreadable::<AuditRecord>(&get::<String>(row, 1)?, "the record")
            .or((get::<i64>(row, 2)? != 32).then(|| "its seal has the wrong size".to_owned())))
    })?;
    let sql = "SELECT key FROM audit WHERE NOT EXISTS (SELECT 1 FROM audit_chains WHERE id = audit.key >> 40)";
    inspection.each_row(snapshot, "audit", sql, |_| Ok(Some("it belongs to no log".to_owned())))
}

/// The index must match the records: a search relies on it.
fn check_blocks(inspection: &mut StoreInspection, snapshot: &Transaction<'_>) -> rusqlite::Result<()> {
    inspection.each_row(snapshot, "audit_blocks", "SELECT key FROM audit_blocks", |row| {
        let key: i64 = get(row, 0)?;
        let (chain, last) = (chain_of(key), number_of(key));
        if last == 0 || last % BLOCK != 0 {
            return Ok(Some("it is not the end of a block".to_owned()));
        }
        let found = AuditBlock::find(snapshot, key)?;
        let expected = AuditBlock::of_records(snapshot, chain, last)?;
        Ok((found != Some(expected)).then(|| "it does not match its records".to_owned()))
    })
}
