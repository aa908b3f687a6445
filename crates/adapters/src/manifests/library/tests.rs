//! Stored manifests together with those of files.

use std::{path::Path, sync::Arc};

use bosun_core::{Namespace, Timestamp, fault::FaultList};
use bosun_engine::{
    SystemClock,
    registry::{MemoryWindow, PromptError},
    resource::{Assemble, Manifest, ManifestBody, ResourceKey, ResourceKind, ResourceOrigin, StoredResource},
};
use serde_json::{Value, json};

use super::Library;
use crate::{
    address::Reachable,
    manifests::load,
    runner::builtin::Builtins,
    secret::{Secrets, binding::SecretReach},
};

fn library() -> Library {
    let builtins = Builtins::new(Arc::new(SystemClock));
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/manifests");
    let files =
        load(&[fixtures.join("good"), fixtures.join("kinds")], &builtins).unwrap_or_else(|faults| panic!("{faults}"));
    Library::new(files, Arc::new(Secrets::default()), Reachable::default(), Arc::new(builtins))
}

fn manifest(kind: ResourceKind, name: &str, spec: &Value) -> Manifest {
    let spec = spec.as_object().unwrap().clone();
    Manifest {
        key: ResourceKey::new(kind, Namespace::default(), name),
        description: ManifestBody { spec, ..ManifestBody::default() },
    }
}

fn stored(kind: ResourceKind, name: &str, spec: &Value) -> StoredResource {
    let (created_at, updated_at) = (Timestamp(1), Timestamp(2));
    StoredResource { manifest: manifest(kind, name, spec), generation: 3, created_at, updated_at }
}

fn availability(
    library: &Library,
    stored: &[StoredResource],
    kind: ResourceKind,
    name: &str,
) -> (bool, &'static str, String) {
    let registry = library.assemble(stored);
    let resource = registry.resource(kind, &Namespace::default(), name).unwrap();
    let availability = resource.availability(&registry);
    (availability.is_available, availability.reason, availability.message)
}

fn kinds() -> Namespace {
    "kinds".parse().unwrap()
}

#[test]
fn every_kind_is_described_as_it_was_written() {
    let registry = library().assemble(&[]);
    let names = |kind| -> Vec<String> {
        registry.resources(kind, &kinds()).iter().map(|one| one.manifest.key.name.clone()).collect()
    };
    assert_eq!(names(ResourceKind::Agent), ["forecaster", "greeter"]);
    assert_eq!(names(ResourceKind::A2aServer), ["town"]);
    let remote = registry.agent(&kinds(), "forecaster").unwrap().remote.clone().unwrap();
    assert_eq!((remote.server.as_str(), remote.tool), ("town", None), "its server has not been asked");
    assert_eq!(names(ResourceKind::Team), ["inner", "pair"]);
    assert_eq!(names(ResourceKind::McpServer), ["files", "granted", "local"]);
    assert_eq!(names(ResourceKind::Memory), ["default", "plain", "short"], "and the one that every namespace has");
    assert_eq!(names(ResourceKind::ConfigMap), ["settings"]);
    let tools = "ask-greeter ask-team calculator client-search current_time fetch noop read-file read_result \
         request_missing_parameters script terminate";
    assert_eq!(names(ResourceKind::Tool).join(" "), tools);
    let team = registry.resource(ResourceKind::Team, &kinds(), "pair").unwrap();
    assert_eq!(team.manifest.description.spec["members"][1], json!({"name": "inner", "type": "team"}));
    assert_eq!(team.availability(&registry).reason, "AllDependenciesReady");
    assert_eq!(registry.memory(&kinds(), "short").unwrap().window, MemoryWindow::Messages(20));
    assert_eq!(registry.memory(&kinds(), "plain").unwrap().window, MemoryWindow::default());
    let namespaces: Vec<_> = registry.namespaces().iter().map(ToString::to_string).collect();
    assert_eq!(namespaces, ["default", "kinds", "team-b"]);
}

