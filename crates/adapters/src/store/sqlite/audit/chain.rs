//! The chain of one namespace's records: `mac = HMAC(key, mac of the one before ‖ number ‖ record)`.
//!
//! The first record builds on a seal of the namespace's name, so a chain cannot be passed off as another's. The end of
//! a chain is sealed too. None of this hides anything; it only shows whether what is stored is what was written.

use super::key::{AuditKey, KeyId};

pub(super) type Mac = [u8; 32];

/// The number of low bits of a row's key that hold the record's sequence number; the others hold its chain.
pub(super) const SEQ_BITS: u32 = 40;

/// The end of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    pub(super) id: i64,
    pub(super) first_key: KeyId,
    pub(super) key: KeyId,
    pub(super) seq: u64,
    pub(super) mac: Mac,
    /// The number of records that were deleted from its beginning, and the seal of the last of them: the columns
    /// `let_go` and `let_go_mac`.
    pub(super) pruned: u64,
    pub(super) pruned_mac: Mac,
}

impl Chain {
    /// A chain without any record.
    pub(super) fn begin(id: i64, namespace: &str, key: &AuditKey) -> Self {
        Self {
            id,
            first_key: key.id,
            key: key.id,
            seq: 0,
            mac: beginning(namespace, key),
            pruned: 0,
            pruned_mac: [0; 32],
        }
    }

    /// Adds a record, and returns its key in the table.
    pub(super) fn push(&mut self, key: &AuditKey, body: &str) -> i64 {
        self.seq += 1;
        self.key = key.id;
        self.mac = link(key, &self.mac, self.seq, body);
        row(self.id, self.seq)
    }

    /// The seal of its end, and of its beginning if that is not its first record.
    pub(super) fn seal(&self, namespace: &str, key: &AuditKey) -> Mac {
        let (seq, pruned) = (self.seq.to_be_bytes(), self.pruned.to_be_bytes());
        let of_end: [&[u8]; 5] = [namespace.as_bytes(), b"\0", &self.first_key.0, &seq, &self.mac];
        let [name, zero, first_key, seq, mac] = of_end;
        if self.pruned == 0 {
            return key.seal(&[b"bosun.audit.end\0", name, zero, first_key, seq, mac]);
        }
        key.seal(&[b"bosun.audit.end.2\0", name, zero, first_key, seq, mac, &pruned, &self.pruned_mac])
    }

    /// What its first record builds on, under the key that sealed it.
    pub(super) fn base(&self, namespace: &str, first: &AuditKey) -> Mac {
        if self.pruned == 0 { beginning(namespace, first) } else { self.pruned_mac }
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

/// The columns of a chain, as [`read`] expects them.
pub(super) const COLUMNS: &str = "namespace, id, first_key, key, seq, mac, let_go, let_go_mac, seal";

/// The namespace, the chain, and its seal. A row that was changed by hand may hold anything; then its seal does not
/// match.
pub(super) fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<(String, Chain, Vec<u8>)> {
    let mac = |index| Ok::<_, rusqlite::Error>(Mac::try_from(row.get_ref(index)?.as_blob()?).unwrap_or_default());
    let key_id = |index| Ok::<_, rusqlite::Error>(KeyId(row.get_ref(index)?.as_blob()?.try_into().unwrap_or_default()));
    let chain = Chain {
        id: row.get(1)?,
        first_key: key_id(2)?,
        key: key_id(3)?,
        seq: row.get(4)?,
        mac: mac(5)?,
        pruned: row.get(6)?,
        pruned_mac: mac(7)?,
    };
    Ok((row.get(0)?, chain, row.get(8)?))
}

/// The chain of a record, by its row.
pub(in super::super) fn chain_of(row: i64) -> i64 {
    row >> SEQ_BITS
}

/// The sequence number of a record, by its row.
pub(in super::super) fn number(row: i64) -> u64 {
    u64::try_from(row & ((1 << SEQ_BITS) - 1)).unwrap_or_default()
}

pub(super) fn row(chain: i64, seq: u64) -> i64 {
    chain << SEQ_BITS | i64::try_from(seq).unwrap_or(i64::MAX)
}

/// The rows of a chain: after the first, up to and including the second.
pub(super) fn rows(chain: i64) -> (i64, i64) {
    (chain << SEQ_BITS, ((chain + 1) << SEQ_BITS) - 1)
}
