//! JSON as it was written: texts borrowed from the source, members in their order.
//!
//! A [`Tree`] is what a check of arguments looks at. Making one costs a fraction of a
//! [`serde_json::Value`], which owns a copy of every key and hashes it; who needs a `Value` turns the
//! tree into one when the check has passed. The reader is strict: the grammar of RFC 8259 and nothing
//! else, no key twice, no deeper than it is told. It says only *that* a text is not taken;
//! [`super::parse`] says why.

use std::{borrow::Cow, cmp::Ordering};

use serde_json::{Map, Number, Value};

/// One JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Tree<'t> {
    Null,
    Bool(bool),
    Number(Number),
    Text(Cow<'t, str>),
    Array(Vec<Tree<'t>>),
    Object(Members<'t>),
}

/// The members of an object, in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Members<'t>(Vec<Member<'t>>);

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member<'t> {
    pub(crate) key: Cow<'t, str>,
    hash: u32,
    /// In an object of many, the n-th member says where the n-th by hash and key is. Here, and not in
    /// a list of its own, since it costs nothing here.
    nth: u32,
    pub(crate) value: Tree<'t>,
}

/// A key to look for, in many objects.
#[derive(Debug)]
pub(crate) struct Key {
    hash: u32,
    text: Box<str>,
}

impl Key {
    pub(crate) fn new(text: &str) -> Self {
        Self { hash: hash(text), text: text.into() }
    }
}

/// Which hashes there were, roughly.
#[derive(Default)]
struct Seen([u64; 4]);

impl Seen {
    /// `false` for a hash that is certainly new.
    fn insert(&mut self, hash: u32) -> bool {
        let (word, bit) = (&mut self.0[(hash >> 6) as usize % 4], 1 << (hash % 64));
        let was_there = *word & bit != 0;
        *word |= bit;
        was_there
    }
}

/// Up to so many members are looked at one by one.
const FEW: usize = 32;

impl<'t> Members<'t> {
    /// `None` if a key stands twice.
    fn new(mut list: Vec<Member<'t>>) -> Option<Self> {
        let has_twice = if list.len() <= FEW {
            let mut seen = Seen::default();
            let mut members = list.iter().enumerate();
            members.any(|(index, member)| {
                seen.insert(member.hash) && list[..index].iter().any(|other| other.has_key_of(member))
            })
        } else {
            let mut sorted: Vec<u32> = (0..u32::try_from(list.len()).ok()?).collect();
            sorted.sort_unstable_by(|left, right| list[*left as usize].order(&list[*right as usize]));
            for (member, nth) in list.iter_mut().zip(&sorted) {
                member.nth = *nth;
            }
            sorted.windows(2).any(|pair| list[pair[0] as usize].has_key_of(&list[pair[1] as usize]))
        };
        (!has_twice).then_some(Self(list))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Member<'t>> {
        self.0.iter()
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Tree<'t>> {
        let found = if self.len() <= FEW {
            self.iter().find(|member| member.hash == key.hash && *member.key == *key.text)?
        } else {
            let nth = |member: &Member<'_>| &self.0[member.nth as usize];
            let order = |member: &Member<'t>| {
                let member = nth(member);
                member.hash.cmp(&key.hash).then_with(|| (*member.key).cmp(&*key.text))
            };
            nth(&self.0[self.0.binary_search_by(order).ok()?])
        };
        Some(&found.value)
    }
}

impl<'t> Member<'t> {
    fn new(key: Cow<'t, str>, value: Tree<'t>) -> Self {
        Self { hash: hash(&key), key, nth: 0, value }
    }

    fn has_key_of(&self, other: &Self) -> bool {
        self.hash == other.hash && self.key == other.key
    }

    /// Equal for equal keys only, so that chosen keys cannot collide.
    fn order(&self, other: &Self) -> Ordering {
        self.hash.cmp(&other.hash).then_with(|| self.key.cmp(&other.key))
    }
}

