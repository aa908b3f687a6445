//! Agents and teams as tools, against the real process: child queries, their open calls at the root, and what survives a
//! kill.

use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    program::{Server, workspace},
    recovery::{crash_at, runs},
    scripted::MODEL,
    support::{
        client::{Answer, Client, http, result},
        scenarios::{self, Scenario},
        server::{ProcessExit, World},
    },
};

/// Agents with these tools, in YAML, other manifests, and the script of their model.
pub(crate) fn agents(agents: &[(&str, &str)], others: &str, script: &str) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let mut manifests = MODEL.to_owned();
    for (name, tools) in agents {
        manifests.push_str(&format!(
            "---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Agent
metadata: {{name: {name}}}
spec: {{prompt: Do as the script says., tools: {tools}}}
"
        ));
    }
    manifests.push_str(others);
    std::fs::write(directory.path().join("agents.yaml"), manifests).unwrap();
    std::fs::write(directory.path().join("model.script.yaml"), script).unwrap();
    directory
}

pub(crate) fn team(spec: &str) -> String {
    format!("---\napiVersion: ark.mckinsey.com/v1alpha1\nkind: Team\nmetadata: {{name: team}}\nspec: {spec}\n")
}

pub(crate) async fn send(client: &Client, method: Method, path: &str, body: Option<&Value>) -> Answer {
    client.ask(&method, path, body).await.expect("an answer")
}

pub(crate) async fn ask(client: &Client, body: Value) -> Value {
    send(client, Method::POST, "?wait=20s&view=rfc", Some(&body)).await.body
}

pub(crate) fn asked(kind: &str, target: &str, input: &str) -> Value {
    json!({"name": "q", "input": input, "target": {"type": kind, "name": target}})
}

/// An agent that asks another one, which asks a third one.
const CHAIN: &str = "
scenes:
  - when: {exactly: go}
    turns:
      - call: [{tool: second, arguments: {input: on}}]
        usage: {promptTokens: 1, completionTokens: 2}
      - say: 'first({{ result.second }})'
        usage: {promptTokens: 4, completionTokens: 8}
  - when: {exactly: on}
    turns:
      - call: [{tool: third, arguments: {input: end}}]
        usage: {promptTokens: 16, completionTokens: 32}
      - say: 'second({{ result.third }})'
  - when: {exactly: end}
    turns:
      - call: [{tool: lookup, arguments: {key: one}}]
        usage: {promptTokens: 64, completionTokens: 128, cachedTokens: 40}
      - say: 'third({{ result.lookup }})'
        usage: {promptTokens: 256, completionTokens: 512}
";

pub(crate) fn chain() -> TempDir {
    let first = "[{type: agent, name: second, externalTools: ['*']}]";
    let second = "[{type: agent, name: third, externalTools: [lookup]}]";
    agents(&[("first", first), ("second", second), ("third", "[]")], "", CHAIN)
}

pub(crate) fn with_lookup(mut body: Value) -> Value {
    body["toolSource"] = json!("hybrid");
    body["externalTools"] = json!([{
        "name": "lookup",
        "description": "Looks something up where only the client can",
        "parameters": {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]},
    }]);
    body
}

#[tokio::test]
async fn the_root_shows_the_calls_of_its_descendants_and_takes_their_results() {
    let manifests = chain();
    let server = Server::start_with(manifests.path()).await;
    let client = Client::of(&server.base);
    let paused = ask(&client, with_lookup(asked("agent", "first", "go"))).await;
    assert_eq!((&paused["status"], &paused["state"]), (&json!("tool_call_required"), &json!("waiting")), "{paused}");
    let call = &paused["toolCalls"][0];
    assert_eq!(call["agentPath"], json!(["first", "second", "third"]), "{call}");
    assert_eq!(call["arguments"], json!({"key": "one"}));
    let tree = send(&client, Method::GET, "/q/tree", None).await.body;
    let leaf = tree.pointer("/children/0/children/0").expect("three levels");
    assert_eq!((&leaf["target"]["name"], &leaf["state"]), (&json!("third"), &json!("waiting")), "{tree}");
    let id = call["id"].as_str().unwrap();
    let ended = send(&client, Method::POST, "/q/tool-result?view=rfc", Some(&result(id, "42"))).await;
    assert_eq!(ended.body["response"], "first(second(third(42)))", "{}", ended.body);
    let again = send(&client, Method::POST, "/q/tool-result?view=rfc", Some(&result(id, "42"))).await;
    assert!(again.replayed, "{}", again.body);
    let other = send(&client, Method::POST, "/q/tool-result?view=rfc", Some(&result(id, "43"))).await;
    assert_eq!((other.status, other.code()), (409, "already_resolved"));
    let tree = send(&client, Method::GET, "/q/tree", None).await.body;
    assert_eq!(tree.pointer("/children/0/children/0/response"), Some(&json!("third(42)")), "{tree}");
}

