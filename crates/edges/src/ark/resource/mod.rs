//! Resources of all kinds: list, create, read, change, delete.
//!
//! Every kind has the same five operations and differs in two things only: how a body becomes a manifest
//! ([`body`]), and how a manifest is shown ([`show`]). The list of tools has filters, and depends on the end user
//! ([`tool_list`]). Manifests are validated by the reader of files, not here, so that a body and a file are held to the
//! same rules.

pub(crate) mod body;
pub(super) mod raw;
mod secrets;
pub(super) mod show;
mod tool_config;
mod tool_list;
pub(super) mod wire;
mod yaml;

use std::sync::Arc;

use axum::{extract::State, http::StatusCode, response::Response};
use bosun_engine::{
    Registry,
    resource::{ChangedResource, Resource, ResourceError, ResourceKey, ResourceKind},
};
use serde::Serialize;

use super::{
    handlers::namespaces,
    params::{NameToken, Paging, Params, path::ResourcePath},
    wire::List,
};
use crate::{
    AppState,
    auth::gate::{Caller, RequestNamespace},
    http::{answer::Json, error::ApiError, extract::JsonBody, warning::with_warnings},
};

/// Pages of resources.
pub(crate) type ResourceListParams = Paging<NameToken>;

/// The lists of each kind, under the names that the table of routes uses.
macro_rules! lists {
    ($($kind:ident $list:ident $item:path;)*) => {$(
        #[doc = concat!("`GET …`: the resources of kind ", stringify!($kind))]
        pub(super) async fn $list(
            State(app): State<AppState>,
            caller: Caller,
            namespace: RequestNamespace,
            Params { given: paging, warnings }: Params<ResourceListParams>,
        ) -> Result<Response, ApiError> {
            namespaces::require(&app, &caller, &namespace).await?;
            let registry = app.engine.registry();
            let resources = registry.resources(ResourceKind::$kind, &namespace);
            Ok(with_warnings(list(&registry, resources, &paging, $item), &warnings))
        }
    )*};
}

/// The other four operations of each kind.
macro_rules! operations {
    ($($kind:ident $create:ident $get:ident $update:ident $delete:ident $detail:path;)*) => {$(
        #[doc = concat!("`POST …`: a new resource of kind ", stringify!($kind))]
        pub(super) async fn $create(
            State(app): State<AppState>,
            caller: Caller,
            namespace: RequestNamespace,
            Params { warnings, .. }: Params,
            body: JsonBody,
        ) -> Result<Response, ApiError> {
            let read = body.read(|body| body::create(ResourceKind::$kind, &namespace, warnings, body))?;
            let changed = app.engine.create_resource(caller.actor, read.value).await?;
            Ok(changed_answer(changed, read.warnings, $detail))
        }

        #[doc = concat!("`GET …/{name}`: one resource of kind ", stringify!($kind))]
        pub(super) async fn $get(
            State(app): State<AppState>,
            Params { warnings, .. }: Params,
            path: ResourcePath,
        ) -> Result<Response, ApiError> {
            let registry = app.engine.registry();
            let resource = find(&registry, ResourceKind::$kind, &path)?;
            Ok(with_warnings(Json($detail(&registry, &resource, Vec::new())), &warnings))
        }

        #[doc = concat!("`PUT …/{name}`: changes what the body names of a resource of kind ", stringify!($kind))]
        pub(super) async fn $update(
            State(app): State<AppState>,
            caller: Caller,
            Params { warnings, .. }: Params,
            ResourcePath { namespace, name }: ResourcePath,
            body: JsonBody,
        ) -> Result<Response, ApiError> {
            let key = ResourceKey::new(ResourceKind::$kind, namespace, name);
            let read = body.read(|body| body::update(&key, warnings, body))?;
            let changed = app.engine.update_resource(caller.actor, key, read.value).await?;
            Ok(changed_answer(changed, read.warnings, $detail))
        }

        #[doc = concat!("`DELETE …/{name}`: a resource of kind ", stringify!($kind))]
        pub(super) async fn $delete(
            State(app): State<AppState>,
            caller: Caller,
            Params { warnings, .. }: Params,
            ResourcePath { namespace, name }: ResourcePath,
        ) -> Result<Response, ApiError> {
            let key = ResourceKey::new(ResourceKind::$kind, namespace, name.clone());
            app.engine.delete_resource(caller.actor, key).await?;
            Ok(with_warnings(deleted(ResourceKind::$kind, &name), &warnings))
        }
    )*};
}

