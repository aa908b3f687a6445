//! Who may do what: each operation has its right, and refusals have the shape of the binding.

use serde_json::{Value, json};

use super::{MATH, V1, call, calls, message, saying, with_tools};
use crate::tests::{
    authorization::{keys, policy},
    world::{HttpReply, TestServer, calculating},
};

async fn ask(world: &TestServer, key: Option<&str>, path: &str, method: &str, params: Value) -> HttpReply {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let authorization = key.map(|key| format!("Bearer sk-{key}"));
    let mut headers = V1.to_vec();
    headers.extend(authorization.as_deref().map(|value| ("authorization", value)));
    world.send("POST", path, &headers, body.to_string()).await
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_the_gate_is_as_a2a_writes_it() {
    let world = saying("Hello!").await.guarded(&policy(keys()));
    let refused = ask(&world, None, MATH, "ListTasks", json!({})).await;
    assert_eq!((refused.status.as_u16(), refused.header("www-authenticate")), (401, Some("Bearer")));
    assert_eq!((&refused.body["jsonrpc"], &refused.body["id"]), (&json!("2.0"), &Value::Null));
    assert_eq!(refused.body["error"]["data"][0]["reason"], "UNAUTHORIZED");
    let refused = world.send("GET", &format!("{MATH}/tasks"), V1, "").await;
    assert_eq!((refused.status.as_u16(), &refused.body["error"]["status"]), (401, &json!("UNAUTHENTICATED")));
    let other = world.send("GET", "/v1/queries", &[], "").await;
    assert_eq!(other.body["detail"], "Missing or invalid authorization header", "ARK's are as they were");
    let foreign = ask(&world, Some("other"), MATH, "ListTasks", json!({})).await;
    assert_eq!(
        (foreign.status.as_u16(), &foreign.body["error"]["data"][0]["reason"]),
        (403, &json!("NAMESPACE_FORBIDDEN"))
    );
    let missing = world.send("DELETE", MATH, V1, "").await;
    assert_eq!((missing.status.as_u16(), &missing.body["error"]["code"]), (405, &json!(-32000)));
}

#[tokio::test(start_paused = true)]
async fn each_operation_has_its_right() {
    let world = TestServer::new(calculating()).await;
    let task = call(&world, "SendMessage", with_tools("m1")).await["task"].clone();
    let world = world.guarded(&policy(keys()));
    let mut words = message("m9", "x");
    words["taskId"] = task["id"].clone();
    let given = super::results("m2", &task, json!([{"toolCallId": calls(&task)[0]["id"], "result": "2108"}]));
    for (right, method, params) in [
        ("read", "GetTask", json!({"id": task["id"]})),
        ("read", "ListTasks", json!({})),
        ("read", "SubscribeToTask", json!({"id": task["id"]})),
        ("run", "SendMessage", json!({"message": words})),
        ("run", "CancelTask", json!({"id": task["id"]})),
        ("deliver", "SendMessage", given),
    ] {
        let refused = ask(&world, Some(&format!("without-{right}")), MATH, method, params.clone()).await;
        assert_eq!(refused.status, 403, "{method} {}", refused.body);
        assert_eq!(refused.body["error"]["data"][0]["reason"], "RIGHT_MISSING", "{method}");
        assert_eq!(refused.body["id"], 1, "the operation knows the id");
    }
    let given = super::results("m2", &task, json!([{"toolCallId": calls(&task)[0]["id"], "result": "2108"}]));
    let done = ask(&world, Some("only-deliver"), MATH, "SendMessage", given).await.ok();
    let shown = &done["result"]["task"];
    assert_eq!(shown["status"]["state"], "TASK_STATE_COMPLETED");
    assert_eq!(
        (shown.get("artifacts"), shown.get("history")),
        (None, None),
        "without `read` no content is shown: {shown}"
    );
}

#[tokio::test(start_paused = true)]
async fn refusals_are_on_record() {
    let world = saying("Hello!").await.guarded(&policy(keys()));
    ask(&world, Some("only-run"), MATH, "ListTasks", json!({})).await;
    let headers = [("authorization", "Bearer sk-any")];
    let page = world.send("GET", "/v1/namespaces/bosun-server/audit", &headers, "").await.ok();
    let record = page["items"].as_array().unwrap().iter().find(|record| record["action"] == "access.refused").unwrap();
    assert_eq!((&record["actor"], &record["outcome"]), (&json!("only-run"), &json!("right_missing")));
    assert_eq!(record["detail"], "POST /a2a/agents/{namespace}/{name}");
}

/// Two callers may choose the same message id; neither joins the other's conversation by that.
#[tokio::test(start_paused = true)]
async fn a_context_that_no_client_named_belongs_to_its_caller() {
    let world = saying("Hello!").await.guarded(&policy(keys()));
    let mut contexts = Vec::new();
    for key in ["own", "any"] {
        let sent = ask(&world, Some(key), MATH, "SendMessage", json!({"message": message("m1", "Hi")})).await.ok();
        contexts.push(sent["result"]["task"]["contextId"].clone());
    }
    assert_ne!(contexts[0], contexts[1]);
}