/// Tells most keys apart by their ends and their length.
fn hash(key: &str) -> u32 {
    let bytes = key.as_bytes();
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0_u64, |word, byte| (word << 8) | u64::from(*byte));
    let (first, last) = match (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
        _ => (word(bytes), 0),
    };
    let mixed = (first ^ last.rotate_left(29) ^ bytes.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as u32
}

impl<'t> Tree<'t> {
    /// Reads one value that fills the whole text; `None` if it is not taken.
    pub(crate) fn read(text: &'t str, depth: usize) -> Option<Self> {
        let mut reader = Reader { text, bytes: text.as_bytes(), at: 0, items: Vec::new(), members: Vec::new() };
        reader.space();
        let value = reader.value(depth)?;
        reader.space();
        (reader.at == text.len()).then_some(value)
    }

    /// The same value as it is held elsewhere. Recurses: the depth must be known.
    pub(crate) fn of(value: &'t Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => Self::Number(number.clone()),
            Value::String(text) => Self::Text(Cow::Borrowed(text)),
            Value::Array(items) => Self::Array(items.iter().map(Self::of).collect()),
            Value::Object(members) => {
                let members = members.iter().map(|(key, value)| Member::new(Cow::Borrowed(key), Self::of(value)));
                // A map has no key twice.
                Self::Object(Members::new(members.collect()).unwrap_or_default())
            }
        }
    }

    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Number(number) => Value::Number(number.clone()),
            Self::Text(text) => Value::String(text.as_ref().to_owned()),
            Self::Array(items) => Value::Array(items.iter().map(Self::to_value).collect()),
            Self::Object(members) => {
                let mut map = Map::with_capacity(members.len());
                for member in members.iter() {
                    map.insert(member.key.as_ref().to_owned(), member.value.to_value());
                }
                Value::Object(map)
            }
        }
    }
}

/// Reads a text from front to back. Whatever is not taken ends it.
struct Reader<'t> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
    /// What the arrays and objects that are still open hold so far, so that each is made at its size.
    items: Vec<Tree<'t>>,
    members: Vec<Member<'t>>,
}

/// Where a run of plain characters in a string ends: a quote, a backslash, a control character.
const ENDS_RUN: [bool; 256] = {
    let mut ends = [false; 256];
    let mut control = 0;
    while control < 0x20 {
        ends[control] = true;
        control += 1;
    }
    ends[b'"' as usize] = true;
    ends[b'\\' as usize] = true;
    ends
};

/// Powers of ten that a double holds exactly.
const EXACT_POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

