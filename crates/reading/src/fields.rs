//! The fields of one mapping, taken one by one.
//!
//! Each field is asked for by name and type; [`Fields::finish`] reports those that were never asked
//! for. A field that is `null` counts as absent, as in Kubernetes. Messages name a field by its path
//! in a document that has a name (`` `spec.type` of Tool `x` ``), and by its own name elsewhere, where
//! the path is shown next to the message; those about the body of a request do not name it at all.
//!
//! Of a file the values are borrowed; of a body, which is an [`Object`], they are moved out.

use std::{borrow::Borrow as _, cell::RefCell, collections::BTreeMap, rc::Rc, time::Duration};

use bosun_core::{
    Timestamp, duration,
    text::{clip, closest},
};
use serde_json::{Map, Value};

use crate::{Fault, FaultClass, FieldTable, Node, Object, Path, Report, Shape, Source, SourcePlace, Tree, Warning};

/// Characters of an unknown field's name that a message shows.
const LONGEST_NAME: usize = 200;

/// A text and its place.
#[derive(Clone, Copy, Debug)]
pub struct Text<'n> {
    pub value: &'n str,
    pub place: SourcePlace,
}

/// Which mapping is being read, and how messages refer to it and its fields.
#[derive(Debug)]
struct Position<'n> {
    report: &'n Report,
    /// The document that the mapping belongs to, ``Agent `x` ``; none if it has no name.
    owner: Option<Rc<str>>,
    path: Path,
    /// Bytes of `path` that lead to the document itself.
    root: usize,
}

impl Position<'_> {
    fn at(&self, path: Path) -> Self {
        Self { report: self.report, owner: self.owner.clone(), path, root: self.root }
    }

    /// Where in the document `path` is.
    fn inside<'p>(&self, path: &'p Path) -> &'p str {
        let inside = path.as_str().get(self.root..).unwrap_or_default();
        inside.strip_prefix('.').unwrap_or(inside)
    }

    fn called(&self) -> String {
        match (self.inside(&self.path), self.owner.as_deref()) {
            ("", owner) => owner.unwrap_or_default().to_owned(),
            (path, None) => format!("`{path}`"),
            (path, Some(owner)) => format!("`{path}` of {owner}"),
        }
    }

    fn add(&self, place: SourcePlace, path: &Path, code: &'static str, message: String, hint: String) {
        let fault = Fault::of_file(self.report.file(), code, message).hint(hint);
        self.report.fault_at(place, Fault { path: path.clone(), ..fault });
    }

    fn wrong_type(&self, node: &impl Tree, path: &Path, called: &str, expected: &str, hint: &str) {
        let syntax = self.report.syntax();
        let hint = match node.shape() {
            Shape::Bool(_) | Shape::Number(_) if expected == syntax.text() => "put it in quotes",
            _ => hint,
        };
        let mut message = format!("must be {expected}, not {}", syntax.kind_of(node));
        if self.report.bounds().names_fields {
            message = format!("{called} {message}");
        }
        self.add(node.place(), path, "wrong_type", message, hint.to_owned());
    }
}

/// One mapping that is being read.
#[derive(Debug)]
pub struct Fields<'n, S = &'n Node> {
    position: Position<'n>,
    source: S,
    /// The fields that may be read, where they are declared.
    table: Option<FieldTable>,
    asked: RefCell<Vec<String>>,
    refused: RefCell<Vec<&'static str>>,
}

impl<'n, S: Source> Fields<'n, S> {
    pub(crate) fn of_document(report: &'n Report, value: S::Value, path: Path, owner: &str) -> Option<Self> {
        let root = path.as_str().len();
        let owner = (!owner.is_empty()).then(|| owner.into());
        Self::new(Position { report, owner, path, root }, value)
    }

    fn new(position: Position<'n>, value: S::Value) -> Option<Self> {
        match S::mapping(value) {
            Ok(source) => Some(Self::of_source(position, source)),
            Err(other) => {
                let expected = position.report.syntax().map();
                position.wrong_type(other.borrow(), &position.path, &position.called(), expected, "");
                None
            }
        }
    }

