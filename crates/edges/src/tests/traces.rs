//! The caller's trace: kept with the query, sent to the clients that run its calls, and not part of what was asked.

use serde_json::{Value, json};

use super::{
    streaming::Events,
    world::{HttpReply, TestServer, calculating, with_calculator},
};

const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const ANOTHER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

async fn create(world: &TestServer, path: &str, headers: &[(&str, &str)], body: &Value) -> HttpReply {
    let headers: Vec<_> = headers.iter().copied().chain([("content-type", "application/json")]).collect();
    world.send("POST", path, &headers, body.to_string()).await
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_handed_out_says_to_which_trace_it_belongs() {
    let world = TestServer::new(calculating()).await;
    let headers = [("traceparent", CALLER), ("tracestate", "congo=1"), ("tracestate", "rojo=2")];
    let paused = create(&world, "/v1/queries?wait=true", &headers, &with_calculator("q")).await.ok();
    let call = &paused["toolCalls"][0];
    assert_eq!((&call["traceparent"], &call["tracestate"]), (&json!(CALLER), &json!("congo=1,rojo=2")));
    let mut stream = Events::open(&world, "GET", "/v1/queries/q/events", &[], "".into()).await;
    let announced = loop {
        let event = stream.next().await.unwrap();
        if event.event == "tool_call" {
            break event.data;
        }
    };
    assert_eq!((&announced["traceparent"], &announced["tracestate"]), (&json!(CALLER), &json!("congo=1,rojo=2")));
}

#[tokio::test(start_paused = true)]
async fn a_query_without_a_trace_looks_as_it_always_did() {
    let world = TestServer::new(calculating()).await;
    let paused = create(&world, "/v1/queries?wait=true", &[("traceparent", "00-x")], &with_calculator("q")).await.ok();
    let members: Vec<_> = paused["toolCalls"][0].as_object().unwrap().keys().collect();
    assert_eq!(members, ["id", "name", "arguments", "deadline"]);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_repeated_in_another_trace_is_the_same_request() {
    let world = TestServer::new(calculating()).await;
    let send = async |trace| {
        let headers = [("traceparent", trace), ("idempotency-key", "k")];
        create(&world, "/v1/queries?wait=true", &headers, &with_calculator("q")).await
    };
    let (first, second) = (send(CALLER).await, send(ANOTHER).await);
    assert_eq!(second.header("idempotent-replayed"), Some("true"));
    assert_eq!(second.ok()["toolCalls"], first.ok()["toolCalls"], "and it stays in the trace of the first");
}
