//! Lists and objects as text: the `style` of OpenAPI and the `collectionFormat` of Swagger.
//!
//! `{ids:csv}` in an address and `{{.input.ids:csv}}` in a form or a header name one of them. Each item is encoded by
//! itself, so that no item adds another one; what is nested deeper than the style can express is an error of the call.

use std::borrow::Cow;

use bosun_core::json;
use serde_json::{Map, Value};

use super::{RenderError, slot::Slot};

/// How a list or an object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotStyle {
    /// `a=1&a=2`
    Multi,
    /// `1,2`, and an object as `k,v,k,v`
    Csv,
    /// Separated by spaces.
    Ssv,
    /// Separated by tabs.
    Tsv,
    /// Separated by `|`.
    Pipes,
    /// `a[k]=v`, to any depth
    DeepObject,
    /// `k=v&k=v` in a query or a form, `k=v,k=v` elsewhere
    Explode,
    /// `.1.2`
    Label,
    /// `;a=1;a=2`
    Matrix,
    /// The value as JSON.
    Json,
    /// A file with this text, in a multipart body; each item of a list is one.
    File,
}

/// The deepest that brackets nest.
const DEEPEST: usize = 32;

impl SlotStyle {
    const NAMES: [(&'static str, Self); 11] = [
        ("multi", Self::Multi),
        ("csv", Self::Csv),
        ("ssv", Self::Ssv),
        ("tsv", Self::Tsv),
        ("pipes", Self::Pipes),
        ("deepObject", Self::DeepObject),
        ("explode", Self::Explode),
        ("label", Self::Label),
        ("matrix", Self::Matrix),
        ("json", Self::Json),
        ("file", Self::File),
    ];

    /// A name with its style: `ids:csv`. A colon before any other word belongs to the name.
    pub(super) fn split(text: &str) -> (&str, Option<Self>) {
        let found = text.rsplit_once(':').and_then(|(name, word)| {
            let style = Self::NAMES.iter().find(|(known, _)| *known == word)?.1;
            Some((name, style))
        });
        found.map_or((text, None), |(name, style)| (name, Some(style)))
    }

    /// Whether it makes pairs of its own and can only be all of the value of a pair.
    pub(super) fn makes_pairs(self) -> bool {
        matches!(self, Self::Multi | Self::DeepObject | Self::Explode | Self::File)
    }

    /// Whether it can be a part of a path, a header or a longer text.
    pub(super) fn is_text(self) -> bool {
        !matches!(self, Self::Multi | Self::DeepObject | Self::File)
    }

    /// Appends the text of a value, whose items are written by `encode`.
    pub(super) fn render(
        self,
        slot: &Slot,
        value: &Value,
        into: &mut String,
        mut encode: impl FnMut(&Slot, &str, &mut String) -> Result<(), RenderError>,
    ) -> Result<(), RenderError> {
        if self == Self::Json {
            return encode(slot, &json::compact(value), into);
        }
        let name = slot.name();
        let (before, separator) = match self {
            // Legal in every part of a URL, and the separator that readers split at before they decode.
            Self::Csv | Self::Explode | Self::Multi | Self::DeepObject | Self::Json | Self::File => ("", ","),
            Self::Ssv => ("", " "),
            Self::Tsv => ("", "\t"),
            Self::Pipes => ("", "|"),
            Self::Label => (".", "."),
            Self::Matrix => (";", ";"),
        };
        let mut count = 0;
        let mut put = |key: Option<&str>, item: &str, into: &mut String| {
            match (count, separator) {
                (0, _) => into.push_str(before),
                (_, separator @ ("," | "." | ";")) => into.push_str(separator),
                (_, separator) => encode(slot, separator, into)?,
            }
            count += 1;
            if let Some(key) = key {
                encode(slot, key, into)?;
                into.push('=');
            }
            encode(slot, item, into)
        };
        match value {
            Value::Array(items) => {
                for item in items {
                    put((self == Self::Matrix).then_some(name), &scalar(slot, item)?, into)?;
                }
            }
            Value::Object(members) => {
                for (key, member) in present(members) {
                    let member = scalar(slot, member)?;
                    if matches!(self, Self::Explode | Self::Label | Self::Matrix) {
                        put(Some(key), &member, into)?;
                    } else {
                        put(None, key, into)?;
                        put(None, &member, into)?;
                    }
                }
            }
            value => put((self == Self::Matrix).then_some(name), &scalar(slot, value)?, into)?,
        }
        Ok(())
    }

    /// The pairs of a value in a query or a form, decoded.
    pub(super) fn pairs(self, slot: &Slot, name: &str, value: &Value) -> Result<Vec<(String, String)>, RenderError> {
        let mut pairs = Vec::new();
        match (self, value) {
            (Self::DeepObject, value) => deep(slot, name.to_owned(), value, 0, &mut pairs)?,
            (Self::Explode, Value::Object(members)) => {
                for (key, member) in present(members) {
                    multi(slot, key, member, &mut pairs)?;
                }
            }
            (_, value) => multi(slot, name, value, &mut pairs)?,
        }
        Ok(pairs)
    }
}

/// All members of an object as the fields of a form.
pub(super) fn fields(slot: &Slot, value: &Value, is_deep: bool) -> Result<Vec<(String, String)>, RenderError> {
    let Value::Object(members) = value else { return Err(RenderError::NotObject(slot.called())) };
    let mut pairs = Vec::new();
    for (key, member) in present(members) {
        if is_deep {
            deep(slot, key.to_owned(), member, 0, &mut pairs)?;
        } else {
            multi(slot, key, member, &mut pairs)?;
        }
    }
    Ok(pairs)
}

/// Null is the absence of a value.
fn present(members: &Map<String, Value>) -> impl Iterator<Item = (&str, &Value)> {
    members.iter().filter(|(_, member)| !member.is_null()).map(|(key, member)| (key.as_str(), member))
}

fn multi(slot: &Slot, name: &str, value: &Value, pairs: &mut Vec<(String, String)>) -> Result<(), RenderError> {
    let items = if let Value::Array(items) = value { items.as_slice() } else { std::slice::from_ref(value) };
    for item in items {
        pairs.push((name.to_owned(), scalar(slot, item)?.into_owned()));
    }
    Ok(())
}

fn deep(
    slot: &Slot,
    name: String,
    value: &Value,
    depth: usize,
    pairs: &mut Vec<(String, String)>,
) -> Result<(), RenderError> {
    if depth > DEEPEST {
        return Err(RenderError::NotScalar(slot.called()));
    }
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                deep(slot, format!("{name}[{index}]"), item, depth + 1, pairs)?;
            }
        }
        Value::Object(members) => {
            for (key, member) in present(members) {
                deep(slot, format!("{name}[{key}]"), member, depth + 1, pairs)?;
            }
        }
        value => pairs.push((name, scalar(slot, value)?.into_owned())),
    }
    Ok(())
}

fn scalar<'v>(slot: &Slot, value: &'v Value) -> Result<Cow<'v, str>, RenderError> {
    match value {
        Value::String(text) => Ok(Cow::Borrowed(text)),
        Value::Number(_) | Value::Bool(_) => Ok(Cow::Owned(value.to_string())),
        Value::Null | Value::Array(_) | Value::Object(_) => Err(RenderError::NotScalar(slot.called())),
    }
}
