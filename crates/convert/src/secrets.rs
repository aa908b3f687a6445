//! Secrets in clear text: the one detector of the converters, and the references that replace them.
//!
//! A value counts as a secret by its name, or by the prefix of a well-known vendor's keys. What is found is never
//! copied: the request refers to a secret, and a warning says which one the user has to store.

use bosun_core::{
    audit::{is_secret_name, is_vendor_key},
    tool::{NamedValue, SecretRef, ValueSource},
};

use crate::{document::end_of_string, names::slug};

/// Names that carry a key in a query or a header, and are ordinary words elsewhere.
const KEY_PARAMETERS: [&str; 7] = ["key", "sig", "appid", "appkey", "authkey", "subscriptionkey", "hapikey"];

/// Whether a header or a query parameter of this name and value must not be copied.
pub(crate) fn is_secret_parameter(name: &str, value: &str) -> bool {
    is_secret_name(name) || is_key_parameter(name) || is_key(value)
}

/// Whether a member of a body must not be copied. A member named `key` is one only if its value looks like it.
pub(crate) fn is_secret_member(name: &str, value: &str) -> bool {
    let is_random = || {
        let has = |kind: fn(&u8) -> bool| value.as_bytes().iter().any(kind);
        value.len() >= 16
            && !value.contains(char::is_whitespace)
            && has(u8::is_ascii_digit)
            && has(u8::is_ascii_alphabetic)
    };
    is_secret_name(name) || is_key(value) || (is_key_parameter(name) && is_random())
}

fn is_key_parameter(name: &str) -> bool {
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect();
    KEY_PARAMETERS.contains(&plain.as_str())
}

/// Whether a value is a key by its own look: that of a vendor, or with the scheme of an `Authorization` header.
pub(crate) fn is_key(value: &str) -> bool {
    let value = value.trim();
    let is_scheme = |scheme: &str| {
        let (start, rest) = value.split_at_checked(scheme.len()).unwrap_or(("", ""));
        // Words in capitals, such as `YOUR_API_KEY`, say where a key belongs.
        let is_word = |letter: char| letter.is_ascii_uppercase() || matches!(letter, '_' | '-' | '<' | '>' | '[' | ']');
        start.eq_ignore_ascii_case(scheme) && rest.trim().len() >= 8 && !rest.trim().chars().all(is_word)
    };
    is_vendor_key(value) || is_scheme("Bearer ") || is_scheme("Basic ")
}

/// A text without the vendors' keys in it; `None` if it has none.
pub(crate) fn without_keys(text: &str) -> Option<String> {
    const EDGES: &str = "\"'`,;:()[]{}<>=&?|/";
    let is_edge = |letter: char| letter.is_whitespace() || EDGES.contains(letter);
    let mut shown = String::new();
    let mut has_key = false;
    for piece in text.split_inclusive(is_edge) {
        let word = piece.trim_end_matches(is_edge).trim_end_matches(['.', '!']);
        if is_vendor_key(word) {
            has_key = true;
            shown.push('…');
            shown.push_str(&piece[word.len()..]);
        } else {
            shown.push_str(piece);
        }
    }
    has_key.then_some(shown)
}

/// The secrets of one tool, each a parameter of its request.
#[derive(Debug)]
pub(crate) struct SecretParameters {
    /// The name of the secret.
    owner: String,
    /// By parameter: the value that was found, which goes no further.
    found: Vec<(String, String)>,
}

impl SecretParameters {
    pub(crate) fn new(owner: &str) -> Self {
        Self { owner: owner.to_owned(), found: Vec::new() }
    }

    /// The parameter that stands for a value, and whether it is a new one. Equal names with other values are numbered.
    pub(crate) fn hide(&mut self, name: &str, value: &str) -> (String, bool) {
        let plain = slug(name, "key");
        let mut parameter = plain.clone();
        let mut number = 1;
        while let Some((_, known)) = self.found.iter().find(|(known, _)| *known == parameter) {
            if known == value {
                return (parameter, false);
            }
            number += 1;
            parameter = format!("{plain}-{number}");
        }
        self.found.push((parameter.clone(), value.to_owned()));
        (parameter, true)
    }

    /// The secret that holds the value of a parameter.
    pub(crate) fn reference(&self, parameter: &str) -> SecretRef {
        SecretRef { name: self.owner.clone(), key: parameter.to_owned(), optional: false }
    }

    /// The parameters of the request.
    pub(crate) fn into_values(self) -> Vec<NamedValue> {
        let value = |parameter: &String| ValueSource::SecretKeyRef(self.reference(parameter));
        self.found.iter().map(|(name, _)| NamedValue { name: name.clone(), value: value(name) }).collect()
    }
}

