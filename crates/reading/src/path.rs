//! Paths of values in a document, as text: `tools[2].parameters.properties.limit`.
//!
//! A key that is not a plain word is quoted and in brackets, `paths["/pets/{id}"].get`, so that a
//! path can be read back. The documents of a stream count as the items of a list: `[1].spec.url`.

use std::fmt;

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
        /// Paths are for people. A longer key is truncated, so the path leads only as far as the value around it.
        const LONGEST_KEY: usize = 200;
        let mut path = self.0.clone();
        if let Some((end, _)) = key.char_indices().nth(LONGEST_KEY) {
            path.push_str(&format!("[{}]", serde_json::Value::from(format!("{}…", &key[..end]))));
        } else if is_plain(key) {
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(key);
        } else {
            path.push('[');
            path.push_str(&serde_json::Value::from(key).to_string());
            path.push(']');
        }
        Self(path)
    }

    /// Item `index` of the list here.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// This path, then the steps of `rest`, which is written in the same way.
    #[must_use]
    pub fn join(&self, rest: &str) -> Self {
        let rest = rest.strip_prefix('.').unwrap_or(rest);
        let dot = if self.0.is_empty() || rest.is_empty() || rest.starts_with('[') { "" } else { "." };
        Self(format!("{}{dot}{rest}", self.0))
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

fn is_plain(key: &str) -> bool {
    !key.is_empty()
        && !key.starts_with(|letter: char| letter.is_ascii_digit())
        && key.chars().all(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '$'))
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

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Key(String),
    Index(usize),
}

/// Reads a path back. Text that is not a path ends the list: the steps before it still lead somewhere.
#[must_use]
pub fn steps(path: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix("[\"") {
            let Some(end) = end_of_string(quoted) else { break };
            let Ok(key) = serde_json::from_str(&format!("\"{}\"", &quoted[..end])) else { break };
            let Some(after) = quoted[end + 1..].strip_prefix(']') else { break };
            steps.push(Step::Key(key));
            rest = after;
        } else if let Some(bracketed) = rest.strip_prefix('[') {
            let Some((digits, after)) = bracketed.split_once(']') else { break };
            let Ok(index) = digits.parse() else { break };
            steps.push(Step::Index(index));
            rest = after;
        } else {
            let word = rest.strip_prefix('.').unwrap_or(rest);
            let end = word.find(['.', '[']).unwrap_or(word.len());
            if end == 0 {
                break;
            }
            steps.push(Step::Key(word[..end].to_owned()));
            rest = &word[end..];
        }
    }
    steps
}

/// The byte at which the JSON string that begins before `text` ends.
fn end_of_string(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_can_be_read_back() {
        let path = Path::root().key("paths").key("/pets/{\"id\"}\\").key("get").index(3).key("x y").key("2");
        assert_eq!(path.as_str(), r#"paths["/pets/{\"id\"}\\"].get[3]["x y"]["2"]"#);
        let key = |key: &str| Step::Key(key.to_owned());
        assert_eq!(
            steps(path.as_str()),
            [key("paths"), key("/pets/{\"id\"}\\"), key("get"), Step::Index(3), key("x y"), key("2")]
        );
    }

    #[test]
    fn joining_puts_a_dot_only_where_one_belongs() {
        assert_eq!(Path::root().join("a.b").as_str(), "a.b");
        assert_eq!(Path::root().key("a").join("b").as_str(), "a.b");
        assert_eq!(Path::root().key("a").join("[0]").as_str(), "a[0]");
        assert_eq!(Path::root().key("a").join("").as_str(), "a");
    }

    #[test]
    fn text_that_is_not_a_path_ends_early() {
        for bad in ["a..b", "a[", "a[x]", "a[\"", "a[\"b\""] {
            assert_eq!(steps(bad), [Step::Key("a".to_owned())], "{bad}");
        }
        assert_eq!(steps(""), []);
    }
}
