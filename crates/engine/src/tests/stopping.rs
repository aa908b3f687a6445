//! Graceful shutdown: what running work is given, and what is left to the next process.

use std::time::Duration;

use bosun_core::{Outcome, Status};
use serde_json::json;

use super::world::{EngineWorld, PATIENCE, assert_completed, key, outside, submission};
use crate::{
    EngineError,
    testing::{CallLedger, ScriptedModel, ScriptedTurn},
};

/// Less than a call may take.
const GRACE: Duration = Duration::from_secs(10);

/// A world in which the call of a tool that must not run twice has begun.
async fn running_a_call() -> EngineWorld {
    let script = ScriptedModel::always(vec![ScriptedTurn::call("once", &json!({"n": 1})), ScriptedTurn::say("done")]);
    let world = EngineWorld::with(script, CallLedger::gated()).await;
    world.engine.submit(submission("q", vec![]), Some(Duration::from_secs(1))).await.unwrap();
    assert_eq!(world.ledger.runs().len(), 1);
    world
}

#[tokio::test(start_paused = true)]
async fn a_call_that_ends_in_time_is_recorded_and_its_query_continues_in_the_next_process() {
    let world = running_a_call().await;
    let ending = async {
        tokio::time::sleep(GRACE / 2).await;
        world.ledger.let_through(1);
    };
    let before = tokio::time::Instant::now();
    tokio::join!(world.engine.drain(GRACE), ending);
    assert_eq!(before.elapsed(), GRACE / 2, "it waits for the call, and for nothing else");
    world.engine.close().await.unwrap();
    assert_eq!(world.model.requests().len(), 1, "no new turn is begun");
    let world = world.crash().await;
    assert_completed(&world.get().await, "done");
    assert_eq!(world.ledger.runs().len(), 1, "it has its outcome");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_does_not_end_in_time_is_left_with_an_unknown_outcome() {
    let world = running_a_call().await;
    let before = tokio::time::Instant::now();
    world.engine.shut_down(GRACE).await.unwrap();
    assert_eq!(before.elapsed(), GRACE);
    let world = world.crash().await;
    let snapshot = world.get().await;
    assert_completed(&snapshot, "done");
    let outcome = &snapshot.transcript.calls().next().unwrap().result.as_ref().unwrap().outcome;
    assert!(matches!(&**outcome, Outcome::Failure { code, .. } if code == "outcome_unknown"), "{outcome:?}");
    assert_eq!(world.ledger.runs().len(), 1, "it is not run again");
}

#[tokio::test(start_paused = true)]
async fn a_turn_is_not_awaited_and_is_retried_in_the_next_process() {
    let world = EngineWorld::new(ScriptedModel::always(vec![ScriptedTurn::default().hanging()])).await;
    world.engine.submit(submission("q", vec![]), Some(Duration::from_secs(1))).await.unwrap();
    let before = tokio::time::Instant::now();
    world.engine.shut_down(GRACE).await.unwrap();
    assert_eq!(before.elapsed(), Duration::ZERO);
    let world = world.crash().await;
    let snapshot = world.engine.get(&key("q"), Some(Duration::from_secs(1))).await.unwrap();
    assert_eq!((snapshot.head.turn, snapshot.head.attempt), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn waiting_callers_are_answered_with_the_current_state() {
    let world = EngineWorld::new(ScriptedModel::always(vec![ScriptedTurn::default().hanging()])).await;
    let submitted = world.engine.submit(submission("q", vec![]), PATIENCE);
    let asked = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        world.engine.get(&key("q"), PATIENCE).await
    };
    let stopped = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        world.engine.drain(GRACE).await;
    };
    let (submitted, asked, ()) = tokio::join!(submitted, asked, stopped);
    assert_eq!(submitted.unwrap().snapshot.head.status(), Status::Running);
    assert_eq!(asked.unwrap().head.status(), Status::Running);
    let late = world.engine.submit(submission("late", vec![outside("ask")]), None).await;
    assert!(matches!(late, Err(EngineError::ShuttingDown)), "{late:?}");
    assert_eq!(
        world.engine.get(&key("q"), None).await.unwrap().head.status(),
        Status::Running,
        "reads are still answered"
    );
    world.engine.close().await.unwrap();
}
