//! The template of an address: `https://api.example.com/items/{id}?units={units}`.
//!
//! Scheme, host and port are fixed: a slot there is a fault. A path is a list of segments and a query a list of pairs,
//! and a value is encoded within its segment or pair, so that no value adds another one. A pair whose values are all
//! absent is left out; a pair whose only slot is a list is repeated for each item, as OpenAPI does by default, unless
//! the slot names another [`SlotStyle`]. `{{.name}}` is a parameter of the manifest, such as a key.

use bosun_core::{percent, text::clip};
use serde_json::Value;
use url::Url;

use super::{
    RenderError,
    slot::{self, Piece, Slot, SlotValue, SlotValues},
    style::SlotStyle,
};

/// The longest address that is sent; servers accept 8 KiB or a little more.
const LONGEST: usize = 32 * 1024;

#[derive(Clone, Debug)]
pub(super) struct UrlTemplate {
    /// Scheme, host and port.
    pub(super) origin: Url,
    segments: Vec<Vec<Piece>>,
    query: Vec<QueryPair>,
}

/// Texts are encoded already.
#[derive(Clone, Debug)]
struct QueryPair {
    name: String,
    /// `None` if it has no `=`.
    value: Option<Vec<Piece>>,
}

/// What is wrong with an address, in words that follow `the address`.
pub(super) type UrlFault = String;

