//! Writing the log back into the database, without making commits wait for it.
//!
//! A thread of its own copies most of the log while the writer goes on; the log can be begun anew
//! only when all of it has been copied, so the writer copies the little that came in meanwhile. The
//! log therefore stays near [`LONG`] pages under any load, and no commit waits for more than that
//! last piece.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
};

use rusqlite::{Connection, ErrorCode, MAIN_DB, wal::CheckpointMode};

use super::connect::Connector;

/// At how many pages the log is long enough to be written back: 16 MiB.
const LONG: i64 = 4_096;
/// How much longer it may get before the next attempt, if a reader held up the last one.
const LONGER: i64 = LONG / 4;
/// How many pages the writer may be asked to copy itself.
const SHORT: i64 = 256;
/// How often the thread tries to get that close while the writer runs ahead.
const ROUNDS: u32 = 4;

const MEASURE: CheckpointMode = CheckpointMode::NOOP;
/// Copies what it can without making anybody wait.
const COPY: CheckpointMode = CheckpointMode::PASSIVE;

/// The thread that copies, and its bell. Dropping it waits for the copy in hand.
#[derive(Debug)]
pub(super) struct Checkpoints {
    bell: Option<mpsc::SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    /// The thread has copied what it could; the rest is the writer's.
    rest_is_short: Arc<AtomicBool>,
    /// At how many pages the bell is rung.
    enough: i64,
}

/// How much of the log there is, and how much of it has been copied, in pages.
struct Log {
    pages: i64,
    copied: i64,
}

impl Checkpoints {
    pub(super) fn start(connector: Connector) -> std::io::Result<Self> {
        let rest_is_short = Arc::new(AtomicBool::new(false));
        let (bell, called) = mpsc::sync_channel(1);
        let done = Arc::clone(&rest_is_short);
        let thread = thread::Builder::new().name("bosun-checkpoint".into()).spawn(move || {
            let mut connection = None;
            for () in called {
                match copy_most(&connector, &mut connection) {
                    Ok(()) => done.store(true, Ordering::Release),
                    Err(error) => {
                        connection = None;
                        tracing::warn!(error = %error, "the store's log cannot be written back");
                    }
                }
            }
        })?;
        Ok(Self { bell: Some(bell), thread: Some(thread), rest_is_short, enough: LONG })
    }

    /// Called by the writer between commits.
    pub(super) fn tend(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        if self.rest_is_short.swap(false, Ordering::Acquire) {
            let log = run(connection, COPY)?;
            // When all of it is copied, the next commit begins it anew.
            self.enough = if log.copied == log.pages { LONG } else { log.pages + LONGER };
        } else if run(connection, MEASURE)?.pages >= self.enough
            && let Some(bell) = &self.bell
        {
            // A bell that has been rung need not be rung again.
            let _ = bell.try_send(());
        }
        Ok(())
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.bell = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that writes the store's log back crashed");
        }
    }
}

fn copy_most(connector: &Connector, connection: &mut Option<Connection>) -> rusqlite::Result<()> {
    let connection = match connection {
        Some(connection) => connection,
        None => connection.insert(connector.write()?),
    };
    for _ in 0..ROUNDS {
        let log = run(connection, COPY)?;
        if log.pages - log.copied <= SHORT {
            break;
        }
    }
    Ok(())
}

/// Not by the pragma: that is a statement which SQLite prepares anew each time it is run.
fn run(connection: &Connection, checkpoint: CheckpointMode) -> rusqlite::Result<Log> {
    match connection.wal_checkpoint_v2(Some(MAIN_DB), checkpoint) {
        Ok((pages, copied)) => Ok(Log { pages: pages.into(), copied: copied.into() }),
        // Another is at it, and nothing is known of the log until it has ended.
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => Ok(Log { pages: -1, copied: -1 }),
        Err(error) => Err(error),
    }
}
