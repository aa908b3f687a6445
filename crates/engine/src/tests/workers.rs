//! Workers: who gets a call, for how long, and what becomes of it when a worker is lost.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bosun_core::{
    Actor, Binding, CallId, Namespace, Outcome, Status, Tool,
    audit::Action,
    machine::{Delivery, DeliveryTarget, DeliveryVerdict},
    query::AskedLimits,
    tool::{Annotations, ToolOrigin},
};
use serde_json::json;

use super::{
    faulty::Faulty,
    stalling::{DiskStall, StallingDisk},
    world::{PATIENCE, assert_completed, delivery, outside, registry, submission},
};
use crate::{
    Agent, ClaimRequest, ClaimedCall, DeliverReport, Engine, EngineError, EngineSettings, Model, QueryKey, Snapshot,
    Store, Submission,
    blob::MemoryBlobs,
    memory::MemoryStore,
    registry::AgentTool,
    store::RecordSearch,
    testing::{CallLedger, ScriptedModel, ScriptedTurn, TokioClock, store_contract},
};

const LEASE: Duration = Duration::from_secs(60);

/// A tool of the catalogue that workers run.
fn served(name: &str, read_only: bool) -> Tool {
    let annotations = Annotations { read_only_hint: read_only.then_some(true), ..Annotations::default() };
    let tool = Tool::new(name, "Served by workers", json!({"type": "object"}), Binding::External);
    Tool { annotations, origin: ToolOrigin::Operator, ..tool }
}

struct World {
    engine: Engine,
    store: Arc<MemoryStore>,
    clock: TokioClock,
    model: Arc<dyn Model>,
}

