//! Patterns that can be matched in linear time, and nothing else.
//!
//! `pattern` is ECMAScript's; the engine is the `regex` crate, which has no backtracking and so no
//! pattern that takes for ever. What it cannot express is refused by name.

use super::error::SchemaFault;

const MAX_BYTES: usize = 2_000;
/// Of a compiled pattern. `(a{1000}){1000}` is short and huge.
pub(super) const MAX_COMPILED: usize = 512 * 1024;

pub(super) fn check(pattern: &str) -> Result<(), SchemaFault> {
    if pattern.len() > MAX_BYTES {
        return Err(SchemaFault::PatternTooLong(MAX_BYTES));
    }
    let shown = || crate::text::clip(pattern, 120);
    if let Some(feature) = backtracking_feature(pattern) {
        return Err(SchemaFault::PatternNotLinear { pattern: shown(), feature });
    }
    let bad = |reason: &str| SchemaFault::BadPattern { pattern: shown(), reason: reason.to_owned() };
    let translated = jsonschema_regex::to_rust_regex(pattern).map_err(|()| bad(""))?;
    match regex::RegexBuilder::new(&translated).size_limit(MAX_COMPILED).build() {
        Ok(_) => Ok(()),
        Err(regex::Error::CompiledTooBig(_)) => Err(bad(" of a size that is taken")),
        Err(_) => Err(bad("")),
    }
}

/// The first thing in the pattern that needs backtracking.
fn backtracking_feature(pattern: &str) -> Option<&'static str> {
    let mut in_class = false;
    let mut rest = pattern;
    while let Some(letter) = rest.chars().next() {
        let after = &rest[letter.len_utf8()..];
        rest = after;
        match letter {
            '\\' => {
                match after.chars().next() {
                    Some('1'..='9') if !in_class => return Some("a back-reference"),
                    Some('k') if !in_class && after.starts_with("k<") => return Some("a back-reference"),
                    _ => {}
                }
                rest = after.chars().next().map_or("", |escaped| &after[escaped.len_utf8()..]);
            }
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => {
                if after.starts_with("?=") || after.starts_with("?!") {
                    return Some("look-ahead");
                }
                if after.starts_with("?<=") || after.starts_with("?<!") {
                    return Some("look-behind");
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refuses(pattern: &str, expect: &str) {
        assert_eq!(check(pattern).unwrap_err().to_string(), expect);
    }

    #[test]
    fn ordinary_patterns_pass() {
        for pattern in
            ["^[a-z]+$", r"\d{3}-\d{4}", r"^\(?=x", r"[(?=]", "", "ä+", r"^(?<year>\d{4})$", r"\cA", r"\u00e4"]
        {
            assert_eq!(check(pattern), Ok(()), "{pattern}");
        }
    }

    #[test]
    fn what_needs_backtracking_is_refused_by_name() {
        let tail = "which cannot be matched in linear time; write it without, or use `format`";
        refuses("^(?!x)a", &format!("pattern `^(?!x)a` uses look-ahead, {tail}"));
        refuses("(?<=a)b", &format!("pattern `(?<=a)b` uses look-behind, {tail}"));
        refuses(r"(a)\1", &format!(r"pattern `(a)\1` uses a back-reference, {tail}"));
        refuses(r"(?<n>a)\k<n>", &format!(r"pattern `(?<n>a)\k<n>` uses a back-reference, {tail}"));
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        refuses("[a", "pattern `[a` is not a regular expression");
        refuses(
            "a{1000}{1000}{1000}",
            "pattern `a{1000}{1000}{1000}` is not a regular expression of a size that is taken",
        );
        refuses(&"a".repeat(3_000), "pattern is longer than 2000 bytes");
    }
}
