//! Every route with every right: what a request changes, and what its answer shows.
//!
//! The gate decides whether a request is let through; these tests check what then happens. Each route of the table is
//! asked with bodies that would change something, by keys with each right alone and with some pairs of them. A key that
//! lacks what is needed changes nothing; a key without `read` sees nothing of what was asked, answered or remembered;
//! no key sees a secret.

use std::collections::BTreeSet;

use axum::{
    body::{Body, to_bytes},
    http::Request,
};
use bosun_core::Namespace;
use bosun_engine::{
    Store as _,
    metrics::MetricsText,
    store::{QueryPage, Webhooks as _, conversations::WantedConversations},
    testing::{ScriptedModel, ScriptedTurn},
};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::{
    authorization::{key, policy},
    world::TestServer,
};
use crate::{
    ark::routes::{RESOURCES, RouteEntry},
    auth::{
        Right::{self, Approve, Audit, Deliver, Manage, Read, Run},
        gate::Needs,
    },
};

/// What only `read` may see.
pub(super) const CONTENT: &[&str] = &["canary-input", "canary-answer", "canary-result", "canary-note", "canary-reason"];
/// A secret that no answer may contain.
pub(super) const SECRET: &str = "canary-secret";

/// The rights of the keys that ask.
pub(super) const KEYS: &[&[Right]] = &[
    &[Read],
    &[Run],
    &[Deliver],
    &[Approve],
    &[Manage],
    &[Audit],
    &[Run, Deliver],
    &[Run, Manage],
    &[Deliver, Manage],
    &[Read, Run],
    &[Read, Deliver],
    &[Read, Approve],
    &[Read, Manage],
    &[Read, Run, Manage],
];

pub(super) fn id_of(rights: &[Right]) -> String {
    rights.iter().map(|right| right.as_str()).collect::<Vec<_>>().join("-")
}

