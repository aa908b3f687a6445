//! Faults of a text, with their places, and the bounded list of them.
//!
//! Every reader of files, bodies, messages and tool definitions reports [`Fault`]s and continues, so that one run
//! shows all of them. Plain data: the program decides how a fault looks on a terminal, the edges how it looks in an
//! answer.

use std::{fmt, path::PathBuf};

use serde::Serialize;

use crate::{ceiling::FAULTS_LISTED, schema::path::Path};

/// One thing that is wrong with one text. Serialized, it is what clients see: `path`, `code` and `message`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// Empty for a text that is not a file.
    #[serde(skip)]
    pub file: PathBuf,
    /// The value in the document that is at fault, or the one around it that lacks something.
    pub path: Path,
    /// `None` where the file as a whole is at fault, and for values that have no place in a text.
    #[serde(skip)]
    pub place: Option<SourcePlace>,
    /// A stable code of the fault.
    pub code: &'static str,
    #[serde(skip)]
    pub class: FaultClass,
    pub message: String,
    /// What to do about it.
    #[serde(skip)]
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

/// A place in a text, as an editor counts: both start at 1, and columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct SourcePlace {
    pub line: usize,
    pub column: usize,
}

impl SourcePlace {
    /// The first character of a text.
    pub const START: Self = Self { line: 1, column: 1 };
}

impl fmt::Display for SourcePlace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.line, self.column)
    }
}

impl Fault {
    /// A malformed value of a text that is not a file.
    pub fn new(path: impl Into<Path>, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            file: PathBuf::new(),
            path: path.into(),
            place: None,
            code,
            class: FaultClass::default(),
            message: message.into(),
            hint: None,
        }
    }

    /// A fault of a file as a whole.
    pub fn of_file(file: impl Into<PathBuf>, code: &'static str, message: impl Into<String>) -> Self {
        Self { file: file.into(), ..Self::new(Path::root(), code, message) }
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

    /// File, place, message and code, without the hint.
    #[must_use]
    pub fn to_line(&self) -> String {
        let place = self.place.map(|place| format!(":{place}")).unwrap_or_default();
        format!("{}{place}: {} [{}]", self.file.display(), self.message, self.code)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.to_line())?;
        match &self.hint {
            Some(hint) => write!(formatter, "\n  {hint}"),
            None => Ok(()),
        }
    }
}

/// How much a [`FaultList`] lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultBounds {
    pub faults: usize,
    /// Bytes of one message: the names in it may have any length.
    pub message: usize,
    /// Bytes of one path.
    pub path: usize,
    /// Bytes of all messages and paths together.
    pub total: usize,
}

impl FaultBounds {
    /// Every fault, in full.
    pub const NONE: Self = Self { faults: usize::MAX, message: usize::MAX, path: usize::MAX, total: usize::MAX };
    /// As many faults as an answer lists.
    pub const LISTED: Self = Self { faults: FAULTS_LISTED, ..Self::NONE };
}

/// Faults in the order in which they were found; beyond its bounds they are only counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultList {
    bounds: FaultBounds,
    faults: Vec<Fault>,
    /// Bytes of the messages and paths that are listed.
    total: usize,
    omitted: usize,
}

impl FaultList {
    #[must_use]
    pub fn new(bounds: FaultBounds) -> Self {
        Self { bounds, faults: Vec::new(), total: 0, omitted: 0 }
    }

    pub fn add(&mut self, mut fault: Fault) {
        if self.is_full() {
            return self.omit(1);
        }
        if fault.message.len() > self.bounds.message {
            fault.message = truncate(fault.message, self.bounds.message);
        }
        if fault.path.as_str().len() > self.bounds.path {
            fault.path = truncate(fault.path.into(), self.bounds.path).into();
        }
        self.total += fault.message.len() + fault.path.as_str().len();
        self.faults.push(fault);
    }

    /// Counts faults, or items that were not read, without listing them.
    pub fn omit(&mut self, count: usize) {
        self.omitted += count;
    }

    /// No further fault would be listed, so there is no point in reading on.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.faults.len() >= self.bounds.faults || self.total >= self.bounds.total
    }

    /// How many faults there are, listed or not.
    #[must_use]
    pub fn count(&self) -> usize {
        self.faults.len() + self.omitted
    }

    /// The number of further faults, and of items that were not read.
    #[must_use]
    pub fn omitted(&self) -> usize {
        self.omitted
    }

    #[must_use]
    pub fn listed(&self) -> &[Fault] {
        &self.faults
    }

    #[must_use]
    pub fn into_listed(self) -> Vec<Fault> {
        self.faults
    }
}

impl Extend<Fault> for FaultList {
    fn extend<T: IntoIterator<Item = Fault>>(&mut self, faults: T) {
        faults.into_iter().for_each(|fault| self.add(fault));
    }
}

/// One fault, with room for as many as an answer lists.
impl From<Fault> for FaultList {
    fn from(fault: Fault) -> Self {
        let mut list = Self::new(FaultBounds::LISTED);
        list.add(fault);
        list
    }
}

/// At most `most` bytes of a text; an ellipsis marks what was truncated.
#[must_use]
pub fn truncate(mut text: String, most: usize) -> String {
    text.truncate(text.floor_char_boundary(most));
    text.push('…');
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn beyond_its_bounds_a_list_only_counts() {
        let bounds = FaultBounds { faults: 2, message: 3, path: 3, ..FaultBounds::NONE };
        let mut list = FaultList::new(bounds);
        for _ in 0..3 {
            list.add(Fault::new("äöü", "bad", "message"));
        }
        list.omit(4);
        assert!(list.is_full());
        assert_eq!((list.count(), list.omitted()), (7, 5));
        let first = &list.listed()[0];
        assert_eq!((first.path.as_str(), first.message.as_str()), ("ä…", "mes…"));

        let mut list = FaultList::new(FaultBounds { total: 8, ..FaultBounds::NONE });
        for _ in 0..3 {
            list.add(Fault::new("path", "bad", ""));
        }
        assert_eq!((list.into_listed().len()), 2);
    }

    #[test]
    fn clients_see_the_path_the_code_and_the_message() {
        let fault = Fault::of_file("file", "bad", "is bad").at(SourcePlace::START).hint("write another");
        assert_eq!(json!(fault), json!({"path": "", "code": "bad", "message": "is bad"}));
    }
}
