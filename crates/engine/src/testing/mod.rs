//! Test kit, and the contracts of the back ends.
//!
//! Nothing here is a mock: [`ScriptedModel`] and [`CallLedger`] are real implementations of the traits that follow a script
//! and record what they did.

mod append_clauses;
pub mod blob_contract;
mod clock;
mod content_clauses;
mod conversation_clauses;
mod finding_clauses;
mod ledger;
mod record_clauses;
mod removal_clauses;
pub mod scribe;
mod scripted_model;
pub mod store_contract;

pub use clock::TokioClock;
pub use ledger::{CallLedger, LedgerRun};
pub use scripted_model::{ScriptedModel, ScriptedTurn};