/// Agent `served` calls `look` (which is safe to repeat), `send` (which is not), or both.
async fn world() -> World {
    let turn = |tools: &[&str]| {
        let call = |turn: ScriptedTurn, tool: &&str| turn.and_call(tool, r#"{"n":1}"#);
        vec![tools.iter().fold(ScriptedTurn::default(), call), ScriptedTurn::say("done")]
    };
    let script = ScriptedModel::default()
        .on("look", turn(&["look"]))
        .on("send", turn(&["send"]))
        .on("both", turn(&["look", "send"]))
        .on("ask", turn(&["ask"]));
    let (model, store, clock) = (Arc::new(script) as Arc<dyn Model>, Arc::new(MemoryStore::new()), TokioClock::new());
    start(model, store, clock).await
}

async fn start(model: Arc<dyn Model>, store: Arc<MemoryStore>, clock: TokioClock) -> World {
    start_on(Arc::clone(&store) as _, model, store, clock).await
}

/// The same with another store around the memory.
async fn start_on(disk: Arc<dyn Store>, model: Arc<dyn Model>, store: Arc<MemoryStore>, clock: TokioClock) -> World {
    let mut registry = registry(&model, &Arc::new(CallLedger::open()));
    for namespace in [Namespace::default(), "quiet".parse().unwrap()] {
        registry.add_tool(namespace.clone(), served("look", true));
        registry.add_tool(namespace.clone(), served("send", false));
        registry.add_agent(Agent {
            namespace,
            name: "served".into(),
            description: None,
            prompt: None,
            parameters: Vec::new(),
            output_schema: None,
            model: "default".into(),
            remote: None,
            tools: ["look", "send"].map(|name| AgentTool { name: name.into(), ..AgentTool::default() }).into(),
            selected_tools: Vec::new(),
            confirm: None,
            limits: AskedLimits::default(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
        });
    }
    let blobs = Arc::new(MemoryBlobs::new());
    let settings = EngineSettings::default();
    let engine = Engine::start(disk, blobs, registry, Arc::new(clock.clone()), settings).await;
    World { engine: engine.unwrap(), store, clock, model }
}

fn key(name: &str) -> QueryKey {
    (Namespace::default(), name.parse().unwrap())
}

fn wanted(tools: &[&str], wait: Option<Duration>) -> ClaimRequest {
    ClaimRequest { tools: tools.iter().map(|tool| (*tool).to_owned()).collect(), limit: 9, lease: LEASE, wait }
}

impl World {
    async fn ask(&self, name: &str, input: &str) -> Snapshot {
        let asked = Submission { target: "served".into(), input: input.into(), ..submission(name, vec![]) };
        self.engine.submit(asked, PATIENCE).await.unwrap().snapshot
    }

    async fn claim(&self, tools: &[&str]) -> Vec<ClaimedCall> {
        self.engine.claim_calls(Actor::local(), Namespace::default(), wanted(tools, None)).await.unwrap()
    }

    async fn claim_one(&self, tool: &str) -> ClaimedCall {
        let mut claimed = self.claim(&[tool]).await;
        assert_eq!(claimed.len(), 1);
        claimed.remove(0)
    }

    /// Delivers under the lease of a worker.
    async fn deliver(&self, claimed: &ClaimedCall, content: &str) -> DeliverReport {
        let target = DeliveryTarget::Claimed(claimed.call, Arc::clone(claimed.lease.text()));
        let delivery = Delivery { target, outcome: Outcome::success(content), took: None };
        let key = (Namespace::default(), claimed.lease.query().unwrap());
        self.engine.deliver(Actor::local(), key, vec![delivery], false, PATIENCE).await.unwrap()
    }

    async fn get(&self, name: &str) -> Snapshot {
        self.engine.get(&key(name), PATIENCE).await.unwrap()
    }

    async fn extend(&self, claimed: &ClaimedCall) -> Result<(), EngineError> {
        let namespace = Namespace::default();
        self.engine.extend_lease(namespace, claimed.call, claimed.lease.clone(), LEASE).await.map(|_| ())
    }

    /// As after kill -9.
    async fn crash(self) -> Self {
        start(self.model, Arc::new(self.store.reopen()), self.clock).await
    }
}

fn outcome(snapshot: &Snapshot, index: usize) -> Outcome {
    Outcome::clone(&snapshot.transcript.calls().nth(index).unwrap().result.as_ref().unwrap().outcome)
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_claims_a_call_and_its_result_continues_the_query() {
    let world = world().await;
    assert_eq!(world.ask("q", "look").await.head.status(), Status::Waiting);
    let claimed = world.claim_one("look").await;
    assert_eq!((claimed.query.as_str(), &*claimed.tool, claimed.attempt), ("q", "look", 1));
    assert_eq!(*claimed.arguments, json!({"n": 1}));
    assert_eq!(claimed.leased_until.since(world.engine.now()), LEASE);
    assert!(world.claim(&["look"]).await.is_empty(), "it is claimed");
    let report = world.deliver(&claimed, "42").await;
    assert_completed(&report.snapshot, "done");
    assert_eq!(world.deliver(&claimed, "42").await.verdicts, [DeliveryVerdict::Replayed(claimed.call)]);
    let search = RecordSearch { query: Some(key("q").1), limit: 9, ..RecordSearch::default() };
    let records = world.engine.audit(&Namespace::default(), &search).await.unwrap().records;
    let actions: Vec<_> = records.iter().rev().map(|numbered| numbered.record.action).collect();
    use Action::{CallClaimed, CallDelivered, CallHandedOut, QueryCompleted, QueryCreated};
    assert_eq!(actions, [QueryCreated, CallHandedOut, CallClaimed, CallDelivered, QueryCompleted]);
}

#[tokio::test(start_paused = true)]
async fn only_open_calls_of_the_catalogue_and_of_the_namespace_are_claimed() {
    let world = world().await;
    world.ask("q", "both").await;
    let client = Submission {
        input: "ask".into(),
        target: "served".into(),
        ..submission("client", vec![outside("ask"), served("look", true)])
    };
    world.engine.submit(client, PATIENCE).await.unwrap();
    assert!(world.claim(&["ask", "none"]).await.is_empty(), "a client's own tool is not for workers");
    let elsewhere = world.engine.claim_calls(Actor::local(), "quiet".parse().unwrap(), wanted(&["look"], None));
    assert!(elsewhere.await.unwrap().is_empty(), "namespaces are separate");
    let claimed = world.claim(&["look", "send"]).await;
    assert_eq!(claimed.iter().map(|call| &*call.tool).collect::<Vec<_>>(), ["look", "send"]);
    world.engine.cancel(Actor::local(), key("q"), None).await.unwrap();
    assert_eq!(world.deliver(&claimed[0], "42").await.verdicts, [DeliveryVerdict::Cancelled(claimed[0].call)]);
}

#[tokio::test(start_paused = true)]
async fn concurrent_workers_never_get_the_same_call() {
    let world = world().await;
    for number in 0..20 {
        world.ask(&format!("q{number}"), "both").await;
    }
    let claims = (0..8).map(|_| {
        let request = ClaimRequest { limit: 7, ..wanted(&["look", "send"], None) };
        world.engine.claim_calls(Actor::local(), Namespace::default(), request)
    });
    let claimed = futures_util::future::join_all(claims).await;
    let mut calls: Vec<CallId> =
        claimed.into_iter().flat_map(|claimed| claimed.unwrap()).map(|call| call.call).collect();
    let all = calls.len();
    calls.sort();
    calls.dedup();
    assert_eq!(calls.len(), all, "a call was handed out twice");
    assert!(all >= 7, "{all}");
}

#[tokio::test(start_paused = true)]
async fn a_waiting_worker_gets_a_call_as_soon_as_there_is_one() {
    let world = world().await;
    let began = tokio::time::Instant::now();
    let waiting = world.engine.claim_calls(Actor::local(), Namespace::default(), wanted(&["look"], PATIENCE));
    let asking = async {
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        world.ask("q", "look").await
    };
    let (claimed, _) = tokio::join!(waiting, asking);
    assert_eq!(claimed.unwrap().len(), 1);
    assert!(began.elapsed() < Duration::from_millis(1_600), "{:?}", began.elapsed());
    let began = tokio::time::Instant::now();
    let none = world.engine.claim_calls(Actor::local(), Namespace::default(), wanted(&["look"], PATIENCE)).await;
    assert!(none.unwrap().is_empty());
    assert_eq!(began.elapsed(), PATIENCE.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_safe_to_repeat_is_given_to_another_worker_when_the_lease_lapses() {
    let world = world().await;
    world.ask("q", "look").await;
    let first = world.claim_one("look").await;
    pass(LEASE.as_secs() - 2).await;
    assert!(world.claim(&["look"]).await.is_empty(), "the lease holds");
    pass(4).await;
    let second = world.claim_one("look").await;
    assert_eq!((second.call, second.attempt), (first.call, 2));
    assert_eq!(world.deliver(&first, "late").await.verdicts, [DeliveryVerdict::LeaseLost(first.call)]);
    assert!(matches!(world.extend(&first).await, Err(EngineError::LeaseLost(_))));
    assert_completed(&world.deliver(&second, "42").await.snapshot, "done");
    assert_eq!(outcome(&world.get("q").await, 0), Outcome::success("42"));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_must_not_run_twice_has_an_unknown_outcome_when_the_lease_lapses() {
    let world = world().await;
    world.ask("q", "send").await;
    let first = world.claim_one("send").await;
    pass(LEASE.as_secs() + 2).await;
    let ended = world.get("q").await;
    assert_completed(&ended, "done");
    assert!(matches!(outcome(&ended, 0), Outcome::Failure { code, .. } if code == "outcome_unknown"));
    assert!(world.claim(&["send"]).await.is_empty(), "no worker gets it again");
    assert_eq!(world.deliver(&first, "late").await.verdicts, [DeliveryVerdict::LeaseLost(first.call)]);
}

#[tokio::test(start_paused = true)]
async fn heartbeats_keep_a_call_until_it_expires() {
    let world = world().await;
    world.ask("q", "send").await;
    let claimed = world.claim_one("send").await;
    for _ in 0..12 {
        pass(LEASE.as_secs() - 10).await;
        if world.extend(&claimed).await.is_err() {
            break;
        }
    }
    pass(2).await;
    let ended = world.get("q").await;
    assert!(matches!(outcome(&ended, 0), Outcome::Failure { code, .. } if code == "call_expired"), "{ended:?}");
    let unknown = CallId::derive(ended.head.uid, 9, 9);
    let refused = world.engine.extend_lease(Namespace::default(), unknown, claimed.lease.clone(), LEASE).await;
    assert!(matches!(refused, Err(EngineError::CallNotFound(_))), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lease_survives_a_crash_and_so_does_its_end() {
    let world = world().await;
    world.ask("a", "look").await;
    world.ask("b", "send").await;
    let (look, send) = (world.claim_one("look").await, world.claim_one("send").await);
    let world = world.crash().await;
    assert!(world.claim(&["look", "send"]).await.is_empty(), "both are claimed");
    assert_completed(&world.deliver(&send, "sent").await.snapshot, "done");
    world.extend(&look).await.unwrap();
    let world = world.crash().await;
    pass(LEASE.as_secs() + 15).await;
    let again = world.claim_one("look").await;
    assert_eq!((again.call, again.attempt), (look.call, 2));
    let stored = world.store.load(&key("a").0, &key("a").1).await.unwrap().unwrap();
    assert_eq!(store_contract::fold(&stored), stored.head);
}

#[tokio::test(start_paused = true)]
async fn a_call_is_handed_out_when_its_claim_is_durable_and_no_earlier() {
    let World { store, clock, model, .. } = world().await;
    let (memory, disk) = (store.reopen(), Arc::new(StallingDisk::default()));
    let stalling = Arc::new(Faulty { memory: memory.clone(), faults: Arc::clone(&disk) });
    let world = start_on(stalling, model, Arc::new(memory), clock).await;
    for name in ["a", "b"] {
        world.ask(name, "both").await;
    }
    let (before, appends) = (world.store.last_position(), world.store.stats().appends);
    disk.stall(DiskStall::CommitsAfter(before));
    let claiming = world.engine.claim_calls(Actor::local(), Namespace::default(), wanted(&["look", "send"], None));
    let mut claiming = std::pin::pin!(claiming);
    let early = tokio::time::timeout(LEASE / 2, claiming.as_mut()).await;
    assert!(early.is_err(), "a power cut now would take back {early:?}");
    assert_eq!(world.store.stats().appends, appends + 4, "only the disk was waited for");
    disk.resume();
    assert_eq!(claiming.await.unwrap().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn the_client_of_a_query_may_deliver_a_call_that_a_worker_has() {
    let world = world().await;
    world.ask("q", "look").await;
    let claimed = world.claim_one("look").await;
    let posted = vec![delivery(claimed.call, "mine")];
    let report = world.engine.deliver(Actor::local(), key("q"), posted, false, PATIENCE).await.unwrap();
    assert_completed(&report.snapshot, "done");
    assert_eq!(world.deliver(&claimed, "42").await.verdicts, [DeliveryVerdict::AlreadyResolved(claimed.call)]);
}
