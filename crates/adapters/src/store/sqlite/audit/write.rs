//! Writing audit records and usage counters, in the transaction of the changes that they describe.
//!
//! The writer caches the ends of the chains that it has written to; a transaction works on copies, which replace them
//! when it has been committed. A chain that does not end where its seal says was tampered with: it is continued with a
//! record that says so, and never silently sealed over.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use bosun_core::{
    Namespace, Timestamp,
    audit::{Action, AuditRecord},
    usage::{CallTally, Histogram, Hour, MOST_KEYS, OTHER, QueryTally, Sample, UsageKey, UsageTotals},
};
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, params};

use super::{
    chain::{self, Chain, row},
    chain_verifier::ChainVerifier,
    head_export::Heads,
    key::{AuditKey, AuditKeys, KeyError, KeyId},
};

const ADD_CHAIN: &str =
    "INSERT INTO audit_chains (namespace, first_key, key, seq, mac, seal) VALUES (?1, ?2, ?2, 0, x'', x'')";
const MOVE_CHAIN: &str = "UPDATE audit_chains SET key = ?2, seq = ?3, mac = ?4, seal = ?5 WHERE id = ?1";
const MOVE_BEGINNING: &str = "UPDATE audit_chains SET first_key = ?2, let_go = ?3, let_go_mac = ?4 WHERE id = ?1";
const ADD_RECORD: &str = "INSERT INTO audit (key, body, mac) VALUES (?1, ?2, ?3)";
const FIND_MAC: &str = "SELECT mac FROM audit WHERE key = ?1";
const HAS_MORE: &str = "SELECT 1 FROM audit WHERE key > ?1 AND key <= ?2";
const FIND_CALLS: &str = "SELECT calls, errors, latency FROM usage_of_calls \
     WHERE namespace = ?1 AND hour = ?2 AND agent = ?3 AND tool = ?4 AND source = ?5";
const COUNT_KEYS: &str = "SELECT count(*) FROM usage_of_calls WHERE namespace = ?1 AND hour = ?2";
const PUT_CALLS: &str = "INSERT OR REPLACE INTO usage_of_calls \
     (namespace, hour, agent, tool, source, calls, errors, latency) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
const FIND_QUERIES: &str = "SELECT tally FROM usage_of_queries WHERE namespace = ?1 AND hour = ?2 AND agent = ?3";
const PUT_QUERIES: &str =
    "INSERT OR REPLACE INTO usage_of_queries (namespace, hour, agent, tally) VALUES (?1, ?2, ?3, ?4)";

/// Serialized records and their usage samples, as the writer needs them.
#[derive(Debug, Default)]
pub(in super::super) struct EncodedRecords {
    pub(in super::super) texts: Vec<String>,
    samples: Vec<(Hour, Sample)>,
}

impl EncodedRecords {
    /// Without `audited`, only the usage samples are kept.
    pub(in super::super) fn of(records: &[AuditRecord], audited: bool) -> Result<Self, serde_json::Error> {
        let texts =
            if audited { records.iter().map(serde_json::to_string).collect::<Result<_, _>>()? } else { Vec::new() };
        let samples = records.iter().filter_map(|record| Some((Hour::of(record.at), Sample::of(record)?))).collect();
        Ok(Self { texts, samples })
    }
}

/// What the writer knows of the audit log between transactions.
#[derive(Debug)]
pub(in super::super) struct AuditWriter {
    keys: Option<Arc<AuditKeys>>,
    heads: Arc<Heads>,
    chains: HashMap<Namespace, Chain>,
}

/// What a transaction adds to the audit log.
#[derive(Default)]
pub(in super::super) struct AuditChanges {
    chains: BTreeMap<Namespace, Chain>,
    usage: BTreeMap<(Namespace, Hour), UsageTotals>,
}

/// The prepared statements that write records, for the duration of a transaction.
pub(in super::super) struct RecordWriter<'a> {
    connection: &'a Connection,
    add_record: CachedStatement<'a>,
}

