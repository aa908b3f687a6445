//! Rights and secrets over the wire: `run` that deletes (H5), answers to clients without `read` (M4), keys in URLs
//! (M10).

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    Attack,
    hostile_models::HostileModel,
    target::{Keys, Target, client, read},
};
use crate::support::server::World;

const INPUT: &str = "what-only-readers-may-see";
const ANSWER: &str = "what-only-readers-may-hear";

/// A server with a key for each right, and one that has them all.
struct RightsServer {
    target: Target,
    manager: String,
    runner: String,
    deliverer: String,
    reader: String,
    _model: HostileModel,
}

async fn guarded() -> RightsServer {
    let model = HostileModel::start(|asked| {
        let has_result = asked["messages"].as_array().is_some_and(|all| all.iter().any(|one| one["role"] == "tool"));
        let has_tool = asked["tools"].as_array().is_some_and(|tools| !tools.is_empty());
        match has_tool && !has_result {
            true => super::hostile_models::calls(1, "lookup", "{}"),
            false => json!({"role": "assistant", "content": ANSWER}),
        }
    })
    .await;
    let world = World::new();
    std::fs::write(world.path("manifests").join("hostile.yaml"), model.manifests()).expect("manifests");
    let keys = Keys::new(&world);
    let manager = keys.create("manager", "default", &["read", "run", "deliver", "manage"]).await;
    let runner = keys.create("runner", "default", &["run"]).await;
    let deliverer = keys.create("deliverer", "default", &["deliver"]).await;
    let reader = keys.create("reader", "default", &["read"]).await;
    let mut target = Target::start_in(world.with(&["--auth", keys.path()])).await;
    target.key = Some(manager.clone());
    RightsServer { target, manager, runner, deliverer, reader, _model: model }
}

impl RightsServer {
    /// The server's answer to the holder of a key: status and text.
    async fn ask(&self, key: &str, method: &str, path: &str, body: &Value) -> (u16, String) {
        let url = format!("{}{path}", self.target.server.base);
        let request = client().request(method.parse().expect("a method"), url).bearer_auth(key).json(body);
        let reply = read(request).await.expect("an answer");
        (reply.status, reply.body.to_string())
    }

    async fn exists(&self, path: &str) -> bool {
        self.target.get(path).await.is_some_and(|reply| reply.status == 200)
    }

    /// A query that has ended.
    async fn ended(&self, name: &str, fields: &Value) {
        let mut body = json!({"name": name, "input": INPUT, "target": {"type": "agent", "name": "victim"}});
        for (field, value) in fields.as_object().into_iter().flatten() {
            body[field] = value.clone();
        }
        let created = self.target.json("POST", "/v1/queries", &body).await.expect("an answer");
        assert_eq!(created.status, 200, "{}", created.body);
        let ended = self.target.end_of(&format!("/v1/queries/{name}")).await;
        assert_eq!(ended.state(), "completed", "{}", ended.body);
    }
}

