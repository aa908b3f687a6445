//! Blobs: large values in files next to the store.
//!
//! A blob is a file that is named by the SHA-256 of its bytes and never changes. It is written under a temporary name
//! and renamed when it is on the disk, so that every blob is complete. Before a range of it is read, all of it is
//! verified against its hash, unless that was done recently: a disk may lose bits, and a range alone cannot be
//! verified. All file operations run on a blocking thread. One process at a time: the process that opens the directory
//! must hold the lock of its store.

#[cfg(test)]
mod tests;

use std::{
    fs::{self, File},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use async_trait::async_trait;
use bosun_core::{ContentHash, cache::WeightedCache, hash::Hashing};
use bosun_engine::{
    StoreError,
    blob::{BlobDraft, Blobs},
    fault,
};
use bytes::Bytes;

use crate::file_ownership;

/// The suffix of a draft.
const DRAFT: &str = ".new";

/// Blobs in a directory.
#[derive(Debug)]
pub struct BlobDirectory {
    files: Arc<BlobFiles>,
}

#[derive(Debug)]
struct BlobFiles {
    path: PathBuf,
    drafts: AtomicU64,
    /// Held while a blob is renamed, and while one is checked and removed: a blob that has just been sealed again must
    /// not be removed for its age.
    names: Mutex<()>,
    /// Cache of blobs whose bytes have been verified.
    checked: Mutex<WeightedCache<ContentHash, CheckedBlob>>,
}

/// A file as it was when its bytes were verified.
#[derive(Clone, Copy, Debug)]
struct CheckedBlob {
    at: Instant,
    length: u64,
    modified: Option<SystemTime>,
    inode: u64,
}

/// How long a verification is valid.
const CHECK_HOLDS: Duration = Duration::from_secs(600);
/// The number of verifications in their cache.
const CHECKS_KEPT: usize = 4_096;
/// A file is hashed in chunks of this size.
const STEP_BYTES: usize = 256 * 1024;

impl CheckedBlob {
    fn of(file: &fs::Metadata) -> Self {
        Self { at: Instant::now(), length: file.len(), modified: file.modified().ok(), inode: file.ino() }
    }

    fn holds_for(&self, file: &Self) -> bool {
        let is_same = (self.length, self.modified, self.inode) == (file.length, file.modified, file.inode);
        is_same && self.at.elapsed() < CHECK_HOLDS
    }
}

/// The result of reading a file.
enum BlobRead {
    Missing,
    Damaged,
    Bytes(Bytes),
}

#[derive(Debug, thiserror::Error)]
#[error("blob cannot be {doing}")]
struct BlobFault {
    doing: &'static str,
    #[source]
    source: io::Error,
}

#[derive(Debug, thiserror::Error)]
#[error("a blob's blocking thread crashed")]
struct BlobCrashed(#[source] tokio::task::JoinError);

impl BlobDirectory {
    /// Opens the directory, which is created if it is missing, and removes the drafts of an earlier process.
    ///
    /// # Errors
    /// If it cannot be used.
    pub fn open(path: &Path) -> io::Result<Self> {
        file_ownership::create_private_dir(path)?;
        file_ownership::revoke_world_access(path);
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            sync_directory(parent)?;
        }
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().ends_with(DRAFT) {
                fs::remove_file(entry.path())?;
            }
        }
        let files = BlobFiles {
            path: path.to_owned(),
            drafts: AtomicU64::new(0),
            names: Mutex::default(),
            checked: Mutex::new(WeightedCache::new(CHECKS_KEPT)),
        };
        Ok(Self { files: Arc::new(files) })
    }

    async fn run<T: Send + 'static>(
        &self,
        doing: &'static str,
        work: impl FnOnce(&BlobFiles) -> io::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let files = Arc::clone(&self.files);
        run(doing, move || work(&files)).await
    }
}

/// Runs on a blocking thread. Dropping the future does not cancel the work.
async fn run<T: Send + 'static>(
    doing: &'static str,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|source| StoreError::Unavailable(Box::new(BlobFault { doing, source }))),
        Err(error) => Err(StoreError::Unavailable(Box::new(BlobCrashed(error)))),
    }
}

/// Makes the entries of a directory durable.
fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// The value, or `None` if the file does not exist.
fn if_there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

impl BlobFiles {
    fn file(&self, hash: ContentHash) -> PathBuf {
        self.path.join(hash.to_string())
    }

    fn begin(&self) -> io::Result<(File, Unfinished)> {
        let number = self.drafts.fetch_add(1, Ordering::Relaxed);
        let path = self.path.join(format!("{number}{DRAFT}"));
        let file = File::options().write(true).create_new(true).open(&path)?;
        Ok((file, Unfinished { path }))
    }

    fn seal(&self, file: &File, draft: Unfinished, hash: ContentHash) -> io::Result<()> {
        file.sync_all()?;
        fault::point("blob.written");
        {
            let _names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
            draft.rename(&self.file(hash))?;
            // Its hash was computed from the bytes as they were written.
            self.note_checked(hash, CheckedBlob::of(&file.metadata()?));
        }
        fault::point("blob.named");
        sync_directory(&self.path)?;
        fault::point("blob.sealed");
        Ok(())
    }

    fn read(&self, hash: ContentHash, offset: u64, length: usize) -> io::Result<BlobRead> {
        let Some(mut file) = if_there(File::open(self.file(hash)))? else { return Ok(BlobRead::Missing) };
        if !self.is_whole(&mut file, hash)? {
            return Ok(BlobRead::Damaged);
        }
        let left = file.metadata()?.len().saturating_sub(offset);
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(length);
        let mut bytes = vec![0; length];
        if length > 0 {
            file.seek(SeekFrom::Start(offset))?;
            file.read_exact(&mut bytes)?;
        }
        Ok(BlobRead::Bytes(bytes.into()))
    }

