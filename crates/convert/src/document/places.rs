//! The positions of a document's values, computed only when something has to be located.

use bosun_core::schema::path::{PathStep, steps};
use bosun_reading::SourcePlace;
use indexmap::IndexMap;

/// The positions of a document's values.
#[derive(Debug)]
pub struct Places(pub(super) Located);

/// One value of a document: its position, and those of the values inside of it.
#[derive(Debug)]
pub(super) struct Located {
    pub(super) place: SourcePlace,
    pub(super) inside: Inside,
}

#[derive(Debug)]
pub(super) enum Inside {
    Nothing,
    Items(Vec<Located>),
    Members(IndexMap<String, Located>),
}

impl Places {
    /// The position of the value at `path`, or of the nearest value around it that exists: a missing value has none of
    /// its own.
    #[must_use]
    pub fn find(&self, path: &str) -> SourcePlace {
        let mut value = &self.0;
        for step in steps(path) {
            let next = match (&value.inside, &step) {
                (Inside::Items(items), PathStep::Index(index)) => items.get(*index),
                (Inside::Members(members), PathStep::Key(key)) => members.get(key),
                _ => None,
            };
            match next {
                Some(next) => value = next,
                None => break,
            }
        }
        value.place
    }
}
