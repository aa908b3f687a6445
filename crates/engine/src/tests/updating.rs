//! Changes of an accepted query: in the middle of its work, while it waits, and after its end.

use std::{sync::Arc, time::Duration};

use bosun_core::{
    Actor, Event, QueryUid, Status,
    machine::outcome_code,
    query::{AskedLimits, QueryLimits},
};
use serde_json::json;
use tokio::time::Instant;

use super::world::{
    EngineWorld, PATIENCE, accepted, assert_completed, assert_failed, call, key, limited, outside, submission,
};
use crate::{
    EngineError, EngineSettings, Snapshot, Store, StoreError, Update,
    store::{Removal, shown_from},
    testing::{CallLedger, ScriptedModel, ScriptedTurn, query_writer::QueryWriter},
};

const NONE: AskedLimits = AskedLimits {
    query_timeout: None,
    tool_timeout: None,
    external_timeout: None,
    approval_timeout: None,
    max_tool_calls: None,
    max_tokens: None,
    ttl: None,
};

fn seconds(seconds: u64) -> Option<Duration> {
    Some(Duration::from_secs(seconds))
}

impl EngineWorld {
    async fn update(&self, update: Update) -> Snapshot {
        self.engine.update(Actor::local(), key("q"), update).await.unwrap()
    }

    async fn limit(&self, limits: AskedLimits) -> Snapshot {
        self.update(Update { limits, may_shorten: true, ..Update::default() }).await
    }

    async fn kinds(&self) -> Vec<Event> {
        let (namespace, name) = key("q");
        let stored = self.store.load(&namespace, &name).await.unwrap().unwrap();
        stored.entries.into_iter().map(|entry| entry.event).collect()
    }
}

/// Runs a query with a limit of ten seconds, changes that after five, and returns when it failed.
async fn fails_after(world: EngineWorld, change: AskedLimits) -> u64 {
    let began = Instant::now();
    let asked = limited(vec![], AskedLimits { query_timeout: seconds(10), ..NONE });
    let running = world.engine.submit(asked, seconds(5)).await.unwrap().snapshot;
    assert_eq!(running.head.status(), Status::Running);
    world.limit(change).await;
    let ended = world.engine.get(&key("q"), seconds(100)).await.unwrap();
    assert_failed(&ended, "query_timeout");
    began.elapsed().as_secs()
}

