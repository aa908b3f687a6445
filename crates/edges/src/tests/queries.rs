//! Creating, reading, listing and cancelling queries, in both views.

use std::time::Duration;

use bosun_core::QueryLimits;
use bosun_engine::{
    EngineSettings,
    testing::{CallLedger, ScriptedModel, ScriptedTurn},
};
use serde_json::{Value, json};

use super::world::{TestServer, assert_answer, calculating, fixture, plain, with_calculator};

fn saying() -> ScriptedModel {
    ScriptedModel::always(vec![ScriptedTurn::say("Hello!")])
}

fn hanging() -> ScriptedModel {
    ScriptedModel::always(vec![ScriptedTurn::default().hanging()])
}

#[tokio::test(start_paused = true)]
async fn a_query_with_its_own_tools_answers_in_the_rfcs_shape() {
    let world = TestServer::new(calculating()).await;
    let waiting = world.post("/v1/queries?wait=true", &with_calculator("q")).await.ok();
    assert_answer("rfc_waiting", &waiting);
    let result = json!({"toolName": "calculator", "toolResult": "2108"});
    assert_answer("rfc_completed", &world.post("/v1/queries/q/tool-result", &result).await.ok());
    assert_eq!(world.get("/v1/queries/q").await.ok()["status"], "completed");
}

#[tokio::test(start_paused = true)]
async fn a_query_without_answers_in_arks_shape() {
    let world = TestServer::new(saying()).await;
    assert_answer("ark_completed", &world.post("/v1/queries?wait=true", &plain("q")).await.ok());
}

#[tokio::test(start_paused = true)]
async fn either_can_be_read_in_the_other_view() {
    let world = TestServer::new(calculating()).await;
    world.post("/v1/queries?wait=true", &with_calculator("q")).await.ok();
    assert_answer("ark_waiting", &world.get("/v1/queries/q?view=ark").await.ok());
    let created = world.post("/v1/queries?view=rfc", &plain("p")).await.ok();
    assert_eq!(created["status"], "running");
    assert!(world.get("/v1/queries/p").await.ok()["status"].is_string(), "the creator's view is kept");
}

#[tokio::test(start_paused = true)]
async fn a_failed_query_says_why_in_both_views() {
    let world = TestServer::new(ScriptedModel::always(vec![ScriptedTurn::refuse(401, "no such key")])).await;
    assert_answer("ark_failed", &world.post("/v1/queries?wait=true", &plain("q")).await.ok());
    assert_answer("rfc_failed", &world.get("/v1/queries/q?view=rfc").await.ok());
}

#[tokio::test(start_paused = true)]
async fn a_query_can_be_cancelled_with_either_method_and_stays_cancelled() {
    let world = TestServer::new(hanging()).await;
    world.post("/v1/queries", &plain("q")).await.ok();
    let cancelled = world.send("PATCH", "/v1/queries/q/cancel", &[], "").await.ok();
    assert_answer("ark_cancelled", &cancelled);
    assert_eq!(world.post("/v1/queries/q/cancel", &json!({"reason": "again"})).await.ok(), cancelled);
    world.post("/v1/queries", &plain("p")).await.ok();
    let reason = json!({"reason": "not needed any more"});
    let cancelled = world.post("/v1/namespaces/default/queries/p/cancel?view=rfc", &reason).await.ok();
    assert_answer("rfc_cancelled", &cancelled);
    let ark = world.get("/v1/queries/p").await.ok();
    assert_eq!(ark["status"]["response"]["content"], "not needed any more");
}

