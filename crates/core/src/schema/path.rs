//! Human-readable paths in a value: `address.city`, `tags[1]`, `paths["/pets/{id}"].get`.
//!
//! The one grammar of paths: in faults of files and of requests, in violations of schemas, in remarks of converters. The
//! text is unambiguous: a key that is not a plain word is quoted, so that [`steps`] returns the keys and indices that it
//! was made of. Only a very long key is truncated.

use std::fmt::{self, Write as _};

use serde::Serialize;
use serde_json::Value;

use crate::{fault::SourcePlace, text::clip};

/// Maximum number of characters of a key in a path: a key of a megabyte would be in the path of every fault below it.
const LONGEST_KEY: usize = 128;

/// A place in a document. The empty path is the document itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Path(String);

impl Path {
    #[must_use]
    pub fn root() -> Self {
        Self::default()
    }

    /// Source code has no paths: its line and column are used instead.
    #[must_use]
    pub fn of_source(place: SourcePlace) -> Self {
        Self(place.to_string())
    }

    /// The member `key` of the object here.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Self(with_key(&self.0, key))
    }

    /// Item `index` of the list here.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(with_index(&self.0, index))
    }

    /// This path, then the steps of `rest`, which is written in the same way.
    #[must_use]
    pub fn join(&self, rest: &str) -> Self {
        Self(below(&self.0, rest.strip_prefix('.').unwrap_or(rest)))
    }

    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// A path as it is written.
impl From<String> for Path {
    fn from(path: String) -> Self {
        Self(path)
    }
}

impl From<&str> for Path {
    fn from(path: &str) -> Self {
        Self(path.to_owned())
    }
}

impl From<&Self> for Path {
    fn from(path: &Self) -> Self {
        path.clone()
    }
}

impl From<Path> for String {
    fn from(path: Path) -> Self {
        path.0
    }
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathStep {
    Key(String),
    Index(usize),
}

/// The steps that a path was made of.
#[must_use]
pub fn steps(path: &str) -> Vec<PathStep> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        rest = rest.strip_prefix('.').unwrap_or(rest);
        match bracketed(rest) {
            Some((step, after)) => {
                steps.push(step);
                rest = after;
            }
            None => {
                // From the second letter on: an unmatched bracket is an ordinary letter.
                let end = rest.char_indices().skip(1).find(|(_, letter)| matches!(letter, '.' | '['));
                let (key, after) = rest.split_at(end.map_or(rest.len(), |(at, _)| at));
                if !key.is_empty() {
                    steps.push(PathStep::Key(key.to_owned()));
                }
                rest = after;
            }
        }
    }
    steps
}

/// `[3]` or `["key"]` at the beginning of a path, and the rest.
fn bracketed(path: &str) -> Option<(PathStep, &str)> {
    let inner = path.strip_prefix('[')?;
    if inner.starts_with('"') {
        let mut texts = serde_json::Deserializer::from_str(inner).into_iter::<String>();
        let key = texts.next()?.ok()?;
        let after = inner[texts.byte_offset()..].strip_prefix(']')?;
        return Some((PathStep::Key(key), after));
    }
    let (index, after) = inner.split_once(']')?;
    Some((PathStep::Index(index.parse().ok()?), after))
}

/// Appends a key of an object.
pub fn push_key(path: &mut String, key: &str) {
    let shortened;
    let key = match key.char_indices().nth(LONGEST_KEY) {
        Some(_) => {
            shortened = clip(key, LONGEST_KEY);
            &shortened
        }
        None => key,
    };
    if !is_plain(key) {
        push_quoted(path, key);
        return;
    }
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(key);
}

/// Whether a key reads as a word of code. A number would read as an index, and a dot or a bracket would be ambiguous.
fn is_plain(key: &str) -> bool {
    !key.is_empty()
        && !key.starts_with(|letter: char| letter.is_ascii_digit())
        && key.chars().all(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '$'))
}

fn push_quoted(path: &mut String, key: &str) {
    // Writing to a string cannot fail, and every text is valid in JSON.
    let _ = write!(path, "[{}]", Value::from(key));
}

/// Appends an index of an array.
pub fn push_index(path: &mut String, index: usize) {
    let _ = write!(path, "[{index}]");
}

