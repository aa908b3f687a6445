//! What is wrong with a file, and where.
//!
//! Files are read to the end before anything is reported, so that one run shows every fault. This is
//! plain data: how it looks on a terminal is the program's part.

use std::{fmt, path::PathBuf};

/// A place in a text file, counted from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub line: u64,
    pub column: u64,
}

/// One thing that is wrong with one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub file: PathBuf,
    /// `None` where the file as a whole is at fault.
    pub place: Option<Place>,
    pub code: &'static str,
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.file.display())?;
        if let Some(Place { line, column }) = self.place {
            write!(formatter, ":{line}:{column}")?;
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
