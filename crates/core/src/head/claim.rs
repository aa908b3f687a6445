//! The claim of a worker to an outside call.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::is_zero;
use crate::{Timestamp, event::CallRoute};

/// How a call is claimed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallClaim {
    /// Whether another worker may run it when a lease lapses.
    pub repeatable: bool,
    /// How many workers have claimed it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempts: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
}

impl CallClaim {
    /// The claim of a call that workers may run, before one has claimed it.
    pub(super) fn new(route: &CallRoute) -> Option<Self> {
        let CallRoute::Outside { claim, .. } = route else { return None };
        claim.map(|policy| Self { repeatable: policy.repeatable, attempts: 0, lease: None })
    }
}

/// A worker's claim to a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    pub token: Arc<str>,
    pub until: Timestamp,
}
