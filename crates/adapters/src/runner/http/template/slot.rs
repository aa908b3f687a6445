//! Slots: the places of a template that a call fills, and the values that fill them.
//!
//! A slot is parsed once and never again after it is filled, so a value that looks like a slot stays text.

use std::{borrow::Cow, collections::BTreeMap};

use bosun_core::{
    ceiling::RENDERED_BYTES,
    json,
    template::{BadTemplate, TemplateProblem},
};
use serde_json::Value;

use super::{RenderError, style::SlotStyle};

const OPEN: &str = "{{";
const CLOSE: &str = "}}";
/// The name of the arguments in a body template, as ARK has it.
const INPUT: &str = "input";

/// The value that a template asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// A member of the arguments, by the names that lead to it; without any, the arguments themselves.
    Argument(Vec<String>),
    /// A body parameter, by its name.
    Parameter(String),
}

/// A part of a template: text as it is sent, or a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    Slot(Slot),
    /// A slot for a list or an object.
    Styled(Slot, SlotStyle),
}

impl Slot {
    /// Parses what is between `{{` and `}}`; `None` if it is anything but `.name` or `.input.name`.
    fn parse(text: &str) -> Option<Self> {
        let names: Vec<_> = text.trim().strip_prefix('.')?.split('.').map(str::to_owned).collect();
        // The names of arguments are those of JSON Schema, where `-` is common.
        let is_name = |name: &String| {
            let is_letter = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-');
            !name.is_empty() && name.chars().all(is_letter)
        };
        if !names.iter().all(is_name) {
            return None;
        }
        match names.split_first()? {
            (first, rest) if first == INPUT => Some(Self::Argument(rest.to_vec())),
            (first, []) => Some(Self::Parameter(first.clone())),
            _ => None,
        }
    }

    /// The name of its value.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Argument(path) => path.last().map_or(INPUT, String::as_str),
            Self::Parameter(name) => name,
        }
    }

    /// What messages call its value.
    pub(super) fn called(&self) -> String {
        match self {
            Self::Argument(path) if path.is_empty() => "the arguments".to_owned(),
            Self::Argument(path) => format!("argument `{}`", path.join(".")),
            Self::Parameter(name) => format!("parameter `{name}`"),
        }
    }
}

/// Whether this is the name of a body parameter.
pub(super) fn is_parameter(name: &str) -> bool {
    matches!(Slot::parse(&format!(".{name}")), Some(Slot::Parameter(_)))
}

/// A slot in a text, with its place.
pub(super) struct FoundSlot {
    pub(super) slot: Slot,
    pub(super) style: Option<SlotStyle>,
    /// The bytes of the text that it takes, braces included.
    pub(super) at: std::ops::Range<usize>,
}

/// Every `{{…}}` of a text, in its order.
pub(super) fn find(text: &str) -> Result<Vec<FoundSlot>, BadTemplate> {
    let mut found = Vec::new();
    let mut end = 0;
    while let Some(start) = text[end..].find(OPEN).map(|offset| end + offset) {
        let inside = &text[start + OPEN.len()..];
        let Some(length) = inside.find(CLOSE) else {
            return Err(BadTemplate::at(text, start, TemplateProblem::Unclosed));
        };
        let (name, style) = SlotStyle::split(inside[..length].trim());
        let is_styled = |slot: &Slot| style.is_none() || matches!(slot, Slot::Argument(_));
        let Some(slot) = Slot::parse(name).filter(is_styled) else {
            let shown = inside[..length].chars().take(40).collect();
            return Err(BadTemplate::at(text, start, TemplateProblem::NotAName(shown)));
        };
        end = start + OPEN.len() + length + CLOSE.len();
        found.push(FoundSlot { slot, style, at: start..end });
    }
    Ok(found)
}

/// A text and the slots in it.
pub(super) fn pieces(text: &str) -> Result<Vec<Piece>, BadTemplate> {
    let mut pieces = Vec::new();
    let mut end = 0;
    for FoundSlot { slot, style, at } in find(text)? {
        push_text(&mut pieces, &text[end..at.start]);
        pieces.push(style.map_or_else(|| Piece::Slot(slot.clone()), |style| Piece::Styled(slot.clone(), style)));
        end = at.end;
    }
    push_text(&mut pieces, &text[end..]);
    Ok(pieces)
}

pub(super) fn push_text(pieces: &mut Vec<Piece>, text: &str) {
    if !text.is_empty() {
        pieces.push(Piece::Text(text.to_owned()));
    }
}

pub(super) fn slots(pieces: &[Piece]) -> impl Iterator<Item = &Slot> {
    pieces.iter().filter_map(|piece| match piece {
        Piece::Text(_) => None,
        Piece::Slot(slot) | Piece::Styled(slot, _) => Some(slot),
    })
}

