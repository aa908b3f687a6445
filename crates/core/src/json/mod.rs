//! Strict JSON parsing, and canonical JSON.
//!
//! [`parse`] rejects what two parsers could read differently (duplicate keys) and what could exhaust memory or stack
//! (depth, size). [`canonical`] is RFC 8785, the form that is hashed. Nothing is repaired here: no comments, no
//! trailing commas, no `NaN`.
//!
//! Text that is too large to be parsed at all is checked against the grammar by [`checker`].

pub mod checker;

use std::{cell::Cell, cmp::Ordering, fmt, io};

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value, map::Entry};

use crate::{ContentHash, ceiling};

/// Limits of a JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonLimits {
    pub bytes: usize,
    /// Nesting of objects and arrays. Never more than [`JsonLimits::DEEPEST`].
    pub depth: usize,
    /// Memory of the parsed values: a text of `[0,0,…]` takes 36 times its length.
    pub memory: usize,
}

impl JsonLimits {
    /// One level deeper, `serde_json` gives up by itself: no text can exhaust the stack.
    pub const DEEPEST: usize = 126;
    /// The arguments of one call. Their size bounds their memory.
    pub const ARGUMENTS: Self = Self { bytes: ceiling::ARGUMENT_BYTES, depth: ceiling::JSON_DEPTH, memory: usize::MAX };
    /// A request body, a result, an event.
    pub const BODY: Self =
        Self { bytes: ceiling::BODY_BYTES, depth: ceiling::JSON_DEPTH, memory: ceiling::JSON_MEMORY_BYTES };
}

/// Why a text was rejected as JSON.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    #[error("{bytes} bytes exceed the limit of {limit}")]
    TooLarge { bytes: usize, limit: usize },
    #[error("its values would take more than {limit} bytes of memory; send fewer of them, or send them as text")]
    TooManyValues { limit: usize, line: usize, column: usize },
    #[error("nested deeper than {limit} levels at line {line} column {column}")]
    TooDeep { limit: usize, line: usize, column: usize },
    #[error("key `{key}` appears twice in one object, at line {line} column {column}")]
    DuplicateKey { key: String, line: usize, column: usize },
    /// `message` includes the position.
    #[error("{message}")]
    Syntax { message: String, line: usize, column: usize },
}

impl JsonError {
    /// Line and column of the fault, from 1; `None` if the whole text is at fault.
    #[must_use]
    pub fn position(&self) -> Option<(usize, usize)> {
        match *self {
            Self::TooLarge { .. } => None,
            Self::TooManyValues { line, column, .. }
            | Self::TooDeep { line, column, .. }
            | Self::DuplicateKey { line, column, .. }
            | Self::Syntax { line, column, .. } => Some((line, column)),
        }
    }
}

/// Parses one JSON value that fills the whole text.
///
/// # Errors
/// When the text is not strict JSON or exceeds `limits`.
pub fn parse(text: &str, limits: JsonLimits) -> Result<Value, JsonError> {
    if text.len() > limits.bytes {
        return Err(JsonError::TooLarge { bytes: text.len(), limit: limits.bytes });
    }
    let limit = limits.depth.min(JsonLimits::DEEPEST);
    let shared = ParseState { refused: Cell::new(None), memory: Cell::new(limits.memory) };
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let result = Strict { remaining: limit, shared: &shared }.deserialize(&mut deserializer).and_then(|value| {
        deserializer.end()?;
        Ok(value)
    });
    result.map_err(|error| {
        let (line, column) = (error.line(), error.column());
        match shared.refused.take() {
            Some(JsonRefusal::Memory) => JsonError::TooManyValues { limit: limits.memory, line, column },
            Some(JsonRefusal::Depth) => JsonError::TooDeep { limit, line, column },
            Some(JsonRefusal::Duplicate(key)) => JsonError::DuplicateKey { key, line, column },
            None => JsonError::Syntax { message: error.to_string(), line, column },
        }
    })
}

/// Why `Strict` rejected a text; serde's errors carry only text.
enum JsonRefusal {
    Depth,
    Memory,
    Duplicate(String),
}

/// State that all levels of one text share.
struct ParseState {
    refused: Cell<Option<JsonRefusal>>,
    /// The remaining memory budget.
    memory: Cell<usize>,
}