/// Longer than retention takes to delete outdated queries.
async fn retention_has_run() {
    tokio::time::sleep(Duration::from_secs(3)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_with_run_cannot_delete() {
    let mut attack = Attack::begin("h5_run_deletes");
    let guarded = guarded().await;
    let stored = guarded.target.json("POST", "/v1/memories", &json!({"name": "m"})).await.expect("an answer");
    assert_eq!(stored.status, 200, "{}", stored.body);
    guarded.ended("done", &json!({})).await;
    guarded.ended("said", &json!({"memory": {"name": "m"}, "conversationId": "c"})).await;
    assert!(guarded.exists("/v1/conversations/c").await);

    let (status, _) = guarded.ask(&guarded.runner, "PUT", "/v1/queries/done", &json!({"ttl": "1ms"})).await;
    attack.expect(status == 403, || format!("to shorten `ttl` was answered with {status}"));
    let short = json!({
        "name": "short", "input": "x", "target": {"type": "agent", "name": "victim"}, "ttl": "1ms",
        "memory": {"name": "m"}, "conversationId": "c",
    });
    let (status, text) = guarded.ask(&guarded.runner, "POST", "/v1/queries?wait=20s", &short).await;
    attack.expect(status < 500, || format!("a short query was answered with {status}: {text}"));
    retention_has_run().await;
    attack.expect(guarded.exists("/v1/queries/done").await, || "an ended query is gone".to_owned());
    attack.expect(guarded.exists("/v1/conversations/c").await, || "a conversation is gone".to_owned());
    let (status, _) = guarded.ask(&guarded.manager, "PUT", "/v1/queries/done", &json!({"ttl": "1ms"})).await;
    attack.expect(status == 200, || format!("the key with `manage` was answered with {status}"));
    attack.finish();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_without_read_is_shown_nothing() {
    let mut attack = Attack::begin("m4_answers_without_read");
    let guarded = guarded().await;
    guarded.ended("done", &json!({})).await;
    let tools = json!([{"name": "lookup"}]);
    let waiting =
        json!({"name": "w", "input": INPUT, "target": {"type": "agent", "name": "victim"}, "externalTools": tools});
    let created = guarded.target.json("POST", "/v1/queries?wait=20s&view=rfc", &waiting).await.expect("an answer");
    assert_eq!(created.state(), "waiting", "{}", created.body);
    let result = json!({"toolName": "lookup", "toolResult": "42"});
    let empty = json!({});
    let asked = [
        (&guarded.runner, "PUT", "/v1/queries/done", json!({"metadata": {}})),
        (&guarded.runner, "PATCH", "/v1/queries/done/cancel", empty.clone()),
        (&guarded.runner, "POST", "/v1/queries/done/cancel", empty.clone()),
        (&guarded.runner, "POST", "/v1/queries", waiting.clone()),
        (&guarded.runner, "POST", "/v1/queries/done/continue", empty),
        (&guarded.deliverer, "POST", "/v1/queries/w/tool-result?view=ark", result.clone()),
        (&guarded.deliverer, "POST", "/v1/queries/w/tool-result?view=rfc&wait=20s", result.clone()),
        (&guarded.deliverer, "POST", "/v1/queries/w/tool-result", result),
    ];
    for (key, method, path, body) in &asked {
        let (status, text) = guarded.ask(key, method, path, body).await;
        let shown: Vec<_> = [INPUT, ANSWER].into_iter().filter(|part| text.contains(part)).collect();
        attack.expect(shown.is_empty(), || format!("{method} {path} was answered with {status} and shows {shown:?}"));
    }
    attack.figure("requests", asked.len());
    attack.finish();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_in_urls_and_properties_are_not_shown() {
    let mut attack = Attack::begin("m10_keys_in_views");
    let guarded = guarded().await;
    let secrets = ["cnry0url", "cnry1prop", "cnry2head", "cnry3addr", "cnry4tool", "cnry5hdr", "cnry6key"];
    let openai = json!({
        "baseUrl": {"value": format!("https://models.example/v1?api-key={}", secrets[0])},
        "apiKey": {"value": secrets[6]},
        "headers": [{"name": "x-api-key", "value": {"value": secrets[2]}}],
        "properties": {"api_key": {"value": secrets[1]}},
    });
    let model = json!({"name": "m", "provider": "openai", "model": "m", "config": {"openai": openai}});
    let server = json!({
        "name": "s", "transport": "http", "address": {"value": format!("https://mcp.example/x?token={}", secrets[3])},
        "headers": [{"name": "authorization", "value": {"value": secrets[5]}}],
    });
    let tool = json!({
        "name": "t", "type": "http", "description": "d", "http": {"url": format!("https://tools.example/?key={}", secrets[4])},
    });
    let mut stored = Vec::new();
    for (path, name, body) in [("models", "m", model), ("mcp-servers", "s", server), ("tools", "t", tool)] {
        let reply = guarded.target.json("POST", &format!("/v1/{path}"), &body).await.expect("an answer");
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
        stored.push((path, name));
    }
    let raw = "/v1/resources/apis/ark.mckinsey.com/v1alpha1";
    for (path, name) in &stored {
        let kind = path.replace('-', "");
        for path in [
            format!("/v1/{path}"),
            format!("/v1/{path}/{name}"),
            format!("{raw}/{kind}"),
            format!("{raw}/{kind}/{name}"),
        ] {
            let (status, text) = guarded.ask(&guarded.reader, "GET", &path, &json!({})).await;
            let shown: Vec<_> = secrets.iter().filter(|secret| text.contains(**secret)).collect();
            attack.expect(shown.is_empty(), || format!("{path} ({status}) shows {shown:?}"));
        }
    }
    attack.figure("stored", stored.len());
    attack.finish();
}
