//! What a converter found in a text: tools, remarks and faults.
//!
//! A converter keeps what it can read: one bad tool is a [`Fault`] and the others still come
//! through. A [`Warning`] says what was changed, left out or assumed on the way.

use std::time::Duration;

use bosun_core::{Tool, tool::HttpRequest};

use crate::{
    Format, Warning,
    document::{Path, Trail},
};

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

/// One thing that is wrong in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub path: Path,
    pub code: &'static str,
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// Nobody reads more, and a hostile file could ask for millions.
const MOST: usize = 1_000;

/// Remarks and faults, as a converter collects them. Beyond a number of them they are only counted.
#[derive(Debug, Default)]
pub(crate) struct Report {
    warnings: Vec<Warning>,
    more_warnings: usize,
    faults: Vec<Fault>,
    more_faults: usize,
}

impl Report {
    /// How many faults there are so far. Whoever reads a tool compares before and after.
    pub(crate) fn fault_count(&self) -> usize {
        self.faults.len() + self.more_faults
    }

    pub(crate) fn warn(&mut self, path: &Path, code: &'static str, message: impl Into<String>) {
        self.push_warning(Warning { path: path.to_string(), code, message: message.into() });
    }

    /// A warning on the way down into a value, where writing down the path is the costly part.
    pub(crate) fn warn_at(&mut self, trail: &Trail<'_>, code: &'static str, message: impl Into<String>) {
        if self.warnings.len() < MOST {
            self.warn(&trail.to_path(), code, message);
        } else {
            self.more_warnings += 1;
        }
    }

    pub(crate) fn push_warning(&mut self, warning: Warning) {
        if self.warnings.len() < MOST {
            self.warnings.push(warning);
        } else {
            self.more_warnings += 1;
        }
    }

    /// As [`Report::warn_at`], for a fault.
    pub(crate) fn fault_at(&mut self, trail: &Trail<'_>, code: &'static str, message: impl Into<String>) {
        if self.faults.len() < MOST {
            self.fault(&trail.to_path(), code, message);
        } else {
            self.more_faults += 1;
        }
    }

    pub(crate) fn fault(&mut self, path: &Path, code: &'static str, message: impl Into<String>) {
        self.push_fault(Fault { path: path.clone(), code, message: message.into(), hint: None });
    }

    pub(crate) fn fault_with_hint(
        &mut self,
        path: &Path,
        code: &'static str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.push_fault(Fault { path: path.clone(), code, message: message.into(), hint: Some(hint.into()) });
    }

    pub(crate) fn push_fault(&mut self, fault: Fault) {
        if self.faults.len() < MOST {
            self.faults.push(fault);
        } else {
            self.more_faults += 1;
        }
    }

    /// All of it, with a word on what was only counted.
    pub(crate) fn conclude(mut self, format: Format, tools: Vec<Found>) -> Conversion {
        if self.more_warnings > 0 {
            let message = format!("there are {} more warnings", self.more_warnings);
            self.warnings.push(Warning { path: String::new(), code: "more", message });
        }
        if self.more_faults > 0 {
            let message = format!("there are {} more faults", self.more_faults);
            self.faults.push(Fault { path: Path::root(), code: "more", message, hint: None });
        }
        Conversion { format, tools, warnings: self.warnings, faults: self.faults }
    }
}
