//! The engine that runs queries, and the traits of its back ends.
//!
//! [`Engine`] is the only entry point. It asks the pure machine of `bosun-core` what to do, appends the answer to a
//! [`Store`], and performs what must not be repeated only once that is durable. Nothing here knows HTTP, SQL or any
//! model's wire format.

mod admission;
pub mod agent_server;
mod agent_tools;
mod background;
pub mod blob;
pub mod clock;
mod engine;
mod error;
pub mod fault;
pub mod memory;
pub mod metrics;
pub mod model;
pub mod parameters;
mod queries;
pub mod registry;
pub mod reload;
pub mod resource;
pub mod runner;
pub mod store;
mod submission;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
pub mod tool_server;
mod turns;
pub mod user_connections;
pub mod webhook;

pub use blob::Blobs;
pub use clock::{Clock, SystemClock};
pub use engine::{
    DeliverReport, Engine, EngineSettings, Snapshot, Submitted,
    conversations::{AskedConversation, DEFAULT_MEMORY},
    decide::{AskedDecision, DecideReport, DecisionTarget},
    large_results::{BLOB_GRACE, Upload, UploadError},
    results::{PageError, READ_RESULT, ResultContent, Results},
    tree::QueryTree,
    update::Update,
    workers::{ClaimRequest, ClaimedCall, LeaseToken},
};
pub use error::EngineError;
pub use model::Model;
pub use queries::{
    live::{CallInProgress, QueryKey},
    watch::{BelowCall, Watch, Watched},
};
pub use registry::{Agent, Registry};
pub use runner::Runner;
pub use store::{Store, StoreError};
pub use submission::{Input, Submission};
pub use turns::TERMINATE;
