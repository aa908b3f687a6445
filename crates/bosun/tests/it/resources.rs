//! Resources through the API of the whole program: stored, in effect, and still there after a kill.

use bosun_core::Namespace;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{
    server::{ProcessExit, Server, Started, World},
    soon,
};

/// The files of the server, in addition to those of all proofs.
const MANIFESTS: &str = r#"
apiVersion: ark.mckinsey.com/v1alpha1
kind: Model
metadata: {name: default}
spec: {provider: scripted, config: {scripted: {file: plain.script.yaml}}}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Model
metadata: {name: fast}
spec: {provider: scripted, config: {scripted: {file: plain.script.yaml}}}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Model
metadata: {name: second}
spec:
  provider: openai
  model: {value: gpt-4o}
  config: {openai: {baseUrl: {value: "http://127.0.0.1:9/v1"}, apiKey: {value: sk-canary-in-a-file}}}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Agent
metadata: {name: helper}
spec: {description: Helps, prompt: Be brief.}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Model
metadata: {name: failing}
spec: {provider: scripted, config: {scripted: {file: failing.script.yaml}}}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Agent
metadata: {name: broken}
spec: {modelRef: {name: failing}}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Memory
metadata: {name: short}
spec: {maxMessages: 20}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Team
metadata: {name: pair}
spec: {strategy: sequential, members: [{name: helper, type: agent}]}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Model
metadata: {name: judge}
spec: {provider: scripted, config: {scripted: {file: judge.script.yaml}}}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Evaluator
metadata: {name: e}
spec:
  description: Judges answers
  address: {value: "http://ark-evaluator.default.svc.cluster.local:8000/evaluate"}
  parameters: [{name: model.name, value: judge}, {name: evaluator-role, value: Be strict but fair.}]
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: MCPServer
metadata: {name: library}
spec: {address: {value: "http://127.0.0.1:9/mcp"}, transport: http}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Tool
metadata: {name: lookup}
spec: {type: mcp, description: Looks things up, mcp: {mcpServerRef: {name: library}, toolName: lookup}}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Tool
metadata: {name: script}
spec: {type: inline, description: Runs a script, inline: {language: python, source: "print(1)"}}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Tool
metadata: {name: client-search}
spec: {type: external, description: Searches where the client is}
"#;

/// Answers at once, whatever is asked.
const SCRIPT: &str = "otherwise: [{say: I am a script.}]\n";
/// Never answers.
const FAILING: &str = "otherwise: [{fail: {status: 400, message: I have no words}}]\n";

/// Gives every answer the same score.
const VERDICT: &str = "otherwise: [{say: '{\"score\": 0.9, \"reasoning\": \"It is right.\"}'}]\n";

pub(crate) fn world() -> World {
    let world = World::new();
    let manifests = world.path("manifests");
    std::fs::remove_dir_all(&manifests).unwrap();
    std::fs::create_dir_all(&manifests).unwrap();
    std::fs::write(manifests.join("all.yaml"), MANIFESTS).unwrap();
    std::fs::write(manifests.join("plain.script.yaml"), SCRIPT).unwrap();
    std::fs::write(manifests.join("failing.script.yaml"), FAILING).unwrap();
    std::fs::write(manifests.join("judge.script.yaml"), VERDICT).unwrap();
    world
}

/// What the server answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
    pub(crate) text: String,
    pub(crate) warnings: Vec<String>,
}

impl Answer {
    fn code(&self) -> (u16, &str) {
        (self.status, self.body["error"]["code"].as_str().unwrap_or_default())
    }

    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert!(self.status < 300, "{} {}", self.status, self.text);
        self.body
    }
}

/// Sends a request as a program on this machine would.
pub(crate) async fn api(server: &Server, method: &str, path: &str, body: Option<&Value>) -> Answer {
    send(server, method, path, body, &[]).await.expect("an answer")
}

pub(crate) async fn send(
    server: &Server,
    method: &str,
    path: &str,
    body: Option<&Value>,
    headers: &[(&str, &str)],
) -> Result<Answer, reqwest::Error> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build()?;
    let mut request = client.request(method.parse::<Method>().expect("a method"), format!("{}{path}", server.base));
    if let Some(body) = body {
        request = request.header("content-type", "application/json").body(body.to_string());
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = request.send().await?;
    let status = response.status().as_u16();
    let warnings = response.headers().get_all("warning").iter();
    let warnings = warnings.map(|value| value.to_str().unwrap_or_default().to_owned()).collect();
    let text = response.text().await?;
    Ok(Answer { status, body: serde_json::from_str(&text).unwrap_or_default(), text, warnings })
}

