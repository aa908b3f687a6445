//! Shared by the tests of all wire formats: a conversation, a recorder of deltas, and the corpus of answers.

pub(crate) mod corpus;

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use bosun_core::{
    Binding, Namespace, QueryUid, Tool,
    content::Images,
    query::ModelOptions,
    tool::toolset::{ToolSources, Toolset},
    transcript::{Message, MessageCall},
};
use bosun_engine::{
    Model,
    model::{Deltas, ModelCall, ModelError, ModelReply, ModelRequest},
};
use bosun_standin::{self as standin, StandIn, StandInAnswers};
use serde_json::{Value, json};

use super::remote::{Connections, Failure, Remote, RemoteAnswer, RemoteConfig, ReplyReader, Timeouts, Wire};
use crate::{
    outbound::retry::Backoff,
    secret::{Secret, SecretSource, binding::SecretReach},
};

pub(crate) fn fixtures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models")
}

pub(crate) fn literal(text: &str) -> SecretSource {
    SecretSource::Literal(Secret::new(text.into()))
}

/// Records the streamed text.
#[derive(Default)]
pub(crate) struct KeptDeltas(Mutex<String>);

impl Deltas for KeptDeltas {
    fn push(&self, text: &str) {
        self.0.lock().unwrap().push_str(text);
    }
}

impl KeptDeltas {
    pub(crate) fn text(&self) -> String {
        self.0.lock().unwrap().clone()
    }
}

pub(crate) fn config(base_url: &str) -> RemoteConfig {
    RemoteConfig {
        model: literal("gpt-4o"),
        base_url: literal(base_url),
        api_key: None,
        version: None,
        headers: Vec::new(),
        properties: Vec::new(),
        stream: true,
        timeouts: Timeouts::default(),
        reach: SecretReach::default(),
    }
}

/// A model with short delays.
pub(crate) fn remote<W: Wire>(config: RemoteConfig, wire: W) -> Remote<W> {
    let mut model = Remote::new(Namespace::default(), config, wire, Arc::default(), Arc::new(Connections::default()));
    model.backoff = Backoff { first: Duration::from_millis(1), longest: Duration::from_secs(5) };
    model
}

pub(crate) fn calculator() -> Tool {
    let parameters = json!({
        "type": "object",
        "properties": {"expression": {"type": "string", "description": "Mathematical expression to evaluate (e.g., \"2 + 2\")"}},
        "required": ["expression"],
    });
    Tool::new("calculator", "Perform mathematical calculations", parameters, Binding::External)
}

pub(crate) fn request(messages: Vec<Message>) -> ModelRequest {
    let search = Tool::new("web.search", "Search the web", json!({"type": "object"}), Binding::External);
    ModelRequest {
        query: QueryUid::new(1_794_700_800_000, [7; 10]),
        turn: 1,
        messages,
        toolset: Arc::new(Toolset::merge(ToolSources::Client, Vec::new(), vec![calculator(), search])),
        tools_allowed: true,
        options: ModelOptions::default(),
        answer: None,
        trace: None,
    }
}

pub(crate) fn hello() -> ModelRequest {
    request(vec![Message::User("hello".into())])
}

pub(crate) async fn reply(model: &dyn Model) -> Result<ModelReply, ModelError> {
    model.reply(&hello(), &KeptDeltas::default()).await
}

pub(crate) fn assistant(text: Option<&str>, calls: Vec<MessageCall>) -> Message {
    Message::Assistant { text: text.map(str::to_owned), calls, provider: None }
}

pub(crate) fn call(id: &str, alias: &str, arguments: &str) -> MessageCall {
    MessageCall { provider_id: id.into(), alias: alias.into(), arguments: arguments.into() }
}

pub(crate) fn result(id: &str, alias: &str, content: &str, is_error: bool) -> Message {
    Message::Tool {
        provider_id: id.into(),
        alias: alias.into(),
        content: content.into(),
        images: Images::default(),
        is_error,
    }
}

pub(crate) fn conversation() -> Vec<Message> {
    let asked = vec![
        call("call_a", "calculator", "{\"expression\":\"0.25 * 8432\"}"),
        call("call_b", "web_search", "{ \"q\" : \"percent\" }"),
    ];
    vec![
        Message::System("You are a \"careful\" assistant.\nUse the tools.".into()),
        Message::User("What is 25% of 8,432? 🌊".into()),
        assistant(None, asked),
        result("call_a", "calculator", "2108", false),
        result("call_b", "web_search", "Error: no network", true),
        assistant(Some("One more."), vec![call("call_c", "calculator", "{}")]),
        result("call_c", "calculator", "", false),
        assistant(None, vec![]),
    ]
}

