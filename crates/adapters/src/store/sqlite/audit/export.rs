//! Export of the audit log as JSON lines, and verification of an export without its store.
//!
//! Each namespace has one line for its chain, with the seals of its beginning and its end, followed by its records,
//! each byte for byte as it was sealed. The last line holds the totals and is sealed too, so that a namespace cannot be
//! left out. With the key, the file alone is sufficient for verification: every line is serialized again from what was
//! parsed, and must be the same.

use std::{
    fs::File,
    io::{BufRead, BufReader, Write},
    path::Path,
};

use bosun_core::{Timestamp, hex};
use rusqlite::params;
use serde::{Deserialize, Serialize};

use super::{
    super::inspect,
    chain::{self, Chain, Mac, rows},
    chain_verifier::{ChainVerifier, RECORDS},
    key::{AuditKey, AuditKeys, KeyId},
    verify::{AuditFault, Verified, VerifyError, chains},
};

/// Totals of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exported {
    pub namespaces: u64,
    pub records: u64,
    /// Whether the last line is sealed, so that a missing namespace is found.
    pub is_sealed: bool,
}

/// The line before the records of a namespace.
#[derive(Serialize, Deserialize)]
struct ChainLine {
    namespace: String,
    chain: Ends,
}

#[derive(PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Ends {
    first_key: String,
    key: String,
    /// Its older name is part of the format.
    #[serde(rename = "letGo")]
    pruned: u64,
    #[serde(rename = "letGoMac")]
    pruned_mac: String,
    seq: u64,
    mac: String,
    seal: String,
}

/// The part of a line before its record, which follows as it was sealed.
#[derive(Deserialize)]
struct BeforeRecord {
    namespace: String,
    seq: u64,
    mac: String,
}

/// The last line.
#[derive(Serialize, Deserialize)]
struct LastLine {
    export: Total,
}

#[derive(Serialize, Deserialize)]
struct Total {
    namespaces: u64,
    records: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seal: Option<String>,
}

const RECORD: &str = ",\"record\":";

fn record_line(namespace: &str, seq: u64, mac: &[u8], body: &str) -> String {
    let time = serde_json::from_str::<RecordTime>(body).map_or_else(|_| String::new(), |moment| moment.at.to_rfc3339());
    let mac = hex::encode(mac);
    format!(r#"{{"namespace":"{namespace}","seq":{seq},"time":"{time}","mac":"{mac}"{RECORD}{body}}}"#)
}

#[derive(Deserialize)]
struct RecordTime {
    at: Timestamp,
}

/// The seal of the last line: the totals, and the seals of all chains in order.
fn seal_of_all(key: &AuditKey, namespaces: u64, records: u64, seals: &[u8]) -> Mac {
    key.seal(&[b"bosun.audit.export\0", &namespaces.to_be_bytes(), &records.to_be_bytes(), seals])
}

/// Writes all records as JSON lines, oldest first, one namespace after the other, or only those of `namespace`.
///
/// # Errors
/// If the log cannot be read or the lines cannot be written.
pub fn export(
    dir: &Path,
    keys: Option<&AuditKeys>,
    namespace: Option<&str>,
    to: &mut impl Write,
) -> Result<Exported, VerifyError> {
    let mut connection = inspect::snapshot(dir).map_err(VerifyError::Store)?;
    let snapshot = connection.transaction()?;
    let (mut namespaces, mut records, mut seals) = (0, 0, Vec::new());
    for (name, chain, seal) in chains(&snapshot)? {
        if namespace.is_some_and(|wanted| wanted != name) {
            continue;
        }
        namespaces += 1;
        seals.extend_from_slice(&seal);
        let line = serde_json::to_string(&ChainLine { namespace: name.clone(), chain: Ends::of(&chain, &seal) });
        writeln!(to, "{}", line.map_err(std::io::Error::from)?)?;
        let mut statement = snapshot.prepare_cached(RECORDS)?;
        let (before, last) = rows(chain.id);
        let mut rows = statement.query(params![before, last])?;
        while let Some(row) = rows.next()? {
            let (body, mac) =
                (row.get_ref(1)?.as_str().unwrap_or_default(), row.get_ref(2)?.as_blob().unwrap_or_default());
            writeln!(to, "{}", record_line(&name, chain::number(row.get(0)?), mac, body))?;
            records += 1;
        }
    }
    let newest = keys.and_then(AuditKeys::newest);
    let seal = newest.map(|key| hex::encode(&seal_of_all(key, namespaces, records, &seals)));
    let export = Total { namespaces, records, key: newest.map(|key| key.id.to_string()), seal };
    writeln!(to, "{}", serde_json::to_string(&LastLine { export }).map_err(std::io::Error::from)?)?;
    Ok(Exported { namespaces, records, is_sealed: newest.is_some() })
}

/// Verifies a file that [`export`] has written.
///
/// # Errors
/// If it cannot be read; faults in it are part of the result, not an error.
pub fn verify_file(path: &Path, keys: &AuditKeys) -> Result<Verified, VerifyError> {
    let unreadable = |source| VerifyError::File { path: path.into(), source };
    let mut lines = BufReader::new(File::open(path).map_err(unreadable)?);
    let mut reading = ExportReading::new(keys);
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        if lines.read_until(b'\n', &mut bytes).map_err(unreadable)? == 0 {
            break;
        }
        if let Err(fault) = reading.take(&bytes) {
            reading.verified.faults.push(fault);
            return Ok(reading.verified);
        }
    }
    if !reading.is_over {
        reading.verified.faults.push(AuditFault::Export);
    }
    Ok(reading.verified)
}

