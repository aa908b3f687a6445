//! How an agent configures its tools: builtin ones that end a query, parameters of its own, and filtered results.

use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    program::Server,
    recovery::{crash_at, runs},
    scripted::MODEL,
    support::{
        client::{Client, http},
        server::{ProcessExit, Started, World},
    },
};

/// A directory of an agent with `tools`, other manifests, and the script of its model.
pub(crate) fn agent(tools: &str, others: &str, script: &str) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let agent = format!(
        "{MODEL}---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Agent
metadata: {{name: tester}}
spec:
  prompt: Do as the script says.
  tools: {tools}
{others}"
    );
    std::fs::write(directory.path().join("agents.yaml"), agent).unwrap();
    std::fs::write(directory.path().join("model.script.yaml"), script).unwrap();
    directory
}

/// The query that asks the agent, when it has ended.
async fn ask(server: &Server, more: Value) -> Value {
    let mut body = json!({"name": "q", "input": "go", "target": {"type": "agent", "name": "tester"}});
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    let answer = Client::of(&server.base).ask(&Method::POST, "?wait=20s&view=rfc", Some(&body)).await;
    answer.expect("an answer").body
}

#[tokio::test]
async fn terminate_completes_the_query_with_its_response() {
    let script = r#"
scenes:
  - when: go
    turns:
      - call:
          - {tool: calculator, arguments: {expression: "6 * 7"}}
          - {tool: terminate, arguments: {response: "that is all"}}
      - say: "the model is not asked again"
"#;
    let manifests = agent("[{type: builtin, name: terminate}, {type: builtin, name: calculator}]", "", script);
    let server = Server::start_with(manifests.path()).await;
    let ended = ask(&server, json!({})).await;
    assert_eq!((&ended["state"], &ended["response"]), (&json!("completed"), &json!("that is all")), "{ended}");
    let history = ended["toolExecutionHistory"].as_array().unwrap();
    assert_eq!(history.len(), 2, "calls of the same turn are run: {ended}");
}

#[tokio::test]
async fn terminate_without_a_response_is_refused_and_the_model_continues() {
    let script = r#"
scenes:
  - when: go
    turns:
      - call: [{tool: terminate, arguments: {}}]
      - say: "{{ result.terminate }}"
"#;
    let manifests = agent("[{type: builtin, name: terminate}]", "", script);
    let server = Server::start_with(manifests.path()).await;
    let ended = ask(&server, json!({})).await;
    assert_eq!(ended["state"], "completed");
    assert!(ended["response"].as_str().unwrap().contains("response"), "{ended}");
}

