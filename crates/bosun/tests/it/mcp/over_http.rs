//! MCP servers behind streamable HTTP.

use bosun_standin::mcp::http::McpStandIn;
use serde_json::{Value, json};

use super::{HEAD, World, text_of};
use crate::program::Server;

impl World {
    /// An MCP server behind this stand-in; `spec` are further fields.
    pub(super) fn endpoint(&self, name: &str, stand_in: &McpStandIn, spec: &str) {
        let text = format!(
            "{HEAD}\nkind: MCPServer\nmetadata: {{name: {name}}}\nspec:\n  address: {{value: {}}}\n{spec}",
            Value::from(stand_in.url())
        );
        self.write(&format!("{name}.mcp.yaml"), &text);
    }
}

async fn open(behaviour: &str, spec: &str) -> (World, McpStandIn, Server) {
    let world = World::new(&[], "otherwise: [{say: x}]\n");
    let stand_in = McpStandIn::open(behaviour).await.unwrap();
    world.endpoint("far", &stand_in, spec);
    let server = world.start().await;
    (world, stand_in, server)
}

#[tokio::test]
async fn a_server_answers_with_json_with_events_and_without_sessions() {
    for behaviour in ["json", "sse", "stateless"] {
        let (world, stand_in, server) = open(behaviour, "").await;
        world.until_tool(&server, "far-echo").await;
        for _ in 0..3 {
            let answer = world.call(&server, "far-echo", &json!({"text": "over http"})).await;
            assert_eq!(text_of(&answer), "over http", "{behaviour}: {answer:#}");
        }
        assert_eq!(stand_in.calls(), 3, "{behaviour}");
        let sessions = if behaviour == "stateless" { 0 } else { 1 };
        assert_eq!(stand_in.sessions(), sessions, "{behaviour}: a session serves all calls");
    }
}

#[tokio::test]
async fn a_session_that_the_server_has_dropped_is_opened_again() {
    for behaviour in ["stale-404", "stale-400", "stale-error"] {
        let (world, stand_in, server) = open(behaviour, "  trustHints: true\n").await;
        world.until_tool(&server, "far-echo").await;
        let answer = world.call(&server, "far-echo", &json!({"text": "again"})).await;
        assert_eq!(text_of(&answer), "again", "{behaviour}: {answer:#}");
        assert_eq!((stand_in.calls(), stand_in.sessions()), (2, 2), "{behaviour}");
    }
}

#[tokio::test]
async fn a_call_that_may_have_an_effect_is_not_sent_twice() {
    for behaviour in ["stale-400", "stale-error"] {
        let (world, stand_in, server) = open(behaviour, "").await;
        world.until_tool(&server, "far-echo").await;
        let answer = world.call(&server, "far-echo", &json!({"text": "once"})).await;
        assert_eq!(answer["status"]["error"]["code"], "mcp_server_unavailable", "{behaviour}: {answer:#}");
        assert_eq!(stand_in.calls(), 1, "{behaviour}");
        let answer = world.call(&server, "far-echo", &json!({"text": "the next"})).await;
        assert_eq!(text_of(&answer), "the next", "{behaviour}: {answer:#}");
    }
}

#[tokio::test]
async fn tokens_are_sent_and_renewed() {
    let bearer = "  authorization: {bearer: {valueFrom: {secretKeyRef: {name: far, key: token}}}}\n";
    let credentials = "  authorization: {clientCredentials: {tokenUrl: TOKENS, clientId: {value: id}, clientSecret: \
                       {valueFrom: {secretKeyRef: {name: far, key: secret}}}}}\n";
    for (behaviour, spec) in [("bearer", bearer), ("client-credentials", credentials)] {
        let world = World::new(&[], "otherwise: [{say: x}]\n");
        let stand_in = McpStandIn::open(behaviour).await.unwrap();
        let tokens = stand_in.url().replace("/mcp", "/token");
        world.endpoint("far", &stand_in, &spec.replace("TOKENS", &tokens));
        let secrets = world.path().join("secrets/default/far");
        std::fs::create_dir_all(&secrets).unwrap();
        std::fs::write(secrets.join("token"), "s3cr3t-of-bearer").unwrap();
        std::fs::write(secrets.join("secret"), "s3cr3t-of-client").unwrap();
        let server =
            Server::start_in(world.path(), &["--secrets", &world.path().join("secrets").to_string_lossy()]).await;
        world.until_tool(&server, "far-echo").await;
        for text in ["first", "second"] {
            let answer = world.call(&server, "far-echo", &json!({"text": text})).await;
            assert_eq!(text_of(&answer), text, "{behaviour}: {answer:#}");
        }
    }
}

