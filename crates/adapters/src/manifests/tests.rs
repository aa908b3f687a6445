use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use bosun_core::{
    Binding, Namespace, QueryUid, Tool,
    query::AskedLimits,
    tool::{
        BindingKind, SecretRef,
        toolset::{ToolSources, Toolset},
    },
    transcript::Message,
};
use bosun_engine::{
    SystemClock,
    model::{Deltas, ModelRequest},
    registry::AgentTool,
};
use bosun_reading::Faults;
use serde_json::json;

use super::{Builtins, Manifests, ModelProvider, load, review};
use crate::{
    golden,
    model::{anthropic::MessagesApi, openai::Host, remote::Timeouts},
    secret::{Secret, SecretSource, Secrets},
};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn builtins() -> Builtins {
    Builtins::new(Arc::new(SystemClock))
}

fn load_from(directory: &Path) -> Result<Manifests, Faults> {
    load(&[directory.to_owned()], &builtins())
}

fn good() -> Manifests {
    load_from(&root().join("fixtures/manifests/good")).unwrap_or_else(|faults| panic!("{faults}"))
}

fn default_namespace() -> Namespace {
    Namespace::default()
}

#[test]
fn agents_are_read_as_they_are_written() {
    let manifests = good();
    let names: Vec<_> = manifests.agents.iter().map(|agent| format!("{}/{}", agent.namespace, agent.name)).collect();
    assert_eq!(names, ["default/full", "default/bare", "team-b/full"]);
    let full = &manifests.agents[0];
    assert_eq!(full.description.as_deref(), Some("An agent that uses everything"));
    assert_eq!(full.prompt.as_deref(), Some("Two lines\nof {{ prompt }}\n"));
    assert_eq!(full.model, "remote");
    let tool = |name: &str, description: Option<&str>| AgentTool {
        name: name.into(),
        description: description.map(str::to_owned),
        ..AgentTool::default()
    };
    assert_eq!(full.tools, [tool("calculator", None), tool("noop", Some("Does nothing at all")), tool("sum", None)]);
    let limits = AskedLimits {
        query_timeout: Some(Duration::from_secs(120)),
        tool_timeout: Some(Duration::from_millis(1_500)),
        external_timeout: Some(Duration::from_secs(5_400)),
        approval_timeout: None,
        max_tool_calls: Some(3),
        max_tokens: Some(20_000),
        ttl: Some(Duration::from_secs(7 * 24 * 3_600)),
    };
    assert_eq!(full.limits, limits);
    assert_eq!(full.labels["team"], "red");
    assert_eq!(full.annotations["example.com/owner"], "somebody");
    let bare = &manifests.agents[1];
    assert_eq!((bare.model.as_str(), &bare.prompt, bare.limits), ("default", &None, AskedLimits::default()));
}

