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
    let (mut names, mut answered, mut replayed) = (BTreeMap::new(), Value::Null, 0);
    for line in transcript.lines() {
        if let Some(sent) = line.strip_prefix("> ") {
            let sent =
                names.iter().fold(sent.to_owned(), |text, (name, value): (&String, &String)| text.replace(name, value));
            let mut body: Value = serde_json::from_str(&sent).unwrap();
            body["jsonrpc"] = json!("2.0");
            body["id"] = json!(1);
            answered = world.send("POST", MATH, V1, body.to_string()).await.ok();
        } else if let Some(expect) = line.strip_prefix("< ") {
            check(&serde_json::from_str(expect).unwrap(), &answered, &mut names);
            replayed += 1;
        }
    }
    assert_eq!(replayed, 3);
}

#[tokio::test(start_paused = true)]
async fn the_schemas_of_the_page_describe_what_is_exchanged() {
    let schemas: Vec<Schema> = blocks("json")
        .into_iter()
        .map(|text| {
            let mut schema: Value = serde_json::from_str(text).unwrap();
            schema.as_object_mut().unwrap().remove("$id");
            Schema::compile(&Arc::new(schema)).unwrap()
        })
        .collect();
    let [definitions, handed_out, results] = &schemas[..] else { panic!("three schemas") };
    let world = TestServer::new(calculating()).await;
    let asked = super::with_tools("m1");
    assert_eq!(definitions.validate(&asked["metadata"][TOOLS]), []);
    assert!(!definitions.validate(&json!({"tools": [{"name": "a b"}]})).is_empty());
    let task = super::call(&world, "SendMessage", asked).await["task"].clone();
    let data = &task["status"]["message"]["parts"][1]["data"];
    assert_eq!(handed_out.validate(data), []);
    assert!(!handed_out.validate(&json!({"toolCalls": []})).is_empty());
    let given = json!({"toolResults": [{"toolCallId": calls(&task)[0]["id"], "success": false, "error": "no"}]});
    assert_eq!(results.validate(&given), []);
    assert!(!results.validate(&json!({"toolResults": [{"result": 1}]})).is_empty());
}
