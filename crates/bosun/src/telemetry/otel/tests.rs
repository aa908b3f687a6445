//! The spans that a collector receives from the program.

use std::sync::{Arc, Mutex};

use axum::{Router, extract::State, routing::post};
use tracing_subscriber::layer::SubscriberExt as _;

use super::*;

const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

type Received = Arc<Mutex<Vec<Value>>>;

/// A collector that records what it receives.
async fn collector() -> (Exporter, Received) {
    let received = Received::default();
    let keep = async |State(received): State<Received>, axum::Json(body): axum::Json<Value>| {
        received.lock().unwrap().push(body);
        axum::Json(json!({}))
    };
    let router = Router::new().route("/v1/traces", post(keep)).with_state(Arc::clone(&received));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio_util::task::TaskTracker::new().spawn(async move { axum::serve(listener, router).await });
    let variable = |name: &str| (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| address.clone());
    let collector = export::Collector::of_environment(variable).unwrap().unwrap();
    (Exporter::start(collector).unwrap(), received)
}

/// The spans that some work results in.
async fn collect(work: impl FnOnce()) -> Vec<Value> {
    let (exporter, received) = collector().await;
    let subscriber = tracing_subscriber::registry().with(Spans::new(exporter.clone()));
    tracing::subscriber::with_default(subscriber, work);
    tokio::task::spawn_blocking(move || exporter.flush()).await.unwrap();
    let bodies = received.lock().unwrap();
    let spans = |body: &Value| body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone();
    bodies.iter().flat_map(spans).collect()
}

#[track_caller]
fn named<'a>(spans: &'a [Value], name: &str) -> &'a Value {
    spans.iter().find(|span| span["name"] == name).unwrap_or_else(|| panic!("{name}: {spans:?}"))
}

#[track_caller]
fn has(span: &Value, key: &str, value: Value) {
    assert!(span["attributes"].as_array().unwrap().contains(&json!({"key": key, "value": value})), "{key}: {span}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spans_reach_the_collector_in_the_callers_trace_under_the_names_of_the_conventions() {
    let own = CALLER.replace("b7ad6b7169203331", "00000000000000aa");
    let spans = collect(|| {
        let traceparent = CALLER;
        let request =
            tracing::info_span!("http.request", method = "POST", route = "/v1/queries", traceparent, trace = own);
        let _request = request.enter();
        let run = tracing::info_span!("query.run", agent = "math", target = "agent", state = tracing::field::Empty);
        run.record("state", "completed");
        let _run = run.enter();
        let model = tracing::info_span!(
            "model.reply",
            model = "gpt",
            provider = "openai",
            input_tokens = tracing::field::Empty
        );
        model.record("input_tokens", 7_u64);
        drop(model);
        drop(tracing::info_span!("tool.call", tool = "lookup", call = "call_1", error = "tool_timeout"));
    })
    .await;
    assert_eq!(spans.len(), 4, "{spans:?}");
    for span in &spans {
        assert_eq!(span["traceId"], TRACE);
    }
    let request = named(&spans, "POST /v1/queries");
    assert_eq!(
        (&request["parentSpanId"], &request["spanId"]),
        (&json!("b7ad6b7169203331"), &json!("00000000000000aa"))
    );
    assert_eq!(request["kind"], 2);
    let (run, model, tool) =
        (named(&spans, "invoke_agent math"), named(&spans, "chat gpt"), named(&spans, "execute_tool lookup"));
    assert_eq!(run["parentSpanId"], request["spanId"]);
    assert_eq!((&model["parentSpanId"], &tool["parentSpanId"]), (&run["spanId"], &run["spanId"]));
    has(run, "gen_ai.operation.name", json!({"stringValue": "invoke_agent"}));
    has(run, "gen_ai.agent.name", json!({"stringValue": "math"}));
    has(run, "bosun.query.state", json!({"stringValue": "completed"}));
    has(model, "gen_ai.operation.name", json!({"stringValue": "chat"}));
    has(model, "gen_ai.provider.name", json!({"stringValue": "openai"}));
    has(model, "gen_ai.request.model", json!({"stringValue": "gpt"}));
    has(model, "gen_ai.usage.input_tokens", json!({"intValue": "7"}));
    has(tool, "gen_ai.tool.call.id", json!({"stringValue": "call_1"}));
    has(tool, "gen_ai.tool.type", json!({"stringValue": "extension"}));
    has(tool, "error.type", json!({"stringValue": "tool_timeout"}));
    assert_eq!((&tool["status"], &model["status"]), (&json!({"code": 2}), &Value::Null));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_caused_by_another_trace_is_linked_to_it() {
    let spans = collect(|| {
        let cause = tracing::info_span!("query.deliver");
        let run = tracing::info_span!("query.run", target = "tool", traceparent = CALLER);
        run.follows_from(&cause);
        let inner = tracing::info_span!(parent: &run, "tool.call");
        inner.follows_from(&run);
    })
    .await;
    let (cause, run) = (named(&spans, "query.deliver"), named(&spans, "query.run"));
    assert_ne!(cause["traceId"], run["traceId"]);
    assert_eq!(run["links"], json!([{"traceId": cause["traceId"], "spanId": cause["spanId"]}]));
    assert_eq!(named(&spans, "execute_tool")["links"], Value::Null, "it is in the same trace");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trace_that_its_caller_does_not_sample_is_not_sent() {
    let unsampled = CALLER.replace("-01", "-00");
    let spans = collect(|| {
        let run = tracing::info_span!("query.run", traceparent = unsampled);
        drop(tracing::info_span!(parent: &run, "model.reply"));
        drop(tracing::info_span!("query.submit"));
    })
    .await;
    assert_eq!(spans.len(), 1, "{spans:?}");
    assert_eq!(spans[0]["name"], "query.submit");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_errors_are_errors_and_client_errors_are_not() {
    let spans = collect(|| {
        for status in [404_u64, 503] {
            let route = if status == 404 { "/a" } else { "/b" };
            drop(tracing::info_span!("http.request", method = "GET", route, status));
        }
    })
    .await;
    assert_eq!(named(&spans, "GET /a")["status"], Value::Null);
    assert_eq!(named(&spans, "GET /b")["status"], json!({"code": 2}));
}
