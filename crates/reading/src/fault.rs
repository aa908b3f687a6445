//! The error of reading files: every fault of every file.

use std::fmt;

use crate::Fault;

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
