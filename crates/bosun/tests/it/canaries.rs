//! Twenty secrets of different shapes, planted wherever secrets can be; then everything that leaves the server is
//! searched for them, in every encoding.
//!
//! A model API of this test stands in for the real ones: it answers, refuses, breaks off and redirects, and in its
//! refusals it repeats the key that it was sent. The server logs at its most verbose level. The search itself is
//! tested: each secret is searched for, and found, where it belongs. In a program with the feature `otel`, the spans
//! that a collector receives are searched too (`make otel`).

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    Router,
    body::Bytes,
    extract::{Path as Route, State},
    http::{HeaderMap, HeaderName, StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};

use crate::{
    program::{bosun, run, stderr, stdout},
    support::{
        server::{ProcessExit, World},
        soon,
    },
};

/// A request as the model API saw it.
#[derive(Debug)]
struct Seen {
    model: String,
    headers: String,
    body: String,
}

type Log = Arc<Mutex<Vec<Seen>>>;

/// The encodings of the part of a secret that is searched for.
fn spellings(core: &str) -> Vec<String> {
    let hex: String = core.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut spellings = vec![core.to_owned(), hex.to_uppercase(), hex, core.chars().rev().collect()];
    // Depending on its position in a longer text, base64 has one of three forms of it.
    for shift in 0..3 {
        let padded = [&b"\0\0"[..shift], core.as_bytes()].concat();
        let whole = padded.len() / 3 * 3;
        let encoded = base64(&padded[..whole]);
        let text = encoded.get(if shift == 0 { 0 } else { 4 }..).unwrap_or_default().to_owned();
        spellings.push(text.replace('+', "-").replace('/', "_"));
        spellings.push(text);
    }
    spellings.retain(|spelling| spelling.len() >= 5);
    spellings
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = |chunk: &[u8]| {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or_default());
        let group = byte(0) << 16 | byte(1) << 8 | byte(2);
        let filling = 3 - chunk.len();
        [18, 12, 6, 0]
            .map(|shift| char::from(DIGITS[(group >> shift & 63) as usize]))
            .into_iter()
            .take(4 - filling)
            .chain(std::iter::repeat_n('=', filling))
            .collect::<String>()
    };
    bytes.chunks(3).map(digits).collect()
}

pub(crate) fn find(core: &str, bytes: &[u8]) -> Option<String> {
    // Logs have megabytes: a search of text is faster than one of windows.
    let text = String::from_utf8_lossy(bytes);
    spellings(core).into_iter().find(|spelling| text.contains(spelling.as_str()))
}

/// A secret: how it is called, its value, and the part of it that is the same in JSON and in URLs.
struct Canary {
    name: &'static str,
    value: String,
    core: &'static str,
}

fn canaries() -> Vec<Canary> {
    let new = |name, core, value: String| Canary { name, core, value };
    vec![
        new("file", "cnry00raw3f9a1", "sk-cnry00raw3f9a1".into()),
        new("newline", "cnry01lineb7", "sk-cnry01lineb7".into()),
        new("variable", "cnry02envc4d", "sk-cnry02envc4d".into()),
        new("literal", "cnry03litd91", "sk-cnry03litd91".into()),
        new("quoted", "cnry04quoe22", "sk-\"cnry04quoe22\\x".into()),
        new("url", "cnry05urlf68", "sk-+/=cnry05urlf68&%3D?".into()),
        new("short", "cn06z9qk", "cn06z9qk".into()),
        new("long", "cnry07long11", format!("sk-{}cnry07long11", "ab3".repeat(1_300))),
        new("pem", "cnry08pem77a", "-----BEGIN KEY-----\ncnry08pem77a\n-----END KEY-----".into()),
        new("base64", "Y25yeTA5YjY0", "Y25yeTA5YjY0cXE9PQ==".into()),
        new("header", "cnry10hdr5e5", "Token cnry10hdr5e5".into()),
        new("literal-header", "cnry11lhd0c0", "cnry11lhd0c0".into()),
        new("query-string", "cnry12qstr4f", "cnry12qstr4f".into()),
        new("property", "cnry13prop9d", "user-cnry13prop9d".into()),
        new("redirected", "cnry14rdrc8e", "sk-cnry14rdrc8e".into()),
        new("broken-off", "cnry15cut21b", "sk-cnry15cut21b".into()),
        new("elsewhere", "cnry16ns3a7c", "sk-cnry16ns3a7c".into()),
        new("not-a-key", "cnry17junk6d", "cnry17junk6d\u{7f}".into()),
    ]
}

