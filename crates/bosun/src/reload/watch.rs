//! Changes of files, as events of the operating system.
//!
//! Directories are watched and not files: an editor replaces a file by renaming another one, and Kubernetes swaps the
//! symbolic link `..data` under all files of a config map at once. Where a path leads through symbolic links, the
//! directories of the links and of their targets are watched. Events only say that it is time to compare fingerprints;
//! so does a timer, since network file systems have no events.

use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use notify::{
    EventKind, RecommendedWatcher, RecursiveMode, Watcher as _,
    event::{AccessKind, AccessMode},
};
use tokio::{sync::Notify, time::Instant};

/// An editor or a deployment writes several files: they are read once nothing has changed for this long.
const QUIET: Duration = Duration::from_millis(100);
/// The longest time for which a series of changes postpones reading.
const LONGEST_DEBOUNCE: Duration = Duration::from_secs(1);
/// How often fingerprints are compared while directories are watched.
const POLLED: Duration = Duration::from_secs(5);
/// The same where not all directories can be watched.
const POLLED_WITHOUT_EVENTS: Duration = Duration::from_secs(1);
/// Directories beyond this number are not watched but polled.
const MAX_DIRECTORIES: usize = 4096;
/// How many symbolic links a path may lead through, as in Linux.
const MAX_LINKS: usize = 40;

/// The files that are watched: those that were found, and the paths that they were searched in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WatchedFiles {
    pub(super) roots: Vec<PathBuf>,
    pub(super) files: Vec<PathBuf>,
}

impl WatchedFiles {
    /// A hash of the names and the metadata of all files. It changes with their content, by an atomic rename, and when a
    /// symbolic link on the way to one of them leads elsewhere.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for file in &self.files {
            file.hash(&mut hasher);
            file.canonicalize().ok().hash(&mut hasher);
            let times = |of: std::fs::Metadata| {
                (of.dev(), of.ino(), of.size(), of.mtime(), of.mtime_nsec(), of.ctime(), of.ctime_nsec())
            };
            file.metadata().ok().map(times).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// The directories in which a change can concern these files.
    fn directories(&self) -> BTreeSet<PathBuf> {
        let mut directories = BTreeSet::new();
        for path in self.roots.iter().chain(&self.files) {
            add_directories(path, MAX_LINKS, &mut directories);
        }
        directories
    }
}

/// Adds the directory of a path, the path itself if it is a directory, those between it and a root, and the same for the
/// target of every symbolic link on the way.
fn add_directories(path: &Path, links: usize, directories: &mut BTreeSet<PathBuf>) {
    let Ok(path) = std::path::absolute(path) else { return };
    for part in path.ancestors() {
        let Some(parent) = part.parent() else { continue };
        let Ok(metadata) = part.symlink_metadata() else {
            // It may be created.
            directories.extend(parent.is_dir().then(|| parent.to_owned()));
            continue;
        };
        if metadata.is_symlink() {
            directories.insert(parent.to_owned());
            if let (Ok(target), Some(links)) = (part.read_link(), links.checked_sub(1)) {
                add_directories(&parent.join(target), links, directories);
            }
        }
    }
    if path.is_dir() {
        directories.insert(path.clone());
    }
    directories.extend(path.parent().filter(|parent| parent.is_dir()).map(Path::to_owned));
}

/// Why it is time to compare fingerprints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// No event is known.
    Poll,
    /// A series of changes has ended.
    Changed,
}

/// The events of the operating system.
pub(super) struct FileEvents {
    watcher: Option<RecommendedWatcher>,
    watched: BTreeSet<PathBuf>,
    changed: Arc<Notify>,
    /// Whether each directory is watched.
    is_complete: bool,
}

impl FileEvents {
    pub(super) fn open() -> Self {
        let changed = Arc::new(Notify::new());
        let notified = Arc::clone(&changed);
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Reading the files is an event, too.
            let is_change = match event.map(|event| event.kind) {
                Ok(EventKind::Access(kind)) => kind == AccessKind::Close(AccessMode::Write),
                Ok(_) | Err(_) => true,
            };
            if is_change {
                notified.notify_one();
            }
        });
        if let Err(error) = &watcher {
            tracing::warn!(%error, "files are polled: this machine has no file system events");
        }
        Self { is_complete: watcher.is_ok(), watcher: watcher.ok(), watched: BTreeSet::new(), changed }
    }

    /// Watches the directories of these files, and stops watching all others.
    pub(super) fn watch(&mut self, files: &WatchedFiles) {
        let Some(watcher) = &mut self.watcher else { return };
        let mut directories = files.directories();
        let is_few = directories.len() <= MAX_DIRECTORIES;
        directories = directories.into_iter().take(MAX_DIRECTORIES).collect();
        for gone in self.watched.difference(&directories) {
            // A removed directory is no longer watched.
            let _ = watcher.unwatch(gone);
        }
        let mut failed = None;
        for new in &directories {
            // Known ones too: another directory may have replaced one that was renamed.
            if let Err(error) = watcher.watch(new, RecursiveMode::NonRecursive) {
                failed = Some(error);
            }
        }
        let is_complete = is_few && failed.is_none();
        if !is_complete && self.is_complete {
            let reason = failed.map_or_else(|| "too many directories".to_owned(), |error| error.to_string());
            tracing::warn!(reason, "files are polled: not every directory can be watched");
        }
        self.is_complete = is_complete;
        self.watched = directories;
    }

    /// Resolves once a series of changes has ended, and when it is time to poll.
    pub(super) async fn next(&self) -> Due {
        let poll = if self.is_complete { POLLED } else { POLLED_WITHOUT_EVENTS };
        if tokio::time::timeout(poll, self.changed.notified()).await.is_err() {
            return Due::Poll;
        }
        let latest = Instant::now() + LONGEST_DEBOUNCE;
        while tokio::time::timeout_at(latest.min(Instant::now() + QUIET), self.changed.notified()).await.is_ok() {}
        Due::Changed
    }

    /// Treats a difference that was found without an event as one: it may be a part of a series of changes.
    pub(super) fn notify(&self) {
        self.changed.notify_one();
    }
}
