//! What a person or a client sends to a tree of queries, and the budgets that its queries share, against the real process.

use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    program::Server,
    support::{
        client::{Answer, Client, http, result},
        server::{ProcessExit, World},
    },
    teams::{agents, ask, asked, rpc, send, task_with_lookup, with_lookup},
};

/// The first agent has a call of its own that needs approval, and asks two others, of which each has one.
const GUARDED: &str = "
scenes:
  - when: {exactly: go}
    turns:
      - call:
          - {tool: noop, arguments: {message: mine}}
          - {tool: second, arguments: {input: two}}
          - {tool: third, arguments: {input: three}}
      - say: '{{ result[0] }}|{{ result[1] }}|{{ result[2] }}'
  - when: {exactly: two}
    turns:
      - call: [{tool: noop, arguments: {message: two}}]
      - say: 'second({{ result[0] }})'
  - when: {exactly: three}
    turns:
      - call: [{tool: noop, arguments: {message: three}}, {tool: fourth, arguments: {input: four}}]
      - say: 'third({{ result[0] }}, {{ result[1] }})'
  - when: {exactly: four}
    turns:
      - call: [{tool: noop, arguments: {message: four}}]
      - say: 'fourth({{ result[0] }})'
";

const NOOP: &str = "{type: builtin, name: noop, approval: {required: true}}";

fn guarded_agents() -> TempDir {
    let first = format!("[{NOOP}, {{type: agent, name: second}}, {{type: agent, name: third}}]");
    let third = format!("[{NOOP}, {{type: agent, name: fourth}}]");
    let noop = format!("[{NOOP}]");
    agents(&[("first", &first), ("second", &noop), ("third", &third), ("fourth", &noop)], "", GUARDED)
}

async fn guarded() -> (Server, Client) {
    let server = Server::start_with(guarded_agents().path()).await;
    let client = Client::of(&server.base);
    (server, client)
}

async fn read(client: &Client, name: &str) -> Value {
    send(client, Method::GET, &format!("/{name}?wait=1s&view=rfc"), None).await.body
}

/// The query once it shows this many approvals.
async fn with_approvals(client: &Client, name: &str, count: usize) -> Value {
    let waiting = async {
        loop {
            let query = read(client, name).await;
            if query["approvals"].as_array().is_some_and(|open| open.len() == count) {
                return query;
            }
        }
    };
    crate::support::soon("the approvals of the tree", waiting).await
}

async fn ended(client: &Client, name: &str) -> Value {
    send(client, Method::GET, &format!("/{name}?wait=20s&view=rfc"), None).await.body
}

async fn decide(client: &Client, name: &str, body: Value) -> Answer {
    send(client, Method::POST, &format!("/{name}/approval?view=rfc"), Some(&body)).await
}

