//! Everything that is wrong with a text of tools, with its place.
//!
//! Reading a text tells what its format says wrong; this adds what the tools say wrong: names,
//! descriptions and schemas by the open rules, names that stand twice, extensions that contradict
//! `required`. All of it at once, in the order of the text.

use bosun_core::{
    schema::normalize,
    tool::definition::{self, Rules},
};
use serde_json::{Value, json};

use crate::{
    ConvertError, Format, Found, Warning,
    document::Document,
    found::{Conversion, Fault},
    read_document, recognise,
    source::Place,
};

/// A text and all that can be said about it.
#[derive(Clone, Debug)]
pub struct Checked {
    /// What the text is; `None` if it could not be told.
    pub format: Option<Format>,
    /// The tools in it, each with its place.
    pub tools: Vec<(Found, Place)>,
    pub problems: Vec<Problem>,
}

/// One thing to say about a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub severity: Severity,
    pub place: Place,
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

impl Checked {
    /// Whether the text is wrong, and not only remarkable.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.problems.iter().any(|problem| problem.severity == Severity::Error)
    }

    fn unreadable(error: &ConvertError) -> Self {
        let place = match error {
            ConvertError::Read(error) => error.place(),
            _ => Place::START,
        };
        let problem = Problem {
            severity: Severity::Error,
            place,
            path: String::new(),
            code: error.code(),
            message: error.to_string(),
            hint: None,
        };
        Self { format: None, tools: Vec::new(), problems: vec![problem] }
    }
}

/// Checks a text, whose format is recognised by its content unless it is given.
#[must_use]
pub fn check(text: &str, from: Option<Format>) -> Checked {
    let document = match Document::read(text) {
        Ok(document) => document,
        Err(error) => return Checked::unreadable(&error.into()),
    };
    let format = match from.map_or_else(|| recognise(&document), Ok) {
        Ok(format) => format,
        Err(error) => return Checked::unreadable(&error),
    };
    check_document(&document, read_document(&document, format))
}

/// Checks the tools that were read from a document, and places everything that was said about it.
#[must_use]
pub fn check_document(document: &Document<'_>, conversion: Conversion) -> Checked {
    let Conversion { format, tools, warnings, mut faults } = conversion;
    let mut remarks: Vec<Remark> = warnings.into_iter().map(Remark::from).collect();
    faults.extend(definition_faults(&tools));
    for found in &tools {
        remarks.extend(schema_remarks(found));
        remarks.extend(deprecation(found));
    }
    remarks.extend(faults.into_iter().map(Remark::from));

    let places = document.places();
    let tools = tools.into_iter().map(|found| (places.find(found.origin.path.as_str()), found));
    let tools: Vec<_> = tools.map(|(place, found)| (found, place)).collect();
    let mut problems: Vec<Problem> =
        remarks.into_iter().map(|remark| remark.placed(places.find(&remark.path))).collect();
    problems.sort_by_key(|problem| problem.place);
    Checked { format: Some(format), tools, problems }
}

/// What is said about a path, before its place is known.
struct Remark {
    severity: Severity,
    path: String,
    code: &'static str,
    message: String,
    hint: Option<String>,
}

impl Remark {
    fn placed(&self, place: Place) -> Problem {
        Problem {
            severity: self.severity,
            place,
            path: self.path.clone(),
            code: self.code,
            message: self.message.clone(),
            hint: self.hint.clone(),
        }
    }
}

impl From<Warning> for Remark {
    fn from(Warning { path, code, message }: Warning) -> Self {
        Self { severity: Severity::Warning, path, code, message, hint: None }
    }
}

impl From<Fault> for Remark {
    fn from(Fault { path, code, message, hint }: Fault) -> Self {
        Self { severity: Severity::Error, path: path.into(), code, message, hint }
    }
}

/// The faults of the tools by the open rules, at the places where the tools were read.
fn definition_faults(tools: &[Found]) -> Vec<Fault> {
    /// The checker's own limit on one list.
    const AT_ONCE: usize = 1_000;
    let mut faults = Vec::new();
    for chunk in tools.chunks(AT_ONCE) {
        let definitions: Vec<Value> = chunk
            .iter()
            .map(|Found { tool, .. }| {
                json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters})
            })
            .collect();
        let Err(found) = definition::check(&Value::Array(definitions), Rules::Open) else { continue };
        for fault in found.faults {
            // `[2].parameters.type` is about the third tool.
            let split = fault.path.strip_prefix('[').and_then(|path| path.split_once(']'));
            let tool = split.and_then(|(index, inside)| Some((chunk.get(index.parse::<usize>().ok()?)?, inside)));
            let Some((tool, inside)) = tool else { continue };
            let path = tool.origin.place_of(inside.trim_start_matches('.'));
            faults.push(Fault { path, code: fault.code, message: fault.message, hint: None });
        }
    }
    faults
}

fn schema_remarks(found: &Found) -> Vec<Remark> {
    let Ok(normalized) = normalize(&found.tool.parameters) else { return Vec::new() };
    let remarks = normalized.warnings.into_iter().map(|warning| {
        let path = found.origin.place_of(&format!("parameters.{}", warning.path));
        Remark {
            severity: Severity::Warning,
            path: path.into(),
            code: "schema_remark",
            message: warning.message,
            hint: None,
        }
    });
    remarks.collect()
}

fn deprecation(found: &Found) -> Option<Remark> {
    let deprecated = found.tool.deprecated.as_ref()?;
    let since = deprecated.since.as_ref().map(|since| format!(" since {since}")).unwrap_or_default();
    let why = deprecated.message.as_ref().map(|message| format!(": {message}")).unwrap_or_default();
    Some(Remark {
        severity: Severity::Warning,
        path: found.origin.path.to_string(),
        code: "deprecated",
        message: format!("`{}` is deprecated{since}{why}", found.tool.name),
        hint: deprecated.replaced_by.as_ref().map(|name| format!("use `{name}`")),
    })
}