#[tokio::test(start_paused = true)]
async fn a_running_query_has_its_latest_timeout() {
    for (change, expect) in [
        (NONE, 10),
        (AskedLimits { query_timeout: seconds(20), ..NONE }, 20),
        (AskedLimits { query_timeout: seconds(7), ..NONE }, 7),
        (AskedLimits { query_timeout: seconds(2), ..NONE }, 5),
    ] {
        let thinking = EngineWorld::new(ScriptedModel::always(vec![ScriptedTurn::stream(&["hm"]).hanging()])).await;
        assert_eq!(fails_after(thinking, change).await, expect, "the model: {change:?}");
        let script = ScriptedModel::always(vec![ScriptedTurn::call("once", &json!({})), ScriptedTurn::say("done")]);
        let acting = EngineWorld::with(script, CallLedger::gated()).await;
        assert_eq!(fails_after(acting, change).await, expect, "an inside call: {change:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_queued_query_is_queued_once_however_often_it_is_changed() {
    let settings = EngineSettings { max_running: 1, max_queued: 3, ..EngineSettings::default() };
    let script = ScriptedModel::always(vec![ScriptedTurn::call("again", &json!({})), ScriptedTurn::say("done")]);
    let world = EngineWorld::with_settings(script, CallLedger::gated(), settings).await;
    for name in ["running", "q"] {
        world.engine.submit(submission(name, vec![]), seconds(1)).await.unwrap();
    }
    for calls in 1..=9 {
        let changed = world.limit(AskedLimits { max_tool_calls: Some(calls), ..NONE }).await;
        assert_eq!(changed.head.status(), Status::Queued);
    }
    world.engine.submit(submission("last", vec![]), None).await.expect("two are queued, and three may be");
    world.ledger.let_through(3);
    assert_completed(&world.get().await, "done");
}

#[tokio::test(start_paused = true)]
async fn limits_are_clamped_to_their_bounds() {
    let limits = QueryLimits { query_timeout: Duration::from_secs(30), ..QueryLimits::default() };
    let settings = EngineSettings { limits, ceilings: limits, ..EngineSettings::default() };
    let script = ScriptedModel::always(vec![ScriptedTurn::say("done")]);
    let world = EngineWorld::with_settings(script, CallLedger::open(), settings).await;
    world.submit(vec![]).await;
    for (asked, expect) in [(20, 20), (40, 30)] {
        let changed = world.limit(AskedLimits { query_timeout: seconds(asked), ..NONE }).await;
        assert_eq!(changed.head.limits.query_timeout, Duration::from_secs(expect));
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_of_limits_applies_to_later_calls_and_not_to_open_ones() {
    let asks = || ScriptedTurn::call("ask", &json!({}));
    let world =
        EngineWorld::new(ScriptedModel::always(vec![asks(), asks(), asks(), ScriptedTurn::say("enough")])).await;
    let paused = world.submit(vec![outside("ask")]).await;
    let deadline = |snapshot: &Snapshot| snapshot.head.deadline().unwrap().since(snapshot.head.updated_at);
    assert_eq!(deadline(&paused), Duration::from_secs(600));
    let changed = world.limit(AskedLimits { external_timeout: seconds(9), max_tool_calls: Some(2), ..NONE }).await;
    assert_eq!(changed.head.deadline(), paused.head.deadline(), "its client knows the old deadline");
    let second = world.deliver(call(&paused, 0), "1").await;
    assert!(accepted(&second));
    assert_eq!(deadline(&second.snapshot), Duration::from_secs(9));
    let last = world.deliver(call(&second.snapshot, 1), "2").await;
    assert_completed(&last.snapshot, "enough");
    let refused = last.snapshot.transcript.calls().nth(2).unwrap().result.as_ref().unwrap();
    assert!(
        matches!(&*refused.outcome, bosun_core::Outcome::Failure { code, .. } if code == outcome_code::TOOL_CALL_LIMIT)
    );
}

#[tokio::test(start_paused = true)]
async fn changes_survive_a_crash_and_are_possible_after_the_end() {
    let world =
        EngineWorld::new(ScriptedModel::always(vec![ScriptedTurn::call("ask", &json!({})), ScriptedTurn::say("done")]))
            .await;
    let paused = world.submit(vec![outside("ask")]).await;
    let labels = |text: &str| Some([("team".to_owned(), text.to_owned())].into());
    world.update(Update { labels: labels("blue"), ..Update::default() }).await;
    let world = world.crash().await;
    let ended = world.deliver(call(&paused, 0), "42").await.snapshot;
    assert_completed(&ended, "done");
    assert_eq!(ended.head.labels.as_deref(), labels("blue").as_ref());
    let late = Update { labels: labels("red"), annotations: labels("green"), ..Update::default() };
    let changed = world.update(late).await;
    assert_completed(&changed, "done");
    assert_eq!(changed.head.updated_at, ended.head.updated_at);
    let world = world.crash().await;
    let read = world.get().await;
    assert_eq!((&read.head, &read.transcript), (&changed.head, &changed.transcript));
}

#[tokio::test(start_paused = true)]
async fn an_ended_query_has_its_latest_retention() {
    for (ttl, early, late) in [(10, 9, 10), (3_600 * 719, 3_600 * 718, 3_600 * 719)] {
        let world = EngineWorld::new(ScriptedModel::always(vec![ScriptedTurn::say("done")])).await;
        let ended = world.submit(vec![]).await.head.updated_at;
        world.limit(AskedLimits { ttl: seconds(ttl), ..NONE }).await;
        let removed = async |after| {
            let now = ended.after(Duration::from_secs(after));
            world.store.remove(Removal::Outdated, now).await.unwrap()
        };
        assert_eq!((removed(early).await, removed(late).await), (0, 1), "{ttl}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_and_a_cancellation_are_one_append_and_neither_repeats() {
    let world = EngineWorld::new(ScriptedModel::always(vec![ScriptedTurn::default().hanging()])).await;
    world.engine.submit(limited(vec![], NONE), None).await.unwrap();
    let ttl = AskedLimits { ttl: seconds(60), ..NONE };
    let update = Update { limits: ttl, cancel: true, may_shorten: true, ..Update::default() };
    assert_eq!(world.update(update.clone()).await.head.status(), Status::Cancelled);
    let once = world.kinds().await;
    assert!(matches!(once[..], [.., Event::Changed(_), Event::Cancelled { .. }]), "{once:?}");
    world.update(update).await;
    world.update(Update::default()).await;
    assert_eq!(world.kinds().await, once);
    let other = Update { of: Some(QueryUid::new(1, [1; 10])), cancel: true, ..Update::default() };
    let renamed = world.engine.update(Actor::local(), key("q"), other).await;
    assert!(matches!(renamed, Err(EngineError::Store(StoreError::Conflict(_)))), "{renamed:?}");
    let missing = world.engine.update(Actor::local(), key("missing"), Update::default()).await;
    assert!(matches!(missing, Err(EngineError::QueryNotFound(..))), "{missing:?}");
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_sees_the_end_even_if_the_query_was_changed_since() {
    let world = EngineWorld::new(ScriptedModel::always(vec![ScriptedTurn::say("done")])).await;
    let ended = world.submit(vec![]).await;
    let mut present = world.engine.watch(&key("q"), ended.head.seq).await.unwrap();
    world.limit(AskedLimits { ttl: seconds(60), ..NONE }).await;
    let changed = world.engine.get(&key("q"), PATIENCE).await.unwrap();
    assert_eq!(changed.transcript.end.as_ref().map(|end| end.seq), Some(ended.head.seq));
    for (mut watch, expect) in [
        (world.engine.watch(&key("q"), 0).await.unwrap(), changed.head.seq),
        (world.engine.watch(&key("q"), ended.head.seq).await.unwrap(), 1),
        (world.engine.watch(&key("q"), changed.head.seq).await.unwrap(), 0),
    ] {
        let mut entries = 0;
        while let Some(watched) = watch.next().await.unwrap() {
            entries += u64::from(matches!(watched, crate::Watched::Entry(_)));
        }
        assert_eq!(entries, expect);
    }
    while present.next().await.unwrap().is_some() {}
}

#[tokio::test(start_paused = true)]
async fn concurrent_changes_all_count() {
    let world =
        EngineWorld::new(ScriptedModel::always(vec![ScriptedTurn::call("ask", &json!({})), ScriptedTurn::say("done")]))
            .await;
    world.submit(vec![outside("ask")]).await;
    let engine = Arc::new(world.engine.clone());
    let changes = (1..=20_u32).map(|calls| {
        let limits = AskedLimits { max_tool_calls: Some(calls % 10), ..NONE };
        let engine = Arc::clone(&engine);
        async move {
            engine
                .update(Actor::local(), key("q"), Update { limits, may_shorten: true, ..Update::default() })
                .await
                .unwrap()
        }
    });
    futures_util::future::join_all(changes).await;
    let changed = world.kinds().await.into_iter().filter(|event| matches!(event, Event::Changed(_))).count();
    assert!((10..=20).contains(&changed), "{changed}");
    assert_completed(&world.deliver(call(&world.get().await, 0), "42").await.snapshot, "done");
}

#[test]
fn a_list_shows_how_a_query_ended_and_not_what_was_changed_since() {
    let turn = || Event::decode(r#"{"v":1,"kind":"turn_ended","turn":1,"calls":0}"#).unwrap();
    let changed = || Event::Changed(Box::default());
    let cancelled = || Event::Cancelled { reason: None, by: Actor::local() };
    let mut writer = QueryWriter::new("default", "q", 1);
    writer.create();
    writer.write(vec![cancelled()]);
    for (later, expect) in [
        (vec![turn(), Event::Completed], Some(0)),
        (vec![turn(), turn(), Event::Completed], Some(1)),
        (vec![turn(), Event::Completed, changed()], Some(0)),
        (vec![Event::Completed, changed()], None),
        (vec![changed(), changed()], None),
        (vec![cancelled()], Some(0)),
        (vec![cancelled(), changed()], Some(0)),
        (vec![turn(), cancelled(), changed(), changed()], Some(0)),
    ] {
        assert_eq!(shown_from(writer.head(), later.iter()), expect, "{later:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_may_not_shorten_the_retention_of_a_query_may_extend_it() {
    let world = EngineWorld::new(ScriptedModel::always(vec![ScriptedTurn::say("done")])).await;
    let asked = limited(vec![], AskedLimits { ttl: seconds(100), ..NONE });
    world.engine.submit(asked, PATIENCE).await.unwrap();
    let update = async |ttl: u64, may_shorten: bool| {
        let limits = AskedLimits { ttl: seconds(ttl), ..NONE };
        world.engine.update(Actor::local(), key("q"), Update { limits, may_shorten, ..Update::default() }).await
    };
    for ttl in [1, 99] {
        let refused = update(ttl, false).await;
        assert!(matches!(refused, Err(EngineError::MayNotShorten(_))), "{ttl}: {refused:?}");
    }
    assert_eq!(update(100, false).await.unwrap().head.limits.ttl, Duration::from_secs(100), "it is not shortened");
    assert_eq!(update(200, false).await.unwrap().head.limits.ttl, Duration::from_secs(200));
    assert!(update(150, false).await.is_err(), "the current value counts");
    assert_eq!(update(150, true).await.unwrap().head.limits.ttl, Duration::from_secs(150));
}
