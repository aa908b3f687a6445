//! Paths of values that are only built when they are needed.

use bosun_core::schema::path::Path;

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
