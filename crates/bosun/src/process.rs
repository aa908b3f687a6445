//! This process: its user, and the limits that are set before serving (file permissions, the number of open files).

use std::os::unix::fs::MetadataExt as _;

use rustix::{
    fs::Mode,
    process::{Resource, getrlimit, setrlimit, umask},
};

/// The maximum number of connections that are refused with an answer, in addition to those that are served.
const REFUSED: usize = 256;
/// Files for the store, its readers, drafts and blobs, the log and the runtime itself: a generous estimate.
const OTHERS: usize = 128;

/// Files and directories that the process creates from now on are accessible to its user only: journals, and keys that
/// clients have written into their models, are private.
pub(crate) fn keep_files_private() {
    umask(Mode::RWXG | Mode::RWXO);
}

/// The user of this process as an actor of audit records: an id, since names have to be looked up and can be changed.
pub(crate) fn user_id() -> Option<String> {
    std::fs::metadata("/proc/self").map(|process| format!("uid:{}", process.uid())).ok()
}

/// Raises the limit of open files to the hard limit; returns it, if there is one.
pub(crate) fn raise_file_limit() -> Option<usize> {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
        match setrlimit(Resource::Nofile, raised) {
            Ok(()) => limit = raised,
            Err(error) => tracing::warn!(error = %error, "the limit of open files cannot be raised"),
        }
    }
    limit.current.map(|files| usize::try_from(files).unwrap_or(usize::MAX))
}

/// How many of the `wanted` connections can be served with this limit of open files: each running query may need one
/// for its model, and the store must never lack one.
pub(crate) fn connections_within(files: Option<usize>, wanted: usize, max_running: usize) -> usize {
    let Some(files) = files else { return wanted };
    // If the limit is very low, a quarter is for connections, and as many may be refused at a time.
    let possible = files.saturating_sub(REFUSED + OTHERS + max_running).max(files / 4).max(1);
    if possible < wanted {
        tracing::warn!(
            files,
            connections = possible,
            "fewer connections are served than `max-connections` says: the limit of open files is too low"
        );
    }
    wanted.min(possible)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_everything_else() {
        for (files, wanted, max_running, expect) in [
            (None, 16_384, 256, 16_384),
            (Some(1_048_576), 16_384, 256, 16_384),
            (Some(1_024), 16_384, 256, 384),
            (Some(1_024), 100, 256, 100),
            (Some(256), 16_384, 256, 64),
            (Some(2), 16_384, 256, 1),
        ] {
            assert_eq!(connections_within(files, wanted, max_running), expect, "{files:?} {wanted} {max_running}");
        }
    }
}
