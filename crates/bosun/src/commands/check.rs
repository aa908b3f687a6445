//! `bosun check`: reports every fault of files of tools and agents, or of a store, at once.

mod manifests;
mod store;

use std::{collections::HashMap, path::PathBuf, process::ExitCode};

use bosun_convert::{CheckedDocument, ConvertOptions, Format, Severity, ToolProblem, document};
use bosun_reading::SourcePlace;
use serde_json::json;

use manifests::Manifests;
pub(crate) use store::contents;

use super::{
    input,
    report::{self, count},
};

/// Check files of tools and agents, or a store, and report every fault at once.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  bosun check tool-config.json agents/
  bosun check --json petstore.yaml | jq '.[] | select(.severity == \"error\")'
  bosun check --data ./data

Knows tool-config.json, YAML resources of ARK, lists of tools, n8n exports and OpenAPI descriptions. In a folder it looks
at every JSON and YAML file and passes over those that are something else. A store is read and not changed, also while a
server uses it. Exit code 1 means that there are faults.")]
pub(crate) struct Check {
    /// Files, folders, or `-` for standard input
    #[arg(required_unless_present = "data", value_name = "FILE|FOLDER")]
    paths: Vec<PathBuf>,
    /// Check the store in this directory instead
    #[arg(long, value_name = "DIR", conflicts_with = "paths")]
    data: Option<PathBuf>,
    /// Print the report as JSON on standard output
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        if let Some(dir) = &self.data {
            return Ok(store::check(dir, self.json));
        }
        let mut reports: Vec<(String, ToolProblem)> = Vec::new();
        let mut catalog = Catalog::default();
        let mut manifests = Manifests::default();
        let mut files = 0;
        for source in input::sources(&self.paths)? {
            let bytes = source.read()?;
            let mut checked = read(&bytes, ConvertOptions::default());
            if source.is_incidental && is_something_else(&checked) {
                continue;
            }
            files += 1;
            let shown = source.shown();
            checked.problems.extend(catalog.add(&shown, &checked));
            if checked.format == Some(Format::ArkManifest) {
                manifests.add(source.path, shown.clone(), &checked);
                // Documents that are not tools are checked with all the other manifests.
                checked.problems.retain(|problem| problem.code != "not_a_tool");
            }
            reports.extend(checked.problems.into_iter().map(|problem| (shown.clone(), problem)));
        }
        reports.extend(manifests.check());
        // Files keep the order in which they were given, and the problems of each file their own.
        let order: HashMap<String, usize> =
            reports.iter().enumerate().rev().map(|(at, (file, _))| (file.clone(), at)).collect();
        reports.sort_by_key(|(file, problem)| (order.get(file).copied(), problem.place));
        let errors = reports.iter().filter(|(_, problem)| problem.severity == Severity::Error).count();
        if self.json {
            let entries: Vec<_> = reports.iter().map(|(file, problem)| report::to_json(file, problem)).collect();
            anstream::println!("{:#}", json!(entries));
        } else {
            reports.iter().for_each(|(file, problem)| report::print(file, problem));
            let warnings = reports.len() - errors;
            anstream::eprintln!("{}, {}, {}", count(files, "file"), count(errors, "error"), count(warnings, "warning"));
        }
        Ok(if errors > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

/// Everything that can be reported about the bytes of a file.
pub(crate) fn read(bytes: &[u8], options: ConvertOptions) -> CheckedDocument<'_> {
    match document::decode(bytes) {
        Ok(text) => bosun_convert::check(text, options),
        Err(error) => CheckedDocument::unreadable(&error.into()),
    }
}

/// A file found in a folder that is not one of ours.
pub(crate) fn is_something_else(checked: &CheckedDocument<'_>) -> bool {
    checked.problems.iter().any(|problem| problem.code == "unknown_format")
}

/// The tools of all files that form a catalogue: there, names are unique.
#[derive(Default)]
struct Catalog {
    names: HashMap<String, (String, SourcePlace)>,
}

impl Catalog {
    fn add(&mut self, file: &str, checked: &CheckedDocument<'_>) -> Vec<ToolProblem> {
        // Exports and descriptions of other systems are converted before they join a catalogue.
        if !matches!(checked.format, Some(Format::ToolConfig | Format::ArkManifest)) {
            return Vec::new();
        }
        let mut problems = Vec::new();
        for found in &checked.tools {
            let path = found.origin.path.as_str();
            let place = checked.place_of(path);
            match self.names.get(&found.tool.name) {
                None => {
                    self.names.insert(found.tool.name.clone(), (file.to_owned(), place));
                }
                Some((other, other_place)) => problems.push(ToolProblem {
                    severity: Severity::Error,
                    place,
                    path: path.to_owned(),
                    code: "duplicate_name",
                    message: format!("`{}` is also a tool of {other}:{other_place}", found.tool.name),
                    hint: None,
                }),
            }
        }
        problems
    }
}
