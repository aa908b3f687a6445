//! The back ends of the engine: models, runners of inside calls, stores, and the manifests that name them.
//!
//! Every module here implements a trait of `bosun-engine` or builds the engine's registry. Nothing here knows the
//! callers of the engine: edges and adapters meet only in the program.

pub mod address;
pub mod announced_name;
pub mod blob;
pub mod file_ownership;
#[cfg(test)]
mod golden;
pub mod jq;
pub mod manifests;
pub mod mcp;
pub mod model;
pub mod outbound;
pub mod own_program;
pub mod runner;
pub mod secret;
pub mod store;
