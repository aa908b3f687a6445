//! The three kinds of content: JSON, text of any sort, and content blocks.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// `application/json`, `text/` with any subtype, or [content blocks](super::Blocks); always in lower case and without
/// parameters. Parsing accepts what a client may deliver, which excludes content blocks; a journal may have all three.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MediaType(String);

/// The text is not a media type that a delivered result may have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a result is `application/json` or `text/…`")]
pub struct UnsupportedMediaType;

const JSON: &str = "application/json";
const BLOCKS: &str = "application/vnd.bosun.blocks+json";

impl MediaType {
    #[must_use]
    pub fn json() -> Self {
        Self(JSON.into())
    }

    #[must_use]
    pub fn plain_text() -> Self {
        Self("text/plain".into())
    }

    #[must_use]
    pub fn blocks() -> Self {
        Self(BLOCKS.into())
    }

    #[must_use]
    pub fn is_blocks(&self) -> bool {
        self.0 == BLOCKS
    }

    #[must_use]
    pub fn is_json(&self) -> bool {
        self.0 == JSON
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for MediaType {
    type Err = UnsupportedMediaType;
    fn from_str(text: &str) -> Result<Self, UnsupportedMediaType> {
        // A token of RFC 9110, section 5.6.2.
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        let text = text.to_ascii_lowercase();
        let is_text = text
            .strip_prefix("text/")
            .is_some_and(|subtype| (1..=64).contains(&subtype.len()) && subtype.bytes().all(is_token));
        if is_text || text == JSON { Ok(Self(text)) } else { Err(UnsupportedMediaType) }
    }
}

impl TryFrom<String> for MediaType {
    type Error = UnsupportedMediaType;
    fn try_from(text: String) -> Result<Self, UnsupportedMediaType> {
        if text == BLOCKS { Ok(Self::blocks()) } else { text.parse() }
    }
}

impl From<MediaType> for String {
    fn from(media_type: MediaType) -> Self {
        media_type.0
    }
}

impl fmt::Display for MediaType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_and_every_text_type_are_accepted() {
        for (text, expect) in [
            ("application/json", "application/json"),
            ("Application/JSON", "application/json"),
            ("text/plain", "text/plain"),
            ("text/CSV", "text/csv"),
            ("text/vnd.x+y", "text/vnd.x+y"),
        ] {
            assert_eq!(text.parse::<MediaType>().map(String::from).as_deref(), Ok(expect));
        }
    }

    #[test]
    fn nothing_else_is() {
        let long = format!("text/{}", "x".repeat(65));
        for text in [
            "",
            "json",
            "text",
            "text/",
            "text/a b",
            "text/plain; charset=utf-8",
            "text/a\r\nx",
            "application/xml",
            "application/octet-stream",
            "application/jsonp",
            "application/vnd.bosun.blocks+json",
            "image/png",
            &long,
        ] {
            assert_eq!(text.parse::<MediaType>(), Err(UnsupportedMediaType), "{text}");
        }
    }

    #[test]
    fn a_journal_may_also_have_content_blocks() {
        for media_type in [MediaType::blocks(), MediaType::json(), MediaType::plain_text()] {
            let written = serde_json::to_string(&media_type).unwrap();
            assert_eq!(serde_json::from_str::<MediaType>(&written).unwrap(), media_type);
        }
        assert!(serde_json::from_str::<MediaType>("\"image/png\"").is_err());
    }
}
