//! Checks that the tables of fields, from which the API is described, and the readers of manifests agree.
//!
//! That a reader reads no field that is missing in its table is checked in every test: `Fields::with_table` panics.

use std::{path::Path, sync::Arc};

use bosun_core::tool::BindingKind;
use bosun_engine::SystemClock;
use bosun_reading::{Fault, Node, Report, Syntax, spec, table::object_schema};
use serde_json::{Value, json};

use super::{ManifestDrafts, document::Document};
use crate::runner::builtin::Builtins;

/// A value with every field that a schema describes.
fn sample(schema: &Value) -> Value {
    if let Some(forms) = schema["anyOf"].as_array() {
        return sample(forms.last().unwrap());
    }
    if let Some(word) = schema.get("const").or_else(|| schema["enum"].get(0)) {
        return word.clone();
    }
    match schema["type"].as_str().unwrap() {
        "object" => {
            let properties = schema["properties"].as_object().into_iter().flatten();
            Value::Object(properties.map(|(name, schema)| (name.clone(), sample(schema))).collect())
        }
        "array" => json!([sample(&schema["items"])]),
        "boolean" => json!(true),
        "integer" | "number" => json!(1),
        _ => json!("x"),
    }
}

fn faults(kind: Document, spec: &Value) -> Vec<Fault> {
    faults_of(&json!({
        "apiVersion": kind.api_version(), "kind": kind.as_str(), "metadata": {"name": "x"}, "spec": spec,
    }))
}

fn faults_of(document: &Value) -> Vec<Fault> {
    let builtins = Builtins::new(Arc::new(SystemClock));
    let report = Report::of_file(Path::new("x.yaml"), Syntax::Yaml);
    ManifestDrafts::default().read_document(&report, &Node::from(document), &builtins);
    report.into_faults()
}

#[track_caller]
fn check(kind: Document, spec: &Value) {
    check_read(faults(kind, spec));
}

#[track_caller]
fn check_read(faults: Vec<Fault>) {
    let unread: Vec<_> = faults.into_iter().filter(|fault| fault.code == "unknown_field").collect();
    assert!(unread.is_empty(), "{unread:?}");
}

#[test]
fn every_field_of_a_document_is_read() {
    for (kind, other_fields) in [(Document::Memory, &["data", "immutable"][..]), (Document::ConfigMap, &["spec"])] {
        let mut document = sample(&object_schema(spec::DOCUMENT, &[]));
        document["apiVersion"] = json!(kind.api_version());
        document["kind"] = json!(kind.as_str());
        other_fields.iter().for_each(|field| drop(document.as_object_mut().unwrap().shift_remove(*field)));
        check_read(faults_of(&document));
        for field in other_fields {
            let mut wrong = document.clone();
            wrong[*field] = json!({});
            assert!(faults_of(&wrong).iter().any(|fault| fault.code == "unknown_field"), "{field}");
        }
    }
}

#[test]
fn every_field_that_is_described_is_read() {
    check(Document::Agent, &sample(&object_schema(spec::AGENT, &[])));
    check(Document::Memory, &sample(&object_schema(spec::MEMORY, &[])));
    check(Document::Team, &sample(&object_schema(spec::TEAM, &[])));
    check(Document::Evaluator, &sample(&object_schema(spec::EVALUATOR, &[])));
    check(Document::McpServer, &sample(&object_schema(spec::MCP_SERVER, &[])));
    check(Document::A2aServer, &sample(&object_schema(spec::A2A_SERVER, &[])));
}

#[test]
fn every_field_of_a_tool_is_read_with_the_block_of_its_type() {
    for kind in BindingKind::of_manifests() {
        let mut tool = sample(&object_schema(spec::TOOL, &[]));
        tool["type"] = json!(kind.as_str());
        let others = BindingKind::of_manifests().filter(|other| *other != kind);
        others.for_each(|other| drop(tool.as_object_mut().unwrap().shift_remove(other.as_str())));
        check(Document::Tool, &tool);
    }
}

#[test]
fn every_field_of_a_model_is_read_with_the_settings_of_its_provider() {
    for provider in ["openai", "azure", "anthropic", "scripted"] {
        let mut model = sample(&object_schema(spec::MODEL, &[]));
        let settings = model["config"][provider].clone();
        model["provider"] = json!(provider);
        model["config"] = json!({provider: settings});
        check(Document::Model, &model);
    }
}

#[test]
fn a_field_that_no_reader_takes_would_be_found() {
    let unknown = faults(Document::Memory, &json!({"colour": "red"}));
    assert_eq!(unknown.iter().map(|fault| fault.code).collect::<Vec<_>>(), ["unknown_field"]);
}
