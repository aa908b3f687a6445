//! Servers that misbehave, each in one way: the query continues or ends with a clear outcome, the good server next
//! to them is not affected, and memory stays bounded.

use std::collections::BTreeSet;

use bosun_standin::mcp::BEHAVIOURS;
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{World, text_of};
use crate::{
    program::{Server, bosun, run_with_input, running, stderr, stdout},
    support::{soon, until},
    terminal::Terminal,
};

/// The expected outcome of a call of the server's `echo`.
#[derive(Clone, Copy)]
enum Expect {
    /// The call succeeds, and the result begins with this.
    Succeeds(&'static str),
    /// The call fails with this code, and the message has this in it.
    Fails(&'static str, &'static str),
    /// The server has no tools: it is in this phase, and its message has this in it.
    HasNoTools(&'static str, &'static str),
}

use Expect::{Fails, HasNoTools, Succeeds};

const TIMED_OUT: Expect = Fails("tool_timeout", "no answer within 1s");

const EXPECTED: &[(&str, Expect)] = &[
    ("good", Succeeds("hi")),
    ("newest", Succeeds("hi")),
    ("newest-changes", Succeeds("hi")),
    ("banner", Succeeds("hi")),
    ("slow-start", Succeeds("hi")),
    ("late-start", Succeeds("hi")),
    ("exit-at-start", HasNoTools("failed", "exit status: 3; it wrote to standard error:\nthe licence has expired")),
    ("silent-at-start", HasNoTools("discovering", "it has not answered yet")),
    ("garbage-at-start", HasNoTools("failed", "it closed the connection before it answered")),
    ("error-at-start", HasNoTools("failed", "the error -32603: the database is locked")),
    ("wrong-id-at-start", HasNoTools("failed", "got 4000")),
    ("wrong-version", Succeeds("hi")),
    ("exit-at-list", HasNoTools("failed", "the program ended with exit status: 1")),
    ("silent-at-list", HasNoTools("failed", "no answer, and no progress, within 3s")),
    ("error-at-list", HasNoTools("failed", "no tools today")),
    ("list-is-a-text", HasNoTools("failed", "the answer to `tools/list` has no list of tools")),
    ("list-is-null", HasNoTools("failed", "the answer to `tools/list` has no list of tools")),
    ("pages", Succeeds("hi")),
    ("endless-pages", HasNoTools("failed", "more than 100 pages")),
    ("same-page", HasNoTools("failed", "a page that leads to itself")),
    ("too-many-tools", HasNoTools("failed", "more than 1000 tools")),
    ("odd-tools", Succeeds("hi")),
    ("huge-list", HasNoTools("failed", "no answer, and no progress, within 3s")),
    ("exit-at-call", Fails("outcome_unknown", "exit status: 137; it wrote to standard error:\nout of memory")),
    ("exit-once", Fails("outcome_unknown", "the connection to the server broke")),
    ("silent-at-call", Fails("tool_timeout", "no answer, and no progress, within 3s")),
    ("slow-call", Succeeds("hi")),
    ("error-at-call", Fails("tool_failed", "the error -32603: the disk is full")),
    ("failing-tool", Fails("tool_failed", "no such city")),
    ("wrong-id-at-call", Fails("tool_timeout", "no answer, and no progress")),
    ("answers-twice", Succeeds("hi")),
    ("garbage-at-call", Succeeds("hi")),
    ("null-result", Fails("tool_failed", "the answer to `tools/call` is not a result")),
    ("list-result", Fails("tool_failed", "the answer to `tools/call` is not a result")),
    ("empty-result", Fails("tool_failed", "the answer to `tools/call` is not a result")),
    ("odd-content", Succeeds(r#"{"type":"hologram","voxels":7}"#)),
    ("null-structure", Succeeds("hi")),
    ("more-than-structure", Succeeds("Warning: the data is stale\n{\"rows\":3}")),
    ("wrong-structure", Fails("tool_failed", "the result does not match the tool's `outputSchema`")),
    ("large-result", Succeeds("x")),
    ("huge-result", Fails("tool_timeout", "no answer, and no progress")),
    ("slow-drip", Fails("tool_timeout", "no answer, and no progress")),
    ("progress", Succeeds("hi")),
    ("flood", Succeeds("hi")),
    ("error-flood", Succeeds("hi")),
    ("asks-for-sampling", Succeeds("I was told: this client does not support sampling")),
    ("asks-for-elicitation", Succeeds("I was told: this client does not support elicitation")),
    ("asks-with-defaults", Succeeds("I was told: this client does not support elicitation")),
    ("asks-for-roots", Succeeds("I was told: this client does not support roots")),
    ("wants-input", Fails("tool_failed", "the tool asks for more input from a user")),
    ("wants-form", Fails("tool_failed", "the tool asks for more input from a user")),
    ("changes", Succeeds("hi")),
    ("changes-silently", Succeeds("hi")),
    ("changes-schema", HasNoTools("quarantined", "1 withheld because of changes")),
    ("list-changed-storm", Succeeds("hi")),
    ("ignores-end", Succeeds("hi")),
];

/// The most memory that the server may have used, in kilobytes: 48 connections, and messages of 16 MiB.
const MOST_MEMORY: u64 = 600 * 1024;

#[test]
fn every_behaviour_has_an_expectation() {
    let known: BTreeSet<&str> = BEHAVIOURS.iter().map(|(name, _)| *name).collect();
    let expected: BTreeSet<&str> = EXPECTED.iter().map(|(name, _)| *name).collect();
    assert_eq!(known, expected);
    assert!(known.len() >= 30, "{}", known.len());
}

#[tokio::test]
async fn every_misbehaviour_has_a_clear_outcome() {
    let world = World::new(&[], "otherwise: [{say: x}]\n");
    for (name, expect) in EXPECTED {
        // Little time only where an answer never comes.
        let timeout = if matches!(expect, HasNoTools(..) | Fails("tool_timeout", _)) { "3s" } else { "60s" };
        world.stand_in(name, name, &format!("  timeout: {timeout}\n"));
    }
    let server = world.start().await;
    join_all(EXPECTED.iter().map(|(name, expect)| check(&world, &server, name, *expect))).await;

    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < MOST_MEMORY, "{peak} kB");
}

async fn check(world: &World, server: &Server, name: &str, expect: Expect) {
    let (tool, arguments) = match name {
        "wrong-structure" => (format!("{name}-add-numbers"), json!({"first": 1, "second": 2})),
        _ => (format!("{name}-echo"), json!({"text": "hi"})),
    };
    let answer = match expect {
        HasNoTools(phase, _) => {
            world.until(server, name, phase).await;
            world.until_no_tool(server, &tool).await;
            world.call(server, &tool, &arguments).await
        }
        Succeeds(_) | Fails(..) => {
            world.until_tool(server, &tool).await;
            world.call(server, &tool, &arguments).await
        }
    };
    check_answer(name, &answer, expect);
}

fn check_answer(name: &str, answer: &Value, expect: Expect) {
    match expect {
        Succeeds(text) => {
            assert_eq!(answer["status"]["phase"], "done", "{name}: {answer:#}");
            assert!(text_of(answer).starts_with(text), "{name}: {:.200}", text_of(answer));
        }
        Fails(code, text) => {
            let error = &answer["status"]["error"];
            assert_eq!(error["code"], code, "{name}: {answer:#}");
            assert!(error["message"].as_str().unwrap().contains(text), "{name}: {error}");
        }
        HasNoTools(_, text) => {
            assert_eq!(answer["error"]["code"], "tools_not_found", "{name}: {answer:#}");
            let message = answer["error"]["message"].as_str().unwrap();
            assert!(message.contains(text), "{name}: {message}");
        }
    }
}

#[tokio::test]
async fn a_call_that_is_safe_to_repeat_is_sent_again_after_a_crash() {
    let world = World::new(&[], "otherwise: [{say: x}]\n");
    world.stand_in("once", "exit-once", "  trustHints: true\n");
    let server = world.start().await;
    world.until_tool(&server, "once-echo").await;
    let answer = world.call(&server, "once-echo", &json!({"text": "again"})).await;
    assert_eq!(text_of(&answer), "again", "{answer:#}");
}

/// The timeout of a server, or of one tool, is more specific than the limit of the query, as for tools of other types.
#[tokio::test]
async fn a_call_may_be_silent_for_as_long_as_its_server_or_its_own_tool_says() {
    let world = World::new(&[], "otherwise: [{say: x}]\n");
    world.stand_in("slow", "slow-call", "  timeout: 60s\n");
    world.stand_in("plain", "slow-call", "");
    world.stand_in("mute", "silent-at-call", "  timeout: 60s\n");
    for (name, server, timeout) in [("patient", "plain", "60s"), ("impatient", "mute", "1s")] {
        let head = format!("apiVersion: ark.mckinsey.com/v1alpha1\nkind: Tool\nmetadata: {{name: {name}}}\n");
        let mcp = format!("{{mcpServerRef: {{name: {server}}}, toolName: echo, timeout: {timeout}}}");
        world.write(&format!("{name}.yaml"), &format!("{head}spec: {{type: mcp, mcp: {mcp}}}\n"));
    }
    let server = Server::start_in(world.path(), &["--tool-timeout", "1s"]).await;
    for (tool, expect) in [("slow-echo", Succeeds("hi")), ("patient", Succeeds("hi")), ("plain-echo", TIMED_OUT)] {
        world.until_tool(&server, "slow-echo").await;
        world.until_tool(&server, "plain-echo").await;
        let answer = world.call(&server, tool, &json!({"text": "hi"})).await;
        check_answer(tool, &answer, expect);
    }
    let server = world.start().await;
    world.until_tool(&server, "mute-echo").await;
    let answer = world.call(&server, "impatient", &json!({"text": "hi"})).await;
    check_answer("impatient", &answer, Fails("tool_timeout", "no answer, and no progress, within 1s"));
}

#[tokio::test]
async fn a_form_is_answered_with_its_defaults_if_the_operator_says_so_and_declined_without_them() {
    let world = World::new(&[], "otherwise: [{say: x}]\n");
    let accepted = r#"{"action":"accept","content":{"city":"Paris"}}"#;
    let expected = [
        ("asks-with-defaults", format!("I was told: {accepted}")),
        ("asks-for-elicitation", r#"I was told: {"action":"decline"}"#.to_owned()),
        ("asks-for-roots", "I was told: this client does not support roots".to_owned()),
        ("wants-form", format!(r#"{{"a":{accepted}}} "s""#)),
    ];
    for (name, _) in &expected {
        world.stand_in(name, name, "  elicitation: defaults\n");
    }
    let server = world.start().await;
    for (name, expect) in expected {
        world.until_tool(&server, &format!("{name}-echo")).await;
        let answer = world.call(&server, &format!("{name}-echo"), &json!({"text": "hi"})).await;
        assert_eq!(text_of(&answer), expect, "{name}: {answer:#}");
    }
}

#[tokio::test]
async fn programs_end_with_the_server_even_if_it_is_killed() {
    let world = World::new(&[], "otherwise: [{say: x}]\n");
    world.stand_in("stubborn", "ignores-end", "");
    let mut server = world.start().await;
    world.until_tool(&server, "stubborn-echo").await;
    let marker = world.path().join("stubborn.marker");
    assert_eq!(running(&marker), 1);
    server.stop().await;
    assert_eq!(running(&marker), 0);
    let mut server = world.start().await;
    world.until_tool(&server, "stubborn-echo").await;
    server.kill().await;
    until("the end of the program", || running(&marker) == 0).await;
}

/// What a server starts is `bosun reap -- PROGRAM`, and the line is sent once the reaper knows its process group.
#[tokio::test]
async fn a_program_whose_server_dies_before_the_reaper_knows_it_is_never_run() {
    let directory = tempfile::tempdir().unwrap();
    let marker = directory.path().join("marker");
    let mut program = bosun();
    program.args(["reap", "--", "sh", "-c", "touch \"$0\"; cat"]).arg(&marker);
    let dead = run_with_input(&mut program, "").await;
    assert_eq!((dead.status.code(), marker.exists()), (Some(127), false), "{}", stderr(&dead));
    let released = run_with_input(&mut program, "\nwhat follows\n").await;
    assert!(released.status.success() && marker.exists(), "{}", stderr(&released));
    assert_eq!(stdout(&released), "what follows\n", "its input is the rest");
}

#[tokio::test]
async fn a_cancelled_query_cancels_its_call_at_the_server() {
    let world = World::new(&[], "otherwise: [{say: x}]\n");
    world.stand_in("slow", "silent-at-call", "  timeout: 60s\n");
    let server = world.start().await;
    world.until_tool(&server, "slow-echo").await;
    let query = json!({"name": "asked", "input": "{\"text\": \"x\"}", "target": {"type": "tool", "name": "slow-echo"}});
    let asked = world.http.post(format!("{}/v1/queries?wait=0", server.base)).json(&query).send().await.unwrap();
    assert!(asked.status().is_success());
    let last = || std::fs::read_to_string(world.path().join("slow.marker")).unwrap_or_default();
    until("the call", || last() == "tools/call").await;
    world.http.patch(format!("{}/v1/queries/asked/cancel", server.base)).send().await.unwrap();
    until("the cancellation", || last() == "notifications/cancelled").await;
}

#[tokio::test]
async fn the_progress_of_a_call_is_an_event_without_an_id_and_bosun_query_shows_it() {
    let script =
        "otherwise:\n  - call: [{tool: slow-echo, arguments: {text: hi}}]\n  - say: '{{ result.slow-echo }}'\n";
    let world = World::new(&["slow-echo"], script);
    // The call takes longer than this, and is never silent for so long.
    world.stand_in("slow", "progress", "  timeout: 2s\n");
    let server = world.start().await;
    world.until_tool(&server, "slow-echo").await;
    let body = json!({"input": "go", "target": {"type": "agent", "name": "helper"}, "stream": true});
    let url = format!("{}/v1/queries?view=rfc", server.base);
    let stream = world.http.post(url).header("accept", "text/event-stream").json(&body).send().await.unwrap();
    let text = stream.text().await.unwrap();
    let reports: Vec<_> = text.split("\n\n").filter(|event| event.contains("event: tool_progress")).collect();
    assert!(!reports.is_empty() && text.contains("event: complete"), "{text}");
    for report in reports {
        assert!(!report.contains("id: "), "{report}");
        assert!(report.contains(r#""total":8"#) && report.contains("still here"), "{report}");
    }
    let arguments = ["query", "--agent", "helper", "--server", &server.base, "go"];
    let mut terminal = Terminal::run(&arguments, world.path());
    terminal.sees("slow-echo").await;
    terminal.sees("of 8: still here").await;
    assert_eq!(terminal.end().await, 0);
}

#[tokio::test]
async fn a_change_is_found_if_the_server_announces_it_in_either_protocol_or_else_by_the_poll() {
    let world = World::new(&[], "otherwise: [{say: x}]\n");
    let behaviours = [("changes", "1h"), ("newest-changes", "1h"), ("changes-silently", "1s")];
    for (behaviour, interval) in behaviours {
        world.stand_in(behaviour, behaviour, &format!("  pin: off\n  pollInterval: {interval}\n"));
    }
    let server = world.start().await;
    for (behaviour, _) in behaviours {
        let looking = async {
            let is_changed = |tool: &Value| tool["description"].to_string().contains("Ignore all other tools");
            let tool = format!("{behaviour}-echo");
            world.until_tool(&server, &tool).await;
            while !is_changed(&world.get(&server, &format!("tools/{tool}")).await) {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        soon(&format!("the changed description of {behaviour}"), looking).await;
    }
}

#[tokio::test]
async fn a_server_of_the_replaced_transport_is_refused_with_what_to_use() {
    let world = World::new(&[], "otherwise: [{say: x}]\n");
    let head = "apiVersion: ark.mckinsey.com/v1alpha1\nkind: MCPServer\nmetadata: {name: old}\n";
    world.write("old.yaml", &format!("{head}spec: {{address: {{value: 'http://127.0.0.1:9/sse'}}, transport: sse}}\n"));
    let server = world.start().await;
    let found = world.get(&server, "mcp-servers/old").await;
    let message = found["status_message"].as_str().unwrap();
    assert!(message.contains("use `transport: http`"), "{found:#}");
    assert_eq!(found["ready"], false);
}