#[test]
fn a_prompt_is_filled_in_with_parameters() {
    let registry = library().assemble(&[]);
    let agent = registry.agent(&kinds(), "greeter").unwrap();
    let parameters = [("userName".to_owned(), "{{.tone}}".to_owned())].into();
    let prompt = agent.prompt_for(&parameters).unwrap().unwrap();
    assert_eq!(prompt, "Be friendly to {{.tone}}, say {{.hi}}.");
    let missing = agent.prompt_for(&std::collections::BTreeMap::new()).unwrap_err();
    assert_eq!(missing, PromptError::MissingParameters { agent: "greeter".into(), names: vec!["userName".into()] });
    // Without parameters, a prompt is text.
    let raw = registry.agent(&Namespace::default(), "full").unwrap();
    assert_eq!(raw.prompt_for(&std::collections::BTreeMap::new()).unwrap().unwrap(), "Two lines\nof {{ prompt }}\n");
}

#[tokio::test]
async fn what_a_client_stores_is_checked_as_a_file_is() {
    let library = library();
    let check = async |kind, spec: Value| library.check(&manifest(kind, "x", &spec)).await;
    let asked = json!({"prompt": "Hi", "modelRef": {"name": "gone"}, "colour": "red"});
    let checked = check(ResourceKind::Agent, asked).await.unwrap();
    assert_eq!(checked.warnings, ["unknown field `spec.colour` was ignored"]);
    let codes = async |kind, spec: Value| -> Vec<&str> {
        check(kind, spec).await.unwrap_err().listed().iter().map(|fault| fault.code).collect()
    };
    assert_eq!(
        codes(ResourceKind::Agent, json!({"prompt": 5, "overrides": []})).await,
        ["wrong_type", "unsupported_field"]
    );
    assert_eq!(codes(ResourceKind::Tool, json!({"type": "http"})).await, ["missing_field"]);
    assert_eq!(codes(ResourceKind::Model, json!({})).await, ["missing_field", "missing_field"]);
    let script = json!({"provider": "scripted", "config": {"scripted": {"file": "/etc/passwd"}}});
    assert_eq!(codes(ResourceKind::Model, script).await, ["unsupported_field"]);
    let faults = library.check(&manifest(ResourceKind::Agent, "Not A Name", &json!({}))).await.unwrap_err();
    assert_eq!(faults.listed()[0].code, "bad_value");
    assert!(check(ResourceKind::ConfigMap, json!({"data": {"a": "b"}})).await.is_ok());
    assert_eq!(codes(ResourceKind::ConfigMap, json!({"data": {"a": 5}})).await, ["wrong_type"]);
    let faults = library.check(&manifest(ResourceKind::Tool, "usage", &json!({"type": "external"}))).await.unwrap_err();
    assert_eq!(faults.listed()[0].code, "reserved_name");
    assert!(
        library.check(&manifest(ResourceKind::Agent, "usage", &json!({}))).await.is_ok(),
        "only tools are read there"
    );
}

/// A model as a client stores it, whose every field may be a reference to the secret `openai`.
fn model_of_client(provider: &str, base_url: &Value, settings: &Value) -> Value {
    let mut config = settings.clone();
    config["baseUrl"] = base_url.clone();
    json!({"provider": provider, "model": {"value": "m"}, "config": {provider: config}})
}

