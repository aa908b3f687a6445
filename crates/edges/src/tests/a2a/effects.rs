//! Every operation of A2A with every right, over both bindings and in both generations: what a request changes, and what
//! its answer shows.
//!
//! The routes are read from A2A's own table and the methods from that of JSON-RPC, so one without a row fails. A key that
//! lacks what an operation needs changes nothing; a key without `read` sees the state of a task and the calls to run; no
//! key sees the token, the credentials or a key in the URL of a webhook.

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use axum::{
    body::{Body, to_bytes},
    http::Request,
};
use bosun_engine::{
    testing::{ScriptedModel, ScriptedTurn},
    webhook::{PostWebhooks, WebhookPost},
};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::{TOOLS, V1, calls, message};
use crate::{
    a2a::{
        routes::{AGENT, ROOT},
        rpc,
    },
    auth::{
        Access,
        Right::{self, Approve, Deliver, Manage, Read, Run},
    },
    http::routes::RouteEntry,
    tests::{
        authorization::{key, policy},
        effects::{CONTENT, KEYS, SECRET, fingerprint, id_of},
        world::TestServer,
    },
};

/// What only `read` and `approve` may see.
const ARGUMENT: &str = "canary-argument";
/// What only `read` may see, in addition to what ARK's matrix plants.
const FAILURE: &str = "canary-failure";

/// Pairs of rights that operations of A2A need, in addition to those of ARK's matrix.
const PAIRS: &[&[Right]] = &[&[Run, Approve], &[Read, Run, Deliver], &[Run, Deliver, Approve, Manage]];

const CAREFUL: &str = "/a2a/agents/default/careful-assistant";

/// Takes every address, and posts nowhere.
#[derive(Debug)]
struct Unposted;

#[async_trait]
impl PostWebhooks for Unposted {
    fn check(&self, _: &str) -> Result<(), String> {
        Ok(())
    }

    async fn post(&self, _: &WebhookPost) -> Result<u16, String> {
        Err("nothing is posted".to_owned())
    }
}

/// A server with a task in each state that a request can do something to, each with a webhook.
struct StagedTasks {
    world: TestServer,
    done: Value,
    waits: Value,
    /// Waits; its model fails when it has the result.
    fails: Value,
    /// Waits for an approval.
    approves: Value,
    /// Waits for its client and for an approval: with the result it waits for the approval alone.
    both: Value,
}

fn script() -> ScriptedModel {
    let asks = || ScriptedTurn::call("ask_client", &json!({"question": "argument"}));
    ScriptedModel::default()
        .on("canary-input", vec![asks(), ScriptedTurn::say("canary-answer")])
        .on("canary-input fails", vec![asks(), ScriptedTurn::refuse(400, FAILURE)])
        .on("canary-input approves", vec![ScriptedTurn::call("risky", &json!({"question": ARGUMENT}))])
        .on("canary-input both", vec![asks().and_call("risky", &json!({"question": ARGUMENT}).to_string())])
        .on("mine", vec![ScriptedTurn::say("my answer")])
}

async fn stage() -> StagedTasks {
    let world = TestServer::storing(script()).await.serving(Access::open(), Some(Arc::new(Unposted)));
    let mut tasks = Vec::new();
    for (id, text) in [
        ("done", "canary-input"),
        ("waits", "canary-input"),
        ("fails", "canary-input fails"),
        ("approves", "canary-input approves"),
        ("both", "canary-input both"),
    ] {
        let params = json!({
            "message": message(id, text), "metadata": {TOOLS: {"tools": [tool()]}},
            "configuration": {"taskPushNotificationConfig": {
                "id": "w", "url": format!("https://user:{SECRET}@hooks.example/x?key={SECRET}"), "token": SECRET,
                "authentication": {"scheme": "Bearer", "credentials": SECRET},
            }},
        });
        tasks.push(sent(&world, params).await);
    }
    let [done, waits, fails, approves, both] = <[Value; 5]>::try_from(tasks).unwrap();
    let done = sent(&world, results_of(&done, "canary-result")).await;
    assert_eq!(done["status"]["state"], "TASK_STATE_COMPLETED", "{done}");
    let rights = KEYS.iter().chain(PAIRS);
    let keys = rights.map(|rights| key(&id_of(rights), &["default"], rights.iter().copied().collect())).collect();
    let access = Access::new(policy(keys).subscribe(), Arc::clone(&world.clock) as _, Arc::default());
    StagedTasks { world: world.serving(access, Some(Arc::new(Unposted))), done, waits, fails, approves, both }
}

