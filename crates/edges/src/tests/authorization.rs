//! Who may do what: every route of the tables, with every kind of key.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    http::Request,
    middleware,
    routing::get,
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bosun_core::{Actor, Event, Namespace, Timestamp};
use bosun_engine::{
    Clock as _, SystemClock,
    testing::{ScriptedModel, ScriptedTurn},
};
use serde_json::{Value, json};
use tokio::sync::watch;
use tower::ServiceExt as _;

use super::{
    streaming::Events,
    world::{HttpReply, TestServer, calculating, plain, with_calculator},
};
use crate::{
    AppState,
    a2a::routes::{AGENT, ROOT},
    ark::routes::{GLOBAL, RESOURCES, RouteEntry},
    auth::{
        Access, EndUsers, Grant, Namespaces, Policy, Right, Rights,
        gate::{self, Needs},
        keys::{ApiKey, Digest, Keyring},
    },
    server::routes::SERVER,
};

/// A key whose secret is `sk-<id>`.
pub(super) fn key(id: &str, namespaces: &[&str], rights: Rights) -> ApiKey {
    let namespaces = match namespaces {
        ["*"] => Namespaces::All,
        listed => Namespaces::Listed(listed.iter().map(|name| name.parse().unwrap()).collect()),
    };
    let actor = Actor::of_key(id).unwrap();
    let grant = Grant { actor, namespaces, rights, may_act_for: EndUsers::Listed(Vec::new()), expires: None };
    ApiKey { public: format!("pk-{id}"), digest: Digest::of(&format!("sk-{id}")), revoked: false, grant }
}

fn all_but(right: Right) -> Rights {
    Right::ALL.iter().copied().filter(|other| *other != right).collect()
}

/// The keys of the matrix.
pub(super) fn keys() -> Vec<ApiKey> {
    let mut keys = vec![
        key("own", &["default"], Rights::all()),
        key("other", &["other"], Rights::all()),
        key("both", &["other", "default"], Rights::all()),
        key("any", &["*"], Rights::all()),
        key("nowhere", &[], Rights::all()),
        key("apart", &["apart"], Rights::all()),
    ];
    for right in Right::ALL {
        let word = right.as_str();
        keys.push(key(&format!("only-{word}"), &["default"], std::iter::once(*right).collect()));
        keys.push(key(&format!("without-{word}"), &["default"], all_but(*right)));
    }
    let mut revoked = key("revoked", &["default", "old"], Rights::all());
    revoked.revoked = true;
    let mut expired = key("expired", &["default"], Rights::all());
    expired.grant.expires = Some(Timestamp(0));
    keys.extend([revoked, expired]);
    keys
}

pub(super) fn policy(keys: Vec<ApiKey>) -> watch::Sender<Arc<Policy>> {
    watch::Sender::new(Arc::new(Policy::guarded(Keyring::new(keys), Vec::new())))
}

async fn world() -> TestServer {
    let world = TestServer::new(calculating()).await;
    world.post("/v1/queries?wait=true", &with_calculator("q")).await.ok();
    world.guarded(&policy(keys()))
}

