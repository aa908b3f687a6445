//! The audit log and the counts, as clients see them.

use std::collections::BTreeMap;

use bosun_core::audit::SUCCESS;
use serde_json::{Value, json};

use super::world::{TestServer, calculating, with_calculator};

async fn deliver(world: &TestServer, name: &str, result: &str) -> super::world::HttpReply {
    let body = json!({"toolName": "calculator", "toolResult": result, "wait": "5s"});
    world.post(&format!("/v1/queries/{name}/tool-result"), &body).await
}

async fn run(world: &TestServer, name: &str) {
    world.post("/v1/queries?wait=5s", &with_calculator(name)).await.ok();
    deliver(world, name, "2108").await.ok();
}

fn actions(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().rev().map(|item| item["action"].as_str().unwrap()).collect()
}

const LIFE: [&str; 4] = ["query.created", "call.handed_out", "call.delivered", "query.completed"];

#[tokio::test(start_paused = true)]
async fn the_life_of_a_query_is_on_record() {
    let world = TestServer::new(calculating()).await;
    run(&world, "a").await;
    let page = world.get("/v1/audit").await.ok();
    assert_eq!(actions(&page), LIFE);
    assert_eq!((&page["count"], &page["next"]), (&json!(4), &Value::Null));
    let handed_out = &page["items"][2];
    assert_eq!(handed_out["arguments"], json!({"expression": "0.25 * 8432"}));
    assert_eq!((&handed_out["tool"], &handed_out["query"]), (&json!("calculator"), &json!("a")));
    assert_eq!(handed_out["actor"], "local", "whose call it is");
    assert_eq!(page["items"][1]["outcome"], SUCCESS);
    assert_eq!(page["items"][3]["actor"], "local");
    assert_eq!(world.get("/v1/namespaces/default/audit").await.ok(), page, "both paths lead there");
    assert_eq!(world.get("/v1/namespaces/other/audit").await.ok()["count"], 0, "another namespace has its own");
    let text = page.to_string();
    assert!(!text.contains("2108") && !text.contains("What is"), "no results and no questions: {text}");
}

#[tokio::test(start_paused = true)]
async fn results_that_do_not_count_are_on_record_too() {
    let world = TestServer::new(calculating()).await;
    run(&world, "a").await;
    assert_eq!(deliver(&world, "a", "2108").await.status, 200, "a replay is nothing new");
    assert_eq!(deliver(&world, "a", "4711").await.status, 409);
    let page = world.get("/v1/audit?tool=calculator").await.ok();
    let refused = &page["items"][0];
    assert_eq!((&refused["action"], &refused["actor"]), (&json!("delivery.refused"), &json!("local")));
    assert!(refused["outcomeHash"].is_string() && !page.to_string().contains("4711"), "{refused}");
    world.send("DELETE", "/v1/queries/a", &[], "").await;
    assert_eq!(actions(&world.get("/v1/audit?query=a").await.ok()).last(), Some(&"query.deleted"));
}

#[tokio::test(start_paused = true)]
async fn the_log_is_read_in_pages_and_as_lines() {
    let world = TestServer::new(calculating()).await;
    for name in ["a", "b", "c"] {
        run(&world, name).await;
    }
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = world.get(&format!("/v1/audit?query=b&limit=3{cursor}")).await.ok();
        all.extend(page["items"].as_array().unwrap().clone());
        match page["next"].as_u64() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(all.iter().rev().map(|item| item["action"].clone()).collect::<Vec<_>>(), LIFE);
    let lines = world.send("GET", "/v1/audit?limit=5", &[("accept", "application/x-ndjson")], "").await;
    assert_eq!(lines.header("content-type"), Some("application/x-ndjson"));
    assert_eq!(lines.header("x-next-cursor"), Some("8"));
    assert_eq!(lines.body.as_str().unwrap().lines().count(), 5);
    for bad in ["from=soon", "to=x", "cursor=-1", "query=No%20Name", "limit=0"] {
        assert_eq!(world.get(&format!("/v1/audit?{bad}")).await.refusal(), (400, "invalid_parameter"), "{bad}");
    }
    assert_eq!(world.get("/v1/audit?from=1h").await.ok()["count"], 12);
    assert_eq!(world.get("/v1/audit?to=1h").await.ok()["count"], 0);
}

/// Quantiles of a list, counted by hand.
fn exact(mut values: Vec<u64>, share: f64) -> u64 {
    values.sort_unstable();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a small list"
    )]
    let rank = (share * values.len() as f64).ceil() as usize;
    values[rank.max(1) - 1]
}

#[tokio::test(start_paused = true)]
async fn usage_is_what_the_log_says() {
    let world = TestServer::new(calculating()).await;
    for (index, wait) in [3_u64, 40, 5, 250, 7, 1_900, 11, 13].into_iter().enumerate() {
        let name = format!("q{index}");
        world.post("/v1/queries?wait=5s", &with_calculator(&name)).await.ok();
        tokio::time::advance(std::time::Duration::from_millis(wait)).await;
        let body = json!({"toolName": "calculator", "toolResult": "x", "success": index != 3, "wait": "5s"});
        world.post(&format!("/v1/queries/{name}/tool-result"), &body).await.ok();
    }
    let report = world.get("/v1/tools/usage?top=1").await.ok();
    let log = world.get("/v1/audit?limit=1000").await.ok();
    let mut latencies: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut errors = 0;
    for item in log["items"].as_array().unwrap().iter().filter(|item| item["action"] == "call.delivered") {
        latencies.entry(item["tool"].as_str().unwrap().into()).or_default().push(item["durationMs"].as_u64().unwrap());
        errors += u64::from(item["outcome"] != SUCCESS);
    }
    let latencies = &latencies["calculator"];
    let tool = &report["tools"][0];
    assert_eq!((&tool["calls"], &tool["errors"]), (&json!(latencies.len()), &json!(errors)), "{report}");
    for (share, name) in [(0.5, "p50Ms"), (0.95, "p95Ms")] {
        let (found, exact) = (tool[name].as_u64().unwrap(), exact(latencies.clone(), share));
        assert!(found.abs_diff(exact) * 16 <= exact, "{name}: {found} is not {exact}");
    }
    assert_eq!(report["sources"][0]["source"], "outside");
    assert_eq!(report["agents"][0]["agent"], "math-assistant");
    assert_eq!((&report["queries"]["count"], &report["queries"]["shareWithOutsideTools"]), (&json!(8), &json!(1.0)));
    assert_eq!(report["queries"]["toolsPerQuery"], json!(1.0));
    assert_eq!(report["coverage"], json!({"top": 1, "share": 1.0}));
    assert_eq!(world.get("/v1/tools/usage?since=x").await.refusal(), (400, "invalid_parameter"));
    assert_eq!(world.get("/v1/namespaces/other/tools/usage").await.ok()["tools"], json!([]));
}
