//! Cancelling a query, and changing it before or after its end.

use std::time::Duration;

use super::{NOW, after_turn, all_changed, answer, apply, created, inside, ok, outside, post, reply, spec, to_call};
use crate::{
    Actor, Head, Outcome, QueryLimits, Status,
    event::Changed,
    machine::{
        Delivery, DeliveryTarget, DeliveryVerdict, Next, advance, cancel, change, deliver, end_turn, fail, finish_call,
        next,
    },
    query::AskedLimits,
};

#[test]
fn cancelling_closes_open_calls_and_is_final() {
    let mut head = after_turn(vec![outside("a"), inside("b", false)]);
    let (a, b) = (head.calls[0].id, head.calls[1].id);
    let events = cancel(&head, Some("changed my mind".into()), &Actor::local());
    apply(&mut head, NOW, events);
    assert_eq!((head.status(), next(&head)), (Status::Cancelled, Next::End));
    let delivery = to_call(&head, 0, ok("1"));
    assert_eq!(post(&mut head, delivery), DeliveryVerdict::Cancelled(a));
    assert_eq!(finish_call(&head, b, ok("1")), [], "the outcome is discarded");
    assert_eq!(cancel(&head, None, &Actor::local()), []);
    assert_eq!(fail(&head, "x", "y"), []);
    assert_eq!(end_turn(&head, NOW, reply(vec![])), []);
}

#[test]
fn a_change_applies_from_then_on_and_leaves_the_rest_as_it_was() {
    let mut head = after_turn(vec![outside("a")]);
    let before = head.clone();
    let spec = spec(QueryLimits::default());
    assert_eq!(
        change(Changed { by: Actor::of_key("ci").unwrap(), ..Changed::default() }),
        [],
        "an empty change is not an event"
    );
    let labelled = Changed { labels: all_changed().labels, ..Changed::default() };
    apply(&mut head, NOW, change(labelled));
    assert_eq!((head.labels(&spec), head.annotations(&spec)), (&*all_changed().labels.unwrap(), &spec.annotations));
    assert_eq!(Head { seq: before.seq, labels: None, ..head.clone() }, before);
    apply(&mut head, NOW, cancel(&before, None, &Actor::local()));
    let (ended, kept) = (head.clone(), head.kept_until().unwrap());
    apply(&mut head, NOW.after(Duration::from_secs(9)), change(all_changed()));
    let limits = QueryLimits {
        query_timeout: Duration::from_millis(1),
        tool_timeout: Duration::from_millis(2),
        external_timeout: Duration::from_millis(3),
        approval_timeout: Duration::from_millis(7),
        max_tool_calls: 4,
        max_tokens: Some(5),
        ttl: Duration::from_millis(6),
    };
    let expect = Head { seq: ended.seq + 1, limits, annotations: all_changed().annotations, ..ended };
    assert_eq!(head, expect, "a later change does not move its end");
    assert_eq!(head.kept_until().unwrap().0 + 2_592_000_000 - 6, kept.0);
}

#[test]
fn a_raised_call_limit_gives_a_query_its_tools_back() {
    let mut head = created(QueryLimits { max_tool_calls: 1, ..QueryLimits::default() });
    let refused = answer(&mut head, reply(vec![outside("a"), outside("b")]));
    assert_eq!(refused.len(), 3, "{refused:?}");
    let call = head.calls[0].id;
    let delivery = Delivery { target: DeliveryTarget::Call(call), outcome: Outcome::success(1), took: None };
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
fn only_requested_limits_change_and_never_beyond_the_maximum() {
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    let wide = QueryLimits { query_timeout: Duration::from_secs(60), max_tokens: Some(100), ..QueryLimits::default() };
    let now = QueryLimits { query_timeout: Duration::from_secs(30), max_tokens: Some(50), ..wide };
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
        assert_eq!(asked.changes(expect.replace_in(now), wide), none, "repeating it changes nothing: {asked:?}");
    }
    // A client that sends back what it has read does not shorten a limit, even if the maximum is lower by now.
    let (more, less) =
        (QueryLimits { ttl: Duration::from_secs(9), ..now }, QueryLimits { ttl: Duration::from_secs(3), ..wide });
    for (asked, expect) in [(9, None), (8, seconds(3)), (2, seconds(2))] {
        let asked = AskedLimits { ttl: seconds(asked), ..none };
        assert_eq!(asked.changes(more, less).ttl, expect, "{asked:?}");
    }
    let unlimited = QueryLimits { max_tokens: None, ..now };
    let asked = AskedLimits { max_tokens: Some(7), ..none };
    assert_eq!(asked.changes(unlimited, unlimited), asked);
    assert_eq!(
        all_changed().names().collect::<Vec<_>>().join(" "),
        "timeout toolTimeout externalTimeout approvalTimeout maxToolCalls maxTokens ttl labels annotations"
    );
}
