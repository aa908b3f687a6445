//! Faults of a text, with their places.
//!
//! Plain data: the program decides how it looks on a terminal.

use std::{fmt, path::PathBuf};

use crate::{Path, SourcePlace};

/// One thing that is wrong with one text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Empty for a text that is not a file.
    pub file: PathBuf,
    /// The value in the document that is at fault, or the one around it that lacks something.
    pub path: Path,
    /// `None` where the file as a whole is at fault, and for values that have no place in a text.
    pub place: Option<SourcePlace>,
    pub code: &'static str,
    pub class: FaultClass,
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// What kind of fault it is: requests with faults of one class have an error code of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FaultClass {
    /// Another text in its place would be right.
    #[default]
    Malformed,
    /// A field that is known and not served.
    Unserved,
    /// The target of a query is of a kind that is not served.
    UnservedTarget,
    /// A client's definition of a tool breaks the rules of definitions.
    ToolDefinition,
    /// A field that cannot be changed any more.
    Frozen,
}

impl Fault {
    /// A fault of a file as a whole.
    pub fn of_file(file: impl Into<PathBuf>, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            path: Path::root(),
            place: None,
            code,
            class: FaultClass::default(),
            message: message.into(),
            hint: None,
        }
    }

    #[must_use]
    pub fn at(self, place: SourcePlace) -> Self {
        Self { place: Some(place), ..self }
    }

    /// With what to do about it; an empty hint is none.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()).filter(|hint| !hint.is_empty()), ..self }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.file.display())?;
        if let Some(place) = self.place {
            write!(formatter, ":{place}")?;
        }
        write!(formatter, ": {} [{}]", self.message, self.code)?;
        match &self.hint {
            Some(hint) => write!(formatter, "\n  {hint}"),
            None => Ok(()),
        }
    }
}

/// Everything that is wrong, in the order of the files. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults(Vec<Fault>);

impl Faults {
    /// `Ok` with `value` if there is nothing to complain about.
    ///
    /// # Errors
    /// With all of `faults`, sorted by place, if there are any.
    pub fn none_or<T>(mut faults: Vec<Fault>, value: T) -> Result<T, Self> {
        if faults.is_empty() {
            return Ok(value);
        }
        faults.sort_by(|left, right| (&left.file, left.place).cmp(&(&right.file, right.place)));
        Err(Self(faults))
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Fault> {
        self.0.iter()
    }
}

impl IntoIterator for Faults {
    type Item = Fault;
    type IntoIter = std::vec::IntoIter<Fault>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Faults {
    type Item = &'a Fault;
    type IntoIter = std::slice::Iter<'a, Fault>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl From<Fault> for Faults {
    fn from(fault: Fault) -> Self {
        Self(vec![fault])
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.0.iter().enumerate() {
            if index > 0 {
                formatter.write_str("\n")?;
            }
            fault.fmt(formatter)?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}
