//! Kill -9, at random moments and at every fault point, while clients work, repeat and disconnect.
//!
//! Clients run queries without a pause; each keeps a record of its answers. Meanwhile the server is killed and
//! restarted, over and over, on the same data. In the end the oracle compares the records, the journals and the ledger
//! of effects.
//!
//! What this does not test: a power cut. The page cache survives a process, so a store that never
//! flushed would pass here; that it does flush is the store's own test.

use bosun_engine::fault::POINTS;
use serde_json::json;
use tokio::sync::watch;

use crate::support::{
    client::{Address, Client},
    killer::Killer,
    oracle,
    proof::{Proof, scale, seed},
    rng::Rng,
    server::{ProcessExit, World},
    workload::Workload,
};

/// The number of queries in flight.
const CLIENTS: u64 = 50;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_promise_survives_kill_9() {
    let (seed, kills) = (seed(), scale("BOSUN_CHAOS_KILLS", 72));
    let mut proof = Proof::begin("chaos::every_promise_survives_kill_9", seed, &[("BOSUN_CHAOS_KILLS", kills)]);
    let rng = Rng::new(seed);
    let world = World::new();
    let (announce, address) = watch::channel(Address::default());
    let workload = Workload::with_large_results(Client::new(address), rng.branch(1));
    let clients = workload.begin(CLIENTS);

    let points: Vec<_> = points().collect();
    let mut killer = Killer::new(&world, announce, workload.client(), rng.branch(2));
    killer.run(kills, &points).await;

    let mut last = killer.start().await;
    let records = clients.end().await;
    assert_eq!(last.kill().await, ProcessExit::Killed);

    let (figures, violations) = oracle::judge(&world, &records);
    proof.violations(violations);
    let refusals = workload.client().refusals();
    if !refusals.is_empty() {
        proof.violation(format!("a server that is only killed answered that it is unavailable: {refusals:?}"));
    }
    let ratio = figures.succeeded as f64 / figures.meant_to_succeed.max(1) as f64;
    if ratio < 0.95 {
        proof.violation(format!("only {:.1} % of the queries succeeded", ratio * 100.0));
    }
    let (done, faults) = killer.result(kills, &points);
    proof.violations(faults);
    let figures = json!({
        "deaths": killer.deaths, "in_flight": CLIENTS, "starts": killer.starts, "answers": *workload.client().answers().borrow(),
        "queries": figures.queries, "entries": figures.entries, "succeeded": ratio, "recoveries": figures.recoveries,
        "ledger_lines": figures.ledger_lines, "large_results": figures.large_results, "outcome_unknown": figures.outcome_unknown,
        "repeated_idempotent_runs": figures.repeated_runs, "orphaned_idempotent_runs": figures.orphaned_runs,
    });
    if proof.is_broken() {
        eprintln!("the files of this run are kept in {}", world.keep().display());
    }
    proof.finish(done, &figures);
}

/// Points that `upgrades.rs`, `resources.rs`, `workers.rs` and `a2a_push.rs` kill at.
const ELSEWHERE: &[&str] = &["upgrade.", "resource", "store.maintain", "claim.", "extend.", "webhook"];

/// The fault points that this test passes.
fn points() -> impl Iterator<Item = &'static str> {
    POINTS.iter().copied().filter(|point| !ELSEWHERE.iter().any(|part| point.contains(part)))
}
