//! Paths of values in a document, as text: `tools[2].parameters.properties.limit`.
//!
//! They are written and read by [`bosun_core::schema::path`]. The documents of a stream count as the items of a list:
//! `[1].spec.url`.

use std::fmt;

use bosun_core::schema::path;

use crate::SourcePlace;

/// A place in a document. The empty path is the document itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
        Self(path::with_key(&self.0, key))
    }

    /// Item `index` of the list here.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(path::with_index(&self.0, index))
    }

    /// This path, then the steps of `rest`, which is written in the same way.
    #[must_use]
    pub fn join(&self, rest: &str) -> Self {
        Self(path::below(&self.0, rest.strip_prefix('.').unwrap_or(rest)))
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

/// A path that is only built when it is asked for: a walk over a million values would otherwise build
/// a million paths.
#[derive(Debug)]
pub enum LazyPath<'a> {
    At(&'a Path),
    Key(&'a LazyPath<'a>, &'a str),
    Index(&'a LazyPath<'a>, usize),
}

impl LazyPath<'_> {
    #[must_use]
    pub fn to_path(&self) -> Path {
        match self {
            Self::At(path) => (*path).clone(),
            Self::Key(parent, key) => parent.to_path().key(key),
            Self::Index(parent, index) => parent.to_path().index(*index),
        }
    }
}

#[cfg(test)]
mod tests {
    use bosun_core::schema::path::PathStep;

    use super::*;

    #[test]
    fn a_path_can_be_read_back() {
        let path = Path::root().key("paths").key("/pets/{\"id\"}\\").key("get").index(3).key("x y").key("2");
        assert_eq!(path.as_str(), r#"paths["/pets/{\"id\"}\\"].get[3]["x y"]["2"]"#);
        let key = |key: &str| PathStep::Key(key.to_owned());
        assert_eq!(
            path::steps(path.as_str()),
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
