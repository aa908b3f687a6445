//! The faults and warnings of one text, as they are found.
//!
//! What is reported is bounded wherever a hostile text could ask for more: beyond a number, faults and
//! warnings are only counted. All methods take `&self`, so that several [`Fields`] of one text can
//! report while they are read in turn.

use std::{
    cell::{Cell, Ref, RefCell},
    path::PathBuf,
};

use bosun_core::{
    ceiling::WARNINGS_KEPT,
    fault::{FaultBounds, FaultList, truncate},
};

use crate::{Fault, FaultClass, Fields, Path, SourcePlace, Syntax, Tree, Warning, path::LazyPath};

/// What is wrong with one text.
#[derive(Debug)]
pub struct Report {
    file: PathBuf,
    syntax: Syntax,
    bounds: &'static Bounds,
    faults: RefCell<FaultList>,
    warnings: RefCell<Vec<Warning>>,
    warnings_omitted: Cell<usize>,
}

/// Limits and rules that depend on the author of the text: an operator or a client.
#[derive(Debug)]
pub(crate) struct Bounds {
    faults: FaultBounds,
    warnings: usize,
    /// Unknown fields of one mapping that are reported one by one.
    pub(crate) unknown: usize,
    /// Whether an unknown field is only warned of: clients of ARK rely on that.
    pub(crate) ignores_unknown: bool,
    /// Characters of an unknown field's path that a warning shows.
    pub(crate) shown: usize,
    /// Whether messages name the field that they are about; otherwise only the path next to them does.
    pub(crate) names_fields: bool,
    /// Whether values know their places.
    pub(crate) has_places: bool,
}

/// A file of the operator: every fault is listed.
const FILE: Bounds = Bounds {
    faults: FaultBounds::NONE,
    warnings: WARNINGS_KEPT,
    unknown: usize::MAX,
    ignores_unknown: false,
    shown: usize::MAX,
    names_fields: true,
    has_places: true,
};

/// A resource that a client has sent.
const RESOURCE: Bounds = Bounds {
    faults: FaultBounds { message: 1_024, ..FaultBounds::LISTED },
    ignores_unknown: true,
    has_places: false,
    ..FILE
};

/// Any other body, and the parameters, of a request. Each message and each path appears in the answer three times.
const REQUEST: Bounds = Bounds {
    faults: FaultBounds { path: 1_024, total: 64 * 1_024, ..RESOURCE.faults },
    shown: 80,
    names_fields: false,
    ..RESOURCE
};

/// A file of another system, of up to a hundred thousand tools.
const CONVERSION: Bounds = Bounds {
    faults: FaultBounds { faults: 1_000, ..FaultBounds::NONE },
    warnings: 1_000,
    unknown: 20,
    has_places: false,
    ..FILE
};

impl Report {
    fn new(file: PathBuf, syntax: Syntax, bounds: &'static Bounds) -> Self {
        Self {
            file,
            syntax,
            bounds,
            faults: RefCell::new(FaultList::new(bounds.faults)),
            warnings: RefCell::default(),
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
        Self::new(PathBuf::new(), Syntax::Yaml, &RESOURCE)
    }

    /// For the body or the parameters of a request.
    #[must_use]
    pub fn of_request() -> Self {
        Self::new(PathBuf::new(), Syntax::Json, &REQUEST)
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
    pub fn fields<'n, T: Tree>(&'n self, node: &'n T, owner: &str) -> Option<Fields<'n, &'n T>> {
        Fields::of_document(self, node, Path::root(), owner)
    }

    /// The fields of the document at `path`, whose messages name fields without their owner.
    pub fn fields_at<'n, T: Tree>(&'n self, node: &'n T, path: Path, what: &str) -> Option<Fields<'n, &'n T>> {
        let fields = Fields::of_document(self, node, path, what)?;
        Some(fields.unnamed())
    }

    pub fn fault(&self, path: impl Into<Path>, code: &'static str, message: impl Into<String>) {
        self.fault_with_hint(path, code, message, "");
    }

    pub fn fault_with_hint(
        &self,
        path: impl Into<Path>,
        code: &'static str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        let fault = Fault::of_file(self.file.clone(), code, message).hint(hint);
        self.add(Fault { path: path.into(), ..fault });
    }

