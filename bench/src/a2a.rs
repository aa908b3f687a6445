//! A blocking `SendMessage` of A2A over JSON-RPC, compared with the official SDKs: a task that is submitted, works, has
//! an artifact and is completed.
//!
//! Server and peer take turns in the same run, so that both see the same machine. The peers keep their tasks in memory
//! and store nothing. On the store in memory, the edges and the engine run in a process of this bench; ended queries are
//! kept for [`KEPT`], so its memory is bounded, which is measured next to the speed. On SQLite it is the real
//! program, and every answer is durable.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use bosun_adapters::{manifests, runner::builtin::Builtins, secret::Secrets};
use bosun_core::QueryLimits;
use bosun_edges::{AppState, ConnectionLimits, auth::Access};
use bosun_engine::{Engine, EngineSettings, SystemClock, blob::MemoryBlobs, memory::MemoryStore};
use serde_json::json;
use tokio::{io::AsyncReadExt as _, net::TcpListener, task::JoinSet};

use crate::{
    cycle::median,
    http::Connection,
    options::Options,
    peers::{self, Peer},
    process::{Running, World},
    report::{Figure, Goal, Report},
};

/// How long server and peer run in each turn.
const TURN: Duration = Duration::from_millis(500);
const CLIENTS: usize = 32;
/// How long the store in memory keeps an ended query.
const KEPT: Duration = Duration::from_secs(2);
const SOURCES: &str = "bench/peers/a2a";

const RUST: Peer = Peer {
    name: "a2a-server-lf",
    sources: SOURCES,
    folder: "a2a-lf",
    lock: "lf/Cargo.lock",
    files: &["lf/Cargo.toml", "lf/Cargo.lock", "lf/src/main.rs"],
    install: &[&[
        "cargo",
        "build",
        "--quiet",
        "--release",
        "--locked",
        "--manifest-path",
        "lf/Cargo.toml",
        "--target-dir",
        "target",
    ]],
    run: &["target/release/a2a-lf-peer"],
};
const JAVASCRIPT: Peer = Peer {
    name: "@a2a-js/sdk",
    sources: SOURCES,
    folder: "a2a-js",
    lock: "package-lock.json",
    files: &["package.json", "package-lock.json", "server.mjs"],
    install: &[&["npm", "ci", "--no-audit", "--no-fund"]],
    run: &["node", "server.mjs"],
};
const PYTHON: Peer = Peer {
    name: "a2a-sdk (Python)",
    sources: SOURCES,
    folder: "a2a-python",
    lock: "requirements.txt",
    files: &["requirements.txt", "server.py"],
    install: &[
        &["python3", "-m", "venv", "venv"],
        &["venv/bin/pip", "install", "--no-deps", "--requirement", "requirements.txt"],
    ],
    run: &["venv/bin/python", "server.py"],
};

/// The store of the server that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StoreKind {
    Memory,
    Sqlite,
}

pub(crate) async fn measure(world: &World, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let comparisons = [
        (StoreKind::Memory, &RUST, 1, 1.0),
        (StoreKind::Memory, &RUST, CLIENTS, 1.0),
        (StoreKind::Sqlite, &JAVASCRIPT, CLIENTS, 1.0),
        (StoreKind::Sqlite, &PYTHON, CLIENTS, 1.0),
    ];
    for (store, peer, clients, goal) in comparisons {
        let stored = if store == StoreKind::Memory { "in memory" } else { "durable in SQLite" };
        let what = format!("A2A tasks a second, {stored}, {clients} at a time, compared with {}", peer.name);
        let theirs = match start(peer).await {
            Ok(theirs) => theirs,
            Err(error) => {
                report.not_measured(&what, &error);
                continue;
            }
        };
        let ours = match store {
            StoreKind::Memory => world.in_memory().await?,
            StoreKind::Sqlite => world.serve(&world.data(&format!("a2a-{}-{clients}", peer.folder))).await?,
        };
        compare(&what, (ours, theirs), clients, goal, options, report).await?;
    }
    Ok(())
}

/// Installs a peer, unless it is installed, and starts it.
async fn start(peer: &Peer) -> anyhow::Result<Running> {
    let folder = peer.installed().await.with_context(|| format!("{} cannot be installed", peer.name))?;
    Running::start(peers::command(peer.run, &folder)?).await
}

