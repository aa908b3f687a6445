//! A disk whose flushes and writes fail, and whose power is cut, under load.
//!
//! The system call fails, in the program that is shipped; `support/disk.c` says how. While the disk fails, writes are
//! refused, reads are answered, and nothing is lost that was acknowledged; when it is repaired, the server continues
//! without a restart. A failed flush must not count as done when a later one succeeds: a power cut after that would
//! show it.

use std::{collections::BTreeMap, time::Duration};

use serde_json::json;
use tokio::sync::watch;

use super::ProbeClient;
use crate::support::{
    client::{Address, Client, introduce},
    disk::{Disk, WriteError},
    oracle,
    proof::{Proof, scale, seed},
    rng::Rng,
    server::{ProcessExit, Server, World},
    until,
    workload::Workload,
};

/// The number of queries in flight.
const CLIENTS: u64 = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_disk_loses_nothing_that_was_acknowledged() {
    let (seed, faults) = (seed(), scale("BOSUN_DISK_FAULTS", 12));
    let test = "disasters::failing::a_failing_disk_loses_nothing_that_was_acknowledged";
    let mut proof = Proof::begin(test, seed, &[("BOSUN_DISK_FAULTS", faults)]);
    let rng = Rng::new(seed);
    let mut world = World::new();
    let disk = Disk::under(&mut world);
    let (announce, address) = watch::channel(Address::default());
    let workload = Workload::with_large_results(Client::new(address), rng.branch(1));
    let server = world.start().await;
    introduce(&announce, &server);
    let probe = ProbeClient::call(workload.client()).await;
    let clients = workload.begin(CLIENTS);

    let tally = BTreeMap::new();
    let mut breaker = Breaker { world: &world, disk: &disk, announce, workload: &workload, server, probe, tally };
    let mut choices = rng.branch(2);
    for _ in 0..faults {
        breaker.workload.client().answered(choices.within(1..60)).await;
        if let Err(violation) = breaker.try_one(&mut choices).await {
            proof.violation(violation);
        }
    }
    let Breaker { mut server, probe, tally, .. } = breaker;
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
        "trials": tally, "failed_calls": disk.failures(), "flushes": disk.syncs(), "in_flight": CLIENTS,
        "refusals": workload.client().refusals(), "answers": *workload.client().answers().borrow(),
        "queries": figures.queries, "entries": figures.entries, "succeeded": ratio, "recoveries": figures.recoveries,
        "outcome_unknown": figures.outcome_unknown,
    });
    if proof.is_broken() {
        eprintln!("the files of this run are kept in {}", world.keep().display());
    }
    proof.finish(faults, &figures);
}

/// The fault of the disk.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// This many flushes fail, and then no more.
    Flushes(u32),
    /// All flushes fail.
    AllFlushes,
    /// All writes fail.
    Writes(WriteError),
}

/// What follows the fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// The disk is repaired, and the same process continues.
    Repaired,
    /// The process dies while the disk fails.
    Killed,
    /// The power is cut while the disk fails.
    PowerCut,
    /// The disk is repaired, and the power is cut after a while.
    RepairedAndPowerCut,
}

struct Breaker<'a> {
    world: &'a World,
    disk: &'a Disk,
    announce: watch::Sender<Address>,
    workload: &'a Workload,
    server: Server,
    probe: ProbeClient,
    /// Which trials were made, and how often.
    tally: BTreeMap<String, u64>,
}

impl Breaker<'_> {
    async fn try_one(&mut self, rng: &mut Rng) -> Result<(), String> {
        let fault = match rng.within(0..6) {
            0 | 1 => Fault::Flushes(rng.within(1..4) as u32),
            2 => Fault::AllFlushes,
            3 => Fault::Writes(WriteError::Io),
            4 => Fault::Writes(WriteError::NoSpace),
            _ => Fault::Writes(WriteError::ReadOnly),
        };
        let ending = *rng.pick(&[Ending::Repaired, Ending::Killed, Ending::PowerCut, Ending::RepairedAndPowerCut]);
        *self.tally.entry(format!("{fault:?} {ending:?}")).or_default() += 1;
        let failed = self.disk.failures();
        match fault {
            Fault::Flushes(times) => self.disk.fail_syncs(times),
            Fault::AllFlushes => self.disk.fail_all_syncs(),
            Fault::Writes(error) => self.disk.fail_writes(error),
        }
        until("a failing call", || self.disk.failures() > failed).await;
        let seen = if let Fault::Flushes(_) = fault { Ok(()) } else { self.check_that_it_fails().await };
        // At some point while the server handles the fault.
        tokio::time::sleep(Duration::from_micros(rng.within(0..30_000))).await;
        if matches!(ending, Ending::Repaired | Ending::RepairedAndPowerCut) {
            self.disk.repair();
            self.probe.check_that_work_continues().await;
            self.workload.client().answered(rng.within(0..60)).await;
        }
        if ending != Ending::Repaired {
            assert_eq!(self.server.kill().await, ProcessExit::Killed);
            if matches!(ending, Ending::PowerCut | Ending::RepairedAndPowerCut) {
                self.disk.cut_power();
            }
            self.disk.repair();
            self.server = self.world.start().await;
            introduce(&self.announce, &self.server);
        }
        seen
    }

    async fn check_that_it_fails(&mut self) -> Result<(), String> {
        self.probe.is_refused().await?;
        self.probe.can_read().await
    }
}