pub(super) use tool_list::{ToolListParams, list_tools};

lists! {
    Agent list_agents show::listed_agent;
    Model list_models show::listed_model;
    Memory list_memories show::listed_memory;
    Team list_teams show::listed_team;
    Evaluator list_evaluators show::listed_evaluator;
    McpServer list_servers show::server;
    A2aServer list_agent_servers show::agent_server;
}

operations! {
    Agent create_agent get_agent update_agent delete_agent show::agent;
    Model create_model get_model update_model delete_model show::model;
    Tool create_tool get_tool update_tool delete_tool show::tool;
    Memory create_memory get_memory update_memory delete_memory show::memory;
    Team create_team get_team update_team delete_team show::team;
    Evaluator create_evaluator get_evaluator update_evaluator delete_evaluator show::evaluator;
    McpServer create_server get_server update_server delete_server show::server_detail;
    A2aServer create_agent_server get_agent_server update_agent_server delete_agent_server show::agent_server_detail;
}

fn list<Item: Serialize>(
    registry: &Registry,
    resources: Vec<Arc<Resource>>,
    paging: &ResourceListParams,
    item: fn(&Registry, &Resource) -> Item,
) -> Json<List<Item>> {
    let ResourcePage { resources, total, continue_token, remaining } = page(resources, paging);
    let items: Vec<_> = resources.iter().map(|resource| item(registry, resource)).collect();
    Json(List { count: items.len(), total, items, continue_token, remaining_item_count: remaining })
}

/// Part of the resources of a kind, in the order of their names.
struct ResourcePage {
    resources: Vec<Arc<Resource>>,
    /// Of all pages.
    total: u64,
    /// The name that this page ends with, if there are more.
    continue_token: Option<String>,
    /// How many come after this page; absent if the client has not asked for pages.
    remaining: Option<u64>,
}

/// The page of these resources that a request asks for: all of them, unless it has a limit.
fn page<T>(mut resources: Vec<Arc<Resource>>, paging: &Paging<T>) -> ResourcePage {
    let total = resources.len() as u64;
    if let Some(last) = &paging.continue_token {
        resources.retain(|resource| resource.manifest.key.name > *last);
    }
    let (mut continue_token, mut remaining) = (None, None);
    if let Some(limit) = paging.asked_limit {
        let rest = resources.len().saturating_sub(limit);
        resources.truncate(limit);
        remaining = Some(rest as u64);
        continue_token = resources.last().filter(|_| rest > 0).map(|last| last.manifest.key.name.clone());
    }
    ResourcePage { resources, total, continue_token, remaining }
}

fn find(registry: &Registry, kind: ResourceKind, path: &ResourcePath) -> Result<Arc<Resource>, ApiError> {
    let ResourcePath { namespace, name } = path;
    let by_lc_name = || {
        let tool = registry.tool(namespace, name).filter(|_| kind == ResourceKind::Tool)?;
        registry.resource(kind, namespace, &tool.name)
    };
    let found = registry.resource(kind, namespace, name).or_else(by_lc_name);
    found.ok_or_else(|| {
        let key = ResourceKey::new(kind, namespace.clone(), name.as_str());
        bosun_engine::EngineError::from(ResourceError::NotFound(key)).into()
    })
}

fn changed_answer<Detail: Serialize>(
    changed: ChangedResource,
    mut warnings: Vec<String>,
    detail: fn(&Registry, &Resource, Vec<String>) -> Detail,
) -> Response {
    let ChangedResource { resource, registry, warnings: further } = changed;
    warnings.extend(further);
    let shown = detail(&registry, &resource, warnings.clone());
    with_warnings(Json(shown), &warnings)
}

/// ARK answers a deletion with nothing, but for memories and evaluators, where it says what it has done.
fn deleted(kind: ResourceKind, name: &str) -> Response {
    use axum::response::IntoResponse;
    match kind {
        ResourceKind::Memory | ResourceKind::Evaluator => {
            Json(wire::Deleted::new(format!("{} '{name}' deleted", kind.as_str()))).into_response()
        }
        _ => StatusCode::NO_CONTENT.into_response(),
    }
}
