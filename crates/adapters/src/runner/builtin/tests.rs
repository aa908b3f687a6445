use std::{sync::Arc, time::Duration};

use bosun_core::{
    Actor, Binding, CallId, Content, ContentHash, Namespace, Outcome, QueryUid, Timestamp, Tool, Transcript,
    content::Large,
    machine::{self, CallDisposition},
    schema::Schema,
};
use bosun_engine::{
    Clock, Results, Runner, Store as _,
    blob::{Blobs as _, MemoryBlobs},
    memory::MemoryStore,
    runner::{InsideCall, RunContext, RunReply, run_alone},
    testing::query_writer::QueryWriter,
};
use bytes::Bytes;
use serde_json::{Value, json};

use super::Builtins;

struct FixedClock(Timestamp);

impl Clock for FixedClock {
    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn now(&self) -> Timestamp {
        self.0
    }
}

fn builtins() -> Builtins {
    Builtins::new(Arc::new(FixedClock(Timestamp(0))))
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

async fn outcome(builtins: &Builtins, call: &InsideCall) -> Outcome {
    let context = RunContext::alone(Actor::local(), Duration::from_secs(1));
    run_alone(builtins, call, &context, &FixedClock(Timestamp(0))).await
}

#[tokio::test]
async fn every_builtin_runs_under_its_own_name() {
    let builtins = builtins();
    let run = async |tool, arguments| outcome(&builtins, &call(&builtins, tool, 0, 1, arguments)).await;
    assert_eq!(run("calculator", json!({"expression": "1+1"})).await, Outcome::success("2"));
    assert_eq!(run("current_time", json!({})).await, Outcome::success("1970-01-01T00:00:00.000Z"));
    assert_eq!(run("noop", json!({"a": [1]})).await, Outcome::success(json!({"a": [1]})));
}

/// The runner of a tool that the program adds.
struct Echo;

#[async_trait::async_trait]
impl Runner for Echo {
    async fn run(&self, call: &InsideCall, _: &RunContext) -> RunReply {
        Outcome::success(Value::clone(&call.arguments)).into()
    }
}

fn with_echo() -> Builtins {
    let binding = Binding::Builtin { name: "echo".into() };
    builtins().with(Tool::new("echo", "Gives its arguments back", json!({"type": "object"}), binding), Arc::new(Echo))
}

#[tokio::test]
async fn a_tool_that_the_program_adds_is_one_of_the_builtin_ones() {
    let with_echo = with_echo();
    assert_eq!(with_echo.tools().len(), builtins().tools().len() + 1);
    let outcome = outcome(&with_echo, &call(&with_echo, "echo", 0, 1, json!({"a": 1}))).await;
    assert_eq!(outcome, Outcome::success(json!({"a": 1})));
}

#[tokio::test]
async fn a_tool_that_this_server_does_not_have_is_a_failure_that_the_model_reads() {
    let outcome = outcome(&builtins(), &call(&with_echo(), "echo", 0, 1, json!({}))).await;
    assert_eq!(outcome, Outcome::failure("tool_failed", "this server has no builtin tool `echo`"));
}

#[test]
fn definitions_are_valid_and_all_may_be_repeated() {
    let tools = builtins().tools();
    for tool in &tools {
        Schema::compile(&tool.parameters).unwrap();
        assert!(tool.is_safe_to_repeat(), "{}", tool.name);
    }
    let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["calculator", "current_time", "noop", "read_result", "request_missing_parameters", "terminate"]);
}

/// The results of a query whose one call returned `content`, and its handle.
async fn results_with(content: &Value) -> (Results, String) {
    let (memory, blobs) = (MemoryStore::new(), MemoryBlobs::new());
    let mut writer = QueryWriter::new("default", "q", 1);
    let mut appends = vec![writer.create()];
    let events = machine::advance(writer.head());
    appends.push(writer.write(events));
    let events = writer.reply(vec![CallDisposition::Outside { timeout: Duration::from_secs(600) }]);
    appends.push(writer.write(events));
    let (large, text) = Large::of(content);
    let mut draft = blobs.begin().await.unwrap();
    draft.write(Bytes::copy_from_slice(text.as_bytes())).await.unwrap();
    draft.seal(large.hash).await.unwrap();
    let events = writer.deliver(&Outcome::Success { content: Content::Large(large) }, false);
    appends.push(writer.write(events));
    for append in appends {
        writer.send(&memory, append);
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
    outcome(&builtins, &call).await
}

/// The text of a page, and the line after it.
fn page(outcome: &Outcome) -> (String, String) {
    let Outcome::Success { content: Content::Inline(Value::String(text)) } = outcome else { panic!("{outcome:?}") };
    let (text, mark) = text.rsplit_once('\n').unwrap();
    (text.to_owned(), mark.to_owned())
}

#[tokio::test]
async fn the_pages_of_a_large_result_add_up_to_the_result() {
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
async fn a_page_ends_with_its_offsets() {
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
