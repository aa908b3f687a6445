//! Paths that are written in another way, and what they mean.

use serde_json::json;

use super::{MATH, V1, saying};
use crate::{
    a2a::routes::{AGENT, ROOT},
    http::routes::RouteEntry,
    tests::world::TestServer,
};
use bosun_engine::testing::{ScriptedModel, ScriptedTurn};

/// The methods and paths of a table, with a task and a config that do not exist.
fn paths(base: &str, routes: &[RouteEntry]) -> Vec<(String, String)> {
    let path = |path: &str| format!("{base}{}", path.replace("{task}", "none").replace("{config}", "none"));
    routes.iter().map(|route| (route.method.to_uppercase(), path(route.path))).collect()
}

#[tokio::test(start_paused = true)]
async fn a_trailing_slash_is_the_same_route() {
    let world = saying("Hello!").await;
    for (method, path) in [paths("", ROOT), paths("/a2a", AGENT), paths(MATH, AGENT)].concat() {
        let ask = async |path: &str| {
            let reply = world.send(&method, path, V1, "{}").await;
            (reply.status, reply.body)
        };
        assert_eq!(ask(&format!("{path}/")).await, ask(&path).await, "{method} {path}");
    }
    let refused = world.send("DELETE", &format!("{MATH}/tasks/none/"), V1, "").await;
    assert_eq!((refused.status.as_u16(), &refused.body["error"]["code"]), (405, &json!(405)), "{}", refused.body);
    assert_eq!(world.get("/v1/queries/").await.status, 404, "ARK's are as they were");
}

/// `/v1` in front of a route is 0.3; in the place of a name it is a name.
#[tokio::test(start_paused = true)]
async fn an_agent_may_be_called_v1() {
    let world = TestServer::storing(ScriptedModel::always(vec![ScriptedTurn::say("Hello!")])).await;
    let body = json!({"message": super::message("m1", "Hi")}).to_string();
    let json_only = &[("content-type", "application/json")];
    let sent = world.send("POST", "/a2a/agents/default/v1/message:send", json_only, body).await.ok();
    assert_eq!(sent["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{sent}");
    let path = format!("/a2a/agents/default/v1/v1/tasks/{}", sent["task"]["id"].as_str().unwrap());
    assert_eq!(world.get(&path).await.ok()["status"]["state"], "completed");
}
