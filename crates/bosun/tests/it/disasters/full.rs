//! A disk that is full, under load.
//!
//! While it is full, writes are refused, reads are answered, and a process that dies cannot be started again, with a
//! reason; when there is space again, everything continues, without a restart unless the server was killed meanwhile.

use serde_json::json;
use tokio::sync::watch;

use super::ProbeClient;
use crate::support::{
    client::{Address, Client, introduce},
    oracle,
    proof::{Proof, scale, seed},
    rng::Rng,
    server::{ProcessExit, Started, World, tail},
    soon,
    volume::Volume,
    workload::Workload,
};

/// The number of queries in flight.
const CLIENTS: u64 = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_writes_answers_reads_and_loses_nothing() {
    let (seed, fills) = (seed(), scale("BOSUN_DISK_FILLS", 6));
    let test = "disasters::full::a_full_disk_refuses_writes_answers_reads_and_loses_nothing";
    let mut proof = Proof::begin(test, seed, &[("BOSUN_DISK_FILLS", fills)]);
    let mut rng = Rng::new(seed);
    let mut world = World::new();
    let volume = Volume::under(&mut world);
    let (announce, address) = watch::channel(Address::default());
    let workload = Workload::with_large_results(Client::new(address), rng.branch(1));
    let mut server = world.start().await;
    introduce(&announce, &server);
    let mut probe = ProbeClient::call(workload.client()).await;
    let clients = workload.begin(CLIENTS);

    let (mut deaths, mut refused_starts) = (0, 0);
    for _ in 0..fills {
        workload.client().answered(rng.within(1..60)).await;
        volume.fill(&server, rng.within(0..256 << 10));
        for seen in [probe.is_refused().await, probe.can_read().await] {
            proof.violations(seen.err());
        }
        if rng.chance(30) {
            deaths += 1;
            assert_eq!(server.kill().await, ProcessExit::Killed);
            // There may be just enough space to start.
            if let Volume::Tmpfs(_) = volume {
                match soon("a start on a full disk", world.spawn(None).ready()).await {
                    Started::Ready(mut started) => assert_eq!(started.kill().await, ProcessExit::Killed),
                    Started::Exited(ProcessExit::Exited(1)) if tail(&world.log()).contains("full") => {
                        refused_starts += 1;
                    }
                    Started::Exited(exit) => {
                        proof.violation(format!("a start on a full disk: {exit:?}: {}", tail(&world.log())));
                    }
                }
            }
            volume.free_without_server();
            server = world.start().await;
            introduce(&announce, &server);
        } else {
            volume.free(&server);
        }
        probe.check_that_work_continues().await;
    }
    let mut records = clients.end().await;
    records.extend(probe.into_records().await);
    assert_eq!(server.kill().await, ProcessExit::Killed);

    let (figures, violations) = oracle::judge(&world, &records);
    proof.violations(violations);
    let ratio = figures.succeeded as f64 / figures.meant_to_succeed.max(1) as f64;
    if ratio < 0.95 {
        proof.violation(format!("only {:.1} % of the queries succeeded", ratio * 100.0));
    }
    let figures = json!({
        "limit": volume.kind(), "in_flight": CLIENTS, "deaths": deaths, "refused_starts": refused_starts,
        "refusals": workload.client().refusals(), "answers": *workload.client().answers().borrow(),
        "queries": figures.queries, "entries": figures.entries, "succeeded": ratio, "recoveries": figures.recoveries,
        "outcome_unknown": figures.outcome_unknown,
    });
    proof.finish(fills, &figures);
}
