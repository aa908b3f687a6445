//! kill -9 at every fault point that a call of an agent behind an A2A server passes.
//!
//! The peer recognizes no message ids, so a message that is sent twice begins two tasks. It lists its tasks: one that has
//! begun is found by the next process, and the query ends with its result. If none has begun, the outcome of the call is
//! unknown to that process, and the model learns it.

use std::collections::BTreeSet;

use bosun_engine::fault::POINTS;
use bosun_standin::a2a::{A2aPeer, PeerBehaviour};
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};

use super::{manifest, world};
use crate::{
    resources::send,
    support::{
        server::{ProcessExit, Server, Started},
        soon,
    },
};

/// The points that a query with such a call passes, from the start of the server on, and how often the server is let
/// past each before it is killed at it. The start of the call is in the entry that ends the turn.
const PASSED: &[(&str, u32)] = &[
    ("upgrade.commit", 1),
    ("upgrade.committed", 1),
    ("open.commit", 1),
    ("open.committed", 1),
    ("submit.appended", 1),
    ("submit.durable", 1),
    ("turn.started", 2),
    ("turn.replied", 2),
    ("turn.ended", 2),
    ("call.pending", 2),
    ("expire.appended", 2),
    ("deliver.appended", 1),
    ("deliver.durable", 1),
    ("call.ran", 2),
    ("call.finished", 1),
    ("store.commit", 6),
    ("store.committed", 6),
];

const AT_ONCE: usize = 4;

/// Asks, answers the question of the agent if it has one, and returns the query at its end; `None` if the server dies.
async fn converse(server: &Server) -> Option<Value> {
    let body = json!({"name": "q", "input": "hello", "target": {"type": "agent", "name": "asker"}});
    let post = async |path: &str, body: &Value| send(server, "POST", path, Some(body), &[]).await.ok();
    loop {
        let shown = send(server, "GET", "/v1/a2a-servers/peer", None, &[]).await.ok()?;
        if shown.body["ready"] == true {
            break;
        }
        tokio::task::yield_now().await;
    }
    // A client without an answer asks again: it is the same query.
    let mut query = post("/v1/queries?wait=20s&view=rfc", &body).await?.body;
    loop {
        if let Some(request) = query["parameterRequests"].get(0) {
            let answer = json!({"toolCallId": request["id"], "toolResult": "Rome"});
            post("/v1/queries/q/tool-result?wait=20s&view=rfc", &answer).await?;
        }
        if matches!(query["status"].as_str(), Some("completed" | "failed" | "cancelled")) {
            return Some(query);
        }
        query = send(server, "GET", "/v1/queries/q?view=rfc&wait=20s", None, &[]).await.ok()?.body;
    }
}

/// Kills the server at a fault point, and starts it again. Returns the point if the call passes it.
async fn kill_at(behaviour: PeerBehaviour, point: &'static str, pass: u32) -> Option<&'static str> {
    let peer = A2aPeer::start(behaviour).await.unwrap();
    let world = world("peer-peer", &manifest("peer", &peer.url(), ""));
    let fault = format!("{point}:{pass}");
    let mut ended = None;
    if let Started::Ready(mut server) = soon("the start of the server", world.spawn(Some(&fault)).ready()).await {
        ended = soon("the end of the query, or of the server", converse(&server)).await;
        let exit = if ended.is_some() { server.kill().await } else { server.exit().await };
        // It may also die between the end of the query and the kill.
        assert!(matches!(exit, ProcessExit::Killed | ProcessExit::AtFaultPoint), "{behaviour:?} {fault}: {exit:?}");
    }
    let is_passed = ended.is_none();
    let server = world.start().await;
    let query = soon("the end of the query", converse(&server)).await.expect("this server is not killed");
    let begun = peer.messages().iter().filter(|message| message["taskId"].is_null()).count();
    let sent = if behaviour == PeerBehaviour::Asks { "Rome" } else { "hello" };
    let response = query["response"].as_str().unwrap_or_default();
    match begun {
        0 => {
            assert!(
                response.contains("the server stopped while it sent the message"),
                "{behaviour:?} {fault}: {query}"
            );
        }
        1 => assert_eq!(response, format!("They say: you said: {sent}"), "{behaviour:?} {fault}: {query}"),
        _ => panic!("{behaviour:?} {fault}: {begun} tasks have begun"),
    }
    is_passed.then_some(point)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_killed_at_any_point_begins_at_most_one_task_and_has_the_right_outcome() {
    let kills = POINTS.iter().flat_map(|point| {
        // That the others are not passed is seen at the first pass.
        let passes = PASSED.iter().find(|(passed, _)| passed == point).map_or(1, |(_, passes)| *passes);
        let behaviours = [PeerBehaviour::Works, PeerBehaviour::Asks];
        behaviours.into_iter().flat_map(move |behaviour| (1..=passes).map(move |pass| kill_at(behaviour, point, pass)))
    });
    let passed: Vec<_> = stream::iter(kills).buffer_unordered(AT_ONCE).collect().await;
    let passed: BTreeSet<_> = passed.into_iter().flatten().collect();
    assert_eq!(passed, PASSED.iter().map(|(point, _)| *point).collect());
}