/// The first style of a text that is not a text of its own, or not all of it.
pub(super) fn misplaced_style(pieces: &[Piece]) -> Option<&Slot> {
    pieces.iter().find_map(|piece| match piece {
        Piece::Styled(slot, style) if !style.is_text() => Some(slot),
        _ => None,
    })
}

/// The first slot that is a file.
pub(super) fn file(pieces: &[Piece]) -> Option<&Slot> {
    pieces.iter().find_map(|piece| match piece {
        Piece::Styled(slot, SlotStyle::File) => Some(slot),
        _ => None,
    })
}

/// The values of one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotValues<'a> {
    pub(crate) arguments: &'a Value,
    /// The body parameters, without those that are optional and absent.
    pub(crate) parameters: &'a BTreeMap<String, String>,
}

/// The value of a slot.
#[derive(Clone, Copy, Debug)]
pub(super) enum SlotValue<'a> {
    Argument(&'a Value),
    Parameter(&'a str),
}

impl<'a> SlotValues<'a> {
    /// The value of a slot; `None` if it is absent.
    pub(super) fn get(self, slot: &Slot) -> Option<SlotValue<'a>> {
        match slot {
            Slot::Argument(path) => {
                let found = path.iter().try_fold(self.arguments, |value, name| value.get(name))?;
                Some(SlotValue::Argument(found))
            }
            Slot::Parameter(name) => self.parameters.get(name).map(|text| SlotValue::Parameter(text)),
        }
    }

    /// The value of a slot as text; `None` if it is absent or null.
    pub(super) fn text(self, slot: &Slot) -> Option<Cow<'a, str>> {
        match self.get(slot)? {
            SlotValue::Argument(Value::Null) => None,
            SlotValue::Argument(Value::String(text)) => Some(Cow::Borrowed(text)),
            SlotValue::Argument(value) => Some(Cow::Owned(json::compact(value))),
            SlotValue::Parameter(text) => Some(Cow::Borrowed(text)),
        }
    }

    /// The argument of a styled slot; `None` if it is absent, or has nothing in it that the style could write.
    pub(super) fn structure(self, slot: &Slot, style: SlotStyle) -> Option<&'a Value> {
        match self.get(slot)? {
            SlotValue::Argument(Value::Null) | SlotValue::Parameter(_) => None,
            SlotValue::Argument(value) if style == SlotStyle::Json => Some(value),
            SlotValue::Argument(Value::Array(items)) if items.is_empty() => None,
            SlotValue::Argument(Value::Object(members)) if members.is_empty() => None,
            SlotValue::Argument(value) => Some(value),
        }
    }

    /// As [`SlotValues::text`], for a place that cannot hold objects and lists.
    pub(super) fn scalar(self, slot: &Slot) -> Result<Option<Cow<'a, str>>, RenderError> {
        match self.get(slot) {
            Some(SlotValue::Argument(Value::Array(_) | Value::Object(_))) => Err(RenderError::NotScalar(slot.called())),
            _ => Ok(self.text(slot)),
        }
    }

    /// Refuses objects and lists in slots that have no style for them.
    pub(super) fn only_scalars(self, pieces: &[Piece]) -> Result<(), RenderError> {
        for piece in pieces {
            if let Piece::Slot(slot) = piece {
                self.scalar(slot)?;
            }
        }
        Ok(())
    }

    /// Whether a part of the request is left out: it has slots, and none of them has a value. A part with only some
    /// of its values is an error where it is rendered.
    pub(super) fn leaves_out(self, pieces: &[Piece]) -> bool {
        let is_absent = |piece: &Piece| match piece {
            Piece::Text(_) => None,
            Piece::Slot(slot) => Some(self.text(slot).is_none()),
            Piece::Styled(slot, style) => Some(self.structure(slot, *style).is_none()),
        };
        let mut slots = pieces.iter().filter_map(is_absent).peekable();
        slots.peek().is_some() && slots.all(|is_absent| is_absent)
    }

    /// Appends text and values, each value written by `encode`.
    pub(super) fn render(
        self,
        pieces: &[Piece],
        into: &mut String,
        mut encode: impl FnMut(&Slot, &str, &mut String) -> Result<(), RenderError>,
    ) -> Result<(), RenderError> {
        for piece in pieces {
            match piece {
                Piece::Text(text) => into.push_str(text),
                Piece::Slot(slot) => {
                    let value = self.text(slot).ok_or_else(|| RenderError::Missing(slot.called()))?;
                    encode(slot, &value, into)?;
                }
                Piece::Styled(slot, style) => {
                    let value = self.structure(slot, *style).ok_or_else(|| RenderError::Missing(slot.called()))?;
                    style.render(slot, value, into, &mut encode)?;
                }
            }
            within_limit(into)?;
        }
        Ok(())
    }
}

/// A few kilobytes of slots and one large argument would make gigabytes.
pub(super) fn within_limit(rendered: &str) -> Result<(), RenderError> {
    if rendered.len() > RENDERED_BYTES { Err(RenderError::TooLarge(RENDERED_BYTES)) } else { Ok(()) }
}
