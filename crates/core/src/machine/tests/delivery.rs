//! Results from outside, and holds.

use super::{NOW, after_turn, apply, inside, ok, outside, post, to_call, to_tool, turn};
use crate::{
    Actor, CallId, Event, Head, QueryLimits, QueryUid, Status,
    machine::{Delivery, DeliveryTarget, DeliveryVerdict, Next, deliver, next, resume},
};

#[test]
fn a_result_is_accepted_once() {
    let mut head = after_turn(vec![outside("a"), outside("b")]);
    let id = head.calls[0].id;
    let (same, other) = (to_call(&head, 0, ok("1")), to_call(&head, 0, ok("2")));
    assert_eq!(post(&mut head, same.clone()), DeliveryVerdict::Accepted(id));
    assert_eq!(post(&mut head, same), DeliveryVerdict::Replayed(id));
    assert_eq!(post(&mut head, other), DeliveryVerdict::AlreadyResolved(id));
    assert_eq!(head.status(), Status::Waiting, "b is still open");
}

#[test]
fn unknown_and_inside_calls_get_the_same_verdict() {
    let mut head = after_turn(vec![inside("a", true), outside("b")]);
    let foreign = DeliveryTarget::Call(CallId::derive(QueryUid::new(9, [9; 10]), 1, 0));
    assert_eq!(post(&mut head, Delivery { target: foreign, outcome: ok("1"), took: None }), DeliveryVerdict::Unknown);
    let inside = to_call(&head, 0, ok("1"));
    assert_eq!(post(&mut head, inside), DeliveryVerdict::Unknown);
}

#[test]
fn a_result_by_name_needs_exactly_one_waiting_call() {
    let mut head = after_turn(vec![outside("a"), outside("a"), outside("b")]);
    assert_eq!(post(&mut head, to_tool("a", ok("1"))), DeliveryVerdict::Ambiguous);
    assert_eq!(post(&mut head, to_tool("c", ok("1"))), DeliveryVerdict::NotWaiting);
    let b = head.calls[2].id;
    assert_eq!(post(&mut head, to_tool("b", ok("1"))), DeliveryVerdict::Accepted(b));
    assert_eq!(post(&mut head, to_tool("b", ok("1"))), DeliveryVerdict::Replayed(b));
    assert_eq!(post(&mut head, to_tool("b", ok("2"))), DeliveryVerdict::NotWaiting);
}

#[test]
fn a_repeated_post_by_name_never_answers_the_next_call() {
    let mut head = after_turn(vec![outside("a")]);
    let first = head.calls[0].id;
    assert_eq!(post(&mut head, to_tool("a", ok("1"))), DeliveryVerdict::Accepted(first));
    turn(&mut head, vec![outside("a")]);
    assert_eq!(post(&mut head, to_tool("a", ok("1"))), DeliveryVerdict::Replayed(first));
    assert_eq!(head.status(), Status::Waiting);
    let second = head.calls[1].id;
    assert_eq!(post(&mut head, to_tool("a", ok("2"))), DeliveryVerdict::Accepted(second));
}

#[test]
fn one_late_result_does_not_reject_the_others_of_its_batch() {
    let mut head = after_turn(vec![outside("a"), outside("b")]);
    let (a, b) = (head.calls[0].id, head.calls[1].id);
    let events = expire_call(&head, a);
    apply(&mut head, NOW, events);
    let batch = vec![to_call(&head, 0, ok("1")), to_call(&head, 1, ok("2")), to_call(&head, 1, ok("3"))];
    let delivered = deliver(&head, NOW, batch, false, &Actor::local());
    assert_eq!(
        delivered.verdicts,
        [DeliveryVerdict::Expired(a), DeliveryVerdict::Accepted(b), DeliveryVerdict::AlreadyResolved(b)]
    );
    assert_eq!(
        delivered.events,
        [Event::CallResolved { call: b, outcome: ok("2").into(), by: Actor::local(), took_ms: None }]
    );
}

fn expire_call(_: &Head, call: CallId) -> Vec<Event> {
    vec![Event::CallExpired { call }]
}

#[test]
fn a_hold_keeps_the_query_until_a_client_continues_it() {
    let mut head = after_turn(vec![outside("a")]);
    let delivered = deliver(&head, NOW, vec![to_call(&head, 0, ok("1"))], true, &Actor::local());
    apply(&mut head, NOW, delivered.events);
    assert_eq!((head.status(), next(&head)), (Status::Held, Next::Wait));
    assert_eq!(head.deadline(), Some(NOW.after(QueryLimits::default().external_timeout)));
    let events = resume(&head, NOW, &Actor::local());
    apply(&mut head, NOW, events);
    assert!(matches!(next(&head), Next::Turn { turn: 2, .. }));
    assert_eq!(resume(&head, NOW, &Actor::local()), []);
}

#[test]
fn a_later_post_ends_a_hold() {
    let mut head = after_turn(vec![outside("a"), outside("b")]);
    let delivered = deliver(&head, NOW, vec![to_call(&head, 0, ok("1"))], true, &Actor::local());
    apply(&mut head, NOW, delivered.events);
    assert_eq!(head.status(), Status::Waiting, "b is still open");
    let delivery = to_call(&head, 1, ok("2"));
    post(&mut head, delivery);
    assert!(matches!(next(&head), Next::Turn { turn: 2, .. }));
}
