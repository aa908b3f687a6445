//! Deadlines of outside calls and of holds.

use std::time::Duration;

use super::{NOW, after_turn, apply, asked, ok, outside, to_call};
use crate::{
    Actor, Event, QueryLimits, Timestamp,
    head::{Waiting, WaitingOn},
    machine::{CallDisposition, DeliveryState, DeliveryVerdict, Next, deliver, delivery_state, expire, next, resume},
};

#[test]
fn a_late_result_is_late_even_before_the_sweep() {
    let mut head = after_turn(vec![outside("a")]);
    let id = head.calls[0].id;
    let at = NOW.after(Duration::from_secs(60));
    let delivered = deliver(&head, at, vec![to_call(&head, 0, ok("1"))], false, &Actor::local());
    assert_eq!(delivered.verdicts, [DeliveryVerdict::Expired(id)]);
    assert_eq!(delivered.events, [Event::CallExpired { call: id }]);
    apply(&mut head, at, delivered.events);
    assert!(matches!(next(&head), Next::Turn { turn: 2, .. }), "the model reads the timeout");
    assert_eq!(expire(&head, at), []);
}

#[test]
fn the_sweep_expires_only_what_is_due() {
    let head = after_turn(vec![
        asked("slow", CallDisposition::Outside { timeout: Duration::from_secs(90) }),
        outside("quick"),
    ]);
    let quick = head.calls[1].id;
    assert_eq!(expire(&head, NOW.after(Duration::from_secs(59))), []);
    assert_eq!(expire(&head, NOW.after(Duration::from_secs(60))), [Event::CallExpired { call: quick }]);
}

#[test]
fn a_result_after_an_expired_hold_is_late_even_before_the_sweep() {
    let mut head = after_turn(vec![outside("a"), outside("b")]);
    let delivered = deliver(&head, NOW, vec![to_call(&head, 0, ok("1"))], true, &Actor::local());
    apply(&mut head, NOW, delivered.events);
    // Shorter than the wait of the other call, which would otherwise expire first.
    head.hold = Some(Waiting { on: WaitingOn::Client, deadline: NOW.after(Duration::from_secs(30)) });
    let late = NOW.after(Duration::from_secs(30));
    assert_eq!(resume(&head, late, &Actor::local()), []);
    assert_eq!(resume(&head, Timestamp(late.0 - 1), &Actor::local()).len(), 1);
    let b = head.calls[1].id;
    assert_eq!(delivery_state(&head, late, b), DeliveryState::Cancelled);
    let delivered = deliver(&head, late, vec![to_call(&head, 1, ok("2"))], false, &Actor::local());
    assert_eq!(delivered.verdicts, [DeliveryVerdict::Cancelled(b)]);
    assert!(matches!(&delivered.events[..], [Event::Failed { code, .. }] if code == "hold_expired"));
}

#[test]
fn a_hold_that_is_not_continued_fails_the_query() {
    let mut head = after_turn(vec![outside("a")]);
    let delivered = deliver(&head, NOW, vec![to_call(&head, 0, ok("1"))], true, &Actor::local());
    apply(&mut head, NOW, delivered.events);
    let late = NOW.after(QueryLimits::default().external_timeout);
    let events = expire(&head, late);
    assert!(matches!(&events[..], [Event::Failed { code, .. }] if code == "hold_expired"));
}
