//! Repeated crashes: finding the query that causes them.

use std::time::Duration;

use bosun_core::{Status, machine::CRASHES_TOGETHER};
use serde_json::json;

use super::world::{EngineWorld, PATIENCE, assert_completed, assert_failed, key, submission};
use crate::{
    EngineSettings, Submission,
    testing::{CallLedger, ScriptedModel, ScriptedTurn},
};

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

fn asking(name: &str, input: &str) -> Submission {
    Submission { input: input.into(), ..submission(name, vec![]) }
}

#[tokio::test(start_paused = true)]
async fn orderly_restarts_in_one_long_turn_poison_nothing() {
    let mut world = EngineWorld::new(ScriptedModel::always(vec![ScriptedTurn::default().hanging()])).await;
    world.engine.submit(submission("q", vec![]), Some(Duration::from_secs(1))).await.unwrap();
    for restart in 1..=20 {
        world.engine.shut_down(Duration::from_secs(1)).await.unwrap();
        world = world.crash().await;
        let snapshot = world.engine.get(&key("q"), Some(Duration::from_secs(1))).await.unwrap();
        assert_eq!(snapshot.head.status(), Status::Running);
        assert_eq!((snapshot.head.attempt, snapshot.head.recoveries), (restart + 1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn crashes_with_another_cause_poison_none_of_many() {
    const QUERIES: usize = 51;
    let mut world = EngineWorld::new(ScriptedModel::always(vec![ScriptedTurn::default().hanging()])).await;
    for number in 0..QUERIES {
        world.engine.submit(submission(&format!("q{number}"), vec![]), None).await.unwrap();
    }
    for crash in 1..=12 {
        pass(5).await;
        world = world.crash().await;
        for number in 0..QUERIES {
            let status = world.engine.get(&key(&format!("q{number}")), None).await.unwrap().head.status();
            assert_eq!(status, Status::Running, "q{number} after {crash} crashes");
        }
    }
}

/// How often the model was asked for the query that crashes the process.
fn kills(world: &EngineWorld) -> usize {
    let requests = world.model.requests();
    requests.iter().filter(|request| format!("{:?}", request.messages).contains("boom")).count()
}

#[tokio::test(start_paused = true)]
async fn the_query_that_crashes_servers_is_found_and_the_others_continue() {
    const OTHERS: usize = 8;
    let script = ScriptedModel::always(vec![ScriptedTurn::call("again", &json!({"n": 1})), ScriptedTurn::say("done")])
        .on("boom", vec![ScriptedTurn::default().hanging()])
        .on("new", vec![ScriptedTurn::say("hello")]);
    let settings = EngineSettings { max_running: 4 * OTHERS, ..EngineSettings::default() };
    let mut world = EngineWorld::with_settings(script, CallLedger::gated(), settings).await;
    world.engine.submit(asking("killer", "boom"), None).await.unwrap();
    for number in 0..OTHERS {
        world.engine.submit(asking(&format!("q{number}"), "go"), None).await.unwrap();
    }
    pass(1).await;
    let mut crashes = 0;
    loop {
        let killed = kills(&world);
        world = world.crash().await;
        crashes += 1;
        if crashes == CRASHES_TOGETHER {
            world.ledger.let_through(1_000);
        }
        // The process dies of the killer, as soon as that is asked for.
        let mut seconds = 0;
        while kills(&world) == killed && seconds < 60 {
            pass(1).await;
            seconds += 1;
        }
        if kills(&world) == killed {
            break;
        }
        assert!(crashes < 10, "the killer is not found");
    }
    assert_failed(&world.engine.get(&key("killer"), PATIENCE).await.unwrap(), "poisoned");
    for number in 0..OTHERS {
        assert_completed(&world.engine.get(&key(&format!("q{number}")), PATIENCE).await.unwrap(), "done");
    }
    assert_eq!(crashes, 6);
}

#[tokio::test(start_paused = true)]
async fn new_work_is_not_delayed_by_retries_in_isolation() {
    let script =
        ScriptedModel::always(vec![ScriptedTurn::default().hanging()]).on("new", vec![ScriptedTurn::say("hello")]);
    let settings = EngineSettings { max_running: 3, ..EngineSettings::default() };
    let mut world = EngineWorld::with_settings(script, CallLedger::open(), settings).await;
    for number in 0..3 {
        world.engine.submit(submission(&format!("q{number}"), vec![]), None).await.unwrap();
    }
    for _ in 0..CRASHES_TOGETHER {
        pass(5).await;
        world = world.crash().await;
    }
    pass(5).await;
    let before = world.model.requests().len();
    for name in ["a", "b", "c"] {
        assert_completed(&world.engine.submit(asking(name, "new"), PATIENCE).await.unwrap().snapshot, "hello");
    }
    assert_eq!(world.model.requests().len(), before + 3, "the others are retried one at a time");
}
