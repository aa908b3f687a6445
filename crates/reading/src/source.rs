//! Mappings that [`Fields`](crate::Fields) takes apart: borrowed trees, and JSON objects that are consumed.
//!
//! A borrowed tree lends its values and keeps them. An [`Object`] gives its values away, so that the large texts of a
//! body are moved to where they are used and never copied.

use std::{borrow::Borrow, cell::RefCell, collections::BTreeMap};

use serde_json::{Map, Value};

use crate::{Path, Shape, SourcePlace, Text, Tree};

/// Up to this many names are compared one by one: most fields that are asked for are absent, and comparing a few
/// names is cheaper than hashing one.
const FEW: usize = 16;

/// One mapping, and what its values are once they are taken.
pub trait Source: Sized {
    type Tree: Tree;
    type Value: Borrow<Self::Tree>;
    type Text;
    type List: IntoIterator<Item = Self::Value, IntoIter: ExactSizeIterator> + Default;

    /// Whether a value that was taken is gone, so that what is left at the end is unknown.
    const IS_CONSUMED: bool;

    /// `value` as a mapping, or `value` itself if it is none.
    fn mapping(value: Self::Value) -> Result<Self, Self::Value>;

    fn text(value: Self::Value) -> Result<Self::Text, Self::Value>;

    fn list(value: Self::Value) -> Result<Self::List, Self::Value>;

    /// The value of a key, `null` included.
    fn take(&self, name: &str) -> Option<Self::Value>;

    /// Whether a key has a value other than `null`.
    fn has(&self, name: &str) -> bool;

    /// Where the mapping begins.
    fn place(&self) -> SourcePlace;

    /// Where the value of a key begins.
    fn place_of(&self, name: &str) -> Option<SourcePlace>;

    /// Where a key came from, if it was written in another mapping.
    fn origin(&self, _name: &str) -> Option<&Path> {
        None
    }

    /// Visits the keys that are there, with their places.
    fn visit_keys(&self, visit: &mut dyn FnMut(&str, SourcePlace));
}

impl<'n, T: Tree> Source for &'n T {
    type Tree = T;
    type Value = &'n T;
    type Text = Text<'n>;
    type List = &'n [T];

    const IS_CONSUMED: bool = false;

    fn mapping(value: Self) -> Result<Self, Self> {
        if matches!(value.shape(), Shape::Map) { Ok(value) } else { Err(value) }
    }

    fn text(value: Self) -> Result<Text<'n>, Self> {
        match value.shape() {
            Shape::Text(text) => Ok(Text { value: text, place: value.place() }),
            _ => Err(value),
        }
    }

    fn list(value: Self) -> Result<&'n [T], Self> {
        match value.shape() {
            Shape::List(items) => Ok(items),
            _ => Err(value),
        }
    }

    fn take(&self, name: &str) -> Option<Self> {
        self.member(name)
    }

    fn has(&self, name: &str) -> bool {
        self.member(name).is_some_and(|value| !value.is_null())
    }

    fn place(&self) -> SourcePlace {
        Tree::place(*self)
    }

    fn place_of(&self, name: &str) -> Option<SourcePlace> {
        self.member(name).map(Tree::place)
    }

    fn visit_keys(&self, visit: &mut dyn FnMut(&str, SourcePlace)) {
        self.keys().for_each(|(name, place)| visit(name, place));
    }
}

/// A JSON object whose values are taken out.
#[derive(Debug, Default)]
pub struct Object {
    members: RefCell<Map<String, Value>>,
    /// The paths of members that were written in another object.
    origins: BTreeMap<String, Path>,
}

impl Object {
    /// What was not taken.
    #[must_use]
    pub fn into_members(self) -> Map<String, Value> {
        self.members.into_inner()
    }

    pub(crate) fn take_all(&self) -> Map<String, Value> {
        self.members.take()
    }

    /// Adds a member that was written at `origin`.
    pub(crate) fn insert(&mut self, name: String, value: Value, origin: Path) {
        self.members.get_mut().insert(name.clone(), value);
        self.origins.insert(name, origin);
    }
}

impl Source for Object {
    type Tree = Value;
    type Value = Value;
    type Text = String;
    type List = Vec<Value>;

    const IS_CONSUMED: bool = true;

    fn mapping(value: Value) -> Result<Self, Value> {
        match value {
            Value::Object(members) => Ok(Self { members: RefCell::new(members), origins: BTreeMap::new() }),
            other => Err(other),
        }
    }

    fn text(value: Value) -> Result<String, Value> {
        match value {
            Value::String(text) => Ok(text),
            other => Err(other),
        }
    }

    fn list(value: Value) -> Result<Vec<Value>, Value> {
        match value {
            Value::Array(items) => Ok(items),
            other => Err(other),
        }
    }

    fn take(&self, name: &str) -> Option<Value> {
        let mut members = self.members.borrow_mut();
        contains(&members, name).then(|| members.shift_remove(name)).flatten()
    }

    fn has(&self, name: &str) -> bool {
        let members = self.members.borrow();
        contains(&members, name) && members.get(name).is_some_and(|value| !value.is_null())
    }

    fn place(&self) -> SourcePlace {
        SourcePlace::START
    }

    fn place_of(&self, _: &str) -> Option<SourcePlace> {
        None
    }

    fn origin(&self, name: &str) -> Option<&Path> {
        self.origins.get(name)
    }

    /// A `null` is an absent field.
    fn visit_keys(&self, visit: &mut dyn FnMut(&str, SourcePlace)) {
        let members = self.members.borrow();
        let present = members.iter().filter(|(_, value)| !value.is_null());
        present.for_each(|(name, _)| visit(name, SourcePlace::START));
    }
}

fn contains(members: &Map<String, Value>, name: &str) -> bool {
    if members.len() > FEW { members.contains_key(name) } else { members.keys().any(|key| key == name) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use crate::{Fields, Report};

    /// The body of the hot path: its text is as long as the client likes, and may be inside of `spec`.
    #[test]
    fn a_text_of_a_body_is_moved_and_not_copied() {
        let text = "x".repeat(1_000);
        let sent = text.as_ptr();
        let spec: Map<String, Value> = [("input".to_owned(), Value::String(text))].into_iter().collect();
        let body: Map<String, Value> = [("spec".to_owned(), Value::Object(spec))].into_iter().collect();
        let report = Report::of_request();
        let mut fields = Fields::of_body(&report, Value::Object(body)).unwrap();
        let spec = fields.fields("spec").unwrap();
        fields.absorb(spec);
        let read = fields.text("input").unwrap();
        assert_eq!(read.as_ptr(), sent);
    }

    #[test]
    fn what_is_left_of_a_body_is_unknown_unless_it_is_null() {
        let report = Report::of_request();
        let body = json!({"a": 1, "b c": 2, "gone": null, "spec": {"d": 3, "e": 4}});
        let mut fields = Fields::of_body(&report, body).unwrap();
        let spec = fields.fields("spec").unwrap();
        fields.absorb(spec);
        assert_eq!((fields.whole_number("a"), fields.whole_number("d")), (Some(1), Some(3)));
        fields.finish();
        let warnings: Vec<_> = report.take_warnings().into_iter().map(|warning| warning.message).collect();
        assert_eq!(warnings, ["unknown field `b c` was ignored", "unknown field `spec.e` was ignored"]);
        assert!(report.is_sound());
    }
}