#[test]
fn models_are_read_with_their_secrets_unresolved() {
    let manifests = good();
    let names: Vec<_> = manifests.models.iter().map(|model| format!("{}/{}", model.namespace, model.name)).collect();
    let expect = ["default", "remote", "azure", "claude"].map(|name| format!("default/{name}"));
    assert_eq!(names, [&expect[..], &["team-b/default".into(), "team-b/again".into()]].concat());
    let ModelProvider::OpenAi(remote, _) = &manifests.models[1].provider else { panic!() };
    let literal = |text: &str| SecretSource::Literal(Secret::new(text.into()));
    let secret = |name: &str, key: &str, optional| {
        SecretSource::Reference(SecretRef { name: name.into(), key: key.into(), optional })
    };
    assert_eq!(remote.model, secret("models", "name", false));
    assert_eq!(remote.base_url, literal("https://api.example.com/v1"));
    assert_eq!(remote.api_key, Some(secret("openai", "api-key", false)));
    let headers = [("x-team".to_owned(), literal("red")), ("x-trace".to_owned(), secret("openai", "trace", true))];
    assert_eq!(remote.headers, headers);
    let properties = [("temperature".to_owned(), literal("0.2")), ("max_tokens".to_owned(), literal("500"))];
    assert_eq!(remote.properties, properties);
    assert!(!remote.stream);
    let ModelProvider::OpenAi(old, _) = &manifests.models[0].provider else { panic!() };
    assert!(old.stream && old.api_key.is_none());
    let ModelProvider::OpenAi(azure, wire) = &manifests.models[2].provider else { panic!() };
    assert_eq!((wire.host, wire.echo), (Host::Azure, false));
    assert_eq!((&azure.version, azure.timeouts), (&Some(literal("2025-01-01")), Timeouts::default()));
    let claude = &manifests.models[3];
    assert_eq!(claude.fallback, ["remote", "azure"]);
    let ModelProvider::Anthropic(config, MessagesApi { cache: true }) = &claude.provider else { panic!() };
    assert_eq!(
        (&config.base_url, &config.version),
        (&literal("https://api.anthropic.com"), &Some(literal("2023-06-01")))
    );
    let [first_byte, idle, total] = [30, 60, 600].map(Duration::from_secs);
    assert_eq!(config.timeouts, Timeouts { first_byte, idle, total });
    let (ModelProvider::Scripted(one), ModelProvider::Scripted(same)) =
        (&manifests.models[4].provider, &manifests.models[5].provider)
    else {
        panic!()
    };
    assert_eq!(one, same);
}

#[test]
fn tools_are_those_that_are_declared_or_used() {
    let manifests = good();
    let names: Vec<_> = manifests.tools.iter().map(|(namespace, tool)| format!("{namespace}/{}", tool.name)).collect();
    assert_eq!(names, ["default/calculator", "default/noop", "default/sum"]);
    let (_, sum) = &manifests.tools[2];
    assert_eq!(sum.description, "Adds numbers");
    assert_eq!(sum.display_name.as_deref(), Some("Sum"));
    assert_eq!(sum.binding, Binding::Builtin { name: "calculator".into() });
    assert_eq!(sum.parameters["properties"]["expression"], json!({"type": "string", "maxLength": 100}));
    assert_eq!(sum.annotations.read_only_hint, Some(true));
    assert_eq!(sum.annotations.idempotent_hint, Some(false));
    assert_eq!(sum.labels["kind"], "arithmetic");
}

