//! Shared by the proofs: the real server as a process, a client that survives it, and an oracle.
//!
//! The proofs use the program only from outside: its command line, its HTTP API, and, after it has stopped, its files.
//! Every wait has a timeout, and every random choice comes from a printed seed, so that a failed run can be repeated.

pub(crate) mod behaviour;
pub(crate) mod client;
pub(crate) mod disk;
pub(crate) mod killer;
pub(crate) mod oracle;
pub(crate) mod proof;
pub(crate) mod rng;
pub(crate) mod scenarios;
pub(crate) mod server;
pub(crate) mod sse;
pub(crate) mod volume;
pub(crate) mod workload;

use std::time::Duration;

/// Longer than anything here takes on a busy machine; what takes longer is stuck.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for `what`, and names it on a timeout.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what} did not happen within {PATIENCE:?}"),
    }
}

/// Polls until `condition` holds: another process does not notify this one.
pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let looking = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    soon(what, looking).await;
}
