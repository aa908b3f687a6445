//! Finding, creating, checking and taking over the database in a directory.
//!
//! One process at a time: the process holds a file lock until it ends, and an epoch in the database fences off a
//! process that bypasses the lock. A database appears under its name only when it is complete, so a file that is not a
//! database was not left by a crash of ours: it is refused with instructions, and never overwritten. The page structure
//! of a large file is not checked here, since that reads all of it.

use std::{
    fmt,
    fs::{self, File, TryLockError},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use bosun_engine::fault;
use rusqlite::{Connection, ErrorCode, TransactionBehavior};

use super::{
    audit::{self, Audit, AuditKeys, CheckError, KeyError},
    connection::Connector,
    schema,
};
use crate::file_ownership;

pub(super) const DATABASE: &str = "bosun.db";
pub(super) const LOCK: &str = "bosun.lock";
/// SQLite's own names for the files next to a database.
const LOG: &str = "bosun.db-wal";
const LOG_INDEX: &str = "bosun.db-shm";
/// The name of a database while it is being created.
const UNFINISHED: &str = "bosun.db.new";

/// Files up to this size are checked page by page when they are opened.
const CHECKED_BYTES: u64 = 16 << 20;

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("store directory `{}` cannot be used", dir.display())]
    Directory {
        dir: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "store `{}` is in use by another process{}: stop that one, or give this one a directory of its own",
        dir.display(), Pid(*pid)
    )]
    InUse { dir: PathBuf, pid: Option<u32> },
    #[error(
        "`{}` was written by a newer version (its schema is {found}, this program knows {known}): \
         install that version again, or restore a backup from before the upgrade",
        path.display()
    )]
    Newer { path: PathBuf, found: i64, known: i64 },
    #[error("`{}` is not a Bosun store: move it away, or give the server another directory", path.display())]
    Foreign { path: PathBuf },
    #[error(
        "store `{}` is damaged ({fault}): keep a copy of the directory, then restore `bosun.db` from a backup \
         and delete `bosun.db-wal` and `bosun.db-shm`; nothing was changed",
        path.display()
    )]
    Damaged { path: PathBuf, fault: String },
    #[error(transparent)]
    AuditKeys(#[from] KeyError),
    #[error("store `{}` cannot be opened", path.display())]
    Database {
        path: PathBuf,
        #[source]
        source: rusqlite::Error,
    },
}

/// Its process id, if it is known.
struct Pid(Option<u32>);

impl fmt::Display for Pid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |pid| write!(formatter, " (pid {pid})"))
    }
}

/// A store that this process owns.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) lock: File,
    pub(super) connector: Connector,
    pub(super) epoch: i64,
}

pub(super) fn open(dir: &Path) -> Result<Opened, OpenError> {
    let unusable = |source| OpenError::Directory { dir: dir.into(), source };
    file_ownership::create_private_dir(dir).map_err(unusable)?;
    let lock = lock(dir)?;
    let path = dir.join(DATABASE);
    if is_absent(dir, &path).map_err(unusable)? {
        create(dir, &path)?;
    }
    check_header(&path)?;
    for name in [DATABASE, LOG, LOG_INDEX, LOCK] {
        file_ownership::revoke_world_access(&dir.join(name));
    }
    let connector = Connector::new(path);
    let epoch = raise_epoch(&connector).map_err(|fault| fault.at(connector.path()))?;
    Ok(Opened { lock, connector, epoch })
}

/// The keys of the audit log, created if it is a new one; none if it is disabled.
pub(super) fn audit_keys(
    dir: &Path,
    audit: &Audit,
    connector: &Connector,
) -> Result<Option<Arc<AuditKeys>>, OpenError> {
    if !audit.on {
        return Ok(None);
    }
    let unusable = |source| OpenError::Database { path: connector.path().into(), source };
    let connection = connector.read().map_err(unusable)?;
    let keys = AuditKeys::open(&audit.key_file(dir), audit::has_records(&connection).map_err(unusable)?)?;
    match audit::check_keys(&connection, &keys) {
        Ok(()) => Ok(Some(Arc::new(keys))),
        Err(CheckError::Key(error)) => Err(error.into()),
        Err(CheckError::Database(source)) => Err(unusable(source)),
    }
}

/// Locks the directory for this process, and writes the process id to the lock file.
pub(super) fn lock(dir: &Path) -> Result<File, OpenError> {
    let unusable = |source| OpenError::Directory { dir: dir.into(), source };
    let path = dir.join(LOCK);
    let mut file = File::options().create(true).truncate(false).write(true).open(&path).map_err(unusable)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let pid = fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok());
            return Err(OpenError::InUse { dir: dir.into(), pid });
        }
        Err(TryLockError::Error(source)) => return Err(unusable(source)),
    }
    // Only informative: the lock is what counts, and a disk without space for a number has greater problems.
    if let Err(error) = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())) {
        tracing::debug!(error = %error, "the lock file does not contain the process id");
    }
    Ok(file)
}

