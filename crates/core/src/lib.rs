//! The domain of Bosun: tools, schemas, and the life of one query.
//!
//! Everything here is pure. There is no clock, no I/O and no runtime: time arrives as an argument,
//! text comes in, data goes out. The crate can be used alone; the engine, the stores and the HTTP
//! edges are built on it and never the other way round.
//!
//! Each of these modules opens with an example:
//! - [`tool`]: a tool is data; [`tool::catalog`] holds all of them, and finds them
//! - [`tool::toolset`]: the tools of one query, merged and frozen
//! - [`tool::definition`], [`tool::client`]: what clients define, checked, and handed back to them
//! - [`tool::routing`], [`tool::wrapper`], [`tool::missing`]: the conventions of tools as configuration
//! - [`schema`]: arguments, checked; [`schema::dialect`]: what each model API is told

pub mod content;
pub mod event;
pub mod hash;
pub mod head;
pub mod id;
#[cfg(test)]
mod journal_fixtures;
pub mod json;
pub mod machine;
pub mod outcome;
pub mod query;
pub mod schema;
pub mod showing;
mod spelled;
mod text;
pub mod time;
pub mod tool;
pub mod transcript;

pub use content::Content;
pub use event::{Entry, Event, Seq};
pub use hash::ContentHash;
pub use head::{Head, Status};
pub use id::{CallId, Namespace, QueryName, QueryUid};
pub use outcome::Outcome;
pub use query::{Limits, Spec};
pub use schema::Schema;
pub use time::Timestamp;
pub use tool::{Binding, Tool, toolset::Toolset};
pub use transcript::Transcript;
