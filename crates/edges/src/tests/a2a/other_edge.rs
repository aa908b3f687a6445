//! What one edge creates, the other one follows, cancels, approves and delivers to; each in its own words.

use bosun_engine::testing::{ScriptedModel, ScriptedTurn};
use serde_json::{Value, json};

use super::{V1, call, calls, message, result, results, stream, with_tools};
use crate::tests::{
    streaming::{Events, ParsedSseEvent},
    world::{TestServer, calculating, with_calculator},
};

/// Two subscribers of each edge: the second of an edge is where a cache of written events could mix them up.
async fn subscribed(world: &TestServer, id: &str) -> [Events; 4] {
    [
        Events::of(world, id, None).await,
        Events::of(world, id, None).await,
        stream(world, V1, "SubscribeToTask", json!({"id": id})).await,
        stream(world, V1, "SubscribeToTask", json!({"id": id})).await,
    ]
}

/// Both edges have reported the same events up to the end, to all of their subscribers.
async fn check_told(subscribed: [Events; 4]) {
    let mut told: Vec<Vec<ParsedSseEvent>> = Vec::new();
    for events in subscribed {
        told.push(events.rest().await);
    }
    let [ark, same_ark, a2a, same_a2a] = &told[..] else { unreachable!("four were subscribed") };
    assert_eq!((ark, a2a), (same_ark, same_a2a));
    assert!(ark.iter().all(|event| event.data["queryName"].is_string()), "{ark:?}");
    assert_eq!(ark.last().unwrap().event, "complete", "{ark:?}");
    assert!(a2a.iter().all(|event| event.event.is_empty() && event.data["jsonrpc"] == "2.0"), "{a2a:?}");
    let last = &a2a.last().unwrap().data["result"]["statusUpdate"];
    assert_eq!(last["status"]["state"], "TASK_STATE_COMPLETED", "{a2a:?}");
}

#[tokio::test(start_paused = true)]
async fn a_query_of_ark_is_followed_and_delivered_to_over_a2a() {
    let world = TestServer::new(calculating()).await;
    world.post("/v1/queries?wait=true", &with_calculator("q")).await.ok();
    let subscribed = subscribed(&world, "q").await;
    let task = call(&world, "GetTask", json!({"id": "q"})).await;
    assert_eq!(task["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{task}");
    let given = json!([{"toolCallId": calls(&task)[0]["id"], "toolName": "calculator", "result": "2108"}]);
    let done = call(&world, "SendMessage", results("m1", &task, given)).await["task"].clone();
    assert_eq!(done["artifacts"][0]["parts"][0]["text"], "25% of 8,432 is 2,108", "{done}");
    assert_eq!(world.get("/v1/queries/q").await.ok()["response"], "25% of 8,432 is 2,108");
    check_told(subscribed).await;
}

#[tokio::test(start_paused = true)]
async fn a_task_is_followed_and_delivered_to_over_ark() {
    let world = TestServer::new(calculating()).await;
    let task = call(&world, "SendMessage", with_tools("m1")).await["task"].clone();
    let id = task["id"].as_str().unwrap();
    let subscribed = subscribed(&world, id).await;
    let given = json!({"toolCallId": calls(&task)[0]["id"], "toolResult": "2108"});
    world.post(&format!("/v1/queries/{id}/tool-result"), &given).await.ok();
    check_told(subscribed).await;
}

/// A call of the default agent of A2A.
async fn careful(world: &TestServer, method: &str, params: Value) -> Value {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    result(world.send("POST", "/a2a", V1, body.to_string()).await)
}

#[tokio::test(start_paused = true)]
async fn what_one_edge_asks_is_approved_over_the_other() {
    let script = vec![ScriptedTurn::call("risky", &json!({})), ScriptedTurn::say("It is done.")];
    let world = TestServer::storing(ScriptedModel::always(script)).await;
    let body = json!({"name": "q", "input": "x", "target": {"type": "agent", "name": "careful-assistant"}});
    world.post("/v1/queries?wait=true", &body).await.ok();
    let approval = |task: &Value| {
        let open = &task["status"]["message"]["parts"][1]["data"]["approvals"][0];
        json!({"toolCallId": open["id"], "hash": open["hash"], "decision": "approved"})
    };
    let task = careful(&world, "GetTask", json!({"id": "q"})).await;
    let mut decided = message("m1", "");
    decided["taskId"] = json!("q");
    decided["parts"] = json!([{"data": {"decisions": [approval(&task)]}}]);
    let done = careful(&world, "SendMessage", json!({"message": decided})).await["task"].clone();
    assert_eq!(done["artifacts"][0]["parts"][0]["text"], "It is done.", "{task} {done}");
    // And the other way round.
    let task = careful(&world, "SendMessage", json!({"message": message("m2", "x")})).await["task"].clone();
    let path = format!("/v1/queries/{}/approval?wait=true", task["id"].as_str().unwrap());
    let done = world.post(&path, &approval(&task)).await.ok();
    assert_eq!(done["state"], "completed", "{task} {done}");
}
