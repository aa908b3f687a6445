//! Why appends were rejected, for callers that ask later.
//!
//! Most appends are kept and need no entry. Rejections are few and are asked about soon or never, so a bounded number
//! of them is kept. Older ones are answered with "not known", which every writer must be able to handle anyway: it
//! loads the query and checks.

use std::{collections::BTreeMap, error::Error, sync::Arc};

use bosun_core::{QueryName, QueryUid};

use super::{Position, StoreError};

/// How many rejections are kept: seconds of nothing but conflicts, at a few megabytes.
const REMEMBERED: usize = 65_536;

/// Why an append was rejected; every caller gets the same answer.
#[derive(Clone, Debug)]
pub enum Rejection {
    Conflict(QueryUid),
    NameTaken(QueryName),
    RequestTaken,
    ConversationBusy(String),
    Fenced,
    Unavailable(Arc<dyn Error + Send + Sync>),
}

impl From<Rejection> for StoreError {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::Conflict(uid) => Self::Conflict(uid),
            Rejection::NameTaken(name) => Self::NameTaken(name),
            Rejection::RequestTaken => Self::RequestTaken,
            Rejection::ConversationBusy(id) => Self::ConversationBusy(id),
            Rejection::Fenced => Self::Fenced,
            Rejection::Unavailable(cause) => Self::Unavailable(Box::new(cause)),
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("whether this old write was kept is no longer known")]
struct Forgotten;

/// The rejected appends.
#[derive(Debug, Default)]
pub struct Rejections {
    remembered: BTreeMap<Position, Rejection>,
    /// Up to this position, rejections have been evicted.
    forgotten: Position,
}

impl Rejections {
    pub fn record(&mut self, position: Position, rejection: Rejection) {
        self.remembered.insert(position, rejection);
        if self.remembered.len() > REMEMBERED
            && let Some((oldest, _)) = self.remembered.pop_first()
        {
            self.forgotten = oldest;
        }
    }

    /// Whether the append at `position` was kept, if that has been decided. Position zero always was.
    ///
    /// # Errors
    /// With the reason why it was not, or [`Rejection::Unavailable`] if that is no longer known.
    pub fn check(&self, position: Position) -> Result<(), Rejection> {
        match self.remembered.get(&position) {
            Some(rejection) => Err(rejection.clone()),
            None if position != Position::default() && position <= self.forgotten => {
                Err(Rejection::Unavailable(Arc::new(Forgotten)))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_append_that_was_not_rejected_was_kept() {
        let mut rejections = Rejections::default();
        rejections.record(Position(3), Rejection::Fenced);
        assert!(rejections.check(Position(0)).is_ok());
        assert!(rejections.check(Position(2)).is_ok());
        assert!(matches!(rejections.check(Position(3)), Err(Rejection::Fenced)));
        assert!(rejections.check(Position(4)).is_ok());
    }

    #[test]
    fn the_number_of_rejections_is_bounded_and_evicted_ones_are_not_reported_as_kept() {
        let mut rejections = Rejections::default();
        for position in 1..=REMEMBERED as u64 + 1 {
            rejections.record(Position(position), Rejection::Fenced);
        }
        assert_eq!(rejections.remembered.len(), REMEMBERED);
        assert!(rejections.check(Position(0)).is_ok());
        assert!(matches!(rejections.check(Position(1)), Err(Rejection::Unavailable(_))));
        assert!(matches!(rejections.check(Position(2)), Err(Rejection::Fenced)));
    }
}
