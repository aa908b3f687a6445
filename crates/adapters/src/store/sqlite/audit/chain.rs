//! The chain of one namespace's records: `mac = HMAC(key, mac of the one before ‖ number ‖ record)`.
//!
//! The first record builds on a seal of the namespace's name, so a chain cannot be passed off as
//! another's. Where a chain ends is sealed too. None of this hides anything; it only shows whether what
//! is there is what was written.

use super::key::{AuditKey, KeyId};

pub(super) type Mac = [u8; 32];

/// How many bits of a row's key are the record's number; the others are its chain.
pub(super) const SEQ_BITS: u32 = 40;

/// Where a chain ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    pub(super) id: i64,
    pub(super) first_key: KeyId,
    pub(super) key: KeyId,
    pub(super) seq: u64,
    pub(super) mac: Mac,
}

impl Chain {
    /// A chain without any record.
    pub(super) fn begin(id: i64, namespace: &str, key: &AuditKey) -> Self {
        Self { id, first_key: key.id, key: key.id, seq: 0, mac: beginning(namespace, key) }
    }

    /// Adds a record, and says under which key of the table it is kept.
    pub(super) fn push(&mut self, key: &AuditKey, body: &str) -> i64 {
        self.seq += 1;
        self.key = key.id;
        self.mac = link(key, &self.mac, self.seq, body);
        row(self.id, self.seq)
    }

    /// The seal of where it ends.
    pub(super) fn seal(&self, namespace: &str, key: &AuditKey) -> Mac {
        key.seal(&[
            b"bosun.audit.end\0",
            namespace.as_bytes(),
            b"\0",
            &self.first_key.0,
            &self.seq.to_be_bytes(),
            &self.mac,
        ])
    }
}

/// What the first record of a namespace builds on.
pub(super) fn beginning(namespace: &str, key: &AuditKey) -> Mac {
    key.seal(&[b"bosun.audit.1\0", namespace.as_bytes()])
}

/// The seal of a record.
pub(super) fn link(key: &AuditKey, before: &Mac, seq: u64, body: &str) -> Mac {
    key.seal(&[before, &seq.to_be_bytes(), body.as_bytes()])
}

pub(super) fn row(chain: i64, seq: u64) -> i64 {
    chain << SEQ_BITS | i64::try_from(seq).unwrap_or(i64::MAX)
}

/// The rows of a chain: behind the first, up to the second.
pub(super) fn rows(chain: i64) -> (i64, i64) {
    (chain << SEQ_BITS, ((chain + 1) << SEQ_BITS) - 1)
}
