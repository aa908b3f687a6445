//! Checkpoints of the WAL, without making commits wait for them.
//!
//! A thread of its own copies most of the WAL into the database while the writer continues; the WAL can restart only when
//! all of it has been copied, so the writer copies the rest that was appended meanwhile. The WAL therefore stays near
//! [`LONG`] pages under any load, and no commit waits for more than that last part.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
};

use rusqlite::{Connection, ErrorCode, MAIN_DB, wal::CheckpointMode};

use super::connection::Connector;

/// The length of the WAL, in pages, at which it is checkpointed: 16 MiB.
const LONG: i64 = 4_096;
/// How much longer it may grow before the next attempt, if a reader blocked the last one.
const LONGER: i64 = LONG / 4;
/// At most this many pages are left for the writer to copy.
const SHORT: i64 = 256;
/// How often the thread tries to get that close while the writer continues appending.
const ROUNDS: u32 = 4;

const MEASURE: CheckpointMode = CheckpointMode::NOOP;
/// Copies what it can without blocking readers or the writer.
const COPY: CheckpointMode = CheckpointMode::PASSIVE;

/// The checkpoint thread and its trigger. Dropping it waits for the current copy.
#[derive(Debug)]
pub(super) struct Checkpoints {
    trigger: Option<mpsc::SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    /// The thread has copied what it could; the rest is for the writer.
    rest_is_short: Arc<AtomicBool>,
    /// The length in pages at which the thread is triggered.
    enough: i64,
}

/// The length of the WAL and how much of it has been copied, in pages.
struct WriteAheadLog {
    pages: i64,
    copied: i64,
}

impl Checkpoints {
    pub(super) fn start(connector: Connector) -> std::io::Result<Self> {
        let rest_is_short = Arc::new(AtomicBool::new(false));
        let (trigger, triggered) = mpsc::sync_channel(1);
        let done = Arc::clone(&rest_is_short);
        let thread = thread::Builder::new().name("bosun-checkpoint".into()).spawn(move || {
            let mut connection = None;
            for () in triggered {
                match copy_most(&connector, &mut connection) {
                    Ok(()) => done.store(true, Ordering::Release),
                    Err(error) => {
                        connection = None;
                        tracing::warn!(error = %error, "the store's log cannot be checkpointed");
                    }
                }
            }
        })?;
        Ok(Self { trigger: Some(trigger), thread: Some(thread), rest_is_short, enough: LONG })
    }

    /// Called by the writer between commits.
    pub(super) fn run(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        if self.rest_is_short.swap(false, Ordering::Acquire) {
            let log = run(connection, COPY)?;
            // When all of it has been copied, the next commit restarts the WAL.
            self.enough = if log.copied == log.pages { LONG } else { log.pages + LONGER };
        } else if run(connection, MEASURE)?.pages >= self.enough
            && let Some(trigger) = &self.trigger
        {
            // A pending trigger need not be repeated.
            let _ = trigger.try_send(());
        }
        Ok(())
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.trigger = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the store's checkpoint thread crashed");
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

/// Not by the pragma: SQLite would prepare that statement each time.
fn run(connection: &Connection, checkpoint: CheckpointMode) -> rusqlite::Result<WriteAheadLog> {
    match connection.wal_checkpoint_v2(Some(MAIN_DB), checkpoint) {
        Ok((pages, copied)) => Ok(WriteAheadLog { pages: pages.into(), copied: copied.into() }),
        // Another checkpoint is running, and nothing is known of the WAL until it has ended.
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
            Ok(WriteAheadLog { pages: -1, copied: -1 })
        }
        Err(error) => Err(error),
    }
}
