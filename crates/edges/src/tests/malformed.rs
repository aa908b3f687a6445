//! Requests that are refused, each with its status and code.
//!
//! Most of them are rows of `fixtures/ark/malformed.json`; what cannot be written down there, bodies that
//! are endless, silent or not text, is here. Whatever was sent, nothing was created and nothing changed.

use axum::body::Body;
use futures_util::stream;
use serde::Deserialize;
use serde_json::{Value, json};

use super::world::{TestServer, calculating, fixture, plain, with_calculator};

type HeaderPairs = &'static [(&'static str, &'static str)];

const JSON: HeaderPairs = &[("content-type", "application/json")];
const QUERIES: &str = "/v1/queries";
const RESULTS: &str = "/v1/queries/q/tool-result";
/// The rest of a body that is valid except for what is put in front of it.
const GOOD: &str = r#""input":"x","target":{"type":"agent","name":"math-assistant"}}"#;

/// Requests that are refused alike: each of `requests` with each of `headers` and of `bodies`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RowGroup {
    what: String,
    status: u16,
    code: String,
    /// `METHOD target`
    requests: Vec<String>,
    /// Without any, a body says that it is JSON.
    #[serde(default)]
    headers: Vec<serde_json::Map<String, Value>>,
    #[serde(default)]
    bodies: Vec<String>,
    /// The faulty part of a body that is otherwise valid.
    #[serde(default)]
    fields: Vec<String>,
}

/// One request that is refused.
struct MalformedRow {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: String,
}

impl RowGroup {
    fn rows(&self) -> Vec<MalformedRow> {
        let mut bodies = self.bodies.clone();
        bodies.extend(self.fields.iter().map(|fields| format!("{{{fields},{GOOD}")));
        let has_body = !bodies.is_empty();
        if !has_body {
            bodies.push(String::new());
        }
        let mut headers: Vec<Vec<(String, String)>> = self.headers.iter().map(to_headers).collect();
        if headers.is_empty() {
            headers.push(if has_body { vec![("content-type".into(), "application/json".into())] } else { Vec::new() });
        }
        let mut rows = Vec::new();
        for request in &self.requests {
            let (method, path) = request.split_once(' ').expect("a method and a target");
            for headers in &headers {
                rows.extend(bodies.iter().map(|body| MalformedRow {
                    method: method.into(),
                    path: path.into(),
                    headers: headers.clone(),
                    body: body.clone(),
                }));
            }
        }
        rows
    }
}

fn to_headers(headers: &serde_json::Map<String, Value>) -> Vec<(String, String)> {
    headers.iter().map(|(name, value)| (name.clone(), value.as_str().expect("a text").to_owned())).collect()
}