async fn sent(world: &TestServer, params: Value) -> Value {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params});
    super::result(world.send("POST", CAREFUL, V1, body.to_string()).await)["task"].clone()
}

fn tool() -> Value {
    json!({"name": "ask_client", "description": "Asks", "parameters": {"type": "object", "properties": {}}})
}

/// The result of the call that a task waits for, or waited for.
fn results_of(task: &Value, result: &str) -> Value {
    json!({"message": {
        "messageId": "results", "role": "ROLE_USER", "taskId": task["id"],
        "parts": [{"data": {"toolResults": [given(task, result)]}}],
    }})
}

fn given(task: &Value, result: &str) -> Value {
    let called = calls(task).first().cloned();
    let in_history = || task["history"][1]["parts"][0]["data"]["toolCalls"][0].clone();
    json!({"toolCallId": called.unwrap_or_else(in_history)["id"], "toolName": "ask_client", "success": true, "result": result})
}

/// An operation, its parameters in 1.0, and all the rights that it needs.
struct Asked {
    operation: Operation,
    params: Value,
    needs: &'static [Right],
    /// Whether it changes something if it is allowed.
    changes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Operation {
    Send,
    Stream,
    Get,
    List,
    Cancel,
    Subscribe,
    CreatePush,
    GetPush,
    ListPush,
    DeletePush,
    ExtendedCard,
    Resume,
}

impl Operation {
    fn of(method: &str) -> Self {
        match method {
            "SendMessage" | "message/send" => Self::Send,
            "SendStreamingMessage" | "message/stream" => Self::Stream,
            "GetTask" | "tasks/get" => Self::Get,
            "ListTasks" => Self::List,
            "CancelTask" | "tasks/cancel" => Self::Cancel,
            "SubscribeToTask" | "tasks/resubscribe" => Self::Subscribe,
            "CreateTaskPushNotificationConfig" | "tasks/pushNotificationConfig/set" => Self::CreatePush,
            "GetTaskPushNotificationConfig" | "tasks/pushNotificationConfig/get" => Self::GetPush,
            "ListTaskPushNotificationConfigs" | "tasks/pushNotificationConfig/list" => Self::ListPush,
            "DeleteTaskPushNotificationConfig" | "tasks/pushNotificationConfig/delete" => Self::DeletePush,
            "GetExtendedAgentCard" | "agent/getAuthenticatedExtendedCard" => Self::ExtendedCard,
            "tasks/resume" => Self::Resume,
            other => panic!("the method {other} has no row in this matrix"),
        }
    }

