//! The checks of Zod 3's strings, and the keywords of each.

use serde_json::{Map, Value as Json, json};

use super::super::{
    fault::{ReadSchema, ZodProblem},
    library::ZodCall,
    value::{ZodValue, number_json},
};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StringCheck {
    Min(f64),
    Max(f64),
    Length(f64),
    /// A `format` of JSON Schema.
    Format(&'static str),
    /// A check with a pattern of its own, by name.
    Named(&'static str, &'static str),
    Regex {
        source: String,
        flags: String,
    },
    StartsWith(Literal),
    EndsWith(Literal),
    Includes(Literal),
    Ip(UuidVersion),
    Cidr(UuidVersion),
    Base64,
    Trim,
    ToLowerCase,
    ToUpperCase,
}

/// A text, and the same as a pattern.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Literal {
    pub(super) text: String,
    pattern: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UuidVersion {
    Both,
    V4,
    V6,
}

// The patterns are zod-to-json-schema's, which spell Zod's `i` flag out.
const CUID: &str = r"^[cC][^\s-]{8,}$";
const CUID2: &str = "^[0-9a-z]+$";
const ULID: &str = "^[0-9A-HJKMNP-TV-Z]{26}$";
const EMOJI: &str = r"^(\p{Extended_Pictographic}|\p{Emoji_Component})+$";
const NANOID: &str = "^[a-zA-Z0-9_-]{21}$";
const BASE64URL: &str = "^([0-9a-zA-Z-_]{4})*(([0-9a-zA-Z-_]{2}(==)?)|([0-9a-zA-Z-_]{3}(=)?))?$";
const JWT: &str = r"^[A-Za-z0-9-_]+\.[A-Za-z0-9-_]+\.[A-Za-z0-9-_]*$";
const IPV4_CIDR: &str = r"^(?:(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9][0-9]|[0-9])\.){3}(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9][0-9]|[0-9])\/(3[0-2]|[12]?[0-9])$";
const IPV6_CIDR: &str = r"^(([0-9a-fA-F]{1,4}:){7,7}[0-9a-fA-F]{1,4}|([0-9a-fA-F]{1,4}:){1,7}:|([0-9a-fA-F]{1,4}:){1,6}:[0-9a-fA-F]{1,4}|([0-9a-fA-F]{1,4}:){1,5}(:[0-9a-fA-F]{1,4}){1,2}|([0-9a-fA-F]{1,4}:){1,4}(:[0-9a-fA-F]{1,4}){1,3}|([0-9a-fA-F]{1,4}:){1,3}(:[0-9a-fA-F]{1,4}){1,4}|([0-9a-fA-F]{1,4}:){1,2}(:[0-9a-fA-F]{1,4}){1,5}|[0-9a-fA-F]{1,4}:((:[0-9a-fA-F]{1,4}){1,6})|:((:[0-9a-fA-F]{1,4}){1,7}|:)|fe80:(:[0-9a-fA-F]{0,4}){0,4}%[0-9a-zA-Z]{1,}|::(ffff(:0{1,4}){0,1}:){0,1}((25[0-5]|(2[0-4]|1{0,1}[0-9]){0,1}[0-9])\.){3,3}(25[0-5]|(2[0-4]|1{0,1}[0-9]){0,1}[0-9])|([0-9a-fA-F]{1,4}:){1,4}:((25[0-5]|(2[0-4]|1{0,1}[0-9]){0,1}[0-9])\.){3,3}(25[0-5]|(2[0-4]|1{0,1}[0-9]){0,1}[0-9]))\/(12[0-8]|1[01][0-9]|[1-9]?[0-9])$";

pub(super) fn check(call: &ZodCall<'_, '_>) -> ReadSchema<Option<StringCheck>> {
    let literal = || -> ReadSchema<Literal> {
        let text = call.text(0)?.to_owned();
        Ok(Literal { pattern: escaped(&text, call.offset)?, text })
    };
    let version = || match call.option(0, "version")?.map(|member| &member.value) {
        Some(ZodValue::Text(version)) if &**version == "v4" => Ok(UuidVersion::V4),
        Some(ZodValue::Text(version)) if &**version == "v6" => Ok(UuidVersion::V6),
        Some(ZodValue::Unreadable(problems)) => Err(problems.clone()),
        _ => Ok(UuidVersion::Both),
    };
    Ok(Some(match call.name {
        "min" => StringCheck::Min(call.number(0)?),
        "max" => StringCheck::Max(call.number(0)?),
        "length" => StringCheck::Length(call.number(0)?),
        "nonempty" => StringCheck::Min(1.0),
        "email" => StringCheck::Format("email"),
        "url" => StringCheck::Format("uri"),
        "uuid" => StringCheck::Format("uuid"),
        "datetime" => StringCheck::Format("date-time"),
        "date" => StringCheck::Format("date"),
        "time" => StringCheck::Format("time"),
        "duration" => StringCheck::Format("duration"),
        "cuid" => StringCheck::Named("cuid", CUID),
        "cuid2" => StringCheck::Named("cuid2", CUID2),
        "ulid" => StringCheck::Named("ulid", ULID),
        "emoji" => StringCheck::Named("emoji", EMOJI),
        "nanoid" => StringCheck::Named("nanoid", NANOID),
        "base64url" => StringCheck::Named("base64url", BASE64URL),
        "jwt" => StringCheck::Named("jwt", JWT),
        "base64" => StringCheck::Base64,
        "ip" => StringCheck::Ip(version()?),
        "cidr" => StringCheck::Cidr(version()?),
        "regex" => match call.argument(0) {
            ZodValue::Regex(regex) => StringCheck::Regex { source: regex.source.clone(), flags: regex.flags.clone() },
            _ => return Err(call.wrong(0, "a regular expression")),
        },
        "startsWith" => StringCheck::StartsWith(literal()?),
        "endsWith" => StringCheck::EndsWith(literal()?),
        "includes" => StringCheck::Includes(literal()?),
        "trim" => StringCheck::Trim,
        "toLowerCase" => StringCheck::ToLowerCase,
        "toUpperCase" => StringCheck::ToUpperCase,
        _ => return Ok(None),
    }))
}

/// zod-to-json-schema's escaping: a backslash before everything but ASCII letters and digits. Its alphabet has no `W`
/// and no `w`, so these become the classes `\W` and `\w`; the result is weaker than the check, never stronger, and
/// exactly what the package writes.
fn escaped(text: &str, offset: u32) -> ReadSchema<String> {
    let mut result = String::with_capacity(text.len());
    for character in text.chars() {
        if character.len_utf16() > 1 {
            let message = format!("zod-to-json-schema splits `{character}` into halves that JSON cannot hold");
            return Err(ZodProblem::new(offset, "lone_surrogate", message)
                .hint("use `.regex(…)` for characters beyond U+FFFF")
                .into());
        }
        if !character.is_ascii_alphanumeric() || matches!(character, 'w' | 'W') {
            result.push('\\');
        }
        match character {
            '\n' => result.push('n'),
            '\r' => result.push('r'),
            '\u{2028}' => result.push_str("u2028"),
            '\u{2029}' => result.push_str("u2029"),
            _ => result.push(character),
        }
    }
    Ok(result)
}

/// The JSON Schema of a string with these checks.
pub(super) fn write(checks: &[StringCheck]) -> Map<String, Json> {
    let mut schema = Map::new();
    schema.insert("type".to_owned(), json!("string"));
    for check in checks {
        match check {
            StringCheck::Min(value) => narrow(&mut schema, "minLength", *value, f64::max),
            StringCheck::Max(value) => narrow(&mut schema, "maxLength", *value, f64::min),
            StringCheck::Length(value) => {
                narrow(&mut schema, "minLength", *value, f64::max);
                narrow(&mut schema, "maxLength", *value, f64::min);
            }
            StringCheck::Format(format) => add_format(&mut schema, format),
            StringCheck::Named(_, pattern) => add_pattern(&mut schema, pattern),
            StringCheck::Regex { source, .. } => add_pattern(&mut schema, source),
            StringCheck::StartsWith(literal) => add_pattern(&mut schema, &format!("^{}", literal.pattern)),
            StringCheck::EndsWith(literal) => add_pattern(&mut schema, &format!("{}$", literal.pattern)),
            StringCheck::Includes(literal) if literal.pattern.is_empty() => add_pattern(&mut schema, "(?:)"),
            StringCheck::Includes(literal) => add_pattern(&mut schema, &literal.pattern),
            StringCheck::Ip(version) => {
                if *version != UuidVersion::V6 {
                    add_format(&mut schema, "ipv4");
                }
                if *version != UuidVersion::V4 {
                    add_format(&mut schema, "ipv6");
                }
            }
            StringCheck::Cidr(version) => {
                if *version != UuidVersion::V6 {
                    add_pattern(&mut schema, IPV4_CIDR);
                }
                if *version != UuidVersion::V4 {
                    add_pattern(&mut schema, IPV6_CIDR);
                }
            }
            StringCheck::Base64 => {
                schema.insert("contentEncoding".to_owned(), json!("base64"));
            }
            StringCheck::Trim | StringCheck::ToLowerCase | StringCheck::ToUpperCase => {}
        }
    }
    schema
}

/// Whether a text passes; `None` if determining that is not worth the effort here.
pub(super) fn accepts(checks: &[StringCheck], text: &str) -> Option<bool> {
    let mut text = text.to_owned();
    let mut undecided = false;
    for check in checks {
        #[expect(clippy::cast_precision_loss, reason = "lengths of literals are far below 2^53")]
        let length = text.encode_utf16().count() as f64;
        let passes = match check {
            StringCheck::Min(value) => Some(length >= *value),
            StringCheck::Max(value) => Some(length <= *value),
            StringCheck::Length(value) => Some(length == *value),
            StringCheck::StartsWith(literal) => Some(text.starts_with(&literal.text)),
            StringCheck::EndsWith(literal) => Some(text.ends_with(&literal.text)),
            StringCheck::Includes(literal) => Some(text.contains(&literal.text)),
            StringCheck::Regex { source, flags } => matches(source, flags, &text),
            StringCheck::Named("cuid2", pattern) => matches(pattern, "", &text),
            // `String(undefined)` has none of the other formats.
            _ if text == "undefined"
                && !matches!(check, StringCheck::Trim | StringCheck::ToLowerCase | StringCheck::ToUpperCase) =>
            {
                Some(false)
            }
            StringCheck::Trim => {
                text = text.trim().to_owned();
                Some(true)
            }
            StringCheck::ToLowerCase => {
                text = text.to_lowercase();
                Some(true)
            }
            StringCheck::ToUpperCase => {
                text = text.to_uppercase();
                Some(true)
            }
            _ => None,
        };
        match passes {
            Some(true) => {}
            Some(false) => return Some(false),
            None => undecided = true,
        }
    }
    (!undecided).then_some(true)
}

fn matches(source: &str, flags: &str, text: &str) -> Option<bool> {
    let mut pattern = regex::RegexBuilder::new(source);
    pattern
        .case_insensitive(flags.contains('i'))
        .multi_line(flags.contains('m'))
        .dot_matches_new_line(flags.contains('s'));
    pattern.build().ok().map(|pattern| pattern.is_match(text))
}

fn narrow(schema: &mut Map<String, Json>, keyword: &str, value: f64, choose: fn(f64, f64) -> f64) {
    let value = schema.get(keyword).and_then(Json::as_f64).map_or(value, |current| choose(current, value));
    schema.insert(keyword.to_owned(), number_json(value));
}

fn add_format(schema: &mut Map<String, Json>, format: &str) {
    add(schema, "format", "anyOf", format);
}

fn add_pattern(schema: &mut Map<String, Json>, pattern: &str) {
    add(schema, "pattern", "allOf", pattern);
}

/// One value is written as it is; a second one moves the first into a list with it.
fn add(schema: &mut Map<String, Json>, keyword: &str, list: &str, value: &str) {
    let alone = schema.shift_remove(keyword);
    if alone.is_none() && !schema.contains_key(list) {
        schema.insert(keyword.to_owned(), json!(value));
        return;
    }
    let mut all = match schema.get(list) {
        Some(Json::Array(all)) => all.clone(),
        _ => Vec::new(),
    };
    all.extend(alone.map(|alone| json!({ keyword: alone })));
    all.push(json!({ keyword: value }));
    schema.insert(list.to_owned(), Json::Array(all));
}
