//! Regular expressions: in linear time wherever possible, and with bounded backtracking otherwise.
//!
//! `pattern` is ECMAScript's. Nearly every pattern is matched by the `regex` crate, which does not backtrack and so has
//! no pattern that takes exponential time. Look-around and back-references need backtracking; they are in the schemas
//! that generators write (Zod 4 puts a look-ahead into every email), so a second engine matches them, with a limit on
//! the length of the text and on the number of steps. Exceeding a limit is a fault of the arguments: they never pass by
//! accident. Names in `patternProperties` are matched by the linear engine only.

use std::{
    cell::Cell,
    collections::HashMap,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, OnceLock},
};

use jsonschema::{Keyword, ValidationError, paths::Location};
use regex_automata::meta::{BuildError, Config, Regex};
use serde_json::{Map, Value};

use super::error::SchemaFault;
use crate::{
    ceiling::{PATTERN_BYTES, PATTERN_COMPILED_BYTES, SCHEMA_PATTERN_BYTES},
    text::clip,
};

/// Maximum number of backtracking steps, by the length of the text. A reasonable pattern needs a few steps a byte; a
/// catastrophic one is stopped after a millisecond or two.
const STEPS: [(usize, usize); 3] = [(64, 1_000), (512, 8_000), (LONGEST, 64_000)];
/// The longest text that is matched by backtracking.
const LONGEST: usize = 4_096;
/// Maximum number of steps of all texts of one value together; each counts with its own maximum.
const STEPS_OF_A_VALUE: usize = 8_000_000;

/// Memory of a compiled pattern in addition to its program: caches and its slot in the validator, measured.
const OVERHEAD: usize = 6 * 1024;

thread_local! {
    /// The remaining steps. A value is validated on one thread, from [`begin_value`] on.
    static STEPS_LEFT: Cell<usize> = const { Cell::new(STEPS_OF_A_VALUE) };
}

/// Resets the budget of this thread for a new value.
pub(super) fn begin_value() {
    STEPS_LEFT.set(STEPS_OF_A_VALUE);
}

/// The compiled patterns of one schema. Equal ones are compiled once; when the total is too large, no more are
/// compiled.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    by_text: HashMap<String, Arc<Matcher>>,
    bytes: usize,
}

impl Patterns {
    /// Compiles a `pattern`; true if it needs backtracking.
    pub(super) fn add(&mut self, pattern: &str) -> Result<bool, SchemaFault> {
        let known = self.by_text.get(pattern).map(Arc::clone);
        let matcher = match known {
            Some(matcher) => matcher,
            None => self.compile(pattern)?,
        };
        Ok(matches!(*matcher, Matcher::Backtracking(_)))
    }

    /// Compiles a pattern where only the linear engine is used.
    pub(super) fn add_linear(&mut self, pattern: &str) -> Result<(), SchemaFault> {
        match backtracking_feature(pattern) {
            Some(feature) => Err(SchemaFault::PatternNotLinear { pattern: clip(pattern, 120), feature }),
            None => self.add(pattern).map(|_| ()),
        }
    }

    fn compile(&mut self, pattern: &str) -> Result<Arc<Matcher>, SchemaFault> {
        if self.bytes > SCHEMA_PATTERN_BYTES {
            return Err(SchemaFault::PatternsTooLarge(SCHEMA_PATTERN_BYTES));
        }
        if pattern.len() > PATTERN_BYTES {
            return Err(SchemaFault::PatternTooLong(PATTERN_BYTES));
        }
        let (matcher, bytes) = Matcher::new(pattern)?;
        self.bytes += bytes;
        if self.bytes > SCHEMA_PATTERN_BYTES {
            return Err(SchemaFault::PatternsTooLarge(SCHEMA_PATTERN_BYTES));
        }
        let matcher = Arc::new(matcher);
        self.by_text.insert(pattern.to_owned(), Arc::clone(&matcher));
        Ok(matcher)
    }

    /// An estimate of the memory of all of them.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Whether a pattern has a feature that no automaton can match.
pub(super) fn needs_backtracking(pattern: &str) -> bool {
    backtracking_feature(pattern).is_some()
}

fn bad(pattern: &str, reason: &str) -> SchemaFault {
    SchemaFault::BadPattern { pattern: clip(pattern, 120), reason: reason.to_owned() }
}

fn linear(pattern: &str) -> Result<Regex, SchemaFault> {
    let translated = jsonschema_regex::to_rust_regex(pattern).map_err(|()| bad(pattern, ""))?;
    build(&translated).map_err(|error| match error.size_limit() {
        Some(_) => bad(pattern, " of an allowed size"),
        None => bad(pattern, ""),
    })
}

/// The same configuration as the `regex` crate's; but this type reports its memory.
fn build(translated: &str) -> Result<Regex, Box<BuildError>> {
    let limits =
        Config::new().nfa_size_limit(Some(PATTERN_COMPILED_BYTES)).hybrid_cache_capacity(PATTERN_COMPILED_BYTES);
    Regex::builder().configure(limits).build(translated).map_err(Box::new)
}

/// Memory of a program, including its caches.
fn size_of(regex: &Regex) -> usize {
    regex.memory_usage() * 3 / 2
}

/// The first feature of the pattern that needs backtracking.
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

/// ECMAScript's `\d` and `\w` match ASCII only, and the engine's do not.
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

/// A backtracking pattern, compiled once for each class of text length. Most texts are short: the other classes are
/// compiled on demand.
struct Backtracking {
    translated: String,
    by_length: [OnceLock<Option<fancy_regex::Regex>>; STEPS.len()],
}

impl Backtracking {
    fn new(pattern: &str) -> Result<Self, SchemaFault> {
        // The translation does not know named back-references; the engine does.
        let translated = jsonschema_regex::to_rust_regex(pattern).unwrap_or_else(|()| pattern.into());
        let new = Self { translated: ascii_classes(&translated), by_length: Default::default() };
        if new.regex(0).is_some() { Ok(new) } else { Err(bad(pattern, "")) }
    }

