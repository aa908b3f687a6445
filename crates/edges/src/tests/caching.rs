//! Cached results as clients see them: in the history, in the stream, and when they are cleared.

use axum::body::Body;
use bosun_engine::testing::{ScriptedModel, ScriptedTurn};
use serde_json::{Value, json};

use super::{streaming::told_by_journal, world::TestServer};

async fn world() -> TestServer {
    let turns = vec![ScriptedTurn::call("rate", &json!({"from": "EUR"})), ScriptedTurn::say("done")];
    TestServer::new(ScriptedModel::always(turns)).await
}

fn query(name: &str, cache: &Value) -> Value {
    json!({
        "name": name, "input": "go", "sessionId": "s", "target": {"type": "agent", "name": "math-assistant"},
        "externalTools": [{"name": "rate", "parameters": {"type": "object"}, "cache": cache}],
    })
}

/// Asks, and delivers a result if the query waits for it.
async fn ask(world: &TestServer, name: &str, cache: &Value) -> (bool, Value) {
    let asked = world.post("/v1/queries?wait=true", &query(name, cache)).await.ok();
    if asked["status"] == "completed" {
        return (true, asked);
    }
    let result = json!({"toolName": "rate", "toolResult": {"rate": 1.1}});
    (false, world.post(&format!("/v1/queries/{name}/tool-result"), &result).await.ok())
}

#[tokio::test(start_paused = true)]
async fn a_hit_is_marked_in_the_history_and_in_the_stream() {
    let world = world().await;
    let cache = json!({"ttl": "5m", "scope": "session"});
    let (hit, first) = ask(&world, "a", &cache).await;
    assert!(!hit && first["toolExecutionHistory"][0].get("cached").is_none(), "{first:#}");
    let (hit, second) = ask(&world, "b", &cache).await;
    let history = &second["toolExecutionHistory"][0];
    assert!(hit, "{second:#}");
    assert_eq!(
        (&history["cached"], &history["executionMode"], &history["success"]),
        (&json!(true), &json!("external"), &json!(true))
    );
    let events = world.journal("b").await;
    assert_eq!(events.len(), 7, "no call is handed out: {events:#?}");
    let streamed = told_by_journal(&world, "b").await;
    let finished = streamed.iter().find(|event| event.event == "tool_finished").expect("an event of the call");
    assert_eq!((&finished.data["cached"], &finished.data["result"]), (&json!(true), &json!({"rate": 1.1})));
    assert!(streamed.iter().all(|event| event.event != "tool_call"), "the client has nothing to run: {streamed:#?}");
    let cleared = world.send("DELETE", "/v1/tool-cache?tool=other", &[], Body::empty()).await.ok();
    assert_eq!(cleared["cleared"], 0);
    assert_eq!(world.send("DELETE", "/v1/namespaces/default/tool-cache", &[], Body::empty()).await.ok()["cleared"], 1);
    assert!(!ask(&world, "c", &cache).await.0, "it was dropped");
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_cannot_be_read_is_refused_with_its_place() {
    let world = world().await;
    for (cache, place) in [
        (json!(0), "cache"),
        (json!({"scope": "session"}), "cache.ttl"),
        (json!({"ttl": "5m", "scope": "world"}), "cache.scope"),
    ] {
        let refused = world.post("/v1/queries", &query("q", &cache)).await;
        assert_eq!(refused.refusal(), (422, "invalid_tool_definitions"), "{cache}");
        let details = refused.body["error"]["details"].to_string();
        assert!(details.contains("invalid_format") && details.contains(place), "{place}: {details}");
    }
}