/// Which models there are: the way in which their API answers, and the secret that they have.
const MODELS: &[(&str, &str, &str)] = &[
    ("m-file", "answer", "file"),
    ("m-newline", "refuse", "newline"),
    ("m-variable", "refuse", "variable"),
    ("m-literal", "fail", "literal"),
    ("m-quoted", "refuse", "quoted"),
    ("m-url", "refuse", "url"),
    ("m-short", "refuse", "short"),
    ("m-long", "refuse", "long"),
    ("m-pem", "refuse", "pem"),
    ("m-base64", "page", "base64"),
    ("m-header", "refuse", "header"),
    ("m-literal-header", "refuse", "literal-header"),
    ("m-query-string", "refuse", "query-string"),
    ("m-property", "answer", "property"),
    ("m-redirected", "redirect", "redirected"),
    ("m-broken-off", "break", "broken-off"),
    ("m-elsewhere", "refuse", "elsewhere"),
    ("m-not-a-key", "refuse", "not-a-key"),
];

fn plant(world: &World, api: &str, canaries: &[Canary]) {
    let mut manifests = String::new();
    for (model, way, name) in MODELS {
        let canary = canaries.iter().find(|canary| canary.name == *name).unwrap();
        let quoted = serde_json::to_string(&canary.value).unwrap();
        let reference = format!("valueFrom: {{secretKeyRef: {{name: {name}, key: key}}}}");
        let mut base = format!("value: \"{api}/{way}/{model}/v1\"");
        let key = match *name {
            "literal" => format!("apiKey: {{value: {quoted}}}"),
            "header" => format!("headers: [{{name: x-custom-auth, value: {{{reference}}}}}]"),
            "literal-header" => format!("headers: [{{name: x-custom-auth, value: {{value: {quoted}}}}}]"),
            "property" => format!("properties: {{user: {{{reference}}}}}"),
            "query-string" => {
                base = format!("valueFrom: {{secretKeyRef: {{name: {name}, key: url}}}}");
                String::new()
            }
            _ => format!("apiKey: {{{reference}}}"),
        };
        if *name == "query-string" {
            secret(world, "default", name, "url", &format!("{api}/{way}/{model}/v1?api-key={}", canary.value));
        }
        match *name {
            "variable" | "literal" | "literal-header" => {}
            "newline" => secret(world, "default", name, "key", &format!("{}\n", canary.value)),
            // Another namespace has it; a reference from this one fails.
            "elsewhere" => secret(world, "other", name, "key", &canary.value),
            _ => secret(world, "default", name, "key", &canary.value),
        }
        manifests += &format!(
            "---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Model
metadata: {{name: {model}}}
spec:
  provider: openai
  model: {{value: some-model}}
  config:
    openai:
      baseUrl: {{{base}}}
      {key}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Agent
metadata: {{name: {model}}}
spec:
  prompt: Be brief.
  modelRef: {{name: {model}}}
"
        );
    }
    fs::write(world.path("manifests").join("canaries.yaml"), manifests).unwrap();
}

fn secret(world: &World, namespace: &str, name: &str, key: &str, value: &str) {
    let directory = world.path("secrets").join(namespace).join(name);
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join(key), value).unwrap();
}

