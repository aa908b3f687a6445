//! Requests that are refused for lack of a key or a right are recorded, and not more than a few a minute.

use std::{sync::Arc, time::Duration};

use axum::body::Body;
use serde_json::Value;

use super::{
    authorization::{keys, policy},
    world::{TestServer, calculating},
};

async fn ask(world: &TestServer, path: &str, key: Option<&str>) -> u16 {
    let authorization = key.map(|key| format!("Bearer sk-{key}"));
    let headers: Vec<_> = authorization.iter().map(|value| ("authorization", value.as_str())).collect();
    world.send("GET", path, &headers, Body::empty()).await.status.as_u16()
}

/// What is on record of refusals, oldest first.
async fn recorded(world: &TestServer) -> Vec<Value> {
    let headers = [("authorization", "Bearer sk-any")];
    let path = "/v1/namespaces/bosun-server/audit?limit=1000";
    let page = world.send("GET", path, &headers, Body::empty()).await.ok();
    let refused = |record: &&Value| record["action"] == "access.refused";
    page["items"].as_array().unwrap().iter().rev().filter(refused).cloned().collect()
}

fn guarded(world: TestServer) -> TestServer {
    let policy = Arc::new(policy(keys()));
    world.guarded(&policy)
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_on_record_with_the_key_and_the_route() {
    let world = guarded(TestServer::new(calculating()).await);
    assert_eq!(ask(&world, "/v1/queries/secret-name", None).await, 401);
    assert_eq!(ask(&world, "/v1/queries", Some("unknown")).await, 401);
    assert_eq!(ask(&world, "/v1/queries", Some("only-run")).await, 403);
    assert_eq!(ask(&world, "/v1/namespaces/default/queries", Some("other")).await, 403);
    let records = recorded(&world).await;
    let recorded_refusals: Vec<_> = records
        .iter()
        .map(|record| {
            (record["actor"].as_str(), record["outcome"].as_str().unwrap(), record["detail"].as_str().unwrap())
        })
        .collect();
    assert_eq!(
        recorded_refusals,
        [
            (None, "unauthorized", "GET /v1/queries/{name}"),
            (None, "unauthorized", "GET /v1/queries"),
            (Some("only-run"), "right_missing", "GET /v1/queries"),
            (Some("other"), "namespace_forbidden", "GET /v1/namespaces/{namespace}/queries"),
        ]
    );
    let text = serde_json::to_string(&records).unwrap();
    assert!(!text.contains("sk-") && !text.contains("secret-name"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_refusals_leaves_a_few_records_and_a_count() {
    let world = guarded(TestServer::new(calculating()).await);
    for _ in 0..500 {
        assert_eq!(ask(&world, "/v1/queries", None).await, 401);
        assert_eq!(ask(&world, "/v1/queries", Some("only-run")).await, 403);
    }
    let records = recorded(&world).await;
    assert!(records.len() <= 40, "{}", records.len());
    // Another key is not silenced by it.
    assert_eq!(ask(&world, "/v1/queries", Some("only-audit")).await, 403);
    assert_eq!(recorded(&world).await.last().unwrap()["actor"], "only-audit");
    tokio::time::advance(Duration::from_secs(61)).await;
    let before = recorded(&world).await.len();
    assert_eq!(ask(&world, "/v1/queries", None).await, 401);
    let after = recorded(&world).await;
    assert!(after.len() > before, "a new minute is a new count");
    let counted: u64 = after.iter().filter_map(|record| suppressed(record["detail"].as_str()?)).sum();
    let listed = after.iter().filter(|record| suppressed(record["detail"].as_str().unwrap_or_default()).is_none());
    assert_eq!(counted + listed.count() as u64, 1_002, "every refusal is on record or counted");
}

/// How many further refusals a record counts.
fn suppressed(detail: &str) -> Option<u64> {
    detail.split_once(" further refusals")?.0.parse().ok()
}
