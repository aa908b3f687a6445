//! The client library over each of its transports: one loop, one table of tests.

use std::{
    process::Stdio,
    sync::{Arc, Mutex},
};

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use bosun_client::{A2aAgent, Client, ClientError, ClientTools, Observer, OpenCall, Question};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::{
    client::{SCRIPT, any, stream},
    http_tools::service::{ReceivedRequest, Service},
    program::{Server, bosun, run, run_with_input, stderr, stdout, workspace},
    scripted::Folder,
    support::{client::http, soon, until},
};

const CLIENT_TOOLS: &str = "https://bosun.dev/a2a/extensions/client-tools/v1";

/// The protocol that a question is asked over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    Rest,
    A2a,
}

/// The agent `tester` of a server.
enum TestClient {
    Rest(Client),
    A2a(A2aAgent),
}

impl TestClient {
    async fn of(over: Over, server: &Server) -> Self {
        match over {
            Over::Rest => Self::Rest(Client::new(&server.base).unwrap()),
            Over::A2a => {
                let url = format!("{}/a2a/agents/default/tester", server.base);
                Self::A2a(A2aAgent::open(&url, None).await.unwrap())
            }
        }
    }

    fn ask(&self, input: &str) -> Question<'_> {
        match self {
            Self::Rest(client) => client.ask("tester", input),
            Self::A2a(agent) => agent.ask(input),
        }
    }

    fn resume(&self, id: &str) -> Question<'_> {
        match self {
            Self::Rest(client) => client.resume(id),
            Self::A2a(agent) => agent.resume(id),
        }
    }
}

/// The id of the only query of a server. Over REST it is the name that the client has chosen.
async fn id_of(over: Over, server: &Server) -> String {
    let queries = http().get(format!("{}/v1/queries", server.base)).send().await.unwrap();
    let queries: Value = queries.json().await.unwrap();
    let [query] = queries["items"].as_array().unwrap().as_slice() else { panic!("one query: {queries}") };
    let id = query["name"].as_str().unwrap().to_owned();
    assert!(over == Over::A2a || id == "resumed", "{id}");
    id
}

/// The state and the open calls of a query, whatever it was asked over.
async fn open_calls(server: &Server, id: &str) -> (String, Vec<String>) {
    let query = http().get(format!("{}/v1/queries/{id}?view=rfc", server.base)).send().await.unwrap();
    let query: Value = query.json().await.unwrap();
    let calls = query["toolCalls"].as_array().into_iter().flatten();
    (query["state"].as_str().unwrap().to_owned(), calls.map(|call| call["name"].as_str().unwrap().to_owned()).collect())
}

