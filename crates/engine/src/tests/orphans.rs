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
    machine::{Delivery, Target, Verdict},
    query::AskedLimits,
    transcript::Message,
};
use futures_util::future::join_all;
use proptest::prelude::*;
use serde_json::json;

use super::{
    faulty::{Faults, Faulty},
    world::{PATIENCE, World, outside, submission},
};
use crate::{
    AskedConversation, EngineError, QueryKey, Settings, Store, StoreError, Submission,
    memory::Memory,
    store::{Position, Runnable, Stored, Wanted},
    testing::{Ledger, ScriptedModel, Turn},
};

/// A store that yields to other tasks before it answers, and fails every n-th read.
struct Slow {
    random: AtomicU64,
    /// One read in `fails` fails; none if zero.
    fails: AtomicU32,
}

impl Slow {
    fn new(seed: u64, fails: u32) -> Self {
        // A seed of zero would yield nothing but zeros.
        Self { random: AtomicU64::new(seed | 1 << 40), fails: AtomicU32::new(fails) }
    }

    fn draw(&self) -> u64 {
        let next =
            |state: u64| Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
        self.random.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap_or_default() >> 33
    }

    async fn linger(&self) {
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
impl Faults for Arc<Slow> {
    async fn durable(&self, memory: &Memory, position: Position) -> Result<(), StoreError> {
        self.linger().await;
        memory.durable(position).await
    }

    async fn load(&self, memory: &Memory, space: &Namespace, name: &QueryName) -> Result<Option<Stored>, StoreError> {
        self.linger().await;
        self.may_fail()?;
        memory.load(space, name).await
    }

    async fn document(&self, memory: &Memory, hash: ContentHash) -> Result<Option<Arc<str>>, StoreError> {
        self.linger().await;
        memory.document(hash).await
    }

    async fn runnable(&self, memory: &Memory, wanted: Wanted) -> Result<Vec<Runnable>, StoreError> {
        self.linger().await;
        self.may_fail()?;
        memory.runnable(wanted).await
    }
}

/// A world with such a store.
async fn slow_world(script: ScriptedModel, slow: &Arc<Slow>, memory: Memory, settings: Settings) -> World {
    let shared = Arc::new(memory.clone());
    let store = Faulty { memory, faults: Arc::clone(slow) };
    World::on_store_with(Arc::new(store), shared, Arc::new(script), Arc::new(Ledger::open()), settings).await
}

fn few(max_running: usize) -> Settings {
    Settings { max_running, max_queued: 1_000, ..Settings::default() }
}

fn asks_once() -> ScriptedModel {
    ScriptedModel::always(vec![Turn::call("ask", &json!({"n": 1})), Turn::say("thanks")])
}

fn answer() -> Delivery {
    Delivery { target: Target::Tool("ask".into()), outcome: Outcome::success("42") }
}

fn in_namespace(namespace: &Namespace, name: &str) -> Submission {
    Submission { namespace: namespace.clone(), ..submission(name, vec![outside("ask")]) }
}

/// Posts the result of the one call until it is accepted, like a client that does not wait for the call's id.
async fn post_until_taken(world: &World, key: &QueryKey) {
    for _ in 0..1_000 {
        match world.engine.deliver(Actor::local(), key.clone(), vec![answer()], false, None).await {
            Ok(report) if matches!(report.verdicts[..], [Verdict::Accepted(_) | Verdict::Replayed(_)]) => return,
            Ok(report) if report.snapshot.head.status().is_final() => return,
            Err(EngineError::QueryNotFound(..)) => return,
            // Time is paused: a millisecond passes when nothing else can happen.
            _ => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
}

async fn ends(world: &World, key: &QueryKey) -> Status {
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
    let world = slow_world(asks_once(), &slow, Memory::new(), few(2)).await;
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
enum Step {
    Submit,
    Post,
    /// A whole cycle, with the result posted as early as it is accepted.
    Cycle,
    Cancel,
    Delete,
    Pause(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Submit),
        2 => Just(Step::Post),
        12 => Just(Step::Cycle),
        1 => Just(Step::Cancel),
        1 => Just(Step::Delete),
        3 => (0..20_u8).prop_map(Step::Pause),
    ]
}

/// Takes the steps of one client, and collects the names that it has used.
async fn take(world: &World, namespace: &Namespace, client: usize, steps: &[Step], keys: &mut Vec<QueryKey>) {
    for (number, step) in steps.iter().enumerate() {
        let key = keys.last().cloned();
        match (step, key) {
            (Step::Submit | Step::Cycle, _) => {
                let name = format!("q{client}-{number}-{}", keys.len());
                let key: QueryKey = (namespace.clone(), name.parse().unwrap());
                if world.engine.submit(in_namespace(namespace, &name), None).await.is_ok() {
                    keys.push(key.clone());
                }
                if matches!(step, Step::Cycle) {
                    post_until_taken(world, &key).await;
                }
            }
            (Step::Post, Some(key)) => {
                let _ = world.engine.deliver(Actor::local(), key, vec![answer()], false, None).await;
            }
            (Step::Cancel, Some(key)) => {
                let _ = world.engine.cancel(Actor::local(), key, None).await;
            }
            (Step::Delete, Some(key)) => {
                let _ = world.engine.delete(Actor::local(), key).await;
            }
            (Step::Pause(yields), _) => {
                for _ in 0..*yields {
                    tokio::task::yield_now().await;
                }
            }
            (_, None) => {}
        }
    }
}

/// Clients of two namespaces, a store whose reads fail, few permits, and a restart in the middle.
async fn model_of_admission(seed: u64, fails: u32, permits: usize, clients: Vec<Vec<Step>>, restarts: usize) {
    let slow = Arc::new(Slow::new(seed, fails));
    let memory = Memory::new();
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
    let world = slow_world(ScriptedModel::always(vec![Turn::default().hanging()]), &slow, Memory::new(), few(1)).await;
    for name in ["a", "b", "c"] {
        world.engine.submit(submission(name, vec![]), None).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(10)).await;
    let mut text = crate::metrics::Text::default();
    world.engine.write_metrics(&mut text).await.unwrap();
    let text = text.finish();
    assert!(text.contains("bosun_queries{state=\"running\"} 1\n"), "{text}");
    assert!(text.contains("bosun_queries{state=\"queued\"} 2\n"), "{text}");
}

/// A name that is deleted and created again at every step of a turn: the model is asked only for the query that is
/// answered.
async fn reuse_a_name(seed: u64, yields: u32) {
    let slow = Arc::new(Slow::new(seed, 0));
    let script = ScriptedModel::always(vec![Turn::say("to an earlier one")])
        .on("first", vec![Turn::call("again", &json!({"n": 1})), Turn::say("to the first")])
        .on("second", vec![Turn::call("again", &json!({"n": 2})), Turn::say("to the second")]);
    let world = slow_world(script, &slow, Memory::new(), few(4)).await;
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
    let script = ScriptedModel::always(vec![Turn::default().hanging()])
        .on("ask", vec![Turn::call("ask", &json!({"n": 1})), Turn::say("too late")]);
    let slow = Arc::new(Slow::new(3, 0));
    let settings = Settings { max_running: 1, max_queued: 4, ..Settings::default() };
    let world = slow_world(script, &slow, Memory::new(), settings).await;
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
