//! The values that source can express without being run.
//!
//! They follow JavaScript where the result depends on it: keys that look like array indices come first, numbers are
//! doubles, `undefined` is not `null`. A value that cannot be determined is [`ZodValue::Unreadable`] and carries its
//! problems to its users.

use std::rc::Rc;

use indexmap::IndexMap;
use oxc_ast::ast::{ArrowFunctionExpression, Function as FunctionNode};
use serde_json::{Map, Number, Value as Json};

use super::fault::{FaultCollector, Problems, ReadSchema, ZodProblem};

/// Maximum size of one JSON document, in [`weight`]. Constants that use constants grow exponentially.
pub(super) const MOST_NODES: usize = 50_000;

/// Maximum weight of all schemas of a file together.
pub(super) const MOST_WEIGHT: usize = 1_000_000;

/// Maximum length of a text that reading may build.
pub(super) const LONGEST_TEXT: usize = 256 * 1024;

/// Maximum length of a list that reading may build.
pub(super) const LONGEST_LIST: usize = 50_000;

/// The id of a schema that a library made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct SchemaId(pub(super) usize);

/// The id of a check that Zod 4 made outside of a schema, as in `z.string().check(z.minLength(5))`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CheckId(pub(super) usize);

#[derive(Clone, Debug)]
pub(super) enum ZodValue<'a> {
    Undefined,
    Null,
    Bool(bool),
    Number(f64),
    BigInt(i128),
    Text(Rc<str>),
    Regex(Rc<Regex>),
    List(Rc<Vec<ZodValue<'a>>>),
    Record(Rc<ZodRecord<'a>>),
    Function(ZodFunction<'a>),
    Schema(SchemaId),
    Check(CheckId),
    /// A member of Zod by its dotted name: `""` is `z`, `coerce`, `iso.date`, `string`.
    Zod(Rc<str>),
    /// A global of the language by its dotted name: `Number`, `Object.keys`.
    Global(&'static str),
    /// An object whose content is irrelevant here, such as `new Date(…)`.
    Instance(&'static str),
    Unreadable(Problems),
}

/// A regular expression; two of them are equal only if they are the same object.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Regex {
    pub(super) source: String,
    pub(super) flags: String,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum ZodFunction<'a> {
    Arrow(&'a ArrowFunctionExpression<'a>),
    Full(&'a FunctionNode<'a>),
    /// `String`, `Number` or `Boolean`, passed as a function.
    Global(&'static str),
}

/// An object literal, in the order in which JavaScript lists its keys.
#[derive(Clone, Debug, Default)]
pub(super) struct ZodRecord<'a> {
    members: IndexMap<String, ZodMember<'a>>,
    /// Where the literal begins.
    pub(super) offset: u32,
}

#[derive(Clone, Debug)]
pub(super) struct ZodMember<'a> {
    pub(super) value: ZodValue<'a>,
    pub(super) offset: u32,
    /// `get key() { … }`: the value is the function, called on demand.
    pub(super) getter: bool,
}

impl<'a> ZodRecord<'a> {
    pub(super) fn new(offset: u32, members: impl IntoIterator<Item = (String, ZodMember<'a>)>) -> Self {
        let mut members: IndexMap<String, ZodMember<'a>> = members.into_iter().collect();
        if members.keys().any(|key| array_index(key).is_some()) {
            members.sort_by_cached_key(|key, _| array_index(key).map_or(u64::MAX, u64::from));
        }
        Self { members, offset }
    }

    pub(super) fn get(&self, key: &str) -> Option<&ZodMember<'a>> {
        self.members.get(key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &ZodMember<'a>)> {
        self.members.iter().map(|(key, member)| (key.as_str(), member))
    }

    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.members.keys().map(String::as_str)
    }
}

/// The number of a key that JavaScript lists before all others: `"0"`, `"17"`, but not `"01"`.
pub(super) fn array_index(key: &str) -> Option<u32> {
    let number: u32 = key.parse().ok().filter(|number| *number != u32::MAX)?;
    (number.to_string() == key).then_some(number)
}

impl<'a> ZodValue<'a> {
    pub(super) fn text(text: impl Into<Rc<str>>) -> Self {
        Self::Text(text.into())
    }

    pub(super) fn list(values: Vec<ZodValue<'a>>) -> Self {
        Self::List(Rc::new(values))
    }

    /// The type for messages, much like `typeof`.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Undefined => "undefined",
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::BigInt(_) => "a bigint",
            Self::Text(_) => "a string",
            Self::Regex(_) => "a regular expression",
            Self::List(_) => "an array",
            Self::Record(_) => "an object",
            Self::Function(_) => "a function",
            Self::Schema(_) => "a schema",
            Self::Check(_) => "a check",
            Self::Zod(_) => "a part of Zod",
            Self::Global(_) => "a global",
            Self::Instance(_) => "an instance of a class",
            Self::Unreadable(_) => "a value that cannot be read",
        }
    }

    /// Whether the value is truthy; `None` if that cannot be determined.
    pub(super) fn truthy(&self) -> Option<bool> {
        match self {
            Self::Undefined | Self::Null => Some(false),
            Self::Bool(value) => Some(*value),
            Self::Number(value) => Some(*value != 0.0 && !value.is_nan()),
            Self::BigInt(value) => Some(*value != 0),
            Self::Text(value) => Some(!value.is_empty()),
            Self::Unreadable(_) => None,
            _ => Some(true),
        }
    }

    /// The result of `String(value)` for a primitive.
    pub(super) fn to_text(&self) -> Option<String> {
        match self {
            Self::Undefined => Some("undefined".to_owned()),
            Self::Null => Some("null".to_owned()),
            Self::Bool(value) => Some(value.to_string()),
            Self::Number(value) => Some(number_text(*value)),
            Self::BigInt(value) => Some(value.to_string()),
            Self::Text(value) => Some(value.as_ref().to_owned()),
            _ => None,
        }
    }

    /// `===` for primitives. Two objects are never equal here, and neither is `NaN`.
    pub(super) fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Undefined, Self::Undefined) | (Self::Null, Self::Null) => true,
            (Self::Bool(left), Self::Bool(right)) => left == right,
            (Self::Number(left), Self::Number(right)) => left == right,
            (Self::BigInt(left), Self::BigInt(right)) => left == right,
            (Self::Text(left), Self::Text(right)) => left == right,
            _ => false,
        }
    }

    /// The result of `JSON.stringify`; `None` for values that it omits.
    pub(super) fn to_json(&self, offset: u32) -> ReadSchema<Option<Json>> {
        let mut nodes = MOST_NODES;
        self.to_json_within(offset, &mut nodes)
    }

    fn to_json_within(&self, offset: u32, nodes: &mut usize) -> ReadSchema<Option<Json>> {
        let weight = if let Self::Text(text) = self { text_weight(text) } else { 1 };
        *nodes = nodes.checked_sub(weight).ok_or_else(|| too_large(offset))?;
        Ok(Some(match self {
            Self::Undefined | Self::Function(_) => return Ok(None),
            Self::Null => Json::Null,
            Self::Bool(value) => Json::Bool(*value),
            Self::Number(value) => number_json(*value),
            Self::BigInt(value) => bigint_json(*value, offset)?,
            Self::Text(value) => Json::String(value.as_ref().to_owned()),
            Self::Regex(_) => Json::Object(Map::new()),
            Self::List(values) => {
                let mut gather = FaultCollector::default();
                let items: Vec<Json> = values
                    .iter()
                    .filter_map(|value| gather.take(value.to_json_within(offset, nodes)))
                    .map(|value| value.unwrap_or(Json::Null))
                    .collect();
                Json::Array(gather.finish(items)?)
            }
            Self::Record(record) => {
                let mut gather = FaultCollector::default();
                let mut object = Map::new();
                for (key, member) in record.iter() {
                    if member.getter {
                        gather.take::<()>(Err(unreadable_getter(key, member.offset)));
                    } else if let Some(Some(value)) = gather.take(member.value.to_json_within(member.offset, nodes)) {
                        object.insert(key.to_owned(), value);
                    }
                }
                Json::Object(gather.finish(object)?)
            }
            Self::Unreadable(problems) => return Err(problems.clone()),
            Self::Schema(_) | Self::Check(_) | Self::Zod(_) | Self::Global(_) | Self::Instance(_) => {
                let message = format!("{} cannot be written as JSON", self.kind());
                return Err(ZodProblem::new(offset, "not_json", message).into());
            }
        }))
    }
}