macro_rules! over_both {
    ($($name:ident),* $(,)?) => {
        mod rest {
            $(#[tokio::test] async fn $name() { super::checks::$name(super::Over::Rest).await })*
        }
        mod a2a {
            $(#[tokio::test] async fn $name() { super::checks::$name(super::Over::A2a).await })*
        }
    };
}

over_both! {
    calls_of_one_turn_run_concurrently,
    a_result_may_be_json_and_a_failure_or_a_panic_is_read_by_the_model,
    a_server_that_is_killed_while_a_tool_runs_gets_the_result_after_its_restart,
    a_client_that_is_dropped_is_resumed_without_running_finished_calls_again,
    a_client_that_is_killed_is_continued_by_the_next_one_under_the_same_name,
    a_server_that_is_killed_while_the_query_waits_gets_the_result_of_the_next_client,
    results_arrive_one_by_one_and_the_others_stay_open,
    a_result_that_arrives_twice_is_recorded_once,
    a_result_that_is_refused_is_read_by_the_model,
}

/// What an observer was told of outcomes that were not accepted.
#[derive(Default)]
struct NotAccepted(Vec<String>);

impl Observer for NotAccepted {
    fn not_accepted(&mut self, _call: &OpenCall, error: &ClientError) -> std::io::Result<()> {
        self.0.push(error.code().unwrap_or_default().to_owned());
        Ok(())
    }
}

mod checks {
    use super::*;

    pub(super) async fn calls_of_one_turn_run_concurrently(over: Over) {
        let folder = Folder::new(SCRIPT, "");
        let server = folder.serve().await;
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
        let client = TestClient::of(over, &server).await;
        let answer = soon("the answer", async { client.ask("both at once").tools(&tools).await }).await;
        assert_eq!(answer.unwrap().text, "l r");
    }

    pub(super) async fn a_result_may_be_json_and_a_failure_or_a_panic_is_read_by_the_model(over: Over) {
        let folder = Folder::new(SCRIPT, "");
        let server = folder.serve().await;
        let client = TestClient::of(over, &server).await;
        let ask = async |tools: &ClientTools| client.ask("a number").tools(tools).await.unwrap().text;
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

    pub(super) async fn a_server_that_is_killed_while_a_tool_runs_gets_the_result_after_its_restart(over: Over) {
        let folder = Folder::new(SCRIPT, "");
        let mut server = folder.serve().await;
        let (started, mut starts) = mpsc::unbounded_channel();
        let (go, gone) = tokio::sync::watch::channel(false);
        let tools =
            ClientTools::new().with("probe", "Waits", any(), move |call| {
                started.send(call).unwrap();
                let mut gone = gone.clone();
                async move {
                    gone.wait_for(|gone| *gone).await.map(|_| "after the restart").map_err(|error| error.to_string())
                }
            });
        let client = TestClient::of(over, &server).await;
        let restart = async {
            starts.recv().await.unwrap();
            server.kill_and_restart().await;
            go.send(true).unwrap();
        };
        let asking = async { client.ask("a number").tools(&tools).await };
        let (answer, ()) = soon("the answer", async { tokio::join!(asking, restart) }).await;
        assert_eq!(answer.unwrap().text, "after the restart");
    }

    pub(super) async fn a_client_that_is_dropped_is_resumed_without_running_finished_calls_again(over: Over) {
        let folder = Folder::new(SCRIPT, "");
        let server = folder.serve().await;
        let client = TestClient::of(over, &server).await;
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
        let asking = async { client.ask("one after the other").named("resumed").tools(&first).await };
        tokio::select! {
            ended = asking => panic!("the second call never ends: {ended:?}"),
            reached = soon("the second call", reaches.recv()) => reached.unwrap(),
        }
        let second = tools(false);
        let id = id_of(over, &server).await;
        let answer = soon("the answer", async { client.resume(&id).tools(&second).await }).await.unwrap();
        assert_eq!((answer.query, answer.text.as_str()), (id, "two"));
        let ran = ran.lock().unwrap().clone();
        assert_eq!(ran.len(), 3, "{ran:?}");
        assert!(ran[0].starts_with("one ") && ran[1].starts_with("two ") && ran[1] == ran[2], "{ran:?}");
        // Asking the same question once more runs nothing: it is the same query.
        let third = tools(false);
        let again = client.ask("one after the other").named("resumed").tools(&third).await.unwrap();
        assert_eq!(again.text, "two");
    }

    pub(super) async fn a_client_that_is_killed_is_continued_by_the_next_one_under_the_same_name(over: Over) {
        let folder = Folder::new(SCRIPT, "").with_tools(&["probe"]);
        let server = folder.serve().await;
        let query = |command: &str| {
            let mut query = bosun();
            query.args(["query", "one after the other", "--name", "killed"]);
            match over {
                Over::Rest => query.args(["--agent", "tester", "--server", &server.base]),
                Over::A2a => query.args(["--a2a", &format!("{}/a2a/agents/default/tester", server.base)]),
            };
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

    pub(super) async fn a_server_that_is_killed_while_the_query_waits_gets_the_result_of_the_next_client(over: Over) {
        let folder = Folder::new(SCRIPT, "");
        let mut server = folder.serve().await;
        let client = TestClient::of(over, &server).await;
        let (started, mut starts) = mpsc::unbounded_channel();
        let stuck = ClientTools::new().with("probe", "Waits", any(), move |_| {
            started.send(()).unwrap();
            std::future::pending::<Result<Value, String>>()
        });
        let asking = async { client.ask("a number").named("resumed").tools(&stuck).await };
        tokio::select! {
            ended = asking => panic!("the call never ends: {ended:?}"),
            started = soon("the call", starts.recv()) => started.unwrap(),
        }
        server.kill_and_restart().await;
        let tools = ClientTools::new().with("probe", "Waits", any(), async |_| Ok::<_, String>("from the next client"));
        // The same question again, as a process does that knows nothing but its own question.
        let answer = soon("the answer", async { client.ask("a number").named("resumed").tools(&tools).await }).await;
        assert_eq!(answer.unwrap().text, "from the next client");
        id_of(over, &server).await;
    }

    pub(super) async fn results_arrive_one_by_one_and_the_others_stay_open(over: Over) {
        let folder = Folder::new(SCRIPT, "");
        let server = folder.serve().await;
        let client = TestClient::of(over, &server).await;
        let (go, gone) = tokio::sync::watch::channel(false);
        let tools = ClientTools::new().with("left", "Answers", any(), async |_| Ok::<_, String>("l")).with(
            "right",
            "Waits",
            any(),
            move |_| {
                let mut gone = gone.clone();
                async move { gone.wait_for(|gone| *gone).await.map(|_| "r").map_err(|error| error.to_string()) }
            },
        );
        let partial = async {
            loop {
                let queries = http().get(format!("{}/v1/queries", server.base)).send().await.unwrap();
                let queries: Value = queries.json().await.unwrap();
                if let Some(id) = queries["items"][0]["name"].as_str()
                    && open_calls(&server, id).await == ("waiting".to_owned(), vec!["right".to_owned()])
                {
                    break;
                }
                tokio::task::yield_now().await;
            }
            go.send(true).unwrap();
        };
        let asking = async { client.ask("both at once").named("resumed").tools(&tools).await };
        let (answer, ()) = soon("the answer", async { tokio::join!(asking, partial) }).await;
        assert_eq!(answer.unwrap().text, "l r");
    }

    pub(super) async fn a_result_that_arrives_twice_is_recorded_once(over: Over) {
        let folder = Folder::new(SCRIPT, "");
        let server = folder.serve().await;
        let client = TestClient::of(over, &server).await;
        // Two clients run the same call, and deliver when both of them have it.
        let meeting = Arc::new(tokio::sync::Barrier::new(2));
        let tools = |said: &'static str| {
            let meeting = Arc::clone(&meeting);
            ClientTools::new().with("probe", "Waits", any(), move |_| {
                let meeting = Arc::clone(&meeting);
                async move {
                    meeting.wait().await;
                    Ok::<_, String>(said)
                }
            })
        };
        for (said, refusals) in [(["same", "same"], 0), (["one", "other"], 1)] {
            let (first, second) = (tools(said[0]), tools(said[1]));
            let (mut one, mut other) = (NotAccepted::default(), NotAccepted::default());
            let name = format!("twice-{refusals}");
            let ask = async |tools: &ClientTools, observer: &mut NotAccepted| {
                client.ask("a number").named(name.as_str()).tools(tools).observed_by(observer).await.unwrap().text
            };
            let answers = async { tokio::join!(ask(&first, &mut one), ask(&second, &mut other)) };
            let answers = soon("both answers", answers).await;
            assert_eq!(answers.0, answers.1, "one outcome for both");
            assert!(said.contains(&answers.0.as_str()), "{answers:?}");
            let refused: Vec<_> = one.0.into_iter().chain(other.0).collect();
            // The other client may have read the end before its refusal.
            assert!(refused.len() <= refusals && refused.iter().all(|code| code == "already_resolved"), "{refused:?}");
        }
    }

    pub(super) async fn a_result_that_is_refused_is_read_by_the_model(over: Over) {
        let folder = Folder::new(SCRIPT, "");
        let server = folder.serve().await;
        let client = TestClient::of(over, &server).await;
        // Deeper than JSON may be, which the server refuses however it is sent.
        let deep = (0..80).fold(json!(1), |inner, _| json!([inner]));
        let tools = ClientTools::new().with("probe", "Digs", any(), move |_| {
            let deep = deep.clone();
            async move { Ok::<_, String>(deep) }
        });
        let answer = soon("the answer", async { client.ask("a number").tools(&tools).await }).await.unwrap();
        assert!(answer.text.starts_with("Error: the result of the tool was not accepted"), "{}", answer.text);
    }
}

#[tokio::test]
async fn a_text_while_a_call_waits_supersedes_it_and_its_late_result_changes_nothing() {
    let folder = Folder::new(SCRIPT, "");
    let server = folder.serve().await;
    let url = format!("{}/a2a/agents/default/tester", server.base);
    let agent = A2aAgent::open(&url, None).await.unwrap();
    let (started, mut starts) = mpsc::unbounded_channel();
    let (go, gone) = tokio::sync::watch::channel(false);
    let tools = ClientTools::new().with("probe", "Waits", any(), move |_| {
        started.send(()).unwrap();
        let mut gone = gone.clone();
        async move { gone.wait_for(|gone| *gone).await.map(|_| "late").map_err(|error| error.to_string()) }
    });
    let mut observer = NotAccepted::default();
    let interrupt = async {
        starts.recv().await.unwrap();
        let id = id_of(Over::A2a, &server).await;
        let reply = agent.reply(&id, "never mind, say hello").await.unwrap();
        go.send(true).unwrap();
        (id, reply)
    };
    let asking = agent.ask("a number").tools(&tools).observed_by(&mut observer);
    let (answer, (id, reply)) = soon("the answer", async { tokio::join!(asking, interrupt) }).await;
    let answer = answer.unwrap();
    assert_eq!((&answer.query, &reply.query), (&id, &id), "both follow the same task");
    assert_eq!(answer.text, reply.text);
    assert!(answer.text.contains("Cancelled: user provided new input"), "{}", answer.text);
    assert!(observer.0.iter().all(|code| code == "already_resolved"), "{:?}", observer.0);
}

/// An agent of another make, which answers each operation of HTTP+JSON with `answers(operation, body)`; its card offers
/// nothing else.
async fn other_agent(
    is_streaming: bool,
    answers: impl Fn(&str, &Value) -> Response + Send + Sync + 'static,
) -> (Service, A2aAgent) {
    let service = Service::start(move |request: &ReceivedRequest| {
        if request.target.ends_with("agent-card.json") {
            let url = format!("http://{}/other", request.header("host"));
            let tools = json!({ "uri": CLIENT_TOOLS });
            return json!({
                "name": "other", "supportedInterfaces": [{"url": url, "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}],
                "capabilities": {"streaming": is_streaming, "extensions": [tools]},
            })
            .to_string()
            .into_response();
        }
        let operation = request.target.trim_start_matches("/other/").split('?').next().unwrap_or_default();
        answers(operation, &serde_json::from_str(&request.body).unwrap_or_default())
    })
    .await;
    let agent = A2aAgent::open(&service.url, None).await.unwrap();
    (service, agent)
}

fn other_task(state: &str, parts: &Value) -> Value {
    let message = json!({"messageId": "m", "role": "ROLE_AGENT", "parts": parts});
    json!({"id": "t", "status": {"state": format!("TASK_STATE_{state}"), "message": message}})
}

fn a_call() -> Value {
    json!([{"data": {"toolCalls": [{"id": "c", "type": "function", "function": {"name": "probe", "arguments": {}}}]}}])
}

fn probe() -> ClientTools {
    ClientTools::new().with("probe", "Counts", any(), async |_| Ok::<_, String>("counted"))
}

#[tokio::test]
async fn an_agent_without_streams_is_polled_until_it_has_answered() {
    let delivered = Arc::new(Mutex::new(None));
    let results = Arc::clone(&delivered);
    let (_service, agent) = other_agent(false, move |operation, body| {
        let mut delivered = delivered.lock().unwrap();
        match operation {
            "message:send" if body["message"]["taskId"] == "t" => {
                *delivered = Some(body["message"]["parts"][0]["data"]["toolResults"][0].clone());
                json!({"task": other_task("WORKING", &json!([]))}).to_string().into_response()
            }
            "message:send" => json!({"task": other_task("SUBMITTED", &json!([]))}).to_string().into_response(),
            "tasks/t" if delivered.is_none() => other_task("INPUT_REQUIRED", &a_call()).to_string().into_response(),
            "tasks/t" => other_task("COMPLETED", &json!([{"text": "done"}])).to_string().into_response(),
            other => (StatusCode::NOT_FOUND, other.to_owned()).into_response(),
        }
    })
    .await;
    let tools = probe();
    let answer = soon("the answer", async { agent.ask("hello").tools(&tools).await }).await.unwrap();
    assert_eq!((answer.query.as_str(), answer.text.as_str()), ("t", "done"));
    let result = results.lock().unwrap().take().unwrap();
    assert_eq!(result, json!({"toolCallId": "c", "toolName": "probe", "success": true, "result": "counted"}));
}

#[tokio::test]
async fn a_server_that_closes_streams_while_its_task_waits_is_subscribed_to_again() {
    let delivered = Arc::new(Mutex::new(0));
    let (service, agent) = other_agent(true, move |operation, body| {
        let mut delivered = delivered.lock().unwrap();
        let event = |event: Value| stream(format!("data: {event}\n\n"));
        match operation {
            "message:stream" => event(json!({"task": other_task("INPUT_REQUIRED", &a_call())})),
            // The first delivery gets no answer that can be read: it may have arrived, and is repeated.
            "message:send" => {
                *delivered += 1;
                assert_eq!(body["message"]["messageId"], "c-result");
                match *delivered {
                    1 => StatusCode::BAD_GATEWAY.into_response(),
                    _ => json!({"task": other_task("WORKING", &json!([]))}).to_string().into_response(),
                }
            }
            "tasks/t:subscribe" if *delivered < 2 => event(json!({"task": other_task("INPUT_REQUIRED", &a_call())})),
            // It has ended before the subscription.
            "tasks/t:subscribe" => {
                let error = json!({"error": {"code": 400, "status": "FAILED_PRECONDITION", "message": "ended", "details": [
                    {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "UNSUPPORTED_OPERATION"},
                ]}});
                (StatusCode::BAD_REQUEST, error.to_string()).into_response()
            }
            "tasks/t" => other_task("COMPLETED", &json!([{"text": "done"}])).to_string().into_response(),
            other => (StatusCode::NOT_FOUND, other.to_owned()).into_response(),
        }
    })
    .await;
    let tools = probe();
    let answer = soon("the answer", async { agent.ask("hello").tools(&tools).await }).await.unwrap();
    assert_eq!(answer.text, "done");
    let sent = service.received();
    let deliveries = sent.iter().filter(|request| request.target.ends_with("message:send"));
    assert_eq!(deliveries.count(), 2, "the call has run once, and its result was sent until it was acknowledged");
    assert!(sent.iter().all(|request| request.header("a2a-version") == "1.0"));
    let activates = |request: &&ReceivedRequest| request.header("a2a-extensions") == CLIENT_TOOLS;
    assert_eq!(sent.iter().filter(activates).count(), sent.len() - 1, "all but that for the card");
}

#[tokio::test]
async fn an_agent_that_asks_in_words_gets_its_answer_by_a_reply() {
    let (service, agent) = other_agent(false, |operation, body| match operation {
        "message:send" if body["message"]["taskId"] == "t" => {
            json!({"task": other_task("COMPLETED", &json!([{"text": "It rains in Oslo."}]))})
                .to_string()
                .into_response()
        }
        _ => {
            json!({"task": other_task("INPUT_REQUIRED", &json!([{"text": "Which city?"}]))}).to_string().into_response()
        }
    })
    .await;
    let asked = agent.ask("What is the weather?").await.unwrap_err();
    let ClientError::InputRequired { query, question } = &asked else { panic!("{asked:?}") };
    assert_eq!((query.as_str(), question.as_str()), ("t", "Which city?"));
    assert_eq!(agent.reply(query, "Oslo").await.unwrap().text, "It rains in Oslo.");
    assert_eq!(service.received().len(), 3);
}

#[tokio::test]
async fn what_is_no_agent_and_what_makes_no_sense_are_errors() {
    let page = Service::start(|_: &ReceivedRequest| "<html>").await;
    let nothing = Service::start(|_: &ReceivedRequest| StatusCode::NOT_FOUND).await;
    for (url, expect) in [
        (page.url.as_str(), "its card cannot be read"),
        (nothing.url.as_str(), "there is no card at"),
        (&format!("{}/a2a", nothing.url), "there is no card at"),
    ] {
        let error = A2aAgent::open(url, None).await.unwrap_err();
        assert!(matches!(error, ClientError::NotAnAgent { .. }) && error.to_string().contains(expect), "{error}");
    }
    type Hostile = fn() -> Response;
    let cases: [(Hostile, &str); 4] = [
        (|| "{}".into_response(), "it is not an event stream"),
        (|| stream("data: {\n\n"), "an event is not JSON"),
        (
            || {
                stream(
                    "data: {\"statusUpdate\": {\"taskId\": \"t\", \"status\": {\"state\": \"TASK_STATE_WORKING\"}}}\n\n",
                )
            },
            "must begin with a task",
        ),
        (|| stream("data: {\"task\": {\"id\": \"t\"}}\n\n"), "it is not of A2A 1.0"),
    ];
    for (answer, expect) in cases {
        let (_service, agent) = other_agent(true, move |_, _| answer()).await;
        let error = soon("an end", async { agent.ask("hello").await }).await.unwrap_err();
        assert!(error.to_string().contains(expect) && !error.is_passing(), "{expect}: {error}");
    }
}

#[tokio::test]
async fn a_person_at_the_terminal_decides_over_a2a() {
    let server = Server::start_with(&workspace().join("examples/approvals")).await;
    for (typed, input, expect) in [
        ("y\n", "Invite Ada", "ada@example.com"),
        ("ada@example.com\ny\n", "Invite someone", "ada@example.com"),
        ("too early\n", "Invite Ada", "too early"),
    ] {
        let mut query = bosun();
        query.args(["query", "--a2a", &server.base, input]);
        let output = run_with_input(&mut query, typed).await;
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(stdout(&output).contains(expect), "{typed}: {}{}", stdout(&output), stderr(&output));
    }
    // What the protocol has no field for is not dropped silently.
    let mut query = bosun();
    query.args(["query", "--a2a", &server.base, "Invite Ada", "--timeout", "3s"]);
    let output = run(&mut query).await;
    assert!(
        !output.status.success() && stderr(&output).contains("A2A has no field for `timeout`"),
        "{}",
        stderr(&output)
    );
}