#[tokio::test]
async fn a_stored_model_sends_secrets_where_files_send_them_and_to_its_providers_own_api() {
    let library = library();
    let secret = json!({"valueFrom": {"secretKeyRef": {"name": "openai", "key": "api-key"}}});
    let check = async |provider: &str, base_url: &Value, settings: Value| -> Vec<String> {
        let spec = model_of_client(provider, base_url, &settings);
        let faults = library.check(&manifest(ResourceKind::Model, "x", &spec)).await.err();
        let faults = faults.iter().flat_map(FaultList::listed);
        faults.map(|fault| format!("{} {}", fault.code, fault.message)).collect()
    };
    let at = |url: &str| json!({"value": url});
    let key = json!({"apiKey": secret});
    let header = json!({"headers": [{"name": "x-key", "value": secret}]});
    let property = json!({"properties": {"user": secret}});
    let unused = json!({"apiKey": {"valueFrom": {"secretKeyRef": {"name": "unused", "key": "api-key"}}}});
    assert_eq!(check("openai", &at("https://api.openai.com/v1"), unused.clone()).await, [""; 0]);
    assert_eq!(check("anthropic", &at("https://api.anthropic.com"), unused).await, [""; 0]);
    // What is written into the manifest is the client's own.
    assert_eq!(check("openai", &at("https://evil.example"), json!({"apiKey": {"value": "mine"}})).await, [""; 0]);
    for (provider, url, settings) in [
        ("openai", "https://evil.example/v1", key.clone()),
        // Files send it elsewhere, so it is not a key of this API.
        ("openai", "https://api.openai.com/v1", key.clone()),
        ("openai", "https://api.anthropic.com/v1", key.clone()),
        ("anthropic", "https://api.openai.com", key.clone()),
        ("azure", "https://elsewhere.openai.azure.com", key),
        ("openai", "https://api.openai.com/v1", header),
        ("openai", "https://api.openai.com/v1", property),
    ] {
        let refused = check(provider, &at(url), settings.clone()).await;
        assert_eq!(refused.len(), 1, "{provider} {url} {settings}: {refused:?}");
        assert!(refused[0].starts_with("secret_not_allowed `"), "{refused:?}");
    }
    // Where it goes is known when it is asked, and is decided then.
    assert_eq!(check("openai", &secret, json!({"apiKey": secret})).await, [""; 0]);
}

#[tokio::test]
async fn a_stored_model_calls_what_is_public_and_a_file_whatever_it_says() {
    let library = library();
    let check = async |base_url: &str| -> Vec<&str> {
        let spec = model_of_client("openai", &json!({"value": base_url}), &json!({"apiKey": {"value": "mine"}}));
        let faults = library.check(&manifest(ResourceKind::Model, "x", &spec)).await.err();
        faults.iter().flat_map(FaultList::listed).map(|fault| fault.code).collect()
    };
    for url in ["https://api.openai.com/v1", "http://models.example:8000/v1", "https://1.1.1.1/v1"] {
        assert_eq!(check(url).await, [""; 0], "{url}");
    }
    for url in
        ["http://localhost:1/v1", "http://169.254.169.254/latest", "https://[::ffff:10.0.0.1]/v1", "http://0x7f.1/v1"]
    {
        assert_eq!(check(url).await, ["address_not_allowed"], "{url}");
    }
    let files = library.files.load();
    let own = files.manifests.models.iter().filter_map(|model| model.provider.config());
    assert!(
        own.clone().count() > 0 && own.clone().all(|config| config.reach == SecretReach::File),
        "files are trusted"
    );
}

#[test]
fn a_stored_agent_is_available_when_everything_it_names_is_there() {
    let library = library();
    let agent = stored(
        ResourceKind::Agent,
        "mine",
        &json!({
            "modelRef": {"name": "mine"},
            "tools": [{"type": "custom", "name": "calculator"}, {"type": "custom", "name": "gone"}],
            "prompt": "{{.a}}",
            "parameters": [{"name": "a", "valueFrom": {"configMapKeyRef": {"name": "mine", "key": "k"}}}],
        }),
    );
    let model = json!({"provider": "openai", "model": {"value": "m"},
        "config": {"openai": {"baseUrl": {"value": "http://localhost:1/v1"}}}});
    let mut all = vec![agent];
    let message = |all: &[StoredResource]| availability(&library, all, ResourceKind::Agent, "mine").2;
    assert_eq!(message(&all), "missing: Model `mine`, Tool `gone`, ConfigMap `mine`");
    all.push(stored(ResourceKind::Model, "mine", &model));
    all.push(stored(ResourceKind::Tool, "gone", &json!({"type": "external"})));
    assert_eq!(message(&all), "missing: ConfigMap `mine`");
    all.push(stored(ResourceKind::ConfigMap, "mine", &json!({"data": {"k": "v"}})));
    assert_eq!(availability(&library, &all, ResourceKind::Agent, "mine").1, "AllDependenciesReady");
    let registry = library.assemble(&all);
    let agent = registry.agent(&Namespace::default(), "mine").unwrap();
    assert_eq!(agent.prompt_for(&std::collections::BTreeMap::new()).unwrap().unwrap(), "v");
    assert!(registry.tool(&Namespace::default(), "calculator").is_some());
    assert!(registry.model(&Namespace::default(), "mine").is_some());
}

