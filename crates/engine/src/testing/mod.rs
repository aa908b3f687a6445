//! Test kit, and the contracts of the back ends.
//!
//! Nothing here is a mock: [`ScriptedModel`] and [`CallLedger`] are real implementations of the traits that follow a script
//! and record what they did.

#[doc(hidden)]
pub mod append_clauses;
pub mod blob_contract;
mod clock;
#[doc(hidden)]
pub mod content_clauses;
#[doc(hidden)]
pub mod conversation_clauses;
#[doc(hidden)]
pub mod finding_clauses;
mod ledger;
pub mod query_writer;
#[doc(hidden)]
pub mod record_clauses;
#[doc(hidden)]
pub mod removal_clauses;
mod scripted_model;
pub mod store_contract;
#[doc(hidden)]
pub mod webhook_clauses;
mod withheld_tool;

pub use clock::TokioClock;
pub use ledger::{CallLedger, LedgerRequest, LedgerRun};
pub use scripted_model::{ScriptedModel, ScriptedTurn};
pub use withheld_tool::WithheldTool;
