//! The one final result of a call.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use crate::{
    ContentHash,
    content::{Blocks, Content, Large},
    json,
};

/// The outcome of a call. In a journal, its content is the field `content`, `blocks` or `large`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case", try_from = "WrittenOutcome")]
pub enum Outcome {
    /// The tool answered. Text stays text, content blocks stay blocks; anything else is JSON.
    Success {
        #[serde(flatten)]
        content: Content,
    },
    /// The call failed in a way that the model may read and work around.
    Failure {
        code: String,
        message: String,
        #[serde(flatten)]
        content: Option<Content>,
    },
}

impl Outcome {
    #[must_use]
    pub fn success(content: impl Into<Value>) -> Self {
        Self::Success { content: Content::Inline(content.into()) }
    }

    #[must_use]
    pub fn failure(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Failure { code: code.into(), message: message.into(), content: None }
    }

    #[must_use]
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Success { .. })
    }

    #[must_use]
    pub fn content(&self) -> Option<&Content> {
        match self {
            Self::Success { content } => Some(content),
            Self::Failure { content, .. } => content.as_ref(),
        }
    }

    pub fn content_mut(&mut self) -> Option<&mut Content> {
        match self {
            Self::Success { content } => Some(content),
            Self::Failure { content, .. } => content.as_mut(),
        }
    }

    /// The blob that it refers to.
    #[must_use]
    pub fn large(&self) -> Option<&Large> {
        match self.content()? {
            Content::Large(large) => Some(large),
            Content::Inline(_) | Content::Blocks(_) => None,
        }
    }

    /// Whether it is content blocks, inline or as a blob.
    #[must_use]
    pub fn has_blocks(&self) -> bool {
        match self.content() {
            Some(Content::Blocks(_)) => true,
            Some(Content::Large(large)) => large.media_type.is_blocks(),
            Some(Content::Inline(_)) | None => false,
        }
    }

    /// The identity of a result: success, content and error. Values are compared in canonical form; of large content
    /// only the bytes are known, and whether they are JSON, text or content blocks.
    #[must_use]
    pub fn content_hash(&self) -> ContentHash {
        let (mut parts, content): (Vec<&[u8]>, _) = match self {
            Self::Success { content } => (vec![b"success"], Some(content)),
            Self::Failure { code, message, content } => {
                (vec![b"failure", code.as_bytes(), message.as_bytes()], content.as_ref())
            }
        };
        let canonical;
        match content {
            None => parts.push(b""),
            Some(Content::Inline(value)) => {
                canonical = json::canonical(value);
                parts.push(canonical.as_bytes());
            }
            Some(Content::Blocks(blocks)) => {
                canonical = json::canonical(&json!(blocks));
                parts.push(b"blocks");
                parts.push(canonical.as_bytes());
            }
            Some(Content::Large(large)) => {
                parts.push(match &large.media_type {
                    media_type if media_type.is_blocks() => b"large blocks",
                    media_type if media_type.is_json() => b"large json",
                    _ => b"large text",
                });
                parts.push(large.hash.as_bytes());
            }
        }
        ContentHash::of_parts(&parts)
    }
}

/// An outcome as it is stored in a journal.
#[derive(Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
enum WrittenOutcome {
    Success {
        #[serde(default, deserialize_with = "present")]
        content: Option<Value>,
        #[serde(default)]
        blocks: Option<Blocks>,
        #[serde(default)]
        large: Option<Large>,
    },
    Failure {
        code: String,
        message: String,
        #[serde(default)]
        content: Option<Value>,
        #[serde(default)]
        blocks: Option<Blocks>,
        #[serde(default)]
        large: Option<Large>,
    },
}

/// An explicit `null` is a result like any other.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

#[derive(Debug, thiserror::Error)]
enum Unreadable {
    #[error("an outcome has more than one of `content`, `blocks` and `large`")]
    Several,
    #[error("a success has none of `content`, `blocks` and `large`")]
    Nothing,
}

fn only(content: Option<Value>, blocks: Option<Blocks>, large: Option<Large>) -> Result<Option<Content>, Unreadable> {
    let inline = content.map(Content::Inline);
    let mut found = inline.into_iter().chain(blocks.map(Content::Blocks)).chain(large.map(Content::Large));
    let first = found.next();
    if found.next().is_some() { Err(Unreadable::Several) } else { Ok(first) }
}

