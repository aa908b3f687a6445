//! H7: one namespace that takes all capacity, and one that needs its share.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};

use super::{Attack, target::Target};
use crate::support::{proof::scale, server::World};

const RUNNING: u64 = 8;
const QUEUED: u64 = 60;
/// How much slower the polite namespace may become.
const RATIO: f64 = 3.0;
/// When a call expires, and when that must have been noticed.
const DEADLINE: &str = "4s";
const NOTICED: Duration = Duration::from_secs(10);

/// The polite namespace has an agent of its own, with a script.
const POLITE: &str = "\
apiVersion: ark.mckinsey.com/v1alpha1
kind: Model
metadata: {name: scripted, namespace: polite}
spec: {provider: scripted, config: {scripted: {file: script.yaml}}}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Agent
metadata: {name: prover, namespace: polite}
spec: {prompt: Prove it., modelRef: {name: scripted}}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_that_takes_all_capacity_leaves_the_others_their_share() {
    let mut attack = Attack::begin("h7_tenants");
    let full = scale("BOSUN_ATTACK_TENANTS", 0) > 0;
    let cycles = if full { 200 } else { 40 };
    // Accepts connections, keeps them, and sends nothing.
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = silent.local_addr().expect("an address");
    let mut background = JoinSet::new();
    background.spawn(async move {
        let mut kept = Vec::new();
        while let Ok(connection) = silent.accept().await {
            kept.push(connection);
        }
    });
    let world = World::new();
    std::fs::write(world.path("manifests").join("polite.yaml"), POLITE).expect("manifests");
    let options = [
        "--max-running",
        &RUNNING.to_string(),
        "--max-queued",
        &QUEUED.to_string(),
        "--allow-private",
        &address.to_string(),
    ];
    let target = Arc::new(Target::start_in(world.with(&options)).await);
    store_hostile_agent(&target, &format!("http://{address}/v1")).await;

    let alone = latencies(&target, "alone", cycles).await.expect("a server without an attack");
    let mut expiring = query("expires");
    expiring["externalTimeout"] = json!(DEADLINE);
    let created = target.json("POST", "/v1/namespaces/polite/queries?wait=20s&view=rfc", &expiring).await;
    assert_eq!(created.as_ref().map(super::target::Reply::state), Some("waiting"), "{created:?}");
    let waits = Instant::now();
    let (over, taken) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    background.spawn(fill(Arc::clone(&target), Arc::clone(&over), Arc::clone(&taken)));
    // The queue is full when the hostile namespace is refused.
    let begun = Instant::now();
    while taken.load(Ordering::Relaxed) < RUNNING && begun.elapsed() < Duration::from_secs(20) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let measuring = tokio::time::timeout(Duration::from_secs(120), latencies(&target, "beside", cycles));
    let (expired, measured) = tokio::join!(expires(Arc::clone(&target), waits), measuring);
    match measured {
        Ok(Ok(beside)) => {
            let ratio = percentile(&beside).as_secs_f64() / percentile(&alone).as_secs_f64();
            attack.figure("p99_alone_ms", json!(percentile(&alone).as_millis()));
            attack.figure("p99_beside_ms", json!(percentile(&beside).as_millis()));
            attack.figure("ratio", (ratio * 10.0).round() / 10.0);
            attack.expect(!full || ratio <= RATIO, || format!("the polite namespace became {ratio:.1} times slower"));
        }
        Ok(Err(refusal)) => attack.violation(refusal),
        Err(_) => attack.violation("the polite namespace made no progress within two minutes"),
    }
    attack.expect(expired, || format!("a call of {DEADLINE} did not expire within {NOTICED:?}"));
    over.store(true, Ordering::Relaxed);
    attack.figure("cycles", cycles);
    attack.figure("hostile_queries", taken.load(Ordering::Relaxed));
    background.shutdown().await;
    attack.finish();
}

/// An agent whose model never answers, stored by a client.
async fn store_hostile_agent(target: &Target, url: &str) {
    let openai = json!({"baseUrl": {"value": url}, "apiKey": {"value": "none"}});
    let model = json!({"name": "silent", "provider": "openai", "model": "m", "config": {"openai": openai}});
    let agent = json!({"name": "silent", "prompt": "p", "modelRef": {"name": "silent"}});
    let namespace = target.json("POST", "/v1/namespaces", &json!({"name": "hostile"})).await.expect("an answer");
    assert!(namespace.status < 500, "{}", namespace.body);
    for (kind, body) in [("models", model), ("agents", agent)] {
        let reply = target.json("POST", &format!("/v1/namespaces/hostile/{kind}"), &body).await.expect("an answer");
        assert_eq!(reply.status, 200, "{kind}: {}", reply.body);
    }
}

/// Creates queries as fast as it may, and retries when it is refused.
async fn fill(target: Arc<Target>, over: Arc<AtomicBool>, taken: Arc<AtomicU64>) {
    while !over.load(Ordering::Relaxed) {
        let body = json!({"input": "x", "target": {"type": "agent", "name": "silent"}, "timeout": "5m"});
        let reply = target.json("POST", "/v1/namespaces/hostile/queries", &body).await.unwrap_or_default();
        if reply.status == 200 {
            taken.fetch_add(1, Ordering::Relaxed);
        } else {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

fn query(name: &str) -> Value {
    json!({
        "name": name, "input": "quick", "target": {"type": "agent", "name": "prover"}, "toolSource": "n8n",
        "externalTools": [{"name": "lookup", "parameters": {"type": "object", "properties": {"key": {"type": "string"}}}}],
    })
}

/// How long each cycle of the polite namespace took, from its creation to its end.
async fn latencies(target: &Target, prefix: &str, cycles: u64) -> Result<Vec<Duration>, String> {
    let mut latencies = Vec::new();
    for number in 0..cycles {
        let begun = Instant::now();
        let name = format!("{prefix}-{number}");
        let path = "/v1/namespaces/polite/queries";
        let created =
            target.json("POST", &format!("{path}?wait=20s&view=rfc"), &query(&name)).await.unwrap_or_default();
        if created.state() != "waiting" {
            return Err(format!("{name} was answered with {}: {}", created.status, created.body));
        }
        let result = json!({"toolName": "lookup", "toolResult": "42"});
        let result = target.json("POST", &format!("{path}/{name}/tool-result?wait=20s&view=rfc"), &result).await;
        let ended = result.unwrap_or_default();
        if ended.state() != "completed" {
            return Err(format!("the result of {name} was answered with {}: {}", ended.status, ended.body));
        }
        latencies.push(begun.elapsed());
    }
    latencies.sort();
    Ok(latencies)
}

fn percentile(sorted: &[Duration]) -> Duration {
    sorted[(sorted.len() * 99 / 100).min(sorted.len() - 1)]
}

/// Whether an expired call is noticed while the other namespace takes all capacity.
async fn expires(target: Arc<Target>, waits: Instant) -> bool {
    while waits.elapsed() < NOTICED {
        let looked = target.get("/v1/namespaces/polite/queries/expires?view=rfc").await.unwrap_or_default();
        if looked.status == 200 && looked.state() != "waiting" {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    false
}
