//! Waiting: what a query needs from outside the server, and until when.
//!
//! There is one mechanism for all of it. An open call waits for its client, for a person or for its runner, and a held
//! query waits for its client without a call. Each wait has a deadline, so no query waits forever; only that for a child
//! query has none, since everything that the child waits for has one. And
//! [`Head::waits`](super::Head::waits) lists all of them: status, deadline and the next step are derived from that list.

use serde::{Deserialize, Serialize};

use super::CallHead;
use crate::Timestamp;

/// One wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    #[serde(default, skip_serializing_if = "WaitingOn::is_client")]
    pub on: WaitingOn,
    /// When it ends without what it waits for.
    pub deadline: Timestamp,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitingOn {
    /// The client: the result of an outside call, or, without a call, the end of a hold.
    #[default]
    Client,
    /// A person who approves or rejects the call. If it is approved, it runs inside, and `repeatable` says whether it
    /// may be started again after a crash.
    Approval { repeatable: bool },
    /// The user's values for parameters that the model does not know. The client delivers them like a result.
    Parameters,
    /// The runner of a call that continues elsewhere: it is polled at `poll_at`. `attempt` is that of its start.
    Runner { poll_at: Timestamp, attempt: u32 },
    /// A person's answer to a question of a call that continues elsewhere. The client delivers it like a result, and the
    /// runner passes it on. `attempt` is that of the call's start.
    Answer { attempt: u32 },
    /// The end of the query that answers the call. It has no deadline of its own: each of the child's own waits has one.
    Child,
}

impl WaitingOn {
    fn is_client(&self) -> bool {
        *self == Self::Client
    }

    /// Whether the client ends it by delivering a result.
    #[must_use]
    pub fn is_delivered(self) -> bool {
        matches!(self, Self::Client | Self::Parameters | Self::Answer { .. })
    }

    /// Whether what is delivered ends the call. An answer continues it.
    #[must_use]
    pub fn is_resolved_by_delivery(self) -> bool {
        matches!(self, Self::Client | Self::Parameters)
    }
}

impl Waiting {
    /// The wait for the end of a child query.
    pub(crate) const CHILD: Self = Self { on: WaitingOn::Child, deadline: Timestamp(i64::MAX) };

    /// When the sweep has to act on it: to poll a runner, or to end the wait.
    #[must_use]
    pub fn due_at(self) -> Option<Timestamp> {
        match self.on {
            WaitingOn::Runner { poll_at, .. } => Some(poll_at.min(self.deadline)),
            WaitingOn::Client | WaitingOn::Approval { .. } | WaitingOn::Parameters | WaitingOn::Answer { .. } => {
                Some(self.deadline)
            }
            WaitingOn::Child => None,
        }
    }

    /// Whether the deadline has passed.
    #[must_use]
    pub fn is_over(self, now: Timestamp) -> bool {
        self.deadline <= now
    }
}

/// A wait, and the call that it belongs to; a hold has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryWait<'a> {
    pub call: Option<&'a CallHead>,
    pub waiting: Waiting,
}

/// A hold in the stored head: only its deadline, as it was written before there were other waits.
pub(super) mod hold {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{Waiting, WaitingOn};
    use crate::Timestamp;

    pub(in super::super) fn serialize<S: Serializer>(hold: &Option<Waiting>, serializer: S) -> Result<S::Ok, S::Error> {
        hold.map(|hold| hold.deadline).serialize(serializer)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Waiting>, D::Error> {
        let until = Option::<Timestamp>::deserialize(deserializer)?;
        Ok(until.map(|deadline| Waiting { on: WaitingOn::Client, deadline }))
    }
}
