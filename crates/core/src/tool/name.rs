//! Tool names: which are valid, and the aliases that models see instead of names they cannot use.
//!
//! Real names are used everywhere except towards the model. There, a name outside `^[A-Za-z_][A-Za-z0-9_-]{0,63}$` is
//! replaced by an alias: the name with `_` for what the model cannot use. A short hash of the real name is added if two
//! tools would have the same alias, or if the alias would not tell which name it stands for: a name that is too long, or
//! not in ASCII. The aliases are derived from the names alone, so they are the same after every restart.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use unicode_security::{GeneralSecurityProfile, MixedScript, skeleton};

use crate::ContentHash;

/// The length that every model API accepts.
const LONGEST_ALIAS: usize = 64;
const SHORTEST_HASH: usize = 8;
/// Maximum length of a name under the open rules, in characters.
pub const LONGEST_NAME: usize = crate::ceiling::TOOL_NAME_LENGTH;

/// Why a name is invalid under the open rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameFault {
    #[error("Tool name must not be empty")]
    Empty,
    #[error("Tool name must have at most {LONGEST_NAME} characters")]
    TooLong,
    #[error("Tool name must not begin or end with a space")]
    Padded,
    #[error("Tool name must not contain the control or invisible character U+{0:04X}")]
    Invisible(u32),
    #[error("Tool name mixes letters of several scripts, which can be mistaken for another name")]
    MixedScript,
}

/// Whether every model API accepts the name as it is.
#[must_use]
pub fn fits_model(name: &str) -> bool {
    let mut letters = name.bytes();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && name.len() <= LONGEST_ALIAS
        && letters.all(is_plain)
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// Checks a name by the open rules: anything printable that cannot be mistaken for another name.
///
/// # Errors
/// The first fault found.
pub fn check_open(name: &str) -> Result<(), NameFault> {
    if name.is_empty() {
        return Err(NameFault::Empty);
    }
    if name.chars().count() > LONGEST_NAME {
        return Err(NameFault::TooLong);
    }
    if let Some(letter) = name.chars().find(|letter| is_invisible(*letter)) {
        return Err(NameFault::Invisible(letter.into()));
    }
    if name.starts_with(' ') || name.ends_with(' ') {
        return Err(NameFault::Padded);
    }
    if !name.is_ascii() && !name.is_single_script() {
        return Err(NameFault::MixedScript);
    }
    Ok(())
}

/// Control, zero-width, bidirectional and private characters, and every space but the plain one.
pub(crate) fn is_invisible(letter: char) -> bool {
    if letter == ' ' || letter.is_ascii_graphic() {
        return false;
    }
    letter.is_control()
        || letter.is_whitespace()
        || matches!(letter,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e000}'..='\u{f8ff}' | '\u{e0000}'..='\u{e0fff}' | '\u{f0000}'..='\u{10ffff}')
        // Letters that Unicode excludes from identifiers, as long as they are letters at all.
        || (letter.is_alphabetic() && !letter.identifier_allowed())
}

/// The first invisible character of a text for people: control characters, and those that change the reading order or
/// encode hidden text. Joiners of emoji and scripts are allowed.
pub(crate) fn hidden_in_text(text: &str) -> Option<char> {
    text.chars().find(|letter| match letter {
        '\n' | '\r' | '\t' => false,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e0fff}' => true,
        letter => letter.is_control(),
    })
}

/// The first such character in any text of a value, names of members included.
#[must_use]
pub fn hidden_in_value(value: &Value) -> Option<char> {
    let mut pending = vec![value];
    while let Some(value) = pending.pop() {
        let hidden = match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => None,
            Value::String(text) => hidden_in_text(text),
            Value::Array(items) => {
                pending.extend(items);
                None
            }
            Value::Object(members) => {
                pending.extend(members.values());
                members.keys().find_map(|name| hidden_in_text(name))
            }
        };
        if hidden.is_some() {
            return hidden;
        }
    }
    None
}

/// Pairs of different names that look alike: the index of the later one, and of the earlier.
///
/// ASCII names are never reported: `l1` and `ll` are a matter of taste, not an attack.
pub(crate) fn lookalikes(names: &[&str]) -> Vec<(usize, usize)> {
    if names.iter().all(|name| name.is_ascii()) {
        return Vec::new();
    }
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut found = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let shape: String = skeleton(name).collect();
        match seen.get(&shape) {
            Some(&earlier) if names[earlier] != *name && !(name.is_ascii() && names[earlier].is_ascii()) => {
                found.push((index, earlier));
            }
            Some(_) => {}
            None => _ = seen.insert(shape, index),
        }
    }
    found
}

/// The alias of each of these tools, in the same order. The names must be distinct.
///
/// ```
/// use bosun_core::tool::name::aliases;
///
/// let aliases = aliases(&["send_email", "tool_with-special.chars"]);
/// assert_eq!(aliases[0], "send_email");
/// assert_eq!(aliases[1], "tool_with-special_chars");
/// ```
#[must_use]
pub fn aliases(names: &[&str]) -> Vec<String> {
    if names.iter().all(|name| fits_model(name)) {
        return names.iter().map(|name| (*name).to_owned()).collect();
    }
    // A name that needs no alias always keeps itself, even if the alias of another would be equal.
    let mut taken: HashSet<String> =
        names.iter().filter(|name| fits_model(name)).map(|name| (*name).to_owned()).collect();
    let mut wanted: HashMap<String, usize> = HashMap::new();
    for plain in names.iter().filter(|name| !fits_model(name)).filter_map(|name| plain_alias(name)) {
        *wanted.entry(plain).or_default() += 1;
    }
    names
        .iter()
        .map(|name| {
            if fits_model(name) {
                return (*name).to_owned();
            }
            let is_free = |plain: &String| wanted.get(plain) == Some(&1) && !taken.contains(plain);
            if let Some(plain) = plain_alias(name).filter(is_free) {
                taken.insert(plain.clone());
                return plain;
            }
            let hash = ContentHash::of(name.as_bytes()).to_string();
            let mut digits = SHORTEST_HASH;
            let mut alias = alias_with(name, &hash[..digits]);
            while digits + 2 < LONGEST_ALIAS && taken.contains(&alias) {
                digits += 1;
                alias = alias_with(name, &hash[..digits]);
            }
            taken.insert(alias.clone());
            alias
        })
        .collect()
}

