//! Callers that go away while the disk stalls: a change that has begun is made, and made whole.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bosun_core::{Actor, Namespace, QueryName, Status, machine::Decision, tool::Confirm};
use serde_json::json;
use tokio::sync::watch;

use super::{
    faulty::{Faulty, StoreFaults},
    world::{EngineWorld, PATIENCE, delivery, key, outside, submission},
};
use crate::{
    AskedDecision, DecisionTarget, EngineError, EngineSettings, Store as _, StoreError, Submission,
    memory::MemoryStore,
    store::{Position, Stored},
    testing::{CallLedger, ScriptedModel, ScriptedTurn},
};

/// A disk that can stall: what it does not do waits until it continues.
#[derive(Default)]
pub(super) struct StallingDisk {
    stalled: watch::Sender<Option<DiskStall>>,
    reads: AtomicUsize,
}

/// What a stalled disk does not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiskStall {
    /// Commits of appends after this one.
    CommitsAfter(Position),
    /// Reads of queries after this many more.
    ReadsAfter(usize),
}

impl StallingDisk {
    pub(super) fn stall(&self, what: DiskStall) {
        self.reads.store(0, Ordering::SeqCst);
        self.stalled.send_replace(Some(what));
    }

    pub(super) fn resume(&self) {
        self.stalled.send_replace(None);
    }

    async fn wait_while(&self, stalls: impl Fn(DiskStall) -> bool) {
        let mut stalled = self.stalled.subscribe();
        let resumed = stalled.wait_for(|now| !now.is_some_and(&stalls)).await;
        resumed.expect("the disk is there");
    }
}

#[async_trait]
impl StoreFaults for Arc<StallingDisk> {
    async fn durable(&self, memory: &MemoryStore, position: Position) -> Result<(), StoreError> {
        self.wait_while(|now| matches!(now, DiskStall::CommitsAfter(last) if position > last)).await;
        memory.durable(position).await
    }

    async fn load(
        &self,
        memory: &MemoryStore,
        namespace: &Namespace,
        name: &QueryName,
    ) -> Result<Option<Stored>, StoreError> {
        let read = self.reads.fetch_add(1, Ordering::SeqCst);
        self.wait_while(|now| matches!(now, DiskStall::ReadsAfter(reads) if read >= reads)).await;
        memory.load(namespace, name).await
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientChange {
    Create,
    Deliver,
    Approve,
    Cancel,
    Delete,
}

const CHANGES: [ClientChange; 5] = {
    use ClientChange::{Approve, Cancel, Create, Delete, Deliver};
    [Create, Deliver, Approve, Cancel, Delete]
};

/// What a change finds: a query that waits for its client, or for a person; nothing if it is the creation.
fn found_by(change: ClientChange) -> Option<Submission> {
    let (input, tools) = match change {
        ClientChange::Create => return None,
        ClientChange::Approve => ("approve", Vec::new()),
        ClientChange::Deliver | ClientChange::Cancel | ClientChange::Delete => ("ask", vec![outside("ask")]),
    };
    Some(Submission { input: input.into(), ..submission("q", tools) })
}

async fn make(world: &EngineWorld, change: ClientChange) -> Result<(), EngineError> {
    let engine = &world.engine;
    match change {
        ClientChange::Create => engine.submit(submission("q", vec![]), None).await.map(|_| ()),
        ClientChange::Deliver => {
            let stored = world.store.load(&key("q").0, &key("q").1).await.unwrap().unwrap();
            let posted = vec![delivery(stored.head.calls[0].id, "42")];
            engine.deliver(Actor::local(), key("q"), posted, false, None).await.map(|_| ())
        }
        ClientChange::Approve => {
            let decision = Decision::Approved { arguments: None };
            let asked = AskedDecision { target: DecisionTarget::Only, decision, seen: None };
            engine.decide(Actor::local(), key("q"), asked, None).await.map(|_| ())
        }
        ClientChange::Cancel => engine.cancel(Actor::local(), key("q"), None).await.map(|_| ()),
        ClientChange::Delete => engine.delete(Actor::local(), key("q")).await,
    }
}

/// Begins a change on a disk that stalls, and drops it. Returns whether it was made in the end; `None` if it did not
/// wait for the disk.
async fn abandon(change: ClientChange, stall: impl FnOnce(&MemoryStore) -> DiskStall) -> Option<bool> {
    let script = ScriptedModel::always(vec![ScriptedTurn::say("done")])
        .on("ask", vec![ScriptedTurn::call("ask", &json!({"n": 1})), ScriptedTurn::say("done")])
        .on("approve", vec![ScriptedTurn::call("once", &json!({"n": 1})), ScriptedTurn::say("done")]);
    let settings = EngineSettings { confirm: Confirm::Always, ..EngineSettings::default() };
    let earlier = EngineWorld::with_settings(script, CallLedger::open(), settings).await;
    if let Some(submission) = found_by(change) {
        earlier.engine.submit(submission, PATIENCE).await.unwrap();
    }
    // The next process, so that nothing is cached.
    let EngineWorld { store, model, ledger, .. } = earlier;
    let (memory, disk) = (store.reopen(), Arc::new(StallingDisk::default()));
    let store = Arc::new(Faulty { memory: memory.clone(), faults: Arc::clone(&disk) });
    let world = EngineWorld::on_store_with(store, Arc::new(memory), model, ledger, settings).await;
    // Time is paused: this is until nothing more can happen.
    let all_is_done = || tokio::time::sleep(Duration::from_millis(10));
    all_is_done().await;
    disk.stall(stall(&world.store));
    let gave_up = tokio::time::timeout(Duration::from_millis(10), make(&world, change)).await;
    disk.resume();
    if let Ok(made) = gave_up {
        made.unwrap();
        return None;
    }
    all_is_done().await;
    let found = world.engine.get(&key("q"), None).await;
    let status = found.as_ref().ok().map(|snapshot| snapshot.head.status());
    let expect = match change {
        ClientChange::Create | ClientChange::Deliver | ClientChange::Approve => Some(Status::Completed),
        ClientChange::Cancel => Some(Status::Cancelled),
        ClientChange::Delete => None,
    };
    let untouched = match change {
        ClientChange::Create => None,
        ClientChange::Approve => Some(Status::AwaitingApproval),
        ClientChange::Deliver | ClientChange::Cancel | ClientChange::Delete => Some(Status::Waiting),
    };
    assert!(status == expect || status == untouched, "{change:?} was made by half: {status:?}");
    assert!(world.ledger.runs().len() <= 1);
    Some(status == expect)
}

#[tokio::test(start_paused = true)]
async fn a_change_whose_caller_goes_away_before_its_commit_is_made_whole() {
    for change in CHANGES {
        let made = abandon(change, |memory| DiskStall::CommitsAfter(memory.last_position())).await;
        assert_eq!(made, Some(true), "{change:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_whose_caller_goes_away_before_its_append_is_made_once_it_has_begun() {
    for change in CHANGES {
        let mut made = Vec::new();
        while let Some(one) = abandon(change, |_| DiskStall::ReadsAfter(made.len())).await {
            made.push(one);
        }
        // A caller may go away before its change begins: while what the change is for is looked up.
        assert_eq!(made.last(), Some(&true), "{change:?}: {made:?}");
        assert!(made.is_sorted(), "{change:?}: {made:?}");
    }
}