/// The name of the query that an agent of the tree answers.
async fn child(client: &Client, agent: &str) -> String {
    fn find<'a>(tree: &'a Value, agent: &str) -> Option<&'a Value> {
        if tree["target"]["name"] == agent {
            return Some(tree);
        }
        tree["children"].as_array()?.iter().find_map(|child| find(child, agent))
    }
    let tree = send(client, Method::GET, "/q/tree", None).await.body;
    find(&tree, agent).expect("the agent was asked")["name"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_text_at_the_root_rejects_every_approval_of_the_tree_with_that_reason() {
    let (_server, client) = guarded().await;
    ask(&client, asked("agent", "first", "go")).await;
    with_approvals(&client, "q", 4).await;
    let posted = decide(&client, "q", json!({"text": "yes, go ahead"})).await;
    assert_eq!((posted.status, posted.state()), (200, "completed"), "{}", posted.body);
    let response = posted.body["response"].as_str().unwrap();
    assert_eq!(response.matches("yes, go ahead").count(), 4, "text is never consent, in no query: {response}");
    let again = decide(&client, "q", json!({"text": "yes, go ahead"})).await;
    assert_eq!((again.status, again.code()), (409, "approval_not_open"), "{}", again.body);
}

#[tokio::test]
async fn a_text_that_a_kill_cut_short_is_no_consent_and_its_repetition_rejects_the_rest() {
    for point in ["decide.appended", "decide.durable"] {
        for decided in 1..=4 {
            let fault = format!("{point}:{decided}");
            let (world, files) = (World::new(), guarded_agents());
            std::fs::remove_dir_all(world.path("manifests")).unwrap();
            std::fs::create_dir(world.path("manifests")).unwrap();
            for file in ["agents.yaml", "model.script.yaml"] {
                std::fs::copy(files.path().join(file), world.path("manifests").join(file)).unwrap();
            }
            let mut server = world.start_dying(&fault).await;
            let client = Client::of(&server.base);
            ask(&client, asked("agent", "first", "go")).await;
            with_approvals(&client, "q", 4).await;
            let text = json!({"text": "not today"});
            let posted = client.ask(&Method::POST, "/q/approval?view=rfc", Some(&text));
            let (posted, exit) = tokio::join!(posted, server.exit());
            assert!(posted.is_err(), "{fault}: it is acknowledged when all are rejected");
            assert_eq!(exit, ProcessExit::AtFaultPoint, "{fault}");
            let server = world.start().await;
            let client = Client::of(&server.base);
            // An append may be lost; what was decided before it is not.
            let lost = usize::from(point == "decide.appended");
            let open = read(&client, "q").await["approvals"].as_array().map_or(0, Vec::len);
            assert!((4 - decided..=4 - decided + lost).contains(&open), "{fault}: {open} are open");
            if open > 0 {
                let again = decide(&client, "q", text).await;
                assert_eq!((again.status, again.state()), (200, "completed"), "{fault}: {}", again.body);
            }
            let ended = ended(&client, "q").await;
            let response = ended["response"].as_str().unwrap_or_else(|| panic!("{fault}: {ended}"));
            assert_eq!(response.matches("not today").count(), 4, "{fault}: {response}");
        }
    }
}

#[tokio::test]
async fn a_text_at_a_child_rejects_the_approvals_of_that_child_and_below() {
    let (_server, client) = guarded().await;
    ask(&client, asked("agent", "first", "go")).await;
    with_approvals(&client, "q", 4).await;
    let third = child(&client, "third").await;
    let posted = decide(&client, &third, json!({"text": "not now"})).await;
    assert_eq!((posted.status, posted.state()), (200, "completed"), "{}", posted.body);
    assert_eq!(posted.body["response"].as_str().unwrap().matches("not now").count(), 2, "{}", posted.body);
    let rest = with_approvals(&client, "q", 2).await;
    let paths: Vec<_> = rest["approvals"].as_array().unwrap().iter().map(|open| &open["agentPath"]).collect();
    assert_eq!(paths, [&Value::Null, &json!(["first", "second"])], "the others still wait: {rest}");
}

#[tokio::test]
async fn a_decision_without_a_call_is_for_the_only_approval_of_the_tree() {
    let (_server, client) = guarded().await;
    ask(&client, asked("agent", "first", "go")).await;
    let open = with_approvals(&client, "q", 4).await["approvals"].clone();
    for decision in ["approved", "rejected"] {
        let several = decide(&client, "q", json!({"decision": decision})).await;
        assert_eq!((several.status, several.code()), (409, "ambiguous_call"), "{}", several.body);
    }
    // The last one in the list is that of the lowest query.
    for approval in &open.as_array().unwrap()[..3] {
        let decided =
            decide(&client, "q", json!({"toolCallId": approval["id"], "decision": "rejected", "wait": false})).await;
        assert_eq!(decided.status, 200, "{}", decided.body);
    }
    with_approvals(&client, "q", 1).await;
    let decided = decide(&client, "q", json!({"decision": "approved"})).await;
    assert_eq!((decided.status, decided.state()), (200, "completed"), "{}", decided.body);
}

/// Two agents of the same level that ask the same of the client, and one that asks its user.
const NAMED: &str = "
scenes:
  - when: {exactly: go}
    turns:
      - call: [{tool: second, arguments: {input: two}}, {tool: third, arguments: {input: three}}]
      - say: '{{ result[0] }}|{{ result[1] }}'
  - when: {exactly: one after the other}
    turns:
      - call: [{tool: second, arguments: {input: two}}]
      - call: [{tool: third, arguments: {input: three}}]
      - say: '{{ result[0] }}|{{ result[1] }}'
  - when: {exactly: two}
    turns:
      - call: [{tool: lookup, arguments: {key: two}}]
      - say: 'second({{ result[0] }})'
  - when: {exactly: three}
    turns:
      - call: [{tool: lookup, arguments: {key: three}}]
      - say: 'third({{ result[0] }})'
";

async fn named() -> (Server, Client) {
    let first = "[{type: agent, name: second, externalTools: ['*']}, {type: agent, name: third, externalTools: ['*']}]";
    let manifests = agents(&[("first", first), ("second", "[]"), ("third", "[]")], "", NAMED);
    let server = Server::start_with(manifests.path()).await;
    let client = Client::of(&server.base);
    (server, client)
}

async fn post(client: &Client, name: &str, body: Value) -> Answer {
    send(client, Method::POST, &format!("/{name}/tool-result?view=rfc"), Some(&body)).await
}

#[tokio::test]
async fn a_tool_that_several_queries_of_a_tree_wait_for_is_ambiguous_by_its_name() {
    let (_server, client) = named().await;
    ask(&client, with_lookup(asked("agent", "first", "go"))).await;
    let waiting = async {
        loop {
            let calls = read(&client, "q").await["toolCalls"].clone();
            if calls.as_array().is_some_and(|calls| calls.len() == 2) {
                return calls;
            }
        }
    };
    let calls = crate::support::soon("both calls", waiting).await;
    let by_name = json!({"toolName": "lookup", "toolResult": "x"});
    let refused = post(&client, "q", by_name.clone()).await;
    assert_eq!((refused.status, refused.code()), (409, "ambiguous_call"), "{}", refused.body);
    let taken = post(&client, "q", result(calls[1]["id"].as_str().unwrap(), "y")).await;
    assert_eq!(taken.status, 200, "{}", taken.body);
    let taken = post(&client, "q", by_name).await;
    assert_eq!(taken.body["response"], "second(x)|third(y)", "{}", taken.body);
}

#[tokio::test]
async fn a_result_by_name_that_is_sent_again_does_not_answer_the_call_of_the_next_child() {
    let (_server, client) = named().await;
    ask(&client, with_lookup(asked("agent", "first", "one after the other"))).await;
    let by_name = json!({"toolName": "lookup", "toolResult": "x"});
    let first = post(&client, "q", by_name.clone()).await;
    assert_eq!((first.status, first.state()), (200, "waiting"), "{}", first.body);
    let again = post(&client, "q", by_name).await;
    assert!(again.replayed, "{}", again.body);
    assert_eq!(again.body["toolCalls"][0]["arguments"], json!({"key": "three"}), "it still waits: {}", again.body);
    let second = post(&client, "q", json!({"toolName": "lookup", "toolResult": "z"})).await;
    assert_eq!(second.body["response"], "second(x)|third(z)", "{}", second.body);
}

#[tokio::test]
async fn a_large_result_for_a_descendant_is_uploaded_at_the_root() {
    let (server, client) = named().await;
    let paused = ask(&client, with_lookup(asked("agent", "first", "one after the other"))).await;
    let call = paused["toolCalls"][0]["id"].as_str().unwrap();
    let url = format!("{}/v1/queries/q/tool-calls/{call}/result?view=rfc", server.base);
    let upload = async |text: String| {
        let request = http().put(&url).header("content-type", "text/plain").body(text);
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.json::<Value>().await.unwrap())
    };
    let large = "x".repeat(3 << 20);
    let (status, taken) = upload(large.clone()).await;
    assert_eq!((status, &taken["state"]), (200, &json!("waiting")), "{taken}");
    assert_eq!(taken["toolCalls"][0]["arguments"], json!({"key": "three"}), "the next child waits: {taken}");
    assert_eq!(upload(large).await.0, 200, "the same again");
    let (status, refused) = upload("y".repeat(3 << 20)).await;
    assert_eq!((status, &refused["error"]["code"]), (409, &json!("already_resolved")), "{refused}");
}

