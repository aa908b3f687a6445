//! A small world to run queries in: one agent, its tools, a scripted model and a store.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bosun_core::{
    Actor, Binding, CallId, Namespace, Outcome, QueryLimits, Status, Tool,
    machine::{Delivery, DeliveryTarget, DeliveryVerdict},
    query::{AskedLimits, EdgeNote, TargetKind},
    tool::{Annotations, BindingKind, ToolOrigin},
};
use serde_json::json;

use crate::{
    Agent, DeliverReport, Engine, EngineSettings, Model, QueryKey, Registry, Snapshot, Store, Submission,
    blob::MemoryBlobs,
    engine::results::READ_RESULT,
    memory::MemoryStore,
    registry::AgentTool,
    testing::{CallLedger, ScriptedModel, TokioClock},
};

/// Long enough for anything that is not stuck; time is paused, so it costs nothing.
pub(super) const PATIENCE: Option<Duration> = Some(Duration::from_secs(25));

pub(super) struct EngineWorld {
    pub(super) engine: Engine,
    pub(super) store: Arc<MemoryStore>,
    pub(super) blobs: MemoryBlobs,
    pub(super) model: Arc<ScriptedModel>,
    pub(super) ledger: Arc<CallLedger>,
    pub(super) clock: TokioClock,
}

fn tool(name: &str, binding: Binding, annotations: Annotations) -> Tool {
    let parameters = json!({
        "type": "object",
        "properties": {"n": {"type": "integer"}, "note": {"type": "string"}},
        "additionalProperties": false,
    });
    Tool {
        annotations,
        origin: ToolOrigin::Operator,
        ..Tool::new(name, format!("The {name} tool"), parameters, binding)
    }
}

/// A tool that the client runs.
pub(super) fn outside(name: &str) -> Tool {
    tool(name, Binding::External, Annotations::default())
}

fn inside(name: &str, idempotent: bool) -> Tool {
    let annotations = Annotations { idempotent_hint: Some(idempotent), ..Annotations::default() };
    tool(name, Binding::Builtin { name: name.into() }, annotations)
}