/// A query that waits, one that is done and one that was cancelled, and what rows call their parts.
async fn world() -> (TestServer, Vec<(&'static str, String)>) {
    let world = TestServer::new(calculating()).await;
    let mut parts = Vec::new();
    for (name, call) in [("q", "{call}"), ("done", "{done call}"), ("cancelled", "{cancelled call}")] {
        let query = world.post("/v1/queries?wait=true", &with_calculator(name)).await.ok();
        parts.push((call, query["toolCalls"][0]["id"].as_str().expect("a call").to_owned()));
        if name == "q" {
            parts.push(("{uid}", query["uid"].as_str().expect("an id").to_owned()));
        }
    }
    let body = json!({"toolName": "calculator", "toolResult": "2108"});
    assert_eq!(world.post("/v1/queries/done/tool-result", &body).await.ok()["state"], "completed");
    assert_eq!(world.post("/v1/queries/cancelled/cancel", &json!({})).await.ok()["state"], "cancelled");
    (world, parts)
}

/// Whether ARK's `detail` says what `error` says: the sentence, or all faults of a body with their places.
fn is_consistent(body: &Value) -> bool {
    let (detail, error) = (&body["detail"], &body["error"]);
    let Some(listed) = detail.as_array() else { return detail.is_string() && *detail == error["message"] };
    // Where a text is not JSON, there is a line and a column, and no field.
    let of_fields = |details: &&Vec<Value>| details.iter().all(|fault| fault["path"].is_string());
    let faults = error["details"].as_array().filter(of_fields).map(Vec::as_slice).unwrap_or_default();
    let matches_fault = |(shown, fault): (&Value, &Value)| {
        shown["msg"] == fault["message"] && shown["type"] == fault["code"] && shown["loc"][0] == "body"
    };
    if body.get("body").is_none() || listed.iter().any(|shown| shown.get("input").is_none()) {
        return false;
    }
    if faults.is_empty() {
        return listed.len() == 1 && listed[0]["msg"] == error["message"];
    }
    listed.len() == faults.len() && listed.iter().zip(faults).all(matches_fault)
}

#[tokio::test(start_paused = true)]
async fn every_row_is_refused_with_its_status_and_code_and_changes_nothing() {
    let (world, parts) = world().await;
    let fill = |text: &str| parts.iter().fold(text.to_owned(), |text, (part, value)| text.replace(part, value));
    let groups: Vec<RowGroup> = serde_json::from_value(fixture("malformed")).expect("groups");
    let before = [world.journal("q").await, world.journal("done").await, world.journal("cancelled").await];
    let (mut sent, mut faults) = (0, Vec::new());
    for group in &groups {
        for row in group.rows() {
            sent += 1;
            let headers: Vec<_> = row.headers.iter().map(|(name, value)| (name.clone(), fill(value))).collect();
            let headers: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let answer = world.send(&row.method, &fill(&row.path), &headers, fill(&row.body)).await;
            let expected = (group.status, group.code.as_str());
            let same = is_consistent(&answer.body);
            if answer.refusal() != expected || !same {
                let body: String = row.body.chars().take(120).collect();
                faults.push(format!(
                    "{}: {} {} {headers:?} {body}\n    is {:?} and not {expected:?}: {}",
                    group.what,
                    row.method,
                    row.path,
                    answer.refusal(),
                    answer.body
                ));
            }
        }
    }
    assert!(faults.is_empty(), "{} of {sent}:\n{}", faults.len(), faults.join("\n"));
    assert!(sent >= 300, "only {sent} requests are too few");
    assert_eq!(world.get(QUERIES).await.ok()["total"], 3, "nothing was created");
    let after = [world.journal("q").await, world.journal("done").await, world.journal("cancelled").await];
    assert_eq!(before, after, "nothing was changed");
    let delivered = world.post(RESULTS, &json!({"toolName": "calculator", "toolResult": "2108"})).await.ok();
    assert_eq!(delivered["state"], "completed", "the call still waits for a good one");
}

#[tokio::test(start_paused = true)]
async fn a_method_that_is_not_allowed_gets_the_list_of_those_that_are() {
    let (world, _) = world().await;
    let answer = world.send("DELETE", QUERIES, &[], "").await;
    assert_eq!(answer.header("allow"), Some("GET,HEAD,POST"));
}

#[tokio::test(start_paused = true)]
async fn media_types_that_are_accepted() {
    let (world, _) = world().await;
    for headers in [
        JSON,
        &[("content-type", "Application/JSON; charset=UTF-8")] as HeaderPairs,
        &[("content-type", "application/json;charset=\"utf-8\"")],
        &[("content-type", "application/x-www-form-urlencoded")],
        &[("content-type", "application/json"), ("origin", "http://localhost:8080")],
        &[("content-type", "application/json"), ("content-encoding", "identity")],
    ] {
        let mut body = plain("m");
        body.as_object_mut().unwrap().remove("name");
        assert_eq!(world.send("POST", QUERIES, headers, body.to_string()).await.status, 200, "{headers:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn bodies_that_are_not_text_break_off_are_too_large_or_too_slow() {
    let (world, _) = world().await;
    let check = async |path: &str, body: Body, expect: (u16, &str)| {
        let answer = world.send("POST", path, JSON, body).await;
        assert_eq!(answer.refusal(), expect, "{path}: {}", answer.body);
    };
    check(QUERIES, vec![b'{', b'"', 0xff, b'"', b':', b'1', b'}'].into(), (400, "invalid_json")).await;
    let broken: Vec<Result<&str, std::io::Error>> = vec![Ok("{"), Err(std::io::ErrorKind::BrokenPipe.into())];
    check(QUERIES, Body::from_stream(stream::iter(broken)), (400, "invalid_json")).await;
    check(QUERIES, format!("{{\"x\":{},{GOOD}", "[".repeat(100_000)).into(), (422, "json_too_deep")).await;
    let large = format!("{{\"x\":\"{}\",{GOOD}", "x".repeat(1024 * 1024));
    for path in [QUERIES, RESULTS, "/v1/queries/q/cancel", "/v1/queries/q/continue"] {
        check(path, large.clone().into(), (413, "payload_too_large")).await;
    }
    let endless = stream::repeat_with(|| Ok::<_, std::io::Error>(vec![b' '; 64 * 1024]));
    check(QUERIES, Body::from_stream(endless), (413, "payload_too_large")).await;
    let silent = stream::pending::<Result<&str, std::io::Error>>();
    check(QUERIES, Body::from_stream(silent), (408, "request_timeout")).await;
    let full = format!("{{\"toolName\":\"calculator\",\"toolResult\":\"{}\"}}", "x".repeat(1024 * 1024 - 41));
    assert_eq!(full.len(), 1024 * 1024);
    assert_eq!(world.send("POST", RESULTS, JSON, full).await.status, 200, "the limit itself is accepted");
}