#[tokio::test]
async fn tools_of_the_client_are_passed_to_the_agents_whose_manifest_says_so() {
    let script = "
scenes:
  - when: {exactly: go}
    turns:
      - call: [{tool: second, arguments: {input: two}}, {tool: third, arguments: {input: two}}]
      - say: '{{ result[0] }}|{{ result[1] }}'
  - when: {exactly: two}
    turns:
      - call: [{tool: lookup, arguments: {key: one}}]
      - say: 'answer({{ result[0] }})'
";
    let first =
        "[{type: agent, name: second, externalTools: [other]}, {type: agent, name: third, externalTools: [lookup]}]";
    let manifests = agents(&[("first", first), ("second", "[]"), ("third", "[]")], "", script);
    let server = Server::start_with(manifests.path()).await;
    let client = Client::of(&server.base);
    let paused = ask(&client, with_lookup(asked("agent", "first", "go"))).await;
    assert_eq!(paused["toolCalls"].as_array().map(Vec::len), Some(1), "{paused}");
    assert_eq!(paused["toolCalls"][0]["agentPath"], json!(["first", "third"]), "{paused}");
    let ended = post(&client, "q", json!({"toolName": "lookup", "toolResult": "x"})).await;
    let response = ended.body["response"].as_str().unwrap();
    assert!(
        response.contains("`lookup`") && response.ends_with("|answer(x)"),
        "the second one has no such tool: {response}"
    );
}

