//! Patterns: matched in linear time wherever that is possible, and within bounds where it is not.
//!
//! `pattern` is ECMAScript's. Nearly every pattern goes to the `regex` crate, which has no
//! backtracking and so no pattern that takes for ever. Look-around and back-references need it; they
//! are in the schemas that generators write (Zod 4 puts a look-ahead into every email), so a second
//! engine takes them, with a limit on the length of the text and on the number of steps. What is
//! beyond the limit is a fault of the arguments: it never fits by accident. Names in
//! `patternProperties` are matched by the linear engine only.

use std::panic::{AssertUnwindSafe, catch_unwind};

use jsonschema::{Keyword, ValidationError, paths::Location};
use serde_json::{Map, Value};

use super::{error::SchemaFault, instance::Instance};
use crate::{
    ceiling::{PATTERN_BYTES, PATTERN_COMPILED_BYTES},
    json::Tree,
    text::clip,
};

/// How often a backtracking match may turn back, by the length of its text. An honest pattern needs a
/// few turns a byte; a catastrophic one is stopped after a millisecond or two.
const TURNS: [(usize, usize); 3] = [(64, 1_000), (512, 8_000), (LONGEST, 64_000)];
/// The longest text that is matched by backtracking.
const LONGEST: usize = 4_096;

/// Which engine a pattern needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    Linear,
    Backtracking,
}

/// Checks a `pattern`, and says which engine it needs.
pub(super) fn check(pattern: &str) -> Result<Engine, SchemaFault> {
    if pattern.len() > PATTERN_BYTES {
        return Err(SchemaFault::PatternTooLong(PATTERN_BYTES));
    }
    if backtracking_feature(pattern).is_some() {
        Backtracking::new(pattern)?;
        return Ok(Engine::Backtracking);
    }
    linear(pattern)?;
    Ok(Engine::Linear)
}

/// Checks a pattern where only the linear engine is used.
pub(super) fn check_linear(pattern: &str) -> Result<(), SchemaFault> {
    match backtracking_feature(pattern) {
        Some(feature) => Err(SchemaFault::PatternNotLinear { pattern: clip(pattern, 120), feature }),
        None => check(pattern).map(|_| ()),
    }
}

/// Whether a pattern has something that no automaton can match.
pub(super) fn needs_backtracking(pattern: &str) -> bool {
    backtracking_feature(pattern).is_some()
}

fn bad(pattern: &str, reason: &str) -> SchemaFault {
    SchemaFault::BadPattern { pattern: clip(pattern, 120), reason: reason.to_owned() }
}

fn linear(pattern: &str) -> Result<regex::Regex, SchemaFault> {
    let translated = jsonschema_regex::to_rust_regex(pattern).map_err(|()| bad(pattern, ""))?;
    let built = regex::RegexBuilder::new(&translated).size_limit(PATTERN_COMPILED_BYTES).dfa_size_limit(PATTERN_COMPILED_BYTES).build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => bad(pattern, " of a size that is taken"),
        _ => bad(pattern, ""),
    })
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

/// ECMAScript's `\d` and `\w` are about ASCII, and the engine's are not.
fn ascii_classes(pattern: &str) -> String {
    let mut translated = String::with_capacity(pattern.len());
    let mut in_class = false;
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '[' => in_class = true,
            ']' => in_class = false,
            '\\' => {
                match (letters.next(), in_class) {
                    (Some('d'), true) => translated.push_str("0-9"),
                    (Some('d'), false) => translated.push_str("[0-9]"),
                    (Some('D'), false) => translated.push_str("[^0-9]"),
                    (Some('w'), true) => translated.push_str("A-Za-z0-9_"),
                    (Some('w'), false) => translated.push_str("[A-Za-z0-9_]"),
                    (Some('W'), false) => translated.push_str("[^A-Za-z0-9_]"),
                    (Some('/'), _) => translated.push('/'),
                    (Some(other), _) => translated.extend(['\\', other]),
                    (None, _) => translated.push('\\'),
                }
                continue;
            }
            _ => {}
        }
        translated.push(letter);
    }
    translated
}

