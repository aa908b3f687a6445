//! The forms of the client tool provider: `params.tools`, `status.message.toolCalls`, `tasks/resume`, and its URLs.

use axum::body::Body;
use serde_json::{Value, json};

use super::{V03, calculator, fault};
use crate::tests::{
    streaming::Events,
    world::{HttpReply, TestServer, calculating},
};

/// The seed's request, with its tool flat or as OpenAI wraps it.
fn asking(wrapped: bool) -> Value {
    let tool = if wrapped { json!({"type": "function", "function": calculator()}) } else { calculator() };
    json!({
        "message": {
            "role": "user",
            "parts": [{"kind": "text", "text": "What is 25% of 8,432?"}],
            "contextId": "ctx-123",
        },
        "tools": [tool],
    })
}

async fn post(world: &TestServer, path: &str, method: &str, params: Value) -> HttpReply {
    let body = json!({"jsonrpc": "2.0", "id": 2, "method": method, "params": params});
    world.send("POST", path, V03, body.to_string()).await
}

#[tokio::test(start_paused = true)]
async fn the_seeds_flow_runs_as_printed() {
    let world = TestServer::new(calculating()).await;
    for wrapped in [true, false] {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": asking(wrapped)});
        let mut stream = Events::open(&world, "POST", "/a2a/message/stream", V03, Body::from(body.to_string())).await;
        let waiting = loop {
            let event = stream.next().await.unwrap().data;
            assert_eq!((&event["jsonrpc"], &event["id"]), (&json!("2.0"), &json!(1)));
            if event["result"]["status"]["state"] == "input-required" {
                break event["result"].clone();
            }
        };
        assert_eq!((&waiting["kind"], &waiting["final"]), (&json!("status-update"), &json!(false)));
        assert_eq!(waiting["contextId"], "ctx-123");
        let call = &waiting["status"]["message"]["toolCalls"][0];
        assert_eq!(call["function"], json!({"name": "calculator", "arguments": {"expression": "0.25 * 8432"}}));
        let given = json!({"toolCallId": call["id"], "toolName": "calculator", "success": true, "result": "2108"});
        let params = json!({"taskId": waiting["taskId"], "toolResults": [given]});
        let resumed = post(&world, "/a2a/tasks/resume", "tasks/resume", params).await.ok();
        assert_eq!(
            (&resumed["result"]["kind"], &resumed["result"]["status"]["state"]),
            (&json!("task"), &json!("completed"))
        );
        // The stream of the request continues to the end.
        let mut last = Value::Null;
        while let Some(event) = stream.next().await {
            last = event.data["result"].clone();
        }
        assert_eq!((&last["status"]["state"], &last["final"]), (&json!("completed"), &json!(true)));
    }
}

/// Its call is open before the stream begins, so the snapshot is the only event that has it.
#[tokio::test(start_paused = true)]
async fn the_stream_of_a_request_that_is_repeated_has_the_status_that_its_client_waits_for() {
    let world = TestServer::new(calculating()).await;
    let mut params = asking(false);
    params["message"]["messageId"] = json!("m1");
    let waiting = post(&world, "/a2a", "message/send", params.clone()).await.ok();
    assert_eq!(waiting["result"]["status"]["state"], "input-required", "{waiting}");
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": params});
    let mut stream = Events::open(&world, "POST", "/a2a/message/stream", V03, Body::from(body.to_string())).await;
    let snapshot = stream.next().await.unwrap().data["result"].clone();
    assert_eq!((&snapshot["kind"], &snapshot["id"]), (&json!("task"), &waiting["result"]["id"]), "{snapshot}");
    let update = stream.next().await.unwrap().data["result"].clone();
    assert_eq!((&update["kind"], &update["final"]), (&json!("status-update"), &json!(false)), "{update}");
    assert_eq!(update["status"], waiting["result"]["status"]);
    assert_eq!(update["status"]["message"]["toolCalls"][0]["function"]["name"], "calculator");
}

#[tokio::test(start_paused = true)]
async fn a_request_with_the_extension_gets_neither_alias() {
    let world = TestServer::new(calculating()).await;
    let sent = super::rpc(&world, V03, "message/send", json!({
        "message": {"kind": "message", "messageId": "m1", "role": "user", "parts": [{"kind": "text", "text": "25%?"}]},
        "metadata": {super::TOOLS: {"tools": [calculator()]}},
    })).await.ok();
    let status_message = &sent["result"]["status"]["message"];
    assert_eq!((status_message.get("toolCalls"), status_message.get("content")), (None, None), "{sent}");
    assert_eq!(status_message["parts"][1]["data"]["toolCalls"][0]["function"]["name"], "calculator");
    // Nor a stream that stays open over the wait.
    let streamed = super::stream(&world, V03, "message/stream", json!({
        "message": {"kind": "message", "messageId": "m2", "role": "user", "parts": [{"kind": "text", "text": "25%?"}]},
        "metadata": {super::TOOLS: {"tools": [calculator()]}},
    })).await;
    let last = streamed.rest().await.pop().unwrap().data["result"].clone();
    assert_eq!((&last["status"]["state"], &last["final"]), (&json!("input-required"), &json!(true)), "{last}");
    assert_eq!(last["status"]["message"].get("toolCalls"), None, "{last}");
}

#[tokio::test(start_paused = true)]
async fn what_the_seeds_provider_refuses_is_refused_with_its_words() {
    let world = TestServer::new(calculating()).await;
    let mut twice = asking(false);
    twice["tools"] = json!([calculator(), calculator()]);
    let mut unnamed = asking(false);
    unnamed["tools"][0]["name"] = json!("");
    for (params, words) in
        [(twice, "Duplicate tool names: calculator"), (unnamed, "Invalid client tool definitions: tools[0].name")]
    {
        let reply = post(&world, "/a2a", "message/send", params).await;
        assert_eq!(fault(&reply).0, -32602);
        let message = reply.body["error"]["message"].as_str().unwrap();
        assert!(message.starts_with(words.split(": tools").next().unwrap()), "{message}");
    }
    for (params, code) in [
        (json!({"taskId": "nothing", "toolResults": [{"toolCallId": "call_1", "result": 1}]}), -32001),
        (json!({"toolResults": []}), -32602),
        (json!({"taskId": "nothing"}), -32602),
    ] {
        assert_eq!(fault(&post(&world, "/a2a", "tasks/resume", params.clone()).await).0, code, "{params}");
    }
}