#[test]
fn a_field_without_effect_is_a_warning_with_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let manifests = "\
apiVersion: ark.mckinsey.com/v1alpha1
kind: Model
metadata: {name: polled}
spec:
  provider: openai
  model: {value: m}
  pollInterval: 1m
  config: {openai: {baseUrl: {value: \"https://x.test\"}}}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Evaluator
metadata: {name: judge}
spec: {parameters: [{name: model.name, value: polled}], address: {value: \"http://judge\"}}
";
    std::fs::write(directory.path().join("all.yaml"), manifests).unwrap();
    let (loaded, warnings) = review(&[directory.path().to_owned()], &builtins(), Vec::new());
    assert_eq!(loaded.unwrap().models.len(), 1);
    let shown: Vec<_> = warnings
        .iter()
        .map(|warning| format!("{}: {} [{}]", warning.place.unwrap(), warning.message, warning.code))
        .collect();
    assert_eq!(
        shown,
        [
            "7:17: `pollInterval` of Model `polled` has no effect: models are not probed [field_ignored]",
            "13:66: `address` of Evaluator `judge` has no effect: this server judges answers itself [field_ignored]",
        ]
    );
}

#[test]
fn an_agent_may_use_a_tool_of_every_type_that_a_manifest_may_have() {
    for kind in BindingKind::of_manifests().map(BindingKind::as_str).chain(["built-in", "custom"]) {
        let directory = tempfile::tempdir().unwrap();
        let described = match kind {
            "built-in" | "builtin" => "type: builtin, builtin: {name: noop}",
            "http" => "type: http, http: {url: \"https://x.test\"}",
            "mcp" => "type: mcp, mcp: {mcpServerRef: {name: server}, toolName: t}",
            "nango" => "type: nango, nango: {source: action, provider: mail, action: send}",
            "agent" => "type: agent, agent: {name: t}",
            "team" => "type: team, team: {name: t}",
            "inline" => "type: inline, inline: {language: bash, source: x}",
            "external" | "custom" => "type: external",
            other => panic!("no manifest for tools of type `{other}`"),
        };
        let documents = [
            ("Agent", "user", format!("tools: [{{type: {kind}, name: t}}]")),
            ("Tool", "t", described.to_owned()),
            ("Agent", "t", String::new()),
            ("Team", "t", "members: [{name: t}], strategy: sequential".to_owned()),
            ("MCPServer", "server", "address: {value: \"http://x.test\"}".to_owned()),
            (
                "Model",
                "default",
                "provider: openai, model: {value: m}, config: {openai: {baseUrl: {value: \"https://x.test\"}}}"
                    .to_owned(),
            ),
        ];
        let documents = documents.map(|(document, name, spec)| {
            format!("apiVersion: ark.mckinsey.com/v1alpha1\nkind: {document}\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n")
        });
        std::fs::write(directory.path().join("all.yaml"), documents.join("---\n")).unwrap();
        let (loaded, warnings) = review(&[directory.path().to_owned()], &builtins(), Vec::new());
        let loaded = loaded.unwrap_or_else(|faults| panic!("{kind}: {faults}"));
        let user = loaded.agents.iter().find(|agent| agent.name == "user").unwrap();
        assert_eq!(user.tools[0].name, "t", "{kind}");
        let not_served = warnings.iter().any(|warning| warning.code == "not_served");
        assert_eq!(not_served, kind == BindingKind::Inline.as_str(), "{kind}: {warnings:?}");
    }
}

#[test]
fn every_fault_is_reported_at_once_with_its_place() {
    let mut cases = 0;
    for entry in root().join("fixtures/manifests/bad").read_dir().unwrap() {
        let directory = entry.unwrap().path();
        let faults = load_from(&directory).unwrap_err();
        let prefix = format!("{}/", directory.display());
        let shown = faults.to_string().replace(&prefix, "") + "\n";
        golden::check(&directory.join("faults.txt"), &shown);
        cases += faults.iter().count();
    }
    assert!(cases >= 60, "{cases}");
}

#[test]
fn every_http_tool_that_is_converted_can_be_called() {
    fn files(directory: &Path) -> Vec<PathBuf> {
        let entries = directory.read_dir().unwrap().map(|entry| entry.unwrap().path());
        entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
    }
    let mut tools = 0;
    for file in files(&root().join("fixtures/convert")) {
        if !file.to_string_lossy().ends_with(".ark-manifest.yaml") {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        tools += text.matches("type: http").count();
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("tools.yaml"), text).unwrap();
        // Servers and agents that the tools of a fixture refer to are not next to them.
        let faults = load_from(directory.path()).err();
        let of_templates = faults.iter().flat_map(|faults| faults.iter());
        let is_reference =
            |code: &str| matches!(code, "unknown_mcp_server" | "unknown_agent" | "unknown_team" | "unknown_tool");
        let of_templates: Vec<_> = of_templates.filter(|fault| !is_reference(fault.code)).collect();
        assert!(of_templates.is_empty(), "{}: {of_templates:?}", file.display());
    }
    assert!(tools >= 5, "{tools}");
}

#[test]
fn an_empty_or_missing_directory_says_what_to_put_there() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("notes.txt"), "x").unwrap();
    std::fs::write(directory.path().join("empty.yaml"), "# nothing yet\n").unwrap();
    let hint = "put YAML files there that describe at least one Agent and the Model that it uses; \
        `examples/agents` of Bosun's source is a working set to copy";
    let shown = directory.path().display();
    let empty = load_from(directory.path()).unwrap_err().to_string();
    assert_eq!(empty, format!("{shown}: there is no manifest in `{shown}` [manifests_missing]\n  {hint}"));
    let missing = load_from(&directory.path().join("agents")).unwrap_err().to_string();
    assert_eq!(missing, format!("{shown}/agents: does not exist [manifests_missing]\n  {hint}"));
}

#[test]
fn files_are_read_once_however_they_are_reached() {
    let good = root().join("fixtures/manifests/good");
    let twice = load(&[good.clone(), good.join("nested"), good.join("agents.yaml")], &builtins()).unwrap();
    assert_eq!(twice.agents.len(), 3);
    #[cfg(unix)]
    {
        let directory = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(directory.path(), directory.path().join("loop")).unwrap();
        std::os::unix::fs::symlink(good.canonicalize().unwrap(), directory.path().join("linked")).unwrap();
        assert_eq!(load_from(directory.path()).unwrap().agents.len(), 3);
    }
}

#[test]
fn a_tool_that_the_program_adds_is_builtin_only_where_it_was_added() {
    let directory = tempfile::tempdir().unwrap();
    let manifest = "apiVersion: ark.mckinsey.com/v1alpha1\nkind: Agent\nmetadata: {name: a}\n\
        spec: {tools: [{type: builtin, name: added}]}\n---\n\
        apiVersion: ark.mckinsey.com/v1alpha1\nkind: Model\nmetadata: {name: default}\n\
        spec: {provider: scripted, config: {scripted: {file: s.yaml}}}\n";
    std::fs::write(directory.path().join("a.yaml"), manifest).unwrap();
    std::fs::write(directory.path().join("s.yaml"), "otherwise: [{say: x}]").unwrap();
    let faults = load_from(directory.path()).unwrap_err().to_string();
    assert!(faults.contains("the builtin tools are `calculator`, `current_time`, `noop`, `read_result`"), "{faults}");
    let added = Tool::new("added", "Added", json!({"type": "object"}), Binding::Builtin { name: "added".into() });
    let with_added = builtins().with(added, Arc::new(builtins()));
    assert_eq!(load(&[directory.path().to_owned()], &with_added).unwrap().tools[0].1.name, "added");
}

/// A model, then what it falls back on, each followed by its own fallbacks, and none twice.
#[tokio::test]
async fn fallbacks_are_asked_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let models = [("a", "[b, c]", "{fail: {status: 503}}"), ("b", "[d]", "{fail: {status: 529}}")];
    let others = [("c", "[]", "{say: I am c}"), ("d", "[c]", "{fail: {status: 500}}"), ("e", "[]", "{say: I am e}")];
    let mut manifests = String::new();
    for (name, fallback, turn) in models.into_iter().chain(others) {
        manifests += &format!(
            "apiVersion: ark.mckinsey.com/v1alpha1\nkind: Model\nmetadata: {{name: {name}}}\n\
             spec: {{provider: scripted, fallback: {fallback}, config: {{scripted: {{file: {name}.yaml}}}}}}\n---\n"
        );
        std::fs::write(directory.path().join(format!("{name}.yaml")), format!("otherwise: [{turn}]")).unwrap();
    }
    std::fs::write(directory.path().join("models.yaml"), manifests).unwrap();
    let registry = load_from(directory.path()).unwrap().build(&Arc::new(Secrets::default()), Arc::new(builtins()));
    let toolset = Arc::new(Toolset::merge(ToolSources::Catalog, vec![], vec![]));
    let messages = vec![Message::User("x".into())];
    let (query, options) = (QueryUid::new(0, [0; 10]), Default::default());
    let request =
        ModelRequest { query, turn: 1, messages, toolset, tools_allowed: true, options, answer: None, trace: None };
    let reply = registry.model(&default_namespace(), "a").unwrap().reply(&request, &DiscardedDeltas).await.unwrap();
    assert_eq!((reply.text.as_deref(), reply.answered_by.as_deref()), (Some("I am c"), Some("c")));
    let shown =
        format!("{:?}", registry.model(&default_namespace(), "e").unwrap().reply(&request, &DiscardedDeltas).await);
    assert!(shown.contains("I am e") && shown.contains("answered_by: None"), "{shown}");
}

#[test]
fn a_registry_has_everything() {
    let registry = good().build(&Arc::new(Secrets::default()), Arc::new(builtins()));
    let namespace = default_namespace();
    assert!(registry.agent(&namespace, "full").is_some());
    assert!(registry.model(&namespace, "remote").is_some());
    assert!(registry.model(&"team-b".parse().unwrap(), "default").is_some());
    assert!(registry.model(&"team-b".parse().unwrap(), "remote").is_none());
    let tool = registry.tool(&namespace, "sum").unwrap();
    assert!(registry.runner(tool.binding.kind()).is_some());
}

struct DiscardedDeltas;

impl Deltas for DiscardedDeltas {
    fn push(&self, _: &str) {}
}

/// Every directory of `examples` that holds manifests, as a server would load it.
#[test]
fn every_example_loads() {
    for directory in ["agents", "models"] {
        let manifests = load_from(&root().join("examples").join(directory)).unwrap_or_else(|faults| panic!("{faults}"));
        assert!(!manifests.models.is_empty(), "{directory}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_example_runs_the_rfcs_first_example() {
    let manifests = load_from(&root().join("examples/agents")).unwrap();
    let names: Vec<_> = manifests.agents.iter().map(|agent| agent.name.as_str()).collect();
    assert_eq!(names, ["math-assistant", "research-assistant"]);
    let registry = manifests.build(&Arc::new(Secrets::default()), Arc::new(builtins()));
    let model = registry.model(&default_namespace(), "default").unwrap();
    let ask = async |messages: Vec<Message>| {
        let toolset = Arc::new(Toolset::merge(ToolSources::Catalog, vec![], vec![]));
        let query = QueryUid::new(0, [0; 10]);
        model
            .reply(
                &ModelRequest {
                    query,
                    turn: 1,
                    messages,
                    toolset,
                    tools_allowed: true,
                    options: Default::default(),
                    answer: None,
                    trace: None,
                },
                &DiscardedDeltas,
            )
            .await
            .unwrap()
    };
    let result = |alias: &str, content: &str| Message::Tool {
        provider_id: alias.into(),
        alias: alias.into(),
        content: content.into(),
        images: Default::default(),
        is_error: false,
    };
    let asked = Message::Assistant { text: None, calls: vec![], provider: None };

    let question = Message::User("What is 25% of 8,432?".into());
    let first = ask(vec![question.clone()]).await;
    assert_eq!(first.calls.len(), 1);
    assert_eq!(first.calls[0].alias, "calculator");
    assert_eq!(first.calls[0].arguments, r#"{"expression":"0.25 * 8432"}"#);
    let last = ask(vec![question, asked.clone(), result("calculator", "2108")]).await;
    assert_eq!(last.text.as_deref(), Some("25% of 8,432 is 2,108"));

    let question = Message::User("What is the news about Rust?".into());
    let first = ask(vec![question.clone()]).await;
    let aliases: Vec<_> = first.calls.iter().map(|call| call.alias.as_str()).collect();
    assert_eq!(aliases, ["web_search", "current_time"]);
    let results = [result("web_search", "Rust 2.0 is out."), result("current_time", "2026-11-15T12:00:00.000Z")];
    let last = ask([vec![question, asked], results.to_vec()].concat()).await;
    assert_eq!(last.text.as_deref(), Some("As of 2026-11-15T12:00:00.000Z: Rust 2.0 is out."));
    assert!(ask(vec![Message::User("anything".into())]).await.text.unwrap().starts_with("I am a script."));
}
