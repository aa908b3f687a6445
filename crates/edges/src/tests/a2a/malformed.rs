//! Malformed requests as data: each row of `fixtures/a2a/malformed.json` gets its code, and none is a server error.

use serde::Deserialize;
use serde_json::Value;

use super::MATH;
use crate::tests::world::{TestServer, calculating};

/// Requests that are refused alike.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct A2aRows {
    what: String,
    /// The status, and the code of the error: of JSON-RPC, or of HTTP.
    status: u16,
    code: i64,
    /// `METHOD path`; `POST {agent}` without one.
    #[serde(default)]
    request: Option<String>,
    #[serde(default)]
    headers: Vec<(String, String)>,
    /// Texts as they are sent, or values.
    bodies: Vec<Value>,
}

#[tokio::test(start_paused = true)]
async fn every_row_is_refused_with_its_code_and_changes_nothing() {
    let world = TestServer::new(calculating()).await;
    let path = format!("{}/../../fixtures/a2a/malformed.json", env!("CARGO_MANIFEST_DIR"));
    let groups: Vec<A2aRows> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let (mut sent, mut violations) = (0, Vec::new());
    for group in &groups {
        let request = group.request.clone().unwrap_or_else(|| "POST {agent}".to_owned());
        let (method, path) = request.split_once(' ').expect("a method and a path");
        let path = path.replace("{agent}", MATH);
        let mut headers: Vec<(&str, &str)> =
            group.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        for (name, value) in [("content-type", "application/json"), ("a2a-version", "1.0")] {
            if !headers.iter().any(|(known, _)| *known == name) {
                headers.push((name, value));
            }
        }
        for body in &group.bodies {
            sent += 1;
            let text = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
            let reply = world.send(method, &path, &headers, text.clone()).await;
            let code = reply.body["error"]["code"].as_i64().unwrap_or_default();
            if (reply.status.as_u16(), code) != (group.status, group.code) {
                let text: String = text.chars().take(160).collect();
                violations
                    .push(format!("{}: {request} {text}\n    is {} {code}: {}", group.what, reply.status, reply.body));
            }
            assert!(!reply.status.is_server_error(), "{}: {}", group.what, reply.body);
        }
    }
    assert!(violations.is_empty(), "{} of {sent}:\n{}", violations.len(), violations.join("\n"));
    assert!(sent >= 150, "{sent}");
    assert_eq!(world.get("/v1/queries").await.ok()["total"], 0, "nothing was created");
}
