//! Validation of a text of tools: all faults, with their positions.
//!
//! Reading a text finds the faults of its format; this adds the faults of its tools: names, descriptions and
//! schemas by the open rules, duplicate names, extensions that contradict `required`. All are reported at once, in
//! the order of the text.

use std::{borrow::Cow, cell::OnceCell};

use bosun_core::{
    audit::redact_text,
    schema::normalize,
    tool::{
        definition::{self, Rules},
        routing::{RouteFault, ToolRoute},
    },
};
use bosun_reading::{Fault, Report, SourcePlace};
use serde_json::json;

use crate::{
    ConvertError, ConvertOptions, Format, Found, OutputText, Warning,
    document::{Document, Path, Places},
    found::{Conversion, conclude},
    read_document, read_source,
};

/// A text and all remarks about it.
#[derive(Debug)]
pub struct CheckedDocument<'a> {
    /// The format of the text; `None` if it was not recognised.
    pub format: Option<Format>,
    /// The tools in it that have no fault.
    pub tools: Vec<Found>,
    pub problems: Vec<ToolProblem>,
    document: Option<Document<'a>>,
    places: OnceCell<Places>,
}

/// One remark about a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolProblem {
    pub severity: Severity,
    pub place: SourcePlace,
    pub path: String,
    pub code: &'static str,
    pub message: String,
    pub hint: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Warning,
    Error,
}

impl Severity {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl CheckedDocument<'_> {
    /// Whether any of the problems is an error.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.problems.iter().any(|problem| problem.severity == Severity::Error)
    }

    /// The data of the text; `None` if it could not be read or is source code.
    #[must_use]
    pub fn document(&self) -> Option<&Document<'_>> {
        self.document.as_ref()
    }

    /// The position of the value at `path` in the text.
    #[must_use]
    pub fn place_of(&self, path: &str) -> SourcePlace {
        let Some(document) = &self.document else { return place_in_source(path).unwrap_or(SourcePlace::START) };
        self.places.get_or_init(|| document.places()).find(path)
    }

    /// A remark on the text that was made later, for instance when its tools were written.
    #[must_use]
    pub fn placed(&self, warning: Warning) -> ToolProblem {
        let place = self.place_of(&warning.path);
        Remark::from(warning).placed(place)
    }

    /// The problem of a text without tools: a result that is empty for no reason is one. `file` is the name of the text.
    #[must_use]
    pub fn nothing_found(&self, file: &str) -> Option<ToolProblem> {
        let format = self.format.filter(|_| self.tools.is_empty() && !self.has_errors())?;
        let looked_for = match format {
            // Its other resources are checked with those of the other files.
            Format::ArkManifest => return None,
            Format::Zod => {
                "`tool(…)`, `createTool`, `registerTool`, `new DynamicStructuredTool`, classes that extend \
                 `StructuredTool`, and objects with `name`, `description` and `schema`"
            }
            Format::N8n => "nodes with an `ai_tool` connection to an agent",
            Format::OpenApi => "operations under `paths`",
            _ => "a list of tools",
        };
        Some(ToolProblem {
            severity: Severity::Error,
            place: SourcePlace::START,
            path: String::new(),
            code: "no_tools",
            message: format!("no tools in {file}: looked for {looked_for}"),
            hint: None,
        })
    }

    /// A text of which nothing could be read.
    #[must_use]
    pub fn unreadable(error: &ConvertError) -> Self {
        let place = match error {
            ConvertError::Read(error) => error.place(),
            _ => SourcePlace::START,
        };
        let hint = match error {
            ConvertError::NotBuilt(format) => {
                Some(format!("build with the default features, or with `--features {format}`"))
            }
            _ => None,
        };
        let (code, message) = (error.code(), error.to_string());
        let problem = ToolProblem { severity: Severity::Error, place, path: String::new(), code, message, hint };
        Self { format: None, tools: Vec::new(), problems: vec![problem], document: None, places: OnceCell::new() }
    }
}

/// Checks a text.
#[must_use]
pub fn check<'a>(text: &'a str, options: ConvertOptions<'_>) -> CheckedDocument<'a> {
    match OutputText::read(text, options) {
        Ok(OutputText::Source) => match read_source(text, options) {
            Ok(conversion) => check_conversion(None, conversion),
            Err(error) => CheckedDocument::unreadable(&error),
        },
        Ok(OutputText::Data(document, format)) => {
            let conversion = read_document(&document, format, options);
            check_conversion(Some(document), conversion)
        }
        Err(error) => CheckedDocument::unreadable(&error),
    }
}

