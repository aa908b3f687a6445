//! Verification of a chain, record by record, in the order in which they were written.
//!
//! Each record is sealed again and compared. The first fault ends the verification, since every later record builds on
//! it. The records may come from a database or from an exported file.

use bosun_core::{
    Timestamp,
    audit::{Action, AuditRecord},
};
use rusqlite::Connection;

use super::{
    chain::{self, Chain, Mac, link},
    key::{AuditKey, AuditKeys, KeyId},
    verify::AuditFault,
};

pub(super) const RECORDS: &str = "SELECT key, body, mac FROM audit WHERE key > ?1 AND key <= ?2 ORDER BY key";

/// The state of the verification.
#[derive(Debug)]
pub(super) struct ChainVerifier<'k> {
    keys: &'k AuditKeys,
    namespace: String,
    chain: Chain,
    key: &'k AuditKey,
    /// The last verified record, and its seal.
    seq: u64,
    mac: Mac,
    at: Option<Timestamp>,
    pub(super) verified_records: u64,
}

impl<'k> ChainVerifier<'k> {
    /// Begins before the first record of a chain.
    pub(super) fn begin(keys: &'k AuditKeys, namespace: &str, chain: &Chain) -> Result<Self, AuditFault> {
        let Some(key) = keys.get(chain.first_key) else {
            let (namespace, seq) = (namespace.to_owned(), chain.pruned + 1);
            return Err(AuditFault::Key { namespace, seq, id: chain.first_key });
        };
        Ok(Self {
            keys,
            namespace: namespace.to_owned(),
            chain: chain.clone(),
            key,
            seq: chain.pruned,
            mac: chain.base(namespace, key),
            at: None,
            verified_records: 0,
        })
    }

    /// Verifies the record with the number `found`, and returns its seal.
    pub(super) fn verify_next(&mut self, found: u64, body: &str, stored: &[u8]) -> Result<Mac, AuditFault> {
        let namespace = || self.namespace.clone();
        self.seq += 1;
        self.verified_records += 1;
        let seq = self.seq;
        if found != seq {
            return Err(AuditFault::Missing { namespace: namespace(), seq });
        }
        if seq > self.chain.seq {
            return Err(AuditFault::Added { namespace: namespace(), seq });
        }
        self.mac = link(self.key, &self.mac, seq, body);
        if self.mac != stored {
            return Err(AuditFault::Changed { namespace: namespace(), seq });
        }
        match about_itself(body) {
            None => {}
            Some((Action::AuditKeyRotated, detail)) => {
                let id = detail.parse().unwrap_or(KeyId([0; 8]));
                let unknown = || AuditFault::Key { namespace: namespace(), seq: seq + 1, id };
                self.key = self.keys.get(id).ok_or_else(unknown)?;
            }
            Some(_) => return Err(AuditFault::Found { namespace: namespace(), seq }),
        }
        Ok(self.mac)
    }

    /// Verifies the records between two rows of a database.
    pub(super) fn verify_rows(
        mut self,
        connection: &Connection,
        after: i64,
        last: i64,
    ) -> rusqlite::Result<Result<Self, AuditFault>> {
        let mut statement = connection.prepare_cached(RECORDS)?;
        let mut records = statement.query([after, last])?;
        while let Some(row) = records.next()? {
            let body = row.get_ref(1)?.as_str().unwrap_or_default();
            let verified =
                self.verify_next(chain::number(row.get(0)?), body, row.get_ref(2)?.as_blob().unwrap_or_default());
            if let Err(fault) = verified {
                return Ok(Err(fault));
            }
            if row.get::<_, i64>(0)? == last {
                self.at = serde_json::from_str::<AuditRecord>(body).ok().map(|record| record.at);
            }
        }
        Ok(Ok(self))
    }

    /// If record `seq` is the last verified one: its seal, the key of the records after it, and its time.
    pub(super) fn ends_at(self, seq: u64) -> Result<(Mac, KeyId, Option<Timestamp>), AuditFault> {
        if self.seq == seq {
            return Ok((self.mac, self.key.id, self.at));
        }
        Err(AuditFault::Missing { namespace: self.namespace, seq: self.seq + 1 })
    }

    /// There are no more records: the chain must end here, under its seal.
    pub(super) fn end(self, seal: &[u8]) -> Result<(), AuditFault> {
        let (namespace, chain) = (self.namespace, self.chain);
        if self.seq < chain.seq {
            return Err(AuditFault::Missing { namespace, seq: self.seq + 1 });
        }
        // The key changes with the next record; until there is one, the end is still sealed with the old key.
        let key = self.keys.get(chain.key);
        if key.is_some_and(|key| chain.mac == self.mac && chain.seal(&namespace, key) == seal) {
            return Ok(());
        }
        Err(AuditFault::End { namespace, seq: self.seq })
    }
}

/// What a record says about the log itself; most records say nothing, and are not parsed to find that out.
fn about_itself(body: &str) -> Option<(Action, String)> {
    if !body.contains("\"action\":\"audit.") {
        return None;
    }
    let record: AuditRecord = serde_json::from_str(body).ok()?;
    matches!(record.action, Action::AuditKeyRotated | Action::AuditBroken)
        .then(|| (record.action, record.detail.unwrap_or_default()))
}
