//! Outside calls: pause, deliver, hold, expire.

use std::time::Duration;

use bosun_core::{
    Actor, Event, Outcome, Status,
    machine::{Delivery, DeliveryTarget, DeliveryVerdict},
    query::{AskedLimits, ExpiryPolicy},
    transcript::Message,
};
use serde_json::json;

use super::world::{
    EngineWorld, PATIENCE, accepted, assert_completed, assert_failed, call, defaults, delivery, key, limited, outside,
    submission,
};
use crate::{
    EngineError, EngineSettings, Store, Submission,
    testing::{CallLedger, ScriptedModel, ScriptedTurn},
};

fn ask_then_say() -> ScriptedModel {
    ScriptedModel::always(vec![ScriptedTurn::call("ask", &json!({"n": 1})), ScriptedTurn::say("thanks")])
}

#[tokio::test(start_paused = true)]
async fn a_query_pauses_for_an_outside_tool_and_continues_with_its_result() {
    let world = EngineWorld::new(ask_then_say()).await;
    let paused = world.submit(vec![outside("ask")]).await;
    assert_eq!(paused.head.status(), Status::Waiting);
    let report = world.deliver(call(&paused, 0), "42").await;
    assert!(accepted(&report));
    assert_completed(&report.snapshot, "thanks");
    let requests = world.model.requests();
    assert_eq!(requests.len(), 2);
    let Some(Message::Tool { content, .. }) = requests[1].messages.last() else { panic!("no result") };
    assert_eq!(content, "42");
}

#[tokio::test(start_paused = true)]
async fn a_whole_cycle_waits_for_the_disk_twice() {
    let world = EngineWorld::new(ask_then_say()).await;
    let before = world.store.stats().awaited_commits;
    let paused = world.submit(vec![outside("ask")]).await;
    world.deliver(call(&paused, 0), "42").await;
    drop(paused);
    assert_eq!(world.store.stats().awaited_commits - before, 2);
}

#[tokio::test(start_paused = true)]
async fn a_turn_begins_in_the_append_that_gives_the_query_work() {
    let world = EngineWorld::new(ask_then_say()).await;
    let paused = world.submit(vec![outside("ask")]).await;
    assert_eq!(world.store.stats().appends, 2, "created and begun; asked");
    assert_completed(&world.deliver(call(&paused, 0), "42").await.snapshot, "thanks");
    assert_eq!(world.store.stats().appends, 4, "delivered and begun; ended");
}

#[tokio::test(start_paused = true)]
async fn a_waiting_query_is_not_in_use() {
    let world = EngineWorld::new(ask_then_say()).await;
    let paused = world.submit(vec![outside("ask")]).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(world.engine.busy(), 0);
    assert_completed(&world.deliver(call(&paused, 0), "42").await.snapshot, "thanks");
}

