//! Templates: texts with placeholders, `Hello {{.name}}`.
//!
//! ARK writes prompts and inputs as Go templates and uses one form of them, `{{.name}}`. Only that form is supported: a
//! pipeline, a condition or a nested field is an error with its position, since printing it verbatim would show a model
//! text that its author never meant. A name without a value is an error as well (Go prints `<no value>`). Values are
//! inserted verbatim and never parsed as templates again. Text without any parameters is not a template and does not
//! come here: its braces are literal.

use std::{collections::BTreeSet, fmt};

use crate::ceiling::RENDERED_BYTES;

const OPEN: &str = "{{";
const CLOSE: &str = "}}";

/// A parsed template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Value(String),
}

/// Why a text is not a valid template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem} in line {line}, column {column}")]
pub struct BadTemplate {
    pub problem: TemplateProblem,
    /// Of the text, counted from one.
    pub line: usize,
    /// In characters, counted from one.
    pub column: usize,
}

impl BadTemplate {
    /// The problem that begins at this byte of `text`.
    #[must_use]
    pub fn at(text: &str, offset: usize, problem: TemplateProblem) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        let line = before.matches('\n').count() + 1;
        Self { problem, line, column: before[line_start..].chars().count() + 1 }
    }
}

/// The problem of an invalid template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplateProblem {
    /// `{{` without `}}`.
    Unclosed,
    /// Something between the braces that is not `.name`.
    NotAName(String),
}

impl fmt::Display for TemplateProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unclosed => write!(formatter, "`{OPEN}` has no `{CLOSE}`"),
            Self::NotAName(text) => write!(formatter, "`{OPEN}{text}{CLOSE}` is not of the form `{{{{.name}}}}`"),
        }
    }
}

/// Names in a template that have no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no value is given for {}", quoted(names))]
pub struct MissingValues {
    /// In the order of their first occurrence.
    pub names: Vec<String>,
}

/// Why a template could not be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    #[error(transparent)]
    Missing(#[from] MissingValues),
    #[error("{0} bytes exceed the limit of {RENDERED_BYTES}")]
    TooLarge(usize),
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

impl Template {
    /// Parses a text.
    ///
    /// # Errors
    /// With the position of the first part that is not of the form `{{.name}}`.
    pub fn parse(text: &str) -> Result<Self, BadTemplate> {
        Self::parse_names(text, is_name)
    }

    /// The same for other names: those that `is_name` accepts.
    ///
    /// # Errors
    /// With the position of the first part that is not of the form `{{.name}}`.
    pub fn parse_names(text: &str, is_name: impl Fn(&str) -> bool) -> Result<Self, BadTemplate> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(start) = rest.find(OPEN) {
            let fault = |problem| BadTemplate::at(text, text.len() - rest.len() + start, problem);
            let inside = &rest[start + OPEN.len()..];
            let Some(end) = inside.find(CLOSE) else { return Err(fault(TemplateProblem::Unclosed)) };
            let Some(name) = inside[..end].trim().strip_prefix('.').filter(|name| is_name(name)) else {
                return Err(fault(TemplateProblem::NotAName(inside[..end].chars().take(40).collect())));
            };
            if start > 0 {
                pieces.push(Piece::Text(rest[..start].to_owned()));
            }
            pieces.push(Piece::Value(name.to_owned()));
            rest = &inside[end + CLOSE.len()..];
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        Ok(Self { pieces })
    }

    /// The names that need a value, each once, in the order of the text.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let mut seen = BTreeSet::new();
        self.pieces.iter().filter_map(move |piece| match piece {
            Piece::Value(name) => seen.insert(name.as_str()).then_some(name.as_str()),
            Piece::Text(_) => None,
        })
    }

    /// Renders the text, with `value` giving the value of each name.
    ///
    /// # Errors
    /// If some names have no value, or the text would be larger than [`RENDERED_BYTES`].
    pub fn render<'a>(&self, value: impl Fn(&str) -> Option<&'a str>) -> Result<String, RenderError> {
        let missing: Vec<_> = self.names().filter(|name| value(name).is_none()).map(str::to_owned).collect();
        if !missing.is_empty() {
            return Err(MissingValues { names: missing }.into());
        }
        let parts: Vec<&str> = self
            .pieces
            .iter()
            .map(|piece| match piece {
                Piece::Text(text) => text.as_str(),
                Piece::Value(name) => value(name).unwrap_or_default(),
            })
            .collect();
        // Before anything is copied: n placeholders for a value of m bytes make n times m bytes from a text of n + m.
        let bytes = parts.iter().fold(0_usize, |sum, part| sum.saturating_add(part.len()));
        if bytes > RENDERED_BYTES { Err(RenderError::TooLarge(bytes)) } else { Ok(parts.concat()) }
    }
}

