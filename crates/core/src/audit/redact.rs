//! Redaction of secrets in a copy of arguments.
//!
//! Two signs count: the name of a value, and the look of the value itself, also in the middle of a longer text. This is
//! a heuristic, not a guarantee: an unknown form passes, and a harmless value that looks like a key is redacted. An
//! operator who cannot accept the former records hashes only.

use std::{borrow::Cow, sync::Arc};

use serde_json::{Map, Value};

use crate::json;

/// The replacement of a redacted part.
pub const REDACTED: &str = "[redacted]";

/// Maximum length of a text in bytes; longer ones are cut.
const LONGEST_TEXT: usize = 512;

/// Names of secrets, reduced to letters and digits in lower case.
static SECRET_NAMES: Words = Words::new(&[
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "secretkey",
    "signingkey",
    "encryptionkey",
    "authorization",
    "credential",
    "cookie",
    "bearer",
    "sessionid",
    "signature",
    "otp",
    "cvv",
    "cvc",
    "ssn",
    "creditcard",
    "cardnumber",
    "connectionstring",
]);

/// Names that contain one of those words and mean something else.
static HARMLESS_NAMES: Words =
    Words::new(&["tokens", "tokencount", "tokenlimit", "tokenizer", "maxtoken", "secretary", "otps"]);

/// URL parameters, reduced to plain letters, whose values are options and not credentials. The value of any other may be
/// a key: APIs call it `key`, `sig`, `code` or `t`.
const HARMLESS_PARAMETERS: &[&str] = &[
    "apiversion",
    "version",
    "v",
    "model",
    "deployment",
    "region",
    "page",
    "pagesize",
    "limit",
    "offset",
    "sort",
    "order",
    "fields",
    "filter",
    "format",
    "units",
    "lang",
    "language",
    "locale",
    "timezone",
    "type",
    "mode",
    "view",
    "stream",
    "q",
    "query",
    "search",
];
/// Maximum length of a harmless parameter's value; a longer one is redacted.
const LONGEST_SETTING: usize = 64;

/// Prefixes of keys of well-known vendors.
const KEY_PREFIXES: &[&str] = &[
    "sk-",
    "sk_",
    "pk_",
    "rk_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xoxa-",
    "xoxb-",
    "xoxp-",
    "xoxr-",
    "xoxs-",
    "xapp-",
    "aiza",
    "ya29.",
    "npm_",
    "hf_",
    "sg.",
    "dop_v1_",
    "shpat_",
    "eyj",
    "bosun_",
    "nango_",
    "tvly-",
    "gsk_",
    "pplx-",
    "r8_",
];
/// Prefixes that are also those of words: letters and digits alone follow them in a key.
const KEY_PREFIXES_OF_LETTERS: &[&str] = &["akia", "asia"];
/// Minimum length of a key with a known prefix; a shorter one is an ordinary word.
const SHORTEST_KEY: usize = 12;
/// Minimum length of a run of letters and digits that is considered random: longer than any word.
const SHORTEST_RANDOM: usize = 32;

/// `value` with secrets redacted; only its size if it has more than `most` bytes. Usually there is nothing to redact,
/// and then it is not copied.
#[must_use]
pub fn redact(value: &Arc<Value>, most: usize) -> Arc<Value> {
    let shown = if is_harmless(value) { Arc::clone(value) } else { Arc::new(copy(value)) };
    let size = json::compact_size(&shown);
    if size > most { Arc::new(Value::from(format!("[{size} bytes]"))) } else { shown }
}

/// Whether a redacted copy would be the same.
fn is_harmless(value: &Value) -> bool {
    let is_harmless_text = |text: &str| matches!(redact_text(text), Cow::Borrowed(shown) if std::ptr::eq(shown, text));
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
        Value::String(text) => is_harmless_text(text),
        Value::Array(items) => items.iter().all(is_harmless),
        Value::Object(members) => members.iter().all(|(key, value)| {
            let is_shown = matches!(value, Value::Null | Value::Bool(_)) || !is_secret_name(key);
            is_shown && is_harmless_text(key) && is_harmless(value)
        }),
    }
}