#[derive(Clone, Copy)]
struct Strict<'a> {
    remaining: usize,
    shared: &'a ParseState,
}

impl Strict<'_> {
    fn inside<E: serde::de::Error>(self) -> Result<Self, E> {
        match self.remaining.checked_sub(1) {
            Some(remaining) => Ok(Self { remaining, ..self }),
            None => Err(self.refuse(JsonRefusal::Depth)),
        }
    }

    /// Charges memory that is about to be allocated.
    fn charge<E: serde::de::Error>(self, bytes: usize) -> Result<(), E> {
        match self.shared.memory.get().checked_sub(bytes) {
            Some(left) => {
                self.shared.memory.set(left);
                Ok(())
            }
            None => Err(self.refuse(JsonRefusal::Memory)),
        }
    }

    fn refuse<E: serde::de::Error>(self, refused: JsonRefusal) -> E {
        self.shared.refused.set(Some(refused));
        E::custom("refused")
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Value, E> {
        self.charge(value.len())?;
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: serde::de::Error>(self, value: String) -> Result<Value, E> {
        self.charge(value.len())?;
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let inside = self.inside()?;
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(inside)? {
            self.charge(ITEM_BYTES)?;
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let inside = self.inside()?;
        let mut members = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            let table = match members.len() {
                0 => OBJECT_BYTES,
                count if count < OBJECT_MEMBERS => 0,
                _ => MEMBER_BYTES,
            };
            self.charge(table + key.len())?;
            match members.entry(key) {
                Entry::Vacant(place) => _ = place.insert(access.next_value_seed(inside)?),
                Entry::Occupied(twice) => return Err(self.refuse(JsonRefusal::Duplicate(twice.key().clone()))),
            }
        }
        Ok(Value::Object(members))
    }
}

/// The SHA-256 of the canonical form: equal for values that are equal as JSON.
#[must_use]
pub fn content_hash(value: &Value) -> ContentHash {
    ContentHash::of(canonical(value).as_bytes())
}

/// `value` on one line without spaces, with its keys in their order.
#[must_use]
pub fn compact(value: &Value) -> String {
    // The same text as `to_string`, in half the time. No value fails: its keys are strings.
    serde_json::to_string(value).unwrap_or_else(|_| value.to_string())
}

/// An upper estimate of the memory that the value of this text takes. A text of `[0,0,…]` is forty times as large in
/// memory as it is on the wire, so caches that count bytes count these.
#[must_use]
pub fn memory_of(text: &str) -> usize {
    // Every value except the first follows a comma or an opening bracket.
    let (mut values, mut objects) = (1, 0);
    // Chunks whose counts fit into a byte, so that the compiler counts many bytes at once.
    for chunk in text.as_bytes().chunks(usize::from(u8::MAX)) {
        let (mut values_here, mut objects_here) = (0_u8, 0_u8);
        for byte in chunk {
            values_here += u8::from(matches!(byte, b',' | b'[' | b'{'));
            objects_here += u8::from(*byte == b'{');
        }
        values += usize::from(values_here);
        objects += usize::from(objects_here);
    }
    text.len() + values * MEMBER_BYTES + objects * OBJECT_BYTES
}

/// The same for a value in memory.
#[must_use]
pub fn memory(value: &Value) -> usize {
    let mut bytes = 0;
    let mut pending = vec![value];
    while let Some(value) = pending.pop() {
        bytes += MEMBER_BYTES;
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
            Value::String(text) => bytes += text.len(),
            Value::Array(items) => pending.extend(items),
            Value::Object(members) => {
                bytes += OBJECT_BYTES + members.keys().map(String::len).sum::<usize>();
                pending.extend(members.values());
            }
        }
    }
    bytes
}

/// The same for a text in an object, with its key.
#[must_use]
pub fn memory_of_member(name: &str, text: &str) -> usize {
    MEMBER_BYTES + name.len() + text.len()
}

/// A value in an array.
const ITEM_BYTES: usize = size_of::<Value>();
/// A value in an object, with its key and its slot.
const MEMBER_BYTES: usize = ITEM_BYTES + 48;
/// The tables of an object with its first members, measured.
const OBJECT_BYTES: usize = 480;
const OBJECT_MEMBERS: usize = 3;