/// Whether `name` is an identifier of Go.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let is_letter = |letter: char| letter == '_' || letter.is_alphabetic();
    name.chars().next().is_some_and(is_letter)
        && name.chars().all(|letter| is_letter(letter) || letter.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(name: &str) -> Option<&'static str> {
        match name {
            "name" => Some("Ada"),
            "tricky" => Some("{{.name}} }}"),
            "_x1" => Some("x"),
            "größe" => Some("9"),
            "empty" => Some(""),
            _ => None,
        }
    }

    #[track_caller]
    fn check(text: &str, expect: &str) {
        assert_eq!(Template::parse(text).unwrap().render(value).unwrap(), expect, "{text}");
    }

    #[track_caller]
    fn check_bad(text: &str, line: usize, column: usize, expect: &str) {
        let bad = Template::parse(text).unwrap_err();
        assert_eq!((bad.line, bad.column, bad.problem.to_string().as_str()), (line, column, expect), "{text}");
    }

    #[test]
    fn placeholders_are_replaced_by_their_values() {
        check("", "");
        check("no braces", "no braces");
        check("Hello {{.name}}!", "Hello Ada!");
        check("{{ .name }}{{.name\n}}", "AdaAda");
        check("{{._x1}}{{.größe}}{{.empty}}", "x9");
        check("{ {x} } }} {.name}", "{ {x} } }} {.name}");
        check("{{.name}}}", "Ada}");
    }

    #[test]
    fn a_value_is_never_parsed_as_a_template() {
        check("<{{.tricky}}>", "<{{.name}} }}>");
    }

    #[test]
    fn other_forms_of_go_templates_are_errors_with_a_position() {
        let form = |text: &str| format!("`{{{{{text}}}}}` is not of the form `{{{{.name}}}}`");
        check_bad("a {{if .x}}b{{end}}", 1, 3, &form("if .x"));
        check_bad("a\nü {{.a.b}}", 2, 3, &form(".a.b"));
        for text in ["", ".", "name", "- .name -", ".my-name", ".1x", ". name", "\"{{", ".name | upper", "/* x */"] {
            check_bad(&format!("{{{{{text}}}}}"), 1, 1, &form(text));
        }
        check_bad("{{{.name}}}", 1, 1, &form("{.name"));
        check_bad("x\n\n  {{.name", 3, 3, "`{{` has no `}}`");
        check_bad("{{.name}} {{", 1, 11, "`{{` has no `}}`");
    }

    #[test]
    fn a_fault_does_not_repeat_a_whole_text() {
        let bad = Template::parse(&format!("{{{{{}}}}}", "x".repeat(1_000))).unwrap_err();
        assert!(bad.to_string().len() < 150, "{bad}");
    }

    #[test]
    fn every_name_without_a_value_is_reported_once() {
        let template = Template::parse("{{.b}} {{.name}} {{.a}} {{.b}}").unwrap();
        assert_eq!(template.names().collect::<Vec<_>>(), ["b", "name", "a"]);
        let missing = template.render(value).unwrap_err();
        assert_eq!(missing.to_string(), "no value is given for `b`, `a`");
    }

    #[test]
    fn a_text_that_would_be_too_large_is_not_made() {
        let (half, one) = ("x".repeat(RENDERED_BYTES / 2), "x".to_owned());
        let value = |name: &str| Some(if name == "half" { half.as_str() } else { one.as_str() });
        let most = Template::parse("{{.half}}{{.half}}").unwrap().render(value).unwrap();
        assert_eq!(most.len(), RENDERED_BYTES);
        let more = Template::parse("{{.half}}{{.half}}{{.one}}").unwrap();
        assert_eq!(more.render(value), Err(RenderError::TooLarge(RENDERED_BYTES + 1)));
        // They would take 40 GB.
        let many = Template::parse(&"{{.half}}".repeat(80_000)).unwrap();
        assert_eq!(many.render(value), Err(RenderError::TooLarge(80_000 * (RENDERED_BYTES / 2))));
    }
}
