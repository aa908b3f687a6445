//! The part of `bosun check` that uses the server's own reader of manifests: agents, models, and the references between
//! all of them.
//!
//! Tools are left to the converter, which has checked them already. The server's faults inside a tool are therefore
//! dropped, except three kinds: templates, missing references, and, as a warning, tools that this version does not run.
//! A file that the server would not read at all is reported, whatever is in it.

use std::{path::PathBuf, sync::Arc};

use bosun_adapters::{manifests, runner::builtin::Builtins};
use bosun_convert::{CheckedDocument, Severity, ToolProblem};
use bosun_engine::SystemClock;
use bosun_reading::{Fault, SourcePlace};
use serde_json::Value;

/// Faults of tools that only the server's reader finds. They concern one document, regardless of the others.
const OF_TEMPLATES: &[&str] = &["bad_template", "unknown_parameter", "bad_annotation"];
/// Faults of a whole file, which the server reads within narrower bounds than the converter does.
const OF_FILES: &[&str] = &["file_too_large", "yaml_syntax", "unreadable_file"];

/// The manifests of one run, to be read together.
#[derive(Default)]
pub(super) struct Manifests {
    files: Vec<File>,
}

struct File {
    path: PathBuf,
    shown: String,
    documents: Vec<Document>,
}

struct Document {
    begins: SourcePlace,
    is_tool: bool,
}

impl Manifests {
    /// Adds a file whose documents are resources.
    pub(super) fn add(&mut self, path: PathBuf, shown: String, checked: &CheckedDocument<'_>) {
        let parts = checked.document().into_iter().flat_map(|document| document.parts());
        let documents = parts.map(|(path, value)| Document {
            begins: checked.place_of(path.as_str()),
            is_tool: value.get("kind").and_then(Value::as_str) == Some("Tool"),
        });
        let documents = documents.collect();
        self.files.push(File { path, shown, documents });
    }

    /// The faults of agents, models and references, each with its file.
    pub(super) fn check(&self) -> Vec<(String, ToolProblem)> {
        let has_only_tools = self.files.iter().all(|file| file.documents.iter().all(|document| document.is_tool));
        let paths: Vec<PathBuf> = self.files.iter().map(|file| file.path.clone()).collect();
        let (manifests, warnings) = manifests::review(&paths, &Builtins::new(Arc::new(SystemClock)), Vec::new());
        let faults = manifests.err().into_iter().flatten().map(|fault| (Severity::Error, fault));
        let warnings = warnings.into_iter().map(|warning| (Severity::Warning, warning));
        // What tools alone refer to may be in other folders of the server.
        let is_of_tools = |code| OF_TEMPLATES.contains(&code) || OF_FILES.contains(&code);
        let found = faults.chain(warnings).filter(|(_, fault)| !has_only_tools || is_of_tools(fault.code));
        found.filter_map(|(severity, fault)| self.problem(severity, fault)).collect()
    }

    fn problem(&self, severity: Severity, fault: Fault) -> Option<(String, ToolProblem)> {
        let place = fault.place.unwrap_or(SourcePlace::START);
        let file = self.files.iter().find(|file| file.path == fault.file);
        let document = file.and_then(|file| file.documents.iter().rev().find(|document| document.begins <= place));
        let is_in_tool = document.is_some_and(|document| document.is_tool);
        let is_reported = match fault.code {
            _ if !is_in_tool || severity == Severity::Warning => true,
            "unknown_tool" | "unknown_agent" | "unknown_team" | "unknown_mcp_server" | "unknown_config_map" => true,
            code => OF_TEMPLATES.contains(&code) || OF_FILES.contains(&code),
        };
        if !is_reported {
            return None;
        }
        let shown = file.map_or_else(|| fault.file.display().to_string(), |file| file.shown.clone());
        let (code, message, hint) = (fault.code, fault.message, fault.hint);
        Some((shown, ToolProblem { severity, place, path: String::new(), code, message, hint }))
    }
}
