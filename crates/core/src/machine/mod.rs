//! The state machine of a query.
//!
//! The functions here are the only code that decides what happens to a query. They are pure and total: they read a
//! [`Head`](crate::Head), the time and the input, and return [`Event`](crate::Event)s. The engine appends those to the
//! journal, folds them into the head, and only then does what [`next()`] says. There is no clock, no I/O and no store
//! here, and no state other than the head. Each transition has a file of its own.

mod change;
mod child;
mod claim;
mod code;
mod decide;
mod deliver;
mod end;
mod expire;
mod hold;
mod loops;
mod next;
#[cfg(test)]
mod properties;
mod recover;
mod run;
#[cfg(test)]
mod tests;
mod turn;

pub use change::{change, clock_stepped};
pub use child::{ChildReport, child_ended, delegate, settle};
pub use claim::{LeaseState, claim, extend_claim};
pub use code::{failure_code, outcome_code, refusal_code, request_code};
pub use decide::{CallDecision, Decision, DecisionVerdict, decide, decide_each, rejected};
pub use deliver::{Delivery, DeliveryOutcome, DeliveryState, DeliveryTarget, DeliveryVerdict, deliver, delivery_state};
pub use end::{cancel, fail};
pub use expire::expire;
pub use hold::resume;
pub use loops::REPEATS_NOTICED;
pub use next::{Next, advance, next};
pub use recover::{
    CRASHES_ALONE, CRASHES_TOGETHER, Takeover, interrupt, is_hit, isolated_crashes, needs_isolation, recover,
};
pub use run::{ask_person, finish_call, leave_pending, start_call};
pub use turn::{AskedByModel, CallDisposition, ModelTurnReply, OutputCheck, end_turn};

/// How many times in a row a model whose answer does not match the schema is told why and asked again.
pub const MAX_REJECTIONS: u32 = 2;
