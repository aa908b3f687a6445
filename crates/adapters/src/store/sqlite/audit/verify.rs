//! Verifying a log, and exporting it.
//!
//! Every record of every chain is sealed again and compared, in the order in which they were written;
//! then the ends of the chains, and what was told of them outside. The first record that is not what was
//! written is named. Nothing is locked and nothing is changed, so this may be done beside a server.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    path::{Path, PathBuf},
};

use bosun_core::{
    Timestamp,
    audit::{Action, Record},
};
use rusqlite::{Connection, Transaction, params};

use super::{
    super::inspect::{self, StoreFault},
    Audit,
    chain::{Chain, Mac, SEQ_BITS, beginning, link, rows},
    heads,
    key::{AuditKey, AuditKeys, KeyError, KeyId, to_hex},
    write::key_id,
};

/// What was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    pub namespaces: u64,
    pub records: u64,
    /// Ends that were told outside and are in the log.
    pub heads: u64,
    /// What is wrong, at most one fault for each chain and each end.
    pub faults: Vec<AuditFault>,
}

/// Where a log is not what was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuditFault {
    #[error("namespace `{namespace}`: record {seq} is not what was written, or one before it is missing or moved")]
    Changed { namespace: String, seq: u64 },
    #[error("namespace `{namespace}`: record {seq} is missing")]
    Missing { namespace: String, seq: u64 },
    #[error("namespace `{namespace}`: record {seq} stands behind the end of the log")]
    Added { namespace: String, seq: u64 },
    #[error("namespace `{namespace}`: the end of the log, record {seq}, is not sealed as it should be")]
    End { namespace: String, seq: u64 },
    #[error("namespace `{namespace}`: a server found at record {seq} that the log had been changed")]
    Found { namespace: String, seq: u64 },
    #[error("namespace `{namespace}`: record {seq} was exported as the end of the log and is not in it")]
    Head { namespace: String, seq: u64 },
    #[error("record {seq} belongs to no chain (row {row})")]
    Stray { row: i64, seq: u64 },
    #[error("namespace `{namespace}`: record {seq} is sealed with key {id}, which is not in the file of keys")]
    Key { namespace: String, seq: u64, id: KeyId },
}

/// Why nothing could be verified.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    #[error(transparent)]
    Store(StoreFault),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("the exported ends in `{}` cannot be read", path.display())]
    Heads {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the log cannot be read")]
    Database(#[from] rusqlite::Error),
    #[error("the export cannot be written")]
    Write(#[from] io::Error),
}

/// Verifies the log of the store in `dir`.
///
/// # Errors
/// If it cannot be read; what is wrong with it is no error but the answer.
pub fn verify(dir: &Path, audit: &Audit) -> Result<Verified, VerifyError> {
    let mut connection = inspect::snapshot(dir).map_err(VerifyError::Store)?;
    let snapshot = connection.transaction()?;
    let heads_file = audit.heads_file(dir);
    let heads = heads::read(&heads_file).map_err(|source| VerifyError::Heads { path: heads_file, source })?;
    let chains = chains(&snapshot)?;
    let mut verified = Verified::default();
    if chains.is_empty() && heads.is_empty() {
        verified.faults.extend(stray(&snapshot)?);
        return Ok(verified);
    }
    let keys = AuditKeys::load(&audit.key_file(dir))?;
    let mut macs: BTreeMap<(String, u64), Mac> = BTreeMap::new();
    let told: BTreeMap<(&str, u64), ()> = heads.iter().map(|head| ((head.namespace.as_str(), head.seq), ())).collect();
    let mut broken = Vec::new();
    for (namespace, chain, seal) in &chains {
        verified.namespaces += 1;
        let mut keep = |seq, mac| {
            if told.contains_key(&(namespace.as_str(), seq)) {
                macs.insert((namespace.clone(), seq), mac);
            }
        };
        let fault = verify_chain(&snapshot, &keys, namespace, chain, seal, &mut verified.records, &mut keep)?;
        broken.extend(fault.as_ref().map(|_| namespace.as_str()));
        verified.faults.extend(fault);
    }
    verified.faults.extend(stray(&snapshot)?);
    for head in &heads {
        let known = macs.get(&(head.namespace.clone(), head.seq)).copied();
        if known.is_some() && known == head.mac() {
            verified.heads += 1;
        } else if !broken.contains(&head.namespace.as_str()) {
            // Where a chain is broken, everything behind that is, and that was said.
            verified.faults.push(AuditFault::Head { namespace: head.namespace.clone(), seq: head.seq });
        }
    }
    Ok(verified)
}

fn chains(snapshot: &Transaction<'_>) -> rusqlite::Result<Vec<(String, Chain, Vec<u8>)>> {
    let mut statement = snapshot
        .prepare("SELECT namespace, id, first_key, key, seq, mac, seal FROM audit_chains ORDER BY namespace")?;
    let read = |row: &rusqlite::Row<'_>| {
        let mac: Vec<u8> = row.get(5)?;
        let chain = Chain {
            id: row.get(1)?,
            first_key: key_id(&row.get::<_, Vec<u8>>(2)?),
            key: key_id(&row.get::<_, Vec<u8>>(3)?),
            seq: row.get(4)?,
            mac: Mac::try_from(mac.as_slice()).unwrap_or_default(),
        };
        Ok((row.get(0)?, chain, row.get(6)?))
    };
    statement.query_map([], read)?.collect()
}

/// Walks along one chain; the first fault ends the walk, since everything behind it builds on it.
fn verify_chain(
    snapshot: &Connection,
    keys: &AuditKeys,
    namespace: &str,
    chain: &Chain,
    seal: &[u8],
    count: &mut u64,
    keep: &mut impl FnMut(u64, Mac),
) -> rusqlite::Result<Option<AuditFault>> {
    let at = |seq| (namespace.to_owned(), seq);
    let unknown = |seq, id| Some(AuditFault::Key { namespace: namespace.to_owned(), seq, id });
    let Some(mut key) = keys.get(chain.first_key) else { return Ok(unknown(1, chain.first_key)) };
    let (before, last) = rows(chain.id);
    let mut statement =
        snapshot.prepare_cached("SELECT key, body, mac FROM audit WHERE key > ?1 AND key <= ?2 ORDER BY key")?;
    let mut records = statement.query(params![before, last])?;
    let (mut seq, mut mac) = (0, beginning(namespace, key));
    while let Some(row) = records.next()? {
        let found = u64::try_from(row.get::<_, i64>(0)? & ((1 << SEQ_BITS) - 1)).unwrap_or_default();
        seq += 1;
        *count += 1;
        if found != seq {
            let (namespace, seq) = at(seq);
            return Ok(Some(AuditFault::Missing { namespace, seq }));
        }
        if seq > chain.seq {
            let (namespace, seq) = at(seq);
            return Ok(Some(AuditFault::Added { namespace, seq }));
        }
        let (body, stored) =
            (row.get_ref(1)?.as_str().unwrap_or_default(), row.get_ref(2)?.as_blob().unwrap_or_default());
        mac = link(key, &mac, seq, body);
        if mac != stored {
            let (namespace, seq) = at(seq);
            return Ok(Some(AuditFault::Changed { namespace, seq }));
        }
        keep(seq, mac);
        match about_itself(body) {
            None => {}
            Some((Action::AuditKeyRotated, detail)) => match next_key(keys, &detail) {
                Ok(next) => key = next,
                Err(id) => return Ok(unknown(seq + 1, id)),
            },
            Some(_) => {
                let (namespace, seq) = at(seq);
                return Ok(Some(AuditFault::Found { namespace, seq }));
            }
        }
    }
    if seq < chain.seq {
        let (namespace, seq) = at(seq + 1);
        return Ok(Some(AuditFault::Missing { namespace, seq }));
    }
    // Keys change with the next record; until there is one, the end is still under the old one.
    let is_sealed = keys.get(chain.key).is_some_and(|key| chain.mac == mac && chain.seal(namespace, key) == seal);
    let (namespace, seq) = at(seq);
    Ok((!is_sealed).then_some(AuditFault::End { namespace, seq }))
}

/// What a record says of the log itself; nearly all say nothing, and are not parsed to find that out.
fn about_itself(body: &str) -> Option<(Action, String)> {
    if !body.contains("\"action\":\"audit.") {
        return None;
    }
    let record: Record = serde_json::from_str(body).ok()?;
    matches!(record.action, Action::AuditKeyRotated | Action::AuditBroken)
        .then(|| (record.action, record.detail.unwrap_or_default()))
}

fn next_key<'a>(keys: &'a AuditKeys, detail: &str) -> Result<&'a AuditKey, KeyId> {
    let id = detail.parse().unwrap_or(KeyId([0; 8]));
    keys.get(id).ok_or(id)
}

