//! A2A from its public side: both generations, both bindings, client tools and what is refused.

mod cards;
mod client_tools;
mod effects;
mod files;
#[cfg(feature = "grpc")]
mod grpc;
mod malformed;
mod other_edge;
mod paths;
mod push;
mod rights;
mod seed;
mod specification;
mod streams;
mod tasks;

use axum::body::Body;
use bosun_engine::testing::{ScriptedModel, ScriptedTurn};
use serde_json::{Value, json};

use super::{
    streaming::Events,
    world::{HttpReply, TestServer},
};

/// The extension of client tools.
const TOOLS: &str = "https://bosun.dev/a2a/extensions/client-tools/v1";
/// The endpoint of an agent.
const MATH: &str = "/a2a/agents/default/math-assistant";

const V1: &[(&str, &str)] = &[("content-type", "application/json"), ("a2a-version", "1.0")];
const V03: &[(&str, &str)] = &[("content-type", "application/json")];

/// A world whose model says hello.
async fn saying(text: &str) -> TestServer {
    TestServer::new(ScriptedModel::always(vec![ScriptedTurn::say(text)])).await
}

/// One call of JSON-RPC; the whole answer.
async fn rpc(world: &TestServer, headers: &[(&str, &str)], method: &str, params: Value) -> HttpReply {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    world.send("POST", MATH, headers, body.to_string()).await
}

/// The result of a call in 1.0.
async fn call(world: &TestServer, method: &str, params: Value) -> Value {
    result(rpc(world, V1, method, params).await)
}

#[track_caller]
fn result(reply: HttpReply) -> Value {
    let body = reply.ok();
    assert!(body.get("error").is_none(), "{body}");
    assert_eq!((&body["jsonrpc"], &body["id"]), (&json!("2.0"), &json!(1)));
    body["result"].clone()
}

/// The code and the reason of an error over JSON-RPC.
#[track_caller]
fn fault(reply: &HttpReply) -> (i64, String) {
    let error = &reply.body["error"];
    let reason = error["data"].as_array().into_iter().flatten().find_map(|detail| detail["reason"].as_str());
    (error["code"].as_i64().unwrap_or_default(), reason.unwrap_or_default().to_owned())
}

/// A message of the user, in 1.0.
fn message(id: &str, text: &str) -> Value {
    json!({"messageId": id, "role": "ROLE_USER", "parts": [{"text": text}]})
}

/// The calculator of the client.
fn calculator() -> Value {
    json!({
        "name": "calculator",
        "description": "Perform mathematical calculations",
        "parameters": {
            "type": "object",
            "properties": {"expression": {"type": "string"}},
            "required": ["expression"],
        },
    })
}

/// A question, and the client's calculator to answer it with.
fn with_tools(id: &str) -> Value {
    let mut message = message(id, "What is 25% of 8,432?");
    message["extensions"] = json!([TOOLS]);
    json!({"message": message, "metadata": {TOOLS: {"tools": [calculator()]}}})
}

/// The calls that a task waits for.
fn calls(task: &Value) -> Vec<Value> {
    let parts = task["status"]["message"]["parts"].as_array().cloned().unwrap_or_default();
    let data = parts.iter().map(|part| part.get("data").unwrap_or(&Value::Null));
    data.filter_map(|data| data["toolCalls"].as_array().cloned()).flatten().collect()
}

/// Results for a task, as a message.
fn results(id: &str, task: &Value, results: Value) -> Value {
    json!({"message": {
        "messageId": id, "role": "ROLE_USER", "taskId": task["id"], "contextId": task["contextId"], "extensions": [TOOLS],
        "parts": [{"data": {"toolResults": results}}],
    }})
}

/// One stream over JSON-RPC.
async fn stream(world: &TestServer, headers: &[(&str, &str)], method: &str, params: Value) -> Events {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    Events::open(world, "POST", MATH, headers, Body::from(body.to_string())).await
}
