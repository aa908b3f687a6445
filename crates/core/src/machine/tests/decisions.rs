//! Approvals: a call that waits for a person, and what the person decides.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::{NOW, after_turn, apply, approved, inside, ok, outside, post, to_call};
use crate::{
    Actor, ContentHash, Event, Head, Status, Timestamp,
    head::Decided,
    json,
    machine::{
        CallDecision, Decision, DecisionVerdict, DeliveryVerdict, Next, cancel, decide, expire, next, start_call,
    },
};

fn approve(arguments: Option<Value>) -> Decision {
    Decision::Approved { arguments: arguments.map(Arc::new) }
}

fn reject(reason: &str) -> Decision {
    Decision::Rejected { reason: Some(reason.into()) }
}

/// Decides about the first call at `at`, and applies what follows.
fn decide_at(head: &mut Head, at: Timestamp, decision: Decision, seen: Option<ContentHash>) -> DecisionVerdict {
    let call = head.calls[0].id;
    let (events, verdict) = decide(head, at, CallDecision { call, decision, seen }, &Actor::of_key("boss").unwrap());
    apply(head, at, events);
    verdict
}

#[test]
fn an_approved_call_runs_once_and_not_before() {
    let mut head = after_turn(vec![approved("send_email", false)]);
    let call = head.calls[0].id;
    assert_eq!((head.status(), next(&head)), (Status::AwaitingApproval, Next::Wait));
    assert_eq!(start_call(&head, call), [], "it must not start before it is approved");
    assert_eq!(decide_at(&mut head, NOW, approve(None), None), DecisionVerdict::Accepted);
    assert_eq!((head.calls[0].decided, next(&head)), (Some(Decided::Approved), Next::Calls(vec![call])));
    assert_eq!(decide_at(&mut head, NOW, approve(None), None), DecisionVerdict::Replayed);
    let rejected = decide_at(&mut head, NOW, reject("no"), None);
    assert_eq!(rejected, DecisionVerdict::AlreadyDecided(Decided::Approved));
    let events = start_call(&head, call);
    assert_eq!(events.len(), 1);
    apply(&mut head, NOW, events);
    assert_eq!(decide_at(&mut head, NOW, approve(None), None), DecisionVerdict::Replayed, "it is not started again");
    assert_eq!(next(&head), Next::Busy);
}

#[test]
fn a_rejected_call_never_runs_and_the_model_continues() {
    let mut head = after_turn(vec![approved("send_email", true), inside("b", true)]);
    assert_eq!(decide_at(&mut head, NOW, reject("wrong address"), None), DecisionVerdict::Accepted);
    assert_eq!(start_call(&head, head.calls[0].id), []);
    assert_eq!(next(&head), Next::Calls(vec![head.calls[1].id]));
    assert_eq!(decide_at(&mut head, NOW, reject("another reason"), None), DecisionVerdict::Replayed);
    let approved = decide_at(&mut head, NOW, approve(None), None);
    assert_eq!(approved, DecisionVerdict::AlreadyDecided(Decided::Rejected));
}

#[test]
fn an_approval_is_for_the_arguments_that_were_seen() {
    let mut head = after_turn(vec![approved("send_email", false)]);
    let own = head.calls[0].arguments;
    let other = decide_at(&mut head, NOW, approve(None), Some(ContentHash::of(b"other")));
    assert_eq!((other, head.status()), (DecisionVerdict::OtherArguments, Status::AwaitingApproval));
    let edited = json!({"to": "ada"});
    assert_eq!(decide_at(&mut head, NOW, approve(Some(edited.clone())), Some(own)), DecisionVerdict::Accepted);
    assert_eq!(head.calls[0].arguments, json::content_hash(&edited));
    assert_eq!(decide_at(&mut head, NOW, approve(Some(edited)), Some(own)), DecisionVerdict::Replayed);
    let again = decide_at(&mut head, NOW, approve(Some(json!({"to": "eve"}))), Some(own));
    assert_eq!(again, DecisionVerdict::AlreadyDecided(Decided::Approved));
}

#[test]
fn arguments_that_come_back_unchanged_are_not_edited() {
    let head = after_turn(vec![approved("send_email", false)]);
    let (call, hash) = (head.calls[0].id, head.calls[0].arguments);
    let decided = CallDecision { call, decision: approve(Some(json!({}))), seen: None };
    let (events, _) = decide(&head, NOW, decided, &Actor::local());
    assert_eq!(events, [Event::CallApproved { call, hash, arguments: None, by: Actor::local() }]);
}

#[test]
fn a_late_decision_is_late_even_before_the_sweep() {
    let late = NOW.after(Duration::from_secs(60));
    let mut head = after_turn(vec![approved("send_email", false)]);
    assert_eq!(decide_at(&mut head, late, approve(None), None), DecisionVerdict::Expired);
    assert_eq!(decide_at(&mut head, late, approve(None), None), DecisionVerdict::Expired);
    assert!(matches!(next(&head), Next::Turn { turn: 2, .. }), "the model reads that it was not run");
    let head = after_turn(vec![approved("send_email", false)]);
    assert_eq!(expire(&head, Timestamp(late.0 - 1)), []);
    assert_eq!(expire(&head, late), [Event::CallExpired { call: head.calls[0].id }]);
}

#[test]
fn only_calls_that_wait_for_approval_can_be_decided() {
    let mut head = after_turn(vec![outside("a"), approved("b", false)]);
    assert_eq!(head.status(), Status::Waiting, "a client can do something");
    assert_eq!(decide_at(&mut head, NOW, approve(None), None), DecisionVerdict::NotAwaiting);
    let delivery = to_call(&head, 1, ok("forged"));
    assert_eq!(post(&mut head, delivery), DeliveryVerdict::Unknown, "a result is not an approval");
    let events = cancel(&head, None, &Actor::local());
    apply(&mut head, NOW, events);
    head.calls.swap(0, 1);
    assert_eq!(decide_at(&mut head, NOW, approve(None), None), DecisionVerdict::Cancelled);
}