impl<'a> RecordWriter<'a> {
    pub(in super::super) fn new(connection: &'a Connection) -> rusqlite::Result<Self> {
        Ok(Self { connection, add_record: connection.prepare_cached(ADD_RECORD)? })
    }

    fn add(&mut self, chain: &mut Chain, key: &AuditKey, text: &str) -> rusqlite::Result<()> {
        let row = chain.push(key, text);
        self.add_record.execute(params![row, text, chain.mac]).map(|_| ())
    }

    /// Adds a record of the log about itself.
    fn note(&mut self, chain: &mut Chain, key: &AuditKey, action: Action, detail: String) -> rusqlite::Result<()> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let now = Timestamp(i64::try_from(now.as_millis()).unwrap_or(i64::MAX));
        let text = to_text(&AuditRecord::of_act(now, action, None, Some(detail)))?;
        self.add(chain, key, &text)
    }
}

impl AuditWriter {
    /// Without keys there are no records, only usage counters.
    pub(in super::super) fn new(keys: Option<Arc<AuditKeys>>, heads: Arc<Heads>) -> Self {
        Self { keys, heads, chains: HashMap::new() }
    }

    pub(in super::super) fn is_audited(&self) -> bool {
        self.keys.is_some()
    }

    /// Writes records; usage samples are accumulated until the end of the transaction.
    pub(in super::super) fn write(
        &self,
        writer: &mut RecordWriter<'_>,
        changes: &mut AuditChanges,
        namespace: &Namespace,
        records: &EncodedRecords,
    ) -> rusqlite::Result<()> {
        for (hour, sample) in &records.samples {
            changes.usage.entry((namespace.clone(), *hour)).or_default().add(sample.clone());
        }
        let Some(key) = self.keys.as_ref().and_then(|keys| keys.newest()).filter(|_| !records.texts.is_empty()) else {
            return Ok(());
        };
        if !changes.chains.contains_key(namespace) {
            let chain = match self.chains.get(namespace) {
                Some(chain) => chain.clone(),
                None => self.open_chain(writer, namespace, key)?,
            };
            changes.chains.insert(namespace.clone(), chain);
        }
        let Some(chain) = changes.chains.get_mut(namespace) else { return Ok(()) };
        for text in &records.texts {
            writer.add(chain, key, text)?;
        }
        Ok(())
    }

    /// Called at the end of a transaction: writes the accumulated usage and the ends of the chains.
    pub(in super::super) fn finish(&self, connection: &Connection, changes: &AuditChanges) -> rusqlite::Result<()> {
        for ((namespace, hour), usage) in &changes.usage {
            write_usage(connection, namespace.as_str(), *hour, usage)?;
        }
        let Some(key) = self.keys.as_ref().and_then(|keys| keys.newest()) else { return Ok(()) };
        let mut move_chain = connection.prepare_cached(MOVE_CHAIN)?;
        for (namespace, chain) in &changes.chains {
            let seal = chain.seal(namespace.as_str(), key);
            move_chain.execute(params![chain.id, chain.key.0, chain.seq, chain.mac, seal])?;
        }
        Ok(())
    }

    /// Called after the transaction has been committed.
    pub(in super::super) fn committed(&mut self, changes: AuditChanges) {
        for (namespace, chain) in changes.chains {
            self.heads.note(&namespace, chain.seq, chain.mac);
            self.chains.insert(namespace, chain);
        }
    }

