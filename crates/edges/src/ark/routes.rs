//! The routes of ARK's API, all of them.
//!
//! Each exists twice: under `/v1/namespaces/{namespace}/…`, and under `/v1/…` with `?namespace=`.

use axum::Router;

use super::{
    evaluation::{cancel_evaluation, create_evaluation, delete_evaluation, get_evaluation, list_evaluations},
    handlers::{
        approvals::{approve_task, decide_approval, list_approvals},
        audit::{get_audit, get_usage},
        capabilities::{get_capabilities, get_context, get_system_info},
        conversations::{
            delete_conversation, delete_conversation_messages, delete_conversations, get_conversation,
            get_memory_messages, list_conversations, list_messages,
        },
        events::{get_event, list_events},
        mcp_servers::approve_server,
        model_query::query_model,
        namespaces::{create_namespace, list_namespaces},
        openapi::openapi,
        queries::{
            cancel_query, continue_query, create_query, delete_query, deliver_results, get_query, get_query_tree,
            get_result, list_queries, put_result, update_query, watch_query,
        },
        reload::{get_reload, reload},
        tool_cache::clear_tool_cache,
        tool_calls::{claim_calls, deliver_claimed, extend_lease},
    },
    not_served,
    resource::{
        create_agent, create_agent_server, create_evaluator, create_memory, create_model, create_server, create_team,
        create_tool, delete_agent, delete_agent_server, delete_evaluator, delete_memory, delete_model, delete_server,
        delete_team, delete_tool, get_agent, get_agent_server, get_evaluator, get_memory, get_model, get_server,
        get_team, get_tool, list_agent_servers, list_agents, list_evaluators, list_memories, list_models, list_servers,
        list_teams, list_tools,
        raw::{create_raw, delete_raw, get_raw, list_raw, replace_raw},
        update_agent, update_agent_server, update_evaluator, update_memory, update_model, update_server, update_team,
        update_tool,
    },
};
#[cfg(test)]
pub(crate) use crate::http::routes::RouteEntry;
use crate::{
    AppState,
    auth::{
        Right::{Approve, Audit, Deliver, Manage, Read, Run},
        gate::Needs::{AnyCaller, Everywhere, Here, Nothing},
        whoami::whoami,
    },
    http::routes::routes,
};

