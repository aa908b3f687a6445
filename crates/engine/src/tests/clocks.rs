//! Steps of the wall clock: what they may not change.

use std::time::Duration;

use bosun_core::{Actor, Status, query::AskedLimits};
use serde_json::json;

use super::world::{
    EngineWorld, PATIENCE, accepted, assert_completed, assert_failed, call, delivery, key, limited, outside,
};
use crate::{
    EngineError, Snapshot,
    testing::{CallLedger, ScriptedModel, ScriptedTurn},
};

const DAY: i64 = 24 * 3_600;

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// A query of two inside calls, each in a turn of its own and each three seconds long. The wall clock steps by `step`
/// seconds in the middle of the first.
async fn run_with_step(step: i64, query_timeout: u64) -> Snapshot {
    let calls = [
        ScriptedTurn::call("again", &json!({"n": 1})),
        ScriptedTurn::call("again", &json!({"n": 2})),
        ScriptedTurn::say("done"),
    ];
    let world = EngineWorld::with(ScriptedModel::always(calls.into()), CallLedger::gated()).await;
    let limits = AskedLimits { query_timeout: Some(Duration::from_secs(query_timeout)), ..AskedLimits::default() };
    world.engine.submit(limited(vec![], limits), Some(Duration::from_secs(1))).await.unwrap();
    world.clock.step(step);
    pass(2).await;
    world.ledger.let_through(1);
    pass(3).await;
    world.ledger.let_through(1);
    world.get().await
}

#[tokio::test(start_paused = true)]
async fn a_step_ahead_does_not_count_as_running_time() {
    for step in [360, 31 * DAY] {
        let snapshot = run_with_step(step, 300).await;
        assert_completed(&snapshot, "done");
        let spent = Duration::from_millis(snapshot.head.clock.spent_ms);
        assert_eq!(spent, Duration::from_secs(6), "a step of {step} s");
        assert_eq!(snapshot.head.clock.stepped_ms, 1_000 * step);
        let calls = snapshot.transcript.calls();
        let took = calls.map(|call| call.result.as_ref().unwrap().at.since(call.started_at.unwrap()).as_secs());
        assert_eq!(took.collect::<Vec<_>>(), [3, 3]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_back_grants_no_running_time() {
    assert_completed(&run_with_step(-3_600, 7).await, "done");
    assert_failed(&run_with_step(-3_600, 5).await, "query_timeout");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_deleted_while_the_clock_is_not_steady() {
    let world = EngineWorld::new(ScriptedModel::always(vec![ScriptedTurn::say("hello")])).await;
    assert_completed(&world.submit(vec![]).await, "hello");
    pass(5).await;
    world.clock.step(31 * DAY);
    pass(3).await;
    world.clock.step(-31 * DAY);
    pass(2 * 3_600).await;
    assert_completed(&world.get().await, "hello");
    // A clock that keeps its new time is trusted eventually.
    world.clock.step(31 * DAY);
    pass(3_000).await;
    assert_completed(&world.get().await, "hello");
    pass(700).await;
    assert!(matches!(world.engine.get(&key("q"), None).await, Err(EngineError::QueryNotFound(..))));
}

async fn waiting() -> (EngineWorld, Snapshot) {
    let script = ScriptedModel::always(vec![ScriptedTurn::call("ask", &json!({"n": 1})), ScriptedTurn::say("thanks")]);
    let world = EngineWorld::new(script).await;
    let paused = world.submit(vec![outside("ask")]).await;
    pass(5).await;
    (world, paused)
}

#[tokio::test(start_paused = true)]
async fn no_wait_expires_by_a_clock_that_is_briefly_wrong() {
    let (world, paused) = waiting().await;
    world.clock.step(31 * DAY);
    pass(3).await;
    world.clock.step(-31 * DAY);
    pass(60).await;
    let delivered = world.deliver(call(&paused, 0), "42").await;
    assert!(accepted(&delivered));
    assert_completed(&delivered.snapshot, "thanks");
}

#[tokio::test(start_paused = true)]
async fn a_wait_expires_by_a_clock_that_keeps_its_new_time() {
    let (world, _) = waiting().await;
    world.clock.step(DAY);
    pass(5).await;
    assert_eq!(world.get().await.head.status(), Status::Waiting);
    pass(10).await;
    assert_completed(&world.get().await, "thanks");
}

#[tokio::test(start_paused = true)]
async fn a_late_continue_is_refused_before_the_sweep() {
    let (world, paused) = waiting().await;
    let held = vec![delivery(call(&paused, 0), "42")];
    world.engine.deliver(Actor::local(), key("q"), held, true, None).await.unwrap();
    // The sweep waits until the clock is steady; requests are decided by the clock.
    world.clock.step(DAY);
    let late = world.engine.resume(Actor::local(), key("q"), PATIENCE).await;
    assert!(matches!(late, Err(EngineError::HoldExpired(_))), "{late:?}");
    pass(30).await;
    assert_failed(&world.get().await, "hold_expired");
}
