//! The driver of a query and its steps.
//!
//! [`driver`] asks the machine what is next and does it: a [`turn`] of the model, or [`dispatch`] of inside calls. A
//! query whose target is a tool has turns without a model ([`tool_target`]); one that a crash has hit may be retried in
//! [`isolation`]. A call that runs on elsewhere is [`pending`], and a call of [`terminate`] ends the query. In a query of
//! a [`team`], members take turns. What a client or another agent delivers is [`filtered`] when the model is sent it.

pub use terminate::TERMINATE;

pub(crate) mod dispatch;
pub(crate) mod documents;
pub(crate) mod driver;
mod filtered;
pub(crate) mod isolation;
pub(crate) mod pending;
mod progress;
pub(crate) mod result_cache;
pub(crate) mod spans;
pub(crate) mod team;
pub(crate) mod terminate;
pub(crate) mod tool_target;
pub(crate) mod toolset_cache;
pub(crate) mod turn;
