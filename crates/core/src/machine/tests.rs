//! What the machine decides, case by case.

use std::{sync::Arc, time::Duration};

use serde_json::json;

use super::{
    Asked, CRASHES_ALONE, CRASHES_TOGETHER, Delivery, Next, Output, Reply, Standing, Takeover, Target, Verdict, Way,
    advance, cancel, change, clock_stepped, deliver, end_turn, expire, fail, failure_code, finish_call, interrupt,
    needs_isolation, next, recover, resume, standing, start_call,
};
use crate::{
    Actor, CallId, ContentHash, Entry, Event, Head, Limits, Namespace, Outcome, QueryName, QueryUid, Spec, Status,
    Timestamp,
    event::Changed,
    query::{AskedLimits, Usage, View},
};

const NOW: Timestamp = Timestamp(1_000_000);

pub(super) fn spec(limits: Limits) -> Spec {
    Spec {
        target: "agent".into(),
        target_kind: Default::default(),
        selector: None,
        model: "default".into(),
        prompt: None,
        input: "hello".into(),
        template: None,
        messages: Vec::new(),
        parameters: Default::default(),
        options: Default::default(),
        output_schema: None,
        conversation: None,
        toolset: ContentHash::of(b"tools"),
        limits,
        view: View::Rfc,
        session_id: None,
        labels: Default::default(),
        annotations: Default::default(),
        warnings: Vec::new(),
        request: None,
        trace: None,
    }
}

/// A spec with everything that a query may bring.
fn rich_spec() -> Spec {
    use crate::{
        conversation::{ConversationKey, Frozen},
        query::{ModelOptions, TargetKind},
        trace::TraceContext,
        transcript::Message,
    };
    Spec {
        target_kind: TargetKind::Model,
        selector: Some(Arc::new(json!({"matchLabels": {"team": "blue"}}))),
        template: Some("hello {{.name}}".into()),
        messages: vec![Message::System("Be brief.".into()), Message::User("hello".into())],
        parameters: [("name".to_owned(), "you".to_owned())].into(),
        options: ModelOptions { temperature: Some(0.1), max_tokens: Some(7) },
        output_schema: Some(Arc::new(json!({"type": "object"}))),
        conversation: Some(Frozen {
            key: ConversationKey { memory: "default".into(), id: "c".into() },
            history: Some(ContentHash::of(b"history")),
        }),
        trace: TraceContext::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Some("congo=1"))
            .map(Arc::new),
        ..spec(Limits::default())
    }
}

pub(super) fn created(limits: Limits) -> Head {
    let uid = QueryUid::new(1, [1; 10]);
    let entry = Entry { seq: 1, at: NOW, event: Event::Created { spec: Arc::new(spec(limits)), by: Actor::local() } };
    Head::new(uid, Namespace::default(), QueryName::for_uid(uid), &entry).unwrap()
}

pub(super) fn apply(head: &mut Head, at: Timestamp, events: Vec<Event>) {
    for event in events {
        let entry = Entry { seq: head.seq + 1, at, event };
        head.apply(&entry).unwrap();
    }
}

fn asked(tool: &str, way: Way) -> Asked {
    Asked {
        provider_id: format!("provider-{tool}").into(),
        tool: tool.into(),
        alias: tool.into(),
        arguments: json!({}).into(),
        written: None,
        dropped: Vec::new(),
        deprecated: None,
        way,
    }
}

fn outside(tool: &str) -> Asked {
    asked(tool, Way::Outside { timeout: Duration::from_secs(60) })
}

fn inside(tool: &str, repeatable: bool) -> Asked {
    asked(tool, Way::Inside { repeatable })
}

fn reply(calls: Vec<Asked>) -> Reply {
    let usage = Usage { prompt_tokens: 20, completion_tokens: 5, ..Usage::default() };
    Reply { text: Some("text".into()), calls, usage, ..Reply::default() }
}