    fn regex(&self, class: usize) -> Option<&fancy_regex::Regex> {
        let build = || {
            let mut builder = fancy_regex::RegexBuilder::new(&self.translated);
            let limit = PATTERN_COMPILED_BYTES;
            builder.backtrack_limit(STEPS[class].1).delegate_size_limit(limit).delegate_dfa_size_limit(limit);
            // A panic of the engine must not bring down the server.
            catch_unwind(AssertUnwindSafe(|| builder.build())).ok()?.ok()
        };
        self.by_length[class].get_or_init(build).as_ref()
    }

    /// An estimate of its memory: its parts are compiled one by one, together as large as the pattern without the
    /// backtracking features.
    fn bytes(&self) -> usize {
        let (plain, parts) = without_features(&self.translated);
        let whole = build(&plain).map_or(PATTERN_COMPILED_BYTES, |regex| size_of(&regex));
        STEPS.len() * ((1 + parts) * OVERHEAD + whole)
    }

    /// `None` if the text is too long, the pattern too complex for it, or the value has too many such texts.
    fn matches(&self, text: &str) -> Option<bool> {
        let class = STEPS.iter().position(|(longest, _)| text.len() <= *longest)?;
        STEPS_LEFT.set(STEPS_LEFT.get().checked_sub(STEPS[class].1)?);
        let regex = self.regex(class)?;
        catch_unwind(AssertUnwindSafe(|| regex.is_match(text))).ok()?.ok()
    }
}

/// The pattern without the features that need backtracking, and how many it has.
fn without_features(pattern: &str) -> (String, usize) {
    let (mut plain, mut features) = (String::with_capacity(pattern.len()), 0);
    let mut rest = pattern;
    'next: while let Some(letter) = rest.chars().next() {
        for look in ["(?=", "(?!", "(?<=", "(?<!"] {
            if let Some(after) = rest.strip_prefix(look) {
                (rest, features) = (after, features + 1);
                plain.push_str("(?:");
                continue 'next;
            }
        }
        let length =
            letter.len_utf8() + if letter == '\\' { rest[1..].chars().next().map_or(0, char::len_utf8) } else { 0 };
        let (this, after) = rest.split_at(length);
        rest = after;
        match this.as_bytes() {
            [b'\\', b'1'..=b'9'] => features += 1,
            [b'\\', b'k'] => {
                features += 1;
                rest = rest.split_once('>').map_or(rest, |(_, after)| after);
            }
            _ => plain.push_str(this),
        }
    }
    (plain, features)
}

enum Matcher {
    Linear(Regex),
    Backtracking(Box<Backtracking>),
}

impl fmt::Debug for Matcher {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Linear(_) => "Linear",
            Self::Backtracking(_) => "Backtracking",
        })
    }
}

impl Matcher {
    /// A compiled pattern, and an estimate of its memory.
    fn new(pattern: &str) -> Result<(Self, usize), SchemaFault> {
        if backtracking_feature(pattern).is_some() {
            let compiled = Backtracking::new(pattern)?;
            let bytes = compiled.bytes();
            return Ok((Self::Backtracking(Box::new(compiled)), bytes));
        }
        let compiled = linear(pattern)?;
        let bytes = OVERHEAD + size_of(&compiled);
        Ok((Self::Linear(compiled), bytes))
    }

    fn matches(&self, text: &str) -> Option<bool> {
        match self {
            Self::Linear(regex) => Some(regex.is_match(text)),
            Self::Backtracking(pattern) => pattern.matches(text),
        }
    }
}

/// `pattern`, in a schema with at least one that needs backtracking.
struct BoundedPattern {
    source: String,
    matcher: Arc<Matcher>,
}

impl BoundedPattern {
    fn matches(&self, text: &str) -> Option<bool> {
        self.matcher.matches(text)
    }
}

