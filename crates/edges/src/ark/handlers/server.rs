//! Handlers of routes that are in no namespace: description, health and metrics.

use std::sync::LazyLock;

use axum::{
    body::Bytes,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use bosun_core::ContentHash;

use crate::{
    AppState,
    ark::{describe, wire},
    http::{answer::Json, error::ApiError, metrics},
};

/// `GET /openapi.json`: this API, described. It is the same for as long as the server runs, so it is written once.
pub(crate) async fn openapi(headers: HeaderMap) -> Response {
    static DOCUMENT: LazyLock<(Bytes, HeaderValue)> = LazyLock::new(|| {
        let text = describe::document().to_string();
        let tag = format!("\"{}\"", ContentHash::of(text.as_bytes()));
        // Hexadecimal digits in quotes are always a value.
        (text.into(), HeaderValue::try_from(tag).unwrap_or(HeaderValue::from_static("\"\"")))
    });
    let (document, tag) = &*DOCUMENT;
    let fields = [(header::ETAG, tag.clone()), (header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    if headers.get_all(header::IF_NONE_MATCH).iter().any(|known| known == tag) {
        return (StatusCode::NOT_MODIFIED, fields).into_response();
    }
    (fields, document.clone()).into_response()
}

/// `GET /health`: the process answers.
pub(crate) async fn health() -> Json<wire::Service> {
    Json(wire::Service::new("healthy", None))
}

/// `GET /ready`: it accepts work, and its store can be read.
pub(crate) async fn ready(State(app): State<AppState>) -> (StatusCode, Json<wire::Service>) {
    let error = if app.engine.draining().is_cancelled() {
        Some("shutting down")
    } else {
        app.engine.store().next_deadline().await.is_err().then_some("the store is unavailable")
    };
    match error {
        None => (StatusCode::OK, Json(wire::Service::new("ready", None))),
        Some(_) => (StatusCode::SERVICE_UNAVAILABLE, Json(wire::Service::new("not ready", error))),
    }
}

/// `GET /metrics`
pub(crate) async fn get_metrics(State(app): State<AppState>) -> Result<Response, ApiError> {
    metrics::answer(&app).await
}
