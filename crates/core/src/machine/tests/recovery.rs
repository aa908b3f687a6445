//! Crashes, clean shutdowns, and the takeover after them.

use super::{NOW, after_turn, apply, asked, created, inside, outside, turn};
use crate::{
    Event, Head, QueryLimits, Status,
    machine::{
        CRASHES_ALONE, CRASHES_TOGETHER, CallDisposition, Next, Takeover, advance, interrupt, needs_isolation, next,
        recover, start_call,
    },
};

#[test]
fn a_turn_whose_process_crashed_is_retried_as_a_new_attempt() {
    let mut head = created(QueryLimits::default());
    let events = advance(&head);
    apply(&mut head, NOW, events);
    let events = recover(&head, Takeover::Inherited);
    apply(&mut head, NOW, events);
    assert_eq!(next(&head), Next::Turn { turn: 1, attempt: 2, tools: true });
    assert_eq!(head.recoveries, 1);
}

/// A turn begins, its process stops as `stopping` says, and the next process takes the query over.
fn stop_in_turn(head: &mut Head, stopping: fn(&Head) -> Vec<Event>, takeover: Takeover) {
    let events = advance(head);
    apply(head, NOW, events);
    let events = stopping(head);
    apply(head, NOW, events);
    let events = recover(head, takeover);
    apply(head, NOW, events);
}

fn crash(_: &Head) -> Vec<Event> {
    Vec::new()
}

#[test]
fn a_query_that_crashes_the_server_repeatedly_fails() {
    let mut head = created(QueryLimits::default());
    for number in 1..CRASHES_TOGETHER + CRASHES_ALONE {
        stop_in_turn(&mut head, crash, Takeover::Inherited);
        assert!(!head.status().is_final(), "crash {number}");
        assert_eq!(head.isolated, number >= CRASHES_TOGETHER, "crash {number}");
    }
    stop_in_turn(&mut head, crash, Takeover::Inherited);
    assert_eq!(head.status(), Status::Failed);
}

#[test]
fn clean_shutdowns_and_failed_writes_are_not_crashes() {
    for (stopping, takeover) in
        [(interrupt as fn(&Head) -> Vec<Event>, Takeover::Inherited), (crash, Takeover::FailedWrite)]
    {
        let mut head = created(QueryLimits::default());
        for _ in 0..20 {
            stop_in_turn(&mut head, stopping, takeover);
            assert_eq!((head.recoveries, head.isolated, head.interrupted), (0, false, false));
        }
        assert_eq!(next(&head), Next::Turn { turn: 1, attempt: 21, tools: true });
    }
}

#[test]
fn a_crash_does_not_count_against_a_queued_query() {
    let mut head = created(QueryLimits::default());
    let events = recover(&head, Takeover::Inherited);
    apply(&mut head, NOW, events);
    assert_eq!(head.recoveries, 0);
}

#[test]
fn crashes_do_not_count_against_a_query_that_is_not_being_retried() {
    let mut head = created(QueryLimits::default());
    for _ in 0..CRASHES_TOGETHER {
        stop_in_turn(&mut head, crash, Takeover::Inherited);
    }
    assert!(head.isolated);
    // It waits for its isolated retry, and is found as it was left.
    let waits = head.clone();
    assert!(needs_isolation(&waits, Takeover::Inherited));
    // A clean shutdown while it is retried does not count against it either.
    for _ in 0..9 {
        stop_in_turn(&mut head, interrupt, Takeover::Inherited);
    }
    assert_eq!((head.isolated_crashes, head.recoveries), (0, CRASHES_TOGETHER));
}

#[test]
fn progress_resets_the_count_of_crashes() {
    let mut head = created(QueryLimits { max_tool_calls: 100, ..QueryLimits::default() });
    for _ in 0..20 {
        let events = advance(&head);
        apply(&mut head, NOW, events);
        let events = recover(&head, Takeover::Inherited);
        apply(&mut head, NOW, events);
        turn(
            &mut head,
            vec![asked("a", CallDisposition::Refused { code: "no".into(), message: "no".into(), details: None })],
        );
    }
    assert!(matches!(next(&head), Next::Turn { .. }));
}

#[test]
fn a_started_call_runs_again_only_if_it_is_repeatable() {
    let mut head = after_turn(vec![inside("safe", true), inside("unsafe", false), inside("unstarted", false)]);
    let ids: Vec<_> = head.calls.iter().map(|call| call.id).collect();
    for id in &ids[..2] {
        let events = start_call(&head, *id);
        apply(&mut head, NOW, events);
    }
    let events = recover(&head, Takeover::Inherited);
    apply(&mut head, NOW, events);
    assert_eq!(next(&head), Next::Calls(vec![ids[0], ids[2]]));
    assert_eq!(start_call(&head, ids[0]), [Event::CallStarted { call: ids[0], attempt: 2 }]);
    assert_eq!(start_call(&head, ids[1]), [], "its outcome is unknown, and that is final");
}

#[test]
fn a_waiting_query_has_nothing_to_recover() {
    assert_eq!(recover(&after_turn(vec![outside("a")]), Takeover::Inherited), []);
    assert_eq!(recover(&after_turn(vec![]), Takeover::Inherited), []);
}
