//! The audit log in the store's file: a chain of sealed records for each namespace, and counts of usage.
//!
//! Records are written by the store's one writer, in the transaction of what they are about. Each is
//! sealed together with the one before it under a key that lies beside the database or elsewhere, so a
//! changed, missing, added or moved record shows when the log is verified. Ends of chains are exported
//! now and then: whoever keeps those in another place also sees that a whole log was replaced by an
//! earlier one. Against whoever has the key, none of this helps.

pub mod acts;
mod chain;
mod heads;
mod key;
mod read;
#[cfg(test)]
mod tests;
mod verify;
mod write;

use std::path::{Path, PathBuf};

#[cfg(test)]
pub(super) use self::read::{CALLS, QUERIES, SCAN};
pub use self::{
    heads::HEADS_FILE,
    key::{AuditKeys, KEY_FILE, KeyError, KeyId, rotate},
    verify::{AuditFault, Verified, VerifyError, export, verify},
};
pub(super) use self::{
    heads::{Exporter, Heads},
    read::{search, usage},
    write::{Book, CheckError, Lines, Pages, check_keys, has_records},
};

/// How a store keeps its audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audit {
    /// Whether there is one. Usage is counted all the same.
    pub on: bool,
    /// Where its keys lie, if not beside the database.
    pub key_file: Option<PathBuf>,
    /// Where the ends of chains are written to, if not beside the database.
    pub heads_file: Option<PathBuf>,
}

impl Default for Audit {
    fn default() -> Self {
        Self { on: true, key_file: None, heads_file: None }
    }
}

impl Audit {
    /// The file of its keys, for the store in `dir`.
    #[must_use]
    pub fn key_file(&self, dir: &Path) -> PathBuf {
        self.key_file.clone().unwrap_or_else(|| dir.join(KEY_FILE))
    }

    /// The file of exported ends, for the store in `dir`.
    #[must_use]
    pub fn heads_file(&self, dir: &Path) -> PathBuf {
        self.heads_file.clone().unwrap_or_else(|| dir.join(HEADS_FILE))
    }
}