fn copy(value: &Value) -> Value {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        Value::String(text) => Value::from(redact_text(text).into_owned()),
        Value::Array(items) => Value::Array(items.iter().map(copy).collect()),
        Value::Object(members) => {
            Value::Object(members.iter().map(|(key, value)| member(key, value)).collect::<Map<_, _>>())
        }
    }
}

fn member(key: &str, value: &Value) -> (String, Value) {
    let value = match value {
        Value::Null | Value::Bool(_) => value.clone(),
        _ if is_secret_name(key) => Value::from(REDACTED),
        _ => copy(value),
    };
    // A key may contain data, too.
    (redact_text(key).into_owned(), value)
}

/// Whether a value of this name is a secret.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    let is = |word: &str| plain(name.as_bytes()).eq(word.bytes());
    (is("auth") || is("pin") || SECRET_NAMES.occur_in(name)) && !HARMLESS_NAMES.occur_in(name)
}

/// Whether a text begins with a URL. Where a URL is expected, the whole text is one, whatever it contains: keys contain
/// spaces and quotes, too.
#[must_use]
pub fn begins_with_url(text: &str) -> bool {
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|letter: char| letter.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    };
    text.split_once("://").is_some_and(|(scheme, _)| is_scheme(scheme))
}

/// A text in whose URLs `mask` replaces everything that may be a key: user and password, fragments, values of
/// parameters that are not known to be harmless, and path segments that look like a key. A text that begins with a URL
/// is treated as one; in the middle of a text, a URL ends where the word does.
#[must_use]
pub fn hide_in_urls<'t>(text: &'t str, mask: &str) -> Cow<'t, str> {
    let is_one = begins_with_url(text);
    let mut shown = String::new();
    let mut copied = 0;
    while let Some(at) = text[copied..].find("://").map(|at| copied + at + 3) {
        let ends = |letter: char| !is_one && (letter.is_whitespace() || matches!(letter, '"' | '\'' | '`' | '<' | '>'));
        let end = text[at..].find(ends).map_or(text.len(), |length| at + length);
        shown.push_str(&text[copied..at]);
        hide_in_url(&text[at..end], mask, &mut shown);
        copied = end;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    shown.push_str(&text[copied..]);
    if shown == text { Cow::Borrowed(text) } else { Cow::Owned(shown) }
}

/// Masks the part of a URL behind its scheme.
fn hide_in_url(url: &str, mask: &str, shown: &mut String) {
    let (url, fragment) = url.split_once('#').map_or((url, None), |(url, fragment)| (url, Some(fragment)));
    let (place, query) = url.split_once('?').map_or((url, None), |(place, query)| (place, Some(query)));
    let (authority, path) = place.split_at(place.find('/').unwrap_or(place.len()));
    match authority.rsplit_once('@') {
        Some((_, host)) => shown.extend([mask, "@", host]),
        None => shown.push_str(authority),
    }
    for (number, part) in path.split('/').enumerate() {
        if number > 0 {
            shown.push('/');
        }
        shown.push_str(if looks_secret(part) { mask } else { part });
    }
    for (number, parameter) in query.iter().flat_map(|query| query.split('&')).enumerate() {
        shown.push(if number == 0 { '?' } else { '&' });
        match parameter.split_once('=') {
            _ if parameter.is_empty() => {}
            Some((name, value)) if is_setting(name, value) => shown.push_str(parameter),
            Some((name, _)) => shown.extend([name, "=", mask]),
            None => shown.push_str(mask),
        }
    }
    if fragment.is_some_and(|fragment| !fragment.is_empty()) {
        shown.extend(["#", mask]);
    }
}

