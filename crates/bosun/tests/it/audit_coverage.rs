//! Every act is recorded: each route that changes something, and each command outside the server.
//!
//! The table below lists for every changing operation of `/openapi.json` its audit records on success. An operation
//! that is missing from the table fails the test, so a new route cannot be forgotten.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    program::{bosun, program, run, stderr},
    resources::api,
    support::{
        scenarios::{self, Scenario},
        server::{ProcessExit, Server, World},
        soon, until,
    },
};

const MEMORY: &str = r#"
apiVersion: ark.mckinsey.com/v1alpha1
kind: Memory
metadata: {name: default}
spec: {maxMessages: 20}
"#;

/// A tool whose calls a person has to approve.
const RISKY: &str = r#"
apiVersion: ark.mckinsey.com/v1alpha1
kind: Tool
metadata: {name: risky}
spec: {type: builtin, builtin: {name: noop}, approval: {required: true}}
"#;

/// A model that gives every answer the same score, and the evaluator that asks it.
const JUDGE: &str = r#"
apiVersion: ark.mckinsey.com/v1alpha1
kind: Model
metadata: {name: judge}
spec: {provider: scripted, config: {scripted: {file: judge.script.yaml}}}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Evaluator
metadata: {name: strict}
spec: {parameters: [{name: model.name, value: judge}]}
"#;
const VERDICT: &str = "otherwise: [{say: '{\"score\": 0.9, \"reasoning\": \"It is right.\"}'}]\n";

/// A server, and what its log contains so far.
struct Log {
    server: Server,
    seen: u64,
    /// The operations that were called.
    called: BTreeSet<String>,
}

impl Log {
    /// Calls `operation`, which must succeed, with `{…}` of its path filled in from `names`; the log of `namespace`
    /// must have exactly the records `expect`, in this order.
    async fn check(&mut self, operation: &str, names: &[&str], body: Option<Value>, expect: &[&str]) -> Value {
        self.check_in("default", operation, names, body, expect).await
    }

    async fn check_in(
        &mut self,
        namespace: &str,
        operation: &str,
        names: &[&str],
        body: Option<Value>,
        expect: &[&str],
    ) -> Value {
        let (method, template) = operation.split_once(' ').unwrap();
        let mut path = template.to_owned();
        for name in names {
            let (open, close) = (path.find('{').unwrap(), path.find('}').unwrap());
            path.replace_range(open..=close, name);
        }
        let answer = api(&self.server, &method.to_uppercase(), &path, body.as_ref()).await;
        assert!(answer.status < 300, "{operation}: {} {}", answer.status, answer.text);
        let page = api(&self.server, "GET", &format!("/v1/audit?namespace={namespace}&limit=1000"), None).await;
        let mut recorded = Vec::new();
        for record in page.body["items"].as_array().unwrap().iter().rev() {
            if namespace != "default" || record["seq"].as_u64().unwrap() > self.seen {
                recorded.push(record["action"].as_str().unwrap().to_owned());
                assert!(
                    record["actor"] == "local" || is_by_itself(&recorded[recorded.len() - 1]),
                    "{operation}: {record}"
                );
            }
        }
        if namespace == "default" {
            self.seen = page.body["items"][0]["seq"].as_u64().unwrap_or_default();
        }
        assert_eq!(recorded, expect, "{operation}");
        self.called.insert(operation.split('?').next().unwrap().to_owned());
        answer.body
    }
}

/// Operations that no client outside calls.
fn is_by_itself(action: &str) -> bool {
    matches!(action, "query.completed" | "query.failed")
}

fn outside(name: &str) -> Option<Value> {
    Some(scenarios::query(name, Scenario::Quick))
}

