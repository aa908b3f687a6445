//! The loop that runs queries, and the traits of what it drives.
//!
//! [`Engine`] is the only way in: submit, deliver, resume, cancel, watch, recover. It asks the pure
//! machine of `bosun-core` what to do, appends the answer to a [`Store`], and acts only when what it
//! must not repeat is durable. Nothing here knows HTTP, SQL or any model's wire format.

mod admission;
mod audit;
pub mod blob;
mod chronicle;
pub mod clock;
mod clock_step;
mod conversation;
mod deadlines;
mod desk;
mod direct;
mod dispatch;
mod documents;
mod drafts;
mod driver;
mod engine;
mod error;
pub mod fault;
mod herald;
mod isolation;
mod large;
pub mod memory;
pub mod metrics;
pub mod model;
mod offload;
mod outliving;
pub mod parameters;
pub mod registry;
pub mod resource;
mod resources;
pub mod results;
mod retention;
pub mod runner;
mod spans;
pub mod store;
mod submission;
mod submit;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod toolsets;
mod turn;
mod update;
mod watch;

pub use blob::Blobs;
pub use clock::{Clock, SystemClock};
pub use conversation::{AskedConversation, DEFAULT_MEMORY};
pub use desk::Key as QueryKey;
pub use engine::{DeliverReport, Engine, Settings, Snapshot, Submitted};
pub use error::EngineError;
pub use large::{BLOB_GRACE, RESULT_TOO_LARGE, Upload, UploadError};
pub use model::Model;
pub use registry::{Agent, Registry};
pub use results::{PageError, ResultContent, Results};
pub use runner::Runner;
pub use store::{Store, StoreError};
pub use submission::{Input, Submission};
pub use update::Update;
pub use watch::{Watch, Watched};
