//! How often a cycle waits for the disk: twice at most, once for each answer.
//!
//! This is what the write path is made for, so it is counted, not timed. The server runs in this process, since only
//! the store itself knows which commits had a waiter.

use std::{path::PathBuf, sync::Arc, time::Duration};

use bosun_adapters::{manifests, runner::builtin::Builtins, secret::Secrets, store::sqlite::Sqlite};
use bosun_edges::auth::Access;
use bosun_engine::{Engine, EngineSettings, SystemClock, blob::MemoryBlobs};
use bosun_standin::ledger;
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::support::{
    client::{Client, result},
    scenarios::{self, Scenario},
    soon,
};

const CYCLES: u64 = 50;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cycle_waits_for_two_commits_at_most() {
    let directory = tempfile::tempdir().unwrap();
    let engine = engine(directory.path().join("manifests"), directory.path().join("data")).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::of(&format!("http://{}", listener.local_addr().unwrap()));
    let stopping = CancellationToken::new();
    let router = bosun_edges::router(bosun_edges::AppState::new(engine.clone(), Access::open(), Vec::new()));
    let mut server = JoinSet::new();
    let stopped = stopping.clone();
    server.spawn(async move {
        let limits = bosun_edges::ConnectionLimits { max_connections: 100, grace: Duration::from_secs(1) };
        bosun_edges::serve(listener, router, stopped.cancelled(), limits).await;
    });

    let before = engine.store().stats();
    for number in 0..CYCLES {
        let paused = client.post("?wait=20s", &scenarios::query(&format!("cycle-{number}"), Scenario::Quick)).await;
        let (call, _) = paused.waiting_calls().remove(0);
        let finished = client.post(&format!("/cycle-{number}/tool-result"), &result(&call, "42")).await;
        assert_eq!((finished.state(), finished.body["response"].as_str()), ("completed", Some("42")));
    }
    let after = engine.store().stats();
    let awaited = after.awaited_commits - before.awaited_commits;
    // On a busy machine the writer's own timer may commit before a caller waits for it: then a cycle waits for less.
    // The engine's tests count exactly two, on a store without a timer.
    assert!((CYCLES..=2 * CYCLES).contains(&awaited), "{awaited} awaited commits in {CYCLES} cycles");

    stopping.cancel();
    soon("the end of the server", server.join_next()).await;
    engine.shut_down(Duration::from_secs(1)).await.unwrap();
}

async fn engine(manifests: PathBuf, data: PathBuf) -> Engine {
    scenarios::write(&manifests);
    let clock = Arc::new(SystemClock);
    let builtins = ledger::add(Builtins::new(clock.clone()), &manifests.join("ledger")).unwrap();
    let loaded = manifests::load(&[manifests], &builtins).unwrap();
    let registry = loaded.build(&Arc::new(Secrets::new(None, [])), Arc::new(builtins));
    let store = Arc::new(Sqlite::open(&data).unwrap());
    Engine::start(store, Arc::new(MemoryBlobs::new()), registry, clock, EngineSettings::default()).await.unwrap()
}
