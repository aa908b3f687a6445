//! A child query does not outlive its parent, whichever step of its creation the end of the parent, or of the process,
//! falls on.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bosun_core::{Actor, Head, Namespace, Status, transcript::Message};
use serde_json::json;
use tokio::runtime::Builder;

use super::{
    faulty::{Faulty, StoreFaults},
    orphans::{Slow, few, slow_world},
    stalling::{DiskStall, StallingDisk},
    world::{EngineWorld, PATIENCE, assert_completed, key, submission},
};
use crate::{
    Store, StoreError, Submission,
    memory::MemoryStore,
    store::{Append, Position, QueryPage},
    testing::{CallLedger, ScriptedModel, ScriptedTurn},
};

#[derive(Clone, Copy, Debug)]
enum ParentEnd {
    Cancelled,
    Deleted,
}

/// Ends a parent after this many steps of other tasks. Returns how many children it had, after asserting that none is open.
async fn end_parent(how: ParentEnd, seed: u64, steps: u32) -> usize {
    // The model never answers a child.
    let script = ScriptedModel::always(vec![ScriptedTurn::call("agent", &json!({"input": "dig"}))])
        .on("dig", vec![ScriptedTurn::default().hanging()]);
    let slow = Arc::new(Slow::new(seed, 0));
    let world = slow_world(script, &slow, MemoryStore::new(), few(4)).await;
    let parent = Submission { target: "manager".into(), ..submission("parent", vec![]) };
    world.engine.submit(parent, None).await.unwrap();
    for _ in 0..steps {
        tokio::task::yield_now().await;
    }
    match how {
        ParentEnd::Cancelled => drop(world.engine.cancel(Actor::local(), key("parent"), None).await.unwrap()),
        ParentEnd::Deleted => world.engine.delete(Actor::local(), key("parent")).await.unwrap(),
    }
    // Time is paused: this is until nothing more can happen.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let page = QueryPage { limit: 10, ..QueryPage::default() };
    let listed = world.engine.list(&Namespace::default(), &page).await.unwrap();
    for (head, _) in &listed.queries {
        assert!(head.status().is_final(), "{} is {:?}: {how:?}, seed {seed}, {steps} steps", head.name, head.status());
    }
    assert_eq!(world.store.count_runnable().await.unwrap(), [], "{how:?}, seed {seed}, {steps} steps");
    listed.queries.iter().filter(|(head, _)| head.lineage.is_some()).count()
}

/// As `end_parent`, for every number of steps, which span the creation of the child. Each server has a runtime of its own,
/// which ends with it: its tasks would otherwise run on beside those of the next.
fn end_parents(how: ParentEnd) -> Vec<usize> {
    let ends = (0..6).flat_map(|seed| (0..120).map(move |steps| (seed, steps)));
    let end = |(seed, steps)| {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(end_parent(how, seed, steps))
    };
    ends.map(end).collect()
}

#[test]
fn a_child_ends_with_its_parent_at_any_step_of_its_creation() {
    let children = end_parents(ParentEnd::Cancelled);
    assert!(children.contains(&0) && children.contains(&1), "both sides of the creation are tried: {children:?}");
}

#[test]
fn a_child_of_a_deleted_parent_does_not_run_on() {
    end_parents(ParentEnd::Deleted);
}

/// A disk that commits nothing from the creation of a child on: the parent cannot record it.
struct StallsWithChild(Arc<StallingDisk>);

#[async_trait]
impl StoreFaults for StallsWithChild {
    fn append(&self, memory: &MemoryStore, append: Append) -> Result<Position, StoreError> {
        if append.seen == 0 && append.head.lineage.is_some() {
            self.0.stall(DiskStall::CommitsAfter(memory.last_position()));
        }
        memory.append(append)
    }

    async fn durable(&self, memory: &MemoryStore, position: Position) -> Result<(), StoreError> {
        self.0.durable(memory, position).await
    }
}

/// The process that follows one that died when a child was stored and its parent had not recorded it. `end` is what
/// else the earlier process did.
async fn dies_with_unrecorded_child(model: ScriptedModel, end: impl AsyncFnOnce(&EngineWorld)) -> EngineWorld {
    let memory = MemoryStore::new();
    let store = Arc::new(Faulty { memory: memory.clone(), faults: StallsWithChild(Arc::default()) });
    // A call runs when a test lets it through.
    let (model, ledger) = (Arc::new(model), Arc::new(CallLedger::gated()));
    let world = EngineWorld::on_store(store, Arc::new(memory), model, ledger).await;
    let parent = Submission { target: "manager".into(), ..submission("parent", vec![]) };
    world.engine.submit(parent, None).await.unwrap();
    // Time is paused: this is until nothing more can happen.
    tokio::time::sleep(Duration::from_millis(10)).await;
    end(&world).await;
    let [parent, child] = &family(&world).await[..] else { panic!("a parent and its child") };
    assert_eq!(parent.child_calls().count(), 0, "the child is not recorded");
    assert!(!child.status().is_final());
    world.crash().await
}

/// All queries of the store, parents first.
async fn family(world: &EngineWorld) -> Vec<Head> {
    let page = QueryPage { limit: 10, ..QueryPage::default() };
    let listed = world.store.list(&Namespace::default(), &page).await.unwrap();
    let mut heads: Vec<_> = listed.queries.into_iter().map(|(head, _)| head).collect();
    heads.sort_by_key(|head| head.lineage.is_some());
    heads
}

#[tokio::test(start_paused = true)]
async fn a_child_that_its_parent_had_not_recorded_when_the_process_died_is_found_again() {
    let asks = ScriptedTurn::call("agent", &json!({"input": "dig"}));
    let digs = vec![ScriptedTurn::call("again", &json!({"n": 1})), ScriptedTurn::say("gold")];
    let script = ScriptedModel::always(vec![asks, ScriptedTurn::say("rich")]).on("dig", digs);
    let world = dies_with_unrecorded_child(script, async |_| {}).await;
    // The child cannot end yet: its parent asks for it again, and finds it.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let [parent, _] = &family(&world).await[..] else { panic!("a parent and its only child") };
    assert_eq!(parent.child_calls().count(), 1, "it is recorded now");
    world.ledger.let_through(9);
    assert_completed(&world.engine.get(&key("parent"), PATIENCE).await.unwrap(), "rich");
    let statuses: Vec<_> = family(&world).await.iter().map(|head| head.status()).collect();
    assert_eq!(statuses, [Status::Completed, Status::Completed], "one child, which was not cancelled");
    let requests = world.model.requests();
    let Some(Message::Tool { content, .. }) = requests.last().unwrap().messages.last() else { panic!("no result") };
    assert_eq!(content, "gold");
}

#[tokio::test(start_paused = true)]
async fn a_child_whose_parent_ended_without_having_recorded_it_is_cancelled_by_the_next_process() {
    let script = ScriptedModel::always(vec![ScriptedTurn::call("agent", &json!({"input": "dig"}))])
        .on("dig", vec![ScriptedTurn::default().hanging()]);
    let cancel = async |world: &EngineWorld| {
        let cancelled = world.engine.cancel(Actor::local(), key("parent"), None);
        let answered = tokio::time::timeout(Duration::from_millis(10), cancelled).await;
        assert!(answered.is_err(), "nothing is committed");
    };
    let world = dies_with_unrecorded_child(script, cancel).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let statuses: Vec<_> = family(&world).await.iter().map(|head| head.status()).collect();
    assert_eq!(statuses, [Status::Cancelled, Status::Cancelled]);
    assert_eq!(world.store.count_runnable().await.unwrap(), []);
}
