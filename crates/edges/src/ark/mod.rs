//! ARK's REST API, with the outside tools of the n8n RFC.
//!
//! Requests come in several dialects (flat or `{metadata, spec}`, `target` or `targets`, two kinds of
//! paths, two views of a query); each difference is settled once, in [`options`] and [`request`], and
//! behind them there is one form. Answers are written in [`convert`] and [`stream`]. Clients of ARK
//! rely on unknown fields being taken, so those are warned about, never refused.

mod about;
mod audit;
mod conversations;
mod convert;
mod delivery;
mod describe;
mod docs;
mod download;
mod events;
mod input;
mod lookup;
mod messages;
mod model_query;
mod namespaces;
mod options;
mod reference;
pub(crate) mod refused;
mod request;
mod resource;
mod root;
pub(crate) mod routes;
pub(crate) mod stream;
mod target;
mod tellings;
mod tools;
mod update;
mod upload;
mod usage;
mod wire;

use bosun_core::duration;
