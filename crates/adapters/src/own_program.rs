//! The file of this very program, to start it again as another process.

use std::path::PathBuf;

/// The program as it was started, even if its file has been replaced meanwhile.
#[must_use]
pub fn own_program() -> PathBuf {
    let own = PathBuf::from("/proc/self/exe");
    if own.exists() { own } else { std::env::current_exe().unwrap_or_default() }
}
