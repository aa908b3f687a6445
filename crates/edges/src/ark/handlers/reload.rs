//! Handlers of the reload: ask for one, and see how the last one went.

use axum::extract::State;
use bosun_core::{Fault, ceiling::FAULTS_LISTED};
use bosun_engine::{reload::ReloadStatus, resource::ResourceKey};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::{
    AppState,
    auth::gate::Caller,
    http::{
        answer::Json,
        error::{ApiError, Code},
    },
};

/// The configuration in effect, and how the last reload went.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Reload {
    /// The generation of the registry that the last successful reload made.
    generation: u64,
    /// When that was; `null` for a server without sources.
    reloaded_at: Option<String>,
    added: Vec<ReloadedResource>,
    removed: Vec<ReloadedResource>,
    changed: Vec<ReloadedResource>,
    /// What is wrong with the sources; what they last had stays in effect.
    faults: Vec<ReloadFault>,
    warnings: Vec<String>,
}

/// A resource that a reload concerns.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ReloadedResource {
    kind: &'static str,
    namespace: String,
    name: String,
}

/// One fault of a file or URL.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ReloadFault {
    source: String,
    line: Option<usize>,
    column: Option<usize>,
    code: &'static str,
    message: String,
    hint: Option<String>,
}

/// `POST /v1/reload`
pub(crate) async fn reload(State(app): State<AppState>, caller: Caller) -> Result<Json<Reload>, ApiError> {
    let status = app.reload.reload(caller.actor).await?;
    if status.faults.is_empty() { Ok(Json(status.into())) } else { Err(refusal(&status.faults)) }
}

/// `GET /v1/reload`
pub(crate) async fn get_reload(State(app): State<AppState>) -> Json<Reload> {
    Json(app.reload.status().into())
}

fn refusal(faults: &[Fault]) -> ApiError {
    let sentences: Vec<_> = faults.iter().take(FAULTS_LISTED).map(Fault::to_line).collect();
    let message = format!("what the faulty sources last had stays in effect: {}", sentences.join("; "));
    let details = faults.iter().take(FAULTS_LISTED).map(|fault| json!(ReloadFault::from(fault.clone()))).collect();
    let omitted = faults.len().saturating_sub(FAULTS_LISTED);
    ApiError::new(Code::InvalidConfiguration, message).with_details(details).omitting(omitted)
}

impl From<ReloadStatus> for Reload {
    fn from(status: ReloadStatus) -> Self {
        let named = |keys: Vec<ResourceKey>| keys.into_iter().map(Into::into).collect();
        Self {
            generation: status.generation,
            reloaded_at: status.reloaded_at.map(bosun_core::Timestamp::to_rfc3339),
            added: named(status.diff.added),
            removed: named(status.diff.removed),
            changed: named(status.diff.changed),
            faults: status.faults.into_iter().map(Into::into).collect(),
            warnings: status.warnings,
        }
    }
}

impl From<ResourceKey> for ReloadedResource {
    fn from(ResourceKey { kind, namespace, name }: ResourceKey) -> Self {
        Self { kind: kind.as_str(), namespace: namespace.to_string(), name }
    }
}

impl From<Fault> for ReloadFault {
    fn from(Fault { file, place, code, message, hint, .. }: Fault) -> Self {
        let (line, column) = place.map(|place| (place.line, place.column)).unzip();
        Self { source: file.display().to_string(), line, column, code, message, hint }
    }
}
