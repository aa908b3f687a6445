//! The client library against real servers that are killed, and against servers that misbehave.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use bosun_client::{Client, ClientError, ClientTools};
use serde_json::{Value, json};

use crate::{
    http_tools::service::{ReceivedRequest, Service},
    program::Server,
    scripted::Folder,
    support::soon,
};

/// The example program, run here against a server of its own.
#[expect(dead_code, reason = "its `main` is for people")]
#[path = "../../../client/examples/ask.rs"]
mod example;

/// The same over A2A.
#[expect(dead_code, reason = "its `main` is for people")]
#[path = "../../../client/examples/ask_a2a.rs"]
mod a2a_example;

pub(crate) const SCRIPT: &str = r#"
scenes:
  - when: both at once
    turns:
      - call: [{tool: left, arguments: {}}, {tool: right, arguments: {}}]
      - say: "{{ result.left }} {{ result.right }}"
  - when: one after the other
    turns:
      - call: [{tool: probe, arguments: {word: "one"}}]
      - call: [{tool: probe, arguments: {word: "two"}}]
      - say: "{{ result.probe }}"
  - when: a number
    turns:
      - call: [{tool: probe, arguments: {}}]
      - say: "{{ result.probe }}"
  - when: nothing works
    turns:
      - fail: {status: 400, message: "no such deployment"}
"#;

pub(crate) fn any() -> Value {
    json!({"type": "object", "properties": {}})
}

#[tokio::test]
async fn the_example_programs_ask_and_bring_their_tools() {
    let server = Server::start().await;
    assert_eq!(example::ask(&server.base).await.unwrap(), "25% of 8,432 is 2,108");
    // The base URL of a server, the endpoint of an agent, and a card lead to the same agent.
    for place in ["", "/a2a", "/a2a/agents/default/math-assistant/.well-known/agent-card.json"] {
        let answer = a2a_example::ask(&format!("{}{place}", server.base)).await;
        assert_eq!(answer.unwrap(), "25% of 8,432 is 2,108", "{place}");
    }
}

#[tokio::test]
async fn a_query_that_fails_and_a_refusal_are_errors_with_their_codes() {
    let server = Folder::new(SCRIPT, "").serve().await;
    let client = Client::new(&server.base).unwrap();
    let failed = client.ask("tester", "nothing works").named("failing").await.unwrap_err();
    assert!(
        matches!(&failed, ClientError::QueryFailed { query, code, .. } if query == "failing" && code == "model_refused"),
        "{failed:?}"
    );
    for (agent, name, code) in [("missing", "new", "agent_not_found"), ("tester", "failing", "query_exists")] {
        let refused = client.ask(agent, "another question").named(name).await.unwrap_err();
        assert_eq!(refused.code(), Some(code), "{refused:?}");
    }
    let nowhere = Client::new("http://127.0.0.1:1").unwrap().ask("tester", "x").await.unwrap_err();
    assert!(matches!(nowhere, ClientError::Unreachable { .. }), "{nowhere:?}");
}

/// The events of a query, as the server sends them.
pub(crate) fn events(parts: &[(&str, u32, Value)]) -> String {
    parts.iter().map(|(name, id, data)| format!("event: {name}\nid: u.{id}\ndata: {data}\n\n")).collect()
}

pub(crate) fn stream(body: impl Into<String>) -> Response {
    ([("content-type", "text/event-stream")], body.into()).into_response()
}

pub(crate) fn refusal(status: StatusCode, code: &str) -> Response {
    (status, json!({"error": {"code": code, "message": "no"}}).to_string()).into_response()
}

fn called() -> (&'static str, u32, Value) {
    ("tool_call", 2, json!({"id": "call_1", "name": "probe", "arguments": {}}))
}

