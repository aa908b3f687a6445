//! Content blocks: a result that is more than one text or one JSON value.
//!
//! The blocks are those of MCP (`text`, `image`, `audio`, `resource_link`, `resource`) and are kept as they were
//! received, unknown types included. [`Blocks::text`] renders all of them for a model; a mark with type and size
//! replaces what is not text. [`Blocks::images`] has the images that model APIs accept. Nothing is decoded here: sizes and
//! image formats can be determined from the base64 text.

use std::{borrow::Cow, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::text_of;
use crate::{ceiling::JSON_DEPTH, json};

/// The content blocks of one result, serialized as MCP's `CallToolResult`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Blocks {
    content: Vec<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    structured_content: Option<Value>,
}

/// An image in a format that model APIs accept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// By the first bytes of the data. APIs reject an image that is not what its media type says, and tools often
    /// do not say what it is.
    pub media_type: &'static str,
    /// In standard base64, with padding.
    pub data: String,
}

/// The images of one result; usually none.
pub type Images = Arc<[Image]>;

impl Blocks {
    /// `structured` is the same result as one JSON value, if the tool has an output schema.
    ///
    /// A value that is nested too deeply to be read back from a journal is kept as its JSON text.
    #[must_use]
    pub fn new(content: Vec<Value>, structured: Option<Value>) -> Self {
        let keep = |block| if is_deeper_than(&block, JSON_DEPTH) { text_block(&block) } else { block };
        let flatten = |value| if is_deeper_than(&value, JSON_DEPTH) { json::compact(&value).into() } else { value };
        Self {
            content: content.into_iter().map(keep).collect(),
            structured_content: structured.filter(|value| !value.is_null()).map(flatten),
        }
    }

    #[must_use]
    pub fn content(&self) -> &[Value] {
        &self.content
    }

    #[must_use]
    pub fn structured(&self) -> Option<&Value> {
        self.structured_content.as_ref()
    }

    /// The JSON that a blob or a client gets.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Values can always be serialized: their keys are strings.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// All blocks as a model reads them. The structured content follows unless one of the texts is the same JSON, as MCP
    /// recommends.
    #[must_use]
    pub fn text(&self) -> String {
        let structured = self.structured_content.iter().filter(|value| !self.content.iter().any(|b| repeats(b, value)));
        let parts: Vec<_> = self.content.iter().map(show).chain(structured.map(text_of)).collect();
        parts.join("\n")
    }

    /// The images of image blocks and of embedded resources, in their order. An image that no model API accepts has only
    /// its mark in the text.
    pub fn images(&self) -> impl Iterator<Item = Image> {
        self.content.iter().filter_map(image)
    }
}

fn text_block(block: &Value) -> Value {
    json!({ "type": "text", "text": json::compact(block) })
}

fn is_deeper_than(value: &Value, levels: usize) -> bool {
    let mut parts: Box<dyn Iterator<Item = &Value>> = match value {
        Value::Array(items) => Box::new(items.iter()),
        Value::Object(members) => Box::new(members.values()),
        _ => return false,
    };
    levels.checked_sub(1).is_none_or(|below| parts.any(|part| is_deeper_than(part, below)))
}

/// Whether a text block is this value as JSON.
fn repeats(block: &Value, structured: &Value) -> bool {
    let text = field(block, "text").filter(|text| text.trim_start().starts_with(['{', '[']));
    text.and_then(|text| serde_json::from_str::<Value>(text).ok()).is_some_and(|value| value == *structured)
}

fn field<'a>(block: &'a Value, name: &str) -> Option<&'a str> {
    block.get(name)?.as_str()
}

/// One block as text. A block that is not as MCP specifies it is shown as it is.
fn show(block: &Value) -> Cow<'_, str> {
    let shown = match field(block, "type") {
        Some("text") => field(block, "text").map(Cow::Borrowed),
        Some(kind @ ("image" | "audio")) => field(block, "data")
            .map(|data| Cow::Owned(format!("[{kind}: {}, {}]", field(block, "mimeType").unwrap_or("?"), size(data)))),
        Some("resource_link") => show_link(block).map(Cow::Owned),
        Some("resource") => block.get("resource").and_then(show_resource).map(Cow::Owned),
        _ => None,
    };
    shown.unwrap_or_else(|| Cow::Owned(json::compact(block)))
}

fn show_link(link: &Value) -> Option<String> {
    let (name, uri) = (field(link, "name").unwrap_or_default(), field(link, "uri")?);
    let size = link.get("size").and_then(Value::as_u64).map(|size| format!("{size} bytes"));
    let details: Vec<_> = field(link, "mimeType").map(str::to_owned).into_iter().chain(size).collect();
    let mut shown = format!("[resource link: {name} <{uri}>");
    if !details.is_empty() {
        shown.push_str(&format!(" ({})", details.join(", ")));
    }
    if let Some(description) = field(link, "description") {
        shown.push_str(&format!(": {description}"));
    }
    shown.push(']');
    Some(shown)
}