/// Replaces the secrets of a JSON text, which may have slots (`{{…}}`) in place of values, by what `hide` returns for
/// their names and values.
pub(crate) fn hide_in_json(text: &str, mut hide: impl FnMut(&str, &str) -> String) -> String {
    let bytes = text.as_bytes();
    let mut shown = String::with_capacity(text.len());
    let mut key: Option<String> = None;
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                let end = end_of_string(bytes, at);
                let literal = &text[at..end];
                let content = serde_json::from_str(literal).unwrap_or_else(|_| literal.trim_matches('"').to_owned());
                let after = text[end..].trim_start();
                if key.is_none() && after.starts_with(':') {
                    shown.push_str(literal);
                    shown.push_str(&text[end..text.len() - after.len() + 1]);
                    key = Some(content);
                    at = text.len() - after.len() + 1;
                    continue;
                }
                let name = key.take();
                let is_fixed = !content.is_empty() && !content.contains("{{");
                let is_secret = name.as_ref().map_or_else(|| is_key(&content), |name| is_secret_member(name, &content));
                if is_fixed && is_secret {
                    shown.push_str(&format!("\"{}\"", hide(name.as_deref().unwrap_or("key"), &content)));
                } else {
                    shown.push_str(literal);
                }
                at = end;
            }
            b'0'..=b'9' if key.as_ref().is_some_and(|name| is_secret_name(name)) => {
                let length = text[at..].find([',', '}', ']', '\n', ' ']).unwrap_or(text.len() - at);
                let name = key.take().unwrap_or_default();
                shown.push_str(&hide(&name, &text[at..at + length]));
                at += length;
            }
            byte => {
                if !byte.is_ascii_whitespace() {
                    key = None;
                }
                let length = text[at..].chars().next().map_or(1, char::len_utf8);
                shown.push_str(&text[at..at + length]);
                at += length;
            }
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_recognised_by_name_or_value() {
        for name in ["Authorization", "X-API-Key", "access_token", "Cookie", "key", "client_secret", "appid"] {
            assert!(is_secret_parameter(name, "x"), "{name}");
        }
        for name in ["Accept", "keyword", "Content-Type", "q", "monkey", "max_tokens"] {
            assert!(!is_secret_parameter(name, "x"), "{name}");
        }
        assert!(is_secret_parameter("q", "sk-0123456789abcdef") && is_secret_parameter("x", "Bearer abcdefgh1"));
        assert!(is_secret_member("key", "a1b2c3d4e5f6a7b8") && !is_secret_member("key", "colour"));
        assert!(is_key("Basic dXNlcjpwYXNz") && is_key("Bearer ABCDEFGH1") && !is_key("Bearer <OAUTH_TOKEN>"));
    }

    #[test]
    fn keys_in_a_sentence_are_left_out() {
        let shown = without_keys("Call it with (sk-0123456789abcdef), then\nwith token=sk-0123456789abcdef.");
        assert_eq!(shown.as_deref(), Some("Call it with (…), then\nwith token=…."));
        assert_eq!(without_keys("Keys begin with sk-, as in sk-..."), None);
    }

    #[track_caller]
    fn check(text: &str, expect: &str, found: &[(&str, &str)]) {
        let mut secrets = SecretParameters::new("owner");
        let shown = hide_in_json(text, |name, value| format!("{{{{.{}}}}}", secrets.hide(name, value).0));
        assert_eq!(shown, expect);
        let hidden: Vec<_> = secrets.found.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(hidden, found);
    }

    #[test]
    fn secrets_of_a_json_body_become_parameters() {
        check(
            r#"{"api_key" : "tvly-abc", "q": "{{.input.q}}", "deep": {"token": "t\"1", "n": 1}}"#,
            r#"{"api_key" : "{{.api-key}}", "q": "{{.input.q}}", "deep": {"token": "{{.token}}", "n": 1}}"#,
            &[("api-key", "tvly-abc"), ("token", "t\"1")],
        );
        check(
            r#"[{"token": "a"}, {"token": "b"}, {"token": "a"}, "sk-0123456789abcdef", {{.input.x}}]"#,
            r#"[{"token": "{{.token}}"}, {"token": "{{.token-2}}"}, {"token": "{{.token}}"}, "{{.key}}", {{.input.x}}]"#,
            &[("token", "a"), ("token-2", "b"), ("key", "sk-0123456789abcdef")],
        );
        check(
            r#"{"password": 1234, "ä": "ö", "token": "{{.input.t}}"}"#,
            r#"{"password": {{.password}}, "ä": "ö", "token": "{{.input.t}}"}"#,
            &[("password", "1234")],
        );
        // A text that is not JSON is scanned nevertheless.
        check(r#"{"token": "a"#, r#"{"token": "{{.token}}""#, &[("token", "a")]);
    }
}
