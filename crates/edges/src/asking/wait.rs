//! How long a request may wait for the next state of a query before it is answered.

use std::time::Duration;

use bosun_core::ceiling;

/// The wait of a client that does not say how long: less than the 30 s after which many clients time out.
pub(crate) const DEFAULT_WAIT: Duration = Duration::from_secs(25);
/// No request waits longer.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(ceiling::WAIT_SECONDS as u64);