/// Whether `text` is what [`compact`] writes.
#[must_use]
pub fn is_compact(text: &str, value: &Value) -> bool {
    struct Rest<'a>(&'a [u8]);
    impl io::Write for Rest<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.strip_prefix(bytes).ok_or(io::ErrorKind::InvalidData)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut rest = Rest(text.as_bytes());
    serde_json::to_writer(&mut rest, value).is_ok() && rest.0.is_empty()
}

/// The length of `text` as a JSON string in bytes, without the quotes.
#[must_use]
pub fn escaped_size(text: &str) -> usize {
    let mut bytes = text.len();
    for byte in text.as_bytes() {
        bytes += match byte {
            b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 1,
            0..0x20 => 5,
            _ => 0,
        };
    }
    bytes
}

/// The length of [`compact`] in bytes.
#[must_use]
pub fn compact_size(value: &Value) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // No value fails: its keys are strings.
    serde_json::to_writer(&mut count, value).map_or_else(|_| value.to_string().len(), |()| count.0)
}

/// The canonical form of RFC 8785: keys in UTF-16 order, numbers as ECMAScript prints them.
///
/// Integers beyond 2^53 are written in full instead of being rounded as the RFC would: two calls
/// that differ in one digit must not share a hash.
#[must_use]
pub fn canonical(value: &Value) -> String {
    /// A pending step of the output, the next one last. An explicit stack instead of recursion, since a value made in
    /// code may be deeper than any text that `parse` accepts.
    enum WriteStep<'a> {
        Value(&'a Value),
        Key(&'a str),
        Mark(char),
    }
    let mut text = String::with_capacity(64);
    let mut steps = Vec::new();
    let mut next = Some(WriteStep::Value(value));
    while let Some(step) = next {
        match step {
            WriteStep::Mark(mark) => text.push(mark),
            WriteStep::Key(key) => {
                write_string(&mut text, key);
                text.push(':');
            }
            WriteStep::Value(Value::Null) => text.push_str("null"),
            WriteStep::Value(Value::Bool(value)) => text.push_str(if *value { "true" } else { "false" }),
            WriteStep::Value(Value::Number(number)) => write_number(&mut text, number),
            WriteStep::Value(Value::String(value)) => write_string(&mut text, value),
            WriteStep::Value(Value::Array(items)) => {
                text.push('[');
                steps.push(WriteStep::Mark(']'));
                for (index, item) in items.iter().enumerate().rev() {
                    steps.push(WriteStep::Value(item));
                    if index > 0 {
                        steps.push(WriteStep::Mark(','));
                    }
                }
            }
            WriteStep::Value(Value::Object(members)) => {
                let mut members: Vec<_> = members.iter().collect();
                members.sort_unstable_by(|(left, _), (right, _)| utf16_order(left, right));
                text.push('{');
                steps.reserve(3 * members.len() + 1);
                steps.push(WriteStep::Mark('}'));
                for (index, (key, value)) in members.into_iter().enumerate().rev() {
                    steps.push(WriteStep::Value(value));
                    steps.push(WriteStep::Key(key));
                    if index > 0 {
                        steps.push(WriteStep::Mark(','));
                    }
                }
            }
        }
        next = steps.pop();
    }
    text
}

fn write_string(text: &mut String, value: &str) {
    text.push('"');
    let mut written = 0;
    for (index, byte) in value.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\x08' => "\\b",
            b'\t' => "\\t",
            b'\n' => "\\n",
            b'\x0c' => "\\f",
            b'\r' => "\\r",
            // Including every byte of a non-ASCII character.
            b' '.. => continue,
            control => &format!("\\u{control:04x}"),
        };
        text.push_str(&value[written..index]);
        text.push_str(escape);
        written = index + 1;
    }
    text.push_str(&value[written..]);
    text.push('"');
}

/// The order of UTF-16 units is that of UTF-8 bytes, except for characters outside the Basic Multilingual Plane.
fn utf16_order(left: &str, right: &str) -> Ordering {
    if left.is_ascii() || right.is_ascii() { left.cmp(right) } else { left.encode_utf16().cmp(right.encode_utf16()) }
}

