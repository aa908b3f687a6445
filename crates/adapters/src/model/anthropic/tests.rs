//! Golden requests, a corpus of answers cut at every byte, and misbehaviour of the API, over real connections.

mod corpus;
mod talking;

use std::{path::PathBuf, sync::Arc};

use bosun_core::{
    content::Image,
    query::ModelOptions,
    tool::toolset::{ToolSources, Toolset},
    transcript::Message,
};
use bosun_engine::{
    Model,
    model::{AnswerFormat, ModelRequest},
};
use bosun_standin::Answer;
use serde_json::json;

use super::MessagesApi;
use crate::{
    golden,
    model::{
        provider_fields,
        remote::{self, Remote, RemoteConfig, Wire},
        testing::{
            self, KeptDeltas, assistant, call, conversation, hello, literal, request, result, stand_in, stream_of,
        },
    },
};

const MESSAGES: MessagesApi = MessagesApi { cache: true };

fn fixtures() -> PathBuf {
    testing::fixtures().join("anthropic")
}

fn stream(name: &str) -> Answer {
    Answer::sse(stream_of("anthropic", name))
}

fn config(url: &str) -> RemoteConfig {
    RemoteConfig { model: literal("claude-sonnet-4-5"), ..testing::config(url) }
}

fn model(config: RemoteConfig) -> Remote<MessagesApi> {
    testing::remote(config, MESSAGES)
}

/// Asserts that the body of the request is the golden file, byte for byte.
async fn check_request(file: &str, change: impl FnOnce(&mut RemoteConfig, &mut MessagesApi), request: ModelRequest) {
    let server = stand_in(vec![stream("text-only")]).await;
    let (mut config, mut wire) = (config(&server.url()), MESSAGES);
    change(&mut config, &mut wire);
    testing::remote(config, wire).reply(&request, &KeptDeltas::default()).await.unwrap();
    let sent = server.requests().remove(0);
    assert_eq!((sent.method.as_str(), sent.path.as_str()), ("POST", "/v1/messages"));
    assert_eq!(sent.header("content-type"), Some("application/json"));
    assert_eq!(sent.header("anthropic-version"), Some("2023-06-01"));
    golden::check(&fixtures().join("requests").join(file), &format!("{}\n", sent.body));
}

