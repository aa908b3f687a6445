//! The audit log in the store's file: a chain of sealed records for each namespace, and usage counters.
//!
//! Records are written by the store's one writer, in the transaction of the changes that they describe. Each is sealed
//! together with the one before it under a key that is stored next to the database or elsewhere, so verification finds
//! a changed, missing, added or moved record. The heads of the chains are exported periodically: an operator who keeps
//! them in another place also finds that a whole log was replaced by an earlier one. None of this protects against an
//! attacker who has the key. Records past their retention are deleted from the beginning, block by block, and the new
//! beginning of a log is sealed as its end is.

mod blocks;
mod chain;
mod chain_verifier;
mod export;
mod head_export;
mod key;
mod maintenance;
mod read;
pub mod spool;
#[cfg(test)]
mod tests;
mod verify;
mod write;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

#[cfg(test)]
pub(super) use self::{
    blocks::FIND as FIND_BLOCK,
    read::{CALLS, QUERIES, SCAN},
};
pub(super) use self::{
    blocks::{AuditBlock, BLOCK},
    chain::{chain_of, number as number_of},
    head_export::{HeadExporter, Heads},
    maintenance::{Maintenance, next_maintenance},
    read::{search, usage},
    write::{AuditChanges, AuditWriter, CheckError, EncodedRecords, RecordWriter, check_keys, has_records},
};
pub use self::{
    export::{Exported, export, verify_file},
    head_export::HEADS_FILE,
    key::{AuditKeys, KEY_FILE, KeyError, KeyId, rotate},
    verify::{AuditFault, Verified, VerifyError, verify},
};

/// How a store keeps its audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audit {
    /// Whether it is enabled. Usage is counted in any case.
    pub on: bool,
    /// The file of its keys, if it is not next to the database.
    pub key_file: Option<PathBuf>,
    /// The file that heads of chains are exported to, if it is not next to the database.
    pub heads_file: Option<PathBuf>,
    /// How long records are kept, if not forever.
    pub retention: Option<Duration>,
}

impl Default for Audit {
    fn default() -> Self {
        Self { on: true, key_file: None, heads_file: None, retention: None }
    }
}

impl Audit {
    /// The key file of the store in `dir`.
    #[must_use]
    pub fn key_file(&self, dir: &Path) -> PathBuf {
        self.key_file.clone().unwrap_or_else(|| dir.join(KEY_FILE))
    }

    /// The file of exported heads of the store in `dir`.
    #[must_use]
    pub fn heads_file(&self, dir: &Path) -> PathBuf {
        self.heads_file.clone().unwrap_or_else(|| dir.join(HEADS_FILE))
    }
}