fn write_number(text: &mut String, number: &Number) {
    match number.as_f64() {
        Some(value) if number.is_f64() => text.push_str(&ecmascript_number(value)),
        _ => text.push_str(&number.to_string()),
    }
}

/// `Number.prototype.toString` of ECMA-262, section 6.1.6.1.20.
fn ecmascript_number(value: f64) -> String {
    if value == 0.0 {
        // Including minus zero.
        return "0".to_owned();
    }
    // Rust prints the shortest digits that parse as the same number, as ECMAScript requires; only the layout differs.
    let scientific = format!("{:e}", value.abs());
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let digits = mantissa.replace('.', "");
    let count = digits.len() as i32;
    // The position of the decimal point, in digits.
    let point = exponent.parse::<i32>().unwrap_or(0) + 1;
    let zeros = |count: i32| "0".repeat(usize::try_from(count).unwrap_or(0));
    let magnitude = if count <= point && point <= 21 {
        format!("{digits}{}", zeros(point - count))
    } else if 0 < point && point <= 21 {
        let (whole, fraction) = digits.split_at(usize::try_from(point).unwrap_or(0));
        format!("{whole}.{fraction}")
    } else if -6 < point && point <= 0 {
        format!("0.{}{digits}", zeros(-point))
    } else {
        let (first, rest) = digits.split_at(1);
        let fraction = if rest.is_empty() { String::new() } else { format!(".{rest}") };
        format!("{first}{fraction}e{:+}", point - 1)
    };
    if value < 0.0 { format!("-{magnitude}") } else { magnitude }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn refuses(text: &str, expect: &str) {
        assert_eq!(parse(text, JsonLimits::ARGUMENTS).unwrap_err().to_string(), expect);
    }

    #[test]
    fn only_strict_json_is_accepted() {
        refuses("", "EOF while parsing a value at line 1 column 0");
        refuses("{'a':1}", "key must be a string at line 1 column 2");
        refuses("{\"a\":1,}", "trailing comma at line 1 column 8");
        refuses("[1] 2", "trailing characters at line 1 column 5");
        refuses("[1, // one\n2]", "expected value at line 1 column 5");
        refuses("NaN", "expected value at line 1 column 1");
        refuses("1e999", "number out of range at line 1 column 5");
        refuses("\"\\ud800\"", "unexpected end of hex escape at line 1 column 8");
        refuses("{\"a\":tru", "EOF while parsing a value at line 1 column 8");
    }

    #[test]
    fn duplicate_keys_are_rejected() {
        refuses(r#"{"a":1,"a":2}"#, "key `a` appears twice in one object, at line 1 column 10");
        refuses("[{\"b\":{\"a\":1,\n\"\\u0061\":2}}]", "key `a` appears twice in one object, at line 2 column 8");
        assert!(parse(r#"{"a":{"a":1},"A":2}"#, JsonLimits::ARGUMENTS).is_ok());
    }

    #[test]
    fn depth_is_limited() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(parse(&nested(64), JsonLimits::ARGUMENTS).is_ok());
        refuses(&nested(65), "nested deeper than 64 levels at line 1 column 66");
        refuses(&"[".repeat(100_000), "nested deeper than 64 levels at line 1 column 65");
        refuses(&"{\"a\":".repeat(10_000), "nested deeper than 64 levels at line 1 column 321");
        let deepest = JsonLimits { depth: usize::MAX, ..JsonLimits::BODY };
        assert!(parse(&nested(126), deepest).is_ok());
        assert!(matches!(parse(&nested(127), deepest), Err(JsonError::TooDeep { limit: 126, .. })));
    }

    #[test]
    fn the_memory_of_a_text_is_estimated_from_its_values_and_objects() {
        for (text, values, objects) in [
            ("0".to_owned(), 1, 0),
            (r#"{"a":[1,2]}"#.to_owned(), 4, 1),
            ("{".repeat(1_000), 1_001, 1_000),
            (format!("[{}0]", "0,".repeat(1_000)), 1_002, 0),
        ] {
            assert_eq!(memory_of(&text), text.len() + values * MEMBER_BYTES + objects * OBJECT_BYTES, "{text}");
        }
    }

    #[test]
    fn the_memory_of_values_is_counted() {
        let limited = |memory| JsonLimits { memory, ..JsonLimits::BODY };
        let refused = |text: &str, memory| matches!(parse(text, limited(memory)), Err(JsonError::TooManyValues { .. }));
        // The value itself is on the stack; its allocations are counted.
        for (text, bytes) in [
            ("0", 0),
            ("\"text\"", 4),
            ("[0,0]", 2 * ITEM_BYTES),
            ("{}", 0),
            ("{\"key\":0}", OBJECT_BYTES + 3),
            ("{\"a\":0,\"b\":0,\"c\":0,\"d\":0}", MEMBER_BYTES + OBJECT_BYTES + 4),
            ("[{\"a\":\"b\",\"c\":[1]}]", 2 * ITEM_BYTES + OBJECT_BYTES + 3),
        ] {
            assert!(parse(text, limited(bytes)).is_ok(), "{text}");
            assert!(bytes == 0 || refused(text, bytes - 1), "{text}");
        }
        let zeros = format!("[{}0]", "0,".repeat(500_000));
        refuses_body(
            &zeros,
            "its values would take more than 16777216 bytes of memory; send fewer of them, or send them as text",
        );
        // Commas in a string do not separate values.
        assert!(parse(&format!("\"{zeros}\""), JsonLimits::BODY).is_ok());
    }

    #[track_caller]
    fn refuses_body(text: &str, expect: &str) {
        assert_eq!(parse(text, JsonLimits::BODY).unwrap_err().to_string(), expect);
    }

    #[test]
    fn size_is_checked_before_parsing() {
        let text = format!("\"{}\"", "a".repeat(256 * 1024));
        refuses(&text, "262146 bytes exceed the limit of 262144");
    }

    #[track_caller]
    fn check_canonical(text: &str, expect: &str) {
        assert_eq!(canonical(&parse(text, JsonLimits::BODY).unwrap()), expect);
    }

    #[test]
    fn the_examples_of_rfc_8785_hold() {
        check_canonical(
            "{\"numbers\": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
              \"string\": \"\\u20ac$\\u000F\\u000aA'\\u0042\\u0022\\u005c\\\\\\\"\\/\",
              \"literals\": [null, true, false]}",
            "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],\
             \"string\":\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}",
        );
        check_canonical(
            "{\"\\u20ac\": 1, \"\\r\": 2, \"\\ufb33\": 3, \"1\": 4, \"\\ud83d\\ude00\": 5, \"\\u0080\": 6, \"\\u00f6\": 7}",
            "{\"\\r\":2,\"1\":4,\"\u{80}\":6,\"ö\":7,\"€\":1,\"😀\":5,\"\u{fb33}\":3}",
        );
    }

    #[test]
    fn numbers_are_written_as_ecmascript_writes_them() {
        for (text, expect) in [
            ("0.0", "0"),
            ("-0.0", "0"),
            ("1.0", "1"),
            ("-1.5", "-1.5"),
            ("5e-324", "5e-324"),
            ("1.7976931348623157e308", "1.7976931348623157e+308"),
            ("1e21", "1e+21"),
            ("1e20", "100000000000000000000"),
            ("295147905179352830000", "295147905179352830000"),
            ("0.000001", "0.000001"),
            ("0.0000001", "1e-7"),
            ("123456.789", "123456.789"),
            ("9007199254740993", "9007199254740993"),
            ("18446744073709551615", "18446744073709551615"),
        ] {
            check_canonical(text, expect);
        }
    }

    #[test]
    fn the_order_of_keys_does_not_change_the_hash() {
        assert_eq!(content_hash(&json!({"a": 1, "b": [2.0]})), content_hash(&json!({"b": [2], "a": 1.0})));
        assert_ne!(content_hash(&json!({"a": 1})), content_hash(&json!({"a": "1"})));
    }

    #[test]
    fn a_value_deeper_than_any_stack_has_a_canonical_form() {
        let mut value = json!(1);
        for _ in 0..10_000 {
            value = Value::Array(vec![value]);
        }
        assert_eq!(canonical(&value).len(), 20_001);
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            proptest::strategy::Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_filter_map("finite", |number| Number::from_f64(number).map(Value::Number)),
            any::<String>().prop_map(Value::String),
        ];
        leaf.prop_recursive(5, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Value::Array),
                prop::collection::btree_map(any::<String>(), inner, 0..8)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    #[test]
    fn numbers_are_parsed_exactly() {
        for (text, expect) in [
            ("0", json!(0)),
            ("-1", json!(-1)),
            ("18446744073709551615", json!(u64::MAX)),
            ("18446744073709551616", json!(18446744073709551616.0)),
            ("-9223372036854775808", json!(i64::MIN)),
            ("-9223372036854775809", json!(-9223372036854775809.0)),
            ("0.1", json!(0.1)),
            ("-0.25", json!(-0.25)),
            ("1.0", json!(1.0)),
            ("1e2", json!(100.0)),
            ("1E+2", json!(100.0)),
            ("123456789012345678901234567890.5e-10", json!(1.2345678901234567e19)),
            ("9007199254740993.0", json!(9007199254740992.0)),
            ("0.30000000000000004", json!(0.30000000000000004)),
            ("5e-324", json!(5e-324)),
        ] {
            assert_eq!(parse(text, JsonLimits::BODY).unwrap(), expect, "{text}");
        }
        let zero = parse("-0", JsonLimits::BODY).unwrap();
        assert!(zero.as_f64().unwrap().is_sign_negative() && zero.is_f64());
    }

    #[test]
    fn everything_else_is_rejected() {
        for text in [
            "",
            " ",
            "nul",
            "nulll",
            "tru",
            "+1",
            "01",
            "-",
            "-01",
            "1.",
            ".5",
            "1e",
            "1e+",
            "1e999",
            "--1",
            "0x1",
            "NaN",
            "\"",
            "\"\\",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\u12g4\"",
            "\"\\ud800\"",
            "\"\\ud800\\u0041\"",
            "\"\\udc00\"",
            "\"\t\"",
            "\"\n\"",
            "[",
            "[1",
            "[1,",
            "[1,]",
            "[,1]",
            "[1 2]",
            "]",
            "{",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":1",
            "{\"a\":1,",
            "{\"a\":1,}",
            "{a:1}",
            "{'a':1}",
            "{\"a\" 1}",
            "{\"a\":1 \"b\":2}",
            "1 2",
            "[1] // one",
            "\u{feff}1",
            "{\"a\":1,\"a\":2}",
            "{\"a\":1,\"\\u0061\":2}",
        ] {
            assert!(parse(text, JsonLimits::BODY).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn keys_are_in_the_order_of_utf_16(left in any::<String>(), right in any::<String>(), ascii in "[ -~]{0,3}") {
            for (left, right) in [(&left, &right), (&left, &ascii), (&ascii, &right)] {
                prop_assert_eq!(utf16_order(left, right), left.encode_utf16().cmp(right.encode_utf16()));
            }
        }

        #[test]
        fn the_canonical_form_reads_back_as_itself(value in any_json()) {
            let text = canonical(&value);
            let again = parse(&text, JsonLimits { bytes: usize::MAX, ..JsonLimits::ARGUMENTS }).unwrap();
            prop_assert_eq!(canonical(&again), text);
        }

        #[test]
        fn a_text_has_the_size_that_serde_writes(text in any::<String>()) {
            prop_assert_eq!(escaped_size(&text) + 2, compact(&Value::String(text)).len());
        }

        #[test]
        fn a_value_takes_no_more_memory_than_its_text_says(value in any_json()) {
            prop_assert!(memory(&value) <= memory_of(&compact(&value)));
        }

        #[test]
        fn the_compact_form_is_known_without_being_written(value in any_json(), other in any_json()) {
            let text = compact(&value);
            prop_assert_eq!(compact_size(&value), text.len());
            prop_assert_eq!(is_compact(&text, &other), text == compact(&other));
            for text in [format!("{text} "), format!(" {text}"), text[..text.floor_char_boundary(text.len() - 1)].into()] {
                prop_assert!(!is_compact(&text, &value), "{text}");
            }
            prop_assert!(is_compact(&text, &value));
        }

        #[test]
        fn whatever_serde_writes_is_read_unchanged(value in any_json()) {
            let text = serde_json::to_string(&value).unwrap();
            prop_assert_eq!(parse(&text, JsonLimits { bytes: usize::MAX, ..JsonLimits::ARGUMENTS }).unwrap(), value);
        }
    }
}
