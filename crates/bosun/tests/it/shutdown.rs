//! How a server stops.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use reqwest::Method;
use serde_json::json;
use tokio::sync::watch;

use crate::support::{
    client::{Address, Client, introduce},
    disk::Disk,
    oracle,
    proof::{Proof, scale, seed},
    rng::Rng,
    scenarios::{self, Scenario},
    server::{ProcessExit, World},
    soon, until,
    workload::Workload,
};

/// The number of queries in flight.
const CLIENTS: u64 = 16;
/// What is promised.
const LONGEST_END: Duration = Duration::from_secs(40);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_under_load_loses_nothing_that_was_acknowledged() {
    let (seed, signals) = (seed(), scale("BOSUN_SIGNALS", 8));
    let test = "shutdown::a_signal_under_load_loses_nothing_that_was_acknowledged";
    let mut proof = Proof::begin(test, seed, &[("BOSUN_SIGNALS", signals)]);
    let mut rng = Rng::new(seed);
    let world = World::new();
    let (announce, address) = watch::channel(Address::default());
    let workload = Workload::with_large_results(Client::new(address), rng.branch(1));
    let mut server = world.start().await;
    introduce(&announce, &server);
    let clients = workload.begin(CLIENTS);

    let mut ends: BTreeMap<String, u64> = BTreeMap::new();
    let mut times = Vec::new();
    for _ in 0..signals {
        workload.client().answered(rng.within(1..80)).await;
        tokio::time::sleep(Duration::from_micros(rng.within(0..8_000))).await;
        let begun = Instant::now();
        server.terminate();
        let in_order = rng.chance(80);
        if !in_order {
            tokio::time::sleep(Duration::from_micros(rng.within(0..400_000))).await;
            server.terminate();
        }
        let exit = soon("the end of the server", server.exit()).await;
        times.push(begun.elapsed());
        match exit {
            ProcessExit::Exited(0) => {
                let left: Vec<_> = world.data().read_dir().unwrap().map(|file| file.unwrap().file_name()).collect();
                if left.iter().any(|name| name.to_string_lossy().ends_with("-wal")) {
                    proof.violation(format!("a graceful shutdown left {left:?}"));
                }
            }
            ProcessExit::Exited(130) if !in_order => {}
            exit => proof.violation(format!("after a signal, the server ended with {exit:?}")),
        }
        if begun.elapsed() > LONGEST_END {
            proof.violation(format!("it took {:?} to end", begun.elapsed()));
        }
        *ends.entry(format!("{exit:?}")).or_default() += 1;
        server = world.start().await;
        introduce(&announce, &server);
    }
    let records = clients.end().await;
    assert_eq!(server.kill().await, ProcessExit::Killed);

    let (figures, violations) = oracle::judge(&world, &records);
    proof.violations(violations);
    let ratio = figures.succeeded as f64 / figures.meant_to_succeed.max(1) as f64;
    if ratio < 0.95 {
        proof.violation(format!("only {:.1} % of the queries succeeded", ratio * 100.0));
    }
    times.sort();
    let milliseconds = |share: usize| times[(times.len() - 1) * share / 100].as_millis();
    let figures = json!({
        "ends": ends, "in_flight": CLIENTS, "refusals": workload.client().refusals(),
        "answers": *workload.client().answers().borrow(),
        "milliseconds": {"p50": milliseconds(50), "p99": milliseconds(99), "max": milliseconds(100)},
        "queries": figures.queries, "entries": figures.entries, "succeeded": ratio, "recoveries": figures.recoveries,
        "outcome_unknown": figures.outcome_unknown,
    });
    proof.finish(signals, &figures);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_and_streaming_clients_are_answered_before_the_end() {
    let world = World::new();
    let mut server = world.start().await;
    let client = Client::of(&server.base);
    let created = client.post("", &scenarios::query("q", Scenario::Endless)).await;
    assert_eq!(created.status, 200, "{}", created.body);
    let mut events = client.events("q", None).await.expect("a stream");
    let mut endless = u64::MAX;
    let first = events.next(&mut endless).await.expect("an event").expect("an event");
    assert_eq!(first.name, "agent_thinking");
    let body = scenarios::query("other", Scenario::Endless);
    let stopped = async {
        // When the second query runs, the request that waits for it has come in.
        let is_running = async { while client.get("/other").await.state() != "running" {} };
        soon("the second query", is_running).await;
        server.terminate();
    };
    let (answer, ()) = tokio::join!(client.ask(&Method::POST, "?wait=60s", Some(&body)), stopped);
    let answer = answer.expect("an answer");
    assert_eq!((answer.status, answer.state()), (200, "running"), "{}", answer.body);
    assert_eq!(events.next(&mut endless).await.expect("a clean end"), None);
    assert_eq!(soon("the end", server.exit()).await, ProcessExit::Exited(0));
}

/// A disk that does not answer blocks the last commit, and the process with it, forever. The second signal does not
/// wait for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_ends_it_at_once_whatever_the_disk_does() {
    let mut world = World::new();
    let disk = Disk::under(&mut world);
    let mut server = world.start().await;
    let client = Client::of(&server.base);
    disk.stall();
    let body = scenarios::query("q", Scenario::Outside);
    let asked = client.ask(&Method::POST, "", Some(&body));
    let stopped = async {
        until("a flush that does not return", || disk.stalled() > 0).await;
        server.terminate();
        let waited = tokio::time::timeout(Duration::from_millis(700), server.exit()).await;
        assert!(waited.is_err(), "a graceful shutdown waits for the disk: {waited:?}");
        let begun = Instant::now();
        server.terminate();
        assert_eq!(soon("the end", server.exit()).await, ProcessExit::Exited(130));
        begun.elapsed()
    };
    let (asked, elapsed) = tokio::join!(asked, stopped);
    assert!(asked.is_err(), "what is not on the disk is not answered: {asked:?}");
    assert!(elapsed < Duration::from_secs(2), "{elapsed:?}");
    // The first process has ended, and the disk is repaired.
    disk.repair();
    let mut server = world.start().await;
    let created = Client::of(&server.base).post("?wait=20s", &body).await;
    assert!(matches!(created.status, 200 | 409), "{}", created.body);
    assert_eq!(server.kill().await, ProcessExit::Killed);
}
