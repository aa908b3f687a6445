//! Push notifications of A2A, against the real process: what is posted, to whom, and what survives a kill.

use std::sync::{
    Arc,
    atomic::{AtomicU16, Ordering},
};

use bosun_core::ceiling::{PUSH_CONFIGS, PUSH_FIELD_BYTES};
use serde_json::{Value, json};

use crate::{
    http_tools::service::{ReceivedRequest, Service},
    program::{Server, workspace},
    support::{
        client::http,
        scenarios::{self, Scenario},
        server::{ProcessExit, Started, World},
        until,
    },
};

const TOOLS: &str = "https://bosun.dev/a2a/extensions/client-tools/v1";
const LOOPBACK: &[&str] = &["--allow-private", "127.0.0.1"];

/// A receiver whose status can be changed.
struct Receiver {
    service: Service,
    status: Arc<AtomicU16>,
}

impl Receiver {
    async fn start(status: u16) -> Self {
        let status = Arc::new(AtomicU16::new(status));
        let answer = Arc::clone(&status);
        let service = Service::start(move |_: &ReceivedRequest| {
            axum::http::StatusCode::from_u16(answer.load(Ordering::SeqCst)).expect("a status")
        });
        Self { service: service.await, status }
    }

    /// The states of the posted status updates, in order.
    fn states(&self) -> Vec<String> {
        let bodies =
            self.service.received().into_iter().filter_map(|received| serde_json::from_str(&received.body).ok());
        let states = bodies.filter_map(|body: Value| {
            let state = body.pointer("/statusUpdate/status/state").or_else(|| body.pointer("/status/state"))?;
            Some(state.as_str()?.trim_start_matches("TASK_STATE_").to_ascii_lowercase().replace('_', "-"))
        });
        states.collect()
    }

    async fn has(&self, state: &str) {
        until(state, || self.states().iter().any(|seen| seen == state)).await;
    }
}

async fn server(options: &[&str]) -> Server {
    Server::start_in(&workspace().join("examples/agents"), options).await
}

/// One call of JSON-RPC; the whole answer.
async fn rpc(server: &Server, version: &str, method: &str, params: Value) -> Value {
    let request = http()
        .post(format!("{}/a2a", server.base))
        .header("a2a-version", version)
        .header("content-type", "application/json")
        .body(json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string());
    let text = request.send().await.unwrap().text().await.unwrap();
    serde_json::from_str(&text).unwrap()
}

#[track_caller]
fn result(answer: &Value) -> &Value {
    assert!(answer.get("error").is_none(), "{answer}");
    &answer["result"]
}

/// A task that waits for its client, and the id of its call.
async fn waiting(server: &Server, configuration: Value) -> (Value, Value) {
    let tool = json!({
        "name": "calculator", "description": "Evaluates an arithmetic expression",
        "parameters": {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]},
    });
    let asked = json!({
        "message": {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "What is 25% of 8,432?"}]},
        "metadata": {TOOLS: {"tools": [tool]}}, "configuration": configuration,
    });
    let task = result(&rpc(server, "1.0", "SendMessage", asked).await)["task"].clone();
    assert_eq!(task["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{task}");
    let call = task["status"]["message"]["parts"][1]["data"]["toolCalls"][0]["id"].clone();
    (task["id"].clone(), call)
}

