//! Loop detection.

use super::failure_code;
use crate::{Event, Head, Outcome, head::CallHead};

/// Number of turns with the same call and the same result after which the model is warned of a loop; one more turn
/// fails the query.
pub const REPEATS_NOTICED: usize = 3;

/// What the recorded outcome of `call` means for a model that repeats itself. Polling is not a loop:
/// only an equal *result* counts.
pub(super) fn notice_loop(head: &Head, call: &CallHead, outcome: &Outcome) -> Option<Event> {
    if head.repeats_of(call, outcome) + 1 < REPEATS_NOTICED {
        return None;
    }
    // Within one turn the model has not seen the earlier result yet: only turns count.
    let turns = head.repeated_turns(call, outcome)?;
    match turns.cmp(&REPEATS_NOTICED) {
        std::cmp::Ordering::Less => None,
        std::cmp::Ordering::Equal => Some(Event::LoopNoticed { call: call.id }),
        std::cmp::Ordering::Greater => Some(Event::Failed {
            code: failure_code::TOOL_LOOP.into(),
            message: format!("tool `{}` was called in {turns} turns with the same arguments and result", call.tool),
        }),
    }
}