/// A query whose model has just asked for `calls`.
fn after_turn(calls: Vec<Asked>) -> Head {
    let mut head = created(Limits::default());
    turn(&mut head, calls);
    head
}

fn turn(head: &mut Head, calls: Vec<Asked>) {
    let events = advance(head);
    apply(head, NOW, events);
    let events = end_turn(head, NOW, reply(calls));
    apply(head, NOW, events);
}

fn ok(text: &str) -> Outcome {
    Outcome::success(text)
}

fn to_call(head: &Head, index: usize, outcome: Outcome) -> Delivery {
    Delivery { target: Target::Call(head.calls[index].id), outcome }
}

fn to_tool(tool: &str, outcome: Outcome) -> Delivery {
    Delivery { target: Target::Tool(tool.into()), outcome }
}

/// Posts one result, applies it, and says what became of it.
fn post(head: &mut Head, delivery: Delivery) -> Verdict {
    let delivered = deliver(head, NOW, vec![delivery], false, &Actor::local());
    apply(head, NOW, delivered.events);
    delivered.verdicts[0]
}

#[test]
fn a_new_query_asks_the_model_first() {
    let head = created(Limits::default());
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
    assert!(matches!(post(&mut head, delivery), Verdict::Accepted(_)));
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
fn a_result_is_accepted_once() {
    let mut head = after_turn(vec![outside("a"), outside("b")]);
    let id = head.calls[0].id;
    let (same, other) = (to_call(&head, 0, ok("1")), to_call(&head, 0, ok("2")));
    assert_eq!(post(&mut head, same.clone()), Verdict::Accepted(id));
    assert_eq!(post(&mut head, same), Verdict::Replayed(id));
    assert_eq!(post(&mut head, other), Verdict::AlreadyResolved(id));
    assert_eq!(head.status(), Status::Waiting, "b is still open");
}

#[test]
fn a_late_result_is_late_even_before_the_sweep() {
    let mut head = after_turn(vec![outside("a")]);
    let id = head.calls[0].id;
    let at = NOW.after(Duration::from_secs(60));
    let delivered = deliver(&head, at, vec![to_call(&head, 0, ok("1"))], false, &Actor::local());
    assert_eq!(delivered.verdicts, [Verdict::Expired(id)]);
    assert_eq!(delivered.events, [Event::CallExpired { call: id }]);
    apply(&mut head, at, delivered.events);
    assert!(matches!(next(&head), Next::Turn { turn: 2, .. }), "the model is told");
    assert_eq!(expire(&head, at), []);
}

#[test]
fn the_sweep_expires_only_what_is_due() {
    let head = after_turn(vec![asked("slow", Way::Outside { timeout: Duration::from_secs(90) }), outside("quick")]);
    let quick = head.calls[1].id;
    assert_eq!(expire(&head, NOW.after(Duration::from_secs(59))), []);
    assert_eq!(expire(&head, NOW.after(Duration::from_secs(60))), [Event::CallExpired { call: quick }]);
}

#[test]
fn unknown_and_inside_calls_look_the_same_from_outside() {
    let mut head = after_turn(vec![inside("a", true), outside("b")]);
    let foreign = Target::Call(CallId::derive(QueryUid::new(9, [9; 10]), 1, 0));
    assert_eq!(post(&mut head, Delivery { target: foreign, outcome: ok("1") }), Verdict::Unknown);
    let inside = to_call(&head, 0, ok("1"));
    assert_eq!(post(&mut head, inside), Verdict::Unknown);
}

#[test]
fn a_result_by_name_needs_exactly_one_waiting_call() {
    let mut head = after_turn(vec![outside("a"), outside("a"), outside("b")]);
    assert_eq!(post(&mut head, to_tool("a", ok("1"))), Verdict::Ambiguous);
    assert_eq!(post(&mut head, to_tool("c", ok("1"))), Verdict::NotWaiting);
    let b = head.calls[2].id;
    assert_eq!(post(&mut head, to_tool("b", ok("1"))), Verdict::Accepted(b));
    assert_eq!(post(&mut head, to_tool("b", ok("1"))), Verdict::Replayed(b));
    assert_eq!(post(&mut head, to_tool("b", ok("2"))), Verdict::NotWaiting);
}

#[test]
fn a_repeated_post_by_name_never_answers_the_next_call() {
    let mut head = after_turn(vec![outside("a")]);
    let first = head.calls[0].id;
    assert_eq!(post(&mut head, to_tool("a", ok("1"))), Verdict::Accepted(first));
    turn(&mut head, vec![outside("a")]);
    assert_eq!(post(&mut head, to_tool("a", ok("1"))), Verdict::Replayed(first));
    assert_eq!(head.status(), Status::Waiting);
    let second = head.calls[1].id;
    assert_eq!(post(&mut head, to_tool("a", ok("2"))), Verdict::Accepted(second));
}

#[test]
fn one_late_result_does_not_bounce_the_good_ones_of_its_batch() {
    let mut head = after_turn(vec![outside("a"), outside("b")]);
    let (a, b) = (head.calls[0].id, head.calls[1].id);
    let events = expire_call(&head, a);
    apply(&mut head, NOW, events);
    let batch = vec![to_call(&head, 0, ok("1")), to_call(&head, 1, ok("2")), to_call(&head, 1, ok("3"))];
    let delivered = deliver(&head, NOW, batch, false, &Actor::local());
    assert_eq!(delivered.verdicts, [Verdict::Expired(a), Verdict::Accepted(b), Verdict::AlreadyResolved(b)]);
    assert_eq!(delivered.events, [Event::CallResolved { call: b, outcome: ok("2").into(), by: Actor::local() }]);
}

fn expire_call(_: &Head, call: CallId) -> Vec<Event> {
    vec![Event::CallExpired { call }]
}

#[test]
fn a_hold_keeps_the_query_until_somebody_continues_it() {
    let mut head = after_turn(vec![outside("a")]);
    let delivered = deliver(&head, NOW, vec![to_call(&head, 0, ok("1"))], true, &Actor::local());
    apply(&mut head, NOW, delivered.events);
    assert_eq!((head.status(), next(&head)), (Status::Held, Next::Wait));
    assert_eq!(head.deadline(), Some(NOW.after(Limits::default().external_timeout)));
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

#[test]
fn what_comes_after_a_hold_has_expired_is_late_even_before_the_sweep() {
    let mut head = after_turn(vec![outside("a"), outside("b")]);
    let delivered = deliver(&head, NOW, vec![to_call(&head, 0, ok("1"))], true, &Actor::local());
    apply(&mut head, NOW, delivered.events);
    // Shorter than the hold, the wait of the other call would have been over first.
    head.held_until = Some(NOW.after(Duration::from_secs(30)));
    let late = NOW.after(Duration::from_secs(30));
    assert_eq!(resume(&head, late, &Actor::local()), []);
    assert_eq!(resume(&head, Timestamp(late.0 - 1), &Actor::local()).len(), 1);
    let b = head.calls[1].id;
    assert_eq!(standing(&head, late, b), Standing::Cancelled);
    let delivered = deliver(&head, late, vec![to_call(&head, 1, ok("2"))], false, &Actor::local());
    assert_eq!(delivered.verdicts, [Verdict::Cancelled(b)]);
    assert!(matches!(&delivered.events[..], [Event::Failed { code, .. }] if code == "hold_expired"));
}

#[test]
fn a_hold_that_nobody_ends_fails_the_query() {
    let mut head = after_turn(vec![outside("a")]);
    let delivered = deliver(&head, NOW, vec![to_call(&head, 0, ok("1"))], true, &Actor::local());
    apply(&mut head, NOW, delivered.events);
    let late = NOW.after(Limits::default().external_timeout);
    let events = expire(&head, late);
    assert!(matches!(&events[..], [Event::Failed { code, .. }] if code == "hold_expired"));
}

#[test]
fn cancelling_closes_open_calls_and_is_final() {
    let mut head = after_turn(vec![outside("a"), inside("b", false)]);
    let (a, b) = (head.calls[0].id, head.calls[1].id);
    let events = cancel(&head, Some("changed my mind".into()), &Actor::local());
    apply(&mut head, NOW, events);
    assert_eq!((head.status(), next(&head)), (Status::Cancelled, Next::End));
    let delivery = to_call(&head, 0, ok("1"));
    assert_eq!(post(&mut head, delivery), Verdict::Cancelled(a));
    assert_eq!(finish_call(&head, b, ok("1")), [], "nobody reads it any more");
    assert_eq!(cancel(&head, None, &Actor::local()), []);
    assert_eq!(fail(&head, "x", "y"), []);
    assert_eq!(end_turn(&head, NOW, reply(vec![])), []);
}

#[test]
fn the_call_too_many_is_refused_and_the_next_turn_has_no_tools() {
    let mut head = created(Limits { max_tool_calls: 2, ..Limits::default() });
    turn(&mut head, vec![outside("a"), outside("b"), outside("c")]);
    assert_eq!(head.waiting().count(), 2);
    for index in 0..2 {
        let delivery = to_call(&head, index, ok("1"));
        post(&mut head, delivery);
    }
    assert_eq!(next(&head), Next::Turn { turn: 2, attempt: 1, tools: false });
    turn(&mut head, vec![outside("a")]);
    assert_eq!(head.status(), Status::Failed);
}

#[test]
fn exactly_as_many_calls_as_allowed_leave_the_tools_in_place() {
    let mut head = created(Limits { max_tool_calls: 1, ..Limits::default() });
    turn(&mut head, vec![outside("a")]);
    let delivery = to_call(&head, 0, ok("1"));
    post(&mut head, delivery);
    assert_eq!(next(&head), Next::Turn { turn: 2, attempt: 1, tools: true });
    turn(&mut head, vec![]);
    assert_eq!(head.status(), Status::Completed);
}

#[test]
fn spent_tokens_end_a_query_that_wants_more_and_not_one_that_is_done() {
    let each = reply(vec![]).usage.total();
    for (limit, turns) in [(1, 1), (each, 1), (each + 1, 2), (2 * each, 2), (2 * each + 1, 3)] {
        let mut head = created(Limits { max_tokens: Some(limit), ..Limits::default() });
        for round in 1..turns {
            turn(&mut head, vec![outside("a")]);
            let delivery = to_call(&head, round - 1, ok(&round.to_string()));
            post(&mut head, delivery);
            assert!(matches!(next(&head), Next::Turn { .. }), "limit {limit}, round {round}");
        }
        let mut done = head.clone();
        turn(&mut done, vec![]);
        assert_eq!(done.status(), Status::Completed, "limit {limit}: the answer counts");
        turn(&mut head, vec![outside("a")]);
        assert_eq!(
            (head.status(), head.calls.len()),
            (Status::Failed, turns - 1),
            "limit {limit}: nothing is handed out"
        );
    }
}

#[test]
fn the_same_call_with_the_same_result_is_told_at_three_and_stopped_at_four() {
    let mut head = created(Limits { max_tool_calls: 100, ..Limits::default() });
    for round in 1..=4 {
        turn(&mut head, vec![outside("a")]);
        let id = head.calls.last().unwrap().id;
        let delivered = deliver(
            &head,
            NOW,
            vec![Delivery { target: Target::Call(id), outcome: ok("same") }],
            false,
            &Actor::local(),
        );
        let noticed = delivered.events.iter().any(|event| matches!(event, Event::LoopNoticed { .. }));
        assert_eq!(noticed, round == 3, "round {round}");
        apply(&mut head, NOW, delivered.events);
        assert_eq!(head.status() == Status::Failed, round == 4, "round {round}");
    }
}

/// Plays turns in which the client's tool `a` is called so often, always with the same result, and says how often the model
/// was told and whether the query has failed.
fn looping(calls_of_turns: &[usize]) -> (usize, bool) {
    let mut head = created(Limits { max_tool_calls: 100, ..Limits::default() });
    let mut told = 0;
    for calls in calls_of_turns {
        assert!(!head.status().is_final(), "it went on: {calls_of_turns:?}");
        let earlier = head.calls.len();
        turn(&mut head, vec![outside("a"); *calls]);
        for index in earlier..head.calls.len() {
            let delivered = deliver(&head, NOW, vec![to_call(&head, index, ok("same"))], false, &Actor::local());
            told += delivered.events.iter().filter(|event| matches!(event, Event::LoopNoticed { .. })).count();
            apply(&mut head, NOW, delivered.events);
        }
    }
    (told, head.status() == Status::Failed)
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
    let mut head = created(Limits { max_tool_calls: 100, ..Limits::default() });
    for round in 0..20 {
        turn(&mut head, vec![outside("a")]);
        let delivery = to_call(&head, round, ok(&round.to_string()));
        post(&mut head, delivery);
    }
    assert!(matches!(next(&head), Next::Turn { tools: true, .. }));
}

#[test]
fn a_turn_whose_process_died_is_taken_again_as_a_new_attempt() {
    let mut head = created(Limits::default());
    let events = advance(&head);
    apply(&mut head, NOW, events);
    let events = recover(&head, Takeover::Inherited);
    apply(&mut head, NOW, events);
    assert_eq!(next(&head), Next::Turn { turn: 1, attempt: 2, tools: true });
    assert_eq!(head.recoveries, 1);
}

/// A turn begins, its process stops as `stopping` says, and the next one takes the query over.
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
fn a_query_that_brings_the_server_down_again_and_again_is_given_up() {
    let mut head = created(Limits::default());
    for number in 1..CRASHES_TOGETHER + CRASHES_ALONE {
        stop_in_turn(&mut head, crash, Takeover::Inherited);
        assert!(!head.status().is_final(), "crash {number}");
        assert_eq!(head.isolated, number >= CRASHES_TOGETHER, "crash {number}");
    }
    stop_in_turn(&mut head, crash, Takeover::Inherited);
    assert_eq!(head.status(), Status::Failed);
}

#[test]
fn stopping_in_order_and_failed_writes_are_no_crashes() {
    for (stopping, takeover) in
        [(interrupt as fn(&Head) -> Vec<Event>, Takeover::Inherited), (crash, Takeover::FailedWrite)]
    {
        let mut head = created(Limits::default());
        for _ in 0..20 {
            stop_in_turn(&mut head, stopping, takeover);
            assert_eq!((head.recoveries, head.isolated, head.interrupted), (0, false, false));
        }
        assert_eq!(next(&head), Next::Turn { turn: 1, attempt: 21, tools: true });
    }
}

#[test]
fn a_query_that_only_waited_for_its_turn_to_run_was_not_hit_by_a_crash() {
    let mut head = created(Limits::default());
    let events = recover(&head, Takeover::Inherited);
    apply(&mut head, NOW, events);
    assert_eq!(head.recoveries, 0);
}

#[test]
fn crashes_beside_a_query_that_is_not_retried_do_not_count_against_it() {
    let mut head = created(Limits::default());
    for _ in 0..CRASHES_TOGETHER {
        stop_in_turn(&mut head, crash, Takeover::Inherited);
    }
    assert!(head.isolated);
    // It waits for its turn in isolation, and is found as it was left.
    let waits = head.clone();
    assert!(needs_isolation(&waits, Takeover::Inherited));
    // An orderly stop while it is retried is none of its doing either.
    for _ in 0..9 {
        stop_in_turn(&mut head, interrupt, Takeover::Inherited);
    }
    assert_eq!((head.isolated_crashes, head.recoveries), (0, CRASHES_TOGETHER));
}

#[test]
fn crashes_with_progress_in_between_are_forgiven() {
    let mut head = created(Limits { max_tool_calls: 100, ..Limits::default() });
    for _ in 0..20 {
        let events = advance(&head);
        apply(&mut head, NOW, events);
        let events = recover(&head, Takeover::Inherited);
        apply(&mut head, NOW, events);
        turn(&mut head, vec![asked("a", Way::Refused { code: "no".into(), message: "no".into() })]);
    }
    assert!(matches!(next(&head), Next::Turn { .. }));
}

#[test]
fn a_started_call_runs_again_only_if_it_may() {
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

#[test]
fn the_clock_stops_while_the_query_waits_and_while_the_server_is_down() {
    let mut head = created(Limits::default());
    let at = |seconds: u64| NOW.after(Duration::from_secs(seconds));
    let events = advance(&head);
    apply(&mut head, at(10), events);
    let events = end_turn(&head, at(12), reply(vec![outside("a")]));
    apply(&mut head, at(12), events);
    assert_eq!(head.clock.spent(at(600)), Duration::from_secs(2), "waiting outside is free");
    let delivery = to_call(&head, 0, ok("1"));
    let delivered = deliver(&head, at(42), vec![delivery], false, &Actor::local());
    apply(&mut head, at(42), delivered.events);
    let events = advance(&head);
    apply(&mut head, at(43), events);
    // The process dies in the middle of the turn and comes back much later.
    let events = recover(&head, Takeover::Inherited);
    apply(&mut head, at(1_000), events);
    assert_eq!(head.clock.spent(at(1_000)), Duration::from_secs(2));
}

/// A query ran from second 10 on when the wall clock stepped by `by`, two seconds of running time later, and it has run for
/// two more since.
#[track_caller]
fn check_step(by: i64) {
    let mut head = created(Limits::default());
    let at = |seconds: i64| Timestamp(NOW.0 + 1_000 * seconds);
    let events = advance(&head);
    apply(&mut head, at(10), events);
    let mut events = clock_stepped(&head, 1_000 * by);
    events.extend(end_turn(&head, at(14 + by), reply(vec![outside("a")])));
    apply(&mut head, at(14 + by), events);
    assert_eq!(head.clock.spent(at(9_999)), Duration::from_secs(4), "a step of {by} s");
    assert_eq!(head.clock.stepped_ms, 1_000 * by);
    assert_eq!(clock_stepped(&head, 1), [], "while it waits, no time is counted");
}

#[test]
fn a_step_of_the_clock_is_no_running_time_and_takes_none_back() {
    check_step(360);
    check_step(-360);
    check_step(-3);
    check_step(31 * 24 * 3_600);
    check_step(0);
}

fn misfit() -> Reply {
    Reply { output: Output::Misfits("no".into()), ..reply(Vec::new()) }
}

/// Asks the model again and answers.
fn answer(head: &mut Head, reply: Reply) -> Vec<Event> {
    let events = advance(head);
    apply(head, NOW, events);
    let events = end_turn(head, NOW, reply);
    apply(head, NOW, events.clone());
    events
}

#[test]
fn an_answer_that_does_not_fit_is_asked_for_again_twice_and_then_no_more() {
    let mut head = created(Limits::default());
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
fn an_answer_that_fits_after_all_completes() {
    let mut head = created(Limits::default());
    answer(&mut head, misfit());
    answer(&mut head, misfit());
    let events = answer(&mut head, reply(Vec::new()));
    assert_eq!(events.last(), Some(&Event::Completed));
}

#[test]
fn text_beside_calls_is_not_held_against_what_was_asked_for() {
    let mut head = created(Limits::default());
    let events = answer(&mut head, Reply { output: Output::Misfits("no".into()), ..reply(vec![outside("a")]) });
    assert!(matches!(&events[0], Event::TurnEnded { rejected: None, .. }), "{events:?}");
    assert_eq!(head.rejections, 0);
}

#[test]
fn an_answer_that_does_not_fit_is_not_asked_for_again_when_the_tokens_are_spent() {
    let mut head = created(Limits { max_tokens: Some(25), ..Limits::default() });
    let events = answer(&mut head, misfit());
    assert!(matches!(&events[1..], [Event::Failed { code, .. }] if code == failure_code::TOKEN_LIMIT), "{events:?}");
}

/// Everything that can be changed, as something that it never is otherwise.
fn all_changed() -> Changed {
    let texts = |text: &str| Some(Arc::new([(text.to_owned(), "ü".to_owned())].into()));
    Changed {
        limits: AskedLimits {
            query_timeout: Some(Duration::from_millis(1)),
            tool_timeout: Some(Duration::from_millis(2)),
            external_timeout: Some(Duration::from_millis(3)),
            max_tool_calls: Some(4),
            max_tokens: Some(5),
            ttl: Some(Duration::from_millis(6)),
        },
        labels: texts("label"),
        annotations: texts("annotation"),
        by: Actor::local(),
    }
}

#[test]
fn what_is_changed_is_so_from_then_on_and_the_rest_stays() {
    let mut head = after_turn(vec![outside("a")]);
    let before = head.clone();
    let spec = spec(Limits::default());
    assert_eq!(change(Changed { by: Actor::of_key("ci").unwrap(), ..Changed::default() }), [], "nothing is no change");
    let labelled = Changed { labels: all_changed().labels, ..Changed::default() };
    apply(&mut head, NOW, change(labelled));
    assert_eq!((head.labels(&spec), head.annotations(&spec)), (&*all_changed().labels.unwrap(), &spec.annotations));
    assert_eq!(Head { seq: before.seq, labels: None, ..head.clone() }, before);
    apply(&mut head, NOW, cancel(&before, None, &Actor::local()));
    let (ended, kept) = (head.clone(), head.kept_until().unwrap());
    apply(&mut head, NOW.after(Duration::from_secs(9)), change(all_changed()));
    let limits = Limits {
        query_timeout: Duration::from_millis(1),
        tool_timeout: Duration::from_millis(2),
        external_timeout: Duration::from_millis(3),
        max_tool_calls: 4,
        max_tokens: Some(5),
        ttl: Duration::from_millis(6),
    };
    let expect = Head { seq: ended.seq + 1, limits, annotations: all_changed().annotations, ..ended };
    assert_eq!(head, expect, "it ended when it did, however late it is changed");
    assert_eq!(head.kept_until().unwrap().0 + 2_592_000_000 - 6, kept.0);
}

#[test]
fn a_query_that_is_given_more_calls_has_its_tools_again() {
    let mut head = created(Limits { max_tool_calls: 1, ..Limits::default() });
    let refused = answer(&mut head, reply(vec![outside("a"), outside("b")]));
    assert_eq!(refused.len(), 3, "{refused:?}");
    let call = head.calls[0].id;
    let delivery = Delivery { target: Target::Call(call), outcome: Outcome::success(1) };
    let delivered = deliver(&head, NOW, vec![delivery], false, &Actor::local());
    apply(&mut head, NOW, delivered.events);
    let started = advance(&head);
    apply(&mut head, NOW, started);
    assert!(head.tools_spent);
    let limit = |calls| AskedLimits { max_tool_calls: Some(calls), ..AskedLimits::default() };
    for (calls, spent) in [(0, true), (1, true), (2, false), (1, false)] {
        apply(&mut head, NOW, change(Changed { limits: limit(calls), ..Changed::default() }));
        assert_eq!(head.tools_spent, spent, "{calls}");
    }
}

#[test]
fn limits_change_where_they_are_asked_for_and_never_beyond_what_there_is() {
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    let wide = Limits { query_timeout: Duration::from_secs(60), max_tokens: Some(100), ..Limits::default() };
    let now = Limits { query_timeout: Duration::from_secs(30), max_tokens: Some(50), ..wide };
    let none = AskedLimits::default();
    for (asked, expect) in [
        (none, none),
        (AskedLimits { query_timeout: seconds(30), max_tokens: Some(50), ..none }, none),
        (AskedLimits { query_timeout: seconds(10), ..none }, AskedLimits { query_timeout: seconds(10), ..none }),
        (AskedLimits { query_timeout: seconds(90), ..none }, AskedLimits { query_timeout: seconds(60), ..none }),
        (AskedLimits { max_tokens: Some(1_000), ..none }, AskedLimits { max_tokens: Some(100), ..none }),
        (AskedLimits { ttl: seconds(720 * 3_600 + 1), ..none }, none),
        (AskedLimits { max_tool_calls: Some(0), ..none }, AskedLimits { max_tool_calls: Some(0), ..none }),
    ] {
        assert_eq!(asked.changes(now, wide), expect, "{asked:?}");
        assert_eq!(asked.changes(expect.replace_in(now), wide), none, "the same once more is no change: {asked:?}");
    }
    // Whoever sends back what they have read does not shorten it, also if there is less to have by now.
    let (more, less) = (Limits { ttl: Duration::from_secs(9), ..now }, Limits { ttl: Duration::from_secs(3), ..wide });
    for (asked, expect) in [(9, None), (8, seconds(3)), (2, seconds(2))] {
        let asked = AskedLimits { ttl: seconds(asked), ..none };
        assert_eq!(asked.changes(more, less).ttl, expect, "{asked:?}");
    }
    let unlimited = Limits { max_tokens: None, ..now };
    let asked = AskedLimits { max_tokens: Some(7), ..none };
    assert_eq!(asked.changes(unlimited, unlimited), asked);
    assert_eq!(
        all_changed().names().collect::<Vec<_>>().join(" "),
        "timeout toolTimeout externalTimeout maxToolCalls maxTokens ttl labels annotations"
    );
}

#[test]
fn every_event_survives_being_written_and_read() {
    let mut head = after_turn(vec![outside("a")]);
    let call = head.calls[0].id;
    let by = Actor::of_key("ci").unwrap().acting_for("alice").unwrap();
    let events = [
        Event::Created { spec: Arc::new(spec(Limits::default())), by: by.clone() },
        Event::Created { spec: Arc::new(rich_spec()), by: by.clone() },
        Event::TurnStarted { turn: 1, attempt: 2, tools: false },
        Event::TurnEnded {
            turn: 1,
            text: None,
            usage: Usage::default(),
            calls: 1,
            output: None,
            rejected: None,
            provider: None,
            answered_by: None,
        },
        Event::TurnEnded {
            turn: 2,
            text: None,
            usage: Usage::default(),
            calls: 0,
            output: Some(json!({"a": 1}).into()),
            rejected: Some("no".into()),
            provider: Some(Arc::new(json!({"anthropic": {"content": []}}))),
            answered_by: Some("second".into()),
        },
        Event::CallStarted { call, attempt: 1 },
        Event::CallFinished { call, outcome: Outcome::failure("a", "b").into() },
        Event::CallResolved {
            call, outcome: Outcome::success(json!({"deep": [1, null, "ü"]})).into(), by: by.clone()
        },
        Event::CallExpired { call },
        Event::LoopNoticed { call },
        Event::Held { until: NOW, by: by.clone() },
        Event::Continued { by: Actor::local() },
        Event::Continued { by: by.clone() },
        Event::Changed(Box::new(Changed { by: by.clone(), ..Changed::default() })),
        Event::Changed(Box::new(all_changed())),
        Event::ClockStepped { by_ms: -360_000 },
        Event::Interrupted,
        Event::Recovered { orderly: false, alone: false },
        Event::Recovered { orderly: true, alone: true },
        Event::Completed,
        Event::Failed { code: "a".into(), message: "b".into() },
        Event::Cancelled { reason: None, by },
    ];
    for event in events {
        assert_eq!(Event::decode(&event.encode().unwrap()).unwrap(), event);
    }
    let newer = r#"{"v":99,"kind":"teleported"}"#;
    assert!(Event::decode(newer).unwrap_err().to_string().contains("newer"));
    let events = cancel(&head, None, &Actor::local());
    apply(&mut head, NOW, events);
}
