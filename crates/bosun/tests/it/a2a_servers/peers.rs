//! Peers that behave in every way that the protocol allows, and in many that it does not: the query continues, or ends with
//! a clear outcome.

use bosun_standin::a2a::{A2aPeer, PeerBehaviour};
use serde_json::{Value, json};

use super::{api, ask, discovered, is_ready, manifest, until, world};
use crate::support::{
    client::{Stream, http},
    server::{ProcessExit, Server, World},
    soon,
};

/// A server of ours in front of a peer.
async fn before(peer: &A2aPeer, more: &str) -> (World, Server) {
    let world = world("peer-peer", &manifest("peer", &peer.url(), more));
    let server = world.start().await;
    (world, server)
}

/// The same with an agent that asks the agent that asks the peer.
async fn chief(peer: &A2aPeer) -> (World, Server) {
    let world = world("peer-peer", &(CHIEF.to_owned() + &manifest("peer", &peer.url(), "")));
    let script = world.path("manifests/ours.script.yaml");
    let scenes = std::fs::read_to_string(&script).unwrap().replace("scenes:", &format!("scenes:{CHIEFS_SCENE}"));
    std::fs::write(&script, scenes).unwrap();
    let server = world.start().await;
    is_ready(&server, "peer").await;
    (world, server)
}

const CHIEF: &str = "
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Agent
metadata: {name: chief}
spec:
  prompt: Let the other one ask.
  tools: [{type: agent, name: asker}]
";

const CHIEFS_SCENE: &str = r#"
  - when: {exactly: below}
    turns:
      - call: [{tool: asker, arguments: {input: "hello"}}]
      - say: "Below: {{ result.asker }}""#;

/// The next question in a stream of either API.
async fn next_question(stream: &mut Stream) -> Value {
    let mut budget = u64::MAX;
    loop {
        let event = stream.next(&mut budget).await.expect("a connection").expect("a question");
        let data = event.json();
        if event.name == "parameters_required" {
            return data;
        }
        let parts = ["/task", "/statusUpdate"].map(|kind| data.pointer(&format!("{kind}/status/message/parts")));
        let mut parts = parts.into_iter().flatten().filter_map(Value::as_array).flatten();
        if let Some(open) = parts.find_map(|part| part.pointer("/data/parameterRequests/0")) {
            return open.clone();
        }
    }
}

/// Calls a method of an agent's endpoint.
async fn rpc(server: &Server, agent: &str, method: &str, params: &Value) -> Value {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let path = format!("/a2a/agents/default/{agent}");
    crate::resources::send(server, "POST", &path, Some(&body), &[("a2a-version", "1.0")]).await.unwrap().body
}

/// A query of the peer's agent, with limits that a test can wait for.
fn query(name: &str) -> Value {
    json!({
        "name": name, "input": "hello", "target": {"type": "agent", "name": "peer-peer"},
        "toolTimeout": "2s", "externalTimeout": "4s",
    })
}

