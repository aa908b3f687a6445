//! Every query with work runs eventually, and a driver's state belongs to one query.
//!
//! The store of these tests delays its answers, in a way that a seed decides, so that requests race with drivers at
//! every step.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bosun_core::{
    Actor, ContentHash, Namespace, Outcome, QueryName, Status,
    machine::{Delivery, DeliveryTarget, DeliveryVerdict},
    query::AskedLimits,
    transcript::Message,
};
use futures_util::future::join_all;
use proptest::prelude::*;
use serde_json::json;

use super::{
    faulty::{Faulty, StoreFaults},
    world::{EngineWorld, PATIENCE, outside, submission},
};
use crate::{
    AskedConversation, EngineError, EngineSettings, QueryKey, Store, StoreError, Submission,
    memory::MemoryStore,
    store::{Position, Runnable, Stored, WantedQueries},
    testing::{CallLedger, ScriptedModel, ScriptedTurn},
};

/// A store that yields to other tasks before it answers, and fails every n-th read.
pub(super) struct Slow {
    random: AtomicU64,
    /// One read in `fails` fails; none if zero.
    fails: AtomicU32,
}

impl Slow {
    pub(super) fn new(seed: u64, fails: u32) -> Self {
        // A seed of zero would yield nothing but zeros.
        Self { random: AtomicU64::new(seed | 1 << 40), fails: AtomicU32::new(fails) }
    }

    fn draw(&self) -> u64 {
        let next =
            |state: u64| Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
        self.random.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap_or_default() >> 33
    }

    async fn yield_to_others(&self) {
        for _ in 0..self.draw() % 12 {
            tokio::task::yield_now().await;
        }
    }

    fn may_fail(&self) -> Result<(), StoreError> {
        let fails = u64::from(self.fails.load(Ordering::Relaxed));
        if fails > 0 && self.draw().is_multiple_of(fails) {
            return Err(StoreError::Unavailable("the test says so".into()));
        }
        Ok(())
    }
}

#[async_trait]
impl StoreFaults for Arc<Slow> {
    async fn durable(&self, memory: &MemoryStore, position: Position) -> Result<(), StoreError> {
        self.yield_to_others().await;
        memory.durable(position).await
    }

    async fn load(
        &self,
        memory: &MemoryStore,
        space: &Namespace,
        name: &QueryName,
    ) -> Result<Option<Stored>, StoreError> {
        self.yield_to_others().await;
        self.may_fail()?;
        memory.load(space, name).await
    }

    async fn document(&self, memory: &MemoryStore, hash: ContentHash) -> Result<Option<Arc<str>>, StoreError> {
        self.yield_to_others().await;
        memory.document(hash).await
    }

    async fn runnable(&self, memory: &MemoryStore, wanted: WantedQueries) -> Result<Vec<Runnable>, StoreError> {
        self.yield_to_others().await;
        self.may_fail()?;
        memory.runnable(wanted).await
    }
}

/// A world with such a store.
pub(super) async fn slow_world(
    script: ScriptedModel,
    slow: &Arc<Slow>,
    memory: MemoryStore,
    settings: EngineSettings,
) -> EngineWorld {
    let shared = Arc::new(memory.clone());
    let store = Faulty { memory, faults: Arc::clone(slow) };
    EngineWorld::on_store_with(Arc::new(store), shared, Arc::new(script), Arc::new(CallLedger::open()), settings).await
}

pub(super) fn few(max_running: usize) -> EngineSettings {
    EngineSettings { max_running, max_queued: 1_000, ..EngineSettings::default() }
}

fn asks_once() -> ScriptedModel {
    ScriptedModel::always(vec![ScriptedTurn::call("ask", &json!({"n": 1})), ScriptedTurn::say("thanks")])
}

fn answer() -> Delivery {
    Delivery { target: DeliveryTarget::Tool("ask".into()), outcome: Outcome::success("42"), took: None }
}

fn in_namespace(namespace: &Namespace, name: &str) -> Submission {
    Submission { namespace: namespace.clone(), ..submission(name, vec![outside("ask")]) }
}