#[tokio::test]
async fn the_response_of_terminate_has_to_match_the_schema_of_answers() {
    let script = r#"
scenes:
  - when: go
    turns:
      - call: [{tool: terminate, arguments: {response: "no object"}}]
  - when: This answer is not what was asked for
    turns:
      - call: [{tool: terminate, arguments: {response: '{"sum": 42}'}}]
"#;
    let manifests = agent(
        "[{type: builtin, name: terminate}]",
        "  outputSchema: {type: object, properties: {sum: {type: number}}, required: [sum]}\n",
        script,
    );
    let server = Server::start_with(manifests.path()).await;
    let ended = ask(&server, json!({})).await;
    assert_eq!((&ended["state"], &ended["response"]), (&json!("completed"), &json!(r#"{"sum": 42}"#)), "{ended}");
}

const FORECAST: &str = "---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {units: '{{ metric }}'}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Tool
metadata: {name: forecast}
spec:
  type: builtin
  builtin: {name: noop}
  inputSchema:
    type: object
    properties: {city: {type: string}, days: {type: integer}, units: {type: string}, detail: {type: string}}
    required: [city, days, units, detail]
    additionalProperties: false
";

const FORECAST_HERE: &str = "
    - type: custom
      name: forecast_here
      partial:
        name: forecast
        parameters:
          - {name: city, value: '{{ .Query.town }}, {{.Query.country}}'}
          - {name: days, valueFrom: {queryParameterRef: {name: days}}}
          - {name: units, valueFrom: {configMapKeyRef: {name: settings, key: units}}}";

#[tokio::test]
async fn preset_parameters_are_hidden_from_the_model_and_added_to_the_call() {
    let script = r#"
scenes:
  - when: go
    turns:
      - call: [{tool: forecast_here, arguments: {detail: "rain", city: "Rome"}}]
      - call: [{tool: forecast_here, arguments: {detail: "rain"}}]
      - say: "{{ result.forecast_here }}"
"#;
    let manifests = agent(FORECAST_HERE, FORECAST, script);
    let server = Server::start_with(manifests.path()).await;
    let refused = ask(&server, json!({})).await;
    assert_eq!(refused["error"]["code"], "missing_parameters", "{refused}");
    for name in ["country", "days", "town"] {
        assert!(refused["error"]["message"].as_str().unwrap().contains(&format!("`{name}`")), "{refused}");
    }
    let parameter = |name: &str, value: &str| json!({"name": name, "value": value});
    let parameters = [parameter("town", "Paris"), parameter("country", "France"), parameter("days", "3")];
    let ended = ask(&server, json!({ "parameters": parameters })).await;
    let expected = json!({"detail": "rain", "city": "Paris, France", "days": 3, "units": "{{ metric }}"});
    assert_eq!(ended["response"].as_str(), Some(expected.to_string().as_str()), "{ended}");
    let history = ended["toolExecutionHistory"].as_array().unwrap();
    assert_eq!(history[0]["error"]["code"], "invalid_arguments", "the model has no `city` to set: {ended}");
}

#[tokio::test]
async fn an_agent_describes_a_tool_in_its_own_words() {
    let tools = "[{type: builtin, name: noop, description: Repeats what this agent says}]";
    let manifests = agent(tools, "", "otherwise: [{say: x}]");
    let server = Server::start_with(manifests.path()).await;
    let client = http();
    let get = async |path: &str| -> Value {
        client.get(format!("{}/v1/{path}", server.base)).send().await.unwrap().json().await.unwrap()
    };
    let agent = get("agents/tester").await;
    assert_eq!(agent["toolDetails"][0]["description"], "Repeats what this agent says", "{agent}");
    let tool = get("tools/noop").await;
    assert_ne!(tool["description"], agent["toolDetails"][0]["description"], "{tool}");
}

/// An agent whose one tool repeats its arguments, filtered.
async fn filtered(functions: &str, arguments: &str) -> Value {
    let tools = format!("[{{type: builtin, name: noop, functions: {functions}}}]");
    let script =
        format!("otherwise:\n  - call: [{{tool: noop, arguments: {arguments}}}]\n  - say: '{{{{ result.noop }}}}'\n");
    let manifests = agent(&tools, "", &script);
    let server = Server::start_with(manifests.path()).await;
    ask(&server, json!({})).await
}

#[tokio::test]
async fn filters_are_applied_to_a_result_in_order() {
    let items = "{items: [{name: a, price: 2}, {name: b, price: 3}], more: true}";
    for (functions, expect) in [
        (r#"[{name: jq, value: ".items[].name"}]"#, r#"["a","b"]"#),
        (r#"[{name: jq, value: ".items"}, {name: jq, value: "map(.price) | add"}]"#, "5"),
        (r#"[{name: jq, value: ".items[0].name"}]"#, "a"),
        (r#"[{name: jq, value: ".items[] | select(.price > 9)"}]"#, "[]"),
    ] {
        let ended = filtered(functions, items).await;
        assert_eq!(ended["response"], expect, "{functions}: {ended}");
    }
    let failed = filtered(r#"[{name: jq, value: ".items + 1"}]"#, items).await;
    let outcome = &failed["toolExecutionHistory"][0]["error"];
    assert_eq!(outcome["code"], "function_failed", "{failed}");
    assert!(outcome["message"].as_str().unwrap().starts_with("the filter `.items + 1` failed"), "{failed}");
    assert_eq!(failed["state"], "completed", "the model reads it");
}

/// The filter is foreign code: it may neither keep a thread nor take the server's memory.
#[tokio::test]
async fn a_filter_that_does_not_end_or_takes_all_memory_is_reported_to_the_model() {
    for (filter, expect) in [
        ("last(repeat(1))", "5 s"),
        ("[range(1000000000)] | length", "5 s"),
        ("reduce range(40) as $i (\\\"x\\\"; . + .) | length", "MiB of memory"),
        // Many values of a megabyte: the limit is on their sum.
        ("[range(350) | (\\\"x\\\" * (1000000 + .))] | length", "MiB of memory"),
        ("[limit(5000000; repeat(\\\"xxxxxxxxxx\\\"))]", ""),
    ] {
        let ended = filtered(&format!(r#"[{{name: jq, value: "{filter}"}}]"#), "{}").await;
        let outcome = &ended["toolExecutionHistory"][0]["error"];
        assert_eq!(outcome["code"], "function_failed", "{filter}: {ended}");
        assert!(outcome["message"].as_str().unwrap().contains(expect), "{filter}: {outcome}");
        assert_eq!(ended["state"], "completed", "{filter}: the server continues");
    }
}

/// A tool of the catalogue that clients run, an agent that filters its results, and a model that repeats what it reads.
fn outside(filter: &str) -> (String, &'static str, &'static str) {
    let tools = format!(r#"[{{type: external, name: search, functions: [{{name: jq, value: "{filter}"}}]}}]"#);
    let tool = "---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Tool
metadata: {name: search}
spec: {type: external, description: Searches where the client is}
";
    let script = "otherwise:\n  - call: [{tool: search, arguments: {}}]\n  - say: '{{ result.search }}'\n";
    (tools, tool, script)
}

/// The journal keeps what the client sent, so a repeated delivery is recognised; the model reads the filtered result.
#[tokio::test]
async fn the_result_of_a_client_is_recorded_as_it_is_and_filtered_for_the_model() {
    let long = "x".repeat(300_000);
    for (filter, result, expected, code) in [
        (".items[].name", json!({"items": [{"name": "a"}, {"name": "b"}]}), r#"["a","b"]"#, None),
        (".items | length", json!(r#"{"items": [1, 2, 3]}"#), "3", None),
        (".", json!("not JSON"), "not JSON", None),
        (".long | length", json!({"long": long}), "300000", None),
        (".items + 1", json!({"items": "a"}), "Error: the filter `.items + 1` failed", Some(())),
    ] {
        let (tools, tool, script) = outside(filter);
        let manifests = agent(&tools, tool, script);
        let server = Server::start_with(manifests.path()).await;
        let waiting = ask(&server, json!({})).await;
        assert_eq!(waiting["status"], "tool_call_required", "{waiting}");
        assert!(
            waiting.get("warnings").is_none_or(|warnings| !warnings.to_string().contains("functions")),
            "{waiting}"
        );
        let client = Client::of(&server.base);
        let delivery = json!({"toolCallId": waiting["toolCall"]["id"], "toolResult": result});
        let deliver = async || client.post("/q/tool-result?wait=20s&view=rfc", &delivery).await;
        let ended = deliver().await.body;
        let response = ended["response"].as_str().unwrap_or_default();
        assert!(
            if code.is_some() { response.starts_with(expected) } else { response == expected },
            "{filter}: {response}"
        );
        let replayed = deliver().await;
        assert_eq!(replayed.status, 200, "the same body again is a replay: {}", replayed.body);
        let history = &ended["toolExecutionHistory"][0];
        assert!(history["error"].is_null(), "the call of the client itself has not failed: {history}");
        let id = waiting["toolCall"]["id"].as_str().unwrap();
        let kept = client.get(&format!("/q/tool-calls/{id}/result")).await;
        if result.is_object() {
            assert_eq!(kept.body, result, "{filter}: verbatim");
        }
    }
}

#[tokio::test]
async fn kill_9_after_a_delivery_shows_the_model_the_filtered_result() {
    let (tools, tool, script) = outside(".items[].name");
    for fault in ["deliver.appended", "deliver.durable", "turn.started:2", "turn.replied:2"] {
        let world = world_with(&tools, tool, script);
        let Started::Ready(mut server) = world.spawn(Some(fault)).ready().await else { panic!("the server starts") };
        let client = Client::of(&server.base);
        let body = json!({"name": "q", "input": "go", "target": {"type": "agent", "name": "tester"}});
        let waiting = client.post("?wait=20s&view=rfc", &body).await.body;
        let delivery = json!({"toolCallId": waiting["toolCall"]["id"], "toolResult": {"items": [{"name": "a"}]}});
        // The process may die before it answers.
        let _ = client.ask(&Method::POST, "/q/tool-result?wait=0&view=rfc", Some(&delivery)).await;
        assert_eq!(server.exit().await, ProcessExit::AtFaultPoint, "{fault}");
        let server = world.start().await;
        let client = Client::of(&server.base);
        let again = client.post("/q/tool-result?wait=20s&view=rfc", &delivery).await;
        assert_eq!(again.status, 200, "{fault}: {}", again.body);
        let ended = client.ask(&Method::GET, "/q?wait=20s&view=rfc", None).await.expect("an answer").body;
        assert_eq!((&ended["status"], &ended["response"]), (&json!("completed"), &json!("a")), "{fault}: {ended}");
    }
}

#[tokio::test]
async fn tools_are_selected_by_their_labels_when_a_query_is_submitted() {
    let tool = |name: &str, labels: &str| {
        format!(
            "---\napiVersion: ark.mckinsey.com/v1alpha1\nkind: Tool\nmetadata: {{name: {name}, labels: {labels}}}\n\
             spec: {{type: builtin, builtin: {{name: noop}}, description: {name}}}\n"
        )
    };
    let others = [
        tool("north", "{team: red, tier: gold}"),
        tool("south", "{team: red, tier: tin}"),
        tool("east", "{team: blue, tier: gold}"),
        tool("west", "{team: red, tier: gold, old: yes-it-is}"),
    ]
    .concat();
    let selector = "[{type: custom, name: east}, {type: custom, labelSelector: {matchLabels: {team: red}, matchExpressions: \
         [{key: tier, operator: In, values: [gold, silver]}, {key: old, operator: DoesNotExist}]}, \
         functions: [{name: jq, value: .city}]}]";
    let script = r#"
otherwise:
  - call: [{tool: north, arguments: {city: Oslo}}, {tool: east, arguments: {city: Riga}}, {tool: south, arguments: {}}]
  - say: "{{ result[0] }} {{ result[1] }} {{ result[2] }}"
"#;
    let manifests = agent(selector, &others, script);
    let server = Server::start_with(manifests.path()).await;
    let ended = ask(&server, json!({})).await;
    let response = ended["response"].as_str().unwrap();
    assert!(response.starts_with(r#"Oslo {"city":"Riga"} "#), "{ended}");
    let history = ended["toolExecutionHistory"].as_array().unwrap();
    assert_eq!(history[2]["error"]["code"], "unknown_tool", "south is not selected: {ended}");
    // By name, only what the selector has.
    let body = |name: &str| json!({"name": format!("only-{name}"), "tools": [{"type": "custom", "name": name}]});
    let refused = ask(&server, body("south")).await;
    assert_eq!(refused["error"]["code"], "tools_not_found", "{refused}");
    assert_eq!(ask(&server, body("north")).await["state"], "completed");
}

/// Every point that a process passes between the reply of the model and the end of the query.
const AROUND_A_CALL: &[&str] = &[
    "turn.replied",
    "turn.ended",
    "call.starting",
    "call.started",
    "call.ran",
    "call.finished",
    "store.commit:2",
    "store.committed:2",
];

/// A world with an agent `tester` in addition to its own.
fn world_with(tools: &str, others: &str, script: &str) -> World {
    let (world, files) = (World::new(), agent(tools, others, script));
    let agents = std::fs::read_to_string(files.path().join("agents.yaml")).unwrap();
    // The world has a model of its own that is called `default`.
    let agents = agents.replacen("metadata: {name: default}", "metadata: {name: tester}", 1);
    let agents = agents.replacen("spec:\n  prompt", "spec:\n  modelRef: {name: tester}\n  prompt", 1);
    let agents = agents.replace("model.script.yaml", "tester.script.yaml");
    std::fs::write(world.path("manifests").join("tester.yaml"), agents).unwrap();
    std::fs::copy(files.path().join("model.script.yaml"), world.path("manifests").join("tester.script.yaml")).unwrap();
    world
}

/// The query `q` after a crash at `fault` and a restart; one that was not accepted is asked for again.
async fn after_crash(world: &World, fault: &str, body: &Value) -> Value {
    crash_at(world, fault, body).await;
    let server = world.start().await;
    let client = Client::of(&server.base);
    let found = client.ask(&Method::GET, "/q?wait=20s&view=rfc", None).await.expect("an answer").body;
    match found["error"]["code"].as_str() {
        Some("query_not_found") => client.post("?wait=20s&view=rfc", body).await.body,
        _ => found,
    }
}

#[tokio::test]
async fn kill_9_around_terminate_ends_the_query_with_its_response() {
    let script = r#"
otherwise:
  - call:
      - {tool: ledger, arguments: {entry: once}}
      - {tool: terminate, arguments: {response: "that is all"}}
  - say: "the model is asked again"
"#;
    let tools = "[{type: builtin, name: terminate}, {type: builtin, name: ledger}]";
    let body = json!({"name": "q", "input": "go", "target": {"type": "agent", "name": "tester"}});
    for fault in AROUND_A_CALL {
        let world = world_with(tools, "", script);
        let ended = after_crash(&world, fault, &body).await;
        assert_eq!(
            (&ended["state"], &ended["response"]),
            (&json!("completed"), &json!("that is all")),
            "{fault}: {ended}"
        );
        assert!(runs(&world, "ledger") <= 1, "{fault}: a call of the same turn ran twice");
    }
}

#[tokio::test]
async fn kill_9_around_a_call_with_preset_parameters_keeps_their_values() {
    let script = r#"
otherwise:
  - call: [{tool: forecast_here, arguments: {detail: "rain", city: "Rome"}}]
  - say: "{{ result.forecast_here }}"
"#;
    let parameter = |name: &str, value: &str| json!({"name": name, "value": value});
    let parameters = [parameter("town", "Paris"), parameter("country", "France"), parameter("days", "3")];
    let body = json!({
        "name": "q", "input": "go", "target": {"type": "agent", "name": "tester"}, "parameters": parameters,
    });
    let forecast = FORECAST.replace("additionalProperties: false", "additionalProperties: true");
    let expect = json!({"detail": "rain", "city": "Paris, France", "days": 3, "units": "{{ metric }}"});
    // A call that may be repeated is started in the append that asks for it, so it passes no point of its own there.
    for fault in AROUND_A_CALL.iter().filter(|fault| !fault.starts_with("call.start")) {
        let ended = after_crash(&world_with(FORECAST_HERE, &forecast, script), fault, &body).await;
        assert_eq!(ended["state"], "completed", "{fault}: {ended}");
        let response: Value = serde_json::from_str(ended["response"].as_str().unwrap()).unwrap();
        assert_eq!(response, expect, "{fault}: the presets win, also after a crash");
    }
}

/// The model asks for both tools; one that the filter leaves out is refused as unknown.
#[tokio::test]
async fn a_filter_of_a_query_chooses_among_the_tools_of_the_agent() {
    let tool = |name: &str, builtin: &str, more: &str| {
        format!(
            "---\napiVersion: ark.mckinsey.com/v1alpha1\nkind: Tool\nmetadata: {{name: {name}, {more}}}\nspec: {{type: \
             builtin, description: About {name}, builtin: {{name: {builtin}}}}}\n"
        )
    };
    let others = [
        tool("sums", "calculator", "labels: {kind: maths}, annotations: {category: Numbers}"),
        tool("echo", "noop", "labels: {kind: words}, annotations: {category: Texts}"),
        crate::teams::team("{strategy: sequential, members: [{name: tester, type: agent}]}"),
    ];
    let script = "
scenes:
  - when: {exactly: go}
    turns:
      - call:
          - {tool: sums, arguments: {expression: '1 + 1'}}
          - {tool: echo, arguments: {message: hello}}
      - say: done
";
    let tools = "[{type: custom, name: sums}, {type: custom, name: echo}]";
    let manifests = crate::teams::agents(&[("tester", tools)], &others.concat(), script);
    let server = Server::start_with(manifests.path()).await;
    let ask = async |kind: &str, target: &str, more: Value| {
        let mut body = json!({"input": "go", "target": {"type": kind, "name": target}});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let url = format!("{}/v1/queries?wait=20s&view=rfc", server.base);
        let answer = http().post(url).json(&body).send().await.unwrap();
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap())
    };
    for (filter, expect) in [
        (json!({}), &["sums", "echo"][..]),
        (json!({"names": ["echo"]}), &["echo"]),
        (json!({"categories": ["Numbers"]}), &["sums"]),
        (json!({"labels": {"kind": "words"}}), &["echo"]),
        (json!({"text": "sums", "limit": 1}), &["sums"]),
        // Builtin tools need no integration.
        (json!({"providers": ["notion"]}), &["sums", "echo"]),
        (json!({"readOnly": true, "labels": {"kind": "words"}}), &["echo"]),
        (json!({"readOnly": false}), &[]),
    ] {
        let (_, ended) = ask("agent", "tester", json!({"toolFilter": filter})).await;
        assert_eq!(ended["state"], "completed", "{filter}: {ended}");
        let history = ended["toolExecutionHistory"].as_array().unwrap().iter();
        let ran: Vec<_> =
            history.filter(|call| call["success"] == true).map(|call| call["toolName"].as_str().unwrap()).collect();
        assert_eq!(ran, expect, "{filter}: {ended}");
    }
    // A team has none to choose from, and a choice without effect would be a surprise.
    for choice in [json!({"toolFilter": {"names": ["echo"]}}), json!({"tools": ["echo"]})] {
        let (status, refused) = ask("team", "team", choice).await;
        assert_eq!(status, 422, "{refused}");
        assert!(refused.to_string().contains("its members have theirs"), "{refused}");
    }
}