/// Whether there is no database yet. A WAL without its database counts as one, unless it is empty.
pub(super) fn is_absent(dir: &Path, path: &Path) -> io::Result<bool> {
    if fs::exists(path)? {
        return Ok(false);
    }
    match fs::metadata(dir.join(format!("{DATABASE}-wal"))) {
        Ok(log) => Ok(log.len() == 0),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

/// Creates an empty database under a temporary name and renames it when it is on the disk.
fn create(dir: &Path, path: &Path) -> Result<(), OpenError> {
    let draft = dir.join(UNFINISHED);
    let unusable = |source| OpenError::Directory { dir: dir.into(), source };
    for leftover in [&draft, &dir.join(format!("{UNFINISHED}-journal"))] {
        match fs::remove_file(leftover) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(unusable(error)),
            _ => {}
        }
    }
    let make = || {
        let mut connection = Connection::open(&draft)?;
        // It counts only when it is complete and renamed, so its parts need not wait for the disk.
        connection.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")?;
        schema::create(&mut connection)?;
        connection.close().map_err(|(_, error)| error)
    };
    make().map_err(|source| OpenError::Database { path: draft.clone(), source })?;
    File::open(&draft).and_then(|file| file.sync_all()).map_err(unusable)?;
    fs::rename(&draft, path).map_err(unusable)?;
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(unusable)
}

/// Checks the header before SQLite does, which takes an empty file for a new database and would discard its WAL. The
/// offsets are those of the file format, section 1.3.
pub(super) fn check_header(path: &Path) -> Result<(), OpenError> {
    let damaged = |fault: &str| Err(OpenError::Damaged { path: path.into(), fault: fault.into() });
    let mut header = [0; 100];
    match File::open(path).and_then(|mut file| file.read_exact(&mut header)) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return damaged("its log exists without it"),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && header.iter().all(|byte| *byte == 0) => {
            return damaged("it is empty");
        }
        // Too short for a database.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
        Err(source) => return Err(OpenError::Directory { dir: path.parent().unwrap_or(path).into(), source }),
    }
    if header.starts_with(b"SQLite format 3\0") && header[68..72] == schema::APPLICATION_ID.to_be_bytes() {
        Ok(())
    } else {
        Err(OpenError::Foreign { path: path.into() })
    }
}

/// What is wrong with the database, without its path.
enum OpenFault {
    Newer(i64),
    Damaged(String),
    Database(rusqlite::Error),
}

impl From<rusqlite::Error> for OpenFault {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged(error.to_string()),
            _ => Self::Database(error),
        }
    }
}

impl OpenFault {
    fn at(self, path: &Path) -> OpenError {
        let path = path.to_owned();
        match self {
            Self::Newer(found) => OpenError::Newer { path, found, known: schema::NEWEST as i64 },
            Self::Damaged(fault) => OpenError::Damaged { path, fault },
            Self::Database(source) => OpenError::Database { path, source },
        }
    }
}

/// Checks the database, upgrades it, and raises its epoch to ours.
fn raise_epoch(connector: &Connector) -> Result<i64, OpenFault> {
    // Nothing may be changed before the database is known to be ours: this connection only reads, except for the
    // recovery of a WAL, which SQLite does by itself.
    let reading = connector.read()?;
    let version = schema::version(&reading)?;
    let Some(known) = usize::try_from(version).ok().filter(|version| *version <= schema::NEWEST) else {
        return Err(OpenFault::Newer(version));
    };
    let pages: u64 = reading.pragma_query_value(None, "page_count", |row| row.get(0))?;
    let page_size: u64 = reading.pragma_query_value(None, "page_size", |row| row.get(0))?;
    if pages * page_size <= CHECKED_BYTES {
        let found: String = reading.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        if found != "ok" {
            return Err(OpenFault::Damaged(found));
        }
    }
    drop(reading);

    let mut connection = connector.write_after_checkpoint()?;
    schema::upgrade(&mut connection, known, schema::NEWEST)?;
    if let Some(name) = schema::differences(&connection, schema::NEWEST)?.first() {
        return Err(OpenFault::Damaged(format!("`{name}` is missing or differs from the schema")));
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if transaction.execute("UPDATE writer SET epoch = epoch + 1", [])? != 1 {
        return Err(OpenFault::Damaged("it has no writer's epoch".into()));
    }
    let epoch = transaction.query_row("SELECT epoch FROM writer", [], |row| row.get(0))?;
    fault::point("open.commit");
    transaction.commit()?;
    fault::point("open.committed");
    Ok(epoch)
}