/// The end of a query: its answer, or its code and its message.
fn end(query: &Value) -> Result<String, (String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match query["status"].as_str() {
        Some("completed") => Ok(text(&query["response"])),
        Some("failed") => Err((text(&query["error"]["code"]), text(&query["error"]["message"]))),
        _ => panic!("it has not ended: {query}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn peers_of_every_generation_and_binding_are_asked() {
    for (behaviour, protocol, binding) in [
        (PeerBehaviour::Works, "1.0", "JSONRPC"),
        (PeerBehaviour::WorksOverRest, "1.0", "HTTP+JSON"),
        (PeerBehaviour::WorksInOlderVersion, "0.3", "JSONRPC"),
        (PeerBehaviour::WorksWithLegacyCard, "0.3", "JSONRPC"),
        (PeerBehaviour::RefusesContexts, "1.0", "JSONRPC"),
    ] {
        let peer = A2aPeer::start(behaviour).await.unwrap();
        let (_world, server) = before(&peer, "").await;
        let shown = is_ready(&server, "peer").await;
        assert_eq!((&shown["agent"]["protocol"], &shown["agent"]["binding"]), (&json!(protocol), &json!(binding)));
        assert_eq!(shown["agent"]["skills"][0]["name"], "Echo", "{shown}");
        let asked = ask(&server, &query("q")).await;
        assert_eq!(end(&asked), Ok("you said: hello".to_owned()), "{behaviour:?}: {asked}");
        let [message] = &peer.messages()[..] else { panic!("{:?}", peer.messages()) };
        assert!(message["messageId"].as_str().unwrap().starts_with("call_"), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_misbehaves_has_a_clear_outcome() {
    let unknown = "outcome_unknown";
    for (behaviour, code, part) in [
        (PeerBehaviour::Fails, "tool_failed", "out of paper"),
        (PeerBehaviour::Rejects, "tool_failed", "rejected"),
        (PeerBehaviour::HangsOnMessage, unknown, "did not answer"),
        (PeerBehaviour::HangsOnPoll, "call_expired", ""),
        (PeerBehaviour::GarbageForMessage, unknown, "not valid JSON"),
        (PeerBehaviour::GarbageForPoll, "tool_failed", "not valid JSON"),
        (PeerBehaviour::WrongRequestId, unknown, "not the id of the request"),
        (PeerBehaviour::WrongTask, "tool_failed", "another task"),
        (PeerBehaviour::Huge, "result_too_large", "bytes"),
        (PeerBehaviour::NeverEnds, "call_expired", ""),
        (PeerBehaviour::UnknownState, "tool_failed", "a state of its task that is not known"),
        (PeerBehaviour::ForgetsTasks, unknown, "no longer knows the task"),
        (PeerBehaviour::RedirectsMessage, "tool_misconfigured", "a redirect, which is not followed"),
        (PeerBehaviour::RefusesVersion, "tool_misconfigured", "version 1.0 is not supported"),
        (PeerBehaviour::RefusesKey, "tool_misconfigured", "check the `headers`"),
    ] {
        let peer = A2aPeer::start(behaviour).await.unwrap();
        let (_world, server) = before(&peer, "").await;
        is_ready(&server, "peer").await;
        let memory = server.memory();
        let before = memory();
        // Enough time for the faults in a row that end a call.
        let mut body = query("q");
        if matches!(behaviour, PeerBehaviour::GarbageForPoll | PeerBehaviour::WrongTask | PeerBehaviour::UnknownState) {
            body["externalTimeout"] = json!("30s");
        }
        let asked = ask(&server, &body).await;
        let (found, message) = end(&asked).unwrap_err();
        assert_eq!(found, code, "{behaviour:?}: {asked}");
        assert!(message.contains(part), "{behaviour:?}: {message}");
        let grown = memory().saturating_sub(before) >> 20;
        assert!(grown < 96, "{behaviour:?} takes {grown} MiB");
        assert!(peer.messages().len() <= 1, "{behaviour:?}: {:?}", peer.messages());
        // An agent of ours continues without the result.
        if behaviour == PeerBehaviour::Fails {
            let body = json!({"input": "hello", "target": {"type": "agent", "name": "asker"}});
            let asked = ask(&server, &body).await;
            assert!(end(&asked).unwrap().contains("out of paper"), "{asked}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_without_a_usable_card_hides_no_other_and_says_why() {
    let bad = [
        (PeerBehaviour::RedirectsCard, "a redirect, which is not followed"),
        (PeerBehaviour::NamesAnotherHost, "a private address that is not the origin of `address`"),
        (PeerBehaviour::GarbageCard, "not valid JSON"),
    ];
    let (good, hangs) = (
        A2aPeer::start(PeerBehaviour::Works).await.unwrap(),
        A2aPeer::start(PeerBehaviour::HangsOnCard).await.unwrap(),
    );
    let mut servers = manifest("peer", &good.url(), "") + &manifest("hangs", &hangs.url(), "");
    servers += &manifest("dead", "http://127.0.0.1:1/agent", "");
    let mut peers = Vec::new();
    for (index, (behaviour, _)) in bad.iter().enumerate() {
        let peer = A2aPeer::start(*behaviour).await.unwrap();
        servers += &manifest(&format!("bad-{index}"), &peer.url(), "");
        peers.push(peer);
    }
    let world = world("peer-peer", &servers);
    let server = world.start().await;
    is_ready(&server, "peer").await;
    for (index, (behaviour, part)) in bad.iter().enumerate() {
        let shown = discovered(&server, &format!("bad-{index}"), |found| found["discovering"] == false).await;
        let message = shown["status_message"].as_str().unwrap();
        assert!(shown["ready"] == false && message.contains(part), "{behaviour:?}: {message}");
    }
    let dead = discovered(&server, "dead", |found| found["discovering"] == false).await;
    assert!(dead["status_message"].as_str().unwrap().contains("cannot be reached"), "{dead}");
    assert_eq!(api(&server, "GET", "/v1/a2a-servers/hangs", None).await.body["ready"], false);
    assert_eq!(end(&ask(&server, &query("q")).await), Ok("you said: hello".to_owned()));
    // A card is fetched again with its tag, and the agent stays when the peer goes bad.
    let tagged = async {
        while !good.headers().iter().any(|headers| headers.contains_key("if-none-match")) {
            tokio::task::yield_now().await;
        }
    };
    soon("a conditional request", tagged).await;
    good.behave(PeerBehaviour::GarbageCard);
    discovered(&server, "peer", |found| found["ready"] == false).await;
    assert_eq!(api(&server, "GET", "/v1/agents/peer-peer", None).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_asks_makes_the_query_wait_and_the_answer_goes_through() {
    let peer = A2aPeer::start(PeerBehaviour::Asks).await.unwrap();
    let (world, mut server) = before(&peer, "").await;
    is_ready(&server, "peer").await;
    let body = json!({"name": "q", "input": "hello", "target": {"type": "agent", "name": "asker"}});
    let asked = ask(&server, &body).await;
    assert_eq!(asked["status"], "parameters_required", "{asked}");
    let request = &asked["parameterRequests"][0];
    assert_eq!((&request["question"], &request["name"]), (&json!("Which city?"), &json!("peer-peer")), "{asked}");
    server.kill().await;
    let server = world.start().await;
    is_ready(&server, "peer").await;
    let found = until(&server, "q", "parameters_required").await;
    assert_eq!(found["parameterRequests"], asked["parameterRequests"], "it survives a kill");
    let answer = json!({"toolCallId": request["id"], "toolResult": "Rome"});
    let post = async || api(&server, "POST", "/v1/queries/q/tool-result?wait=30s", Some(&answer)).await;
    let first = post().await;
    assert_eq!(first.status, 200, "{}", first.text);
    let done = until(&server, "q", "completed").await;
    assert_eq!(done["response"], "They say: you said: Rome", "{done}");
    let [question, answered] = &peer.messages()[..] else { panic!("{:?}", peer.messages()) };
    assert_eq!((&answered["taskId"], &answered["parts"][0]["text"]), (&json!("task-1"), &json!("Rome")));
    assert_ne!(question["messageId"], answered["messageId"]);
    assert_eq!(post().await.status, 200, "the same answer again changes nothing");
    assert_eq!(peer.messages().len(), 2);
    let records = api(&server, "GET", "/v1/audit?limit=100", None).await.text;
    assert!(records.contains("call.answered"), "{records}");
}

/// Two levels above the agent that asks: its questions are in the stream and in the snapshot of the root, over either
/// API, and the answer is accepted there. The first answer is refused, so the same call has two questions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_below_a_child_query_is_asked_and_answered_at_the_root() {
    let path = json!(["chief", "asker"]);
    for name in ["rest", "a2a"] {
        let peer = A2aPeer::start(PeerBehaviour::RefusesFirstAnswer).await.unwrap();
        let (world, mut server) = chief(&peer).await;
        let body = json!({"name": name, "input": "below", "target": {"type": "agent", "name": "chief"}});
        let asked = ask(&server, &body).await;
        let request = asked["parameterRequests"][0].clone();
        assert_eq!((&asked["status"], &request["agentPath"]), (&json!("parameters_required"), &path), "{asked}");
        server.kill().await;
        let server = world.start().await;
        is_ready(&server, "peer").await;
        let request_of_stream = match name {
            "rest" => http().get(format!("{}/v1/queries/{name}/events", server.base)),
            _ => http().post(format!("{}/a2a/agents/default/chief/tasks/{name}:subscribe", server.base)),
        };
        let mut stream = Stream::open(0, request_of_stream.header("a2a-version", "1.0")).await.expect("a stream");
        for (question, answer) in [("Which city?", "Rome"), ("say it in Latin", "Roma")] {
            let shown = soon("a question", next_question(&mut stream)).await;
            assert_eq!((&shown["id"], &shown["agentPath"]), (&request["id"], &path), "{name}: {shown}");
            assert!(shown["question"].as_str().unwrap().contains(question), "{name}: {shown}");
            if name == "rest" {
                let answer = json!({"toolCallId": shown["id"], "toolResult": answer});
                let posted = api(&server, "POST", "/v1/queries/rest/tool-result?wait=0", Some(&answer)).await;
                assert_eq!(posted.status, 200, "{}", posted.text);
            } else {
                let message = json!({
                    "messageId": answer, "role": "ROLE_USER", "taskId": name, "parts": [{"text": answer}],
                });
                let params = json!({"message": message, "configuration": {"returnImmediately": true}});
                let task = rpc(&server, "chief", "SendMessage", &params).await;
                assert_eq!(task["result"]["task"]["id"], name, "{task}");
            }
        }
        let done = until(&server, name, "completed").await;
        assert_eq!(done["response"], "Below: They say: you said: Roma", "{done}");
        let texts: Vec<_> = peer.messages().iter().map(|message| message["parts"][0]["text"].clone()).collect();
        assert_eq!(texts, ["hello", "Rome", "Roma"]);
    }
}

/// The other edge: our query is a task, and a text answers the question.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_over_a2a_answers_the_question_and_a_failure_declines_it() {
    let peer = A2aPeer::start(PeerBehaviour::Asks).await.unwrap();
    let (_world, server) = before(&peer, "").await;
    is_ready(&server, "peer").await;
    let send = async |message: Value| {
        rpc(&server, "peer-peer", "SendMessage", &json!({ "message": message })).await["result"]["task"].clone()
    };
    let part = |text: &str| json!([{"text": text}]);
    let task = send(json!({"messageId": "m-1", "role": "ROLE_USER", "parts": part("hello")})).await;
    assert_eq!(task["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{task}");
    assert_eq!(task["status"]["message"]["parts"][0]["text"], "Which city?", "{task}");
    let done =
        send(json!({"messageId": "m-2", "role": "ROLE_USER", "taskId": task["id"], "parts": part("Oslo")})).await;
    assert_eq!(done["artifacts"][0]["parts"][0]["text"], "you said: Oslo", "{done}");
    // A person who does not answer ends the call, and the task is cancelled.
    let asked = ask(&server, &query("declined")).await;
    let declined =
        json!({"toolCallId": asked["parameterRequests"][0]["id"], "success": false, "error": "I will not say"});
    api(&server, "POST", "/v1/queries/declined/tool-result", Some(&declined)).await;
    let found = api(&server, "GET", "/v1/queries/declined?view=rfc&wait=20s", None).await.body;
    assert_eq!(end(&found).unwrap_err().1, "I will not say", "{found}");
    let cancelled = async {
        while peer.cancelled() != ["task-2"] {
            tokio::task::yield_now().await;
        }
    };
    soon("the end of the task", cancelled).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_the_agent_refuses_may_be_given_again() {
    let peer = A2aPeer::start(PeerBehaviour::RefusesFirstAnswer).await.unwrap();
    let (_world, server) = before(&peer, "").await;
    is_ready(&server, "peer").await;
    let asked = ask(&server, &query("q")).await;
    let id = asked["parameterRequests"][0]["id"].clone();
    let answer = |text: &str| json!({"toolCallId": id, "toolResult": {"answer": text}});
    api(&server, "POST", "/v1/queries/q/tool-result?wait=0", Some(&answer("Rome"))).await;
    let refused = async {
        loop {
            let found = until(&server, "q", "parameters_required").await;
            if found["parameterRequests"][0]["question"].as_str().unwrap().contains("say it in Latin") {
                return;
            }
        }
    };
    soon("the refusal", refused).await;
    api(&server, "POST", "/v1/queries/q/tool-result?wait=0", Some(&answer("Roma"))).await;
    assert_eq!(end(&until(&server, "q", "completed").await), Ok("you said: Roma".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_authorization_that_is_given_elsewhere_continues_the_task() {
    let peer = A2aPeer::start(PeerBehaviour::NeedsAuthorization).await.unwrap();
    let (_world, server) = before(&peer, "").await;
    is_ready(&server, "peer").await;
    let asked = ask(&server, &query("q")).await;
    let request = &asked["parameterRequests"][0];
    assert!(request["question"].as_str().unwrap().contains("https://login.example"), "{asked}");
    assert!(request["parameters"][0]["hint"].as_str().unwrap().contains("authorization"), "{asked}");
    let done = json!({"toolCallId": request["id"], "toolResult": "done"});
    let answered = async {
        // Its question is asked again until the peer has seen the authorization.
        loop {
            api(&server, "POST", "/v1/queries/q/tool-result?wait=0", Some(&done)).await;
            let found = api(&server, "GET", "/v1/queries/q?view=rfc&wait=2s", None).await.body;
            if found["status"] == "completed" {
                return found;
            }
        }
    };
    soon("the end of the query", answered).await;
}

/// A peer that recognizes no message ids: whether it has the message is not known, and it is not sent again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_before_the_task_is_known_leaves_an_unknown_outcome_where_tasks_cannot_be_found() {
    for behaviour in [PeerBehaviour::WorksInOlderVersion, PeerBehaviour::EndlessPages] {
        let peer = A2aPeer::start(behaviour).await.unwrap();
        let world = world("peer-peer", &manifest("peer", &peer.url(), ""));
        let mut server = world.start_dying("call.pending").await;
        is_ready(&server, "peer").await;
        let _ = crate::resources::send(&server, "POST", "/v1/queries", Some(&query("once")), &[]).await;
        assert_eq!(server.exit().await, ProcessExit::AtFaultPoint);
        let server = world.start().await;
        let found = async {
            loop {
                let found = api(&server, "GET", "/v1/queries/once?view=rfc&wait=20s", None).await.body;
                if found["status"] == "failed" {
                    return found;
                }
            }
        };
        let found = soon("the end of the query", found).await;
        assert_eq!(end(&found).unwrap_err().0, "outcome_unknown", "{behaviour:?}: {found}");
        assert_eq!(peer.messages().len(), 1, "{behaviour:?}");
        let pages = peer.requests().iter().filter(|request| *request == "ListTasks").count();
        assert!(pages <= 5, "{pages} pages");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_are_sent_as_secrets_and_come_back_redacted() {
    let peer = A2aPeer::start(PeerBehaviour::SendsFiles).await.unwrap();
    let header = "  headers:\n  - {name: x-key, value: {valueFrom: {secretKeyRef: {name: peer, key: key}}}}\n";
    let world = world("peer-peer", &manifest("peer", &peer.url(), header));
    let secrets = world.path("secrets/default/peer");
    std::fs::create_dir_all(&secrets).unwrap();
    std::fs::write(secrets.join("key"), "cnry-a2a-5f21").unwrap();
    let secrets = world.path("secrets").to_str().unwrap().to_owned();
    let world = world.with(&["--secrets", &secrets]);
    let server = world.start().await;
    is_ready(&server, "peer").await;
    let mut body = query("q");
    body["input"] = json!("cnry-a2a-5f21");
    let asked = ask(&server, &body).await;
    let answer = end(&asked).unwrap();
    assert!(answer.contains("see") && answer.contains("https://files.example/f"), "{answer}");
    assert!(peer.headers().iter().all(|headers| headers.get("x-key").is_some_and(|value| value == "cnry-a2a-5f21")));
    peer.behave(PeerBehaviour::Works);
    body["name"] = json!("echoed");
    let asked = ask(&server, &body).await;
    assert!(!end(&asked).unwrap().contains("cnry-a2a"), "{asked}");
}
