//! The members of one object, taken one by one.
//!
//! What nobody took is reported at the end: this is how a converter knows that it lost nothing.

use std::{collections::BTreeMap, time::Duration};

use bosun_core::tool::{Deprecation, duration_from_json};
use serde_json::{Map, Value};

use crate::{document::Path, format::clip, found::Report};

/// So many unknown members of one object are told one by one.
const TOLD: usize = 20;

/// An object that is being read.
pub(crate) struct Fields<'a> {
    object: &'a Map<String, Value>,
    path: Path,
    known: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(object: &'a Map<String, Value>, path: Path) -> Self {
        Self { object, path, known: Vec::new() }
    }

    /// The object at `path`, or a fault that says what stands there instead.
    pub(crate) fn of(value: &'a Value, path: Path, what: &str, report: &mut Report) -> Option<Self> {
        if let Value::Object(object) = value {
            return Some(Self::new(object, path));
        }
        report.fault(&path, "not_an_object", format!("{what} must be an object, not {}", kind_of(value)));
        None
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn path_of(&self, key: &str) -> Path {
        self.path.key(key)
    }

    /// A member that may be absent; `null` counts as absent.
    pub(crate) fn take(&mut self, key: &'static str) -> Option<&'a Value> {
        self.known.push(key);
        self.object.get(key).filter(|value| !value.is_null())
    }

    /// The first of several spellings that is present.
    pub(crate) fn take_any(&mut self, keys: &[&'static str]) -> Option<(&'static str, &'a Value)> {
        keys.iter().fold(None, |found, key| {
            let value = self.take(key);
            found.or_else(|| value.map(|value| (*key, value)))
        })
    }

    /// Members that are known and carry nothing that a tool has room for.
    pub(crate) fn skip(&mut self, keys: &[&'static str]) {
        self.known.extend(keys);
    }

    pub(crate) fn text(&mut self, key: &'static str, report: &mut Report) -> Option<&'a str> {
        self.typed(key, "a text", Value::as_str, report)
    }

    pub(crate) fn boolean(&mut self, key: &'static str, report: &mut Report) -> Option<bool> {
        self.typed(key, "true or false", Value::as_bool, report)
    }

    pub(crate) fn object(&mut self, key: &'static str, report: &mut Report) -> Option<&'a Map<String, Value>> {
        self.typed(key, "an object", Value::as_object, report)
    }

    pub(crate) fn list(&mut self, key: &'static str, report: &mut Report) -> Option<&'a [Value]> {
        self.typed(key, "a list", |value| value.as_array().map(Vec::as_slice), report)
    }

    fn typed<T>(
        &mut self,
        key: &'static str,
        what: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
        report: &mut Report,
    ) -> Option<T> {
        let value = self.take(key)?;
        let read = read(value);
        if read.is_none() {
            let message = format!("`{key}` must be {what}, not {}", kind_of(value));
            report.fault(&self.path_of(key), "wrong_type", message);
        }
        read
    }

    /// A text without which the object means nothing.
    pub(crate) fn required_text(&mut self, key: &'static str, report: &mut Report) -> Option<&'a str> {
        let faults = report.fault_count();
        let text = self.text(key, report);
        if text.is_none() && report.fault_count() == faults {
            report.fault(&self.path, "field_missing", format!("`{key}` is missing"));
        }
        text
    }

    /// A time: seconds, or a text such as `30s`.
    pub(crate) fn duration(&mut self, key: &'static str, report: &mut Report) -> Option<Duration> {
        let value = self.take(key)?;
        let duration = duration_from_json(value);
        if duration.is_none() {
            let message = format!("`{key}` must be a number of seconds, or a text such as `30s`, `5m` or `1h`");
            report.fault(&self.path_of(key), "not_a_duration", message);
        }
        duration
    }

    /// An object of texts.
    pub(crate) fn texts(&mut self, key: &'static str, report: &mut Report) -> BTreeMap<String, String> {
        let path = self.path_of(key);
        let mut texts = BTreeMap::new();
        for (name, value) in self.object(key, report).into_iter().flatten() {
            match value.as_str() {
                Some(text) => {
                    texts.insert(name.clone(), text.to_owned());
                }
                None => {
                    let message = format!("this must be a text, not {}", kind_of(value));
                    report.fault(&path.key(name), "wrong_type", message);
                }
            }
        }
        texts
    }

    /// `deprecated: true`, or `{since, message, replacedBy}`.
    pub(crate) fn deprecation(&mut self, report: &mut Report) -> Option<Deprecation> {
        let path = self.path_of("deprecated");
        match self.take("deprecated")? {
            Value::Bool(deprecated) => deprecated.then(Deprecation::default),
            Value::Object(object) => {
                let mut inner = Self::new(object, path);
                let mut text = |key| inner.text(key, report).map(str::to_owned);
                let (since, message, replaced_by) = (text("since"), text("message"), text("replacedBy"));
                inner.refuse_the_rest(report);
                Some(Deprecation { since, message, replaced_by })
            }
            other => {
                let message = format!("`deprecated` must be true or an object, not {}", kind_of(other));
                report.fault(&path, "wrong_type", message);
                None
            }
        }
    }

    /// The members that nobody took.
    pub(crate) fn unknown(&self) -> impl Iterator<Item = &'a String> {
        self.object.keys().filter(|key| !self.known.contains(&key.as_str()))
    }

    /// Says of every member that nobody took that it is lost.
    pub(crate) fn warn_of_the_rest(&self, report: &mut Report) {
        for key in self.unknown().take(TOLD) {
            let message = format!("`{}` has no place in a tool and is left out", clip(key));
            report.warn(&self.path_of(key), "field_dropped", message);
        }
        let more = self.unknown().skip(TOLD).count();
        if more > 0 {
            report.warn(
                &self.path,
                "field_dropped",
                format!("{more} more fields have no place in a tool and are left out"),
            );
        }
    }

    /// For files of our own: a member that nobody took is a mistake, most likely of spelling.
    pub(crate) fn refuse_the_rest(&self, report: &mut Report) {
        for key in self.unknown().take(TOLD) {
            let message = format!("unknown field `{}`", clip(key));
            match nearest(key, &self.known) {
                Some(known) => {
                    report.fault_with_hint(
                        &self.path_of(key),
                        "unknown_field",
                        message,
                        format!("did you mean `{known}`?"),
                    );
                }
                None => report.fault(&self.path_of(key), "unknown_field", message),
            }
        }
        let more = self.unknown().skip(TOLD).count();
        if more > 0 {
            report.fault(&self.path, "unknown_field", format!("{more} more fields are unknown"));
        }
    }
}

/// A time as a text that [`Fields::duration`] reads.
pub(crate) fn duration_text(duration: Duration) -> String {
    match (duration.as_secs(), duration.subsec_millis()) {
        (seconds, 0) => format!("{seconds}s"),
        _ => format!("{}ms", duration.as_millis()),
    }
}

/// What a value is, in a sentence about what it should have been.
pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The known word that was most likely meant.
pub(crate) fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let limit = match word.chars().count() {
        0..=2 => return None,
        3..=5 => 1,
        _ => 2,
    };
    let near = known.iter().map(|known| (distance(word, known), *known)).min_by_key(|(distance, _)| *distance);
    near.filter(|(distance, _)| *distance <= limit).map(|(_, known)| known)
}

/// How many letters must be added, taken away, changed or swapped with their neighbour.
fn distance(left: &str, right: &str) -> usize {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    if left.len().abs_diff(right.len()) > 2 {
        return usize::MAX;
    }
    let mut before_last = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for (row, letter) in left.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, other) in right.iter().enumerate() {
            let changed = last[column] + usize::from(letter != other);
            let mut best = changed.min(last[column + 1] + 1).min(current[column] + 1);
            if row > 0 && column > 0 && *letter == right[column - 1] && left[row - 1] == *other {
                let swapped: &Vec<usize> = &before_last;
                best = best.min(swapped[column - 1] + 1);
            }
            current.push(best);
        }
        before_last = std::mem::replace(&mut last, current);
    }
    last.last().copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(word: &str, expect: Option<&str>) {
        assert_eq!(nearest(word, &["required", "source", "cache_model", "name"]), expect, "{word}");
    }

    #[test]
    fn a_slip_of_the_finger_is_recognised() {
        check("requried", Some("required"));
        check("cacheModel", Some("cache_model"));
        check("nmae", Some("name"));
        check("suorce", Some("source"));
        check("colour", None);
        check("na", None);
    }
}
