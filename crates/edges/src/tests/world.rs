//! A server to send requests to: two agents, a few tools, a script and a store in memory.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{HeaderMap, Method, Request, StatusCode, header},
};
use bosun_core::{
    Binding, Entry, Namespace, Tool,
    fault::FaultList,
    query::AskedLimits,
    tool::{Annotations, BindingKind, Confirm, ToolOrigin},
};
use bosun_engine::{
    Agent, Engine, EngineSettings, Registry, Store,
    blob::MemoryBlobs,
    memory::MemoryStore,
    registry::{AgentTool, MemoryWindow},
    resource::{
        Assemble, CheckedManifest, Manifest, ManifestBody, Resource, ResourceKey, ResourceKind, ResourceOrigin,
        StoredResource,
    },
    testing::{CallLedger, ScriptedModel, ScriptedTurn, TokioClock, WithheldTool},
    webhook::PostWebhooks,
};
use bosun_reading::a2a_options::SKILLS;
use serde_json::{Value, json};
use tokio::sync::watch;
use tower::ServiceExt;

use crate::{
    AppState, ErrorMapping,
    auth::{Access, Policy},
};

pub(super) struct TestServer {
    pub(super) engine: Engine,
    pub(super) router: Router,
    pub(super) store: Arc<MemoryStore>,
    pub(super) blobs: MemoryBlobs,
    pub(super) model: Arc<ScriptedModel>,
    pub(super) ledger: Arc<CallLedger>,
    pub(super) clock: Arc<TokioClock>,
}

/// Accepts every manifest as it is, in addition to what is in the registry.
struct Lenient(Registry);

#[async_trait::async_trait]
impl Assemble for Lenient {
    async fn check(&self, _: &Manifest) -> Result<CheckedManifest, FaultList> {
        Ok(CheckedManifest::default())
    }

    fn assemble(&self, stored: &[StoredResource]) -> Registry {
        let mut registry = self.0.clone();
        for one in stored {
            let StoredResource { manifest, generation, created_at, updated_at } = one.clone();
            let origin = ResourceOrigin::Stored { generation, created_at, updated_at };
            let resource = Resource {
                manifest,
                origin,
                needs: Vec::new(),
                not_served: None,
                faults: Vec::new(),
                hides_stored: false,
            };
            registry.add_resource(resource);
        }
        registry
    }

    fn assemble_namespace(&self, _: &Namespace, stored: &[StoredResource]) -> Registry {
        self.assemble(stored)
    }
}

/// What came back.
#[derive(Debug)]
pub(super) struct HttpReply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Value,
}

impl HttpReply {
    /// The status and the code of an error.
    pub(super) fn refusal(&self) -> (u16, &str) {
        (self.status.as_u16(), self.body["error"]["code"].as_str().unwrap_or_default())
    }

    #[track_caller]
    pub(super) fn ok(self) -> Value {
        assert_eq!(self.status, StatusCode::OK, "{}", self.body);
        self.body
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

impl TestServer {
    pub(super) async fn new(model: ScriptedModel) -> Self {
        Self::with(model, CallLedger::open(), EngineSettings::default()).await
    }

    pub(super) async fn with(model: ScriptedModel, ledger: CallLedger, settings: EngineSettings) -> Self {
        let (model, ledger) = (Arc::new(model), Arc::new(ledger));
        let registry = registry(&model, &ledger);
        Self::of(model, ledger, Arc::<dyn Assemble>::from(registry), settings).await
    }

    /// A world in which clients can store resources; all of them are accepted as they are.
    pub(super) async fn storing(model: ScriptedModel) -> Self {
        let (model, ledger) = (Arc::new(model), Arc::new(CallLedger::open()));
        let mut registry = registry(&model, &ledger);
        registry.set_tool_servers(Arc::new(WithheldTool::of("stored")));
        // It needs a person's approval, and is the default agent of A2A.
        let mut careful = agent(&Namespace::default(), "careful-assistant", "default", &["risky"]);
        careful.annotations = BTreeMap::from([("bosun.dev/a2a-default".to_owned(), "true".to_owned())]);
        registry.add_agent(careful);
        registry.add_agent(agent(&Namespace::default(), "v1", "default", &[]));
        let assembler = Arc::new(Lenient(registry));
        Self::of(model, ledger, assembler, EngineSettings::default()).await
    }

    async fn of(
        model: Arc<ScriptedModel>,
        ledger: Arc<CallLedger>,
        assembler: Arc<dyn Assemble>,
        settings: EngineSettings,
    ) -> Self {
        let store = Arc::new(MemoryStore::new());
        let clock = Arc::new(TokioClock::new());
        let blobs = MemoryBlobs::new();
        let engine = Engine::start(
            Arc::clone(&store) as _,
            Arc::new(blobs.clone()),
            assembler,
            Arc::clone(&clock) as _,
            settings,
        )
        .await
        .unwrap();
        let router = crate::router(AppState::new(engine.clone(), Access::open(), Vec::new()));
        Self { engine, router, store, blobs, model, ledger, clock }
    }

    /// The same server with keys, under the policy that was sent last.
    pub(super) fn guarded(self, policy: &watch::Sender<Arc<Policy>>) -> Self {
        let access = Access::new(policy.subscribe(), Arc::clone(&self.clock) as _, Arc::default());
        self.serving(access, None)
    }

    /// The same server for callers that `access` authenticates, with push notifications if there is a poster.
    pub(super) fn serving(mut self, access: Access, webhooks: Option<Arc<dyn PostWebhooks>>) -> Self {
        let (engine, reload) = (self.engine.clone(), Arc::new(self.engine.clone()));
        let app = AppState::with_reload(engine, access, Vec::new(), reload, ErrorMapping::default(), webhooks);
        self.router = crate::router(app);
        self
    }

    /// Sends a request as a program on this machine would.
    pub(super) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> HttpReply {
        let mut request = Request::builder().method(Method::from_bytes(method.as_bytes()).unwrap()).uri(path);
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header(header::HOST, "localhost:8080");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.request(request.body(body.into()).unwrap()).await
    }

    pub(super) async fn request(&self, request: Request<Body>) -> HttpReply {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        let body = if body.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&body).unwrap_or_else(|_| Value::from(str::from_utf8(&body).unwrap()))
        };
        HttpReply { status: parts.status, headers: parts.headers, body }
    }

