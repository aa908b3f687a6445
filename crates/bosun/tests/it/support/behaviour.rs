//! How the clients of a workload behave, and in which scenarios.

use super::scenarios::Scenario;

/// What a client does with one query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientBehaviour {
    /// Answers each call once.
    Plain,
    /// Sends the same result twice at once.
    Twice,
    /// Sends two different results at once.
    Rivals,
    /// Disconnects before it is answered, and reconnects with the same result.
    Lost,
    /// Names the tool instead of the call, as the RFC does.
    ByName,
    /// All results in one post.
    Batch,
    /// Writes a text where it should decide, which rejects every open approval of the tree.
    Text,
    /// Holds the query, and continues it.
    Hold,
    /// Never answers, waits for the deadline, and posts too late.
    Late,
    /// Cancels.
    Cancel,
    /// Cancels and answers at once.
    CancelRace,
    /// Deletes the query, whatever it is doing.
    Delete,
    /// Changes the query when it is accepted, while it waits, and once more when it has ended.
    Change,
}

const IN_TREES_WITH_APPROVALS: &[ClientBehaviour] = &[
    ClientBehaviour::Plain,
    ClientBehaviour::Twice,
    ClientBehaviour::Rivals,
    ClientBehaviour::Lost,
    ClientBehaviour::ByName,
    ClientBehaviour::Text,
    ClientBehaviour::Late,
    ClientBehaviour::Cancel,
    ClientBehaviour::CancelRace,
    ClientBehaviour::Change,
];

/// The behaviours of the clients in each scenario.
pub(crate) const BEHAVIOURS: &[(Scenario, &[ClientBehaviour])] = &[
    (
        Scenario::Outside,
        &[
            ClientBehaviour::Plain,
            ClientBehaviour::Twice,
            ClientBehaviour::Rivals,
            ClientBehaviour::Lost,
            ClientBehaviour::ByName,
            ClientBehaviour::Hold,
            ClientBehaviour::Late,
            ClientBehaviour::Cancel,
            ClientBehaviour::CancelRace,
            ClientBehaviour::Delete,
            ClientBehaviour::Change,
        ],
    ),
    (
        Scenario::Pair,
        &[
            ClientBehaviour::Plain,
            ClientBehaviour::Twice,
            ClientBehaviour::Rivals,
            ClientBehaviour::Lost,
            ClientBehaviour::Batch,
            ClientBehaviour::Hold,
            ClientBehaviour::Change,
        ],
    ),
    (
        Scenario::Hybrid,
        &[
            ClientBehaviour::Plain,
            ClientBehaviour::Twice,
            ClientBehaviour::Lost,
            ClientBehaviour::ByName,
            ClientBehaviour::CancelRace,
        ],
    ),
    (Scenario::Inside, &[ClientBehaviour::Plain, ClientBehaviour::Lost]),
    (Scenario::Pending, &[ClientBehaviour::Plain, ClientBehaviour::Lost]),
    (
        Scenario::Approval,
        &[
            ClientBehaviour::Plain,
            ClientBehaviour::Twice,
            ClientBehaviour::Rivals,
            ClientBehaviour::Lost,
            ClientBehaviour::Text,
            ClientBehaviour::Cancel,
            ClientBehaviour::Late,
            ClientBehaviour::Change,
        ],
    ),
    (Scenario::GuardedTree, IN_TREES_WITH_APPROVALS),
    (Scenario::Team, IN_TREES_WITH_APPROVALS),
    (
        Scenario::Tree,
        &[
            ClientBehaviour::Plain,
            ClientBehaviour::Twice,
            ClientBehaviour::Rivals,
            ClientBehaviour::Lost,
            ClientBehaviour::ByName,
            ClientBehaviour::Batch,
            ClientBehaviour::Late,
            ClientBehaviour::Cancel,
            ClientBehaviour::CancelRace,
            ClientBehaviour::Change,
        ],
    ),
    (Scenario::Text, &[ClientBehaviour::Plain, ClientBehaviour::Delete, ClientBehaviour::Change]),
];
