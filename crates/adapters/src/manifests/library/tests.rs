//! What clients store, beside what files describe.

use std::{path::Path, sync::Arc};

use bosun_core::{Namespace, Timestamp};
use bosun_engine::{
    SystemClock,
    registry::{PromptError, Window},
    resource::{Assemble, Description, Kind, Manifest, Origin, ResourceKey, StoredResource},
};
use serde_json::{Value, json};

use super::Library;
use crate::{manifests::load, runner::builtin::Builtins, secret::Secrets};

fn library() -> Library {
    let builtins = Builtins::new(Arc::new(SystemClock));
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/manifests");
    let files =
        load(&[fixtures.join("good"), fixtures.join("kinds")], &builtins).unwrap_or_else(|faults| panic!("{faults}"));
    Library::new(files, Arc::new(Secrets::default()), Arc::new(builtins))
}

fn manifest(kind: Kind, name: &str, spec: &Value) -> Manifest {
    let spec = spec.as_object().unwrap().clone();
    Manifest {
        key: ResourceKey::new(kind, Namespace::default(), name),
        description: Description { spec, ..Description::default() },
    }
}

fn stored(kind: Kind, name: &str, spec: &Value) -> StoredResource {
    let (created_at, updated_at) = (Timestamp(1), Timestamp(2));
    StoredResource { manifest: manifest(kind, name, spec), generation: 3, created_at, updated_at }
}

fn availability(library: &Library, stored: &[StoredResource], kind: Kind, name: &str) -> (bool, &'static str, String) {
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
    assert_eq!(names(Kind::Agent), ["greeter"]);
    assert_eq!(names(Kind::Team), ["inner", "pair"]);
    assert_eq!(names(Kind::McpServer), ["files"]);
    assert_eq!(names(Kind::Memory), ["plain", "short"]);
    assert_eq!(names(Kind::ConfigMap), ["settings"]);
    let tools = "ask-greeter ask-team calculator client-search current_time fetch noop read-file read_result script";
    assert_eq!(names(Kind::Tool).join(" "), tools);
    let team = registry.resource(Kind::Team, &kinds(), "pair").unwrap();
    assert_eq!(team.manifest.description.spec["members"][1], json!({"name": "inner", "type": "team"}));
    assert_eq!(team.availability(&registry).reason, "NotServed");
    assert_eq!(registry.memory(&kinds(), "short").unwrap().window, Window::Messages(20));
    assert_eq!(registry.memory(&kinds(), "plain").unwrap().window, Window::default());
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

#[test]
fn what_a_client_stores_is_checked_as_a_file_is() {
    let library = library();
    let check = |kind, spec: Value| library.check(&manifest(kind, "x", &spec));
    let checked = check(Kind::Agent, json!({"prompt": "Hi", "modelRef": {"name": "gone"}, "colour": "red"})).unwrap();
    assert_eq!(checked.warnings, ["unknown field `spec.colour` was ignored"]);
    let codes =
        |kind, spec: Value| -> Vec<&str> { check(kind, spec).unwrap_err().iter().map(|fault| fault.code).collect() };
    assert_eq!(codes(Kind::Agent, json!({"prompt": 5, "overrides": []})), ["wrong_type", "unsupported_field"]);
    assert_eq!(codes(Kind::Tool, json!({"type": "http"})), ["missing_field"]);
    assert_eq!(codes(Kind::Model, json!({})), ["missing_field", "missing_field"]);
    let script = json!({"provider": "scripted", "config": {"scripted": {"file": "/etc/passwd"}}});
    assert_eq!(codes(Kind::Model, script), ["unsupported_field"]);
    let faults = library.check(&manifest(Kind::Agent, "Not A Name", &json!({}))).unwrap_err();
    assert_eq!(faults[0].code, "bad_value");
    assert!(check(Kind::ConfigMap, json!({"data": {"a": "b"}})).is_ok());
    assert_eq!(codes(Kind::ConfigMap, json!({"data": {"a": 5}})), ["wrong_type"]);
}

#[test]
fn a_stored_agent_is_available_when_everything_it_names_is_there() {
    let library = library();
    let agent = stored(
        Kind::Agent,
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
    let message = |all: &[StoredResource]| availability(&library, all, Kind::Agent, "mine").2;
    assert_eq!(message(&all), "missing: Model `mine`, Tool `gone`, ConfigMap `mine`");
    all.push(stored(Kind::Model, "mine", &model));
    all.push(stored(Kind::Tool, "gone", &json!({"type": "external"})));
    assert_eq!(message(&all), "missing: ConfigMap `mine`");
    all.push(stored(Kind::ConfigMap, "mine", &json!({"data": {"k": "v"}})));
    assert_eq!(availability(&library, &all, Kind::Agent, "mine").1, "AllDependenciesReady");
    let registry = library.assemble(&all);
    let agent = registry.agent(&Namespace::default(), "mine").unwrap();
    assert_eq!(agent.prompt_for(&std::collections::BTreeMap::new()).unwrap().unwrap(), "v");
    assert!(registry.tool(&Namespace::default(), "calculator").is_some());
    assert!(registry.model(&Namespace::default(), "mine").is_some());
}

#[test]
fn a_file_wins_over_what_is_stored_and_says_so() {
    let library = library();
    let registry = library.assemble(&[stored(Kind::Agent, "bare", &json!({"prompt": "stored"}))]);
    let resource = registry.resource(Kind::Agent, &Namespace::default(), "bare").unwrap();
    assert!(resource.hides_stored && matches!(resource.origin, Origin::File(_)));
    assert_eq!(registry.agent(&Namespace::default(), "bare").unwrap().prompt, None);
}

#[test]
fn what_is_stored_and_not_readable_any_more_is_there_with_its_faults() {
    let library = library();
    let broken = stored(Kind::Agent, "old", &json!({"prompt": ["from", "another", "version"]}));
    let (is_available, reason, message) = availability(&library, std::slice::from_ref(&broken), Kind::Agent, "old");
    assert_eq!((is_available, reason), (false, "Invalid"));
    assert_eq!(message, "`spec.prompt` of Agent `old` must be text, and is a list");
    assert!(library.assemble(&[broken]).agent(&Namespace::default(), "old").is_none());
}
