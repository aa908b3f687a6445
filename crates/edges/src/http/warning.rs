//! Warnings about requests that succeeded.
//!
//! They go into the `warnings` of the body and, since not every client reads those, into `Warning`
//! headers in the form that Kubernetes uses: `299 - "text"`.

use std::collections::HashSet;

use axum::{
    http::{HeaderMap, HeaderName, HeaderValue},
    response::{IntoResponse, Response},
};
use bosun_core::ceiling::WARNINGS_KEPT;

const WARNING: HeaderName = HeaderName::from_static("warning");
/// A header has room for a few; the body has them all.
const SHOWN: usize = 8;

/// The warnings of one request: each once, at most [`WARNINGS_KEPT`] of them, and the number of further ones.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    kept: Vec<String>,
    known: HashSet<String>,
    /// The number of warnings from earlier steps, which are counted already.
    before: usize,
    omitted: usize,
}

impl Warnings {
    pub(crate) fn add(&mut self, warning: impl Into<String>) {
        let warning = warning.into();
        if self.known.contains(&warning) {
            return;
        }
        if self.is_full() {
            self.omitted += 1;
            return;
        }
        self.known.insert(warning.clone());
        self.kept.push(warning);
    }

    pub(crate) fn is_full(&self) -> bool {
        self.kept.len() >= self.before + WARNINGS_KEPT
    }

    /// Counts warnings that are not kept.
    pub(crate) fn omit(&mut self, count: usize) {
        self.omitted += count;
    }
}

/// Continues with the warnings of an earlier step, which are all kept: they are few.
impl From<Vec<String>> for Warnings {
    fn from(kept: Vec<String>) -> Self {
        Self { known: kept.iter().cloned().collect(), before: kept.len(), kept, omitted: 0 }
    }
}

impl From<Warnings> for Vec<String> {
    fn from(warnings: Warnings) -> Self {
        let Warnings { mut kept, omitted, .. } = warnings;
        if omitted > 0 {
            kept.push(format!("{omitted} further warnings are not listed"));
        }
        kept
    }
}

pub(crate) fn add(headers: &mut HeaderMap, warnings: &[String]) {
    for warning in warnings.iter().take(SHOWN) {
        // What `quote` writes is always a legal header value.
        if let Ok(value) = HeaderValue::from_str(&quote(warning)) {
            headers.append(WARNING, value);
        }
    }
}

/// A quoted string of RFC 9110 holds printable ASCII; the rest becomes `?`.
fn quote(text: &str) -> String {
    let mut quoted = String::from("299 - \"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            ' '..='~' => quoted.push(letter),
            _ => quoted.push('?'),
        }
    }
    quoted.push('"');
    quoted
}

/// The answer with its warnings in its headers.
pub(crate) fn with_warnings(response: impl IntoResponse, warnings: &[String]) -> Response {
    let mut response = response.into_response();
    add(response.headers_mut(), warnings);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_becomes_a_legal_header() {
        assert_eq!(quote("unknown field `a`"), "299 - \"unknown field `a`\"");
        assert_eq!(quote("say \"hi\" \\ ü\r\n"), "299 - \"say \\\"hi\\\" \\\\ ???\"");
        assert!(HeaderValue::from_str(&quote("\0\u{7f}\u{202e}é")).is_ok());
    }

    #[test]
    fn each_warning_is_kept_once_and_what_is_too_much_is_counted() {
        let mut warnings = Warnings::from(vec!["before".to_owned()]);
        for number in 0..2 * WARNINGS_KEPT {
            warnings.add(format!("warning {number}"));
            warnings.add("before");
            warnings.add("warning 0");
        }
        warnings.omit(7);
        let kept = Vec::from(warnings);
        assert_eq!((kept.len(), kept[0].as_str()), (WARNINGS_KEPT + 2, "before"));
        assert_eq!(kept.last().map(String::as_str), Some("107 further warnings are not listed"));
        assert_eq!(Vec::from(Warnings::default()), Vec::<String>::new());
    }

    #[test]
    fn headers_show_only_a_few() {
        let mut headers = HeaderMap::new();
        add(&mut headers, &vec!["x".to_owned(); 100]);
        assert_eq!(headers.get_all(WARNING).iter().count(), SHOWN);
    }
}
