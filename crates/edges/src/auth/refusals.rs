//! Refused requests in the audit log, rate-limited.
//!
//! A key that is refused, and all callers without a key together, leave at most [`RECORDED`] records a minute.
//! Further refusals are counted, and the count is recorded with the first refusal after that minute. So an attempt to
//! guess a key is visible, and does not flood the log.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bosun_core::{
    Actor, Timestamp,
    audit::{Action, AuditRecord},
};

use crate::http::error::Code;

/// Records of one caller within one window.
const RECORDED: u64 = 10;
const WINDOW: Duration = Duration::from_secs(60);
/// Callers that are distinguished within a window; further ones are counted together.
const CALLERS: usize = 1_024;

/// Recent refusals, counted by caller.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    /// By the name of the caller; `None` is all unauthenticated callers.
    windows: Mutex<HashMap<Option<Arc<str>>, RefusalWindow>>,
}

#[derive(Debug)]
struct RefusalWindow {
    actor: Option<Actor>,
    began: Timestamp,
    count: u64,
}

impl RefusalWindow {
    fn is_over(&self, now: Timestamp) -> bool {
        // A clock that was set back would otherwise keep a window open forever.
        now >= self.began.after(WINDOW) || now < self.began
    }

    /// The record of the refusals that were only counted.
    fn to_record(&self, now: Timestamp) -> Option<AuditRecord> {
        let suppressed = self.count.checked_sub(RECORDED).filter(|suppressed| *suppressed > 0)?;
        let detail = format!("{suppressed} further refusals within a minute");
        Some(AuditRecord::of_act(now, Action::AccessRefused, self.actor.as_ref(), Some(detail)))
    }
}

impl Refusals {
    /// The records to write now that this caller was refused.
    pub(crate) fn note(&self, now: Timestamp, actor: Option<&Actor>, code: Code, route: String) -> Vec<AuditRecord> {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let mut records = Vec::new();
        windows.retain(|_, window| {
            let is_over = window.is_over(now);
            records.extend(window.to_record(now).filter(|_| is_over));
            !is_over
        });
        let name = actor.map(Actor::name);
        let is_distinguished = windows.contains_key(&name) || windows.len() < CALLERS;
        let (name, counted) = if is_distinguished { (name, actor) } else { (None, None) };
        let window =
            windows.entry(name).or_insert_with(|| RefusalWindow { actor: counted.cloned(), began: now, count: 0 });
        window.count += 1;
        if window.count <= RECORDED {
            records.push(AuditRecord::of_refused_access(now, actor, code.as_str(), route));
        }
        records
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_above_the_limit_share_a_count() {
        let refusals = Refusals::default();
        let now = Timestamp(1_000);
        let mut recorded = 0;
        for number in 0..3 * CALLERS {
            let actor = Actor::of_key(&format!("key-{number}")).unwrap();
            recorded += refusals.note(now, Some(&actor), Code::RightMissing, "GET /".into()).len();
        }
        assert!(recorded <= CALLERS + 10, "{recorded}");
        assert!(refusals.windows.lock().unwrap().len() <= CALLERS + 1);
        let later = refusals.note(now.after(WINDOW), None, Code::Unauthorized, "GET /".into());
        assert_eq!(later.len(), 2, "the count of the others, and the new one");
        assert_eq!(refusals.windows.lock().unwrap().len(), 1);
    }
}
