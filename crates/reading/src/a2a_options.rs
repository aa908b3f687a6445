//! How an agent is served over A2A, by annotations of its manifest: `bosun.dev/a2a-…`.
//!
//! The reader of manifests checks them, and the edge reads them back from the agent. What is not written has its
//! default.

use std::{collections::BTreeMap, fmt};

/// The prefix of our own annotations.
pub const OWN_ANNOTATIONS: &str = "bosun.dev/";
/// ARK's annotation with the skills of an agent: a list of `{id, name, description, tags}`, as JSON.
pub const SKILLS: &str = "ark.mckinsey.com/a2a-server-skills";

/// How an agent is served over A2A.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct A2aOptions {
    /// It is the agent at `/a2a`.
    pub is_default: bool,
    /// A message that it answers without waiting gets a message, and not a task.
    pub replies_with_message: bool,
    /// The media types of files that it takes, in addition to text and JSON.
    pub input_modes: Vec<MediaRange>,
}

/// Why an annotation is not an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum A2aOptionFault {
    UnknownName,
    /// The value is not one of these.
    BadValue(&'static str),
}

impl A2aOptions {
    /// The names of the annotations, without their prefix.
    pub const NAMES: [&str; 3] = ["a2a-default", "a2a-reply", "a2a-input-modes"];

    /// The options of an agent. Annotations that are none were refused when its manifest was read.
    #[must_use]
    pub fn of(annotations: &BTreeMap<String, String>) -> Self {
        let mut options = Self::default();
        for name in Self::NAMES {
            if let Some(value) = annotations.get(&format!("{OWN_ANNOTATIONS}{name}")) {
                let _ = options.ask(name, value);
            }
        }
        options
    }

    /// Sets the option that is called `name`.
    ///
    /// # Errors
    /// If there is no such option, or the text is not a value of it; nothing is changed then.
    pub fn ask(&mut self, name: &str, text: &str) -> Result<(), A2aOptionFault> {
        match (name, text) {
            ("a2a-default", "true" | "false") => self.is_default = text == "true",
            ("a2a-default", _) => return Err(A2aOptionFault::BadValue("`true` or `false`")),
            ("a2a-reply", "task" | "message") => self.replies_with_message = text == "message",
            ("a2a-reply", _) => return Err(A2aOptionFault::BadValue("`task` or `message`")),
            ("a2a-input-modes", _) => {
                let ranges: Option<Vec<_>> = text.split(',').map(MediaRange::parse).collect();
                let hint = "media types such as `application/pdf, image/*`";
                self.input_modes = ranges.ok_or(A2aOptionFault::BadValue(hint))?;
            }
            _ => return Err(A2aOptionFault::UnknownName),
        }
        Ok(())
    }
}

/// A media type, all of one kind (`image/*`), or all (`*/*`); in lowercase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaRange(String);

impl MediaRange {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        let (kind, subtype) = text.split_once('/')?;
        let is_token = |text: &str| {
            let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte);
            !text.is_empty() && text.len() <= 127 && text.bytes().all(is_letter)
        };
        let is_valid = text == "*/*" || (is_token(kind) && (subtype == "*" || is_token(subtype)));
        is_valid.then_some(Self(text))
    }

    /// Whether a media type is in it; parameters such as `charset` do not count.
    #[must_use]
    pub fn includes(&self, media_type: &str) -> bool {
        let bare = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match self.0.strip_suffix('*') {
            Some("*/") => true,
            Some(kind) => bare.starts_with(kind),
            None => bare == self.0,
        }
    }
}

impl fmt::Display for MediaRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, value: &str, expect: Result<A2aOptions, A2aOptionFault>) {
        let mut options = A2aOptions::default();
        assert_eq!(options.ask(name, value).map(|()| options), expect, "{name}: {value}");
    }

    #[test]
    fn an_annotation_is_an_option_or_says_what_it_may_be() {
        let default = A2aOptions::default();
        check("a2a-default", "true", Ok(A2aOptions { is_default: true, ..default.clone() }));
        check("a2a-default", "false", Ok(default.clone()));
        check("a2a-default", "yes", Err(A2aOptionFault::BadValue("`true` or `false`")));
        check("a2a-reply", "message", Ok(A2aOptions { replies_with_message: true, ..default.clone() }));
        check("a2a-reply", "task", Ok(default.clone()));
        check("a2a-reply", "Message", Err(A2aOptionFault::BadValue("`task` or `message`")));
        check("a2a-mode", "1", Err(A2aOptionFault::UnknownName));
        let ranges = [MediaRange("application/pdf".into()), MediaRange("image/*".into())];
        check("a2a-input-modes", "application/PDF , image/*", Ok(A2aOptions { input_modes: ranges.into(), ..default }));
        for bad in ["", "pdf", "image/", "/png", "*/png", "image/*, ", "image/p ng", "image/png;q=1"] {
            let mut options = A2aOptions::default();
            assert!(matches!(options.ask("a2a-input-modes", bad), Err(A2aOptionFault::BadValue(_))), "{bad}");
        }
    }

    #[test]
    fn a_range_includes_its_media_types() {
        for (range, media_type, expect) in [
            ("*/*", "application/x-anything", true),
            ("image/*", "image/PNG", true),
            ("image/*", "imagery/png", false),
            ("text/csv", "text/csv; charset=utf-8", true),
            ("text/csv", "text/csvx", false),
        ] {
            assert_eq!(MediaRange::parse(range).unwrap().includes(media_type), expect, "{range} {media_type}");
        }
    }
}