async fn ask(world: &TestServer, method: &str, path: &str, authorization: Option<&str>) -> HttpReply {
    let mut request = Request::builder().method(method.to_uppercase().as_str()).uri(path);
    request = request.header("host", "localhost").header("content-type", "application/json");
    if let Some(value) = authorization {
        request = request.header("authorization", value);
    }
    let response = world.router.clone().oneshot(request.body(Body::from("{}")).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    // A stream is dropped: that it was opened is all there is to check.
    let is_json = parts.headers.get("content-type").is_some_and(|kind| kind == "application/json");
    let body = if is_json { to_bytes(body, usize::MAX).await.unwrap() } else { Bytes::new() };
    HttpReply { status: parts.status, headers: parts.headers, body: serde_json::from_slice(&body).unwrap_or_default() }
}

async fn ask_with(world: &TestServer, route: &RouteEntry, path: &str, id: &str) -> HttpReply {
    ask(world, route.method, path, Some(&format!("Bearer sk-{id}"))).await
}

fn filled_in(path: &str) -> String {
    path.replace("{name}", "q").replace("{id}", "call_00000000000000000000000000")
}

fn is_refusal(answer: &HttpReply) -> bool {
    matches!(answer.status.as_u16(), 401 | 403)
}

#[tokio::test]
async fn every_route_asks_for_a_key_that_holds() {
    let world = world().await;
    let basic = |pair: &str| format!("Basic {}", BASE64_STANDARD.encode(pair));
    let bad = [
        None,
        Some(String::new()),
        Some("Bearer".into()),
        Some("Bearer sk-unknown".into()),
        Some("Bearer sk-revoked".into()),
        Some("Bearer sk-expired".into()),
        Some("Bearer pk-own".into()),
        Some("Bearer e30.e30.e30".into()),
        Some("sk-own".into()),
        Some(basic("pk-own:sk-other")),
        Some(basic("pk-other:sk-own")),
        Some(basic("pk-own:")),
        Some(basic("pk-revoked:sk-revoked")),
        Some(basic("pk-expired:sk-expired")),
    ];
    let mut checked = 0;
    for route in RESOURCES.iter().chain(GLOBAL).chain(SERVER).filter(|route| route.needs != Needs::Nothing) {
        for path in paths(route) {
            for authorization in &bad {
                let answer = ask(&world, route.method, &path, authorization.as_deref()).await;
                let place = format!("{} {path} {authorization:?}", route.method);
                assert_eq!(answer.refusal(), (401, "unauthorized"), "{place}");
                assert_eq!(answer.body["detail"], "Missing or invalid authorization header", "{place}");
                assert_eq!(answer.header("www-authenticate"), Some("Bearer"), "{place}");
                checked += 1;
            }
        }
    }
    assert!(checked > 300, "{checked}");
}

/// Both forms of a path, where it has two.
fn paths(route: &RouteEntry) -> Vec<String> {
    let path = filled_in(route.path);
    match route.needs {
        Needs::Here(_) => vec![format!("/v1{path}"), format!("/v1/namespaces/default{path}")],
        Needs::Nothing | Needs::AnyCaller | Needs::Reach | Needs::Everywhere(_) => vec![path],
    }
}

#[tokio::test]
async fn every_route_of_a_namespace_keeps_to_it_and_to_its_right() {
    // Each request has a world of its own: some of them change it.
    for route in RESOURCES {
        let Needs::Here(right) = route.needs else { panic!("{} is in no namespace", route.path) };
        let word = right.as_str();
        let path = filled_in(route.path);
        let (bare, spelled) = (format!("/v1{path}"), format!("/v1/namespaces/default{path}"));
        let by_query = format!("/v1{path}?namespace=default");
        for (id, path, expect) in [
            ("own", &bare, None),
            ("own", &spelled, None),
            ("own", &by_query, None),
            ("any", &bare, None),
            ("any", &spelled, None),
            ("both", &spelled, None),
            (&*format!("only-{word}"), &spelled, None),
            (&*format!("without-{word}"), &spelled, Some((403, "right_missing"))),
            (&*format!("without-{word}"), &bare, Some((403, "right_missing"))),
            ("other", &spelled, Some((403, "namespace_forbidden"))),
            ("other", &by_query, Some((403, "namespace_forbidden"))),
            ("nowhere", &spelled, Some((403, "namespace_forbidden"))),
            ("nowhere", &bare, Some((403, "namespace_forbidden"))),
        ] {
            let world = world().await;
            let answer = ask_with(&world, route, path, id).await;
            let place = format!("{} {path} with {id}: {}", route.method, answer.body);
            match expect {
                Some(refusal) => assert_eq!(answer.refusal(), refusal, "{place}"),
                None => assert!(!is_refusal(&answer), "{place}"),
            }
        }
        // Without a name, the request is for the key's own namespace, where there is no such query.
        let reads_its_body_first = path.ends_with("tool-result") || path.ends_with("approval");
        if path.starts_with("/queries/q") && !reads_its_body_first {
            for id in ["other", "both"] {
                let answer = ask_with(&world().await, route, &bare, id).await;
                assert_eq!(answer.refusal(), (404, "query_not_found"), "{} {bare} with {id}", route.method);
            }
        }
    }
}

/// ARK's dashboard hides what these permissions do not allow its user.
#[tokio::test]
async fn a_context_says_what_its_reader_may_do() {
    let world = world().await;
    let all = json!(["create", "delete", "get", "list", "update"]);
    for (id, is_read_only, agents, queries) in [
        ("own", false, all.clone(), all),
        ("only-read", true, json!(["get", "list"]), json!(["get", "list"])),
        ("without-manage", false, json!(["get", "list"]), json!(["create", "get", "list", "update"])),
        ("without-run", false, json!(["create", "delete", "get", "list", "update"]), json!(["delete", "get", "list"])),
    ] {
        let context = ask(&world, "get", "/v1/context", Some(&format!("Bearer sk-{id}"))).await.body;
        let rules = &context["permissions"]["rules"];
        let shown = (&context["read_only_mode"], &rules["agents"], &rules["queries"], &rules["mcpservers"]);
        assert_eq!(shown, (&json!(is_read_only), &agents, &queries, &agents), "{id}: {context}");
        assert_eq!((&context["permissions"]["status"], &rules["context"]), (&json!("ok"), &Value::Null), "{id}");
    }
}

/// Nothing is in `apart` and `old` but keys; that of `old` is revoked.
#[tokio::test]
async fn a_namespace_that_a_key_is_scoped_to_is_there() {
    let world = world().await;
    let own = ["any", "apart"].map(|id| format!("Bearer sk-{id}"));
    for key in &own {
        assert_eq!(ask(&world, "get", "/v1/namespaces/apart/agents", Some(key)).await.status, 200, "{key}");
        let listed = ask(&world, "get", "/v1/namespaces", Some(key)).await.body;
        assert!(listed["items"].as_array().unwrap().contains(&json!({"name": "apart"})), "{key}: {listed}");
    }
    let missing = ask(&world, "get", "/v1/namespaces/old/agents", Some(&own[0])).await;
    assert_eq!(missing.refusal(), (404, "namespace_not_found"));
    // A caller that does not reach it does not learn whether it exists.
    let hidden = ask(&world, "get", "/v1/namespaces/nowhere/agents", Some(&own[1])).await;
    assert_eq!(hidden.refusal(), (403, "namespace_forbidden"));
    let context = ask(&world, "get", "/v1/context?namespace=nowhere", Some(&own[0])).await;
    assert_eq!(context.refusal(), (404, "namespace_not_found"));
    assert_eq!(
        context.body["detail"],
        json!({"message": "Namespace 'nowhere' not found", "default_namespace": "default"})
    );
}

#[tokio::test]
async fn what_is_in_no_namespace_is_open_or_for_any_caller_with_a_key() {
    let world = world().await;
    for route in SERVER.iter().chain(GLOBAL) {
        let answer = ask(&world, route.method, route.path, None).await;
        match route.needs {
            Needs::Nothing => assert_eq!(answer.status, 200, "{}", route.path),
            Needs::AnyCaller => {
                assert_eq!(answer.status, 401, "{}", route.path);
                assert!(!is_refusal(&ask_with(&world, route, route.path, "other").await), "{}", route.path);
            }
            Needs::Everywhere(_) => {
                assert_eq!(answer.status, 401, "{}", route.path);
                let refused = ask_with(&world, route, route.path, "both").await;
                assert_eq!(refused.refusal(), (403, "namespace_forbidden"), "{}", route.path);
                assert!(!is_refusal(&ask_with(&world, route, route.path, "any").await), "{}", route.path);
            }
            Needs::Here(_) | Needs::Reach => panic!("{} is in no namespace", route.path),
        }
    }
}

#[tokio::test]
async fn what_concerns_all_namespaces_needs_the_right_in_all_of_them() {
    let access = Access::new(policy(keys()).subscribe(), Arc::new(SystemClock), Arc::default());
    let mut world = world().await;
    let app = AppState::new(world.engine.clone(), access, Vec::new());
    let gate = middleware::from_fn_with_state((app, Needs::Everywhere(Right::Audit)), gate::check);
    world.router = Router::new().route("/figures", get(async || "42").layer(gate));
    for (id, status) in [("any", 200), ("own", 403), ("both", 403), ("only-audit", 403), ("revoked", 401)] {
        assert_eq!(ask(&world, "get", "/figures", Some(&format!("Bearer sk-{id}"))).await.status, status, "{id}");
    }
    assert_eq!(ask(&world, "get", "/figures", None).await.status, 401);
}

#[test]
fn the_page_of_security_says_what_every_route_needs() {
    const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/security.md");
    let row = |prefix: &str, route: &RouteEntry| {
        let needs = match route.needs {
            Needs::Nothing => "nothing".to_owned(),
            Needs::AnyCaller => "a key".to_owned(),
            Needs::Reach => "the right of the operation".to_owned(),
            Needs::Here(right) => format!("`{}`", right.as_str()),
            Needs::Everywhere(right) => format!("`{}` in all namespaces", right.as_str()),
        };
        format!("| `{} {prefix}{}` | {needs} |\n", route.method.to_uppercase(), route.path)
    };
    let ark =
        SERVER.iter().chain(GLOBAL).map(|route| row("", route)).chain(RESOURCES.iter().map(|route| row("…", route)));
    let a2a = ROOT.iter().map(|route| row("", route)).chain(AGENT.iter().map(|route| row("{agent}", route)));
    let rows = ark.chain(a2a);
    let table =
        format!("<!-- routes -->\n| route | needs |\n|---|---|\n{}<!-- end of routes -->", rows.collect::<String>());
    let page = std::fs::read_to_string(PATH).unwrap();
    let (before, rest) = page.split_once("<!-- routes -->").expect("the beginning of the table");
    let (_, after) = rest.split_once("<!-- end of routes -->").expect("the end of the table");
    let current = format!("{before}{table}{after}");
    if std::env::var_os("BOSUN_UPDATE_DOCS").is_some() {
        std::fs::write(PATH, &current).unwrap();
    } else {
        assert!(page == current, "docs/security.md is out of date: run this test with BOSUN_UPDATE_DOCS=1");
    }
}

/// Routes come from the tables, and so does their gate: none bypasses it.
#[test]
fn no_route_is_made_outside_the_tables() {
    let mut files = vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))];
    let mut found = Vec::new();
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if !path.components().any(|part| part.as_os_str() == "tests") {
            let text = std::fs::read_to_string(&path).unwrap();
            // A method of another type that is called `route` adds none.
            let routes = text.replace("self.route(", "").matches(".route(").count();
            let routes = routes + text.matches(".route_service(").count();
            found.extend(std::iter::repeat_n(path.file_name().unwrap().to_owned(), routes));
        }
    }
    assert_eq!(found, ["routes.rs"], "the macro of the tables, and nothing else");
}

