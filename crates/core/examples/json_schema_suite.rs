//! Runs the official JSON Schema test suite against the validation of arguments.
//!
//! ```sh
//! json_schema_suite <folder `tests` of the suite> <differences.json>
//! ```
//!
//! Prints a line for each draft. Results that differ from the suite's must be listed in the second file with a reason:
//! a code with which schemas are rejected on purpose, or a single verdict. A difference that is not listed, and an
//! entry that is no longer true, make the run fail. `interop/json-schema/run.sh` fetches the suite.

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use bosun_core::Schema;
use serde::Deserialize;
use serde_json::{Value, json};

/// The folder of a draft in the suite, and how a schema names it.
const DRAFTS: [(&str, &str); 2] = [
    ("draft7", "http://json-schema.org/draft-07/schema#"),
    ("draft2020-12", "https://json-schema.org/draft/2020-12/schema"),
];

#[derive(Deserialize)]
struct SuiteGroup {
    description: String,
    schema: Value,
    tests: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    description: String,
    data: Value,
    valid: bool,
}

/// The known differences.
#[derive(Deserialize)]
struct Differences {
    refused: BTreeMap<String, RefusedCase>,
    verdicts: Vec<CaseVerdict>,
}

/// Rejected schemas, by the code of the rejection.
#[derive(Deserialize)]
struct RefusedCase {
    reason: String,
    /// How many tests have such a schema, by draft.
    tests: BTreeMap<String, usize>,
}

#[derive(Deserialize)]
struct CaseVerdict {
    test: String,
    reason: String,
}

/// The result of one part of a draft.
#[derive(Default)]
struct Score {
    tests: usize,
    right: usize,
    refused: BTreeMap<String, usize>,
    wrong: BTreeSet<String>,
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [suite, differences] = arguments.as_slice() else {
        return Err("usage: json_schema_suite <folder of tests> <differences.json>".into());
    };
    let known: Differences = serde_json::from_str(&fs::read_to_string(differences)?)?;
    let mut output = io::stdout().lock();
    let mut problems = Vec::new();
    let mut wrong = BTreeSet::new();
    for (draft, uri) in DRAFTS {
        let mut refused: BTreeMap<String, usize> = BTreeMap::new();
        for part in ["", "optional", "optional/format"] {
            let score = run(&suite.join(draft).join(part), &format!("{draft}/{part}"), uri)?;
            let name = format!("{draft} {part}");
            writeln!(output, "{:<30}{:>5} of {:>5} tests as expected", name.trim_end(), score.right, score.tests)?;
            for (code, tests) in score.refused {
                writeln!(output, "{tests:>37} have a schema that is refused: {code}")?;
                *refused.entry(code).or_default() += tests;
            }
            if !score.wrong.is_empty() {
                writeln!(output, "{:>37} have another verdict", score.wrong.len())?;
            }
            wrong.extend(score.wrong);
        }
        for code in refused.keys().chain(known.refused.keys()).collect::<BTreeSet<_>>() {
            let now = refused.get(code).copied().unwrap_or_default();
            let listed = known.refused.get(code).and_then(|entry| entry.tests.get(draft)).copied().unwrap_or_default();
            if now != listed {
                problems
                    .push(format!("{draft}: {now} tests have a schema that is refused as {code}, listed are {listed}"));
            }
        }
    }
    let listed: BTreeSet<String> = known.verdicts.iter().map(|verdict| verdict.test.clone()).collect();
    problems.extend(wrong.difference(&listed).map(|test| format!("not listed: {test}")));
    problems.extend(listed.difference(&wrong).map(|test| format!("no longer true: {test}")));
    let reasons =
        known.refused.values().map(|entry| &entry.reason).chain(known.verdicts.iter().map(|entry| &entry.reason));
    if reasons.into_iter().any(String::is_empty) {
        problems.push("an entry has no reason".to_owned());
    }
    for problem in &problems {
        writeln!(output, "{problem}")?;
    }
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run(folder: &Path, shown: &str, draft: &str) -> Result<Score, Box<dyn Error>> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    let mut score = Score::default();
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let groups: Vec<SuiteGroup> = serde_json::from_str(&fs::read_to_string(&file)?)
            .map_err(|error| format!("{}: {error}", file.display()))?;
        for group in groups {
            let schema = Schema::compile(&Arc::new(with_draft(group.schema, draft)));
            for test in group.tests {
                score.tests += 1;
                match &schema {
                    Err(error) => *score.refused.entry(error.fault.code().to_owned()).or_default() += 1,
                    Ok(schema) if schema.validate(&test.data).is_empty() == test.valid => score.right += 1,
                    Ok(_) => {
                        let at = shown.trim_end_matches('/');
                        score.wrong.insert(format!("{at}/{name}: {}: {}", group.description, test.description));
                    }
                }
            }
        }
    }
    Ok(score)
}

/// The suite leaves the draft to its runner; a schema here declares its own.
fn with_draft(mut schema: Value, draft: &str) -> Value {
    if let Value::Object(fields) = &mut schema
        && !fields.contains_key("$schema")
    {
        fields.shift_insert(0, "$schema".to_owned(), json!(draft));
    }
    schema
}
