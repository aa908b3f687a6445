//! What every HTTP edge needs: errors, bodies, guards, streams, and the server itself.

pub(crate) mod answer;
pub(crate) mod door;
mod drain;
pub(crate) mod echo;
pub(crate) mod error;
pub(crate) mod extract;
pub(crate) mod guard;
pub(crate) mod json;
pub(crate) mod metrics;
mod observe;
pub(crate) mod serve;
pub(crate) mod sse;
pub(crate) mod trace;
pub(crate) mod warning;
