//! Calls that run on elsewhere: polled, re-attached after a crash, cancelled and expired; and the progress of others.

use std::time::Duration;

use bosun_core::{Actor, Event, Outcome, Status, query::AskedLimits};
use serde_json::json;

use super::world::{EngineWorld, PATIENCE, assert_completed, call, key, limited, submission};
use crate::{
    CallInProgress, Watched,
    runner::Progress,
    testing::{CallLedger, LedgerRequest, ScriptedModel, ScriptedTurn},
};

const MOMENT: Option<Duration> = Some(Duration::from_millis(50));

fn script() -> ScriptedModel {
    ScriptedModel::always(vec![ScriptedTurn::call("once", &json!({"n": 1})), ScriptedTurn::say("done")])
}

/// A query whose only call, of a tool that must not run twice, is pending.
async fn pending(polls: u32) -> EngineWorld {
    let world = EngineWorld::with(script(), CallLedger::pending(polls)).await;
    let snapshot = world.engine.submit(submission("q", vec![]), MOMENT).await.unwrap().snapshot;
    assert_eq!((snapshot.head.status(), snapshot.head.works_inside()), (Status::Running, false));
    world
}

#[tokio::test(start_paused = true)]
async fn a_pending_call_is_polled_until_it_is_done() {
    let world = pending(3).await;
    let snapshot = world.get().await;
    assert_completed(&snapshot, "done");
    let outcome = &snapshot.transcript.calls().next().unwrap().result.as_ref().unwrap().outcome;
    assert_eq!(**outcome, Outcome::success(json!({"ran": "once", "polls": 3})));
    assert_eq!(world.ledger.runs().len(), 1);
    let handle = json!({"job": call(&snapshot, 0)});
    assert_eq!(world.ledger.asked(), vec![(LedgerRequest::Poll, handle); 3]);
}

#[tokio::test(start_paused = true)]
async fn a_query_with_a_pending_call_holds_no_permit_and_its_clock_is_stopped() {
    let world = pending(1_000).await;
    let before = world.engine.get(&key("q"), MOMENT).await.unwrap();
    tokio::time::sleep(Duration::from_secs(20)).await;
    let after = world.engine.get(&key("q"), MOMENT).await.unwrap();
    let now = after.head.updated_at;
    assert!(after.head.seq > before.head.seq, "it was polled");
    assert!(after.head.clock.spent(now) - before.head.clock.spent(now) < Duration::from_millis(100), "{after:?}");
    assert_eq!(world.engine.busy(), 0, "nothing runs between two polls");
}

#[tokio::test(start_paused = true)]
async fn a_pending_call_is_re_attached_after_a_crash_and_not_run_again() {
    let world = pending(2).await.crash().await;
    assert_completed(&world.get().await, "done");
    assert_eq!(world.ledger.runs().len(), 1, "a call that must not run twice ran twice");
    assert_eq!(world.ledger.asked().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_query_cancels_its_pending_calls() {
    let world = pending(1_000).await;
    world.engine.cancel(Actor::local(), key("q"), None).await.unwrap();
    let asked = || world.ledger.asked().last().map(|(what, _)| *what);
    tokio::time::timeout(Duration::from_secs(5), async {
        while asked() != Some(LedgerRequest::Cancel) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .unwrap();
    let (asked, calls) = (world.ledger.asked().len(), world.get().await.head.calls.len());
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!((world.ledger.asked().len(), calls), (asked, 1), "it is not polled any more");
}

#[tokio::test(start_paused = true)]
async fn a_pending_call_expires_like_one_of_a_client_and_the_model_is_informed() {
    let world = EngineWorld::with(script(), CallLedger::pending(u32::MAX)).await;
    let limits = AskedLimits { external_timeout: Some(Duration::from_secs(3)), ..AskedLimits::default() };
    let snapshot = world.engine.submit(limited(vec![], limits), PATIENCE).await.unwrap().snapshot;
    assert_completed(&snapshot, "done");
    let outcome = &snapshot.transcript.calls().next().unwrap().result.as_ref().unwrap().outcome;
    let Outcome::Failure { code, message, .. } = &**outcome else { panic!("{outcome:?}") };
    assert_eq!(
        (code.as_str(), message.as_str()),
        ("call_expired", "Tool execution timeout: no result for `once` in time; whether it took effect is not known")
    );
}

#[tokio::test(start_paused = true)]
async fn progress_is_shown_to_subscribers_and_keeps_a_call_from_timing_out() {
    let world = EngineWorld::with(script(), CallLedger::reporting(5)).await;
    let limits = AskedLimits { tool_timeout: Some(Duration::from_secs(2)), ..AskedLimits::default() };
    world.engine.submit(limited(vec![], limits), MOMENT).await.unwrap();
    let mut watch = world.engine.watch(&key("q"), 0).await.unwrap();
    let (mut reports, mut finished) = (Vec::new(), None);
    while let Some(watched) = watch.next().await.unwrap() {
        match watched {
            Watched::Progress(CallInProgress { tool, progress, .. }) => reports.push((tool, progress)),
            Watched::Entry(entry) => {
                if let Event::CallFinished { outcome, .. } = &entry.event {
                    finished = Some(outcome.is_success());
                }
            }
            Watched::Delta { .. } | Watched::Below(_) | Watched::BelowEnded(_) => {}
        }
    }
    let report = |done: u32| {
        let progress = Progress { done: done.into(), total: Some(5.0), message: Some(format!("step {done}")) };
        ("once".into(), progress)
    };
    assert_eq!((reports, finished), ((1..=5).map(report).collect(), Some(true)));
}

#[tokio::test(start_paused = true)]
async fn progress_does_not_keep_a_call_running_forever() {
    let world = EngineWorld::with(script(), CallLedger::reporting(1_000)).await;
    let limits = AskedLimits {
        tool_timeout: Some(Duration::from_secs(2)),
        query_timeout: Some(Duration::from_secs(500)),
        ..AskedLimits::default()
    };
    world.engine.submit(limited(vec![], limits), MOMENT).await.unwrap();
    let snapshot = world.get().await;
    assert_completed(&snapshot, "done");
    let outcome = &snapshot.transcript.calls().next().unwrap().result.as_ref().unwrap().outcome;
    assert!(matches!(&**outcome, Outcome::Failure { code, .. } if code == "tool_timeout"), "{outcome:?}");
    assert_eq!(snapshot.head.clock.spent(snapshot.head.updated_at).as_secs(), 20);
}