/// A file that is being verified.
struct ExportReading<'k> {
    keys: &'k AuditKeys,
    /// The current namespace, and the seal of its chain.
    verifier: Option<(String, ChainVerifier<'k>, Vec<u8>)>,
    seals: Vec<u8>,
    line: u64,
    is_over: bool,
    verified: Verified,
}

impl<'k> ExportReading<'k> {
    fn new(keys: &'k AuditKeys) -> Self {
        Self { keys, verifier: None, seals: Vec::new(), line: 0, is_over: false, verified: Verified::default() }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), AuditFault> {
        self.line += 1;
        let changed = AuditFault::Line { line: self.line };
        if self.is_over {
            return Err(AuditFault::Export);
        }
        let text = bytes.strip_suffix(b"\n").and_then(|line| str::from_utf8(line).ok()).ok_or(changed.clone())?;
        if text.starts_with(r#"{"export":"#) {
            let last: LastLine = same_again(text).ok_or(changed)?;
            return self.end(&last.export);
        }
        if let Some((before, rest)) = text.split_once(RECORD) {
            let before: BeforeRecord = serde_json::from_str(&format!("{before}}}")).map_err(|_| changed.clone())?;
            let body = rest.strip_suffix('}').ok_or(changed.clone())?;
            let mac = hex::decode(&before.mac).ok_or(changed.clone())?;
            let walking = self.verifier.as_mut().filter(|(namespace, _, _)| *namespace == before.namespace);
            let (namespace, verifier, _) = walking.ok_or(changed.clone())?;
            self.verified.records += 1;
            verifier.verify_next(before.seq, body, &mac)?;
            return if record_line(namespace, before.seq, &mac, body) == text { Ok(()) } else { Err(changed) };
        }
        let ChainLine { namespace, chain } = same_again(text).ok_or(changed.clone())?;
        self.end_chain()?;
        let (chain, seal) = chain.read().ok_or(changed)?;
        self.verified.namespaces += 1;
        self.seals.extend_from_slice(&seal);
        self.verifier = Some((namespace.clone(), ChainVerifier::begin(self.keys, &namespace, &chain)?, seal));
        Ok(())
    }

    fn end_chain(&mut self) -> Result<(), AuditFault> {
        match self.verifier.take() {
            Some((_, verifier, seal)) => verifier.end(&seal),
            None => Ok(()),
        }
    }

    fn end(&mut self, total: &Total) -> Result<(), AuditFault> {
        self.end_chain()?;
        self.is_over = true;
        let Verified { namespaces, records, .. } = self.verified;
        if (total.namespaces, total.records) != (namespaces, records) {
            return Err(AuditFault::Export);
        }
        let (Some(id), Some(seal)) = (&total.key, &total.seal) else { return Err(AuditFault::Unsealed) };
        let key = id.parse::<KeyId>().ok().and_then(|id| self.keys.get(id)).ok_or(AuditFault::Export)?;
        let is_sealed = *seal == hex::encode(&seal_of_all(key, namespaces, records, &self.seals));
        if is_sealed && *id == key.id.to_string() { Ok(()) } else { Err(AuditFault::Export) }
    }
}

impl Ends {
    fn of(chain: &Chain, seal: &[u8]) -> Self {
        Self {
            first_key: chain.first_key.to_string(),
            key: chain.key.to_string(),
            pruned: chain.pruned,
            pruned_mac: hex::encode(&chain.pruned_mac),
            seq: chain.seq,
            mac: hex::encode(&chain.mac),
            seal: hex::encode(seal),
        }
    }

    fn read(&self) -> Option<(Chain, Vec<u8>)> {
        let mac = |text: &str| Mac::try_from(hex::decode(text)?.as_slice()).ok();
        let chain = Chain {
            id: 0,
            first_key: self.first_key.parse().ok()?,
            key: self.key.parse().ok()?,
            seq: self.seq,
            mac: mac(&self.mac)?,
            pruned: self.pruned,
            pruned_mac: mac(&self.pruned_mac)?,
        };
        let seal = hex::decode(&self.seal)?.to_vec();
        // Where nothing was deleted the seal does not cover `pruned_mac`, which must then be zero.
        let is_whole = chain.pruned > 0 || chain.pruned_mac == Mac::default();
        // A hexadecimal number has several spellings, and only one of them was written.
        (is_whole && *self == Self::of(&chain, &seal)).then_some((chain, seal))
    }
}

/// Parses a line and requires that it serializes to the same text.
fn same_again<T: Serialize + for<'de> Deserialize<'de>>(text: &str) -> Option<T> {
    let read: T = serde_json::from_str(text).ok()?;
    (serde_json::to_string(&read).ok()? == text).then_some(read)
}
