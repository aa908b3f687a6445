//! Replies that a model should never give: too many calls (M2), arguments that are costly to check (M1), too much text (M13).

use std::sync::Arc;

use axum::{Json, Router, body::Bytes, extract::State, routing::post};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};

use super::{
    Attack,
    target::{Measure, Target},
    watch::Watch,
};
use crate::support::{proof::scale, server::World};

type Answers = Arc<dyn Fn(&Value) -> Value + Send + Sync>;

/// A model API that answers with whatever the attack wants: the message of its only choice.
pub(super) struct HostileModel {
    pub(super) url: String,
    _serving: JoinSet<()>,
}

impl HostileModel {
    pub(super) async fn start(answers: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Self {
        async fn complete(State(answers): State<Answers>, body: Bytes) -> Json<Value> {
            let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
            let message = answers(&asked);
            let reason = if message.get("tool_calls").is_some() { "tool_calls" } else { "stop" };
            Json(json!({
                "id": "a", "object": "chat.completion", "created": 1, "model": "m",
                "choices": [{"index": 0, "message": message, "finish_reason": reason}],
                "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
            }))
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let answers: Answers = Arc::new(answers);
        let router = Router::new()
            .route("/v1/chat/completions", post(complete))
            .layer(axum::extract::DefaultBodyLimit::disable())
            .with_state(answers);
        let mut serving = JoinSet::new();
        serving.spawn(async move { axum::serve(listener, router).await.expect("a server") });
        Self { url, _serving: serving }
    }

    /// Manifests of a model with this API, and of an agent `victim` that uses it.
    pub(super) fn manifests(&self) -> String {
        let url = &self.url;
        format!(
            "\
apiVersion: ark.mckinsey.com/v1alpha1
kind: Model
metadata: {{name: hostile}}
spec:
  provider: openai
  model: {{value: m}}
  config: {{openai: {{baseUrl: {{value: '{url}/v1'}}, apiKey: {{value: none}}, properties: {{stream: {{value: 'false'}}}}}}}}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Agent
metadata: {{name: victim}}
spec: {{prompt: Be brief., modelRef: {{name: hostile}}}}
"
        )
    }

    /// A server whose agent `victim` uses this model.
    pub(super) async fn target(&self) -> Target {
        let world = World::new();
        std::fs::write(world.path("manifests").join("hostile.yaml"), self.manifests()).expect("manifests");
        Target::start_in(world).await
    }
}

pub(super) fn calls(count: usize, tool: &str, arguments: &str) -> Value {
    let call = |number: usize| json!({"id": format!("c{number}"), "type": "function", "function": {"name": tool, "arguments": arguments}});
    json!({"role": "assistant", "content": null, "tool_calls": (0..count).map(call).collect::<Vec<_>>()})
}

pub(super) fn query(name: &str, tools: &Value) -> Value {
    json!({"name": name, "input": "go", "target": {"type": "agent", "name": "victim"}, "externalTools": tools})
}

/// The cost of `attack`, minus 64 MiB and a multiple of what was sent.
fn judge(attack: &mut Attack, measure: Measure, watch: &Watch, sent: u64) {
    measure.judge(attack, watch, (64 << 20) + 24 * sent);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_of_twenty_thousand_calls_is_refused() {
    let mut attack = Attack::begin("m2_calls_of_one_reply");
    let count = usize::try_from(scale("BOSUN_ATTACK_CALLS", 5_000)).expect("a count");
    let message = calls(count, "lookup", "{\"key\":\"one\"}");
    let sent = message.to_string().len() as u64;
    let model = HostileModel::start(move |_| message.clone()).await;
    let target = model.target().await;
    let (measure, watch) = (target.measure(), target.watch());
    let created = target.json("POST", "/v1/queries", &query("q", &json!([{"name": "lookup"}]))).await;
    assert_eq!(created.expect("an answer").status, 200);
    let ended = target.end_of("/v1/queries/q").await;
    let code = ended.body["error"]["code"].as_str().unwrap_or_default().to_owned();
    attack.expect(code == "model_malformed", || format!("the query is {} with `{code}`", ended.state()));
    let shown = target.get("/v1/queries/q?view=ark").await.unwrap_or_default();
    attack.expect(shown.length <= 256 << 10, || format!("the query is shown in {} bytes", shown.length));
    judge(&mut attack, measure, &watch, sent);
    attack.figure("calls", count);
    attack.finish();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arguments_that_are_costly_to_check_hold_up_their_own_query_only() {
    let mut attack = Attack::begin("m1_costly_arguments");
    // As many backtracking patterns as one text may have, and texts that use all the steps they may.
    let text = "a".repeat(4_000);
    let texts: Vec<&str> = vec![&text; 60];
    let message = calls(8, "lookup", &json!({"texts": texts}).to_string());
    let sent = message.to_string().len() as u64;
    let model = HostileModel::start(move |_| message.clone()).await;
    let target = model.target().await;
    let patterns: Vec<Value> =
        (0..7).map(|number| json!({"pattern": format!("^(?:(a+)(a+)\\1)+b{{{}}}", 1 + number)})).collect();
    let parameters =
        json!({"type": "object", "properties": {"texts": {"type": "array", "items": {"anyOf": patterns}}}});
    let tools = json!([{"name": "lookup", "parameters": parameters}]);
    let (measure, watch) = (target.measure(), target.watch());
    for name in ["a", "b"] {
        let created = target.json("POST", "/v1/queries", &query(name, &tools)).await.expect("an answer");
        assert_eq!(created.status, 200, "{}", created.body);
    }
    for name in ["a", "b"] {
        let ended = target.end_of(&format!("/v1/queries/{name}")).await;
        attack.expect(ended.has_ended() || ended.state() == "waiting", || format!("{name} is {}", ended.state()));
    }
    judge(&mut attack, measure, &watch, 2 * sent);
    attack.finish();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_of_megabytes_is_not_kept() {
    let mut attack = Attack::begin("m13_long_answers");
    let size = usize::try_from(scale("BOSUN_ATTACK_ANSWER", 8 << 20)).expect("a size");
    let model = HostileModel::start(move |_| json!({"role": "assistant", "content": "x".repeat(size)})).await;
    let target = model.target().await;
    let (measure, watch) = (target.measure(), target.watch());
    let created = target.json("POST", "/v1/queries", &query("q", &json!([]))).await.expect("an answer");
    assert_eq!(created.status, 200, "{}", created.body);
    let ended = target.end_of("/v1/queries/q").await;
    let code = ended.body["error"]["code"].as_str().unwrap_or_default().to_owned();
    attack.expect(code == "model_output_limit", || format!("the query is {} with `{code}`", ended.state()));
    for path in ["/v1/queries/q?view=ark", "/v1/queries/q/events", "/v1/queries"] {
        let shown = target.get(path).await.unwrap_or_default();
        attack.expect(shown.length <= 4 << 20, || format!("{path} is {} bytes", shown.length));
    }
    measure.judge(&mut attack, &watch, (64 << 20) + 6 * size as u64);
    attack.figure("answer_bytes", size);
    attack.finish();
}
