//! The client-tools extension, from the definitions to the last result.

use std::time::Duration;

use bosun_core::transcript::Message;
use bosun_engine::testing::{ScriptedModel, ScriptedTurn};
use serde_json::{Value, json};

use super::{TOOLS, V1, calculator, call, calls, fault, message, result, results, rpc, stream, with_tools};
use crate::tests::world::{TestServer, assert_answer, calculating};

/// A task that waits for one call.
async fn waiting() -> (TestServer, Value) {
    let world = TestServer::new(calculating()).await;
    let task = call(&world, "SendMessage", with_tools("m1")).await["task"].clone();
    assert_eq!(task["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{task}");
    (world, task)
}

/// A task that waits for two calls of one turn.
async fn waiting_for_two() -> (TestServer, Value) {
    let world = TestServer::new(ScriptedModel::always(vec![
        ScriptedTurn::call("calculator", &json!({"expression": "1"})).and_call("calculator", r#"{"expression": "2"}"#),
        ScriptedTurn::say("done"),
    ]))
    .await;
    let task = call(&world, "SendMessage", with_tools("m1")).await["task"].clone();
    (world, task)
}

fn id_of(call: &Value) -> &Value {
    &call["id"]
}

/// What the model read as the results of the last turn.
fn tool_results_sent(world: &TestServer) -> Vec<String> {
    let messages = world.model.requests().pop().unwrap().messages;
    let content = |message: Message| match message {
        Message::Tool { content, .. } => Some(content),
        _ => None,
    };
    messages.into_iter().filter_map(content).collect()
}

#[tokio::test(start_paused = true)]
async fn a_call_is_a_data_part_of_an_input_required_status() {
    let (world, task) = waiting().await;
    assert_answer("a2a_waiting", &task);
    assert_eq!(calls(&task)[0]["function"]["name"], "calculator");
    let result =
        json!({"toolCallId": id_of(&calls(&task)[0]), "toolName": "calculator", "success": true, "result": "2108"});
    let done = call(&world, "SendMessage", results("m2", &task, json!([result]))).await["task"].clone();
    assert_eq!(done["status"]["state"], "TASK_STATE_COMPLETED");
    assert_eq!(done["artifacts"][0]["parts"][0]["text"], "25% of 8,432 is 2,108");
    assert_eq!(tool_results_sent(&world), ["2108"]);
    assert_answer("a2a_after_results", &done);
}

#[tokio::test(start_paused = true)]
async fn definitions_may_be_in_the_metadata_of_the_message() {
    let world = TestServer::new(calculating()).await;
    let mut asked = message("m1", "What is 25% of 8,432?");
    asked["metadata"] = json!({TOOLS: {"tools": [calculator()]}});
    let task = call(&world, "SendMessage", json!({"message": asked})).await["task"].clone();
    assert_eq!(calls(&task).len(), 1, "{task}");
}

#[tokio::test(start_paused = true)]
async fn bad_definitions_are_refused_all_at_once_with_the_providers_messages() {
    let world = TestServer::new(calculating()).await;
    let path = format!("metadata[\"{TOOLS}\"].tools");
    for (tools, sentence, fields) in [
        (
            json!([{"name": "has space", "description": "", "parameters": {"type": "object", "properties": {}}}]),
            "Invalid client tool definitions: ",
            vec![format!("{path}[0].name"), format!("{path}[0].description")],
        ),
        (json!([calculator(), calculator()]), "Duplicate tool names: calculator", vec![format!("{path}[1].name")]),
        (
            json!({"name": "x"}),
            "Invalid client tool definitions: Invalid input: expected array, received object",
            vec![path.clone()],
        ),
    ] {
        let mut params = with_tools("m1");
        params["metadata"][TOOLS]["tools"] = tools.clone();
        let reply = rpc(&world, V1, "SendMessage", params).await;
        assert_eq!(fault(&reply).0, -32602, "{tools}");
        let error = &reply.body["error"];
        assert!(error["message"].as_str().unwrap().starts_with(sentence), "{error}");
        let named: Vec<_> = error["data"][0]["fieldViolations"]
            .as_array()
            .unwrap()
            .iter()
            .map(|violation| violation["field"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(named, fields, "{error}");
    }
    assert_eq!(world.get("/v1/queries").await.ok()["total"], 0, "nothing was created");
    let reply = rpc(&world, V1, "SendMessage", json!({"message": message("m1", "x"), "metadata": {TOOLS: {}}})).await;
    assert_eq!(fault(&reply).0, -32602);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_its_own_schema_forbids_is_never_handed_out() {
    let world = TestServer::new(ScriptedModel::always(vec![
        ScriptedTurn::call("calculator", &json!({})),
        ScriptedTurn::call("calculator", &json!({"expression": "1"})),
        ScriptedTurn::say("done"),
    ]))
    .await;
    let task = call(&world, "SendMessage", with_tools("m1")).await["task"].clone();
    let [open] = &calls(&task)[..] else { panic!("one call: {task}") };
    assert_eq!(open["function"]["arguments"], json!({"expression": "1"}));
    let [refused] = &tool_results_sent(&world)[..] else { panic!("one result") };
    assert!(refused.contains("Missing required parameter: expression"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn partial_results_keep_the_task_waiting_and_list_what_is_open() {
    let (world, task) = waiting_for_two().await;
    let open = calls(&task);
    assert_eq!(open.len(), 2);
    let second = json!([{"toolCallId": id_of(&open[1]), "result": 2}]);
    let partial = call(&world, "SendMessage", results("m2", &task, second)).await["task"].clone();
    assert_eq!(partial["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
    assert_eq!(calls(&partial), [open[0].clone()]);
    let first = json!([{"toolCallId": id_of(&open[0]), "success": false, "error": "no"}]);
    let done = call(&world, "SendMessage", results("m3", &task, first)).await["task"].clone();
    assert_eq!(done["status"]["state"], "TASK_STATE_COMPLETED");
    assert_eq!(tool_results_sent(&world), ["Error: no", "2"], "in the order in which the model asked");
}

#[tokio::test(start_paused = true)]
async fn the_same_results_again_are_a_replay_and_others_are_refused() {
    let (world, task) = waiting().await;
    let open = calls(&task);
    let given = |result: &str| json!([{"toolCallId": id_of(&open[0]), "result": result}]);
    let first = call(&world, "SendMessage", results("m2", &task, given("2108"))).await;
    let again = call(&world, "SendMessage", results("m2", &task, given("2108"))).await;
    assert_eq!(first, again, "also after the task has ended");
    let other = rpc(&world, V1, "SendMessage", results("m3", &task, given("2109"))).await;
    assert_eq!(fault(&other), (-32602, "ALREADY_RESOLVED".to_owned()));
    assert_eq!(tool_results_sent(&world), ["2108"]);
}

/// The others count, so the answer is the task; it says which ones do not, and why.
#[tokio::test(start_paused = true)]
async fn results_that_are_not_used_beside_others_are_listed_in_the_answer() {
    let (world, task) = waiting_for_two().await;
    let [first, second] = &calls(&task)[..] else { panic!("two calls: {task}") };
    let given = |call: &Value, result: &str| json!({"toolCallId": call["id"], "result": result});
    call(&world, "SendMessage", results("m2", &task, json!([given(first, "1")]))).await;
    // The same result again is used: it is the outcome of its call.
    let replayed = results("m3", &task, json!([given(first, "1"), given(second, "2")]));
    let conflicting = results("m4", &task, json!([given(first, "one"), given(second, "2")]));
    let unused = json!({TOOLS: {"unusedResults": [{
        "toolCallId": first["id"],
        "reason": "ALREADY_RESOLVED",
        "message": format!("call `{}` already has another result, which stays", first["id"].as_str().unwrap()),
    }]}});
    let done = call(&world, "SendMessage", conflicting.clone()).await["task"].clone();
    assert_eq!((&done["status"]["state"], &done["metadata"]), (&json!("TASK_STATE_COMPLETED"), &unused), "{done}");
    assert_eq!(tool_results_sent(&world), ["1", "2"]);
    let done = call(&world, "SendMessage", replayed).await["task"].clone();
    assert_eq!(done.get("metadata"), None, "{done}");
    let read = call(&world, "GetTask", json!({"id": task["id"]})).await;
    assert_eq!(read.get("metadata"), None, "it is about one message: {read}");
    let snapshot = stream(&world, V1, "SendStreamingMessage", conflicting).await.next().await.unwrap().data;
    assert_eq!(snapshot["result"]["task"]["metadata"], unused, "{snapshot}");
    // In 0.3, and to the seed's method, too.
    let resume = json!({"taskId": task["id"], "toolResults": [given(first, "one"), given(second, "2")]});
    let resumed = result(rpc(&world, super::V03, "tasks/resume", resume).await);
    assert_eq!(resumed["metadata"], unused, "{resumed}");
}

#[tokio::test(start_paused = true)]
async fn a_late_result_is_refused_and_never_shown_to_the_model() {
    let (world, task) = waiting().await;
    let given = json!([{"toolCallId": id_of(&calls(&task)[0]), "result": "2108"}]);
    tokio::time::advance(Duration::from_secs(601)).await;
    let late = rpc(&world, V1, "SendMessage", results("m2", &task, given)).await;
    assert_eq!(fault(&late), (-32602, "CALL_EXPIRED".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_bad_result_consumes_nothing() {
    let (world, task) = waiting().await;
    let id = calls(&task)[0]["id"].clone();
    for (given, field) in [
        (json!([{"toolCallId": "call_1", "result": 1}]), "toolResults[0].toolCallId"),
        (json!([{"toolCallId": id, "toolName": "clock", "result": 1}]), "toolResults[0].toolName"),
        (json!([{"result": 1}]), "message.parts[0].data.toolResults[0].toolCallId"),
        (json!([{"toolCallId": id}]), "message.parts[0].data.toolResults[0].result"),
        (json!([{"toolCallId": id, "success": true, "error": "no"}]), "message.parts[0].data.toolResults[0].success"),
        (json!([]), "message.parts[0].data.toolResults"),
        (json!([{"toolCallId": id, "result": 1}, {"toolCallId": "call_1", "result": 1}]), "toolResults[1].toolCallId"),
    ] {
        let reply = rpc(&world, V1, "SendMessage", results("m2", &task, given.clone())).await;
        assert_eq!(fault(&reply).0, -32602, "{given}");
        let violations = reply.body["error"]["data"].as_array().unwrap().last().unwrap();
        assert_eq!(violations["fieldViolations"][0]["field"], field, "{given}: {}", reply.body);
    }
    let mut mixed = results("m2", &task, json!([{"toolCallId": id, "result": 1}]));
    mixed["message"]["parts"].as_array_mut().unwrap().push(json!({"text": "and this"}));
    assert_eq!(fault(&rpc(&world, V1, "SendMessage", mixed).await).0, -32602, "text next to results would be lost");
    let read = call(&world, "GetTask", json!({"id": task["id"]})).await;
    assert_eq!(calls(&read), calls(&task), "it still waits");
}

#[tokio::test(start_paused = true)]
async fn a_plain_message_cancels_open_calls_and_the_model_continues() {
    let (world, task) = waiting_for_two().await;
    let mut words = message("m2", "Never mind, just say hello.");
    words["taskId"] = task["id"].clone();
    let done = call(&world, "SendMessage", json!({"message": words})).await["task"].clone();
    assert_eq!(done["status"]["state"], "TASK_STATE_COMPLETED");
    assert_eq!(
        tool_results_sent(&world),
        [
            "Error: Cancelled: user provided new input\nNever mind, just say hello.",
            "Error: Cancelled: user provided new input"
        ]
    );
    assert_eq!(done["history"][2]["parts"][0]["text"], "Never mind, just say hello.");
}

#[tokio::test(start_paused = true)]
async fn a_follow_up_of_another_context_or_with_tools_is_refused() {
    let (world, task) = waiting().await;
    let mut words = message("m2", "x");
    words["taskId"] = task["id"].clone();
    words["contextId"] = json!("another");
    assert_eq!(fault(&rpc(&world, V1, "SendMessage", json!({"message": words})).await).0, -32602);
    words["contextId"] = task["contextId"].clone();
    let with = json!({"message": words, "metadata": {TOOLS: {"tools": [calculator()]}}});
    assert_eq!(fault(&rpc(&world, V1, "SendMessage", with).await).0, -32602);
}

#[tokio::test(start_paused = true)]
async fn results_may_come_over_the_other_edge_and_the_other_generation() {
    let (world, task) = waiting().await;
    let path = format!("/v1/queries/{}/tool-result", task["id"].as_str().unwrap());
    let given = json!({"toolCallId": calls(&task)[0]["id"], "toolResult": "2108"});
    assert_eq!(world.post(&path, &given).await.ok()["state"], "completed");
    let read = call(&world, "GetTask", json!({"id": task["id"]})).await;
    assert_eq!(read["status"]["state"], "TASK_STATE_COMPLETED");
    let (world, task) = waiting().await;
    let message = json!({
        "kind": "message", "messageId": "m2", "role": "user", "taskId": task["id"],
        "parts": [{"kind": "data", "data": {"toolResults": [{"toolCallId": calls(&task)[0]["id"], "result": "2108"}]}}],
    });
    let done = result(rpc(&world, super::V03, "message/send", json!({"message": message})).await);
    assert_eq!(done["status"]["state"], "completed");
}
