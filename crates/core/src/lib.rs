//! The domain of Bosun: tools, schemas, and the life of one query.
//!
//! Everything here is pure. There is no clock, no I/O and no runtime: time arrives as an argument,
//! text comes in, data goes out. The crate can be used alone; the engine, the stores and the HTTP
//! edges are built on it and never the other way round.
//!
//! ```
//! use bosun_core::{Tool, Toolset, schema::dialect::Dialect, tool::{Binding, definition::{self, Rules}, toolset::ToolSources}};
//! use serde_json::json;
//!
//! // Tool definitions that a client sends are validated as a whole.
//! let client = definition::check(&json!([{
//!     "name": "calculator",
//!     "description": "Perform mathematical calculations",
//!     "parameters": {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]},
//! }]), Rules::Strict)?;
//! // They are merged with the server's tools; on a name conflict, the server's tool wins.
//! let clock = Tool::new("current_time", "Tells the time", json!({}), Binding::Builtin { name: "clock".into() });
//! let toolset = Toolset::merge(ToolSources::Both, vec![clock], client);
//! assert_eq!(toolset.tools().len(), 2);
//! // The model receives declarations in its API's dialect, and its arguments are validated before a tool runs.
//! assert!(toolset.declarations(Dialect::Anthropic).losses.is_empty());
//! let schema = toolset.get("calculator").unwrap().schema().unwrap();
//! let violations = schema.check_arguments(r#"{"expression": 42}"#).unwrap_err();
//! assert_eq!(violations[0].message, "Parameter expression has wrong type: expected string, got number");
//! # Ok::<(), bosun_core::tool::definition::DefinitionFaults>(())
//! ```
//!
//! Each of these modules opens with an example:
//! - [`tool`]: a tool is data; [`tool::catalog`] holds all of them and searches them
//! - [`tool::toolset`]: the tools of one query, merged and frozen
//! - [`tool::definition`]: validation of the tools that clients define
//! - [`tool::routing`], [`tool::wrapper`], [`tool::missing`]: the conventions of tools as configuration
//! - [`schema`]: validation of arguments; [`schema::dialect`]: the declarations that each model API gets

pub mod actor;
pub mod audit;
pub mod cache;
pub mod ceiling;
pub mod content;
pub mod conversation;
pub mod duration;
pub mod event;
pub mod fault;
pub mod hash;
pub mod head;
pub mod hex;
pub mod id;
mod id_serde;
pub mod journal;
#[cfg(test)]
mod journal_fixtures;
pub mod json;
pub mod machine;
pub mod message;
pub mod outcome;
pub mod percent;
pub mod query;
pub mod result_rendering;
pub mod schema;
pub mod team;
pub mod template;
pub mod text;
pub mod time;
pub mod tool;
pub mod trace;
pub mod transcript;
pub mod tree;
pub mod usage;

pub use actor::Actor;
pub use content::Content;
pub use event::{Entry, Event, Seq};
pub use fault::Fault;
pub use hash::ContentHash;
pub use head::{Head, Status};
pub use id::{CallId, Namespace, QueryName, QueryUid};
pub use outcome::Outcome;
pub use query::{QueryLimits, Spec};
pub use schema::Schema;
pub use time::Timestamp;
pub use tool::{Binding, Tool, toolset::Toolset};
pub use transcript::Transcript;