#[tokio::test]
async fn a_result_is_taken_at_the_child_and_by_the_name_of_the_tool_at_the_root() {
    let manifests = chain();
    let server = Server::start_with(manifests.path()).await;
    let client = Client::of(&server.base);
    ask(&client, with_lookup(asked("agent", "first", "go"))).await;
    let tree = send(&client, Method::GET, "/q/tree", None).await.body;
    let leaf = tree.pointer("/children/0/children/0").expect("three levels");
    let (name, id) = (leaf["name"].as_str().unwrap(), leaf["toolCalls"][0]["id"].as_str().unwrap());
    let posted = send(&client, Method::POST, &format!("/{name}/tool-result?view=rfc"), Some(&result(id, "7"))).await;
    assert_eq!(posted.body["response"], "third(7)", "{}", posted.body);
    let ended = send(&client, Method::GET, "/q?wait=20s&view=rfc", None).await;
    assert_eq!(ended.body["response"], "first(second(third(7)))", "{}", ended.body);

    let mut second = with_lookup(asked("agent", "first", "go"));
    second["name"] = json!("named");
    ask(&client, second).await;
    let body = json!({"toolName": "lookup", "toolResult": "8"});
    let ended = send(&client, Method::POST, "/named/tool-result?view=rfc", Some(&body)).await;
    assert_eq!(ended.body["response"], "first(second(third(8)))", "{}", ended.body);
    let again = send(&client, Method::POST, "/named/tool-result?view=rfc", Some(&body)).await;
    assert!(again.replayed, "{}", again.body);
}