impl<'t> Reader<'t> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\t' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn word(&mut self, word: &str, value: Tree<'t>) -> Option<Tree<'t>> {
        self.bytes[self.at..].starts_with(word.as_bytes()).then(|| self.at += word.len())?;
        Some(value)
    }

    fn value(&mut self, depth: usize) -> Option<Tree<'t>> {
        match self.peek()? {
            b'"' => self.string().map(Tree::Text),
            b'{' => self.object(depth.checked_sub(1)?),
            b'[' => self.array(depth.checked_sub(1)?),
            b'-' | b'0'..=b'9' => self.number().map(Tree::Number),
            b't' => self.word("true", Tree::Bool(true)),
            b'f' => self.word("false", Tree::Bool(false)),
            b'n' => self.word("null", Tree::Null),
            _ => None,
        }
    }

    fn array(&mut self, depth: usize) -> Option<Tree<'t>> {
        self.at += 1;
        self.space();
        let first = self.items.len();
        if !self.take(b']') {
            loop {
                let item = self.value(depth)?;
                self.items.push(item);
                self.space();
                if self.take(b']') {
                    break;
                }
                self.take(b',').then_some(())?;
                self.space();
            }
        }
        Some(Tree::Array(self.items.drain(first..).collect()))
    }

    fn object(&mut self, depth: usize) -> Option<Tree<'t>> {
        self.at += 1;
        self.space();
        let first = self.members.len();
        if !self.take(b'}') {
            loop {
                (self.peek() == Some(b'"')).then_some(())?;
                let key = self.string()?;
                self.space();
                self.take(b':').then_some(())?;
                self.space();
                let value = self.value(depth)?;
                self.members.push(Member::new(key, value));
                self.space();
                if self.take(b'}') {
                    break;
                }
                self.take(b',').then_some(())?;
                self.space();
            }
        }
        Members::new(self.members.drain(first..).collect()).map(Tree::Object)
    }

    /// The characters up to the end of the run that begins here.
    fn run(&mut self) -> Option<&'t str> {
        let start = self.at;
        let length = self.bytes[start..].iter().position(|byte| ENDS_RUN[usize::from(*byte)])?;
        self.at += length;
        // A run begins and ends at ASCII.
        self.text.get(start..self.at)
    }

    fn string(&mut self) -> Option<Cow<'t, str>> {
        self.at += 1;
        let run = self.run()?;
        if self.take(b'"') {
            return Some(Cow::Borrowed(run));
        }
        let mut text = run.to_owned();
        loop {
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    return Some(Cow::Owned(text));
                }
                b'\\' => {
                    self.at += 1;
                    text.push(self.escaped()?);
                }
                _ => return None,
            }
            text.push_str(self.run()?);
        }
    }

    /// What stands behind a backslash.
    fn escaped(&mut self) -> Option<char> {
        let letter = self.peek()?;
        self.at += 1;
        Some(match letter {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let unit = self.unit()?;
                // Half a pair is no character; the other half must follow.
                if (0xd800..0xdc00).contains(&unit) {
                    (self.take(b'\\') && self.take(b'u')).then_some(())?;
                    let low = self.unit().filter(|low| (0xdc00..0xe000).contains(low))?;
                    char::from_u32(0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00))?
                } else {
                    char::from_u32(unit)?
                }
            }
            _ => return None,
        })
    }

    /// Four hexadecimal digits.
    fn unit(&mut self) -> Option<u32> {
        let digits = self.bytes.get(self.at..self.at + 4)?;
        self.at += 4;
        digits.iter().try_fold(0, |unit, digit| Some(unit * 16 + char::from(*digit).to_digit(16)?))
    }

    /// The digits from here, as a number as long as it fits; and how many there are.
    fn digits(&mut self, mut value: u64) -> (Option<u64>, usize) {
        let start = self.at;
        let mut fits = true;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            match value.checked_mul(10).and_then(|value| value.checked_add(u64::from(digit - b'0'))) {
                Some(more) => value = more,
                None => fits = false,
            }
            self.at += 1;
        }
        (fits.then_some(value), self.at - start)
    }

    fn number(&mut self) -> Option<Number> {
        let start = self.at;
        let is_negative = self.take(b'-');
        let begins_with_zero = self.peek() == Some(b'0');
        let (whole, count) = self.digits(0);
        if count == 0 || (begins_with_zero && count > 1) {
            return None;
        }
        let is_whole = !matches!(self.peek(), Some(b'.' | b'e' | b'E'));
        match whole {
            Some(whole) if is_whole && !is_negative => return Some(Number::from(whole)),
            // Minus zero is no integer.
            Some(whole) if is_whole && whole > 0 => {
                if let Some(negative) = 0_i64.checked_sub_unsigned(whole) {
                    return Some(Number::from(negative));
                }
            }
            _ => {}
        }
        let (mut digits, mut fraction) = (whole, 0);
        if self.take(b'.') {
            let so_far = digits.unwrap_or_default();
            let (more, count) = self.digits(so_far);
            (count > 0).then_some(())?;
            digits = digits.and(more);
            fraction = count;
        }
        let mut has_exponent = false;
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if !self.take(b'-') {
                self.take(b'+');
            }
            let (_, count) = self.digits(0);
            (count > 0).then_some(())?;
            has_exponent = true;
        }
        let exact = digits.filter(|digits| *digits < 1 << 53 && !has_exponent).zip(EXACT_POWERS.get(fraction));
        let value = match exact {
            // Both are held exactly, so one division rounds once, as it must.
            Some((digits, power)) => {
                let magnitude = digits as f64 / power;
                if is_negative { -magnitude } else { magnitude }
            }
            None => self.text.get(start..self.at)?.parse::<f64>().ok()?,
        };
        Number::from_f64(value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &Value) {
        let tree = Tree::read(text, 64).unwrap_or_else(|| panic!("{text} is not taken"));
        assert_eq!(tree.to_value(), *expect, "{text}");
        assert_eq!(Tree::of(expect).to_value(), *expect);
    }

    #[test]
    fn values_are_read() {
        check(" null ", &json!(null));
        check("[true, false,\n\t[], {} ]", &json!([true, false, [], {}]));
        check(r#"{"a": {"b": [1, {"c": "d"}]}, "": "ä€😀"}"#, &json!({"a": {"b": [1, {"c": "d"}]}, "": "ä€😀"}));
        check(r#""\"\\\/\b\f\n\r\tA\u00e4\ud83d\ude00 x""#, &json!("\"\\/\u{8}\u{c}\n\r\tAä😀 x"));
        check(r#""\u0000""#, &json!("\0"));
    }

    #[test]
    fn numbers_are_read_as_they_are_written() {
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
            check(text, &expect);
        }
        let zero = Tree::read("-0", 1).unwrap().to_value();
        assert!(zero.as_f64().unwrap().is_sign_negative() && zero.is_f64());
    }

    #[test]
    fn nothing_else_is_taken() {
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
            assert_eq!(Tree::read(text, 64), None, "{text:?}");
        }
    }

    #[test]
    fn depth_ends_where_it_is_told() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(Tree::read(&nested(5), 5).is_some());
        assert!(Tree::read(&nested(6), 5).is_none());
        assert!(Tree::read(&"{\"a\":".repeat(100_000), 64).is_none());
    }

    #[test]
    fn members_are_found_and_never_twice() {
        for count in [0, 1, FEW, FEW + 1, 1_000] {
            let members: Vec<String> = (0..count).map(|number| format!("\"key number {number}\":{number}")).collect();
            let text = format!("{{{}}}", members.join(","));
            let Some(Tree::Object(object)) = Tree::read(&text, 1) else { panic!("{text}") };
            assert_eq!(object.len(), count);
            for number in 0..count {
                let found = object.get(&Key::new(&format!("key number {number}")));
                assert_eq!(found.map(Tree::to_value), Some(json!(number)));
            }
            assert_eq!(object.get(&Key::new("key number")), None);
            let twice = format!("{{{},\"key\\u0020number 0\":1}}", members.join(","));
            assert!(count == 0 || Tree::read(&twice, 1).is_none());
        }
    }

    #[test]
    fn keys_that_share_a_hash_are_told_apart() {
        // The hash sees the ends of a key and not its middle.
        let key = |middle: usize| format!("beginning{middle:05}of the end");
        assert_eq!(hash(&key(1)), hash(&key(2)));
        for count in [3, 500] {
            let text: Vec<String> = (0..count).map(|number| format!("\"{}\":{number}", key(number))).collect();
            let text = format!("{{{}}}", text.join(","));
            let Some(Tree::Object(object)) = Tree::read(&text, 1) else { panic!("{text}") };
            assert!((0..count).all(|number| object.get(&Key::new(&key(number))) == Some(&Tree::Number(number.into()))));
        }
    }

    proptest! {
        #[test]
        fn what_is_taken_is_what_serde_reads(text in r#"[\[\]{}",:0-9.eE+a-fntrusl\\ -]{0,24}"#) {
            if let Some(tree) = Tree::read(&text, 64) {
                prop_assert_eq!(tree.to_value(), serde_json::from_str::<Value>(&text).unwrap());
            }
        }
    }
}
