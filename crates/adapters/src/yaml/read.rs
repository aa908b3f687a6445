//! Takes a tree of nodes apart and notes what is wrong with it.
//!
//! A [`Reading`] collects the faults of one file. A [`Fields`] is one mapping: each field is asked
//! for by name, and whatever nobody asked for is a fault; of what a client has sent, it is a warning. A
//! value of the wrong type is a fault too and then reads as absent, so reading always goes on.

use std::{
    cell::{Cell, RefCell},
    path::{Path, PathBuf},
    rc::Rc,
    time::Duration,
};

use bosun_core::ceiling::{FAULTS_LISTED, WARNINGS_KEPT};

use super::{Data, Node, duration};
use crate::fault::{Fault, Place};

/// The reading of one file.
#[derive(Debug)]
pub(crate) struct Reading {
    file: PathBuf,
    /// No file: a client has sent it, and clients of ARK rely on unknown fields being taken.
    is_sent: bool,
    faults: RefCell<Vec<Fault>>,
    warnings: RefCell<Vec<String>>,
    /// Faults and warnings of a client that are only counted.
    omitted: Cell<usize>,
    warnings_omitted: Cell<usize>,
}

/// So many bytes of what is wrong are told to a client: names in it are as long as the client likes.
const LONGEST_SENT: usize = 1_024;

/// A text and where it stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text<'n> {
    pub(crate) value: &'n str,
    pub(crate) place: Place,
}

impl Reading {
    pub(crate) fn new(file: &Path) -> Self {
        Self {
            file: file.to_owned(),
            is_sent: false,
            faults: RefCell::default(),
            warnings: RefCell::default(),
            omitted: Cell::default(),
            warnings_omitted: Cell::default(),
        }
    }

    /// Of something that a client has sent.
    pub(crate) fn of_client() -> Self {
        Self { is_sent: true, ..Self::new(Path::new("")) }
    }

    pub(crate) fn is_of_client(&self) -> bool {
        self.is_sent
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    pub(crate) fn fault(&self, place: Place, code: &'static str, message: impl Into<String>, hint: impl Into<String>) {
        let hint = Some(hint.into()).filter(|hint| !hint.is_empty());
        self.add(Fault { file: self.file.clone(), place: Some(place), code, message: message.into(), hint });
    }

    /// Of a file, every fault is told; of what a client has sent, the first [`FAULTS_LISTED`].
    pub(crate) fn add(&self, mut fault: Fault) {
        let mut faults = self.faults.borrow_mut();
        if self.is_sent && faults.len() >= FAULTS_LISTED {
            self.omitted.set(self.omitted.get() + 1);
            return;
        }
        if self.is_sent {
            cut(&mut fault.message);
        }
        faults.push(fault);
    }

    /// How many faults more there were than are listed.
    pub(crate) fn omitted(&self) -> usize {
        self.omitted.get()
    }

    fn warn(&self, mut warning: String) {
        let mut warnings = self.warnings.borrow_mut();
        if warnings.len() >= WARNINGS_KEPT {
            self.warnings_omitted.set(self.warnings_omitted.get() + 1);
            return;
        }
        cut(&mut warning);
        warnings.push(warning);
    }

    pub(crate) fn into_faults(self) -> Vec<Fault> {
        self.faults.into_inner()
    }

    /// Whether nothing is wrong so far.
    pub(crate) fn is_sound(&self) -> bool {
        self.faults.borrow().is_empty()
    }

    /// What the client should know about what it has sent.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        let mut warnings = self.warnings.take();
        match self.warnings_omitted.take() {
            0 => {}
            omitted => warnings.push(format!("{omitted} further warnings are not listed")),
        }
        warnings
    }

    fn wrong_type(&self, node: &Node, name: &str, expected: &str) {
        let hint = match (&node.data, expected) {
            (Data::Bool(_) | Data::Number(_), "text") => "put it in quotes",
            _ => "",
        };
        self.fault(node.place, "wrong_type", format!("{name} must be {expected}, and is {}", node.kind()), hint);
    }

