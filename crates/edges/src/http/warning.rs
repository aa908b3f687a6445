//! Things a client should know although its request was done.
//!
//! They go into the `warnings` of the body and, since not every client reads those, into `Warning`
//! headers in the form that Kubernetes uses: `299 - "text"`.

use axum::http::{HeaderMap, HeaderName, HeaderValue};

const WARNING: HeaderName = HeaderName::from_static("warning");
/// A header has room for a few; the body has them all.
const SHOWN: usize = 8;

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
    fn headers_show_only_a_few() {
        let mut headers = HeaderMap::new();
        add(&mut headers, &vec!["x".to_owned(); 100]);
        assert_eq!(headers.get_all(WARNING).iter().count(), SHOWN);
    }
}