fn is_setting(name: &str, value: &str) -> bool {
    // A placeholder has no value yet.
    let is_open = value.starts_with("{{") && value.ends_with("}}");
    let is_harmless = || HARMLESS_PARAMETERS.iter().any(|word| plain(name.as_bytes()).eq(word.bytes()));
    is_open || (value.len() <= LONGEST_SETTING && !looks_secret(value) && is_harmless())
}

/// Letters and digits, in lower case.
fn plain(text: &[u8]) -> impl Iterator<Item = u8> {
    text.iter().filter(|byte| byte.is_ascii_alphanumeric()).map(u8::to_ascii_lowercase)
}

/// A set of words to search for. Every argument name is searched for all of them, and few letters begin one.
struct Words {
    words: &'static [&'static str],
    /// For each byte whether a word begins with it.
    begin: [bool; 256],
}

impl Words {
    const fn new(words: &'static [&'static str]) -> Self {
        let mut begin = [false; 256];
        let mut index = 0;
        while index < words.len() {
            begin[words[index].as_bytes()[0] as usize] = true;
            index += 1;
        }
        Self { words, begin }
    }

    /// Whether one of them occurs in the plain form of `name`.
    fn occur_in(&self, name: &str) -> bool {
        let bytes = name.as_bytes();
        bytes.iter().enumerate().any(|(start, byte)| {
            let first = byte.to_ascii_lowercase();
            let begins =
                |word: &&str| word.as_bytes()[0] == first && plain(&bytes[start..]).take(word.len()).eq(word.bytes());
            self.begin[usize::from(first)] && self.words.iter().any(begins)
        })
    }
}

/// A text with secrets redacted, cut to its maximum length.
#[must_use]
pub fn redact_text(text: &str) -> Cow<'_, str> {
    if text.contains("PRIVATE KEY-----") {
        return Cow::Borrowed(REDACTED);
    }
    let without = without_secrets(text);
    if without.len() <= LONGEST_TEXT {
        return without;
    }
    let cut = (0..=LONGEST_TEXT).rev().find(|at| without.is_char_boundary(*at)).unwrap_or_default();
    Cow::Owned(format!("{}… [{} bytes]", &without[..cut], text.len()))
}

/// Splits into runs of characters that keys consist of; the characters between them announce the next one.
fn without_secrets(text: &str) -> Cow<'_, str> {
    let mut kept = String::new();
    let mut copied = 0;
    let mut before = "";
    let mut rest_at = 0;
    while let Some((start, end)) = next_word(text, rest_at) {
        let word = &text[start..end];
        let between = &text[rest_at..start];
        if is_announced(before, between) || looks_secret(word) || is_user_info(text, start, end) {
            kept.push_str(&text[copied..start]);
            kept.push_str(REDACTED);
            copied = end;
        }
        before = word;
        rest_at = end;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    kept.push_str(&text[copied..]);
    Cow::Owned(kept)
}

fn next_word(text: &str, from: usize) -> Option<(usize, usize)> {
    let is_of_word = |byte: u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'+' | b'/' | b'.' | b'~') || byte >= 128
    };
    let bytes = text.as_bytes();
    let start = from + bytes[from..].iter().position(|byte| is_of_word(*byte))?;
    let mut end = start + bytes[start..].iter().position(|byte| !is_of_word(*byte)).unwrap_or(bytes.len() - start);
    // Base 64 padding belongs to the key, an assignment does not.
    while end < bytes.len() && bytes[end] == b'=' && bytes[start..end].len() >= SHORTEST_KEY {
        end += 1;
    }
    Some((start, end))
}

/// `password=`, `api_key: `, `"token":"`, `Bearer `: a secret follows.
fn is_announced(before: &str, between: &str) -> bool {
    let scheme = before.eq_ignore_ascii_case("bearer") || before.eq_ignore_ascii_case("basic");
    if scheme && !between.is_empty() && between.bytes().all(|byte| byte == b' ') {
        return true;
    }
    let marks = between.trim_matches([' ', '"', '\'', '\\', '\t']);
    // The name is directly before the mark: in a URL, not the path before it.
    let name = before.rsplit('/').next().unwrap_or(before);
    matches!(marks, "=" | ":" | "=>" | ":=") && is_secret_name(name)
}