#[tokio::test]
async fn every_route_that_changes_something_is_in_the_audit_log() {
    let world = World::new();
    std::fs::write(world.path("manifests").join("memory.yaml"), MEMORY).unwrap();
    std::fs::write(world.path("manifests").join("risky.yaml"), RISKY).unwrap();
    std::fs::write(world.path("manifests").join("judge.yaml"), JUDGE).unwrap();
    std::fs::write(world.path("manifests").join("judge.script.yaml"), VERDICT).unwrap();
    let served = json!({"apiVersion": "ark.mckinsey.com/v1alpha1", "kind": "Tool", "metadata": {"name": "served"},
        "spec": {"type": "external", "description": "Served by workers"}});
    std::fs::write(world.path("manifests").join("served.yaml"), served.to_string()).unwrap();
    // It changes the description of a tool after it was listed once.
    let program = json!({"command": program(), "args": ["mcp", "stand-in", "changes"]});
    let sly = json!({"apiVersion": "ark.mckinsey.com/v1alpha1", "kind": "MCPServer", "metadata": {"name": "sly"},
        "spec": {"transport": "stdio", "pin": "strict", "stdio": program}});
    std::fs::write(world.path("manifests").join("sly.yaml"), sly.to_string()).unwrap();
    let mut log = Log { server: world.start().await, seen: 0, called: BTreeSet::new() };

    let config = json!({"openai": {"baseUrl": "https://models.example/v1"}});
    for (kind, body) in [
        ("agents", json!({"name": "x", "prompt": "Be brief."})),
        ("models", json!({"name": "x", "provider": "openai", "model": "m", "config": config})),
        ("tools", json!({"name": "x", "spec": {"type": "external", "description": "Asks the client"}})),
        ("memories", json!({"name": "x", "maxMessages": 20})),
        ("teams", json!({"name": "x", "strategy": "sequential", "members": [{"name": "x", "type": "agent"}]})),
        ("evaluators", json!({"name": "x", "parameters": [{"name": "model.name", "value": "judge"}]})),
        ("mcp-servers", json!({"name": "x", "address": {"value": "https://mcp.example/mcp"}, "transport": "http"})),
        ("a2a-servers", json!({"name": "x", "address": {"value": "https://agents.example/a2a"}})),
    ] {
        log.check(&format!("post /v1/{kind}"), &[], Some(body), &["resource.created"]).await;
        let change = Some(json!({"metadata": {"labels": {"a": "b"}}, "spec": {}}));
        log.check(&format!("put /v1/{kind}/{{name}}"), &["x"], change, &["resource.updated"]).await;
        log.check(&format!("delete /v1/{kind}/{{name}}"), &["x"], None, &["resource.deleted"]).await;
    }
    let is_withheld = async || {
        let found = api(&log.server, "GET", "/v1/mcp-servers/sly", None).await;
        found.body["discovery"]["phase"] == "quarantined"
    };
    soon("a changed definition", async { while !is_withheld().await {} }).await;
    log.check("post /v1/mcp-servers/{name}/approve", &["sly"], None, &["resource.updated"]).await;
    log.check("delete /v1/tool-cache", &[], None, &["cache.cleared"]).await;
    let settings = json!({"metadata": {"name": "settings"}, "data": {"tone": "kind"}});
    let raw = "post /v1/resources/api/{version}/{kind}";
    log.check(raw, &["v1", "configmaps"], Some(settings.clone()), &["resource.created"]).await;
    let (put, delete) =
        ("put /v1/resources/api/{version}/{kind}/{name}", "delete /v1/resources/api/{version}/{kind}/{name}");
    log.check(put, &["v1", "configmaps", "settings"], Some(settings), &["resource.updated"]).await;
    log.check(delete, &["v1", "configmaps", "settings"], None, &["resource.deleted"]).await;
    let agent =
        json!({"apiVersion": "ark.mckinsey.com/v1alpha1", "kind": "Agent", "metadata": {"name": "raw"}, "spec": {}});
    let raw = "post /v1/resources/apis/{group}/{version}/{kind}";
    log.check(raw, &["ark.mckinsey.com", "v1alpha1", "agents"], Some(agent.clone()), &["resource.created"]).await;
    let one = ["ark.mckinsey.com", "v1alpha1", "agents", "raw"];
    let put = "put /v1/resources/apis/{group}/{version}/{kind}/{name}";
    log.check(put, &one, Some(agent), &["resource.updated"]).await;
    let delete = "delete /v1/resources/apis/{group}/{version}/{kind}/{name}";
    log.check(delete, &one, None, &["resource.deleted"]).await;
    let made = Some(json!({"name": "made"}));
    log.check_in("made", "post /v1/namespaces", &[], made, &["resource.created"]).await;

    let risky = |name: &str| Some(json!({"name": name, "input": "{}", "target": {"type": "tool", "name": "risky"}}));
    let asks = ["query.created", "approval.required"];
    log.check("post /v1/queries?wait=20s", &[], risky("i"), &asks).await;
    let runs = ["approval.approved", "call.started", "call.finished", "query.completed"];
    log.check("post /v1/queries/{name}/approval", &["i"], Some(json!({"decision": "approved"})), &runs).await;
    let open = log.check("post /v1/queries?wait=20s", &[], risky("j"), &asks).await;
    let task = open["status"]["approvals"][0]["id"].as_str().unwrap();
    // It answers at once: what follows is recorded later.
    let path = format!("/v1/a2a-tasks/{task}/approval");
    let decided = api(&log.server, "POST", &path, Some(&json!({"decision": "rejected"}))).await;
    assert_eq!(decided.status, 200, "{}", decided.text);
    api(&log.server, "GET", "/v1/queries/j?wait=20s", None).await;
    log.called.insert("post /v1/a2a-tasks/{name}/approval".to_owned());
    let ends = ["approval.rejected", "query.failed", "query.changed"];
    log.check("put /v1/queries/{name}", &["j"], Some(json!({"ttl": "9h"})), &ends).await;

    let asked = ["query.created", "call.handed_out"];
    let delivered = ["call.delivered", "query.completed"];
    let served = json!({"name": "served", "input": "{}", "target": {"type": "tool", "name": "served"}});
    log.check("post /v1/queries?wait=20s", &[], Some(served), &asked).await;
    let claimed = log.check("get /v1/tool-calls?tools=served", &[], None, &["call.claimed"]).await;
    let (call, lease) = (claimed["items"][0]["id"].as_str().unwrap().to_owned(), &claimed["items"][0]["lease"]);
    let beat = Some(json!({"lease": lease}));
    log.check("post /v1/tool-calls/{id}/heartbeat", &[&call], beat, &[]).await;
    let result = Some(json!({"lease": lease, "result": "42"}));
    log.check("post /v1/tool-calls/{id}/result", &[&call], result, &delivered).await;
    log.check("post /v1/queries?wait=20s", &[], outside("a"), &asked).await;
    let result = json!({"toolName": "lookup", "toolResult": "42"});
    log.check("post /v1/queries/{name}/tool-result", &["a"], Some(result.clone()), &delivered).await;
    let uploaded = log.check("post /v1/queries?wait=20s", &[], outside("b"), &asked).await;
    let call = uploaded["toolCalls"][0]["id"].as_str().unwrap().to_owned();
    let upload = "put /v1/queries/{name}/tool-calls/{id}/result";
    log.check(upload, &["b", &call], Some(json!("42")), &delivered).await;
    log.check("post /v1/queries?wait=20s", &[], outside("c"), &asked).await;
    let held = json!({"toolName": "lookup", "toolResult": "42", "continueExecution": false});
    let holds = ["call.delivered", "query.held"];
    log.check("post /v1/queries/{name}/tool-result", &["c"], Some(held), &holds).await;
    let continued = ["query.continued", "query.completed"];
    log.check("post /v1/queries/{name}/continue", &["c"], None, &continued).await;
    for (name, operation, body) in [
        ("d", "patch /v1/queries/{name}/cancel", None),
        ("e", "post /v1/queries/{name}/cancel", Some(json!({"reason": "enough"}))),
        ("f", "put /v1/queries/{name}", Some(json!({"cancel": true}))),
    ] {
        log.check("post /v1/queries?wait=20s", &[], outside(name), &asked).await;
        log.check(operation, &[name], body, &["query.cancelled"]).await;
    }
    let change = "put /v1/queries/{name}";
    log.check("post /v1/queries?wait=20s", &[], outside("h"), &asked).await;
    log.check(change, &["h"], Some(json!({"timeout": "9s"})), &["query.changed"]).await;
    log.check(change, &["h"], Some(json!({"timeout": "9s"})), &[]).await;
    let labels = json!({"metadata": {"labels": {"a": "b"}}, "cancel": true});
    log.check(change, &["h"], Some(labels), &["query.changed", "query.cancelled"]).await;
    log.check(change, &["h"], Some(json!({"ttl": "9h"})), &["query.changed"]).await;
    log.check("delete /v1/queries/{name}", &["d"], None, &["query.deleted"]).await;
    log.check("post /v1/queries?wait=20s", &[], outside("g"), &asked).await;
    let both = ["query.cancelled", "query.deleted"];
    log.check("delete /v1/queries/{name}", &["g"], None, &both).await;
    let prompt = Some(json!({"prompt": "text"}));
    let model = ["query.created", "query.completed"];
    log.check("post /v1/models/{name}/query", &["scripted"], prompt, &model).await;

    let judged = json!({"name": "judged", "evaluator": {"name": "strict"}, "config": {"input": "2+2", "output": "4"}});
    log.check("post /v1/evaluations?wait=20s", &[], Some(judged), &model).await;
    log.check("patch /v1/evaluations/{name}/cancel", &["judged"], None, &[]).await;
    log.check("delete /v1/evaluations/{name}", &["judged"], None, &["query.deleted"]).await;

    for id in ["one", "two", "three", "four"] {
        let mut query = scenarios::query(&format!("said-{id}"), Scenario::Text);
        query["conversationId"] = id.into();
        log.check("post /v1/queries?wait=20s", &[], Some(query), &model).await;
    }
    let forgotten = ["conversation.deleted"];
    let part = "delete /v1/conversations/{id}/queries/{name}/messages";
    log.check(part, &["one", "said-one"], None, &forgotten).await;
    log.check("delete /v1/conversations/{id}", &["two"], None, &forgotten).await;
    let part = "delete /v1/sessions/{id}/queries/{name}/messages";
    log.check(part, &["three", "said-three"], None, &forgotten).await;
    log.check("delete /v1/sessions/{id}", &["four"], None, &forgotten).await;
    log.check("delete /v1/conversations", &[], None, &forgotten).await;
    log.check("delete /v1/conversations", &[], None, &[]).await;
    log.check("delete /v1/sessions", &[], None, &[]).await;

    let reloaded = api(&log.server, "POST", "/v1/reload", None).await;
    assert_eq!(reloaded.status, 200, "{}", reloaded.text);
    let of_server = api(&log.server, "GET", "/v1/audit?namespace=bosun-server&limit=1", None).await.body;
    assert_eq!(of_server["items"][0]["action"], "configuration.reloaded", "{of_server}");
    log.called.insert("post /v1/reload".to_owned());

    // Both forms of a path are one operation.
    let described = api(&log.server, "GET", "/openapi.json", None).await.body;
    let changing = described["paths"].as_object().unwrap().iter().flat_map(|(path, methods)| {
        let path = path.replace("/namespaces/{namespace}/", "/");
        let methods = methods
            .as_object()
            .unwrap()
            .keys()
            .filter(|method| matches!(method.as_str(), "post" | "put" | "patch" | "delete"));
        methods.map(move |method| format!("{method} {path}")).collect::<Vec<_>>()
    });
    // A claim is a change, although it is a GET.
    let changing: BTreeSet<_> = changing.chain(["get /v1/tool-calls".to_owned()]).collect();
    assert_eq!(log.called, changing, "left: what this test expects something of; right: what there is");
}

