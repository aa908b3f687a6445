//! Streams: what they send, in which order, and how they are resumed.

use std::{collections::VecDeque, time::Duration};

use axum::{
    body::{Body, BodyDataStream},
    http::{HeaderMap, Request, StatusCode},
};
use bosun_core::ceiling::{ARGUMENT_BYTES, CALL_NAME_BYTES, EVENT_BYTES, REASON_BYTES, REPLY_TEXT_BYTES};
use bosun_engine::{
    Watched,
    testing::{ScriptedModel, ScriptedTurn},
};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::world::{TestServer, assert_answer, calculating, plain, with_calculator};
use crate::ark::answering::stream::EventTranslator;

/// One event, as a client reads it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ParsedSseEvent {
    pub(super) id: Option<String>,
    pub(super) event: String,
    pub(super) data: Value,
}

impl ParsedSseEvent {
    /// What it says in addition to the query that it belongs to.
    fn own_data(&self) -> Value {
        let mut data = self.data.clone();
        for name in ["queryName", "uid"] {
            assert!(data.as_object_mut().unwrap().shift_remove(name).is_some(), "{self:?} has no {name}");
        }
        data
    }
}

/// One block of a stream.
#[derive(Debug)]
enum SseBlock {
    Event(ParsedSseEvent),
    Comment,
    Retry(String),
}

/// Cuts bytes into blocks; what has no end yet is kept.
#[derive(Debug, Default)]
pub(super) struct SseParser {
    text: Vec<u8>,
}

impl SseParser {
    fn feed(&mut self, bytes: &[u8]) -> Vec<SseBlock> {
        self.text.extend(bytes);
        let mut blocks = Vec::new();
        while let Some(end) = self.text.windows(2).position(|pair| pair == b"\n\n") {
            let block: Vec<u8> = self.text.drain(..end + 2).collect();
            blocks.push(Self::parse(str::from_utf8(&block).unwrap()));
        }
        blocks
    }

    fn parse(block: &str) -> SseBlock {
        let mut event = ParsedSseEvent::default();
        for line in block.lines().filter(|line| !line.is_empty()) {
            let (field, value) = line.split_once(':').unwrap();
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "" => return SseBlock::Comment,
                "retry" => return SseBlock::Retry(value.to_owned()),
                "id" => event.id = Some(value.to_owned()),
                "event" => value.clone_into(&mut event.event),
                "data" => event.data = serde_json::from_str(value).unwrap(),
                other => panic!("unknown field {other}"),
            }
        }
        SseBlock::Event(event)
    }

    pub(super) fn events(&mut self, bytes: &[u8]) -> Vec<ParsedSseEvent> {
        let only_events = |block| match block {
            SseBlock::Event(event) => Some(event),
            SseBlock::Comment | SseBlock::Retry(_) => None,
        };
        self.feed(bytes).into_iter().filter_map(only_events).collect()
    }
}

/// A stream that is being read.
pub(super) struct Events {
    pub(super) status: StatusCode,
    headers: HeaderMap,
    body: BodyDataStream,
    parser: SseParser,
    blocks: VecDeque<SseBlock>,
}

impl Events {
    pub(super) async fn open(
        world: &TestServer,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Body,
    ) -> Self {
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = world.router.clone().oneshot(request.body(body).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        Self {
            status: parts.status,
            headers: parts.headers,
            body: body.into_data_stream(),
            parser: SseParser::default(),
            blocks: VecDeque::new(),
        }
    }

    pub(super) async fn of(world: &TestServer, name: &str, last: Option<&str>) -> Self {
        let headers: Vec<_> = last.map(|id| ("last-event-id", id)).into_iter().collect();
        Self::open(world, "GET", &format!("/v1/queries/{name}/events"), &headers, Body::empty()).await
    }

    pub(super) fn header(&self, name: &str) -> Option<String> {
        self.headers.get(name).map(|value| value.to_str().unwrap().to_owned())
    }

    async fn block(&mut self) -> Option<SseBlock> {
        loop {
            if let Some(block) = self.blocks.pop_front() {
                return Some(block);
            }
            let bytes = self.body.next().await?.unwrap();
            self.blocks.extend(self.parser.feed(&bytes));
        }
    }

    pub(super) async fn next(&mut self) -> Option<ParsedSseEvent> {
        loop {
            if let SseBlock::Event(event) = self.block().await? {
                return Some(event);
            }
        }
    }

    pub(super) async fn rest(mut self) -> Vec<ParsedSseEvent> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }
}

