//! Verification of an audit log.
//!
//! Every record of every chain is sealed again and compared, in the order in which they were written; then the ends of
//! the chains, and their exported heads. The first record of a chain that is not what was written is reported. Nothing
//! is locked and nothing is changed, so this may run next to a server.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use rusqlite::{Connection, Transaction, params};

use super::{
    super::inspect::{self, StoreFault},
    Audit,
    chain::{self, Chain, Mac, rows},
    chain_verifier::{ChainVerifier, RECORDS},
    head_export,
    key::{AuditKeys, KeyError, KeyId},
};

/// The result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    pub namespaces: u64,
    pub records: u64,
    /// Exported heads that are in the log.
    pub heads: u64,
    /// The faults, at most one for each chain and each head.
    pub faults: Vec<AuditFault>,
}

/// How a log differs from what was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuditFault {
    #[error("namespace `{namespace}`: record {seq} is not what was written, or one before it is missing or moved")]
    Changed { namespace: String, seq: u64 },
    #[error("namespace `{namespace}`: record {seq} is missing")]
    Missing { namespace: String, seq: u64 },
    #[error("namespace `{namespace}`: record {seq} is behind the end of the log")]
    Added { namespace: String, seq: u64 },
    #[error("namespace `{namespace}`: the end of the log, record {seq}, does not match its seal")]
    End { namespace: String, seq: u64 },
    #[error("namespace `{namespace}`: a server found at record {seq} that the log had been changed")]
    Found { namespace: String, seq: u64 },
    #[error("namespace `{namespace}`: record {seq} was exported as the head of the log and is not in it")]
    Head { namespace: String, seq: u64 },
    #[error("record {seq} belongs to no chain (row {row})")]
    Stray { row: i64, seq: u64 },
    #[error("namespace `{namespace}`: record {seq} is sealed with key {id}, which is not in the key file")]
    Key { namespace: String, seq: u64, id: KeyId },
    #[error("line {line} of the export is not what was written")]
    Line { line: u64 },
    #[error("the export is cut off, has something behind its end, or lacks a namespace")]
    Export,
    #[error(
        "the end of the export is not sealed, since it was written without the key: whole namespaces may be missing"
    )]
    Unsealed,
}

/// Why nothing could be verified.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    #[error(transparent)]
    Store(StoreFault),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("the exported heads in `{}` cannot be read", path.display())]
    Heads {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the log cannot be read")]
    Database(#[from] rusqlite::Error),
    #[error("the export cannot be written")]
    Write(#[from] io::Error),
    #[error("the export in `{}` cannot be read", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Verifies the log of the store in `dir`.
///
/// # Errors
/// If it cannot be read; faults in it are part of the result, not an error.
pub fn verify(dir: &Path, audit: &Audit) -> Result<Verified, VerifyError> {
    let mut connection = inspect::snapshot(dir).map_err(VerifyError::Store)?;
    let snapshot = connection.transaction()?;
    let heads_file = audit.heads_file(dir);
    let heads = head_export::read(&heads_file).map_err(|source| VerifyError::Heads { path: heads_file, source })?;
    let chains = chains(&snapshot)?;
    let mut verified = Verified::default();
    if chains.is_empty() && heads.is_empty() {
        verified.faults.extend(stray(&snapshot)?);
        return Ok(verified);
    }
    let keys = AuditKeys::load(&audit.key_file(dir))?;
    let mut macs: BTreeMap<(String, u64), Mac> = BTreeMap::new();
    let exported: BTreeMap<(&str, u64), ()> =
        heads.iter().map(|head| ((head.namespace.as_str(), head.seq), ())).collect();
    let mut broken = Vec::new();
    for (namespace, chain, seal) in &chains {
        verified.namespaces += 1;
        let mut keep = |seq, mac| {
            if exported.contains_key(&(namespace.as_str(), seq)) {
                macs.insert((namespace.clone(), seq), mac);
            }
        };
        let fault = verify_chain(&snapshot, &keys, namespace, chain, seal, &mut verified.records, &mut keep)?;
        broken.extend(fault.as_ref().map(|_| namespace.as_str()));
        verified.faults.extend(fault);
    }
    verified.faults.extend(stray(&snapshot)?);
    let pruned: BTreeMap<_, _> =
        chains.iter().map(|(namespace, chain, _)| (namespace.as_str(), chain.pruned)).collect();
    for head in &heads {
        // Heads of deleted records cannot be compared any more.
        if pruned.get(head.namespace.as_str()).is_some_and(|pruned| head.seq < *pruned) {
            continue;
        }
        let known = macs.get(&(head.namespace.clone(), head.seq)).copied();
        if known.is_some() && known == head.mac() {
            verified.heads += 1;
        } else if !broken.contains(&head.namespace.as_str()) {
            // Where a chain is broken, everything after that is too, and it has been reported.
            verified.faults.push(AuditFault::Head { namespace: head.namespace.clone(), seq: head.seq });
        }
    }
    Ok(verified)
}

pub(super) fn chains(snapshot: &Transaction<'_>) -> rusqlite::Result<Vec<(String, Chain, Vec<u8>)>> {
    let sql = format!("SELECT {} FROM audit_chains ORDER BY namespace", chain::COLUMNS);
    snapshot.prepare(&sql)?.query_map([], chain::read)?.collect()
}

/// Verifies one chain up to its end.
fn verify_chain(
    snapshot: &Connection,
    keys: &AuditKeys,
    namespace: &str,
    chain: &Chain,
    seal: &[u8],
    count: &mut u64,
    keep: &mut impl FnMut(u64, Mac),
) -> rusqlite::Result<Option<AuditFault>> {
    let mut verifier = match ChainVerifier::begin(keys, namespace, chain) {
        Ok(verifier) => verifier,
        Err(fault) => return Ok(Some(fault)),
    };
    if chain.pruned > 0 {
        keep(chain.pruned, chain.pruned_mac);
    }
    let (before, last) = rows(chain.id);
    let mut statement = snapshot.prepare_cached(RECORDS)?;
    let mut records = statement.query(params![before, last])?;
    while let Some(row) = records.next()? {
        let seq = chain::number(row.get(0)?);
        let body = row.get_ref(1)?.as_str().unwrap_or_default();
        *count += 1;
        match verifier.verify_next(seq, body, row.get_ref(2)?.as_blob().unwrap_or_default()) {
            Ok(mac) => keep(seq, mac),
            Err(fault) => return Ok(Some(fault)),
        }
    }
    Ok(verifier.end(seal).err())
}

/// Finds a record whose chain does not exist.
fn stray(snapshot: &Transaction<'_>) -> rusqlite::Result<Option<AuditFault>> {
    let mut statement = snapshot.prepare(
        "SELECT key FROM audit WHERE NOT EXISTS (SELECT 1 FROM audit_chains WHERE id = audit.key >> 40)
         ORDER BY key LIMIT 1",
    )?;
    let mut found = statement.query([])?;
    let Some(row) = found.next()? else { return Ok(None) };
    let key: i64 = row.get(0)?;
    Ok(Some(AuditFault::Stray { row: key, seq: chain::number(key) }))
}