    /// What is asked, in the form of 1.0 with the id of the task in `task`.
    fn requests(self, staged: &StagedTasks) -> Vec<Asked> {
        let StagedTasks { done, waits, fails, approves, both, .. } = staged;
        let ask = |params: Value, needs, changes| Asked { operation: self, params, needs, changes };
        let text = |task: &Value| {
            let mut message = message("text", "never mind");
            message["taskId"] = task["id"].clone();
            json!({ "message": message })
        };
        let new = || json!({"message": message("new", "mine")});
        let with_push = |mut params: Value| {
            params["configuration"] =
                json!({"taskPushNotificationConfig": {"id": "mine", "url": "https://mine.example"}});
            params
        };
        let each = |needs, changes: &[bool; 3]| {
            let tasks = [done, waits, approves].into_iter().zip(changes);
            tasks.map(|(task, changes)| ask(json!({"task": task["id"]}), needs, *changes)).collect()
        };
        match self {
            Self::Send => vec![
                ask(new(), &[Run], true),
                ask(with_push(new()), &[Run, Read], true),
                ask(results_of(waits, "brought"), &[Deliver], true),
                ask(results_of(done, "canary-result"), &[Deliver], false),
                ask(results_of(fails, "brought"), &[Deliver], true),
                ask(results_of(both, "brought"), &[Deliver], true),
                ask(with_push(results_of(waits, "brought")), &[Run, Read, Deliver], true),
                ask(text(waits), &[Run], true),
                ask(text(done), &[Run], false),
                ask(text(approves), &[Run, Approve], true),
            ],
            Self::Stream => vec![
                ask(new(), &[Run], true),
                ask(results_of(waits, "brought"), &[Deliver, Read], true),
                ask(text(waits), &[Run, Read], true),
            ],
            Self::Get => each(&[Read], &[false; 3]),
            Self::Cancel => each(&[Run], &[false, true, true]),
            Self::Subscribe => each(&[Read], &[false; 3]),
            Self::List => vec![ask(json!({}), &[Read], false)],
            Self::CreatePush => {
                let config = json!({"task": waits["id"], "id": "mine", "url": "https://mine.example", "token": "mine"});
                vec![ask(config, &[Run, Read], true)]
            }
            Self::GetPush => vec![ask(json!({"task": waits["id"], "config": "w"}), &[Read], false)],
            Self::ListPush => vec![ask(json!({"task": waits["id"]}), &[Read], false)],
            Self::DeletePush => vec![ask(json!({"task": waits["id"], "config": "w"}), &[Run], true)],
            Self::ExtendedCard => vec![ask(json!({}), &[Read], false)],
            Self::Resume => {
                let resume =
                    |task: &Value, result: &str| json!({"taskId": task["id"], "toolResults": [given(task, result)]});
                vec![
                    ask(resume(waits, "brought"), &[Deliver], true),
                    ask(resume(done, "canary-result"), &[Deliver], false),
                    ask(resume(fails, "brought"), &[Deliver], true),
                    ask(resume(both, "brought"), &[Deliver], true),
                ]
            }
        }
    }

