//! Faults of a source, with their positions.
//!
//! Inside the converter a [`Problem`] has only a byte offset; [`Fault`] is the same thing for users, with line and
//! column. Problems are carried inside values until the value is needed, so that an unreadable error message does not
//! invalidate a schema that never uses it.

use std::{fmt, rc::Rc};

use bosun_reading::Locator;

/// One reason why a source could not be converted.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Fault {
    pub line: usize,
    pub column: usize,
    pub code: &'static str,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {} [{}]", self.line, self.column, self.message, self.code)?;
        match &self.hint {
            Some(hint) => write!(formatter, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Fault {}

/// A fault with its offset, before line and column are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) offset: u32,
    pub(super) code: &'static str,
    pub(super) message: String,
    pub(super) hint: Option<&'static str>,
}

impl Problem {
    pub(super) fn new(offset: u32, code: &'static str, message: impl Into<String>) -> Self {
        Self { offset, code, message: message.into(), hint: None }
    }

    pub(super) fn hint(mut self, hint: &'static str) -> Self {
        self.hint = Some(hint);
        self
    }

    pub(super) fn locate(&self, locator: &Locator<'_>) -> Fault {
        let place = locator.place(self.offset as usize);
        Fault {
            line: place.line,
            column: place.column,
            code: self.code,
            message: self.message.clone(),
            hint: self.hint.map(str::to_owned),
        }
    }
}

/// The problems of one value: at least one. Cheap to clone, because a broken constant is broken wherever it is used.
#[derive(Clone, Debug)]
pub(super) struct Problems(Rc<Vec<Problem>>);

impl Problems {
    pub(super) fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.0.iter()
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(Rc::new(vec![problem]))
    }
}

/// A result whose failure is a list of problems.
pub(super) type Read<T> = Result<T, Problems>;

/// Maximum number of problems of one value. Constants that use a broken constant twice double them.
const MOST_PROBLEMS: usize = 100;

/// Collects results so that every problem of a construct is reported, not only its first.
#[derive(Debug, Default)]
pub(super) struct Gather {
    problems: Vec<Problem>,
}

impl Gather {
    /// Returns the value, or records the problems.
    pub(super) fn take<T>(&mut self, result: Read<T>) -> Option<T> {
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
    pub(super) fn finish<T>(self, value: T) -> Read<T> {
        if self.problems.is_empty() { Ok(value) } else { Err(Problems(Rc::new(self.problems))) }
    }
}