/// `user:password@` of a URL.
fn is_user_info(text: &str, start: usize, end: usize) -> bool {
    let before = &text[..start];
    text[end..].starts_with('@')
        && before.ends_with(':')
        && before.rfind("//").is_some_and(|at| !before[at + 2..].contains(['/', ' ', '@']))
}

/// Characters that mask parts of a key.
const MASKS: &[char] = &['*', '•', '·', '●', '█', '…'];
/// Minimum run of them; two on each side make a word bold.
const SIGNS: usize = 3;
/// Minimum run of dots, or of the letter `x`, that masks part of a key.
const DOTS: usize = 3;
const CROSSES: usize = 4;

/// Redacts words that look like keys, whole or partly masked (`sk-...abcd`, `****abcd`): many APIs that reject a key
/// repeat its first and last letters, which must not be shown.
#[must_use]
pub fn redact_keys(text: &str) -> Cow<'_, str> {
    let is_edge = |letter: char| letter.is_whitespace() || "\"'`,;:()[]{}<>=&?|".contains(letter);
    let mut kept = String::new();
    let (mut copied, mut start) = (0, 0);
    for piece in text.split_inclusive(is_edge) {
        // The end of a sentence is not the end of a key.
        let word = piece.trim_end_matches(is_edge).trim_end_matches(['.', '!']);
        if looks_secret(word) || is_masked(word) {
            kept.push_str(&text[copied..start]);
            kept.push_str(REDACTED);
            copied = start + word.len();
        }
        start += piece.len();
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    kept.push_str(&text[copied..]);
    Cow::Owned(kept)
}

/// Whether some letters of a word are masked.
fn is_masked(word: &str) -> bool {
    let is_shown = |part: &str| part.chars().filter(|letter| letter.is_alphanumeric()).count() >= 2;
    let by_mask = |mask: &str, needs_both: bool| {
        word.split_once(mask).is_some_and(|(before, after)| {
            let (before, after) = (is_shown(before), is_shown(after));
            if needs_both { before && after } else { before || after }
        })
    };
    let run = |part: &str| part.chars().count();
    let longest = word.split(|letter| !MASKS.contains(&letter)).map(run).max().unwrap_or_default();
    let is_masked_by_signs = (longest >= SIGNS || word.contains('…')) && is_shown(word);
    is_masked_by_signs || by_mask(&".".repeat(DOTS), true) || by_mask(&"x".repeat(CROSSES), false)
}

/// Whether a word has the prefix of a well-known vendor's keys, and is long enough to be one.
#[must_use]
pub fn is_vendor_key(word: &str) -> bool {
    let begins = |prefix: &&str| word.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
    // `asia-northeast1` is a region.
    let is_plain = || word.bytes().all(|byte| byte.is_ascii_alphanumeric());
    word.len() >= SHORTEST_KEY
        && (KEY_PREFIXES.iter().any(begins) || (KEY_PREFIXES_OF_LETTERS.iter().any(begins) && is_plain()))
        && (has_digit || word.len() >= 20)
        && !word.contains('/')
}

fn looks_secret(word: &str) -> bool {
    let bytes = word.as_bytes();
    if word.len() < SHORTEST_KEY {
        return false;
    }
    if is_vendor_key(word) {
        return true;
    }
    let has = |kind: fn(&u8) -> bool| bytes.iter().any(kind);
    let has_digit = has(u8::is_ascii_digit);
    // Paths and sentences joined by dots have long runs too, but not uninterrupted ones.
    let longest = word.split(['/', '.', '-', '_', '~']).map(str::len).max().unwrap_or_default();
    let mixed = has_digit && has(u8::is_ascii_alphabetic);
    word.is_ascii() && mixed && longest >= SHORTEST_RANDOM
}