    fn of_source(position: Position<'n>, source: S) -> Self {
        Self { position, source, table: None, asked: RefCell::default(), refused: RefCell::default() }
    }

    /// Declares the fields that are going to be read. Reading any other one is a bug, which debug builds report: it
    /// would be missing from what describes the mapping.
    #[must_use]
    pub fn with_table(self, table: FieldTable) -> Self {
        Self { table: Some(table), ..self }
    }

    /// Messages about fields of this document name them without it.
    pub(crate) fn unnamed(mut self) -> Self {
        self.position.owner = None;
        self
    }

    /// Sets the name that messages use for the document.
    pub fn rename(&mut self, owner: &str) {
        self.position.owner = Some(owner.into());
    }

    /// What messages call this mapping.
    #[must_use]
    pub fn called(&self) -> String {
        self.position.called()
    }

    /// What messages call a field of this mapping.
    #[must_use]
    pub fn called_field(&self, name: &str) -> String {
        match self.position.owner.as_deref() {
            None => format!("`{name}`"),
            Some(owner) => format!("`{}` of {owner}", self.position.inside(&self.path_of(name))),
        }
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.position.path
    }

    #[must_use]
    pub fn path_of(&self, name: &str) -> Path {
        self.source.origin(name).cloned().unwrap_or_else(|| self.path().key(name))
    }

    #[must_use]
    pub fn place(&self) -> SourcePlace {
        self.source.place()
    }

