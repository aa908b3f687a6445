//! What one request may cost at most: faults, warnings and results are listed up to a number, and counted.

use std::fmt::Write as _;

use bosun_core::{Event, ceiling};
use serde_json::{Value, json};

use super::world::{HttpReply, TestServer, calculating, plain, with_calculator};

/// As many bytes as a body may have, less what encloses the list.
const NEARLY_ALL: usize = 1024 * 1024 - 512;
/// No answer to a refused body is larger.
const SMALL: usize = 256 * 1024;

/// As many as the ceiling of memory permits, spread over the whole body.
fn zeros() -> String {
    let zero = "0    ,";
    zero.repeat(NEARLY_ALL / zero.len()) + "0"
}

/// Members of an object, all of them wrong where texts are expected.
fn numbers_by_name() -> String {
    let mut text = String::new();
    for number in 0.. {
        let _ = write!(text, "\"k{number}\":0,");
        if text.len() > NEARLY_ALL {
            break;
        }
    }
    text.trim_end_matches(',').to_owned()
}

async fn post(world: &TestServer, path: &str, body: String) -> HttpReply {
    assert!(body.len() <= 1024 * 1024, "{}", body.len());
    world.send("POST", path, &[("content-type", "application/json")], body).await
}

/// Checks that at most `FAULTS_LISTED` faults are listed, and that the answer is small.
#[track_caller]
fn check_listed(answer: &HttpReply, what: &str) {
    let size = answer.body.to_string().len();
    assert!(size < SMALL, "{what}: {size} bytes");
    assert_eq!(answer.status, 422, "{what}: {}", answer.body["error"]["message"]);
    let details = answer.body["error"]["details"].as_array().map_or(0, Vec::len);
    assert!(details <= ceiling::FAULTS_LISTED, "{what}: {details}");
}

/// That the faults that are not listed are counted.
#[track_caller]
fn check_counted(answer: &HttpReply, what: &str) {
    check_listed(answer, what);
    let error = &answer.body["error"];
    assert_eq!(error["details"].as_array().map(Vec::len), Some(ceiling::FAULTS_LISTED), "{what}");
    assert_eq!(answer.body["detail"].as_array().map(Vec::len), Some(ceiling::FAULTS_LISTED), "{what}");
    let omitted = error["omitted"].as_u64().unwrap_or_default();
    assert!(omitted > 1_000, "{what}: {omitted}");
    assert!(error["message"].as_str().unwrap().contains(&omitted.to_string()), "{what}: {}", error["message"]);
}

#[tokio::test(start_paused = true)]
async fn a_body_full_of_faults_gets_a_small_answer_that_lists_some_and_counts_the_rest() {
    let world = TestServer::new(calculating()).await;
    let target = r#""input":"x","target":{"type":"agent","name":"math-assistant"}"#;
    let (zeros, members) = (zeros(), numbers_by_name());
    for (what, body) in [
        ("tools", format!("{{{target},\"tools\":[{zeros}]}}")),
        ("parameters", format!("{{{target},\"parameters\":[{zeros}]}}")),
        ("messages", format!("{{\"type\":\"messages\",\"input\":[{zeros}]}}")),
        ("labels", format!("{{{target},\"metadata\":{{\"labels\":{{{members}}}}}}}")),
        ("a selector's labels", format!("{{\"input\":\"x\",\"selector\":{{\"matchLabels\":{{{members}}}}}}}")),
    ] {
        check_counted(&post(&world, "/v1/queries", body).await, what);
    }
    for (what, path, body) in [
        (
            "required parameters of a tool",
            "/v1/queries",
            format!(
                "{{{target},\"externalTools\":[{{\"name\":\"t\",\"parameters\":{{\"type\":\"object\",\"required\":[{zeros}]}}}}]}}"
            ),
        ),
        ("external tools", "/v1/queries", format!("{{{target},\"externalTools\":[{zeros}]}}")),
        ("results", "/v1/queries/nobody/tool-result", format!("{{\"toolResults\":[{zeros}]}}")),
        (
            "parts of a message",
            "/v1/queries",
            format!("{{\"type\":\"messages\",\"input\":[{{\"role\":\"user\",\"content\":[{zeros}]}}]}}"),
        ),
        ("targets", "/v1/queries", format!("{{\"input\":\"x\",\"targets\":[{zeros}]}}")),
    ] {
        let answer = post(&world, path, body).await;
        let size = answer.body.to_string().len();
        assert!(answer.status.is_client_error() || answer.status == 501, "{what}: {}", answer.status);
        assert!(size < SMALL, "{what}: {size} bytes");
    }
    assert_eq!(world.get("/v1/queries").await.ok()["total"], 0, "nothing was created");
}

#[tokio::test(start_paused = true)]
async fn tools_that_are_not_there_are_named_up_to_a_number() {
    let world = TestServer::new(calculating()).await;
    let names: Vec<_> = (0..900).map(|number| format!("{number}-{}", "n".repeat(1_000))).collect();
    let mut body = plain("q");
    body["tools"] = json!(names);
    let answer = world.post("/v1/queries", &body).await;
    assert_eq!(answer.refusal(), (422, "tools_not_found"));
    assert!(answer.body.to_string().len() < SMALL, "{}", answer.body.to_string().len());
    let names: Vec<_> = (0..50_000).map(|number| format!("t{number}")).collect();
    body["tools"] = json!(names);
    let answer = world.post("/v1/queries", &body).await;
    check_listed(&answer, "names of tools");
}

