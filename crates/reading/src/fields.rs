//! The fields of one mapping, taken one by one.
//!
//! Each field is asked for by name and type; [`Fields::finish`] reports those that were never asked
//! for. A field that is `null` counts as absent, as in Kubernetes. Messages name a field by its path
//! in a document that has a name (`` `spec.type` of Tool `x` ``), and by its own name elsewhere, where
//! the path is shown beside the message.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc, time::Duration};

use bosun_core::{
    Timestamp, duration,
    text::{clip, closest},
};

use crate::{Fault, Path, Report, Shape, SourcePlace, Tree, node::Node};

/// Characters of an unknown field's name that a message shows.
const LONGEST_NAME: usize = 200;

/// A text and its place.
#[derive(Clone, Copy, Debug)]
pub struct Text<'n> {
    pub value: &'n str,
    pub place: SourcePlace,
}

/// One mapping that is being read.
#[derive(Debug)]
pub struct Fields<'n, T = Node> {
    report: &'n Report,
    node: &'n T,
    /// The document that the mapping belongs to, ``Agent `x` ``; empty if it has no name.
    owner: Rc<str>,
    path: Path,
    /// Bytes of `path` that lead to the document itself.
    root: usize,
    asked: RefCell<Vec<String>>,
    refused: RefCell<Vec<&'static str>>,
}

impl<'n, T: Tree> Fields<'n, T> {
    pub(crate) fn of_document(report: &'n Report, node: &'n T, path: Path, owner: &str) -> Option<Self> {
        let root = path.as_str().len();
        Self::new(report, node, owner.into(), path, root)
    }

    fn new(report: &'n Report, node: &'n T, owner: Rc<str>, path: Path, root: usize) -> Option<Self> {
        let fields = Self { report, node, owner, path, root, asked: RefCell::default(), refused: RefCell::default() };
        if matches!(node.shape(), Shape::Map) {
            return Some(fields);
        }
        fields.wrong_type(node, &fields.path, &fields.called(), report.syntax().map(), "");
        None
    }

    /// Messages about fields of this document name them without it.
    pub(crate) fn unnamed(self) -> Self {
        Self { owner: "".into(), ..self }
    }

    /// Gives the document the name by which messages call it.
    pub fn rename(&mut self, owner: &str) {
        self.owner = owner.into();
    }

