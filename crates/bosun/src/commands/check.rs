//! `bosun check`: reports every fault of files of tools and agents, or of a store, at once.

mod live;
mod manifests;
mod store;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    process::ExitCode,
};

use bosun_adapters::runner::http::template_faults;
use bosun_convert::{CheckedDocument, ConvertOptions, Format, Severity, ToolProblem, document};
use bosun_core::Binding;
use bosun_reading::SourcePlace;
use serde_json::json;

use live::Live;
use manifests::Manifests;
pub(crate) use store::contents;

use super::{
    folder::SourceFolder,
    input,
    report::{self, count},
};

/// Check files of tools and agents, or a store, and report every fault at once.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  bosun check tool-config.json agents/
  bosun check --json petstore.yaml | jq '.[] | select(.severity == \"error\")'
  bosun check --data ./data
  bosun check --live --nango-url https://api.nango.dev tool-config.json

It reads tool-config.json, YAML resources of ARK, lists of tools, n8n exports, OpenAPI descriptions and tools in
TypeScript. In a folder it checks every file of data or source code and skips those of other formats. A store is only
read, even while a server uses it. Exit code 1 means that there are faults.")]
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
    #[command(flatten)]
    live: Live,
}

impl Check {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        if let Some(dir) = &self.data {
            return Ok(store::check(dir, self.json));
        }
        let mut reports: Vec<(String, ToolProblem)> = Vec::new();
        let mut catalog = Catalog::default();
        let mut manifests = Manifests::default();
        let (mut files, mut live) = (0, Vec::new());
        for source in input::sources(&self.paths)? {
            let bytes = source.read()?;
            let folder = SourceFolder::of(&source);
            let mut checked = read(&bytes, folder.options());
            let is_ours = is_named_as_ours(&source.path) || is_broken_source(&checked, &bytes);
            if source.is_incidental() && !is_ours && is_something_else(&checked) {
                continue;
            }
            files += 1;
            let shown = source.shown();
            let is_broken_view =
                source.is_incidental() && is_view(&source.path) && checked.problems.iter().any(is_of_syntax);
            if is_broken_view {
                // JSX is not read, and most files with it have no tools.
                checked.problems.iter_mut().for_each(|problem| problem.severity = Severity::Warning);
            }
            // A file of another system may have no tools; its name, or what is odd in it, says that it should have some.
            let is_meant = !source.is_incidental() || is_named_as_ours(&source.path) || !checked.problems.is_empty();
            if is_meant && !is_broken_view {
                checked.problems.extend(checked.nothing_found(&shown));
            }
            checked.problems.extend(catalog.add(&shown, &checked));
            if checked.format != Some(Format::ArkManifest) {
                checked.problems.extend(template_problems(&checked));
            }
            if self.live.is_on() {
                live.extend(checked.tools.iter().map(|found| {
                    let path = found.origin.path.as_str();
                    (shown.clone(), checked.place_of(path), path.to_owned(), found.tool.clone())
                }));
            }
            if checked.format == Some(Format::ArkManifest) {
                manifests.add(source.path, shown.clone(), &checked);
                // Documents that are not tools are checked with all the other manifests.
                checked.problems.retain(|problem| problem.code != "not_a_tool");
            }
            reports.extend(checked.problems.into_iter().map(|problem| (shown.clone(), problem)));
        }
        reports.extend(manifests.check());
        reports.extend(self.live.check(&live)?);
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
pub(crate) fn read<'a>(bytes: &'a [u8], options: ConvertOptions<'_>) -> CheckedDocument<'a> {
    match document::decode(bytes) {
        Ok(text) => bosun_convert::check(text, options),
        Err(error) => CheckedDocument::unreadable(&error.into()),
    }
}

/// Faults of the templates of HTTP tools. Those of manifests are also found by the reader of manifests.
pub(crate) fn template_problems(checked: &CheckedDocument<'_>) -> Vec<ToolProblem> {
    let mut problems = Vec::new();
    for found in &checked.tools {
        let Binding::Http(request) = &found.tool.binding else { continue };
        // A tool of ARK may have no schema: then its slots take any argument.
        let parameters = found.origin.parameters.as_ref().map(|_| &*found.tool.parameters);
        for fault in template_faults(request, parameters) {
            let path = found.origin.path.join(&format!(".spec.http.{}", fault.field));
            problems.push(ToolProblem {
                severity: Severity::Error,
                place: checked.place_of(path.as_str()),
                path: found.origin.path.to_string(),
                code: fault.code,
                message: format!("tool `{}`: {}", found.tool.name, fault.message),
                hint: Some(fault.hint.to_owned()).filter(|hint| !hint.is_empty()),
            });
        }
    }
    problems
}

/// Faults of a source as a whole, which one without tools may have as well.
const FAULTS_OF_SOURCES: [&str; 6] =
    ["syntax_error", "source_too_long", "nested_too_deeply", "ambiguous_slash", "parser_failed", "not_built"];

/// A file found in a folder that is not one of ours.
pub(crate) fn is_something_else(checked: &CheckedDocument<'_>) -> bool {
    let is_of_source =
        |problem: &ToolProblem| problem.severity == Severity::Warning || FAULTS_OF_SOURCES.contains(&problem.code);
    let is_other_source = checked.format == Some(Format::Zod) && checked.tools.is_empty();
    checked.problems.iter().any(|problem| matches!(problem.code, "unknown_format" | "not_built"))
        || (is_other_source && checked.problems.iter().all(is_of_source))
}

/// Whether a source that could not be parsed imports a library of tools: then it may well have some.
fn is_broken_source(checked: &CheckedDocument<'_>, bytes: &[u8]) -> bool {
    const LIBRARIES: [&str; 5] = ["zod", "ai", "@modelcontextprotocol/", "@langchain/", "@mastra/"];
    let is_library = |quoted: &str| {
        let (name, is_path) = (quoted.split('/').next().unwrap_or_default(), quoted.contains('/'));
        LIBRARIES.iter().any(|library| match library.strip_suffix('/') {
            Some(scope) => is_path && name == scope,
            None => name == *library,
        })
    };
    checked.format == Some(Format::Zod)
        && checked.has_errors()
        && str::from_utf8(bytes).is_ok_and(|text| text.split(['"', '\'']).any(is_library))
}

fn is_of_syntax(problem: &ToolProblem) -> bool {
    problem.code == "syntax_error"
}

/// Whether a source may have JSX.
fn is_view(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "tsx" || extension == "jsx")
}

/// Whether the name of a file says that it is ours, whatever is in it.
fn is_named_as_ours(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "tool-config.json")
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