/// The API: the path says how it answers.
async fn serve_api(log: Log) -> (String, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().route("/{way}/{model}/v1/chat/completions", post(complete)).with_state(log);
    let mut server = JoinSet::new();
    server.spawn(async move { axum::serve(listener, router).await.unwrap() });
    (base, server)
}

async fn complete(
    Route((way, model)): Route<(String, String)>,
    State(log): State<Log>,
    uri: axum::http::Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let shown: String = headers
        .iter()
        .map(|(name, value)| format!("{name}: {}\n", String::from_utf8_lossy(value.as_bytes())))
        .chain(uri.query().map(|query| format!("?{query}\n")))
        .collect();
    let text = String::from_utf8_lossy(&body).into_owned();
    let asked: Value = serde_json::from_slice(&body).unwrap();
    log.lock().unwrap_or_else(PoisonError::into_inner).push(Seen { model, headers: shown.clone(), body: text });
    // Like an API that tries to be helpful: what it was sent, in several encodings.
    let json = serde_json::to_string(&shown).unwrap();
    let key = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let key = key.strip_prefix("Bearer ").unwrap_or(key);
    let encode = |byte: u8| match byte {
        b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    let encoded: String = key.bytes().map(encode).collect();
    let echo = json!({"error": {"message": format!("Incorrect API key: {encoded}; {}; {key}; {json}; {shown}", base64(key.as_bytes())), "type": "auth"}});
    let final_answer = [(HeaderName::from_static("x-should-retry"), "false")];
    match way.as_str() {
        "refuse" => (StatusCode::UNAUTHORIZED, final_answer, axum::Json(echo)).into_response(),
        "fail" => (StatusCode::INTERNAL_SERVER_ERROR, final_answer, axum::Json(echo)).into_response(),
        "page" => (StatusCode::OK, [(header::CONTENT_TYPE, "text/html")], shown).into_response(),
        "redirect" => (StatusCode::FOUND, [(header::LOCATION, "/refuse/stolen/v1/chat/completions")]).into_response(),
        "break" => {
            let half = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"half a\"}}]}\n\ndata: {\"cho";
            ([(header::CONTENT_TYPE, "text/event-stream")], half).into_response()
        }
        _ => axum::Json(answer(&asked)).into_response(),
    }
}

/// First a call, with a private argument; then an answer.
fn answer(asked: &Value) -> Value {
    let messages = asked["messages"].as_array().unwrap();
    let has_result = messages.iter().any(|message| message["role"] == "tool");
    let message = if has_result {
        json!({"role": "assistant", "content": "Done."})
    } else {
        let arguments = json!({"key": "x", "password": ARGUMENT}).to_string();
        let function = json!({"name": "lookup", "arguments": arguments});
        json!({"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function", "function": function}]})
    };
    let reason = if has_result { "stop" } else { "tool_calls" };
    json!({
        "id": "a", "object": "chat.completion", "created": 1, "model": "some-model",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    })
}

/// Not secrets of the server, but not for its logs, metrics and audit either.
const ARGUMENT: &str = "cnry18arg55e";
const RESULT: &str = "cnry19rslt7b";
/// A client's credential.
const CLIENT: &str = "cnry20bear1d";

/// Everything that left the server, by channel.
#[derive(Default)]
struct CapturedOutput(BTreeMap<String, Vec<u8>>);

impl CapturedOutput {
    fn add(&mut self, place: &str, bytes: &[u8]) {
        self.0.entry(place.to_owned()).or_default().extend_from_slice(bytes);
    }

    /// Where a secret was found that must be in none of the places that are looked at.
    fn leaks(&self, core: &str, is_looked_at: impl Fn(&str) -> bool) -> Vec<String> {
        let looked_at = self.0.iter().filter(|(place, _)| is_looked_at(place));
        looked_at.filter_map(|(place, bytes)| Some(format!("{core} as {} in {place}", find(core, bytes)?))).collect()
    }
}

