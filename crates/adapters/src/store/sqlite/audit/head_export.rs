//! Export of the heads of all chains, once a minute: a line of the server's log and a line of a file.
//!
//! The file is append-only. A copy in another place shows that an audit log was truncated or replaced by an earlier
//! one, back to the last copied line.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, RecvTimeoutError},
    },
    thread::{self, JoinHandle},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bosun_core::{Namespace, Timestamp, hex};
use serde::{Deserialize, Serialize};

use super::chain::Mac;

/// The file that heads are exported to in the directory of a store, unless it is configured.
pub const HEADS_FILE: &str = "audit.heads";

const PERIOD: Duration = Duration::from_secs(60);

/// Heads that have changed since the last export.
#[derive(Debug, Default)]
pub(in super::super) struct Heads {
    changed: Mutex<BTreeMap<Namespace, (u64, Mac)>>,
}

impl Heads {
    pub(super) fn note(&self, namespace: &Namespace, seq: u64, mac: Mac) {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner).insert(namespace.clone(), (seq, mac));
    }

    fn take(&self) -> BTreeMap<Namespace, (u64, Mac)> {
        std::mem::take(&mut self.changed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One line of the file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ExportedHead {
    time: String,
    pub(super) namespace: String,
    pub(super) seq: u64,
    mac: String,
}

impl ExportedHead {
    pub(super) fn mac(&self) -> Option<Mac> {
        Mac::try_from(hex::decode(&self.mac)?.as_slice()).ok()
    }
}

/// All complete lines of the file; it may not exist.
pub(super) fn read(path: &Path) -> io::Result<Vec<ExportedHead>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let parse = |line: &str| serde_json::from_str(line).map_err(io::Error::from);
    // A process that was killed may have left an incomplete line, at the end or in the middle, but nothing else.
    text.lines().filter(|line| line.ends_with('}')).map(parse).collect()
}

/// The exporting thread.
#[derive(Debug)]
pub(in super::super) struct HeadExporter {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

impl HeadExporter {
    pub(in super::super) fn start(heads: Arc<Heads>, file: PathBuf) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let work = move || {
            loop {
                let ended = !matches!(stopped.recv_timeout(PERIOD), Err(RecvTimeoutError::Timeout));
                export(&heads, &file);
                if ended {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("bosun-audit".into()).spawn(work)?;
        Ok(Self { stop, thread })
    }

    /// Exports the last heads and stops.
    pub(in super::super) fn stop(self) {
        // The send fails only if the thread has ended.
        let _ = self.stop.send(());
        if self.thread.join().is_err() {
            tracing::error!("the export of the audit log's heads crashed");
        }
    }
}

fn export(heads: &Heads, file: &Path) {
    let changed = heads.take();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let time = Timestamp(i64::try_from(now.as_millis()).unwrap_or(i64::MAX)).to_rfc3339();
    let mut lines = String::new();
    for (namespace, (seq, mac)) in &changed {
        let mac = hex::encode(mac);
        tracing::info!(%namespace, seq, mac, "audit head");
        let head = ExportedHead { time: time.clone(), namespace: namespace.to_string(), seq: *seq, mac };
        if let Ok(line) = serde_json::to_string(&head) {
            lines.push_str(&line);
            lines.push('\n');
        }
    }
    if lines.is_empty() {
        return;
    }
    let append = || File::options().create(true).append(true).open(file)?.write_all(lines.as_bytes());
    if let Err(error) = append() {
        tracing::warn!(error = %error, file = %file.display(), "the audit log's heads cannot be exported; its log lines can be used");
        // They are exported again with the next ones.
        for (namespace, (seq, mac)) in changed {
            heads.changed.lock().unwrap_or_else(PoisonError::into_inner).entry(namespace).or_insert((seq, mac));
        }
    }
}