#[tokio::test]
async fn a_server_that_cannot_be_used_says_why() {
    for (behaviour, expect) in [
        ("wants-oauth", "the browser flow of OAuth is not served"),
        ("html", "it answers with `text/html` instead of JSON or an event stream; is the address right?"),
        ("redirect", "HTTP 307"),
        ("older-transport", "(HTTP 405 Method Not Allowed"),
        ("older-transport", "the transport HTTP+SSE was replaced in MCP 2025-03-26: use `transport: http`"),
    ] {
        let (world, stand_in, server) = open(behaviour, "").await;
        let found = world.until(&server, "far", "failed").await;
        let message = found["status_message"].as_str().unwrap();
        assert!(message.contains(expect), "{behaviour}: {message}");
        assert_eq!(stand_in.followed(), 0, "a redirect was followed");
    }
}

#[tokio::test]
async fn a_call_that_goes_wrong_has_a_clear_outcome() {
    for (behaviour, code, expect) in [
        ("fails", "tool_failed", "the error 500"),
        ("busy", "tool_failed", "the error 429"),
        ("silent", "tool_timeout", "no answer, and no progress, within 3s"),
        ("cut", "outcome_unknown", ""),
        ("endless-event", "", ""),
        ("huge", "tool_failed", "more than 16777216 bytes"),
    ] {
        // Little time only where an answer never comes.
        let spec = if ["silent", "endless-event"].contains(&behaviour) { "  timeout: 3s\n" } else { "" };
        let (world, _stand_in, server) = open(behaviour, spec).await;
        world.until_tool(&server, "far-echo").await;
        let answer = world.call(&server, "far-echo", &json!({"text": "x"})).await;
        let error = &answer["status"]["error"];
        assert_eq!(answer["status"]["phase"], "error", "{behaviour}: {answer:#}");
        assert!(code.is_empty() || error["code"] == code, "{behaviour}: {error}");
        assert!(error["message"].as_str().unwrap().contains(expect), "{behaviour}: {error}");
    }
}

#[tokio::test]
async fn a_stored_server_is_reached_by_the_rules_of_what_clients_store() {
    let world = World::new(&[], "otherwise: [{say: x}]\n");
    let stand_in = McpStandIn::open("json").await.unwrap();
    let server = world.start().await;
    let post = async |spec: Value| {
        let body = json!({"name": "stored", "spec": spec});
        let response = world.http.post(format!("{}/v1/mcp-servers", server.base)).json(&body).send().await.unwrap();
        let status = response.status().as_u16();
        (status, response.json::<Value>().await.unwrap()["error"]["code"].clone())
    };
    let (status, code) = post(json!({"transport": "stdio", "stdio": {"command": "id"}})).await;
    assert_eq!((status, code), (422, json!("unsupported_field")));
    let (status, code) = post(json!({"address": {"value": stand_in.url()}})).await;
    assert_eq!((status, code), (422, json!("address_not_allowed")));
    // Nor in the form that Kubernetes has.
    let manifest = json!({"apiVersion": "ark.mckinsey.com/v1alpha1", "kind": "MCPServer", "metadata": {"name": "stored"},
                          "spec": {"transport": "stdio", "stdio": {"command": "id"}}});
    let raw = format!("{}/v1/resources/apis/ark.mckinsey.com/v1alpha1/MCPServer", server.base);
    let answer = world.http.post(raw).json(&manifest).send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 422);
    assert_eq!(answer.json::<Value>().await.unwrap()["error"]["code"], "unsupported_field");
    assert_eq!(stand_in.sessions(), 0);
}
