//! What a converter found in a text: tools, remarks and faults.
//!
//! A converter keeps what it can read: one bad tool is a [`Fault`] and the others still come
//! through. A [`Warning`] says what was changed, left out or assumed on the way.

use std::time::Duration;

use bosun_core::{Tool, tool::HttpRequest};
pub(crate) use bosun_reading::Report;
use bosun_reading::{Fault, Warning};

use crate::{Format, document::Path};

/// All that one text had to say.
#[derive(Clone, Debug)]
pub struct Conversion {
    pub format: Format,
    pub tools: Vec<Found>,
    pub warnings: Vec<Warning>,
    /// What is wrong in the text. The tools that are wrong are not among `tools`.
    pub faults: Vec<Fault>,
}

/// One tool, and where it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    pub tool: Tool,
    pub origin: Origin,
    pub inside: Inside,
}

impl Found {
    pub(crate) fn new(tool: Tool, origin: Origin) -> Self {
        Self { tool, origin, inside: Inside::AsBound }
    }
}

/// Where in its document a tool is described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    pub path: Path,
    /// Where its parameters stand, if they were copied from one place as they are.
    pub parameters: Option<Path>,
}

impl Origin {
    /// The place in the document that a path inside of the tool speaks of, such as
    /// `parameters.properties.limit` or `name`.
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
pub enum Inside {
    /// Its binding already says how it is run.
    #[default]
    AsBound,
    /// It can be run as this request.
    AsRequest(Box<Request>),
    /// It cannot; this is why.
    Never(String),
}

/// A request that does what a tool of another system does.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    pub http: HttpRequest,
    pub timeout: Option<Duration>,
    /// What the request does not do that the other system did.
    pub losses: Vec<Warning>,
}

/// All of it, with a word on what was only counted.
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
