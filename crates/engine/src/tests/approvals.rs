//! Calls that wait for a person: approved once, rejected, edited, expired, and all of it across crashes.

use std::{sync::Arc, time::Duration};

use bosun_core::{
    Actor, Outcome, Status,
    machine::{Decision, DecisionVerdict},
    tool::Confirm,
};
use serde_json::{Value, json};

use super::world::{EngineWorld, PATIENCE, assert_completed, call, key, submission};
use crate::{
    AskedDecision, DecisionTarget, EngineError, EngineSettings, Snapshot,
    testing::{CallLedger, ScriptedModel, ScriptedTurn},
};

fn script() -> ScriptedModel {
    ScriptedModel::always(vec![ScriptedTurn::call("once", &json!({"n": 1})), ScriptedTurn::say("done")])
}

/// A query whose only call, of a tool that must not run twice, waits for approval.
async fn awaiting() -> (EngineWorld, Snapshot) {
    let settings = EngineSettings { confirm: Confirm::Always, ..EngineSettings::default() };
    let world = EngineWorld::with_settings(script(), CallLedger::open(), settings).await;
    let snapshot = world.engine.submit(submission("q", vec![]), PATIENCE).await.unwrap().snapshot;
    assert_eq!(snapshot.head.status(), Status::AwaitingApproval);
    assert_eq!(world.ledger.runs(), []);
    (world, snapshot)
}

fn approved(arguments: Option<Value>) -> AskedDecision {
    let decision = Decision::Approved { arguments: arguments.map(Arc::new) };
    AskedDecision { target: DecisionTarget::Only, decision, seen: None }
}

fn rejected(reason: &str) -> AskedDecision {
    let decision = Decision::Rejected { reason: Some(reason.to_owned()) };
    AskedDecision { target: DecisionTarget::Every, decision, seen: None }
}

async fn decide(world: &EngineWorld, asked: AskedDecision) -> Result<(DecisionVerdict, Snapshot), EngineError> {
    let report = world.engine.decide(Actor::of_key("boss").unwrap(), key("q"), asked, PATIENCE).await?;
    Ok((report.verdicts[0].1, report.snapshot))
}

fn outcome(snapshot: &Snapshot) -> Outcome {
    let call = snapshot.transcript.calls().next().unwrap();
    Outcome::clone(&call.result.as_ref().unwrap().outcome)
}

#[tokio::test(start_paused = true)]
async fn an_approved_call_runs_once() {
    let (world, snapshot) = awaiting().await;
    let (verdict, ended) = decide(&world, approved(None)).await.unwrap();
    assert_eq!(verdict, DecisionVerdict::Accepted);
    assert_completed(&ended, "done");
    let by_id = AskedDecision { target: DecisionTarget::Call(call(&snapshot, 0)), ..approved(None) };
    let (verdict, _) = decide(&world, by_id).await.unwrap();
    assert_eq!(verdict, DecisionVerdict::Replayed);
    assert_eq!(world.ledger.runs().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_query_that_waits_for_a_person_holds_no_process_and_survives_a_crash() {
    let (world, _) = awaiting().await;
    assert_eq!(world.engine.busy(), 0);
    let world = world.crash().await;
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    let (verdict, ended) = decide(&world, approved(None)).await.unwrap();
    assert_eq!(verdict, DecisionVerdict::Accepted);
    assert_completed(&ended, "done");
    assert_eq!(world.ledger.runs().len(), 1);
    assert_eq!(ended.transcript.calls().next().unwrap().decision.as_ref().unwrap().by.to_string(), "boss");
}

#[tokio::test(start_paused = true)]
async fn a_rejected_call_never_runs_and_the_model_reads_why() {
    let (world, snapshot) = awaiting().await;
    let (verdict, ended) = decide(&world, rejected("not today")).await.unwrap();
    assert_eq!(verdict, DecisionVerdict::Accepted);
    assert_completed(&ended, "done");
    assert_eq!(outcome(&ended), Outcome::failure("approval_rejected", "the user rejected this call: not today"));
    let late = AskedDecision { target: DecisionTarget::Call(call(&snapshot, 0)), ..approved(None) };
    assert!(matches!(decide(&world, late).await.unwrap().0, DecisionVerdict::AlreadyDecided(_)));
    assert_eq!(world.ledger.runs(), []);
}

#[tokio::test(start_paused = true)]
async fn edited_arguments_are_validated_and_run() {
    let (world, _) = awaiting().await;
    for invalid in [json!({"n": "one"}), json!({"m": 1}), json!([])] {
        let refused = decide(&world, approved(Some(invalid))).await.unwrap_err();
        assert!(matches!(refused, EngineError::InvalidEdit { .. }), "{refused}");
        assert_eq!(world.get().await.head.status(), Status::AwaitingApproval);
    }
    let (_, ended) = decide(&world, approved(Some(json!({"n": 2})))).await.unwrap();
    assert_completed(&ended, "done");
    let runs: Vec<_> = world.ledger.runs().into_iter().map(|run| run.arguments).collect();
    assert_eq!(runs, [json!({"n": 2})]);
}

#[tokio::test(start_paused = true)]
async fn a_call_without_a_decision_expires() {
    let (world, snapshot) = awaiting().await;
    let (_, deadline) = snapshot.head.approvals().next().unwrap();
    assert_eq!(deadline.since(snapshot.head.created_at).as_secs() / 3_600, 24);
    tokio::time::sleep(Duration::from_secs(25 * 3_600)).await;
    let ended = world.get().await;
    assert_completed(&ended, "done");
    assert!(matches!(outcome(&ended), Outcome::Failure { code, .. } if code == "approval_expired"));
    let late = AskedDecision { target: DecisionTarget::Call(call(&snapshot, 0)), ..approved(None) };
    assert_eq!(decide(&world, late).await.unwrap().0, DecisionVerdict::Expired);
    assert!(matches!(decide(&world, approved(None)).await, Err(EngineError::NothingToApprove(_))));
    assert_eq!(world.ledger.runs(), []);
}

#[tokio::test(start_paused = true)]
async fn a_decision_that_leaves_it_open_which_call_is_meant_is_refused() {
    let both = ScriptedTurn::call("once", &json!({"n": 1})).and_call("again", r#"{"n": 2}"#);
    let settings = EngineSettings { confirm: Confirm::Always, ..EngineSettings::default() };
    let model = ScriptedModel::always(vec![both, ScriptedTurn::say("done")]);
    let world = EngineWorld::with_settings(model, CallLedger::open(), settings).await;
    world.engine.submit(submission("q", vec![]), PATIENCE).await.unwrap();
    assert!(matches!(decide(&world, approved(None)).await, Err(EngineError::SeveralToApprove(_))));
    let (_, ended) = decide(&world, rejected("neither")).await.unwrap();
    assert_completed(&ended, "done");
    assert_eq!(world.ledger.runs(), [], "a text rejects all of them");
}
