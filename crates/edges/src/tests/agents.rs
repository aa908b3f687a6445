//! Agents, and whether the server is there.

use std::time::Duration;

use bosun_engine::testing::{ScriptedModel, ScriptedTurn};
use serde_json::json;

use super::world::{TestServer, assert_answer, plain, with_calculator};

#[tokio::test(start_paused = true)]
async fn agents_are_listed_as_ark_lists_them() {
    let world = TestServer::new(ScriptedModel::default()).await;
    assert_answer("agents", &world.get("/v1/agents").await.ok());
    assert_eq!(world.get("/v1/agents").await.ok(), world.get("/v1/namespaces/default/agents").await.ok());
    assert_eq!(world.get("/v1/agents?namespace=other").await.ok()["count"], 1);
    let missing = world.get("/v1/namespaces/nowhere/agents").await;
    assert_eq!(missing.refusal(), (404, "namespace_not_found"));
    assert_eq!(missing.body["detail"], "Kubernetes API error: Not Found");
    let warned = world.get("/v1/agents?colour=red").await;
    assert_eq!(warned.header("warning"), Some("299 - \"unknown parameter `colour` was ignored\""));
}

#[tokio::test(start_paused = true)]
async fn an_agent_is_flat_and_has_a_spec() {
    let world = TestServer::new(ScriptedModel::default()).await;
    assert_answer("agent", &world.get("/v1/agents/research-assistant").await.ok());
    let path = "/v1/namespaces/default/agents/without-tool";
    assert_answer("agent_not_available", &world.get(path).await.ok());
    assert_answer("agent_not_found", &world.get("/v1/agents/nobody").await.body);
}

/// Its model would answer without the tool, and no one would know.
#[tokio::test(start_paused = true)]
async fn an_agent_that_names_a_tool_that_does_not_exist_is_not_asked() {
    let world = TestServer::new(ScriptedModel::always(vec![ScriptedTurn::say("Hello!")])).await;
    for mut body in [plain("q"), with_calculator("q")] {
        body["target"]["name"] = json!("without-tool");
        let refused = world.post("/v1/queries?wait=true", &body).await;
        assert_eq!(refused.refusal(), (422, "tools_not_found"), "{}", refused.body);
        assert!(refused.body["error"]["message"].as_str().unwrap().contains("gone"), "{}", refused.body);
    }
    let message = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Hello"}]});
    let sent = json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}});
    let headers = [("content-type", "application/json"), ("a2a-version", "1.0")];
    let refused = world.send("POST", "/a2a/agents/default/without-tool", &headers, sent.to_string()).await;
    assert!(refused.body["error"].to_string().contains("gone"), "{}", refused.body);
    assert_eq!(world.get("/v1/queries").await.ok()["total"], 0, "nothing was created");
    assert!(world.model.requests().is_empty());
    let agent = world.get("/v1/agents/without-tool").await.ok();
    assert_eq!((&agent["available"], &agent["status"]["message"]), (&json!("False"), &json!("missing: Tool `gone`")));
}

#[tokio::test(start_paused = true)]
async fn readiness_ends_before_the_server_does() {
    let world = TestServer::new(ScriptedModel::default()).await;
    assert_answer("health", &world.get("/health").await.ok());
    assert_answer("ready", &world.get("/ready").await.ok());
    world.engine.shut_down(Duration::ZERO).await.unwrap();
    let answer = world.get("/ready").await;
    assert_eq!(answer.status, 503);
    assert_answer("not_ready", &answer.body);
    assert_eq!(world.get("/health").await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn the_root_says_where_to_continue_as_a_page_or_as_json() {
    let world = TestServer::new(ScriptedModel::default()).await;
    let (page, docs) = (
        world.send("GET", "/", &[("accept", "text/html,*/*;q=0.8")], "").await,
        world.send("GET", "/docs", &[("accept", "text/html")], "").await,
    );
    for name in ["content-type", "content-security-policy", "x-content-type-options", "cache-control"] {
        assert!(page.header(name).is_some(), "{name}");
        assert_eq!(page.header(name), docs.header(name), "{name}");
    }
    let text = page.ok().as_str().unwrap().to_owned();
    let answer = world.get("/").await;
    assert_eq!((answer.header("content-type"), answer.header("vary")), (Some("application/json"), Some("accept")));
    let mut body = answer.ok();
    for (name, link) in body["links"].as_object().unwrap() {
        let link = link.as_str().unwrap();
        assert!(text.contains(&format!("<a href=\"{link}\">{link}</a>")), "{name} is not on the page:\n{text}");
        assert_eq!(world.get(link).await.status, 200, "{link}");
    }
    for command in body["commands"].as_array().unwrap() {
        assert!(text.contains(command.as_str().unwrap()), "{command} is not on the page:\n{text}");
    }
    assert!(text.contains(body["version"].as_str().unwrap()) && !text.contains('{'), "{text}");
    body["version"] = "[version]".into();
    assert_answer("root", &body);
}
