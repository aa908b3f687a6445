//! The templates of headers.

use bosun_core::{
    text::clip,
    tool::{NamedValue, ValueSource},
};
use hyper::header::{HeaderName, HeaderValue};

use super::{
    RenderError,
    slot::{self, Piece, Slot, SlotValues},
};

/// Headers that belong to the connection or to the encoding of a message; a manifest cannot set them.
const OF_CONNECTION: &[&str] = &[
    "host",
    "content-length",
    "content-encoding",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "http2-settings",
    "accept-encoding",
];
/// Headers that identify the caller, its origin or the format: no argument of a model becomes part of them.
const NOT_FROM_ARGUMENTS: &[&str] = &[
    "authorization",
    "proxy-authorization",
    "cookie",
    "content-type",
    "origin",
    "referer",
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
    "traceparent",
    "tracestate",
];

#[derive(Clone, Debug)]
pub(super) struct HeaderTemplate {
    pub(super) name: HeaderName,
    pub(super) value: HeaderSource,
}

#[derive(Clone, Debug)]
pub(super) enum HeaderSource {
    /// Written in the manifest.
    Template(Vec<Piece>),
    /// Looked up at each call.
    Reference(ValueSource),
}

impl HeaderTemplate {
    pub(super) fn parse(header: &NamedValue) -> Result<Self, String> {
        let shown = clip(&header.name, 80);
        let name =
            HeaderName::try_from(header.name.as_str()).map_err(|_| format!("`{shown}` is not the name of a header"))?;
        if OF_CONNECTION.contains(&name.as_str()) {
            return Err(format!("header `{shown}` is set by the server itself; leave it out"));
        }
        let value = match &header.value {
            ValueSource::Literal(text) => {
                let pieces = slot::pieces(text).map_err(|error| format!("header `{shown}`: {error} of its value"))?;
                if NOT_FROM_ARGUMENTS.contains(&name.as_str()) && slot::slots(&pieces).next().is_some() {
                    return Err(format!(
                        "header `{shown}` has a slot, and it must not depend on arguments; use `valueFrom`"
                    ));
                }
                if let Some(slot) = slot::misplaced_style(&pieces) {
                    return Err(format!("header `{shown}` cannot carry {} in that style", slot.called()));
                }
                if text.contains(|letter: char| letter.is_control() && letter != '\t') {
                    return Err(format!("the value of header `{shown}` has a control character"));
                }
                HeaderSource::Template(pieces)
            }
            reference => HeaderSource::Reference(reference.clone()),
        };
        Ok(Self { name, value })
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = &Slot> {
        let pieces = match &self.value {
            HeaderSource::Template(pieces) => pieces.as_slice(),
            HeaderSource::Reference(_) => &[],
        };
        slot::slots(pieces)
    }
}

/// A header that is written in the manifest; `None` if its values are all absent.
pub(super) fn render(pieces: &[Piece], values: SlotValues<'_>) -> Result<Option<HeaderValue>, RenderError> {
    if values.leaves_out(pieces) {
        return Ok(None);
    }
    values.only_scalars(pieces)?;
    let mut text = String::new();
    values.render(pieces, &mut text, |slot, value, into| {
        if value.contains(char::is_control) {
            return Err(RenderError::ControlCharacter(slot.called()));
        }
        into.push_str(value);
        Ok(())
    })?;
    // Text outside of ASCII is sent as UTF-8.
    HeaderValue::from_bytes(text.trim().as_bytes()).map(Some).map_err(|_| RenderError::TooLarge(text.len()))
}