/// A pattern that turns back, once for each length of text.
struct Backtracking {
    by_length: Vec<(usize, fancy_regex::Regex)>,
}

impl Backtracking {
    fn new(pattern: &str) -> Result<Self, SchemaFault> {
        // The translation knows no named back-references; the engine does.
        let translated = jsonschema_regex::to_rust_regex(pattern).unwrap_or_else(|()| pattern.into());
        let translated = ascii_classes(&translated);
        let by_length = TURNS.iter().map(|&(longest, turns)| {
            let mut builder = fancy_regex::RegexBuilder::new(&translated);
            builder.backtrack_limit(turns).delegate_size_limit(PATTERN_COMPILED_BYTES).delegate_dfa_size_limit(PATTERN_COMPILED_BYTES);
            // An engine that gives up by a panic must not take the server along.
            match catch_unwind(AssertUnwindSafe(|| builder.build())) {
                Ok(Ok(regex)) => Ok((longest, regex)),
                Ok(Err(_)) | Err(_) => Err(bad(pattern, "")),
            }
        });
        Ok(Self { by_length: by_length.collect::<Result<_, _>>()? })
    }

    /// `None` if the text is too long, or the pattern too intricate for it.
    fn matches(&self, text: &str) -> Option<bool> {
        let (_, regex) = self.by_length.iter().find(|(longest, _)| text.len() <= *longest)?;
        catch_unwind(AssertUnwindSafe(|| regex.is_match(text))).ok()?.ok()
    }
}

enum Matcher {
    Linear(regex::Regex),
    Backtracking(Backtracking),
}

/// `pattern`, in a schema that has at least one which needs backtracking.
struct BoundedPattern {
    source: String,
    matcher: Matcher,
}

impl BoundedPattern {
    fn matches(&self, text: &str) -> Option<bool> {
        match &self.matcher {
            Matcher::Linear(regex) => Some(regex.is_match(text)),
            Matcher::Backtracking(pattern) => pattern.matches(text),
        }
    }
}

impl<'i> Keyword<'i, Instance> for BoundedPattern {
    fn validate(&self, instance: &'i Tree<'i>) -> Result<(), ValidationError<'i>> {
        let Tree::Text(text) = instance else { return Ok(()) };
        let source = clip(&self.source, 200);
        match self.matches(text) {
            Some(true) => Ok(()),
            Some(false) => Err(ValidationError::custom(format!("must match the pattern {source}"))),
            None => Err(ValidationError::custom(format!("is too long or too intricate for the pattern {source}"))),
        }
    }

    fn is_valid(&self, instance: &'i Tree<'i>) -> bool {
        let Tree::Text(text) = instance else { return true };
        self.matches(text) == Some(true)
    }
}