#[tokio::test]
async fn requests_are_these_bytes() {
    check_request("first-turn.json", |_, _| {}, request(conversation().drain(..2).collect())).await;
    check_request("after-results.json", |_, _| {}, request(conversation())).await;
    check_request("last-turn.json", |_, _| {}, ModelRequest { tools_allowed: false, ..hello() }).await;
    let no_tools = ModelRequest { toolset: Arc::new(Toolset::merge(ToolSources::Catalog, vec![], vec![])), ..hello() };
    let settings = |config: &mut RemoteConfig, wire: &mut MessagesApi| {
        (config.stream, wire.cache) = (false, false);
        config.properties = [
            ("temperature", "0.2"),
            ("max_tokens", "500"),
            ("stop_sequences", "[\"END\"]"),
            ("thinking", "{\"type\":\"enabled\",\"budget_tokens\":2048}"),
            ("metadata", "{\"user_id\":\"42\"}"),
        ]
        .map(|(name, value)| (name.to_owned(), literal(value)))
        .to_vec();
    };
    check_request("plain-with-properties.json", settings, no_tools).await;

    // Options of a query override the manifest's.
    let options = ModelOptions { temperature: Some(0.5), max_tokens: Some(300) };
    let schema = Arc::new(json!({"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]}));
    let answer = Some(AnswerFormat { name: "sum".into(), schema });
    let properties = [("temperature", "0.2"), ("max_tokens", "500"), ("top_k", "5")];
    let properties = properties.map(|(name, value)| (name.to_owned(), literal(value))).to_vec();
    let asked = ModelRequest { options, answer, ..hello() };
    check_request("options-of-the-query.json", |config, _| config.properties = properties, asked).await;

    // Any history must become a conversation that the API accepts.
    let odd = vec![
        Message::System("First.".into()),
        Message::System("Second.".into()),
        Message::User("one".into()),
        Message::User("two".into()),
        assistant(
            Some("  \n"),
            vec![call("functions.search:0", "search", "[1]"), call("b", "search", "{\"a\": 1.50}")],
        ),
        result("functions.search:0", "search", "the arguments are no object", true),
        result("b", "search", "", false),
        Message::User("and then?".into()),
        assistant(Some(""), vec![]),
        Message::User("well?".into()),
    ];
    check_request("odd-history.json", |_, _| {}, request(odd)).await;

    let layout = json!({"content": [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"text": 9},
        {"type": "redacted_thinking", "data": "xyz"},
        {"call": 1, "own": {"caller": {"type": "direct"}}},
    ]});
    let thought = Message::Assistant {
        text: Some("Zwei ü. Drei.".into()),
        calls: vec![call("a", "calculator", "{}"), call("b", "calculator", "{}")],
        provider: Some(provider_fields::wrap("anthropic", layout)),
    };
    let foreign = Message::Assistant {
        text: Some("Hi".into()),
        calls: vec![],
        provider: Some(provider_fields::wrap("openai", json!({"message": {"reasoning_content": "secret"}}))),
    };
    let messages = vec![
        Message::User("x".into()),
        thought,
        result("a", "calculator", "1", false),
        result("b", "calculator", "2", false),
        foreign,
        Message::User("y".into()),
    ];
    check_request("blocks-in-their-places.json", |_, _| {}, request(messages)).await;

    // An error has only text, and an image that is too large for the API only its mark.
    let with = |id: &str, data: &[String], is_error| Message::Tool {
        provider_id: id.into(),
        alias: "calculator".into(),
        content: "a map\n[image: image/png, 9 bytes]".into(),
        images: data.iter().map(|data| Image { media_type: "image/png", data: data.clone() }).collect(),
        is_error,
    };
    let (small, large) = ("iVBORw0KGgoA".to_owned(), "A".repeat(5 * 1024 * 1024 + 4));
    let messages = vec![
        Message::User("x".into()),
        assistant(None, ["a", "b", "c"].map(|id| call(id, "calculator", "{}")).to_vec()),
        with("a", &[small.clone(), large.clone(), small.clone()], false),
        with("b", &[small], true),
        with("c", &[large], false),
    ];
    check_request("images.json", |_, _| {}, request(messages)).await;
}

#[tokio::test]
async fn key_version_and_headers_are_sent() {
    let server = stand_in(vec![stream("text-only")]).await;
    let mut config = config(&format!("{}/v1/", server.url()));
    (config.api_key, config.version) = (Some(literal("sk-ant-1")), Some(literal("2030-01-01")));
    config.headers = vec![("anthropic-beta".into(), literal("interleaved-thinking-2025-05-14"))];
    testing::reply(&model(config)).await.unwrap();
    let sent = server.requests().remove(0);
    assert_eq!(sent.path, "/v1/messages");
    let headers = ["x-api-key", "anthropic-version", "anthropic-beta", "authorization"].map(|name| sent.header(name));
    assert_eq!(headers, [Some("sk-ant-1"), Some("2030-01-01"), Some("interleaved-thinking-2025-05-14"), None]);
}

#[test]
fn the_endpoint_is_below_the_base_url() {
    let check = |base: &str, expect: Result<&str, &'static str>| {
        assert_eq!(
            remote::base(base).and_then(|base| MESSAGES.address(base, "m", None)).map(String::from),
            expect.map(str::to_owned),
            "{base}"
        );
    };
    check("https://api.anthropic.com", Ok("https://api.anthropic.com/v1/messages"));
    check("https://api.anthropic.com/v1/", Ok("https://api.anthropic.com/v1/messages"));
    check("https://gateway.test/anthropic", Ok("https://gateway.test/anthropic/v1/messages"));
    check("gateway.test", Err("is not a URL"));
}