#[tokio::test(start_paused = true)]
async fn without_wait_the_answer_comes_at_once() {
    let world = TestServer::new(hanging()).await;
    assert_eq!(world.post("/v1/queries", &plain("q")).await.ok()["state"], "running");
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_when_the_time_is_over() {
    let world = TestServer::new(hanging()).await;
    world.post("/v1/queries", &plain("q")).await.ok();
    for (wait, seconds) in [("20s", 20), ("3", 3), ("true", 25), ("1m", 60), ("0", 0), ("false", 0)] {
        let before = tokio::time::Instant::now();
        assert_eq!(world.get(&format!("/v1/queries/q?wait={wait}")).await.ok()["state"], "running");
        assert_eq!(before.elapsed().as_secs(), seconds, "{wait}");
    }
    let before = tokio::time::Instant::now();
    let answer = world.get("/v1/queries/q?wait=1h").await;
    assert_eq!(before.elapsed(), Duration::from_secs(60));
    let warning = "`wait` of 1h0m0s was shortened to 1m0s, the longest that is served";
    assert_eq!(answer.header("warning"), Some(format!("299 - \"{warning}\"").as_str()));
    assert_eq!(answer.body["warnings"], json!([warning]));
}

#[tokio::test(start_paused = true)]
async fn the_body_may_ask_for_waiting_too_and_the_url_outranks_it() {
    let world = TestServer::new(hanging()).await;
    for (name, url, wait, seconds) in [
        ("a", "/v1/queries", json!(true), 25),
        ("b", "/v1/queries", json!("2s"), 2),
        ("c", "/v1/queries", json!(2.5), 2),
        ("d", "/v1/queries", json!(false), 0),
        ("e", "/v1/queries?wait=0", json!(true), 0),
        ("f", "/v1/queries?wait=7s", json!(false), 7),
    ] {
        let mut body = plain(name);
        body["wait"] = wait;
        let before = tokio::time::Instant::now();
        world.post(url, &body).await.ok();
        assert_eq!(before.elapsed().as_secs(), seconds, "{name}");
    }
}

/// All ways to write the same request.
fn dialects() -> Vec<(&'static str, Value)> {
    let target = json!({"type": "agent", "name": "math-assistant"});
    let (labels, annotations) = (json!({"a": "b"}), json!({"c": "d"}));
    let metadata = json!({"labels": labels, "annotations": annotations});
    let flat = json!({"input": "Hello", "target": target, "metadata": metadata, "sessionId": "s", "timeout": "1m"});
    let mut targets = flat.clone();
    targets["targets"] = json!([targets["target"].take()]);
    let mut both = flat.clone();
    both["targets"] = json!([target]);
    let spec = json!({"input": "Hello", "targets": [target], "sessionId": "s", "timeout": "60s"});
    vec![
        ("/v1/queries", flat.clone()),
        ("/v1/queries?namespace=default", flat.clone()),
        ("/v1/namespaces/default/queries", flat),
        ("/v1/queries", targets),
        ("/v1/queries", both),
        ("/v1/queries", json!({"metadata": metadata, "spec": spec})),
        (
            "/v1/queries",
            json!({"apiVersion": "ark.mckinsey.com/v1alpha1", "kind": "Query", "metadata": metadata, "spec": spec}),
        ),
        (
            "/v1/queries",
            json!({"metadata": metadata, "spec": spec, "type": "user", "selector": null, "parameters": [], "cancel": false}),
        ),
    ]
}

#[tokio::test(start_paused = true)]
async fn every_dialect_means_the_same() {
    let world = TestServer::new(saying()).await;
    let mut seen = Vec::new();
    for (path, body) in dialects() {
        let mut query = world.post(path, &body).await.ok();
        for field in ["uid", "name"] {
            query.as_object_mut().unwrap().remove(field);
        }
        seen.push(query);
    }
    assert_eq!(seen[0]["timeout"], "1m0s");
    assert_eq!(seen[0]["warnings"], json!([]));
    for query in &seen {
        assert_eq!(query, &seen[0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_may_be_in_three_places_or_absent() {
    let world = TestServer::new(saying()).await;
    let target = json!({"type": "agent", "name": "math-assistant"});
    for (index, body) in [
        json!({"name": "n-0", "input": "x", "target": target}),
        json!({"metadata": {"name": "n-1"}, "input": "x", "target": target}),
        json!({"name": "n-2", "metadata": {"name": "n-2"}, "spec": {"input": "x", "target": target}}),
        json!({"spec": {"name": "n-3", "input": "x", "target": target}}),
    ]
    .iter()
    .enumerate()
    {
        assert_eq!(world.post("/v1/queries", body).await.ok()["name"], format!("n-{index}"));
    }
    let unnamed = world.post("/v1/queries", &json!({"input": "x", "target": target})).await.ok();
    let name = unnamed["name"].as_str().unwrap();
    assert!(name.starts_with("query-"), "{name}");
    assert_eq!(world.get(&format!("/v1/queries/{name}")).await.ok()["uid"], unnamed["uid"]);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_may_be_in_the_metadata() {
    let world = TestServer::new(saying()).await;
    let mut body = plain("q");
    body["metadata"] = json!({"namespace": "other"});
    assert_eq!(world.post("/v1/queries", &body).await.ok()["namespace"], "other");
    assert_eq!(world.get("/v1/namespaces/other/queries/q").await.status, 200);
    let refused = world.post("/v1/namespaces/default/queries", &body).await;
    assert_eq!(refused.refusal(), (422, "invalid_request"));
}

#[tokio::test(start_paused = true)]
async fn unknown_fields_are_accepted_with_a_warning() {
    let world = TestServer::new(saying()).await;
    let mut body = plain("q");
    body["colour"] = json!("red");
    body["metadata"] = json!({"generateName": "x-"});
    body["target"]["weight"] = json!(3);
    body["say \"ü\""] = json!(1);
    body["absent"] = json!(null);
    let answer = world.post("/v1/queries?colour=blue", &body).await;
    let expected = [
        "unknown parameter `colour` was ignored",
        "unknown field `metadata.generateName` was ignored",
        "unknown field `target.weight` was ignored",
        "unknown field `colour` was ignored",
        "unknown field `say \"ü\"` was ignored",
    ];
    assert_eq!(answer.body["warnings"], json!(expected));
    let headers: Vec<_> = answer.headers.get_all("warning").iter().map(|value| value.to_str().unwrap()).collect();
    assert_eq!(headers.len(), expected.len());
    assert_eq!(headers[4], "299 - \"unknown field `say \\\"?\\\"` was ignored\"");
    assert_eq!(world.get("/v1/queries/q").await.ok()["warnings"], json!(expected), "they stay with the query");
}

#[tokio::test(start_paused = true)]
async fn fields_of_ark_that_are_not_served_are_refused_by_name() {
    let world = TestServer::new(saying()).await;
    let mut body = plain("q");
    for (field, value) in [
        ("serviceAccount", json!("x")),
        ("cancel", json!(true)),
        ("overrides", json!([{}])),
        ("evaluators", json!([{"name": "e"}])),
        ("evaluatorSelector", json!({"a": 1})),
    ] {
        body[field] = value;
    }
    let answer = world.post("/v1/queries", &body).await;
    assert_eq!(answer.refusal(), (422, "unsupported_field"));
    assert_answer("unsupported_fields", &answer.body);
    assert_eq!(world.get("/v1/queries/q").await.status, 404, "nothing was created");
}

#[tokio::test(start_paused = true)]
async fn all_faults_of_a_body_are_reported_at_once() {
    let world = TestServer::new(saying()).await;
    let body = json!({
        "kind": "Agent",
        "metadata": {"name": "Not A Name", "labels": {"a": 1}},
        "spec": {"input": "", "target": {"type": "agent"}, "timeout": "soon", "maxToolCalls": -1, "externalTools": [
            {"name": "a", "parameters": {"type": "array"}}, {"name": "a", "description": 5}, 7,
        ]},
    });
    let answer = world.post("/v1/queries", &body).await;
    assert_eq!(answer.refusal(), (422, "invalid_request"));
    assert_answer("many_faults", &answer.body);
}

#[tokio::test(start_paused = true)]
async fn all_faults_of_tool_definitions_are_reported_with_their_paths() {
    let world = TestServer::new(saying()).await;
    let mut body = plain("q");
    body["externalTools"] = json!([{"name": "ok"}, {"name": ""}]);
    body["tools"] = json!([
        "database_query",
        {"type": "custom", "name": "mine", "parameters": {"type": "object", "properties": {"x": {"$ref": "https://evil.example/x"}}}},
        {"name": "ok", "executionMode": "external"},
        {"name": "mine-2", "executionMode": "external", "approval": {"required": true}, "inputSchema": {}},
    ]);
    let answer = world.post("/v1/queries", &body).await;
    assert_answer("tool_faults", &answer.body);
    body["tools"][3] = Value::Null;
    body["tools"].as_array_mut().unwrap().pop();
    assert_eq!(world.post("/v1/queries", &body).await.refusal(), (422, "invalid_tool_definitions"));
}

/// The tools that the model was shown, by name and whether the client runs them.
async fn shown(extra: Value) -> (Vec<(String, bool)>, Value) {
    let world = TestServer::new(saying()).await;
    let mut body = json!({"input": "x", "target": {"type": "agent", "name": "research-assistant"}, "wait": true});
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    let answer = world.post("/v1/queries", &body).await;
    let requests = world.model.requests();
    let Some(request) = requests.first() else { panic!("{}", answer.body) };
    let tools = request.toolset.tools().iter().map(|member| (member.tool.name.clone(), member.tool.is_external()));
    (tools.collect(), answer.body)
}

#[tokio::test(start_paused = true)]
async fn tools_come_from_where_the_request_says() {
    let mine = json!({"name": "mine", "description": "d", "parameters": {"type": "object", "properties": {}}});
    let inline = json!({"type": "custom", "name": "mine", "parameters": {"type": "object", "properties": {}}});
    let (inside, outside) = (("database_query".to_owned(), false), ("mine".to_owned(), true));
    for (extra, expect, rfc) in [
        (json!({}), vec![&inside], false),
        (json!({"externalTools": []}), vec![&inside], true),
        (json!({"externalTools": [mine]}), vec![&outside, &inside], true),
        (json!({"externalTools": [mine], "toolSource": "hybrid"}), vec![&outside, &inside], true),
        (json!({"externalTools": [mine], "toolSource": "n8n"}), vec![&outside], true),
        (json!({"externalTools": [mine], "toolSource": "ark"}), vec![&inside], true),
        (json!({"tools": [inline]}), vec![&outside, &inside], true),
        (
            json!({"tools": [inline, {"type": "custom", "name": "database_query", "parameters": {}}]}),
            vec![&outside, &inside],
            true,
        ),
        (json!({"tools": ["database_query"]}), vec![&inside], false),
        (
            json!({"tools": [{"type": "builtin", "name": "database_query", "executionMode": "internal"}]}),
            vec![&inside],
            false,
        ),
    ] {
        let (tools, body) = shown(extra.clone()).await;
        assert_eq!(tools.iter().collect::<Vec<_>>(), expect, "{extra}");
        assert_eq!(body["status"].is_string(), rfc, "{extra}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_tool_source_means_ark_with_a_warning() {
    let (tools, body) = shown(json!({"externalTools": [{"name": "mine"}], "toolSource": "both"})).await;
    assert_eq!(tools.len(), 1);
    assert_eq!(
        body["warnings"],
        json!([
            "unknown tool source `both`, using `ark`; known are `ark`, `n8n` and `hybrid`",
            "`toolSource` is `ark`, so the tools of the request are not shown to the model",
        ])
    );
}

#[tokio::test(start_paused = true)]
async fn limits_are_narrowed_with_a_warning() {
    let limits = QueryLimits { max_tool_calls: 5, ..QueryLimits::default() };
    let world = TestServer::with(
        saying(),
        CallLedger::open(),
        EngineSettings { limits, ceilings: limits, ..EngineSettings::default() },
    )
    .await;
    let mut body = plain("q");
    body["timeout"] = json!("1h30m");
    body["toolTimeout"] = json!("31s");
    body["externalTimeout"] = json!("1.5h");
    body["maxToolCalls"] = json!(50);
    body["ttl"] = json!("1000h");
    let query = world.post("/v1/queries", &body).await.ok();
    assert_eq!(query["timeout"], "5m0s");
    assert_eq!(
        query["warnings"],
        json!([
            "`timeout` of 1h30m0s was narrowed to the limit of 5m0s",
            "`toolTimeout` of 31s was narrowed to the limit of 30s",
            "`externalTimeout` of 1h30m0s was narrowed to the limit of 10m0s",
            "`maxToolCalls` of 50 was narrowed to the limit of 5",
            "`ttl` of 1000h0m0s was narrowed to the limit of 720h0m0s",
        ])
    );
}

#[tokio::test(start_paused = true)]
async fn a_conversation_is_the_session_too_and_is_kept() {
    let world = TestServer::new(saying()).await;
    let mut body = plain("q");
    body["conversationId"] = json!("c");
    let query = world.post("/v1/queries", &body).await.ok();
    assert_eq!((&query["sessionId"], &query["conversationId"]), (&json!("c"), &json!("c")));
    assert_eq!((&query["memory"]["name"], &query["warnings"]), (&json!("default"), &json!([])));
}

#[tokio::test(start_paused = true)]
async fn unknown_and_foreign_queries_look_the_same() {
    let world = TestServer::new(saying()).await;
    let ask = async || {
        let (path, id) = ("/v1/namespaces/default/queries/q", [("x-request-id", "the-same")]);
        world.send("GET", path, &id, "").await
    };
    let before = ask().await;
    world.post("/v1/namespaces/other/queries", &plain("q")).await.ok();
    let after = ask().await;
    assert_answer("query_not_found", &after.body);
    assert_eq!((before.status, &before.headers, &before.body), (after.status, &after.headers, &after.body));
    for (method, path) in [
        ("GET", "/v1/queries/q"),
        ("GET", "/v1/queries/q/events"),
        ("POST", "/v1/queries/q/cancel"),
        ("POST", "/v1/queries/q/continue"),
    ] {
        assert_eq!(world.send(method, path, &[], "").await.body, before.body, "{path}");
    }
    let result = json!({"toolName": "x", "toolResult": ""});
    assert_eq!(world.post("/v1/queries/q/tool-result", &result).await.body, before.body);
}

#[tokio::test(start_paused = true)]
async fn a_name_belongs_to_one_query() {
    let world = TestServer::new(saying()).await;
    world.post("/v1/queries", &plain("q")).await.ok();
    let mut other = plain("q");
    other["input"] = json!("something else");
    let again = world.post("/v1/queries", &other).await;
    assert_eq!(again.refusal(), (409, "query_exists"));
    assert_answer("query_exists", &again.body);
    assert_eq!(world.post("/v1/queries?namespace=other", &plain("q")).await.status, 200);
}

/// Whether the answer says that the request repeats an earlier one.
fn is_replay(answer: &super::world::HttpReply) -> bool {
    answer.header("idempotent-replayed") == Some("true")
}

#[tokio::test(start_paused = true)]
async fn the_same_query_again_is_the_same_query() {
    let world = TestServer::new(saying()).await;
    let first = world.post("/v1/queries?wait=true", &plain("q")).await;
    assert!(!is_replay(&first));
    // However it is written, and however its answer is wanted.
    let mut nested = json!({"kind": "Query", "metadata": {"name": "q"}, "spec": plain("q")});
    nested["spec"].as_object_mut().unwrap().remove("name");
    for (path, body) in [
        ("/v1/queries", plain("q")),
        ("/v1/queries?wait=true", plain("q")),
        ("/v1/namespaces/default/queries", plain("q")),
        ("/v1/queries", nested),
    ] {
        let again = world.post(path, &body).await;
        assert!(is_replay(&again), "{path}");
        assert_eq!(again.body["uid"], first.body["uid"], "{path}");
    }
    let stream = world
        .send("POST", "/v1/queries?stream=true", &[("content-type", "application/json")], plain("q").to_string())
        .await;
    assert!(is_replay(&stream));
    assert_eq!(world.model.requests().len(), 1, "the model was asked once");
}

#[tokio::test(start_paused = true)]
async fn a_request_under_a_key_creates_one_query() {
    let world = TestServer::new(saying()).await;
    let unnamed = |input: &str| {
        let mut body = plain("q");
        body.as_object_mut().unwrap().remove("name");
        body["input"] = json!(input);
        body
    };
    let post = async |key: &str, body: Value| {
        let headers = [("content-type", "application/json"), ("idempotency-key", key)];
        world.send("POST", "/v1/queries?wait=true", &headers, body.to_string()).await
    };
    let first = post("k1", unnamed("Hello")).await;
    let again = post("k1", unnamed("Hello")).await;
    assert_eq!((is_replay(&first), is_replay(&again)), (false, true));
    assert_eq!(first.body["uid"], again.body["uid"]);
    assert_ne!(post("k2", unnamed("Hello")).await.body["uid"], first.body["uid"]);
    for body in [unnamed("Goodbye"), plain("named")] {
        assert_eq!(post("k1", body).await.refusal(), (422, "idempotency_key_reused"));
    }
    assert_eq!(world.get("/v1/queries/named").await.status, 404);
    let long = "k".repeat(256);
    for key in ["", "k\u{e9}", &long] {
        assert_eq!(post(key, unnamed("Hello")).await.refusal(), (400, "invalid_parameter"), "{key:?}");
    }

    let path = format!("/v1/queries/{}", first.body["name"].as_str().unwrap());
    assert_eq!(world.send("DELETE", &path, &[], "").await.status, 204);
    assert_eq!(world.get(&path).await.status, 404);
    assert_eq!(post("k1", unnamed("Hello")).await.refusal(), (410, "query_deleted"));
}

#[tokio::test(start_paused = true)]
async fn a_query_can_be_deleted_whatever_it_does_and_its_name_used_again() {
    let world = TestServer::new(calculating()).await;
    world.post("/v1/queries?wait=true", &with_calculator("q")).await.ok();
    let mut events = Box::pin(world.send("GET", "/v1/queries/q/events", &[], ""));
    assert!(futures_util::poll!(&mut events).is_pending());
    let deleted = world.send("DELETE", "/v1/namespaces/default/queries/q", &[], "").await;
    assert_eq!((deleted.status.as_u16(), &deleted.body), (204, &Value::Null));
    events.await;
    for (method, path) in [("GET", "/v1/queries/q"), ("DELETE", "/v1/queries/q"), ("POST", "/v1/queries/q/cancel")] {
        assert_eq!(world.send(method, path, &[], "").await.refusal(), (404, "query_not_found"), "{method} {path}");
    }
    let result = json!({"toolName": "calculator", "toolResult": "2108"});
    assert_eq!(world.post("/v1/queries/q/tool-result", &result).await.refusal(), (404, "query_not_found"));
    assert!(!is_replay(&world.post("/v1/queries", &with_calculator("q")).await));
}

#[tokio::test(start_paused = true)]
async fn a_query_that_has_ended_is_kept_for_its_time() {
    let limits = QueryLimits { ttl: Duration::from_secs(7_200), ..QueryLimits::default() };
    let world = TestServer::with(
        saying(),
        CallLedger::open(),
        EngineSettings { limits, ceilings: limits, ..EngineSettings::default() },
    )
    .await;
    let mut short = plain("short");
    short["ttl"] = json!("1h");
    world.post("/v1/queries?wait=true", &short).await.ok();
    world.post("/v1/queries?wait=true", &plain("long")).await.ok();
    let mut endless = plain("endless");
    endless["ttl"] = json!("9000h");
    let warnings = world.post("/v1/queries?wait=true", &endless).await.ok()["warnings"].clone();
    assert_eq!(warnings, json!(["`ttl` of 9000h0m0s was narrowed to the limit of 2h0m0s"]));
    let there = async |name: &str| world.get(&format!("/v1/queries/{name}")).await.status == 200;
    tokio::time::sleep(Duration::from_secs(3_595)).await;
    assert!(there("short").await);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(!there("short").await && there("long").await);
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert!(!there("long").await && !there("endless").await);
}

#[tokio::test(start_paused = true)]
async fn spent_tokens_end_a_query_that_wants_more() {
    let turns = vec![ScriptedTurn::call("calculator", &json!({"expression": "1+1"})), ScriptedTurn::say("Two.")];
    for (limit, state) in [(1, "failed"), (1_000_000, "completed")] {
        let world = TestServer::new(ScriptedModel::always(turns.clone())).await;
        let mut body = plain("q");
        body["maxTokens"] = json!(limit);
        let ended = world.post("/v1/queries?wait=true&view=rfc", &body).await.ok();
        assert_eq!(ended["state"], state);
        let code = ended["error"]["code"].as_str();
        assert_eq!(code, (state == "failed").then_some("token_limit"));
    }
}

#[tokio::test(start_paused = true)]
async fn queries_are_listed_in_pages_newest_first() {
    let world = TestServer::new(
        ScriptedModel::always(vec![ScriptedTurn::default().hanging()]).on("Hello", vec![ScriptedTurn::say("Hi")]),
    )
    .await;
    for name in ["a", "b", "c", "d", "e"] {
        tokio::time::advance(Duration::from_millis(1)).await;
        world.post("/v1/queries?wait=true", &plain(name)).await.ok();
    }
    let page = world.get("/v1/queries?limit=2").await.ok();
    assert_answer("list", &page);
    let mut names = Vec::new();
    let mut path = "/v1/namespaces/default/queries?limit=2".to_owned();
    loop {
        let page = world.get(&path).await.ok();
        names.extend(page["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().to_owned()));
        assert_eq!(page["total"], 5);
        let Some(token) = page["continue_token"].as_str() else { break };
        path = format!("/v1/queries?limit=2&continue_token={token}");
    }
    assert_eq!(names, ["e", "d", "c", "b", "a"]);
    assert_eq!(world.get("/v1/queries?namespace=other").await.ok(), json!({"items": [], "count": 0, "total": 0}));
}

#[tokio::test(start_paused = true)]
async fn a_list_can_be_of_one_state_and_is_ark_shaped_always() {
    let world = TestServer::new(calculating()).await;
    world.post("/v1/queries?wait=true", &with_calculator("waits")).await.ok();
    let page = world.get("/v1/queries?state=waiting&view=rfc").await.ok();
    assert_eq!(page["items"][0]["status"]["phase"], "input-required");
    assert_eq!(world.get("/v1/queries?state=completed").await.ok()["count"], 0);
}

#[tokio::test(start_paused = true)]
async fn a_list_has_the_whole_status_of_each_query_without_its_messages() {
    let world = TestServer::new(calculating()).await;
    for name in ["done", "cancelled", "waits"] {
        world.post("/v1/queries?wait=true", &with_calculator(name)).await.ok();
    }
    let result = json!({"toolName": "calculator", "toolResult": "2108"});
    world.post("/v1/queries/done/tool-result", &result).await.ok();
    world.post("/v1/queries/cancelled/cancel", &json!({"reason": "not needed"})).await.ok();
    let listed = world.get("/v1/queries").await.ok();
    for item in listed["items"].as_array().unwrap() {
        let name = item["name"].as_str().unwrap();
        let mut status = world.get(&format!("/v1/queries/{name}?view=ark")).await.ok()["status"].take();
        let response = status.get_mut("response").and_then(Value::as_object_mut);
        let raw = response.and_then(|response| response.shift_remove("raw"));
        assert_eq!(raw.is_some(), name != "waits", "{name}");
        assert_eq!(item["status"], status, "{name}");
    }
    let status_of = |name: &str, pointer: &str| {
        let item = listed["items"].as_array().unwrap().iter().find(|item| item["name"] == name).unwrap();
        item["status"].pointer(pointer).cloned().unwrap_or_default()
    };
    assert_eq!(status_of("done", "/response/content"), "25% of 8,432 is 2,108");
    assert_eq!(status_of("cancelled", "/response/content"), "not needed");
    assert_eq!(status_of("waits", "/toolCalls/0/name"), "calculator");
}

#[tokio::test(start_paused = true)]
async fn the_messages_of_a_query_are_shown_once_it_has_ended() {
    let world = TestServer::new(calculating()).await;
    let waiting = world.post("/v1/queries?wait=true&view=ark", &with_calculator("q")).await.ok();
    assert_eq!(waiting["status"].get("response"), None);
    let (id, arguments) = (&waiting["status"]["toolCalls"][0]["id"], &waiting["status"]["toolCalls"][0]["arguments"]);
    let result = json!({"toolName": "calculator", "toolResult": "2108"});
    let done = world.post("/v1/queries/q/tool-result", &result).await.ok();
    let raw = done["status"]["response"]["raw"].as_str().unwrap();
    let function = json!({"name": "calculator", "arguments": arguments.to_string()});
    let messages = json!([
        {"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": id, "name": "calculator", "content": "2108"},
        {"role": "assistant", "content": "25% of 8,432 is 2,108"},
    ]);
    assert_eq!(serde_json::from_str::<Value>(raw).unwrap(), messages);
    assert_eq!(world.get("/v1/queries/q").await.ok()["status"]["response"]["raw"], raw);
    assert_eq!(done["status"]["responses"][0].get("raw"), None, "older clients read the text alone");
}

#[tokio::test(start_paused = true)]
async fn the_published_n8n_nodes_find_what_they_read() {
    let world = TestServer::new(ScriptedModel::always(vec![ScriptedTurn::say("4")])).await;
    for file in ["n8n-agent", "n8n-agent-advanced", "n8n-agent-tool"] {
        let body = fixture(file);
        let created = world.post("/v1/queries", &body).await.ok();
        assert_eq!(created["warnings"], json!([]), "{file}");
        let name = body["name"].as_str().unwrap();
        let query = world.get(&format!("/v1/queries/{name}?wait=true&namespace=default")).await.ok();
        let status = &query["status"];
        assert_eq!(status["phase"], "done");
        assert_eq!((&status["response"]["content"], &status["responses"][0]["content"]), (&json!("4"), &json!("4")));
        assert!(status["duration"].is_string());
        assert_eq!(query["target"]["name"], "math-assistant");
        assert_eq!(
            query["metadata"],
            body.get("metadata").map_or(json!({}), |metadata| {
                let full =
                    metadata.as_object().unwrap().iter().filter(|(_, value)| !value.as_object().unwrap().is_empty());
                Value::Object(full.map(|(key, value)| (key.clone(), value.clone())).collect())
            })
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_shuts_down_accepts_nothing_and_says_when_to_retry() {
    let world = TestServer::new(saying()).await;
    world.engine.draining().cancel();
    let answer = world.post("/v1/queries", &plain("q")).await;
    assert_eq!(answer.refusal(), (503, "shutting_down"));
    assert_eq!(answer.header("retry-after"), Some("2"));
}

#[tokio::test(start_paused = true)]
async fn a_doubled_slash_in_front_of_a_path_is_one() {
    let world = TestServer::new(saying()).await;
    for path in ["//v1/agents", "///v1/agents?namespace=default"] {
        assert_eq!(world.get(path).await.ok(), world.get("/v1/agents").await.ok(), "{path}");
    }
    for path in ["//nothing", "/v1//agents", "//"] {
        assert_eq!(world.get(path).await.status, if path == "//" { 200 } else { 404 }, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_timeout_is_none() {
    let world = TestServer::new(saying()).await;
    let mut body = plain("q");
    body["timeout"] = json!("");
    let query = world.post("/v1/queries?wait=true", &body).await.ok();
    assert_eq!(query["timeout"], "5m0s");
}
