//! H1: results that arrive while a query returns its permit to run.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::json;
use tokio::task::JoinSet;

use super::{Attack, target::Target};
use crate::support::{
    proof::scale,
    scenarios::{self, Scenario},
};

/// One more than there are permits to run.
const CLIENTS: u64 = 3;
/// A query that has everything that it needs and does not end within this time is orphaned.
const ORPHANED: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_query_ends_when_results_come_early_and_all_permits_are_in_use() {
    let mut attack = Attack::begin("h1_orphaned_queries");
    let cycles = scale("BOSUN_ATTACK_CYCLES", 300);
    let target = Arc::new(Target::start(&["--max-running", "2"]).await);
    let (next, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (target, next, over) = (Arc::clone(&target), Arc::clone(&next), Arc::clone(&over));
        clients.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= cycles || over.load(Ordering::Relaxed) {
                    return None;
                }
                if let Err(orphaned) = cycle(&target, &format!("q{number}")).await {
                    over.store(true, Ordering::Relaxed);
                    return Some(orphaned);
                }
            }
        });
    }
    for orphaned in clients.join_all().await.into_iter().flatten() {
        attack.violation(orphaned);
    }
    let left = target.load().await;
    attack.expect(left == Some((0, 0)), || format!("in the end, {left:?} are running and queued"));
    attack.figure("cycles", next.load(Ordering::Relaxed).min(cycles));
    attack.finish();
}

/// Creates a query, and posts the result before the server has asked for it.
async fn cycle(target: &Target, name: &str) -> Result<(), String> {
    let path = format!("/v1/namespaces/default/queries/{name}");
    let created =
        target.json("POST", "/v1/namespaces/default/queries", &scenarios::query(name, Scenario::Outside)).await;
    let created = created.ok_or("no answer to a creation")?;
    if created.status != 200 {
        return Err(format!("{name} was answered with {}: {}", created.status, created.body));
    }
    let body = json!({"toolName": "lookup", "toolResult": "42"});
    let begun = Instant::now();
    loop {
        let posted = target.json("POST", &format!("{path}/tool-result?wait=0"), &body).await;
        match posted.ok_or("no answer to a result")? {
            reply if reply.status == 200 => break,
            reply if reply.code() == "call_not_waiting" && begun.elapsed() < ORPHANED => {}
            reply if reply.code() == "call_not_waiting" => return Err(orphaned(target, name, "asks for nothing").await),
            reply => return Err(format!("a result of {name} was answered with {}: {}", reply.status, reply.body)),
        }
    }
    let begun = Instant::now();
    while begun.elapsed() < ORPHANED {
        let reply = target.get(&format!("{path}?wait=5s&view=rfc")).await.ok_or("no answer to a read")?;
        match reply.state() {
            "completed" => return Ok(()),
            "queued" | "running" => {}
            state => return Err(format!("{name} is {state}: {}", reply.body)),
        }
    }
    Err(orphaned(target, name, "has its result").await)
}

async fn orphaned(target: &Target, name: &str, how: &str) -> String {
    let state = target.get(&format!("/v1/namespaces/default/queries/{name}?view=rfc")).await.unwrap_or_default();
    let load = target.load().await;
    format!("{name} {how} and is {} after {ORPHANED:?}; `/metrics` says {load:?} run and are queued", state.state())
}
