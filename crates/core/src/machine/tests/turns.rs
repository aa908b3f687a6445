//! Turns: what the model is asked, and what its answer leads to.

use std::time::Duration;

use super::{NOW, after_turn, answer, apply, created, inside, ok, outside, post, reply, to_call, turn};
use crate::{
    Event, QueryLimits, Status,
    machine::{DeliveryVerdict, ModelTurnReply, Next, OutputCheck, failure_code, finish_call, next, start_call},
};

#[test]
fn a_new_query_asks_the_model_first() {
    let head = created(QueryLimits::default());
    assert_eq!(head.status(), Status::Queued);
    assert_eq!(next(&head), Next::Turn { turn: 1, attempt: 1, tools: true });
}

#[test]
fn an_answer_without_calls_completes_the_query() {
    let head = after_turn(vec![]);
    assert_eq!(head.status(), Status::Completed);
    assert_eq!(next(&head), Next::End);
}

#[test]
fn an_outside_call_makes_the_query_wait_and_its_result_wakes_the_model() {
    let mut head = after_turn(vec![outside("a")]);
    assert_eq!((head.status(), next(&head)), (Status::Waiting, Next::Wait));
    assert_eq!(head.deadline(), Some(NOW.after(Duration::from_secs(60))));
    let delivery = to_call(&head, 0, ok("1"));
    assert!(matches!(post(&mut head, delivery), DeliveryVerdict::Accepted(_)));
    assert_eq!(head.deadline(), None);
    assert_eq!(next(&head), Next::Turn { turn: 2, attempt: 1, tools: true });
}

#[test]
fn a_mixed_turn_waits_for_both_and_says_so_while_inside_calls_run() {
    let mut head = after_turn(vec![outside("a"), inside("b", true)]);
    let b = head.calls[1].id;
    assert_eq!(head.status(), Status::Waiting);
    assert_eq!(next(&head), Next::Calls(vec![b]));
    let events = start_call(&head, b);
    apply(&mut head, NOW, events);
    assert_eq!(next(&head), Next::Busy);
    let delivery = to_call(&head, 0, ok("1"));
    post(&mut head, delivery);
    assert_eq!((head.status(), next(&head)), (Status::Running, Next::Busy));
    let events = finish_call(&head, b, ok("2"));
    apply(&mut head, NOW, events);
    assert!(matches!(next(&head), Next::Turn { turn: 2, .. }));
}

#[test]
fn a_call_beyond_the_limit_is_refused_and_the_next_turn_has_no_tools() {
    let mut head = created(QueryLimits { max_tool_calls: 2, ..QueryLimits::default() });
    turn(&mut head, vec![outside("a"), outside("b"), outside("c")]);
    assert_eq!(head.outside_calls().count(), 2);
    for index in 0..2 {
        let delivery = to_call(&head, index, ok("1"));
        post(&mut head, delivery);
    }
    assert_eq!(next(&head), Next::Turn { turn: 2, attempt: 1, tools: false });
    turn(&mut head, vec![outside("a")]);
    assert_eq!(head.status(), Status::Failed);
}

#[test]
fn exactly_as_many_calls_as_allowed_keep_the_tools() {
    let mut head = created(QueryLimits { max_tool_calls: 1, ..QueryLimits::default() });
    turn(&mut head, vec![outside("a")]);
    let delivery = to_call(&head, 0, ok("1"));
    post(&mut head, delivery);
    assert_eq!(next(&head), Next::Turn { turn: 2, attempt: 1, tools: true });
    turn(&mut head, vec![]);
    assert_eq!(head.status(), Status::Completed);
}

#[test]
fn the_token_limit_fails_a_query_that_needs_another_turn_only() {
    let each = reply(vec![]).usage.total();
    for (limit, turns) in [(1, 1), (each, 1), (each + 1, 2), (2 * each, 2), (2 * each + 1, 3)] {
        let mut head = created(QueryLimits { max_tokens: Some(limit), ..QueryLimits::default() });
        for round in 1..turns {
            turn(&mut head, vec![outside("a")]);
            let delivery = to_call(&head, round - 1, ok(&round.to_string()));
            post(&mut head, delivery);
            assert!(matches!(next(&head), Next::Turn { .. }), "limit {limit}, round {round}");
        }
        let mut done = head.clone();
        turn(&mut done, vec![]);
        assert_eq!(done.status(), Status::Completed, "limit {limit}: the answer is kept");
        turn(&mut head, vec![outside("a")]);
        assert_eq!(
            (head.status(), head.calls.len()),
            (Status::Failed, turns - 1),
            "limit {limit}: no call is handed out"
        );
    }
}

fn misfit() -> ModelTurnReply {
    ModelTurnReply { output: OutputCheck::Misfits("no".into()), ..reply(Vec::new()) }
}

#[test]
fn an_invalid_answer_is_rejected_twice_and_then_fails_the_query() {
    let mut head = created(QueryLimits::default());
    for turn in 2..=3 {
        let events = answer(&mut head, misfit());
        assert!(matches!(&events[..], [Event::TurnEnded { rejected: Some(why), .. }] if why == "no"), "{events:?}");
        assert_eq!(next(&head), Next::Turn { turn, attempt: 1, tools: true });
    }
    let events = answer(&mut head, misfit());
    assert!(matches!(&events[1..], [Event::Failed { code, .. }] if code == failure_code::OUTPUT_INVALID), "{events:?}");
    assert_eq!(next(&head), Next::End);
}

#[test]
fn a_valid_answer_after_rejections_completes() {
    let mut head = created(QueryLimits::default());
    answer(&mut head, misfit());
    answer(&mut head, misfit());
    let events = answer(&mut head, reply(Vec::new()));
    assert_eq!(events.last(), Some(&Event::Completed));
}

#[test]
fn text_next_to_calls_is_not_validated() {
    let mut head = created(QueryLimits::default());
    let events =
        answer(&mut head, ModelTurnReply { output: OutputCheck::Misfits("no".into()), ..reply(vec![outside("a")]) });
    assert!(matches!(&events[0], Event::TurnEnded { rejected: None, .. }), "{events:?}");
    assert_eq!(head.rejections, 0);
}

#[test]
fn an_invalid_answer_is_not_retried_when_the_tokens_are_spent() {
    let mut head = created(QueryLimits { max_tokens: Some(25), ..QueryLimits::default() });
    let events = answer(&mut head, misfit());
    assert!(matches!(&events[1..], [Event::Failed { code, .. }] if code == failure_code::TOKEN_LIMIT), "{events:?}");
}
