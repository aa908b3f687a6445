//! A value of a node's parameters as fixed text with placeholders that the model fills in.

use bosun_core::audit::redact_text;

use super::from_ai::{Argument, calls};
use crate::format::clip;

/// A part of a value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TemplatePart {
    Text(String),
    Slot(Argument),
}

/// Parses a value in which expressions are `{{ … }}`. The error is an expression that is neither one call of `$fromAI`
/// nor a constant: only n8n can evaluate that.
pub(super) fn parse(value: &str) -> Result<Vec<TemplatePart>, String> {
    // n8n evaluates a value only if it begins with `=`.
    let Some(mut rest) = value.strip_prefix('=') else { return Ok(text(value)) };
    let mut parts = Vec::new();
    while let Some((before, after)) = rest.split_once("{{") {
        parts.extend(text(before));
        let end = end_of_expression(after).ok_or_else(|| after.trim().to_owned())?;
        parts.push(match constant(after[..end].trim()) {
            Some(constant) => TemplatePart::Text(constant),
            None => TemplatePart::Slot(slot(&after[..end])?),
        });
        rest = &after[end + 2..];
    }
    parts.extend(text(rest));
    Ok(parts)
}

/// The fixed text of a value, without its expressions.
pub(super) fn around_expressions(value: &str) -> Vec<&str> {
    let mut rest = value.strip_prefix('=').unwrap_or(value);
    let mut texts = Vec::new();
    while let Some((before, after)) = rest.split_once("{{") {
        texts.push(before);
        rest = end_of_expression(after).map_or("", |end| &after[end + 2..]);
    }
    texts.push(rest);
    texts
}

/// An expression as a message names it: a text in it may be a secret. The names of nodes and members are shown.
pub(super) fn without_texts(expression: &str) -> String {
    let mut shown = String::new();
    let mut rest = expression;
    while let Some(at) = rest.find(['\'', '"', '`']) {
        let (before, literal) = rest.split_at(at);
        let bytes = literal.as_bytes();
        let mut end = 1;
        while end < bytes.len() && bytes[end] != bytes[0] {
            end += if bytes[end] == b'\\' { 2 } else { 1 };
        }
        let end = literal.ceil_char_boundary((end + 1).min(literal.len()));
        shown.push_str(before);
        let is_member = before.strip_suffix('[').is_some_and(|owner| {
            owner.ends_with(|letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '$' | ']' | ')'))
        });
        if is_member || before.ends_with("$(") {
            shown.push_str(&literal[..end]);
        } else {
            let quote = &literal[..1];
            shown.extend([quote, "…", quote]);
        }
        rest = &literal[end..];
    }
    shown.push_str(rest);
    redact_text(&shown).into_owned()
}

fn text(text: &str) -> Vec<TemplatePart> {
    if text.is_empty() { Vec::new() } else { vec![TemplatePart::Text(text.to_owned())] }
}

/// The position of the `}}` that ends an expression, which may contain others inside of its strings.
fn end_of_expression(expression: &str) -> Option<usize> {
    let bytes = expression.as_bytes();
    let mut quote = None;
    let mut at = 0;
    while at < bytes.len() {
        match (quote, bytes[at]) {
            (Some(_), b'\\') => at += 1,
            (Some(open), byte) if open == byte => quote = None,
            (None, byte @ (b'\'' | b'"' | b'`')) => quote = Some(byte),
            (None, b'}') if bytes.get(at + 1) == Some(&b'}') => return Some(at),
            _ => {}
        }
        at += 1;
    }
    None
}

/// The text of an expression that is a number, a boolean or a string.
fn constant(expression: &str) -> Option<String> {
    if matches!(expression, "true" | "false") || expression.parse::<f64>().is_ok_and(f64::is_finite) {
        return Some(expression.to_owned());
    }
    let quote = expression.chars().next().filter(|quote| matches!(quote, '\'' | '"' | '`'))?;
    let inner = expression[1..].strip_suffix(quote)?;
    // An escape or an interpolation would have to be evaluated.
    let is_computed = quote == '`' && inner.contains("${");
    let is_plain = !is_computed && !inner.contains([quote, '\\']);
    is_plain.then(|| inner.to_owned())
}

/// The one call that an expression consists of.
fn slot(expression: &str) -> Result<Argument, String> {
    let trimmed = expression.trim();
    let bare = match trimmed.strip_prefix("/*").and_then(|comment| comment.split_once("*/")) {
        Some((_, after)) => after.trim(),
        None => trimmed,
    };
    match calls(bare) {
        Ok(mut found) if found.len() == 1 && found[0].range == (0..bare.len()) => Ok(found.remove(0).argument),
        _ => Err(clip(trimmed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: &str, expect: Result<&str, &str>) {
        let shown = parse(value).map(|parts| {
            parts
                .iter()
                .map(|part| match part {
                    TemplatePart::Text(text) => text.clone(),
                    TemplatePart::Slot(argument) => format!("<{}>", argument.key),
                })
                .collect::<String>()
        });
        assert_eq!(shown.as_deref().map_err(String::as_str), expect, "{value}");
    }

    #[test]
    fn a_value_is_text_and_slots() {
        check("plain {{ $fromAI('a') }}", Ok("plain {{ $fromAI('a') }}"));
        check("=https://x/{{ $fromAI('city') }}/now", Ok("https://x/<city>/now"));
        check("={{ /*n8n-auto-generated-fromAI-override*/ $fromAI('a', 'with }} in it') }}", Ok("<a>"));
        check("=", Ok(""));
        check("={{ 648297 }}", Ok("648297"));
        check("=a/{{ 'b' }}/{{ true }}", Ok("a/b/true"));
    }

    #[test]
    fn the_text_around_expressions_is_fixed() {
        assert_eq!(around_expressions("=a/{{ $json.b }}/{c}{{ '}}' }}d"), ["a/", "/{c}", "d"]);
        assert_eq!(around_expressions("=a{{ $json.b"), ["a", ""]);
        assert_eq!(around_expressions("plain"), ["plain"]);
    }

    #[test]
    fn the_texts_of_an_expression_are_not_shown() {
        for (expression, shown) in [
            ("'Bearer a1' + $json.x", "'…' + $json.x"),
            ("$('My Node').item.json[\"a b\"] + `a1`", "$('My Node').item.json[\"a b\"] + `…`"),
            ("btoa('user:it\\'s') + 'a1", "btoa('…') + '…'"),
            ("['a1'].join('ä')", "['…'].join('…')"),
        ] {
            assert_eq!(without_texts(expression), shown);
        }
    }

    #[test]
    fn an_expression_of_n8n_is_named() {
        check("={{ $json.city }}", Err("$json.city"));
        check("={{ `a ${b}` }}", Err("`a ${b}`"));
        check("={{ 'a' + 'b' }}", Err("'a' + 'b'"));
        check("={{ $fromAI('a') + 1 }}", Err("$fromAI('a') + 1"));
        check("=x {{ $fromAI('a'", Err("$fromAI('a'"));
    }
}