fn show_resource(resource: &Value) -> Option<String> {
    let uri = field(resource, "uri")?;
    let media_type = field(resource, "mimeType").map(|media_type| format!(" ({media_type})")).unwrap_or_default();
    match (field(resource, "text"), field(resource, "blob")) {
        (Some(text), _) => Some(format!("[resource: <{uri}>{media_type}]\n{text}")),
        (None, Some(blob)) => Some(format!("[resource: <{uri}>{media_type}, {}]", size(blob))),
        (None, None) => None,
    }
}

/// The size of base64 data, as a mark says it.
fn size(data: &str) -> String {
    match standard_base64(data) {
        Some(data) => {
            let padding = data.bytes().rev().take_while(|byte| *byte == b'=').count();
            format!("{} bytes", data.len() / 4 * 3 - padding)
        }
        None => format!("{} characters that are not base64", data.chars().count()),
    }
}

/// Standard base64, without the line breaks that some encoders add; `None` if it is something else.
#[must_use]
pub fn standard_base64(data: &str) -> Option<Cow<'_, str>> {
    let data = if data.contains(|letter: char| letter.is_ascii_whitespace()) {
        Cow::Owned(data.split_ascii_whitespace().collect())
    } else {
        Cow::Borrowed(data)
    };
    let digits = data.strip_suffix("==").or_else(|| data.strip_suffix('=')).unwrap_or(&data);
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    (data.len() % 4 == 0 && digits.bytes().all(is_digit)).then_some(data)
}

fn image(block: &Value) -> Option<Image> {
    let data = match field(block, "type")? {
        "image" => field(block, "data"),
        "resource" => field(block.get("resource")?, "blob"),
        _ => None,
    };
    let data = standard_base64(data?)?;
    Some(Image { media_type: image_type(&data)?, data: data.into_owned() })
}

