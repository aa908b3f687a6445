//! Namespaces: which there are, making one, and saying that one is not there.
//!
//! A namespace begins with whatever is put into it: a resource, a query, a conversation, or a key that is scoped to it; one can
//! also be made while it is empty. Nothing is refused to those who put something into a new one. To list what is
//! in one that nobody has begun is ARK's 404, so that a misspelt name is not taken for an empty namespace. What is
//! ours beside ARK's lists (the audit log, usage) outlives what it tells of, and is read without asking.

use axum::{extract::State, response::Response};
use bosun_engine::resource::{Description, Kind, Manifest, ResourceError, ResourceKey};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::{options::Options, routes::with_warnings, wire};
use crate::{
    App,
    auth::gate::Caller,
    http::{
        answer::Json,
        error::{ApiError, Code},
        extract::JsonBody,
        json::{Findings, Object},
    },
};

/// A namespace.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Namespace {
    name: String,
}

/// `GET /v1/namespaces`: those that the caller reaches.
pub(super) async fn list_namespaces(
    State(app): State<App>,
    caller: Caller,
) -> Result<Json<wire::List<Namespace>>, ApiError> {
    let mut namespaces = app.engine.namespaces().await?;
    namespaces.extend(app.access.namespaces());
    namespaces.extend(caller.grant().namespaces.listed().iter().cloned());
    let reached = namespaces.into_iter().filter(|namespace| caller.grant().namespaces.include(namespace));
    let items: Vec<_> = reached.map(|namespace| Namespace { name: namespace.to_string() }).collect();
    let (count, total) = (items.len(), items.len() as u64);
    Ok(Json(wire::List { count, total, items, continue_token: None, remaining_item_count: None }))
}

/// `POST /v1/namespaces`
pub(super) async fn create_namespace(
    State(app): State<App>,
    caller: Caller,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let (name, warnings) = body.read(read)?;
    let key = ResourceKey::new(Kind::Namespace, name.clone(), name.as_str());
    // One that something is in is there, although nobody has made it.
    if exists(&app, &caller, &name).await? {
        return Err(bosun_engine::EngineError::from(ResourceError::Exists(key)).into());
    }
    app.engine.create_resource(caller.actor, Manifest { key, description: Description::default() }).await?;
    Ok(with_warnings(Json(Namespace { name: name.to_string() }), &warnings))
}

fn read(body: Value) -> Result<(bosun_core::Namespace, Vec<String>), ApiError> {
    let mut findings = Findings::new(Code::InvalidRequest, Vec::new());
    let mut fields = Object::body(body)?;
    if let Some(metadata) = fields.object("metadata", &mut findings) {
        fields.absorb(metadata, &mut findings);
    }
    let path = fields.path_of("name");
    let name = match fields.text("name", &mut findings).map(|name| name.parse::<bosun_core::Namespace>()) {
        Some(Ok(name)) => Some(name),
        Some(Err(error)) => {
            findings.fault(path, "invalid_name", error.to_string());
            None
        }
        None => {
            findings.fault(path, "missing", "must be the name of a namespace");
            None
        }
    };
    fields.finish(&mut findings);
    let warnings = findings.conclude()?;
    // Without a name there was a fault.
    let name = name.ok_or_else(crate::http::error::internal)?;
    Ok((name, warnings))
}

/// Whether a namespace is there. Looked up in memory first, and only then in the store, by an index.
async fn exists(app: &App, caller: &Caller, namespace: &bosun_core::Namespace) -> Result<bool, ApiError> {
    // What a key or a token is scoped to is there for it.
    let is_own = caller.grant().namespaces.listed().contains(namespace);
    let is_known = is_own || app.engine.registry().has_namespace(namespace) || app.access.is_scoped_to(namespace);
    Ok(is_known || app.engine.has_namespace(namespace).await?)
}

/// Refuses to list what is in a namespace that is not there.
pub(super) async fn require(app: &App, options: &Options) -> Result<(), ApiError> {
    let namespace = options.namespace();
    if exists(app, &options.caller, &namespace).await? {
        return Ok(());
    }
    Err(not_found(&namespace).in_arks_words("Kubernetes API error: Not Found"))
}

/// The same for whoever asks for the context of a namespace, who is told which one to ask for instead.
pub(super) async fn require_for_context(app: &App, options: &Options) -> Result<(), ApiError> {
    let namespace = options.namespace();
    if exists(app, &options.caller, &namespace).await? {
        return Ok(());
    }
    let own = options.caller.grant().namespaces.own();
    let detail = json!({"message": format!("Namespace '{namespace}' not found"), "default_namespace": own.to_string()});
    Err(not_found(&namespace).in_arks_words(detail))
}

fn not_found(namespace: &bosun_core::Namespace) -> ApiError {
    let message =
        format!("Namespace '{namespace}' not found: it begins with what is put into it, or with `POST /v1/namespaces`");
    ApiError::new(Code::NamespaceNotFound, message)
}
