//! Metrics of requests, by route and status, and the response that shows all metrics.
//!
//! The route label is the router's pattern, never the path that a client sent, and a status is one of those that this
//! server sends. So the number of series is bounded by routes × statuses.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use axum::{
    http::{HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use bosun_engine::{
    metrics::{Counter, Family, FamilyKind, MetricHistogram, MetricsText, SECONDS},
    reload::ReloadStatus,
};

use super::error::ApiError;
use crate::AppState;

/// The metric families that this edge adds to those of the engine.
pub(crate) const FAMILIES: &[Family] = &[
    Family::new(
        "bosun_http_requests_total",
        FamilyKind::Counter,
        &["method", "route", "status"],
        "Requests that were answered; streams count when they begin",
    ),
    Family::new(
        "bosun_http_request_seconds",
        FamilyKind::Histogram,
        &["route"],
        "From a request to the head of its answer",
    ),
    Family::new(
        "bosun_reloads_total",
        FamilyKind::Counter,
        &["outcome"],
        "Reloads of manifests and tools, the start included: success, or failure if a source was faulty",
    ),
    Family::new(
        "bosun_reload_faults",
        FamilyKind::Gauge,
        &[],
        "Faults that the last reload found; above 0, not everything that was written is in effect",
    ),
    Family::new(
        "bosun_registry_generation",
        FamilyKind::Gauge,
        &[],
        "How often agents, models and tools were replaced since the start",
    ),
];

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
const METHODS: [Method; 6] = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS];
/// The statuses that are counted separately.
const STATUSES: [u16; 22] =
    [200, 201, 202, 204, 206, 304, 400, 401, 403, 404, 405, 408, 409, 410, 413, 415, 416, 422, 429, 500, 501, 503];

#[derive(Debug)]
struct OfRoute {
    /// By method and status; the last index counts all others.
    answered: [[Counter; STATUSES.len() + 1]; METHODS.len() + 1],
    seconds: MetricHistogram<{ SECONDS.len() }>,
}

impl Default for OfRoute {
    fn default() -> Self {
        Self {
            answered: std::array::from_fn(|_| std::array::from_fn(|_| Counter::default())),
            seconds: MetricHistogram::default(),
        }
    }
}

/// The requests of one server.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// Read for every request, written once for each route.
    routes: RwLock<BTreeMap<String, Arc<OfRoute>>>,
}

impl Requests {
    pub(super) fn count(&self, method: &Method, route: &str, status: StatusCode, took: Duration) {
        let figures = self.route(route);
        let method = METHODS.iter().position(|known| known == method).unwrap_or(METHODS.len());
        let status = STATUSES.iter().position(|known| *known == status.as_u16()).unwrap_or(STATUSES.len());
        figures.answered[method][status].add(1);
        figures.seconds.observe(took.as_secs_f64(), &SECONDS);
    }

    fn route(&self, route: &str) -> Arc<OfRoute> {
        if let Some(figures) = self.routes.read().unwrap_or_else(PoisonError::into_inner).get(route) {
            return Arc::clone(figures);
        }
        let mut routes = self.routes.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(routes.entry(route.to_owned()).or_default())
    }

    fn write(&self, text: &mut MetricsText) {
        let routes = self.routes.read().unwrap_or_else(PoisonError::into_inner);
        let mut family = text.family(FAMILIES, "bosun_http_requests_total");
        for (route, figures) in &*routes {
            for (method, by_status) in figures.answered.iter().enumerate() {
                let method = METHODS.get(method).map_or("other", Method::as_str);
                for (status, counter) in by_status.iter().enumerate().filter(|(_, counter)| counter.get() > 0) {
                    let status = STATUSES.get(status).map_or_else(|| "other".to_owned(), u16::to_string);
                    family.count(&[method, route, &status], counter.get());
                }
            }
        }
        let mut family = text.family(FAMILIES, "bosun_http_request_seconds");
        for (route, figures) in &*routes {
            family.histogram(&[route], &figures.seconds.counts(&SECONDS));
        }
    }
}

/// All metrics of the server, as a response.
pub(crate) async fn answer(app: &AppState) -> Result<Response, ApiError> {
    let mut text = MetricsText::default();
    app.engine.write_metrics(&mut text).await?;
    app.requests.write(&mut text);
    let ReloadStatus { faults, succeeded, failed, .. } = app.reload.status();
    let mut family = text.family(FAMILIES, "bosun_reloads_total");
    family.count(&["success"], succeeded);
    family.count(&["failure"], failed);
    text.family(FAMILIES, "bosun_reload_faults").count(&[], faults.len() as u64);
    text.family(FAMILIES, "bosun_registry_generation").count(&[], app.engine.registry().generation());
    Ok(([(header::CONTENT_TYPE, TEXT)], text.finish()).into_response())
}
