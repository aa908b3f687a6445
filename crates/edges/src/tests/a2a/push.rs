//! Push notifications that fail.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use bosun_core::{
    Timestamp,
    audit::{Action, AuditRecord},
    ceiling::{PUSH_ATTEMPTS, PUSH_CONFIGS},
};
use bosun_engine::{
    Store as _,
    store::{Webhook, WebhookChange, WebhookProgress, Webhooks as _},
    testing::{ScriptedModel, ScriptedTurn},
    webhook::{PostWebhooks, WebhookPost},
};
use serde_json::{Value, json};

use super::{TOOLS, V1, calculator, call, calls, fault, message, results, rpc, with_tools};
use crate::{
    AppState, ErrorMapping,
    auth::Access,
    deliver_notifications,
    tests::world::{TestServer, calculating},
};

/// A receiver that fails at first.
#[derive(Debug, Default)]
struct Failing {
    failures: usize,
    attempts: AtomicUsize,
    received: Mutex<Vec<String>>,
}

#[async_trait]
impl PostWebhooks for Failing {
    fn check(&self, _: &str) -> Result<(), String> {
        Ok(())
    }

    async fn post(&self, post: &WebhookPost) -> Result<u16, String> {
        if self.attempts.fetch_add(1, Ordering::SeqCst) < self.failures {
            return Err("there is no connection".to_owned());
        }
        self.received.lock().unwrap().push(post.body.clone());
        Ok(200)
    }
}

