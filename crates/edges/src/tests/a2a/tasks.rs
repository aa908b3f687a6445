//! Tasks: sent, read, listed and cancelled, in both generations and over both bindings.

use bosun_core::ceiling::{PAGE_BYTES, TASKS_LISTED};
use bosun_engine::testing::{ScriptedModel, ScriptedTurn};
use serde_json::{Value, json};

use super::{
    MATH, TOOLS, V1, V03, calculator, call, calls, fault, message, push::posting_nowhere, result, rpc, saying, stream,
};
use crate::{
    auth::Access,
    tests::world::{TestServer, assert_answer, calculating},
};

#[tokio::test(start_paused = true)]
async fn a_message_becomes_a_task_with_the_answer_as_its_artifact() {
    let world = saying("Hello!").await;
    let sent = call(&world, "SendMessage", json!({"message": message("m1", "Hi")})).await;
    assert_answer("a2a_completed", &sent);
    let read = call(&world, "GetTask", json!({"id": sent["task"]["id"]})).await;
    assert_eq!(read, sent["task"]);
}

#[tokio::test(start_paused = true)]
async fn a_client_of_0_3_gets_its_own_shapes_on_the_same_url() {
    let world = saying("Hello!").await;
    let message =
        json!({"kind": "message", "messageId": "m1", "role": "user", "parts": [{"kind": "text", "text": "Hi"}]});
    let sent = result(rpc(&world, V03, "message/send", json!({"message": message})).await);
    assert_answer("a2a_completed_0_3", &sent);
    let read = result(rpc(&world, V03, "tasks/get", json!({"id": sent["id"]})).await);
    assert_eq!(read, sent);
    let new = call(&world, "GetTask", json!({"id": sent["id"]})).await;
    assert_eq!(new["status"]["state"], "TASK_STATE_COMPLETED", "either generation reads what the other one created");
}

#[tokio::test(start_paused = true)]
async fn the_same_operations_are_routes() {
    let world = saying("Hello!").await;
    let body = json!({"message": message("m1", "Hi")}).to_string();
    let sent = world.send("POST", &format!("{MATH}/message:send"), V1, body.clone()).await.ok();
    assert_eq!(sent["task"]["status"]["state"], "TASK_STATE_COMPLETED");
    let id = sent["task"]["id"].as_str().unwrap();
    let read = world.send("GET", &format!("{MATH}/tasks/{id}?historyLength=0"), V1, "").await.ok();
    assert_eq!((read["id"].as_str(), read.get("history")), (Some(id), None));
    let listed = world.send("GET", &format!("{MATH}/tasks?pageSize=1"), V1, "").await.ok();
    assert_eq!((&listed["totalSize"], &listed["tasks"][0]["id"]), (&json!(1), &json!(id)));
    // The media type of the answer is the client's.
    let typed = [("content-type", "application/a2a+json"), ("a2a-version", "1.0")];
    let again = world.send("POST", &format!("{MATH}/message:send"), &typed, body).await;
    assert_eq!(again.header("content-type"), Some("application/a2a+json"));
    assert_eq!(again.ok()["task"]["id"], id, "the same message again is the same task");
    // 0.3 has `/v1` in front.
    let old = world.send("GET", &format!("{MATH}/v1/tasks/{id}"), &[], "").await.ok();
    assert_eq!((&old["kind"], &old["status"]["state"]), (&json!("task"), &json!("completed")));
}

