//! `$fromAI(key, description, type, default)`: values of an n8n node that the model fills in.
//!
//! The calls are found and parsed as n8n does, in every text of a node's parameters. Nothing is evaluated: an argument
//! that is an expression is taken as the text that it is written with. n8n's rules for keys apply here too.

use std::ops::Range;

use bosun_core::audit::redact_text;
use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use crate::{
    document::{LazyPath, Path},
    format::clip,
    found::Report,
    secrets::is_key,
};

/// The parameters of one call.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Argument {
    pub(super) key: String,
    pub(super) description: Option<String>,
    pub(super) kind: FromAiKind,
    pub(super) default: Option<Value>,
}

impl Argument {
    /// The description for the model, if there is one.
    pub(super) fn described(&self) -> Option<&str> {
        self.description.as_deref().map(str::trim).filter(|text| !text.is_empty())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FromAiKind {
    String,
    Number,
    Boolean,
    Json,
}

/// One call and its byte range in the text.
#[derive(Debug, PartialEq)]
pub(super) struct FromAiCall {
    pub(super) argument: Argument,
    pub(super) range: Range<usize>,
}

/// Every call in a text, in order.
pub(super) fn calls(text: &str) -> Result<Vec<FromAiCall>, String> {
    const NAME: &[u8] = b"$fromai";
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(offset) = bytes[at..].windows(NAME.len()).position(|window| window.eq_ignore_ascii_case(NAME)) {
        let start = at + offset;
        at = start + NAME.len();
        let space = text[at..].len() - text[at..].trim_start().len();
        if bytes.get(at + space) != Some(&b'(') {
            continue;
        }
        let (values, end) = arguments(text, at + space + 1)?;
        found.push(FromAiCall { argument: argument(&values)?, range: start..end });
        at = end;
    }
    Ok(found)
}

/// The arguments after the opening parenthesis as they are written, and the offset after the closing one.
fn arguments(text: &str, start: usize) -> Result<(Vec<String>, usize), String> {
    let mut values = Vec::new();
    let mut current = String::new();
    let mut quote = None;
    let mut depth = 0_usize;
    let mut letters = text[start..].char_indices();
    while let Some((offset, letter)) = letters.next() {
        match (quote, letter) {
            // n8n takes what follows a backslash as it is: `\n` is the letter.
            (_, '\\') => current.extend(letters.next().map(|(_, letter)| letter)),
            (Some(open), letter) => {
                if letter == open {
                    quote = None;
                }
                current.push(letter);
            }
            (None, '\'' | '"' | '`') => {
                quote = Some(letter);
                current.push(letter);
            }
            (None, ')') if depth == 0 => {
                if !current.is_empty() {
                    values.push(current);
                }
                return Ok((values, start + offset + 1));
            }
            (None, ',') => values.push(std::mem::take(&mut current)),
            (None, letter) => {
                match letter {
                    '(' => depth += 1,
                    ')' => depth -= 1,
                    _ => {}
                }
                current.push(letter);
            }
        }
    }
    Err(match quote {
        Some(_) => format!("a text in `$fromAI({}` does not end", clip(&redact_text(&text[start..]))),
        None => format!("the parenthesis of `$fromAI({}` is not closed", clip(&redact_text(&text[start..]))),
    })
}

/// The text of an argument: without its quotes if it begins and ends with one, else as it is written.
fn clean(written: &str) -> &str {
    let written = written.trim();
    let quoted = ['\'', '`', '"'].into_iter().find_map(|quote| {
        let inner = written.strip_prefix(quote)?;
        // A lone quote begins and ends with itself; JavaScript's `slice(1, -1)` of it is empty.
        if inner.is_empty() { Some("") } else { inner.strip_suffix(quote) }
    });
    quoted.unwrap_or(written)
}

fn argument(values: &[String]) -> Result<Argument, String> {
    let value = |index: usize| values.get(index).map(|written| clean(written));
    let key = value(0).unwrap_or_default();
    if key.is_empty() {
        return Err("`$fromAI()` has no key".to_owned());
    }
    let is_key = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    if key.len() > 64 || !key.chars().all(is_key) {
        return Err(format!("the key `{}` of `$fromAI` is not 1 to 64 letters, digits, `_` or `-`", clip(key)));
    }
    let kind = match value(2).map(str::to_ascii_lowercase).as_deref() {
        None | Some("string") => FromAiKind::String,
        Some("number") => FromAiKind::Number,
        Some("boolean") => FromAiKind::Boolean,
        Some("json") => FromAiKind::Json,
        Some(other) => {
            let message = "is not a type of `$fromAI`, which are string, number, boolean and json";
            return Err(format!("`{}` {message}", clip(other)));
        }
    };
    let default = value(3).map(|text| default(text, kind));
    Ok(Argument { key: key.to_owned(), description: value(1).map(str::to_owned), kind, default })
}

/// A default is written as text whatever its type; n8n parses it by the type, else as JSON, else as text.
fn default(text: &str, kind: FromAiKind) -> Value {
    let parsed = match kind {
        FromAiKind::String => return text.into(),
        FromAiKind::Boolean if text.eq_ignore_ascii_case("true") => Some(true.into()),
        FromAiKind::Boolean if text.eq_ignore_ascii_case("false") => Some(false.into()),
        FromAiKind::Number => number(text),
        FromAiKind::Boolean | FromAiKind::Json => None,
    };
    parsed.or_else(|| serde_json::from_str(text).ok()).unwrap_or_else(|| text.into())
}

/// JavaScript's `Number(text)`, where an empty text is zero; `None` if it is not a number that JSON has.
fn number(text: &str) -> Option<Value> {
    let text = text.trim();
    if text.is_empty() {
        return Some(0.into());
    }
    let radix = |prefix: &str, radix| {
        let digits = text.strip_prefix(prefix).or_else(|| text.strip_prefix(&prefix.to_ascii_uppercase()))?;
        i64::from_str_radix(digits, radix).ok().map(Value::from)
    };
    if let Some(number) = radix("0x", 16).or_else(|| radix("0o", 8)).or_else(|| radix("0b", 2)) {
        return Some(number);
    }
    if let Ok(whole) = text.parse::<i64>() {
        return Some(whole.into());
    }
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    let number = text.parse::<f64>().ok().filter(|number| is_number && number.is_finite())?;
    if number.fract() == 0.0 && number.abs() < 1e15 {
        #[expect(clippy::cast_possible_truncation, reason = "a whole number below 1e15 fits")]
        return Some((number as i64).into());
    }
    serde_json::Number::from_f64(number).map(Value::Number)
}

/// The arguments of all calls in a node's parameters; `None` if one of them cannot be read.
pub(super) fn collect(parameters: &Value, path: &Path, report: &Report) -> Option<Vec<Argument>> {
    let faults = report.fault_count();
    let mut arguments: IndexMap<String, Argument> = IndexMap::new();
    visit(parameters, &LazyPath::At(path), &mut |text, trail| match calls(text) {
        Err(message) => report.fault_on_trail(trail, "from_ai_unreadable", message),
        Ok(calls) => calls.into_iter().for_each(|call| add(&mut arguments, call.argument, trail, report)),
    });
    (report.fault_count() == faults).then(|| arguments.into_values().collect())
}

fn add(arguments: &mut IndexMap<String, Argument>, mut argument: Argument, trail: &LazyPath<'_>, report: &Report) {
    if let Some(Value::String(text)) = &argument.default
        && is_key(text)
    {
        let message = format!("the default of `{}` looks like a key and is not copied", argument.key);
        report.warn_on_trail(trail, "secret_dropped", message);
        argument.default = None;
    }
    match arguments.get(&argument.key) {
        Some(known) if known.description != argument.description || known.kind != argument.kind => {
            let message = format!("the key `{}` is used twice, with another description or type", argument.key);
            report.fault_on_trail(trail, "from_ai_conflict", message);
        }
        // Two calls may differ in their default, and the later one takes precedence.
        _ => {
            arguments.insert(argument.key.clone(), argument);
        }
    }
}

/// Every text inside of a value, with its path.
fn visit(value: &Value, trail: &LazyPath<'_>, each: &mut impl FnMut(&str, &LazyPath<'_>)) {
    match value {
        Value::String(text) => each(text, trail),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| visit(item, &LazyPath::Index(trail, index), each));
        }
        Value::Object(members) => {
            members.iter().for_each(|(key, value)| visit(value, &LazyPath::Key(trail, key), each));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The schema that n8n derives from the calls: an argument is optional if it has a default that fits its type.
pub(super) fn schema(arguments: &[Argument]) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for argument in arguments {
        let mut property = argument.kind.schema();
        if let Some(description) = argument.described() {
            property.insert("description".to_owned(), description.into());
        }
        if let Some(default) = &argument.default {
            property.insert("default".to_owned(), default.clone());
        }
        if !argument.default.as_ref().is_some_and(|default| argument.kind.fits(default)) {
            required.push(argument.key.as_str());
        }
        properties.insert(argument.key.clone(), property.into());
    }
    object_schema(properties, &required)
}

/// `required` is omitted if it would be empty, as Zod's converters do.
pub(super) fn object_schema(properties: Map<String, Value>, required: &[&str]) -> Value {
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    schema
}

impl FromAiKind {
    /// Whether n8n accepts a value of this type.
    fn fits(self, value: &Value) -> bool {
        match self {
            Self::String => value.is_string(),
            Self::Number => value.is_number(),
            Self::Boolean => value.is_boolean(),
            Self::Json => match value {
                Value::Object(members) => !members.is_empty(),
                Value::Array(items) => !items.is_empty(),
                _ => false,
            },
        }
    }

