//! More queries than the server can accept, all at once, with a slow model.
//!
//! Each is accepted, and then ends, or is refused with 503 and nothing of it is kept. Memory stays within a bound that
//! depends on open connections alone, and meanwhile the server accepts the result of an earlier query. The latency of
//! `/health` is reported, not checked: the clients share its processors.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::{
    client::{Answer, Client, result},
    oracle,
    proof::{Proof, scale, seed},
    scenarios::{self, Scenario},
    server::{ProcessExit, World},
    soon,
};

/// A fifth of the queries of `make test`, and a tenth of those of `make chaos`, are accepted.
const RUNNING: u64 = 50;
const QUEUED: u64 = 200;
const MANY_QUEUED: u64 = 1_000;
/// How often a client retries without an answer.
const TRIES: u32 = 10;
/// The maximum growth of the server under any load: its caches and its log…
const MEMORY: u64 = 64 << 20;
/// … and this for each connection that is open: a bare server of the same parts takes more.
const CONNECTION: u64 = 24 << 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_query_of_a_flood_ends_or_is_refused() {
    let (seed, flood) = (seed(), scale("BOSUN_OVERLOAD", 1_000));
    let test = "overload::every_query_of_a_flood_ends_or_is_refused";
    let mut proof = Proof::begin(test, seed, &[("BOSUN_OVERLOAD", flood)]);
    let queued = if flood > 5_000 { MANY_QUEUED } else { QUEUED };
    let world = World::new().with(&["--max-running", &RUNNING.to_string(), "--max-queued", &queued.to_string()]);
    let mut server = world.start().await;
    let client = Client::of(&server.base);
    let known = client.post("?wait=20s", &scenarios::query("known", Scenario::Outside)).await;
    let (call, _) = known.waiting_calls()[0].clone();

    let memory = server.memory();
    let at_rest = memory();
    let (peak, over) = (Arc::new(AtomicU64::new(at_rest)), Arc::new(AtomicBool::new(false)));
    let mut watching = JoinSet::new();
    {
        let (peak, over, client) = (Arc::clone(&peak), Arc::clone(&over), client.clone());
        watching.spawn(async move {
            let mut slowest = Duration::ZERO;
            while !over.load(Ordering::Relaxed) {
                peak.fetch_max(memory(), Ordering::Relaxed);
                let begun = Instant::now();
                if client.is_healthy().await {
                    slowest = slowest.max(begun.elapsed());
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            slowest
        });
    }

    let broken = Arc::new(AtomicU64::new(0));
    let mut clients = JoinSet::new();
    for number in 0..flood {
        let (client, broken) = (client.clone(), Arc::clone(&broken));
        clients.spawn(async move { run_query(&client, &format!("q{number}"), &broken).await });
    }
    let delivered = client.post("/known/tool-result?wait=0", &result(&call, "42")).await;
    if delivered.status != 200 {
        proof.violation(format!("a result was answered with {}: {}", delivered.status, delivered.body));
    }
    let mut ends: BTreeMap<String, u64> = BTreeMap::new();
    let mut taken = Vec::new();
    while let Some(ended) = soon("the end of the flood", clients.join_next()).await {
        let (name, end) = ended.expect("a client");
        match end {
            Ok(end) => {
                *ends.entry(end.clone()).or_default() += 1;
                if end == "completed" {
                    taken.push(name);
                }
            }
            Err(violation) => proof.violation(format!("{name}: {violation}")),
        }
    }
    over.store(true, Ordering::Relaxed);
    let slowest_health = watching.join_all().await[0];
    let known = client.get("/known?wait=20s").await;
    if known.state() != "completed" {
        proof.violation(format!("the query that was known is {}", known.body));
    }
    let grown = peak.load(Ordering::Relaxed) - at_rest;
    if grown > MEMORY + CONNECTION * flood {
        proof.violation(format!("memory grew by {} MiB", grown >> 20));
    }
    for (end, least) in [("completed", RUNNING), ("overloaded", flood / 4)] {
        if ends.get(end).copied().unwrap_or_default() < least {
            proof.violation(format!("only {:?} were {end}: that was not a flood", ends.get(end)));
        }
    }
    assert_eq!(server.kill().await, ProcessExit::Killed);
    let mut violations = Vec::new();
    let mut stored: Vec<_> = oracle::read_journals(&world.data(), &mut violations)
        .into_iter()
        .map(|journal| journal.head.name.to_string())
        .filter(|name| name != "known")
        .collect();
    proof.violations(violations);
    stored.sort();
    taken.sort();
    if stored != taken {
        proof.violation(format!("{} were accepted, and {} are stored", taken.len(), stored.len()));
    }
    let figures = json!({
        "ends": ends, "running": RUNNING, "queued": queued, "memory_at_rest": at_rest, "memory_grown": grown,
        "broken_connections": broken.load(Ordering::Relaxed), "slowest_health_ms": slowest_health.as_millis(),
    });
    proof.finish(flood, &figures);
}

/// At most this many waiting queries are cached.
const CACHED: u64 = 8;
/// The caches and the pools of the server are full after this many queries…
const WARMING: u64 = 300;
/// … and grow no more with these…
const WAITING: u64 = 600;
/// … of which each may take this much: what the store's index and the allocator need.
const QUERY: u64 = 16 << 10;

/// Creates queries that wait for their clients, a few at a time.
async fn create_waiting(client: &Client, numbers: std::ops::Range<u64>) {
    let mut creators = JoinSet::new();
    for first in 0..4 {
        let (client, numbers) = (client.clone(), numbers.clone());
        creators.spawn(async move {
            for number in numbers.skip(first).step_by(4) {
                let body = scenarios::query(&format!("w{number}"), Scenario::Quick);
                let created = client.post("?wait=20s", &body).await;
                assert_eq!(created.state(), "waiting", "{}", created.body);
            }
        });
    }
    soon("waiting queries", creators.join_all()).await;
}

/// Delivers to all of these queries, and sees that they end.
async fn end_waiting(client: &Client, numbers: std::ops::Range<u64>) {
    let body = json!({"toolName": "lookup", "toolResult": "42"});
    let mut deliverers = JoinSet::new();
    for first in 0..4 {
        let (client, numbers, body) = (client.clone(), numbers.clone(), body.clone());
        deliverers.spawn(async move {
            for number in numbers.skip(first).step_by(4) {
                let ended = client.post(&format!("/w{number}/tool-result?wait=20s"), &body).await;
                assert_eq!(ended.state(), "completed", "{}", ended.body);
            }
        });
    }
    soon("the ends of the queries", deliverers.join_all()).await;
}

/// A query that waits is rows in a file, and so is one that has ended: in memory is a cache with a bound, and no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_that_wait_or_have_ended_are_not_in_memory() {
    let world = World::new().with(&["--max-running", &CACHED.to_string()]);
    let server = world.start().await;
    let (client, memory) = (Client::of(&server.base), server.memory());
    create_waiting(&client, 0..WARMING).await;
    end_waiting(&client, 0..WARMING).await;
    let before = memory();
    create_waiting(&client, WARMING..WARMING + WAITING).await;
    let waiting = memory().saturating_sub(before) / WAITING;
    end_waiting(&client, WARMING..WARMING + WAITING).await;
    let ended = memory().saturating_sub(before) / WAITING;
    assert!(waiting < QUERY, "each waiting query takes {waiting} bytes of memory");
    assert!(ended < QUERY, "each query that has ended takes {ended} bytes of memory");
}

/// Asks for one query and sees how it ends.
async fn run_query(client: &Client, name: &str, broken: &AtomicU64) -> (String, Result<String, String>) {
    let body = scenarios::query(name, Scenario::Slow);
    let end = match ask(client, &Method::POST, "", Some(&body), broken).await {
        Ok(created) => match (created.status, created.code()) {
            (503, "overloaded") if created.retry_after => Ok("overloaded".to_owned()),
            (200, _) => await_end(client, name, broken).await,
            (status, _) => Err(format!("was answered with {status}: {}", created.body)),
        },
        Err(violation) => Err(violation),
    };
    (name.into(), end)
}

async fn await_end(client: &Client, name: &str, broken: &AtomicU64) -> Result<String, String> {
    loop {
        let query = ask(client, &Method::GET, &format!("/{name}?wait=60s"), None, broken).await?;
        match query.state() {
            "queued" | "running" => {}
            "completed" => return Ok("completed".to_owned()),
            _ => return Err(format!("ended as {}", query.body)),
        }
    }
}

/// Retries until there is an answer: ten thousand connections of one process on one machine time out now and then, and
/// a client without an answer retries.
async fn ask(
    client: &Client,
    method: &Method,
    path: &str,
    body: Option<&Value>,
    broken: &AtomicU64,
) -> Result<Answer, String> {
    for _ in 0..TRIES {
        match client.ask(method, path, body).await {
            Ok(answer) => return Ok(answer),
            Err(_) => broken.fetch_add(1, Ordering::Relaxed),
        };
    }
    Err(format!("was not answered {TRIES} times"))
}
