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

use rusqlite::Connection;

use super::connect::Connector;

/// At how many pages the log is long enough to be written back: 16 MiB.
const LONG: i64 = 4_096;
/// How many pages the writer may be asked to copy itself.
const SHORT: i64 = 256;
/// How often the thread tries to get that close while the writer runs ahead.
const ROUNDS: u32 = 4;

/// The thread that copies, and its bell. Dropping it waits for the copy in hand.
#[derive(Debug)]
pub(super) struct Checkpoints {
    bell: Option<mpsc::SyncSender<()>>,
    /// The thread has copied what it could; the rest is the writer's.
    rest_is_short: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
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
            for () in called {
                match copy_most(&connector) {
                    Ok(()) => done.store(true, Ordering::Release),
                    Err(error) => tracing::warn!(error = %error, "the store's log cannot be written back"),
                }
            }
        })?;
        Ok(Self { bell: Some(bell), rest_is_short, thread: Some(thread) })
    }

    /// Called by the writer between commits.
    pub(super) fn tend(&self, connection: &Connection) {
        let tended = if self.rest_is_short.swap(false, Ordering::Acquire) {
            checkpoint(connection, "PASSIVE")
        } else {
            checkpoint(connection, "NOOP").inspect(|log| {
                if log.pages >= LONG
                    && let Some(bell) = &self.bell
                {
                    // A bell that has been rung need not be rung again.
                    let _ = bell.try_send(());
                }
            })
        };
        if let Err(error) = tended {
            tracing::warn!(error = %error, "the store's log cannot be measured");
        }
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

fn copy_most(connector: &Connector) -> rusqlite::Result<()> {
    let connection = connector.write()?;
    for _ in 0..ROUNDS {
        let log = checkpoint(&connection, "PASSIVE")?;
        if log.pages - log.copied <= SHORT {
            break;
        }
    }
    Ok(())
}

fn checkpoint(connection: &Connection, mode: &str) -> rusqlite::Result<Log> {
    connection
        .prepare_cached(&format!("PRAGMA wal_checkpoint({mode})"))?
        .query_row([], |row| Ok(Log { pages: row.get(1)?, copied: row.get(2)? }))
}
