//! A store that accepts appends and cannot commit them for a while, like a full disk.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bosun_core::{
    Actor, ContentHash, Event, Namespace, Outcome, QueryName, Status, Timestamp,
    audit::ArgumentsInAudit,
    machine::{Delivery, DeliveryTarget},
};
use serde_json::json;

use super::{
    faulty::{Faulty, StoreFaults},
    world::{EngineWorld, PATIENCE, assert_completed, call, key, outside, submission},
};
use crate::{
    AskedConversation, EngineError, Store, StoreError, Submission, Update,
    memory::MemoryStore,
    queries::live::LiveQueries,
    store::{Append, Position, Stored, conversations::ConversationPart},
    testing::{CallLedger, ScriptedModel, ScriptedTurn, TokioClock, query_writer::QueryWriter},
};

/// The faults of a full disk.
#[derive(Default)]
struct Refusing {
    /// How many more appends can be committed.
    capacity: AtomicU64,
    /// The position of each append in the memory, by the positions that were assigned; `None` if it was rejected.
    kept: Mutex<Vec<Option<Position>>>,
    /// Queries that are not committed yet: they cannot be loaded.
    created: Mutex<HashMap<QueryName, Position>>,
    /// The same for documents.
    documents: Mutex<HashMap<ContentHash, Position>>,
}

const UNLIMITED: u64 = 1 << 40;

impl Refusing {
    fn set_capacity(&self, appends: u64) {
        self.capacity.store(appends, Ordering::SeqCst);
    }

    /// Whether one more could be committed.
    fn use_capacity(&self) -> bool {
        self.capacity.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |capacity| capacity.checked_sub(1)).is_ok()
    }

    fn place(&self, position: Position) -> Option<Position> {
        match position.0 {
            0 => Some(position),
            number => self.kept.lock().unwrap()[usize::try_from(number).unwrap() - 1],
        }
    }
}

#[async_trait]
impl StoreFaults for Refusing {
    fn append(&self, memory: &MemoryStore, append: Append) -> Result<Position, StoreError> {
        let created = (append.seen == 0).then(|| append.head.name.clone());
        let history = match &append.conversation {
            Some(ConversationPart::Joins(joining)) => joining.history.as_ref().map(|history| history.hash),
            _ => None,
        };
        let place = match self.place(append.after) {
            Some(after) if self.use_capacity() => Some(memory.append(Append { after, ..append })?),
            _ => None,
        };
        let mut kept = self.kept.lock().unwrap();
        kept.push(place);
        let position = Position(kept.len() as u64);
        self.created.lock().unwrap().extend(created.map(|name| (name, position)));
        self.documents.lock().unwrap().extend(history.map(|hash| (hash, position)));
        Ok(position)
    }

    async fn durable(&self, memory: &MemoryStore, position: Position) -> Result<(), StoreError> {
        // A disk takes its time to fail, and longer for later appends; meanwhile the query continues in memory.
        tokio::time::sleep(Duration::from_millis(position.0)).await;
        match self.place(position) {
            Some(place) => {
                self.created.lock().unwrap().retain(|_, created| *created > position);
                self.documents.lock().unwrap().retain(|_, documents| *documents > position);
                memory.durable(place).await
            }
            None => Err(StoreError::Unavailable("the disk is full".into())),
        }
    }

    fn last_position(&self, _: &MemoryStore) -> Position {
        Position(self.kept.lock().unwrap().len() as u64)
    }

    async fn load(
        &self,
        memory: &MemoryStore,
        namespace: &Namespace,
        name: &QueryName,
    ) -> Result<Option<Stored>, StoreError> {
        if self.created.lock().unwrap().contains_key(name) {
            return Ok(None);
        }
        memory.load(namespace, name).await
    }

    async fn document(&self, memory: &MemoryStore, hash: ContentHash) -> Result<Option<Arc<str>>, StoreError> {
        if self.documents.lock().unwrap().contains_key(&hash) {
            return Ok(None);
        }
        memory.document(hash).await
    }
}