fn ended() -> [(&'static str, u32, Value); 2] {
    [("agent_response", 5, json!({"response": "done"})), ("complete", 6, json!({"status": "completed"}))]
}

fn probe() -> ClientTools {
    ClientTools::new().with("probe", "Counts", any(), async |_| Ok::<_, String>("result"))
}

/// Asks a server that answers the `n`th request with `answers(request, n)`; the answer, and the requests.
async fn ask_hostile(
    answers: impl Fn(&ReceivedRequest, usize) -> Response + Send + Sync + 'static,
) -> (Result<String, ClientError>, Vec<ReceivedRequest>) {
    let asked = AtomicUsize::new(0);
    let service =
        Service::start(move |request: &ReceivedRequest| answers(request, asked.fetch_add(1, Ordering::SeqCst))).await;
    let (client, tools) = (Client::new(&service.url).unwrap(), probe());
    let answer = soon("an end", async { client.ask("tester", "hello").named("q").tools(&tools).await }).await;
    (answer.map(|answer| answer.text), service.received())
}

#[tokio::test]
async fn answers_that_make_no_sense_are_errors() {
    type Hostile = fn() -> Response;
    let cases: [(Hostile, &str); 6] = [
        (|| "<html>".into_response(), "not an event stream"),
        (|| stream("event: tool_call\nid: u.1\ndata: {\"id\": \n\n"), "event `tool_call` is not JSON"),
        (|| stream(events(&[("tool_call", 1, json!({"arguments": {}}))])), "a call has no `id` or `name`"),
        (|| ([("content-type", "text/event-stream")], vec![0xff, b'\n', b'\n']).into_response(), "not UTF-8"),
        (|| stream("x".repeat(5 * 1024 * 1024)), "longer than 4194304 bytes"),
        (|| (StatusCode::IM_A_TEAPOT, "short and stout").into_response(), "the server answered 418"),
    ];
    for (answer, expect) in cases {
        let (ended, requests) = ask_hostile(move |_, _| answer()).await;
        let error = ended.unwrap_err();
        assert!(error.to_string().contains(expect) && !error.is_passing(), "{expect}: {error}");
        assert_eq!(requests.len(), 1, "{expect}: it is not repeated");
    }
}

#[tokio::test]
async fn a_busy_server_is_asked_again_when_it_says_so() {
    let (answer, requests) = ask_hostile(|_, asked| match asked {
        0 => ([("retry-after", "1")], refusal(StatusCode::SERVICE_UNAVAILABLE, "overloaded")).into_response(),
        1 => refusal(StatusCode::CONFLICT, "query_changed"),
        _ => stream(events(&ended())),
    })
    .await;
    assert_eq!(answer.unwrap(), "done");
    assert_eq!(requests.len(), 3);
    assert!(requests.iter().all(|request| request.body == requests[0].body), "the same query, by its name");
    let (answer, requests) = ask_hostile(|_, _| refusal(StatusCode::CONFLICT, "query_exists")).await;
    assert_eq!(answer.unwrap_err().code(), Some("query_exists"));
    assert_eq!(requests.len(), 1);
}

#[tokio::test]
async fn a_stream_that_is_cut_is_resumed_after_the_last_whole_event() {
    let (answer, requests) = ask_hostile(|request, asked| match asked {
        // The last event is cut in the middle of its data.
        0 => stream(events(&[("agent_thinking", 1, json!({}))]) + "event: agent_response\nid: u.5\ndata: {\"resp"),
        1 => refusal(StatusCode::BAD_GATEWAY, "proxy"),
        _ if request.method == "GET" => stream(events(&ended())),
        _ => refusal(StatusCode::NOT_FOUND, "query_not_found"),
    })
    .await;
    assert_eq!(answer.unwrap(), "done");
    let resumed = requests.last().unwrap();
    assert_eq!((resumed.target.as_str(), resumed.header("last-event-id")), ("/v1/queries/q/events", "u.1"));
}

/// What the server answers to deliveries, in order, and what is delivered.
type DeliveryCase = (&'static [(u16, &'static str)], &'static [&'static str]);

const DELIVERIES: &[DeliveryCase] = &[
    (&[(503, "overloaded"), (200, "")], &["result", "result"]),
    (&[(409, "already_resolved")], &["result"]),
    (&[(410, "call_expired")], &["result"]),
    // The model reads that a result cannot be delivered.
    (
        &[(413, "result_too_large"), (200, "")],
        &["result", "the result of the tool was not accepted: no [result_too_large]"],
    ),
];

#[tokio::test]
async fn a_delivery_is_repeated_and_one_that_is_not_accepted_does_not_end_the_query() {
    for (verdicts, expect) in DELIVERIES {
        let delivered = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&delivered);
        let (answer, requests) = ask_hostile(move |request, _| {
            if request.target.contains("tool-result") {
                let (status, code) = verdicts[counted.fetch_add(1, Ordering::SeqCst).min(verdicts.len() - 1)];
                let status = StatusCode::from_u16(status).unwrap();
                return if status.is_success() { "{}".into_response() } else { refusal(status, code) };
            }
            if request.method == "POST" {
                return stream(events(&[called()]));
            }
            // The query ends when everything was delivered.
            let is_over = counted.load(Ordering::SeqCst) == verdicts.len();
            stream(if is_over { events(&ended()) } else { String::new() })
        })
        .await;
        assert_eq!(answer.unwrap(), "done", "{verdicts:?}");
        let bodies = requests.iter().filter(|request| request.target.contains("tool-result"));
        let bodies: Vec<Value> = bodies.map(|request| serde_json::from_str(&request.body).unwrap()).collect();
        let delivered: Vec<_> =
            bodies.iter().filter_map(|body| body["toolResult"].as_str().or(body["error"].as_str())).collect();
        assert_eq!(delivered, *expect, "{verdicts:?}");
        assert!(bodies.iter().all(|body| body["toolCallId"] == "call_1"), "{bodies:?}");
    }
}