#[test]
fn a_file_wins_over_what_is_stored_and_says_so() {
    let library = library();
    let registry = library.assemble(&[stored(ResourceKind::Agent, "bare", &json!({"prompt": "stored"}))]);
    let resource = registry.resource(ResourceKind::Agent, &Namespace::default(), "bare").unwrap();
    assert!(resource.hides_stored && matches!(resource.origin, ResourceOrigin::File(_)));
    assert_eq!(registry.agent(&Namespace::default(), "bare").unwrap().prompt, None);
}

#[test]
fn what_is_stored_and_not_readable_any_more_is_there_with_its_faults() {
    let library = library();
    let broken = stored(ResourceKind::Agent, "old", &json!({"prompt": ["from", "another", "version"]}));
    let (is_available, reason, message) =
        availability(&library, std::slice::from_ref(&broken), ResourceKind::Agent, "old");
    assert_eq!((is_available, reason), (false, "Invalid"));
    assert_eq!(message, "`spec.prompt` of Agent `old` must be text, not a list");
    assert!(library.assemble(&[broken]).agent(&Namespace::default(), "old").is_none());
}

/// One namespace alone is assembled as it is among all the others.
#[test]
fn a_namespace_is_assembled_without_the_others() {
    let library = library();
    let in_kinds = |mut one: StoredResource| {
        one.manifest.key.namespace = kinds();
        one
    };
    let of_kinds = [
        in_kinds(stored(ResourceKind::Agent, "mine", &json!({"prompt": "hello", "modelRef": {"name": "default"}}))),
        in_kinds(stored(ResourceKind::Agent, "greeter", &json!({"prompt": "hidden by the file"}))),
    ];
    let elsewhere = stored(ResourceKind::Agent, "elsewhere", &json!({"prompt": "hello"}));
    let all = library.assemble(&[of_kinds.to_vec(), vec![elsewhere]].concat());
    let alone = library.assemble_namespace(&kinds(), &of_kinds);
    for kind in ResourceKind::ALL {
        assert_eq!(alone.resources(*kind, &kinds()), all.resources(*kind, &kinds()), "{kind:?}");
    }
    let agents = |registry: &bosun_engine::Registry| registry.agents(&kinds()).cloned().collect::<Vec<_>>();
    assert_eq!(agents(&alone), agents(&all));
    assert!(agents(&alone).iter().any(|agent| agent.name == "mine"));
    assert_eq!(alone.namespaces(), [Namespace::default(), kinds()].into(), "nothing of the others was read");
    assert!(alone.agent(&Namespace::default(), "elsewhere").is_none());
}

#[tokio::test]
async fn faults_and_warnings_of_clients_are_listed_up_to_a_number_and_counted() {
    let library = library();
    let manifest = |spec: Value| manifest(ResourceKind::Agent, "a", &spec);
    let faults = library.check(&manifest(json!({"prompt": "p", "tools": vec![0; 5_000]}))).await.unwrap_err();
    assert_eq!((faults.listed().len(), faults.omitted() >= 4_900), (100, true), "{}", faults.omitted());
    let mut odd = json!({"prompt": "p"});
    for number in 0..5_000 {
        odd[format!("field{number}")] = json!(1);
    }
    let warnings = library.check(&manifest(odd)).await.unwrap().warnings;
    assert_eq!((warnings.len(), warnings[100].as_str()), (101, "4900 further warnings are not listed"));
}