routes! {
    /// The paths below `/v1` and below `/v1/namespaces/{namespace}`.
    RESOURCES resources {
        "/agents" => get list_agents Here(Read), post create_agent Here(Manage);
        "/agents/{name}" => get get_agent Here(Read), put update_agent Here(Manage), delete delete_agent Here(Manage);
        "/models" => get list_models Here(Read), post create_model Here(Manage);
        "/models/{name}" => get get_model Here(Read), put update_model Here(Manage), delete delete_model Here(Manage);
        "/tools" => get list_tools Here(Read), post create_tool Here(Manage);
        "/tools/{name}" => get get_tool Here(Read), put update_tool Here(Manage), delete delete_tool Here(Manage);
        "/tool-cache" => delete clear_tool_cache Here(Manage);
        "/memories" => get list_memories Here(Read), post create_memory Here(Manage);
        "/memories/{name}" => get get_memory Here(Read), put update_memory Here(Manage), delete delete_memory Here(Manage);
        "/teams" => get list_teams Here(Read), post create_team Here(Manage);
        "/teams/{name}" => get get_team Here(Read), put update_team Here(Manage), delete delete_team Here(Manage);
        "/evaluators" => get list_evaluators Here(Read), post create_evaluator Here(Manage);
        "/evaluators/{name}" => get get_evaluator Here(Read), put update_evaluator Here(Manage), delete delete_evaluator Here(Manage);
        "/evaluations" => get list_evaluations Here(Read), post create_evaluation Here(Run);
        "/evaluations/{name}" => get get_evaluation Here(Read), delete delete_evaluation Here(Manage);
        "/evaluations/{name}/cancel" => patch cancel_evaluation Here(Run);
        "/mcp-servers" => get list_servers Here(Read), post create_server Here(Manage);
        "/mcp-servers/{name}" => get get_server Here(Read), put update_server Here(Manage), delete delete_server Here(Manage);
        "/mcp-servers/{name}/approve" => post approve_server Here(Manage);
        "/a2a-servers" => get list_agent_servers Here(Read), post create_agent_server Here(Manage);
        "/a2a-servers/{name}" => get get_agent_server Here(Read), put update_agent_server Here(Manage), delete delete_agent_server Here(Manage);
        "/resources/api/{version}/{kind}" => get list_raw Here(Read), post create_raw Here(Manage);
        "/resources/api/{version}/{kind}/{name}" => get get_raw Here(Read), put replace_raw Here(Manage), delete delete_raw Here(Manage);
        "/resources/apis/{group}/{version}/{kind}" => get list_raw Here(Read), post create_raw Here(Manage);
        "/resources/apis/{group}/{version}/{kind}/{name}" => get get_raw Here(Read), put replace_raw Here(Manage), delete delete_raw Here(Manage);
        "/events" => get list_events Here(Read);
        "/events/{name}" => get get_event Here(Read);
        "/context" => get get_context Here(Read);
        "/system-info" => get get_system_info Here(Read);
        "/capabilities" => get get_capabilities Here(Read);
        "/audit" => get get_audit Here(Audit);
        "/tools/usage" => get get_usage Here(Audit);
        "/queries" => get list_queries Here(Read), post create_query Here(Run);
        "/models/{name}/query" => post query_model Here(Run);
        "/conversations" => get list_conversations Here(Read), delete delete_conversations Here(Manage);
        "/conversations/{id}" => get get_conversation Here(Read), delete delete_conversation Here(Manage);
        "/conversations/{id}/queries/{name}/messages" => delete delete_conversation_messages Here(Manage);
        "/sessions" => get list_conversations Here(Read), delete delete_conversations Here(Manage);
        "/sessions/{id}" => get get_conversation Here(Read), delete delete_conversation Here(Manage);
        "/sessions/{id}/queries/{name}/messages" => delete delete_conversation_messages Here(Manage);
        "/memories/{name}/conversations/{id}/messages" => get get_memory_messages Here(Read);
        "/memory-messages" => get list_messages Here(Read);
        "/tool-calls" => get claim_calls Here(Deliver);
        "/tool-calls/{id}/heartbeat" => post extend_lease Here(Deliver);
        "/tool-calls/{id}/result" => post deliver_claimed Here(Deliver);
        "/queries/{name}" => get get_query Here(Read), put update_query Here(Run), delete delete_query Here(Manage);
        "/queries/{name}/cancel" => patch cancel_query Here(Run), post cancel_query Here(Run);
        "/queries/{name}/continue" => post continue_query Here(Run);
        "/queries/{name}/tree" => get get_query_tree Here(Read);
        "/queries/{name}/approval" => post decide_approval Here(Approve);
        "/approvals" => get list_approvals Here(Approve);
        "/a2a-tasks/{name}/approval" => post approve_task Here(Approve);
        "/queries/{name}/tool-result" => post deliver_results Here(Deliver);
        "/queries/{name}/tool-calls/{id}/result" => get get_result Here(Read), put put_result Here(Deliver);
        "/queries/{name}/events" => get watch_query Here(Read);
    }
}

routes! {
    /// The paths that are in no namespace.
    GLOBAL global {
        "/openapi.json" => get openapi Nothing;
        "/v1/namespaces" => get list_namespaces AnyCaller, post create_namespace Everywhere(Manage);
        "/v1/reload" => get get_reload Everywhere(Manage), post reload Everywhere(Manage);
        "/v1/whoami" => get whoami AnyCaller;
    }
}

pub(crate) fn add(router: Router<AppState>, app: &AppState) -> Router<AppState> {
    let router = global(router, app, "");
    let router = resources(router, app, "/v1");
    resources(router, app, "/v1/namespaces/{namespace}").fallback(not_served::no_route)
}
