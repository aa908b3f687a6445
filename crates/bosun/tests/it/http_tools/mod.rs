//! Tools of type `http`, run by the whole program against services on loopback.

mod canaries;
mod hostile;
mod hybrid;
mod redirects;
pub(crate) mod service;
mod tenants;

use std::fs;

use axum::{Json, http::StatusCode};
use bosun_core::ceiling::HTTP_RESPONSE_BYTES;
use serde_json::{Value, json};

use self::service::Service;
use crate::{
    resources::{Answer, api},
    support::server::{Server, World},
};

const KEY: &str = "cnry-weather-91f3a7";

/// A model that asks for the weather once and repeats what it was sent, and its agent.
const AGENT: &str = r#"
apiVersion: ark.mckinsey.com/v1alpha1
kind: Model
metadata: {name: forecaster}
spec: {provider: scripted, config: {scripted: {file: forecaster.script.yaml}}}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Agent
metadata: {name: forecaster}
spec: {modelRef: {name: forecaster}, tools: [{type: http, name: weather}]}
"#;

const SCRIPT: &str = r#"
otherwise:
  - call: [{tool: weather, arguments: {city: "São Paulo/..x", units: metric}}]
  - say: "The service says: {{ result.weather }}"
"#;

/// A tool of the operator's own files.
fn weather(url: &str) -> String {
    format!(
        r#"
apiVersion: ark.mckinsey.com/v1alpha1
kind: Tool
metadata: {{name: weather}}
spec:
  type: http
  description: Tells the weather in a city
  inputSchema:
    type: object
    properties: {{city: {{type: string}}, units: {{type: string}}, lang: {{type: string}}}}
    required: [city]
  http:
    url: {url}/v1/cities/{{city}}/weather?units={{units}}&lang={{lang}}
    headers:
      - {{name: X-Key, value: {{valueFrom: {{secretKeyRef: {{name: weather, key: token}}}}}}}}
"#
    )
}

/// A server with these manifests in addition to its own, and a secret.
fn world(manifests: &[(&str, &str)]) -> World {
    let world = World::new();
    for (name, text) in manifests {
        fs::write(world.path("manifests").join(name), text).unwrap();
    }
    let secrets = world.path("secrets");
    fs::create_dir_all(secrets.join("default/weather")).unwrap();
    fs::write(secrets.join("default/weather/token"), KEY).unwrap();
    world.with(&["--secrets", secrets.to_str().unwrap()])
}

/// Calls a tool by itself; the status of the query, and its answer or its error.
async fn call(server: &Server, tool: &str, arguments: &Value) -> (String, String) {
    let body = json!({"input": arguments.to_string(), "target": {"type": "tool", "name": tool}});
    let answer = api(server, "POST", "/v1/queries?wait=60s&view=rfc", Some(&body)).await;
    status_and_text(&answer)
}

