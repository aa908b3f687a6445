//! Backup of a store while a server uses it.
//!
//! The database is copied with SQLite's backup API within one snapshot, so it is consistent, whatever is written
//! meanwhile. Blobs are copied before and after that: one that was removed in between has been copied, and one that was
//! added is there when its reference is. The copy is inspected, flushed, and then renamed: what has the final name is
//! complete. Restoring is copying back.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use rusqlite::{
    Connection,
    backup::{Backup, StepResult},
};

use super::{
    audit::{HEADS_FILE, KEY_FILE},
    inspect::{self, BLOBS, StoreFault, StoreInspection},
    open::{self, DATABASE, LOCK, OpenError},
};
use crate::file_ownership;

/// Pages that are copied between two reports of progress.
const STEP: i32 = 1_024;
/// The suffix of a copy that is not complete yet.
const DRAFT: &str = ".partial";
/// The suffix of a copy that is being replaced.
const OLD: &str = ".old";

/// Why there is no backup.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("the store in `{}` cannot be copied", dir.display())]
    Source {
        dir: PathBuf,
        #[source]
        source: Box<StoreFault>,
    },
    #[error("`{}` exists: choose another name, or replace it", .0.display())]
    Exists(PathBuf),
    #[error("`{}` is not a backup of a store and is not replaced: choose another name, or remove it yourself", .0.display())]
    NotACopy(PathBuf),
    #[error("`{}` is inside the directory of the store itself: choose one outside of it, best on another disk", .0.display())]
    Inside(PathBuf),
    #[error("another backup to `{}` is running", .0.display())]
    Running(PathBuf),
    #[error("the copy cannot be written to `{}`", path.display())]
    Target {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the database cannot be copied to `{}`", path.display())]
    Database {
        path: PathBuf,
        #[source]
        source: rusqlite::Error,
    },
    #[error("the copy has {} faults and was not kept; the first: {}", .0.faults.len(), first(.0))]
    Faulty(StoreInspection),
}

fn first(inspection: &StoreInspection) -> String {
    inspection.faults.first().map(ToString::to_string).unwrap_or_default()
}

/// The progress of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackupProgress {
    Blobs { copied: u64 },
    Pages { copied: u64, of: u64 },
    Checking,
}

/// Copies the store in `from` to the directory `to`, which may exist only if it is to be replaced.
///
/// # Errors
/// If the store cannot be read or has faults, or the copy cannot be written. Then there is no copy, and an earlier one
/// is unchanged.
pub fn backup(
    from: &Path,
    to: &Path,
    replace: bool,
    mut progress: impl FnMut(BackupProgress),
) -> Result<StoreInspection, BackupError> {
    let connection =
        inspect::snapshot(from).map_err(|source| BackupError::Source { dir: from.into(), source: Box::new(source) })?;
    check_target(from, to, replace)?;
    let draft = BackupDraft::begin(to)?;
    let mut blobs = 0;
    let mut copied = |count| progress(BackupProgress::Blobs { copied: count });
    draft.copy_blobs(from, &mut blobs, &mut copied)?;
    // Before the database: the copy must not have a head of the audit log that is not in its database.
    draft.copy_audit(from)?;
    draft.copy_database(&connection, &mut progress)?;
    let mut copied = |count| progress(BackupProgress::Blobs { copied: count });
    draft.copy_blobs(from, &mut blobs, &mut copied)?;
    drop(connection);
    progress(BackupProgress::Checking);
    let inspection = inspect::inspect(&draft.path);
    if !inspection.faults.is_empty() {
        return Err(BackupError::Faulty(inspection));
    }
    draft.finish(to)?;
    Ok(inspection)
}

fn target(path: &Path) -> impl Fn(io::Error) -> BackupError + '_ {
    |source| BackupError::Target { path: path.into(), source }
}

fn check_target(from: &Path, to: &Path, replace: bool) -> Result<(), BackupError> {
    let from = from.canonicalize().map_err(target(from))?;
    // A path that does not exist yet is resolved by its nearest existing ancestor.
    let above = to
        .ancestors()
        .find_map(|above| if above.as_os_str().is_empty() { Path::new(".") } else { above }.canonicalize().ok());
    if above.is_some_and(|above| above.starts_with(&from)) {
        return Err(BackupError::Inside(to.into()));
    }
    if !fs::exists(to).map_err(target(to))? {
        return Ok(());
    }
    if !replace {
        return Err(BackupError::Exists(to.into()));
    }
    // A typing error must not cost the operator an unrelated directory.
    let is_empty = || fs::read_dir(to).is_ok_and(|mut entries| entries.next().is_none());
    if open::check_header(&to.join(DATABASE)).is_ok() || is_empty() {
        Ok(())
    } else {
        Err(BackupError::NotACopy(to.into()))
    }
}

fn sibling(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(ending);
    path.with_file_name(name)
}

/// A backup in progress. Dropping it removes it.
struct BackupDraft {
    path: PathBuf,
    /// Excludes a second backup to the same path.
    _lock: File,
}