    pub(super) fn schema(self) -> Map<String, Value> {
        let schema = match self {
            Self::String => json!({"type": "string"}),
            Self::Number => json!({"type": "number"}),
            Self::Boolean => json!({"type": "boolean"}),
            // n8n accepts an object or a list that is not empty.
            Self::Json => {
                json!({"anyOf": [{"type": "object", "minProperties": 1}, {"type": "array", "minItems": 1}]})
            }
        };
        match schema {
            Value::Object(schema) => schema,
            _ => Map::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &Value) {
        let arguments: Vec<_> = calls(text).unwrap().into_iter().map(|call| call.argument).collect();
        assert_eq!(schema(&arguments), *expect, "{text}");
    }

    #[track_caller]
    fn fails(text: &str, part: &str) {
        let message = calls(text).unwrap_err();
        assert!(message.contains(part), "{message}");
    }

    #[test]
    fn calls_are_found_anywhere_in_a_text() {
        check("no call, and $fromAI is not one", &json!({"type": "object", "properties": {}}));
        check(
            "={{ $fromAI('q', 'the query text') }} and {{ $FROMAI ( `n`, \"how many\", 'number', 3 ) }}",
            &json!({"type": "object", "properties": {
                "q": {"type": "string", "description": "the query text"},
                "n": {"type": "number", "description": "how many", "default": 3},
            }, "required": ["q"]}),
        );
        check(
            "={{ /*n8n-auto-generated-fromAI-override*/ $fromAI('flag', ``, 'boolean', 'FALSE') }}",
            &json!({"type": "object", "properties": {"flag": {"type": "boolean", "default": false}}}),
        );
    }

    #[test]
    fn quotes_commas_and_parentheses_inside_of_texts_are_text() {
        check(
            r"={{ $fromAI('to', 'who (to, cc) it\'s for\n\\') }}",
            &json!({"type": "object", "properties": {
                "to": {"type": "string", "description": "who (to, cc) it's forn\\"},
            }, "required": ["to"]}),
        );
    }

    #[test]
    fn json_is_an_object_or_a_list() {
        check(
            "$fromAI('body', 'the body', 'json', '{\"a\": 1}')",
            &json!({"type": "object", "properties": {"body": {
                "anyOf": [{"type": "object", "minProperties": 1}, {"type": "array", "minItems": 1}],
                "description": "the body", "default": {"a": 1},
            }}}),
        );
    }

    #[test]
    fn a_default_is_parsed_by_its_type() {
        for (call, expect) in [
            ("$fromAI('a', '', 'number', '')", json!(0)),
            ("$fromAI('a', '', 'number', ' 25 ')", json!(25)),
            ("$fromAI('a', '', 'number', '0x1F')", json!(31)),
            ("$fromAI('a', '', 'number', 2.5)", json!(2.5)),
            ("$fromAI('a', '', 'number', 'many')", json!("many")),
            ("$fromAI('a', '', 'string', '5')", json!("5")),
            ("$fromAI('a', '', 'string', [{\"$match\":{\"rating\":5}}])", json!("[{\"$match\":{\"rating\":5}}]")),
            ("$fromAI('a', '', 'json', [{\"$match\":{\"rating\":5}}])", json!([{"$match": {"rating": 5}}])),
            ("$fromAI('a', '', 'boolean', TRUE)", json!(true)),
            ("$fromAI('a', '', 'boolean', 'maybe')", json!("maybe")),
        ] {
            assert_eq!(calls(call).unwrap()[0].argument.default, Some(expect), "{call}");
        }
    }

    #[test]
    fn a_default_that_does_not_fit_leaves_its_argument_required() {
        for (call, is_required) in [
            ("$fromAI('a', '', 'number', undefined)", true),
            ("$fromAI('a', '', 'boolean', 'maybe')", true),
            ("$fromAI('a', '', 'json', {})", true),
            ("$fromAI('a', '', 'json', [1])", false),
            ("$fromAI('a', '', 'number', '')", false),
        ] {
            let arguments = collect(&json!(call), &Path::root(), &Report::of_conversion()).unwrap();
            assert_eq!(schema(&arguments).get("required").is_some(), is_required, "{call}");
        }
    }

    #[test]
    fn an_argument_without_quotes_is_its_text() {
        for (call, description) in [
            ("$fromAI('limit', 25, 'number')", "25"),
            ("$fromAI('a', $json.text + ' x')", "$json.text + ' x'"),
            ("$fromAI('a', 'one' + 'two')", "one' + 'two"),
            ("$fromAI(a, undefined)", "undefined"),
        ] {
            assert_eq!(calls(call).unwrap()[0].argument.described(), Some(description), "{call}");
        }
    }

    #[test]
    fn a_default_that_is_a_key_is_not_copied() {
        let report = Report::of_conversion();
        let parameters = json!({"url": "$fromAI('a', 'x', 'string', 'sk-0123456789abcdef')"});
        assert_eq!(collect(&parameters, &Path::root(), &report).unwrap()[0].default, None);
        assert_eq!(report.take_warnings()[0].code, "secret_dropped");
    }

    #[test]
    fn a_call_that_cannot_be_read_says_why() {
        fails("$fromAI()", "no key");
        fails("$fromAI('')", "no key");
        fails("$fromAI('a b')", "key `a b`");
        fails("$fromAI($json.key)", "key `$json.key`");
        fails("$fromAI('a', 'b', 'date')", "`date` is not a type");
        fails("$fromAI('a', 'b'", "not closed");
        fails("$fromAI('a", "does not end");
    }

    #[test]
    fn one_key_may_be_used_twice_if_it_means_the_same() {
        let report = Report::of_conversion();
        let same = json!({"url": "$fromAI('a', 'x')", "list": [{"v": "$fromAI('a', 'x', 'string', 'y')"}]});
        let arguments = collect(&same, &Path::root(), &report).unwrap();
        assert_eq!(arguments.len(), 1);
        assert_eq!(arguments[0].default, Some("y".into()));

        let differs = json!({"url": "$fromAI('a', 'x')", "list": [{"v": "$fromAI('a', 'z')"}]});
        assert_eq!(collect(&differs, &Path::root(), &report), None);
        let faults = report.into_faults();
        assert_eq!((faults[0].code, faults[0].path.as_str()), ("from_ai_conflict", "list[0].v"));
    }
}