    /// Deletes the beginning of a log, up to record `last`, and records that. What is deleted must be what was written:
    /// a log that was tampered with is evidence, and is kept. False if it was.
    pub(in super::super) fn shorten(
        &self,
        connection: &Connection,
        changes: &mut AuditChanges,
        namespace: &Namespace,
        last: u64,
    ) -> rusqlite::Result<bool> {
        let Some((keys, newest)) = self.keys.as_ref().and_then(|keys| Some((keys, keys.newest()?))) else {
            return Ok(false);
        };
        let mut writer = RecordWriter::new(connection)?;
        let mut chain = match self.chains.get(namespace) {
            Some(chain) => chain.clone(),
            None => self.open_chain(&mut writer, namespace, newest)?,
        };
        let (gone, end) = (row(chain.id, chain.pruned), row(chain.id, last));
        let verified = match ChainVerifier::begin(keys, namespace.as_str(), &chain) {
            Ok(verifier) => verifier.verify_rows(connection, gone, end)?,
            Err(fault) => Err(fault),
        };
        let verified = verified.and_then(|verifier| verifier.ends_at(last));
        let (mac, key, at) = match verified {
            Ok(last) => last,
            Err(fault) => {
                tracing::error!(%fault, "the audit log is not shortened: it was tampered with");
                return Ok(false);
            }
        };
        for table in ["audit", "audit_blocks"] {
            let sql = format!("DELETE FROM {table} WHERE key > ?1 AND key <= ?2");
            connection.prepare_cached(&sql)?.execute([gone, end])?;
        }
        (chain.pruned, chain.pruned_mac, chain.first_key) = (last, mac, key);
        connection.prepare_cached(MOVE_BEGINNING)?.execute(params![chain.id, key.0, last, mac])?;
        let until = at.map(|at| format!(", of {}", at.to_rfc3339())).unwrap_or_default();
        writer.note(&mut chain, newest, Action::AuditShortened, format!("up to record {last}{until}"))?;
        changes.chains.insert(namespace.clone(), chain);
        self.finish(connection, changes)?;
        Ok(true)
    }

    /// The chain as an earlier process left it, or a new one.
    fn open_chain(
        &self,
        writer: &mut RecordWriter<'_>,
        namespace: &Namespace,
        newest: &AuditKey,
    ) -> rusqlite::Result<Chain> {
        let (connection, name) = (writer.connection, namespace.as_str());
        let Some((mut chain, seal)) = find_chain(connection, name)? else {
            let id = connection.prepare_cached(ADD_CHAIN)?.insert(params![name, newest.id.0])?;
            return Ok(Chain::begin(id, name, newest));
        };
        let last_key = self.keys.as_ref().and_then(|keys| keys.get(chain.key));
        let is_whole = last_key.is_some_and(|key| chain.seal(name, key) == *seal) && ends_there(connection, &chain)?;
        if !is_whole {
            tracing::error!(%namespace, seq = chain.seq, "the audit log does not end where its seal says");
            let found = format!("the log did not end with record {}", chain.seq);
            // What is stored behind the recorded end is evidence; it is not overwritten.
            let last: Option<i64> = connection
                .prepare_cached("SELECT max(key) FROM audit WHERE key > ?1 AND key <= ?2")?
                .query_row(<[i64; 2]>::from(chain::rows(chain.id)), |row| row.get(0))?;
            chain.seq = chain.seq.max(last.map_or(0, chain::number));
            writer.note(&mut chain, newest, Action::AuditBroken, found)?;
        } else if let Some(key) = last_key.filter(|key| key.id != newest.id) {
            writer.note(&mut chain, key, Action::AuditKeyRotated, newest.id.to_string())?;
        }
        Ok(chain)
    }
}

fn find_chain(connection: &Connection, namespace: &str) -> rusqlite::Result<Option<(Chain, Vec<u8>)>> {
    let sql = format!("SELECT {} FROM audit_chains WHERE namespace = ?1", chain::COLUMNS);
    let mut find = connection.prepare_cached(&sql)?;
    let found = find.query_row([namespace], chain::read).optional()?;
    Ok(found.map(|(_, chain, seal)| (chain, seal)))
}

fn key_id(bytes: &[u8]) -> KeyId {
    KeyId(<[u8; 8]>::try_from(bytes).unwrap_or_default())
}