impl<'i> Keyword<'i> for BoundedPattern {
    fn validate(&self, instance: &'i Value) -> Result<(), ValidationError<'i>> {
        let Value::String(text) = instance else { return Ok(()) };
        let source = clip(&self.source, 200);
        match self.matches(text) {
            Some(true) => Ok(()),
            Some(false) => Err(ValidationError::custom(format!("must match the pattern {source}"))),
            None => Err(ValidationError::custom(format!("is too long or too complex for the pattern {source}"))),
        }
    }

    fn is_valid(&self, instance: &'i Value) -> bool {
        let Value::String(text) = instance else { return true };
        self.matches(text) == Some(true)
    }
}

type Made<'a> = Result<Box<dyn for<'i> Keyword<'i>>, ValidationError<'a>>;

/// Makes the keyword for the validator from patterns that are already compiled.
pub(super) fn keyword(
    patterns: Patterns,
) -> impl for<'a> Fn(&'a Map<String, Value>, &'a Value, Location) -> Made<'a> + Send + Sync {
    move |_, value, _| {
        let source = value.as_str().unwrap_or_default().to_owned();
        let matcher = match patterns.by_text.get(&source) {
            Some(matcher) => Arc::clone(matcher),
            // In a part of the schema that no keyword reaches.
            None => match Matcher::new(&source) {
                Ok((matcher, _)) => Arc::new(matcher),
                Err(fault) => return Err(ValidationError::custom(fault.to_string())),
            },
        };
        Ok(Box::new(BoundedPattern { source, matcher }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refuses(pattern: &str, expect: &str) {
        assert_eq!(Patterns::default().add(pattern).unwrap_err().to_string(), expect);
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
            assert_eq!(Patterns::default().add(pattern), Ok(false), "{pattern}");
        }
    }

    #[test]
    fn look_around_and_back_references_use_backtracking() {
        for pattern in ["^(?!x)a", "(?<=a)b", r"(a)\1", r"(?<n>a)\k<n>"] {
            assert_eq!(Patterns::default().add(pattern), Ok(true), "{pattern}");
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
    fn a_catastrophic_pattern_is_stopped() {
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
            let fault = Patterns::default().add_linear(pattern).unwrap_err().to_string();
            assert_eq!(fault, format!("pattern `{pattern}` uses {feature}, {tail}"));
        }
        assert_eq!(Patterns::default().add_linear("^x-"), Ok(()));
    }

    #[test]
    fn an_invalid_pattern_is_rejected() {
        refuses("[a", "pattern `[a` is not a regular expression");
        refuses("(?=a", "pattern `(?=a` is not a regular expression");
        refuses("a{1000}{1000}{1000}", "pattern `a{1000}{1000}{1000}` is not a regular expression of an allowed size");
        refuses(&"a".repeat(3_000), "pattern is longer than 2000 bytes");
    }

    #[test]
    fn all_patterns_of_a_schema_have_a_budget_and_equal_ones_count_once() {
        let mut patterns = Patterns::default();
        let large = |number: usize| format!("z{number}[^b]{{300}}");
        patterns.add(&large(0)).unwrap();
        let one = patterns.bytes();
        assert!((300_000..1_000_000).contains(&one), "{one}");
        for _ in 0..100 {
            patterns.add(&large(0)).unwrap();
        }
        assert_eq!(patterns.bytes(), one);
        let fitting = (1..).take_while(|number| patterns.add(&large(*number)).is_ok()).count();
        assert!((SCHEMA_PATTERN_BYTES / one - 2..=SCHEMA_PATTERN_BYTES / one).contains(&fitting), "{fitting}");
        assert_eq!(patterns.add("^a$"), Err(SchemaFault::PatternsTooLarge(SCHEMA_PATTERN_BYTES)));
        assert!(patterns.bytes() < SCHEMA_PATTERN_BYTES + 2 * PATTERN_COMPILED_BYTES, "nothing more was compiled");
    }

    #[test]
    fn backtracking_patterns_have_a_weight_too() {
        let weigh = |pattern: &str| Matcher::new(pattern).unwrap().1;
        assert!(weigh("^(?!x)z1[^b]{300}$") > 3 * weigh("^z1[^b]{300}$"));
        assert!(
            (30_000..300_000)
                .contains(&weigh(r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@(x\.)+[A-Za-z]{2,}$"))
        );
        assert_eq!(
            without_features(r"(?!a)(?<=b)(?<n>c)\1\k<n>\\1(?:d)"),
            (r"(?:a)(?:b)(?<n>c)\\1(?:d)".to_owned(), 4)
        );
    }

    #[test]
    fn all_texts_of_a_value_share_a_budget_of_steps() {
        let pattern = Backtracking::new("^(?!x)a*$").unwrap();
        let long = "a".repeat(4_000);
        begin_value();
        let fitting = (0..).take_while(|_| pattern.matches(&long) == Some(true)).count();
        assert_eq!(fitting, STEPS_OF_A_VALUE / 64_000);
        begin_value();
        assert_eq!(pattern.matches(&long), Some(true), "the next value has its own");
    }
}