#[tokio::test]
async fn whoami_shows_what_a_key_permits() {
    let mut keys = keys();
    keys[2].grant.expires = Some(Timestamp(i64::MAX / 2));
    keys[2].grant.may_act_for = EndUsers::Any;
    let world = TestServer::new(calculating()).await.guarded(&policy(keys));
    let headers = [("authorization", "Bearer sk-both"), ("x-forwarded-user", "alice")];
    let answer = world.send("GET", "/v1/whoami", &headers, Body::empty()).await.ok();
    let expires = Timestamp(i64::MAX / 2).to_rfc3339();
    let expected = json!({
        "key": "both", "user": "alice", "namespaces": ["other", "default"],
        "rights": ["read", "run", "deliver", "approve", "manage", "audit"], "expiresAt": expires,
    });
    assert_eq!(answer, expected);
    let open = TestServer::new(calculating()).await.get("/v1/whoami").await.ok();
    assert_eq!((&open["key"], &open["namespaces"]), (&Value::Null, &json!(["*"])));
}

#[tokio::test]
async fn a_namespace_in_the_body_must_be_reached_too() {
    let world = world().await;
    let mut body = plain("mine");
    body["metadata"] = json!({"namespace": "other"});
    let post = async |id: &str, body: &Value| {
        let authorization = format!("Bearer sk-{id}");
        let headers = [("authorization", authorization.as_str()), ("content-type", "application/json")];
        world.send("POST", "/v1/queries", &headers, body.to_string()).await
    };
    assert_eq!(post("own", &body).await.refusal(), (403, "namespace_forbidden"));
    assert_eq!(post("both", &body).await.ok()["namespace"], "other");
    body["name"] = "another".into();
    assert_eq!(post("any", &body).await.ok()["namespace"], "other");
}