impl UrlTemplate {
    pub(super) fn parse(text: &str) -> Result<Self, UrlFault> {
        if let Some(odd) = text.chars().find(|letter| letter.is_control() || letter.is_whitespace() || *letter == '\\')
        {
            return Err(format!("has the character {odd:?}; percent-encode it"));
        }
        let scheme = ["http://", "https://"].into_iter().find(|scheme| text.starts_with(scheme));
        let scheme = scheme.ok_or("must begin with http:// or https://")?;
        let after = &text[scheme.len()..];
        let (authority, rest) = after.split_at(after.find(['/', '?', '#']).unwrap_or(after.len()));
        if authority.contains(['{', '}']) {
            return Err("has a slot in its host or port, which are fixed; slots belong in the path or the query".into());
        }
        if authority.contains('@') {
            return Err("must not contain a user or a password; use `headers`".into());
        }
        let origin = Url::parse(&format!("{scheme}{authority}/")).map_err(|error| format!("is not a URL: {error}"))?;
        let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
        if fragment.contains(['{', '}']) {
            return Err("has a slot after `#`, which is never sent".into());
        }
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let segments = path.strip_prefix('/').unwrap_or(path).split('/').map(segment).collect::<Result<_, _>>()?;
        let query = query.split('&').filter(|pair| !pair.is_empty()).map(pair).collect::<Result<_, _>>()?;
        Ok(Self { origin, segments, query })
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = &Slot> {
        let values = self.query.iter().filter_map(|pair| pair.value.as_ref());
        self.segments.iter().chain(values).flat_map(|pieces| slot::slots(pieces))
    }

    /// Path and query.
    pub(super) fn render(&self, values: SlotValues<'_>) -> Result<String, RenderError> {
        let mut text = String::new();
        for pieces in &self.segments {
            text.push('/');
            let start = text.len();
            render(values, pieces, &mut text, encode_in_path)?;
            let has_slot = slot::slots(pieces).next();
            // Servers merge `//`, and resolve `..` in any spelling: the request would have another path.
            if let Some(slot) = has_slot.filter(|_| start == text.len()) {
                return Err(RenderError::Empty(slot.called()));
            }
            if let Some(slot) = has_slot.filter(|_| has_dots(&text[start..])) {
                return Err(RenderError::DotSegment(slot.called()));
            }
        }
        let mut separator = '?';
        for QueryPair { name, value } in &self.query {
            let Some(pieces) = value else {
                push_pair(&mut text, &mut separator, name);
                continue;
            };
            if values.leaves_out(pieces) {
                continue;
            }
            if let [Piece::Styled(slot, style)] = pieces.as_slice()
                && style.makes_pairs()
                && let Some(value) = values.structure(slot, *style)
            {
                self.push_pairs(slot, *style, name, value, &mut text, &mut separator)?;
                continue;
            }
            for item in items(values, pieces) {
                push_pair(&mut text, &mut separator, name);
                text.push('=');
                match item {
                    None => render(values, pieces, &mut text, encode_in_query)?,
                    Some((slot, Value::Null | Value::Array(_) | Value::Object(_))) => {
                        return Err(RenderError::NotScalar(slot.called()));
                    }
                    Some((slot, Value::String(item))) => encode_in_query(slot, item, &mut text)?,
                    Some((slot, item)) => encode_in_query(slot, &item.to_string(), &mut text)?,
                }
                within_limit(&text)?;
            }
        }
        within_limit(&text)?;
        Ok(text)
    }

    /// The pairs of a list or an object.
    fn push_pairs(
        &self,
        slot: &Slot,
        style: SlotStyle,
        name: &str,
        value: &Value,
        text: &mut String,
        separator: &mut char,
    ) -> Result<(), RenderError> {
        let decoded = |name: &str| {
            let pair = url::form_urlencoded::parse(name.as_bytes()).next();
            pair.map(|(name, _)| name.into_owned()).unwrap_or_default()
        };
        let names: Vec<String> = self.query.iter().map(|pair| decoded(&pair.name)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let own = decoded(name);
        for (field, value) in style.pairs(slot, &own, value)? {
            super::free_name(slot, &field, &own, &names)?;
            let mut encoded = String::new();
            percent_encode(&field, &mut encoded);
            push_pair(text, separator, &encoded);
            text.push('=');
            percent_encode(&value, text);
            within_limit(text)?;
        }
        Ok(())
    }
}

fn push_pair(text: &mut String, separator: &mut char, name: &str) {
    text.push(*separator);
    text.push_str(name);
    *separator = '&';
}

/// The items of a list for which a pair is repeated; one `None` if it is not.
fn items<'v>(values: SlotValues<'v>, pieces: &'v [Piece]) -> Vec<Option<(&'v Slot, &'v Value)>> {
    if let [Piece::Slot(slot)] = pieces
        && let Some(SlotValue::Argument(Value::Array(items))) = values.get(slot)
    {
        return items.iter().map(|item| Some((slot, item))).collect();
    }
    vec![None]
}

fn render(
    values: SlotValues<'_>,
    pieces: &[Piece],
    text: &mut String,
    encode: fn(&Slot, &str, &mut String) -> Result<(), RenderError>,
) -> Result<(), RenderError> {
    values.only_scalars(pieces)?;
    values.render(pieces, text, encode)?;
    within_limit(text)
}

fn within_limit(text: &str) -> Result<(), RenderError> {
    if text.len() > LONGEST { Err(RenderError::AddressTooLong(LONGEST)) } else { Ok(()) }
}

fn encode_in_path(slot: &Slot, value: &str, into: &mut String) -> Result<(), RenderError> {
    // A proxy may decode `%2F` and resolve what it finds.
    if value.contains(['/', '\\']) && value.split(['/', '\\']).any(|part| matches!(part, "." | "..")) {
        return Err(RenderError::DotSegment(slot.called()));
    }
    percent_encode(value, into);
    Ok(())
}

#[expect(clippy::unnecessary_wraps, reason = "the signature of an encoder, of which another can fail")]
fn encode_in_query(_: &Slot, value: &str, into: &mut String) -> Result<(), RenderError> {
    percent_encode(value, into);
    Ok(())
}

/// Encodes every byte that is not unreserved: servers need not decode the others (RFC 3986, section 2.3).
fn percent_encode(value: &str, into: &mut String) {
    percent::push_except(into, value.as_bytes(), percent::is_unreserved);
}

/// Whether a segment has `.` or `..` as a part, once a proxy has decoded its slashes: several slots may make one.
fn has_dots(segment: &str) -> bool {
    segment.to_ascii_lowercase().replace("%2f", "/").replace("%5c", "/").split('/').any(is_dots)
}

/// Whether a segment is `.` or `..`, in any spelling.
fn is_dots(segment: &str) -> bool {
    matches!(segment.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..")
}

fn segment(text: &str) -> Result<Vec<Piece>, UrlFault> {
    if is_dots(text) {
        return Err(format!("has the segment `{text}`; write the path that is meant"));
    }
    let pieces = pieces(text)?;
    match slot::misplaced_style(&pieces) {
        Some(slot) => Err(format!("gives {} a style that a path does not have", slot.called())),
        None => Ok(pieces),
    }
}

fn pair(text: &str) -> Result<QueryPair, UrlFault> {
    let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
    if name.contains(['{', '}']) {
        return Err(format!("has a slot in the name of a query parameter, `{}`; slots are values", clip(name, 80)));
    }
    let value = value.map(pieces).transpose()?;
    if let Some(slot) = value.as_ref().and_then(|pieces| slot::file(pieces)) {
        return Err(format!("gives {} the style `file`, which only multipart/form-data has", slot.called()));
    }
    if let Some(pieces) = value.as_ref().filter(|pieces| pieces.len() > 1)
        && let Some(slot) = slot::misplaced_style(pieces)
    {
        return Err(format!("gives {} a style that must be all of a value", slot.called()));
    }
    Ok(QueryPair { name: written(name), value })
}

/// A text with slots of the form `{name}`, `{name:style}` and `{{.parameter}}`.
fn pieces(text: &str) -> Result<Vec<Piece>, UrlFault> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(['{', '}']) {
        if let Some((inside, after)) = rest[start..].strip_prefix("{{").and_then(|inside| inside.split_once("}}")) {
            let name = inside.trim().strip_prefix('.').filter(|name| slot::is_parameter(name));
            let Some(name) = name else {
                return Err(format!(
                    "has `{{{{{}}}}}`; a parameter of `bodyParameters` is `{{{{.name}}}}`, and an argument is `{{name}}`",
                    clip(inside, 80)
                ));
            };
            slot::push_text(&mut pieces, &written(&rest[..start]));
            pieces.push(Piece::Slot(Slot::Parameter(name.to_owned())));
            rest = after;
            continue;
        }
        let found = rest[start..].strip_prefix('{').and_then(|inside| inside.split_once('}'));
        let Some((name, after)) = found.filter(|(name, _)| !name.is_empty() && !name.contains('{')) else {
            let problem = if rest[start..].starts_with('}') { "`}` without `{`" } else { "`{` without a name and `}`" };
            return Err(format!("has {problem}; a slot is `{{name}}`, and another brace is `%7B` or `%7D`"));
        };
        slot::push_text(&mut pieces, &written(&rest[..start]));
        let (name, style) = SlotStyle::split(name);
        let slot = Slot::Argument(vec![name.to_owned()]);
        pieces.push(style.map_or_else(|| Piece::Slot(slot.clone()), |style| Piece::Styled(slot.clone(), style)));
        rest = after;
    }
    slot::push_text(&mut pieces, &written(rest));
    Ok(pieces)
}

/// Text of the author in a form that is valid in a URL; what is already percent-encoded is kept.
fn written(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:@/?%".contains(letter) {
            written.push(letter);
        } else {
            percent_encode(letter.encode_utf8(&mut [0; 4]), &mut written);
        }
    }
    written
}
