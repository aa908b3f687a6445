//! L1: idle connections up to the limit of open files.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::net::TcpStream;

use super::{
    Attack,
    target::{Target, client, read},
};
use crate::support::{
    scenarios::{self, Scenario},
    server::World,
};

const OPEN_FILES: usize = 256;
/// The deadline for any answer to a client on top of all others.
const AT_ONCE: Duration = Duration::from_secs(5);
/// The deadline of the first answer while further clients connect at the same time and send nothing.
const ANSWERED_WITHIN: Duration = Duration::from_secs(15);

/// Opens connections and sends nothing on them. Those that the server closes at once count as well.
async fn idle(base: &str, count: usize) -> Vec<TcpStream> {
    let address = base.trim_start_matches("http://").to_owned();
    let mut connections = Vec::new();
    for _ in 0..count {
        let connecting = tokio::time::timeout(Duration::from_secs(2), TcpStream::connect(&address));
        if let Ok(Ok(connection)) = connecting.await {
            connections.push(connection);
        }
    }
    connections
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_leave_files_for_work() {
    let mut attack = Attack::begin("l1_idle_connections");
    let target = Target::start_by(World::new(), &format!("ulimit -n {OPEN_FILES}")).await;
    let query = scenarios::query("q", Scenario::Quick);
    let created = target.json("POST", "/v1/queries?wait=20s&view=rfc", &query).await.expect("an answer");
    let call = created.body["toolCall"]["id"].as_str().expect("a call").to_owned();
    // One connection that is used all the time.
    let known = client();
    let health = format!("{}/health", target.server.base);
    assert!(known.get(&health).send().await.is_ok());
    let connections = idle(&target.server.base, OPEN_FILES + 64).await;
    attack.figure("connections", connections.len());

    let (mut status, begun) = (None, Instant::now());
    while status.is_none() && begun.elapsed() < ANSWERED_WITHIN {
        // If there are too many even to be refused with an answer, a connection is closed; it must not be left hanging.
        match tokio::time::timeout(AT_ONCE, read(client().get(&health))).await {
            Ok(reply) => status = reply.map(|reply| reply.status),
            Err(_) => attack.violation(format!("a new client was left without an answer for {AT_ONCE:?}")),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    attack.expect(matches!(status, Some(200 | 503)), || format!("a new client was answered with {status:?}"));
    attack.figure("answered_after_ms", json!(begun.elapsed().as_millis()));
    // A result that needs a file of its own.
    let result = json!({"toolCallId": call, "toolResult": "x".repeat(600_000)});
    let path = format!("{}/v1/queries/q/tool-result?wait=0", target.server.base);
    let posting = tokio::time::timeout(AT_ONCE * 4, read(known.post(path).json(&result))).await;
    let posted = posting.ok().flatten().unwrap_or_default();
    attack.expect(posted.status == 200, || {
        format!("a large result was answered with {} {}", posted.status, posted.code())
    });

    drop(connections);
    let mut status = 0;
    for _ in 0..50 {
        status = read(client().get(&health)).await.map(|reply| reply.status).unwrap_or_default();
        if status == 200 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    attack.expect(status == 200, || format!("when all are gone, a client is answered with {status}"));
    attack.figure("open_files", OPEN_FILES);
    attack.finish();
}

/// A limit that the process may raise is raised.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_soft_limit_of_open_files_is_raised() {
    let mut attack = Attack::begin("l1_soft_limit");
    let target = Target::start_by(World::new(), "ulimit -Sn 128").await;
    let connections = idle(&target.server.base, 300).await;
    let health = format!("{}/health", target.server.base);
    let newcomer = tokio::time::timeout(AT_ONCE, read(client().get(&health))).await;
    let status = newcomer.ok().flatten().map(|reply| reply.status);
    attack.expect(status == Some(200), || format!("a new client was answered with {status:?}"));
    attack.figure("connections", connections.len());
    attack.finish();
}
