//! The template of a body, in the format that `Content-Type` names.
//!
//! JSON is the default. A form is a list of pairs, as a query is, and is encoded as a URL is or in parts (`form`). Text is sent as it is, which is safe for plain text
//! and for a body that is one argument; any other type with slots between its text is a fault, since a value could
//! change its structure.

use std::borrow::Cow;

use super::{
    RenderError,
    form::{FORM, FieldKind, FormEncoding, FormWriter, RenderedBody},
    json::JsonTemplate,
    slot::{self, Piece, Slot, SlotValues},
    style::{self, SlotStyle},
};

const JSON: &str = "application/json";

#[derive(Clone, Debug)]
pub(super) enum BodyTemplate {
    Json(JsonTemplate),
    Form(FormEncoding, Vec<(String, Vec<Piece>)>),
    /// A form whose fields are the members of one argument.
    FormOf(FormEncoding, Slot, Option<SlotStyle>),
    Text(Vec<Piece>),
}

impl BodyTemplate {
    /// `content_type` is the header of the manifest.
    pub(super) fn parse(text: &str, content_type: Option<&str>) -> Result<Self, String> {
        let essence = content_type.map_or(JSON, |header| header.split(';').next().unwrap_or_default().trim());
        let essence = essence.to_ascii_lowercase();
        if essence == JSON || essence == "text/json" || essence.ends_with("+json") {
            return JsonTemplate::parse(text).map(Self::Json).map_err(|error| error.to_string());
        }
        let pieces = slot::pieces(text).map_err(|error| format!("is not a template: {error} of it"))?;
        if let Some(encoding) = FormEncoding::of(&essence, content_type) {
            return match pieces.as_slice() {
                [Piece::Slot(slot @ Slot::Argument(_))] => Ok(Self::FormOf(encoding, slot.clone(), None)),
                [Piece::Styled(slot, style @ (SlotStyle::DeepObject | SlotStyle::Multi))] => {
                    Ok(Self::FormOf(encoding, slot.clone(), Some(*style)))
                }
                _ => form(text, encoding).map(|pairs| Self::Form(encoding, pairs)),
            };
        }
        if let Some(slot) = slot::misplaced_style(&pieces) {
            return Err(format!("gives {} a style that only a form has", slot.called()));
        }
        let is_whole = matches!(pieces.as_slice(), [Piece::Slot(_)]);
        if essence == "text/plain" || is_whole || slot::slots(&pieces).next().is_none() {
            return Ok(Self::Text(pieces));
        }
        Err(format!(
            "has slots in a text of type `{essence}`, where an argument could change its structure; \
             use JSON, a form or text/plain, or make one argument the whole body"
        ))
    }

    /// The value of `Content-Type` for a manifest that names none.
    pub(super) fn default_content_type(&self) -> &'static str {
        match self {
            Self::Json(_) => JSON,
            Self::Form(..) | Self::FormOf(..) => FORM,
            Self::Text(_) => "text/plain; charset=utf-8",
        }
    }

    pub(super) fn slots(&self) -> Vec<&Slot> {
        match self {
            Self::Json(template) => template.slots(),
            Self::Form(_, pairs) => pairs.iter().flat_map(|(_, pieces)| slot::slots(pieces)).collect(),
            Self::FormOf(_, slot, _) => vec![slot],
            Self::Text(pieces) => slot::slots(pieces).collect(),
        }
    }

    /// The body; `None` if it is one argument, which is absent, or a form without any field.
    pub(super) fn render(&self, values: SlotValues<'_>) -> Result<Option<RenderedBody>, RenderError> {
        let text = match self {
            Self::Json(template) if template.is_absent(values) => return Ok(None),
            Self::Json(template) => {
                let mut body = String::new();
                template.render(values, &mut body)?;
                body
            }
            Self::Form(encoding, pairs) => return render_pairs(*encoding, pairs, values),
            Self::FormOf(encoding, slot, style) => {
                let Some(value) = values.structure(slot, style.unwrap_or(SlotStyle::Multi)) else { return Ok(None) };
                let mut form = FormWriter::new(*encoding);
                for (field, value) in style::fields(slot, value, *style == Some(SlotStyle::DeepObject))? {
                    form.append(field, value, FieldKind::Text)?;
                }
                return Ok(form.finish());
            }
            Self::Text(pieces) if values.leaves_out(pieces) => return Ok(None),
            Self::Text(pieces) => text(values, pieces)?,
        };
        Ok(Some(RenderedBody { text, content_type: None }))
    }
}

fn render_pairs(
    encoding: FormEncoding,
    pairs: &[(String, Vec<Piece>)],
    values: SlotValues<'_>,
) -> Result<Option<RenderedBody>, RenderError> {
    let mut form = FormWriter::new(encoding);
    let names: Vec<&str> = pairs.iter().map(|(name, _)| name.as_str()).collect();
    for (name, pieces) in pairs.iter().filter(|(_, pieces)| !values.leaves_out(pieces)) {
        let kind = match pieces.as_slice() {
            [Piece::Styled(_, SlotStyle::Json)] => FieldKind::Json,
            [Piece::Styled(_, SlotStyle::File)] => FieldKind::File,
            _ => FieldKind::Text,
        };
        if let [Piece::Styled(slot, style)] = pieces.as_slice()
            && style.makes_pairs()
            && let Some(value) = values.structure(slot, *style)
        {
            for (field, value) in style.pairs(slot, name, value)? {
                super::free_name(slot, &field, name, &names)?;
                form.append(field, value, kind)?;
            }
        } else {
            form.append(name.clone(), text(values, pieces)?, kind)?;
        }
    }
    Ok(form.finish())
}

fn text(values: SlotValues<'_>, pieces: &[Piece]) -> Result<String, RenderError> {
    let mut text = String::new();
    values.render(pieces, &mut text, |_, value, into| {
        into.push_str(value);
        Ok(())
    })?;
    Ok(text)
}

/// The pairs of a form. Texts are kept decoded, since the whole is encoded again.
fn form(text: &str, encoding: FormEncoding) -> Result<Vec<(String, Vec<Piece>)>, String> {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if name.contains("{{") {
            return Err("has a slot in the name of a field; slots are values".to_owned());
        }
        let pieces = slot::pieces(value).map_err(|error| format!("is not a template: {error} of `{name}`"))?;
        if let Some(slot) = slot::misplaced_style(&pieces).filter(|_| pieces.len() > 1) {
            return Err(format!("gives {} a style that must be all of a value", slot.called()));
        }
        if encoding != FormEncoding::Multipart
            && let Some(slot) = slot::file(&pieces)
        {
            return Err(format!("gives {} the style `file`, which only multipart/form-data has", slot.called()));
        }
        let decode = |piece| match piece {
            Piece::Text(text) => Piece::Text(decoded(&text).into_owned()),
            slot @ (Piece::Slot(_) | Piece::Styled(..)) => slot,
        };
        Ok((decoded(name).into_owned(), pieces.into_iter().map(decode).collect()))
    };
    text.trim().split('&').filter(|part| !part.is_empty()).map(pair).collect()
}

fn decoded(text: &str) -> Cow<'_, str> {
    // A name without a value: a `=` in a value of the template stays what it is.
    let text = text.replace('=', "%3D");
    url::form_urlencoded::parse(text.as_bytes())
        .next()
        .map_or(Cow::Borrowed(""), |(name, _)| Cow::Owned(name.into_owned()))
}
