//! Crashes: what they may not lose, and what they may not repeat.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bosun_core::{
    Actor, Namespace, Outcome, QueryName, Status,
    event::CallRoute,
    tool::{CachePolicy, CacheScope},
};
use serde_json::json;

use super::{
    faulty::{Faulty, StoreFaults},
    world::{EngineWorld, PATIENCE, assert_completed, call, delivery, key, outside, submission},
};
use crate::{
    AskedConversation, Store, StoreError, Submission,
    memory::MemoryStore,
    store::{Append, Conversations, Position, Stored},
    testing::{CallLedger, ScriptedModel, ScriptedTurn},
};

#[tokio::test(start_paused = true)]
async fn a_waiting_query_continues_in_the_next_process_with_its_exact_transcript() {
    let script = ScriptedModel::always(vec![ScriptedTurn::call("ask", &json!({"n": 1})), ScriptedTurn::say("thanks")]);
    let world = EngineWorld::new(script).await;
    let paused = world.submit(vec![outside("ask")]).await;
    let world = world.crash().await;
    assert_completed(&world.deliver(call(&paused, 0), "42").await.snapshot, "thanks");
    let requests = world.model.requests();
    assert_eq!(requests.len(), 2, "nothing was asked twice");
    assert_eq!(requests[1].messages[..2], requests[0].messages[..]);
    assert_eq!(requests[1].toolset.hash(), requests[0].toolset.hash());
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_turn_is_retried() {
    let world = EngineWorld::new(ScriptedModel::always(vec![ScriptedTurn::default().hanging()])).await;
    world.engine.submit(submission("q", vec![]), Some(Duration::from_secs(1))).await.unwrap();
    let world = world.crash().await;
    let snapshot = world.engine.get(&key("q"), Some(Duration::from_secs(1))).await.unwrap();
    assert_eq!((snapshot.head.turn, snapshot.head.attempt), (1, 2));
    assert_eq!(world.model.requests().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_call_runs_again_only_if_it_may() {
    let turn = ScriptedTurn::call("once", &json!({"n": 1})).and_call("again", r#"{"n":2}"#);
    let world =
        EngineWorld::with(ScriptedModel::always(vec![turn, ScriptedTurn::say("done")]), CallLedger::gated()).await;
    world.engine.submit(submission("q", vec![]), Some(Duration::from_secs(1))).await.unwrap();
    assert_eq!(world.ledger.runs().len(), 2);
    let world = world.crash().await;
    world.ledger.let_through(9);
    let snapshot = world.get().await;
    assert_completed(&snapshot, "done");
    let runs: Vec<_> = world.ledger.runs().into_iter().map(|run| (run.tool, run.attempt)).collect();
    assert_eq!(runs.iter().filter(|(tool, _)| tool == "once").count(), 1, "{runs:?}");
    assert_eq!(runs.last(), Some(&("again".to_owned(), 2)));
    let unknown = &snapshot.transcript.calls().next().unwrap().result.as_ref().unwrap().outcome;
    assert!(matches!(&**unknown, Outcome::Failure { code, .. } if code == "outcome_unknown"), "{unknown:?}");
}

/// Dies at the `n`th write, before or after it was kept: the caller cannot tell.
struct CrashingStore {
    writes_left: AtomicU64,
    keeps_last: bool,
}

impl CrashingStore {
    fn after(writes: u64, keeps_last: bool, memory: &MemoryStore) -> Arc<Faulty<Self>> {
        let faults = Self { writes_left: AtomicU64::new(writes), keeps_last };
        Arc::new(Faulty { memory: memory.reopen(), faults })
    }

    fn dead(&self) -> bool {
        self.writes_left.load(Ordering::SeqCst) == 0
    }
}

fn gone() -> StoreError {
    StoreError::Unavailable("the process is dead".into())
}

#[async_trait]
impl StoreFaults for CrashingStore {
    fn append(&self, memory: &MemoryStore, append: Append) -> Result<Position, StoreError> {
        match self.writes_left.load(Ordering::SeqCst) {
            0 => Err(gone()),
            1 => {
                self.writes_left.store(0, Ordering::SeqCst);
                if self.keeps_last {
                    memory.append(append)?;
                }
                Err(gone())
            }
            left => {
                self.writes_left.store(left - 1, Ordering::SeqCst);
                memory.append(append)
            }
        }
    }

    async fn durable(&self, memory: &MemoryStore, position: Position) -> Result<(), StoreError> {
        if self.dead() { Err(gone()) } else { memory.durable(position).await }
    }

    async fn load(
        &self,
        memory: &MemoryStore,
        namespace: &Namespace,
        name: &QueryName,
    ) -> Result<Option<Stored>, StoreError> {
        if self.dead() { Err(gone()) } else { memory.load(namespace, name).await }
    }
}

/// Dies at every write of the main path in turn, before and after it was kept; a client that retries what was not
/// acknowledged brings every query to its end, and nothing that must not repeat runs twice.
#[tokio::test(start_paused = true)]
async fn dying_at_every_write_loses_nothing_acknowledged_and_repeats_nothing_forbidden() {
    for keeps_last in [false, true] {
        for writes in 1..=16 {
            let script = Arc::new(ScriptedModel::always(vec![
                ScriptedTurn::call("ask", &json!({"n": 1}))
                    .and_call("once", r#"{"n":2}"#)
                    .and_call("again", r#"{"n":3}"#),
                ScriptedTurn::say("done"),
            ]));
            let ledger = Arc::new(CallLedger::open());
            let memory = Arc::new(MemoryStore::new());
            let dying = CrashingStore::after(writes, keeps_last, &memory);
            let world =
                EngineWorld::on_store(Arc::clone(&dying) as _, memory, Arc::clone(&script), Arc::clone(&ledger)).await;
            let acknowledged = tokio::time::timeout(
                Duration::from_secs(60),
                world.engine.submit(submission("q", vec![outside("ask")]), PATIENCE),
            )
            .await
            .is_ok_and(|submitted| submitted.is_ok());
            let world = Box::pin(after_death(world, &dying)).await;
            let known = world.engine.get(&key("q"), PATIENCE).await;
            assert!(!acknowledged || known.is_ok(), "an acknowledged query is lost (writes {writes})");
            let paused = match known {
                Ok(snapshot) => snapshot,
                Err(_) => world.submit(vec![outside("ask")]).await,
            };
            let last = if paused.head.status() == Status::Waiting {
                world.deliver(call(&paused, 0), "42").await;
                world.get().await
            } else {
                paused
            };
            assert_completed(&last, "done");
            let once = ledger.runs().iter().filter(|run| run.tool == "once").count();
            assert!(once <= 1, "the tool that must not repeat ran {once} times (writes {writes}, kept {keeps_last})");
        }
    }
}

/// Dies at every write of a query whose call is answered from the cache: the next process has no cache, asks the client,
/// and the call has one outcome.
#[tokio::test(start_paused = true)]
async fn dying_between_a_hit_and_its_append_repeats_or_loses_nothing() {
    let policy = CachePolicy { ttl: Duration::from_secs(600), scope: CacheScope::Session };
    let in_session = |name: &str| Submission {
        session_id: Some("s".into()),
        ..submission(name, vec![outside("ask").with_cache(Some(policy))])
    };
    let (mut hits, mut misses) = (0, 0);
    for (writes, keeps_last) in (1..=9).flat_map(|writes| [(writes, false), (writes, true)]) {
        let script = vec![ScriptedTurn::call("ask", &json!({"n": 1})), ScriptedTurn::say("done")];
        let memory = Arc::new(MemoryStore::new());
        let dying = CrashingStore::after(writes, keeps_last, &memory);
        let (script, ledger) = (Arc::new(ScriptedModel::always(script)), Arc::new(CallLedger::open()));
        let world = EngineWorld::on_store(Arc::clone(&dying) as _, memory, script, ledger).await;
        let soon = Duration::from_secs(60);
        if let Ok(Ok(first)) = tokio::time::timeout(soon, world.engine.submit(in_session("q"), PATIENCE)).await {
            let posted = vec![delivery(call(&first.snapshot, 0), "42")];
            let delivered = world.engine.deliver(Actor::local(), key("q"), posted, false, PATIENCE);
            let _ = tokio::time::timeout(soon, delivered).await;
            let _ = tokio::time::timeout(soon, world.engine.submit(in_session("second"), PATIENCE)).await;
        }
        let world = Box::pin(after_death(world, &dying)).await;
        let second = world.engine.submit(in_session("second"), PATIENCE).await.unwrap().snapshot;
        let route = &second.transcript.calls().next().unwrap().asked.route;
        let ended = if matches!(route, CallRoute::Cached { .. }) {
            hits += 1;
            second
        } else {
            misses += 1;
            let posted = vec![delivery(call(&second, 0), "43")];
            let report = world.engine.deliver(Actor::local(), key("second"), posted, false, PATIENCE).await.unwrap();
            report.snapshot
        };
        assert_completed(&ended, "done");
        assert_eq!(ended.head.calls.len(), 1, "writes {writes}, kept {keeps_last}");
    }
    assert!(hits > 0 && misses > 0, "{hits} hits, {misses} misses: both sides of the append are covered");
}

/// Whenever the process dies, the conversation consists of its completed queries, each once, in their order.
#[tokio::test(start_paused = true)]
async fn a_conversation_has_every_completed_query_once_wherever_the_process_dies() {
    let in_conversation = |name: &str| {
        let conversation =
            AskedConversation { memory: Some("notes".into()), id: Some("talk".into()), ..AskedConversation::default() };
        Submission { conversation, ..submission(name, vec![]) }
    };
    for writes in 0..6 {
        for keeps_last in [false, true] {
            let memory = Arc::new(MemoryStore::new());
            let script = Arc::new(ScriptedModel::always(vec![ScriptedTurn::say("hello")]));
            let dying = CrashingStore::after(writes, keeps_last, &memory);
            let ledger = Arc::new(CallLedger::open());
            let world = EngineWorld::on_store(Arc::clone(&dying) as _, memory, script, ledger).await;
            for name in ["first", "second"] {
                let submitted = world.engine.submit(in_conversation(name), PATIENCE);
                let _ = tokio::time::timeout(Duration::from_secs(60), submitted).await;
            }
            let world = Box::pin(after_death(world, &dying)).await;
            for name in ["first", "second", "third"] {
                let submitted = world.engine.submit(in_conversation(name), PATIENCE).await.unwrap();
                assert_completed(&submitted.snapshot, "hello");
            }
            let turns =
                world.store.conversation_turns(&Namespace::default(), &Default::default(), None, 9).await.unwrap();
            let names: Vec<_> = turns.items.iter().map(|turn| turn.name.as_str()).collect();
            assert_eq!(names, ["first", "second", "third"], "writes {writes}, kept {keeps_last}");
            assert_eq!(turns.items.iter().map(|turn| turn.first).collect::<Vec<_>>(), [1, 3, 5]);
            let shown = world.model.requests().pop().unwrap().messages.len();
            assert_eq!(shown, 1 + 2 * 2 + 1, "the prompt, two queries and the third's question");
        }
    }
}

async fn after_death(world: EngineWorld, dying: &Faulty<CrashingStore>) -> EngineWorld {
    let memory = Arc::new(dying.memory.reopen());
    let model = Arc::clone(&world.model);
    let ledger = Arc::clone(&world.ledger);
    EngineWorld::on_store(Arc::clone(&memory) as _, memory, model, ledger).await
}
