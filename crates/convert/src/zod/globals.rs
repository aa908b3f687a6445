//! The few globals and methods of JavaScript that constants use.
//!
//! Each is pure and total over the values it accepts; for anything else the result is `None`, and the reader reports
//! that the value is computed.

use std::rc::Rc;

use super::value::{LONGEST_LIST, LONGEST_TEXT, Regex, ZodMember, ZodRecord, ZodValue};

const NAMES: [&str; 8] = ["Number", "Math", "Object", "BigInt", "RegExp", "String", "Boolean", "Symbol"];

pub(super) fn find<'a>(name: &str) -> Option<ZodValue<'a>> {
    match name {
        "undefined" => Some(ZodValue::Undefined),
        "NaN" => Some(ZodValue::Number(f64::NAN)),
        "Infinity" => Some(ZodValue::Number(f64::INFINITY)),
        "Date" | "Map" | "Set" | "File" | "Blob" | "Error" | "URL" | "Buffer" | "Uint8Array" => {
            Some(ZodValue::Instance("class"))
        }
        _ => NAMES.iter().find(|known| **known == name).map(|name| ZodValue::Global(name)),
    }
}

pub(super) fn member<'a>(object: &str, name: &str) -> Option<ZodValue<'a>> {
    const LARGEST_SAFE: f64 = 9_007_199_254_740_991.0;
    Some(ZodValue::Number(match (object, name) {
        ("Number", "MAX_SAFE_INTEGER") => LARGEST_SAFE,
        ("Number", "MIN_SAFE_INTEGER") => -LARGEST_SAFE,
        ("Number", "MAX_VALUE") => f64::MAX,
        ("Number", "MIN_VALUE") => 5e-324,
        ("Number", "EPSILON") => f64::EPSILON,
        ("Number", "POSITIVE_INFINITY") => f64::INFINITY,
        ("Number", "NEGATIVE_INFINITY") => f64::NEG_INFINITY,
        ("Number", "NaN") => f64::NAN,
        ("Math", "PI") => std::f64::consts::PI,
        ("Math", "E") => std::f64::consts::E,
        _ => return None,
    }))
}

/// `Object.keys(…)` and the like, by dotted name.
pub(super) fn call<'a>(path: &str, arguments: &[ZodValue<'a>]) -> Option<ZodValue<'a>> {
    match (path, arguments) {
        ("BigInt", [ZodValue::Number(value)]) if value.fract() == 0.0 && value.abs() < 1e30 =>
        {
            #[expect(clippy::cast_possible_truncation, reason = "a whole number below 1e30 fits into 128 bits")]
            Some(ZodValue::BigInt(*value as i128))
        }
        ("BigInt", [ZodValue::BigInt(value)]) => Some(ZodValue::BigInt(*value)),
        ("BigInt", [ZodValue::Text(text)]) => text.trim().parse().ok().map(ZodValue::BigInt),
        ("String", [value]) => value.to_text().map(ZodValue::text),
        ("RegExp", [ZodValue::Regex(regex)]) => {
            Some(ZodValue::Regex(Rc::new(Regex { source: regex.source.clone(), flags: regex.flags.clone() })))
        }
        ("RegExp", [ZodValue::Text(source)]) => Some(regex(source, "")),
        ("RegExp", [ZodValue::Text(source), ZodValue::Text(flags)]) => Some(regex(source, flags)),
        ("RegExp", [ZodValue::Regex(source), ZodValue::Text(flags)]) => Some(regex(&source.source, flags)),
        ("Symbol" | "Symbol.for", _) => Some(ZodValue::Instance("Symbol")),
        ("Object.freeze" | "Object.seal", [value @ (ZodValue::Record(_) | ZodValue::List(_))]) => Some(value.clone()),
        ("Object.keys", [ZodValue::Record(record)]) => {
            Some(ZodValue::list(record.keys().map(ZodValue::text).collect()))
        }
        ("Object.values", [ZodValue::Record(record)]) => values(record).map(ZodValue::list),
        ("Object.entries", [ZodValue::Record(record)]) => {
            let pairs =
                record.keys().zip(values(record)?).map(|(key, value)| ZodValue::list(vec![ZodValue::text(key), value]));
            Some(ZodValue::list(pairs.collect()))
        }
        ("Object.fromEntries", [ZodValue::List(pairs)]) => {
            let members = pairs.iter().map(|pair| match pair {
                ZodValue::List(pair) => match pair.as_slice() {
                    [key, value] => {
                        Some((key.to_text()?, ZodMember { value: value.clone(), offset: 0, getter: false }))
                    }
                    _ => None,
                },
                _ => None,
            });
            let members: Option<Vec<_>> = members.collect();
            Some(ZodValue::Record(Rc::new(ZodRecord::new(0, members?))))
        }
        _ => None,
    }
}