    #[must_use]
    pub fn report(&self) -> &'n Report {
        self.position.report
    }

    /// A fault of this mapping, or of the value in it that begins at `place`.
    pub fn fault(&self, place: SourcePlace, code: &'static str, message: impl Into<String>, hint: impl Into<String>) {
        self.position.add(place, self.path(), code, message.into(), hint.into());
    }

    /// A fault of the field `name`.
    pub fn fault_of(&self, name: &str, code: &'static str, message: impl Into<String>, hint: impl Into<String>) {
        let place = self.source.place_of(name).unwrap_or_else(|| self.place());
        self.position.add(place, &self.path_of(name), code, message.into(), hint.into());
    }

    /// Reports that the field `name` must be `expected`.
    pub fn wrong_field(&self, name: &str, node: &S::Tree, expected: &str, hint: &str) {
        self.position.wrong_type(node, &self.path_of(name), &self.called_field(name), expected, hint);
    }

    fn ask(&self, name: &str) {
        debug_assert!(
            self.table.is_none_or(|table| table.iter().any(|field| field.name == name)),
            "field `{name}` is read and not declared"
        );
        if S::IS_CONSUMED {
            return;
        }
        let mut asked = self.asked.borrow_mut();
        if !asked.iter().any(|asked| asked == name) {
            asked.push(name.to_owned());
        }
    }

    /// The value of a field.
    pub fn get(&self, name: &str) -> Option<S::Value> {
        self.get_or_null(name).filter(|value| !value.borrow().is_null())
    }

    /// The value of a field, `null` included.
    pub fn get_or_null(&self, name: &str) -> Option<S::Value> {
        self.ask(name);
        self.source.take(name)
    }

    /// Whether a field is present. Does not count as asking for it.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.source.has(name)
    }

    /// Fields that are known and have no effect.
    pub fn ignore(&self, names: &[&'static str]) {
        self.refused.borrow_mut().extend_from_slice(names);
    }

    pub fn require(&self, name: &str, hint: &str) -> Option<S::Value> {
        let value = self.get(name);
        if value.is_none() {
            self.fault(self.place(), "missing_field", format!("{} is missing", self.called_field(name)), hint);
        }
        value
    }

    fn typed<R>(
        &self,
        name: &str,
        value: S::Value,
        expected: &str,
        read: impl FnOnce(S::Value) -> Result<R, S::Value>,
    ) -> Option<R> {
        read(value).map_err(|other| self.wrong_field(name, other.borrow(), expected, "")).ok()
    }

    /// The same for values of which nothing is kept.
    fn scalar<R>(&self, name: &str, expected: &str, read: impl FnOnce(Shape<'_, S::Tree>) -> Option<R>) -> Option<R> {
        self.typed(name, self.get(name)?, expected, |value| read(value.borrow().shape()).ok_or(value))
    }

    /// `value`, the value of the field `name`, as a text.
    pub fn text_of(&self, value: S::Value, name: &str) -> Option<S::Text> {
        self.typed(name, value, self.report().syntax().text(), S::text)
    }

    pub fn text(&self, name: &str) -> Option<S::Text> {
        self.text_of(self.get(name)?, name)
    }

    pub fn required_text(&self, name: &str, hint: &str) -> Option<S::Text> {
        self.text_of(self.require(name, hint)?, name)
    }

    pub fn bool(&self, name: &str) -> Option<bool> {
        self.scalar(name, "true or false", |shape| match shape {
            Shape::Bool(value) => Some(value),
            _ => None,
        })
    }

    pub fn whole_number(&self, name: &str) -> Option<u64> {
        self.scalar(name, "a whole number", |shape| match shape {
            Shape::Number(number) => number.as_u64(),
            _ => None,
        })
    }

    /// A date with a time and its offset from UTC: without an offset it would mean another moment on every machine.
    pub fn moment(&self, name: &str) -> Option<Timestamp> {
        let expected = "a date with a time and an offset, for instance 2027-01-31T12:00:00Z";
        self.scalar(name, expected, |shape| match shape {
            // `from_rfc3339` also reads a date alone, which is too vague here.
            Shape::Moment(text) if text.len() > "2027-01-31".len() => Timestamp::from_rfc3339(text),
            _ => None,
        })
    }

    /// A timeout or an interval of at least a millisecond; a number means seconds.
    pub fn positive_duration(&self, name: &str) -> Option<Duration> {
        self.duration_with(name, self.get(name)?.borrow(), "a duration above zero", duration::parse_positive)
    }

    /// A pause, which may be zero.
    pub fn duration(&self, name: &str) -> Option<Duration> {
        self.duration_of(self.get(name)?.borrow(), name)
    }

    /// `node`, the value of the field `name`, as a pause.
    pub fn duration_of(&self, node: &S::Tree, name: &str) -> Option<Duration> {
        self.duration_with(name, node, "a duration", duration::parse)
    }

    fn duration_with(
        &self,
        name: &str,
        node: &S::Tree,
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
            self.position.add(node.place(), &self.path_of(name), "bad_value", message, duration::HINT.to_owned());
        }
        duration
    }

    /// The items of a list; `None` if it is absent or not a list.
    pub fn items(&self, name: &str) -> Option<S::List> {
        self.typed(name, self.get(name)?, self.report().syntax().list(), S::list)
    }

    /// The items of a list; none if it is absent.
    pub fn list(&self, name: &str) -> S::List {
        self.items(name).unwrap_or_default()
    }

    /// The mappings of a list.
    pub fn entries(&self, name: &str) -> Vec<Self> {
        let path = self.path_of(name);
        let entry = |(index, value)| Self::new(self.position.at(path.index(index)), value);
        self.list(name).into_iter().enumerate().filter_map(entry).collect()
    }

    pub fn fields(&self, name: &str) -> Option<Self> {
        self.inner(self.get(name)?, name)
    }

    pub fn required_fields(&self, name: &str, hint: &str) -> Option<Self> {
        self.inner(self.require(name, hint)?, name)
    }

    /// `value`, the value of the field `name`, as a mapping.
    pub fn inner(&self, value: S::Value, name: &str) -> Option<Self> {
        Self::new(self.position.at(self.path_of(name)), value)
    }

    fn is_known(&self, name: &str) -> bool {
        self.asked.borrow().iter().any(|asked| asked == name) || self.refused.borrow().contains(&name)
    }

    fn visit_unknown(&self, mut visit: impl FnMut(&str, SourcePlace)) {
        self.source.visit_keys(&mut |name, place| {
            if !self.is_known(name) {
                visit(name, place);
            }
        });
    }

    /// Ends the reading of this mapping: a field that was not asked for is unknown.
    pub fn finish(&self) {
        let bounds = self.report().bounds();
        if !bounds.ignores_unknown {
            return self.refuse_unknown(bounds.unknown);
        }
        self.visit_unknown(|name, _| {
            self.report().warn_with(|| {
                let path = self.path_of(name);
                // A name at the root is shown as it was sent, without the quotes of a path.
                let is_alone = self.path().is_root() && self.source.origin(name).is_none();
                let shown = clip(if is_alone { name } else { self.position.inside(&path) }, bounds.shown);
                Warning {
                    message: format!("unknown field `{shown}` was ignored"),
                    code: "unknown_field",
                    path: path.into(),
                }
            });
        });
    }

    fn refuse_unknown(&self, listed: usize) {
        let mut count = 0_usize;
        self.visit_unknown(|name, place| {
            count += 1;
            if count > listed {
                return;
            }
            let shown = clip(name, LONGEST_NAME);
            let message = match &*self.called() {
                "" => format!("unknown field `{shown}`"),
                called => format!("{called} has no field `{shown}`"),
            };
            let asked = self.asked.borrow();
            let hint = closest(name, asked.iter().map(String::as_str))
                .map_or_else(|| format!("fields here: {}", asked.join(", ")), |near| format!("did you mean `{near}`?"));
            self.position.add(place, &self.path_of(name), "unknown_field", message, hint);
        });
        let more = count.saturating_sub(listed);
        if more > 0 {
            self.fault(self.place(), "unknown_field", format!("{more} more fields are unknown"), "");
        }
    }
}