impl BackupDraft {
    fn begin(to: &Path) -> Result<Self, BackupError> {
        let path = sibling(to, DRAFT);
        file_ownership::create_private_dir(&path).map_err(target(&path))?;
        let lock = open::lock(&path).map_err(|error| match error {
            OpenError::Directory { source, .. } => BackupError::Target { path: path.clone(), source },
            _ => BackupError::Running(to.into()),
        })?;
        // Left by an earlier backup that was killed.
        for entry in fs::read_dir(&path).map_err(target(&path))? {
            let entry = entry.map_err(target(&path))?;
            let removed = match entry.file_name() {
                name if name == LOCK => Ok(()),
                name if name == BLOBS => fs::remove_dir_all(entry.path()),
                _ => fs::remove_file(entry.path()),
            };
            removed.map_err(target(&entry.path()))?;
        }
        Ok(Self { path, _lock: lock })
    }

    fn copy_database(&self, from: &Connection, progress: &mut impl FnMut(BackupProgress)) -> Result<(), BackupError> {
        let path = self.path.join(DATABASE);
        copy_pages(from, &path, progress).map_err(|source| BackupError::Database { path: path.clone(), source })?;
        File::open(&path).and_then(|file| file.sync_all()).map_err(target(&path))
    }

    /// Copies the keys and the exported heads of the audit log, where they are stored next to the database.
    fn copy_audit(&self, from: &Path) -> Result<(), BackupError> {
        for name in [KEY_FILE, HEADS_FILE] {
            let copy = self.path.join(name);
            match fs::copy(from.join(name), &copy) {
                Ok(_) => File::open(&copy).and_then(|file| file.sync_all()).map_err(target(&copy))?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(target(&copy)(error)),
            }
        }
        Ok(())
    }

    /// Copies the blobs that have not been copied yet.
    fn copy_blobs(&self, from: &Path, copied: &mut u64, progress: &mut dyn FnMut(u64)) -> Result<(), BackupError> {
        let from = from.join(BLOBS);
        let unreadable = |source| BackupError::Source {
            dir: from.clone(),
            source: Box::new(StoreFault::Unusable(OpenError::Directory { dir: from.clone(), source })),
        };
        let entries = match fs::read_dir(&from) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(unreadable(error)),
        };
        let to = self.path.join(BLOBS);
        let mut is_there = fs::exists(&to).map_err(target(&to))?;
        for entry in entries {
            let name = entry.map_err(unreadable)?.file_name();
            // A blob that is still being written has another name, and no reference.
            let is_blob = name.to_str().is_some_and(|name| name.parse::<bosun_core::ContentHash>().is_ok());
            let (source, copy) = (from.join(&name), to.join(&name));
            if !is_blob || fs::exists(&copy).map_err(target(&copy))? {
                continue;
            }
            if !is_there {
                fs::create_dir(&to).map_err(target(&to))?;
                is_there = true;
            }
            match fs::copy(&source, &copy) {
                Ok(_) => {}
                // Removed meanwhile: if anything refers to it, the inspection of the copy will say so.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(target(&copy)(error)),
            }
            File::open(&copy).and_then(|file| file.sync_all()).map_err(target(&copy))?;
            *copied += 1;
            progress(*copied);
        }
        if is_there { sync_directory(&to) } else { Ok(()) }
    }

    /// Renames the copy to its final name.
    fn finish(self, to: &Path) -> Result<(), BackupError> {
        fs::remove_file(self.path.join(LOCK)).map_err(target(&self.path))?;
        sync_directory(&self.path)?;
        let old = sibling(to, OLD);
        // There is always one complete copy: the old one keeps its content until the new one is in place.
        let replaced = fs::exists(to).map_err(target(to))?;
        if replaced {
            remove(&old)?;
            fs::rename(to, &old).map_err(target(&old))?;
        }
        if let Err(error) = fs::rename(&self.path, to) {
            if replaced {
                fs::rename(&old, to).map_err(target(to))?;
            }
            return Err(target(to)(error));
        }
        sync_directory(to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")))?;
        if replaced { remove(&old) } else { Ok(()) }
    }
}

fn copy_pages(from: &Connection, to: &Path, progress: &mut impl FnMut(BackupProgress)) -> rusqlite::Result<()> {
    // Held to the end: a backup that sees a change between two steps starts again, under load forever.
    let snapshot = from.unchecked_transaction()?;
    snapshot.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    let mut to = Connection::open(to)?;
    // It counts only when it is complete and renamed, so its parts need not wait for the disk.
    to.execute_batch("PRAGMA synchronous = OFF;")?;
    let backup = Backup::new(&snapshot, &mut to)?;
    loop {
        let step = backup.step(STEP)?;
        let pages = backup.progress();
        let of = u64::try_from(pages.pagecount).unwrap_or_default();
        let copied = of.saturating_sub(u64::try_from(pages.remaining).unwrap_or_default());
        progress(BackupProgress::Pages { copied, of });
        match step {
            StepResult::Done => break,
            StepResult::More => {}
            // No other process uses the copy, and readers of the store are not blocked: this does not happen, and if it
            // does, it is temporary.
            _ => std::thread::yield_now(),
        }
    }
    drop(backup);
    // One file, without a WAL. The server that opens it creates one again.
    to.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(()))?;
    to.close().map_err(|(_, error)| error)
}

impl Drop for BackupDraft {
    fn drop(&mut self) {
        // After the rename there is nothing left to remove here.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn remove(path: &Path) -> Result<(), BackupError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(target(path)(error)),
        _ => Ok(()),
    }
}

fn sync_directory(path: &Path) -> Result<(), BackupError> {
    File::open(path).and_then(|directory| directory.sync_all()).map_err(target(path))
}
