//! The template of a JSON body: `{"id": "{{.input.id}}", "urgent": {{.input.urgent}}}`.
//!
//! It is parsed as JSON, with its slots in it. A slot in place of a value takes the argument as it is; a slot within a
//! string becomes part of that string. No value can therefore add a member, an item or a level. A member whose values
//! are all absent is left out, and an item of a list is null then.

use std::borrow::Cow;

use bosun_core::{
    ceiling,
    json::{self, JsonLimits},
    template::BadTemplate,
};
use serde_json::Value;

use super::{
    RenderError,
    slot::{self, FoundSlot, Piece, Slot, SlotValue, SlotValues},
};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum JsonTemplate {
    /// Without slots.
    Literal(Value),
    /// A slot in place of a value.
    Whole(Slot),
    /// A string with slots.
    Text(Vec<Piece>),
    List(Vec<Self>),
    Object(Vec<(String, Self)>),
}

/// Why a body is not a JSON template.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadJson {
    #[error("is not a template: {0} of it")]
    Slot(#[from] BadTemplate),
    #[error("is not JSON: {0}")]
    Json(#[from] json::JsonError),
    #[error("has a slot in the name of a member; slots are values")]
    SlotInKey,
    #[error("gives {0} a style, and JSON has lists and objects of its own")]
    Styled(String),
    #[error("has the character U+007F, which no template may have")]
    Reserved,
}

/// Placeholder for the bytes of a slot while the text is parsed, so that faults keep their places. JSON allows it within
/// a string.
const MARK: char = '\u{7f}';

impl JsonTemplate {
    pub(super) fn parse(text: &str) -> Result<Self, BadJson> {
        if text.contains(MARK) || text.to_ascii_lowercase().contains("\\u007f") {
            return Err(BadJson::Reserved);
        }
        let mut slots = slot::find(text)?;
        if let Some(styled) = slots.iter().find(|slot| slot.style.is_some()) {
            return Err(BadJson::Styled(styled.slot.called()));
        }
        let (marked, wholes) = mark(text, &slots);
        let limits = JsonLimits { bytes: ceiling::RESOURCE_BYTES, ..JsonLimits::BODY };
        let value = json::parse(&marked, limits)?;
        let mut found = slots.drain(..).zip(wholes);
        Self::of(value, &mut found)
    }

    /// Members of objects are in the order of the text, and so are the slots.
    fn of(value: Value, slots: &mut impl Iterator<Item = (FoundSlot, bool)>) -> Result<Self, BadJson> {
        Ok(match value {
            Value::String(text) if text.contains(MARK) => Self::of_text(&text, slots),
            Value::Array(items) => {
                Self::List(items.into_iter().map(|item| Self::of(item, slots)).collect::<Result<_, _>>()?)
            }
            Value::Object(members) => {
                let member = |(name, value): (String, Value)| {
                    let is_fixed = !name.contains(MARK);
                    is_fixed.then_some(()).ok_or(BadJson::SlotInKey)?;
                    Ok::<_, BadJson>((name, Self::of(value, slots)?))
                };
                Self::Object(members.into_iter().map(member).collect::<Result<_, _>>()?)
            }
            literal => Self::Literal(literal),
        })
    }

    fn of_text(mut text: &str, slots: &mut impl Iterator<Item = (FoundSlot, bool)>) -> Self {
        let mut pieces = Vec::new();
        while let Some(start) = text.find(MARK) {
            let Some((FoundSlot { slot, at, .. }, is_whole)) = slots.next() else { break };
            if is_whole {
                return Self::Whole(slot);
            }
            slot::push_text(&mut pieces, &text[..start]);
            pieces.push(Piece::Slot(slot));
            text = text.get(start + at.len()..).unwrap_or_default();
        }
        slot::push_text(&mut pieces, text);
        Self::Text(pieces)
    }

    pub(super) fn slots(&self) -> Vec<&Slot> {
        match self {
            Self::Literal(_) => Vec::new(),
            Self::Whole(slot) => vec![slot],
            Self::Text(pieces) => slot::slots(pieces).collect(),
            Self::List(items) => items.iter().flat_map(Self::slots).collect(),
            Self::Object(members) => members.iter().flat_map(|(_, member)| member.slots()).collect(),
        }
    }

    /// Whether it has no value, as a member of an object or as a whole body.
    pub(super) fn is_absent(&self, values: SlotValues<'_>) -> bool {
        match self {
            Self::Whole(slot) => values.get(slot).is_none(),
            Self::Text(pieces) => values.leaves_out(pieces),
            Self::Literal(_) | Self::List(_) | Self::Object(_) => false,
        }
    }

    pub(super) fn render(&self, values: SlotValues<'_>, into: &mut String) -> Result<(), RenderError> {
        match self {
            Self::Literal(value) => into.push_str(&json::compact(value)),
            Self::Whole(slot) => match values.get(slot) {
                Some(value) => into.push_str(&json::compact(&whole(value))),
                None => into.push_str("null"),
            },
            Self::Text(pieces) if values.leaves_out(pieces) => into.push_str("null"),
            Self::Text(pieces) => {
                let mut text = String::new();
                values.render(pieces, &mut text, |_, value, into| {
                    into.push_str(value);
                    Ok(())
                })?;
                into.push_str(&json::compact(&Value::String(text)));
            }
            Self::List(items) => {
                into.push('[');
                for (index, item) in items.iter().enumerate() {
                    into.push_str(if index == 0 { "" } else { "," });
                    item.render(values, into)?;
                }
                into.push(']');
            }
            Self::Object(members) => {
                into.push('{');
                let present = members.iter().filter(|(_, member)| !member.is_absent(values));
                for (index, (name, member)) in present.enumerate() {
                    into.push_str(if index == 0 { "" } else { "," });
                    into.push_str(&json::compact(&Value::from(name.as_str())));
                    into.push(':');
                    member.render(values, into)?;
                }
                into.push('}');
            }
        }
        slot::within_limit(into)
    }
}

/// A value in place of a whole JSON value. A parameter is text, and may be a number or a boolean, but no structure: it
/// may come from the client, and no schema describes it.
fn whole(value: SlotValue<'_>) -> Cow<'_, Value> {
    match value {
        SlotValue::Argument(value) => Cow::Borrowed(value),
        SlotValue::Parameter(text) => Cow::Owned(match serde_json::from_str(text) {
            Ok(scalar @ (Value::Null | Value::Bool(_) | Value::Number(_))) => scalar,
            _ => Value::from(text),
        }),
    }
}

/// The text with marks for its slots, of the same length, and for each slot whether it is in place of a whole value.
fn mark(text: &str, slots: &[FoundSlot]) -> (String, Vec<bool>) {
    let mut marked = String::with_capacity(text.len());
    let mut wholes = Vec::with_capacity(slots.len());
    let mut in_string = false;
    let mut end = 0;
    for FoundSlot { at, .. } in slots {
        let before = &text[end..at.start];
        let mut letters = before.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '"' => in_string = !in_string,
                // What follows a backslash does not end a string.
                '\\' if in_string => {
                    letters.next();
                }
                _ => {}
            }
        }
        marked.push_str(before);
        let (quote, marks) = if in_string { ("", at.len()) } else { ("\"", at.len() - 2) };
        marked.push_str(quote);
        marked.extend(std::iter::repeat_n(MARK, marks));
        marked.push_str(quote);
        wholes.push(!in_string);
        end = at.end;
    }
    marked.push_str(&text[end..]);
    (marked, wholes)
}
