//! `$fromAI(key, description, type, default)`: values of an n8n node that the model fills in.
//!
//! The calls are found as n8n finds them, in every text of a node's parameters. They are parsed, never evaluated: an
//! argument must be a literal. n8n's rules for keys apply here too.

use std::ops::Range;

use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use crate::{
    document::{Path, Trail},
    format::clip,
    found::Report,
};

/// The parameters of one call.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Argument {
    pub(super) key: String,
    pub(super) description: Option<String>,
    pub(super) kind: FromAiKind,
    pub(super) default: Option<Value>,
    /// An argument that is an expression, which only n8n can evaluate.
    pub(super) dynamic: Option<String>,
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

/// One argument of a call, as it is written.
enum WrittenArgument {
    Literal(String),
    /// Anything that is not in quotes.
    Bare(String),
}

/// The arguments after the opening parenthesis, and the offset after the closing one.
fn arguments(text: &str, start: usize) -> Result<(Vec<WrittenArgument>, usize), String> {
    let mut values = Vec::new();
    let mut current = String::new();
    let mut literal: Option<String> = None;
    let mut depth = 0_usize;
    let mut letters = text[start..].char_indices();
    let mut push = |current: &mut String, literal: &mut Option<String>| {
        let bare = std::mem::take(current);
        values.push(match literal.take() {
            Some(literal) if bare.trim().is_empty() => WrittenArgument::Literal(literal),
            Some(literal) => WrittenArgument::Bare(format!("{}'{literal}'", bare.trim())),
            None => WrittenArgument::Bare(bare.trim().to_owned()),
        });
    };
    while let Some((offset, letter)) = letters.next() {
        match letter {
            '\'' | '"' | '`' => {
                let content = string(&mut letters, letter)
                    .ok_or_else(|| format!("a text in `$fromAI({}` does not end", clip(&text[start..])))?;
                match &mut literal {
                    None => literal = Some(content),
                    // Two strings in one argument are an expression.
                    Some(_) => current.push_str(&content),
                }
            }
            ')' if depth == 0 => {
                if !text[start..start + offset].trim().is_empty() {
                    push(&mut current, &mut literal);
                }
                return Ok((values, start + offset + 1));
            }
            ',' if depth == 0 => push(&mut current, &mut literal),
            _ => {
                match letter {
                    '(' | '[' | '{' => depth += 1,
                    ')' | ']' | '}' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                current.push(letter);
            }
        }
    }
    Err(format!("the parenthesis of `$fromAI({}` is not closed", clip(&text[start..])))
}

/// The rest of a JavaScript string, without its quotes.
fn string(letters: &mut std::str::CharIndices<'_>, quote: char) -> Option<String> {
    let mut content = String::new();
    while let Some((_, letter)) = letters.next() {
        match letter {
            '\\' => match letters.next()?.1 {
                'n' => content.push('\n'),
                't' => content.push('\t'),
                'r' => content.push('\r'),
                other => content.push(other),
            },
            _ if letter == quote => return Some(content),
            _ => content.push(letter),
        }
    }
    None
}

fn argument(values: &[WrittenArgument]) -> Result<Argument, String> {
    let key = match values.first() {
        Some(WrittenArgument::Literal(key)) => key.clone(),
        Some(WrittenArgument::Bare(expression)) if !expression.is_empty() => {
            return Err(format!("the key of `$fromAI({})` is an expression", clip(expression)));
        }
        _ => return Err("`$fromAI()` has no key".to_owned()),
    };
    let is_key = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    if key.is_empty() || key.len() > 64 || !key.chars().all(is_key) {
        return Err(format!("the key `{}` of `$fromAI` is not 1 to 64 letters, digits, `_` or `-`", clip(&key)));
    }
    let mut dynamic = None;
    let description = match values.get(1) {
        Some(WrittenArgument::Literal(text)) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
        Some(WrittenArgument::Bare(text)) if matches!(text.as_str(), "" | "undefined" | "null") => None,
        Some(WrittenArgument::Bare(expression)) => {
            dynamic = Some(expression.clone());
            None
        }
        None => None,
    };
    let kind = match values.get(2) {
        None => FromAiKind::String,
        Some(WrittenArgument::Literal(text) | WrittenArgument::Bare(text)) => {
            match text.to_ascii_lowercase().as_str() {
                "string" | "" | "undefined" => FromAiKind::String,
                "number" => FromAiKind::Number,
                "boolean" => FromAiKind::Boolean,
                "json" => FromAiKind::Json,
                _ => return Err(format!("`{}` is no type of `$fromAI`: string, number, boolean or json", clip(text))),
            }
        }
    };
    let default = match values.get(3) {
        None => None,
        Some(WrittenArgument::Bare(text)) if matches!(text.as_str(), "" | "undefined") => None,
        Some(WrittenArgument::Literal(text) | WrittenArgument::Bare(text)) => Some(default(text, kind)),
    };
    Ok(Argument { key, description, kind, default, dynamic })
}

/// A default is written as text whatever its type; n8n parses it by the type, else as JSON, else as text.
fn default(text: &str, kind: FromAiKind) -> Value {
    match kind {
        FromAiKind::String => text.into(),
        FromAiKind::Boolean if text.eq_ignore_ascii_case("true") => true.into(),
        FromAiKind::Boolean if text.eq_ignore_ascii_case("false") => false.into(),
        FromAiKind::Number | FromAiKind::Boolean | FromAiKind::Json => {
            serde_json::from_str(text).unwrap_or_else(|_| text.into())
        }
    }
}

/// The arguments of all calls in a node's parameters; `None` if one of them cannot be read.
pub(super) fn collect(parameters: &Value, path: &Path, report: &Report) -> Option<Vec<Argument>> {
    let faults = report.fault_count();
    let mut arguments: IndexMap<String, Argument> = IndexMap::new();
    visit(parameters, &Trail::At(path), &mut |text, trail| match calls(text) {
        Err(message) => report.fault_on_trail(trail, "from_ai_unreadable", message),
        Ok(calls) => calls.into_iter().for_each(|call| add(&mut arguments, call.argument, trail, report)),
    });
    (report.fault_count() == faults).then(|| arguments.into_values().collect())
}

fn add(arguments: &mut IndexMap<String, Argument>, argument: Argument, trail: &Trail<'_>, report: &Report) {
    if let Some(expression) = &argument.dynamic {
        let message = format!(
            "the description of `{}` is the expression `{}`, which is left out",
            argument.key,
            clip(expression)
        );
        report.warn_on_trail(trail, "from_ai_expression", message);
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
fn visit(value: &Value, trail: &Trail<'_>, each: &mut impl FnMut(&str, &Trail<'_>)) {
    match value {
        Value::String(text) => each(text, trail),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| visit(item, &Trail::Index(trail, index), each));
        }
        Value::Object(members) => members.iter().for_each(|(key, value)| visit(value, &Trail::Key(trail, key), each)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The schema that n8n derives from the calls: an argument with a default is optional.
pub(super) fn schema(arguments: &[Argument]) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for argument in arguments {
        let mut property = argument.kind.schema();
        if let Some(description) = &argument.description {
            property.insert("description".to_owned(), description.as_str().into());
        }
        match &argument.default {
            Some(default) => {
                property.insert("default".to_owned(), default.clone());
            }
            None => required.push(argument.key.as_str()),
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
                "to": {"type": "string", "description": "who (to, cc) it's for\n\\"},
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
    fn a_description_that_is_an_expression_is_left_out() {
        let calls = calls("$fromAI('a', $json.text + ' x')").unwrap();
        assert_eq!(calls[0].argument.description, None);
        assert!(calls[0].argument.dynamic.is_some());
    }

    #[test]
    fn a_call_that_cannot_be_read_says_why() {
        fails("$fromAI()", "no key");
        fails("$fromAI('')", "key ``");
        fails("$fromAI('a b')", "key `a b`");
        fails("$fromAI($json.key)", "is an expression");
        fails("$fromAI('a', 'b', 'date')", "`date` is no type");
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
