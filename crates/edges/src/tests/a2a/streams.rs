//! Streams of tasks: a snapshot, then what happens, in order, for any number of subscribers.

use axum::body::Body;
use bosun_engine::testing::{ScriptedModel, ScriptedTurn};
use serde_json::{Value, json};

use super::{MATH, V1, call, calls, message, results, stream, with_tools};
use crate::tests::{
    streaming::Events,
    world::{TestServer, assert_answer, calculating},
};

/// The kind of an event, and its state or text.
fn brief(event: &Value) -> String {
    let event = event.get("result").unwrap_or(event);
    let Some((kind, content)) = event.as_object().and_then(|members| members.iter().next()) else {
        return String::new();
    };
    let state = content["status"]["state"].as_str().map(|state| state.trim_start_matches("TASK_STATE_"));
    let text = content["artifact"]["parts"][0]["text"].as_str();
    format!("{kind} {}", state.or(text).unwrap_or_default())
}

async fn all(events: Events) -> Vec<Value> {
    events.rest().await.into_iter().map(|event| event.data).collect()
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_a_snapshot_then_the_answer_as_it_grows_then_the_end() {
    let world = TestServer::new(ScriptedModel::always(vec![ScriptedTurn::stream(&["Here ", "it ", "is."])])).await;
    let events = all(stream(&world, V1, "SendStreamingMessage", json!({"message": message("m1", "Hi")})).await).await;
    assert_answer("a2a_stream", &Value::Array(events.clone()));
    let updates: Vec<_> = events.iter().map(brief).collect();
    assert_eq!(updates.first().map(String::as_str), Some("task WORKING"));
    assert_eq!(updates.last().map(String::as_str), Some("statusUpdate COMPLETED"));
    // Whatever came in pieces, the last piece of the answer is all of it.
    let last = events.iter().rev().find(|event| event["result"].get("artifactUpdate").is_some()).unwrap();
    let update = &last["result"]["artifactUpdate"];
    assert_eq!(
        (&update["artifact"]["parts"][0]["text"], &update["append"], &update["lastChunk"]),
        (&json!("Here it is."), &json!(false), &json!(true))
    );
}

#[tokio::test(start_paused = true)]
async fn a_stream_closes_when_the_task_waits_and_another_one_brings_the_results() {
    let world = TestServer::new(calculating()).await;
    let first = all(stream(&world, V1, "SendStreamingMessage", with_tools("m1")).await).await;
    assert_eq!(brief(first.last().unwrap()), "statusUpdate INPUT_REQUIRED");
    let update = &first.last().unwrap()["result"]["statusUpdate"];
    let task = json!({"id": update["taskId"], "contextId": update["contextId"], "status": update["status"]});
    let given = json!([{"toolCallId": calls(&task)[0]["id"], "result": "2108"}]);
    let second = all(stream(&world, V1, "SendStreamingMessage", results("m2", &task, given)).await).await;
    assert_eq!(brief(second.last().unwrap()), "statusUpdate COMPLETED", "{second:?}");
}

#[tokio::test(start_paused = true)]
async fn subscribers_see_the_same_and_a_wait_does_not_end_their_stream() {
    let world = TestServer::new(calculating()).await;
    let task = call(&world, "SendMessage", with_tools("m1")).await["task"].clone();
    let rest = format!("{MATH}/tasks/{}:subscribe", task["id"].as_str().unwrap());
    let mut streams = Vec::new();
    for _ in 0..3 {
        streams.push(stream(&world, V1, "SubscribeToTask", json!({"id": task["id"]})).await);
    }
    streams.push(Events::open(&world, "POST", &rest, V1, Body::empty()).await);
    streams.push(Events::open(&world, "GET", &rest, V1, Body::empty()).await);
    let given = json!([{"toolCallId": calls(&task)[0]["id"], "result": "2108"}]);
    call(&world, "SendMessage", results("m2", &task, given)).await;
    let mut seen = Vec::new();
    for stream in streams {
        seen.push(all(stream).await.iter().map(brief).collect::<Vec<_>>());
    }
    assert_eq!(seen[0].first().map(String::as_str), Some("task INPUT_REQUIRED"));
    assert_eq!(seen[0].last().map(String::as_str), Some("statusUpdate COMPLETED"));
    for other in &seen {
        assert_eq!(*other, seen[0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_resumes_after_the_last_event_that_a_client_has_seen() {
    let world = TestServer::new(calculating()).await;
    let task = call(&world, "SendMessage", with_tools("m1")).await["task"].clone();
    let mut first = stream(&world, V1, "SubscribeToTask", json!({"id": task["id"]})).await;
    let seen = first.next().await.unwrap();
    drop(first);
    let given = json!([{"toolCallId": calls(&task)[0]["id"], "result": "2108"}]);
    let params =
        json!({"message": results("m2", &task, given)["message"], "configuration": {"returnImmediately": true}});
    let headers = [V1[0], V1[1], ("last-event-id", seen.id.as_deref().unwrap())];
    let resumed = stream(&world, &headers, "SubscribeToTask", json!({"id": task["id"]})).await;
    call(&world, "SendMessage", params).await;
    let updates: Vec<_> = all(resumed).await.iter().map(brief).collect();
    assert_eq!(updates.first().map(String::as_str), Some("statusUpdate WORKING"), "no snapshot again: {updates:?}");
    assert_eq!(updates.last().map(String::as_str), Some("statusUpdate COMPLETED"));
    let foreign = [V1[0], V1[1], ("last-event-id", "019a0000-0000-7000-8000-000000000000.1")];
    let other = call(&world, "SendMessage", with_tools("m3")).await["task"].clone();
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": other["id"]}});
    let refused = world.send("POST", MATH, &foreign, body.to_string()).await;
    assert_eq!(refused.body["error"]["code"], -32602);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_refused_is_json_and_not_a_stream() {
    let world = TestServer::new(calculating()).await;
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {}});
    let refused = world.send("POST", MATH, V1, body.to_string()).await;
    assert_eq!(
        (refused.header("content-type"), refused.body["error"]["code"].as_i64()),
        (Some("application/json"), Some(-32602))
    );
}