/// The alias without a hash, if it tells which name it stands for.
fn plain_alias(name: &str) -> Option<String> {
    let has_word = name.bytes().any(|byte| byte.is_ascii_alphanumeric());
    let plain = readable(name);
    (name.is_ascii() && has_word && fits_model(&plain)).then_some(plain)
}

fn alias_with(name: &str, hash: &str) -> String {
    let room = LONGEST_ALIAS - hash.len() - 1;
    let mut readable = readable(name);
    readable.truncate(room);
    format!("{}_{hash}", readable.trim_end_matches('_'))
}

/// The name with an underscore for each run of characters that a model cannot use.
fn readable(name: &str) -> String {
    let mut readable = String::with_capacity(LONGEST_ALIAS);
    if !name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
        readable.push_str("t_");
    }
    for letter in name.chars() {
        match u8::try_from(letter) {
            Ok(byte) if is_plain(byte) => readable.push(letter),
            // One underscore for a run of other characters.
            _ if !readable.ends_with('_') => readable.push('_'),
            _ => {}
        }
    }
    readable
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop, prop_assert, prop_assert_eq, proptest};

    use super::*;

    #[track_caller]
    fn check(name: &str, expect: &str) {
        let alias = aliases(&[name]).remove(0);
        assert_eq!(alias, expect);
        assert!(fits_model(&alias), "{alias}");
    }

    #[test]
    fn a_name_that_fits_is_its_own_alias() {
        for name in ["calculator", "_a", "send-email", "A1", &"a".repeat(64)] {
            check(name, name);
        }
    }

    #[test]
    fn a_name_that_does_not_fit_keeps_a_readable_beginning() {
        check("tool_with-special.chars", "tool_with-special_chars");
        check("files/read file", "files_read_file");
        check("1st", "t_1st");
        check("поиск", "t_d89cae10");
        check(&"a".repeat(65), &format!("{}_635361c4", "a".repeat(55)));
    }

    #[test]
    fn a_hash_tells_names_apart_that_would_have_one_alias() {
        assert_eq!(aliases(&["meta/root", "meta.x"]), ["meta_root", "meta_x"]);
        let same = aliases(&["meta/root", "meta.root", "other"]);
        assert!(same[0].starts_with("meta_root_") && same[1].starts_with("meta_root_") && same[0] != same[1]);
        assert_eq!(same[2], "other");
    }

    #[test]
    fn a_real_name_takes_precedence_over_an_alias() {
        let both = aliases(&["a.b", "a_b"]);
        assert_eq!(both[1], "a_b");
        assert!(both[0].starts_with("a_b_"), "{both:?}");
    }

    #[track_caller]
    fn refuses(name: &str, expect: &str) {
        assert_eq!(check_open(name).unwrap_err().to_string(), expect);
    }

    #[test]
    fn open_names_are_anything_printable() {
        for name in
            ["tool_with-special.chars", "Get Weather", "поиск", "検索", "größe", "a/b:c", "naïve", &"ä".repeat(128)]
        {
            assert_eq!(check_open(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn a_name_cannot_hide_anything() {
        refuses("", "Tool name must not be empty");
        refuses(&"a".repeat(129), "Tool name must have at most 128 characters");
        refuses(" a", "Tool name must not begin or end with a space");
        refuses("a\nb", "Tool name must not contain the control or invisible character U+000A");
        refuses("a\u{200b}b", "Tool name must not contain the control or invisible character U+200B");
        refuses("a\u{202e}b", "Tool name must not contain the control or invisible character U+202E");
        refuses("a\u{a0}b", "Tool name must not contain the control or invisible character U+00A0");
        refuses("a\u{e0041}", "Tool name must not contain the control or invisible character U+E0041");
        refuses("p\u{430}ypal", "Tool name mixes letters of several scripts, which can be mistaken for another name");
    }

    #[test]
    fn invisible_characters_in_a_text_are_found() {
        for fine in ["", "a\nb\tc\r\n", "👩\u{200d}💻 ❤\u{fe0f}", "نص عربي"] {
            assert_eq!(hidden_in_text(fine), None, "{fine}");
        }
        for (text, hidden) in [("a\u{1b}[0m", '\u{1b}'), ("a\u{202e}b", '\u{202e}'), ("x\u{e0049}", '\u{e0049}')] {
            assert_eq!(hidden_in_text(text), Some(hidden));
        }
    }

    #[test]
    fn names_that_look_alike_are_found() {
        assert_eq!(lookalikes(&["сору", "x", "copy"]), [(2, 0)]);
        assert_eq!(lookalikes(&["l1", "ll", "поиск"]), []);
    }

    proptest! {
        #[test]
        fn aliases_are_valid_distinct_and_deterministic(names in prop::collection::hash_set("\\PC{0,80}", 0..40)) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let made = aliases(&names);
            prop_assert!(made.iter().all(|alias| fits_model(alias)));
            prop_assert_eq!(made.iter().collect::<HashSet<_>>().len(), names.len());
            prop_assert_eq!(aliases(&names), made);
        }
    }
}
