//! The bodies of queries, as submissions and updates of the engine.

pub(crate) mod conversation;
pub(crate) mod fields;
pub(crate) mod input;
pub(crate) mod reference;
pub(crate) mod request;
pub(crate) mod target;
mod tool_source;
pub(crate) mod tools;
pub(crate) mod update;
