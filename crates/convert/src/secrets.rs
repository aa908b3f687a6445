//! Secrets in clear text: the one detector of the converters, and the references that replace them.
//!
//! A value counts as a secret by its name, or by the prefix of a well-known vendor's keys. What is found is never
//! copied: the request refers to a secret, and a warning says which one the user has to store. A secret with a slot
//! beside it cannot be referred to, and its tool stays where it is.

use bosun_core::{
    audit::{is_secret_name, is_vendor_key},
    percent,
    tool::{NamedValue, SecretRef, ValueSource},
};
use serde_json::{Map, Value};

use crate::{
    Warning,
    document::{Path, end_of_string},
    format::clip,
    found::{Found, InsideTool, Report},
    names::slug,
};

/// Names that carry a key in a query or a header, and are ordinary words elsewhere.
const KEY_PARAMETERS: [&str; 7] = ["key", "sig", "appid", "appkey", "authkey", "subscriptionkey", "hapikey"];

/// Whether a header or a query parameter of this name and value must not be copied.
pub(crate) fn is_secret_parameter(name: &str, value: &str) -> bool {
    is_secret_name(name) || is_key_parameter(name) || is_key(value)
}

/// Whether a member of a body must not be copied. A member named `key` is one only if its value looks like it.
pub(crate) fn is_secret_member(name: &str, value: &str) -> bool {
    is_secret_name(name) || is_key(value) || (is_key_parameter(name) && is_random(value))
}

/// Whether a value is longer than a word, and has both letters and digits.
fn is_random(value: &str) -> bool {
    let has = |kind: fn(&u8) -> bool| value.as_bytes().iter().any(kind);
    value.len() >= 16 && !value.contains(char::is_whitespace) && has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic)
}

fn is_key_parameter(name: &str) -> bool {
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect();
    KEY_PARAMETERS.contains(&plain.as_str())
}

/// Whether a value is a key by its own look, or a text with one in it: that of a vendor, with the scheme of an
/// `Authorization` header, or behind the name of a secret.
pub(crate) fn is_key(value: &str) -> bool {
    let value = value.trim();
    let is_scheme = |scheme: &str| {
        let (start, rest) = value.split_at_checked(scheme.len()).unwrap_or(("", ""));
        // Words in capitals, such as `YOUR_API_KEY`, say where a key belongs.
        let is_word = |letter: char| letter.is_ascii_uppercase() || matches!(letter, '_' | '-' | '<' | '>' | '[' | ']');
        start.eq_ignore_ascii_case(scheme) && rest.trim().len() >= 8 && !rest.trim().chars().all(is_word)
    };
    let is_written = is_vendor_key(value) || without_keys(value).is_some();
    is_written || is_scheme("Bearer ") || is_scheme("Basic ") || names_secret(value, &['=', ':', '>'])
}

/// Maximum length of a name or a value that is looked at, in bytes.
const LONGEST_NAME: usize = 128;

/// Whether a text names a secret and has its value behind one of the marks: `password=…`, `"token": "…"`, `<api_key>…`.
/// A private key, and the password of a URL, need no name.
fn names_secret(text: &str, marks: &[char]) -> bool {
    let before = |at: usize| &text[text.ceil_char_boundary(at.saturating_sub(LONGEST_NAME))..at];
    let after = |at: usize| &text[at..text.floor_char_boundary(text.len().min(at + LONGEST_NAME))];
    let is_named = |(at, mark): (usize, &str)| {
        let name = if mark == ">" {
            before(at).rsplit_once('<').and_then(|(_, tag)| tag.split(char::is_whitespace).next())
        } else {
            let name = before(at).trim_end_matches([' ', '\t', '"', '\'', '\\']);
            name.rsplit(|letter: char| !letter.is_alphanumeric() && !matches!(letter, '_' | '-')).next()
        };
        let value = after(at + 1).trim_start_matches([' ', '\t', '"', '\'', '\\', '[', '{']);
        let is_end = |letter: char| letter.is_whitespace() || "\"'&,;<>)]}\\".contains(letter);
        let value = value.split(is_end).next().unwrap_or_default();
        let is_value =
            value.contains(char::is_alphanumeric) && !matches!(value, "null" | "true" | "false" | "undefined");
        let is_secret = |name: &str| is_secret_name(name) || (is_key_parameter(name) && is_random(value));
        is_value && name.is_some_and(|name| !name.starts_with('/') && is_secret(name))
    };
    let has_password = |(at, mark): (usize, &str)| {
        let authority = after(at + mark.len()).split(['/', '?', '#', ' ', '"', '\'']).next().unwrap_or_default();
        authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
    };
    text.contains("PRIVATE KEY-----")
        || text.match_indices(marks).any(is_named)
        || text.match_indices("://").any(has_password)
}

