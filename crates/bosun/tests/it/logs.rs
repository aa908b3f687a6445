//! The log of a query, line by line: as text for people and as JSON for machines.
//!
//! Each line has the name of its query, and each that concerns a call its id; ids and times are normalized, the rest is
//! verbatim.

use serde_json::{Value, json};

use crate::support::{
    client::{Client, result},
    scenarios::{self, Scenario},
    server::{ProcessExit, World},
    soon,
};

/// One query with an inside tool, one with an outside tool that fails, and one that fails itself.
async fn log_of_a_query(format: &str) -> String {
    let mut world = World::new().with(&["--log", format]);
    world.set("RUST_LOG", "bosun_engine=debug");
    world.set("NO_COLOR", "1");
    let mut server = world.start().await;
    let client = Client::of(&server.base);
    let inside = client.post("?wait=20s", &scenarios::query("with-inside", Scenario::Once)).await;
    assert_eq!(inside.state(), "completed", "{inside:?}");
    let outside = client.post("?wait=20s", &scenarios::query("with-outside", Scenario::Quick)).await;
    let (call, _) = &outside.waiting_calls()[0];
    let mut failed = result(call, "");
    failed["success"] = false.into();
    failed["error"] = "the secret reason".into();
    client.post("/with-outside/tool-result", &failed).await;
    let mut unknown = scenarios::query("failing", Scenario::Text);
    unknown["input"] = "a secret without a scenario".into();
    let failing = client.post("?wait=20s", &unknown).await;
    assert_eq!(failing.state(), "failed", "{failing:?}");
    server.terminate();
    assert_eq!(soon("the end", server.exit()).await, ProcessExit::Exited(0));
    let log = std::fs::read_to_string(world.log()).expect("a log");
    assert!(!log.contains("secret"), "no content is logged: {log}");
    log
}

fn assert_log(name: &str, log: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]+Z", "[time]");
    settings.add_filter(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", "[uid]");
    settings.add_filter(r"call_[0-9a-z]{26}", "[call]");
    settings.add_filter(r"[0-9a-f]{8}-[0-9]+", "[request]");
    settings.add_filter(r#"took("?[=:]"?)[0-9.]+[mµn]?s"#, "took$1[duration]");
    settings.set_omit_expression(true);
    settings.set_prepend_module_to_snapshot(false);
    settings.bind(|| insta::assert_snapshot!(name, log));
}

const QUERIES: [&str; 3] = ["with-inside", "with-outside", "failing"];

#[tokio::test]
async fn the_text_of_a_log_has_query_and_call_on_each_line() {
    let log = log_of_a_query("text").await;
    for line in log.lines() {
        assert!(QUERIES.iter().any(|query| line.contains(&format!("query={query}"))), "{line}");
        assert_eq!(line.contains(" call was "), line.contains("call=call_") && !line.contains("turn"), "{line}");
    }
    assert_log("log-text", &log);
}

#[tokio::test]
async fn the_json_of_a_log_has_query_and_call_on_each_line() {
    let log = log_of_a_query("json").await;
    for line in log.lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(QUERIES.iter().any(|query| line["query"] == *query), "{line}");
        let is_of_call = line["message"].as_str().expect("a message").starts_with("call ");
        assert_eq!(line["call"].as_str().is_some_and(|call| call.starts_with("call_")), is_of_call, "{line}");
        assert_eq!(line["namespace"], json!("default"), "{line}");
    }
    assert_log("log-json", &log);
}
