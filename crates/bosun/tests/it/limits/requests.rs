//! What a request may have, at the ceiling and above it.

use std::collections::BTreeMap;

use bosun_core::ceiling::{
    BODY_BYTES, CHANGES_BYTES, CONVERSATION_ID_BYTES, FAULTS_LISTED, HEADER_BYTES, IDEMPOTENCY_KEY_BYTES, JSON_DEPTH,
    JSON_MEMORY_BYTES, LABELS, LABELS_BYTES, MESSAGE_ID_BYTES, PAGE_ENTRIES, PARAMETERS_BYTES, REASON_BYTES,
    RENDERED_BYTES, RESOURCE_BYTES, RESOURCE_MEMORY_BYTES, RESULTS_DELIVERED, RPC_ID_BYTES, SERVERS_STORED,
    TASK_PAGE_ENTRIES, WAIT_SECONDS, WARNINGS_KEPT,
};
use reqwest::Method;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::site::{Answer, Site, query};
use crate::support::{
    scenarios::{self, Scenario},
    soon,
};

#[tokio::test]
async fn a_body() {
    let site = Site::open().await;
    let padded = |bytes: usize| {
        let body = query().to_string();
        let padding = " ".repeat(bytes - body.len());
        body + &padding
    };
    site.send(Method::POST, "/v1/queries", &[], padded(BODY_BYTES)).await.is_taken();
    let refused = site.send(Method::POST, "/v1/queries", &[], padded(BODY_BYTES + 1)).await;
    refused.is_refused(413, "payload_too_large");
}

#[tokio::test]
async fn the_values_of_a_body() {
    let site = Site::open().await;
    let zeros = |count: usize| {
        let list = format!("[{}0]", "0,".repeat(count - 1));
        query().to_string().replacen('{', &format!("{{\"unknown\":{list},"), 1)
    };
    // What the other fields take is less than a thousand more zeros.
    let most = JSON_MEMORY_BYTES / size_of::<Value>();
    site.send(Method::POST, "/v1/queries", &[], zeros(most - 1_000)).await.is_taken();
    site.send(Method::POST, "/v1/queries", &[], zeros(most + 1)).await.is_refused(413, "payload_too_large");
}

#[tokio::test]
async fn the_depth_of_a_body() {
    let site = Site::open().await;
    // The body itself is one level.
    let nested = |levels: usize| {
        let deep = format!("{}{}", "[".repeat(levels - 1), "]".repeat(levels - 1));
        query().to_string().replacen('{', &format!("{{\"unknown\":{deep},"), 1)
    };
    site.send(Method::POST, "/v1/queries", &[], nested(JSON_DEPTH)).await.is_taken();
    site.send(Method::POST, "/v1/queries", &[], nested(JSON_DEPTH + 1)).await.is_refused(422, "json_too_deep");
}

#[tokio::test]
async fn the_headers() {
    let site = Site::open().await;
    for (bytes, expect) in [(HEADER_BYTES, "HTTP/1.1 200"), (HEADER_BYTES + 1, "HTTP/1.1 431")] {
        let head = "GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx-padding: ";
        let padding = "x".repeat(bytes - head.len() - 4);
        let address = site.server.base.trim_start_matches("http://");
        let mut stream = tokio::net::TcpStream::connect(address).await.expect("a connection");
        stream.write_all(format!("{head}{padding}\r\n\r\n").as_bytes()).await.expect("sent");
        let mut answer = [0; 12];
        soon("an answer", stream.read_exact(&mut answer)).await.expect("an answer");
        assert_eq!(str::from_utf8(&answer), Ok(expect), "{bytes} bytes");
    }
}

#[tokio::test]
async fn an_idempotency_key() {
    let site = Site::open().await;
    let with_key = async |bytes: usize| {
        let headers = [("idempotency-key", &*"k".repeat(bytes))];
        site.send(Method::POST, "/v1/queries", &headers, query().to_string()).await
    };
    with_key(IDEMPOTENCY_KEY_BYTES).await.is_taken();
    with_key(IDEMPOTENCY_KEY_BYTES + 1).await.is_refused(400, "invalid_parameter");
}

