//! The trace that a request is part of: from its headers, or new.
//!
//! Where spans are not collected, a request is part of its caller's trace or of none, and its headers are parsed only by
//! handlers that keep it. Where they are, every request has a span of its own whose id is chosen here, so that
//! what the request causes can refer to it as its parent span.

use std::{
    convert::Infallible,
    hash::{BuildHasher as _, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, HeaderName, request::Parts},
};
use bosun_core::trace::TraceContext;

/// W3C's: the caller's trace, in which the request continues.
pub(super) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// The span of the request itself, where one is collected; else the caller's.
#[derive(Clone, Debug)]
pub(crate) struct Trace(pub(crate) Option<Arc<TraceContext>>);

impl<S: Send + Sync> FromRequestParts<S> for Trace {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let ours = parts.extensions.get::<Self>().cloned();
        Ok(ours.unwrap_or_else(|| Self(of_caller(&parts.headers).map(Arc::new))))
    }
}

/// The context in the headers; `None` if there are two, since it is ambiguous.
pub(super) fn of_caller(headers: &HeaderMap) -> Option<TraceContext> {
    let mut parents = headers.get_all(TRACEPARENT).iter();
    let (parent, None) = (parents.next()?.to_str().ok()?, parents.next()) else { return None };
    let states: Vec<_> = headers.get_all(TRACESTATE).iter().filter_map(|state| state.to_str().ok()).collect();
    TraceContext::parse(parent, Some(states.join(",").as_str()))
}

/// Makes the spans of requests.
#[derive(Debug, Default)]
pub(super) struct Tracer {
    random: RandomState,
    next: AtomicU64,
}

impl Tracer {
    /// The span of a request: a new one in the caller's trace, or in a trace of its own.
    pub(super) fn begin(&self, caller: Option<&TraceContext>) -> Option<TraceContext> {
        let span = self.random();
        match caller {
            Some(caller) => Some(caller.at(span)),
            None => TraceContext::begin(u128::from(self.random()) << 64 | u128::from(self.random()), span),
        }
    }

    /// Ids must differ, not be secret; an id of zero is none.
    fn random(&self) -> u64 {
        self.random.hash_one(self.next.fetch_add(1, Ordering::Relaxed)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn headers(list: &[(HeaderName, &'static str)]) -> HeaderMap {
        list.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn the_callers_trace_is_what_its_headers_say() {
        let read =
            |list: &[_]| of_caller(&headers(list)).map(|trace| (trace.to_string(), trace.state().map(str::to_owned)));
        let good = GOOD.to_owned();
        assert_eq!(read(&[(TRACEPARENT, GOOD)]), Some((good.clone(), None)));
        let stated = [(TRACEPARENT, GOOD), (TRACESTATE, "a=1"), (TRACESTATE, "b=2")];
        assert_eq!(read(&stated), Some((good, Some("a=1,b=2".into()))));
        assert_eq!(read(&[(TRACEPARENT, GOOD), (TRACEPARENT, GOOD)]), None);
        assert_eq!(read(&[(TRACEPARENT, "nonsense")]), None);
        assert_eq!(read(&[(TRACESTATE, "a=1")]), None);
    }

    #[test]
    fn a_request_has_a_span_of_its_own_in_its_callers_trace_or_a_new_one() {
        let tracer = Tracer::default();
        let caller = of_caller(&headers(&[(TRACEPARENT, GOOD)])).unwrap();
        let (one, other) = (tracer.begin(Some(&caller)).unwrap(), tracer.begin(None).unwrap());
        assert_eq!((one.trace(), one.span() == caller.span()), (caller.trace(), false));
        assert!(other.trace() != one.trace() && other.is_sampled());
        assert_ne!(tracer.begin(None).unwrap().trace(), other.trace());
    }
}
