//! ARK's REST API, with the outside tools of the n8n RFC.
//!
//! - [`routes`]: the table of routes, each with the right that it needs;
//! - [`handlers`]: one function per route, a file per family of routes;
//! - [`params`]: extractors of what a request says in its path, its query string and its headers;
//! - [`reading`]: bodies of queries, from every dialect to one form;
//! - [`results`]: results of tool calls, delivered, uploaded and downloaded;
//! - [`resource`]: agents, models, tools and the other kinds that clients may store;
//! - [`evaluation`]: answers that a model judges;
//! - [`answering`]: queries, streams, audit records and usage as ARK writes them;
//! - [`describe`]: the OpenAPI document;
//! - [`wire`]: types that several answers share;
//! - [`refusal`]: errors in ARK's shape;
//! - [`not_served`]: routes of ARK that this server does not have, and what to use instead.
//!
//! Requests come in several dialects (flat or `{metadata, spec}`, `target` or `targets`, two kinds of
//! paths, two views of a query); each difference is settled once, in [`params`] and [`reading`]. Clients of
//! ARK rely on unknown fields being accepted, so those are warned about, never refused.

pub(crate) mod answering;
mod describe;
mod evaluation;
mod handlers;
mod not_served;
mod params;
mod reading;
pub(crate) mod refusal;
mod resource;
mod results;
pub(crate) mod routes;
mod wire;

use bosun_core::duration;
