use super::*;
use crate::{audit::Calls, time::Timestamp};

fn call(agent: &str, tool: &str, source: CallSource, outcome: &'static str, millis: u64) -> AuditRecord {
    let action = if source == CallSource::Outside { Action::CallDelivered } else { Action::CallFinished };
    AuditRecord {
        agent: Some(agent.into()),
        tool: Some(tool.into()),
        source: Some(source),
        outcome: Some(outcome.into()),
        duration_ms: Some(millis),
        ..AuditRecord::of_act(Timestamp(0), action, None, None)
    }
}

fn query(agent: &str, action: Action, calls: Calls) -> AuditRecord {
    AuditRecord {
        agent: Some(agent.into()),
        calls: Some(calls),
        ..AuditRecord::of_act(Timestamp(0), action, None, None)
    }
}

fn usage(records: &[AuditRecord]) -> UsageTotals {
    let mut usage = UsageTotals::default();
    records.iter().filter_map(Sample::of).for_each(|sample| usage.add(sample));
    usage
}

#[test]
fn calls_are_counted_by_agent_tool_and_source() {
    let usage = usage(&[
        call("a", "search", CallSource::Outside, SUCCESS, 10),
        call("a", "search", CallSource::Outside, "boom", 12),
        call("b", "search", CallSource::Outside, SUCCESS, 8),
        call("a", "clock", CallSource::Inside, SUCCESS, 1),
    ]);
    assert_eq!(usage.calls.len(), 3);
    let tools: Vec<_> =
        usage.by_tool().into_iter().map(|((tool, source), tally)| (tool, source, tally.calls, tally.errors)).collect();
    assert_eq!(tools, [("search".into(), CallSource::Outside, 3, 1), ("clock".into(), CallSource::Inside, 1, 0)]);
    assert_eq!(usage.by_source()[&CallSource::Outside].latency.quantile(0.5), Some(10));
    assert_eq!(usage.coverage(1), Some(0.75));
    assert_eq!(usage.coverage(10), Some(1.0));
    assert_eq!(UsageTotals::default().coverage(10), None);
}

#[test]
fn queries_are_counted_by_what_they_used() {
    let (inside, outside) =
        (Calls { inside: 2, tools: 1, ..Calls::default() }, Calls { outside: 1, tools: 1, ..Calls::default() });
    let both = Calls { inside: 1, outside: 2, refused: 1, tools: 3 };
    let usage = usage(&[
        query("a", Action::QueryCompleted, Calls::default()),
        query("a", Action::QueryCompleted, inside),
        query("b", Action::QueryFailed, outside),
        query("b", Action::QueryCancelled, both),
    ]);
    let expect = QueryTally { queries: 4, failed: 2, with_inside: 2, with_outside: 2, mixed: 1, calls: 7, tools: 5 };
    assert_eq!(usage.all_queries(), expect);
    assert_eq!(usage.queries["a"].queries, 2);
}

#[test]
fn calls_without_an_outcome_are_not_counted() {
    for action in [Action::CallHandedOut, Action::CallAsked, Action::CallStarted, Action::DeliveryRefused] {
        let record = AuditRecord { action, ..call("a", "search", CallSource::Outside, SUCCESS, 10) };
        assert_eq!(Sample::of(&record), None, "{action:?}");
    }
}

#[test]
fn a_sum_of_many_hours_is_bounded() {
    let mut usage = UsageTotals::default();
    let tally = CallTally { calls: 1, ..CallTally::default() };
    for number in 0..MOST_KEYS_OF_A_SUM + 500 {
        let key = UsageKey { agent: "a".into(), tool: format!("t{number}").into(), source: CallSource::Outside };
        usage.add_calls(key, &tally);
    }
    assert_eq!(usage.calls.len(), MOST_KEYS_OF_A_SUM + 1);
    assert_eq!(usage.by_tool()[0].1.calls, 500, "the others are counted together");
}

#[test]
fn hours_begin_at_full_hours() {
    assert_eq!(Hour::of(Timestamp(3_600_000)), Hour(1));
    assert_eq!(Hour::of(Timestamp(3_599_999)), Hour(0));
    assert_eq!(Hour::of(Timestamp(-1)), Hour(-1));
    assert_eq!(Hour(2).begin(), Timestamp(7_200_000));
}
