//! A child query does not outlive its parent, whichever step of its creation the end of the parent falls on.

use std::{sync::Arc, time::Duration};

use bosun_core::{Actor, Namespace};
use serde_json::json;
use tokio::runtime::Builder;

use super::{
    orphans::{Slow, few, slow_world},
    world::{key, submission},
};
use crate::{
    Store, Submission,
    memory::MemoryStore,
    store::QueryPage,
    testing::{ScriptedModel, ScriptedTurn},
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
