//! Cached results: who shares them, for how long, and what of them is recorded.

use std::{sync::Arc, time::Duration};

use bosun_core::{
    Actor, Binding, Event, Head, Namespace, Outcome, Status, Tool,
    audit::Action,
    event::CallRoute,
    machine::{Delivery, DeliveryTarget},
    tool::{Annotations, CachePolicy, CacheScope, ToolOrigin},
};
use serde_json::json;

use super::world::{EngineWorld, PATIENCE, assert_completed, assert_failed, call, outside, registry, submission};
use crate::{
    Engine, EngineSettings, Model, QueryKey, Snapshot, Store, Submission,
    blob::MemoryBlobs,
    memory::MemoryStore,
    store::RecordSearch,
    testing::{CallLedger, ScriptedModel, ScriptedTurn, TokioClock, store_contract},
};

const TTL: Duration = Duration::from_secs(60);

fn cached(tool: Tool, scope: CacheScope) -> Tool {
    tool.with_cache(Some(CachePolicy { ttl: TTL, scope }))
}

/// A read-only tool that the server runs.
fn inside(scope: CacheScope) -> Tool {
    let annotations = Annotations { read_only_hint: Some(true), ..Annotations::default() };
    let tool = Tool::new("again", "The tool", json!({"type": "object"}), Binding::Builtin { name: "again".into() });
    cached(Tool { annotations, origin: ToolOrigin::Operator, ..tool }, scope)
}

struct World {
    engine: Engine,
    store: Arc<MemoryStore>,
    ledger: Arc<CallLedger>,
    clock: TokioClock,
}

/// The model calls the tool once in each query, and says that it is done.
async fn world(tool: Option<Tool>) -> World {
    let once = vec![ScriptedTurn::call("again", &json!({"n": 1})), ScriptedTurn::say("done")];
    let ask = vec![ScriptedTurn::call("ask", &json!({"n": 1})), ScriptedTurn::say("done")];
    let model: Arc<dyn Model> = Arc::new(ScriptedModel::always(once).on("outside", ask));
    let (ledger, store, clock) = (Arc::new(CallLedger::open()), Arc::new(MemoryStore::new()), TokioClock::new());
    let mut registry = registry(&model, &ledger);
    for namespace in [Namespace::default(), "quiet".parse().unwrap()] {
        if let Some(tool) = &tool {
            registry.add_tool(namespace, tool.clone());
        }
    }
    let blobs = Arc::new(MemoryBlobs::new());
    let settings = EngineSettings::default();
    let engine = Engine::start(Arc::clone(&store) as _, blobs, registry, Arc::new(clock.clone()), settings).await;
    World { engine: engine.unwrap(), store, ledger, clock }
}

/// A query of the end user `by`, in a session of a namespace.
fn asked(name: &str, namespace: &str, session: Option<&str>, by: &str) -> Submission {
    let by = Actor::of_key("ci").unwrap().acting_for(by).unwrap();
    let (namespace, session_id) = (namespace.parse().unwrap(), session.map(str::to_owned));
    Submission { by, namespace, session_id, ..submission(name, vec![]) }
}

impl World {
    async fn ask(&self, submission: Submission) -> Snapshot {
        self.engine.submit(submission, PATIENCE).await.unwrap().snapshot
    }
}

/// Which of these queries, asked one after the other, is a hit.
async fn check(scope: CacheScope, queries: &[(&str, Option<&str>, &str)], hits: &[bool]) {
    let world = world(Some(inside(scope))).await;
    let mut found = Vec::new();
    for (number, (namespace, session, by)) in queries.iter().enumerate() {
        let runs = world.ledger.runs().len();
        let done = world.ask(asked(&format!("q{number}"), namespace, *session, by)).await;
        assert_completed(&done, "done");
        found.push(world.ledger.runs().len() == runs);
    }
    assert_eq!(found, hits, "{scope:?} {queries:?}");
}

#[tokio::test(start_paused = true)]
async fn a_result_is_shared_within_its_scope_and_by_one_identity() {
    let (a, other) = ("default", "quiet");
    let (s, t, none) = (Some("s"), Some("t"), None);
    // A caller that asks again in the same session, in another one, in another namespace, and for another user.
    let queries = [(a, s, "ann"), (a, s, "ann"), (a, t, "ann"), (a, none, "ann"), (other, s, "ann"), (a, s, "bob")];
    check(CacheScope::Query, &queries, &[false; 6]).await;
    check(CacheScope::Session, &queries, &[false, true, false, false, false, false]).await;
    check(CacheScope::Namespace, &queries, &[false, true, true, true, false, false]).await;
    // A query without a session shares nothing with another one.
    check(CacheScope::Session, &[(a, none, "ann"), (a, none, "ann")], &[false, false]).await;
}

