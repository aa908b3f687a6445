//! The routes of A2A, all of them.
//!
//! An agent's routes exist twice: below `/a2a` for the default agent of the caller's namespace, and below
//! `/a2a/agents/{namespace}/{name}`. What an operation needs depends on the operation, which is in the body over
//! JSON-RPC; so the gate checks the caller and the namespace, and the operation its right.

use axum::Router;

use super::{
    card::{agent_card, list_agents, root_card},
    rest::{
        act_on_task, create_push, delete_push, extended_card, get_push, get_task, list_push, list_tasks, send_message,
        stream_message,
    },
    rpc::rpc,
};
use crate::{
    AppState,
    auth::{
        Right::Read,
        gate::Needs::{Here, Nothing, Reach},
    },
    http::routes::routes,
};

routes! {
    #[cfg(test)]
    /// The paths below `/a2a` and below `/a2a/agents/{namespace}/{name}`. Those that are methods of JSON-RPC are where
    /// the client tool provider sends them.
    AGENT agent {
        "" => post rpc Reach;
        "/" => post rpc Reach;
        "/message/send" => post rpc Reach;
        "/message/stream" => post rpc Reach;
        "/tasks/resume" => post rpc Reach;
        "/message:send" => post send_message Reach;
        "/message:stream" => post stream_message Reach;
        "/tasks" => get list_tasks Reach;
        "/tasks/" => get list_tasks Reach;
        "/tasks/{task}" => get get_task Reach, post act_on_task Reach;
        "/tasks/{task}/pushNotificationConfigs" => get list_push Reach, post create_push Reach;
        "/tasks/{task}/pushNotificationConfigs/{config}" => get get_push Reach, delete delete_push Reach;
        "/extendedAgentCard" => get extended_card Reach;
        "/v1/message:send" => post send_message Reach;
        "/v1/message:stream" => post stream_message Reach;
        "/v1/tasks" => get list_tasks Reach;
        "/v1/tasks/{task}" => get get_task Reach, post act_on_task Reach;
        "/v1/tasks/{task}/pushNotificationConfigs" => get list_push Reach, post create_push Reach;
        "/v1/tasks/{task}/pushNotificationConfigs/{config}" => get get_push Reach, delete delete_push Reach;
        "/v1/card" => get extended_card Reach;
        "/.well-known/agent-card.json" => get agent_card Here(Read);
        "/.well-known/agent.json" => get agent_card Here(Read);
    }
}

routes! {
    #[cfg(test)]
    /// The paths that are of no agent.
    ROOT root {
        "/.well-known/agent-card.json" => get root_card Nothing;
        "/.well-known/agent.json" => get root_card Nothing;
        "/a2a/agents" => get list_agents Here(Read);
    }
}

pub(crate) fn add(router: Router<AppState>, app: &AppState) -> Router<AppState> {
    let router = root(router, app, "");
    let router = agent(router, app, super::DEFAULT_BASE);
    agent(router, app, super::AGENT_BASE)
}
