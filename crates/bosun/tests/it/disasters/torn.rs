//! A WAL whose end did not reach the disk completely.
//!
//! A server is killed under load; then the end of its WAL is cut, zeroed, overwritten, or left as it was a round
//! before. The store must open again, with exactly what was committed before the first wrong byte: no more, no less,
//! and nothing partial. What was acknowledged after that byte is lost with the disk; no program can restore it, and
//! none may invent it.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::json;
use tokio::sync::watch;

use crate::support::{
    client::{Address, Client, introduce},
    oracle::{self, Journal},
    proof::{Proof, scale, seed},
    rng::Rng,
    server::{ProcessExit, World},
    workload::Workload,
};

const CLIENTS: u64 = 12;
/// How often the WAL of one killed server is damaged, each time in another way.
const PER_KILL: u64 = 10;
/// How many of the last frames of a log may be hit.
const REACH: usize = 80;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_torn_log_keeps_what_was_committed_before_the_tear() {
    let (seed, tears) = (seed(), scale("BOSUN_TORN_LOGS", 10));
    let test = "disasters::torn::a_torn_log_keeps_what_was_committed_before_the_tear";
    let mut proof = Proof::begin(test, seed, &[("BOSUN_TORN_LOGS", tears)]);
    let rng = Rng::new(seed);
    let mut tally: BTreeMap<String, u64> = BTreeMap::new();
    let (mut done, mut frames_lost, mut entries_kept) = (0, 0, 0);
    while done < tears {
        let killed = killed_under_load(&rng.branch(1_000 + done)).await;
        for _ in 0..PER_KILL.min(tears - done) {
            let mut rng = rng.branch(done);
            let log = Log::read(&killed.data().join(LOG));
            let (tear, damaged) = tear(&log, &mut rng);
            let first = log.first_difference(&damaged);
            *tally.entry(format!("{tear:?}")).or_default() += 1;
            frames_lost += log.frames - first;
            let expected = World::new();
            copy_with_log(&killed, &expected, &log.bytes[..log.start_of(first)]);
            let torn = World::new();
            copy_with_log(&killed, &torn, &damaged);
            let wanted = oracle::read_journals(&expected.data(), &mut Vec::new());
            entries_kept += wanted.iter().map(|journal| journal.entries.len()).sum::<usize>();
            // It must open, and continue with what it finds.
            let mut server = torn.start().await;
            let listed = Client::of(&server.base).get("?limit=1").await;
            assert_eq!(server.kill().await, ProcessExit::Killed);
            let mut violations = Vec::new();
            if listed.status != 200 {
                violations.push(format!("a list was answered with {}: {}", listed.status, listed.body));
            }
            let found = oracle::read_journals(&torn.data(), &mut violations);
            compare(&wanted, &found, &mut violations);
            let place = format!("{tear:?} at frame {first} of {}", log.frames);
            proof.violations(violations.into_iter().map(|what| format!("{place}: {what}")));
            done += 1;
        }
    }
    let figures = json!({ "tears": tally, "frames_lost": frames_lost, "entries_kept": entries_kept });
    proof.finish(done, &figures);
}

const DATABASE: &str = "bosun.db";
const LOG: &str = "bosun.db-wal";

async fn killed_under_load(rng: &Rng) -> World {
    let world = World::new();
    let (announce, address) = watch::channel(Address::default());
    let workload = Workload::new(Client::new(address), rng.branch(1));
    let mut server = world.start().await;
    introduce(&announce, &server);
    let clients = workload.begin(CLIENTS);
    workload.client().answered(rng.branch(2).within(60..200)).await;
    assert_eq!(server.kill().await, ProcessExit::Killed);
    drop(clients);
    world
}

/// The files of a killed server with another WAL, as a later process would find them.
fn copy_with_log(killed: &World, other: &World, log: &[u8]) {
    fs::create_dir_all(other.data()).expect("a directory");
    for name in [DATABASE, "audit.key"] {
        fs::copy(killed.data().join(name), other.data().join(name)).expect("a copy");
    }
    fs::write(other.data().join(LOG), log).expect("a log");
}

