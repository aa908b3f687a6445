//! A store that takes appends and cannot keep them, for a while: as on a full disk.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bosun_core::{
    Actor, ContentHash, Event, Namespace, Outcome, QueryName, QueryUid, Status, Timestamp,
    audit::Record,
    conversation::ConversationKey,
    machine::{Delivery, Target},
    usage::{Hour, Usage},
};
use serde_json::json;

use super::world::{PATIENCE, World, assert_completed, call, key, outside, submission};
use crate::{
    EngineError, Store, StoreError,
    memory::Memory,
    resource::{ResourceChange, StoredResource},
    store::{
        Answered, Append, Conversations, Found, Listed, Page, Position, Records, Removal, RequestKey, Runnable, Search,
        StoreStats, Stored, Wanted,
        conversations::{self, Conversation, Frame, Listing, Said},
    },
    testing::{Ledger, ScriptedModel, Turn},
};

struct Refusing {
    memory: Memory,
    /// For how many more appends there is room.
    room: AtomicU64,
    /// Where each append went, in the order of the positions that were given out; nowhere if it was refused.
    kept: Mutex<Vec<Option<Position>>>,
    /// Queries that are not on the disk yet: nobody can read them there.
    created: Mutex<HashMap<QueryName, Position>>,
}

const PLENTY: u64 = 1 << 40;

impl Refusing {
    fn make_room(&self, appends: u64) {
        self.room.store(appends, Ordering::SeqCst);
    }

    /// Whether there was room for one more.
    fn take_room(&self) -> bool {
        self.room.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |room| room.checked_sub(1)).is_ok()
    }

    fn place(&self, position: Position) -> Option<Position> {
        match position.0 {
            0 => Some(position),
            number => self.kept.lock().unwrap()[usize::try_from(number).unwrap() - 1],
        }
    }
}

#[async_trait]
impl Records for Refusing {
    fn record(&self, namespace: &Namespace, records: Vec<Record>) -> Result<Position, StoreError> {
        self.memory.record(namespace, records)
    }

    async fn search(&self, namespace: &Namespace, search: &Search) -> Result<Found, StoreError> {
        self.memory.search(namespace, search).await
    }

    async fn usage(&self, namespace: &Namespace, since: Hour) -> Result<Usage, StoreError> {
        self.memory.usage(namespace, since).await
    }
}

#[async_trait]
impl Conversations for Refusing {
    async fn history(
        &self,
        namespace: &Namespace,
        key: &ConversationKey,
        frame: Frame,
    ) -> Result<Vec<Said>, StoreError> {
        self.memory.history(namespace, key, frame).await
    }

    async fn conversations(
        &self,
        namespace: &Namespace,
        wanted: &conversations::Wanted,
        after: Option<QueryUid>,
        limit: usize,
    ) -> Result<Listing<Conversation>, StoreError> {
        self.memory.conversations(namespace, wanted, after, limit).await
    }

    async fn said(
        &self,
        namespace: &Namespace,
        wanted: &conversations::Wanted,
        after: Option<QueryUid>,
        limit: usize,
    ) -> Result<Listing<Said>, StoreError> {
        self.memory.said(namespace, wanted, after, limit).await
    }
}

#[async_trait]
impl Store for Refusing {
    fn append(&self, append: Append) -> Result<Position, StoreError> {
        let created = (append.seen == 0).then(|| append.head.name.clone());
        let place = match self.place(append.after) {
            Some(after) if self.take_room() => Some(self.memory.append(Append { after, ..append })?),
            _ => None,
        };
        let mut kept = self.kept.lock().unwrap();
        kept.push(place);
        let position = Position(kept.len() as u64);
        self.created.lock().unwrap().extend(created.map(|name| (name, position)));
        Ok(position)
    }

    async fn durable(&self, position: Position) -> Result<(), StoreError> {
        // A disk takes its time to say no, and longer for what came later; meanwhile the query goes on in memory.
        tokio::time::sleep(Duration::from_millis(position.0)).await;
        match self.place(position) {
            Some(place) => {
                self.created.lock().unwrap().retain(|_, created| *created > position);
                self.memory.durable(place).await
            }
            None => Err(StoreError::Unavailable("the disk is full".into())),
        }
    }

    fn last_position(&self) -> Position {
        Position(self.kept.lock().unwrap().len() as u64)
    }

    async fn load(&self, namespace: &Namespace, name: &QueryName) -> Result<Option<Stored>, StoreError> {
        if self.created.lock().unwrap().contains_key(name) {
            return Ok(None);
        }
        self.memory.load(namespace, name).await
    }

    async fn answered(&self, namespace: &Namespace, key: &RequestKey) -> Result<Option<Answered>, StoreError> {
        self.memory.answered(namespace, key).await
    }

    async fn remove(&self, removal: Removal, now: Timestamp) -> Result<usize, StoreError> {
        self.memory.remove(removal, now).await
    }

    async fn change_resource(&self, change: ResourceChange) -> Result<(), StoreError> {
        self.memory.change_resource(change).await
    }

    async fn resources(&self) -> Result<Vec<StoredResource>, StoreError> {
        self.memory.resources().await
    }

    async fn document(&self, hash: ContentHash) -> Result<Option<Arc<str>>, StoreError> {
        self.memory.document(hash).await
    }

