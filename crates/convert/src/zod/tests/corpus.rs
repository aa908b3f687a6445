//! Every schema of `fixtures/zod/corpus.json` against what the real packages gave for it.
//!
//! `interop/zod/record.mjs` made `recorded.json`. Results are compared as text, so the order of keys
//! counts. `differences.json` lists what is not the same, with the reason; an entry that is no longer
//! true fails the test just like a difference that is not listed.

use std::{collections::BTreeMap, fs, path::PathBuf};

use bosun_core::{
    schema,
    tool::{
        definition::{self, Rules},
        toolset::{ToolSources, Toolset},
    },
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::{ZodIo, ZodVersion, schema_to_json};
use crate::dialect::AnyDialect;

#[derive(Deserialize)]
struct CorpusCase {
    id: String,
    source: String,
}

#[derive(Deserialize)]
struct RecordedZod {
    results: BTreeMap<String, Versions>,
}

#[derive(Deserialize)]
struct Versions {
    v3: CorpusOutcome,
    v4: CorpusOutcome,
    v4_input: CorpusOutcome,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CorpusOutcome {
    Schema(Value),
    Throws(String),
}

#[derive(Deserialize)]
struct Difference {
    id: String,
    version: String,
    reason: String,
    ours: OurResult,
}

/// What this converter gives.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OurResult {
    Schema(Value),
    Fault(String),
}

fn fixture<T: for<'de> Deserialize<'de>>(name: &str) -> T {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/zod").join(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn convert(source: &str, version: ZodVersion, io: ZodIo) -> OurResult {
    match schema_to_json(source, version, io) {
        Ok(converted) => OurResult::Schema(converted.schema),
        Err(faults) => OurResult::Fault(faults.first().map(|fault| fault.code.to_owned()).unwrap_or_default()),
    }
}

fn agree(ours: &OurResult, theirs: &CorpusOutcome) -> bool {
    match (ours, theirs) {
        (OurResult::Schema(ours), CorpusOutcome::Schema(theirs)) => {
            let (ours, theirs) = (ours.to_string(), theirs.to_string());
            ours == theirs
        }
        (OurResult::Fault(_), CorpusOutcome::Throws(_)) => true,
        _ => false,
    }
}

#[test]
fn the_corpus_gives_what_the_real_packages_give() {
    let corpus: Vec<CorpusCase> = fixture("corpus.json");
    let recorded: RecordedZod = fixture("recorded.json");
    let differences: Vec<Difference> = fixture("differences.json");
    assert!(corpus.len() >= 120, "{} schemas", corpus.len());
    assert_eq!(corpus.len(), recorded.results.len(), "record the corpus again");

    let mut wrong = Vec::new();
    for CorpusCase { id, source } in &corpus {
        let versions = &recorded.results[id];
        for (name, version, io, theirs) in [
            ("v3", ZodVersion::V3, ZodIo::Input, &versions.v3),
            ("v4", ZodVersion::V4, ZodIo::Output, &versions.v4),
            ("v4_input", ZodVersion::V4, ZodIo::Input, &versions.v4_input),
        ] {
            let ours = convert(source, version, io);
            let listed = differences.iter().find(|difference| difference.id == *id && difference.version == name);
            match listed {
                None if agree(&ours, theirs) => {}
                Some(difference)
                    if !agree(&ours, theirs) && difference.ours == ours && !difference.reason.is_empty() => {}
                Some(_) if agree(&ours, theirs) => wrong.push(format!("{id} {name}: no longer a difference")),
                _ => wrong.push(format!("{id} {name}: {source}\n  ours   {ours:?}\n  theirs {theirs:?}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), 3 * corpus.len(), wrong.join("\n"));
}

#[test]
fn every_difference_is_about_a_schema_of_the_corpus() {
    let corpus: Vec<CorpusCase> = fixture("corpus.json");
    for Difference { id, version, .. } in fixture::<Vec<Difference>>("differences.json") {
        assert!(
            corpus.iter().any(|case| case.id == id) && matches!(version.as_str(), "v3" | "v4" | "v4_input"),
            "{id} {version}"
        );
    }
}

/// The schema as the parameters of a tool: itself if it is an object, else as one parameter. `None` for
/// one that is neither an object nor can be moved, since its references begin at its root.
fn parameters(schema: &Value) -> Option<Value> {
    if schema["type"] == "object" {
        return Some(schema.clone());
    }
    if schema.to_string().contains("\"$ref\"") {
        return None;
    }
    let mut parameter = schema.clone();
    let mut parameters = json!({"type": "object", "properties": {}, "required": ["value"]});
    if let Some(draft) = parameter.as_object_mut().and_then(|fields| fields.remove("$schema")) {
        parameters["$schema"] = draft;
    }
    parameters["properties"]["value"] = parameter;
    Some(parameters)
}

/// The faults of the schema in a declaration.
fn derived_faults(dialect: AnyDialect, json: &str) -> impl Iterator<Item = String> + use<> {
    let pointer = match dialect {
        AnyDialect::Gemini => "/0/functionDeclarations/0/parametersJsonSchema",
        AnyDialect::Ollama => "/0/function/parameters",
        AnyDialect::Mcp => "/0/inputSchema",
        // The first are checked by the tests of `bosun-core`, the others are not JSON Schema.
        AnyDialect::Served(_) | AnyDialect::GeminiOpenApi | AnyDialect::Ark => "/none",
    };
    let declared: Value = serde_json::from_str(json).unwrap();
    let faults = declared.pointer(pointer).map(schema::faults).unwrap_or_default();
    faults.into_iter().map(|fault| fault.to_string())
}

/// The server accepts what this converter writes: the definition check rejects no schema of the corpus, and
/// every API has a declaration of it.
#[test]
fn the_corpus_passes_the_definition_check() {
    let corpus: Vec<CorpusCase> = fixture("corpus.json");
    let mut refused = Vec::new();
    let mut checked = 0;
    for CorpusCase { id, source } in &corpus {
        for (version, io) in
            [(ZodVersion::V3, ZodIo::Input), (ZodVersion::V4, ZodIo::Output), (ZodVersion::V4, ZodIo::Input)]
        {
            let OurResult::Schema(schema) = convert(source, version, io) else { continue };
            checked += 1;
            let Some(parameters) = parameters(&schema) else {
                refused.extend(schema::faults(&schema).iter().map(|fault| format!("{id} {version:?}: {fault}")));
                continue;
            };
            let definitions = json!([{"name": "tool", "description": "A tool", "parameters": parameters}]);
            match definition::check(&definitions, Rules::Open) {
                Err(faults) => refused.push(format!("{id} {version:?}: {faults}\n  {schema}")),
                Ok(tools) => {
                    let toolset = Toolset::merge(ToolSources::Client, Vec::new(), tools);
                    for dialect in AnyDialect::ALL {
                        let declarations = dialect.declare_toolset(&toolset);
                        // Names are Gemini's own rule, and not a matter of the schema.
                        let quarantined =
                            declarations.quarantined.iter().filter(|tool| !tool.reason.contains("has a name"));
                        refused.extend(quarantined.map(|tool| format!("{id} {version:?}: {tool:?}\n  {schema}")));
                        refused.extend(derived_faults(dialect, &declarations.json).map(|fault| {
                            format!(
                                "{id} {version:?}: {} gets an invalid schema: {fault}\n  {schema}",
                                dialect.as_str()
                            )
                        }));
                    }
                }
            }
        }
    }
    assert!(checked > 500, "{checked} schemas");
    assert!(refused.is_empty(), "{} of {checked}:\n{}", refused.len(), refused.join("\n"));
}