/// A cancelled task with a webhook that has seen nothing but its creation, and the audit log when nothing more is due.
async fn deliver(failures: usize) -> (Arc<Failing>, Value) {
    let world = TestServer::new(ScriptedModel::always(vec![ScriptedTurn::default().hanging()])).await;
    let params = json!({"message": message("m1", "Hi"), "configuration": {"returnImmediately": true}});
    let task = call(&world, "SendMessage", params).await["task"].clone();
    call(&world, "CancelTask", json!({"id": task["id"]})).await;
    let name = task["id"].as_str().unwrap().parse().unwrap();
    let head = world.store.load(&"default".parse().unwrap(), &name).await.unwrap().unwrap().head;
    let record = Box::new(AuditRecord::of_webhook(&head, Timestamp(0), Action::WebhookSet, None, "w"));
    let webhook = Webhook {
        namespace: head.namespace.clone(),
        name,
        query: head.uid,
        id: "w".into(),
        target: json!({"url": "https://hooks.example"}).to_string(),
        progress: WebhookProgress { seq: 1, attempts: 0, next_at: Timestamp(0) },
    };
    assert!(world.store.change_webhook(WebhookChange::Put { webhook, at_most: 1, record }).await.unwrap());
    let poster = Arc::new(Failing { failures, ..Failing::default() });
    let (engine, reload) = (world.engine.clone(), Arc::new(world.engine.clone()));
    let app = AppState::with_reload(
        engine,
        Access::open(),
        Vec::new(),
        reload,
        ErrorMapping::default(),
        Some(Arc::clone(&poster) as _),
    );
    let left = async || world.store.webhooks(&head.namespace, head.uid).await.unwrap().len();
    // Time is paused: it passes only while all of this waits.
    let settled = async {
        while left().await > 0 {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        }
    };
    tokio::select! {
        () = deliver_notifications(app) => unreachable!("the server is not draining"),
        () = settled => {}
    }
    let audit = world.get("/v1/audit?limit=100").await.ok();
    (poster, audit)
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_fails_is_tried_again_until_it_has_everything() {
    let (poster, _) = deliver(PUSH_ATTEMPTS - 1).await;
    let received = poster.received.lock().unwrap().clone();
    assert!(received.last().is_some_and(|body| body.contains("TASK_STATE_CANCELED")), "{received:?}");
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_always_fails_loses_its_webhook_after_the_last_attempt() {
    let (poster, audit) = deliver(usize::MAX).await;
    assert_eq!(poster.attempts.load(Ordering::SeqCst), PUSH_ATTEMPTS);
    let record = &audit["items"][0];
    assert_eq!(
        (&record["action"], &record["outcome"]),
        (&json!("webhook.deleted"), &json!("receiver_failed")),
        "{record}"
    );
    assert_eq!(record.get("actor"), None, "no caller did it");
}

/// Takes every address, and posts nowhere.
pub(super) fn posting_nowhere() -> Arc<dyn PostWebhooks> {
    Arc::new(Failing { failures: usize::MAX, ..Failing::default() })
}

#[tokio::test(start_paused = true)]
async fn setting_and_deleting_a_config_is_in_the_audit_log() {
    let world = TestServer::new(ScriptedModel::always(vec![ScriptedTurn::default().hanging()])).await;
    let world = world.serving(Access::open(), Some(posting_nowhere()));
    let params = json!({
        "message": message("m1", "Hi"),
        "configuration": {"returnImmediately": true, "taskPushNotificationConfig": {"url": "https://user:pw@a.example/x"}},
    });
    let task = call(&world, "SendMessage", params).await["task"]["id"].clone();
    let set = json!({"taskId": task, "id": "b", "url": "https://b.example:8443?key=1", "token": "t"});
    let shown = call(&world, "CreateTaskPushNotificationConfig", set).await;
    assert_eq!(
        (&shown["token"], &shown["url"]),
        (&json!("t"), &json!("https://b.example:8443?key=[hidden]")),
        "{shown}"
    );
    let listed = call(&world, "ListTaskPushNotificationConfigs", json!({"taskId": task})).await;
    assert_eq!(listed["configs"][0]["id"], "b", "{listed}");
    assert_eq!(listed["configs"][0].get("token"), None, "{listed}");
    for _ in 0..2 {
        call(&world, "DeleteTaskPushNotificationConfig", json!({"taskId": task, "id": "default"})).await;
    }
    let page = world.get("/v1/audit?limit=100").await.ok();
    let is_about = |record: &&Value| record["action"].as_str().unwrap().starts_with("webhook.");
    let records: Vec<_> = page["items"].as_array().unwrap().iter().rev().filter(is_about).collect();
    let of = |field: &str| records.iter().map(|record| record[field].as_str().unwrap_or_default()).collect::<Vec<_>>();
    assert_eq!(of("action"), ["webhook.set", "webhook.set", "webhook.deleted"]);
    assert_eq!(of("detail"), ["default a.example", "b b.example:8443", "default"]);
    assert_eq!(of("actor"), ["local"; 3]);
    assert!(records.iter().all(|record| record["query"] == task), "{records:?}");
}

/// Over HTTP, clients of 0.3 write configs as its `.proto` has them.
#[tokio::test(start_paused = true)]
async fn a_config_in_the_protojson_of_0_3_is_read() {
    let world = TestServer::new(ScriptedModel::always(vec![ScriptedTurn::default().hanging()])).await;
    let world = world.serving(Access::open(), Some(posting_nowhere()));
    let params = json!({"message": message("m1", "Hi"), "configuration": {"returnImmediately": true}});
    let task = call(&world, "SendMessage", params).await["task"]["id"].as_str().unwrap().to_owned();
    let body = json!({"parent": format!("tasks/{task}"), "config_id": "c", "config": {
        "name": format!("tasks/{task}/pushNotificationConfigs/c"),
        "push_notification_config": {"id": "c", "url": "https://c.example", "authentication": {}},
    }});
    let path = format!("{}/v1/tasks/{task}/pushNotificationConfigs", super::MATH);
    let set = world.send("POST", &path, super::V03, body.to_string()).await.ok();
    assert_eq!(set["pushNotificationConfig"], json!({"id": "c", "url": "https://c.example"}), "{set}");
}

/// A task that waits for its client, on a server with push notifications.
async fn waiting() -> (TestServer, Value) {
    let world = TestServer::new(calculating()).await.serving(Access::open(), Some(posting_nowhere()));
    let task = call(&world, "SendMessage", with_tools("m1")).await["task"].clone();
    (world, task)
}

/// The result of the call that a task waits for, with a webhook.
fn result_with_push(task: &Value, result: &str, id: &str) -> Value {
    let mut params = results("m2", task, json!([{"toolCallId": calls(task)[0]["id"], "result": result}]));
    params["configuration"] = json!({"taskPushNotificationConfig": {"id": id, "url": "https://hooks.example"}});
    params
}

async fn ids_of_configs(world: &TestServer, task: &Value) -> Vec<Value> {
    let listed = call(world, "ListTaskPushNotificationConfigs", json!({"taskId": task["id"]})).await;
    listed["configs"].as_array().unwrap().iter().map(|config| config["id"].clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_refused_leaves_no_webhook() {
    let (world, task) = waiting().await;
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut params = result_with_push(&task, "2108", "refused");
        change(&mut params);
        params
    };
    let before = [
        changed(&|params| params["message"]["contextId"] = json!("another")),
        changed(&|params| params["metadata"] = json!({TOOLS: {"tools": [calculator()]}})),
        changed(&|params| {
            params["message"]["parts"] = json!([{"data": {"toolResults": [{"toolCallId": "call_1", "result": 1}]}}]);
        }),
    ];
    for params in before {
        assert_eq!(fault(&rpc(&world, V1, "SendMessage", params.clone()).await).0, -32602, "{params}");
        assert!(ids_of_configs(&world, &task).await.is_empty(), "{params}");
    }
    call(&world, "SendMessage", result_with_push(&task, "2108", "accepted")).await;
    assert_eq!(ids_of_configs(&world, &task).await, ["accepted"]);
    let name = task["id"].as_str().unwrap().parse().unwrap();
    let head = world.store.load(&"default".parse().unwrap(), &name).await.unwrap().unwrap().head;
    let [webhook] = &world.store.webhooks(&head.namespace, head.uid).await.unwrap()[..] else { panic!("one webhook") };
    assert!(webhook.progress.seq < head.seq, "what follows the message is posted");
    // Another result for its call, and a text to a task that has ended.
    let text = changed(&|params| params["message"]["parts"] = json!([{"text": "And now?"}]));
    for (params, code) in [(result_with_push(&task, "2109", "refused"), -32602), (text, -32004)] {
        assert_eq!(fault(&rpc(&world, V1, "SendMessage", params.clone()).await).0, code, "{params}");
        assert_eq!(ids_of_configs(&world, &task).await, ["accepted"], "{params}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_with_one_webhook_too_many_is_refused_and_its_results_are_not_recorded() {
    let (world, task) = waiting().await;
    for number in 0..PUSH_CONFIGS {
        let config = json!({"taskId": task["id"], "id": number.to_string(), "url": "https://hooks.example"});
        call(&world, "CreateTaskPushNotificationConfig", config).await;
    }
    let refused = rpc(&world, V1, "SendMessage", result_with_push(&task, "2108", "further")).await;
    assert_eq!(fault(&refused).0, -32602, "{}", refused.body);
    let read = call(&world, "GetTask", json!({"id": task["id"]})).await;
    assert_eq!(calls(&read), calls(&task), "it still waits");
    let done = call(&world, "SendMessage", result_with_push(&task, "2108", "0")).await;
    assert_eq!(done["task"]["status"]["state"], "TASK_STATE_COMPLETED", "one that replaces another: {done}");
}