/// Every query that was there continues from where it was, and no other query is there than the children that these
/// have asked since.
fn compare(wanted: &[Journal], found: &[Journal], violations: &mut Vec<String>) {
    let mut found: BTreeMap<_, _> = found.iter().map(|journal| (journal.head.uid, journal)).collect();
    for journal in wanted {
        let name = &journal.head.name;
        match found.remove(&journal.head.uid) {
            None => violations.push(format!("{name} is lost")),
            Some(later) if !later.entries.starts_with(&journal.entries) => {
                violations.push(format!("{name} has another history"));
            }
            Some(_) => {}
        }
    }
    let is_asked_since = |journal: &Journal| {
        let root = journal.head.lineage.as_ref().map(|lineage| lineage.root);
        root.is_some_and(|root| wanted.iter().any(|known| known.head.uid == root))
    };
    let invented = found.values().filter(|journal| !is_asked_since(journal));
    violations.extend(invented.map(|journal| format!("{} was never created", journal.head.name)));
}

/// A write-ahead log, as section 4 of SQLite's file format defines it.
struct Log {
    bytes: Vec<u8>,
    frame: usize,
    /// Frames of the current round; older ones may follow them.
    frames: usize,
}

const LOG_HEADER: usize = 32;
const FRAME_HEADER: usize = 24;

impl Log {
    fn read(path: &Path) -> Self {
        let bytes = fs::read(path).expect("a log");
        let page = u32::from_be_bytes(bytes[8..12].try_into().expect("four bytes"));
        let frame = FRAME_HEADER + usize::try_from(page).expect("a size");
        let salts = &bytes[16..24];
        let frames = bytes[LOG_HEADER..].chunks_exact(frame).take_while(|frame| frame[8..16] == *salts).count();
        assert!(frames > REACH, "only {frames} frames are not worth tearing");
        Self { frame, frames, bytes }
    }

    fn start_of(&self, frame: usize) -> usize {
        LOG_HEADER + frame * self.frame
    }

    /// The first frame of which not every byte is as it was.
    fn first_difference(&self, damaged: &[u8]) -> usize {
        let same = self.bytes.iter().zip(damaged).take_while(|(before, after)| before == after).count();
        (same.max(LOG_HEADER) - LOG_HEADER) / self.frame
    }
}

/// How a log is damaged.
#[derive(Clone, Copy, Debug)]
enum LogDamage {
    /// The file ends there.
    Cut,
    /// There is nothing but zeros from there on.
    Zeroed,
    /// One bit is flipped.
    BitFlipped,
    /// A piece is overwritten with random bytes.
    Scribbled,
    /// A frame has the content of the one before it: its own write was lost.
    Stale,
}

fn tear(log: &Log, rng: &mut Rng) -> (LogDamage, Vec<u8>) {
    let mut bytes = log.bytes.clone();
    let kind =
        *rng.pick(&[LogDamage::Cut, LogDamage::Zeroed, LogDamage::BitFlipped, LogDamage::Scribbled, LogDamage::Stale]);
    let end = log.start_of(log.frames);
    let at = usize::try_from(rng.within(log.start_of(log.frames - REACH) as u64..end as u64)).expect("an offset");
    match kind {
        LogDamage::Cut => bytes.truncate(at),
        LogDamage::Zeroed => bytes[at..].fill(0),
        LogDamage::BitFlipped => bytes[at] ^= 1 << rng.within(0..8),
        LogDamage::Scribbled => {
            let length = usize::try_from(rng.within(1..5_000)).expect("a length");
            bytes[at..end.min(at + length)].iter_mut().for_each(|byte| *byte = rng.next().to_le_bytes()[0]);
        }
        LogDamage::Stale => {
            let frame = (at - LOG_HEADER) / log.frame;
            bytes.copy_within(log.start_of(frame - 1)..log.start_of(frame), log.start_of(frame));
        }
    }
    (kind, bytes)
}
