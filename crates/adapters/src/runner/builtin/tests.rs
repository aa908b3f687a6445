use std::{sync::Arc, time::Duration};

use bosun_core::{
    CallId, Content, ContentHash, Namespace, Outcome, QueryUid, Timestamp, Transcript,
    content::Large,
    machine::{self, Way},
    schema::Schema,
};
use bosun_engine::{
    Clock, Results, Runner, Store as _,
    blob::{Blobs as _, MemoryBlobs},
    memory::Memory,
    runner::InsideCall,
    testing::scribe::Scribe,
};
use bytes::Bytes;
use serde_json::{Value, json};

use super::Builtins;

struct At(Timestamp);

impl Clock for At {
    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

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
        tool: builtins.tool(tool).unwrap().into(),
        arguments: arguments.into(),
        attempt,
        results: Results::default(),
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
    let expect = [
        ("calculator", true),
        ("current_time", true),
        ("noop", true),
        ("read_result", true),
        ("ledger", false),
        ("ledger_idempotent", true),
    ];
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

/// The results of a query whose one call gave `content`, and the handle of it.
async fn results_with(content: &Value) -> (Results, String) {
    let (memory, blobs) = (Memory::new(), MemoryBlobs::new());
    let mut scribe = Scribe::new("default", "q", 1);
    let mut appends = vec![scribe.create()];
    let events = machine::advance(scribe.head());
    appends.push(scribe.write(events));
    let events = scribe.reply(vec![Way::Outside { timeout: Duration::from_secs(600) }]);
    appends.push(scribe.write(events));
    let (large, text) = Large::of(content);
    let mut draft = blobs.begin().await.unwrap();
    draft.write(Bytes::copy_from_slice(text.as_bytes())).await.unwrap();
    draft.seal(large.hash).await.unwrap();
    let events = scribe.deliver(&Outcome::Success { content: Content::Large(large) }, false);
    appends.push(scribe.write(events));
    for append in appends {
        scribe.send(&memory, append);
    }
    let stored = memory.load(&Namespace::default(), &"q".parse().unwrap()).await.unwrap().unwrap();
    let mut transcript = Transcript::new(&stored.entries[0]).unwrap();
    stored.entries[1..].iter().for_each(|entry| transcript.apply(entry));
    let handle = stored.head.calls[0].id.to_string();
    (Results::of(Arc::new(transcript), Arc::new(blobs)), handle)
}

async fn read(results: &Results, arguments: Value) -> Outcome {
    let builtins = builtins();
    let call = InsideCall { results: results.clone(), ..call(&builtins, "read_result", 1, 1, arguments) };
    builtins.run(&call).await
}

/// The text of a page, and the line behind it.
fn page(outcome: &Outcome) -> (String, String) {
    let Outcome::Success { content: Content::Inline(Value::String(text)) } = outcome else { panic!("{outcome:?}") };
    let (text, mark) = text.rsplit_once('\n').unwrap();
    (text.to_owned(), mark.to_owned())
}

#[tokio::test]
async fn pages_of_a_large_result_put_together_are_the_result() {
    let text = "wörter\n und 待って 😀\n".repeat(20_000);
    let (results, handle) = results_with(&json!(text)).await;
    for limit in [Some(131_072), Some(99_999), None] {
        let (mut whole, mut offset) = (String::new(), 0);
        loop {
            let mut arguments = json!({"handle": handle, "offset": offset});
            if let Some(limit) = limit {
                arguments["limit"] = json!(limit);
            }
            let outcome = read(&results, arguments).await;
            let (text, mark) = page(&outcome);
            assert!(!outcome.content().unwrap().is_too_large_inline());
            whole.push_str(&text);
            match mark.rsplit_once(" offset ") {
                Some((_, next)) => offset = next.trim_end_matches(']').parse().unwrap(),
                None => break assert!(mark.ends_with("; this is the end]"), "{mark}"),
            }
        }
        assert!(whole == text, "in pages of {limit:?}");
    }
}

#[tokio::test]
async fn a_page_says_where_it_stands() {
    let (results, handle) = results_with(&json!("abcdefgh")).await;
    for (arguments, expect) in [
        (json!({"handle": handle}), ("abcdefgh", "[bytes 0 to 8 of 8; this is the end]")),
        (json!({"handle": handle, "limit": 3}), ("abc", "[bytes 0 to 3 of 8; to read on, use offset 3]")),
        (json!({"handle": handle, "offset": 3, "limit": 3}), ("def", "[bytes 3 to 6 of 8; to read on, use offset 6]")),
        (json!({"handle": handle, "offset": 99}), ("", "[bytes 8 to 8 of 8; this is the end]")),
    ] {
        let (text, mark) = page(&read(&results, arguments.clone()).await);
        assert_eq!((text.as_str(), mark.as_str()), expect, "{arguments}");
    }
    let (json, handle) = results_with(&json!({"b": [1], "a": "é"})).await;
    assert_eq!(page(&read(&json, json!({"handle": handle})).await).0, r#"{"b":[1],"a":"é"}"#);
}

#[tokio::test]
async fn a_handle_that_is_not_one_of_this_query_is_a_failure_that_the_model_reads() {
    let (results, handle) = results_with(&json!("abc")).await;
    let expect = |handle: &str| {
        Outcome::failure("unknown_handle", format!("there is no result with the handle `{handle}` in this query"))
    };
    for unknown in ["", "call_1", "../../bosun.db", &ContentHash::of(b"abc").to_string()] {
        assert_eq!(read(&results, json!({"handle": unknown})).await, expect(unknown));
    }
    assert_eq!(read(&Results::default(), json!({"handle": handle})).await, expect(&handle));
}

#[test]
fn a_page_that_is_too_large_is_refused_by_the_schema() {
    let tool = builtins().tool("read_result").unwrap();
    let schema = Schema::compile(&tool.parameters).unwrap();
    for (arguments, good) in [
        (r#"{"handle":"h"}"#, true),
        (r#"{"handle":"h","offset":0,"limit":131072}"#, true),
        (r#"{"handle":"h","limit":131073}"#, false),
        (r#"{"handle":"h","limit":0}"#, false),
        (r#"{"handle":"h","offset":-1}"#, false),
        (r#"{"offset":1}"#, false),
    ] {
        assert_eq!(schema.check_arguments(arguments).is_ok(), good, "{arguments}");
    }
}
