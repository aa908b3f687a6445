//! The client library against real servers that are killed, and against servers that misbehave.

use std::{
    process::Stdio,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use bosun_client::{Client, ClientError, ClientTools};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::{
    http_tools::service::{ReceivedRequest, Service},
    program::{Server, bosun, run, stderr, stdout},
    scripted::Folder,
    support::{soon, until},
};

/// The example program, run here against a server of its own.
#[expect(dead_code, reason = "its `main` is for people")]
#[path = "../../../client/examples/ask.rs"]
mod example;

const SCRIPT: &str = r#"
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

fn any() -> Value {
    json!({"type": "object"})
}

#[tokio::test]
async fn the_example_program_asks_and_brings_its_tool() {
    let server = Server::start().await;
    assert_eq!(example::ask(&server.base).await.unwrap(), "25% of 8,432 is 2,108");
}

#[tokio::test]
async fn calls_of_one_turn_run_concurrently() {
    let server = Folder::new(SCRIPT, "").serve().await;
    // Each tool waits for the other: one after the other, they would never end.
    let meeting = Arc::new(tokio::sync::Barrier::new(2));
    let other = Arc::clone(&meeting);
    let tools = ClientTools::new()
        .with("left", "Waits", any(), move |_| {
            let meeting = Arc::clone(&meeting);
            async move {
                meeting.wait().await;
                Ok::<_, String>("l")
            }
        })
        .with("right", "Waits", any(), move |_| {
            let meeting = Arc::clone(&other);
            async move {
                meeting.wait().await;
                Ok::<_, String>("r")
            }
        });
    let client = Client::new(&server.base).unwrap();
    let answer = soon("the answer", async { client.ask("tester", "both at once").tools(&tools).await }).await;
    assert_eq!(answer.unwrap().text, "l r");
}

#[tokio::test]
async fn a_result_may_be_json_and_a_failure_or_a_panic_is_read_by_the_model() {
    let server = Folder::new(SCRIPT, "").serve().await;
    let client = Client::new(&server.base).unwrap();
    let ask = async |tools: &ClientTools| client.ask("tester", "a number").tools(tools).await.unwrap().text;
    let number = ClientTools::new().with("probe", "Counts", any(), async |_| Ok::<_, String>(json!({"n": 7})));
    assert_eq!(ask(&number).await, r#"{"n":7}"#);
    let failing = ClientTools::new().with("probe", "Counts", any(), async |_| Err::<Value, _>("out of numbers"));
    assert_eq!(ask(&failing).await, "Error: out of numbers");
    let panicking = ClientTools::new().with("probe", "Counts", any(), |call| async move {
        assert!(call.arguments.is_null(), "on purpose");
        Ok::<_, String>(0)
    });
    assert_eq!(ask(&panicking).await, "Error: the tool panicked");
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

#[tokio::test]
async fn a_server_that_is_killed_while_a_tool_runs_gets_the_result_after_its_restart() {
    let folder = Folder::new(SCRIPT, "");
    let mut server = folder.serve().await;
    let (started, mut starts) = mpsc::unbounded_channel();
    let (go, gone) = tokio::sync::watch::channel(false);
    let tools = ClientTools::new().with("probe", "Waits", any(), move |call| {
        started.send(call).unwrap();
        let mut gone = gone.clone();
        async move { gone.wait_for(|gone| *gone).await.map(|_| "after the restart").map_err(|error| error.to_string()) }
    });
    let client = Client::new(&server.base).unwrap();
    let restart = async {
        starts.recv().await.unwrap();
        server.kill_and_restart().await;
        go.send(true).unwrap();
    };
    let asking = async { client.ask("tester", "a number").tools(&tools).await };
    let (answer, ()) = soon("the answer", async { tokio::join!(asking, restart) }).await;
    assert_eq!(answer.unwrap().text, "after the restart");
}

#[tokio::test]
async fn a_client_that_is_dropped_is_resumed_without_running_finished_calls_again() {
    let server = Folder::new(SCRIPT, "").serve().await;
    let client = Client::new(&server.base).unwrap();
    let ran: Arc<Mutex<Vec<String>>> = Arc::default();
    let (reached, mut reaches) = mpsc::unbounded_channel();
    let tools = |is_stuck: bool| {
        let (ran, reached) = (Arc::clone(&ran), reached.clone());
        ClientTools::new().with("probe", "Records", any(), move |call| {
            let word = call.arguments["word"].as_str().unwrap().to_owned();
            ran.lock().unwrap().push(format!("{word} {}", call.id));
            let is_stuck = is_stuck && word == "two";
            if is_stuck {
                reached.send(()).unwrap();
            }
            async move {
                if is_stuck {
                    std::future::pending::<()>().await;
                }
                Ok::<_, String>(word)
            }
        })
    };
    let first = tools(true);
    let asking = async { client.ask("tester", "one after the other").named("resumed").tools(&first).await };
    tokio::select! {
        ended = asking => panic!("the second call never ends: {ended:?}"),
        reached = soon("the second call", reaches.recv()) => reached.unwrap(),
    }
    let second = tools(false);
    let answer = soon("the answer", async { client.resume("resumed").tools(&second).await }).await.unwrap();
    assert_eq!((answer.query.as_str(), answer.text.as_str()), ("resumed", "two"));
    let ran = ran.lock().unwrap().clone();
    assert_eq!(ran.len(), 3, "{ran:?}");
    assert!(ran[0].starts_with("one ") && ran[1].starts_with("two ") && ran[1] == ran[2], "{ran:?}");
    // Asking the same question once more runs nothing: it is the same query.
    let third = tools(false);
    let again = client.ask("tester", "one after the other").named("resumed").tools(&third).await.unwrap();
    assert_eq!(again.text, "two");
}

#[tokio::test]
async fn a_client_that_is_killed_is_continued_by_the_next_one_under_the_same_name() {
    let folder = Folder::new(SCRIPT, "").with_tools(&["probe"]);
    let server = folder.serve().await;
    let query = |command: &str| {
        let mut query = bosun();
        query.args(["query", "--agent", "tester", "one after the other", "--name", "killed", "--server", &server.base]);
        query.args(["--tools", "tools.json", "--run", &format!("probe={command}")]).current_dir(folder.path());
        query
    };
    // The first client never gets past the second call.
    let stuck = "read arguments; echo \"$arguments\" >> log; case \"$arguments\" in *two*) touch stuck; while [ -e log ]; do sleep 0.1; done;; esac; echo first";
    let mut first = query(stuck).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the second call", || folder.path().join("stuck").exists()).await;
    first.kill().await.unwrap();
    let output = run(&mut query("read arguments; echo \"$arguments\" >> log; echo second")).await;
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "second\n"), "{}", stderr(&output));
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    assert_eq!(log, "{\"word\":\"one\"}\n{\"word\":\"two\"}\n{\"word\":\"two\"}\n");
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