#[tokio::test(start_paused = true)]
async fn a_retried_message_is_the_same_task_and_a_reused_id_is_refused() {
    let world = saying("Hello!").await;
    let first = call(&world, "SendMessage", json!({"message": message("m1", "Hi")})).await;
    let again = call(&world, "SendMessage", json!({"message": message("m1", "Hi")})).await;
    assert_eq!(first, again);
    assert_eq!(world.model.requests().len(), 1, "the model was asked once");
    let other = rpc(&world, V1, "SendMessage", json!({"message": message("m1", "Bye")})).await;
    assert_eq!(fault(&other).0, -32602);
    assert_ne!(
        call(&world, "SendMessage", json!({"message": message("m2", "Hi")})).await["task"]["id"],
        first["task"]["id"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_context_is_a_conversation() {
    let script = ScriptedModel::default()
        .on("I am Ada", vec![ScriptedTurn::say("Hello Ada.")])
        .on("Who am I?", vec![ScriptedTurn::say("You are Ada.")]);
    let world = TestServer::new(script).await;
    let first = call(&world, "SendMessage", json!({"message": message("m1", "I am Ada")})).await;
    let mut second = message("m2", "Who am I?");
    second["contextId"] = first["task"]["contextId"].clone();
    let second = call(&world, "SendMessage", json!({"message": second})).await;
    assert_eq!(second["task"]["contextId"], first["task"]["contextId"]);
    assert_ne!(second["task"]["id"], first["task"]["id"]);
    let asked = world.model.requests().pop().unwrap().messages;
    assert_eq!(asked.len(), 4, "prompt, question, answer, question: {asked:?}");
    let context = first["task"]["contextId"].as_str().unwrap();
    let listed = call(&world, "ListTasks", json!({"contextId": context})).await;
    assert_eq!(listed["totalSize"], 2);
    let read = world.get(&format!("/v1/conversations/{context}")).await.ok();
    assert_eq!(read["total"], 4, "the other edge sees the same conversation");
}

#[tokio::test(start_paused = true)]
async fn a_task_is_a_query_of_the_other_edge_too() {
    let world = TestServer::new(ScriptedModel::always(vec![ScriptedTurn::default().hanging()])).await;
    let params = json!({"message": message("m1", "Hi"), "configuration": {"returnImmediately": true}});
    let task = call(&world, "SendMessage", params).await["task"].clone();
    assert_eq!(task["status"]["state"], "TASK_STATE_WORKING");
    let id = task["id"].as_str().unwrap();
    assert_eq!(world.get(&format!("/v1/queries/{id}")).await.ok()["status"]["phase"], "running");
    world.post(&format!("/v1/queries/{id}/cancel"), &json!({"reason": "enough"})).await.ok();
    let cancelled = call(&world, "GetTask", json!({"id": id})).await;
    assert_eq!(cancelled["status"]["state"], "TASK_STATE_CANCELED");
    assert_eq!(cancelled["status"]["message"]["parts"][0]["text"], "enough");
    // And the other way round.
    let body = json!({"name": "q", "input": "x", "target": {"type": "agent", "name": "math-assistant"}});
    world.post("/v1/queries", &body).await.ok();
    let cancelled = call(&world, "CancelTask", json!({"id": "q"})).await;
    assert_eq!(cancelled["status"]["state"], "TASK_STATE_CANCELED");
    assert_eq!(world.get("/v1/queries/q").await.ok()["state"], "cancelled");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_has_ended_takes_no_message_and_cannot_be_cancelled() {
    let world = saying("Hello!").await;
    let task = call(&world, "SendMessage", json!({"message": message("m1", "Hi")})).await["task"].clone();
    let mut more = message("m2", "And now?");
    more["taskId"] = task["id"].clone();
    let refused = rpc(&world, V1, "SendMessage", json!({"message": more})).await;
    assert_eq!(fault(&refused), (-32004, "UNSUPPORTED_OPERATION".to_owned()));
    let refused = rpc(&world, V1, "CancelTask", json!({"id": task["id"]})).await;
    assert_eq!(fault(&refused), (-32002, "TASK_NOT_CANCELABLE".to_owned()));
    let refused = rpc(&world, V1, "SubscribeToTask", json!({"id": task["id"]})).await;
    assert_eq!(fault(&refused).0, -32004);
    let path = format!("{MATH}/tasks/{}:cancel", task["id"].as_str().unwrap());
    let refused = world.send("POST", &path, V1, "").await;
    assert_eq!((refused.status.as_u16(), &refused.body["error"]["status"]), (400, &json!("FAILED_PRECONDITION")));
    assert_eq!(refused.body["error"]["details"][0]["reason"], "TASK_NOT_CANCELABLE");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_not_there_and_one_of_another_agent_look_the_same() {
    let world = saying("Hello!").await;
    let body = json!({"name": "q", "input": "x", "target": {"type": "agent", "name": "research-assistant"}});
    world.post("/v1/queries?wait=true", &body).await.ok();
    for id in ["q", "nothing", "Not A Name", "query-00000000000000000000000000000000"] {
        for method in ["GetTask", "CancelTask", "SubscribeToTask"] {
            let reply = rpc(&world, V1, method, json!({"id": id})).await;
            assert_eq!(fault(&reply), (-32001, "TASK_NOT_FOUND".to_owned()), "{method} {id}");
        }
        let mut follow_up = message("m1", "Hi");
        follow_up["taskId"] = json!(id);
        let reply = rpc(&world, V1, "SendMessage", json!({"message": follow_up})).await;
        assert_eq!(fault(&reply).0, -32001, "{id}");
    }
    let reply = world.send("GET", &format!("{MATH}/tasks/nothing"), V1, "").await;
    assert_eq!((reply.status.as_u16(), &reply.body["error"]["status"]), (404, &json!("NOT_FOUND")));
}

#[tokio::test(start_paused = true)]
async fn tasks_are_listed_in_pages_the_one_that_changed_last_first() {
    let world = saying("Hello!").await;
    for number in 0..5 {
        tokio::time::advance(std::time::Duration::from_millis(10)).await;
        call(&world, "SendMessage", json!({"message": message(&format!("m{number}"), "Hi")})).await;
    }
    let mut seen = Vec::new();
    let mut token = String::new();
    loop {
        let page = call(&world, "ListTasks", json!({"pageSize": 2, "pageToken": token, "historyLength": 1})).await;
        assert_eq!(page["totalSize"], 5);
        for task in page["tasks"].as_array().unwrap() {
            assert!(task.get("artifacts").is_none(), "{task}");
            seen.push(task["history"][0]["messageId"].as_str().unwrap().to_owned());
        }
        token = page["nextPageToken"].as_str().unwrap().to_owned();
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(seen, ["m4", "m3", "m2", "m1", "m0"]);
    let with = call(&world, "ListTasks", json!({"includeArtifacts": true, "status": "TASK_STATE_COMPLETED"})).await;
    assert_eq!(with["tasks"][0]["artifacts"][0]["parts"][0]["text"], "Hello!");
    let none = call(&world, "ListTasks", json!({"status": "TASK_STATE_WORKING"})).await;
    assert_eq!((&none["tasks"], &none["nextPageToken"]), (&json!([]), &json!("")));
    for bad in [json!({"pageSize": 101}), json!({"pageSize": -1}), json!({"pageToken": "x"}), json!({"status": "DONE"})]
    {
        assert_eq!(fault(&rpc(&world, V1, "ListTasks", bad.clone()).await).0, -32602, "{bad}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_of_large_tasks_is_short_and_none_is_left_out() {
    let world = saying("Hello!").await;
    let text = "x".repeat(900_000);
    for number in 0..7 {
        tokio::time::advance(std::time::Duration::from_millis(10)).await;
        call(&world, "SendMessage", json!({"message": message(&format!("m{number}"), &text)})).await;
    }
    let (mut pages, mut token) = (Vec::new(), String::new());
    loop {
        let reply = rpc(&world, V1, "ListTasks", json!({"pageToken": token})).await;
        let page = result(reply);
        assert!(page.to_string().len() < PAGE_BYTES + 100_000);
        pages.push(page["tasks"].as_array().unwrap().len());
        token = page["nextPageToken"].as_str().unwrap().to_owned();
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(pages, [4, 3]);
}

#[tokio::test(start_paused = true)]
async fn only_the_newest_queries_are_looked_through_for_tasks() {
    let world = saying("Hello!").await;
    let total = async || call(&world, "ListTasks", json!({"pageSize": 1})).await["totalSize"].clone();
    let body = json!({"input": "Hi", "target": {"type": "agent", "name": "math-assistant"}});
    for _ in 0..TASKS_LISTED {
        world.post("/v1/queries", &body).await.ok();
    }
    assert_eq!(total().await, TASKS_LISTED);
    world.post("/v1/queries", &body).await.ok();
    assert_eq!(total().await, TASKS_LISTED);
}

#[tokio::test(start_paused = true)]
async fn a_failed_query_is_a_failed_task_with_its_reason() {
    let world = TestServer::new(ScriptedModel::always(vec![ScriptedTurn::refuse(401, "no such key")])).await;
    let task = call(&world, "SendMessage", json!({"message": message("m1", "Hi")})).await["task"].clone();
    assert_eq!(task["status"]["state"], "TASK_STATE_FAILED");
    assert_eq!(task["status"]["message"]["parts"][0]["text"], "model API answered 401: no such key");
    assert!(task.get("artifacts").is_none());
}

#[tokio::test(start_paused = true)]
async fn parts_are_text_and_data_and_files_are_refused_by_type() {
    let world = saying("Hello!").await;
    let mut asked = message("m1", "Look at this:");
    asked["parts"].as_array_mut().unwrap().push(json!({"data": {"a": [1, null]}}));
    call(&world, "SendMessage", json!({"message": asked})).await;
    let asked = format!("{:?}", world.model.requests().pop().unwrap().messages.last().unwrap());
    assert!(asked.contains(r#"Look at this:\n{\"a\":[1,null]}"#), "{asked}");
    for part in [json!({"raw": "eA==", "mediaType": "image/png"}), json!({"url": "https://h/x.png"})] {
        let file = json!({"messageId": "m2", "role": "ROLE_USER", "parts": [part]});
        let reply = rpc(&world, V1, "SendMessage", json!({"message": file})).await;
        assert_eq!(fault(&reply), (-32005, "CONTENT_TYPE_NOT_SUPPORTED".to_owned()));
    }
    let modes = json!({"message": message("m3", "Hi"), "configuration": {"acceptedOutputModes": ["image/png"]}});
    assert_eq!(fault(&rpc(&world, V1, "SendMessage", modes).await).0, -32005);
}

#[tokio::test(start_paused = true)]
async fn push_notifications_are_refused_by_name() {
    let world = saying("Hello!").await;
    for method in
        ["CreateTaskPushNotificationConfig", "GetTaskPushNotificationConfig", "ListTaskPushNotificationConfigs"]
    {
        let reply = rpc(&world, V1, method, json!({"taskId": "t"})).await;
        assert_eq!(fault(&reply), (-32003, "PUSH_NOTIFICATION_NOT_SUPPORTED".to_owned()), "{method}");
    }
    let reply = world.send("GET", &format!("{MATH}/tasks/t/pushNotificationConfigs"), V1, "").await;
    assert_eq!((reply.status.as_u16(), &reply.body["error"]["code"]), (400, &json!(400)));
    let with =
        json!({"message": message("m1", "Hi"), "configuration": {"taskPushNotificationConfig": {"url": "https://h"}}});
    assert_eq!(fault(&rpc(&world, V1, "SendMessage", with).await).0, -32003);
    assert_eq!(world.get("/v1/queries").await.ok()["total"], 0, "nothing was created");
}

#[tokio::test(start_paused = true)]
async fn a_version_decides_which_methods_there_are() {
    let world = saying("Hello!").await;
    let params = json!({"message": message("m1", "Hi")});
    for (headers, method, code) in [
        (V03, "SendMessage", -32601),
        (V1, "message/send", -32601),
        (V1, "tasks/list", -32601),
        (&[("content-type", "application/json"), ("a2a-version", "2.0")], "SendMessage", -32009),
    ] {
        assert_eq!(fault(&rpc(&world, headers, method, params.clone()).await).0, code, "{method}");
    }
    let reply = world
        .send("POST", &format!("{MATH}/"), V1, json!({"jsonrpc": "2.0", "id": "x", "method": "ListTasks"}).to_string())
        .await;
    assert_eq!(reply.ok()["id"], "x", "the trailing slash is the same endpoint");
}

/// A client may ask for no history; the task has it nevertheless.
#[tokio::test(start_paused = true)]
async fn history_is_cut_from_its_beginning() {
    let world = saying("Hello!").await;
    let sent =
        call(&world, "SendMessage", json!({"message": message("m1", "Hi"), "configuration": {"historyLength": 0}}))
            .await;
    assert_eq!(sent["task"].get("history"), None);
    let whole: Value = call(&world, "GetTask", json!({"id": sent["task"]["id"]})).await;
    assert_eq!(whole["history"][0]["messageId"], "m1");
}

/// Over HTTP, clients of 0.3 write messages as its `.proto` has them.
#[tokio::test(start_paused = true)]
async fn a_message_in_the_protojson_of_0_3_is_read() {
    let world = saying("Hello!").await;
    let path = format!("{MATH}/v1/message:send");
    let send = async |message: Value| world.send("POST", &path, V03, json!({ "message": message }).to_string()).await;
    let sent = send(json!({
        "message_id": "m1", "role": "ROLE_USER", "content": [{"text": "Hi"}, {"data": {"data": {"a": 1}}}],
    }));
    let task = sent.await.ok()["task"].clone();
    assert_eq!(task["status"]["state"], "completed", "{task}");
    assert_eq!(task["history"][0]["parts"][0]["text"], "Hi\n{\"a\":1}", "{task}");
    let camel = send(json!({"messageId": "m2", "role": 1, "content": [{"text": "Hi"}]})).await;
    assert_eq!(camel.status, 200, "{}", camel.body);
    for (message, code) in [
        (json!({"role": "ROLE_USER", "content": [{"text": "Hi"}]}), 400),
        (json!({"messageId": "m3", "role": "user", "content": [{"text": "Hi"}]}), 400),
        (json!({"messageId": "m4", "role": "ROLE_USER", "content": []}), 400),
        (json!({"messageId": "m5", "role": "ROLE_USER", "content": [{"kind": "text"}]}), 400),
        (json!({"messageId": "m6", "role": "ROLE_USER", "content": [{"data": {"data": 5}}]}), 400),
        (json!({"messageId": "m7", "role": "ROLE_USER", "content": [{"file": {"mime_type": "text/plain"}}]}), 400),
        (json!({"messageId": "m8", "role": "ROLE_USER", "content": "Hi"}), 400),
    ] {
        let refused = send(message.clone()).await;
        assert_eq!(refused.status, code, "{message}: {}", refused.body);
    }
    let file = json!({"file": {"file_with_uri": "https://h/a", "mime_type": "text/plain"}});
    let refused = send(json!({"messageId": "m9", "role": "ROLE_USER", "content": [file]})).await;
    assert_eq!(refused.body["error"]["details"][0]["reason"], "CONTENT_TYPE_NOT_SUPPORTED", "{}", refused.body);
}

/// A client of 0.3 that accepts nothing else reads the error in the stream; a refusal of the caller is none of those.
#[tokio::test(start_paused = true)]
async fn an_error_before_a_stream_of_0_3_is_its_only_event() {
    let world = saying("Hello!").await;
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tasks/resubscribe", "params": {"id": "none"}}).to_string();
    let ask = async |accept: &str| {
        let headers = [("content-type", "application/json"), ("accept", accept)];
        world.send("POST", MATH, &headers, body.clone()).await
    };
    let streamed = ask("text/event-stream").await;
    assert_eq!(streamed.header("content-type"), Some("text/event-stream"));
    let text = streamed.body.as_str().unwrap();
    let event: Value = serde_json::from_str(text.strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!((&event["id"], &event["error"]["code"]), (&json!(1), &json!(-32001)), "{event}");
    let plain = ask("application/json, text/event-stream").await;
    assert_eq!(fault(&plain), (-32001, "TASK_NOT_FOUND".to_owned()));
}

/// Every shape of 0.3 that is not that of a task alone.
#[tokio::test(start_paused = true)]
async fn streams_and_the_other_operations_of_0_3_have_its_shapes() {
    let world = TestServer::new(calculating()).await.serving(Access::open(), Some(posting_nowhere()));
    let send = async |method: &str, params: Value| result(rpc(&world, V03, method, params).await);
    let all = async |method: &str, params: Value| -> Vec<Value> {
        stream(&world, V03, method, params).await.rest().await.into_iter().map(|event| event.data).collect()
    };
    let asked = |id: &str| {
        json!({
            "message": {"kind": "message", "messageId": id, "role": "user", "parts": [{"kind": "text", "text": "25%?"}]},
            "metadata": {TOOLS: {"tools": [calculator()]}},
        })
    };
    let waiting = send("message/send", asked("m1")).await;
    let (task, context) = (&waiting["id"], &waiting["contextId"]);
    let config = json!({"id": "c", "url": "https://hooks.example"});
    let set = json!({"taskId": task, "pushNotificationConfig": config});
    let of_config = json!({"id": task, "pushNotificationConfigId": "c"});
    assert_eq!(send("tasks/pushNotificationConfig/set", set.clone()).await, set);
    assert_eq!(send("tasks/pushNotificationConfig/get", of_config.clone()).await, set);
    assert_eq!(send("tasks/pushNotificationConfig/list", json!({"id": task})).await, json!([set]));
    assert_eq!(send("tasks/pushNotificationConfig/delete", of_config).await, Value::Null);
    let mut subscribed = stream(&world, V03, "tasks/resubscribe", json!({"id": task})).await;
    assert_eq!(subscribed.next().await.unwrap().data["result"], waiting, "a snapshot first");
    let results = json!({"toolResults": [{"toolCallId": calls(&waiting)[0]["id"], "result": "2108"}]});
    let answered = json!({"message": {
        "kind": "message", "messageId": "m2", "role": "user", "taskId": task, "parts": [{"kind": "data", "data": results}],
    }});
    for events in
        [all("message/stream", answered).await, subscribed.rest().await.into_iter().map(|event| event.data).collect()]
    {
        let [.., answer, end] = &events[..] else { panic!("an answer and an end: {events:?}") };
        let part = json!({"kind": "text", "text": "25% of 8,432 is 2,108"});
        let id = &answer["result"]["artifact"]["artifactId"];
        let artifact = json!({"artifactId": id, "name": "answer", "parts": [part]});
        assert_eq!(
            answer["result"],
            json!({
                "kind": "artifact-update", "taskId": task, "contextId": context, "artifact": artifact,
                "append": false, "lastChunk": true,
            })
        );
        let status = json!({"state": "completed", "timestamp": end["result"]["status"]["timestamp"]});
        assert_eq!(
            end["result"],
            json!({"kind": "status-update", "taskId": task, "contextId": context, "status": status, "final": true})
        );
        assert!(id.is_string() && status["timestamp"].is_string(), "{events:?}");
    }
    let other = send("message/send", asked("m3")).await;
    let cancelled = send("tasks/cancel", json!({"id": other["id"]})).await;
    let status = json!({"state": "canceled", "timestamp": cancelled["status"]["timestamp"]});
    assert_eq!((&cancelled["kind"], &cancelled["id"], &cancelled["status"]), (&json!("task"), &other["id"], &status));
}
