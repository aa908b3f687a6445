//! JSON, and JSON with comments.

use std::borrow::Cow;

use bosun_core::json::{JsonError, JsonLimits};
use indexmap::IndexMap;
use serde_json::Value;

use super::{
    MAX_DEPTH, MAX_SIZE, ReadError, Syntax,
    places::{Inside, Located},
};
use bosun_reading::{Locator, SourcePlace};

/// Maximum number of values in one text. A value takes many times the memory of `0,`.
const MAX_VALUES: usize = 10_000_000;

pub(super) fn parse(text: &str) -> Result<Value, ReadError> {
    // Every value except the first of its array or object follows a comma.
    if text.len() > 2 * MAX_VALUES && text.bytes().filter(|byte| *byte == b',').count() > MAX_VALUES {
        let message = format!("more than {MAX_VALUES} values");
        return Err(ReadError::Syntax { syntax: Syntax::Json, place: SourcePlace::START, message });
    }
    let limits = JsonLimits { bytes: MAX_SIZE, depth: MAX_DEPTH, memory: usize::MAX };
    bosun_core::json::parse(&blank_comments(text), limits).map_err(|error| ReadError::Syntax {
        syntax: Syntax::Json,
        place: error.position().map_or(SourcePlace::START, |(line, column)| in_characters(text, line, column)),
        message: match error {
            JsonError::TooLarge { bytes, limit } => format!("{bytes} bytes are more than {limit}"),
            error @ JsonError::TooManyValues { .. } => error.to_string(),
            JsonError::TooDeep { limit, .. } => format!("nested more than {limit} levels deep"),
            JsonError::DuplicateKey { key, .. } => format!("the key `{key}` appears twice in one object"),
            // The message repeats the position, which is reported separately.
            JsonError::Syntax { message, .. } => message.split(" at line ").next().unwrap_or_default().to_owned(),
        },
    })
}

/// The JSON parser counts columns in bytes, and reports the last byte that it read.
fn in_characters(text: &str, line: usize, column: usize) -> SourcePlace {
    let start: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    Locator::new(text).place(start + column.saturating_sub(1))
}

/// The text with its comments replaced by spaces, so that every other byte keeps its offset.
fn blank_comments(text: &str) -> Cow<'_, str> {
    if !text.contains("//") && !text.contains("/*") {
        return Cow::Borrowed(text);
    }
    let mut bytes = text.as_bytes().to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match &bytes[at..] {
            [b'"', ..] => {
                at = end_of_string(&bytes, at);
                continue;
            }
            [b'/', b'/', rest @ ..] => at + 2 + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()),
            [b'/', b'*', rest @ ..] => {
                at + 2 + rest.windows(2).position(|pair| pair == b"*/").map_or(rest.len(), |end| end + 2)
            }
            _ => {
                at += 1;
                continue;
            }
        };
        for byte in &mut bytes[at..end] {
            if !matches!(*byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
        at = end;
    }
    // A comment begins and ends at ASCII, so whole characters were replaced.
    String::from_utf8(bytes).map_or(Cow::Borrowed(text), Cow::Owned)
}

/// The offset after the string that begins at `start`; always at the boundary of a character.
pub(crate) fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The positions of the values of a text that [`parse`] has read.
pub(super) fn locate(text: &str) -> Located {
    let blanked = blank_comments(text);
    Scanner { bytes: blanked.as_bytes(), at: 0, locator: Locator::new(text) }.value(0)
}

/// Walks valid JSON and records offsets. On anything else it stops early; it cannot fail.
struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    locator: Locator<'a>,
}

impl Scanner<'_> {
    fn value(&mut self, depth: usize) -> Located {
        self.skip_space();
        let place = self.locator.place(self.at);
        let inside = match self.bytes.get(self.at) {
            Some(b'{') if depth < MAX_DEPTH => Inside::Members(self.members(depth)),
            Some(b'[') if depth < MAX_DEPTH => Inside::Items(self.items(depth)),
            Some(b'"') => {
                self.at = end_of_string(self.bytes, self.at);
                Inside::Nothing
            }
            _ => {
                while self.bytes.get(self.at).is_some_and(|byte| !matches!(byte, b',' | b']' | b'}')) {
                    self.at += 1;
                }
                Inside::Nothing
            }
        };
        Located { place, inside }
    }

    fn members(&mut self, depth: usize) -> IndexMap<String, Located> {
        let mut members = IndexMap::new();
        self.at += 1;
        loop {
            self.skip_space();
            if self.bytes.get(self.at) != Some(&b'"') {
                self.at += 1;
                return members;
            }
            let end = end_of_string(self.bytes, self.at);
            let key = self.bytes.get(self.at..end).and_then(|key| serde_json::from_slice::<String>(key).ok());
            self.at = end;
            self.skip_space();
            self.at += 1; // the colon
            let value = self.value(depth + 1);
            if let Some(key) = key {
                members.insert(key, value);
            }
            self.skip_space();
            if self.bytes.get(self.at) == Some(&b',') {
                self.at += 1;
            }
        }
    }

    fn items(&mut self, depth: usize) -> Vec<Located> {
        let mut items = Vec::new();
        self.at += 1;
        loop {
            self.skip_space();
            match self.bytes.get(self.at) {
                None | Some(b']' | b'}') => {
                    self.at += 1;
                    return items;
                }
                Some(b',') => self.at += 1,
                Some(_) => items.push(self.value(depth + 1)),
            }
        }
    }

    fn skip_space(&mut self) {
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }
}
