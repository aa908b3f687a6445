//! Reads the answer of an API, within a limit of size that also holds after decompression.

use std::io::{self, Write};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bosun_core::{
    ceiling::HTTP_RESPONSE_BYTES,
    content::{Blocks, Content},
    json::{self as strict, JsonLimits},
    machine::outcome_code,
};
use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use http_body_util::BodyExt as _;
use hyper::{
    Response, StatusCode,
    body::Body as _,
    header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap},
};
use serde_json::{Value, json};

use super::CallFailure;
use crate::{
    outbound::{Body, cause},
    secret::redaction::Redaction,
};

/// How much of an error's body the model reads.
const ERROR_BYTES: usize = 8 * 1024;

/// What an API answered with a status of success.
pub(super) async fn read(response: Response<Body>, redaction: &Redaction) -> Result<Content, CallFailure> {
    let (parts, body) = response.into_parts();
    // A length is only a claim, but one that is too large need not be read.
    if body.size_hint().lower() > HTTP_RESPONSE_BYTES as u64 {
        return Err(too_large());
    }
    let (bytes, is_whole) = collect(&parts.headers, body, HTTP_RESPONSE_BYTES).await?;
    if !is_whole {
        return Err(too_large());
    }
    content(&parts.headers, bytes, redaction)
}

/// What an API answered with a status of failure: the failure that the model reads.
pub(super) async fn refusal(response: Response<Body>, redaction: &Redaction) -> CallFailure {
    let status = response.status();
    let (parts, body) = response.into_parts();
    let message = format!("the API answered {}", shown(status));
    let failure = |mark: &str| CallFailure::new(outcome_code::HTTP_STATUS, format!("{message}{mark}"));
    // What can be read of the body is enough: it is only an explanation.
    let Ok((bytes, is_whole)) = collect(&parts.headers, body, ERROR_BYTES).await else {
        return failure(", with a body that cannot be read");
    };
    let size = bytes.len();
    let Ok(Content::Inline(mut content)) = content(&parts.headers, bytes, redaction) else {
        let (more, kind) = (if is_whole { "" } else { "more than " }, redaction.clean(&media_type(&parts.headers)));
        return failure(&format!(", with {more}{size} bytes of {kind}, which are not shown"));
    };
    if let (Value::String(text), false) = (&mut content, is_whole) {
        // The first bytes may end in the middle of a character.
        text.truncate(text.trim_end_matches('\u{fffd}').len());
        text.push('…');
    }
    if content.as_str().is_some_and(|text| text.trim().is_empty()) {
        return failure("");
    }
    CallFailure { content: Some(content), ..failure("") }
}

/// `404 Not Found`.
pub(super) fn shown(status: StatusCode) -> String {
    let reason = status.canonical_reason().map(|reason| format!(" {reason}")).unwrap_or_default();
    format!("{}{reason}", status.as_u16())
}

fn too_large() -> CallFailure {
    let message = format!("the API answered with more than {HTTP_RESPONSE_BYTES} bytes; ask for less");
    CallFailure::new(outcome_code::RESULT_TOO_LARGE, message)
}

/// The decoded body, and whether that is all of it; at most `limit` bytes are kept, and not many more are read.
async fn collect(headers: &HeaderMap, mut body: Body, limit: usize) -> Result<(Vec<u8>, bool), CallFailure> {
    let mut decoder = Decoder::of(headers, limit)?;
    let mut read = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| CallFailure::failed(format!("the answer broke off: {}", cause(&error))))?;
        // A frame without data has trailers, which are not part of the content.
        let Ok(data) = frame.into_data() else { continue };
        read += data.len();
        let pushed = decoder.push(&data);
        if decoder.is_full() || read > limit {
            return Ok((decoder.into_bytes(), false));
        }
        pushed.map_err(broken)?;
    }
    let finished = decoder.finish();
    let is_full = decoder.is_full();
    if !is_full {
        finished.map_err(broken)?;
    }
    Ok((decoder.into_bytes(), !is_full))
}