/// The messages that follow an answer: the answer, and a result for each of its calls.
pub(crate) fn follow(reply: &ModelReply) -> Vec<Message> {
    let calls = reply.calls.iter().map(|asked| call(&asked.provider_id, &asked.alias, &asked.arguments));
    let message =
        Message::Assistant { text: reply.text.clone(), calls: calls.collect(), provider: reply.provider.clone() };
    let results = reply.calls.iter().map(|asked| result(&asked.provider_id, &asked.alias, "2108", false));
    std::iter::once(message).chain(results).collect()
}

pub(crate) async fn stand_in(answers: Vec<standin::Answer>) -> StandIn {
    StandIn::recording(StandInAnswers::Answers(answers)).await.unwrap()
}

/// An error in the format of both APIs.
pub(crate) fn failing(status: u16, message: &str) -> standin::Answer {
    standin::Answer::json(status, json!({"error": {"message": message}}).to_string())
}

/// The stream of the corpus with this name.
pub(crate) fn stream_of(wire: &str, name: &str) -> Vec<u8> {
    std::fs::read(fixtures().join(wire).join("streams").join(name).with_extension("sse")).unwrap()
}

pub(crate) fn shown(answer: &RemoteAnswer) -> Value {
    let (reply, paused) = match answer {
        RemoteAnswer::Whole(reply) => (reply, false),
        RemoteAnswer::Paused(reply) => (reply, true),
    };
    let call = |call: &ModelCall| json!({"id": call.provider_id, "name": call.alias, "arguments": call.arguments});
    let mut shown = json!({
        "text": reply.text,
        "calls": reply.calls.iter().map(call).collect::<Vec<_>>(),
        "usage": reply.usage,
    });
    if let Some(provider) = &reply.provider {
        shown["provider"] = Value::clone(provider);
    }
    if paused {
        shown["paused"] = json!(true);
    }
    shown
}

/// The result of a reader for these parts of a stream, and the text that it showed.
pub(crate) fn assemble(mut reader: Box<dyn ReplyReader>, parts: &[&[u8]]) -> (Result<RemoteAnswer, Failure>, String) {
    let deltas = KeptDeltas::default();
    let fed = parts.iter().try_for_each(|part| reader.feed(part, &deltas));
    (fed.and_then(|()| reader.end()), deltas.text())
}

/// Feeds events until one is refused: the number of accepted events, the code, and the size of the shown text.
pub(crate) fn refused_after(
    mut reader: Box<dyn ReplyReader>,
    mut event: impl FnMut(usize) -> String,
) -> (usize, &'static str, usize) {
    let deltas = KeptDeltas::default();
    for number in 0..100_000 {
        match reader.feed(event(number).as_bytes(), &deltas) {
            Ok(()) => {}
            Err(Failure::Final(error)) => return (number, error.code(), deltas.text().len()),
            Err(Failure::Passing { message, .. }) => panic!("{message}"),
        }
    }
    panic!("every event was accepted")
}

/// The cases of a file of malformed answers: a name, its events, and the error.
pub(crate) fn check_malformed(wire: &str, reader: impl Fn() -> Box<dyn ReplyReader>, event: impl Fn(&Value) -> String) {
    let text = std::fs::read_to_string(fixtures().join(wire).join("malformed.json")).unwrap();
    let cases: Vec<Value> = serde_json::from_str(&text).unwrap();
    assert!(cases.len() >= 40, "{}", cases.len());
    for case in cases {
        let name = case["name"].as_str().unwrap();
        let stream: String = case["events"].as_array().unwrap().iter().map(&event).collect();
        let (code, message) = match assemble(reader(), &[stream.as_bytes()]).0 {
            Err(Failure::Final(error)) => (error.code(), error.to_string()),
            Err(Failure::Passing { message, .. }) => ("passing", message),
            Ok(answer) => panic!("{name}: {answer:?}"),
        };
        assert_eq!(code, case["code"].as_str().unwrap(), "{name}: {message}");
        assert!(message.contains(case["message"].as_str().unwrap()), "{name}: {message}");
    }
}