    /// A fault of another class than that of a malformed text.
    pub fn refuse(&self, class: FaultClass, path: impl Into<Path>, code: &'static str, message: impl Into<String>) {
        self.add(Fault { path: path.into(), class, ..Fault::of_file(self.file.clone(), code, message) });
    }

    /// A fault inside of a large value, where building the path is the costly part.
    pub fn fault_on_trail(&self, trail: &LazyPath<'_>, code: &'static str, message: impl Into<String>) {
        if self.is_full() {
            self.omit(1);
        } else {
            self.fault(trail.to_path(), code, message);
        }
    }

    pub(crate) fn fault_at(&self, place: SourcePlace, fault: Fault) {
        self.add(if self.bounds.has_places { fault.at(place) } else { fault });
    }

    pub fn add(&self, fault: Fault) {
        self.faults.borrow_mut().add(fault);
    }

    /// No further fault would be listed, so there is no point in reading on.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.faults.borrow().is_full()
    }

    /// Counts faults, or items that were not read, without listing them.
    pub fn omit(&self, count: usize) {
        self.faults.borrow_mut().omit(count);
    }

    /// Reads items with their paths or names, until there are more faults than are listed.
    pub fn each<T>(&self, items: impl IntoIterator<Item = T, IntoIter: ExactSizeIterator>, mut read: impl FnMut(T)) {
        let mut items = items.into_iter();
        while let Some(item) = items.next() {
            if self.is_full() {
                return self.omit(1 + items.len());
            }
            read(item);
        }
    }

    pub fn warn(&self, path: &Path, code: &'static str, message: impl Into<String>) {
        self.push_warning(Warning { path: path.to_string(), code, message: message.into() });
    }

    /// A warning about the text as a whole.
    pub fn note(&self, message: impl Into<String>) {
        self.push_warning(Warning { path: String::new(), code: "note", message: message.into() });
    }

    /// As [`Report::fault_on_trail`], for a warning.
    pub fn warn_on_trail(&self, trail: &LazyPath<'_>, code: &'static str, message: impl Into<String>) {
        self.warn_with(|| Warning { path: trail.to_path().into(), code, message: message.into() });
    }

    /// A warning that is only made if it is kept.
    pub fn warn_with(&self, warning: impl FnOnce() -> Warning) {
        if self.warnings.borrow().len() < self.bounds.warnings {
            self.push_warning(warning());
        } else {
            self.omit_warnings(1);
        }
    }

    pub fn push_warning(&self, mut warning: Warning) {
        let mut warnings = self.warnings.borrow_mut();
        // A warning that several parts of a request cause is listed once.
        if self.bounds.ignores_unknown && warnings.iter().any(|earlier| earlier.message == warning.message) {
            return;
        }
        if warnings.len() >= self.bounds.warnings {
            return self.omit_warnings(1);
        }
        if warning.message.len() > self.bounds.faults.message {
            warning.message = truncate(warning.message, self.bounds.faults.message);
        }
        warnings.push(warning);
    }

    /// Counts warnings without keeping them.
    pub fn omit_warnings(&self, count: usize) {
        self.warnings_omitted.set(self.warnings_omitted.get() + count);
    }

    /// How many faults there are so far, listed or not.
    #[must_use]
    pub fn fault_count(&self) -> usize {
        self.faults.borrow().count()
    }

    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.fault_count() == 0
    }

    /// How many faults there were beyond those that are listed.
    #[must_use]
    pub fn faults_omitted(&self) -> usize {
        self.faults.borrow().omitted()
    }

    #[must_use]
    pub fn warnings_omitted(&self) -> usize {
        self.warnings_omitted.get()
    }

    /// What is listed so far.
    #[must_use]
    pub fn faults(&self) -> Ref<'_, [Fault]> {
        Ref::map(self.faults.borrow(), FaultList::listed)
    }

    #[must_use]
    pub fn into_fault_list(self) -> FaultList {
        self.faults.into_inner()
    }

    /// What is listed, without the number of further faults.
    #[must_use]
    pub fn into_faults(self) -> Vec<Fault> {
        self.into_fault_list().into_listed()
    }

    #[must_use]
    pub fn take_warnings(&self) -> Vec<Warning> {
        self.warnings.take()
    }
}
