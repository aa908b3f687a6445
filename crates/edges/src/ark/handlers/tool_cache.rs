//! The handler that drops cached results of tools.

use axum::{extract::State, response::Response};
use bosun_core::Namespace;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    AppState,
    ark::params::{Params, ToolFilter},
    auth::gate::{Caller, RequestNamespace},
    http::{answer::Json, error::ApiError, warning::with_warnings},
};

/// What was dropped.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Cleared {
    /// The number of results.
    cleared: usize,
}

/// `DELETE …/tool-cache`
pub(crate) async fn clear_tool_cache(
    State(app): State<AppState>,
    caller: Caller,
    namespace: RequestNamespace,
    Params { given: ToolFilter { tool }, warnings }: Params<ToolFilter>,
) -> Result<Response, ApiError> {
    let cleared = app.engine.clear_tool_cache(caller.actor, Namespace::clone(&namespace), tool).await?;
    Ok(with_warnings(Json(Cleared { cleared }), &warnings))
}