/// A record of a chain that is not there.
fn stray(snapshot: &Transaction<'_>) -> rusqlite::Result<Option<AuditFault>> {
    let mut statement = snapshot.prepare(
        "SELECT key FROM audit WHERE NOT EXISTS (SELECT 1 FROM audit_chains WHERE id = audit.key >> 40)
         ORDER BY key LIMIT 1",
    )?;
    let mut found = statement.query([])?;
    let Some(row) = found.next()? else { return Ok(None) };
    let key: i64 = row.get(0)?;
    Ok(Some(AuditFault::Stray { row: key, seq: u64::try_from(key & ((1 << SEQ_BITS) - 1)).unwrap_or_default() }))
}

/// Writes all records as lines of JSON, oldest first, one namespace after the other; of one, if it is named.
///
/// # Errors
/// If the log cannot be read or the lines cannot be written.
pub fn export(dir: &Path, namespace: Option<&str>, to: &mut impl Write) -> Result<u64, VerifyError> {
    let mut connection = inspect::snapshot(dir).map_err(VerifyError::Store)?;
    let snapshot = connection.transaction()?;
    let mut count = 0;
    for (name, chain, _) in chains(&snapshot)? {
        if namespace.is_some_and(|wanted| wanted != name) {
            continue;
        }
        let (before, last) = rows(chain.id);
        let mut statement =
            snapshot.prepare_cached("SELECT key, body, mac FROM audit WHERE key > ?1 AND key <= ?2 ORDER BY key")?;
        let mut records = statement.query(params![before, last])?;
        while let Some(row) = records.next()? {
            let seq = row.get::<_, i64>(0)? & ((1 << SEQ_BITS) - 1);
            let body = row.get_ref(1)?.as_str().unwrap_or_default();
            let time =
                serde_json::from_str::<Moment>(body).map_or_else(|_| String::new(), |moment| moment.at.to_rfc3339());
            let mac = to_hex(row.get_ref(2)?.as_blob().unwrap_or_default());
            // The record stands there as it was sealed, to the byte.
            writeln!(to, r#"{{"namespace":"{name}","seq":{seq},"time":"{time}","mac":"{mac}","record":{body}}}"#)?;
            count += 1;
        }
    }
    Ok(count)
}

#[derive(serde::Deserialize)]
struct Moment {
    at: Timestamp,
}
