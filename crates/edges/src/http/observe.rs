//! Observation of requests: one span each, the request id, the count, and the one place that logs errors.
//!
//! A request has an id: the client's own, if it sent one in `X-Request-Id`, or one of ours. It is in every log line of
//! the request and in its response, so that either leads to the other.

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
    extract::{MatchedPath, Request},
    http::{HeaderName, HeaderValue, Method, StatusCode},
    response::{IntoResponse, Response},
};
use tracing::Span;

use super::{
    error::{Cause, internal},
    metrics::Requests,
    trace::{self, TRACEPARENT, Trace, Tracer},
};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const LONGEST_ID: usize = 128;

/// Gives every request its id.
#[derive(Debug)]
pub(super) struct Observer {
    /// Where spans are collected.
    tracer: Option<Tracer>,
    /// Distinguishes the ids of this process from those of others.
    process: u64,
    next: AtomicU64,
}

/// A request that has come in and is not answered yet.
#[derive(Debug)]
pub(super) struct ObservedRequest {
    began: Instant,
    id: HeaderValue,
    method: Method,
    path: Option<MatchedPath>,
    /// Around everything that is done for the request.
    pub(super) span: Span,
    is_collected: bool,
}

impl Observer {
    pub(super) fn new(exports_spans: bool) -> Self {
        let process = RandomState::new().hash_one(std::process::id());
        Self { tracer: exports_spans.then(Tracer::default), process, next: AtomicU64::new(1) }
    }

    /// Wraps a request in its span. Paths are logged as their route: names may be private, routes are not.
    pub(super) fn begin(&self, request: &mut Request) -> ObservedRequest {
        let (id, method) = (self.id_of(request), request.method().clone());
        let path = request.extensions().get::<MatchedPath>().cloned();
        let route = route(path.as_ref());
        let (text, verb) = (id.to_str().unwrap_or_default(), method.as_str());
        // The status is a field of the log entry, not of the span: recording it later would format the span's fields
        // again for every request, and nearly all requests log nothing.
        let span = if let Some(tracer) = &self.tracer {
            collected(tracer, request, text, verb, route)
        } else {
            match request.headers().get(TRACEPARENT).and_then(|parent| parent.to_str().ok()) {
                Some(traceparent) => {
                    tracing::info_span!("http.request", request = text, method = verb, route, traceparent)
                }
                None => tracing::info_span!("http.request", request = text, method = verb, route),
            }
        };
        ObservedRequest { began: Instant::now(), id, method, path, span, is_collected: self.tracer.is_some() }
    }

    /// The client's id, if it is a valid one; else a new one.
    fn id_of(&self, request: &Request) -> HeaderValue {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':' | b'/');
        let is_id =
            |id: &HeaderValue| (1..=LONGEST_ID).contains(&id.len()) && id.as_bytes().iter().copied().all(is_plain);
        match request.headers().get(REQUEST_ID).filter(|id| is_id(id)) {
            Some(id) => id.clone(),
            None => {
                let id = format!("{:08x}-{:x}", self.process >> 32, self.next.fetch_add(1, Ordering::Relaxed));
                // Hexadecimal digits are always a value.
                HeaderValue::try_from(id).unwrap_or(HeaderValue::from_static("0"))
            }
        }
    }
}

fn route(path: Option<&MatchedPath>) -> &str {
    path.map_or("none", MatchedPath::as_str)
}

impl ObservedRequest {
    /// The method and the route of the request: names in a path may be private, routes are not.
    pub(super) fn method_and_route(&self) -> String {
        format!("{} {}", self.method, route(self.path.as_ref()))
    }

    /// Counts the request, which is answered, and ends its span.
    pub(super) fn end(self, requests: &Requests, response: &mut Response) {
        if self.is_collected {
            self.span.record("status", response.status().as_u16());
        }
        requests.count(&self.method, route(self.path.as_ref()), response.status(), self.began.elapsed());
        response.headers_mut().insert(REQUEST_ID, self.id);
    }
}

/// Logs why a request failed, where that is known.
pub(super) fn log_cause(response: &Response) {
    if let Some(Cause(cause)) = response.extensions().get::<Cause>() {
        log(response.status(), &**cause);
    }
}

/// The span of a request whose spans are collected; it records the status, too. The `Trace` extractor
/// finds it in the request's extensions.
fn collected(tracer: &Tracer, request: &mut Request, id: &str, method: &str, route: &str) -> Span {
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
