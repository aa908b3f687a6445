//! Loops: the same call with the same result in turn after turn.

use super::{NOW, apply, created, ok, outside, post, to_call, turn};
use crate::{
    Actor, Event, QueryLimits, Status,
    machine::{Delivery, DeliveryTarget, Next, deliver, next},
};

#[test]
fn a_repeated_call_and_result_warns_at_three_turns_and_fails_at_four() {
    let mut head = created(QueryLimits { max_tool_calls: 100, ..QueryLimits::default() });
    for round in 1..=4 {
        turn(&mut head, vec![outside("a")]);
        let id = head.calls.last().unwrap().id;
        let delivered = deliver(
            &head,
            NOW,
            vec![Delivery { target: DeliveryTarget::Call(id), outcome: ok("same"), took: None }],
            false,
            &Actor::local(),
        );
        let noticed = delivered.events.iter().any(|event| matches!(event, Event::LoopNoticed { .. }));
        assert_eq!(noticed, round == 3, "round {round}");
        apply(&mut head, NOW, delivered.events);
        assert_eq!(head.status() == Status::Failed, round == 4, "round {round}");
    }
}

/// Runs turns with this many calls of the client's tool `a`, always with the same result. Returns how often the model
/// was warned, and whether the query has failed.
fn looping(calls_of_turns: &[usize]) -> (usize, bool) {
    let mut head = created(QueryLimits { max_tool_calls: 100, ..QueryLimits::default() });
    let mut warnings = 0;
    for calls in calls_of_turns {
        assert!(!head.status().is_final(), "already ended: {calls_of_turns:?}");
        let earlier = head.calls.len();
        turn(&mut head, vec![outside("a"); *calls]);
        for index in earlier..head.calls.len() {
            let delivered = deliver(&head, NOW, vec![to_call(&head, index, ok("same"))], false, &Actor::local());
            warnings += delivered.events.iter().filter(|event| matches!(event, Event::LoopNoticed { .. })).count();
            apply(&mut head, NOW, delivered.events);
        }
    }
    (warnings, head.status() == Status::Failed)
}

#[test]
fn equal_calls_of_one_turn_count_once() {
    for (calls_of_turns, expect) in [
        (&[4][..], (0, false)),
        (&[20], (0, false)),
        (&[2, 2], (0, false)),
        (&[1, 1, 1], (1, false)),
        (&[4, 4, 4], (1, false)),
        (&[1, 1, 1, 1], (1, true)),
        (&[3, 2, 1, 2], (1, true)),
    ] {
        assert_eq!(looping(calls_of_turns), expect, "{calls_of_turns:?}");
    }
}

#[test]
fn polling_is_not_a_loop() {
    let mut head = created(QueryLimits { max_tool_calls: 100, ..QueryLimits::default() });
    for round in 0..20 {
        turn(&mut head, vec![outside("a")]);
        let delivery = to_call(&head, round, ok(&round.to_string()));
        post(&mut head, delivery);
    }
    assert!(matches!(next(&head), Next::Turn { tools: true, .. }));
}
