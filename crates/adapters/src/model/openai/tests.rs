//! Golden requests, a corpus of answers cut at every byte, and misbehaviour of the API, over real connections.

mod corpus;
mod echo;
mod faults;

use std::{path::PathBuf, sync::Arc};

use bosun_core::{
    Namespace,
    query::ModelOptions,
    tool::toolset::{ToolSources, Toolset},
    transcript::Message,
};
use bosun_engine::{
    Model,
    model::{AnswerFormat, ModelRequest},
};
use bosun_standin::{Answer, StandIn, StandInAnswers};
use serde_json::{Value, json};

use super::{ChatCompletions, Host};
use crate::{
    golden,
    model::{
        remote::{self, Remote, Wire},
        scripted::{Script, Scripted},
        testing::{self, KeptDeltas, conversation, hello, literal, reply, request, stand_in, stream_of},
    },
    secret::{SecretSource, Secrets},
};

const OPENAI: ChatCompletions = ChatCompletions { host: Host::OpenAi, echo: true };
const AZURE: ChatCompletions = ChatCompletions { host: Host::Azure, echo: true };

fn fixtures() -> PathBuf {
    testing::fixtures().join("openai")
}

fn stream(name: &str) -> Answer {
    Answer::sse(stream_of("openai", name))
}

fn config(url: &str) -> remote::RemoteConfig {
    testing::config(&format!("{url}/v1"))
}

fn model(config: remote::RemoteConfig) -> Remote<ChatCompletions> {
    testing::remote(config, OPENAI)
}

