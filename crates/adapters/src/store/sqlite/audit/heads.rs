//! The ends of all chains, told to the outside once a minute: a line of the log and a line of a file.
//!
//! The file is only ever added to. Kept in another place, it shows that a log was cut or replaced by an
//! earlier one, back to the last line that was taken away.

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

use bosun_core::{Namespace, Timestamp};
use serde::{Deserialize, Serialize};

use super::{
    chain::Mac,
    key::{from_hex, to_hex},
};

/// Where ends are written to in the directory of a store, unless they are written elsewhere.
pub const HEADS_FILE: &str = "audit.heads";

const PERIOD: Duration = Duration::from_secs(60);

/// Ends that have moved since they were last told.
#[derive(Debug, Default)]
pub(in super::super) struct Heads {
    moved: Mutex<BTreeMap<Namespace, (u64, Mac)>>,
}

impl Heads {
    pub(super) fn note(&self, namespace: &Namespace, seq: u64, mac: Mac) {
        self.moved.lock().unwrap_or_else(PoisonError::into_inner).insert(namespace.clone(), (seq, mac));
    }

    fn take(&self) -> BTreeMap<Namespace, (u64, Mac)> {
        std::mem::take(&mut self.moved.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One line of the file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Head {
    time: String,
    pub(super) namespace: String,
    pub(super) seq: u64,
    mac: String,
}

impl Head {
    pub(super) fn mac(&self) -> Option<Mac> {
        Mac::try_from(from_hex(&self.mac)?.as_slice()).ok()
    }
}

/// All lines of the file that are whole; there need not be one.
pub(super) fn read(path: &Path) -> io::Result<Vec<Head>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let whole = |line: &str| serde_json::from_str(line).map_err(io::Error::from);
    // A process that was killed may have left half a line, at the end or in the middle, but nothing else.
    text.lines().filter(|line| line.ends_with('}')).map(whole).collect()
}

/// The thread that tells.
#[derive(Debug)]
pub(in super::super) struct Exporter {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

impl Exporter {
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

    /// Tells the last ends and stops.
    pub(in super::super) fn stop(self) {
        // Nobody may be there any more.
        let _ = self.stop.send(());
        if self.thread.join().is_err() {
            tracing::error!("the export of the audit log's ends crashed");
        }
    }
}

fn export(heads: &Heads, file: &Path) {
    let moved = heads.take();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let time = Timestamp(i64::try_from(now.as_millis()).unwrap_or(i64::MAX)).to_rfc3339();
    let mut lines = String::new();
    for (namespace, (seq, mac)) in &moved {
        let mac = to_hex(mac);
        tracing::info!(%namespace, seq, mac, "audit head");
        let head = Head { time: time.clone(), namespace: namespace.to_string(), seq: *seq, mac };
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
        tracing::warn!(error = %error, file = %file.display(), "the audit log's ends cannot be exported; its log lines can be used");
        // They are told again with the next ones.
        for (namespace, (seq, mac)) in moved {
            heads.moved.lock().unwrap_or_else(PoisonError::into_inner).entry(namespace).or_insert((seq, mac));
        }
    }
}