async fn finish(server: &Server, task: &Value, call: &Value) {
    let message = json!({
        "messageId": "m-2", "role": "ROLE_USER", "taskId": task,
        "parts": [{"data": {"toolResults": [{"toolCallId": call, "toolName": "calculator", "result": "2108"}]}}],
    });
    let done = rpc(server, "1.0", "SendMessage", json!({"message": message})).await;
    assert_eq!(result(&done)["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{done}");
}

#[tokio::test]
async fn events_are_posted_in_order_with_their_token_and_survive_a_kill() {
    let receiver = Receiver::start(503).await;
    let mut server = server(LOOPBACK).await;
    let config = json!({
        "url": format!("{}/hook", receiver.service.url), "token": "t-1",
        "authentication": {"scheme": "Bearer", "credentials": "secret-1"},
    });
    let (task, call) = waiting(&server, json!({"taskPushNotificationConfig": config})).await;
    // The receiver fails; what it was sent is sent again by the next process.
    until("an attempt", || !receiver.service.received().is_empty()).await;
    server.kill_and_restart().await;
    receiver.status.store(200, Ordering::SeqCst);
    receiver.has("input-required").await;
    finish(&server, &task, &call).await;
    receiver.has("completed").await;
    let mut states = receiver.states();
    states.dedup();
    assert_eq!(states, ["working", "input-required", "working", "completed"]);
    let received = receiver.service.received();
    let last = received.last().expect("a notification");
    assert_eq!(last.header("x-a2a-notification-token"), "t-1");
    assert_eq!(last.header("authorization"), "Bearer secret-1");
    assert_eq!(last.header("content-type"), "application/a2a+json");
    assert!(
        received.iter().any(|received| received.body.contains("artifactUpdate") && received.body.contains("2,108"))
    );
    // A config exists until its task has ended and all of it was posted.
    let listed = async || rpc(&server, "1.0", "ListTaskPushNotificationConfigs", json!({"taskId": task})).await;
    while !result(&listed().await)["configs"].as_array().expect("a list").is_empty() {}
}

#[tokio::test]
async fn a_receiver_that_is_gone_gets_no_more_and_one_of_0_3_gets_the_task() {
    let (gone, old) = (Receiver::start(410).await, Receiver::start(204).await);
    let server = server(LOOPBACK).await;
    let (task, call) = waiting(&server, json!({})).await;
    let new = json!({"taskId": task, "id": "gone", "url": gone.service.url});
    let shown = rpc(&server, "1.0", "CreateTaskPushNotificationConfig", new.clone()).await;
    assert_eq!(*result(&shown), new);
    let config =
        json!({"id": "old", "url": old.service.url, "authentication": {"schemes": ["Basic"], "credentials": "x"}});
    let set = json!({"taskId": task, "pushNotificationConfig": config});
    let shown = rpc(&server, "0.3", "tasks/pushNotificationConfig/set", set).await;
    assert_eq!(result(&shown)["pushNotificationConfig"]["authentication"], json!({"schemes": ["Basic"]}), "{shown}");
    finish(&server, &task, &call).await;
    old.has("completed").await;
    let last: Value = serde_json::from_str(&old.service.received().pop().unwrap().body).unwrap();
    assert_eq!((&last["kind"], &last["id"]), (&json!("task"), &task), "{last}");
    until("the end of the first", || !gone.service.received().is_empty()).await;
    assert_eq!(gone.service.received().len(), 1, "410 ends it");
}

#[tokio::test]
async fn configs_are_created_read_listed_and_deleted_over_both_bindings() {
    let server = server(LOOPBACK).await;
    let (task, _) = waiting(&server, json!({})).await;
    let base = format!("{}/a2a/tasks/{}/pushNotificationConfigs", server.base, task.as_str().unwrap());
    let body = json!({"id": "c-1", "url": "https://hooks.example/a", "token": "t"});
    let post = http().post(&base).header("content-type", "application/json").body(body.to_string());
    assert_eq!(post.send().await.unwrap().status(), 200);
    let read = async |path: String| {
        let answer = http().get(path).send().await.unwrap();
        let status = answer.status().as_u16();
        (status, serde_json::from_str::<Value>(&answer.text().await.unwrap()).unwrap())
    };
    // The token is shown only in the answer to the request that sets it.
    let expected = json!({"id": "c-1", "url": "https://hooks.example/a", "taskId": task});
    assert_eq!(read(format!("{base}/c-1")).await, (200, expected.clone()));
    assert_eq!(read(base.clone()).await.1["configs"], json!([expected]));
    let old = rpc(&server, "0.3", "tasks/pushNotificationConfig/list", json!({"id": task})).await;
    assert_eq!(result(&old)[0]["pushNotificationConfig"]["id"], "c-1", "{old}");
    // There is a limit.
    for number in 2..=PUSH_CONFIGS + 1 {
        let new = json!({"taskId": task, "id": format!("c-{number}"), "url": "https://hooks.example/a"});
        let created = rpc(&server, "1.0", "CreateTaskPushNotificationConfig", new).await;
        assert_eq!(created["error"]["code"].is_null(), number <= PUSH_CONFIGS, "{number}: {created}");
    }
    for _ in 0..2 {
        assert_eq!(http().delete(format!("{base}/c-1")).send().await.unwrap().status(), 200, "it may be repeated");
    }
    assert_eq!(read(format!("{base}/c-1")).await.0, 404);
    let one = rpc(&server, "1.0", "GetTaskPushNotificationConfig", json!({"taskId": task, "id": "c-2"})).await;
    assert_eq!(result(&one)["id"], "c-2");
}

#[tokio::test]
async fn an_address_that_is_private_is_refused_unless_the_operator_lists_it() {
    let receiver = Receiver::start(200).await;
    let server = server(&[]).await;
    let (task, _) = waiting(&server, json!({})).await;
    for url in
        [receiver.service.url.as_str(), "http://169.254.169.254/x", "ftp://hooks.example", "https://u:p@h.example"]
    {
        let new = json!({"taskId": task, "url": url});
        let refused = rpc(&server, "1.0", "CreateTaskPushNotificationConfig", new).await;
        assert_eq!(refused["error"]["code"], -32602, "{url}: {refused}");
        let with_message = json!({
            "message": {"messageId": url, "role": "ROLE_USER", "parts": [{"text": "Hi"}]},
            "configuration": {"taskPushNotificationConfig": {"url": url}},
        });
        let refused = rpc(&server, "1.0", "SendMessage", with_message).await;
        assert_eq!(refused["error"]["code"], -32602, "{url}: {refused}");
    }
    let url = |bytes: usize| format!("https://hooks.example/{}", "x".repeat(bytes - 22));
    for (bytes, is_taken) in [(PUSH_FIELD_BYTES, true), (PUSH_FIELD_BYTES + 1, false)] {
        let new = json!({"taskId": task, "url": url(bytes)});
        let created = rpc(&server, "1.0", "CreateTaskPushNotificationConfig", new).await;
        assert_eq!(created["error"].is_null(), is_taken, "{bytes}: {created:.300}");
    }
    assert!(receiver.service.received().is_empty());
}

/// The commit of a webhook is between two fault points.
#[tokio::test]
async fn a_config_whose_process_dies_at_its_commit_is_there_after_a_retry() {
    let receiver = Receiver::start(200).await;
    let world = World::new().with(LOOPBACK);
    let text = scenarios::query("q", Scenario::Quick)["input"].clone();
    let asked = json!({
        "message": {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": text}]},
        "configuration": {"taskPushNotificationConfig": {"url": receiver.service.url}},
    });
    let send = async |base: &str| {
        let url = format!("{base}/a2a/message:send");
        http().post(url).header("content-type", "application/json").body(asked.to_string()).send().await
    };
    for point in ["store.webhook", "store.webhook_kept"] {
        let Started::Ready(mut server) = world.spawn(Some(point)).ready().await else { panic!("it dies too early") };
        assert!(send(&server.base).await.is_err(), "{point}");
        assert_eq!(server.exit().await, ProcessExit::AtFaultPoint, "{point}");
    }
    let server = world.start().await;
    assert_eq!(send(&server.base).await.unwrap().status(), 200);
    receiver.has("completed").await;
}