#[tokio::test(start_paused = true)]
async fn a_result_expires_by_the_monotonic_clock() {
    let world = world(Some(inside(CacheScope::Namespace))).await;
    let runs = async |name: &str| {
        assert_completed(&world.ask(asked(name, "default", None, "ann")).await, "done");
        world.ledger.runs().len()
    };
    assert_eq!(runs("a").await, 1);
    // A step of the wall clock changes no lifetime.
    world.clock.step(3_600);
    tokio::time::advance(TTL - Duration::from_secs(1)).await;
    assert_eq!(runs("b").await, 1, "it is still fresh");
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(runs("c").await, 2, "it is as old as its ttl");
    assert_eq!(runs("d").await, 2, "and is cached anew");
}

#[tokio::test(start_paused = true)]
async fn a_tool_without_a_policy_or_that_is_not_read_only_is_never_cached() {
    let not_read_only = Tool { annotations: Annotations::default(), ..inside(CacheScope::Namespace) };
    let announced = Tool { origin: ToolOrigin::Server, ..inside(CacheScope::Namespace) };
    for (tool, warns) in [(None, false), (Some(not_read_only), true), (Some(announced), true)] {
        let world = world(tool).await;
        for name in ["a", "b"] {
            let done = world.ask(asked(name, "default", Some("s"), "ann")).await;
            let warning = "`cache` of tool `again` has no effect";
            let warned = done.transcript.spec.warnings.iter().any(|found| found.starts_with(warning));
            assert_eq!(warned, warns, "{:?}", done.transcript.spec.warnings);
        }
        assert_eq!(world.ledger.runs().len(), 2);
    }
}

/// A journal with a hit, as the store has it.
async fn journal(store: &MemoryStore, key: &QueryKey) -> (Head, Vec<Event>) {
    let stored = store.load(&key.0, &key.1).await.unwrap().unwrap();
    assert_eq!(store_contract::fold(&stored), stored.head, "the journal folds to its head without a cache");
    (stored.head, stored.entries.into_iter().map(|entry| entry.event).collect())
}

