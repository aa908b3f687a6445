use std::sync::Arc;

use bosun_core::{CallId, Namespace, Outcome, QueryUid, Timestamp, schema::Schema};
use bosun_engine::{Clock, Runner, runner::InsideCall};
use serde_json::{Value, json};

use super::Builtins;

struct At(Timestamp);

impl Clock for At {
    fn now(&self) -> Timestamp {
        self.0
    }
}

fn builtins() -> Builtins {
    Builtins::new(Arc::new(At(Timestamp(0))))
}

fn call(builtins: &Builtins, tool: &str, index: u32, attempt: u32, arguments: Value) -> InsideCall {
    InsideCall {
        namespace: Namespace::default(),
        id: CallId::derive(QueryUid::new(0, [0; 10]), 1, index),
        tool: builtins.tool(tool).unwrap(),
        arguments,
        attempt,
    }
}

#[tokio::test]
async fn every_builtin_runs_under_its_own_name() {
    let builtins = builtins();
    let run = async |tool, arguments| builtins.run(&call(&builtins, tool, 0, 1, arguments)).await;
    assert_eq!(run("calculator", json!({"expression": "1+1"})).await, Outcome::success("2"));
    assert_eq!(run("current_time", json!({})).await, Outcome::success("1970-01-01T00:00:00.000Z"));
    assert_eq!(run("noop", json!({"a": [1]})).await, Outcome::success(json!({"a": [1]})));
}

#[tokio::test]
async fn a_tool_that_this_server_does_not_have_is_a_failure_that_the_model_reads() {
    let directory = tempfile::tempdir().unwrap();
    let with_ledger = builtins().with_ledger(&directory.path().join("ledger")).unwrap();
    let outcome = builtins().run(&call(&with_ledger, "ledger", 0, 1, json!({}))).await;
    assert_eq!(outcome, Outcome::failure("tool_failed", "this server has no builtin tool `ledger`"));
}

#[test]
fn definitions_are_sound_and_tell_the_truth_about_effects() {
    let directory = tempfile::tempdir().unwrap();
    let builtins = builtins().with_ledger(&directory.path().join("ledger")).unwrap();
    for tool in builtins.tools() {
        Schema::compile(&tool.parameters).unwrap();
    }
    let repeatable: Vec<_> =
        builtins.tools().iter().map(|tool| (tool.name.clone(), tool.is_safe_to_repeat())).collect();
    let expect =
        [("calculator", true), ("current_time", true), ("noop", true), ("ledger", false), ("ledger_idempotent", true)];
    assert_eq!(repeatable, expect.map(|(name, repeatable)| (name.to_owned(), repeatable)));
}

#[test]
fn the_ledger_is_there_only_if_the_server_was_started_with_one() {
    assert!(builtins().tool("ledger").is_none());
    assert!(builtins().with_ledger(std::path::Path::new("/nonexistent/ledger")).is_err());
}

#[tokio::test]
async fn the_ledger_has_one_line_for_each_run() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ledger");
    let first = builtins().with_ledger(&file).unwrap();
    first.run(&call(&first, "ledger", 0, 1, json!({"entry": "a\nb"}))).await;
    // A later process goes on where the first one stopped.
    let second = builtins().with_ledger(&file).unwrap();
    assert!(second.run(&call(&second, "ledger_idempotent", 1, 2, json!({}))).await.is_success());
    let lines: Vec<Value> =
        std::fs::read_to_string(&file).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let id = |index| call(&first, "ledger", index, 1, json!({})).id;
    assert_eq!(
        lines,
        [
            json!({"call": id(0), "tool": "ledger", "attempt": 1, "arguments": {"entry": "a\nb"}}),
            json!({"call": id(1), "tool": "ledger_idempotent", "attempt": 2, "arguments": {}}),
        ]
    );
}