/// A path with one more key.
#[must_use]
pub fn with_key(path: &str, key: &str) -> String {
    let mut path = path.to_owned();
    push_key(&mut path, key);
    path
}

/// A path with one more index.
#[must_use]
pub fn with_index(path: &str, index: usize) -> String {
    let mut path = path.to_owned();
    push_index(&mut path, index);
    path
}

/// A whole path below another one.
#[must_use]
pub fn below(parent: &str, path: &str) -> String {
    match path {
        "" => parent.to_owned(),
        path if path.starts_with('[') || parent.is_empty() => format!("{parent}{path}"),
        path => format!("{parent}.{path}"),
    }
}

/// The keys of a JSON pointer, unescaped.
pub(crate) fn segments(pointer: &str) -> impl Iterator<Item = String> + '_ {
    pointer.split('/').skip(1).map(|segment| segment.replace("~1", "/").replace("~0", "~"))
}

/// The path of a JSON pointer into `root`. The value decides whether `0` is an index or a key.
pub(crate) fn from_pointer(pointer: &str, root: &Value) -> String {
    let mut path = String::new();
    let mut here = Some(root);
    for segment in segments(pointer) {
        match (here, segment.parse::<usize>()) {
            (Some(array), Ok(index)) if array.is_array() => {
                push_index(&mut path, index);
                here = array.get(index);
            }
            (object, _) => {
                push_key(&mut path, &segment);
                here = object.and_then(|object| object.get(&segment));
            }
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_read_as_code() {
        let value = json!({"a": [{"b c": 1}], "0": {"x/y": {"": [1]}}});
        for (pointer, expect) in [
            ("", ""),
            ("/a", "a"),
            ("/a/0", "a[0]"),
            ("/a/0/b c", "a[0][\"b c\"]"),
            ("/0/x~1y", "[\"0\"][\"x/y\"]"),
            ("/0/x~1y//0", "[\"0\"][\"x/y\"][\"\"][0]"),
            ("/missing/0", "missing[\"0\"]"),
        ] {
            assert_eq!(from_pointer(pointer, &value), expect);
        }
    }

    #[test]
    fn the_steps_of_a_path_are_those_that_it_was_made_of() {
        let keys = ["a", "a.b", "app.kubernetes.io/name", "", "x]y[", "0", "\"quoted\"", "ä ö", "$ref", "[", "."];
        for first in keys {
            for second in keys {
                let mut path = with_index(&with_key("", first), 7);
                push_key(&mut path, second);
                let expect = [PathStep::Key(first.into()), PathStep::Index(7), PathStep::Key(second.into())];
                assert_eq!(steps(&path), expect, "{path}");
                assert_eq!(steps(&below(&path, &with_key("", first))).len(), 4, "{path}");
            }
        }
        assert_eq!(steps(""), []);
    }

    #[test]
    fn a_path_of_another_origin_still_has_steps() {
        for odd in ["[", "a[", "a[x", "a[\"b", "a..b", ".", "a]b", "[\"a\"x"] {
            let _ = steps(odd);
        }
        assert_eq!(steps("metadata.name"), [PathStep::Key("metadata".into()), PathStep::Key("name".into())]);
    }

    #[test]
    fn a_long_key_is_truncated() {
        let path = with_key("", &"k".repeat(1_000_000));
        assert!(path.len() < 200, "{}", path.len());
    }

    #[test]
    fn a_path_can_be_read_back() {
        let path = Path::root().key("paths").key("/pets/{\"id\"}\\").key("get").index(3).key("x y").key("2");
        assert_eq!(path.as_str(), r#"paths["/pets/{\"id\"}\\"].get[3]["x y"]["2"]"#);
        let key = |key: &str| PathStep::Key(key.to_owned());
        assert_eq!(
            steps(path.as_str()),
            [key("paths"), key("/pets/{\"id\"}\\"), key("get"), PathStep::Index(3), key("x y"), key("2")]
        );
    }

    #[test]
    fn joining_puts_a_dot_only_where_one_belongs() {
        assert_eq!(Path::root().join("a.b").as_str(), "a.b");
        assert_eq!(Path::root().key("a").join("b").as_str(), "a.b");
        assert_eq!(Path::root().key("a").join("[0]").as_str(), "a[0]");
        assert_eq!(Path::root().key("a").join("").as_str(), "a");
    }
}
