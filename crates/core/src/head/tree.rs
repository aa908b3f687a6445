//! What a head knows of the tree that its query belongs to.

use serde::{Deserialize, Serialize};

use super::{CallHead, Head, WaitingOn};
use crate::{CallId, Timestamp, tree::Spent};

/// What the end of a query still has to reach.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unsettled {
    /// The calls that waited for children when the query ended: these are to be cancelled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<CallId>,
}

impl Head {
    /// The calls that wait for the end of a query of their own.
    pub fn child_calls(&self) -> impl Iterator<Item = &CallHead> {
        self.waiting_on(|on| on == WaitingOn::Child).map(|(call, _)| call)
    }

    /// The calls that count against the limit of calls. The members of a team speak because it is their turn, not because
    /// a model calls them; `maxTurns` limits them.
    #[must_use]
    pub fn counted_calls(&self) -> u32 {
        if self.is_team { 0 } else { u32::try_from(self.calls.len()).unwrap_or(u32::MAX) }
    }

    /// Whether other queries use the same budget. A query whose children have used nothing has it for itself.
    #[must_use]
    pub fn is_in_tree(&self) -> bool {
        self.lineage.is_some() || !self.below.is_zero() || self.child_calls().next().is_some()
    }

    /// What the query itself has used.
    #[must_use]
    pub fn own_spent(&self, now: Timestamp) -> Spent {
        let running_ms = u64::try_from(self.clock.spent(now).as_millis()).unwrap_or(u64::MAX);
        Spent { calls: self.counted_calls(), tokens: self.usage.total(), running_ms, usage: self.usage }
    }

    /// What the query and its ended children have used.
    #[must_use]
    pub fn spent(&self, now: Timestamp) -> Spent {
        let mut spent = self.own_spent(now);
        spent += self.below;
        spent
    }
}
