//! Handlers of namespaces: list and create them, and the check that one exists.
//!
//! A namespace exists as soon as something is in it: a resource, a query, a conversation, or a key that is scoped
//! to it; an empty one can be created, too. Requests that put something into a new one are not refused. Listing
//! what is in one that does not exist is ARK's 404, so that a misspelt name is not mistaken for an empty namespace.
//! Lists that ARK does not have (the audit log, usage) outlive what they record, and are read without this check.

use axum::{extract::State, response::Response};
use bosun_engine::resource::{Manifest, ManifestBody, ResourceError, ResourceKey, ResourceKind};
use bosun_reading::spec;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    AppState,
    ark::wire,
    auth::gate::Caller,
    http::{
        answer::Json,
        error::{ApiError, Code},
        extract::JsonBody,
        report::RequestReport,
        warning::with_warnings,
    },
};

/// A namespace.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ListedNamespace {
    name: String,
}

/// `GET /v1/namespaces`: those that the caller reaches.
pub(crate) async fn list_namespaces(
    State(app): State<AppState>,
    caller: Caller,
) -> Result<Json<wire::List<ListedNamespace>>, ApiError> {
    let mut namespaces = app.engine.namespaces().await?;
    namespaces.extend(app.access.namespaces());
    namespaces.extend(caller.grant().namespaces.listed().iter().cloned());
    let reached = namespaces.into_iter().filter(|namespace| caller.grant().namespaces.include(namespace));
    let items: Vec<_> = reached.map(|namespace| ListedNamespace { name: namespace.to_string() }).collect();
    let (count, total) = (items.len(), items.len() as u64);
    Ok(Json(wire::List { count, total, items, continue_token: None, remaining_item_count: None }))
}

/// `POST /v1/namespaces`
pub(crate) async fn create_namespace(
    State(app): State<AppState>,
    caller: Caller,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let (name, warnings) = body.read(read)?;
    let key = ResourceKey::new(ResourceKind::Namespace, name.clone(), name.as_str());
    // One with something in it exists, although it was never created explicitly.
    if exists(&app, &caller, &name).await? {
        return Err(bosun_engine::EngineError::from(ResourceError::Exists(key)).into());
    }
    app.engine.create_resource(caller.actor, Manifest { key, description: ManifestBody::default() }).await?;
    Ok(with_warnings(Json(ListedNamespace { name: name.to_string() }), &warnings))
}

fn read(body: Value) -> Result<(bosun_core::Namespace, Vec<String>), ApiError> {
    let report = RequestReport::new(Code::InvalidRequest, Vec::new());
    let mut fields = report.body(body)?.with_table(spec::NEW_NAMESPACE);
    if let Some(metadata) = fields.fields("metadata") {
        fields.absorb(metadata);
    }
    let name = match fields.text("name").map(|name| name.parse::<bosun_core::Namespace>()) {
        Some(Ok(name)) => Some(name),
        Some(Err(error)) => {
            fields.reject("name", "invalid_name", error.to_string());
            None
        }
        None => {
            fields.reject("name", "missing", "must be the name of a namespace");
            None
        }
    };
    fields.finish();
    drop(fields);
    let warnings = report.conclude()?;
    // Without a name there was a fault.
    let name = name.ok_or_else(crate::http::error::internal)?;
    Ok((name, warnings))
}

/// Whether a namespace exists. Looked up in memory first, and only then in the store, by an index.
async fn exists(app: &AppState, caller: &Caller, namespace: &bosun_core::Namespace) -> Result<bool, ApiError> {
    // A namespace that a key or a token is scoped to exists for it.
    let is_own = caller.grant().namespaces.listed().contains(namespace);
    let is_known = is_own || app.engine.registry().has_namespace(namespace) || app.access.is_scoped_to(namespace);
    Ok(is_known || app.engine.has_namespace(namespace).await?)
}

/// Refuses to list what is in a namespace that does not exist.
pub(crate) async fn require(
    app: &AppState,
    caller: &Caller,
    namespace: &bosun_core::Namespace,
) -> Result<(), ApiError> {
    if exists(app, caller, namespace).await? {
        return Ok(());
    }
    Err(not_found(namespace).with_prescribed("Kubernetes API error: Not Found"))
}

/// The same for a request for the context of a namespace; the error names the namespace to use instead.
pub(crate) async fn require_for_context(
    app: &AppState,
    caller: &Caller,
    namespace: &bosun_core::Namespace,
) -> Result<(), ApiError> {
    if exists(app, caller, namespace).await? {
        return Ok(());
    }
    let own = caller.grant().namespaces.own();
    let detail = json!({"message": format!("Namespace '{namespace}' not found"), "default_namespace": own.to_string()});
    Err(not_found(namespace).with_prescribed(detail))
}

fn not_found(namespace: &bosun_core::Namespace) -> ApiError {
    let message =
        format!("Namespace '{namespace}' not found: it is created by what is put into it, or by `POST /v1/namespaces`");
    ApiError::new(Code::NamespaceNotFound, message)
}