#[tokio::test]
async fn a_backup_is_recorded_whether_or_not_a_server_runs() {
    let world = World::new();
    let mut server = world.start().await;
    let recorded = async |server: &Server| {
        let page = api(server, "GET", "/v1/audit?namespace=bosun-server", None).await.body;
        page["items"].as_array().unwrap().clone()
    };
    let backup = async |to: &str| {
        let made = run(bosun().args(["backup", "--data"]).arg(world.data()).arg(world.path(to))).await;
        assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
        assert_eq!(stderr(&made), "");
    };
    let acts = world.data().join("audit.acts");
    let is_taken = || std::fs::metadata(&acts).is_ok_and(|file| file.len() == 0);
    backup("beside").await;
    until("the server records the act", is_taken).await;
    server.terminate();
    assert_eq!(soon("the end", server.exit()).await, ProcessExit::Exited(0));
    backup("alone").await;
    assert!(!is_taken());
    let server = world.start().await;
    until("the next server records the act", is_taken).await;
    let items = recorded(&server).await;
    let of = |index: usize| (items[index]["action"].as_str().unwrap(), items[index]["detail"].as_str().unwrap());
    assert_eq!(items.len(), 2, "{items:?}");
    assert!(of(0).0 == "store.backed_up" && of(0).1.ends_with("/alone"), "{items:?}");
    assert!(of(1).0 == "store.backed_up" && of(1).1.ends_with("/beside"), "{items:?}");
    assert!(items[0]["actor"].as_str().unwrap().starts_with("uid:"), "{items:?}");
}
