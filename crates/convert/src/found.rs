//! The result of a conversion: tools, remarks and faults.
//!
//! A converter keeps what it can read: one bad tool is a [`Fault`] and the others still come
//! through. A [`Warning`] says what was changed, left out or assumed on the way.

use std::time::Duration;

use bosun_core::{Tool, tool::HttpRequest};
pub(crate) use bosun_reading::Report;
use bosun_reading::{Fault, Warning};
use serde_json::Value;

use crate::{Format, document::Path};

/// Everything that was read from one text.
#[derive(Clone, Debug)]
pub struct Conversion {
    pub format: Format,
    pub tools: Vec<Found>,
    pub warnings: Vec<Warning>,
    /// The faults of the text. Faulty tools are not among `tools`.
    pub faults: Vec<Fault>,
}

/// One tool, and where it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    pub tool: Tool,
    pub origin: ToolOrigin,
    pub inside: InsideTool,
    /// The tool as MCP's `tools/list` had it, with fields that a [`Tool`] has no place for.
    pub entry: Option<Box<Value>>,
}

impl Found {
    /// A tool that is run as its binding says.
    pub(crate) fn new(tool: Tool, origin: ToolOrigin) -> Self {
        Self { tool, origin, inside: InsideTool::AsBound, entry: None }
    }
}

/// The position of a tool in its document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolOrigin {
    pub path: Path,
    /// The path of its parameters, if they were copied unchanged from one place.
    pub parameters: Option<Path>,
}

impl ToolOrigin {
    /// The path in the document for a path inside of the tool, such as `parameters.properties.limit` or `name`.
    #[must_use]
    pub fn place_of(&self, inside: &str) -> Path {
        match inside.strip_prefix("parameters") {
            Some(rest) if rest.is_empty() || rest.starts_with(['.', '[']) => {
                self.parameters.as_ref().map_or_else(|| self.path.clone(), |path| path.join(rest))
            }
            _ => self.path.join(inside),
        }
    }
}

/// Whether a tool can be run inside of Bosun, which matters when it moves out of the system that
/// runs it now.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum InsideTool {
    /// Its binding already defines how it is run.
    #[default]
    AsBound,
    /// It can be run as this request.
    AsRequest(Box<ConversionRequest>),
    /// It cannot; this is why.
    Never(String),
}

/// A request that does what a tool of another system does.
#[derive(Clone, Debug, PartialEq)]
pub struct ConversionRequest {
    pub http: HttpRequest,
    /// What the tool takes and says as a request, where that differs from the tool of the other system.
    pub takes: Option<Box<RequestTool>>,
    pub timeout: Option<Duration>,
    /// What the other system did and the request does not.
    pub losses: Vec<Warning>,
}

/// The description and the parameters of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestTool {
    pub description: String,
    pub parameters: Value,
}

/// Converts a report, with a final remark on faults that were only counted.
pub(crate) fn conclude(report: Report, format: Format, tools: Vec<Found>) -> Conversion {
    let mut warnings = report.take_warnings();
    let (more_warnings, more_faults) = (report.warnings_omitted(), report.faults_omitted());
    if more_warnings > 0 {
        let message = format!("there are {more_warnings} more warnings");
        warnings.push(Warning { path: String::new(), code: "more", message });
    }
    let mut faults = report.into_faults();
    if more_faults > 0 {
        faults.push(Fault::of_file("", "more", format!("there are {more_faults} more faults")));
    }
    Conversion { format, tools, warnings, faults }
}
