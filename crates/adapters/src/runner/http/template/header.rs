//! The templates of headers.

use bosun_core::{
    text::clip,
    tool::{
        NamedValue, ValueSource,
        header::{is_closed_to_arguments, is_of_connection},
    },
};
use hyper::header::{HeaderName, HeaderValue};

use super::{
    RenderError,
    slot::{self, Piece, Slot, SlotValues},
};

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
        if is_of_connection(name.as_str()) {
            return Err(format!("header `{shown}` is set by the server itself; leave it out"));
        }
        let value = match &header.value {
            ValueSource::Literal(text) => {
                let pieces = slot::pieces(text).map_err(|error| format!("header `{shown}`: {error} of its value"))?;
                if is_closed_to_arguments(name.as_str()) && slot::slots(&pieces).next().is_some() {
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