fn values<'a>(record: &ZodRecord<'a>) -> Option<Vec<ZodValue<'a>>> {
    record.iter().map(|(_, member)| (!member.getter).then(|| member.value.clone())).collect()
}

/// Methods of strings and arrays.
pub(super) fn method<'a>(receiver: &ZodValue<'a>, name: &str, arguments: &[ZodValue<'a>]) -> Option<ZodValue<'a>> {
    match (receiver, name, arguments) {
        (ZodValue::Text(text), "trim", []) => Some(ZodValue::text(text.trim())),
        (ZodValue::Text(text), "trimStart", []) => Some(ZodValue::text(text.trim_start())),
        (ZodValue::Text(text), "trimEnd", []) => Some(ZodValue::text(text.trim_end())),
        (ZodValue::Text(text), "toUpperCase", []) => Some(ZodValue::text(text.to_uppercase())),
        (ZodValue::Text(text), "toLowerCase", []) => Some(ZodValue::text(text.to_lowercase())),
        (ZodValue::Text(text), "concat", parts) => {
            let mut joined = text.as_ref().to_owned();
            for part in parts {
                joined.push_str(&part.to_text()?);
                if joined.len() > LONGEST_TEXT {
                    break;
                }
            }
            Some(ZodValue::text(joined))
        }
        (ZodValue::List(values), "join", separator) => {
            let separator = match separator {
                [] | [ZodValue::Undefined] => ",",
                [ZodValue::Text(separator)] => separator,
                _ => return None,
            };
            let parts = values.iter().map(|value| match value {
                ZodValue::Undefined | ZodValue::Null => Some(String::new()),
                value => value.to_text(),
            });
            let mut joined = String::new();
            for (index, part) in parts.enumerate() {
                if index > 0 {
                    joined.push_str(separator);
                }
                joined.push_str(&part?);
                // The reader rejects it; there is no need to finish it first.
                if joined.len() > LONGEST_TEXT {
                    break;
                }
            }
            Some(ZodValue::text(joined))
        }
        (ZodValue::List(values), "concat", more) => {
            let mut all = values.as_ref().clone();
            for value in more {
                if all.len() > LONGEST_LIST {
                    break;
                }
                match value {
                    ZodValue::List(values) => all.extend(values.iter().cloned()),
                    value => all.push(value.clone()),
                }
            }
            Some(ZodValue::list(all))
        }
        (ZodValue::List(_), "slice", []) => Some(receiver.clone()),
        _ => None,
    }
}

fn regex<'a>(pattern: &str, flags: &str) -> ZodValue<'a> {
    ZodValue::Regex(Rc::new(Regex { source: regex_source(pattern), flags: flags.to_owned() }))
}

/// The value of `new RegExp(pattern).source`: slashes and line ends are escaped.
pub(super) fn regex_source(pattern: &str) -> String {
    if pattern.is_empty() {
        return "(?:)".to_owned();
    }
    let mut source = String::with_capacity(pattern.len());
    let mut in_class = false;
    let mut escaped = false;
    for character in pattern.chars() {
        match character {
            '\n' => source.push_str(if escaped { "n" } else { "\\n" }),
            '\r' => source.push_str(if escaped { "r" } else { "\\r" }),
            '\u{2028}' => source.push_str(if escaped { "u2028" } else { "\\u2028" }),
            '\u{2029}' => source.push_str(if escaped { "u2029" } else { "\\u2029" }),
            '/' if !in_class && !escaped => source.push_str("\\/"),
            _ => source.push(character),
        }
        match character {
            '[' if !escaped => in_class = true,
            ']' if !escaped => in_class = false,
            _ => {}
        }
        escaped = character == '\\' && !escaped;
    }
    source
}