/// Checks the tools that were read from a document, and locates every remark about it.
fn check_conversion(document: Option<Document<'_>>, conversion: Conversion) -> CheckedDocument<'_> {
    let Conversion { format, mut tools, warnings, faults } = conversion;
    let report = Report::of_conversion();
    warnings.into_iter().for_each(|warning| report.push_warning(warning));
    faults.into_iter().for_each(|fault| report.add(fault));
    let mut broken = vec![false; tools.len()];
    definition_faults(&tools, &mut broken, &report);
    for (found, is_broken) in tools.iter().zip(&mut broken) {
        if let Some((path, fault)) = route_fault(found) {
            *is_broken = true;
            report.fault(&path, fault.code(), fault.to_string());
        }
        schema_remarks(found, &report);
        if let Some(message) = found.tool.deprecation_warning() {
            report.warn(&found.origin.place_of("deprecated"), "tool_deprecated", message);
        }
    }
    let mut is_sound = broken.into_iter().map(|is_broken| !is_broken);
    tools.retain(|_| is_sound.next().unwrap_or(true));

    let Conversion { format, tools, warnings, faults } = conclude(report, format, tools);
    let remarks = warnings.into_iter().map(Remark::from).chain(faults.into_iter().map(Remark::from));
    let mut checked =
        CheckedDocument { format: Some(format), tools, problems: Vec::new(), document, places: OnceCell::new() };
    let mut problems: Vec<ToolProblem> = Vec::new();
    for remark in remarks {
        let place = checked.place_of(&remark.path);
        problems.push(remark.placed(place));
    }
    problems.sort_by_key(|problem| problem.place);
    checked.problems = problems;
    checked
}

/// The position that a path into source code denotes: `12:5`, with or without a file name before it.
fn place_in_source(path: &str) -> Option<SourcePlace> {
    let (rest, column) = path.rsplit_once(':')?;
    let line = rest.rsplit(':').next()?;
    Some(SourcePlace { line: line.parse().ok()?, column: column.parse().ok()? })
}

/// A remark about a path, before its position is known.
struct Remark {
    severity: Severity,
    path: String,
    code: &'static str,
    message: String,
    hint: Option<String>,
}

impl Remark {
    fn placed(self, place: SourcePlace) -> ToolProblem {
        let Self { severity, mut path, code, message, hint } = self;
        if place_in_source(&path) == Some(place) {
            path.clear();
        }
        // The path of an operation may have a key in its query.
        if path.contains('?')
            && let Cow::Owned(shown) = redact_text(&path)
        {
            path = shown;
        }
        ToolProblem { severity, place, path, code, message, hint }
    }
}

impl From<Warning> for Remark {
    fn from(Warning { path, code, message }: Warning) -> Self {
        Self { severity: Severity::Warning, path, code, message, hint: None }
    }
}

impl From<Fault> for Remark {
    fn from(Fault { path, code, message, hint, .. }: Fault) -> Self {
        Self { severity: Severity::Error, path: path.into(), code, message, hint }
    }
}

/// Reports the faults of the tools by the open rules, at the positions where the tools were read, and marks the
/// faulty ones.
fn definition_faults(tools: &[Found], broken: &mut [bool], report: &Report) {
    /// The checker's own limit on one list.
    const AT_ONCE: usize = 1_000;
    for (chunk, broken) in tools.chunks(AT_ONCE).zip(broken.chunks_mut(AT_ONCE)) {
        let definitions = chunk.iter().map(|Found { tool, .. }| {
            json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters})
        });
        let Err(found) = definition::check(&definitions.collect(), Rules::Open) else { continue };
        for fault in found.faults.into_listed() {
            // `[2].parameters.type` is about the third tool.
            let split = fault.path.as_str().strip_prefix('[').and_then(|path| path.split_once(']'));
            let split = split.and_then(|(index, inside)| Some((index.parse::<usize>().ok()?, inside)));
            let Some((index, inside)) = split.filter(|(index, _)| *index < chunk.len()) else { continue };
            broken[index] = true;
            let path = chunk[index].origin.place_of(inside.trim_start_matches('.'));
            report.add(Fault { path, ..fault });
        }
    }
}

fn schema_remarks(found: &Found, report: &Report) {
    // An invalid schema is a fault, and reported as one.
    for warning in normalize(&found.tool.parameters).map(|normalized| normalized.warnings).unwrap_or_default() {
        let path = found.origin.place_of(&format!("parameters.{}", warning.path));
        report.warn(&path, "schema_suspicious", warning.message);
    }
}

/// A cache tool must say which model it reads, whatever its arguments are.
fn route_fault(found: &Found) -> Option<(Path, RouteFault)> {
    let fault = ToolRoute::of(&found.tool).err()?;
    let field = if matches!(fault, RouteFault::UnknownAlias(_)) { "entity_aliases" } else { "cache_model" };
    Some((found.origin.place_of(field), fault))
}
