//! Places in a value, as people write them: `address.city`, `tags[1]`, `["odd key"].x`.

use std::fmt::Write as _;

use serde_json::Value;

use crate::json::tree::{Key, Tree};

/// Goes into an object.
pub(crate) fn push_key(path: &mut String, key: &str) {
    let plain = !key.is_empty()
        && key.chars().all(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '$' | '/' | '@'));
    if !plain {
        push_quoted(path, key);
        return;
    }
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(key);
}

/// A key with a dot, a space or a bracket would be read as something else.
fn push_quoted(path: &mut String, key: &str) {
    // Writing to a string cannot fail, and neither can a text be unfit for JSON.
    let _ = write!(path, "[{}]", Value::from(key));
}

/// Goes into an array.
pub(crate) fn push_index(path: &mut String, index: usize) {
    let _ = write!(path, "[{index}]");
}

/// A path with one more key.
pub(crate) fn with_key(path: &str, key: &str) -> String {
    let mut path = path.to_owned();
    push_key(&mut path, key);
    path
}

/// A path with one more index.
pub(crate) fn with_index(path: &str, index: usize) -> String {
    let mut path = path.to_owned();
    push_index(&mut path, index);
    path
}

/// A whole path below another one.
pub(crate) fn below(parent: &str, path: &str) -> String {
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

/// What a JSON pointer can lead into.
pub(crate) trait Walk {
    fn is_array(&self) -> bool;
    fn item(&self, index: usize) -> Option<&Self>;
    fn member(&self, key: &str) -> Option<&Self>;
}

impl Walk for Value {
    fn is_array(&self) -> bool {
        self.is_array()
    }

    fn item(&self, index: usize) -> Option<&Self> {
        self.get(index)
    }

    fn member(&self, key: &str) -> Option<&Self> {
        self.get(key)
    }
}

impl Walk for Tree<'_> {
    fn is_array(&self) -> bool {
        matches!(self, Tree::Array(_))
    }

    fn item(&self, index: usize) -> Option<&Self> {
        if let Tree::Array(items) = self { items.get(index) } else { None }
    }

    fn member(&self, key: &str) -> Option<&Self> {
        if let Tree::Object(members) = self { members.get(&Key::new(key)) } else { None }
    }
}

/// A JSON pointer into `root`, as people write it. The value decides whether `0` is an index or a key.
pub(crate) fn from_pointer(pointer: &str, root: &impl Walk) -> String {
    let mut path = String::new();
    let mut here = Some(root);
    for segment in segments(pointer) {
        match (here, segment.parse::<usize>()) {
            (Some(array), Ok(index)) if array.is_array() => {
                push_index(&mut path, index);
                here = array.item(index);
            }
            (object, _) => {
                push_key(&mut path, &segment);
                here = object.and_then(|object| object.member(&segment));
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
            ("/0/x~1y", "0.x/y"),
            ("/0/x~1y//0", "0.x/y[\"\"][0]"),
            ("/missing/0", "missing.0"),
        ] {
            assert_eq!(from_pointer(pointer, &value), expect);
            assert_eq!(from_pointer(pointer, &Tree::of(&value)), expect);
        }
    }
}