fn broken(error: io::Error) -> CallFailure {
    CallFailure::failed(format!("the answer is compressed and cannot be decompressed: {error}"))
}

/// Bytes up to a limit; one more is an error.
#[derive(Debug)]
struct Bounded {
    bytes: Vec<u8>,
    limit: usize,
    is_full: bool,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.limit - self.bytes.len();
        self.bytes.extend_from_slice(&bytes[..room.min(bytes.len())]);
        if bytes.len() > room {
            self.is_full = true;
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Decompresses a body as it arrives.
#[derive(Debug)]
enum Decoder {
    Plain(Bounded),
    Gzip(MultiGzDecoder<Bounded>),
    Zlib(ZlibDecoder<Bounded>),
    Deflate(DeflateDecoder<Bounded>),
    /// `deflate` before its first byte, which says whether it has the header of zlib. Both are in use.
    Undecided(Bounded),
}

impl Decoder {
    fn of(headers: &HeaderMap, limit: usize) -> Result<Self, CallFailure> {
        let bounded = Bounded { bytes: Vec::new(), limit, is_full: false };
        let encoding =
            headers.get(CONTENT_ENCODING).map(|value| value.to_str().unwrap_or("?").trim().to_ascii_lowercase());
        match encoding.as_deref() {
            None | Some("" | "identity") => Ok(Self::Plain(bounded)),
            Some("gzip" | "x-gzip") => Ok(Self::Gzip(MultiGzDecoder::new(bounded))),
            Some("deflate") => Ok(Self::Undecided(bounded)),
            Some(_) => Err(CallFailure::failed("the answer is compressed in a way that was not asked for")),
        }
    }

    fn push(&mut self, data: &[u8]) -> io::Result<()> {
        if let (Self::Undecided(bounded), Some(first)) = (&mut *self, data.first()) {
            let limit = bounded.limit;
            let empty = std::mem::replace(bounded, Bounded { bytes: Vec::new(), limit, is_full: false });
            let has_header = first & 0x0f == 8;
            *self = if has_header {
                Self::Zlib(ZlibDecoder::new(empty))
            } else {
                Self::Deflate(DeflateDecoder::new(empty))
            };
        }
        match self {
            Self::Plain(bounded) | Self::Undecided(bounded) => bounded.write_all(data),
            Self::Gzip(decoder) => decoder.write_all(data),
            Self::Zlib(decoder) => decoder.write_all(data),
            Self::Deflate(decoder) => decoder.write_all(data),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) | Self::Undecided(_) => Ok(()),
            Self::Gzip(decoder) => decoder.try_finish(),
            Self::Zlib(decoder) => decoder.try_finish(),
            Self::Deflate(decoder) => decoder.try_finish(),
        }
    }

    fn bounded(&self) -> &Bounded {
        match self {
            Self::Plain(bounded) | Self::Undecided(bounded) => bounded,
            Self::Gzip(decoder) => decoder.get_ref(),
            Self::Zlib(decoder) => decoder.get_ref(),
            Self::Deflate(decoder) => decoder.get_ref(),
        }
    }

    fn is_full(&self) -> bool {
        self.bounded().is_full
    }

    fn into_bytes(mut self) -> Vec<u8> {
        let bounded = match &mut self {
            Self::Plain(bounded) | Self::Undecided(bounded) => bounded,
            Self::Gzip(decoder) => decoder.get_mut(),
            Self::Zlib(decoder) => decoder.get_mut(),
            Self::Deflate(decoder) => decoder.get_mut(),
        };
        // A decoder writes what it still has when it is dropped, to nothing.
        bounded.limit = 0;
        std::mem::take(&mut bounded.bytes)
    }
}

/// The formats of content.
enum Format {
    Json,
    Text,
    /// `image` or `audio`, which are content blocks by these names.
    Media(&'static str),
    /// Text if it is UTF-8 without control characters.
    Unknown,
    Binary,
}

impl Format {
    fn of(essence: &str) -> Self {
        let (kind, subtype) = essence.split_once('/').unwrap_or((essence, ""));
        match (kind, subtype) {
            ("", _) | ("application", "octet-stream") => Self::Unknown,
            ("application", "json") | ("text", "json") => Self::Json,
            ("text", _) => Self::Text,
            ("image", subtype) if !subtype.ends_with("+xml") => Self::Media("image"),
            ("audio", _) => Self::Media("audio"),
            (_, subtype) if subtype.ends_with("+json") => Self::Json,
            (_, subtype) if subtype.ends_with("+xml") || subtype.ends_with("+yaml") => Self::Text,
            (
                "application",
                "xml"
                | "javascript"
                | "x-javascript"
                | "ecmascript"
                | "yaml"
                | "x-yaml"
                | "toml"
                | "sql"
                | "graphql"
                | "x-ndjson"
                | "ndjson"
                | "jsonl"
                | "x-www-form-urlencoded"
                | "xml-dtd"
                | "rtf",
            ) => Self::Text,
            _ => Self::Binary,
        }
    }
}

/// The type of the content, and its parameters.
fn content_type(headers: &HeaderMap) -> (String, std::str::Split<'_, char>) {
    let header = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut parameters = header.split(';');
    (parameters.next().unwrap_or_default().trim().to_ascii_lowercase(), parameters)
}

/// The type of the content, for a message.
fn media_type(headers: &HeaderMap) -> String {
    Some(content_type(headers).0).filter(|essence| !essence.is_empty()).unwrap_or_else(|| "an unknown type".to_owned())
}

/// The result in a body: JSON, text in its charset, an image or sound.
fn content(headers: &HeaderMap, bytes: Vec<u8>, redaction: &Redaction) -> Result<Content, CallFailure> {
    let (essence, mut parameters) = content_type(headers);
    let charset = parameters.find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches('"'))
    });
    let format = Format::of(&essence);
    let is_text = match format {
        Format::Json | Format::Text => true,
        Format::Unknown => is_plain_text(&bytes),
        Format::Media(_) | Format::Binary => bytes.is_empty(),
    };
    if let Format::Media(kind) = format
        && !bytes.is_empty()
        && !redaction.is_in(&bytes)
    {
        let block = json!({"type": kind, "data": BASE64_STANDARD.encode(bytes), "mimeType": essence});
        return Ok(Content::Blocks(Blocks::new(vec![block], None)));
    }
    if !is_text {
        let size = bytes.len();
        let kind = media_type(headers);
        let message = format!(
            "the API answered with {size} bytes of {kind}; the result of a tool is JSON, text, an image or sound"
        );
        return Err(CallFailure::new(outcome_code::UNSUPPORTED_CONTENT, redaction.clean(&message)));
    }
    let encoding = charset.and_then(|charset| encoding_rs::Encoding::for_label(charset.as_bytes()));
    // A secret that is repeated as it was sent is UTF-8, whatever the header claims; decoded otherwise it would not be
    // recognized.
    let encoding = encoding.filter(|_| !redaction.is_in(&bytes)).unwrap_or(encoding_rs::UTF_8);
    let text = redaction.redact(decode(bytes, encoding));
    // Invalid JSON is text, and so is JSON that is too large to be parsed.
    if matches!(format, Format::Json | Format::Unknown)
        && let Ok(value) = strict::parse(&text, JsonLimits::BODY)
        && (matches!(format, Format::Json) || value.is_object() || value.is_array())
    {
        return Ok(value.into());
    }
    Ok(Value::String(text).into())
}

fn decode(bytes: Vec<u8>, encoding: &'static encoding_rs::Encoding) -> String {
    if encoding == encoding_rs::UTF_8 {
        return String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    }
    encoding.decode(&bytes).0.into_owned()
}

fn is_plain_text(bytes: &[u8]) -> bool {
    let is_plain = |letter: char| !letter.is_control() || matches!(letter, '\n' | '\r' | '\t');
    str::from_utf8(bytes).is_ok_and(|text| text.chars().all(is_plain))
}