#[tokio::test]
async fn the_journal_names_the_key_and_the_end_user_that_it_may_act_for() {
    let mut keys = keys();
    let listed = EndUsers::Listed(vec!["alice".into(), "Ünal".into()]);
    keys[0].grant.may_act_for = listed;
    keys[3].grant.may_act_for = EndUsers::Any;
    let world = TestServer::new(calculating()).await.guarded(&policy(keys));
    let create = async |name: &str, id: &str, users: &[&str]| {
        let authorization = format!("Bearer sk-{id}");
        let mut headers = vec![("authorization", authorization.as_str()), ("content-type", "application/json")];
        headers.extend(users.iter().map(|user| ("x-forwarded-user", *user)));
        world.send("POST", "/v1/queries?namespace=default", &headers, plain(name).to_string()).await
    };
    for (name, id, user) in
        [("a", "own", None), ("b", "own", Some("alice")), ("c", "own", Some("Ünal")), ("d", "any", Some("Bob B."))]
    {
        create(name, id, user.as_slice()).await.ok();
        let Event::Created { by, .. } = &world.journal(name).await[0].event else { panic!("not created") };
        assert_eq!((by.key(), by.user()), (Some(id), user));
    }
    let headers =
        [("authorization", "Bearer sk-own"), ("content-type", "application/json"), ("x-forwarded-user", "alice")];
    let asked = world.send("POST", "/v1/models/default/query", &headers, r#"{"prompt": "Hello"}"#).await.ok();
    let Event::Created { by, .. } = &world.journal(asked["queryName"].as_str().unwrap()).await[0].event else {
        panic!("not created")
    };
    assert_eq!((by.key(), by.user()), (Some("own"), Some("alice")));
    for (users, id) in [(&["bob"][..], "own"), (&[""], "own"), (&["alice", "alice"], "own"), (&["a\tb"], "any")] {
        let refused = create("e", id, users).await;
        assert_eq!(refused.refusal(), (403, "end_user_forbidden"), "{users:?}");
    }
    // A key that may not act for end users acts as itself, with a warning.
    let warned = create("f", "both", &["alice"]).await;
    assert!(warned.header("warning").unwrap().contains("X-Forwarded-User"), "{:?}", warned.headers);
    let Event::Created { by, .. } = &world.journal("f").await[0].event else { panic!("not created") };
    assert_eq!((by.key(), by.user()), (Some("both"), None));
}

#[tokio::test]
async fn requests_of_different_actors_do_not_repeat_each_other() {
    let world = TestServer::new(calculating()).await.guarded(&policy(keys()));
    let create = async |id: &str| {
        let authorization = format!("Bearer sk-{id}");
        let headers = [
            ("authorization", authorization.as_str()),
            ("content-type", "application/json"),
            ("idempotency-key", "the-same"),
        ];
        let mut body = plain("x");
        body.as_object_mut().unwrap().remove("name");
        world.send("POST", "/v1/queries?namespace=default", &headers, body.to_string()).await.ok()["name"].clone()
    };
    assert_eq!(create("own").await, create("own").await);
    assert_ne!(create("own").await, create("any").await);
}

#[tokio::test]
async fn tenants_with_the_same_names_never_meet() {
    let world = TestServer::new(calculating()).await.guarded(&policy(keys()));
    let send = async |id: &str, method: &str, path: &str, body: Value| {
        let authorization = format!("Bearer sk-{id}");
        let headers = [("authorization", authorization.as_str()), ("content-type", "application/json")];
        world.send(method, path, &headers, body.to_string()).await
    };
    for round in 0..100 {
        let (name, path) = (format!("q-{round}"), format!("/v1/queries/q-{round}"));
        for id in ["own", "other"] {
            let mut body = with_calculator(&name);
            body["input"] = format!("the secret of {id} {round}").into();
            send(id, "POST", "/v1/queries?wait=true", body).await.ok();
        }
        for (id, namespace) in [("own", "default"), ("other", "other")] {
            let query = send(id, "GET", &path, json!({})).await.ok();
            assert_eq!(query["namespace"], namespace);
            let foreign = if id == "own" { "other" } else { "default" };
            let call = query["toolCall"]["id"].clone();
            let stolen = json!({"toolCallId": call, "toolResult": "mine"});
            let path = format!("/v1/namespaces/{foreign}/queries/{name}/tool-result");
            assert_eq!(send(id, "POST", &path, stolen).await.status, 403);
        }
        let listed = send("other", "GET", "/v1/queries?limit=1000", json!({})).await.ok();
        assert!(!listed.to_string().contains("secret of own"), "round {round}");
        assert_eq!(listed["total"], round + 1);
    }
}

/// Opens a stream on the waiting query `q`; the model never continues, so it never ends by itself.
async fn open_stream(world: &TestServer, id: &str) -> Events {
    let authorization = format!("Bearer sk-{id}");
    let headers = [("authorization", authorization.as_str())];
    Events::open(world, "GET", "/v1/namespaces/default/queries/q/events", &headers, Body::empty()).await
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_when_its_key_is_revoked_and_no_other() {
    let world = TestServer::new(calculating()).await;
    world.post("/v1/queries?wait=true", &with_calculator("q")).await.ok();
    let policy = policy(keys());
    let world = world.guarded(&policy);
    let mut ended = open_stream(&world, "own").await;
    let mut narrowed = open_stream(&world, "both").await;
    let mut kept = open_stream(&world, "any").await;
    for stream in [&mut ended, &mut narrowed, &mut kept] {
        while stream.next().await.unwrap().event != "tool_call" {}
    }
    let mut changed = keys();
    changed[0].revoked = true;
    changed[2].grant.namespaces = Namespaces::Listed(vec!["other".parse::<Namespace>().unwrap()]);
    policy.send_replace(Arc::new(Policy::guarded(Keyring::new(changed), Vec::new())));
    let before = tokio::time::Instant::now();
    assert_eq!(ended.next().await, None);
    assert_eq!(narrowed.next().await, None);
    assert!(before.elapsed() < Duration::from_millis(10), "{:?}", before.elapsed());
    let silence = tokio::time::timeout(Duration::from_secs(300), kept.next()).await;
    assert!(silence.is_err(), "{silence:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_when_its_key_expires() {
    let world = TestServer::new(calculating()).await;
    world.post("/v1/queries?wait=true", &with_calculator("q")).await.ok();
    let mut keys = keys();
    keys[0].grant.expires = Some(world.clock.now().after(Duration::from_secs(90)));
    let world = world.guarded(&policy(keys));
    let mut stream = open_stream(&world, "own").await;
    let before = tokio::time::Instant::now();
    while stream.next().await.is_some() {}
    assert_eq!(before.elapsed().as_secs(), 90);
}

/// Waits for the query `q`, whose model never answers, for as long as is permitted; returns how long that was.
async fn wait_for(world: &TestServer, id: &str, user: Option<&str>) -> (u16, String, u64) {
    let (began, authorization) = (tokio::time::Instant::now(), format!("Bearer sk-{id}"));
    let mut headers = vec![("authorization", authorization.as_str())];
    headers.extend(user.map(|user| ("x-forwarded-user", user)));
    let answer = world.send("GET", "/v1/namespaces/default/queries/q?wait=60s", &headers, Body::empty()).await;
    let (status, code) = answer.refusal();
    (status, code.to_owned(), began.elapsed().as_secs())
}

/// A world in which nothing ever happens to the query `q`.
async fn hanging_world() -> TestServer {
    let world = TestServer::new(ScriptedModel::always(vec![ScriptedTurn::say("Never.").hanging()])).await;
    world.post("/v1/queries", &plain("q")).await.ok();
    world
}

#[tokio::test(start_paused = true)]
async fn a_long_poll_ends_when_its_key_loses_access() {
    let check = async |id: &str, user: Option<&str>, change: fn(&mut Vec<ApiKey>, usize), expect: (u16, &str, u64)| {
        let mut keys = keys();
        let own = keys.iter().position(|key| key.public == format!("pk-{id}")).unwrap();
        keys[own].grant.may_act_for = EndUsers::Listed(vec!["alice".into()]);
        let policy = policy(keys.clone());
        let world = hanging_world().await.guarded(&policy);
        let changed = async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            change(&mut keys, own);
            policy.send_replace(Arc::new(Policy::guarded(Keyring::new(keys), Vec::new())));
        };
        let ((status, code, after), ()) = tokio::join!(wait_for(&world, id, user), changed);
        assert_eq!((status, code.as_str(), after), expect, "{id} for {user:?}");
    };
    let no_user: fn(&mut Vec<ApiKey>, usize) = |keys, own| keys[own].grant.may_act_for = EndUsers::Listed(Vec::new());
    check("own", None, |keys, own| keys[own].revoked = true, (401, "unauthorized", 10)).await;
    check("own", None, |keys, own| drop(keys.remove(own)), (401, "unauthorized", 10)).await;
    check("own", None, |keys, own| keys[own].digest = Digest::of("rotated"), (401, "unauthorized", 10)).await;
    let renamed: fn(&mut Vec<ApiKey>, usize) = |keys, own| keys[own].grant.actor = Actor::of_key("new").unwrap();
    check("own", None, renamed, (401, "unauthorized", 10)).await;
    let moved: fn(&mut Vec<ApiKey>, usize) = |keys, own| {
        keys[own].grant.namespaces = Namespaces::Listed(vec!["other".parse::<Namespace>().unwrap()]);
    };
    check("both", None, moved, (403, "namespace_forbidden", 10)).await;
    check("any", None, moved, (403, "namespace_forbidden", 10)).await;
    check("own", None, |keys, own| keys[own].grant.rights = all_but(Right::Read), (403, "right_missing", 10)).await;
    check("own", Some("alice"), no_user, (403, "end_user_forbidden", 10)).await;
    // What does not concern the request does not end it.
    check("own", None, no_user, (200, "", 60)).await;
    check("own", None, |_, _| {}, (200, "", 60)).await;
    check("own", None, |keys, _| keys[1].revoked = true, (200, "", 60)).await;
    check("own", None, |keys, own| keys[own].grant.rights = all_but(Right::Audit), (200, "", 60)).await;
    check("own", None, |keys, own| keys[own].grant.namespaces = Namespaces::All, (200, "", 60)).await;
    check("only-read", None, |keys, own| keys[own].grant.rights = Rights::all(), (200, "", 60)).await;
}

#[tokio::test(start_paused = true)]
async fn a_long_poll_ends_when_its_key_expires_and_its_effect_stays() {
    let world = hanging_world().await;
    let mut keys = keys();
    keys[0].grant.expires = Some(world.clock.now().after(Duration::from_secs(20)));
    let world = world.guarded(&policy(keys));
    let (authorization, began) = ("Bearer sk-own", tokio::time::Instant::now());
    let headers = [("authorization", authorization), ("content-type", "application/json")];
    let created = world.send("POST", "/v1/queries?wait=60s", &headers, plain("late").to_string());
    let ((status, code, after), created) = tokio::join!(wait_for(&world, "own", None), created);
    assert_eq!((status, code.as_str(), after), (401, "unauthorized", 20));
    assert_eq!((created.refusal(), began.elapsed().as_secs()), ((401, "unauthorized"), 20));
    assert_eq!(created.header("www-authenticate"), Some("Bearer"));
    assert!(matches!(world.journal("late").await[0].event, Event::Created { .. }));
}

#[tokio::test(start_paused = true)]
async fn an_upload_ends_with_its_key_and_the_call_waits_on() {
    let world = TestServer::new(calculating()).await;
    let query = world.post("/v1/queries?wait=true", &with_calculator("q")).await.ok();
    let path = format!("/v1/queries/q/tool-calls/{}/result", query["toolCall"]["id"].as_str().unwrap());
    let mut keys = keys();
    keys[0].grant.expires = Some(world.clock.now().after(Duration::from_secs(20)));
    let world = world.guarded(&policy(keys));
    let headers = [("authorization", "Bearer sk-own"), ("content-type", "text/plain")];
    let endless = futures_util::stream::pending::<Result<Bytes, std::convert::Infallible>>();
    let began = tokio::time::Instant::now();
    let answer = world.send("PUT", &path, &headers, Body::from_stream(endless)).await;
    assert_eq!((answer.refusal(), began.elapsed().as_secs()), ((401, "unauthorized"), 20));
    let headers = [("authorization", "Bearer sk-any")];
    let query = world.send("GET", "/v1/queries/q", &headers, Body::empty()).await.ok();
    assert_eq!(query["status"], "tool_call_required");
}