/// Stands for a slot in a text that is judged.
pub(crate) const SLOT: char = '\0';

/// The braces of a slot in an address, and in a body or a header.
pub(crate) const ADDRESS_SLOT: [&str; 2] = ["{", "}"];
pub(crate) const BODY_SLOT: [&str; 2] = ["{{", "}}"];

/// A text with [`SLOT`] in place of each of its slots.
pub(crate) fn with_marked_slots(text: &str, [open, close]: [&str; 2]) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, slot)) = rest.split_once(open) {
        let Some((_, after)) = slot.split_once(close) else { break };
        shown.push_str(before);
        shown.push(SLOT);
        rest = after;
    }
    shown.push_str(rest);
    shown
}

/// Whether a text with marked slots has anything that could be a secret.
pub(crate) fn has_fixed_text(text: &str) -> bool {
    if text.contains(SLOT) { text.contains(char::is_alphanumeric) } else { !text.is_empty() }
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

/// Leaves keys out of the texts of a tool, which every model reads that is given the tool.
pub(crate) fn leave_out_keys(found: &mut Found, report: &Report) {
    let mut has_key = false;
    let mut clean = |text: &mut String, parameters: &Value| {
        let shown = without_keys(text);
        let schema = holds_keys(parameters).then(|| without_keys_in(parameters));
        has_key |= shown.is_some() || schema.is_some();
        if let Some(shown) = shown {
            *text = shown;
        }
        schema
    };
    if let Some(schema) = clean(&mut found.tool.description, &found.tool.parameters) {
        found.tool.parameters = schema.into();
    }
    if let InsideTool::AsRequest(request) = &mut found.inside
        && let Some(takes) = &mut request.takes
        && let Some(schema) = clean(&mut takes.description, &takes.parameters)
    {
        takes.parameters = schema;
    }
    if has_key {
        let message = format!("the texts of `{}` hold what looks like a key; it is not copied", clip(&found.tool.name));
        report.warn(&found.origin.path, "secret_dropped", message);
    }
}

/// Whether a member of a schema is the default of a property that is named like a secret, and looks like one.
fn is_secret_default(name: &str, property: &Value) -> bool {
    is_secret_name(name) && property.get("default").and_then(Value::as_str).is_some_and(is_random)
}

fn holds_keys(schema: &Value) -> bool {
    match schema {
        Value::String(text) => without_keys(text).is_some(),
        Value::Array(items) => items.iter().any(holds_keys),
        Value::Object(members) => members
            .iter()
            .any(|(name, member)| name != "$ref" && (holds_keys(member) || is_secret_default(name, member))),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn without_keys_in(schema: &Value) -> Value {
    match schema {
        Value::String(text) => without_keys(text).unwrap_or_else(|| text.clone()).into(),
        Value::Array(items) => items.iter().map(without_keys_in).collect(),
        Value::Object(members) => {
            let member = |(name, member): (&String, &Value)| {
                let mut shown = if name == "$ref" { member.clone() } else { without_keys_in(member) };
                if is_secret_default(name, member)
                    && let Value::Object(shown) = &mut shown
                {
                    shown.shift_remove("default");
                }
                (name.clone(), shown)
            };
            members.iter().map(member).collect::<Map<_, _>>().into()
        }
        value => value.clone(),
    }
}

/// A secret that no reference can replace, since it has a slot beside it: the name of its parameter or member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SecretBesideSlot(pub(crate) String);

impl SecretBesideSlot {
    /// Why its tool cannot move.
    pub(crate) fn obstacle(&self, what: &str) -> String {
        format!("the {what} `{}` holds a secret in clear text beside what the model fills in", clip(&self.0))
    }
}

/// Replaces the secrets of an address by what `hide` returns for their place, name and value.
pub(crate) fn hide_in_address(
    address: &str,
    mut hide: impl FnMut(&str, &str, &str) -> String,
) -> Result<String, SecretBesideSlot> {
    let (path, query) = address.split_once('?').map_or((address, None), |(path, query)| (path, Some(query)));
    let start = path.find("://").map_or(0, |at| at + 3);
    let start = if start == 0 { 0 } else { path[start..].find('/').map_or(path.len(), |at| start + at) };
    let mut shown = path[..start].to_owned();
    for (index, segment) in path[start..].split('/').enumerate() {
        shown.push_str(if index == 0 { "" } else { "/" });
        let plain = plain_text(&with_marked_slots(segment, ADDRESS_SLOT));
        // Telegram's paths have the token behind a word: `/bot123456:AbC…/sendMessage`.
        let token = plain.strip_prefix("bot").filter(|token| token.len() > 30 && token.contains(':'));
        let (kept, name) = match token {
            Some(_) => ("bot", "token"),
            None if without_keys(&plain).is_some() || names_secret(&plain, &['=']) => ("", "key"),
            None => {
                shown.push_str(segment);
                continue;
            }
        };
        if plain.contains(SLOT) {
            return Err(SecretBesideSlot(name.to_owned()));
        }
        shown.push_str(kept);
        shown.push_str(&hide("part of the path", name, &segment[kept.len()..]));
    }
    for (index, pair) in query.into_iter().flat_map(|query| query.split('&')).enumerate() {
        shown.push(if index == 0 { '?' } else { '&' });
        let hide = |name: &str, value: &str| hide("query parameter", name, value);
        shown.push_str(&hide_in_pair(pair, ADDRESS_SLOT, is_secret_parameter, hide)?);
    }
    Ok(shown)
}

/// Replaces the value of a pair of a query or a form, if it is a secret.
pub(crate) fn hide_in_pair(
    pair: &str,
    slot: [&str; 2],
    is_secret: fn(&str, &str) -> bool,
    mut hide: impl FnMut(&str, &str) -> String,
) -> Result<String, SecretBesideSlot> {
    let (written_name, written) = pair.split_once('=').unwrap_or(("", pair));
    let (name, value) = (plain_text(written_name), plain_text(&with_marked_slots(written, slot)));
    if !has_fixed_text(&value) || !is_secret(&name, &value) {
        return Ok(pair.to_owned());
    }
    if value.contains(SLOT) {
        return Err(SecretBesideSlot(name));
    }
    // The name of a pair is never a reference, so a key that has none gets one.
    let (written_name, name) = if name.is_empty() { ("key", "key") } else { (written_name, name.as_str()) };
    Ok(format!("{written_name}={}", hide(name, written)))
}

fn plain_text(encoded: &str) -> String {
    percent::decode(&encoded.replace('+', " ")).unwrap_or_else(|| encoded.to_owned())
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

/// The remark on a secret that was found: where its value belongs. `source` is what it stands in.
pub(crate) fn secret_needed(path: &Path, source: &str, what: &str, name: &str, secret: &SecretRef) -> Warning {
    let message = format!(
        "the {what} `{}` is in clear text in the {source} and is not copied: store its value in the secret `{}`, key `{}`",
        clip(name),
        secret.name,
        secret.key
    );
    Warning { path: path.to_string(), code: "secret_needed", message }
}

/// Members that describe a secret where a JSON Schema has a property of its name.
const OF_A_SCHEMA: [&str; 4] = ["type", "format", "title", "description"];

/// Replaces the secrets of a JSON text, which may have slots (`{{…}}`) in place of values, by what `hide` returns for
/// their names and values. Everything in a list or an object that is named like a secret is one.
pub(crate) fn hide_in_json(text: &str, mut hide: impl FnMut(&str, &str) -> String) -> Result<String, SecretBesideSlot> {
    let bytes = text.as_bytes();
    let mut shown = String::with_capacity(text.len());
    let mut key: Option<String> = None;
    // Of each list and object around the position: the secret that it is, if it is one.
    let mut owners: Vec<Option<String>> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let owner = owners.last().and_then(Option::as_ref);
        let length = match bytes[at] {
            b'{' if text[at..].starts_with("{{") => {
                key = None;
                text[at..].find("}}").map_or(2, |length| length + 2)
            }
            b'"' => {
                let end = end_of_string(bytes, at);
                let literal = &text[at..end];
                let content = serde_json::from_str(literal).unwrap_or_else(|_| literal.trim_matches('"').to_owned());
                let after = text[end..].trim_start();
                if key.is_none() && after.starts_with(':') {
                    let start = text.len() - after.len() + 1;
                    shown.push_str(&text[at..start]);
                    key = Some(content);
                    at = start;
                    continue;
                }
                let name = key.take();
                let value = with_marked_slots(&content, BODY_SLOT);
                let is_secret = match &name {
                    Some(name) => {
                        is_secret_member(name, &value) || (owner.is_some() && !OF_A_SCHEMA.contains(&name.as_str()))
                    }
                    None => owner.is_some() || is_key(&value),
                };
                if is_secret && has_fixed_text(&value) {
                    let name = name.or_else(|| owner.cloned()).unwrap_or_else(|| "key".to_owned());
                    if value.contains(SLOT) {
                        return Err(SecretBesideSlot(name));
                    }
                    shown.push_str(&format!("\"{}\"", hide(&name, &content)));
                    at = end;
                    continue;
                }
                end - at
            }
            b'0'..=b'9' => {
                let length = text[at..].find([',', '}', ']', '\n', ' ']).unwrap_or(text.len() - at);
                let name = key.take();
                let is_secret = name.as_ref().map_or(owner.is_some(), |name| is_secret_name(name));
                if let Some(name) = name.or_else(|| owner.cloned()).filter(|_| is_secret) {
                    shown.push_str(&hide(&name, &text[at..at + length]));
                    at += length;
                    continue;
                }
                1
            }
            b'{' | b'[' => {
                let own = key.take().filter(|name| is_secret_name(name)).or_else(|| owner.cloned());
                owners.push(own);
                1
            }
            byte => {
                if matches!(byte, b'}' | b']') {
                    owners.pop();
                }
                if !byte.is_ascii_whitespace() {
                    key = None;
                }
                text[at..].chars().next().map_or(1, char::len_utf8)
            }
        };
        shown.push_str(&text[at..at + length]);
        at += length;
    }
    Ok(shown)
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
        assert_eq!(shown.as_deref(), Ok(expect));
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

    #[test]
    fn everything_within_a_secret_member_is_one() {
        check(
            r#"{"secret": ["a1", {"more": "b2", "type": "x"}], "pin": [12, {{.input.n1}}], "x": [{"y": "z"}, 7]}"#,
            r#"{"secret": ["{{.secret}}", {"more": "{{.more}}", "type": "x"}], "pin": [{{.pin}}, {{.input.n1}}], "x": [{"y": "z"}, 7]}"#,
            &[("secret", "a1"), ("more", "b2"), ("pin", "12")],
        );
        check(
            r#"{"payload": "{\"api_key\": \"a1\"}", "note": "{\"q\": \"{{.input.q}}\"}"}"#,
            r#"{"payload": "{{.payload}}", "note": "{\"q\": \"{{.input.q}}\"}"}"#,
            &[("payload", r#"{"api_key": "a1"}"#)],
        );
    }

    #[test]
    fn a_secret_beside_a_slot_has_no_reference() {
        let hide = |_: &str, _: &str| String::new();
        let refused = |name: &str| Err(SecretBesideSlot(name.to_owned()));
        assert_eq!(hide_in_json(r#"{"password": "a1 {{.input.q}}"}"#, hide), refused("password"));
        assert_eq!(hide_in_json(r#"{"text": "token=a1&q={{.input.q}}"}"#, hide), refused("text"));
        let form = |pair| hide_in_pair(pair, BODY_SLOT, is_secret_member, hide);
        assert_eq!(form("api_key=a1{{.input.q}}"), refused("api_key"));
        assert_eq!(form("api_key={{.input.q}}").as_deref(), Ok("api_key={{.input.q}}"));
        let address = |text| hide_in_address(text, |_, name, _| format!("<{name}>"));
        assert_eq!(address("https://a.example/x?token=a1{q}"), refused("token"));
        assert_eq!(address("https://a.example/sk-0123456789abcdef{q}"), refused("key"));
        let shown = address("https://token:80/token:new/sk-0123456789abcdef?api%5Fkey=a1&q={q}&sig={sig}");
        assert_eq!(shown.as_deref(), Ok("https://token:80/token:new/<key>?api%5Fkey=<api_key>&q={q}&sig={sig}"));
    }

    #[test]
    fn a_text_that_names_a_secret_is_one() {
        for text in [
            "password: a1",
            "api_key=a1&q=1",
            "<a><password>a1</password></a>",
            "<a token=\"a1\"/>",
            r#"{"secret": ["a1"]}"#,
            "https://user:a1@example.com",
            "-----BEGIN PRIVATE KEY-----",
            "Use sk-0123456789abcdef now",
        ] {
            assert!(is_key(text), "{text}");
        }
        for text in [
            "password: \0",
            "<password>\0</password>",
            "api_key=&q=1",
            r#"{"token": null, "max_tokens": 5}"#,
            "https://example.com:80/token",
            "a password is needed",
        ] {
            assert!(!is_key(text), "{text}");
        }
    }
}
