//! The spans that an OpenTelemetry collector receives for a query, from the program as a process.

use std::sync::{Arc, Mutex};

use axum::{Router, extract::State, http::HeaderMap, routing::post};
use serde_json::{Value, json};

use super::{CALLER, DELIVERER, QUESTION, RESULT, TracedServer};

/// The trace of the caller.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// The headers and the body of each received request.
pub(crate) type Received = Arc<Mutex<Vec<(HeaderMap, Value)>>>;

/// A collector on loopback that records what it receives.
pub(crate) async fn collector() -> (String, Received) {
    let received = Received::default();
    let keep = async |State(received): State<Received>, headers: HeaderMap, axum::Json(body): axum::Json<Value>| {
        received.lock().expect("what was received").push((headers, body));
        axum::Json(json!({}))
    };
    let router = Router::new().route("/v1/traces", post(keep)).with_state(Arc::clone(&received));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    tokio_util::task::TaskTracker::new().spawn(async move { axum::serve(listener, router).await });
    (address, received)
}

fn spans(received: &Received) -> Vec<Value> {
    let received = received.lock().expect("what was received");
    let of = |(_, body): &(HeaderMap, Value)| {
        let resource = &body["resourceSpans"][0];
        assert!(resource["resource"]["attributes"].to_string().contains(r#""stringValue":"harbour""#), "{resource}");
        resource["scopeSpans"][0]["spans"].as_array().expect("spans").clone()
    };
    received.iter().flat_map(of).collect()
}

#[track_caller]
fn named<'a>(spans: &'a [Value], name: &str, count: usize) -> Vec<&'a Value> {
    let found: Vec<_> = spans.iter().filter(|span| span["name"] == name).collect();
    assert_eq!(found.len(), count, "{name}: {spans:#?}");
    found
}

fn attribute<'a>(span: &'a Value, key: &str) -> &'a Value {
    let attributes = span["attributes"].as_array().expect("attributes");
    let found = attributes.iter().find(|attribute| attribute["key"] == key);
    found.map_or(&Value::Null, |attribute| {
        let value = &attribute["value"];
        if value["intValue"].is_null() { &value["stringValue"] } else { &value["intValue"] }
    })
}

async fn run_query(caller: &[(&str, &str)]) -> (TracedServer, Vec<Value>, String, Received) {
    let (address, received) = collector().await;
    let mut traced = TracedServer::open().await;
    traced.world.set("OTEL_EXPORTER_OTLP_ENDPOINT", address);
    traced.world.set("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20of-the-collector");
    traced.world.set("OTEL_SERVICE_NAME", "harbour");
    let (paused, _) = traced.run_query(caller).await;
    let spans = spans(&received);
    let handed_out = paused["toolCalls"][0]["traceparent"].as_str().expect("a trace").to_owned();
    (traced, spans, handed_out, received)
}

#[tokio::test]
async fn a_query_is_one_trace_across_a_pause_and_a_restart_without_any_content() {
    let (traced, spans, handed_out, received) = run_query(&[("traceparent", CALLER)]).await;
    let created = named(&spans, "POST /v1/namespaces/{namespace}/queries", 1)[0];
    assert_eq!((&created["traceId"], &created["parentSpanId"]), (&json!(TRACE), &json!("b7ad6b7169203331")));
    assert_eq!(attribute(created, "http.response.status_code"), "200");

    let runs = named(&spans, "invoke_agent pilot", 2);
    let chats = named(&spans, "chat remote", 2);
    let tool = named(&spans, "execute_tool calculator", 1)[0];
    for span in runs.iter().chain(&chats).chain([&tool]) {
        assert_eq!(span["traceId"], TRACE, "{span:#}");
    }
    for (run, chat) in runs.iter().zip(&chats) {
        assert_eq!(
            run["parentSpanId"], created["spanId"],
            "both runs are children of the request that created the query"
        );
        assert_eq!(chat["parentSpanId"], run["spanId"]);
    }
    assert_eq!(tool["parentSpanId"], runs[0]["spanId"]);
    assert_eq!(attribute(runs[0], "bosun.query.state"), "waiting");
    assert_eq!(attribute(runs[1], "bosun.query.state"), "completed");
    for run in &runs {
        assert_eq!(attribute(run, "gen_ai.operation.name"), "invoke_agent");
        assert_eq!(attribute(run, "bosun.query.name"), "q");
    }
    for chat in &chats {
        assert_eq!(attribute(chat, "gen_ai.operation.name"), "chat");
        assert_eq!(attribute(chat, "gen_ai.provider.name"), "openai");
        assert_ne!(attribute(chat, "gen_ai.usage.input_tokens"), &Value::Null);
    }
    assert!(attribute(tool, "gen_ai.tool.call.id").as_str().is_some_and(|id| id.starts_with("call_")), "{tool}");

    // The delivery is another trace, which the second run is linked to.
    let delivery = named(&spans, "POST /v1/namespaces/{namespace}/queries/{name}/tool-result", 1)[0];
    assert!(DELIVERER.contains(delivery["traceId"].as_str().expect("an id")), "{delivery}");
    assert_eq!(runs[1]["links"][0]["traceId"], delivery["traceId"]);
    assert_eq!(runs[0]["links"], Value::Null);

    // The model gets the very span that calls it, the client's tool the request that began it all.
    let sent: Vec<_> =
        traced.model.requests().iter().map(|asked| asked.header("traceparent").map(str::to_owned)).collect();
    let of = |span: &Value| Some(format!("00-{TRACE}-{}-01", span["spanId"].as_str().expect("an id")));
    assert_eq!(sent, [of(chats[0]), of(chats[1])]);
    assert_eq!(Some(handed_out), of(created));

    let received = received.lock().expect("what was received");
    let everything = received.iter().map(|(_, body)| body.to_string()).collect::<String>();
    for content in [QUESTION, RESULT, "secret-harbour", "6 * 7", "Be brief."] {
        assert!(!everything.contains(content), "{content} is in a span");
    }
    assert!(received.iter().all(|(headers, _)| headers["authorization"] == "Bearer of-the-collector"));
    let log = std::fs::read_to_string(traced.world.log()).expect("a log");
    assert_eq!(log, "", "nothing is wrong, and no credential is logged");
}

#[tokio::test]
async fn a_query_that_no_caller_traces_is_one_trace_of_its_own() {
    let (_, spans, handed_out, _) = run_query(&[]).await;
    let created = named(&spans, "POST /v1/namespaces/{namespace}/queries", 1)[0];
    assert_eq!(created["parentSpanId"], Value::Null);
    let runs = named(&spans, "invoke_agent pilot", 2);
    for run in runs {
        assert_eq!((&run["traceId"], &run["parentSpanId"]), (&created["traceId"], &created["spanId"]), "{run:#}");
    }
    assert!(handed_out.contains(created["traceId"].as_str().expect("an id")), "{handed_out}");
}