async fn world(turns: Vec<ScriptedTurn>) -> (EngineWorld, Arc<Faulty<Refusing>>) {
    let store = Arc::new(Faulty { memory: MemoryStore::new(), faults: Refusing::default() });
    store.faults.set_capacity(UNLIMITED);
    let (model, ledger) = (Arc::new(ScriptedModel::always(turns)), Arc::new(CallLedger::open()));
    let world = EngineWorld::on_store(Arc::clone(&store) as _, Arc::new(MemoryStore::new()), model, ledger).await;
    (world, store)
}

fn calling() -> Vec<ScriptedTurn> {
    vec![ScriptedTurn::call("ask", &json!({"n": 1})), ScriptedTurn::say("done")]
}

#[track_caller]
fn assert_unavailable<T>(result: Result<T, EngineError>) {
    let error = result.err().expect("it is refused");
    assert!(matches!(error, EngineError::Store(StoreError::Unavailable(_))), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_query_that_was_not_kept_is_not_acknowledged() {
    for wait in [None, PATIENCE] {
        let (world, store) = world(calling()).await;
        store.faults.set_capacity(0);
        assert_unavailable(world.engine.submit(submission("q", vec![outside("ask")]), wait).await);
        store.faults.set_capacity(UNLIMITED);
        assert!(matches!(world.engine.get(&key("q"), None).await, Err(EngineError::QueryNotFound(..))));
        assert_eq!(world.submit(vec![outside("ask")]).await.head.status(), Status::Waiting);
    }
}

#[tokio::test(start_paused = true)]
async fn a_query_that_was_not_kept_releases_its_permit_although_the_model_hangs() {
    let (world, store) = world(vec![ScriptedTurn::default().hanging()]).await;
    store.faults.set_capacity(0);
    assert_unavailable(world.engine.submit(submission("q", vec![]), None).await);
    store.faults.set_capacity(UNLIMITED);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(world.engine.inner.admission.running(), 0);
}

/// A query was not kept, and was submitted again under its name: that the appends which built on the first fail does
/// not affect the second.
#[tokio::test]
async fn only_state_that_was_built_on_a_failed_write_is_discarded() {
    let store = MemoryStore::new();
    let mut writer = QueryWriter::new("default", "q", 1);
    let created = writer.create();
    writer.send(&store, created);
    let live_queries =
        Arc::new(LiveQueries::new(ArgumentsInAudit::default(), Arc::default(), Arc::new(TokioClock::new()), 1));
    let live = live_queries.entry(&key("q"));
    let before = store.last_position();
    let position = {
        let mut locked = live.lock(&store).await.unwrap();
        locked.advance(&store, Timestamp(2_000_000_000_000)).unwrap();
        locked.state().unwrap().position
    };
    let is_known = async || live.lock_new().await.state().is_some();
    live.discard(before).await;
    assert!(is_known().await);
    live.discard(position).await;
    assert!(!is_known().await);
    // What was loaded from the store was built on no append.
    drop(live.lock(&store).await.unwrap());
    live.discard(position).await;
    assert!(is_known().await);
}

#[tokio::test(start_paused = true)]
async fn a_result_that_was_not_kept_is_not_acknowledged() {
    for wait in [None, PATIENCE] {
        let (world, store) = world(calling()).await;
        let paused = world.submit(vec![outside("ask")]).await;
        let post = async || {
            let delivery = Delivery {
                target: DeliveryTarget::Call(call(&paused, 0)),
                outcome: Outcome::success("42"),
                took: None,
            };
            world.engine.deliver(Actor::local(), key("q"), vec![delivery], false, wait).await
        };
        store.faults.set_capacity(0);
        assert_unavailable(post().await);
        // A retry fails as well.
        assert_unavailable(post().await);
        store.faults.set_capacity(UNLIMITED);
        assert_eq!(world.engine.get(&key("q"), None).await.unwrap().head.status(), Status::Waiting);
        assert!(super::world::accepted(&post().await.unwrap()));
        assert_completed(&world.get().await, "done");
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_that_was_not_kept_is_not_acknowledged() {
    let (world, store) = world(calling()).await;
    world.submit(vec![outside("ask")]).await;
    store.faults.set_capacity(0);
    assert_unavailable(world.engine.cancel(Actor::local(), key("q"), None).await);
    let labels = Update { labels: Some([("a".to_owned(), "b".to_owned())].into()), ..Update::default() };
    assert_unavailable(world.engine.update(Actor::local(), key("q"), labels.clone()).await);
    store.faults.set_capacity(UNLIMITED);
    let read = world.engine.get(&key("q"), None).await.unwrap();
    assert_eq!((read.head.status(), &read.head.labels), (Status::Waiting, &None));
    let changed = world.engine.update(Actor::local(), key("q"), labels).await.unwrap();
    assert!(changed.head.labels.is_some());
}

/// If the end of a query was not kept, the query has not ended: it continues, and asks the model no more often than it
/// must while the store cannot commit anything.
#[tokio::test(start_paused = true)]
async fn an_end_that_was_not_kept_is_retried() {
    // Repeated: a driver that took the end for real would retry its turn forever, until chance ends that.
    for _ in 0..20 {
        let (world, store) = world(calling()).await;
        let paused = world.submit(vec![outside("ask")]).await;
        let delivery =
            Delivery { target: DeliveryTarget::Call(call(&paused, 0)), outcome: Outcome::success("42"), took: None };
        world.engine.deliver(Actor::local(), key("q"), vec![delivery], true, None).await.unwrap();
        // The resumption is kept; what comes after it is not.
        store.faults.set_capacity(1);
        assert_unavailable(world.engine.resume(Actor::local(), key("q"), PATIENCE).await);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let asked = world.model.requests().len();
        assert!(asked <= 2, "the model was asked {asked} times for an answer that could not be kept");
        store.faults.set_capacity(UNLIMITED);
        let ended = world.engine.get(&key("q"), PATIENCE).await.unwrap();
        assert_completed(&ended, "done");
        let stored = store.load(&key("q").0, &key("q").1).await.unwrap().unwrap();
        let begun = stored.entries.iter().filter(|entry| matches!(entry.event, Event::TurnStarted { .. })).count();
        assert!(begun <= 3, "two turns were begun {begun} times");
    }
}

/// An outcome is held until it is durable, however much was appended after it: the tool is not run again, and its
/// outcome is not unknown.
#[tokio::test(start_paused = true)]
async fn an_outcome_that_was_not_kept_is_appended_again_however_far_the_query_is() {
    let turns = vec![
        ScriptedTurn::call("once", &json!({"n": 1})),
        ScriptedTurn::call("again", &json!({"n": 2})),
        ScriptedTurn::say("done"),
    ];
    // Everything up to the start of the first call, then one more at a time.
    for kept in 3..=6 {
        let (world, store) = world(turns.clone()).await;
        store.faults.set_capacity(kept);
        world.engine.submit(submission("q", vec![]), None).await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        store.faults.set_capacity(UNLIMITED);
        let ended = world.get().await;
        assert_completed(&ended, "done");
        let once = ended.transcript.calls().next().unwrap().result.as_ref().unwrap();
        assert!(once.outcome.is_success(), "{kept} kept: {:?}", once.outcome);
        assert_eq!(world.ledger.runs().iter().filter(|run| run.tool == "once").count(), 1, "{kept} kept");
    }
}

/// The first turn does not wait for the disk, and its history is not in the store before the commit.
#[tokio::test(start_paused = true)]
async fn a_turn_that_is_ahead_of_the_commit_waits_for_its_history() {
    let (world, _store) = world(vec![ScriptedTurn::say("hello")]).await;
    for name in ["first", "second"] {
        let conversation =
            AskedConversation { memory: Some("notes".into()), id: Some("talk".into()), ..AskedConversation::default() };
        let asked = Submission { conversation, ..submission(name, vec![]) };
        assert_completed(&world.engine.submit(asked, PATIENCE).await.unwrap().snapshot, "hello");
    }
    let shown = world.model.requests().pop().unwrap().messages.len();
    assert_eq!(shown, 1 + 2 + 1, "the prompt, the first query and the second's question");
}
