//! A text of JSON, JSON with comments, or YAML, parsed so that every value can be located.
//!
//! Parsing is strict (no duplicate keys, no silent repair) and bounded in size, depth and expansion, whatever the text
//! contains. Positions are computed by [`Document::places`] when there is something to report, so that a valid file
//! pays nothing for them.

use bosun_reading::{Locator, SourcePlace};
use serde_json::Value;

pub use bosun_reading::Path;
pub(crate) use bosun_reading::path::LazyPath;
pub(crate) use json::end_of_string;
pub use places::Places;

mod json;
mod places;
#[cfg(test)]
mod tests;
mod yaml;

/// Maximum length of a text. A hundred thousand tools of 300 bytes fit twice.
pub const MAX_SIZE: usize = 64 * 1024 * 1024;

/// Maximum nesting of values.
const MAX_DEPTH: usize = bosun_core::json::JsonLimits::DEEPEST;

/// Why a text could not be read as data.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    #[error("this is larger than {MAX_SIZE} bytes, the largest size that is read")]
    TooLarge,
    #[error("this is not UTF-8 text")]
    NotUtf8 { place: SourcePlace },
    #[error("the text is UTF-16: save it as UTF-8")]
    Utf16,
    #[error("it is empty")]
    Empty,
    #[error("these are not node types of n8n: a `nodes.json` is a list of objects with `name`")]
    NotNodeTypes,
    #[error("not valid {syntax}: {message}")]
    Syntax { syntax: Syntax, place: SourcePlace, message: String },
}

impl ReadError {
    /// A stable code of the fault.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::TooLarge => "file_too_large",
            Self::NotUtf8 { .. } | Self::Utf16 => "not_utf8",
            Self::Empty => "empty_file",
            Self::NotNodeTypes => "not_node_types",
            Self::Syntax { .. } => "syntax_error",
        }
    }

    /// The position of the fault in the text.
    #[must_use]
    pub fn place(&self) -> SourcePlace {
        match self {
            Self::NotUtf8 { place } | Self::Syntax { place, .. } => *place,
            Self::TooLarge | Self::Utf16 | Self::Empty | Self::NotNodeTypes => SourcePlace::START,
        }
    }
}

/// The syntax of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    Json,
    Yaml,
}

impl std::fmt::Display for Syntax {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Json => "JSON",
            Self::Yaml => "YAML",
        })
    }
}

/// The bytes of a file as text, without a byte order mark.
pub fn decode(bytes: &[u8]) -> Result<&str, ReadError> {
    if bytes.len() > MAX_SIZE {
        return Err(ReadError::TooLarge);
    }
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err(ReadError::Utf16);
    }
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    str::from_utf8(bytes).map_err(|error| {
        let valid = str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
        ReadError::NotUtf8 { place: Locator::new(valid).place(valid.len()) }
    })
}

/// A text and the data in it.
#[derive(Debug)]
pub struct Document<'a> {
    text: &'a str,
    syntax: Syntax,
    /// The document; a list of them if a YAML stream holds several.
    value: Value,
    is_stream: bool,
}

impl<'a> Document<'a> {
    /// Reads JSON if the text begins like JSON, else YAML.
    pub fn read(text: &'a str) -> Result<Self, ReadError> {
        if text.len() > MAX_SIZE {
            return Err(ReadError::TooLarge);
        }
        match skip_comments(text).chars().next() {
            None => Err(ReadError::Empty),
            Some('{' | '[') => Ok(Self { text, syntax: Syntax::Json, value: json::parse(text)?, is_stream: false }),
            Some(_) => {
                let mut documents = yaml::parse(text)?;
                let is_stream = documents.len() > 1;
                let value = match documents.pop() {
                    None => return Err(ReadError::Empty),
                    Some(only) if !is_stream => only,
                    Some(last) => {
                        documents.push(last);
                        Value::Array(documents)
                    }
                };
                Ok(Self { text, syntax: Syntax::Yaml, value, is_stream })
            }
        }
    }

    /// The data; a list of its documents if the text is a stream of several.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.value
    }

    #[must_use]
    pub fn syntax(&self) -> Syntax {
        self.syntax
    }

    /// The documents of the text with their paths: one, unless it is a YAML stream of several.
    pub fn parts(&self) -> impl Iterator<Item = (Path, &Value)> {
        let several = if self.is_stream { self.value.as_array().map(Vec::as_slice) } else { None };
        let one = several.is_none().then(|| (Path::root(), &self.value));
        let many = several.unwrap_or_default().iter().enumerate();
        one.into_iter().chain(many.map(|(index, value)| (Path::root().index(index), value)))
    }

    /// The positions of the values of this document. Parses the text again.
    #[must_use]
    pub fn places(&self) -> Places {
        Places(match self.syntax {
            Syntax::Json => json::locate(self.text),
            Syntax::Yaml => {
                let mut documents = yaml::locate(self.text);
                match documents.pop() {
                    Some(only) if !self.is_stream => only,
                    last => places::Located {
                        place: SourcePlace::START,
                        inside: places::Inside::Items(documents.into_iter().chain(last).collect()),
                    },
                }
            }
        })
    }
}

/// The text without leading space and comments of JSON or TypeScript.
pub(crate) fn skip_comments(text: &str) -> &str {
    let mut rest = text.trim_start();
    loop {
        let after = if let Some(comment) = rest.strip_prefix("//") {
            comment.split_once('\n').map_or("", |(_, after)| after)
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment.split_once("*/").map_or("", |(_, after)| after)
        } else {
            return rest;
        };
        rest = after.trim_start();
    }
}