    /// Whether the bytes of a file match its hash.
    fn is_whole(&self, file: &mut File, hash: ContentHash) -> io::Result<bool> {
        let found = CheckedBlob::of(&file.metadata()?);
        let known = self.checked.lock().unwrap_or_else(PoisonError::into_inner).get(&hash).copied();
        if known.is_some_and(|known| known.holds_for(&found)) {
            return Ok(true);
        }
        let (mut hashing, mut step) = (Hashing::default(), vec![0; STEP_BYTES]);
        loop {
            match file.read(&mut step)? {
                0 => break,
                length => hashing.push(&step[..length]),
            }
        }
        let is_whole = hashing.finish() == hash;
        if is_whole {
            self.note_checked(hash, found);
        }
        Ok(is_whole)
    }

    fn note_checked(&self, hash: ContentHash, checked: CheckedBlob) {
        // One weight for all: they are of one size, and dropping what is evicted takes no time.
        let _evicted = self.checked.lock().unwrap_or_else(PoisonError::into_inner).insert(hash, checked, 1);
    }

    fn older_than(&self, age: Duration) -> io::Result<Vec<ContentHash>> {
        let mut older_than = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            // Other files are drafts, or not ours.
            let Some(hash) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            if let Some(metadata) = if_there(entry.metadata())?
                && is_older_than(&metadata, age)?
            {
                older_than.push(hash);
            }
        }
        Ok(older_than)
    }

    fn remove(&self, hash: ContentHash, age: Duration) -> io::Result<bool> {
        let path = self.file(hash);
        let _names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        match if_there(fs::metadata(&path))? {
            Some(metadata) if is_older_than(&metadata, age)? => Ok(if_there(fs::remove_file(&path))?.is_some()),
            _ => Ok(false),
        }
    }
}

/// A file with a modification time in the future is new.
fn is_older_than(metadata: &fs::Metadata, age: Duration) -> io::Result<bool> {
    Ok(metadata.modified()?.elapsed().unwrap_or(Duration::ZERO) >= age)
}

/// The file of a draft; removed unless it is renamed.
#[derive(Debug)]
struct Unfinished {
    path: PathBuf,
}

impl Unfinished {
    fn rename(mut self, name: &Path) -> io::Result<()> {
        fs::rename(&self.path, name)?;
        // Nothing is left to be removed.
        self.path.clear();
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if self.path.as_os_str().is_empty() {
            return;
        }
        let path = std::mem::take(&mut self.path);
        let remove = move || {
            if let Err(error) = fs::remove_file(&path) {
                tracing::warn!(error = %error, "a draft of a blob is left until the next start");
            }
        };
        match tokio::runtime::Handle::try_current() {
            // Removing a file may block.
            Ok(runtime) => drop(runtime.spawn_blocking(remove)),
            Err(_) => remove(),
        }
    }
}

struct FileDraft {
    files: Arc<BlobFiles>,
    /// `None` after a write failed, or its caller stopped waiting.
    file: Option<(File, Unfinished)>,
}

#[derive(Debug, thiserror::Error)]
#[error("an earlier write of this draft failed")]
struct Broken;

impl FileDraft {
    fn take(&mut self) -> Result<(File, Unfinished), StoreError> {
        self.file.take().ok_or_else(|| StoreError::Unavailable(Box::new(Broken)))
    }
}

#[async_trait]
impl BlobDraft for FileDraft {
    async fn write(&mut self, bytes: Bytes) -> Result<(), StoreError> {
        let (mut file, unfinished) = self.take()?;
        self.file = Some(
            run("written", move || {
                file.write_all(&bytes)?;
                Ok((file, unfinished))
            })
            .await?,
        );
        Ok(())
    }

    async fn seal(mut self: Box<Self>, hash: ContentHash) -> Result<(), StoreError> {
        let (file, unfinished) = self.take()?;
        let files = Arc::clone(&self.files);
        run("sealed", move || files.seal(&file, unfinished, hash)).await
    }
}

#[async_trait]
impl Blobs for BlobDirectory {
    async fn begin(&self) -> Result<Box<dyn BlobDraft>, StoreError> {
        let file = self.run("begun", BlobFiles::begin).await?;
        Ok(Box::new(FileDraft { files: Arc::clone(&self.files), file: Some(file) }))
    }

    async fn size(&self, hash: ContentHash) -> Result<Option<u64>, StoreError> {
        self.run("inspected", move |files| Ok(if_there(fs::metadata(files.file(hash)))?.map(|file| file.len()))).await
    }

    async fn read(&self, hash: ContentHash, offset: u64, length: usize) -> Result<Option<Bytes>, StoreError> {
        match self.run("read", move |files| files.read(hash, offset, length)).await? {
            BlobRead::Missing => Ok(None),
            BlobRead::Damaged => Err(StoreError::DamagedBlob(hash)),
            BlobRead::Bytes(bytes) => Ok(Some(bytes)),
        }
    }

    async fn older_than(&self, age: Duration) -> Result<Vec<ContentHash>, StoreError> {
        self.run("listed", move |files| files.older_than(age)).await
    }

    async fn remove(&self, hash: ContentHash, age: Duration) -> Result<bool, StoreError> {
        self.run("removed", move |files| files.remove(hash, age)).await
    }
}