fn status_and_text(answer: &Answer) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let error = &answer.body["error"];
    match text(&answer.body["status"]).as_str() {
        "completed" => ("completed".to_owned(), text(&answer.body["response"])),
        _ => (text(&error["code"]), text(&error["message"])),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_calls_an_http_api_and_reads_its_answer() {
    let service = Service::start(|_| Json(json!({"temperature": 31, "sky": "clear"}))).await;
    let manifests = [("forecaster.yaml", AGENT), ("forecaster.script.yaml", SCRIPT)];
    let world = world(&manifests);
    fs::write(world.path("manifests").join("weather.yaml"), weather(&service.url)).unwrap();
    let server = world.start().await;
    let body = json!({"input": "How is it?", "target": {"type": "agent", "name": "forecaster"}});
    let answer = api(&server, "POST", "/v1/queries?wait=20s&view=rfc", Some(&body)).await;
    let expect = r#"The service says: {"temperature":31,"sky":"clear"}"#;
    assert_eq!(status_and_text(&answer), ("completed".to_owned(), expect.to_owned()), "{}", answer.text);
    assert_eq!(answer.body["warnings"], json!([]), "an HTTP tool is served");

    let [received] = &service.received()[..] else { panic!("one request") };
    assert_eq!(received.method, "GET");
    assert_eq!(received.target, "/v1/cities/S%C3%A3o%20Paulo%2F..x/weather?units=metric");
    assert_eq!(received.header("x-key"), KEY);
    assert!(received.header("user-agent").starts_with("bosun/"));
    assert_eq!(received.header("accept-encoding"), "gzip, deflate");
    assert!(received.body.is_empty());
    assert!(!answer.text.contains(KEY));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_is_read_by_the_model_with_a_bounded_body_and_without_secrets() {
    let service = Service::start(|received| {
        let status_and_text = format!("no such city for key {}; {}", received.header("x-key"), "x".repeat(100_000));
        (StatusCode::NOT_FOUND, status_and_text)
    })
    .await;
    let world = world(&[("forecaster.yaml", AGENT), ("forecaster.script.yaml", SCRIPT)]);
    fs::write(world.path("manifests").join("weather.yaml"), weather(&service.url)).unwrap();
    let server = world.start().await;
    let body = json!({"input": "How is it?", "target": {"type": "agent", "name": "forecaster"}});
    let answer = api(&server, "POST", "/v1/queries?wait=20s&view=rfc", Some(&body)).await;
    let (status, text) = status_and_text(&answer);
    assert_eq!(status, "completed", "{}", answer.text);
    let expect = "The service says: Error: the API answered 404 Not Found\nno such city for key [redacted]; xxx";
    assert!(text.starts_with(expect) && text.ends_with("x…") && text.len() < 9_000, "{text}");
    let entry = &answer.body["toolExecutionHistory"][0];
    assert_eq!(entry["error"]["code"], "http_status", "{entry}");
    assert!(!answer.text.contains(KEY));
}

/// A tool of type `http` with this name, and these fields of `http`.
fn tool(name: &str, http: &Value) -> String {
    let mut properties = serde_json::Map::new();
    for argument in ["path", "text"] {
        properties.insert(argument.to_owned(), json!({"type": "string"}));
    }
    let spec = json!({"type": "http", "inputSchema": {"type": "object", "properties": properties}, "http": http});
    let manifest =
        json!({"apiVersion": "ark.mckinsey.com/v1alpha1", "kind": "Tool", "metadata": {"name": name}, "spec": spec});
    // JSON is YAML.
    manifest.to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_is_filled_with_arguments_parameters_settings_and_secrets() {
    let service = Service::start(|_| Json(json!({"ok": true}))).await;
    let from = |kind: &str, reference: Value| json!({"valueFrom": {kind: reference}});
    let with = |name: &str, source: Value| {
        let mut entry = json!({"name": name});
        entry.as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
        entry
    };
    let settings = json!({"name": "settings", "key": "plan"});
    let http = json!({
        "url": format!("{}/notes", service.url), "method": "POST",
        "headers": [
            {"name": "X-Tenant", "value": from("queryParameterRef", json!({"name": "tenant"}))},
            {"name": "X-Plan", "value": from("configMapKeyRef", settings.clone())},
            {"name": "X-None", "value": from("configMapKeyRef", json!({"name": "settings", "key": "none", "optional": true}))},
        ],
        "body": r#"{"text": "Note: {{.input.text}}", "tenant": "{{.tenant}}", "plan": {{.plan}}, "key": "{{.key}}"}"#,
        "bodyParameters": [
            with("tenant", from("queryParameterRef", json!({"name": "tenant"}))),
            with("plan", from("configMapKeyRef", settings)),
            with("key", from("secretKeyRef", json!({"name": "weather", "key": "token"}))),
        ],
    });
    let maps = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {plan: '7'}\n";
    let world = world(&[("note.yaml", &tool("note", &http)), ("settings.yaml", maps)]);
    let server = world.start().await;
    let text = "a \"quote\"\n, \"admin\": true";
    let body = json!({"input": json!({"text": text}).to_string(), "target": {"type": "tool", "name": "note"},
        "parameters": [{"name": "tenant", "value": "acme\", \"admin\": \"yes"}]});
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let headers = [("traceparent", trace)];
    let answer =
        crate::resources::send(&server, "POST", "/v1/queries?wait=20s&view=rfc", Some(&body), &headers).await.unwrap();
    assert_eq!(status_and_text(&answer), ("completed".to_owned(), r#"{"ok":true}"#.to_owned()), "{}", answer.text);
    let [received] = &service.received()[..] else { panic!("one request") };
    let sent: Value = serde_json::from_str(&received.body).unwrap();
    let expect = json!({"text": format!("Note: {text}"), "tenant": "acme\", \"admin\": \"yes", "plan": 7, "key": KEY});
    assert_eq!(sent, expect);
    let shown = ["content-type", "x-plan", "x-none"].map(|name| received.header(name));
    assert_eq!(shown, ["application/json", "7", ""]);
    assert_eq!(received.header("x-tenant"), "acme\", \"admin\": \"yes");
    assert_eq!(
        received.header("idempotency-key"),
        answer.body["toolExecutionHistory"][0]["toolCallId"].as_str().unwrap()
    );
    assert!(
        received.header("traceparent").starts_with("00-0af7651916cd43dd8448eb211c80319c-"),
        "{:?}",
        received.headers
    );

    // A missing parameter is reported, and nothing is sent.
    let (code, message) = call(&server, "note", &json!({"text": "x"})).await;
    assert_eq!(code, "tool_misconfigured");
    assert_eq!(message, "`tenant` needs the parameter `tenant`, which the query does not have");
    assert_eq!(service.received().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_is_json_or_text_in_its_charset() {
    let service = Service::start(|received| {
        let gzip = |text: &str| {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            std::io::Write::write_all(&mut encoder, text.as_bytes()).unwrap();
            encoder.finish().unwrap()
        };
        let answer = |kind: &'static str, encoding: &'static str, body: Vec<u8>| {
            let mut headers = axum::http::HeaderMap::new();
            for (name, value) in [("content-type", kind), ("content-encoding", encoding)] {
                if !value.is_empty() {
                    headers.insert(name, value.parse().unwrap());
                }
            }
            (headers, body)
        };
        match received.target.as_str() {
            "/json" => answer("application/problem+json; charset=utf-8", "", br#"{ "b": 1, "a": [1.50] }"#.to_vec()),
            "/latin" => answer("text/plain; charset=\"ISO-8859-1\"", "", b"caf\xe9".to_vec()),
            "/xml" => answer("application/xml", "", b"<a/>".to_vec()),
            "/gzip" => answer("text/html", "gzip", gzip("<p>packed</p>")),
            "/bytes" => answer("application/octet-stream", "", b"plain enough".to_vec()),
            "/untyped" => answer("", "", br#"{"a":1}"#.to_vec()),
            "/number" => answer("", "", b"42".to_vec()),
            "/binary" => answer("application/octet-stream", "", vec![0, 1, 2]),
            "/image" => answer("image/png", "", b"\x89PNG\r\n\x1a\n".to_vec()),
            "/pdf" => answer("application/pdf", "", b"%PDF".to_vec()),
            _ => answer("", "", Vec::new()),
        }
    })
    .await;
    let get = tool("get", &json!({"url": format!("{}/{{path}}", service.url)}));
    let world = world(&[("get.yaml", &get)]);
    let server = world.start().await;
    for (path, code, expect) in [
        ("json", "completed", r#"{"b":1,"a":[1.5]}"#),
        ("latin", "completed", "café"),
        ("xml", "completed", "<a/>"),
        ("gzip", "completed", "<p>packed</p>"),
        ("bytes", "completed", "plain enough"),
        ("untyped", "completed", r#"{"a":1}"#),
        ("number", "completed", "42"),
        ("none", "completed", ""),
        ("image", "completed", "[image: image/png, 8 bytes]"),
        (
            "binary",
            "unsupported_content",
            "the API answered with 3 bytes of application/octet-stream; the result of a tool is JSON, text, an image or sound",
        ),
        (
            "pdf",
            "unsupported_content",
            "the API answered with 4 bytes of application/pdf; the result of a tool is JSON, text, an image or sound",
        ),
    ] {
        assert_eq!(call(&server, "get", &json!({"path": path})).await, (code.to_owned(), expect.to_owned()), "{path}");
    }
    // An argument that would change the path is refused, with a message that the model can act on.
    let (code, message) = call(&server, "get", &json!({"path": "../admin"})).await;
    assert_eq!(
        (code.as_str(), message.split(':').next()),
        ("invalid_arguments", Some("argument `path` must not have `.` or `..` between slashes"))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_repeated_only_where_that_is_safe() {
    let busy = Service::start(|received| {
        let wait = if received.target == "/patient" { "60" } else { "0" };
        (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", wait)], "busy")
    })
    .await;
    let http =
        |method: &str, path: &str| json!({"url": format!("{}/{path}", busy.url), "method": method, "timeout": "20s"});
    let mut idempotent: Value = serde_json::from_str(&tool("idempotent", &http("PUT", "idempotent"))).unwrap();
    idempotent["spec"]["annotations"] = json!({"idempotentHint": true});
    let world = world(&[
        ("get.yaml", &tool("get", &http("GET", "get"))),
        ("patient.yaml", &tool("patient", &http("GET", "patient"))),
        ("post.yaml", &tool("post", &http("POST", "post"))),
        ("idempotent.yaml", &idempotent.to_string()),
    ]);
    let server = world.start().await;
    for name in ["get", "patient", "post", "idempotent"] {
        let status_and_text = call(&server, name, &json!({})).await;
        assert_eq!(
            status_and_text,
            ("http_status".to_owned(), "the API answered 503 Service Unavailable".to_owned()),
            "{name}"
        );
    }
    let paths: Vec<_> = busy.received().iter().map(|received| received.target.clone()).collect();
    let expect = ["/get", "/get", "/get", "/patient", "/post", "/idempotent", "/idempotent", "/idempotent"];
    assert_eq!(paths, expect, "a `Retry-After` that is longer than the remaining time is not waited for");
    let keys: Vec<_> = busy.received().iter().map(|received| received.header("idempotency-key").to_owned()).collect();
    assert!(keys[..4].iter().all(String::is_empty) && keys[5] == keys[6] && keys[5] == keys[7] && keys[4] != keys[5]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stored_tool_calls_no_private_address_and_carries_no_secret_elsewhere() {
    let (service, foreign) = (Service::start(|_| "hello").await, Service::start(|_| "hello").await);
    let mut world = world(&[("weather.yaml", &weather(&service.url))]);
    let secret = json!({"valueFrom": {"secretKeyRef": {"name": "weather", "key": "token"}}});
    let stored = |name: &str, url: &str, extra: &Value| {
        let mut http = json!({"url": url});
        http.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!({"name": name, "namespace": "default", "spec": {"type": "http", "http": http}})
    };
    let (none, header) = (json!({}), json!({"headers": [{"name": "X-Key", "value": secret}]}));
    let in_body = json!({"method": "POST", "body": "\"{{.key}}\"", "bodyParameters": [{"name": "key", "valueFrom": secret["valueFrom"]}]});
    let store = async |server: &Server, name: &str, url: &str, extra: &Value| {
        let answer = api(server, "POST", "/v1/tools", Some(&stored(name, url, extra))).await;
        (answer.status, answer.body["error"]["details"][0]["code"].as_str().unwrap_or_default().to_owned())
    };
    let refused = |code: &str| (422, code.to_owned());
    let mut server = world.start().await;
    for host in ["127.0.0.1", "localhost", "2130706433", "0", "[::1]", "169.254.169.254", "[::ffff:10.0.0.1]"] {
        let url = format!("http://{host}:{}/", foreign.url.rsplit(':').next().unwrap());
        assert_eq!(store(&server, "evil", &url, &none).await, refused("address_not_allowed"), "{host}");
    }
    server.kill().await;

    world.set("BOSUN_ALLOW_PRIVATE", "127.0.0.1");
    let server = world.start().await;
    assert_eq!(store(&server, "evil", &foreign.url, &header).await, refused("secret_not_allowed"));
    assert_eq!(store(&server, "evil", &service.url, &in_body).await, refused("secret_not_allowed"));
    assert_eq!(store(&server, "evil", "https://{host}/", &none).await, refused("bad_template"));
    // Where a file sends it, a client may, too.
    assert_eq!(store(&server, "same", &service.url, &header).await.0, 200);
    assert_eq!(store(&server, "plain", &foreign.url, &none).await.0, 200);
    for name in ["same", "plain"] {
        assert_eq!(call(&server, name, &json!({})).await, ("completed".to_owned(), "hello".to_owned()));
    }
    assert_eq!(service.received()[0].header("x-key"), KEY);
    assert!(foreign.received().iter().all(|received| received.header("x-key").is_empty()));
    assert_eq!((service.received().len(), foreign.received().len()), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_size_of_an_answer_is_limited() {
    let service = Service::start(|received| {
        let more: usize = received.target.trim_start_matches('/').parse().unwrap();
        "x".repeat(HTTP_RESPONSE_BYTES + more)
    })
    .await;
    let world = world(&[("get.yaml", &tool("get", &json!({"url": format!("{}/{{path}}", service.url)})))]);
    let server = world.start().await;
    let (code, shown) = call(&server, "get", &json!({"path": "0"})).await;
    assert_eq!(code, "completed");
    assert!(shown.contains(&format!("of {HTTP_RESPONSE_BYTES} bytes are shown")), "{}", &shown[shown.len() - 200..]);
    let (code, message) = call(&server, "get", &json!({"path": "1"})).await;
    assert_eq!(
        (code.as_str(), message.as_str()),
        ("result_too_large", "the API answered with more than 8388608 bytes; ask for less")
    );
}