/// A server with a query in each state that a request can do something to, a conversation and stored resources.
struct PlantedServer {
    world: TestServer,
    /// The calls of `done`, `waits`, `held` and `asks`.
    calls: Vec<(&'static str, String)>,
    /// A call that a worker has claimed, and its lease.
    claimed: (String, String),
}

fn script() -> ScriptedModel {
    ScriptedModel::default()
        .on(
            "canary-input",
            vec![
                ScriptedTurn::call("ask_client", &json!({"question": "argument"})),
                ScriptedTurn::say("canary-answer"),
            ],
        )
        .on("mine", vec![ScriptedTurn::say("my answer")])
        .on(
            r#"{"input":"mine","output":"my answer"}"#,
            vec![ScriptedTurn::say(r#"{"score": 0.5, "reasoning": "It is mine."}"#)],
        )
        // The judge of what was planted is still thinking.
        .on(r#"{"input":"canary-input","output":"canary-answer"}"#, vec![ScriptedTurn::default().hanging()])
}

async fn plant() -> PlantedServer {
    let world = TestServer::storing(script()).await;
    let mut calls = Vec::new();
    for name in ["done", "waits", "held"] {
        let cache = (name == "done").then_some(60);
        let body = json!({
            "name": name, "input": "canary-input", "target": {"type": "agent", "name": "math-assistant"},
            "externalTools": [{"name": "ask_client", "cache": cache}], "memory": "long", "conversationId": format!("talk-{name}"),
            "ttl": "1h", "metadata": {"annotations": {"note": "canary-note"}}, "canary-note": 1,
        });
        let asked = world.post("/v1/queries?wait=true", &body).await.ok();
        calls.push((name, asked["toolCall"]["id"].as_str().unwrap().to_owned()));
    }
    let body = json!({
        "name": "asks", "input": "{\"question\": \"argument\"}", "target": {"type": "tool", "name": "risky"},
        "ttl": "1h", "metadata": {"annotations": {"note": "canary-note"}}, "canary-note": 1,
    });
    let asked = world.post("/v1/queries?wait=true", &body).await.ok();
    calls.push(("asks", asked["status"]["approvals"][0]["id"].as_str().unwrap().to_owned()));
    let result = json!({"toolName": "ask_client", "toolResult": "canary-result"});
    assert_eq!(world.post("/v1/queries/done/tool-result", &result).await.ok()["state"], "completed");
    let held = json!({"toolName": "ask_client", "toolResult": "canary-result", "continueExecution": false});
    assert_eq!(world.post("/v1/queries/held/tool-result", &held).await.ok()["state"], "held");
    let served = json!({"name": "served", "input": "{}", "target": {"type": "tool", "name": "ask_client"}});
    world.post("/v1/queries?wait=true", &served).await.ok();
    let claimed = world.get("/v1/tool-calls?tools=ask_client").await.ok();
    let text = |name: &str| claimed["items"][0][name].as_str().expect("a claimed call").to_owned();
    let claimed = (text("id"), text("lease"));
    for (kind, spec) in [
        ("agents", json!({"prompt": "Be brief."})),
        ("memories", json!({"maxMessages": 5})),
        ("teams", json!({"strategy": "sequential", "members": []})),
        ("evaluators", json!({"parameters": [{"name": "model.name", "value": "default"}]})),
        ("models", secret_model()),
        (
            "tools",
            json!({"type": "http", "http": {"url": format!("https://h/x?key={SECRET}&page=2"), "headers": [{"name": "x", "value": {"value": SECRET}}]}}),
        ),
        (
            "mcp-servers",
            json!({"address": {"value": format!("https://user:{SECRET}@h/mcp?token={SECRET}")}, "transport": "http"}),
        ),
        (
            "a2a-servers",
            json!({
                "address": {"value": format!("https://user:{SECRET}@h/a2a?token={SECRET}")},
                "headers": [{"name": "x-key", "value": {"value": SECRET}}],
            }),
        ),
        ("resources/api/v1/configmaps", json!({})),
    ] {
        let answer = world.post(&format!("/v1/{kind}"), &json!({"name": "stored", "spec": spec})).await;
        assert_eq!(answer.status, 200, "{kind}: {}", answer.body);
        assert!(!answer.body.to_string().contains(SECRET), "{kind}: {}", answer.body);
    }
    let judged = json!({
        "name": "judging", "evaluator": {"name": "stored", "parameters": [{"name": "context", "value": "canary-note"}]},
        "config": {"input": "canary-input", "output": "canary-answer"},
    });
    world.post("/v1/evaluations", &judged).await.ok();
    let keys = KEYS.iter().map(|rights| key(&id_of(rights), &["default"], rights.iter().copied().collect())).collect();
    PlantedServer { world: world.guarded(&policy(keys)), calls, claimed }
}

/// A model with keys in all the places where people write them.
fn secret_model() -> Value {
    json!({"provider": "openai", "model": {"value": "m"}, "config": {"openai": {
        "baseUrl": {"value": format!("https://user:{SECRET}@h/v1?api-key={SECRET}&api-version=2024-10-21&sig={SECRET}")},
        "apiKey": {"value": SECRET},
        "headers": [{"name": "x-auth", "value": {"value": SECRET}}],
        "properties": {
            "api_key": {"value": SECRET},
            "password": {"value": SECRET},
            "temperature": {"value": "0.5"},
            "endpoint": {"value": format!("https://h?access_token={SECRET}")},
        },
    }}})
}

/// One request, and the rights that its effect needs in addition to those of the route.
#[derive(Debug)]
struct SentRequest {
    path: String,
    media_type: &'static str,
    body: String,
    also: Option<Right>,
}

impl SentRequest {
    fn json(path: &str, body: &Value) -> Self {
        Self { path: path.to_owned(), media_type: "application/json", body: body.to_string(), also: None }
    }

    fn also(self, right: Right) -> Self {
        Self { also: Some(right), ..self }
    }
}

/// What is asked of a route. One without a row of its own is asked with an empty body.
fn requests(route: &RouteEntry, PlantedServer { calls, claimed, .. }: &PlantedServer) -> Vec<SentRequest> {
    let whole = format!("/v1/namespaces/default{}", route.path);
    let path = whole
        .replace("{group}", "ark.mckinsey.com")
        .replace("{kind}", if route.path.contains("{group}") { "agents" } else { "configmaps" });
    let path = path.replace("{version}", if route.path.contains("{group}") { "v1alpha1" } else { "v1" });
    if route.path.starts_with("/queries/{name}") {
        return calls.iter().flat_map(|(name, call)| of_query(route, &path, name, call)).collect();
    }
    let one = |body: Value| vec![SentRequest::json(&path, &body)];
    match (route.method, route.path) {
        ("post", "/queries") => one(json!({
            "name": "new", "input": "mine", "target": {"type": "agent", "name": "math-assistant"}, "wait": "5s",
        })),
        ("post", "/evaluations") => {
            let evaluator = json!({"name": "stored"});
            let texts = json!({"input": "mine", "output": "my answer"});
            let query = json!({"queryRef": {"name": "done"}});
            vec![
                SentRequest::json(
                    &path,
                    &json!({"name": "new", "evaluator": evaluator, "config": texts, "wait": "5s"}),
                ),
                SentRequest::json(&path, &json!({"type": "query", "evaluator": evaluator, "config": query})).also(Read),
            ]
        }
        (_, sub) if sub.starts_with("/evaluations/") => {
            vec![SentRequest::json(&path.replace("{name}", "judging"), &json!({}))]
        }
        ("post", "/models/{name}/query") => {
            vec![SentRequest::json(&path.replace("{name}", "default"), &json!({"prompt": "mine"}))]
        }
        (_, "/memories/{name}/conversations/{id}/messages") => {
            vec![SentRequest::json(&path.replace("{name}", "long").replace("{id}", "talk-done"), &json!({}))]
        }
        (_, sub) if sub.starts_with("/conversations") || sub.starts_with("/sessions") => {
            vec![SentRequest::json(&path.replace("{name}", "done").replace("{id}", "talk-done"), &json!({}))]
        }
        // A claim is a change, although it is a GET: `tests/it/audit_coverage.rs` has it.
        ("get", "/tool-calls") => vec![SentRequest::json(&format!("{path}?tools=none"), &json!({}))],
        ("post", "/tool-calls/{id}/heartbeat" | "/tool-calls/{id}/result") => {
            let (call, lease) = claimed;
            vec![SentRequest::json(&path.replace("{id}", call), &json!({"lease": lease, "result": "brought"}))]
        }
        ("post", "/mcp-servers/{name}/approve") => {
            vec![SentRequest::json(&path.replace("{name}", "stored"), &json!({}))]
        }
        ("post", "/a2a-tasks/{name}/approval") => {
            let task =
                calls.iter().find(|(name, _)| *name == "asks").map(|(_, call)| call.as_str()).unwrap_or_default();
            vec![SentRequest::json(&path.replace("{name}", task), &json!({"decision": "approved"}))]
        }
        ("post", _) => one(json!({"name": "new", "spec": {"description": "new"}})),
        ("put", _) => {
            vec![SentRequest::json(&path.replace("{name}", "stored"), &json!({"spec": {"description": "changed"}}))]
        }
        _ => vec![SentRequest::json(&path.replace("{name}", "stored"), &json!({}))],
    }
}

fn of_query(route: &RouteEntry, path: &str, name: &str, call: &str) -> Vec<SentRequest> {
    let path = path.replace("{name}", name).replace("{id}", call);
    match (route.method, route.path) {
        // A stream of a query that has not ended does not end either.
        ("get", "/queries/{name}/events") if name != "done" => Vec::new(),
        ("put", "/queries/{name}") => {
            let mut asked: Vec<_> =
                [json!({}), json!({"metadata": {"labels": {"a": "b"}}}), json!({"ttl": "2h"}), json!({"cancel": true})]
                    .iter()
                    .map(|body| SentRequest::json(&path, body))
                    .collect();
            for view in ["rfc", "ark"] {
                asked.push(SentRequest::json(&format!("{path}?view={view}"), &json!({"metadata": {}})));
            }
            asked.push(SentRequest::json(&path, &json!({"ttl": "1ms"})).also(Manage));
            asked.push(SentRequest::json(&path, &json!({"ttl": "59m", "cancel": true})).also(Manage));
            asked
        }
        ("put", _) => vec![SentRequest { path, media_type: "text/plain", body: "brought".into(), also: None }],
        ("post", "/queries/{name}/tool-result") => {
            let one = json!({"toolName": "ask_client", "toolResult": "brought"});
            let batch = json!({"toolResults": [{"toolCallId": call, "toolResult": "canary-result"}]});
            let batch = Value::from(
                batch.to_string().replace("canary-result", if name == "waits" { "brought" } else { "canary-result" }),
            );
            let batch = serde_json::from_str(batch.as_str().unwrap_or_default()).unwrap_or_default();
            ["", "?view=rfc", "?view=ark"]
                .iter()
                .flat_map(|view| [&one, &batch].map(|body| SentRequest::json(&format!("{path}{view}"), body)))
                .collect()
        }
        ("post", "/queries/{name}/approval") => ["approved", "rejected"]
            .iter()
            .map(|decision| SentRequest::json(&path, &json!({"decision": decision})))
            .collect(),
        ("get", "/queries/{name}") => ["", "?view=rfc", "?view=ark"]
            .iter()
            .map(|view| SentRequest::json(&format!("{path}{view}"), &json!({})))
            .collect(),
        _ => ["", "?view=rfc", "?view=ark"]
            .iter()
            .map(|view| SentRequest::json(&format!("{path}{view}"), &json!({})))
            .collect(),
    }
}

/// Everything that a request can change.
pub(super) async fn fingerprint(world: &TestServer) -> String {
    let namespace = Namespace::default();
    let page = QueryPage { limit: 1_000, ..QueryPage::default() };
    let listed = world.engine.list(&namespace, &page).await.unwrap();
    let mut webhooks = Vec::new();
    for (head, _) in &listed.queries {
        let found = world.store.webhooks(&namespace, head.uid).await.unwrap();
        webhooks.extend(found.into_iter().map(|webhook| (webhook.id, webhook.target)));
    }
    let queries: Vec<_> =
        listed.queries.iter().map(|(head, _)| format!("{} {} {}", head.name, head.uid, head.seq)).collect();
    let turns =
        world.engine.conversation_turns(&namespace, &WantedConversations::default(), None, 1_000).await.unwrap();
    let resources = world.store.resources(None).await.unwrap();
    let resources: Vec<_> = resources.iter().map(|one| format!("{} {}", one.manifest.key, one.generation)).collect();
    let server = world.engine.registry().tool_server(&namespace, "stored");
    let usable = server.map(|status| status.tool_count());
    let mut metrics = MetricsText::default();
    world.engine.write_metrics(&mut metrics).await.unwrap();
    let metrics = metrics.finish();
    let cached = metrics.lines().find(|line| line.starts_with("bosun_tool_cache_bytes"));
    format!("{queries:?} {} of {} {resources:?} {webhooks:?} {usable:?} {cached:?}", turns.items.len(), turns.total)
}

async fn send(world: &TestServer, route: &RouteEntry, asked: &SentRequest, rights: &[Right]) -> (u16, String) {
    let request = Request::builder()
        .method(route.method.to_uppercase().as_str())
        .uri(&asked.path)
        .header("host", "localhost")
        .header("content-type", asked.media_type)
        .header("authorization", format!("Bearer sk-{}", id_of(rights)));
    let response = world.router.clone().oneshot(request.body(Body::from(asked.body.clone())).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    let headers = format!("{:?}", parts.headers);
    let body = to_bytes(body, usize::MAX).await.unwrap();
    (parts.status.as_u16(), format!("{headers}\n{}", String::from_utf8_lossy(&body)))
}

#[tokio::test]
async fn a_request_changes_and_shows_no_more_than_the_rights_of_its_key() {
    let mut planted = plant().await;
    let mut before = fingerprint(&planted.world).await;
    let (mut checked, mut without_effect) = (0, BTreeSet::new());
    for route in RESOURCES {
        let Needs::Here(right) = route.needs else { panic!("{} is in no namespace", route.path) };
        if route.method != "get" {
            without_effect.insert((route.method, route.path));
        }
        for number in 0..requests(route, &planted).len() {
            for rights in KEYS {
                let asked = requests(route, &planted).swap_remove(number);
                let (status, text) = send(&planted.world, route, &asked, rights).await;
                let place = format!("{} {} {} with {rights:?}: {status} {text}", route.method, asked.path, asked.body);
                let after = fingerprint(&planted.world).await;
                let may = rights.contains(&right) && asked.also.is_none_or(|also| rights.contains(&also));
                if !may {
                    assert_eq!(status, 403, "{place}");
                    assert_eq!(after, before, "{place}");
                } else {
                    assert!(!matches!(status, 401 | 403), "{place}");
                }
                assert!(!text.contains(SECRET), "{place}");
                if !rights.contains(&Read) {
                    for content in CONTENT {
                        assert!(!text.contains(content), "{content} in {place}");
                    }
                }
                checked += 1;
                if after != before {
                    assert_ne!(route.method, "get", "{place}");
                    without_effect.remove(&(route.method, route.path));
                    planted = plant().await;
                    before = fingerprint(&planted.world).await;
                }
            }
        }
    }
    assert_eq!(without_effect, BTreeSet::new(), "a route whose effect was never observed proves nothing");
    assert!(checked > 1_000, "{checked}");
}

/// The matrix would pass if there were nothing to see.
#[tokio::test]
async fn a_key_with_read_sees_what_was_planted() {
    let planted = plant().await;
    let get = RESOURCES.iter().find(|route| route.method == "get" && route.path == "/queries/{name}").unwrap();
    let asked = SentRequest::json("/v1/namespaces/default/queries/done?view=ark", &json!({}));
    let (_, text) = send(&planted.world, get, &asked, &[Read]).await;
    for content in ["canary-input", "canary-answer", "canary-result", "canary-note"] {
        assert!(text.contains(content), "{content} in {text}");
    }
}

/// A caller that only delivers sees the calls to run, and nothing else.
#[tokio::test]
async fn without_read_an_answer_has_the_state_and_the_calls() {
    let planted = plant().await;
    let cancel = RESOURCES.iter().find(|route| route.path == "/queries/{name}/continue").unwrap();
    for (view, expect) in [
        ("rfc", json!({"state": "waiting", "status": "tool_call_required"})),
        ("ark", json!({"state": "waiting", "status": {"phase": "input-required"}})),
    ] {
        let put = RESOURCES.iter().find(|route| route.method == "put" && route.path == "/queries/{name}").unwrap();
        let asked = SentRequest::json(&format!("/v1/namespaces/default/queries/waits?view={view}"), &json!({}));
        let (_, text) = send(&planted.world, put, &asked, &[Run]).await;
        let body: Value = serde_json::from_str(text.split_once('\n').unwrap().1).unwrap();
        let mut names: Vec<_> = body.as_object().unwrap().keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(body["state"], expect["state"]);
        let calls = if view == "rfc" {
            assert_eq!(names, ["name", "namespace", "state", "status", "toolCall", "toolCalls", "uid", "warnings"]);
            assert_eq!(body["status"], expect["status"]);
            &body["toolCalls"]
        } else {
            assert_eq!(names, ["name", "namespace", "state", "status", "uid", "warnings"]);
            assert_eq!(body["status"]["phase"], expect["status"]["phase"]);
            assert_eq!(body["status"].as_object().unwrap().len(), 2);
            &body["status"]["toolCalls"]
        };
        assert_eq!(calls[0]["arguments"], json!({"question": "argument"}), "what to run");
        assert_eq!(body["warnings"], json!([]), "the warnings of its creator are not shown");
    }
    let asked = SentRequest::json("/v1/namespaces/default/queries/held/continue", &json!({}));
    let (status, text) = send(&planted.world, cancel, &asked, &[Run]).await;
    assert_eq!(status, 200);
    assert!(text.contains("\"completed\"") && !text.contains("canary"), "{text}");
}

/// What was hidden is refused when it comes back, and the secret stays what it was.
#[tokio::test]
async fn a_shown_resource_that_is_sent_back_does_not_overwrite_its_secrets() {
    let world = TestServer::storing(script()).await;
    world.post("/v1/models", &json!({"name": "m", "spec": secret_model()})).await.ok();
    let shown = world.get("/v1/models/m").await.ok();
    let base = shown["config"]["openai"]["baseUrl"]["value"].as_str().unwrap();
    assert!(base.contains("api-version=2024-10-21") && base.starts_with("https://"), "{base}");
    assert_eq!(shown["config"]["openai"]["properties"]["temperature"]["value"], "0.5", "no secret is hidden");
    for part in ["baseUrl", "apiKey", "properties", "headers"] {
        let sent = json!({"config": {"openai": {part: shown["config"]["openai"][part]}}});
        let headers = [("content-type", "application/json")];
        let refused = world.send("PUT", "/v1/models/m", &headers, sent.to_string()).await;
        assert_eq!(refused.refusal(), (422, "invalid_request"), "{part}: {}", refused.body);
        assert_eq!(refused.body["error"]["details"][0]["code"], "hidden_value", "{part}");
    }
    let stored = world.store.resources(None).await.unwrap();
    let spec = serde_json::to_string(&stored[0].manifest.description.spec).unwrap();
    assert_eq!(spec.matches(SECRET).count(), 8, "{spec}");
    // The word alone is not a secret.
    let body = json!({"name": "a", "spec": {"prompt": "Write [hidden] where something is hidden"}});
    world.post("/v1/agents", &body).await.ok();
}
