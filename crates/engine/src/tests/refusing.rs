//! A store that takes appends and cannot keep them, for a while: as on a full disk.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bosun_core::{
    ContentHash, Head, Namespace, Outcome, QueryName, QueryUid, Status, Timestamp,
    machine::{Delivery, Target},
};
use serde_json::json;

use super::world::{PATIENCE, World, assert_completed, call, key, outside, submission};
use crate::{
    EngineError, Store, StoreError,
    memory::Memory,
    store::{Append, Listed, Page, Position, StoreStats, Stored},
    testing::{Ledger, ScriptedModel, Turn},
};

#[derive(Default)]
struct Refusing {
    memory: Memory,
    full: AtomicBool,
    /// Where each append went, in the order of the positions that were given out; nowhere if it was refused.
    kept: Mutex<Vec<Option<Position>>>,
}

impl Refusing {
    fn place(&self, position: Position) -> Option<Position> {
        match position.0 {
            0 => Some(position),
            number => self.kept.lock().unwrap()[usize::try_from(number).unwrap() - 1],
        }
    }
}

#[async_trait]
impl Store for Refusing {
    fn append(&self, append: Append) -> Result<Position, StoreError> {
        let place = match self.place(append.after) {
            Some(after) if !self.full.load(Ordering::SeqCst) => Some(self.memory.append(Append { after, ..append })?),
            _ => None,
        };
        let mut kept = self.kept.lock().unwrap();
        kept.push(place);
        Ok(Position(kept.len() as u64))
    }

    async fn durable(&self, position: Position) -> Result<(), StoreError> {
        // A disk takes its time to say no; meanwhile the query goes on in memory.
        tokio::time::sleep(Duration::from_millis(1)).await;
        match self.place(position) {
            Some(place) => self.memory.durable(place).await,
            None => Err(StoreError::Unavailable("the disk is full".into())),
        }
    }

    fn last_position(&self) -> Position {
        Position(self.kept.lock().unwrap().len() as u64)
    }

    async fn load(&self, namespace: &Namespace, name: &QueryName) -> Result<Option<Stored>, StoreError> {
        self.memory.load(namespace, name).await
    }

    async fn document(&self, hash: ContentHash) -> Result<Option<Arc<str>>, StoreError> {
        self.memory.document(hash).await
    }

    async fn list(&self, namespace: &Namespace, page: &Page) -> Result<Listed, StoreError> {
        self.memory.list(namespace, page).await
    }

    async fn unfinished(&self, after: Option<QueryUid>, limit: usize) -> Result<Vec<Head>, StoreError> {
        self.memory.unfinished(after, limit).await
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
    let store = Arc::new(Refusing::default());
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
        store.full.store(true, Ordering::SeqCst);
        assert_unavailable(world.engine.submit(submission("q", vec![outside("ask")]), wait).await);
        store.full.store(false, Ordering::SeqCst);
        assert!(matches!(world.engine.get(&key("q"), None).await, Err(EngineError::QueryNotFound(..))));
        assert_eq!(world.submit(vec![outside("ask")]).await.head.status(), Status::Waiting);
    }
}

#[tokio::test(start_paused = true)]
async fn a_result_that_was_not_kept_is_not_acknowledged() {
    for wait in [None, PATIENCE] {
        let (world, store) = world(calling()).await;
        let paused = world.submit(vec![outside("ask")]).await;
        let post = async || {
            let delivery = Delivery { target: Target::Call(call(&paused, 0)), outcome: Outcome::success("42") };
            world.engine.deliver(key("q"), vec![delivery], false, wait).await
        };
        store.full.store(true, Ordering::SeqCst);
        assert_unavailable(post().await);
        // A repetition is no better off.
        assert_unavailable(post().await);
        store.full.store(false, Ordering::SeqCst);
        assert_eq!(world.engine.get(&key("q"), None).await.unwrap().head.status(), Status::Waiting);
        assert!(super::world::accepted(&post().await.unwrap()));
        assert_completed(&world.get().await, "done");
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_that_was_not_kept_is_not_acknowledged() {
    let (world, store) = world(calling()).await;
    world.submit(vec![outside("ask")]).await;
    store.full.store(true, Ordering::SeqCst);
    assert_unavailable(world.engine.cancel(key("q"), None).await);
    store.full.store(false, Ordering::SeqCst);
    assert_eq!(world.engine.get(&key("q"), None).await.unwrap().head.status(), Status::Waiting);
}

/// The end of a query that was not kept never was: the query goes on, and asks the model no more
/// often than it must while the store cannot keep anything.
#[tokio::test(start_paused = true)]
async fn an_end_that_was_not_kept_is_tried_again_when_it_can_be() {
    let (world, store) = world(calling()).await;
    let paused = world.submit(vec![outside("ask")]).await;
    let delivery = Delivery { target: Target::Call(call(&paused, 0)), outcome: Outcome::success("42") };
    world.engine.deliver(key("q"), vec![delivery], true, None).await.unwrap();
    assert_eq!(world.model.requests().len(), 1);
    let engine = world.engine.clone();
    let resumed = tokio::spawn(async move { engine.resume(key("q"), PATIENCE).await });
    // Its `Continued` is kept; what comes after it is not.
    tokio::task::yield_now().await;
    store.full.store(true, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let asked = world.model.requests().len();
    assert!(asked <= 3, "the model was asked {asked} times for an answer that nobody could keep");
    store.full.store(false, Ordering::SeqCst);
    assert_completed(&world.engine.get(&key("q"), PATIENCE).await.unwrap(), "done");
    let asked = world.model.requests().len();
    assert!(asked <= 4, "the model was asked {asked} times");
    drop(resumed);
}