async fn compare(
    what: &str,
    (ours, theirs): (Running, Running),
    clients: usize,
    goal: f64,
    options: &Options,
    report: &mut Report,
) -> anyhow::Result<()> {
    let (mut our_rates, mut their_rates, mut ratios, mut sent) = (Vec::new(), Vec::new(), Vec::new(), [0, 0]);
    // The first turns are a warm-up.
    turn(&ours.authority, clients).await?;
    turn(&theirs.authority, clients).await?;
    let (mut halfway, cpu) = ([0, 0], [ours.cpu()?, theirs.cpu()?]);
    for round in 0..options.rounds {
        let (our_count, our_rate) = turn(&ours.authority, clients).await?;
        let (their_count, their_rate) = turn(&theirs.authority, clients).await?;
        sent = [sent[0] + our_count, sent[1] + their_count];
        ratios.push(our_rate / their_rate);
        our_rates.push(our_rate);
        their_rates.push(their_rate);
        if round == options.rounds / 2 {
            halfway = [ours.resident()?, theirs.resident()?];
        }
    }
    let spent = |after: Duration, before: Duration, count: usize| (after - before).as_secs_f64() * 1e6 / count as f64;
    let cpu = [spent(ours.cpu()?, cpu[0], sent[0]), spent(theirs.cpu()?, cpu[1], sent[1])];
    let resident = [ours.resident()?, theirs.resident()?];
    let megabytes = |kib: u64| kib / 1024;
    report.figure(&Figure {
        what,
        value: median(&mut our_rates),
        floor: Some(median(&mut their_rates)),
        ratio: Some(median(&mut ratios)),
        goal: Goal::RatioAtLeast(goal),
        n: sent[0],
        note: format!(
            "CPU {:.0} and {:.0} µs a task; resident {} then {} MB, theirs {} then {} MB",
            cpu[0],
            cpu[1],
            megabytes(halfway[0]),
            megabytes(resident[0]),
            megabytes(halfway[1]),
            megabytes(resident[1]),
        ),
        details: json!({
            "clients": clients, "ratios": ratios, "cpu_us": cpu, "sent": sent,
            "resident_kib_halfway": halfway, "resident_kib": resident,
        }),
        ..Figure::default()
    });
    theirs.kill().await?;
    ours.kill().await
}

/// Sends tasks on `clients` connections for one turn; how many, and how many a second.
async fn turn(authority: &str, clients: usize) -> anyhow::Result<(usize, f64)> {
    let mut connections = Vec::new();
    for _ in 0..clients {
        connections.push(Connection::open(authority).await?.with_headers("a2a-version: 1.0\r\n"));
    }
    let begun = Instant::now();
    let mut sending = JoinSet::new();
    for mut connection in connections {
        sending.spawn(async move {
            let mut count = 0;
            while begun.elapsed() < TURN {
                send(&mut connection).await?;
                count += 1;
            }
            anyhow::Ok(count)
        });
    }
    let mut count: usize = 0;
    while let Some(sent) = sending.join_next().await {
        count += sent??;
    }
    Ok((count, count as f64 / begun.elapsed().as_secs_f64()))
}

/// One task, with a message id of its own: the same id again would be a retry.
async fn send(connection: &mut Connection) -> anyhow::Result<()> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{{"message":{{"messageId":"m{number}","role":"ROLE_USER","parts":[{{"text":"Hello"}}]}}}}}}"#
    );
    let answer = connection.post("/a2a", &body).await?;
    ensure!(answer.contains("TASK_STATE_COMPLETED") && answer.contains("Hello!"), "unexpected answer: {answer}");
    Ok(())
}

/// The edges on a store in memory, with the agent of these manifests.
pub(crate) async fn serve(directory: &Path) -> anyhow::Result<()> {
    let clock = Arc::new(SystemClock);
    let builtins = Builtins::new(clock.clone());
    let manifests = manifests::load(&[directory.to_owned()], &builtins)
        .map_err(|faults| anyhow::anyhow!("{faults}"))
        .context("manifests")?;
    let registry = manifests.build(&Arc::new(Secrets::new(None, [])), Arc::new(builtins));
    let limits = QueryLimits { ttl: KEPT, ..QueryLimits::default() };
    let settings = EngineSettings { limits, ..EngineSettings::default() };
    let (store, blobs) = (Arc::new(MemoryStore::new()), Arc::new(MemoryBlobs::default()));
    let engine = Engine::start(store, blobs, registry, clock, settings).await?;
    let router = bosun_edges::router(AppState::new(engine, Access::open(), Vec::new()));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on http://{}", listener.local_addr()?);
    let ended = async {
        let _ = tokio::io::stdin().read_to_end(&mut Vec::new()).await;
    };
    let limits = ConnectionLimits { max_connections: 1024, grace: Duration::from_secs(1) };
    bosun_edges::serve(listener, router, ended, limits).await;
    Ok(())
}
