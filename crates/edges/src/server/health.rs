//! The probes of liveness and readiness, and the metrics.

use axum::{extract::State, http::StatusCode, response::Response};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    AppState,
    http::{answer::Json, error::ApiError, metrics},
};

/// `/health` and `/ready`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Service {
    pub(crate) status: &'static str,
    /// The service whose API this is: programs that look for one find it by this name.
    pub(crate) service: &'static str,
    /// The program that serves it.
    pub(crate) server: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<&'static str>,
}

impl Service {
    pub(crate) fn new(status: &'static str, error: Option<&'static str>) -> Self {
        Self { status, service: "ark-api", server: "bosun", error }
    }
}

/// `GET /health`: the process answers.
pub(super) async fn health() -> Json<Service> {
    Json(Service::new("healthy", None))
}

/// `GET /ready`: it accepts work, and its store can be read.
pub(super) async fn ready(State(app): State<AppState>) -> (StatusCode, Json<Service>) {
    let error = if app.engine.draining().is_cancelled() {
        Some("shutting down")
    } else {
        app.engine.store().ping().await.is_err().then_some("the store is unavailable")
    };
    match error {
        None => (StatusCode::OK, Json(Service::new("ready", None))),
        Some(_) => (StatusCode::SERVICE_UNAVAILABLE, Json(Service::new("not ready", error))),
    }
}

/// `GET /metrics`
pub(super) async fn get_metrics(State(app): State<AppState>) -> Result<Response, ApiError> {
    metrics::answer(&app).await
}
