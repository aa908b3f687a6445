//! Kill -9, at random moments and at every named point, while clients work, repeat and go away.
//!
//! Clients play queries without a pause; each keeps a record of what it was told. Meanwhile the
//! server is killed and started again, over and over, on the same data. In the end the oracle holds
//! the records, the journals and the ledger of effects against each other.
//!
//! What this does not test: a power cut. The page cache survives a process, so a store that never
//! flushed would pass here; that it does flush is the store's own test.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use bosun_engine::fault::POINTS;
use serde_json::json;
use tokio::sync::watch;

use crate::support::{
    client::{Address, Client, introduce},
    oracle,
    play::Play,
    proof::{Proof, scale, seed},
    rng::Rng,
    server::{Death, Server, Started, World},
    soon,
};

/// How many queries are in flight at every moment.
const CLIENTS: u64 = 50;
/// A point that has not been passed after so many answers is not going to be in this process.
const ANSWERS_PER_TRY: u64 = 1_000;
/// How often a point is tried before the test gives it up.
const TRIES: u32 = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_promise_survives_kill_9() {
    let (seed, kills) = (seed(), scale("BOSUN_CHAOS_KILLS", 72));
    let mut proof = Proof::begin("chaos::every_promise_survives_kill_9", seed, &[("BOSUN_CHAOS_KILLS", kills)]);
    let rng = Rng::new(seed);
    let world = World::new();
    let (announce, address) = watch::channel(Address::default());
    let play = Play::with_large_results(Client::new(address), rng.branch(1));
    let clients = play.begin(CLIENTS);

    let mut killer =
        Killer { world: &world, announce, play: &play, rng: rng.branch(2), deaths: BTreeMap::new(), starts: 0 };
    killer.carry_out(plans(kills, &mut rng.branch(3))).await;

    let mut last = killer.start().await;
    let records = clients.end().await;
    assert_eq!(last.kill().await, Death::Killed);

    let (figures, violations) = oracle::judge(&world, &records);
    proof.violations(violations);
    let refusals = play.client().refusals();
    if !refusals.is_empty() {
        proof.violation(format!("a server that is only killed was said to be unavailable: {refusals:?}"));
    }
    for point in points().filter(|point| !killer.deaths.contains_key(point)) {
        proof.violation(format!("the process never died at `{point}`"));
    }
    let ratio = figures.succeeded as f64 / figures.meant_to_succeed.max(1) as f64;
    if ratio < 0.95 {
        proof.violation(format!("only {:.1} % of the queries succeeded", ratio * 100.0));
    }
    let done: u64 = killer.deaths.values().sum();
    if done < kills {
        proof.violation(format!("only {done} of {kills} kills were made"));
    }
    let figures = json!({
        "deaths": killer.deaths, "in_flight": CLIENTS, "starts": killer.starts, "answers": *play.client().answers().borrow(),
        "queries": figures.queries, "entries": figures.entries, "succeeded": ratio, "recoveries": figures.recoveries,
        "ledger_lines": figures.ledger_lines, "large_results": figures.large_results, "outcome_unknown": figures.outcome_unknown,
        "repeated_idempotent_runs": figures.repeated_runs, "orphaned_idempotent_runs": figures.orphaned_runs,
    });
    if proof.is_broken() {
        eprintln!("the files of this run are kept in {}", world.keep().display());
    }
    proof.finish(done, &figures);
}

/// When one process is to die.
#[derive(Clone, Copy, Debug)]
enum Plan {
    /// While it starts.
    Starting { after: Duration },
    /// After so many answers, and a little later.
    Working { answers: u64, after: Duration },
    /// At a named point, the how-manyth time it comes by.
    AtPoint { point: &'static str, pass: u64, tries: u32 },
}

/// Half of the kills at named points, each as often as the others; the rest at any moment.
fn plans(kills: u64, rng: &mut Rng) -> VecDeque<Plan> {
    let mut points = points().cycle();
    let mut plans: Vec<_> = (0..kills)
        .map(|number| match number % 8 {
            0..4 => Plan::AtPoint { point: points.next().expect("a point"), pass: 0, tries: 0 },
            4 => Plan::Starting { after: Duration::from_micros(rng.within(0..60_000)) },
            _ => Plan::Working { answers: rng.within(1..120), after: Duration::from_micros(rng.within(0..8_000)) },
        })
        .collect();
    for plan in &mut plans {
        if let Plan::AtPoint { point, pass, .. } = plan {
            *pass = rng.within(1..1 + passes(point));
        }
    }
    rng.shuffle(&mut plans);
    plans.into()
}

/// The points that this test comes by; `upgrades.rs` and `resources.rs` kill at the others.
fn points() -> impl Iterator<Item = &'static str> + Clone {
    POINTS
        .iter()
        .copied()
        .filter(|point| !point.starts_with("upgrade.") && !point.contains("resource") && !point.contains("tend"))
}

/// How far into the life of a process a point is tried; the rarely passed ones at once.
fn passes(point: &str) -> u64 {
    match point {
        "open.commit" | "open.committed" => 1,
        "blob.written" | "blob.named" | "blob.sealed" => 4,
        "expire.appended" | "cancel.appended" | "resume.appended" | "recover.appended" | "delete.appended"
        | "store.remove" | "store.removed" => 2,
        _ => 40,
    }
}

struct Killer<'a> {
    world: &'a World,
    announce: watch::Sender<Address>,
    play: &'a Play,
    rng: Rng,
    /// Where processes died, and how often.
    deaths: BTreeMap<&'static str, u64>,
    starts: u64,
}

impl Killer<'_> {
    async fn carry_out(&mut self, mut plans: VecDeque<Plan>) {
        while let Some(plan) = plans.pop_front() {
            let place = match plan {
                Plan::Starting { after } => {
                    let starting = self.world.spawn(None);
                    self.starts += 1;
                    tokio::time::sleep(after).await;
                    assert_eq!(starting.kill().await, Death::Killed);
                    "starting"
                }
                Plan::Working { answers, after } => {
                    let mut server = self.start().await;
                    self.play.answered(answers).await;
                    tokio::time::sleep(after).await;
                    assert_eq!(server.kill().await, Death::Killed);
                    "working"
                }
                Plan::AtPoint { point, pass, tries } => match self.die_at(point, pass).await {
                    Death::AtFaultPoint => point,
                    Death::Killed => {
                        // The load did not come by this time. It counts as a kill at any moment.
                        if tries < TRIES {
                            let pass = self.rng.within(1..3);
                            plans.push_back(Plan::AtPoint { point, pass, tries: tries + 1 });
                        }
                        "working"
                    }
                    Death::Exited(code) => panic!("the server ended by itself with {code}"),
                },
            };
            *self.deaths.entry(place).or_default() += 1;
        }
    }

    /// Starts a process that is to die at `point`, and kills it if it does not come by.
    async fn die_at(&mut self, point: &'static str, pass: u64) -> Death {
        self.starts += 1;
        let starting = self.world.spawn(Some(&format!("{point}:{pass}")));
        let mut server = match soon("the start of the server", starting.ready()).await {
            Started::Ready(server) => server,
            Started::Dead(death) => return death,
        };
        introduce(&self.announce, &server);
        tokio::select! {
            death = server.death() => return death,
            () = self.play.answered(ANSWERS_PER_TRY) => {}
        }
        server.kill().await
    }

    async fn start(&mut self) -> Server {
        self.starts += 1;
        let server = self.world.start().await;
        introduce(&self.announce, &server);
        server
    }
}