/// Posts the result of the one call until it is accepted, like a client that does not wait for the call's id.
async fn post_until_taken(world: &EngineWorld, key: &QueryKey) {
    for _ in 0..1_000 {
        match world.engine.deliver(Actor::local(), key.clone(), vec![answer()], false, None).await {
            Ok(report)
                if matches!(report.verdicts[..], [DeliveryVerdict::Accepted(_) | DeliveryVerdict::Replayed(_)]) =>
            {
                return;
            }
            Ok(report) if report.snapshot.head.status().is_final() => return,
            Err(EngineError::QueryNotFound(..)) => return,
            // Time is paused: a millisecond passes when nothing else can happen.
            _ => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
}

async fn ends(world: &EngineWorld, key: &QueryKey) -> Status {
    loop {
        match world.engine.get(key, PATIENCE).await {
            Ok(snapshot) => return snapshot.head.status(),
            Err(EngineError::QueryNotFound(..)) => return Status::Cancelled,
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// More clients than permits, each of which posts its result as early as it can.
async fn race(seed: u64) -> Duration {
    let slow = Arc::new(Slow::new(seed, 0));
    let world = slow_world(asks_once(), &slow, MemoryStore::new(), few(2)).await;
    let began = tokio::time::Instant::now();
    let client = async |client: usize| {
        for round in 0..8 {
            let name = format!("q{client}-{round}");
            let key = super::world::key(&name);
            world.engine.submit(submission(&name, vec![outside("ask")]), None).await.unwrap();
            post_until_taken(&world, &key).await;
            assert_eq!(ends(&world, &key).await, Status::Completed, "{name} was left behind, seed {seed}");
        }
    };
    join_all((0..4).map(client)).await;
    assert_eq!(world.engine.inner.admission.running(), 0);
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_result_that_arrives_while_its_driver_waits_for_the_disk_is_processed_at_once() {
    for seed in 0..200 {
        let took = race(seed).await;
        assert!(
            took < Duration::from_millis(500),
            "only the poll of every second found a query, seed {seed}: {took:?}"
        );
    }
}

/// One step of a client in the model test.
#[derive(Clone, Copy, Debug)]
enum ClientStep {
    Submit,
    Post,
    /// A whole cycle, with the result posted as early as it is accepted.
    Cycle,
    Cancel,
    Delete,
    Pause(u8),
}

fn step() -> impl Strategy<Value = ClientStep> {
    prop_oneof![
        4 => Just(ClientStep::Submit),
        2 => Just(ClientStep::Post),
        12 => Just(ClientStep::Cycle),
        1 => Just(ClientStep::Cancel),
        1 => Just(ClientStep::Delete),
        3 => (0..20_u8).prop_map(ClientStep::Pause),
    ]
}

/// Takes the steps of one client, and collects the names that it has used.
async fn take(
    world: &EngineWorld,
    namespace: &Namespace,
    client: usize,
    steps: &[ClientStep],
    keys: &mut Vec<QueryKey>,
) {
    for (number, step) in steps.iter().enumerate() {
        let key = keys.last().cloned();
        match (step, key) {
            (ClientStep::Submit | ClientStep::Cycle, _) => {
                let name = format!("q{client}-{number}-{}", keys.len());
                let key: QueryKey = (namespace.clone(), name.parse().unwrap());
                if world.engine.submit(in_namespace(namespace, &name), None).await.is_ok() {
                    keys.push(key.clone());
                }
                if matches!(step, ClientStep::Cycle) {
                    post_until_taken(world, &key).await;
                }
            }
            (ClientStep::Post, Some(key)) => {
                let _ = world.engine.deliver(Actor::local(), key, vec![answer()], false, None).await;
            }
            (ClientStep::Cancel, Some(key)) => {
                let _ = world.engine.cancel(Actor::local(), key, None).await;
            }
            (ClientStep::Delete, Some(key)) => {
                let _ = world.engine.delete(Actor::local(), key).await;
            }
            (ClientStep::Pause(yields), _) => {
                for _ in 0..*yields {
                    tokio::task::yield_now().await;
                }
            }
            (_, None) => {}
        }
    }
}

/// Clients of two namespaces, a store whose reads fail, few permits, and a restart in the middle.
async fn model_of_admission(seed: u64, fails: u32, permits: usize, clients: Vec<Vec<ClientStep>>, restarts: usize) {
    let slow = Arc::new(Slow::new(seed, fails));
    let memory = MemoryStore::new();
    let mut keys: Vec<Vec<QueryKey>> = vec![Vec::new(); clients.len()];
    let namespaces: Vec<Namespace> = vec![Namespace::default(), "quiet".parse().unwrap()];
    let mut world = slow_world(asks_once(), &slow, memory, few(permits)).await;
    for round in 0..=restarts {
        if round > 0 {
            let reopened = world.store.reopen();
            world = slow_world(asks_once(), &slow, reopened, few(permits)).await;
        }
        let steps = clients.iter().zip(&mut keys).enumerate();
        join_all(steps.map(|(client, (steps, keys))| take(&world, &namespaces[client % 2], client, steps, keys))).await;
    }
    // From here on nothing fails: every query with work must run, without a request that wakes it.
    slow.fails.store(0, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(world.store.count_runnable().await.unwrap(), [], "left behind, seed {seed}");
    assert_eq!(world.engine.inner.admission.running(), 0, "seed {seed}");
    assert_eq!(world.engine.inner.admission.queued(0), 0, "seed {seed}");
    for key in keys.into_iter().flatten() {
        let Ok(snapshot) = world.engine.get(&key, None).await else { continue };
        if snapshot.head.status() == Status::Waiting {
            post_until_taken(&world, &key).await;
        }
        assert!(ends(&world, &key).await.is_final(), "{} was left behind, seed {seed}", key.1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_query_with_work_runs_whatever_notification_was_lost(
        seed: u64,
        fails in prop_oneof![Just(0_u32), 2..12_u32],
        permits in 1..3_usize,
        clients in prop::collection::vec(prop::collection::vec(step(), 0..40), 1..7),
        restarts in 0..3_usize,
    ) {
        paused(model_of_admission(seed, fails, permits, clients, restarts));
    }
}

/// Runs on one thread, with tokio's time paused.
fn paused(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(test);
}

#[tokio::test(start_paused = true)]
async fn metrics_count_a_query_with_work_that_admission_does_not_know() {
    let slow = Arc::new(Slow::new(1, 0));
    let world =
        slow_world(ScriptedModel::always(vec![ScriptedTurn::default().hanging()]), &slow, MemoryStore::new(), few(1))
            .await;
    for name in ["a", "b", "c"] {
        world.engine.submit(submission(name, vec![]), None).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(10)).await;
    let mut text = crate::metrics::MetricsText::default();
    world.engine.write_metrics(&mut text).await.unwrap();
    let text = text.finish();
    assert!(text.contains("bosun_queries{state=\"running\"} 1\n"), "{text}");
    assert!(text.contains("bosun_queries{state=\"queued\"} 2\n"), "{text}");
}

/// A name that is deleted and created again at every step of a turn: the model is asked only for the query that is
/// answered.
async fn reuse_a_name(seed: u64, yields: u32) {
    let slow = Arc::new(Slow::new(seed, 0));
    let script = ScriptedModel::always(vec![ScriptedTurn::say("to an earlier one")])
        .on("first", vec![ScriptedTurn::call("again", &json!({"n": 1})), ScriptedTurn::say("to the first")])
        .on("second", vec![ScriptedTurn::call("again", &json!({"n": 2})), ScriptedTurn::say("to the second")]);
    let world = slow_world(script, &slow, MemoryStore::new(), few(4)).await;
    let key = super::world::key("x");
    // With a history, which the driver reads before it asks the model.
    let asked = |name: &str, input: &str| {
        let id = Some("talk".into());
        let conversation = AskedConversation { memory: Some("notes".into()), id, ..AskedConversation::default() };
        Submission { input: input.into(), conversation, ..submission(name, vec![]) }
    };
    world.engine.submit(asked("earlier", "earlier"), PATIENCE).await.unwrap();
    let first = world.engine.submit(asked("x", "first"), None).await.unwrap().snapshot.head.uid;
    for _ in 0..yields {
        tokio::task::yield_now().await;
    }
    world.engine.delete(Actor::local(), key.clone()).await.unwrap();
    let second = world.engine.submit(asked("x", "second"), PATIENCE).await.unwrap().snapshot;
    assert_eq!(second.transcript.response(), Some("to the second"), "seed {seed}, {yields} yields");
    assert!(second.head.recoveries == 0 && second.head.attempt <= 1, "seed {seed}, {yields} yields");
    for request in world.model.requests().iter().skip(1) {
        let asked = request.messages.iter().rfind(|message| matches!(message, Message::User(_)));
        let expect = Message::User(if request.query == first { "first" } else { "second" }.into());
        assert_eq!(asked, Some(&expect), "seed {seed}, {yields} yields");
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_reused_at_any_step_gets_its_own_question_and_answer() {
    for seed in 0..8 {
        for yields in 0..120 {
            reuse_a_name(seed, yields).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn calls_expire_while_the_queue_is_full() {
    let script = ScriptedModel::always(vec![ScriptedTurn::default().hanging()])
        .on("ask", vec![ScriptedTurn::call("ask", &json!({"n": 1})), ScriptedTurn::say("too late")]);
    let slow = Arc::new(Slow::new(3, 0));
    let settings = EngineSettings { max_running: 1, max_queued: 4, ..EngineSettings::default() };
    let world = slow_world(script, &slow, MemoryStore::new(), settings).await;
    let limits = AskedLimits { external_timeout: Some(Duration::from_secs(3)), ..AskedLimits::default() };
    let asking = Submission { input: "ask".into(), limits, ..submission("asked", vec![outside("ask")]) };
    world.engine.submit(asking, PATIENCE).await.unwrap();
    let mut taken = 0;
    while world.engine.submit(submission(&format!("hog-{taken}"), vec![]), None).await.is_ok() {
        taken += 1;
    }
    assert!(taken >= 4, "{taken}");
    tokio::time::sleep(Duration::from_secs(5)).await;
    let asked = world.engine.get(&super::world::key("asked"), None).await.unwrap();
    assert_ne!(asked.head.status(), Status::Waiting, "its deadline has passed");
}