/// The weight of a JSON document: one for every value, and more for long texts.
pub(super) fn weight(json: &Json) -> usize {
    match json {
        Json::Null | Json::Bool(_) | Json::Number(_) => 1,
        Json::String(text) => text_weight(text),
        Json::Array(items) => 1 + items.iter().map(weight).sum::<usize>(),
        Json::Object(members) => 1 + members.iter().map(|(key, value)| text_weight(key) + weight(value)).sum::<usize>(),
    }
}

pub(super) fn text_weight(text: &str) -> usize {
    1 + text.len() / 64
}

pub(super) fn too_large(offset: u32) -> Problems {
    let problem =
        ZodProblem::new(offset, "value_too_large", format!("the value is made of more than {MOST_NODES} parts"));
    problem.hint("constants that use constants several times grow exponentially").into()
}

fn unreadable_getter(key: &str, offset: u32) -> Problems {
    ZodProblem::new(offset, "computed_value", format!("the getter `{key}` would have to be run")).into()
}

/// A double as JSON writes it: integers without a fraction, `null` for what is not finite.
pub(super) fn number_json(value: f64) -> Json {
    const LARGEST_EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= LARGEST_EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "a whole number of at most 53 bits fits")]
        return Json::Number(Number::from(value as i64));
    }
    Number::from_f64(value).map_or(Json::Null, Json::Number)
}