    /// `node` as a mapping; error messages call it `owner`.
    pub(crate) fn fields<'n>(&'n self, node: &'n Node, owner: &str) -> Option<Fields<'n>> {
        Fields::new(self, node, owner.into(), String::new())
    }

    pub(crate) fn text<'n>(&self, node: &'n Node, name: &str) -> Option<Text<'n>> {
        match &node.data {
            Data::Text(value) => Some(Text { value, place: node.place }),
            _ => {
                self.wrong_type(node, name, "text");
                None
            }
        }
    }
}

/// Cuts a text off that a client reads.
fn cut(text: &mut String) {
    if text.len() > LONGEST_SENT {
        let end = (0..=LONGEST_SENT).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
        text.truncate(end);
        text.push('…');
    }
}

/// One mapping that is being read.
#[derive(Debug)]
pub(crate) struct Fields<'n> {
    reading: &'n Reading,
    node: &'n Node,
    /// The document that the mapping belongs to: ``Agent `x` ``.
    owner: Rc<str>,
    /// Where in the document it stands: `spec.modelRef`.
    path: String,
    asked: RefCell<Vec<&'static str>>,
    refused: RefCell<Vec<&'static str>>,
}

impl<'n> Fields<'n> {
    fn new(reading: &'n Reading, node: &'n Node, owner: Rc<str>, path: String) -> Option<Self> {
        let fields = Self { reading, node, owner, path, asked: RefCell::default(), refused: RefCell::default() };
        match node.data {
            Data::Map(_) => Some(fields),
            _ => {
                reading.wrong_type(node, &fields.called(), "a mapping");
                None
            }
        }
    }

    /// What error messages call this mapping.
    pub(crate) fn called(&self) -> String {
        if self.path.is_empty() { self.owner.to_string() } else { format!("`{}` of {}", self.path, self.owner) }
    }

    /// Where a field of this mapping stands in the document.
    fn path_to(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// What error messages call a field of this mapping.
    pub(crate) fn called_field(&self, name: &str) -> String {
        format!("`{}` of {}", self.path_to(name), self.owner)
    }

    /// Gives the document the name by which its faults are reported.
    pub(crate) fn rename(&mut self, owner: &str) {
        self.owner = owner.into();
    }

    pub(crate) fn place(&self) -> Place {
        self.node.place
    }

    pub(crate) fn reading(&self) -> &'n Reading {
        self.reading
    }

    pub(crate) fn fault(&self, place: Place, code: &'static str, message: impl Into<String>, hint: impl Into<String>) {
        self.reading.fault(place, code, message, hint);
    }