/// Makes the keyword for the validator.
pub(super) fn keyword<'a>(
    _: &'a Map<String, Value>,
    value: &'a Value,
    _: Location,
) -> Result<Box<dyn for<'i> Keyword<'i, Instance>>, ValidationError<'a>> {
    let source = value.as_str().unwrap_or_default().to_owned();
    let matcher = if needs_backtracking(&source) {
        Backtracking::new(&source).map(Matcher::Backtracking)
    } else {
        linear(&source).map(Matcher::Linear)
    };
    let matcher = matcher.map_err(|fault| ValidationError::custom(fault.to_string()))?;
    Ok(Box::new(BoundedPattern { source, matcher }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refuses(pattern: &str, expect: &str) {
        assert_eq!(check(pattern).unwrap_err().to_string(), expect);
    }

    #[track_caller]
    fn matches(pattern: &str, text: &str, expect: Option<bool>) {
        assert_eq!(Backtracking::new(pattern).unwrap().matches(text), expect, "{pattern} on {text}");
    }

    #[test]
    fn ordinary_patterns_are_linear() {
        for pattern in
            ["^[a-z]+$", r"\d{3}-\d{4}", r"^\(?=x", r"[(?=]", "", "ä+", r"^(?<year>\d{4})$", r"\cA", r"\u00e4"]
        {
            assert_eq!(check(pattern), Ok(Engine::Linear), "{pattern}");
        }
    }

    #[test]
    fn what_needs_backtracking_gets_it() {
        for pattern in ["^(?!x)a", "(?<=a)b", r"(a)\1", r"(?<n>a)\k<n>"] {
            assert_eq!(check(pattern), Ok(Engine::Backtracking), "{pattern}");
        }
        matches("^(?!x)[a-z]+$", "abc", Some(true));
        matches("^(?!x)[a-z]+$", "xbc", Some(false));
        matches(r"^(?=.*\d)(?=.*[A-Z]).{8,}$", "Passw0rd", Some(true));
        matches(r"^(?=.*\d)(?=.*[A-Z]).{8,}$", "password", Some(false));
        matches(r"^(['`]).*\1$", "'a'", Some(true));
        matches(r"^(['`]).*\1$", "'a`", Some(false));
    }

    /// Both are what Zod 4 writes for `.email()` and `.duration()`.
    #[test]
    fn the_look_ahead_of_zod_4_is_understood() {
        let email = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$";
        for (text, expect) in [
            ("ada@example.com", true),
            (".ada@example.com", false),
            ("a..b@example.com", false),
            ("ada@example", false),
        ] {
            matches(email, text, Some(expect));
        }
        let duration = r"^P(?:(\d+W)|(?!.*W)(?=\d|T\d)(\d+Y)?(\d+M)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+([.,]\d+)?S)?)?)$";
        for (text, expect) in [("P3W", true), ("P1Y2M", true), ("PT5M", true), ("P", false), ("P1YT", false)] {
            matches(duration, text, Some(expect));
        }
    }

    #[test]
    fn digits_and_letters_are_ascii_as_in_ecmascript() {
        matches(r"^(?!x)\d+$", "٣", Some(false));
        matches(r"^(?!x)[\w\/]+$", "a/9_", Some(true));
        matches(r"^(?!x)\w+$", "ä", Some(false));
        matches(r"^(?!x)\W\D$", "ää", Some(true));
    }

    #[test]
    fn a_catastrophic_pattern_is_given_up() {
        matches(r"^(?:a(?=[ab])|aa(?=[ab]))+c$", &format!("{}b", "a".repeat(60)), None);
        matches(r"^(?:a(?=[ab])|aa(?=[ab]))+c$", &"a".repeat(4_000), None);
        matches("^(?!x)a*$", &"a".repeat(4_096), Some(true));
        matches("^(?!x)a*$", &"a".repeat(4_097), None);
    }

    #[test]
    fn names_of_properties_are_matched_in_linear_time_only() {
        let tail = "which cannot be matched in linear time; write it without, or use `format`";
        for (pattern, feature) in [
            ("^(?!x)a", "look-ahead"),
            ("(?<=a)b", "look-behind"),
            (r"(a)\1", "a back-reference"),
            (r"(?<n>a)\k<n>", "a back-reference"),
        ] {
            let fault = check_linear(pattern).unwrap_err().to_string();
            assert_eq!(fault, format!("pattern `{pattern}` uses {feature}, {tail}"));
        }
        assert_eq!(check_linear("^x-"), Ok(()));
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        refuses("[a", "pattern `[a` is not a regular expression");
        refuses("(?=a", "pattern `(?=a` is not a regular expression");
        refuses(
            "a{1000}{1000}{1000}",
            "pattern `a{1000}{1000}{1000}` is not a regular expression of a size that is taken",
        );
        refuses(&"a".repeat(3_000), "pattern is longer than 2000 bytes");
    }
}