impl<'n, T: Tree> Fields<'n, &'n T> {
    #[must_use]
    pub fn node(&self) -> &'n T {
        self.source
    }

    /// Where the key `name` is; the mapping itself if it has none.
    #[must_use]
    pub fn place_of_key(&self, name: &str) -> SourcePlace {
        self.source.keys().find(|(key, _)| *key == name).map_or_else(|| self.place(), |(_, place)| place)
    }

    /// The first of several spellings that is present.
    pub fn get_any<'k>(&self, names: &[&'k str]) -> Option<(&'k str, &'n T)> {
        let found: Vec<_> = names.iter().filter_map(|name| Some((*name, self.get(name)?))).collect();
        found.into_iter().next()
    }

    /// A list of texts; `None` if it is absent or not a list.
    pub fn text_list(&self, name: &str) -> Option<Vec<Text<'n>>> {
        let expected = match self.report().syntax().text() {
            "text" => "a list of texts",
            _ => "a list of strings",
        };
        let items = self.typed(name, self.get(name)?, expected, <&T as Source>::list)?;
        let texts = items.iter().enumerate().filter_map(|(index, item)| match item.shape() {
            Shape::Text(value) => Some(Text { value, place: item.place() }),
            _ => {
                let path = self.path_of(name).index(index);
                self.position.wrong_type(item, &path, &self.called_field(name), expected, "");
                None
            }
        });
        Some(texts.collect())
    }

    /// A mapping of free names to texts, as labels and annotations are.
    pub fn texts(&self, name: &str) -> BTreeMap<&'n str, Text<'n>> {
        let Some(fields) = self.fields(name) else { return BTreeMap::new() };
        // Not by name: there may be as many as fit into a body, and a lookup is linear.
        fields.source.members().filter_map(|(name, _, value)| Some((name, fields.text_of(value, name)?))).collect()
    }

    /// Refuses fields that ARK knows and this version does not serve: ignoring them would change
    /// what the document means.
    pub fn unserved(&self, names: &[&'static str], hint: &str) {
        self.refused.borrow_mut().extend_from_slice(names);
        for (name, place) in self.source.keys().filter(|(name, _)| names.contains(name) && self.has(name)) {
            let message = format!("{} is not served by this version", self.called_field(name));
            self.position.add(place, &self.path_of(name), "unsupported_field", message, hint.to_owned());
        }
    }

    /// The fields that were not asked for, with the places of their keys.
    pub fn unknown(&self) -> Vec<(&'n str, SourcePlace)> {
        self.source.keys().filter(|(name, _)| !self.is_known(name)).collect()
    }

    /// Ends the reading of a mapping of another system: a field that was not asked for is lost, with a warning.
    pub fn drop_unknown(&self) {
        let unknown = self.unknown();
        let listed = self.report().bounds().unknown;
        for (name, _) in unknown.iter().take(listed) {
            let message = format!("`{}` has no place in a tool and is left out", clip(name, LONGEST_NAME));
            self.report().warn(&self.path_of(name), "field_dropped", message);
        }
        let more = unknown.len().saturating_sub(listed);
        if more > 0 {
            let message = format!("{more} more fields have no place in a tool and are left out");
            self.report().warn(self.path(), "field_dropped", message);
        }
    }
}