#[tokio::test]
async fn the_time_to_wait() {
    let site = Site::open().await;
    for (seconds, warned) in [(WAIT_SECONDS, false), (WAIT_SECONDS + 1, true)] {
        let answer = site.post(&format!("/v1/queries?wait={seconds}s"), &query()).await;
        answer.is_taken();
        let warnings = answer.body["warnings"].to_string();
        assert_eq!(warnings.contains("was shortened to"), warned, "{warnings}");
    }
}

#[tokio::test]
async fn the_name_of_a_conversation() {
    let site = Site::open().await;
    let named = async |bytes: usize| site.create(json!({"conversationId": "c".repeat(bytes)})).await;
    named(CONVERSATION_ID_BYTES).await.is_taken();
    named(CONVERSATION_ID_BYTES + 1).await.has_fault("invalid_id");
}

#[tokio::test]
async fn the_reason_of_a_cancellation() {
    let site = Site::open().await;
    let cancel = async |bytes: usize| {
        let name = format!("q{bytes}");
        site.post("/v1/queries", &scenarios::query(&name, Scenario::Endless)).await.is_taken();
        site.post(&format!("/v1/queries/{name}/cancel"), &json!({"reason": "r".repeat(bytes)})).await
    };
    cancel(REASON_BYTES).await.is_taken();
    cancel(REASON_BYTES + 1).await.has_fault("too_large");
}

#[tokio::test]
async fn labels_and_annotations() {
    let site = Site::open().await;
    for field in ["labels", "annotations"] {
        let with = async |bytes: usize| site.create(json!({"metadata": {field: {"key": "v".repeat(bytes - 3)}}})).await;
        with(LABELS_BYTES).await.is_taken();
        with(LABELS_BYTES + 1).await.has_fault("too_large");
    }
}

#[tokio::test]
async fn the_number_of_labels() {
    let site = Site::open().await;
    let with = async |field: &str, count: usize| {
        let labels: Map<String, Value> = (0..count).map(|number| (format!("l{number}"), "v".into())).collect();
        site.create(json!({"metadata": {field: labels}})).await
    };
    with("labels", LABELS).await.is_taken();
    with("labels", LABELS + 1).await.has_fault("too_many");
    with("annotations", LABELS + 1).await.is_taken();
}

/// Fields are changed one by one, and what is not named stays.
#[tokio::test]
async fn a_stored_resource() {
    let site = Site::open().await;
    let agent = json!({"name": "a", "prompt": "p", "modelRef": {"name": "scripted"}});
    site.post("/v1/agents", &agent).await.is_taken();
    let put = async |fields: Value| site.send(Method::PUT, "/v1/agents/a", &[], fields.to_string()).await;
    let half = "x".repeat(RESOURCE_BYTES / 2);
    put(json!({"prompt": half})).await.is_taken();
    put(json!({"unknown": half})).await.has_fault("too_large");
    put(json!({"unknown": "x".repeat(RESOURCE_BYTES / 2 - 1024)})).await.is_taken();
    put(json!({"further": "x".repeat(1024)})).await.has_fault("too_large");
    put(json!({"unknown": null, "further": "x".repeat(1024)})).await.is_taken();
}

#[tokio::test]
async fn the_values_of_a_stored_resource() {
    let site = Site::open().await;
    let agent =
        |items: usize| json!({"name": "a", "prompt": "p", "modelRef": {"name": "scripted"}, "unknown": vec![0; items]});
    site.post("/v1/agents", &agent(RESOURCE_MEMORY_BYTES / size_of::<Value>())).await.has_fault("too_large");
    site.post("/v1/agents", &agent(RESOURCE_MEMORY_BYTES / size_of::<Value>() / 2)).await.is_taken();
    let tool = |annotations: usize| {
        let annotations: BTreeMap<_, _> = (0..annotations).map(|index| (format!("a{index}"), "v")).collect();
        json!({"name": "t", "type": "external", "description": "d", "metadata": {"annotations": annotations}})
    };
    site.post("/v1/tools", &tool(RESOURCE_MEMORY_BYTES / size_of::<Value>())).await.has_fault("too_large");
    site.post("/v1/tools", &tool(RESOURCE_MEMORY_BYTES / size_of::<Value>() / 2)).await.is_taken();
}

