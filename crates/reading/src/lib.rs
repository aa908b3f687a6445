//! Reads files and bodies field by field and reports every fault with its place.
//!
//! A text becomes a [`Tree`]: [`yaml`] and [`toml`] parse into [`Node`]s that know their line and
//! column, and a `serde_json::Value` is a tree without places. [`Fields`] takes one mapping apart by
//! name and type, borrowed or, for the body of a request, consumed ([`Source`]), and a [`Report`]
//! collects what is wrong. A value of the wrong type is a fault and
//! then reads as absent, so that reading continues and one run shows every [`Fault`].
//!
//! [`spec`] has the tables of fields of ARK's kinds, which their readers and the description of the API share. [`tool`]
//! is the one reader of ARK's `kind: Tool`, and [`tool_config`] that of `tool-config.json`, for the server and for the
//! converters.

pub mod a2a_options;
pub mod approval;
mod fault;
mod fields;
mod node;
pub mod path;
mod place;
mod report;
mod source;
pub mod spec;
pub mod sse;
pub mod table;
pub mod toml;
pub mod tool;
pub mod tool_config;
mod value_source;
mod warning;
pub mod yaml;

pub use bosun_core::{
    fault::{Fault, FaultClass, SourcePlace},
    schema::path::Path,
};
pub use fault::Faults;
pub use fields::{Fields, Text, UnreadFields};
pub use node::{Data, Member, Node, Shape, Syntax, Tree};
pub use place::Locator;
pub use report::Report;
pub use source::{Object, Source};
pub use table::{Field, FieldTable};
pub use value_source::{named_values, value_source};
pub use warning::Warning;