#[tokio::test]
async fn the_stream_of_the_root_has_the_calls_of_descendants() {
    let manifests = chain();
    let server = Server::start_with(manifests.path()).await;
    let url = format!("{}/v1/queries?stream=true", server.base);
    let body = with_lookup(asked("agent", "first", "go"));
    let mut stream = http().post(url).json(&body).send().await.unwrap();
    let mut text = String::new();
    let mut posted = false;
    while let Some(more) = stream.chunk().await.unwrap() {
        text.push_str(&String::from_utf8_lossy(&more));
        if text.contains("event: tool_call\n") && text.ends_with("\n\n") && !posted {
            posted = true;
            let body = json!({"toolName": "lookup", "toolResult": "9"});
            send(&Client::of(&server.base), Method::POST, "/q/tool-result?wait=0", Some(&body)).await;
        }
    }
    assert_eq!(text.matches("event: tool_call\n").count(), 1, "{text}");
    assert!(text.contains(r#""agentPath":["first","second","third"]"#), "{text}");
    assert!(text.contains("first(second(third(9)))") && text.contains("event: complete"), "{text}");
}

#[tokio::test]
async fn cancelling_the_root_cancels_down_the_tree_and_deleting_it_deletes_the_tree() {
    let manifests = chain();
    let server = Server::start_with(manifests.path()).await;
    let client = Client::of(&server.base);
    let paused = ask(&client, with_lookup(asked("agent", "first", "go"))).await;
    let id = paused["toolCalls"][0]["id"].as_str().unwrap();
    let tree = send(&client, Method::GET, "/q/tree", None).await.body;
    let names = ["/children/0/name", "/children/0/children/0/name"];
    let names = names.map(|path| tree.pointer(path).and_then(Value::as_str).unwrap().to_owned());
    send(&client, Method::POST, "/q/cancel", None).await;
    for name in &names {
        // The children are cancelled behind the answer to the caller of the root.
        loop {
            let seen = send(&client, Method::GET, &format!("/{name}?view=rfc"), None).await;
            if seen.state() == "cancelled" {
                break;
            }
            assert!(matches!(seen.state(), "waiting" | "running"), "{}", seen.body);
        }
    }
    let late = send(&client, Method::POST, "/q/tool-result", Some(&result(id, "9"))).await;
    assert_eq!((late.status, late.code()), (410, "call_cancelled"));
    assert_eq!(send(&client, Method::DELETE, "/q", None).await.status, 204);
    for name in &names {
        assert_eq!(send(&client, Method::GET, &format!("/{name}"), None).await.status, 404);
    }
}

#[tokio::test]
async fn the_calls_of_a_tree_count_against_the_limit_of_the_root() {
    let script = "
scenes:
  - when: {exactly: go}
    turns:
      - call: [{tool: helper, arguments: {input: a}}]
      - call: [{tool: helper, arguments: {input: b}}]
      - say: '{{ result[0] }}|{{ result[1] }}'
  - when: {exactly: a}
    turns:
      - call: [{tool: calculator, arguments: {expression: '1 + 1'}}, {tool: calculator, arguments: {expression: '1 + 2'}}]
      - say: 'two'
  - when: {exactly: b}
    turns:
      - call: [{tool: calculator, arguments: {expression: '2 + 2'}}]
      - say: '{{ result[0] }}'
";
    let manifests = agents(
        &[("first", "[{type: agent, name: helper}]"), ("helper", "[{type: builtin, name: calculator}]")],
        "",
        script,
    );
    let server = Server::start_with(manifests.path()).await;
    let mut body = asked("agent", "first", "go");
    // Three of them are spent by the first child and its call; the second child is the fourth.
    body["maxToolCalls"] = json!(4);
    let ended = ask(&Client::of(&server.base), body).await;
    assert_eq!(ended["state"], "completed", "{ended}");
    let response = ended["response"].as_str().unwrap();
    assert!(response.starts_with("two|") && response.contains("the limit of 4 tool calls"), "{response}");
}

#[tokio::test]
async fn agents_that_call_agents_are_stopped_at_the_fifth_level_and_a_failed_child_is_an_error_for_the_model() {
    let script = "
scenes:
  - when: {exactly: deeper}
    turns:
      - call: [{tool: self, arguments: {input: deeper}}]
      - say: '{{ result[0] }}'
  - when: {exactly: fail}
    turns:
      - call: [{tool: broken, arguments: {input: x}}]
      - say: '{{ result[0] }}'
";
    let broken = "---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Agent
metadata: {name: broken, annotations: {bosun.dev/max-tokens: \"1\"}}
spec: {prompt: '', outputSchema: {type: object, required: [a], properties: {a: {type: string}}}}
";
    let tools = "[{type: agent, name: self}, {type: agent, name: broken}]";
    let manifests = agents(&[("self", tools)], broken, script);
    let server = Server::start_with(manifests.path()).await;
    let client = Client::of(&server.base);
    let ended = ask(&client, asked("agent", "self", "deeper")).await;
    assert!(ended["response"].as_str().unwrap().contains("levels deep"), "{ended}");
    let mut depth = 0;
    let mut tree = send(&client, Method::GET, "/q/tree", None).await.body;
    while let Some(child) = tree.pointer("/children/0") {
        depth += 1;
        tree = child.clone();
    }
    assert_eq!(depth, 5);
    let mut body = asked("agent", "self", "fail");
    body["name"] = json!("fails");
    let ended = ask(&client, body).await;
    let response = ended["response"].as_str().unwrap();
    assert_eq!(ended["state"], "completed", "{ended}");
    assert!(response.contains("agent `broken` failed"), "{ended}");
}

#[tokio::test]
async fn members_of_a_team_take_turns_by_its_strategy() {
    let script = "
scenes:
  - when: 'The names are'
    turns: [{say: 'c'}]
  - when: 'c:'
    turns: [{say: 'after c'}]
  - when: 'b:'
    turns: [{say: 'after b'}]
  - when: 'a:'
    turns: [{say: 'after a'}]
  - when: start
    turns: [{say: 'first'}]
";
    let members = "members: [{name: a, type: agent}, {name: b, type: agent}, {name: c, type: agent}]";
    let edges = "graph: {edges: [{from: a, to: c}, {from: c, to: b}]}";
    for (rest, order, answer) in [
        ("strategy: sequential".to_owned(), "abc", "after b"),
        ("strategy: sequential, loops: true, maxTurns: 4".to_owned(), "abca", "after c"),
        ("strategy: round-robin, maxTurns: 2".to_owned(), "ab", "after a"),
        (format!("strategy: graph, maxTurns: 9, {edges}"), "acb", "after c"),
        ("strategy: selector, maxTurns: 2, selector: {agent: chooser}".to_owned(), "cc", "after c"),
    ] {
        let spec = format!("{{{members}, {rest}}}");
        let all = [("a", "[]"), ("b", "[]"), ("c", "[]"), ("chooser", "[]")];
        let manifests = agents(&all, &team(&spec), script);
        let server = Server::start_with(manifests.path()).await;
        let client = Client::of(&server.base);
        let ended = ask(&client, asked("team", "team", "start")).await;
        assert_eq!((&ended["state"], &ended["response"]), (&json!("completed"), &json!(answer)), "{rest}: {ended}");
        let tree = send(&client, Method::GET, "/q/tree", None).await.body;
        let turns = tree["children"].as_array().unwrap().iter().map(|child| child["target"]["name"].as_str().unwrap());
        assert_eq!(turns.collect::<String>(), order, "{rest}");
    }
}

#[tokio::test]
async fn a_team_fails_with_its_member_and_with_a_selector_that_names_none() {
    let script = "
scenes:
  - when: 'The names are'
    turns: [{say: 'zed'}]
  - when: 'a:'
    turns: [{fail: {status: 400, message: no such deployment}}]
  - when: start
    turns: [{say: 'first'}]
";
    let members = "members: [{name: a, type: agent}, {name: b, type: agent}, {name: c, type: agent}]";
    for (rest, code, message, turns) in [
        ("strategy: sequential", "member_failed", "member `b` failed (child_failed): ", 2),
        (
            "strategy: selector, maxTurns: 2, selector: {agent: chooser}",
            "no_such_member",
            "the selector answered `zed`, and not one of a, b, c",
            0,
        ),
    ] {
        let all = [("a", "[]"), ("b", "[]"), ("c", "[]"), ("chooser", "[]")];
        let manifests = agents(&all, &team(&format!("{{{members}, {rest}}}")), script);
        let server = Server::start_with(manifests.path()).await;
        let client = Client::of(&server.base);
        let ended = ask(&client, asked("team", "team", "start")).await;
        let error = &ended["error"];
        assert_eq!((&ended["state"], &error["code"]), (&json!("failed"), &json!(code)), "{ended}");
        assert!(error["message"].as_str().unwrap().starts_with(message), "{ended}");
        // The members after it do not run.
        let tree = send(&client, Method::GET, "/q/tree", None).await.body;
        assert_eq!(tree["children"].as_array().map_or(0, Vec::len), turns, "{tree}");
    }
}

#[tokio::test]
async fn a_team_is_a_tool_and_a_member_and_terminate_ends_it() {
    let script = "
scenes:
  - when: {exactly: go}
    turns:
      - call: [{tool: team, arguments: {input: work}}]
      - say: 'the team said {{ result.team }}'
  - when: 'b:'
    turns: [{say: 'never'}]
  - when: 'a:'
    turns:
      - call: [{tool: terminate, arguments: {response: enough}}]
  - when: work
    turns: [{say: 'some'}]
";
    let inner = "---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Team
metadata: {name: inner}
spec: {strategy: sequential, members: [{name: a, type: agent}]}
";
    let outer = team(
        "{strategy: sequential, members: [{name: inner, type: team}, {name: b, type: agent}, {name: a, type: agent}]}",
    );
    let script = script.replace("'a:'", "'inner:'");
    let manifests = agents(
        &[("first", "[{type: team, name: team}]"), ("a", "[]"), ("b", "[{type: builtin, name: terminate}]")],
        &format!("{inner}{outer}"),
        &script,
    );
    let server = Server::start_with(manifests.path()).await;
    let client = Client::of(&server.base);
    let ended = ask(&client, asked("agent", "first", "go")).await;
    assert_eq!(ended["response"], "the team said enough", "{ended}");
    let tree = send(&client, Method::GET, "/q/tree", None).await.body;
    assert_eq!(tree.pointer("/children/0/children/0/children/0/target/name"), Some(&json!("a")), "{tree}");
    assert_eq!(tree.pointer("/children/0/children").and_then(Value::as_array).map(Vec::len), Some(2), "{tree}");
}

#[tokio::test]
async fn a_tree_of_three_levels_survives_a_kill_in_every_window() {
    for point in
        ["child.appended", "child.durable", "call.delegated", "child.reported", "settle.appended", "turn.ended"]
    {
        for pass in 1..=2 {
            let fault = format!("{point}:{pass}");
            let world = World::new();
            let query = scenarios::query("q", Scenario::Tree);
            // The first windows are before the outside call, the others behind it.
            let is_before = !matches!(point, "child.reported" | "settle.appended");
            if is_before {
                crash_at(&world, &fault, &query).await;
            }
            let mut server = if is_before { world.start().await } else { world.start_dying(&fault).await };
            let client = Client::of(&server.base);
            let paused = client.post("?wait=20s&view=rfc", &query).await;
            assert_eq!(paused.state(), "waiting", "{fault}: {}", paused.body);
            let id = paused.body["toolCalls"][0]["id"].as_str().unwrap().to_owned();
            assert_eq!(paused.body["toolCalls"][0]["agentPath"], json!(["root", "middle", "leaf"]));
            if !is_before {
                let body = result(&id, "x");
                let posted = client.ask(&Method::POST, "/q/tool-result?wait=0", Some(&body));
                let (_, exit) = tokio::join!(posted, server.exit());
                assert_eq!(exit, ProcessExit::AtFaultPoint, "{fault}");
                server = world.start().await;
            }
            let client = Client::of(&server.base);
            client.post("/q/tool-result?wait=0", &result(&id, "x")).await;
            let ended = client.get("/q?wait=20s&view=rfc").await;
            assert_eq!(ended.state(), "completed", "{fault}: {}", ended.body);
            let tree = client.get("/q/tree").await.body;
            let level = |tree: &Value| tree["children"].as_array().map(Vec::len);
            assert_eq!((level(&tree), level(&tree["children"][0])), (Some(1), Some(1)), "{fault}: {tree}");
            assert!(runs(&world, "ledger") <= 2, "{fault}: one on the first level and one on the third");
            assert_eq!(server.kill().await, ProcessExit::Killed);
        }
    }
}

#[tokio::test]
async fn example_3_of_the_rfc_runs_with_ark_agents_and_outside_tools_at_the_leaves() {
    let server = Server::start_with(&workspace().join("examples/teams")).await;
    let client = Client::of(&server.base);
    let tools = std::fs::read_to_string(workspace().join("examples/teams/tools.json")).unwrap();
    let mut body = asked("agent", "manager", "Publish an article about tides");
    body["toolSource"] = json!("hybrid");
    body["externalTools"] = serde_json::from_str(&tools).unwrap();
    let mut query = ask(&client, body).await;
    let mut ways = Vec::new();
    while query["status"] == "tool_call_required" {
        let call = &query["toolCalls"][0];
        let content = if call["name"] == "web_search" { "the moon" } else { "The moon makes the tides." };
        ways.push(format!("{}:{}", call["agentPath"][1].as_str().unwrap(), call["name"].as_str().unwrap()));
        let body = result(call["id"].as_str().unwrap(), content);
        query = send(&client, Method::POST, "/q/tool-result?view=rfc", Some(&body)).await.body;
    }
    assert_eq!(ways, ["researcher:web_search", "writer:grammar_check"]);
    assert_eq!(query["response"], "Published. Article: The moon makes the tides.", "{query}");
}

#[tokio::test]
async fn approvals_of_descendants_are_shown_and_decided_at_the_root() {
    let script = "
scenes:
  - when: {exactly: go}
    turns:
      - call: [{tool: second, arguments: {input: on}}]
      - say: 'first({{ result.second }})'
  - when: {exactly: on}
    turns:
      - call: [{tool: noop, arguments: {message: hello}}]
      - say: 'second({{ result.noop }})'
";
    let second = "[{type: builtin, name: noop, approval: {required: true}}]";
    let manifests = agents(&[("first", "[{type: agent, name: second}]"), ("second", second)], "", script);
    let server = Server::start_with(manifests.path()).await;
    let client = Client::of(&server.base);
    let paused = ask(&client, asked("agent", "first", "go")).await;
    assert_eq!(paused["status"], "approval_required", "{paused}");
    assert_eq!(paused["approvals"][0]["agentPath"], json!(["first", "second"]), "{paused}");
    let open = http().get(format!("{}/v1/approvals", server.base)).send().await.unwrap();
    let open: Value = open.json().await.unwrap();
    assert_eq!(open["items"][0]["id"], paused["approvals"][0]["id"], "{open}");
    let decision = json!({"toolCallId": paused["approvals"][0]["id"], "decision": "approved"});
    let ended = send(&client, Method::POST, "/q/approval?view=rfc", Some(&decision)).await;
    assert_eq!(ended.body["state"], "completed", "{}", ended.body);
    assert!(ended.body["response"].as_str().unwrap().starts_with("first(second("), "{}", ended.body);
}

#[tokio::test]
async fn the_running_time_of_a_tree_is_that_of_its_root() {
    let script = "
scenes:
  - when: {exactly: go}
    turns:
      - call: [{tool: second, arguments: {input: on}}]
      - delay: 1h
        say: 'first({{ result.second }})'
  - when: {exactly: on}
    turns:
      - delay: 1h
        say: never
";
    let manifests = agents(&[("first", "[{type: agent, name: second}]"), ("second", "[]")], "", script);
    let server = Server::start_with(manifests.path()).await;
    let mut body = asked("agent", "first", "go");
    body["timeout"] = json!("700ms");
    let ended = ask(&Client::of(&server.base), body).await;
    assert_eq!((&ended["state"], &ended["error"]["code"]), (&json!("failed"), &json!("query_timeout")), "{ended}");
}

#[tokio::test]
async fn a_tree_makes_progress_with_a_single_permit() {
    let world = World::new().with(&["--max-running", "1"]);
    let mut server = world.start().await;
    let client = Client::of(&server.base);
    let paused = client.post("?wait=20s&view=rfc", &scenarios::query("q", Scenario::Tree)).await;
    let id = paused.body["toolCalls"][0]["id"].as_str().unwrap();
    let ended = client.post("/q/tool-result?view=rfc&wait=20s", &result(id, "x")).await;
    assert_eq!(ended.state(), "completed", "{}", ended.body);
    assert_eq!(server.kill().await, ProcessExit::Killed);
}

#[tokio::test]
async fn a_team_has_conversations_which_its_members_and_its_selector_read() {
    let script = "
scenes:
  - when: {exactly: \"user: start\"}
    turns: [{say: inner}]
  - when: {exactly: \"user: start\\n\\nanswer: first\\n\\nuser: again\"}
    turns: [{say: inner}]
  - when: {exactly: start}
    turns: [{say: 'first'}]
  - when: {exactly: \"The conversation so far:\\n\\nuser: start\\n\\nanswer: first\\n\\nNow the user says:\\n\\nagain\"}
    turns: [{say: 'remembered'}]
otherwise: [{say: 'forgotten'}]
";
    let inner = "---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Team
metadata: {name: inner}
spec: {strategy: sequential, members: [{name: a, type: agent}]}
";
    let selector = "selector: {agent: chooser, selectorPrompt: '{{.History}}'}";
    let outer =
        team(&format!("{{strategy: selector, maxTurns: 1, members: [{{name: inner, type: team}}], {selector}}}"));
    // The prompt of an agent does not count as input.
    let manifests = agents(&[("a", "[]"), ("chooser", "[]")], &format!("{inner}{outer}"), script);
    let server = Server::start_with(manifests.path()).await;
    let client = Client::of(&server.base);
    for (name, conversation, input, answer) in [
        ("one", Some("talk"), "start", "first"),
        ("two", Some("talk"), "again", "remembered"),
        ("three", Some("other"), "start", "first"),
    ] {
        let mut body = asked("team", "team", input);
        body["name"] = json!(name);
        body["conversationId"] = json!(conversation);
        let ended = ask(&client, body).await;
        assert_eq!((&ended["state"], &ended["response"]), (&json!("completed"), &json!(answer)), "{name}: {ended}");
        assert_eq!(ended["conversationId"], json!(conversation), "{ended}");
    }
    let messages = http().get(format!("{}/v1/memory-messages?conversation=talk", server.base)).send().await.unwrap();
    let messages: Value = messages.json().await.unwrap();
    let contents: Vec<_> =
        messages["items"].as_array().unwrap().iter().map(|item| &item["message"]["content"]).collect();
    assert_eq!(contents, ["start", "first", "again", "remembered"], "{messages}");
}

#[tokio::test]
async fn the_usage_of_a_tree_is_shown_at_its_root_while_it_runs_and_after_its_end() {
    let manifests = chain();
    let server = Server::start_with(manifests.path()).await;
    let client = Client::of(&server.base);
    let paused = ask(&client, with_lookup(asked("agent", "first", "go"))).await;
    let id = paused["toolCalls"][0]["id"].as_str().unwrap_or_else(|| panic!("{paused}")).to_owned();
    let used = |prompt: u64, completion: u64| {
        json!({
            "promptTokens": prompt, "completionTokens": completion, "totalTokens": prompt + completion, "cachedTokens": 40,
        })
    };
    let own = |prompt: u64, completion: u64| json!({"promptTokens": prompt, "completionTokens": completion, "totalTokens": prompt + completion});
    let mut query = paused;
    for (state, usage, tree_usage, below) in [
        ("waiting", own(1, 2), used(81, 162), used(80, 160)),
        ("completed", own(5, 10), used(341, 682), used(336, 672)),
    ] {
        assert_eq!((&query["state"], &query["usage"]), (&json!(state), &usage), "{query}");
        assert_eq!(query["treeUsage"], tree_usage, "{query}");
        let tree = send(&client, Method::GET, "/q/tree", None).await.body;
        assert_eq!((&tree["usage"], &tree["treeUsage"]), (&usage, &tree_usage), "{tree}");
        assert_eq!(tree.pointer("/children/0/treeUsage"), Some(&below), "{tree}");
        // A leaf has no tree below it.
        assert_eq!(tree.pointer("/children/0/children/0/treeUsage"), None, "{tree}");
        let ark = send(&client, Method::GET, "/q?view=ark", None).await.body;
        assert_eq!(ark["status"]["tokenUsage"], tree_usage, "{ark}");
        if state == "waiting" {
            query = send(&client, Method::POST, "/q/tool-result?view=rfc", Some(&result(&id, "42"))).await.body;
        }
    }
}

/// One call of A2A's JSON-RPC to an agent.
pub(crate) async fn rpc(server: &Server, agent: &str, method: &str, params: Value) -> Value {
    let request = http()
        .post(format!("{}/a2a/agents/default/{agent}", server.base))
        .header("a2a-version", "1.0")
        .json(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}));
    let body: Value = request.send().await.unwrap().json().await.unwrap();
    assert!(body.get("error").is_none(), "{body}");
    body["result"].clone()
}

const CLIENT_TOOLS: &str = "https://bosun.dev/a2a/extensions/client-tools/v1";

pub(crate) fn task_with_lookup(text: &str) -> Value {
    json!({
        "message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]},
        "metadata": {CLIENT_TOOLS: {"tools": with_lookup(json!({}))["externalTools"]}},
    })
}

fn lookup_result(task: &Value, call: &Value, result: &str) -> Value {
    let results = json!([{"toolCallId": call["id"], "toolName": "lookup", "success": true, "result": result}]);
    json!({"message": {
        "messageId": "r", "role": "ROLE_USER", "taskId": task["id"], "parts": [{"data": {"toolResults": results}}],
    }})
}

#[tokio::test]
async fn over_a2a_a_task_shows_the_calls_of_descendants_and_takes_their_results() {
    let manifests = chain();
    let mut server = Server::start_with(manifests.path()).await;
    let task = rpc(&server, "first", "SendMessage", task_with_lookup("go")).await["task"].clone();
    assert_eq!(task["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{task}");
    let call = task["status"]["message"]["parts"][1]["data"]["toolCalls"][0].clone();
    assert_eq!(call["agentPath"], json!(["first", "second", "third"]), "{task}");
    server.kill_and_restart().await;
    let found = rpc(&server, "first", "GetTask", json!({"id": task["id"]})).await;
    assert_eq!(found["status"]["message"], task["status"]["message"], "after a kill it waits for the same");
    let ended = rpc(&server, "first", "SendMessage", lookup_result(&task, &call, "7")).await["task"].clone();
    assert_eq!(ended["artifacts"][0]["parts"][0]["text"], "first(second(third(7)))", "{ended}");
    let again = rpc(&server, "first", "SendMessage", lookup_result(&task, &call, "7")).await["task"].clone();
    assert_eq!(again, ended, "the same result again is a replay, also for a query that has ended");
}

#[tokio::test]
async fn over_a2a_the_stream_of_a_task_says_when_a_descendant_waits_and_when_it_continues() {
    let manifests = chain();
    let server = Server::start_with(manifests.path()).await;
    let mut params = task_with_lookup("go");
    params["configuration"] = json!({"returnImmediately": true});
    let task = rpc(&server, "first", "SendMessage", params).await["task"].clone();
    let url = format!("{}/a2a/agents/default/first/tasks/{}:subscribe", server.base, task["id"].as_str().unwrap());
    let mut stream = http().post(url).header("a2a-version", "1.0").send().await.unwrap();
    let (mut text, mut posted) = (String::new(), false);
    while let Some(more) = stream.chunk().await.unwrap() {
        text.push_str(&String::from_utf8_lossy(&more));
        if !posted && text.contains("TASK_STATE_INPUT_REQUIRED") && text.ends_with("\n\n") {
            posted = true;
            let waits = rpc(&server, "first", "GetTask", json!({"id": task["id"]})).await;
            let call = &waits["status"]["message"]["parts"][1]["data"]["toolCalls"][0];
            rpc(&server, "first", "SendMessage", lookup_result(&task, call, "9")).await;
        }
    }
    let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
    let states: Vec<_> = events
        .filter_map(|event| {
            let state = event.pointer("/statusUpdate/status/state").or_else(|| event.pointer("/task/status/state"))?;
            Some(state.as_str()?.to_owned())
        })
        .collect();
    assert_eq!(states.iter().filter(|state| *state == "TASK_STATE_INPUT_REQUIRED").count(), 1, "{states:?}");
    assert_eq!(states.last().map(String::as_str), Some("TASK_STATE_COMPLETED"), "{states:?}");
    assert!(text.contains(r#""agentPath":["first","second","third"]"#), "{text}");
}

/// A plain message while a descendant waits supersedes its call.
#[tokio::test]
async fn over_a2a_a_plain_message_supersedes_the_calls_of_descendants() {
    let manifests = chain();
    let server = Server::start_with(manifests.path()).await;
    let task = rpc(&server, "first", "SendMessage", task_with_lookup("go")).await["task"].clone();
    let words = json!({"message": {
        "messageId": "w", "role": "ROLE_USER", "taskId": task["id"], "parts": [{"text": "never mind"}],
    }});
    let ended = rpc(&server, "first", "SendMessage", words).await["task"].clone();
    assert_eq!(ended["status"]["state"], "TASK_STATE_COMPLETED", "{ended}");
    let answer = ended["artifacts"][0]["parts"][0]["text"].as_str().unwrap();
    assert!(answer.starts_with("first(second(third(") && answer.contains("never mind"), "{answer}");
}
