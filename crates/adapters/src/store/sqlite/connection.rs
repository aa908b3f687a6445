//! Connections to the database file.

use std::{
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use bosun_core::percent;
use rusqlite::{Connection, ErrorCode, OpenFlags, config::DbConfig};

/// No other process should hold the file; an operator with a shell may, for a moment.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The path of the file and the settings of its connections.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    path: Arc<Path>,
    /// Lets tests fill the disk: the largest size of the file in pages; 0 means no limit.
    #[cfg(test)]
    pub(super) page_limit: Arc<std::sync::atomic::AtomicU32>,
}

impl Connector {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path: path.into(),
            #[cfg(test)]
            page_limit: Arc::default(),
        }
    }

    /// The one connection that writes.
    ///
    /// `FULL` makes a commit wait for the disk. The WAL is checkpointed by [`super::checkpoint`], not by whichever
    /// commit happens to make it too long. It is kept at its size, since overwriting a file is faster than growing one.
    /// The page cache is small: SQLite scans all of it after a commit that split a page, and what is not in it is in
    /// the operating system's page cache.
    pub(super) fn write(&self) -> rusqlite::Result<Connection> {
        let connection = self.open(OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL;
             PRAGMA synchronous = FULL;
             PRAGMA fullfsync = ON;
             PRAGMA wal_autocheckpoint = 0;
             PRAGMA journal_size_limit = 67108864;
             PRAGMA cache_size = -4096;",
        )?;
        connection.set_prepared_statement_cache_capacity(32);
        #[cfg(test)]
        match self.page_limit.load(std::sync::atomic::Ordering::SeqCst) {
            0 => {}
            pages => connection.pragma_update(None, "max_page_count", pages)?,
        }
        Ok(connection)
    }

    /// The same, where an earlier connection may have failed: first everything that can be read is made durable.
    ///
    /// The operating system does not retry a flush that failed: it marks the pages as clean, and the next flush
    /// succeeds without them. So the whole WAL is checkpointed into the database and flushed there, and the WAL
    /// restarted, before anything is built on it.
    pub(super) fn write_after_checkpoint(&self) -> rusqlite::Result<Connection> {
        let connection = self.write()?;
        let busy: bool = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
        if busy {
            // A reader has not ended yet. The caller has to try again.
            return Err(rusqlite::Error::SqliteFailure(
                rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY),
                Some("the log cannot be restarted while it is being read".into()),
            ));
        }
        Ok(connection)
    }

    /// A connection that only reads.
    pub(super) fn read(&self) -> rusqlite::Result<Connection> {
        let connection = self.open(OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        connection.execute_batch("PRAGMA cache_size = -4096;")?;
        Ok(connection)
    }

    /// A read-only connection for inspection from outside the server: it also works where nothing can be written.
    pub(super) fn inspect(&self) -> rusqlite::Result<Connection> {
        // Only the first read tells whether the WAL can be opened too.
        let refusal = match self.read() {
            Ok(connection) => match connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())) {
                Ok(()) => return Ok(connection),
                Err(error) => error,
            },
            Err(error) => error,
        };
        // Even to read, SQLite creates an index of the WAL. Where it cannot, no other process can write either, and an
        // absent WAL needs no index.
        let is_read_only = matches!(refusal.sqlite_error_code(), Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly));
        if !is_read_only || self.has_wal() {
            return Err(refusal);
        }
        let mut uri = "file:".to_owned();
        let path = self.path.as_os_str().as_bytes();
        percent::push_except(&mut uri, path, |byte| percent::is_unreserved(byte) || byte == b'/');
        uri.push_str("?immutable=1");
        Connection::open_with_flags(
            uri,
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )
    }

    fn has_wal(&self) -> bool {
        let mut log = self.path.as_os_str().to_owned();
        log.push("-wal");
        std::fs::metadata(log).is_ok_and(|log| log.len() > 0)
    }

    fn open(&self, access: OpenFlags) -> rusqlite::Result<Connection> {
        // Not the default flags: those would create a missing file, and read a path as a URI.
        let connection = Connection::open_with_flags(&self.path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        // Otherwise SQLite replans a cached statement for every new value that is bound to it, which costs more than
        // most of our statements do. Their plans do not depend on values.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        Ok(connection)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}