async fn catch(
    http: &reqwest::Client,
    caught: &mut CapturedOutput,
    place: &str,
    request: reqwest::RequestBuilder,
) -> Value {
    let _ = http;
    let request =
        request.header("authorization", format!("Bearer {CLIENT}")).header("cookie", format!("session={CLIENT}"));
    let response = request.send().await.unwrap();
    let mut text = format!("{:?}\n", response.headers()).into_bytes();
    let body = response.bytes().await.unwrap();
    text.extend_from_slice(&body);
    caught.add(place, &text);
    serde_json::from_slice(&body).unwrap_or(Value::Null)
}

async fn exercise(world: &World, base: &str, caught: &mut CapturedOutput) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    for (model, way, _) in MODELS {
        let tool = json!({
            "name": "lookup", "description": "Looks something up",
            "parameters": {"type": "object", "properties": {"key": {"type": "string"}, "password": {"type": "string"}}},
        });
        let body = json!({
            "name": model, "input": "Look it up.", "target": {"type": "agent", "name": model}, "externalTools": [tool],
        });
        let queries = format!("{base}/v1/queries");
        let created = catch(&http, caught, "answers", http.post(format!("{queries}?wait=20s")).json(&body)).await;
        if *way == "answer" {
            assert_eq!(created["status"], "tool_call_required", "{created}");
            let result = json!({"toolName": "lookup", "toolResult": RESULT});
            let url = format!("{queries}/{model}/tool-result");
            let done = catch(&http, caught, "answers", http.post(&url).json(&result)).await;
            assert_eq!(done["status"], "completed", "{done}");
            let other = json!({"toolName": "lookup", "toolResult": format!("other {RESULT}")});
            catch(&http, caught, "answers", http.post(&url).json(&other)).await;
        } else {
            assert_eq!(created["status"], "failed", "{created}");
        }
        catch(&http, caught, "stream", http.get(format!("{queries}/{model}/events"))).await;
        catch(&http, caught, "answers", http.get(format!("{queries}/{model}?view=ark"))).await;
    }
    catch(&http, caught, "answers", http.post(format!("{base}/v1/queries")).body("{broken")).await;
    catch(&http, caught, "answers", http.get(format!("{base}/v1/queries?namespace=No"))).await;
    catch(&http, caught, "metrics", http.get(format!("{base}/metrics"))).await;
    catch(&http, caught, "audit", http.get(format!("{base}/v1/audit?limit=1000"))).await;
    catch(&http, caught, "usage", http.get(format!("{base}/v1/tools/usage"))).await;
    catch(&http, caught, "answers", http.get(format!("{base}/v1/agents"))).await;
    let exported = run(bosun().args(["audit", "export", "--data"]).arg(world.data())).await;
    caught.add("audit", stdout(&exported).as_bytes());
    caught.add("audit", stderr(&exported).as_bytes());
}