    /// Where in the document `path` is.
    fn inside<'p>(&self, path: &'p Path) -> &'p str {
        let inside = path.as_str().get(self.root..).unwrap_or_default();
        inside.strip_prefix('.').unwrap_or(inside)
    }

    /// What messages call this mapping.
    #[must_use]
    pub fn called(&self) -> String {
        match (self.inside(&self.path), &*self.owner) {
            ("", owner) => owner.to_owned(),
            (path, "") => format!("`{path}`"),
            (path, owner) => format!("`{path}` of {owner}"),
        }
    }

    /// What messages call a field of this mapping.
    #[must_use]
    pub fn called_field(&self, name: &str) -> String {
        match &*self.owner {
            "" => format!("`{name}`"),
            owner => format!("`{}` of {owner}", self.inside(&self.path_of(name))),
        }
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    #[must_use]
    pub fn path_of(&self, name: &str) -> Path {
        self.path.key(name)
    }

    #[must_use]
    pub fn place(&self) -> SourcePlace {
        self.node.place()
    }

    /// Where the key `name` is; the mapping itself if it has none.
    #[must_use]
    pub fn place_of_key(&self, name: &str) -> SourcePlace {
        self.node.keys().find(|(key, _)| *key == name).map_or_else(|| self.place(), |(_, place)| place)
    }

    #[must_use]
    pub fn node(&self) -> &'n T {
        self.node
    }

    #[must_use]
    pub fn report(&self) -> &'n Report {
        self.report
    }

    /// A fault of this mapping, or of the value in it that begins at `place`.
    pub fn fault(&self, place: SourcePlace, code: &'static str, message: impl Into<String>, hint: impl Into<String>) {
        self.add(place, &self.path, code, message.into(), hint.into());
    }

    /// A fault of the field `name`.
    pub fn fault_of(&self, name: &str, code: &'static str, message: impl Into<String>, hint: impl Into<String>) {
        let place = self.node.member(name).map_or_else(|| self.place(), Tree::place);
        self.add(place, &self.path_of(name), code, message.into(), hint.into());
    }

    fn add(&self, place: SourcePlace, path: &Path, code: &'static str, message: String, hint: String) {
        let fault = Fault::of_file(self.report.file(), code, message).hint(hint);
        self.report.fault_at(place, Fault { path: path.clone(), ..fault });
    }

    fn wrong_type(&self, node: &T, path: &Path, called: &str, expected: &str, hint: &str) {
        let syntax = self.report.syntax();
        let hint = match node.shape() {
            Shape::Bool(_) | Shape::Number(_) if expected == syntax.text() => "put it in quotes",
            _ => hint,
        };
        let message = format!("{called} must be {expected}, not {}", syntax.kind_of(node));
        self.add(node.place(), path, "wrong_type", message, hint.to_owned());
    }

    /// Reports that the field `name` must be `expected`.
    pub fn wrong_field(&self, name: &str, node: &T, expected: &str, hint: &str) {
        self.wrong_type(node, &self.path_of(name), &self.called_field(name), expected, hint);
    }

    /// The value of a field.
    pub fn get(&self, name: &str) -> Option<&'n T> {
        let mut asked = self.asked.borrow_mut();
        if !asked.iter().any(|asked| asked == name) {
            asked.push(name.to_owned());
        }
        self.node.member(name).filter(|value| !value.is_null())
    }

    /// The first of several spellings that is present.
    pub fn get_any<'k>(&self, names: &[&'k str]) -> Option<(&'k str, &'n T)> {
        let found: Vec<_> = names.iter().filter_map(|name| Some((*name, self.get(name)?))).collect();
        found.into_iter().next()
    }

    /// Whether a field is present. Does not count as asking for it.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.node.member(name).is_some_and(|value| !value.is_null())
    }

    /// Fields that are known and have no effect.
    pub fn ignore(&self, names: &[&'static str]) {
        self.refused.borrow_mut().extend_from_slice(names);
    }

    pub fn require(&self, name: &str, hint: &str) -> Option<&'n T> {
        let value = self.get(name);
        if value.is_none() {
            self.fault(self.place(), "missing_field", format!("{} is missing", self.called_field(name)), hint);
        }
        value
    }

    fn typed<R>(
        &self,
        name: &str,
        node: &'n T,
        expected: &str,
        read: impl FnOnce(Shape<'n, T>) -> Option<R>,
    ) -> Option<R> {
        let read = read(node.shape());
        if read.is_none() {
            self.wrong_field(name, node, expected, "");
        }
        read
    }

    /// `node`, the value of the field `name`, as a text.
    pub fn text_of(&self, node: &'n T, name: &str) -> Option<Text<'n>> {
        self.typed(name, node, self.report.syntax().text(), |shape| match shape {
            Shape::Text(value) => Some(Text { value, place: node.place() }),
            _ => None,
        })
    }

    pub fn text(&self, name: &str) -> Option<Text<'n>> {
        self.text_of(self.get(name)?, name)
    }

    pub fn required_text(&self, name: &str, hint: &str) -> Option<Text<'n>> {
        self.text_of(self.require(name, hint)?, name)
    }

    pub fn bool(&self, name: &str) -> Option<bool> {
        self.typed(name, self.get(name)?, "true or false", |shape| match shape {
            Shape::Bool(value) => Some(value),
            _ => None,
        })
    }

    pub fn whole_number(&self, name: &str) -> Option<u64> {
        self.typed(name, self.get(name)?, "a whole number", |shape| match shape {
            Shape::Number(number) => number.as_u64(),
            _ => None,
        })
    }

    /// A date with a time and its offset from UTC: without one it would mean another moment on every machine.
    pub fn moment(&self, name: &str) -> Option<Timestamp> {
        let expected = "a date with a time and an offset, for instance 2027-01-31T12:00:00Z";
        self.typed(name, self.get(name)?, expected, |shape| match shape {
            // A date alone is a moment of RFC 3339 to us, and here too vague.
            Shape::Moment(text) if text.len() > "2027-01-31".len() => Timestamp::from_rfc3339(text),
            _ => None,
        })
    }

    /// A timeout or an interval of at least a millisecond; a number means seconds.
    pub fn positive_duration(&self, name: &str) -> Option<Duration> {
        self.duration_with(name, self.get(name)?, "a duration above zero", duration::parse_positive)
    }

    /// A pause, which may be zero.
    pub fn duration(&self, name: &str) -> Option<Duration> {
        self.duration_of(self.get(name)?, name)
    }

    /// `node`, the value of the field `name`, as a pause.
    pub fn duration_of(&self, node: &T, name: &str) -> Option<Duration> {
        self.duration_with(name, node, "a duration", duration::parse)
    }

    fn duration_with(
        &self,
        name: &str,
        node: &T,
        what: &str,
        parse: impl FnOnce(&str) -> Option<Duration>,
    ) -> Option<Duration> {
        let text = match node.shape() {
            Shape::Text(text) => text.to_owned(),
            Shape::Number(number) => number.to_string(),
            _ => {
                self.wrong_field(name, node, what, duration::HINT);
                return None;
            }
        };
        let duration = parse(&text);
        if duration.is_none() {
            let message =
                format!("{} is `{}`, which is not {what}", self.called_field(name), clip(&text, LONGEST_NAME));
            self.add(node.place(), &self.path_of(name), "bad_value", message, duration::HINT.to_owned());
        }
        duration
    }

    /// The items of a list; none if it is absent.
    pub fn list(&self, name: &str) -> &'n [T] {
        let items = self.get(name).and_then(|node| {
            self.typed(name, node, "a list", |shape| match shape {
                Shape::List(items) => Some(items),
                _ => None,
            })
        });
        items.unwrap_or_default()
    }

    /// A list of texts; `None` if it is absent or no list.
    pub fn text_list(&self, name: &str) -> Option<Vec<Text<'n>>> {
        let node = self.get(name)?;
        let expected = match self.report.syntax().text() {
            "text" => "a list of texts",
            _ => "a list of strings",
        };
        let items = self.typed(name, node, expected, |shape| match shape {
            Shape::List(items) => Some(items),
            _ => None,
        })?;
        let texts = items.iter().enumerate().filter_map(|(index, item)| match item.shape() {
            Shape::Text(value) => Some(Text { value, place: item.place() }),
            _ => {
                self.wrong_type(item, &self.path_of(name).index(index), &self.called_field(name), expected, "");
                None
            }
        });
        Some(texts.collect())
    }

    /// The mappings of a list.
    pub fn entries(&self, name: &str) -> Vec<Self> {
        let path = self.path_of(name);
        let entry = |(index, node)| Self::new(self.report, node, self.owner.clone(), path.index(index), self.root);
        self.list(name).iter().enumerate().filter_map(entry).collect()
    }

    pub fn fields(&self, name: &str) -> Option<Self> {
        self.inner(self.get(name)?, name)
    }

    pub fn required_fields(&self, name: &str, hint: &str) -> Option<Self> {
        self.inner(self.require(name, hint)?, name)
    }

    /// `node`, the value of the field `name`, as a mapping.
    pub fn inner(&self, node: &'n T, name: &str) -> Option<Self> {
        Self::new(self.report, node, self.owner.clone(), self.path_of(name), self.root)
    }

    /// A mapping of free names to texts, as labels and annotations are.
    pub fn texts(&self, name: &str) -> BTreeMap<&'n str, Text<'n>> {
        let Some(fields) = self.fields(name) else { return BTreeMap::new() };
        // Not by name: there may be as many as fit into a body, and a lookup is linear.
        fields.node.members().filter_map(|(name, _, value)| Some((name, fields.text_of(value, name)?))).collect()
    }

    /// Refuses fields that ARK knows and this version does not serve: to ignore them would change
    /// what the document means.
    pub fn unserved(&self, names: &[&'static str], hint: &str) {
        self.refused.borrow_mut().extend_from_slice(names);
        for (name, place) in self.node.keys().filter(|(name, _)| names.contains(name) && self.has(name)) {
            let message = format!("{} is not served by this version", self.called_field(name));
            self.add(place, &self.path_of(name), "unsupported_field", message, hint.to_owned());
        }
    }

    /// The fields that were not asked for, with the places of their keys.
    pub fn unknown(&self) -> Vec<(&'n str, SourcePlace)> {
        let (asked, refused) = (self.asked.borrow(), self.refused.borrow());
        let is_known = |name: &str| asked.iter().any(|asked| asked == name) || refused.contains(&name);
        self.node.keys().filter(|(name, _)| !is_known(name)).collect()
    }

    /// Ends the reading of this mapping: a field that was not asked for is unknown.
    pub fn finish(&self) {
        let unknown = self.unknown();
        let bounds = self.report.bounds();
        for (name, place) in unknown.iter().take(bounds.unknown) {
            let shown = clip(name, LONGEST_NAME);
            if bounds.ignores_unknown {
                let path = self.path_of(name);
                self.report.warn(&path, "unknown_field", format!("unknown field `{}` was ignored", self.inside(&path)));
                continue;
            }
            let message = match &*self.called() {
                "" => format!("unknown field `{shown}`"),
                called => format!("{called} has no field `{shown}`"),
            };
            let asked = self.asked.borrow();
            let hint = closest(name, asked.iter().map(String::as_str))
                .map_or_else(|| format!("fields here: {}", asked.join(", ")), |near| format!("did you mean `{near}`?"));
            self.add(*place, &self.path_of(name), "unknown_field", message, hint);
        }
        let more = unknown.len().saturating_sub(bounds.unknown);
        if more > 0 {
            self.fault(self.place(), "unknown_field", format!("{more} more fields are unknown"), "");
        }
    }

    /// Ends the reading of a mapping of another system: a field that was not asked for is lost, with a warning.
    pub fn drop_unknown(&self) {
        let unknown = self.unknown();
        let listed = self.report.bounds().unknown;
        for (name, _) in unknown.iter().take(listed) {
            let message = format!("`{}` has no place in a tool and is left out", clip(name, LONGEST_NAME));
            self.report.warn(&self.path_of(name), "field_dropped", message);
        }
        let more = unknown.len().saturating_sub(listed);
        if more > 0 {
            let message = format!("{more} more fields have no place in a tool and are left out");
            self.report.warn(&self.path, "field_dropped", message);
        }
    }
}
