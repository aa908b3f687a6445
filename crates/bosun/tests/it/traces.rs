//! A caller's trace through a whole query: to the model and to the client's tool, over a pause and a restart.
//!
//! What holds for every build is here; what only a program with the feature `otel` does is in `collected`, and
//! `make otel` runs it.

#[cfg(feature = "otel")]
pub(crate) mod collected;

use bosun_standin::{StandIn, StandInAnswers};
use serde_json::{Value, json};

use crate::support::{
    server::{ProcessExit, Server, World},
    soon,
};

const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const STATE: &str = "congo=t61rcWkgMzE";
/// The trace of the client that delivers.
const DELIVERER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Content that no span may contain.
const QUESTION: &str = "how-deep-is-the-secret-harbour";
const RESULT: &str = "forty-two-secret-fathoms";

const SCRIPT: &str = "\
scenes:
  - when: {exactly: how-deep-is-the-secret-harbour}
    turns:
      - call:
          - {tool: lookup, arguments: {key: secret-harbour}}
          - {tool: calculator, arguments: {expression: 6 * 7}}
      - say: \"It is {{ result[0] }}.\"
";

const MANIFESTS: &str = r#"
apiVersion: ark.mckinsey.com/v1alpha1
kind: Model
metadata: {name: remote}
spec: {provider: openai, model: {value: gpt}, config: {openai: {baseUrl: {value: "URL/v1"}}}}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Agent
metadata: {name: pilot}
spec: {prompt: Be brief., modelRef: {name: remote}, tools: [{type: builtin, name: calculator}]}
"#;

/// A server whose model is reached over HTTP.
struct TracedServer {
    world: World,
    model: StandIn,
}

impl TracedServer {
    async fn open() -> Self {
        let script = StandInAnswers::parse("script.yaml", SCRIPT).unwrap_or_else(|faults| panic!("{faults}"));
        let model = StandIn::recording(script).await.expect("a stand-in");
        let world = World::new();
        let manifests = MANIFESTS.replace("URL", &model.url());
        std::fs::write(world.path("manifests").join("remote.yaml"), manifests).expect("a manifest");
        Self { world, model }
    }

    /// Creates a query, waits until the client's tool is called, and kills the server; another one accepts the result.
    /// The query as it was at the pause, and at its end.
    async fn run_query(&self, headers: &[(&str, &str)]) -> (Value, Value) {
        let server = self.world.start().await;
        let asked = json!({
            "name": "q", "input": QUESTION, "target": {"type": "agent", "name": "pilot"},
            "externalTools": [{"name": "lookup", "description": "Looks up", "parameters": {"type": "object",
                "properties": {"key": {"type": "string"}}}}],
        });
        let paused = post(&server, "?wait=20s", headers, &asked).await;
        self.stop(server).await;
        let server = self.world.start().await;
        let result = json!({"toolName": "lookup", "toolResult": RESULT});
        let ended = post(&server, "/q/tool-result?wait=20s", &[("traceparent", DELIVERER)], &result).await;
        assert_eq!(ended["response"], format!("It is {RESULT}."), "{ended}");
        self.stop(server).await;
        (paused, ended)
    }

    /// Stops gracefully: pending spans are flushed.
    async fn stop(&self, mut server: Server) {
        server.terminate();
        assert_eq!(soon("the end", server.exit()).await, ProcessExit::Exited(0));
    }
}

async fn post(server: &Server, path: &str, headers: &[(&str, &str)], body: &Value) -> Value {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let url = format!("{}/v1/namespaces/default/queries{path}", server.base);
    let request = headers.iter().fold(client.post(url), |request, (name, value)| request.header(*name, *value));
    let response = soon("an answer", request.json(body).send()).await.expect("an answer");
    let status = response.status();
    let answer: Value = response.json().await.expect("JSON");
    assert!(status.is_success(), "{status}: {answer}");
    answer
}

#[tokio::test]
async fn a_callers_trace_continues_after_a_restart_to_the_model_and_to_the_clients_tool() {
    let traced = TracedServer::open().await;
    let (paused, _) = traced.run_query(&[("traceparent", CALLER), ("tracestate", STATE)]).await;
    let call = &paused["toolCalls"][0];
    assert_eq!((&call["traceparent"], &call["tracestate"]), (&json!(CALLER), &json!(STATE)), "{paused}");
    let requests = traced.model.requests();
    assert_eq!(requests.len(), 2);
    for request in &requests {
        assert_eq!(request.header("traceparent"), Some(CALLER), "passed on as it came");
        assert_eq!(request.header("tracestate"), Some(STATE));
    }
}

#[tokio::test]
async fn a_query_without_a_trace_reports_none() {
    let traced = TracedServer::open().await;
    let (paused, _) = traced.run_query(&[("traceparent", "nonsense"), ("tracestate", STATE)]).await;
    assert!(paused["toolCalls"][0].get("traceparent").is_none(), "{paused}");
    for request in traced.model.requests() {
        assert_eq!((request.header("traceparent"), request.header("tracestate")), (None, None));
    }
}

/// The variable may be set for everything on a machine; a collector may be unreachable.
#[tokio::test]
async fn a_server_that_cannot_send_spans_says_so_once_and_runs() {
    let mut traced = TracedServer::open().await;
    traced.world.set("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1");
    traced.run_query(&[]).await;
    let log = std::fs::read_to_string(traced.world.log()).expect("a log");
    let about = if cfg!(feature = "otel") { "traces cannot be sent" } else { "built without the feature `otel`" };
    assert_eq!(log.matches(about).count(), 2, "once for each of two processes: {log}");
    assert_eq!(log.lines().count(), 2, "{log}");
}
