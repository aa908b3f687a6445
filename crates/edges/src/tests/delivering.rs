//! Posting results: every verdict, single and in batches, and what the model reads.

use std::time::Duration;

use bosun_core::transcript::Message;
use bosun_engine::testing::{ScriptedModel, ScriptedTurn};
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{
    streaming::Events,
    world::{HttpReply, TestServer, assert_answer, calculating, with_calculator},
};

const RESULTS: &str = "/v1/queries/q/tool-result";

/// A query that waits for one calculator call; the id of the call.
async fn paused() -> (TestServer, String) {
    let world = TestServer::new(calculating()).await;
    let waiting = world.post("/v1/queries?wait=true", &with_calculator("q")).await.ok();
    let id = waiting["toolCall"]["id"].as_str().unwrap().to_owned();
    (world, id)
}

/// A query that waits for three calls: two of the calculator, one of the clock.
async fn paused_on_three() -> (TestServer, Vec<String>) {
    let world = TestServer::new(ScriptedModel::always(vec![
        ScriptedTurn::call("calculator", &json!({"expression": "1"}))
            .and_call("calculator", r#"{"expression": "2"}"#)
            .and_call("clock", "{}"),
        ScriptedTurn::say("done"),
    ]))
    .await;
    let mut query = with_calculator("q");
    query["externalTools"].as_array_mut().unwrap().push(json!({"name": "clock"}));
    let waiting = world.post("/v1/queries?wait=true", &query).await.ok();
    let calls = waiting["toolCalls"].as_array().unwrap();
    let ids = calls.iter().map(|call| call["id"].as_str().unwrap().to_owned()).collect();
    (world, ids)
}

fn replayed(answer: &HttpReply) -> bool {
    answer.header("idempotent-replayed") == Some("true")
}

/// What the model read as the result of the last call.
fn tool_results_sent(world: &TestServer) -> Vec<String> {
    let requests = world.model.requests();
    let messages = &requests.last().unwrap().messages;
    messages
        .iter()
        .filter_map(|message| match message {
            Message::Tool { content, .. } => Some(content.clone()),
            _ => None,
        })
        .collect()
}

/// In a batch, each call has its own time and not that of the slowest.
#[tokio::test(start_paused = true)]
async fn the_time_that_the_client_measured_is_in_the_history() {
    let (world, ids) = paused_on_three().await;
    let result = |id: &str, duration: Value| json!({"toolCallId": id, "result": "1", "duration": duration});
    let wrong = json!({"toolResults": [result(&ids[0], json!("soon"))]});
    assert_eq!(world.post(RESULTS, &wrong).await.refusal(), (422, "invalid_tool_result"));
    let batch = json!({"toolResults": [result(&ids[0], json!("70ms")), result(&ids[1], json!(1.5)), result(&ids[2], json!(0))]});
    let ended = world.post(RESULTS, &batch).await.ok();
    let history = ended["toolExecutionHistory"].as_array().unwrap();
    let durations: Vec<_> = history.iter().map(|call| call["duration"].as_str().unwrap()).collect();
    assert_eq!(durations, ["70ms", "1.5s", "0s"]);
    // It is not part of the result: the same one with another time is a replay.
    let again = json!({"toolResults": [result(&ids[0], json!("9s"))]});
    assert!(replayed(&world.post(RESULTS, &again).await));
    assert_eq!(world.get("/v1/queries/q?view=rfc").await.ok()["toolExecutionHistory"][0]["duration"], "70ms");
}

#[tokio::test(start_paused = true)]
async fn the_time_of_an_uploaded_result_is_a_parameter() {
    let (world, id) = paused().await;
    let path = format!("/v1/queries/q/tool-calls/{id}/result?duration=250ms");
    let sent = world.send("PUT", &path, &[("content-type", "text/plain")], "2108".to_owned()).await.ok();
    assert_eq!(sent["toolExecutionHistory"][0]["duration"], "250ms");
}

#[tokio::test(start_paused = true)]
async fn a_tool_may_end_its_query_when_its_call_expires() {
    for (of_tool, of_query, expect) in
        [("fail", "tell", "failed"), ("tell", "fail", "completed"), ("fail", "fail", "failed")]
    {
        let world = TestServer::new(calculating()).await;
        let mut query = with_calculator("q");
        query["externalTools"][0]["onExpired"] = of_tool.into();
        query["onExpired"] = of_query.into();
        world.post("/v1/queries?wait=true", &query).await.ok();
        tokio::time::sleep(Duration::from_secs(700)).await;
        let ended = world.get("/v1/queries/q?wait=20s").await.ok();
        assert_eq!(ended["status"], expect, "{of_tool} {of_query}: {ended}");
        if expect == "failed" {
            assert_eq!(ended["error"]["code"], "call_expired");
            assert!(ended["error"]["message"].as_str().unwrap().contains("the tool has `onExpired: fail`"), "{ended}");
        }
    }
    let world = TestServer::new(calculating()).await;
    let mut query = with_calculator("q");
    query["externalTools"][0]["onExpired"] = "shout".into();
    assert_eq!(world.post("/v1/queries", &query).await.refusal(), (422, "invalid_tool_definitions"));
}

#[tokio::test(start_paused = true)]
async fn the_first_result_counts_and_the_same_again_is_a_replay() {
    let (world, id) = paused().await;
    let result = json!({"toolCallId": id, "toolResult": "2108"});
    let first = world.post(RESULTS, &result).await;
    assert!(!replayed(&first));
    assert_eq!(first.ok()["status"], "completed");
    for again in [result, json!({"toolName": "calculator", "toolResult": "2108"})] {
        let again = world.post(RESULTS, &again).await;
        assert!(replayed(&again));
        assert_eq!(again.ok()["response"], "25% of 8,432 is 2,108");
    }
    let other = world.post(RESULTS, &json!({"toolCallId": id, "toolResult": "2109"})).await;
    assert_eq!(other.refusal(), (409, "already_resolved"));
    assert_answer("already_resolved", &other.body);
    assert_eq!(tool_results_sent(&world), ["2108"]);
}

#[tokio::test(start_paused = true)]
async fn of_simultaneous_posts_exactly_one_is_new() {
    let (world, id) = paused().await;
    let result = json!({"toolCallId": id, "toolResult": "2108"});
    let answers = join_all((0..8).map(|_| world.post(RESULTS, &result))).await;
    assert!(answers.iter().all(|answer| answer.status == 200));
    assert_eq!(answers.iter().filter(|answer| !replayed(answer)).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_late_result_is_refused_and_never_shown_to_the_model() {
    let (world, id) = paused().await;
    tokio::time::advance(Duration::from_secs(601)).await;
    let late = world.post(RESULTS, &json!({"toolCallId": id, "toolResult": "2108"})).await;
    assert_eq!(late.refusal(), (410, "call_expired"));
    let query = world.get("/v1/queries/q?wait=true").await.ok();
    assert_eq!(query["status"], "completed");
    assert_eq!(query["toolExecutionHistory"][0]["error"]["code"], "call_expired");
    assert_eq!(
        tool_results_sent(&world),
        ["Error: External tool execution timeout: no result for `calculator` in time"]
    );
    let again = world.post(RESULTS, &json!({"toolCallId": id, "toolResult": "2108"})).await;
    assert_eq!(again.refusal(), (410, "call_expired"));
}

#[tokio::test(start_paused = true)]
async fn a_result_for_an_ended_query_is_refused() {
    let (world, id) = paused().await;
    world.send("PATCH", "/v1/queries/q/cancel", &[], "").await.ok();
    let refused = world.post(RESULTS, &json!({"toolCallId": id, "toolResult": "2108"})).await;
    assert_eq!(refused.refusal(), (410, "call_cancelled"));
}

#[tokio::test(start_paused = true)]
async fn unknown_calls_are_not_found() {
    let (world, id) = paused().await;
    let other = TestServer::new(calculating()).await;
    let foreign = other.post("/v1/queries?wait=true", &with_calculator("q")).await.ok()["toolCall"]["id"].clone();
    for unknown in [foreign, json!("call_1"), json!("toolu_01"), json!(""), json!(format!("{id}x"))] {
        let answer = world.post(RESULTS, &json!({"toolCallId": unknown, "toolResult": "2108"})).await;
        assert_eq!(answer.refusal(), (404, "call_not_found"), "{unknown}");
    }
    assert_eq!(world.get("/v1/queries/q").await.ok()["toolCall"]["id"], id, "it still waits");
}

#[tokio::test(start_paused = true)]
async fn inside_calls_cannot_be_answered_by_clients() {
    let script = ScriptedModel::always(vec![
        ScriptedTurn::call("database_query", &json!({"table": "t"})).and_call("mine", "{}"),
        ScriptedTurn::say("done"),
    ]);
    let world = TestServer::new(script).await;
    let query = json!({
        "name": "q", "input": "x", "target": {"type": "agent", "name": "research-assistant"},
        "externalTools": [{"name": "mine"}],
    });
    world.post("/v1/queries?wait=true", &query).await.ok();
    let inside = world.ledger.runs()[0].call.to_string();
    let refused = world.post(RESULTS, &json!({"toolCallId": inside, "toolResult": "fake"})).await;
    assert_eq!(refused.refusal(), (404, "call_not_found"));
    let by_name = world.post(RESULTS, &json!({"toolName": "database_query", "toolResult": "fake"})).await;
    assert_eq!(by_name.refusal(), (409, "call_not_waiting"));
}

#[tokio::test(start_paused = true)]
async fn a_name_must_mean_one_waiting_call() {
    let (world, ids) = paused_on_three().await;
    let ambiguous = world.post(RESULTS, &json!({"toolName": "calculator", "toolResult": "1"})).await;
    assert_eq!(ambiguous.refusal(), (409, "ambiguous_call"));
    let nothing = world.post(RESULTS, &json!({"toolName": "weather", "toolResult": "1"})).await;
    assert_eq!(nothing.refusal(), (409, "call_not_waiting"));
    world.post(RESULTS, &json!({"toolCallId": ids[0], "toolResult": "1"})).await.ok();
    let next = world.post(RESULTS, &json!({"toolName": "calculator", "toolResult": "2"})).await.ok();
    assert_eq!(next["toolCalls"].as_array().unwrap().len(), 1);
    let repeated = world.post(RESULTS, &json!({"toolName": "calculator", "toolResult": "2"})).await;
    assert!(replayed(&repeated));
}

#[tokio::test(start_paused = true)]
async fn a_bad_post_consumes_nothing() {
    let (world, id) = paused().await;
    for body in [
        json!({}),
        json!({"toolCallId": id}),
        json!({"toolResult": "2108"}),
        json!({"toolCallId": 7, "toolResult": "2108"}),
        json!({"toolCallId": id, "toolResult": "2108", "success": "yes"}),
        json!({"toolCallId": id, "toolResult": "2108", "success": true, "error": "no"}),
        json!({"toolCallId": id, "toolResult": "2108", "result": "2108"}),
        json!({"toolCallId": id, "error": 5}),
        json!({"toolCallId": id, "error": {"code": "x"}}),
        json!({"toolCallId": id, "toolResult": "2108", "continueExecution": "no"}),
        json!({"toolCallId": id, "toolResult": "2108", "wait": "soon"}),
        json!({"toolResults": []}),
        json!({"toolResults": {}}),
        json!({"toolResults": [{"toolCallId": id, "result": "2108"}], "toolCallId": id}),
        json!({"toolResults": [{"toolCallId": id, "result": "2108"}, {"toolCallId": id}]}),
        json!({"toolResults": [{"toolCallId": id, "result": "2108"}, 5]}),
    ] {
        let answer = world.post(RESULTS, &body).await;
        assert_eq!(answer.refusal(), (422, "invalid_tool_result"), "{body}");
    }
    assert_eq!(world.get("/v1/queries/q").await.ok()["state"], "waiting");
    let good = world.post(RESULTS, &json!({"toolCallId": id, "toolResult": "2108"})).await;
    assert_eq!(good.ok()["status"], "completed");
}

/// What the model reads when this is posted next to the id.
async fn read_by_model(fields: Value) -> String {
    let (world, id) = paused().await;
    let mut body = fields;
    body["toolCallId"] = json!(id);
    world.post(RESULTS, &body).await.ok();
    tool_results_sent(&world).remove(0)
}

#[tokio::test(start_paused = true)]
async fn a_result_is_any_json_and_a_failure_is_an_error_to_the_model() {
    for (fields, expect) in [
        (json!({"toolResult": "text"}), "text"),
        (json!({"result": "text"}), "text"),
        (json!({"toolResult": {"a": [1, null]}}), r#"{"a":[1,null]}"#),
        (json!({"toolResult": 2108}), "2108"),
        (json!({"toolResult": null}), "null"),
        (json!({"toolResult": ""}), ""),
        (json!({"toolResult": "Error: out of paper"}), "Error: out of paper"),
        (json!({"toolResult": "x", "success": true, "error": null}), "x"),
        (json!({"toolResult": "x", "success": true, "error": ""}), "x"),
        (json!({"error": "out of paper"}), "Error: out of paper"),
        (json!({"error": {"code": "paper", "message": "out of paper"}}), "Error: out of paper"),
        (json!({"success": false, "error": "out of paper"}), "Error: out of paper"),
        (json!({"success": false}), "Error: the tool failed without saying why"),
        (json!({"success": false, "toolResult": "page 1"}), "Error: the tool failed without saying why\npage 1"),
    ] {
        assert_eq!(read_by_model(fields.clone()).await, expect, "{fields}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_partial_delivery_answers_at_once_with_what_is_open() {
    let (world, ids) = paused_on_three().await;
    let before = tokio::time::Instant::now();
    let next = world.post(RESULTS, &json!({"toolCallId": ids[1], "toolResult": "2"})).await.ok();
    assert!(before.elapsed().is_zero());
    let open: Vec<_> = next["toolCalls"].as_array().unwrap().iter().map(|call| call["id"].as_str().unwrap()).collect();
    assert_eq!(open, [&ids[0], &ids[2]]);
    assert_eq!(next["toolCall"]["id"], ids[0]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_recorded_whole_and_read_in_the_models_order() {
    let (world, ids) = paused_on_three().await;
    let batch = json!({"toolResults": [
        {"toolCallId": ids[2], "toolName": "clock", "success": true, "result": "noon"},
        {"toolCallId": ids[1], "toolName": "calculator", "success": false, "error": "two"},
        {"toolCallId": ids[0], "toolName": "clock", "toolResult": 1},
    ]});
    let answer = world.post(RESULTS, &batch).await;
    assert!(!replayed(&answer));
    assert_answer("batch", &answer.ok());
    assert_eq!(tool_results_sent(&world), ["1", "Error: two", "noon"]);
    let again = world.post(RESULTS, &batch).await;
    assert!(replayed(&again));
    let statuses: Vec<_> = again.body["results"].as_array().unwrap().iter().map(|result| &result["status"]).collect();
    assert_eq!(statuses, ["replayed", "replayed", "replayed"]);
}

#[tokio::test(start_paused = true)]
async fn one_bad_result_in_a_batch_does_not_reject_the_good_ones() {
    let (world, ids) = paused_on_three().await;
    world.post(RESULTS, &json!({"toolCallId": ids[0], "toolResult": "1"})).await.ok();
    let batch = json!({"toolResults": [
        {"toolCallId": ids[0], "result": "other"},
        {"toolCallId": "call_1", "result": "x"},
        {"toolName": "weather", "result": "x"},
        {"toolCallId": ids[0], "result": "1"},
        {"toolCallId": ids[1], "result": "2"},
    ]});
    let answer = world.post(RESULTS, &batch).await;
    let results = answer.ok()["results"].take();
    let statuses: Vec<_> = results.as_array().unwrap().iter().map(|result| &result["status"]).collect();
    assert_eq!(statuses, ["conflict", "unknown", "not_waiting", "replayed", "accepted"]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_which_nothing_counts_has_the_code_of_its_first_fault() {
    let (world, ids) = paused_on_three().await;
    let batch = json!({"toolResults": [
        {"toolName": "calculator", "result": "x"},
        {"toolCallId": "call_1", "toolName": "x", "result": "x"},
    ]});
    let answer = world.post(RESULTS, &batch).await;
    assert_eq!(answer.refusal(), (409, "ambiguous_call"));
    assert_answer("batch_refused", &answer.body);
    tokio::time::advance(Duration::from_secs(601)).await;
    let late = world.post(RESULTS, &json!({"toolResults": [{"toolCallId": ids[0], "result": "1"}]})).await;
    assert_eq!(late.refusal(), (410, "call_expired"));
}

#[tokio::test(start_paused = true)]
async fn a_held_query_continues_on_request() {
    let (world, id) = paused().await;
    let held = json!({"toolCallId": id, "toolResult": "2108", "continueExecution": false});
    let answer = world.post(RESULTS, &held).await.ok();
    assert_answer("held", &answer);
    assert_eq!(world.get("/v1/queries/q?view=ark").await.ok()["status"]["phase"], "input-required");
    let next = world.send("POST", "/v1/queries/q/continue", &[], "").await.ok();
    assert_eq!((&next["status"], &next["response"]), (&json!("completed"), &json!("25% of 8,432 is 2,108")));
    let again = world.send("POST", "/v1/queries/q/continue", &[], "").await;
    assert_eq!(again.refusal(), (409, "query_not_held"));
}

#[tokio::test(start_paused = true)]
async fn a_held_query_that_is_not_continued_fails() {
    let (world, id) = paused().await;
    world.post(RESULTS, &json!({"toolCallId": id, "toolResult": "1", "continueExecution": false})).await.ok();
    tokio::time::sleep(Duration::from_secs(602)).await;
    let query = world.get("/v1/queries/q").await.ok();
    assert_eq!((&query["status"], &query["error"]["code"]), (&json!("failed"), &json!("hold_expired")));
}

#[tokio::test(start_paused = true)]
async fn the_answer_waits_for_the_agents_next_action_by_default() {
    let script = || {
        ScriptedModel::always(vec![
            ScriptedTurn::call("calculator", &json!({"expression": "1"})),
            ScriptedTurn::default().hanging(),
        ])
    };
    for (path, body_wait, seconds) in [
        (RESULTS.to_owned(), json!(null), 25),
        (format!("{RESULTS}?wait=0"), json!(null), 0),
        (format!("{RESULTS}?wait=2s"), json!(true), 2),
        (RESULTS.to_owned(), json!(false), 0),
    ] {
        let world = TestServer::new(script()).await;
        world.post("/v1/queries?wait=true", &with_calculator("q")).await.ok();
        let before = tokio::time::Instant::now();
        let answer =
            world.post(&path, &json!({"toolName": "calculator", "toolResult": "1", "wait": body_wait})).await.ok();
        assert_eq!((&answer["state"], before.elapsed().as_secs()), (&json!("running"), seconds), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn harmless_mistakes_of_a_client_get_a_warning() {
    let (world, id) = paused().await;
    let body = json!({"toolCallId": id, "toolName": "clock", "toolResult": "2108", "colour": "red"});
    let warnings = world.post(RESULTS, &body).await.ok()["warnings"].take();
    assert_eq!(
        warnings,
        json!([
            "unknown field `colour` was ignored",
            format!("`toolName` is `clock`, but call `{id}` is one of `calculator`; the id counts"),
        ])
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_away_leaves_its_result_behind() {
    let (world, id) = paused().await;
    let body = json!({"toolCallId": id, "toolResult": "2108"});
    {
        let posting = std::pin::pin!(world.post(RESULTS, &body));
        // The handler has begun, and the connection breaks.
        assert!(futures_util::poll!(posting).is_pending());
    }
    let events = Events::of(&world, "q", None).await.rest().await;
    let names: Vec<_> = events.iter().map(|event| event.event.as_str()).collect();
    assert_eq!(names, ["agent_thinking", "tool_call", "tool_result_received", "agent_response", "complete"]);
}
