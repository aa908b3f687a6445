//! Golden requests, a corpus of answers cut at every byte, and what happens when an API misbehaves,
//! over real connections.

mod corpus;
mod faults;
mod server;

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use bosun_core::{
    Binding, Namespace, QueryUid, Tool,
    tool::toolset::{Mode, Toolset},
    transcript::{Message, MessageCall},
};
use bosun_engine::{
    Model,
    model::{Deltas, ModelError, ModelReply, ModelRequest},
};
use serde_json::json;

use self::server::{Canned, Server};
use super::{Backoff, Config, Connections, OpenAi};
use crate::{
    golden,
    secret::{Secret, Secrets, Source},
};

fn fixtures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models/openai")
}

fn literal(text: &str) -> Source {
    Source::Literal(Secret::new(text.into()))
}

/// Keeps the text that was streamed.
#[derive(Default)]
struct Kept(Mutex<String>);

impl Deltas for Kept {
    fn push(&self, text: &str) {
        self.0.lock().unwrap().push_str(text);
    }
}

impl Kept {
    fn text(&self) -> String {
        self.0.lock().unwrap().clone()
    }
}

fn config(url: &str) -> Config {
    Config {
        model: literal("gpt-4o"),
        base_url: literal(&format!("{url}/v1")),
        api_key: None,
        headers: Vec::new(),
        properties: Vec::new(),
        stream: true,
    }
}

fn model(config: Config) -> OpenAi {
    let mut model = OpenAi::new(Namespace::default(), config, Arc::default(), Arc::new(Connections::default()));
    model.patience.backoff = Backoff { first: Duration::from_millis(1), longest: Duration::from_secs(5) };
    model
}

fn request(messages: Vec<Message>) -> ModelRequest {
    let parameters = json!({
        "type": "object",
        "properties": {"expression": {"type": "string", "description": "Mathematical expression to evaluate (e.g., \"2 + 2\")"}},
        "required": ["expression"],
    });
    let calculator = Tool::new("calculator", "Perform mathematical calculations", parameters, Binding::External);
    let search = Tool::new("web.search", "Search the web", json!({"type": "object"}), Binding::External);
    ModelRequest {
        query: QueryUid::new(1_794_700_800_000, [7; 10]),
        turn: 1,
        messages,
        toolset: Arc::new(Toolset::merge(Mode::N8n, Vec::new(), vec![calculator, search])),
        tools_allowed: true,
        options: Default::default(),
        answer: None,
    }
}

fn hello() -> ModelRequest {
    request(vec![Message::User("hello".into())])
}

async fn reply(model: &OpenAi) -> Result<ModelReply, ModelError> {
    model.reply(&hello(), &Kept::default()).await
}

fn conversation() -> Vec<Message> {
    let call = |id: &str, alias: &str, arguments: &str| MessageCall {
        provider_id: id.into(),
        alias: alias.into(),
        arguments: arguments.into(),
    };
    let result = |id: &str, alias: &str, content: &str| Message::Tool {
        provider_id: id.into(),
        alias: alias.into(),
        content: content.into(),
    };
    vec![
        Message::System("You are a \"careful\" assistant.\nUse the tools.".into()),
        Message::User("What is 25% of 8,432? 🌊".into()),
        Message::Assistant {
            text: None,
            calls: vec![
                call("call_a", "calculator", "{\"expression\":\"0.25 * 8432\"}"),
                call("call_b", "web_search", "{ \"q\" : \"percent\" }"),
            ],
        },
        result("call_a", "calculator", "2108"),
        result("call_b", "web_search", "Error: no network"),
        Message::Assistant { text: Some("One more.".into()), calls: vec![call("call_c", "calculator", "{}")] },
        result("call_c", "calculator", ""),
        Message::Assistant { text: None, calls: vec![] },
    ]
}

/// The body of the request is the golden file, byte for byte.
async fn check_request(file: &str, change: impl FnOnce(&mut Config), request: ModelRequest) {
    let server = Server::start(vec![Canned::stream("one-word")]).await;
    let mut config = config(&server.url);
    change(&mut config);
    model(config).reply(&request, &Kept::default()).await.unwrap();
    let sent = server.requests().remove(0);
    assert_eq!((sent.method.as_str(), sent.path.as_str()), ("POST", "/v1/chat/completions"));
    assert_eq!(sent.header("content-type"), Some("application/json"));
    golden::check(&fixtures().join("requests").join(file), &format!("{}\n", sent.body));
}