#[tokio::test]
async fn servers_that_a_namespace_stores() {
    let site = Site::open().await;
    let server = |number: usize| json!({"name": format!("s{number}"), "address": "https://agent.invalid/a2a"});
    for number in 1..=SERVERS_STORED {
        site.post("/v1/namespaces/crowded/a2a-servers", &server(number)).await.is_taken();
    }
    site.post("/v1/namespaces/crowded/a2a-servers", &server(0)).await.has_fault("too_many");
    // A change is no further server, and other namespaces and kinds have their own count.
    let changed = json!({"description": "d"}).to_string();
    site.send(Method::PUT, "/v1/namespaces/crowded/a2a-servers/s1", &[], changed).await.is_taken();
    site.post("/v1/namespaces/other/a2a-servers", &server(0)).await.is_taken();
    site.send(Method::DELETE, "/v1/namespaces/crowded/a2a-servers/s1", &[], String::new()).await;
    site.post("/v1/namespaces/crowded/a2a-servers", &server(0)).await.is_taken();
}

#[tokio::test]
async fn parameters_from_config_maps() {
    let site = Site::open().await;
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "half"},
        "data": {"text": "x".repeat(PARAMETERS_BYTES / 2)},
    });
    let stored = site.post("/v1/resources/api/v1/configmaps", &map).await;
    assert!(stored.status < 300, "{:.500}", stored.body.to_string());
    let reference =
        |name: &str| json!({"name": name, "valueFrom": {"configMapKeyRef": {"name": "half", "key": "text"}}});
    let most = json!([reference("a"), reference("b")]);
    site.create(json!({"parameters": most})).await.is_taken();
    let more = json!([reference("a"), reference("b"), {"name": "c", "value": "x"}]);
    site.create(json!({"parameters": more})).await.is_refused(422, "input_too_large");
    // Eight gigabytes, if they were looked up.
    let many: Vec<Value> = (0..8_000).map(|number| reference(&format!("p{number}"))).collect();
    site.create(json!({"parameters": many})).await.is_refused(422, "input_too_large");
}

#[tokio::test]
async fn an_input_that_is_filled_in() {
    let site = Site::open().await;
    let fill_in = async |input: String| {
        let value = "x".repeat(RENDERED_BYTES / 2);
        site.create(json!({"input": input, "parameters": [{"name": "a", "value": value}]})).await
    };
    fill_in("{{.a}}{{.a}}".to_owned()).await.is_taken();
    fill_in("{{.a}}{{.a}}!".to_owned()).await.is_refused(422, "input_too_large");
    // This ended the process: forty gigabytes of a body of less than one megabyte.
    fill_in("{{.a}}".repeat(80_000)).await.is_refused(422, "input_too_large");
    site.create(json!({})).await.is_taken();
}

#[tokio::test]
async fn faults_of_a_request() {
    let site = Site::open().await;
    for (count, omitted) in [(FAULTS_LISTED, Value::Null), (FAULTS_LISTED + 1, json!(1))] {
        let answer = site.create(json!({"tools": vec![0; count]})).await;
        assert_eq!(answer.status, 422);
        assert_eq!(answer.body["error"]["details"].as_array().map(Vec::len), Some(FAULTS_LISTED));
        assert_eq!(answer.body["error"]["omitted"], omitted);
    }
}

#[tokio::test]
async fn warnings_of_a_request() {
    let site = Site::open().await;
    for (count, listed) in [(WARNINGS_KEPT, WARNINGS_KEPT), (WARNINGS_KEPT + 5, WARNINGS_KEPT + 1)] {
        let unknown: Map<String, Value> = (0..count).map(|number| (format!("unknown{number}"), json!(1))).collect();
        let answer = site.create(Value::Object(unknown)).await;
        answer.is_taken();
        let warnings = answer.body["warnings"].as_array().expect("warnings");
        assert_eq!(warnings.len(), listed);
        let last = warnings.last().and_then(Value::as_str).expect("a warning");
        assert_eq!(last.starts_with("5 further"), count > WARNINGS_KEPT, "{last}");
    }
}

