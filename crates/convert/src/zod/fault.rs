//! Faults of a source, with their positions.
//!
//! Inside the converter a [`ZodProblem`] has only a byte offset; [`ZodFault`] is the same thing for users, with line and
//! column. Problems are carried inside values until the value is needed, so that an unreadable error message does not
//! invalidate a schema that never uses it.

use std::{fmt, rc::Rc};

use bosun_reading::Locator;

/// One reason why a source could not be converted.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ZodFault {
    pub line: usize,
    pub column: usize,
    pub code: &'static str,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl fmt::Display for ZodFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {} [{}]", self.line, self.column, self.message, self.code)?;
        match &self.hint {
            Some(hint) => write!(formatter, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ZodFault {}

/// A fault with its offset, before line and column are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ZodProblem {
    pub(super) offset: u32,
    pub(super) code: &'static str,
    pub(super) message: String,
    pub(super) hint: Option<&'static str>,
    /// The tool that it is a problem of, by its offset.
    pub(super) tool: Option<u32>,
}

impl ZodProblem {
    pub(super) fn new(offset: u32, code: &'static str, message: impl Into<String>) -> Self {
        Self { offset, code, message: message.into(), hint: None, tool: None }
    }

    pub(super) fn hint(mut self, hint: &'static str) -> Self {
        self.hint = Some(hint);
        self
    }

    pub(super) fn locate(&self, locator: &Locator<'_>) -> ZodFault {
        let place = locator.place(self.offset as usize);
        ZodFault {
            line: place.line,
            column: place.column,
            code: self.code,
            message: self.message.clone(),
            hint: self.hint.map(str::to_owned),
        }
    }
}

/// Maximum number of tools that one fault lists.
const MOST_TOOLS_LISTED: usize = 8;

/// The faults of a source in the order of their positions, each once. A fault that several tools share lists them, so
/// that every tool that is left out is reported.
pub(super) fn locate_all(mut problems: Vec<ZodProblem>, locator: &Locator<'_>) -> Vec<ZodFault> {
    problems.sort_by(|a, b| (a.offset, &a.message, a.tool).cmp(&(b.offset, &b.message, b.tool)));
    problems.dedup();
    let is_same = |a: &ZodProblem, b: &ZodProblem| {
        (a.offset, a.code, &a.message, a.hint) == (b.offset, b.code, &b.message, b.hint)
    };
    let faults = problems.chunk_by(is_same).filter_map(|same| {
        let mut fault = same.first()?.locate(locator);
        let tools: Vec<u32> = same.iter().filter_map(|problem| problem.tool).collect();
        if tools.len() > 1 {
            let line = |tool: &u32| locator.place(*tool as usize).line.to_string();
            let lines: Vec<String> = tools.iter().take(MOST_TOOLS_LISTED).map(line).collect();
            let more = match tools.len() - lines.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            fault.message = format!("{}; the tools at lines {}{more} are left out", fault.message, lines.join(", "));
        }
        Some(fault)
    });
    faults.collect()
}

/// The problems of one value: at least one. Cheap to clone, because a broken constant is broken wherever it is used.
#[derive(Clone, Debug)]
pub(super) struct Problems(Rc<Vec<ZodProblem>>);

impl Problems {
    pub(super) fn iter(&self) -> impl Iterator<Item = &ZodProblem> {
        self.0.iter()
    }
}

impl From<ZodProblem> for Problems {
    fn from(problem: ZodProblem) -> Self {
        Self(Rc::new(vec![problem]))
    }
}

/// A result whose failure is a list of problems.
pub(super) type ReadSchema<T> = Result<T, Problems>;

/// Maximum number of problems of one value. Constants that use a broken constant twice double them.
const MOST_PROBLEMS: usize = 100;

/// Collects results so that every problem of a construct is reported, not only its first.
#[derive(Debug, Default)]
pub(super) struct FaultCollector {
    problems: Vec<ZodProblem>,
}

impl FaultCollector {
    /// Returns the value, or records the problems.
    pub(super) fn take<T>(&mut self, result: ReadSchema<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(problems) => {
                for problem in problems.iter() {
                    if self.problems.len() < MOST_PROBLEMS && !self.problems.contains(problem) {
                        self.problems.push(problem.clone());
                    }
                }
                None
            }
        }
    }

    /// `value` if there were no problems.
    pub(super) fn finish<T>(self, value: T) -> ReadSchema<T> {
        if self.problems.is_empty() { Ok(value) } else { Err(Problems(Rc::new(self.problems))) }
    }
}
