//! The faults and warnings of one text, as they are found.
//!
//! What is reported is bounded wherever a hostile text could ask for more: beyond a number, faults and
//! warnings are only counted. All methods take `&self`, so that several [`Fields`] of one text can
//! report while they are read in turn.

use std::{
    cell::{Cell, RefCell},
    path::PathBuf,
};

use bosun_core::{
    ceiling::{FAULTS_LISTED, WARNINGS_KEPT},
    text::clip,
};

use crate::{Fault, Fields, Path, SourcePlace, Syntax, Tree, Warning, path::Trail};

/// What is wrong with one text.
#[derive(Debug)]
pub struct Report {
    file: PathBuf,
    syntax: Syntax,
    bounds: &'static Bounds,
    faults: RefCell<Vec<Fault>>,
    faults_omitted: Cell<usize>,
    warnings: RefCell<Vec<Warning>>,
    warnings_omitted: Cell<usize>,
}

/// What depends on who wrote the text.
#[derive(Debug)]
pub(crate) struct Bounds {
    faults: usize,
    warnings: usize,
    /// Characters of one message: names in it are as long as the writer of the text likes.
    message: usize,
    /// Unknown fields of one mapping that are reported one by one.
    pub(crate) unknown: usize,
    /// Whether an unknown field is only warned of: clients of ARK rely on that.
    pub(crate) ignores_unknown: bool,
    /// Whether values know their places.
    pub(crate) has_places: bool,
}

/// A file of the operator: every fault is listed.
const FILE: Bounds = Bounds {
    faults: usize::MAX,
    warnings: WARNINGS_KEPT,
    message: usize::MAX,
    unknown: usize::MAX,
    ignores_unknown: false,
    has_places: true,
};

const REQUEST: Bounds = Bounds {
    faults: FAULTS_LISTED,
    warnings: WARNINGS_KEPT,
    message: 1_024,
    unknown: usize::MAX,
    ignores_unknown: true,
    has_places: false,
};

/// A file of another system, of up to a hundred thousand tools.
const CONVERSION: Bounds = Bounds {
    faults: 1_000,
    warnings: 1_000,
    message: usize::MAX,
    unknown: 20,
    ignores_unknown: false,
    has_places: false,
};

impl Report {
    fn new(file: PathBuf, syntax: Syntax, bounds: &'static Bounds) -> Self {
        let (faults, warnings) = (RefCell::default(), RefCell::default());
        Self {
            file,
            syntax,
            bounds,
            faults,
            warnings,
            faults_omitted: Cell::default(),
            warnings_omitted: Cell::default(),
        }
    }

    /// For a file that an operator wrote.
    #[must_use]
    pub fn of_file(file: &std::path::Path, syntax: Syntax) -> Self {
        Self::new(file.to_owned(), syntax, &FILE)
    }

    /// For a resource that a client has sent.
    #[must_use]
    pub fn of_client() -> Self {
        Self::new(PathBuf::new(), Syntax::Yaml, &REQUEST)
    }

    /// For a text that is converted; the places of its values are looked up by their paths.
    #[must_use]
    pub fn of_conversion() -> Self {
        Self::new(PathBuf::new(), Syntax::Json, &CONVERSION)
    }

    /// Whether a client sent the text.
    #[must_use]
    pub fn is_of_client(&self) -> bool {
        self.bounds.ignores_unknown
    }

    #[must_use]
    pub fn file(&self) -> &std::path::Path {
        &self.file
    }

    pub(crate) fn syntax(&self) -> Syntax {
        self.syntax
    }

    pub(crate) fn bounds(&self) -> &'static Bounds {
        self.bounds
    }

    /// The fields of the document `node`; messages call the document `owner`.
    pub fn fields<'n, T: Tree>(&'n self, node: &'n T, owner: &str) -> Option<Fields<'n, T>> {
        Fields::of_document(self, node, Path::root(), owner)
    }

    /// The fields of the document at `path`, whose messages name fields without their owner.
    pub fn fields_at<'n, T: Tree>(&'n self, node: &'n T, path: Path, what: &str) -> Option<Fields<'n, T>> {
        let fields = Fields::of_document(self, node, path, what)?;
        Some(fields.unnamed())
    }

    pub fn fault(&self, path: &Path, code: &'static str, message: impl Into<String>) {
        self.fault_with_hint(path, code, message, "");
    }

    pub fn fault_with_hint(
        &self,
        path: &Path,
        code: &'static str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        let fault = Fault::of_file(self.file.clone(), code, message).hint(hint);
        self.add(Fault { path: path.clone(), ..fault });
    }

    /// A fault inside of a large value, where building the path is the costly part.
    pub fn fault_on_trail(&self, trail: &Trail<'_>, code: &'static str, message: impl Into<String>) {
        if self.faults.borrow().len() < self.bounds.faults {
            self.fault(&trail.to_path(), code, message);
        } else {
            self.faults_omitted.set(self.faults_omitted.get() + 1);
        }
    }

    pub(crate) fn fault_at(&self, place: SourcePlace, fault: Fault) {
        self.add(if self.bounds.has_places { fault.at(place) } else { fault });
    }

    pub fn add(&self, mut fault: Fault) {
        let mut faults = self.faults.borrow_mut();
        if faults.len() >= self.bounds.faults {
            self.faults_omitted.set(self.faults_omitted.get() + 1);
            return;
        }
        if fault.message.len() > self.bounds.message {
            fault.message = clip(&fault.message, self.bounds.message);
        }
        faults.push(fault);
    }

    pub fn warn(&self, path: &Path, code: &'static str, message: impl Into<String>) {
        self.push_warning(Warning { path: path.to_string(), code, message: message.into() });
    }

    /// As [`Report::fault_on_trail`], for a warning.
    pub fn warn_on_trail(&self, trail: &Trail<'_>, code: &'static str, message: impl Into<String>) {
        if self.warnings.borrow().len() < self.bounds.warnings {
            self.warn(&trail.to_path(), code, message);
        } else {
            self.warnings_omitted.set(self.warnings_omitted.get() + 1);
        }
    }

    pub fn push_warning(&self, mut warning: Warning) {
        let mut warnings = self.warnings.borrow_mut();
        if warnings.len() >= self.bounds.warnings {
            self.warnings_omitted.set(self.warnings_omitted.get() + 1);
            return;
        }
        if warning.message.len() > self.bounds.message {
            warning.message = clip(&warning.message, self.bounds.message);
        }
        warnings.push(warning);
    }

    /// How many faults there are so far, listed or not.
    #[must_use]
    pub fn fault_count(&self) -> usize {
        self.faults.borrow().len() + self.faults_omitted.get()
    }

    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.fault_count() == 0
    }

    /// How many faults there were beyond those that are listed.
    #[must_use]
    pub fn faults_omitted(&self) -> usize {
        self.faults_omitted.get()
    }

    #[must_use]
    pub fn warnings_omitted(&self) -> usize {
        self.warnings_omitted.get()
    }

    #[must_use]
    pub fn into_faults(self) -> Vec<Fault> {
        self.faults.into_inner()
    }

    #[must_use]
    pub fn take_warnings(&self) -> Vec<Warning> {
        self.warnings.take()
    }
}
