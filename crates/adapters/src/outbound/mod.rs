//! HTTP requests to other servers: a connection pool, the check of the addresses that it may reach, and retries.
//!
//! What an operator writes into a file may call any address. What a client has stored may call what is public and what
//! was excepted: its connections are separate, and the name server's answer is checked by the resolver of the connector,
//! so that no second answer can lead elsewhere. Whatever sends requests maps `OutboundError` to its own errors.
//! Proxies of the environment are deliberately absent, and redirects are left to the sender: a key goes to the host that
//! a manifest names.

mod connector;
mod document;
mod pool;
mod resolver;
pub(crate) mod retry;
mod webhook;

use std::error::Error;

use bosun_core::trace::TraceContext;
use hyper::header::{HeaderName, HeaderValue};
use hyper_util::client::legacy;

use crate::address::NotPublic;

pub use document::{FetchError, RemoteDocument, fetch};
pub use pool::{Body, Client, Pool};
pub use webhook::WebhookClient;

type BoxError = Box<dyn Error + Send + Sync>;

/// Why a request has no response.
#[derive(Debug, thiserror::Error)]
pub enum OutboundError {
    #[error("this machine cannot open secure connections")]
    Tls(#[source] rustls::Error),
    #[error(transparent)]
    NotPublic(#[from] NotPublic),
    #[error("there is no connection")]
    Connect(#[source] legacy::Error),
    /// It may have been sent.
    #[error("the request broke off")]
    Broken(#[source] legacy::Error),
}

impl From<legacy::Error> for OutboundError {
    fn from(error: legacy::Error) -> Self {
        let mut chain = std::iter::successors(error.source(), |error| (*error).source());
        match chain.find_map(|error| error.downcast_ref::<NotPublic>()) {
            Some(refused) => Self::NotPublic(*refused),
            None if error.is_connect() => Self::Connect(error),
            None => Self::Broken(error),
        }
    }
}

/// W3C's trace context headers.
pub(crate) fn trace_headers(trace: &TraceContext) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
    let parent = HeaderValue::try_from(trace.to_string()).ok();
    let state = trace.state().and_then(|state| HeaderValue::from_str(state).ok());
    let parent = parent.map(|parent| (HeaderName::from_static("traceparent"), parent));
    parent.into_iter().chain(state.map(|state| (HeaderName::from_static("tracestate"), state)))
}

/// The innermost cause, which says what happened; the outer ones say where.
#[must_use]
pub fn cause(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