#[tokio::test(start_paused = true)]
async fn a_hit_is_in_the_journal_with_its_result_and_in_the_audit_log() {
    let world = world(Some(inside(CacheScope::Namespace))).await;
    let first = world.ask(asked("a", "default", None, "ann")).await;
    let second = world.ask(asked("b", "default", None, "ann")).await;
    let outcome = |snapshot: &Snapshot| snapshot.transcript.calls().next().unwrap().result.clone().unwrap().outcome;
    assert_eq!(outcome(&first), outcome(&second));
    let key = (Namespace::default(), "b".parse().unwrap());
    let (_, events) = journal(&world.store, &key).await;
    let route = |event: &Event| match event {
        Event::CallAsked(asked) => Some(asked.route.clone()),
        _ => None,
    };
    let routes: Vec<_> = events.iter().filter_map(route).collect();
    let [CallRoute::Cached { outcome: kept, outside: false }] = &routes[..] else { panic!("{events:?}") };
    assert_eq!(*kept, outcome(&first));
    assert!(!events.iter().any(|event| matches!(event, Event::CallStarted { .. } | Event::CallFinished { .. })));
    let search = RecordSearch { query: Some(key.1.clone()), limit: 9, ..RecordSearch::default() };
    let records = world.engine.audit(&key.0, &search).await.unwrap().records;
    let actions: Vec<_> = records.iter().rev().map(|numbered| numbered.record.action).collect();
    assert_eq!(actions, [Action::QueryCreated, Action::CallCached, Action::QueryCompleted]);
    let mut text = crate::metrics::MetricsText::default();
    world.engine.write_metrics(&mut text).await.unwrap();
    let text = text.finish();
    for line in [
        "bosun_tool_cache_lookups_total{kind=\"builtin\",outcome=\"hit\"} 1\n",
        "bosun_tool_cache_lookups_total{kind=\"builtin\",outcome=\"miss\"} 1\n",
        "bosun_calls_total{kind=\"builtin\",outcome=\"success\"} 1\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

fn of_client(name: &str, session: &str, by: &str, tool: Tool) -> Submission {
    Submission { input: "outside".into(), client_tools: vec![tool], ..asked(name, "default", Some(session), by) }
}

#[tokio::test(start_paused = true)]
async fn a_hit_resolves_an_outside_call_without_a_pause_for_the_same_actor_and_session() {
    let world = world(None).await;
    let tool = || cached(outside("ask"), CacheScope::Namespace);
    let paused = world.ask(of_client("a", "s", "ann", tool())).await;
    assert_eq!(paused.head.status(), Status::Waiting);
    assert!(paused.transcript.spec.warnings.iter().any(|warning| warning.contains("narrowed to session")));
    let key = |name: &str| -> QueryKey { (Namespace::default(), name.parse().unwrap()) };
    let target = DeliveryTarget::Call(call(&paused, 0));
    let delivery = Delivery { target, outcome: Outcome::success("42"), took: None };
    world.engine.deliver(Actor::local(), key("a"), vec![delivery], false, PATIENCE).await.unwrap();
    let again = world.ask(of_client("b", "s", "ann", tool())).await;
    assert_completed(&again, "done");
    let (_, events) = journal(&world.store, &key("b")).await;
    assert!(
        events.iter().any(|event| matches!(event, Event::CallAsked(asked)
            if matches!(asked.route, CallRoute::Cached { outside: true, .. }))),
        "{events:?}"
    );
    for (name, session, by, tool) in [
        ("c", "t", "ann", tool()),
        ("d", "s", "bob", tool()),
        ("e", "s", "ann", outside("ask")),
        ("f", "s", "ann", Tool { description: "Another".into(), ..tool() }),
    ] {
        assert_eq!(world.ask(of_client(name, session, by, tool)).await.head.status(), Status::Waiting, "{name}");
    }
    tokio::time::advance(TTL).await;
    assert_eq!(world.ask(of_client("g", "s", "ann", tool())).await.head.status(), Status::Waiting, "it has expired");
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_not_cached() {
    let world = world(None).await;
    let tool = || cached(outside("ask"), CacheScope::Session);
    let paused = world.ask(of_client("a", "s", "ann", tool())).await;
    let key: QueryKey = (Namespace::default(), "a".parse().unwrap());
    let target = DeliveryTarget::Call(call(&paused, 0));
    let delivery = Delivery { target, outcome: Outcome::failure("busy", "try again"), took: None };
    world.engine.deliver(Actor::local(), key, vec![delivery], false, PATIENCE).await.unwrap();
    assert_eq!(world.ask(of_client("b", "s", "ann", tool())).await.head.status(), Status::Waiting);
}

#[tokio::test(start_paused = true)]
async fn clearing_drops_the_results_of_one_namespace_or_tool() {
    let world = world(Some(inside(CacheScope::Namespace))).await;
    let mut number = 0;
    let mut runs = async |namespace: &str| {
        number += 1;
        let before = world.ledger.runs().len();
        world.ask(asked(&format!("q{number}"), namespace, None, "ann")).await;
        world.ledger.runs().len() - before
    };
    assert_eq!((runs("default").await, runs("quiet").await), (1, 1));
    let clear = async |tool: Option<&str>| {
        let (by, namespace) = (Actor::local(), Namespace::default());
        world.engine.clear_tool_cache(by, namespace, tool.map(str::to_owned)).await.unwrap()
    };
    assert_eq!((clear(Some("other")).await, runs("default").await), (0, 0));
    assert_eq!((clear(Some("again")).await, runs("default").await), (1, 1));
    assert_eq!((clear(None).await, clear(None).await), (1, 0));
    assert_eq!((runs("default").await, runs("quiet").await), (1, 0), "another namespace keeps its results");
}

/// The same call in every turn: a cached result is a result, and the model is in a loop.
#[tokio::test(start_paused = true)]
async fn cached_results_count_for_the_detection_of_loops() {
    let turns = vec![ScriptedTurn::call("ask", &json!({"n": 1})); 9];
    let world = EngineWorld::new(ScriptedModel::always(turns)).await;
    let paused = world.submit(vec![cached(outside("ask"), CacheScope::Query)]).await;
    let ended = world.deliver(call(&paused, 0), "42").await.snapshot;
    assert_failed(&ended, "tool_loop");
    let calls: Vec<_> = ended.transcript.calls().collect();
    assert_eq!(calls.len(), 4, "one is run, and three are cached");
    assert!(calls[2].loop_noticed, "the model was warned first");
}

/// A journal that has a hit is read by a process whose cache is empty.
#[tokio::test(start_paused = true)]
async fn the_cache_does_not_survive_a_restart_and_journals_with_hits_do() {
    let tool = || cached(outside("ask"), CacheScope::Session);
    let script = ScriptedModel::always(vec![ScriptedTurn::call("ask", &json!({"n": 1})), ScriptedTurn::say("done")]);
    let mut world = EngineWorld::new(script).await;
    let key = |name: &str| -> QueryKey { (Namespace::default(), name.parse().unwrap()) };
    for (run, hit) in [("a", "b"), ("c", "d")] {
        let in_session = |name: &str| Submission { session_id: Some("s".into()), ..submission(name, vec![tool()]) };
        let paused = world.engine.submit(in_session(run), PATIENCE).await.unwrap().snapshot;
        assert_eq!(paused.head.status(), Status::Waiting, "{run}: nothing is cached");
        let delivery =
            Delivery { target: DeliveryTarget::Call(call(&paused, 0)), outcome: Outcome::success(run), took: None };
        world.engine.deliver(Actor::local(), key(run), vec![delivery], false, PATIENCE).await.unwrap();
        let done = world.engine.submit(in_session(hit), PATIENCE).await.unwrap().snapshot;
        assert_completed(&done, "done");
        world = world.crash().await;
        let read = world.engine.get(&key(hit), None).await.unwrap();
        assert_eq!((&read.head, &read.transcript), (&done.head, &done.transcript));
        journal(&world.store, &key(hit)).await;
    }
}