#[tokio::test(start_paused = true)]
async fn a_long_key_is_not_repeated_with_every_fault_below_it() {
    let world = TestServer::new(calculating()).await;
    let mut body = with_calculator("q");
    let wrong: Vec<_> = (0..90).map(|number| (format!("p{number}"), json!({"type": "nothing"}))).collect();
    let inner = json!({"type": "object", "properties": wrong.into_iter().collect::<serde_json::Map<_, _>>()});
    body["externalTools"][0]["parameters"] = json!({"type": "object", "properties": {"k".repeat(60_000): inner}});
    check_listed(&world.post("/v1/queries", &body).await, "a key of 60,000 letters");
    let mut body = plain("q");
    body["metadata"] = json!({"labels": {"l".repeat(600_000): 1}});
    check_listed(&world.post("/v1/queries", &body).await, "a label of 600,000 letters");
}

#[tokio::test(start_paused = true)]
async fn warnings_are_kept_up_to_a_number_and_the_others_are_counted() {
    let world = TestServer::new(calculating()).await;
    let mut body = plain("q");
    for number in 0..60_000 {
        body[format!("unknown{number}")] = json!(1);
    }
    let answer = world.post("/v1/queries", &body).await.ok();
    let warnings = answer["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), ceiling::WARNINGS_KEPT + 1);
    let last = warnings.last().and_then(Value::as_str).unwrap();
    assert!(last.contains("59900"), "{last}");
    let journal = world.journal("q").await;
    let Event::Created { spec, .. } = &journal[0].event else { panic!("not created") };
    assert_eq!(spec.warnings.len(), ceiling::WARNINGS_KEPT + 1, "the journal has no more of them");
    // The excess of a later request is reported in addition to that of the first one.
    let read = world.get("/v1/queries/q?colour=red").await.ok();
    assert_eq!(read["warnings"].as_array().unwrap().len(), ceiling::WARNINGS_KEPT + 2);
}

#[tokio::test(start_paused = true)]
async fn one_delivery_has_a_number_of_results_at_most_and_that_is_checked_first() {
    let world = TestServer::new(calculating()).await;
    world.post("/v1/queries?wait=true", &with_calculator("q")).await.ok();
    let result = |number: usize| json!({"toolCallId": format!("call_{number:026}"), "toolResult": "x"});
    let results = |count: usize| json!({"toolResults": (0..count).map(result).collect::<Vec<_>>()});
    let before = world.get("/v1/audit").await.ok()["count"].clone();
    for name in ["q", "nobody"] {
        let path = format!("/v1/queries/{name}/tool-result");
        let refused = world.post(&path, &results(ceiling::RESULTS_DELIVERED + 1)).await;
        assert_eq!(refused.refusal(), (422, "too_many_results"), "{name}");
    }
    assert_eq!(world.get("/v1/audit").await.ok()["count"], before, "nothing was recorded");
    let taken = world.post("/v1/queries/q/tool-result", &results(ceiling::RESULTS_DELIVERED)).await;
    assert_eq!(taken.refusal(), (404, "call_not_found"), "this many are read");
}

/// Sends a label that is wrong, and says where the answer says it is.
async fn place_of_label(world: &TestServer, label: &str) -> (Value, Value) {
    let mut body = plain("q");
    body["metadata"] = json!({"labels": {label: 7}});
    let answer = world.post("/v1/queries", &body).await;
    assert_eq!(answer.status, 422);
    (answer.body["detail"][0]["loc"].clone(), answer.body["detail"][0]["input"].clone())
}

#[tokio::test(start_paused = true)]
async fn the_place_of_a_fault_has_the_keys_as_they_were_sent() {
    let world = TestServer::new(calculating()).await;
    for label in ["app.kubernetes.io/name", "a[0]", "plain", "[", "a.b[\"c\"]", "0", ""] {
        let (loc, input) = place_of_label(&world, label).await;
        assert_eq!(loc, json!(["body", "metadata", "labels", label]));
        assert_eq!(input, 7, "the value at the path: {label:?}");
    }
    let mut body = with_calculator("q");
    body["externalTools"][0]["parameters"]["properties"] =
        json!({"user.name": {"type": "nothing"}, "expression": {"type": "string"}});
    let answer = world.post("/v1/queries", &body).await;
    let place = json!(["body", "externalTools", 0, "parameters", "properties", "user.name", "type"]);
    assert_eq!(answer.body["detail"][0]["loc"], place, "{}", answer.body["error"]);
    assert_eq!(answer.body["detail"][0]["input"], "nothing");
}

#[tokio::test(start_paused = true)]
async fn the_description_of_the_api_is_made_once_and_not_sent_again_to_those_who_have_it() {
    let world = TestServer::new(calculating()).await;
    let first = world.get("/openapi.json").await;
    let tag = first.header("etag").expect("a tag").to_owned();
    assert_eq!(first.status, 200);
    assert_eq!(first.header("content-type"), Some("application/json"));
    let again = world.send("GET", "/openapi.json", &[("if-none-match", &tag)], "").await;
    assert_eq!((again.status.as_u16(), &again.body), (304, &Value::Null));
    let other = world.send("GET", "/openapi.json", &[("if-none-match", "\"other\"")], "").await;
    assert_eq!((other.status.as_u16(), other.body == first.body), (200, true));
}

#[tokio::test(start_paused = true)]
async fn a_timeout_of_a_tool_above_the_limit_is_narrowed_with_a_warning() {
    let world = TestServer::new(calculating()).await;
    let mut body = with_calculator("q");
    body["externalTools"][0]["timeout"] = json!("2h");
    let answer = world.post("/v1/queries?wait=true", &body).await.ok();
    assert_eq!(
        answer["warnings"],
        json!(["`timeout` of tool `calculator`, 2h0m0s, was narrowed to the limit of 10m0s"]),
    );
    let mut body = with_calculator("fits");
    body["externalTools"][0]["timeout"] = json!("2m");
    assert_eq!(world.post("/v1/queries?wait=true", &body).await.ok()["warnings"], json!([]));
}
