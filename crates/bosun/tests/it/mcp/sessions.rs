//! Which callers share a session with an MCP server.

use bosun_standin::mcp::http::{McpStandIn, ReceivedCall};
use serde_json::{Value, json};

use super::{World, text_of};
use crate::{
    program::{Server, bosun, run, stdout},
    support::soon,
};

/// A server with a key that may act for any end user.
struct Guarded {
    server: Server,
    key: String,
}

impl Guarded {
    async fn start(world: &World) -> Self {
        let file = world.path().join("keys.toml");
        let create = ["keys", "create", "n8n", "--json", "--may-act-for", "*", "--auth"];
        let output = run(bosun().args(create).arg(&file)).await;
        let made: Value = serde_json::from_str(&stdout(&output)).unwrap();
        let key = made["secret_key"].as_str().unwrap().to_owned();
        let server = Server::start_in(world.path(), &["--auth", &file.to_string_lossy()]).await;
        Self { server, key }
    }

    /// Calls a tool on behalf of an end user; `more` are further fields of the query.
    async fn call(&self, world: &World, user: &str, tool: &str, more: &Value) -> Value {
        let mut query = json!({"input": r#"{"text": "hello"}"#, "target": {"type": "tool", "name": tool}});
        for (name, value) in more.as_object().unwrap() {
            query[name] = value.clone();
        }
        let request = world
            .http
            .post(format!("{}/v1/queries?wait=60&view=ark", self.server.base))
            .header("authorization", format!("Bearer {}", self.key))
            .header("x-forwarded-user", user)
            .json(&query);
        soon("the end of the query", request.send()).await.unwrap().json().await.unwrap()
    }

    async fn until_tool(&self, world: &World, name: &str) {
        let looking = async {
            loop {
                let request = world.http.get(format!("{}/v1/tools/{name}", self.server.base));
                let response = request.header("authorization", format!("Bearer {}", self.key)).send().await.unwrap();
                if response.status().is_success() {
                    return;
                }
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        soon(&format!("tool `{name}`"), looking).await;
    }
}

fn sessions(received: &[ReceivedCall]) -> Vec<&str> {
    received.iter().map(|call| call.session.as_deref().unwrap_or_default()).collect()
}

#[tokio::test]
async fn two_end_users_share_the_session_of_a_plain_server_and_never_one_that_is_per_actor() {
    let world = World::new(&[], "otherwise: [{say: x}]\n");
    let (plain, private) = (McpStandIn::open("json").await.unwrap(), McpStandIn::open("json").await.unwrap());
    world.endpoint("plain", &plain, "");
    world.endpoint("private", &private, "  sessions: per-actor\n");
    let guarded = Guarded::start(&world).await;
    for tool in ["plain-echo", "private-echo"] {
        guarded.until_tool(&world, tool).await;
        for user in ["alice", "bob", "alice"] {
            let answer = guarded.call(&world, user, tool, &json!({})).await;
            assert_eq!(text_of(&answer), "hello", "{answer:#}");
        }
    }
    assert_eq!((plain.sessions(), plain.calls()), (1, 3), "one session lists the tools and serves all callers");
    assert_eq!(sessions(&plain.received()), ["session-1"; 3]);
    // The first session lists the tools, and no caller uses it.
    assert_eq!(sessions(&private.received()), ["session-2", "session-3", "session-2"]);
}

#[tokio::test]
async fn a_header_that_depends_on_the_query_is_sent_in_sessions_of_its_own() {
    let world = World::new(&[], "otherwise: [{say: x}]\n");
    let stand_in = McpStandIn::open("json").await.unwrap();
    let header = "  headers: [{name: X-User, value: {valueFrom: {queryParameterRef: {name: user}}}}]\n";
    world.endpoint("far", &stand_in, header);
    let guarded = Guarded::start(&world).await;
    guarded.until_tool(&world, "far-echo").await;
    let named = |user: &str| json!({"parameters": [{"name": "user", "value": user}]});
    // The same value for two end users, and two values for one.
    for (user, parameters) in
        [("alice", named("team")), ("bob", named("team")), ("alice", named("own")), ("alice", named("team"))]
    {
        let answer = guarded.call(&world, user, "far-echo", &parameters).await;
        assert_eq!(text_of(&answer), "hello", "{answer:#}");
    }
    let received = stand_in.received();
    let users: Vec<_> = received.iter().map(|call| call.user.as_deref().unwrap_or_default()).collect();
    assert_eq!(users, ["team", "team", "own", "team"]);
    assert_eq!(sessions(&received), ["session-2", "session-3", "session-4", "session-2"]);

    let answer = guarded.call(&world, "alice", "far-echo", &json!({})).await;
    assert_eq!(answer["status"]["error"]["code"], "tool_misconfigured", "{answer:#}");
    let message = answer["status"]["error"]["message"].as_str().unwrap();
    assert!(message.contains("header `x-user` needs the parameter `user`"), "{message}");
    assert_eq!(stand_in.calls(), 4);
}

#[tokio::test]
async fn a_session_of_a_caller_that_the_server_has_dropped_is_opened_again_once() {
    let world = World::new(&[], "otherwise: [{say: x}]\n");
    let stand_in = McpStandIn::open("stale-404").await.unwrap();
    world.endpoint("far", &stand_in, "  sessions: per-actor\n  trustHints: true\n");
    let guarded = Guarded::start(&world).await;
    guarded.until_tool(&world, "far-echo").await;
    let answer = guarded.call(&world, "alice", "far-echo", &json!({})).await;
    assert_eq!(text_of(&answer), "hello", "{answer:#}");
    assert_eq!(sessions(&stand_in.received()), ["session-2", "session-3"]);
}