/// The format of an image by the signature of its file, of which the base64 text is constant.
fn image_type(data: &str) -> Option<&'static str> {
    const SIGNATURES: [(&str, &str); 4] =
        [("iVBORw0KGgo", "image/png"), ("/9j/", "image/jpeg"), ("R0lGODlh", "image/gif"), ("R0lGODdh", "image/gif")];
    // `RIFF`, the size of the file, and `WEBP`, of which the first letter shares its digits with the size.
    let is_webp = data.starts_with("UklGR") && data.get(12..16) == Some("RUJQ");
    let signature = SIGNATURES.iter().find(|(signature, _)| data.starts_with(signature));
    signature.map(|(_, media_type)| *media_type).or(is_webp.then_some("image/webp"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Just, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};

    use super::*;

    const PNG: &str = "iVBORw0KGgoAAAANSUhEUg==";

    #[track_caller]
    fn check(content: &[Value], expect: &str) {
        assert_eq!(Blocks::new(content.to_vec(), None).text(), expect);
    }

    #[test]
    fn a_model_reads_texts_and_marks() {
        check(&[], "");
        check(&[json!({"type": "text", "text": "a\nb"}), json!({"type": "text", "text": "c"})], "a\nb\nc");
        check(&[json!({"type": "image", "data": PNG, "mimeType": "image/png"})], "[image: image/png, 16 bytes]");
        check(&[json!({"type": "audio", "data": "AAAA", "mimeType": "audio/wav"})], "[audio: audio/wav, 3 bytes]");
        check(&[json!({"type": "audio", "data": "AAA="})], "[audio: ?, 2 bytes]");
        check(&[json!({"type": "image", "data": "", "mimeType": "image/png"})], "[image: image/png, 0 bytes]");
        check(
            &[json!({"type": "image", "data": "é?", "mimeType": "image/png"})],
            "[image: image/png, 2 characters that are not base64]",
        );
    }

    #[test]
    fn a_model_reads_links_and_resources() {
        check(
            &[json!({"type": "resource_link", "name": "log", "uri": "file:///log", "mimeType": "text/plain"})],
            "[resource link: log <file:///log> (text/plain)]",
        );
        let link = json!({"type": "resource_link", "name": "log", "uri": "file:///log", "mimeType": "text/plain", "size": 7, "description": "of today"});
        check(&[link], "[resource link: log <file:///log> (text/plain, 7 bytes): of today]");
        check(&[json!({"type": "resource_link", "name": "log", "uri": "x:1"})], "[resource link: log <x:1>]");
        let resource = |fields: Value| json!({"type": "resource", "resource": fields});
        check(
            &[resource(json!({"uri": "x:1", "mimeType": "text/csv", "text": "a,b"}))],
            "[resource: <x:1> (text/csv)]\na,b",
        );
        check(&[resource(json!({"uri": "x:1", "text": ""}))], "[resource: <x:1>]\n");
        check(
            &[resource(json!({"uri": "x:1", "mimeType": "application/pdf", "blob": "AAAAAA=="}))],
            "[resource: <x:1> (application/pdf), 4 bytes]",
        );
    }

    #[test]
    fn a_block_that_is_not_specified_is_shown_as_it_is() {
        for block in [
            json!({"type": "video", "data": "AAAA"}),
            json!({"type": "text"}),
            json!({"type": "image", "mimeType": "image/png"}),
            json!({"type": "resource_link", "name": "log"}),
            json!({"type": "resource", "resource": {"uri": "x:1"}}),
            json!({"type": "resource"}),
            json!({"text": "no type"}),
            json!("text"),
            json!(null),
        ] {
            check(std::slice::from_ref(&block), &block.to_string());
        }
    }

    #[test]
    fn structured_content_is_shown_unless_a_text_repeats_it() {
        let check = |text: &str, structured: Value, expect: &str| {
            let blocks = Blocks::new(vec![json!({"type": "text", "text": text})], Some(structured));
            assert_eq!(blocks.text(), expect);
        };
        check("{\"b\": 1,\n \"a\": 2}", json!({"a": 2, "b": 1}), "{\"b\": 1,\n \"a\": 2}");
        check("{\"a\": 3}", json!({"a": 2}), "{\"a\": 3}\n{\"a\":2}");
        check("two", json!({"a": 2}), "two\n{\"a\":2}");
        check("two", json!(null), "two");
        assert_eq!(Blocks::new(vec![], Some(json!({"a": 2}))).text(), "{\"a\":2}");
    }

    #[test]
    fn images_are_what_their_data_says() {
        let image = |data: &str| json!({"type": "image", "data": data, "mimeType": "image/bmp"});
        let blocks = Blocks::new(
            vec![
                json!({"type": "text", "text": "x"}),
                image(PNG),
                image("/9j/4AAQSkZJRgAB"),
                image("R0lGODlhAQABAAAA"),
                image("UklGRiQAAABXRUJQ"),
                json!({"type": "resource", "resource": {"uri": "x:1", "blob": "iVBORw0K\r\nGgoA"}}),
                // A bitmap, an audio file in the same container as WebP, and no base64.
                image("Qk1GAAAAAAAAADYA"),
                image("UklGRiQAAABXQVZF"),
                image("iVBORw0KGgo"),
                json!({"type": "audio", "data": PNG}),
                json!({"type": "resource", "resource": {"uri": "x:1", "text": PNG}}),
            ],
            None,
        );
        let found: Vec<_> = blocks.images().map(|image| (image.media_type, image.data)).collect();
        let expect = [
            ("image/png", PNG),
            ("image/jpeg", "/9j/4AAQSkZJRgAB"),
            ("image/gif", "R0lGODlhAQABAAAA"),
            ("image/webp", "UklGRiQAAABXRUJQ"),
            ("image/png", "iVBORw0KGgoA"),
        ];
        assert_eq!(found, expect.map(|(media_type, data)| (media_type, data.to_owned())));
    }

    #[test]
    fn deep_values_are_kept_as_text_and_can_be_read_back() {
        let nested = |depth: usize| serde_json::from_str::<Value>(&("[".repeat(depth) + &"]".repeat(depth))).unwrap();
        let kept = Blocks::new(vec![nested(JSON_DEPTH)], Some(nested(JSON_DEPTH)));
        assert_eq!((&kept.content()[0], kept.structured()), (&nested(JSON_DEPTH), Some(&nested(JSON_DEPTH))));
        let deep = Blocks::new(vec![nested(120)], Some(nested(120)));
        assert_eq!(deep.content()[0], json!({"type": "text", "text": nested(120).to_string()}));
        assert_eq!(deep.structured(), Some(&json!(nested(120).to_string())));
        for blocks in [kept, deep] {
            let written = serde_json::to_string(&blocks).unwrap();
            assert_eq!(serde_json::from_str::<Blocks>(&written).unwrap(), blocks);
        }
    }

    /// Blocks of every type, and of none.
    fn block() -> impl Strategy<Value = Value> {
        const KINDS: &[&str] = &["text", "image", "audio", "resource_link", "resource", "video", ""];
        const NAMES: &[&str] = &["text", "data", "mimeType", "uri", "name", "blob", "size"];
        let value = prop_oneof![
            "[a-z ]{0,6}".prop_map(Value::from),
            Just(json!(PNG)),
            any::<u32>().prop_map(Value::from),
            Just(json!(null)),
        ];
        let fields = prop::collection::vec((prop::sample::select(NAMES), value), 0..6)
            .prop_map(|fields| fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Value>());
        (prop::sample::select(KINDS), fields).prop_map(|(kind, fields)| {
            let mut block = fields.clone();
            block["type"] = json!(kind);
            block["resource"] = fields;
            block
        })
    }

    proptest! {
        #[test]
        fn no_block_is_lost(content in prop::collection::vec(block(), 0..6)) {
            let blocks = Blocks::new(content.clone(), None);
            prop_assert_eq!(blocks.content(), &content[..]);
            // A text may be empty; everything else has at least a mark.
            let shown: Vec<_> = content.iter().map(|block| Blocks::new(vec![block.clone()], None).text()).collect();
            for (block, shown) in content.iter().zip(&shown) {
                prop_assert!(!shown.is_empty() || block["type"] == "text", "{block}");
            }
            prop_assert_eq!(blocks.text(), shown.join("\n"));
            prop_assert!(blocks.images().count() <= content.len());
        }
    }
}