    pub(super) async fn get(&self, path: &str) -> HttpReply {
        self.send("GET", path, &[], Body::empty()).await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> HttpReply {
        self.send("POST", path, &[("content-type", "application/json")], body.to_string()).await
    }

    /// Everything that is on record of a query of the default namespace.
    pub(super) async fn journal(&self, name: &str) -> Vec<Entry> {
        self.store.load(&Namespace::default(), &name.parse().unwrap()).await.unwrap().unwrap().entries
    }
}

/// Asks for the client's calculator, then answers.
pub(super) fn calculating() -> ScriptedModel {
    ScriptedModel::always(vec![
        ScriptedTurn::call("calculator", &json!({"expression": "0.25 * 8432"})),
        ScriptedTurn::say("25% of 8,432 is 2,108"),
    ])
}

/// A query for the calculator script, as a client with its own tool sends it.
pub(super) fn with_calculator(name: &str) -> Value {
    json!({
        "name": name,
        "input": "What is 25% of 8,432?",
        "target": {"type": "agent", "name": "math-assistant"},
        "externalTools": [{
            "name": "calculator",
            "description": "Perform mathematical calculations",
            "parameters": {
                "type": "object",
                "properties": {"expression": {"type": "string"}},
                "required": ["expression"],
            },
        }],
    })
}

/// A query without tools.
pub(super) fn plain(name: &str) -> Value {
    json!({"name": name, "input": "Hello", "target": {"type": "agent", "name": "math-assistant"}})
}

/// A file that the n8n node's tests read too.
pub(super) fn fixture(name: &str) -> Value {
    let path = format!("{}/../../fixtures/ark/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Asserts a whole body, with ids and generated names made equal. Times are the paused clock's.
pub(super) fn assert_answer(name: &str, body: &Value) {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", "[uid]");
    settings.add_filter(r"call_[0-9a-z]{26}", "[call]");
    settings.add_filter(r"query-[0-9a-f]{32}", "[name]");
    settings.add_filter(r"ctx-[0-9a-f]{32}", "[context]");
    settings.add_filter(r"[0-9a-f]{64}", "[hash]");
    settings.set_omit_expression(true);
    settings.set_prepend_module_to_snapshot(false);
    settings.bind(|| insta::assert_json_snapshot!(name, body));
}

fn registry(model: &Arc<ScriptedModel>, ledger: &Arc<CallLedger>) -> Registry {
    let mut registry = Registry::default();
    let namespaces = [Namespace::default(), "other".parse().unwrap()];
    for namespace in &namespaces {
        registry.add_model(namespace.clone(), "default", Arc::clone(model) as _);
        add_agent(&mut registry, namespace, "math-assistant", "default", &[]);
        describe(
            &mut registry,
            namespace,
            ResourceKind::Model,
            "default",
            &json!({"provider": "openai", "model": {"value": "m"}}),
        );
    }
    let [default, _] = namespaces;
    let parameters = json!({"type": "object", "properties": {"table": {"type": "string"}}, "required": ["table"]});
    let mut database = Tool::new(
        "database_query",
        "Queries internal customer data",
        parameters,
        Binding::Builtin { name: "database_query".into() },
    );
    database.annotations = Annotations { read_only_hint: Some(true), ..Annotations::default() };
    database.origin = ToolOrigin::Operator;
    registry.add_tool(default.clone(), database);
    for (name, window) in
        [("recent", MemoryWindow::Messages(2)), ("long", MemoryWindow::default()), ("small", MemoryWindow::Tokens(30))]
    {
        let (namespace, name) = (default.clone(), name.to_owned());
        registry.add_memory(bosun_engine::registry::DescribedMemory { namespace, name, description: None, window });
    }
    let spec = json!({"type": "builtin", "description": "Queries internal customer data"});
    describe(&mut registry, &default, ResourceKind::Tool, "database_query", &spec);
    let outside = Tool::new("ask_client", "Asks the client", json!({"type": "object"}), Binding::External);
    registry.add_tool(default.clone(), outside);
    let binding = Binding::Builtin { name: "risky".into() };
    let mut risky = Tool::new("risky", "Waits for approval", json!({"type": "object"}), binding);
    risky.confirm = Some(Confirm::Always);
    registry.add_tool(default.clone(), risky);
    registry.add_model(
        default.clone(),
        "other",
        Arc::new(ScriptedModel::always(vec![ScriptedTurn::say("I am the other.")])),
    );
    add_agent(&mut registry, &default, "research-assistant", "default", &["database_query"]);
    let mut researcher = agent(&default, "research-assistant", "default", &["database_query"]);
    researcher.labels = BTreeMap::from([("team".to_owned(), "research".to_owned())]);
    registry.add_agent(researcher);
    let mut typed = agent(&default, "typed-assistant", "default", &[]);
    typed.output_schema = Some(Arc::new(json!({
        "type": "object",
        "properties": {"total": {"type": "integer"}, "note": {"type": "string"}},
        "required": ["total"],
    })));
    registry.add_agent(typed);
    let mut messenger = agent(&default, "messenger", "default", &["ask_client"]);
    messenger.annotations = BTreeMap::from([
        ("bosun.dev/a2a-reply".to_owned(), "message".to_owned()),
        ("bosun.dev/a2a-input-modes".to_owned(), "application/pdf, image/*".to_owned()),
        (SKILLS.to_owned(), r#"[{"id": "sum", "name": "Sum", "description": "Adds", "tags": ["math"]}]"#.to_owned()),
    ]);
    registry.add_agent(messenger);
    add_agent(&mut registry, &default, "without-model", "gone", &[]);
    add_agent(&mut registry, &default, "without-tool", "default", &["gone"]);
    registry.set_runner(BindingKind::Builtin, Arc::clone(ledger) as _);
    registry
}

/// Adds the manifest of a resource, as if a file had it.
fn describe(registry: &mut Registry, namespace: &Namespace, kind: ResourceKind, name: &str, spec: &Value) {
    let model = spec["modelRef"]["name"].as_str().map(|name| (ResourceKind::Model, name.to_owned()));
    let tools = spec["tools"].as_array().into_iter().flatten().filter_map(|tool| tool["name"].as_str());
    registry.add_resource(Resource {
        needs: model.into_iter().chain(tools.map(|name| (ResourceKind::Tool, name.to_owned()))).collect(),
        manifest: Manifest {
            key: ResourceKey::new(kind, namespace.clone(), name),
            description: ManifestBody {
                annotations: BTreeMap::from([("team".to_owned(), "maths".to_owned())]),
                labels: BTreeMap::new(),
                spec: spec.as_object().unwrap().clone(),
            },
        },
        origin: ResourceOrigin::File("agents.yaml".into()),
        not_served: None,
        faults: Vec::new(),
        hides_stored: false,
    });
}

fn add_agent(registry: &mut Registry, namespace: &Namespace, name: &str, model: &str, tools: &[&str]) {
    let agent = agent(namespace, name, model, tools);
    let tools: Vec<_> = tools.iter().map(|name| json!({"type": "builtin", "name": name})).collect();
    let spec = json!({
        "description": agent.description,
        "prompt": agent.prompt,
        "modelRef": {"name": model},
        "tools": tools,
    });
    describe(registry, namespace, ResourceKind::Agent, name, &spec);
    registry.add_agent(agent);
}

fn agent(namespace: &Namespace, name: &str, model: &str, tools: &[&str]) -> Agent {
    Agent {
        namespace: namespace.clone(),
        name: name.into(),
        description: Some(format!("The {name}")),
        prompt: Some("Be brief.".into()),
        parameters: Vec::new(),
        output_schema: None,
        model: model.into(),
        remote: None,
        tools: tools.iter().map(|name| AgentTool { name: (*name).into(), ..AgentTool::default() }).collect(),
        selected_tools: Vec::new(),
        confirm: None,
        limits: AskedLimits::default(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::from([("team".to_owned(), "maths".to_owned())]),
    }
}