fn catch_files(directory: &Path, caught: &mut CapturedOutput) {
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            catch_files(&entry.path(), caught);
        } else if entry.file_name() != "audit.key" {
            caught.add("store", &fs::read(entry.path()).unwrap());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_leaves_by_another_channel_than_its_own() {
    let canaries = canaries();
    let log = Log::default();
    let (api, _server) = serve_api(Arc::clone(&log)).await;
    let mut world = World::new();
    plant(&world, &api, &canaries);
    world.set("RUST_LOG", "trace");
    world.set(
        "BOSUN_SECRET_VARIABLE_KEY",
        canaries.iter().find(|canary| canary.name == "variable").unwrap().value.clone(),
    );
    #[cfg(feature = "otel")]
    let spans = {
        let (collector, received) = crate::traces::collected::collector().await;
        world.set("OTEL_EXPORTER_OTLP_ENDPOINT", collector);
        received
    };
    let secrets = world.path("secrets");
    let world = world.with(&["--secrets", secrets.to_str().unwrap(), "--log-format", "json"]);
    let mut caught = CapturedOutput::default();
    let mut server = world.start().await;
    exercise(&world, &server.base, &mut caught).await;
    catch_files(&world.data(), &mut caught);
    server.terminate();
    assert_eq!(soon("the end", server.exit()).await, ProcessExit::Exited(0));
    catch_files(&world.data(), &mut caught);
    caught.add("log", &fs::read(world.log()).unwrap());
    #[cfg(feature = "otel")]
    {
        let received = spans.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(received.iter().any(|(_, body)| body.to_string().contains("chat ")), "spans of models: {received:?}");
        received.iter().for_each(|sent| caught.add("spans", format!("{sent:?}").as_bytes()));
    }
    let lines = String::from_utf8_lossy(&caught.0["log"]).into_owned();
    let broken_off: Vec<Value> = lines
        .lines()
        .filter(|line| line.contains("model's answer broke off"))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(!broken_off.is_empty(), "the server has logged: {lines}");
    for line in broken_off {
        assert_eq!(line["query"], "m-broken-off", "{line}");
    }

    let seen = std::mem::take(&mut *log.lock().unwrap_or_else(PoisonError::into_inner));
    let mut leaks = Vec::new();
    for (model, _, name) in MODELS {
        let canary = canaries.iter().find(|canary| canary.name == *name).unwrap();
        leaks.extend(caught.leaks(canary.core, |_| true));
        // It was sent where it belongs: otherwise it could not have been found.
        let arrived = |seen: &Seen| {
            let place = if *name == "property" { &seen.body } else { &seen.headers };
            find(canary.core, place.as_bytes()).is_some()
        };
        let own: Vec<_> = seen.iter().filter(|seen| seen.model == *model).collect();
        let is_sent = !matches!(*name, "pem" | "elsewhere" | "not-a-key");
        assert_eq!(own.iter().any(|seen| arrived(seen)), is_sent, "{name}: {own:?}");
        for other in seen.iter().filter(|seen| seen.model != *model) {
            let sent = format!("{}{}", other.headers, other.body);
            leaks.extend(find(canary.core, sent.as_bytes()).map(|_| format!("{name} was sent to {}", other.model)));
        }
        if *name != "property" {
            leaks.extend(own.iter().filter_map(|seen| find(canary.core, seen.body.as_bytes())));
        }
    }
    let key = fs::read_to_string(world.data().join("audit.key")).unwrap();
    let key = key.lines().last().unwrap().to_owned();
    leaks.extend(caught.leaks(&key, |_| true));
    // The journal and the client have a call's arguments and results; nothing else does.
    for core in [ARGUMENT, RESULT] {
        assert!(!caught.leaks(core, |place| place == "store").is_empty(), "what is on record can be found");
        leaks.extend(caught.leaks(core, |place| matches!(place, "log" | "spans" | "metrics" | "audit" | "usage")));
    }
    leaks.extend(caught.leaks(CLIENT, |_| true));
    assert!(leaks.is_empty(), "{leaks:#?}");
}

/// Invalid bodies, with a key where keys are sent.
fn malformed(key: &str) -> Vec<(&'static str, &'static str, Value)> {
    let model = |config: Value| json!({"provider": "openai", "model": "gpt", "config": config});
    let header = json!({"name": "x-custom-auth", "value": key});
    let nested = json!({"name": "x-custom-auth", "value": {"value": key}});
    let query = |parameters: Value| json!({"input": "Hello", "parameters": parameters});
    vec![
        ("POST", "/v1/models", model(json!({"openai": {"apiKey": key}}))),
        ("POST", "/v1/models", model(json!({"openai": {"apiKey": {"value": key}}}))),
        ("POST", "/v1/models", model(json!({"openai": {"apiKey": [key]}}))),
        ("POST", "/v1/models", model(json!({"openai": {"headers": [header]}}))),
        ("POST", "/v1/models", model(json!({"openai": {"headers": [nested]}}))),
        ("POST", "/v1/models", model(json!({"openai": {"headers": {"x-custom-auth": key}}}))),
        ("POST", "/v1/models", model(json!({"openai": {"properties": {"user": key}}}))),
        ("POST", "/v1/models", model(json!({"openai": key}))),
        ("POST", "/v1/models", model(key.into())),
        ("POST", "/v1/models", json!({"spec": model(json!({"azure": {"apiKey": key}})), "metadata": []})),
        ("PUT", "/v1/models/m-file", json!({"name": "other", "apiKey": key})),
        ("POST", "/v1/resources/apis/ark.mckinsey.com/v1alpha1/Model", json!({"spec": {"config": {"openai": key}}})),
        ("POST", "/v1/mcp-servers", json!({"spec": {"address": format!("https://x/mcp?key={key}")}})),
        ("POST", "/v1/mcp-servers", json!({"spec": {"address": {"value": "https://x/mcp"}, "headers": [header]}})),
        ("POST", "/v1/mcp-servers", json!({"headers": [key], "labels": 5})),
        ("POST", "/v1/tools", json!({"spec": {"type": "http", "http": {"url": "https://x/", "headers": [nested]}}})),
        ("POST", "/v1/queries", query(json!([{"name": "api_key", "value": key}]))),
        ("POST", "/v1/queries", query(json!([{"name": "password", "value": {"value": key}}]))),
        ("POST", "/v1/queries", json!({"overrides": [{"headers": [header]}], "input": "Hello"})),
        ("POST", "/v1/models/m-file/query", json!({"token": key})),
        ("POST", "/v1/namespaces", json!({"authorization": key})),
        ("PUT", "/v1/queries/none", json!({"apiKey": key, "cancel": "yes"})),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_of_a_body_are_reported_without_its_keys() {
    let world = World::new();
    let (api, _server) = serve_api(Log::default()).await;
    plant(&world, &api, &canaries());
    let secrets = world.path("secrets");
    let world = world.with(&["--secrets", secrets.to_str().unwrap()]);
    let server = world.start().await;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut leaks = Vec::new();
    for canary in canaries() {
        for (method, path, body) in malformed(&canary.value) {
            assert!(find(canary.core, body.to_string().as_bytes()).is_some(), "{body}");
            let url = format!("{}{path}", server.base);
            let mut caught = CapturedOutput::default();
            let answer = catch(&http, &mut caught, path, http.request(method.parse().unwrap(), url).json(&body)).await;
            assert!(
                answer["detail"][0]["loc"][0] == "body" && answer.get("body").is_some(),
                "{method} {path}: {answer}"
            );
            leaks
                .extend(caught.leaks(canary.core, |_| true).into_iter().map(|leak| format!("{method} {leak}: {body}")));
        }
    }
    assert!(leaks.is_empty(), "{leaks:#?}");
}

#[test]
fn the_search_finds_every_encoding() {
    for canary in canaries() {
        let core = canary.core;
        let json = serde_json::to_string(&canary.value).unwrap();
        let url: String = canary
            .value
            .bytes()
            .map(|byte| match byte {
                b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => char::from(byte).to_string(),
                _ => format!("%{byte:02x}"),
            })
            .collect();
        let hex: String = canary.value.bytes().map(|byte| format!("{byte:02x}")).collect();
        for text in [canary.value.clone(), json, url, hex] {
            assert!(find(core, format!("before {text} after").as_bytes()).is_some(), "{text}");
        }
        for before in ["", "a", "ab"] {
            let mut text = format!("{before}{}", canary.value).into_bytes();
            text.resize(text.len().next_multiple_of(3), b'!');
            assert!(find(core, base64(&text).as_bytes()).is_some(), "{} behind {before:?}", canary.name);
        }
        assert!(find(core, b"nothing to be found here").is_none());
    }
}