#[tokio::test]
async fn results_of_a_delivery() {
    let site = Site::open().await;
    site.post("/v1/queries?wait=20s", &scenarios::query("q", Scenario::Outside)).await.is_taken();
    let deliver = async |count: usize| {
        let result = |number| json!({"toolCallId": format!("call_{number:026}"), "toolResult": "x"});
        let results: Vec<Value> = (0..count).map(result).collect();
        site.post("/v1/queries/q/tool-result", &json!({"toolResults": results})).await
    };
    deliver(RESULTS_DELIVERED).await.is_refused(404, "call_not_found");
    deliver(RESULTS_DELIVERED + 1).await.is_refused(422, "too_many_results");
}

#[tokio::test]
async fn changes_of_a_query() {
    const BYTES: usize = 250 * 1024;
    let site = Site::open().await;
    let paused = site.post("/v1/queries?wait=20s", &scenarios::query("q", Scenario::Outside)).await;
    paused.is_taken();
    let change = async |letter: &str| -> Answer {
        let body = json!({"metadata": {"annotations": {"note": letter.repeat(BYTES)}}}).to_string();
        site.send(Method::PUT, "/v1/queries/q", &[], body).await
    };
    for number in 0..CHANGES_BYTES / (BYTES + 1024) {
        change(if number % 2 == 0 { "a" } else { "b" }).await.is_taken();
    }
    let refused = loop {
        let (first, second) = (change("c").await, change("d").await);
        if let Some(refused) = [first, second].into_iter().find(|answer| answer.status != 200) {
            break refused;
        }
    };
    refused.is_refused(409, "journal_full");
    // The query continues.
    let call = paused.body["toolCalls"][0]["id"].clone();
    let delivered = site.post("/v1/queries/q/tool-result", &json!({"toolCallId": call, "toolResult": "42"})).await;
    delivered.is_taken();
    assert_eq!(delivered.body["state"], "completed", "{:.500}", delivered.body.to_string());
}

#[tokio::test]
async fn entries_of_a_page() {
    let site = Site::open().await;
    let list = async |limit: usize| site.send(Method::GET, &format!("/v1/queries?limit={limit}"), &[], "").await;
    list(PAGE_ENTRIES).await.is_taken();
    list(PAGE_ENTRIES + 1).await.is_refused(400, "invalid_parameter");
}

#[tokio::test]
async fn the_ids_of_a2a() {
    let site = Site::open().await;
    let ask = async |id: String, message: String| {
        let message = json!({"messageId": message, "role": "ROLE_USER", "parts": [{"text": "Hi"}]});
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "SendMessage", "params": {"message": message}});
        site.post("/a2a?A2A-Version=1.0", &call).await.body
    };
    // The quotes count.
    let id = |bytes: usize| "i".repeat(bytes - 2);
    let taken = ask(id(RPC_ID_BYTES), "m".repeat(MESSAGE_ID_BYTES)).await;
    assert!(taken["result"]["task"].is_object(), "{taken:.1000}");
    let refused = ask(id(RPC_ID_BYTES + 1), "m".to_owned()).await;
    assert_eq!((&refused["error"]["code"], &refused["id"]), (&json!(-32600), &Value::Null), "{refused:.1000}");
    let refused = ask("i".to_owned(), "m".repeat(MESSAGE_ID_BYTES + 1)).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused:.1000}");
    assert!(refused.to_string().contains("messageId"), "{refused:.1000}");
}

#[tokio::test]
async fn entries_of_a_page_of_tasks() {
    let site = Site::open().await;
    let list = async |size: usize| site.send(Method::GET, &format!("/a2a/tasks?pageSize={size}"), &[], "").await;
    list(TASK_PAGE_ENTRIES).await.is_taken();
    assert_eq!(list(TASK_PAGE_ENTRIES + 1).await.status, 400);
}
