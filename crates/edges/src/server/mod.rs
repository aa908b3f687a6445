//! What a server has independent of its protocols: the page at `/`, health, metrics, and the page of its API.
//!
//! [`routes`]: the table; [`health`], [`root`] and [`docs`]: what it leads to. None of it belongs to a namespace.

mod docs;
mod health;
mod root;
pub(crate) mod routes;

pub(crate) use health::Service;
pub(crate) use root::Root;