/// Asserts that the body of the request is the golden file, byte for byte.
async fn check_request(file: &str, change: impl FnOnce(&mut remote::RemoteConfig), request: ModelRequest) {
    let server = stand_in(vec![stream("one-word")]).await;
    let mut config = config(&server.url());
    change(&mut config);
    model(config).reply(&request, &KeptDeltas::default()).await.unwrap();
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
    let no_tools = ModelRequest { toolset: Arc::new(Toolset::merge(ToolSources::Catalog, vec![], vec![])), ..hello() };
    let settings = |config: &mut remote::RemoteConfig| {
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

    // Options of a query override the manifest's, under the name that the manifest uses.
    let options = ModelOptions { temperature: Some(0.5), max_tokens: Some(300) };
    let asking = |schema: Value| {
        let answer = Some(AnswerFormat { name: "namespace-default-agent-sum".into(), schema: Arc::new(schema) });
        ModelRequest { options, answer, ..hello() }
    };
    let with = |properties: &[(&str, &str)]| {
        let properties: Vec<_> = properties.iter().map(|(name, value)| ((*name).to_owned(), literal(value))).collect();
        move |config: &mut remote::RemoteConfig| config.properties = properties
    };
    let sum = json!({"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]});
    let newer = [("temperature", "0.2"), ("max_completion_tokens", "500"), ("top_p", "0.9")];
    check_request("options-of-the-query.json", with(&newer), asking(sum)).await;
    // An open schema cannot be strict.
    let open = json!({"type": "object", "additionalProperties": {"type": "number"}});
    check_request("answers-of-an-open-form.json", with(&[("max_tokens", "500")]), asking(open)).await;
}

/// The condition for a prompt cache hit: the next turn of a query begins with the bytes of the turn before it.
#[tokio::test]
async fn a_turn_begins_with_the_bytes_of_the_turn_before_it() {
    let server = stand_in(vec![stream("parallel-calls"), stream("one-word")]).await;
    let model = model(config(&server.url()));
    let mut messages: Vec<_> = conversation().drain(..2).collect();
    let first = model.reply(&request(messages.clone()), &KeptDeltas::default()).await.unwrap();
    messages.extend(testing::follow(&first));
    model.reply(&request(messages), &KeptDeltas::default()).await.unwrap();
    let [first, second] = &server.requests()[..] else { panic!() };
    let (prefix, rest) = first.body.split_once("}],\"tools\":").unwrap();
    assert!(second.body.starts_with(&format!("{prefix}}},")), "{}", second.body);
    assert!(second.body.ends_with(&format!("\"tools\":{rest}")), "{}", second.body);
}

#[tokio::test]
async fn key_and_headers_are_resolved_for_each_request() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("default/openai/api-key");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let server = stand_in(vec![stream("one-word"), stream("one-word")]).await;
    let reference = |key: &str, optional| {
        SecretSource::Reference(bosun_core::tool::SecretRef { name: "openai".into(), key: key.into(), optional })
    };
    let mut config = config(&server.url());
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
async fn azure_has_a_deployment_in_its_path_and_a_header_for_the_key() {
    let server = stand_in(vec![stream("filter-results-first")]).await;
    let mut config = testing::config(&server.url());
    (config.api_key, config.version) = (Some(literal("azure-key")), Some(literal("2025-01-01")));
    let model = Remote::new(Namespace::default(), config, AZURE, Arc::default(), Arc::default());
    reply(&model).await.unwrap();
    let sent = server.requests().remove(0);
    assert_eq!(sent.path, "/openai/deployments/gpt-4o/chat/completions?api-version=2025-01-01");
    assert_eq!((sent.header("api-key"), sent.header("authorization")), (Some("azure-key"), None));
}

#[tokio::test]
async fn a_missing_secret_is_named_and_nothing_is_sent() {
    let server = stand_in(vec![]).await;
    let mut config = config(&server.url());
    let key = bosun_core::tool::SecretRef { name: "openai".into(), key: "api-key".into(), optional: false };
    config.api_key = Some(SecretSource::Reference(key));
    let error = reply(&model(config)).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "model is not usable: `apiKey` cannot be resolved: secret `openai` has no key `api-key` in namespace `default`; \
         put it into `<secrets>/default/openai/api-key` or set `BOSUN_SECRET_OPENAI_API_KEY`"
    );
    assert!(server.requests().is_empty());
}

#[test]
fn the_endpoint_is_below_the_base_url() {
    let check = |base: &str, expect: Result<&str, &'static str>| {
        assert_eq!(
            remote::base(base).and_then(|base| OPENAI.address(base, "m", None)).map(String::from),
            expect.map(str::to_owned),
            "{base}"
        );
    };
    check("https://api.openai.com/v1", Ok("https://api.openai.com/v1/chat/completions"));
    check("https://api.openai.com/v1/", Ok("https://api.openai.com/v1/chat/completions"));
    check("http://localhost:11434", Ok("http://localhost:11434/chat/completions"));
    check("https://x.test/a?api-version=1", Ok("https://x.test/a/chat/completions?api-version=1"));
    check("localhost:11434", Err("must begin with http:// or https://"));
    check("file:///etc/passwd", Err("must begin with http:// or https://"));
    check("https://user:key@x.test", Err("must not contain a user or a password; use `apiKey` or `headers`"));
    check("not a url", Err("is not a URL"));
}

#[test]
fn azures_addresses_old_and_new() {
    let check = |base: &str, version: Option<&str>, expect: &str| {
        assert_eq!(
            remote::base(base).and_then(|base| AZURE.address(base, "my/model", version)).map(String::from),
            Ok(expect.to_owned()),
            "{base}"
        );
    };
    let usual = "https://r.openai.azure.com/openai/deployments/my%2Fmodel/chat/completions?api-version=";
    check("https://r.openai.azure.com", None, &format!("{usual}2024-10-21"));
    check("https://r.openai.azure.com/", Some("2025-04-01-preview"), &format!("{usual}2025-04-01-preview"));
    check("https://r.openai.azure.com/openai/", None, &format!("{usual}2024-10-21"));
    check(
        "https://r.openai.azure.com/openai/deployments/other?api-version=1",
        None,
        "https://r.openai.azure.com/openai/deployments/other/chat/completions?api-version=1",
    );
    check("https://r.openai.azure.com/openai/v1", None, "https://r.openai.azure.com/openai/v1/chat/completions");
}

#[tokio::test]
async fn a_scripted_api_is_understood_as_the_script_itself() {
    let text = std::fs::read_to_string(fixtures().join("../scripted/wire.yaml")).unwrap();
    let script = Arc::new(Script::parse(std::path::Path::new("wire.yaml"), &text).unwrap());
    let scripted = Scripted::new(script);
    for stream in [true, false] {
        for input in ["one", "two", "three"] {
            let server = StandIn::recording(StandInAnswers::parse("wire.yaml", &text).unwrap()).await.unwrap();
            let remote = model(remote::RemoteConfig { stream, ..config(&server.url()) });
            let asked = request(vec![Message::User(input.into())]);
            let (near, far) = (KeptDeltas::default(), KeptDeltas::default());
            let mut expect = scripted.reply(&asked, &near).await.unwrap();
            let got = remote.reply(&asked, &far).await.unwrap();
            for (expect, got) in expect.calls.iter_mut().zip(&got.calls) {
                // Each API generates its own ids.
                expect.provider_id.clone_from(&got.provider_id);
            }
            assert_eq!(got, expect, "{input}");
            assert_eq!(far.text(), near.text(), "{input}");
        }
    }
}