/// Whether all that `part` says, `whole` says too.
pub(super) fn is_part_of(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => {
            part.iter().all(|(key, value)| whole.get(key).is_some_and(|other| is_part_of(value, other)))
        }
        _ => part == whole,
    }
}

/// What a stream of the whole journal must have sent with an id.
pub(super) async fn told_by_journal(world: &TestServer, name: &str) -> Vec<ParsedSseEvent> {
    let key = (bosun_core::Namespace::default(), name.parse().unwrap());
    let snapshot = world.engine.get(&key, None).await.unwrap();
    let mut translator = EventTranslator::new(&snapshot);
    let entries = world.journal(name).await;
    let messages = entries.into_iter().flat_map(|entry| translator.translate(&Watched::Entry(entry.into())));
    messages
        .filter(|message| message.id.is_some())
        .map(|message| ParsedSseEvent { id: message.id, event: message.event.to_owned(), data: message.data })
        .collect()
}

/// Everything that can happen in one query: text, inside, outside, refused and failing calls.
fn eventful() -> ScriptedModel {
    ScriptedModel::always(vec![
        ScriptedTurn::stream(&["Let me ", "look."])
            .and_call("database_query", r#"{"table": "customers"}"#)
            .and_call("database_query", r#"{"chair": 1}"#)
            .and_call("mine", r#"{"n": 1}"#)
            .and_call("mine", r#"{"n": 2}"#),
        ScriptedTurn::stream(&["Here ", "it ", "is."]),
    ])
}

fn eventful_query(name: &str) -> Value {
    json!({
        "name": name, "input": "x", "target": {"type": "agent", "name": "research-assistant"},
        "externalTools": [{"name": "mine", "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}}],
    })
}

/// Posts the result of every call that `event` asks for.
async fn serve_call(world: &TestServer, name: &str, event: &ParsedSseEvent) {
    if event.event == "tool_call" {
        let result = json!({"toolCallId": event.data["id"], "toolResult": event.data["args"]["n"]});
        world.post(&format!("/v1/queries/{name}/tool-result?wait=0"), &result).await.ok();
    }
}

#[tokio::test(start_paused = true)]
async fn a_whole_run_is_streamed_in_order() {
    let world = TestServer::new(eventful()).await;
    world.post("/v1/queries?wait=true", &eventful_query("q")).await.ok();
    let mut stream = Events::of(&world, "q", None).await;
    let mut seen = Vec::new();
    while let Some(event) = stream.next().await {
        serve_call(&world, "q", &event).await;
        seen.push(event);
    }
    let streamed: Vec<_> =
        seen.iter().map(|event| json!({"id": event.id, "event": event.event, "data": event.data})).collect();
    assert_answer("whole_stream", &Value::Array(streamed));
    let durable: Vec<_> = seen.into_iter().filter(|event| event.id.is_some()).collect();
    assert_eq!(durable, told_by_journal(&world, "q").await);
}

#[tokio::test(start_paused = true)]
async fn many_subscribers_get_the_same_events_as_one() {
    let world = TestServer::new(eventful()).await;
    world.post("/v1/queries?wait=true", &eventful_query("q")).await.ok();
    // Some see it all, some come back in the middle; one reads nothing until the end.
    let from = told_by_journal(&world, "q").await.swap_remove(1).id;
    let mut readers = Vec::new();
    for reader in 0..20 {
        readers.push(Events::of(&world, "q", from.as_deref().filter(|_| reader % 2 == 1)).await);
    }
    let late = readers.remove(0);
    let world = &world;
    let reading = readers.into_iter().map(async |mut reader| {
        let mut seen = Vec::new();
        while let Some(event) = reader.next().await {
            serve_call(world, "q", &event).await;
            seen.push(event);
        }
        seen
    });
    let mut seen = futures_util::future::join_all(reading).await;
    seen.push(late.rest().await);
    let journal = told_by_journal(world, "q").await;
    for (reader, events) in (1..=20).zip(seen) {
        let durable: Vec<_> = events.into_iter().filter(|event| event.id.is_some()).collect();
        let seen_before = if reader % 2 == 1 { 2 } else { 0 };
        assert_eq!(durable, journal[seen_before..], "reader {reader}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_begins_when_the_query_is_durable_and_says_its_name() {
    let world = TestServer::new(calculating()).await;
    let mut query = with_calculator("q");
    query["colour"] = json!("red");
    for (name, path, accept) in [
        ("a", "/v1/queries?stream=true", "*/*"),
        ("b", "/v1/queries", "text/event-stream"),
        ("c", "/v1/queries", "text/html;q=0.1, Text/Event-Stream;q=0.9"),
    ] {
        query["name"] = json!(name);
        let headers = [("content-type", "application/json"), ("accept", accept)];
        let mut stream = Events::open(&world, "POST", path, &headers, Body::from(query.to_string())).await;
        assert_eq!(world.journal(name).await[0].seq, 1);
        assert_eq!(stream.header("content-type").as_deref(), Some("text/event-stream"));
        assert_eq!(stream.header("x-query-name").as_deref(), Some(name));
        assert_eq!(stream.header("location"), Some(format!("/v1/namespaces/default/queries/{name}")));
        assert!(stream.header("warning").is_some());
        let first = stream.next().await.unwrap();
        assert_eq!((first.event.as_str(), &first.data["queryName"]), ("agent_thinking", &json!(name)));
    }
    query["name"] = json!("d");
    query["stream"] = json!(true);
    let headers = [("content-type", "application/json")];
    let stream = Events::open(&world, "POST", "/v1/queries", &headers, Body::from(query.to_string())).await;
    assert_eq!(stream.header("content-type").as_deref(), Some("text/event-stream"), "the body may ask for it too");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_accepts_json_gets_json() {
    let world = TestServer::new(calculating()).await;
    let json = [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
    let answer = world.send("POST", "/v1/queries", &json, with_calculator("q").to_string()).await;
    assert_eq!(answer.ok()["name"], "q");
    let refused = [("content-type", "application/json"), ("accept", "text/event-stream")];
    let answer = world.send("POST", "/v1/queries?stream=false", &refused, with_calculator("p").to_string()).await;
    assert_eq!(answer.ok()["name"], "p");
}

#[tokio::test(start_paused = true)]
async fn from_every_id_on_a_stream_has_exactly_the_rest() {
    let world = TestServer::new(eventful()).await;
    world.post("/v1/queries?wait=true", &eventful_query("q")).await.ok();
    for call in world.get("/v1/queries/q").await.ok()["toolCalls"].as_array().unwrap() {
        let result = json!({"toolCallId": call["id"], "toolResult": 1});
        world.post("/v1/queries/q/tool-result", &result).await.ok();
    }
    let durable =
        |events: Vec<ParsedSseEvent>| -> Vec<_> { events.into_iter().filter(|event| event.id.is_some()).collect() };
    let whole = durable(Events::of(&world, "q", None).await.rest().await);
    assert_eq!(whole, told_by_journal(&world, "q").await);
    for (index, event) in whole.iter().enumerate() {
        let resumed = Events::of(&world, "q", event.id.as_deref()).await;
        if index + 1 == whole.len() {
            // There will never be more: an `EventSource` stops at this status.
            assert_eq!(resumed.status, StatusCode::NO_CONTENT);
        }
        assert_eq!(durable(resumed.rest().await), whole[index + 1..]);
    }
    let id = whole[2].id.as_deref().unwrap();
    let by_parameter = format!("/v1/queries/q/events?lastEventId={id}");
    let stream = Events::open(&world, "GET", &by_parameter, &[], Body::empty()).await;
    assert_eq!(durable(stream.rest().await), whole[3..]);
}

#[tokio::test(start_paused = true)]
async fn ids_of_other_queries_and_of_the_future_are_refused() {
    let world = TestServer::new(calculating()).await;
    world.post("/v1/queries?wait=true", &with_calculator("q")).await.ok();
    let other = world.post("/v1/queries?wait=true", &with_calculator("p")).await.ok();
    let uid = world.get("/v1/queries/q").await.ok()["uid"].as_str().unwrap().to_owned();
    let last = world.journal("q").await.len();
    for id in [
        format!("{}.1", other["uid"].as_str().unwrap()),
        format!("{uid}.{}", last + 1),
        format!("{uid}.-1"),
        format!("{uid}."),
        format!("{uid}.1.1"),
        format!("{uid}.99999999999999999999"),
        uid.clone(),
        "1".to_owned(),
        "x".repeat(10_000),
    ] {
        let headers = [("last-event-id", id.as_str())];
        let answer = world.send("GET", "/v1/queries/q/events", &headers, "").await;
        assert_eq!(answer.refusal(), (400, "invalid_event_id"), "{id}");
    }
    let request =
        Request::get("/v1/queries/q/events").header("host", "localhost").header("last-event-id", &b"\xff"[..]);
    assert_eq!(world.request(request.body(Body::empty()).unwrap()).await.refusal(), (400, "invalid_event_id"));
}

#[tokio::test(start_paused = true)]
async fn a_failed_query_ends_with_its_error() {
    let world = TestServer::new(ScriptedModel::always(vec![ScriptedTurn::refuse(401, "no such key")])).await;
    world.post("/v1/queries?wait=true", &plain("q")).await.ok();
    let events = Events::of(&world, "q", None).await.rest().await;
    let ending: Vec<_> =
        events[1..].iter().map(|event| (event.event.as_str(), event.own_data(), event.id.is_some())).collect();
    let error = json!({"code": "model_refused", "message": "model API answered 401: no such key"});
    assert_eq!(ending, [("error", error, false), ("complete", json!({"status": "failed"}), true)]);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_query_ends_with_its_reason() {
    let world = TestServer::new(calculating()).await;
    world.post("/v1/queries?wait=true", &with_calculator("q")).await.ok();
    world.post("/v1/queries/q/cancel", &json!({"reason": "changed my mind"})).await.ok();
    let events = Events::of(&world, "q", None).await.rest().await;
    assert_eq!(events.last().unwrap().own_data(), json!({"status": "cancelled", "reason": "changed my mind"}));
}

#[tokio::test(start_paused = true)]
async fn an_expired_call_is_streamed_as_finished_without_success() {
    let world = TestServer::new(calculating()).await;
    world.post("/v1/queries?wait=true", &with_calculator("q")).await.ok();
    let events = Events::of(&world, "q", None).await.rest().await;
    let finished = events.iter().find(|event| event.event == "tool_finished").unwrap();
    assert_eq!((&finished.data["success"], &finished.data["error"]["code"]), (&json!(false), &json!("call_expired")));
    assert_eq!(finished.data["duration"], "10m0s");
    assert_eq!(events.last().unwrap().data["status"], "completed");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_begins_again_says_so() {
    let world =
        TestServer::new(ScriptedModel::always(vec![ScriptedTurn::stream(&["one ", "two"]).disconnecting()])).await;
    world.post("/v1/queries?wait=true", &plain("q")).await.ok();
    let events = Events::of(&world, "q", None).await.rest().await;
    let attempts: Vec<_> = events
        .iter()
        .filter(|event| event.event == "agent_thinking")
        .map(|event| event.data["attempt"].clone())
        .collect();
    assert_eq!(attempts, [json!(1), json!(2)]);
    assert_eq!(events[events.len() - 2].data["response"], "one two");
}

#[tokio::test(start_paused = true)]
async fn deltas_carry_turn_attempt_and_offset_and_no_id() {
    let world = TestServer::new(ScriptedModel::always(vec![ScriptedTurn::stream(&["one ", "two"]).hanging()])).await;
    world.post("/v1/queries?wait=1s", &plain("q")).await.ok();
    let mut stream = Events::of(&world, "q", None).await;
    assert_eq!(stream.next().await.unwrap().event, "agent_thinking");
    let delta = stream.next().await.unwrap();
    assert_eq!((delta.event.as_str(), &delta.id), ("agent_response_delta", &None));
    assert_eq!(delta.own_data(), json!({"turn": 1, "attempt": 1, "offset": 0, "delta": "one two"}));
}

#[tokio::test(start_paused = true)]
async fn an_idle_stream_sends_heartbeats() {
    let world = TestServer::new(calculating()).await;
    world.post("/v1/queries?wait=true", &with_calculator("q")).await.ok();
    let mut stream = Events::of(&world, "q", None).await;
    stream.next().await.unwrap();
    stream.next().await.unwrap();
    let before = tokio::time::Instant::now();
    for beat in 1..=3 {
        assert!(matches!(stream.block().await, Some(SseBlock::Comment)));
        assert_eq!(before.elapsed(), Duration::from_secs(15 * beat));
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_shuts_down_asks_its_readers_to_reconnect() {
    let world = TestServer::new(calculating()).await;
    world.post("/v1/queries?wait=true", &with_calculator("q")).await.ok();
    let mut stream = Events::of(&world, "q", None).await;
    stream.next().await.unwrap();
    stream.next().await.unwrap();
    world.engine.shut_down(Duration::ZERO).await.unwrap();
    assert!(matches!(stream.block().await, Some(SseBlock::Retry(millis)) if millis == "1000"));
    assert!(stream.block().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn every_event_says_which_query_it_is_of() {
    let model = ScriptedModel::always(vec![
        ScriptedTurn::stream(&["Let me", " see."]).and_call("calculator", "{\"expression\": \"1\"}"),
        ScriptedTurn::call("database_query", &json!({"table": "t"})),
        ScriptedTurn::refuse(400, "no"),
    ]);
    let world = TestServer::new(model).await;
    let mut body = with_calculator("q");
    body.as_object_mut().unwrap().remove("name");
    body["target"]["name"] = json!("research-assistant");
    let headers = [("content-type", "application/json")];
    let mut stream =
        Events::open(&world, "POST", "/v1/queries?stream=true", &headers, Body::from(body.to_string())).await;
    let name = stream.header("x-query-name").unwrap();
    let mut seen = std::collections::BTreeSet::new();
    while let Some(event) = stream.next().await {
        assert_eq!(event.data["queryName"], *name, "{event:?}");
        assert!(event.data["uid"].is_string(), "{event:?}");
        if event.event == "tool_call" {
            // What a client needs that has asked without a name.
            let query = event.data["queryName"].as_str().unwrap();
            let result = json!({"toolCallId": event.data["id"], "toolResult": "1"});
            world.post(&format!("/v1/queries/{query}/tool-result?wait=0"), &result).await.ok();
        }
        seen.insert(event.event);
    }
    let names: Vec<_> = seen.iter().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "agent_response_delta",
            "agent_thinking",
            "complete",
            "error",
            "tool_call",
            "tool_finished",
            "tool_result_received",
            "tool_started"
        ]
    );
}

/// All events of a query that has ended, each as it is on the wire.
async fn on_the_wire(world: &TestServer, name: &str) -> Vec<String> {
    let answer = world.get(&format!("/v1/queries/{name}/events")).await;
    let text = answer.body.as_str().unwrap().to_owned();
    text.split_inclusive("\n\n").map(str::to_owned).collect()
}

#[tokio::test(start_paused = true)]
async fn no_event_is_larger_than_its_ceiling() {
    // Every letter takes six bytes as JSON, and two as a character that is escaped.
    let text = "\u{1}".repeat(REPLY_TEXT_BYTES / 6);
    let around = json!({"expression": ""}).to_string().len();
    let arguments = json!({"expression": "\n".repeat((ARGUMENT_BYTES - around) / 2)});
    let script = ScriptedModel::always(vec![ScriptedTurn::say("")])
        .on("said", vec![ScriptedTurn::stream(&[&text])])
        .on("called", vec![ScriptedTurn::stream(&[&text]).and_call("calculator", &arguments.to_string())])
        .on("refused", vec![ScriptedTurn::call(&"n".repeat(CALL_NAME_BYTES), &arguments), ScriptedTurn::say("")]);
    let world = TestServer::new(script).await;
    for name in ["said", "called", "refused"] {
        let mut body = with_calculator(name);
        body["input"] = name.into();
        let state = world.post("/v1/queries?wait=true", &body).await.ok()["state"].clone();
        if state != "completed" {
            assert_eq!(state, "waiting", "{name}");
            let reason = json!({"reason": "\u{1}".repeat(REASON_BYTES)});
            world.post(&format!("/v1/queries/{name}/cancel"), &reason).await.ok();
        }
        let events = on_the_wire(&world, name).await;
        assert!(events.len() >= 3, "{name}: {}", events.len());
        let longest = events.iter().map(String::len).max().unwrap();
        assert!(longest <= EVENT_BYTES, "{name}: {longest}");
        assert!(longest > ARGUMENT_BYTES / 2 || name == "refused", "{name}: {longest} is too short for a test");
    }
}
