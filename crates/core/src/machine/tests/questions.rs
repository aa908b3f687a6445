//! Questions of calls that continue elsewhere, and the answers to them.

use std::sync::Arc;

use serde_json::json;

use super::{NOW, after_turn, apply, inside, ok, post, to_call};
use crate::{
    Event, Head, Outcome, Status,
    event::CallQuestion,
    head::CallState,
    machine::{DeliveryVerdict, Next, advance, ask_person, expire, leave_pending, next, start_call},
};

/// A query whose only call has asked a person.
fn questioned() -> Head {
    let mut head = after_turn(vec![inside("a", false)]);
    let call = head.calls[0].id;
    let events = start_call(&head, call);
    apply(&mut head, NOW, events);
    ask(&mut head);
    head
}

fn ask(head: &mut Head) {
    let question = CallQuestion { text: "Which?".into(), needs_authorization: false, data: Vec::new() };
    let call = head.calls[0].id;
    let deadline = NOW.after(head.limits.approval_timeout);
    let events = ask_person(head, call, Arc::new(json!({})), Arc::new(question), deadline);
    assert_eq!(events.len(), 1, "it was running");
    apply(head, NOW, events);
}

#[test]
fn an_answer_continues_the_call_and_is_accepted_once() {
    let mut head = questioned();
    let call = head.calls[0].id;
    assert_eq!((head.status(), next(&head)), (Status::AwaitingParameters, Next::Wait));
    let (rome, oslo) = (to_call(&head, 0, ok("Rome")), to_call(&head, 0, ok("Oslo")));
    assert_eq!(post(&mut head, rome.clone()), DeliveryVerdict::Accepted(call));
    assert_eq!((head.status(), next(&head)), (Status::Running, Next::Calls(vec![call])));
    assert_eq!(post(&mut head, rome.clone()), DeliveryVerdict::Replayed(call));
    assert_eq!(post(&mut head, oslo), DeliveryVerdict::AlreadyResolved(call));
    let events = advance(&head);
    assert_eq!(events, [Event::CallStarted { call, attempt: 2 }], "passing it on may be repeated");
    apply(&mut head, NOW, events);
    let events = leave_pending(&head, call, Arc::new(json!({})), NOW, NOW.after(head.limits.external_timeout));
    apply(&mut head, NOW, events);
    assert_eq!(post(&mut head, rome.clone()), DeliveryVerdict::Replayed(call), "while it runs on");
    let events = expire(&head, NOW);
    apply(&mut head, NOW, events);
    let events = advance(&head);
    apply(&mut head, NOW, events);
    // Another question of the same call may have the same answer.
    ask(&mut head);
    assert_eq!(post(&mut head, rome), DeliveryVerdict::Accepted(call));
}

#[test]
fn a_failure_declines_and_ends_the_call() {
    let mut head = questioned();
    let call = head.calls[0].id;
    let declined = to_call(&head, 0, Outcome::failure("declined", "no"));
    assert_eq!(post(&mut head, declined), DeliveryVerdict::Accepted(call));
    assert!(matches!(head.calls[0].state, CallState::Resolved { .. }), "{:?}", head.calls[0].state);
    assert!(matches!(next(&head), Next::Turn { .. }));
}

#[test]
fn a_question_without_an_answer_expires_with_the_deadline_of_people() {
    let mut head = questioned();
    let late = NOW.after(head.limits.approval_timeout);
    assert_eq!(head.deadline(), Some(late));
    assert_eq!(expire(&head, NOW), []);
    let events = expire(&head, late);
    assert_eq!(events, [Event::CallExpired { call: head.calls[0].id }]);
    apply(&mut head, late, events);
    assert_eq!(head.calls[0].state, CallState::Expired);
}