impl TryFrom<WrittenOutcome> for Outcome {
    type Error = Unreadable;
    fn try_from(written: WrittenOutcome) -> Result<Self, Unreadable> {
        match written {
            WrittenOutcome::Success { content, blocks, large } => {
                only(content, blocks, large)?.map(|content| Self::Success { content }).ok_or(Unreadable::Nothing)
            }
            WrittenOutcome::Failure { code, message, content, blocks, large } => {
                Ok(Self::Failure { code, message, content: only(content, blocks, large)? })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::MediaType;

    fn large(text: &str, media_type: &str) -> Content {
        let (large, _) = Large::of(&json!(text));
        Content::Large(Large { media_type: media_type.to_owned().try_into().unwrap(), ..large })
    }

    /// Checks the text of a journal, and the outcome that it is read as.
    #[track_caller]
    fn check(outcome: &Outcome, text: &str) {
        assert_eq!(serde_json::to_string(outcome).unwrap(), text);
        assert_eq!(&serde_json::from_str::<Outcome>(text).unwrap(), outcome);
    }

    #[test]
    fn small_outcomes_are_written_as_they_always_were() {
        check(&Outcome::success("2108"), r#"{"result":"success","content":"2108"}"#);
        check(&Outcome::success(Value::Null), r#"{"result":"success","content":null}"#);
        check(&Outcome::success(json!({"b": 1, "a": [2]})), r#"{"result":"success","content":{"b":1,"a":[2]}}"#);
        check(&Outcome::failure("c", "m"), r#"{"result":"failure","code":"c","message":"m"}"#);
        let with_content = Outcome::Failure { code: "c".into(), message: "m".into(), content: Some(json!(1).into()) };
        check(&with_content, r#"{"result":"failure","code":"c","message":"m","content":1}"#);
        // Content that looks like a reference is still content.
        check(&Outcome::success(json!({"large": {}})), r#"{"result":"success","content":{"large":{}}}"#);
    }

    #[test]
    fn large_outcomes_are_written_as_references() {
        let hash = ContentHash::of(b"abc");
        let reference = format!(r#"{{"hash":"{hash}","size":3,"mediaType":"text/csv","head":"abc"}}"#);
        let content = large("abc", "text/csv");
        check(
            &Outcome::Success { content: content.clone() },
            &format!(r#"{{"result":"success","large":{reference}}}"#),
        );
        check(
            &Outcome::Failure { code: "c".into(), message: "m".into(), content: Some(content) },
            &format!(r#"{{"result":"failure","code":"c","message":"m","large":{reference}}}"#),
        );
    }

    fn blocks(text: &str, structured: Option<Value>) -> Content {
        Content::Blocks(Blocks::new(vec![json!({"type": "text", "text": text})], structured))
    }

    #[test]
    fn content_blocks_are_written_as_they_were_received() {
        let content = Blocks::new(
            vec![json!({"type": "image", "data": "AA==", "mimeType": "image/png", "annotations": {"priority": 0.5}})],
            None,
        );
        check(
            &Outcome::Success { content: Content::Blocks(content) },
            r#"{"result":"success","blocks":{"content":[{"type":"image","data":"AA==","mimeType":"image/png","annotations":{"priority":0.5}}]}}"#,
        );
        let content = Some(blocks("no", Some(json!({"b": 1, "a": 2}))));
        check(
            &Outcome::Failure { code: "c".into(), message: "m".into(), content },
            r#"{"result":"failure","code":"c","message":"m","blocks":{"content":[{"type":"text","text":"no"}],"structuredContent":{"b":1,"a":2}}}"#,
        );
    }

    #[test]
    fn content_blocks_are_the_same_by_their_values() {
        let hash = |content: Content| Outcome::Success { content }.content_hash();
        let one = blocks("1", Some(json!({"a": 1, "b": 2})));
        assert_eq!(hash(one.clone()), hash(blocks("1", Some(json!({"b": 2, "a": 1})))));
        assert_ne!(hash(one.clone()), hash(blocks("1", None)));
        assert_ne!(hash(one.clone()), hash(blocks("2", Some(json!({"a": 1, "b": 2})))));
        assert_ne!(hash(one.clone()), hash(Content::Inline(json!(one.inline_text()))));
        let Content::Blocks(value) = &one else { panic!() };
        assert_ne!(hash(one.clone()), hash(Content::Inline(json!(value))), "the same JSON is another result");
        let as_blob = |media_type| hash(large("1", media_type));
        for media_type in ["application/json", "text/plain"] {
            assert_ne!(as_blob("application/vnd.bosun.blocks+json"), as_blob(media_type));
        }
    }

    #[test]
    fn a_failure_with_null_has_no_content() {
        let read: Outcome =
            serde_json::from_str(r#"{"result":"failure","code":"c","message":"m","content":null}"#).unwrap();
        assert_eq!(read, Outcome::failure("c", "m"));
    }

    #[test]
    fn damaged_outcomes_are_not_read_as_something_else() {
        for text in [
            r#"{"result":"success"}"#,
            r#"{"result":"success","content":1,"large":{"hash":"00","size":1,"mediaType":"text/plain","head":""}}"#,
            r#"{"result":"success","content":1,"blocks":{"content":[]}}"#,
            r#"{"result":"success","blocks":{}}"#,
            r#"{"result":"success","blocks":[]}"#,
            r#"{"result":"success","large":{"size":1}}"#,
            r#"{"result":"failure","code":"c","message":"m","large":{"hash":"zz"}}"#,
            r#"{"result":"other","content":1}"#,
        ] {
            assert!(serde_json::from_str::<Outcome>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn large_results_are_the_same_by_their_bytes_and_kind() {
        let hash = |content: Content| Outcome::Success { content }.content_hash();
        assert_eq!(hash(large("1", "text/plain")), hash(large("1", "text/csv")));
        assert_ne!(hash(large("1", "text/plain")), hash(large("1", "application/json")));
        assert_ne!(hash(large("1", "text/plain")), hash(large("2", "text/plain")));
        assert_ne!(hash(large("1", "text/plain")), hash(Content::Inline(json!("1"))));
        assert!(MediaType::json().is_json());
        let failed = |content| Outcome::Failure { code: "c".into(), message: "m".into(), content }.content_hash();
        assert_ne!(failed(Some(large("1", "text/plain"))), hash(large("1", "text/plain")));
        assert_ne!(failed(None), failed(Some(large("", "text/plain"))));
    }
}