/// Whether the last record is the one that the chain's row names, and there is none after it.
fn ends_there(connection: &Connection, chain: &Chain) -> rusqlite::Result<bool> {
    let last = row(chain.id, chain.seq);
    let mac: Option<Vec<u8>> = connection.prepare_cached(FIND_MAC)?.query_row([last], |row| row.get(0)).optional()?;
    let has_more = connection.prepare_cached(HAS_MORE)?.exists([last, chain::rows(chain.id).1])?;
    Ok(!has_more && (chain.seq == 0 || mac.as_deref() == Some(chain.mac.as_slice())))
}

/// Checks that every chain can be continued: its last key is present.
pub(in super::super) fn check_keys(connection: &Connection, keys: &AuditKeys) -> Result<(), CheckError> {
    let mut statement = connection.prepare("SELECT DISTINCT key FROM audit_chains")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        keys.require(key_id(&row.get::<_, Vec<u8>>(0)?))?;
    }
    Ok(())
}

#[derive(Debug, thiserror::Error)]
pub(in super::super) enum CheckError {
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Database(#[from] rusqlite::Error),
}

pub(in super::super) fn has_records(connection: &Connection) -> rusqlite::Result<bool> {
    connection.prepare("SELECT 1 FROM audit_chains")?.exists([])
}

fn write_usage(connection: &Connection, namespace: &str, hour: Hour, usage: &UsageTotals) -> rusqlite::Result<()> {
    for (key, tally) in &usage.calls {
        let place = find_calls(connection, namespace, hour, key)?;
        let (key, known) = match place {
            Some(known) => (key.clone(), known),
            None if has_space(connection, namespace, hour)? => (key.clone(), CallTally::default()),
            None => {
                let other = UsageKey { agent: OTHER.into(), tool: OTHER.into(), source: key.source };
                let known = find_calls(connection, namespace, hour, &other)?.unwrap_or_default();
                (other, known)
            }
        };
        let mut sum = known;
        sum += tally;
        let latency = to_text(&sum.latency)?;
        connection.prepare_cached(PUT_CALLS)?.execute(params![
            namespace,
            hour.0,
            key.agent,
            key.tool,
            key.source.as_str(),
            sum.calls,
            sum.errors,
            latency,
        ])?;
    }
    for (agent, tally) in &usage.queries {
        let known: Option<String> = connection
            .prepare_cached(FIND_QUERIES)?
            .query_row(params![namespace, hour.0, agent], |row| row.get(0))
            .optional()?;
        let mut sum = match known {
            Some(text) => from_text::<QueryTally>(&text)?,
            None => QueryTally::default(),
        };
        sum += tally;
        connection.prepare_cached(PUT_QUERIES)?.execute(params![namespace, hour.0, agent, to_text(&sum)?])?;
    }
    Ok(())
}

fn find_calls(
    connection: &Connection,
    namespace: &str,
    hour: Hour,
    key: &UsageKey,
) -> rusqlite::Result<Option<CallTally>> {
    let mut find = connection.prepare_cached(FIND_CALLS)?;
    let found = find.query_row(params![namespace, hour.0, key.agent, key.tool, key.source.as_str()], |row| {
        let latency: String = row.get(2)?;
        Ok(CallTally { calls: row.get(0)?, errors: row.get(1)?, latency: from_text::<Histogram>(&latency)? })
    });
    found.optional()
}

/// Whether a new row of usage may be added. Clients choose the names, so their number must be bounded.
fn has_space(connection: &Connection, namespace: &str, hour: Hour) -> rusqlite::Result<bool> {
    let count: usize =
        connection.prepare_cached(COUNT_KEYS)?.query_row(params![namespace, hour.0], |row| row.get(0))?;
    Ok(count < MOST_KEYS)
}

fn to_text(value: &impl serde::Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

pub(super) fn from_text<T: serde::de::DeserializeOwned>(text: &str) -> rusqlite::Result<T> {
    serde_json::from_str(text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, error.into()))
}
