//! The calls of the ten ARK nodes for n8n, replayed request by request and read field by field.
//!
//! A node that gets another status, or does not find a field where it expects it, fails in a user's workflow; so both
//! are compared with the files of `fixtures/ark-n8n`.

use serde_json::{Value, json};

use crate::{
    resources::{api, send, world},
    support::server::Server,
};

/// In the order in which they are replayed: later ones read what earlier ones made.
const NODES: &[&str] = &[
    "ark-agent",
    "ark-team",
    "ark-agent-advanced",
    "ark-agent-tool",
    "ark-model",
    "ark-model-selector",
    "ark-memory",
    "ark-tool",
    "ark-workflow-tool",
    "ark-evaluation",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_finds_what_it_reads() {
    let world = world();
    let server = world.start().await;
    let mut faults = Vec::new();
    let (mut calls, mut fields) = (0, 0);
    for node in NODES {
        let path = format!("{}/../../fixtures/ark-n8n/{node}.json", env!("CARGO_MANIFEST_DIR"));
        let recorded: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        for call in recorded["calls"].as_array().unwrap() {
            calls += 1;
            fields += call["reads"].as_object().map_or(0, serde_json::Map::len);
            faults.extend(replay(&server, call).await.into_iter().map(|fault| format!("{node}: {fault}")));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(calls >= 40 && fields >= 70, "{calls} calls, {fields} fields");
}

#[test]
fn all_ten_nodes_are_replayed() {
    let directory = format!("{}/../../fixtures/ark-n8n", env!("CARGO_MANIFEST_DIR"));
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let found = files.filter(|path| path.extension().is_some_and(|extension| extension == "json")).count();
    assert_eq!((found, NODES.len()), (10, 10));
}

/// Sends one call, and returns what a node would miss in the answer.
pub(crate) async fn replay(server: &Server, call: &Value) -> Vec<String> {
    let request = call["request"].as_str().unwrap();
    let (method, path) = request.split_once(' ').unwrap();
    if let Some(query) = call["after"].as_str() {
        // A node sleeps and asks again; here the query is known to have ended before it is asked once.
        api(server, "GET", &format!("/v1/queries/{query}?wait=20s"), None).await;
    }
    let headers = call["headers"].as_object().into_iter().flatten();
    let headers: Vec<_> = headers.map(|(name, value)| (name.as_str(), value.as_str().unwrap())).collect();
    let answer = send(server, method, path, call.get("body"), &headers).await.expect("an answer");
    if u64::from(answer.status) != call["status"].as_u64().unwrap() {
        return vec![format!("{request}: {} {}", answer.status, answer.text)];
    }
    let mut faults = Vec::new();
    for (path, expect) in call["reads"].as_object().into_iter().flatten() {
        let found = read(&answer.body, path);
        let shown = found.clone().unwrap_or_default();
        let fits = match expect {
            Value::Object(wanted) if wanted.contains_key("present") => found.is_some(),
            Value::Object(wanted) if wanted.contains_key("type") => json!(kind_of(&shown)) == wanted["type"],
            expect => shown == *expect,
        };
        if !fits {
            faults.push(format!("{request}: `{path}` is {shown}, and {expect} is wanted"));
        }
    }
    faults
}

/// The value at the end of a path, if there is one.
fn read(body: &Value, path: &str) -> Option<Value> {
    let mut found = body;
    // A name may have points in it, but none of these has.
    for step in path.split('.') {
        found = match step.strip_prefix("?name=") {
            Some(name) => found.as_array()?.iter().find(|item| item["name"] == name)?,
            None => match step.parse::<usize>() {
                Ok(index) => found.get(index)?,
                Err(_) => found.get(step)?,
            },
        };
    }
    Some(found.clone())
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