fn agent(name: &str) -> Value {
    json!({"name": name, "prompt": "Be brief.", "modelRef": {"name": "default"}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resource_is_created_read_changed_and_deleted_in_every_form() {
    let world = world();
    let server = world.start().await;
    let forms = [
        ("/v1/agents", agent("flat")),
        ("/v1/namespaces/default/agents", json!({"metadata": {"name": "whole"}, "spec": {"prompt": "Be brief."}})),
        ("/v1/agents?namespace=default", json!({"name": "mixed", "spec": {"prompt": "Be brief."}})),
        (
            "/v1/resources/apis/ark.mckinsey.com/v1alpha1/agents",
            json!({"apiVersion": "ark.mckinsey.com/v1alpha1", "kind": "Agent", "metadata": {"name": "raw"},
                "spec": {"prompt": "Be brief."}}),
        ),
    ];
    for (path, body) in &forms {
        let name = body["name"].as_str().or_else(|| body["metadata"]["name"].as_str()).unwrap();
        let created = api(&server, "POST", path, Some(body)).await;
        assert_eq!(created.status, 200, "{path} {}", created.text);
        assert_eq!(api(&server, "POST", path, Some(body)).await.code(), (409, "resource_exists"));
        let one = format!("/v1/agents/{name}");
        let read = api(&server, "GET", &one, None).await.ok();
        assert_eq!((&read["prompt"], &read["spec"]["prompt"]), (&json!("Be brief."), &json!("Be brief.")));
        assert_eq!((&read["managedBy"], &read["available"]), (&json!("api"), &json!("True")));
        // What was read may be sent back as it is.
        let same = api(&server, "PUT", &one, Some(&read)).await;
        assert_eq!(same.status, 200, "{}", same.text);
        let flat = api(&server, "PUT", &one, Some(&json!({"description": "new", "prompt": null}))).await.ok();
        assert_eq!((&flat["description"], &flat["prompt"]), (&json!("new"), &Value::Null));
        let spec = api(&server, "PUT", &one, Some(&json!({"spec": {"prompt": "Be kind."}}))).await.ok();
        assert_eq!(
            (&spec["description"], &spec["prompt"], &spec["generation"]),
            (&json!("new"), &json!("Be kind."), &json!(4))
        );
        assert_eq!(api(&server, "DELETE", &one, None).await.status, 204);
        assert_eq!(api(&server, "GET", &one, None).await.code(), (404, "resource_not_found"));
        assert_eq!(api(&server, "DELETE", &one, None).await.code(), (404, "resource_not_found"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_begins_with_what_is_put_into_it_and_ends_with_it() {
    let world = world();
    let server = world.start().await;
    let listed = async || {
        let status = api(&server, "GET", "/v1/namespaces/fresh/queries", None).await.status;
        let namespaces = api(&server, "GET", "/v1/namespaces", None).await.ok();
        (status, namespaces["items"].as_array().unwrap().contains(&json!({"name": "fresh"})))
    };
    assert_eq!(listed().await, (404, false));
    // It need not be created first.
    let model = json!({"name": "m", "provider": "openai", "model": "m", "config": {"openai": {"baseUrl": "https://models.example/v1"}}});
    api(&server, "POST", "/v1/namespaces/fresh/models", Some(&model)).await.ok();
    assert_eq!(listed().await, (200, true));
    let query = json!({"name": "q", "input": "Hello", "target": {"type": "model", "name": "m"}});
    api(&server, "POST", "/v1/namespaces/fresh/queries", Some(&query)).await.ok();
    assert_eq!(api(&server, "DELETE", "/v1/namespaces/fresh/models/m", None).await.status, 204);
    assert_eq!(listed().await, (200, true), "the query is still in it");
    assert_eq!(api(&server, "DELETE", "/v1/namespaces/fresh/queries/q", None).await.status, 204);
    assert_eq!(listed().await, (404, false));
    // Its acts are still recorded.
    let audited = api(&server, "GET", "/v1/namespaces/fresh/audit", None).await.ok();
    assert!(audited["items"].as_array().is_some_and(|items| !items.is_empty()), "{audited}");
    let made = api(&server, "POST", "/v1/namespaces", Some(&json!({"name": "fresh"}))).await;
    assert_eq!((made.status, listed().await), (200, (200, true)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_stored_is_in_effect_at_once_and_as_a_whole() {
    let world = world();
    let server = world.start().await;
    let ask = async |name: &str, agent: &str| {
        let body = json!({"name": name, "input": "Hello", "target": {"type": "agent", "name": agent}});
        api(&server, "POST", "/v1/queries?wait=20s", Some(&body)).await
    };
    assert_eq!(ask("q1", "mine").await.code(), (422, "agent_not_found"));
    api(&server, "POST", "/v1/agents", Some(&json!({"name": "mine", "modelRef": "gone"}))).await.ok();
    assert_eq!(api(&server, "GET", "/v1/agents/mine", None).await.ok()["available"], "False");
    assert_eq!(ask("q2", "mine").await.code(), (422, "model_not_found"));
    api(&server, "PUT", "/v1/agents/mine", Some(&json!({"modelRef": {"name": "default"}}))).await.ok();
    let answered = ask("q3", "mine").await.ok();
    assert_eq!(answered["status"]["response"]["content"], "I am a script.");
    // A model can be deleted although an agent uses it.
    let model = json!({"name": "third", "provider": "openai", "model": "m", "config": {"openai": {"baseUrl": "https://models.example/v1"}}});
    api(&server, "POST", "/v1/models", Some(&model)).await.ok();
    api(&server, "PUT", "/v1/agents/mine", Some(&json!({"modelRef": "third"}))).await.ok();
    assert_eq!(api(&server, "GET", "/v1/agents/mine", None).await.ok()["available"], "True");
    assert_eq!(api(&server, "DELETE", "/v1/models/third", None).await.status, 204);
    let read = api(&server, "GET", "/v1/agents/mine", None).await.ok();
    assert_eq!(read["status"]["conditions"][0]["message"], "missing: Model `third`");
    // A tool without a runner is reported when the agent is queried, and its call fails for the model to read.
    api(
        &server,
        "PUT",
        "/v1/agents/mine",
        Some(&json!({"modelRef": "default", "tools": [{"type": "inline", "name": "script"}]})),
    )
    .await
    .ok();
    let warned = ask("q4", "mine").await;
    assert!(
        warned.text.contains("tool `script` is of type `inline`, which this version does not run"),
        "{}",
        warned.text
    );
    let generation = api(&server, "GET", "/v1/capabilities", None).await.ok()["generation"].as_u64();
    assert!(generation >= Some(5), "{generation:?}");
    // Every one of these acts is in the audit log, with its actor.
    let acts = api(&server, "GET", "/v1/events?query=q3", None).await.ok();
    assert_eq!(acts["items"][0]["reason"], "QueryCreated");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_wins_and_says_so() {
    let world = world();
    let mut server = world.start().await;
    api(&server, "POST", "/v1/agents", Some(&agent("later-in-a-file"))).await.ok();
    for (method, body) in [("PUT", Some(json!({"prompt": "x"}))), ("DELETE", None)] {
        let refused = api(&server, method, "/v1/agents/helper", body.as_ref()).await;
        assert_eq!(refused.code(), (409, "managed_by_file"));
        assert_eq!(refused.body["detail"], "Agent 'helper' is described by the file `all.yaml`: change it there");
    }
    assert_eq!(api(&server, "POST", "/v1/agents", Some(&agent("helper"))).await.code(), (409, "resource_exists"));
    assert_eq!(api(&server, "DELETE", "/v1/tools/calculator", None).await.code(), (409, "managed_by_server"));
    server.kill().await;
    let file = "apiVersion: ark.mckinsey.com/v1alpha1\nkind: Agent\nmetadata: {name: later-in-a-file}\nspec: {prompt: From the file}\n";
    std::fs::write(world.path("manifests").join("later.yaml"), file).unwrap();
    let server = world.start().await;
    let read = api(&server, "GET", "/v1/agents/later-in-a-file", None).await.ok();
    assert_eq!((&read["prompt"], &read["managedBy"]), (&json!("From the file"), &json!("file")));
    assert!(read["warnings"][0].as_str().unwrap().contains("has no effect"), "{read}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_are_reported_all_at_once_and_unknown_fields_are_warned_about() {
    let world = world();
    let server = world.start().await;
    let bad = json!({"name": "bad", "prompt": "{{.x}} {{if}}", "parameters": [{"name": "a-b", "value": "v"}], "tools": [{"name": "t"}]});
    let refused = api(&server, "POST", "/v1/agents", Some(&bad)).await;
    assert_eq!(refused.code(), (422, "invalid_resource"));
    let codes: Vec<_> = refused.body["error"]["details"]
        .as_array()
        .unwrap()
        .iter()
        .map(|fault| fault["code"].as_str().unwrap())
        .collect();
    assert_eq!(codes, ["missing_field", "bad_value", "bad_template"], "{}", refused.text);
    let unserved = json!({"name": "bad", "overrides": [{"headers": []}]});
    assert_eq!(api(&server, "POST", "/v1/agents", Some(&unserved)).await.code(), (422, "unsupported_field"));
    assert_eq!(
        api(&server, "POST", "/v1/agents", Some(&json!({"prompt": "x"}))).await.code(),
        (422, "invalid_request")
    );
    let other = json!({"name": "x", "namespace": "elsewhere"});
    assert_eq!(api(&server, "POST", "/v1/agents", Some(&other)).await.code(), (422, "invalid_request"));
    let odd = api(&server, "POST", "/v1/agents", Some(&json!({"name": "odd", "colour": "red"}))).await;
    assert_eq!(odd.warnings, ["299 - \"unknown field `spec.colour` was ignored\""]);
    assert_eq!(odd.body["warnings"][0], "unknown field `spec.colour` was ignored");
    let script = json!({"name": "s", "provider": "scripted", "config": {"scripted": {"file": "/etc/passwd"}}});
    assert_eq!(api(&server, "POST", "/v1/models", Some(&script)).await.code(), (422, "unsupported_field"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_in_manifests_are_never_shown() {
    let world = world();
    let server = world.start().await;
    let model = json!({"name": "mine", "provider": "openai", "model": "m", "config": {"openai": {
        "baseUrl": "https://models.example/v1", "apiKey": "sk-canary-stored",
        "headers": [{"name": "x-key", "value": {"value": "sk-canary-header"}}]}}});
    let created = api(&server, "POST", "/v1/models", Some(&model)).await;
    assert_eq!(created.status, 200, "{}", created.text);
    let mut answers = created.text;
    for path in
        ["/v1/models", "/v1/models/mine", "/v1/models/second", "/v1/resources/apis/ark.mckinsey.com/v1alpha1/models"]
    {
        answers += &api(&server, "GET", path, None).await.text;
    }
    assert!(!answers.contains("sk-canary"), "{answers}");
    let read = api(&server, "GET", "/v1/models/mine", None).await.ok();
    let back = api(&server, "PUT", "/v1/models/mine", Some(&read)).await;
    assert_eq!(back.code(), (422, "invalid_request"), "{}", back.text);
    assert_eq!(back.body["error"]["details"][0]["code"], "hidden_value");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whole_objects_come_as_json_and_as_yaml_that_can_be_read_again() {
    let world = world();
    let server = world.start().await;
    let path = "/v1/resources/apis/ark.mckinsey.com/v1alpha1/Agent/helper";
    let read = api(&server, "GET", path, None).await.ok();
    assert_eq!(
        (&read["kind"], &read["metadata"]["name"], &read["spec"]["prompt"]),
        (&json!("Agent"), &json!("helper"), &json!("Be brief."))
    );
    let list = api(&server, "GET", "/v1/resources/apis/ark.mckinsey.com/v1alpha1/teams", None).await.ok();
    assert_eq!((&list["kind"], &list["items"][0]["metadata"]["name"]), (&json!("TeamList"), &json!("pair")));
    let yaml = send(&server, "GET", path, None, &[("accept", "application/yaml")]).await.unwrap().text;
    let without_status = yaml.split("status:").next().unwrap().replace("\"helper\"", "\"helper-2\"");
    std::fs::write(world.path("manifests").join("exported.yaml"), &without_status).unwrap();
    let builtins = bosun_adapters::runner::builtin::Builtins::new(std::sync::Arc::new(bosun_engine::SystemClock));
    let loaded = bosun_adapters::manifests::load(&[world.path("manifests")], &builtins)
        .unwrap_or_else(|faults| panic!("{faults}\n{yaml}"));
    let names: Vec<_> = loaded.agents.iter().map(|agent| agent.name.as_str()).collect();
    assert_eq!(names, ["helper", "broken", "helper-2"]);
    let settings = json!({"metadata": {"name": "settings"}, "data": {"tone": "kind"}});
    let made = api(&server, "POST", "/v1/resources/api/v1/configmaps", Some(&settings)).await.ok();
    assert_eq!(made["data"]["tone"], "kind");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_says_what_it_is_and_what_happened() {
    let world = world();
    let server = world.start().await;
    let get = async |path: &str| api(&server, "GET", path, None).await.ok();
    assert_eq!(get("/v1/context").await["namespace"], "default");
    assert_eq!(get("/v1/system-info").await["system_version"], env!("CARGO_PKG_VERSION"));
    let capabilities = get("/v1/capabilities").await;
    assert_eq!(capabilities["externalTools"], true);
    assert_eq!(capabilities["targets"], json!(["agent", "model", "tool", "team"]));
    for target in capabilities["targets"].as_array().unwrap() {
        let query = json!({"input": "Hello", "target": {"type": target, "name": "missing"}});
        let refused = api(&server, "POST", "/v1/queries", Some(&query)).await;
        // The kind itself is known: only the name is not.
        assert!(refused.code().1.ends_with("_not_found"), "{target}: {}", refused.text);
    }
    let made = api(&server, "POST", "/v1/namespaces", Some(&json!({"name": "made"}))).await.ok();
    assert_eq!(made, json!({"name": "made"}));
    assert_eq!(get("/v1/namespaces/made/context").await["namespace"], "made");
    assert_eq!(
        api(&server, "POST", "/v1/namespaces", Some(&json!({"name": "made"}))).await.code(),
        (409, "resource_exists")
    );
    assert_eq!(
        api(&server, "POST", "/v1/namespaces", Some(&json!({"name": "No!"}))).await.code(),
        (422, "invalid_request")
    );
    let names = get("/v1/namespaces").await;
    assert_eq!(names["items"], json!([{"name": Namespace::default().as_str()}, {"name": "made"}]));
    let query = json!({"name": "q", "input": "Hello", "target": {"type": "agent", "name": "helper"}});
    api(&server, "POST", "/v1/queries?wait=20s", Some(&query)).await.ok();
    let events = get("/v1/events?query=q").await;
    let reasons: Vec<_> =
        events["items"].as_array().unwrap().iter().map(|event| event["reason"].as_str().unwrap()).collect();
    assert_eq!(reasons, ["QueryCreated", "ModelAsked", "ModelAnswered", "QueryCompleted"]);
    assert_eq!(get("/v1/events?query=q&reason=QueryCompleted").await["count"], 1);
    assert_eq!(get("/v1/events?type=warning").await["count"], 0);
    assert_eq!(get("/v1/events").await["items"][0]["involvedObject"]["name"], "q");
    assert_eq!(get("/v1/events/q.1").await["reason"], "QueryCreated");
    for page in ["/docs", "/docs/page.css", "/docs/page.js"] {
        let shown = api(&server, "GET", page, None).await;
        assert_eq!(shown.status, 200, "{page}");
        assert!(shown.text.len() > 500, "{page}");
    }
}

/// Killed before the commit, right after it, and before the answer: what was answered is there, and what was not is
/// there or not, but never in part.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_survives_a_kill_at_every_point() {
    let world = world();
    let mut server = world.start().await;
    api(&server, "POST", "/v1/agents", Some(&agent("kept"))).await.ok();
    server.kill().await;
    for (point, is_kept) in [("store.resource", false), ("store.resource_kept", true), ("resource.durable", true)] {
        let name = point.replace(['.', '_'], "-");
        let Started::Ready(mut server) = soon("a server", world.spawn(Some(point)).ready()).await else {
            panic!("{point} is passed at the start")
        };
        let lost = send(&server, "POST", "/v1/agents", Some(&agent(&name)), &[]).await;
        assert!(lost.is_err(), "{point}: {lost:?}");
        assert_eq!(soon("the end", server.exit()).await, ProcessExit::AtFaultPoint);
        let mut server = world.start().await;
        let read = api(&server, "GET", &format!("/v1/agents/{name}"), None).await;
        assert_eq!(read.status == 200, is_kept, "{point}: {}", read.text);
        let kept = api(&server, "GET", "/v1/agents/kept", None).await.ok();
        assert_eq!((&kept["prompt"], &kept["generation"]), (&json!("Be brief."), &json!(1)));
        server.kill().await;
    }
}
