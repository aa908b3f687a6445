//! Every schema of `fixtures/zod/corpus.json` against what the real packages gave for it.
//!
//! `interop/zod/record.mjs` made `recorded.json`. Results are compared as text, so the order of keys
//! counts. `differences.json` lists what is not the same, with the reason; an entry that is no longer
//! true fails the test just like a difference that is not listed.

use std::{collections::BTreeMap, fs, path::PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::super::{ZodVersion, schema_to_json};

#[derive(Deserialize)]
struct Case {
    id: String,
    source: String,
}

#[derive(Deserialize)]
struct Recorded {
    results: BTreeMap<String, Versions>,
}

#[derive(Deserialize)]
struct Versions {
    v3: Outcome,
    v4: Outcome,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Schema(Value),
    Throws(String),
}

#[derive(Deserialize)]
struct Difference {
    id: String,
    version: String,
    reason: String,
    ours: Ours,
}

/// What this converter gives.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Ours {
    Schema(Value),
    Fault(String),
}

fn fixture<T: for<'de> Deserialize<'de>>(name: &str) -> T {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/zod").join(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn convert(source: &str, version: ZodVersion) -> Ours {
    match schema_to_json(source, version) {
        Ok(converted) => Ours::Schema(converted.schema),
        Err(faults) => Ours::Fault(faults.first().map(|fault| fault.code.to_owned()).unwrap_or_default()),
    }
}

fn agree(ours: &Ours, theirs: &Outcome) -> bool {
    match (ours, theirs) {
        (Ours::Schema(ours), Outcome::Schema(theirs)) => {
            let (ours, theirs) = (ours.to_string(), theirs.to_string());
            ours == theirs
        }
        (Ours::Fault(_), Outcome::Throws(_)) => true,
        _ => false,
    }
}

#[test]
fn the_corpus_gives_what_the_real_packages_give() {
    let corpus: Vec<Case> = fixture("corpus.json");
    let recorded: Recorded = fixture("recorded.json");
    let differences: Vec<Difference> = fixture("differences.json");
    assert!(corpus.len() >= 120, "{} schemas", corpus.len());
    assert_eq!(corpus.len(), recorded.results.len(), "record the corpus again");

    let mut wrong = Vec::new();
    for Case { id, source } in &corpus {
        let versions = &recorded.results[id];
        for (name, version, theirs) in [("v3", ZodVersion::V3, &versions.v3), ("v4", ZodVersion::V4, &versions.v4)] {
            let ours = convert(source, version);
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
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), 2 * corpus.len(), wrong.join("\n"));
}

#[test]
fn every_difference_is_about_a_schema_of_the_corpus() {
    let corpus: Vec<Case> = fixture("corpus.json");
    for Difference { id, version, .. } in fixture::<Vec<Difference>>("differences.json") {
        assert!(corpus.iter().any(|case| case.id == id) && matches!(version.as_str(), "v3" | "v4"), "{id} {version}");
    }
}