/// What is left of a JSON object, without the report that its reading goes into.
#[derive(Debug)]
pub struct UnreadFields {
    path: Path,
    object: Object,
}

impl UnreadFields {
    /// Continues reading.
    pub fn resume(self, report: &Report) -> Fields<'_, Object> {
        Fields::of_source(Position { report, owner: None, path: self.path, root: 0 }, self.object)
    }
}

impl<'n> Fields<'n, Object> {
    /// The fields of the body of a request; the value itself if it is not an object.
    ///
    /// # Errors
    /// With the value.
    pub fn of_body(report: &'n Report, body: Value) -> Result<Self, Value> {
        let position = Position { report, owner: None, path: Path::root(), root: 0 };
        Object::mapping(body).map(|object| Self::of_source(position, object))
    }

    /// Stops reading, so that the report can move; [`UnreadFields::resume`] continues.
    #[must_use]
    pub fn suspend(self) -> UnreadFields {
        UnreadFields { path: self.position.path, object: self.source }
    }

    /// Removes a field that is accepted and has no effect, or that is refused.
    pub fn discard(&self, name: &str) -> Option<Value> {
        self.source.take(name)
    }

    /// Refuses the field `name`.
    pub fn refuse(&self, class: FaultClass, name: &str, code: &'static str, message: impl Into<String>) {
        self.report().refuse(class, self.path_of(name), code, message);
    }

    /// A fault of the field `name` that a client can correct.
    pub fn reject(&self, name: &str, code: &'static str, message: impl Into<String>) {
        self.report().fault(self.path_of(name), code, message);
    }

    /// The object at `path`; anything else is a fault.
    pub fn at(&self, path: Path, value: Value) -> Option<Self> {
        Self::new(self.position.at(path), value)
    }

    /// Reads the items of a list as objects, until there are more faults than are listed.
    pub fn each_object(&self, name: &str, mut read: impl FnMut(Self)) {
        self.each_of(name, self.list(name), |path, value| {
            if let Some(fields) = self.at(path, value) {
                read(fields);
            }
        });
    }

    /// Reads the items of the list `name`, each with its path, until there are more faults than are listed.
    pub fn each_of(&self, name: &str, items: Vec<Value>, mut read: impl FnMut(Path, Value)) {
        let path = self.path_of(name);
        self.report().each(items.into_iter().enumerate(), |(index, value)| read(path.index(index), value));
    }

    /// Reads all fields, until there are more faults than are listed: for objects whose keys are data.
    pub fn consume(self, mut read: impl FnMut(&Self, String, Value)) {
        let members = self.source.take_all();
        self.report().each(members, |(name, value)| read(&self, name, value));
    }

    /// Moves the fields of `inner` up into this object; a field that is in both is a fault.
    pub fn absorb(&mut self, inner: Self) {
        let (path, bounds) = (inner.position.path, inner.position.report.bounds());
        let members = inner.source.into_members().into_iter();
        for (name, value) in members.filter(|(_, value)| !value.is_null()) {
            let origin = path.key(&name);
            if self.has(&name) {
                let message =
                    format!("appears twice: here and as `{}`", clip(self.path_of(&name).as_str(), bounds.shown));
                self.report().fault(origin, "duplicate_field", message);
            } else {
                self.source.insert(name, value, origin);
            }
        }
    }

    /// All fields, by name: for objects whose keys are data.
    #[must_use]
    pub fn into_members(self) -> Map<String, Value> {
        self.source.into_members()
    }
}
