//! Turns and inside calls.

use std::{sync::Arc, time::Duration};

use bosun_core::{
    Actor, CallId, Event, Outcome, Status, Tool,
    machine::{self, AskedByModel, CallDisposition, ModelTurnReply},
    query::AskedLimits,
    tool::Deprecation,
    transcript::Message,
};
use serde_json::json;

use super::world::{EngineWorld, PATIENCE, assert_completed, assert_failed, call, key, limited, outside, submission};
use crate::{
    EngineError, Store as _, Submission,
    admission::Admission,
    testing::{CallLedger, ScriptedModel, ScriptedTurn},
    turns::driver::{Driver, DriverStart},
};

fn call_three() -> ScriptedTurn {
    ScriptedTurn::call("again", &json!({"n": 1})).and_call("once", r#"{"n":2}"#).and_call("again", r#"{"n":3}"#)
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_calls_completes_the_query() {
    let world = EngineWorld::new(ScriptedModel::always(vec![ScriptedTurn::say("hello")])).await;
    let snapshot = world.submit(vec![]).await;
    assert_completed(&snapshot, "hello");
    assert_eq!(snapshot.head.usage.total(), 15);
}

#[tokio::test(start_paused = true)]
async fn calls_of_a_turn_run_concurrently_and_are_answered_in_request_order() {
    let script = ScriptedModel::always(vec![call_three(), ScriptedTurn::say("done")]);
    let world = EngineWorld::with(script, CallLedger::gated()).await;
    let submitted = world.engine.submit(submission("q", vec![]), Some(Duration::from_secs(1))).await.unwrap().snapshot;
    assert_eq!(submitted.head.status(), Status::Running);
    assert_eq!(world.ledger.runs().len(), 3, "all three have started, none has ended");
    world.ledger.let_through(3);
    assert_completed(&world.get().await, "done");
    let requests = world.model.requests();
    let results: Vec<_> = requests[1]
        .messages
        .iter()
        .filter_map(|message| match message {
            Message::Tool { alias, .. } => Some(&**alias),
            _ => None,
        })
        .collect();
    assert_eq!(results, ["again", "once", "again"]);
}

#[tokio::test(start_paused = true)]
async fn the_next_turn_begins_in_the_append_that_finishes_the_last_call() {
    let world = EngineWorld::new(ScriptedModel::always(vec![call_three(), ScriptedTurn::say("done")])).await;
    assert_completed(&world.submit(vec![]).await, "done");
    // Created and begun, asked and two of three started, the third one started, three times finished, ended.
    assert_eq!(world.store.stats().appends, 7);
}

#[tokio::test(start_paused = true)]
async fn calls_that_may_run_twice_start_in_the_append_that_requests_them() {
    let world = EngineWorld::new(ScriptedModel::always(vec![call_three(), ScriptedTurn::say("done")])).await;
    assert_completed(&world.submit(vec![]).await, "done");
    let (namespace, name) = key("q");
    let journal = world.store.load(&namespace, &name).await.unwrap().unwrap().entries;
    let (mut asked, mut started) = (Vec::new(), Vec::new());
    for entry in &journal {
        match &entry.event {
            Event::CallAsked(call) => asked.push(call.call),
            Event::CallStarted { call, attempt: 1 } => started.push((entry.seq, *call)),
            _ => {}
        }
    }
    let [again, once, again_2] = asked[..] else { panic!("{asked:?}") };
    // Right behind the three requests; the one that must not run twice has to be durable first, alone.
    assert_eq!(started, [(7, again), (8, again_2), (9, once)]);
}

/// Ids follow from turn and index: a turn that was lost and is retried has the ids of the first attempt.
#[tokio::test(start_paused = true)]
async fn an_outcome_is_not_mistaken_for_that_of_another_call_with_the_same_id() {
    let world = EngineWorld::new(ScriptedModel::always(vec![ScriptedTurn::default().hanging()])).await;
    let asking = world.engine.submit(submission("q", vec![]), Some(Duration::from_secs(1))).await.unwrap().snapshot;
    let live = world.engine.inner.live_queries.entry(&key("q"));
    let permit = Admission::enter_again(&world.engine.inner, &key("q"));
    let mut driver = Driver::new(permit, live, DriverStart::Due);
    let id = CallId::derive(asking.head.uid, 1, 0);
    driver.finished.push((id, Arc::new(Outcome::success("of the turn that was lost"))));
    let asked = AskedByModel {
        provider_id: "call-1-0".into(),
        tool: "again".into(),
        alias: "again".into(),
        arguments: json!({"n": 2}).into(),
        written: None,
        dropped: Vec::new(),
        deprecated: None,
        on_expired: None,
        way: CallDisposition::Inside { repeatable: true },
    };
    let reply = ModelTurnReply { calls: vec![asked], ..ModelTurnReply::default() };
    driver.end_turn(None, |head, now| machine::end_turn(head, now, reply)).await.unwrap();
    assert_eq!(driver.finished, []);
    assert_eq!(driver.live.lock_new().await.take_started().calls, [id]);
}

#[tokio::test(start_paused = true)]
async fn a_name_can_be_reused_while_readers_and_the_driver_of_its_last_query_remain() {
    let script = ScriptedModel::always(vec![ScriptedTurn::default().hanging()])
        .on("another", vec![ScriptedTurn::call("once", &json!({"n": 1})), ScriptedTurn::say("hello")]);
    let world = EngineWorld::with(script, CallLedger::gated()).await;
    world.engine.submit(submission("q", vec![]), Some(Duration::from_secs(1))).await.unwrap();
    let _reader = world.engine.watch(&key("q"), 0).await.unwrap();
    world.engine.delete(Actor::local(), key("q")).await.unwrap();
    let another = Submission { input: "another".into(), ..submission("q", vec![]) };
    let snapshot = world.engine.submit(another, Some(Duration::from_secs(1))).await.unwrap().snapshot;
    assert_eq!(snapshot.head.status(), Status::Running, "the end of the first is not the end of this one");
    world.ledger.let_through(1);
    assert_completed(&world.get().await, "hello");
    let (namespace, name) = key("q");
    let journal = world.store.load(&namespace, &name).await.unwrap().unwrap().entries;
    let begun = journal.iter().filter_map(|entry| match entry.event {
        Event::TurnStarted { turn, attempt, .. } => Some((turn, attempt)),
        _ => None,
    });
    assert_eq!(begun.collect::<Vec<_>>(), [(1, 1), (2, 1)], "no driver took the turn of another query for its own");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_does_not_match_its_schema_is_reported_to_the_model_and_never_runs() {
    let bad = [
        ("once", r#"{"n": 2.5}"#, "Parameter n must be an integer, got: 2.5"),
        ("once", r#"{"m": 1}"#, "Unknown parameter: m"),
        ("once", r#"{"n": 1"#, "Invalid tool arguments JSON"),
        ("once", r#"{"n": 1, "n": 2}"#, "Invalid tool arguments JSON"),
        ("never_heard_of", "{}", "there is no tool `never_heard_of`"),
    ];
    for (tool, arguments, sentence) in bad {
        let script =
            ScriptedModel::always(vec![ScriptedTurn::default().and_call(tool, arguments), ScriptedTurn::say("sorry")]);
        let world = EngineWorld::new(script).await;
        assert_completed(&world.submit(vec![]).await, "sorry");
        assert_eq!(world.ledger.runs(), [], "{arguments}");
        let requests = world.model.requests();
        let Some(Message::Tool { content, .. }) = requests[1].messages.last() else { panic!("no result") };
        assert!(content.contains(sentence), "{content}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_argument_is_coerced() {
    for (arguments, sentence) in [
        (r#"{"n": "5"}"#, "Parameter n has wrong type: expected integer, got string"),
        (r#"{"n": true}"#, "Parameter n has wrong type: expected integer, got boolean"),
        (r#"{"n": [5]}"#, "Parameter n has wrong type: expected integer, got array"),
        (r#"{"note": 5}"#, "Parameter note has wrong type: expected string, got number"),
        (r#"{"note": true}"#, "Parameter note has wrong type: expected string, got boolean"),
        (r#"{"note": ["5"]}"#, "Parameter note has wrong type: expected string, got array"),
        (r#""{\"n\": 5}""#, "Arguments are not valid: must be an object"),
    ] {
        for tool in ["once", "ask"] {
            let call = ScriptedTurn::default().and_call(tool, arguments);
            let world = EngineWorld::new(ScriptedModel::always(vec![call, ScriptedTurn::say("sorry")])).await;
            let ended = world.submit(vec![outside("ask")]).await;
            assert_completed(&ended, "sorry");
            assert_eq!(world.ledger.runs(), [], "{tool} {arguments}");
            let asked = &ended.transcript.calls().next().unwrap().asked;
            assert_eq!(*asked.arguments, json!(null), "{tool} {arguments}: nothing was accepted");
            let requests = world.model.requests();
            let Some(Message::Tool { content, .. }) = requests[1].messages.last() else { panic!("no result") };
            assert!(content.contains(sentence), "{tool} {arguments}: {content}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_journal_warns_that_a_tool_is_deprecated() {
    let script = ScriptedModel::always(vec![ScriptedTurn::call("old", &json!({"n": 1})), ScriptedTurn::say("ok")]);
    let world = EngineWorld::new(script).await;
    let deprecated = Deprecation { since: Some("2.0".into()), message: None, replaced_by: Some("new".into()) };
    let snapshot = world.submit(vec![Tool { deprecated: Some(deprecated), ..outside("old") }]).await;
    assert_eq!(
        snapshot.transcript.call(call(&snapshot, 0)).unwrap().asked.deprecated.as_deref(),
        Some("tool `old` is deprecated since 2.0; use `new` instead")
    );
}

#[tokio::test(start_paused = true)]
async fn a_null_for_an_optional_parameter_is_dropped_and_recorded() {
    let script = ScriptedModel::always(vec![
        ScriptedTurn::call("once", &json!({"n": 1, "note": null})),
        ScriptedTurn::say("ok"),
    ]);
    let world = EngineWorld::new(script).await;
    let snapshot = world.submit(vec![]).await;
    assert_eq!(world.ledger.runs()[0].arguments, json!({"n": 1}));
    assert_eq!(snapshot.transcript.call(call(&snapshot, 0)).unwrap().asked.dropped, ["note"]);
    let requests = world.model.requests();
    let Message::Assistant { calls, .. } = &requests[1].messages[2] else { panic!("no assistant") };
    assert_eq!(calls[0].arguments, r#"{"n":1,"note":null}"#, "the model reads what it wrote");
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_hangs_times_out_and_the_model_continues() {
    let script = ScriptedModel::always(vec![ScriptedTurn::call("once", &json!({})), ScriptedTurn::say("moving on")]);
    let world = EngineWorld::with(script, CallLedger::gated()).await;
    let limits = AskedLimits { tool_timeout: Some(Duration::from_secs(5)), ..AskedLimits::default() };
    let snapshot = world.engine.submit(limited(vec![], limits), PATIENCE).await.unwrap().snapshot;
    assert_completed(&snapshot, "moving on");
    let result = &snapshot.transcript.calls().next().unwrap().result.as_ref().unwrap().outcome;
    assert!(matches!(&**result, Outcome::Failure { code, .. } if code == "tool_timeout"));
}

#[tokio::test(start_paused = true)]
async fn a_query_that_runs_too_long_fails() {
    let world = EngineWorld::new(ScriptedModel::always(vec![ScriptedTurn::stream(&["hm"]).hanging()])).await;
    let limits = AskedLimits { query_timeout: Some(Duration::from_secs(10)), ..AskedLimits::default() };
    let snapshot = world.engine.submit(limited(vec![], limits), PATIENCE).await.unwrap().snapshot;
    assert_failed(&snapshot, "query_timeout");
}

#[tokio::test(start_paused = true)]
async fn a_panic_fails_one_query_and_no_other() {
    let world = EngineWorld::new(
        ScriptedModel::always(vec![ScriptedTurn::say("fine")]).on("boom", vec![ScriptedTurn::panicking()]),
    )
    .await;
    let mut bomb = submission("bomb", vec![]);
    bomb.input = "boom".into();
    assert_failed(&world.engine.submit(bomb, PATIENCE).await.unwrap().snapshot, "internal_error");
    assert_completed(&world.submit(vec![]).await, "fine");
}

#[tokio::test(start_paused = true)]
async fn a_model_that_refuses_fails_the_query_with_its_reason() {
    let world = EngineWorld::new(ScriptedModel::always(vec![ScriptedTurn::refuse(401, "no such key")])).await;
    assert_failed(&world.submit(vec![]).await, "model_refused");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_breaks_off_runs_no_tool_and_is_retried() {
    let script = ScriptedModel::always(vec![
        ScriptedTurn::stream(&["let me"]).and_call("once", "{}").disconnecting(),
        ScriptedTurn::say("ok"),
    ]);
    let world = EngineWorld::new(script).await;
    let snapshot = world.submit(vec![]).await;
    assert_completed(&snapshot, "ok");
    assert_eq!(world.ledger.runs().len(), 1, "only the whole answer counted");
}

#[tokio::test(start_paused = true)]
async fn cancelling_stops_a_model_that_hangs_and_a_call_that_runs() {
    for turn in [ScriptedTurn::default().hanging(), ScriptedTurn::call("once", &json!({}))] {
        let world = EngineWorld::with(ScriptedModel::always(vec![turn]), CallLedger::gated()).await;
        world.engine.submit(submission("q", vec![]), None).await.unwrap();
        let snapshot = world.engine.cancel(Actor::local(), key("q"), Some("enough".into())).await.unwrap();
        assert_eq!(snapshot.head.status(), Status::Cancelled);
        drop(snapshot);
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(world.engine.busy(), 0, "it is no longer in use");
    }
}

#[tokio::test(start_paused = true)]
async fn missing_references_are_refused_before_anything_is_stored() {
    let world = EngineWorld::new(ScriptedModel::always(vec![ScriptedTurn::say("hello")])).await;
    let mut unknown = submission("q", vec![]);
    unknown.target = "missing".into();
    let error = world.engine.submit(unknown, None).await.unwrap_err();
    assert!(matches!(error, EngineError::AgentNotFound(..)));
    let mut picky = submission("q", vec![]);
    picky.selected_tools = Some(vec!["hammer".into()]);
    let error = world.engine.submit(picky, None).await.unwrap_err();
    assert!(matches!(error, EngineError::ToolsNotFound { names, .. } if names == ["hammer"]));
    assert!(matches!(world.engine.get(&key("q"), None).await.unwrap_err(), EngineError::QueryNotFound(..)));
}

#[tokio::test(start_paused = true)]
async fn a_name_is_unique_and_a_retried_request_gets_its_query() {
    let world = EngineWorld::new(ScriptedModel::always(vec![ScriptedTurn::call("ask", &json!({}))])).await;
    let both = tokio::join!(
        world.engine.submit(submission("q", vec![outside("ask")]), PATIENCE),
        world.engine.submit(submission("q", vec![outside("ask")]), PATIENCE),
    );
    let (first, second) = (both.0.unwrap(), both.1.unwrap());
    assert_eq!((first.replayed, second.replayed), (false, true));
    assert_eq!(first.snapshot.head.uid, second.snapshot.head.uid);
    assert_eq!(world.model.requests().len(), 1);
    let again = world.engine.submit(submission("q", vec![]), None).await.unwrap_err();
    assert!(matches!(again, EngineError::NameTaken(..)));
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_cancels_nothing() {
    let world = EngineWorld::new(ScriptedModel::always(vec![ScriptedTurn::say("hello")])).await;
    {
        // It waits for the answer. Polled once, so that the change is under way, and dropped.
        let submitted = world.engine.submit(submission("q", vec![]), PATIENCE);
        tokio::pin!(submitted);
        assert!(futures_util::poll!(submitted.as_mut()).is_pending());
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_completed(&world.get().await, "hello");
}
