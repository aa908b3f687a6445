//! `docs/a2a-client-tools.md` is what is served: its transcript is replayed, and its schemas describe what was sent.

use std::{collections::BTreeMap, sync::Arc};

use bosun_core::schema::Schema;
use serde_json::{Value, json};

use super::{MATH, TOOLS, V1, calls};
use crate::tests::world::{TestServer, calculating};

const PAGE: &str = include_str!("../../../../../docs/a2a-client-tools.md");

/// The blocks of the page in one language.
fn blocks(language: &str) -> Vec<&'static str> {
    let parts: Vec<_> = PAGE.split("\n```").collect();
    parts.iter().filter_map(|part| part.strip_prefix(language)?.strip_prefix('\n')).collect()
}

/// Checks that `found` has all that `expect` says; `$NAMES` take the value that is there.
#[track_caller]
fn check(expect: &Value, found: &Value, names: &mut BTreeMap<String, String>) {
    match (expect, found) {
        (Value::String(name), Value::String(text)) if name.starts_with('$') => {
            let known = names.entry(name.clone()).or_insert_with(|| text.clone());
            assert_eq!(known, text, "{name}");
        }
        (Value::Object(members), Value::Object(_)) => {
            for (key, value) in members {
                assert!(found.get(key).is_some(), "{key} is missing in {found}");
                check(value, &found[key], names);
            }
        }
        (Value::Array(items), Value::Array(there)) => {
            assert_eq!(items.len(), there.len(), "{found}");
            items.iter().zip(there).for_each(|(expect, found)| check(expect, found, names));
        }
        _ => assert_eq!(expect, found),
    }
}

#[tokio::test(start_paused = true)]
async fn the_transcript_of_the_page_runs_as_printed() {
    let world = TestServer::new(calculating()).await;
    let [transcript] = blocks("transcript")[..] else { panic!("one transcript") };
    let (mut names, mut answered, mut replayed) = (BTreeMap::new(), None, 0);
    let mut headers = V1.to_vec();
    for line in transcript.lines() {
        let (direction, rest) = line.split_once(' ').unwrap();
        match (direction, rest.split_once(": ").filter(|(name, _)| !name.starts_with('{'))) {
            (">", Some(header)) => headers.push(header),
            (">", None) => {
                let sent = names
                    .iter()
                    .fold(rest.to_owned(), |text, (name, value): (&String, &String)| text.replace(name, value));
                let mut body: Value = serde_json::from_str(&sent).unwrap();
                body["jsonrpc"] = json!("2.0");
                body["id"] = json!(1);
                answered = Some(world.send("POST", MATH, &headers, body.to_string()).await);
                headers = V1.to_vec();
            }
            (_, Some((name, value))) => assert_eq!(answered.as_ref().unwrap().header(name), Some(value), "{rest}"),
            (_, None) => {
                let reply = answered.as_ref().unwrap();
                assert_eq!(reply.status, 200, "{}", reply.body);
                check(&serde_json::from_str(rest).unwrap(), &reply.body, &mut names);
                replayed += 1;
            }
        }
    }
    assert_eq!(replayed, 3);
}

/// The schemas of the page: of definitions, of calls and of results.
fn schemas() -> Vec<Schema> {
    let compile = |text: &str| {
        let mut schema: Value = serde_json::from_str(text).unwrap();
        schema.as_object_mut().unwrap().remove("$id");
        Schema::compile(&Arc::new(schema)).unwrap()
    };
    blocks("json").into_iter().map(compile).collect()
}

#[tokio::test(start_paused = true)]
async fn the_schemas_of_the_page_describe_what_is_exchanged() {
    let [definitions, handed_out, results] = &schemas()[..] else { panic!("three schemas") };
    let world = TestServer::new(calculating()).await;
    let asked = super::with_tools("m1");
    assert_eq!(definitions.validate(&asked["metadata"][TOOLS]), []);
    assert!(!definitions.validate(&json!({"tools": [{"name": "a b"}]})).is_empty());
    let task = super::call(&world, "SendMessage", asked).await["task"].clone();
    let data = &task["status"]["message"]["parts"][1]["data"];
    assert_eq!(handed_out.validate(data), []);
    assert!(!handed_out.validate(&json!({"toolCalls": []})).is_empty());
    assert!(!results.validate(&json!({"toolResults": []})).is_empty());
    assert_eq!(results.validate(&json!({"toolResults": [{"toolCallId": calls(&task)[0]["id"], "result": 1}]})), []);
}

/// What the schema of results allows is taken, and what it forbids is refused.
#[tokio::test(start_paused = true)]
async fn the_schema_of_results_says_what_is_taken() {
    let [_, _, results] = &schemas()[..] else { panic!("three schemas") };
    for (number, (result, is_valid)) in [
        (json!({"result": "2108"}), true),
        (json!({"result": null}), true),
        (json!({"toolName": "calculator", "success": true, "result": {"n": 1}}), true),
        (json!({"success": true}), true),
        (json!({"error": "no"}), true),
        (json!({"success": false}), true),
        (json!({"success": false, "error": "no", "result": {"partial": 1}}), true),
        (json!({}), false),
        (json!({"toolName": "calculator"}), false),
        (json!({"error": ""}), false),
        (json!({"success": true, "error": "no"}), false),
        (json!({"success": true, "result": 1, "error": "no"}), false),
        (json!({"success": "yes", "result": 1}), false),
        (json!({"success": "yes"}), false),
        (json!({"result": 1, "toolName": 5}), false),
        (json!({"error": 5}), false),
        (json!({"toolCallId": null, "result": 1}), false),
        (json!("2108"), false),
    ]
    .into_iter()
    .enumerate()
    {
        let world = TestServer::new(calculating()).await;
        let task = super::call(&world, "SendMessage", super::with_tools("m1")).await["task"].clone();
        let mut result = result;
        if let Some(members) = result.as_object_mut() {
            members.entry("toolCallId").or_insert_with(|| calls(&task)[0]["id"].clone());
        }
        let given = json!({"toolResults": [result]});
        assert_eq!(results.validate(&given).is_empty(), is_valid, "{number}: {given}");
        let sent =
            super::rpc(&world, V1, "SendMessage", super::results("m2", &task, given["toolResults"].clone())).await;
        if is_valid {
            assert_eq!(
                sent.body["result"]["task"]["status"]["state"], "TASK_STATE_COMPLETED",
                "{number}: {}",
                sent.body
            );
            continue;
        }
        assert_eq!(super::fault(&sent).0, -32602, "{number}: {given}");
        // The refusal names members of the page.
        let violations = sent.body["error"]["data"].as_array().unwrap().last().unwrap()["fieldViolations"].clone();
        for violation in violations.as_array().unwrap() {
            let field = violation["field"].as_str().unwrap().rsplit('.').next().unwrap();
            let names = ["toolResults[0]", "toolCallId", "toolName", "success", "result", "error"];
            assert!(names.contains(&field), "{number}: {}", sent.body);
        }
    }
}