/// An agent that asks one that asks its user, and calls a tool of the client next to it.
#[tokio::test]
async fn values_for_a_descendant_are_taken_at_the_root_by_name_and_validated() {
    let script = "
scenes:
  - when: {exactly: go}
    turns:
      - call: [{tool: second, arguments: {input: two}}, {tool: lookup, arguments: {key: one}}]
      - say: '{{ result[0] }}|{{ result[1] }}'
  - when: {exactly: two}
    turns:
      - call:
          - tool: request_missing_parameters
            arguments: {intended_tool_name: noop, missing_params: [message], clarification_question: What?}
      - say: 'second({{ result[0] }})'
";
    let second = "[{type: builtin, name: noop}, {type: builtin, name: request_missing_parameters}]";
    let manifests = agents(&[("first", "[{type: agent, name: second}]"), ("second", second)], "", script);
    let mut server = Server::start_with(manifests.path()).await;
    ask(&Client::of(&server.base), with_lookup(asked("agent", "first", "go"))).await;
    let client = Client::of(&server.base);
    let waiting = async {
        loop {
            let query = read(&client, "q").await;
            if query["parameterRequests"][0].is_object() {
                return query;
            }
        }
    };
    let query = crate::support::soon("the request for parameters", waiting).await;
    assert_eq!(query["parameterRequests"][0]["agentPath"], json!(["first", "second"]), "{query}");
    server.kill_and_restart().await;
    let client = Client::of(&server.base);
    let call = query["toolCalls"][0]["id"].as_str().unwrap();
    let values = |values: Value| json!({"toolName": "request_missing_parameters", "toolResult": values});
    // One invalid entry refuses the whole post, also if the others are for another query of the tree.
    let batch = json!({"toolResults": [result(call, "y"), values(json!({"message": 7}))]});
    let refused = post(&client, "q", batch).await;
    assert_eq!((refused.status, refused.code()), (422, "invalid_tool_result"), "{}", refused.body);
    assert_eq!(read(&client, "q").await["toolCalls"][0]["id"], call, "nothing of it was recorded");
    let given = post(&client, "q", values(json!({"message": "hello"}))).await;
    assert_eq!(given.status, 200, "{}", given.body);
    let again = post(&client, "q", values(json!({"message": "hello"}))).await;
    assert!(again.replayed, "{}", again.body);
    let ended = post(&client, "q", result(call, "y")).await;
    let response = ended.body["response"].as_str().unwrap_or_default();
    assert!(response.contains("hello") && response.ends_with("|y"), "{}", ended.body);
}

/// Each turn of the children uses 100 tokens.
const SPENDING: &str = "
scenes:
  - when: {exactly: go}
    turns:
      - call: [{tool: second, arguments: {input: spend}}]
        usage: {promptTokens: 50, completionTokens: 50}
      - call: [{tool: second, arguments: {input: spend}}]
        usage: {promptTokens: 50, completionTokens: 50}
      - say: done
        usage: {promptTokens: 50, completionTokens: 50}
  - when: {exactly: spend}
    turns:
      - say: spent
        usage: {promptTokens: 50, completionTokens: 50}
";

#[tokio::test]
async fn the_tokens_of_a_tree_count_against_the_limit_of_the_root() {
    let manifests = agents(&[("first", "[{type: agent, name: second}]"), ("second", "[]")], "", SPENDING);
    let server = Server::start_with(manifests.path()).await;
    let client = Client::of(&server.base);
    // Four turns of 100 tokens before the last one of the root, of which two are the root's own.
    for (limit, state) in [(400, "failed"), (401, "completed")] {
        let mut body = asked("agent", "first", "go");
        body["name"] = json!(format!("q{limit}"));
        body["maxTokens"] = json!(limit);
        let ended = ask(&client, body).await;
        assert_eq!(ended["state"], state, "{limit}: {ended}");
        if state == "failed" {
            assert_eq!(ended["error"]["code"], "token_limit", "{ended}");
        }
    }
}

