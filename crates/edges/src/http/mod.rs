//! What every HTTP edge needs: errors, bodies, guards, streams, and the server itself.

pub(crate) mod answer;
mod drain;
pub(crate) mod error;
pub(crate) mod error_echo;
pub(crate) mod extra_slashes;
pub(crate) mod extract;
pub(crate) mod guard;
#[cfg(feature = "grpc")]
mod http2;
pub(crate) mod metrics;
pub(crate) mod middleware;
mod observe;
pub(crate) mod render;
pub(crate) mod report;
pub(crate) mod routes;
pub(crate) mod serve;
pub(crate) mod sse;
pub(crate) mod sse_cache;
pub(crate) mod trace;
pub(crate) mod warning;