    /// The field's value; `null` counts as absent, as in Kubernetes.
    pub(crate) fn get(&self, name: &'static str) -> Option<&'n Node> {
        let mut asked = self.asked.borrow_mut();
        if !asked.contains(&name) {
            asked.push(name);
        }
        let Data::Map(members) = &self.node.data else { return None };
        members.iter().find(|member| member.name == name).map(|member| &member.value).filter(|value| !value.is_null())
    }

    /// Whether a field is there; to ask this does not make it a known one.
    pub(crate) fn has(&self, name: &str) -> bool {
        let Data::Map(members) = &self.node.data else { return false };
        members.iter().any(|member| member.name == name && !member.value.is_null())
    }

    pub(crate) fn require(&self, name: &'static str, hint: &str) -> Option<&'n Node> {
        let value = self.get(name);
        if value.is_none() {
            self.fault(self.place(), "missing_field", format!("{} is missing", self.called_field(name)), hint);
        }
        value
    }

    pub(crate) fn text(&self, name: &'static str) -> Option<Text<'n>> {
        self.reading.text(self.get(name)?, &self.called_field(name))
    }

    pub(crate) fn required_text(&self, name: &'static str, hint: &str) -> Option<Text<'n>> {
        self.reading.text(self.require(name, hint)?, &self.called_field(name))
    }

    pub(crate) fn bool(&self, name: &'static str) -> Option<bool> {
        let node = self.get(name)?;
        match node.data {
            Data::Bool(value) => Some(value),
            _ => {
                self.reading.wrong_type(node, &self.called_field(name), "true or false");
                None
            }
        }
    }

    pub(crate) fn whole_number(&self, name: &'static str) -> Option<u64> {
        let node = self.get(name)?;
        let number = if let Data::Number(number) = &node.data { number.as_u64() } else { None };
        if number.is_none() {
            self.reading.wrong_type(node, &self.called_field(name), "a whole number");
        }
        number
    }

    pub(crate) fn duration(&self, name: &'static str) -> Option<Duration> {
        self.duration_of(self.get(name)?, name)
    }

    /// `node`, the value of the field `name`, as a duration.
    pub(crate) fn duration_of(&self, node: &Node, name: &str) -> Option<Duration> {
        let text = self.reading.text(node, &self.called_field(name))?;
        let duration = duration::parse(text.value);
        if duration.is_none() {
            let message = format!("{} is `{}`, which is not a duration", self.called_field(name), text.value);
            self.fault(text.place, "bad_value", message, duration::HINT);
        }
        duration
    }

    pub(crate) fn list(&self, name: &'static str) -> &'n [Node] {
        let Some(node) = self.get(name) else { return &[] };
        match &node.data {
            Data::List(items) => items,
            _ => {
                self.reading.wrong_type(node, &self.called_field(name), "a list");
                &[]
            }
        }
    }

    pub(crate) fn fields(&self, name: &'static str) -> Option<Fields<'n>> {
        self.inner(self.get(name)?, name)
    }

    pub(crate) fn required_fields(&self, name: &'static str, hint: &str) -> Option<Fields<'n>> {
        self.inner(self.require(name, hint)?, name)
    }

    /// A mapping further inside, for instance an entry of a list.
    pub(crate) fn inner(&self, node: &'n Node, name: &str) -> Option<Fields<'n>> {
        Fields::new(self.reading, node, self.owner.clone(), self.path_to(name))
    }

    /// A mapping of free names to texts, as labels and annotations are.
    pub(crate) fn texts(&self, name: &'static str) -> Vec<(Text<'n>, Text<'n>)> {
        let Some(node) = self.get(name) else { return Vec::new() };
        let Data::Map(members) = &node.data else {
            self.reading.wrong_type(node, &self.called_field(name), "a mapping");
            return Vec::new();
        };
        let entries = members.iter().filter_map(|member| {
            let called = self.called_field(&format!("{name}.{}", member.name));
            let value = self.reading.text(&member.value, &called)?;
            Some((Text { value: &member.name, place: member.place }, value))
        });
        entries.collect()
    }

    /// Refuses fields that ARK knows and this version does not serve: to ignore them would change
    /// what the file means.
    pub(crate) fn unserved(&self, names: &[&'static str], hint: &str) {
        let Data::Map(members) = &self.node.data else { return };
        self.refused.borrow_mut().extend_from_slice(names);
        for member in members.iter().filter(|member| names.contains(&member.name.as_str()) && !member.value.is_null()) {
            let message = format!("{} is not served by this version", self.called_field(&member.name));
            self.fault(member.place, "unsupported_field", message, hint);
        }
    }

    /// Ends the reading of this mapping: what nobody asked for is unknown.
    pub(crate) fn finish(&self) {
        let Data::Map(members) = &self.node.data else { return };
        let (asked, refused) = (self.asked.borrow(), self.refused.borrow());
        let is_known = |name: &str| asked.contains(&name) || refused.contains(&name);
        for member in members.iter().filter(|member| !is_known(&member.name)) {
            if self.reading.is_sent {
                let warning = format!("unknown field `{}` was ignored", self.path_to(&member.name));
                self.reading.warn(warning);
                continue;
            }
            let message = format!("{} has no field `{}`", self.called(), member.name);
            self.fault(member.place, "unknown_field", message, format!("fields here: {}", asked.join(", ")));
        }
    }
}
