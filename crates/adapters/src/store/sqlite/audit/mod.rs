//! The audit log in the store's file: a chain of sealed records for each namespace, and counts of usage.
//!
//! Records are written by the store's one writer, in the transaction of what they are about. Each is
//! sealed together with the one before it under a key that lies beside the database or elsewhere, so a
//! changed, missing, added or moved record shows when the log is verified. Ends of chains are exported
//! now and then: whoever keeps those in another place also sees that a whole log was replaced by an
//! earlier one. Against whoever has the key, none of this helps. What is older than an operator wants is let go
//! from the beginning, block by block, and where a log begins then is sealed as its end is.

pub mod acts;
mod blocks;
mod chain;
mod export;
mod heads;
mod key;
mod read;
mod tend;
#[cfg(test)]
mod tests;
mod verify;
mod walk;
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
    blocks::{BLOCK, Block},
    chain::{chain_of, number as number_of},
    heads::{Exporter, Heads},
    read::{search, usage},
    tend::{Chore, next_chore},
    write::{Book, CheckError, Lines, Pages, Pen, check_keys, has_records},
};
pub use self::{
    export::{Exported, export, verify_file},
    heads::HEADS_FILE,
    key::{AuditKeys, KEY_FILE, KeyError, KeyId, rotate},
    verify::{AuditFault, Verified, VerifyError, verify},
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
    /// How long records are kept, if not for ever.
    pub retention: Option<Duration>,
}

impl Default for Audit {
    fn default() -> Self {
        Self { on: true, key_file: None, heads_file: None, retention: None }
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