#[tokio::test]
async fn the_running_times_of_siblings_add_up_to_that_of_the_root() {
    let script = "
scenes:
  - when: {exactly: go}
    turns:
      - call:
          - {tool: second, arguments: {input: long}}
          - {tool: second, arguments: {input: longer}}
          - {tool: second, arguments: {input: longest}}
          - {tool: second, arguments: {input: 'longest, too'}}
      - say: done
  - when: long
    turns:
      - delay: 3s
        say: done
";
    let manifests = agents(&[("first", "[{type: agent, name: second}]"), ("second", "[]")], "", script);
    let server = Server::start_with(manifests.path()).await;
    let client = Client::of(&server.base);
    // Four times three seconds, at the same time: more than five in all, and no query alone runs as long.
    let mut body = asked("agent", "first", "go");
    body["timeout"] = json!("5s");
    let ended = ask(&client, body).await;
    assert_eq!((&ended["state"], &ended["error"]["code"]), (&json!("failed"), &json!("query_timeout")), "{ended}");
    let tree = send(&client, Method::GET, "/q/tree", None).await.body;
    for child in tree["children"].as_array().unwrap() {
        assert_eq!(child["error"]["code"], "query_timeout", "{tree}");
    }
}

#[tokio::test]
async fn the_time_limit_of_tools_does_not_apply_to_agents_and_teams() {
    let script = "
scenes:
  - when: {exactly: go}
    turns:
      - call: [{tool: second, arguments: {input: slow}}, {tool: team, arguments: {input: slow}}]
      - say: '{{ result[0] }}|{{ result[1] }}'
  - when: slow
    turns:
      - delay: 400ms
        say: slowly
";
    let team = crate::teams::team("{strategy: sequential, members: [{name: second, type: agent}]}");
    let first = "[{type: agent, name: second}, {type: team, name: team}]";
    let manifests = agents(&[("first", first), ("second", "[]")], &team, script);
    let server = Server::start_in(manifests.path(), &["--tool-timeout", "100ms"]).await;
    let mut body = asked("agent", "first", "go");
    body["toolTimeout"] = json!("100ms");
    let ended = ask(&Client::of(&server.base), body).await;
    assert_eq!((&ended["state"], &ended["response"]), (&json!("completed"), &json!("slowly|slowly")), "{ended}");
}

/// An approval and a call of the client are open at the same time, in different queries of the tree: either may be that of
/// the task's own query.
#[tokio::test]
async fn over_a2a_a_text_rejects_the_approvals_of_a_tree_also_while_a_call_of_the_client_is_open() {
    let agent = "{type: agent, name: second, externalTools: ['*']}";
    let (lookup, noop) = ("{tool: lookup, arguments: {key: one}}", "{tool: noop, arguments: {message: two}}");
    for (own, below, owns_approval) in [(lookup, noop, false), (noop, lookup, true)] {
        let script = format!(
            "
scenes:
  - when: {{exactly: go}}
    turns:
      - call: [{{tool: second, arguments: {{input: two}}}}, {own}]
      - say: '{{{{ result[0] }}}}|{{{{ result[1] }}}}'
  - when: {{exactly: two}}
    turns:
      - call: [{below}]
      - say: 'second({{{{ result[0] }}}})'
"
        );
        let guarded = format!("[{NOOP}]");
        let (first, second) =
            if owns_approval { (format!("[{NOOP}, {agent}]"), "[]") } else { (format!("[{agent}]"), guarded.as_str()) };
        let manifests = agents(&[("first", &first), ("second", second)], "", &script);
        let server = Server::start_with(manifests.path()).await;
        let client = Client::of(&server.base);
        let task = rpc(&server, "first", "SendMessage", task_with_lookup("go")).await["task"].clone();
        let name = task["id"].as_str().unwrap();
        let both_wait = async {
            loop {
                let query = with_approvals(&client, name, 1).await;
                if query["toolCalls"].as_array().is_some_and(|calls| calls.len() == 1) {
                    break;
                }
            }
        };
        crate::support::soon("the approval and the call", both_wait).await;
        let words = json!({"message": {
            "messageId": "w", "role": "ROLE_USER", "taskId": name, "parts": [{"text": "go ahead"}],
        }});
        let answered = rpc(&server, "first", "SendMessage", words).await["task"].clone();
        let ended = ended(&client, name).await;
        assert_eq!(ended["state"], "completed", "{own}: {answered} {ended}");
        let response = ended["response"].as_str().unwrap();
        let texts = response.matches("go ahead").count();
        assert_eq!(texts, 2, "{own}: the call was superseded, and the other one rejected: {response}");
    }
}