    /// The parameters of JSON-RPC.
    fn params(self, params: &Value, is_old: bool) -> Value {
        let (task, config) = (&params["task"], &params["config"]);
        match self {
            Self::Send | Self::Stream if is_old => {
                let mut params = params.clone();
                old_message(&mut params);
                params
            }
            Self::Send | Self::Stream | Self::List | Self::ExtendedCard | Self::Resume => params.clone(),
            Self::Get | Self::Cancel | Self::Subscribe => json!({ "id": task }),
            Self::CreatePush if is_old => json!({"taskId": task, "pushNotificationConfig": params}),
            Self::GetPush | Self::DeletePush if is_old => json!({"id": task, "pushNotificationConfigId": config}),
            Self::ListPush if is_old => json!({ "id": task }),
            Self::CreatePush => {
                let mut params = params.clone();
                params["taskId"] = task.clone();
                params
            }
            Self::GetPush | Self::DeletePush => json!({"taskId": task, "id": config}),
            Self::ListPush => json!({ "taskId": task }),
        }
    }
}

/// A message of 1.0 as one of 0.3.
fn old_message(params: &mut Value) {
    let message = &mut params["message"];
    message["kind"] = json!("message");
    message["role"] = json!("user");
    for part in message["parts"].as_array_mut().unwrap() {
        part["kind"] = json!(if part.get("text").is_some() { "text" } else { "data" });
    }
    if let Some(configuration) = params.get_mut("configuration") {
        let config = configuration["taskPushNotificationConfig"].take();
        *configuration = json!({"blocking": true, "pushNotificationConfig": config});
    } else {
        params["configuration"] = json!({"blocking": true});
    }
}

/// A request as it is sent.
struct SentRequest {
    method: String,
    path: String,
    version: Option<&'static str>,
    body: String,
    asked: Asked,
}

/// The requests of a route, below `base`.
fn requests(base: &str, route: &RouteEntry, staged: &StagedTasks) -> Vec<SentRequest> {
    use Operation as O;
    let path = format!("{base}{}", route.path);
    let rpc = |method: &'static str, version: &'static str| {
        let path = path.clone();
        O::of(method).requests(staged).into_iter().map(move |asked| {
            let params = asked.operation.params(&asked.params, version == "0.3");
            let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
            SentRequest { method: "POST".into(), path: path.clone(), version: Some(version), body, asked }
        })
    };
    let rest = |operation: O| -> Vec<SentRequest> {
        // The generation of a route of 0.3 is in its path.
        let is_old = route.path.starts_with("/v1/");
        let sent = operation.requests(staged).into_iter().map(|asked| {
            let text = |name: &str| asked.params[name].as_str().unwrap_or_default().to_owned();
            let verb = match operation {
                O::Cancel => ":cancel",
                O::Subscribe => ":subscribe",
                _ => "",
            };
            let path = path.replace("{task}", &format!("{}{verb}", text("task"))).replace("{config}", &text("config"));
            let body = match operation {
                O::Send | O::Stream | O::CreatePush => operation.params(&asked.params, is_old).to_string(),
                _ => String::new(),
            };
            let version = (!is_old).then_some("1.0");
            SentRequest { method: route.method.to_uppercase(), path, version, body, asked }
        });
        sent.collect()
    };
    let below = route.path.strip_prefix("/v1").unwrap_or(route.path);
    match (route.method, below) {
        ("post", "") => rpc::methods().into_iter().flat_map(|(method, version)| rpc(method, version)).collect(),
        ("post", "/") => rpc("SendMessage", "1.0").collect(),
        ("post", "/message/send") => rpc("message/send", "0.3").collect(),
        ("post", "/message/stream") => rpc("message/stream", "0.3").collect(),
        ("post", "/tasks/resume") => rpc("tasks/resume", "1.0").collect(),
        ("post", "/message:send") => rest(O::Send),
        ("post", "/message:stream") => rest(O::Stream),
        ("get", "/tasks" | "/tasks/") => rest(O::List),
        ("get", "/tasks/{task}") => rest(O::Get).into_iter().chain(rest(O::Subscribe)).collect(),
        ("post", "/tasks/{task}") => rest(O::Cancel).into_iter().chain(rest(O::Subscribe)).collect(),
        ("get", "/tasks/{task}/pushNotificationConfigs") => rest(O::ListPush),
        ("post", "/tasks/{task}/pushNotificationConfigs") => rest(O::CreatePush),
        ("get", "/tasks/{task}/pushNotificationConfigs/{config}") => rest(O::GetPush),
        ("delete", "/tasks/{task}/pushNotificationConfigs/{config}") => rest(O::DeletePush),
        ("get", "/extendedAgentCard" | "/card" | "/.well-known/agent-card.json" | "/.well-known/agent.json") => {
            let mut card = rest(O::ExtendedCard);
            // The card of the default agent is public.
            if base.is_empty() {
                card.iter_mut().for_each(|sent| sent.asked.needs = &[]);
            }
            card
        }
        ("get", "/a2a/agents") => rest(O::ExtendedCard),
        (method, path) => panic!("{method} {path} has no row in this matrix"),
    }
}

/// The status, and everything that an answer shows. A subscription to a task that waits does not end, so only its headers
/// are read; its readers have `read`.
async fn send(world: &TestServer, sent: &SentRequest, rights: &[Right]) -> (u16, String) {
    let mut request = Request::builder()
        .method(sent.method.as_str())
        .uri(&sent.path)
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("authorization", format!("Bearer sk-{}", id_of(rights)));
    if let Some(version) = sent.version {
        request = request.header("a2a-version", version);
    }
    let request = request.body(Body::from(sent.body.clone())).unwrap();
    let (parts, body) = world.router.clone().oneshot(request).await.unwrap().into_parts();
    let headers = format!("{:?}", parts.headers);
    let follows =
        sent.asked.operation == Operation::Subscribe && parts.status == 200 && headers.contains("event-stream");
    let body = if follows { Vec::new() } else { to_bytes(body, usize::MAX).await.unwrap().to_vec() };
    (parts.status.as_u16(), format!("{headers}\n{}", String::from_utf8_lossy(&body)))
}

/// What a key with these rights must not see.
fn hidden_from(rights: &[Right]) -> Vec<&'static str> {
    let mut hidden = vec![SECRET];
    if !rights.contains(&Read) {
        hidden.extend(CONTENT);
        hidden.push(FAILURE);
        if !rights.contains(&Approve) {
            hidden.push(ARGUMENT);
        }
    }
    hidden
}

