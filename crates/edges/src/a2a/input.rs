//! A message as the text that the model reads: its text, its data and its files, in order.
//!
//! An agent takes text and JSON, also as files, and files of the media types that its manifest names. A file that is text
//! is read as text; the model gets any other one as JSON, as it was sent, so that it can give it to a tool. Nothing is
//! fetched: a file that is a URL is taken only by an agent whose manifest names its media type.

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bosun_core::json::compact;
use bosun_reading::a2a_options::A2aOptions;
use serde_json::{Map, Value, json};

use super::{
    error::{A2aError, ErrorKind},
    wire::{MessagePart, PartContent},
};
use crate::http::error::clip;

/// What every agent takes, as text, as data or as a file.
pub(super) const OWN_MODES: [&str; 2] = ["text/plain", "application/json"];
/// The media type of a file whose sender does not say what it is.
const UNKNOWN: &str = "application/octet-stream";

/// The text of a message for the model.
pub(super) fn input_of(parts: &[MessagePart], options: &A2aOptions) -> Result<String, A2aError> {
    let texts = parts.iter().enumerate().map(|(index, part)| match &part.content {
        PartContent::Text(text) => Ok(Cow::Borrowed(text.as_str())),
        PartContent::Data(data) => Ok(Cow::Owned(compact(data))),
        PartContent::Raw(bytes) => read_file(index, part, bytes, options).map(Cow::Owned),
        PartContent::Url(url) => {
            check_mode(part, options, false)?;
            Ok(Cow::Owned(file_json(part, "url", url)))
        }
    });
    let text = texts.collect::<Result<Vec<_>, _>>()?.join("\n");
    if text.trim().is_empty() {
        return Err(A2aError::invalid(
            "the message is empty",
            vec![("message.parts".to_owned(), "must say something".to_owned())],
        ));
    }
    Ok(text)
}

fn media_type(part: &MessagePart) -> &str {
    part.media_type.as_deref().filter(|media_type| !media_type.is_empty()).unwrap_or(UNKNOWN)
}

/// Refuses a file that the agent does not take, as the protocol requires.
fn check_mode(part: &MessagePart, options: &A2aOptions, is_here: bool) -> Result<(), A2aError> {
    let media_type = media_type(part);
    let bare = media_type.split(';').next().unwrap_or_default().trim();
    let is_own = || OWN_MODES.iter().any(|mode| mode.eq_ignore_ascii_case(bare));
    if (is_here && is_own()) || options.input_modes.iter().any(|range| range.includes(media_type)) {
        return Ok(());
    }
    let taken = OWN_MODES.into_iter().map(str::to_owned).chain(options.input_modes.iter().map(ToString::to_string));
    let (taken, kind) = (taken.collect::<Vec<_>>(), if is_here { "files" } else { "URLs of files" });
    let message = format!("{kind} of {} are not supported; this agent takes {}", clip(media_type), taken.join(", "));
    Err(A2aError::new(ErrorKind::ContentTypeNotSupported, message))
}

fn read_file(index: usize, part: &MessagePart, encoded: &str, options: &A2aOptions) -> Result<String, A2aError> {
    check_mode(part, options, true)?;
    let Ok(bytes) = STANDARD.decode(encoded) else {
        let fault = (format!("message.parts[{index}].raw"), "must be base64".to_owned());
        return Err(A2aError::invalid("the file is not base64", vec![fault]));
    };
    let media_type = media_type(part);
    let is_text = ["text/", "application/json", "application/xml"].iter().any(|kind| media_type.starts_with(kind));
    match String::from_utf8(bytes).ok().filter(|_| is_text) {
        Some(text) => Ok(match &part.filename {
            Some(name) => format!("[file: {name} ({media_type})]\n{text}"),
            None => text,
        }),
        None => Ok(file_json(part, "bytes", encoded)),
    }
}

fn file_json(part: &MessagePart, member: &str, content: &str) -> String {
    let mut file = Map::new();
    file.extend(part.filename.as_ref().map(|name| ("name".to_owned(), Value::from(name.as_str()))));
    file.insert("mediaType".to_owned(), Value::from(media_type(part)));
    file.insert(member.to_owned(), Value::from(content));
    compact(&json!({ "file": file }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(modes: &str) -> A2aOptions {
        let mut options = A2aOptions::default();
        if !modes.is_empty() {
            options.ask("a2a-input-modes", modes).unwrap();
        }
        options
    }

    #[track_caller]
    fn check(modes: &str, content: PartContent, media_type: Option<&str>, expect: Result<&str, ErrorKind>) {
        let part = MessagePart { content, filename: Some("a.bin".into()), media_type: media_type.map(str::to_owned) };
        let read = input_of(&[part], &options(modes)).map_err(|error| error.kind());
        assert_eq!(read.as_deref().map_err(|kind| *kind), expect);
    }

    #[test]
    fn a_file_is_read_if_the_agent_takes_its_media_type() {
        let raw = |bytes: &str| PartContent::Raw(bytes.into());
        let url = || PartContent::Url("https://h/a".into());
        let unsupported = Err(ErrorKind::ContentTypeNotSupported);
        check("", raw("aGk="), Some("text/plain"), Ok("[file: a.bin (text/plain)]\nhi"));
        check(
            "",
            raw("aGk="),
            Some("Text/Plain; charset=utf-8"),
            Ok(r#"{"file":{"name":"a.bin","mediaType":"Text/Plain; charset=utf-8","bytes":"aGk="}}"#),
        );
        check("", raw("aGk="), Some("application/pdf"), unsupported);
        check("", raw("aGk="), None, unsupported);
        check("", url(), Some("image/png"), unsupported);
        check("", url(), Some("text/plain"), unsupported);
        check("", raw("no base64"), Some("text/plain"), Err(ErrorKind::InvalidParams));
        check(
            "image/*",
            url(),
            Some("image/png"),
            Ok(r#"{"file":{"name":"a.bin","mediaType":"image/png","url":"https://h/a"}}"#),
        );
        check(
            "image/*",
            raw("/9j/"),
            Some("image/jpeg"),
            Ok(r#"{"file":{"name":"a.bin","mediaType":"image/jpeg","bytes":"/9j/"}}"#),
        );
        check("image/*", raw("aGk="), Some("application/pdf"), unsupported);
        check(
            "*/*",
            raw("/9j/"),
            None,
            Ok(r#"{"file":{"name":"a.bin","mediaType":"application/octet-stream","bytes":"/9j/"}}"#),
        );
        check(
            "*/*",
            raw("/9j/"),
            Some("text/plain"),
            Ok(r#"{"file":{"name":"a.bin","mediaType":"text/plain","bytes":"/9j/"}}"#),
        );
    }

    #[test]
    fn parts_are_joined_in_order_and_must_say_something() {
        let parts = [MessagePart::text("a"), MessagePart::data(json!({"b": [1]}))];
        assert_eq!(input_of(&parts, &options("")).unwrap(), "a\n{\"b\":[1]}");
        let empty = input_of(&[MessagePart::text(" ")], &options("")).unwrap_err();
        assert_eq!(empty.kind(), ErrorKind::InvalidParams);
    }
}
