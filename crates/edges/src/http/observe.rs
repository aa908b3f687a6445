//! One span for each request, its id, its count, and one place that logs what went wrong in it.
//!
//! A request has an id: the client's own, if it sent one in `X-Request-Id`, or one of ours. It is in every line
//! that is logged on the way, and in the answer, so that a person who has one finds the other.

use std::{
    any::Any,
    hash::{BuildHasher as _, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderName, HeaderValue, StatusCode},
    middleware::Next,
    response::{IntoResponse, Response},
};
use tracing::Instrument;

use super::{
    error::{Cause, internal},
    metrics::Requests,
    trace::{self, TRACEPARENT, Trace, Tracer},
};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const LONGEST_ID: usize = 128;

/// What is kept about requests.
#[derive(Debug)]
pub(super) struct Observer {
    requests: Arc<Requests>,
    /// Where spans are collected.
    tracer: Option<Tracer>,
    /// Tells the ids of this process from those of others.
    process: u64,
    next: AtomicU64,
}

impl Observer {
    pub(super) fn new(requests: Arc<Requests>, exports_spans: bool) -> Self {
        let process = RandomState::new().hash_one(std::process::id());
        Self { requests, tracer: exports_spans.then(Tracer::default), process, next: AtomicU64::new(1) }
    }

    /// The client's id, if it can be taken as one; else a new one.
    fn id_of(&self, request: &Request) -> String {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':' | b'/');
        let sent = request.headers().get(REQUEST_ID).and_then(|id| id.to_str().ok());
        match sent.filter(|id| (1..=LONGEST_ID).contains(&id.len()) && id.bytes().all(is_plain)) {
            Some(id) => id.to_owned(),
            None => format!("{:08x}-{:x}", self.process >> 32, self.next.fetch_add(1, Ordering::Relaxed)),
        }
    }
}

/// Wraps a request in its span. Paths are logged as their route: names may be private, routes are not.
pub(super) async fn observe(State(observer): State<Arc<Observer>>, mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let path = request.extensions().get::<MatchedPath>().cloned();
    let route = path.as_ref().map_or("none", MatchedPath::as_str);
    let (id, method) = (observer.id_of(&request), request.method().clone());
    // The status is a field of what is logged, not of the span: a span that learns it later has its fields
    // written anew for every request, and nearly all requests log nothing.
    let span = if let Some(tracer) = &observer.tracer {
        collected(tracer, &mut request, &id, method.as_str(), route)
    } else {
        match request.headers().get(TRACEPARENT).and_then(|parent| parent.to_str().ok()) {
            Some(traceparent) => tracing::info_span!("http.request", request = id, %method, route, traceparent),
            None => tracing::info_span!("http.request", request = id, %method, route),
        }
    };
    let collected = observer.tracer.is_some().then(|| span.clone());
    let mut response = async {
        let response = next.run(request).await;
        if let Some(Cause(cause)) = response.extensions().get::<Cause>() {
            log(response.status(), &**cause);
        }
        response
    }
    .instrument(span)
    .await;
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    if let Some(span) = collected {
        span.record("status", response.status().as_u16());
    }
    observer.requests.count(&method, route, response.status(), began.elapsed());
    response
}

/// The span of a request whose spans are collected, which then says its status too; whoever keeps the trace of the
/// request finds it in its extensions.
fn collected(tracer: &Tracer, request: &mut Request, id: &str, method: &str, route: &str) -> tracing::Span {
    let caller = trace::of_caller(request.headers());
    let own = tracer.begin(caller.as_ref()).map(Arc::new);
    let span = tracing::info_span!(
        "http.request",
        request = id,
        method,
        route,
        traceparent = caller.as_ref().map(tracing::field::display),
        trace = own.as_ref().map(tracing::field::display),
        status = tracing::field::Empty,
    );
    request.extensions_mut().insert(Trace(own));
    span
}

fn log(status: StatusCode, cause: &(dyn std::error::Error + 'static)) {
    let code = status.as_u16();
    if status == StatusCode::SERVICE_UNAVAILABLE {
        tracing::warn!(cause, status = code, "request was not done");
    } else if status.is_server_error() {
        tracing::error!(cause, status = code, "request failed");
    } else {
        tracing::debug!(cause, status = code, "request was refused");
    }
}

/// A handler panicked: the client learns nothing of why, the log does.
#[expect(clippy::needless_pass_by_value, reason = "the signature is tower-http's")]
pub(super) fn panicked(panic: Box<dyn Any + Send + 'static>) -> Response {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    tracing::error!(panic = text.unwrap_or("of unknown kind"), "request handler panicked");
    internal().into_response()
}
