//! Kills the server: at random moments, while it starts, and at fault points, over and over on the same data.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use tokio::sync::watch;

use super::{
    client::{Address, Client, introduce},
    rng::Rng,
    server::{ProcessExit, Server, Started, World},
    soon,
};

/// A point that has not been passed after this many answers will not be passed by this process.
const ANSWERS_PER_TRY: u64 = 1_000;
/// How often a point is tried before it is skipped.
const TRIES: u32 = 6;

/// When one process is killed.
#[derive(Clone, Copy, Debug)]
enum Plan {
    /// While it starts.
    Starting { after: Duration },
    /// After this many answers, and a little later.
    Working { answers: u64, after: Duration },
    /// At a named point, on its nth pass.
    AtPoint { point: &'static str, pass: u64, tries: u32 },
}

/// Half of the kills at named points, each as often as the others; the rest at any moment.
fn plans(kills: u64, points: &[&'static str], rng: &mut Rng) -> VecDeque<Plan> {
    let mut points = points.iter().cycle();
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

/// How far into the life of a process a point is tried; the rarely passed ones at once.
fn passes(point: &str) -> u64 {
    match point {
        "open.commit" | "open.committed" => 1,
        "blob.written" | "blob.named" | "blob.sealed" => 4,
        "expire.appended" | "cancel.appended" | "update.appended" | "resume.appended" | "recover.appended"
        | "delete.appended" | "store.remove" | "store.removed" => 2,
        _ => 40,
    }
}

/// Starts and kills servers while clients work.
#[derive(Debug)]
pub(crate) struct Killer<'a> {
    world: &'a World,
    announce: watch::Sender<Address>,
    /// Its answers show how far a process has come.
    client: &'a Client,
    rng: Rng,
    /// Where processes died, and how often.
    pub(crate) deaths: BTreeMap<&'static str, u64>,
    pub(crate) starts: u64,
}

impl<'a> Killer<'a> {
    pub(crate) fn new(world: &'a World, announce: watch::Sender<Address>, client: &'a Client, rng: Rng) -> Self {
        Self { world, announce, client, rng, deaths: BTreeMap::new(), starts: 0 }
    }

    /// Kills this many processes, half of them at `points`.
    pub(crate) async fn run(&mut self, kills: u64, points: &[&'static str]) {
        let mut plans = plans(kills, points, &mut self.rng.branch(1));
        while let Some(plan) = plans.pop_front() {
            let place = match plan {
                Plan::Starting { after } => {
                    let starting = self.world.spawn(None);
                    self.starts += 1;
                    tokio::time::sleep(after).await;
                    assert_eq!(starting.kill().await, ProcessExit::Killed);
                    "starting"
                }
                Plan::Working { answers, after } => {
                    let mut server = self.start().await;
                    self.client.answered(answers).await;
                    tokio::time::sleep(after).await;
                    assert_eq!(server.kill().await, ProcessExit::Killed);
                    "working"
                }
                Plan::AtPoint { point, pass, tries } => match self.crash_at(point, pass).await {
                    ProcessExit::AtFaultPoint => point,
                    ProcessExit::Killed => {
                        // The load did not pass the point this time. It counts as a kill at a random moment.
                        if tries < TRIES {
                            let pass = self.rng.within(1..3);
                            plans.push_back(Plan::AtPoint { point, pass, tries: tries + 1 });
                        }
                        "working"
                    }
                    ProcessExit::Exited(code) => panic!("the server ended by itself with {code}"),
                },
            };
            *self.deaths.entry(place).or_default() += 1;
        }
    }

    /// How many processes have died, and what is wrong with that.
    pub(crate) fn result(&self, kills: u64, points: &[&'static str]) -> (u64, Vec<String>) {
        let missed = points.iter().filter(|point| !self.deaths.contains_key(*point));
        let mut faults: Vec<_> = missed.map(|point| format!("the process never died at `{point}`")).collect();
        let done: u64 = self.deaths.values().sum();
        if done < kills {
            faults.push(format!("only {done} of {kills} kills were made"));
        }
        (done, faults)
    }

    /// Starts a process with a fault at `point`, and kills it if it does not pass.
    async fn crash_at(&mut self, point: &'static str, pass: u64) -> ProcessExit {
        self.starts += 1;
        let starting = self.world.spawn(Some(&format!("{point}:{pass}")));
        let mut server = match soon("the start of the server", starting.ready()).await {
            Started::Ready(server) => server,
            Started::Exited(exit) => return exit,
        };
        introduce(&self.announce, &server);
        tokio::select! {
            exit = server.exit() => return exit,
            () = self.client.answered(ANSWERS_PER_TRY) => {}
        }
        server.kill().await
    }

    pub(crate) async fn start(&mut self) -> Server {
        self.starts += 1;
        let server = self.world.start().await;
        introduce(&self.announce, &server);
        server
    }
}
