//! The RFC to the letter: its request bodies, its stream, its Example 1.

use std::sync::Arc;

use axum::body::Body;
use bosun_engine::testing::{ScriptedModel, ScriptedTurn};
use serde_json::{Value, json};

use super::{
    streaming::{Events, is_part_of},
    world::{TestServer, calculating, fixture},
};

/// The RFC's node: creates the query, runs tools while they are asked for, returns the last answer.
async fn run_node(world: &TestServer, query: &Value, run: impl Fn(&str, &Value) -> String) -> Value {
    let mut result = world.post("/v1/namespaces/default/queries", query).await.ok();
    while result["status"] == "tool_call_required" {
        let name = result["toolCall"]["name"].as_str().unwrap();
        let output = run(name, &result["toolCall"]["arguments"]);
        let path =
            format!("/v1/namespaces/default/queries/{}/tool-result", result["metadata"]["queryName"].as_str().unwrap());
        result = world.post(&path, &json!({"toolName": name, "toolResult": output})).await.ok();
    }
    result
}

#[tokio::test(start_paused = true)]
async fn the_rfcs_loop_runs_its_query_to_the_end() {
    let world = TestServer::new(calculating()).await;
    let result = run_node(&world, &fixture("rfc-query"), |name, arguments| {
        assert_eq!((name, arguments), ("calculator", &json!({"expression": "0.25 * 8432"})));
        "2108".into()
    })
    .await;
    assert_eq!(result["status"], "completed");
    assert_eq!(result["response"], "25% of 8,432 is 2,108");
    assert_eq!(result["sessionId"], "session-1");
    assert_eq!(result["warnings"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn example_1_ends_with_its_answer() {
    let example = fixture("rfc-example-1");
    let text = |field: &str| example[field].as_str().unwrap().to_owned();
    let world = TestServer::new(ScriptedModel::default().on(
        &text("input"),
        vec![ScriptedTurn::call(&text("tool"), &example["arguments"]), ScriptedTurn::say(&text("response"))],
    ))
    .await;
    let mut query = fixture("rfc-query");
    query["spec"]["toolSource"] = example["toolSource"].clone();
    let result = run_node(&world, &query, |name, arguments| {
        assert_eq!((name, arguments), (text("tool").as_str(), &example["arguments"]));
        text("result")
    })
    .await;
    assert_eq!((&result["status"], &result["response"]), (&json!("completed"), &example["response"]));
    assert_eq!(result["toolExecutionHistory"][0]["toolName"], example["tool"]);
    assert_eq!(result["toolExecutionHistory"][0]["success"], true);
}

#[tokio::test(start_paused = true)]
async fn the_pause_is_the_rfcs_pause() {
    let world = TestServer::new(calculating()).await;
    let paused = world.post("/v1/namespaces/default/queries", &fixture("rfc-query")).await.ok();
    let expect = json!({
        "status": "tool_call_required",
        "toolCall": {"name": "calculator", "arguments": {"expression": "0.25 * 8432"}},
        "metadata": {"queryName": paused["name"], "waitingForTool": true},
    });
    assert!(is_part_of(&expect, &paused), "{paused}");
}

#[tokio::test(start_paused = true)]
async fn external_tools_and_the_callback_are_taken_as_printed() {
    let world = TestServer::new(ScriptedModel::always(vec![
        ScriptedTurn::call("web_search", &json!({"query": "n8n vs zapier"})),
        ScriptedTurn::say("Based on the search results..."),
    ]))
    .await;
    let paused = world.post("/v1/namespaces/default/queries?wait=true", &fixture("rfc-external-tools")).await.ok();
    assert_eq!((&paused["name"], &paused["status"]), (&json!("compare"), &json!("tool_call_required")));
    let path = "/v1/namespaces/default/queries/compare/tool-result";
    let next = world.post(path, &fixture("rfc-tool-result")).await.ok();
    assert_eq!((&next["status"], &next["response"]), (&json!("completed"), &json!("Based on the search results...")));
}

#[tokio::test(start_paused = true)]
async fn the_stream_is_the_rfcs_transcript() {
    let transcript = fixture("rfc-transcript");
    let transcript = transcript.as_array().unwrap();
    let (call, response) = (&transcript[1]["data"], &transcript[3]["data"]["response"]);
    let world = Arc::new(
        TestServer::new(ScriptedModel::always(vec![
            ScriptedTurn::call(call["name"].as_str().unwrap(), &call["args"]),
            ScriptedTurn::say(response.as_str().unwrap()),
        ]))
        .await,
    );
    let headers = [("content-type", "application/json")];
    let body = fixture("rfc-external-tools").to_string();
    let mut events =
        Events::open(&world, "POST", "/v1/namespaces/default/queries?stream=true", &headers, Body::from(body)).await;
    let name = events.header("x-query-name").unwrap();
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        if event.event == "tool_call" {
            let result = json!({"toolName": event.data["name"], "toolResult": "..."});
            world.post(&format!("/v1/namespaces/default/queries/{name}/tool-result?wait=0"), &result).await.ok();
        }
        seen.push(event);
    }
    assert_eq!(
        seen.iter().map(|event| event.event.as_str()).collect::<Vec<_>>(),
        transcript.iter().map(|event| event["event"].as_str().unwrap()).collect::<Vec<_>>()
    );
    for (event, expect) in seen.iter().zip(transcript) {
        assert!(is_part_of(&expect["data"], &event.data), "{event:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_rfcs_second_tool_is_shown_to_the_model_as_it_was_sent() {
    let tool = fixture("rfc-http-request-tool");
    let world = TestServer::new(calculating()).await;
    let mut query = fixture("rfc-query");
    query["spec"]["tools"] = json!([tool]);
    query["spec"]["wait"] = json!("1s");
    world.post("/v1/queries", &query).await.ok();
    let request = &world.model.requests()[0];
    let shown = &request.toolset.tools()[0].tool;
    assert_eq!((shown.name.as_str(), &*shown.parameters), ("http_request", &tool["parameters"]));
}
