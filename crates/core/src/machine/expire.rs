//! Deadlines: waits that end without what they waited for, and runners that are to be polled.

use super::{
    claim, failure_code,
    hold::{hold_expired, is_hold_expired},
};
use crate::{
    Event, Head, Timestamp,
    head::{CallHead, QueryWait, WaitingOn},
    query::ExpiryPolicy,
};

/// Applies deadlines. A hold that was not continued ends the query, and so does an expired call of the client if the
/// query does not continue without its result.
#[must_use]
pub fn expire(head: &Head, now: Timestamp) -> Vec<Event> {
    if head.status().is_final() {
        return Vec::new();
    }
    if is_hold_expired(head, now) {
        return vec![hold_expired()];
    }
    let mut events: Vec<_> = head.waits().filter_map(|wait| expire_wait(&wait, now)).collect();
    if let Some(failed) =
        head.outside_calls().filter(|(_, deadline)| *deadline <= now).find_map(|(call, _)| call_expired(head, call))
    {
        // Nothing follows the end of a query, so no runner is polled.
        events.retain(|event| matches!(event, Event::CallExpired { .. }));
        events.push(failed);
        return events;
    }
    events.extend(claim::lapsed(head, now));
    events
}

/// The end of a query that does not continue without the result of `call`.
pub(super) fn call_expired(head: &Head, call: &CallHead) -> Option<Event> {
    let (policy, owner) = match call.on_expired {
        Some(policy) => (policy, "tool"),
        None => (head.on_expired, "query"),
    };
    (policy == ExpiryPolicy::Fail).then(|| Event::Failed {
        code: failure_code::CALL_EXPIRED.into(),
        message: format!("no result for `{}` was delivered in time, and the {owner} has `onExpired: fail`", call.tool),
    })
}

fn expire_wait(wait: &QueryWait<'_>, now: Timestamp) -> Option<Event> {
    let call = wait.call?.id;
    match wait.waiting.on {
        _ if wait.waiting.is_over(now) => Some(Event::CallExpired { call }),
        WaitingOn::Runner { poll_at, .. } => (poll_at <= now).then_some(Event::CallDue { call }),
        WaitingOn::Client
        | WaitingOn::Approval { .. }
        | WaitingOn::Parameters
        | WaitingOn::Answer { .. }
        | WaitingOn::Child => None,
    }
}
