//! The content of a result: the value itself, or a reference to a blob if it is large.
//!
//! A journal stores small content inline, as JSON: one value, or the [content blocks](Blocks) of a tool that answers
//! with several. Large content is bytes in a blob, and the journal stores its hash, size and type. There is no I/O
//! here: [`Large`] is a reference, and its bytes are always stored before it is written.

mod blocks;
mod check;
mod media_type;
mod page;

use std::{borrow::Cow, io};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{ContentHash, hash::Hashing, json};

pub use blocks::{Blocks, Image, Images, standard_base64};
pub use check::{BadContent, ContentCheck};
pub use media_type::{MediaType, UnsupportedMediaType};
pub use page::{ContentPage, ContentWindow};

/// Maximum size of content that is stored inline in the journal.
pub const INLINE_BYTES: usize = crate::ceiling::INLINE_RESULT_BYTES;

/// Maximum size of any content.
pub const LARGEST_BYTES: u64 = crate::ceiling::RESULT_BYTES as u64;

/// Maximum size of the excerpt of large content that is stored in the journal.
pub const HEAD_BYTES: usize = 4 * 1024;

/// The content of an outcome. In a journal, `content` is the value, `blocks` the content blocks, and `large` the reference.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Content {
    #[serde(rename = "content")]
    Inline(Value),
    #[serde(rename = "blocks")]
    Blocks(Blocks),
    #[serde(rename = "large")]
    Large(Large),
}

/// A reference to content that is stored as a blob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Large {
    /// Of the bytes, which are UTF-8.
    pub hash: ContentHash,
    pub size: u64,
    pub media_type: MediaType,
    /// The first [`HEAD_BYTES`], cut at a character boundary.
    pub head: String,
}

/// Builds a [`Large`] from bytes as they stream by.
#[derive(Debug, Default)]
pub struct ContentDescription {
    hash: Hashing,
    size: u64,
    head: Vec<u8>,
}

impl Content {
    /// Its bytes, if they are in memory: text as it is, anything else as compact JSON.
    #[must_use]
    pub fn inline_text(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Inline(value) => Some(text_of(value)),
            Self::Blocks(blocks) => Some(Cow::Owned(blocks.to_json())),
            Self::Large(_) => None,
        }
    }

    /// The reference that it has as a blob, and the text of the blob; `None` if it is a reference.
    #[must_use]
    pub fn as_blob(&self) -> Option<(Large, Cow<'_, str>)> {
        match self {
            Self::Inline(value) => Some(Large::of(value)),
            Self::Blocks(blocks) => Some(Large::of_blocks(blocks)),
            Self::Large(_) => None,
        }
    }

    /// Whether it has to be stored as a blob before it may be appended to a journal.
    #[must_use]
    pub fn is_too_large_inline(&self) -> bool {
        match self {
            Self::Inline(Value::String(text)) => text.len() > INLINE_BYTES,
            Self::Inline(value) => serde_json::to_writer(ByteLimit(INLINE_BYTES), value).is_err(),
            Self::Blocks(blocks) => serde_json::to_writer(ByteLimit(INLINE_BYTES), blocks).is_err(),
            Self::Large(_) => false,
        }
    }
}

impl From<Value> for Content {
    fn from(value: Value) -> Self {
        Self::Inline(value)
    }
}

/// A value as text: a string is its own, anything else is compact JSON.
#[must_use]
pub fn text_of(value: &Value) -> Cow<'_, str> {
    value.as_str().map_or_else(|| Cow::Owned(json::compact(value)), Cow::Borrowed)
}

impl Large {
    /// The reference to a value in memory, and the text to store as its blob.
    #[must_use]
    pub fn of(value: &Value) -> (Self, Cow<'_, str>) {
        let media_type = if value.is_string() { MediaType::plain_text() } else { MediaType::json() };
        Self::describe(media_type, text_of(value))
    }

    /// The same for content blocks.
    #[must_use]
    pub fn of_blocks(blocks: &Blocks) -> (Self, Cow<'_, str>) {
        Self::describe(MediaType::blocks(), Cow::Owned(blocks.to_json()))
    }