pub(super) fn bigint_json(value: i128, offset: u32) -> ReadSchema<Json> {
    i64::try_from(value)
        .map(Number::from)
        .or_else(|_| u64::try_from(value).map(Number::from))
        .map(Json::Number)
        .map_err(|_| ZodProblem::new(offset, "number_too_large", format!("{value} does not fit into 64 bits")).into())
}

/// A double as JavaScript prints it.
pub(super) fn number_text(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let magnitude = value.abs();
    if (1e-6..1e21).contains(&magnitude) {
        return value.to_string();
    }
    // Rust prints `1e21` and `1e-7`; JavaScript puts the sign of the exponent.
    let text = format!("{value:e}");
    if text.contains("e-") { text } else { text.replace('e', "e+") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{ZodMember, ZodRecord, ZodValue, number_json, number_text};

    #[test]
    fn keys_that_look_like_indices_come_first() {
        let member = || ZodMember { value: ZodValue::Null, offset: 0, getter: false };
        let record = ZodRecord::new(0, ["b", "10", "01", "2", "a"].map(|key| (key.to_owned(), member())));
        assert_eq!(record.keys().collect::<Vec<_>>(), ["2", "10", "b", "01", "a"]);
    }

    #[test]
    fn numbers_print_as_in_javascript() {
        for (number, text) in [
            (1.0, "1"),
            (-0.0, "0"),
            (0.1, "0.1"),
            (1e21, "1e+21"),
            (1.5e300, "1.5e+300"),
            (1e-7, "1e-7"),
            (123_456_789_012_345_680_000.0, "123456789012345680000"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(number_text(number), text);
        }
    }

    #[test]
    fn numbers_that_json_lacks_are_null() {
        assert_eq!(number_json(f64::INFINITY), json!(null));
        assert_eq!(number_json(5.0), json!(5));
        assert_eq!(number_json(-0.0), json!(0));
        assert_eq!(number_json(0.5), json!(0.5));
        assert_eq!(number_json(9_007_199_254_740_991.0), json!(9_007_199_254_740_991_i64));
    }
}
