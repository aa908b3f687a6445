//! Running time, across waits, restarts and steps of the wall clock.

use std::time::Duration;

use super::{NOW, apply, created, ok, outside, reply, to_call};
use crate::{
    Actor, QueryLimits, Timestamp,
    machine::{Takeover, advance, clock_stepped, deliver, end_turn, recover},
};

#[test]
fn the_clock_stops_while_the_query_waits_and_while_the_server_is_down() {
    let mut head = created(QueryLimits::default());
    let at = |seconds: u64| NOW.after(Duration::from_secs(seconds));
    let events = advance(&head);
    apply(&mut head, at(10), events);
    let events = end_turn(&head, at(12), reply(vec![outside("a")]));
    apply(&mut head, at(12), events);
    assert_eq!(head.clock.spent(at(600)), Duration::from_secs(2), "waiting for a client does not count");
    let delivery = to_call(&head, 0, ok("1"));
    let delivered = deliver(&head, at(42), vec![delivery], false, &Actor::local());
    apply(&mut head, at(42), delivered.events);
    let events = advance(&head);
    apply(&mut head, at(43), events);
    // The process crashes in the middle of the turn, and the next one starts much later.
    let events = recover(&head, Takeover::Inherited);
    apply(&mut head, at(1_000), events);
    assert_eq!(head.clock.spent(at(1_000)), Duration::from_secs(2));
}

/// A query runs from second 10 on; after two seconds of running time the wall clock steps by `by`, and the query runs
/// for two more.
#[track_caller]
fn check_step(by: i64) {
    let mut head = created(QueryLimits::default());
    let at = |seconds: i64| Timestamp(NOW.0 + 1_000 * seconds);
    let events = advance(&head);
    apply(&mut head, at(10), events);
    let mut events = clock_stepped(&head, 1_000 * by);
    events.extend(end_turn(&head, at(14 + by), reply(vec![outside("a")])));
    apply(&mut head, at(14 + by), events);
    assert_eq!(head.clock.spent(at(9_999)), Duration::from_secs(4), "a step of {by} s");
    assert_eq!(head.clock.stepped_ms, 1_000 * by);
    assert_eq!(clock_stepped(&head, 1), [], "no time is counted while it waits");
}

#[test]
fn a_step_of_the_clock_neither_adds_nor_removes_running_time() {
    check_step(360);
    check_step(-360);
    check_step(-3);
    check_step(31 * 24 * 3_600);
    check_step(0);
}