    fn describe(media_type: MediaType, text: Cow<'_, str>) -> (Self, Cow<'_, str>) {
        let mut description = ContentDescription::default();
        description.push(text.as_bytes());
        (description.finish(media_type), text)
    }
}

impl ContentDescription {
    pub fn push(&mut self, bytes: &[u8]) {
        self.hash.push(bytes);
        self.size += bytes.len() as u64;
        let room = HEAD_BYTES - self.head.len();
        self.head.extend_from_slice(&bytes[..room.min(bytes.len())]);
    }

    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The reference to everything that was pushed.
    #[must_use]
    pub fn finish(self, media_type: MediaType) -> Large {
        let Self { hash, size, mut head } = self;
        // The first bytes may end in the middle of a character.
        if let Err(error) = str::from_utf8(&head) {
            head.truncate(error.valid_up_to());
        }
        Large { hash: hash.finish(), size, media_type, head: String::from_utf8_lossy(&head).into_owned() }
    }
}

/// A writer that accepts this many bytes and fails beyond.
struct ByteLimit(usize);

impl io::Write for ByteLimit {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(value: Value, expect: bool) {
        assert_eq!(Content::Inline(value).is_too_large_inline(), expect);
    }

    #[test]
    fn content_is_large_by_its_text_or_its_compact_json() {
        check(json!(null), false);
        check(json!("x".repeat(INLINE_BYTES)), false);
        check(json!("x".repeat(INLINE_BYTES + 1)), true);
        // Escapes are part of JSON, not of the text.
        check(json!("\n".repeat(INLINE_BYTES)), false);
        // `["` and `"]` are four bytes.
        check(json!(["x".repeat(INLINE_BYTES - 4)]), false);
        check(json!(["x".repeat(INLINE_BYTES - 3)]), true);
        check(json!(["\n".repeat(INLINE_BYTES / 2)]), true);
        check(json!(vec![7; INLINE_BYTES / 2]), true);
    }

    #[test]
    fn a_reference_describes_its_bytes() {
        let value = json!("abc");
        let (large, text) = Large::of(&value);
        assert_eq!(text, "abc");
        assert_eq!(large.hash, ContentHash::of(b"abc"));
        assert_eq!((large.size, large.media_type.as_str(), large.head.as_str()), (3, "text/plain", "abc"));
        let value = json!({"b": 1, "a": "é"});
        let (large, text) = Large::of(&value);
        assert_eq!(text, r#"{"b":1,"a":"é"}"#, "keys stay in their order");
        assert_eq!((large.size, large.media_type.as_str()), (16, "application/json"));
    }

    #[test]
    fn content_blocks_are_a_kind_of_their_own() {
        let blocks = |text: String| Content::Blocks(Blocks::new(vec![json!({"type": "text", "text": text})], None));
        let small = blocks("é".into());
        let (large, text) = small.as_blob().unwrap();
        assert_eq!(text, r#"{"content":[{"type":"text","text":"é"}]}"#);
        assert_eq!(small.inline_text(), Some(text));
        assert_eq!((large.size, large.media_type), (41, MediaType::blocks()));
        // The envelope has 39 bytes.
        assert!(!blocks("x".repeat(INLINE_BYTES - 39)).is_too_large_inline());
        assert!(blocks("x".repeat(INLINE_BYTES - 38)).is_too_large_inline());
    }

    #[test]
    fn the_head_ends_with_a_whole_character() {
        let text = format!("{}{}", "x".repeat(HEAD_BYTES - 1), "é".repeat(10));
        let (large, _) = Large::of(&json!(text));
        assert_eq!(large.head, "x".repeat(HEAD_BYTES - 1));
        assert_eq!(large.size, HEAD_BYTES as u64 - 1 + 20);
    }

    #[test]
    fn chunks_give_the_same_reference_as_the_whole() {
        let text = "wörter ".repeat(3_000);
        for step in [1, 7, 4_096, 10_000] {
            let mut description = ContentDescription::default();
            text.as_bytes().chunks(step).for_each(|piece| description.push(piece));
            assert_eq!(description.finish(MediaType::plain_text()), Large::of(&json!(text)).0, "in steps of {step}");
        }
    }
}