#[tokio::test(start_paused = true)]
async fn at_most_max_running_waiting_queries_are_cached() {
    let settings = EngineSettings { max_running: 2, ..EngineSettings::default() };
    let world = EngineWorld::with_settings(ask_then_say(), CallLedger::open(), settings).await;
    let queries = &world.engine.inner.live_queries;
    // Time is paused except for this: everything that needs no time happens first.
    let all_are_done = || tokio::time::sleep(Duration::from_millis(1));
    let mut waiting = Vec::new();
    for name in ["a", "b", "c"] {
        let submitted = world.engine.submit(submission(name, vec![outside("ask")]), PATIENCE).await.unwrap();
        waiting.push((key(name), call(&submitted.snapshot, 0)));
        all_are_done().await;
    }
    assert_eq!(queries.cached_waiting(), [key("b"), key("c")], "the one that waited longest was evicted");
    // Cached or only in the store, a query gets its result; and one that has ended is evicted.
    for (key, call) in waiting {
        let report =
            world.engine.deliver(Actor::local(), key, vec![delivery(call, "42")], false, PATIENCE).await.unwrap();
        assert_completed(&report.snapshot, "thanks");
    }
    all_are_done().await;
    assert_eq!(queries.cached_waiting(), []);
    assert_eq!(world.engine.busy(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_query_that_waits_again_has_not_waited_longest() {
    let settings = EngineSettings { max_running: 2, ..EngineSettings::default() };
    let world = EngineWorld::with_settings(ask_twice(), CallLedger::open(), settings).await;
    let all_are_done = || tokio::time::sleep(Duration::from_millis(1));
    let ask =
        async |name| world.engine.submit(submission(name, vec![outside("ask")]), PATIENCE).await.unwrap().snapshot;
    let first = ask("a").await;
    all_are_done().await;
    ask("b").await;
    all_are_done().await;
    let posted = vec![delivery(call(&first, 0), "42")];
    world.engine.deliver(Actor::local(), key("a"), posted, false, PATIENCE).await.unwrap();
    all_are_done().await;
    ask("c").await;
    all_are_done().await;
    assert_eq!(world.engine.inner.live_queries.cached_waiting(), [key("a"), key("c")]);
}

#[tokio::test(start_paused = true)]
async fn the_same_result_again_is_a_replay_and_another_one_a_conflict() {
    let world = EngineWorld::new(ask_then_say()).await;
    let id = call(&world.submit(vec![outside("ask")]).await, 0);
    assert_eq!(world.deliver(id, "42").await.verdicts, [DeliveryVerdict::Accepted(id)]);
    assert_eq!(world.deliver(id, "42").await.verdicts, [DeliveryVerdict::Replayed(id)]);
    assert_eq!(world.deliver(id, "43").await.verdicts, [DeliveryVerdict::AlreadyResolved(id)]);
    assert_eq!(world.model.requests().len(), 2, "the model was asked once for the result");
}

#[tokio::test(start_paused = true)]
async fn concurrent_posts_of_one_result_are_accepted_once() {
    for round in 0..50 {
        let world = EngineWorld::new(ask_then_say()).await;
        let id = call(&world.submit(vec![outside("ask")]).await, 0);
        let posts = (0..8).map(|post| {
            let content = if round % 2 == 0 { "same".to_owned() } else { format!("{post}") };
            let engine = world.engine.clone();
            tokio::task::spawn_local(async move {
                let delivery =
                    Delivery { target: DeliveryTarget::Call(id), outcome: Outcome::success(content), took: None };
                engine.deliver(Actor::local(), key("q"), vec![delivery], false, None).await.unwrap().verdicts[0]
            })
        });
        let local = tokio::task::LocalSet::new();
        let verdicts = local
            .run_until(futures_util::future::join_all(local.run_until(async { posts.collect::<Vec<_>>() }).await))
            .await;
        let accepted = verdicts.iter().filter(|verdict| matches!(verdict, Ok(DeliveryVerdict::Accepted(_)))).count();
        assert_eq!(accepted, 1, "{verdicts:?}");
        assert_completed(&world.get().await, "thanks");
        assert_eq!(world.model.requests().len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_partial_delivery_answers_at_once_and_the_last_one_wakes_the_model() {
    let script = ScriptedModel::always(vec![
        ScriptedTurn::call("ask", &json!({"n": 1})).and_call("ask", r#"{"n":2}"#),
        ScriptedTurn::say("both"),
    ]);
    let world = EngineWorld::new(script).await;
    let paused = world.submit(vec![outside("ask")]).await;
    let report = world.deliver(call(&paused, 1), "second").await;
    assert_eq!(report.snapshot.head.status(), Status::Waiting);
    assert_eq!(report.snapshot.head.outside_calls().count(), 1);
    assert_completed(&world.deliver(call(&paused, 0), "first").await.snapshot, "both");
    let results: Vec<_> = world.model.requests()[1]
        .messages
        .iter()
        .filter_map(|message| match message {
            Message::Tool { content, .. } => Some(content.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(results, ["first", "second"]);
}

#[tokio::test(start_paused = true)]
async fn a_mixed_turn_hands_out_and_runs_at_the_same_time() {
    let script = ScriptedModel::always(vec![
        ScriptedTurn::call("ask", &json!({})).and_call("once", "{}"),
        ScriptedTurn::say("both"),
    ]);
    let world = EngineWorld::with(script, CallLedger::gated()).await;
    let paused = world.submit(vec![outside("ask")]).await;
    assert_eq!(paused.head.status(), Status::Waiting, "though an inside call still runs");
    let delivery = Delivery { target: DeliveryTarget::Tool("ask".into()), outcome: Outcome::success("42"), took: None };
    let report = world
        .engine
        .deliver(Actor::local(), key("q"), vec![delivery], false, Some(Duration::from_secs(1)))
        .await
        .unwrap();
    assert_eq!(report.snapshot.head.status(), Status::Running);
    world.ledger.let_through(1);
    assert_completed(&world.get().await, "both");
}

#[tokio::test(start_paused = true)]
async fn a_call_without_a_result_expires_and_the_model_is_informed() {
    let world = EngineWorld::new(ask_then_say()).await;
    let paused = world.submit(vec![outside("ask")]).await;
    let id = call(&paused, 0);
    tokio::time::sleep(defaults().external_timeout + Duration::from_secs(2)).await;
    assert_completed(&world.get().await, "thanks");
    assert_eq!(world.deliver(id, "42").await.verdicts, [DeliveryVerdict::Expired(id)]);
    let requests = world.model.requests();
    let Some(Message::Tool { content, .. }) = requests[1].messages.last() else { panic!("no result") };
    assert!(content.contains("External tool execution timeout"), "{content}");
}

#[tokio::test(start_paused = true)]
async fn a_query_that_is_not_to_continue_without_a_result_fails_when_the_call_expires() {
    // Found by the sweep, and by a late result before the sweep.
    for late in [false, true] {
        let world = EngineWorld::new(ask_then_say()).await;
        let asked = Submission { on_expired: ExpiryPolicy::Fail, ..submission("q", vec![outside("ask")]) };
        let paused = world.engine.submit(asked, PATIENCE).await.unwrap().snapshot;
        let id = call(&paused, 0);
        if late {
            tokio::time::advance(defaults().external_timeout).await;
            assert_eq!(world.deliver(id, "42").await.verdicts, [DeliveryVerdict::Expired(id)]);
        } else {
            tokio::time::sleep(defaults().external_timeout + Duration::from_secs(2)).await;
        }
        assert_failed(&world.get().await, "call_expired");
        assert_eq!(world.model.requests().len(), 1, "no client reads another answer, and no model is paid for it");
        assert_eq!(world.deliver(id, "42").await.verdicts, [DeliveryVerdict::Expired(id)]);
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_outside_costs_no_running_time() {
    let world = EngineWorld::new(ask_then_say()).await;
    let limits = AskedLimits { query_timeout: Some(Duration::from_secs(2)), ..AskedLimits::default() };
    let paused = world.engine.submit(limited(vec![outside("ask")], limits), PATIENCE).await.unwrap().snapshot;
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_completed(&world.deliver(call(&paused, 0), "42").await.snapshot, "thanks");
}

#[tokio::test(start_paused = true)]
async fn a_held_query_waits_until_it_is_resumed() {
    let world = EngineWorld::new(ask_then_say()).await;
    let paused = world.submit(vec![outside("ask")]).await;
    let delivery =
        Delivery { target: DeliveryTarget::Call(call(&paused, 0)), outcome: Outcome::success("42"), took: None };
    let report = world.engine.deliver(Actor::local(), key("q"), vec![delivery], true, PATIENCE).await.unwrap();
    assert_eq!(report.snapshot.head.status(), Status::Held);
    assert_completed(&world.engine.resume(Actor::local(), key("q"), PATIENCE).await.unwrap(), "thanks");
    assert!(matches!(world.engine.resume(Actor::local(), key("q"), None).await.unwrap_err(), EngineError::NotHeld(_)));
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_is_not_ended_fails_the_query() {
    let world = EngineWorld::new(ask_then_say()).await;
    let paused = world.submit(vec![outside("ask")]).await;
    let delivery =
        Delivery { target: DeliveryTarget::Call(call(&paused, 0)), outcome: Outcome::success("42"), took: None };
    world.engine.deliver(Actor::local(), key("q"), vec![delivery], true, None).await.unwrap();
    tokio::time::sleep(defaults().external_timeout + Duration::from_secs(2)).await;
    assert_failed(&world.get().await, "hold_expired");
}

#[tokio::test(start_paused = true)]
async fn a_result_for_a_cancelled_query_is_refused() {
    let world = EngineWorld::new(ask_then_say()).await;
    let id = call(&world.submit(vec![outside("ask")]).await, 0);
    world.engine.cancel(Actor::local(), key("q"), None).await.unwrap();
    assert_eq!(world.deliver(id, "42").await.verdicts, [DeliveryVerdict::Cancelled(id)]);
    assert_eq!(world.model.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_long_poll_ends_after_its_time_with_the_current_state() {
    let world = EngineWorld::new(ScriptedModel::always(vec![ScriptedTurn::default().hanging()])).await;
    let snapshot = world.engine.submit(submission("q", vec![]), Some(Duration::from_secs(3))).await.unwrap().snapshot;
    assert_eq!(snapshot.head.status(), Status::Running);
}

fn ask_twice() -> ScriptedModel {
    ScriptedModel::always(vec![
        ScriptedTurn::call("ask", &json!({"n": 1})),
        ScriptedTurn::call("ask", &json!({"n": 2})),
    ])
}

#[tokio::test(start_paused = true)]
async fn the_journal_records_the_actor_of_each_act() {
    let world = EngineWorld::new(ask_twice()).await;
    let named = |user: &str| Actor::of_key("ci").unwrap().acting_for(user).unwrap();
    let submission = Submission { by: named("alice"), ..submission("q", vec![outside("ask")]) };
    let paused = world.engine.submit(submission.clone(), PATIENCE).await.unwrap().snapshot;
    assert_eq!(paused.transcript.by, named("alice"));
    let another = Submission { by: named("bob"), ..submission };
    let refused = world.engine.submit(another, None).await.unwrap_err();
    assert!(matches!(refused, EngineError::NameTaken(..)), "an equal request of another actor is a different one");

    let posted = vec![delivery(call(&paused, 0), "42")];
    world.engine.deliver(named("bob"), key("q"), posted, true, None).await.unwrap();
    world.engine.resume(named("carol"), key("q"), PATIENCE).await.unwrap();
    world.engine.cancel(named("dora"), key("q"), None).await.unwrap();
    let stored = world.engine.store().load(&key("q").0, &key("q").1).await.unwrap().unwrap();
    let did: Vec<_> = stored
        .entries
        .into_iter()
        .filter_map(|entry| match entry.event {
            Event::Created { by, .. } => Some(("created", by)),
            Event::CallResolved { by, .. } => Some(("resolved", by)),
            Event::Held { by, .. } => Some(("held", by)),
            Event::Continued { by } => Some(("continued", by)),
            Event::Cancelled { by, .. } => Some(("cancelled", by)),
            _ => None,
        })
        .collect();
    let expected =
        [("created", "alice"), ("resolved", "bob"), ("held", "bob"), ("continued", "carol"), ("cancelled", "dora")];
    assert_eq!(did, expected.map(|(what, who)| (what, named(who))));
}
