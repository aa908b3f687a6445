//! Admission: which queries run, which are queued, and which are refused.

use std::time::Duration;

use bosun_core::{Actor, Namespace, Status};
use serde_json::json;

use super::world::{EngineWorld, PATIENCE, accepted, assert_completed, call, delivery, key, outside, submission};
use crate::{
    EngineError, EngineSettings, QueryKey, Submission,
    testing::{CallLedger, ScriptedModel, ScriptedTurn},
};

/// A world with few permits.
async fn narrow(script: ScriptedModel, ledger: CallLedger, max_running: usize, max_queued: usize) -> EngineWorld {
    EngineWorld::with_settings(script, ledger, EngineSettings { max_running, max_queued, ..EngineSettings::default() })
        .await
}

/// A tool that does not end until it is let through, and then an answer.
fn slow() -> ScriptedModel {
    ScriptedModel::always(vec![ScriptedTurn::call("again", &json!({"n": 1})), ScriptedTurn::say("done")])
}

async fn state(world: &EngineWorld, key: &QueryKey) -> Status {
    world.engine.get(key, None).await.unwrap().head.status()
}

#[tokio::test(start_paused = true)]
async fn a_query_without_a_permit_is_queued_and_takes_no_memory() {
    let world = narrow(slow(), CallLedger::gated(), 2, 100).await;
    for name in ["a", "b", "c", "d"] {
        world.engine.submit(submission(name, vec![]), Some(Duration::from_millis(10))).await.unwrap();
    }
    assert_eq!(world.ledger.runs().len(), 2, "two permits, two runs");
    assert_eq!(world.engine.busy(), 2, "queued queries are not in memory");
    assert_eq!(state(&world, &key("d")).await, Status::Queued);
    world.ledger.let_through(4);
    for name in ["a", "b", "c", "d"] {
        assert_completed(&world.engine.get(&key(name), PATIENCE).await.unwrap(), "done");
    }
}

#[tokio::test(start_paused = true)]
async fn when_the_queue_is_full_new_queries_are_refused_and_results_are_not() {
    let asks = vec![ScriptedTurn::call("ask", &json!({"n": 1})), ScriptedTurn::say("thanks")];
    let script = ScriptedModel::always(vec![ScriptedTurn::default().hanging()]).on("ask first", asks);
    let world = narrow(script, CallLedger::open(), 1, 2).await;
    let asking = Submission { input: "ask first".into(), ..submission("asked", vec![outside("ask")]) };
    let asked = world.engine.submit(asking, PATIENCE).await.unwrap().snapshot;
    for name in ["a", "b", "c"] {
        world.engine.submit(submission(name, vec![]), None).await.unwrap();
    }
    let refused = world.engine.submit(submission("d", vec![]), None).await.unwrap_err();
    assert!(matches!(refused, EngineError::Overloaded(2)), "{refused}");
    assert!(matches!(world.engine.get(&key("d"), None).await, Err(EngineError::QueryNotFound(..))), "nothing is left");
    let again = world.engine.submit(submission("a", vec![]), None).await;
    assert!(!matches!(again, Err(EngineError::Overloaded(_))), "a retry of an existing query is not refused");
    let posted = vec![delivery(call(&asked, 0), "42")];
    assert!(accepted(&world.engine.deliver(Actor::local(), key("asked"), posted, false, None).await.unwrap()));

    // A query that ends makes room for another.
    for name in ["b", "c", "asked"] {
        world.engine.cancel(Actor::local(), key(name), None).await.unwrap();
    }
    world.engine.cancel(Actor::local(), key("a"), None).await.unwrap();
    // Time is paused except for this: the permits are released first.
    tokio::time::sleep(Duration::from_millis(1)).await;
    world.engine.submit(submission("e", vec![]), None).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_busy_namespace_does_not_block_a_quiet_one() {
    let world = narrow(slow(), CallLedger::gated(), 1, 100).await;
    let busy: Namespace = "default".parse().unwrap();
    let quiet: Namespace = "quiet".parse().unwrap();
    for number in 0..20 {
        world.engine.submit(submission(&format!("busy-{number}"), vec![]), None).await.unwrap();
        // The order of queries of the same millisecond is not defined.
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    let mut late = submission("late", vec![]);
    late.namespace = quiet.clone();
    world.engine.submit(late, None).await.unwrap();
    // The running one, one of the busy namespace that was fetched before, and then this one.
    world.ledger.let_through(3);
    let late = world.engine.get(&(quiet, "late".parse().unwrap()), PATIENCE).await.unwrap();
    assert_completed(&late, "done");
    let done = async |number: u32| {
        let key = (busy.clone(), format!("busy-{number}").parse().unwrap());
        world.engine.get(&key, None).await.unwrap().head.status() == Status::Completed
    };
    assert!(done(0).await && !done(19).await);
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_running_and_queued_queries_continue() {
    let world = narrow(slow(), CallLedger::gated(), 2, 100).await;
    for number in 0..10 {
        world.engine.submit(submission(&format!("q{number}"), vec![]), None).await.unwrap();
    }
    let world = world.crash().await;
    world.ledger.let_through(99);
    for number in 0..10 {
        let snapshot = world.engine.get(&key(&format!("q{number}")), PATIENCE).await.unwrap();
        assert_completed(&snapshot, "done");
        assert!(snapshot.head.recoveries <= 1);
    }
}

#[tokio::test(start_paused = true)]
async fn deadlines_that_pass_at_once_do_not_flood_the_model() {
    let script =
        ScriptedModel::always(vec![ScriptedTurn::call("ask", &json!({"n": 1})), ScriptedTurn::default().hanging()]);
    let world = narrow(script, CallLedger::open(), 2, 3).await;
    for number in 0..30 {
        world.engine.submit(submission(&format!("q{number}"), vec![outside("ask")]), PATIENCE).await.unwrap();
    }
    tokio::time::advance(Duration::from_secs(601)).await;
    let mut asked_again = 0;
    // Time is paused: this lets everything happen that needs no time.
    for _ in 0..2_000 {
        tokio::task::yield_now().await;
        asked_again = world.model.requests().len() - 30;
    }
    assert_eq!(asked_again, 2, "two permits");
    for number in 0..30 {
        let state = state(&world, &key(&format!("q{number}"))).await;
        assert_eq!(state, Status::Running, "q{number}: a call expires in time, however long the queue is");
    }
}