fn agent(namespace: &Namespace, name: &str, tools: Vec<AgentTool>) -> Agent {
    Agent {
        namespace: namespace.clone(),
        name: name.into(),
        description: None,
        prompt: Some("Be brief.".into()),
        parameters: Vec::new(),
        output_schema: None,
        model: "default".into(),
        remote: None,
        tools,
        selected_tools: Vec::new(),
        confirm: None,
        limits: AskedLimits::default(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
    }
}

/// The same agents in two namespaces: one with tools, one that reads large results, and one that asks the first.
pub(super) fn registry(model: &Arc<dyn Model>, ledger: &Arc<CallLedger>) -> Registry {
    let mut registry = Registry::default();
    for namespace in [Namespace::default(), "quiet".parse().unwrap()] {
        for tool in [inside("once", false), inside("again", true), inside(READ_RESULT, true)] {
            registry.add_tool(namespace.clone(), tool);
        }
        for (name, tools) in [("agent", ["once", "again"]), ("pager", ["again", READ_RESULT])] {
            let tools = tools.map(|name| AgentTool { name: name.into(), ..AgentTool::default() });
            registry.add_agent(agent(&namespace, name, tools.into()));
        }
        let asks = AgentTool { name: "agent".into(), asks: Some(TargetKind::Agent), ..AgentTool::default() };
        registry.add_agent(agent(&namespace, "manager", vec![asks]));
        registry.add_memory(crate::registry::DescribedMemory {
            namespace: namespace.clone(),
            name: "notes".into(),
            description: None,
            window: crate::registry::MemoryWindow::default(),
        });
        registry.add_model(namespace, "default", Arc::clone(model));
    }
    registry.set_runner(BindingKind::Builtin, Arc::clone(ledger) as _);
    registry
}

impl EngineWorld {
    pub(super) async fn new(model: ScriptedModel) -> Self {
        Self::with(model, CallLedger::open()).await
    }

    pub(super) async fn with(model: ScriptedModel, ledger: CallLedger) -> Self {
        Self::with_settings(model, ledger, EngineSettings::default()).await
    }

    pub(super) async fn with_settings(model: ScriptedModel, ledger: CallLedger, settings: EngineSettings) -> Self {
        let (model, ledger, store) = (Arc::new(model), Arc::new(ledger), Arc::new(MemoryStore::new()));
        let (clock, blobs) = (TokioClock::new(), MemoryBlobs::new());
        let engine = Self::start(Arc::clone(&store) as _, &blobs, &model, &ledger, &clock, settings).await;
        Self { engine, store, blobs, model, ledger, clock }
    }

    async fn start(
        store: Arc<dyn Store>,
        blobs: &MemoryBlobs,
        model: &Arc<ScriptedModel>,
        ledger: &Arc<CallLedger>,
        clock: &TokioClock,
        settings: EngineSettings,
    ) -> Engine {
        let registry = registry(&(Arc::clone(model) as _), ledger);
        Engine::start(store, Arc::new(blobs.clone()), registry, Arc::new(clock.clone()), settings).await.unwrap()
    }

    /// As after kill -9: only what is stored is left, and the old process is fenced.
    pub(super) async fn crash(self) -> Self {
        let store = Arc::new(self.store.reopen());
        let Self { blobs, model, ledger, clock, engine, .. } = self;
        let engine = Self::start(Arc::clone(&store) as _, &blobs, &model, &ledger, &clock, *engine.settings()).await;
        Self { engine, store, blobs, model, ledger, clock }
    }

    /// The same parts with another store around or instead of the memory.
    pub(super) async fn on_store(
        store: Arc<dyn Store>,
        memory: Arc<MemoryStore>,
        model: Arc<ScriptedModel>,
        ledger: Arc<CallLedger>,
    ) -> Self {
        Self::on_store_with(store, memory, model, ledger, EngineSettings::default()).await
    }

    pub(super) async fn on_store_with(
        store: Arc<dyn Store>,
        memory: Arc<MemoryStore>,
        model: Arc<ScriptedModel>,
        ledger: Arc<CallLedger>,
        settings: EngineSettings,
    ) -> Self {
        let (clock, blobs) = (TokioClock::new(), MemoryBlobs::new());
        let engine = Self::start(store, &blobs, &model, &ledger, &clock, settings).await;
        Self { engine, store: memory, blobs, model, ledger, clock }
    }

    pub(super) async fn submit(&self, tools: Vec<Tool>) -> Snapshot {
        self.engine.submit(submission("q", tools), PATIENCE).await.unwrap().snapshot
    }

    pub(super) async fn deliver(&self, call: CallId, content: &str) -> DeliverReport {
        self.engine.deliver(Actor::local(), key("q"), vec![delivery(call, content)], false, PATIENCE).await.unwrap()
    }

    pub(super) async fn get(&self) -> Snapshot {
        self.engine.get(&key("q"), PATIENCE).await.unwrap()
    }
}

pub(super) fn delivery(call: CallId, content: &str) -> Delivery {
    Delivery { target: DeliveryTarget::Call(call), outcome: Outcome::success(content), took: None }
}

pub(super) fn key(name: &str) -> QueryKey {
    (Namespace::default(), name.parse().unwrap())
}

pub(super) fn submission(name: &str, client_tools: Vec<Tool>) -> Submission {
    Submission {
        name: Some(name.parse().unwrap()),
        client_tools,
        edge_note: EdgeNote::new("rfc"),
        ..Submission::to_agent(Actor::local(), Namespace::default(), "agent", "go")
    }
}

pub(super) fn limited(tools: Vec<Tool>, limits: AskedLimits) -> Submission {
    Submission { limits, ..submission("q", tools) }
}

/// The call at `index`, of all that the model ever asked for.
pub(super) fn call(snapshot: &Snapshot, index: usize) -> CallId {
    snapshot.head.calls[index].id
}

#[track_caller]
pub(super) fn assert_completed(snapshot: &Snapshot, response: &str) {
    assert_eq!((snapshot.head.status(), snapshot.transcript.response()), (Status::Completed, Some(response)));
}

#[track_caller]
pub(super) fn assert_failed(snapshot: &Snapshot, expected: &str) {
    use bosun_core::transcript::Ending;
    let end = snapshot.transcript.end.as_ref().map(|end| &end.how);
    assert!(matches!(end, Some(Ending::Failed { code, .. }) if code == expected), "{end:?}");
}

pub(super) fn accepted(report: &DeliverReport) -> bool {
    matches!(report.verdicts[..], [DeliveryVerdict::Accepted(_)])
}

/// The defaults, for tests that count against them.
pub(super) fn defaults() -> QueryLimits {
    QueryLimits::default()
}
