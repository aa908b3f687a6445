//! Twenty secrets of different shapes in HTTP tools, whose API repeats all that it is sent; then everything that leaves the
//! server is searched for them.

use std::fs;

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::service::{ReceivedRequest, Service};
use crate::{
    canaries::find,
    resources::api,
    support::server::{ProcessExit, World},
};

/// The part of each secret that is searched for, and the secret around it.
fn secrets() -> Vec<(String, String)> {
    let shapes: [fn(&str) -> String; 10] = [
        str::to_owned,
        |core| format!("sk-{core}"),
        |core| format!("Bearer {core}"),
        |core| format!("user:{core}@x"),
        |core| format!("{core}=="),
        |core| format!("a+/{core}?&%3D"),
        |core| format!("\"{core}\\"),
        |core| format!("{core}-äöü"),
        |core| format!("{}{core}", "ab3".repeat(500)),
        |core| format!("{{{{.{core}}}}}"),
    ];
    (0..20)
        .map(|number| {
            let core = format!("cnry{number:02}http{:04x}", number * 7_919 + 4_242);
            let value = shapes[number % shapes.len()](&core);
            (core, value)
        })
        .collect()
}

/// Repeats the request: as text, as JSON, with a status of failure, or as a page in another encoding.
fn echo(received: &ReceivedRequest) -> (StatusCode, [(&'static str, &'static str); 1], Vec<u8>) {
    let headers: Vec<_> = received
        .headers
        .iter()
        .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
        .collect();
    let text = format!("{} {}\n{}", received.target, headers.join("\n"), received.body);
    match received.target.as_bytes().last() {
        Some(b'0' | b'4' | b'8') => {
            (StatusCode::OK, [("content-type", "application/json")], json!({"said": text}).to_string().into())
        }
        Some(b'1' | b'5' | b'9') => (StatusCode::FORBIDDEN, [("content-type", "text/plain")], text.into()),
        Some(b'2' | b'6') => (
            StatusCode::INTERNAL_SERVER_ERROR,
            [("content-type", "application/json")],
            json!([text]).to_string().into(),
        ),
        _ => (StatusCode::OK, [("content-type", "text/plain; charset=iso-8859-1")], text.into()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_of_an_http_tool_is_in_any_output() {
    let service = Service::start(echo).await;
    let mut world = World::new();
    world.set("RUST_LOG", "trace");
    let directory = world.path("secrets");
    let secrets = secrets();
    let mut manifests = String::new();
    for (number, (_, value)) in secrets.iter().enumerate() {
        let path = directory.join(format!("default/s{number}"));
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("key"), value).unwrap();
        let reference = json!({"valueFrom": {"secretKeyRef": {"name": format!("s{number}"), "key": "key"}}});
        // Half of them are headers, and half are in the body.
        let http = if number % 2 == 0 {
            json!({"url": format!("{}/{number}", service.url), "headers": [{"name": "X-Key", "value": reference}]})
        } else {
            let parameter = json!({"name": "key", "valueFrom": reference["valueFrom"]});
            json!({"url": format!("{}/{number}", service.url), "method": "POST", "body": "{\"key\": \"{{.key}}\"}", "bodyParameters": [parameter]})
        };
        let manifest = json!({
            "apiVersion": "ark.mckinsey.com/v1alpha1", "kind": "Tool", "metadata": {"name": format!("echo-{number}")},
            "spec": {"type": "http", "description": "Repeats its request", "http": http},
        });
        manifests.push_str(&format!("---\n{manifest}\n"));
    }
    fs::write(world.path("manifests").join("echo.yaml"), manifests).unwrap();
    let world = world.with(&["--secrets", directory.to_str().unwrap()]);
    let mut server = world.start().await;
    let mut caught: Vec<(String, Vec<u8>)> = Vec::new();
    for number in 0..secrets.len() {
        let body = json!({"name": format!("q{number}"), "input": "{}", "target": {"type": "tool", "name": format!("echo-{number}")}});
        let answer = api(&server, "POST", "/v1/queries?wait=60s&view=rfc", Some(&body)).await;
        assert!(
            answer.body["status"] == "completed" || answer.body["error"]["code"] == "http_status",
            "{}",
            answer.text
        );
        caught.push((format!("answer {number}"), answer.text.into_bytes()));
        for path in ["", "?view=rfc", "/events"] {
            let read = api(&server, "GET", &format!("/v1/queries/q{number}{path}"), None).await;
            caught.push((format!("query {number}{path}"), read.text.into_bytes()));
        }
    }
    for path in ["/v1/tools", "/v1/queries?limit=100", "/v1/audit?limit=1000", "/metrics"] {
        caught.push((path.to_owned(), api(&server, "GET", path, None).await.text.into_bytes()));
    }
    server.terminate();
    assert_eq!(server.exit().await, ProcessExit::Exited(0));
    for file in ["data/bosun.db", "data/bosun.db-wal", "data/audit.heads", "log"] {
        caught.push((file.to_owned(), fs::read(world.path(file)).unwrap_or_default()));
    }
    let sent: Vec<Value> =
        service.received().iter().map(|received| json!([format!("{:?}", received.headers), received.body])).collect();
    for (number, (core, _)) in secrets.iter().enumerate() {
        assert!(find(core, json!(sent).to_string().as_bytes()).is_some(), "secret {number} was sent");
        for (place, bytes) in &caught {
            let found = find(core, bytes);
            assert_eq!(found, None, "secret {number} is in {place}");
        }
    }
}