    async fn referred(&self, blobs: &[ContentHash]) -> Result<HashSet<ContentHash>, StoreError> {
        self.memory.referred(blobs).await
    }

    async fn list(&self, namespace: &Namespace, page: &Page) -> Result<Listed, StoreError> {
        self.memory.list(namespace, page).await
    }

    async fn runnable(&self, wanted: Wanted) -> Result<Vec<Runnable>, StoreError> {
        self.memory.runnable(wanted).await
    }

    async fn count_waiting(&self) -> Result<usize, StoreError> {
        self.memory.count_waiting().await
    }

    async fn count_runnable(&self) -> Result<usize, StoreError> {
        self.memory.count_runnable().await
    }

    async fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<(Namespace, QueryName)>, StoreError> {
        self.memory.due(now, limit).await
    }

    async fn next_deadline(&self) -> Result<Option<Timestamp>, StoreError> {
        self.memory.next_deadline().await
    }

    fn stats(&self) -> StoreStats {
        self.memory.stats()
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.memory.close().await
    }
}

async fn world(turns: Vec<Turn>) -> (World, Arc<Refusing>) {
    let store = Arc::new(Refusing {
        memory: Memory::new(),
        room: AtomicU64::new(PLENTY),
        kept: Mutex::default(),
        created: Mutex::default(),
    });
    let (model, ledger) = (Arc::new(ScriptedModel::always(turns)), Arc::new(Ledger::open()));
    let world = World::on_store(Arc::clone(&store) as _, Arc::new(Memory::new()), model, ledger).await;
    (world, store)
}

fn calling() -> Vec<Turn> {
    vec![Turn::call("ask", &json!({"n": 1})), Turn::say("done")]
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
        store.make_room(0);
        assert_unavailable(world.engine.submit(submission("q", vec![outside("ask")]), wait).await);
        store.make_room(PLENTY);
        assert!(matches!(world.engine.get(&key("q"), None).await, Err(EngineError::QueryNotFound(..))));
        assert_eq!(world.submit(vec![outside("ask")]).await.head.status(), Status::Waiting);
    }
}

/// The disk is still about to say no to what the first led to: that says nothing of the second.
#[tokio::test(start_paused = true)]
async fn a_query_that_is_asked_for_again_is_not_forgotten_with_the_first() {
    let (world, store) = world(calling()).await;
    store.make_room(0);
    assert_unavailable(world.engine.submit(submission("q", vec![outside("ask")]), None).await);
    assert!(store.last_position() > Position(1), "its driver went on in memory, and has not been told yet");
    store.make_room(PLENTY);
    assert_eq!(world.submit(vec![outside("ask")]).await.head.status(), Status::Waiting);
}

#[tokio::test(start_paused = true)]
async fn a_result_that_was_not_kept_is_not_acknowledged() {
    for wait in [None, PATIENCE] {
        let (world, store) = world(calling()).await;
        let paused = world.submit(vec![outside("ask")]).await;
        let post = async || {
            let delivery = Delivery { target: Target::Call(call(&paused, 0)), outcome: Outcome::success("42") };
            world.engine.deliver(Actor::local(), key("q"), vec![delivery], false, wait).await
        };
        store.make_room(0);
        assert_unavailable(post().await);
        // A repetition is no better off.
        assert_unavailable(post().await);
        store.make_room(PLENTY);
        assert_eq!(world.engine.get(&key("q"), None).await.unwrap().head.status(), Status::Waiting);
        assert!(super::world::accepted(&post().await.unwrap()));
        assert_completed(&world.get().await, "done");
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_that_was_not_kept_is_not_acknowledged() {
    let (world, store) = world(calling()).await;
    world.submit(vec![outside("ask")]).await;
    store.make_room(0);
    assert_unavailable(world.engine.cancel(Actor::local(), key("q"), None).await);
    store.make_room(PLENTY);
    assert_eq!(world.engine.get(&key("q"), None).await.unwrap().head.status(), Status::Waiting);
}

/// The end of a query that was not kept never was: the query goes on, and asks the model no more
/// often than it must while the store cannot keep anything.
#[tokio::test(start_paused = true)]
async fn an_end_that_was_not_kept_is_tried_again_when_it_can_be() {
    // Often: a driver that took the end for real would begin its turn again and again, until chance ends that.
    for _ in 0..20 {
        let (world, store) = world(calling()).await;
        let paused = world.submit(vec![outside("ask")]).await;
        let delivery = Delivery { target: Target::Call(call(&paused, 0)), outcome: Outcome::success("42") };
        world.engine.deliver(Actor::local(), key("q"), vec![delivery], true, None).await.unwrap();
        // That it goes on is kept; what comes after that is not.
        store.make_room(1);
        assert_unavailable(world.engine.resume(Actor::local(), key("q"), PATIENCE).await);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let asked = world.model.requests().len();
        assert!(asked <= 2, "the model was asked {asked} times for an answer that nobody could keep");
        store.make_room(PLENTY);
        let ended = world.engine.get(&key("q"), PATIENCE).await.unwrap();
        assert_completed(&ended, "done");
        let stored = store.load(&key("q").0, &key("q").1).await.unwrap().unwrap();
        let begun = stored.entries.iter().filter(|entry| matches!(entry.event, Event::TurnStarted { .. })).count();
        assert!(begun <= 3, "two turns were begun {begun} times");
    }
}