#[tokio::test]
async fn requests_are_these_bytes() {
    check_request("first-turn.json", |_| {}, request(conversation().drain(..2).collect())).await;
    check_request("after-results.json", |_| {}, request(conversation())).await;
    let last_turn = ModelRequest { tools_allowed: false, ..hello() };
    check_request("last-turn.json", |_| {}, last_turn).await;
    let no_tools = ModelRequest { toolset: Arc::new(Toolset::merge(Mode::Ark, vec![], vec![])), ..hello() };
    let settings = |config: &mut Config| {
        config.stream = false;
        config.properties = [
            ("temperature", "0.2"),
            ("max_tokens", "500"),
            ("stop", "[\"END\"]"),
            ("reasoning_effort", "low"),
            ("parallel_tool_calls", "false"),
            ("user", "\"42\""),
        ]
        .map(|(name, value)| (name.to_owned(), literal(value)))
        .to_vec();
    };
    check_request("plain-with-properties.json", settings, no_tools).await;
}

#[tokio::test]
async fn key_and_headers_are_resolved_for_each_request() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("default/openai/api-key");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let server = Server::start(vec![Canned::stream("one-word"), Canned::stream("one-word")]).await;
    let reference = |key: &str, optional| {
        Source::Reference(bosun_core::tool::SecretRef { name: "openai".into(), key: key.into(), optional })
    };
    let mut config = config(&server.url);
    config.api_key = Some(reference("api-key", false));
    config.headers = vec![("x-team".into(), literal("red")), ("x-absent".into(), reference("nothing", true))];
    let mut model = model(config);
    model.secrets = Arc::new(Secrets::new(Some(directory.path().to_owned()), []));
    for key in ["first-key", "second-key"] {
        std::fs::write(&file, key).unwrap();
        reply(&model).await.unwrap();
    }
    let requests = server.requests();
    assert_eq!(requests[0].header("authorization"), Some("Bearer first-key"));
    assert_eq!(requests[1].header("authorization"), Some("Bearer second-key"));
    assert_eq!(requests[0].header("x-team"), Some("red"));
    assert_eq!(requests[0].header("x-absent"), None);
}

#[tokio::test]
async fn a_missing_secret_is_named_and_nothing_is_sent() {
    let server = Server::start(vec![]).await;
    let mut config = config(&server.url);
    let key = bosun_core::tool::SecretRef { name: "openai".into(), key: "api-key".into(), optional: false };
    config.api_key = Some(Source::Reference(key));
    let error = reply(&model(config)).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "model is not usable: `apiKey` cannot be resolved: secret `openai` has no key `api-key` in namespace `default`; \
         put it into `<secrets>/default/openai/api-key` or set `BOSUN_SECRET_OPENAI_API_KEY`"
    );
    assert!(server.requests().is_empty());
}

#[test]
fn the_endpoint_lies_under_the_base_url() {
    let check = |base: &str, expect: Result<&str, &'static str>| {
        assert_eq!(super::endpoint(base).map(String::from), expect.map(str::to_owned), "{base}");
    };
    check("https://api.openai.com/v1", Ok("https://api.openai.com/v1/chat/completions"));
    check("https://api.openai.com/v1/", Ok("https://api.openai.com/v1/chat/completions"));
    check("http://localhost:11434", Ok("http://localhost:11434/chat/completions"));
    check("https://x.test/a?api-version=1", Ok("https://x.test/a/chat/completions?api-version=1"));
    check("localhost:11434", Err("must begin with http:// or https://"));
    check("file:///etc/passwd", Err("must begin with http:// or https://"));
    check("https://user:key@x.test", Err("must not hold a user or a password; use `apiKey` or `headers`"));
    check("not a url", Err("is not a URL"));
}

#[tokio::test]
async fn a_scripted_api_is_understood_as_the_script_itself() {
    let text = std::fs::read_to_string(fixtures().join("../scripted/wire.yaml")).unwrap();
    let script = Arc::new(crate::model::scripted::Script::parse(std::path::Path::new("wire.yaml"), &text).unwrap());
    let scripted = crate::model::scripted::Scripted::new(Arc::clone(&script));
    for stream in [true, false] {
        for input in ["one", "two", "three"] {
            let server = Server::playing(Arc::clone(&script)).await;
            let remote = model(Config { stream, ..config(&server.url) });
            let asked = request(vec![Message::User(input.into())]);
            let (near, far) = (Kept::default(), Kept::default());
            let mut expect = scripted.reply(&asked, &near).await.unwrap();
            let got = remote.reply(&asked, &far).await.unwrap();
            for (expect, got) in expect.calls.iter_mut().zip(&got.calls) {
                // Each API makes ids of its own.
                expect.provider_id.clone_from(&got.provider_id);
            }
            assert_eq!(got, expect, "{input}");
            assert_eq!(far.text(), near.text(), "{input}");
        }
    }
}
