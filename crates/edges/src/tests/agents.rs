//! Agents, and whether the server is there.

use std::time::Duration;

use bosun_engine::testing::ScriptedModel;

use super::world::{World, assert_answer};

#[tokio::test(start_paused = true)]
async fn agents_are_listed_as_ark_lists_them() {
    let world = World::new(ScriptedModel::default()).await;
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
    let world = World::new(ScriptedModel::default()).await;
    assert_answer("agent", &world.get("/v1/agents/research-assistant").await.ok());
    let path = "/v1/namespaces/default/agents/without-tool";
    assert_answer("agent_not_available", &world.get(path).await.ok());
    assert_answer("agent_not_found", &world.get("/v1/agents/nobody").await.body);
}

#[tokio::test(start_paused = true)]
async fn readiness_ends_before_the_server_does() {
    let world = World::new(ScriptedModel::default()).await;
    assert_answer("health", &world.get("/health").await.ok());
    assert_answer("ready", &world.get("/ready").await.ok());
    world.engine.shut_down(Duration::ZERO).await.unwrap();
    let answer = world.get("/ready").await;
    assert_eq!(answer.status, 503);
    assert_answer("not_ready", &answer.body);
    assert_eq!(world.get("/health").await.status, 200);
}
