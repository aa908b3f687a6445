//! The state of one call.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    claim::CallClaim,
    waiting::{Waiting, WaitingOn},
};
use crate::{
    CallId, ContentHash, Timestamp,
    event::{AskedCall, CallRoute},
    json,
    query::ExpiryPolicy,
};

/// The part of a call that decides what happens next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallHead {
    pub id: CallId,
    pub tool: Arc<str>,
    /// The hash of the arguments that are run: after an approval, of those that were approved.
    pub arguments: ContentHash,
    pub state: CallState,
    /// What was decided about a call that waited for approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided: Option<Decided>,
    /// The hash of the last answer to a question of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered: Option<ContentHash>,
    /// Present if workers may claim the call. It counts while the call waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<CallClaim>,
    /// The policy of its tool; the query's own where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_expired: Option<ExpiryPolicy>,
}

/// A decision about a call. An approval is one of [`CallHead::arguments`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decided {
    Approved,
    Rejected,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case", from = "StoredCallState")]
pub enum CallState {
    /// To be run inside; `attempts` earlier starts were lost in crashes.
    Ready { repeatable: bool, attempts: u32 },
    /// Being run inside.
    Started { repeatable: bool, attempt: u32 },
    /// The server has nothing to do for it.
    Waiting(Waiting),
    /// Run inside, refused, or found in the cache.
    Finished { outcome: ContentHash },
    /// Delivered by the client.
    Resolved { outcome: ContentHash },
    /// The deadline of its wait has passed.
    Expired,
    /// The query ended first.
    Cancelled,
}

/// A state as it is stored, also by versions that had a state of their own for runners.
#[derive(Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
enum StoredCallState {
    Ready { repeatable: bool, attempts: u32 },
    Started { repeatable: bool, attempt: u32 },
    Pending { poll_at: Timestamp, deadline: Timestamp, attempt: u32 },
    Waiting(Waiting),
    Finished { outcome: ContentHash },
    Resolved { outcome: ContentHash },
    Expired,
    Cancelled,
}

impl From<StoredCallState> for CallState {
    fn from(stored: StoredCallState) -> Self {
        match stored {
            StoredCallState::Ready { repeatable, attempts } => Self::Ready { repeatable, attempts },
            StoredCallState::Started { repeatable, attempt } => Self::Started { repeatable, attempt },
            StoredCallState::Pending { poll_at, deadline, attempt } => {
                Self::Waiting(Waiting { on: WaitingOn::Runner { poll_at, attempt }, deadline })
            }
            StoredCallState::Waiting(waiting) => Self::Waiting(waiting),
            StoredCallState::Finished { outcome } => Self::Finished { outcome },
            StoredCallState::Resolved { outcome } => Self::Resolved { outcome },
            StoredCallState::Expired => Self::Expired,
            StoredCallState::Cancelled => Self::Cancelled,
        }
    }
}

impl CallState {
    /// Whether the call still lacks its one outcome.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Ready { .. } | Self::Started { .. } | Self::Waiting(_))
    }

    /// Whether a process is running the call, or is about to.
    pub(super) fn is_inside(self) -> bool {
        matches!(self, Self::Ready { .. } | Self::Started { .. })
    }

    /// What the call waits for, if it does.
    #[must_use]
    pub fn waiting(self) -> Option<Waiting> {
        if let Self::Waiting(waiting) = self { Some(waiting) } else { None }
    }

    /// The hash of the call's outcome, if it has one.
    pub(super) fn outcome(self) -> Option<ContentHash> {
        match self {
            Self::Finished { outcome } | Self::Resolved { outcome } => Some(outcome),
            Self::Ready { .. } | Self::Started { .. } | Self::Waiting(_) | Self::Expired | Self::Cancelled => None,
        }
    }
}

impl CallHead {
    pub(super) fn new(asked: &AskedCall) -> Self {
        let waiting = |on, deadline: &Timestamp| CallState::Waiting(Waiting { on, deadline: *deadline });
        let state = match &asked.route {
            CallRoute::Inside { repeatable } => CallState::Ready { repeatable: *repeatable, attempts: 0 },
            CallRoute::Outside { deadline, .. } => waiting(WaitingOn::Client, deadline),
            CallRoute::Approval { repeatable, deadline } => {
                waiting(WaitingOn::Approval { repeatable: *repeatable }, deadline)
            }
            CallRoute::Parameters { deadline } => waiting(WaitingOn::Parameters, deadline),
            CallRoute::Refused { .. } => {
                // A refusal always has an outcome; without one the call would have ended just as well.
                let outcome = asked.route.refusal().map(|refusal| refusal.content_hash());
                outcome.map_or(CallState::Cancelled, |outcome| CallState::Finished { outcome })
            }
            // Not `Resolved`: no client has delivered it, so no later delivery can be a replay of it.
            CallRoute::Cached { outcome, .. } => CallState::Finished { outcome: outcome.content_hash() },
        };
        Self {
            id: asked.call,
            tool: Arc::clone(&asked.tool),
            arguments: json::content_hash(&asked.arguments),
            state,
            decided: None,
            answered: None,
            claim: CallClaim::new(&asked.route),
            on_expired: asked.on_expired,
        }
    }

    /// Whether it is another call with the same tool and arguments.
    pub(super) fn is_alike(&self, call: &Self) -> bool {
        self.arguments == call.arguments && self.tool == call.tool && self.id != call.id
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(stored: Value, state: CallState, written: Value) {
        assert_eq!(serde_json::from_value::<CallState>(stored).unwrap(), state);
        assert_eq!(serde_json::to_value(state).unwrap(), written);
        assert_eq!(serde_json::from_value::<CallState>(written).unwrap(), state);
    }

    #[test]
    fn states_of_earlier_versions_are_read_as_waits() {
        let waiting = |on| CallState::Waiting(Waiting { on, deadline: Timestamp(9) });
        let outside = json!({"is": "waiting", "deadline": 9});
        check(outside.clone(), waiting(WaitingOn::Client), outside);
        check(
            json!({"is": "pending", "poll_at": 7, "deadline": 9, "attempt": 2}),
            waiting(WaitingOn::Runner { poll_at: Timestamp(7), attempt: 2 }),
            json!({"is": "waiting", "on": {"runner": {"poll_at": 7, "attempt": 2}}, "deadline": 9}),
        );
        let approval = json!({"is": "waiting", "on": {"approval": {"repeatable": false}}, "deadline": 9});
        check(approval.clone(), waiting(WaitingOn::Approval { repeatable: false }), approval);
        let parameters = json!({"is": "waiting", "on": "parameters", "deadline": 9});
        check(parameters.clone(), waiting(WaitingOn::Parameters), parameters);
        check(json!({"is": "expired"}), CallState::Expired, json!({"is": "expired"}));
    }
}