/// Checks all requests of one route by keys with `rights`, and returns the operations that have changed something.
async fn check(base: &str, route: &RouteEntry, keys: &[&[Right]]) -> (usize, BTreeSet<Operation>) {
    let mut staged = stage().await;
    let mut before = fingerprint(&staged.world).await;
    let (mut checked, mut changed) = (0, BTreeSet::new());
    for number in 0..requests(base, route, &staged).len() {
        for rights in keys {
            let sent = requests(base, route, &staged).swap_remove(number);
            let (status, text) = send(&staged.world, &sent, rights).await;
            let place = format!("{} {} {} with {rights:?}: {status} {text}", sent.method, sent.path, sent.body);
            let after = fingerprint(&staged.world).await;
            let may = sent.asked.needs.iter().all(|right| rights.contains(right));
            assert_eq!(status == 403, !may, "{place}");
            assert_ne!(status, 401, "{place}");
            assert_eq!(after != before, may && sent.asked.changes, "{place}");
            for content in hidden_from(rights) {
                assert!(!text.contains(content), "{content} in {place}");
            }
            checked += 1;
            if after != before {
                changed.insert(sent.asked.operation);
                staged = stage().await;
                before = fingerprint(&staged.world).await;
            }
        }
    }
    (checked, changed)
}

#[tokio::test]
async fn a_request_changes_and_shows_no_more_than_the_rights_of_its_key() {
    use Operation as O;
    let keys: Vec<_> = KEYS.iter().chain(PAIRS).copied().collect();
    let (mut checked, mut changed) = (0, BTreeSet::new());
    for route in AGENT {
        let (number, operations) = check(CAREFUL, route, &keys).await;
        checked += number;
        changed.extend(operations);
    }
    let changing = [O::Send, O::Stream, O::Cancel, O::CreatePush, O::DeletePush, O::Resume];
    assert_eq!(changed, BTreeSet::from(changing), "what never changes anything proves nothing");
    assert!(checked > 1_000, "{checked}");
}

/// The same handlers below another path, and the routes of no agent.
#[tokio::test]
async fn the_default_agent_has_the_same_rights() {
    let keys: &[&[Right]] = &[&[Read], &[Run], &[Deliver], &[Approve]];
    for route in AGENT {
        check("/a2a", route, keys).await;
    }
    for route in ROOT {
        check("", route, keys).await;
    }
}

/// The matrix would pass if there were nothing to see.
#[tokio::test]
async fn a_key_with_read_sees_what_was_planted() {
    let staged = stage().await;
    let get = AGENT.iter().find(|route| route.method == "get" && route.path == "/tasks/{task}").unwrap();
    let mut seen = String::new();
    for sent in requests(CAREFUL, get, &staged).iter().filter(|sent| sent.asked.operation == Operation::Get) {
        seen += &send(&staged.world, sent, &[Read]).await.1;
    }
    for content in ["canary-input", "canary-answer", "canary-result", ARGUMENT] {
        assert!(seen.contains(content), "{content} in {seen}");
    }
}
