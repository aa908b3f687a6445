//! Streaming syntax check of JSON that is too large to be parsed.
//!
//! A [`GrammarChecker`] reads a text in chunks and needs one bit for each open object or array, whatever they contain. It
//! checks the grammar of RFC 8259 and the depth, and no values: duplicate keys and numbers out of range pass, since the
//! values are not read here. UTF-8 is validated elsewhere.

use super::{JsonError, JsonLimits};

/// Checks one JSON value that fills the whole text.
#[derive(Debug)]
pub struct GrammarChecker {
    /// The open containers, the innermost last: true for an object.
    open: Vec<bool>,
    depth: usize,
    expect: Expect,
    line: usize,
    column: usize,
}

/// The state: what may come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expect {
    /// A value; with `close`, also the end of the array that has just been opened.
    Value {
        close: bool,
    },
    /// A key; with `close`, also the end of the object that has just been opened.
    Key {
        close: bool,
    },
    Colon,
    /// A comma, or the end of the open container; or the end of the text, if none is open.
    After,
    /// In a string, which is a key or a value.
    Text {
        key: bool,
    },
    Escape {
        key: bool,
    },
    /// This many more hexadecimal digits of an escape.
    Hex {
        key: bool,
        left: u8,
    },
    /// The rest of `true`, `false` or `null`.
    Word(&'static [u8]),
    Number(Digits),
}

/// The state within a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Digits {
    Minus,
    Zero,
    Whole,
    Point,
    Fraction,
    Exponent,
    Sign,
    Power,
}

impl Digits {
    /// Whether the number may end here.
    fn is_whole(self) -> bool {
        matches!(self, Self::Zero | Self::Whole | Self::Fraction | Self::Power)
    }

    /// The next state of the number; `None` if it ends here.
    fn next(self, byte: u8) -> Option<Self> {
        match (self, byte) {
            (Self::Minus, b'0') => Some(Self::Zero),
            (Self::Minus, b'1'..=b'9') | (Self::Whole, b'0'..=b'9') => Some(Self::Whole),
            (Self::Zero | Self::Whole, b'.') => Some(Self::Point),
            (Self::Point | Self::Fraction, b'0'..=b'9') => Some(Self::Fraction),
            (Self::Zero | Self::Whole | Self::Fraction, b'e' | b'E') => Some(Self::Exponent),
            (Self::Exponent, b'+' | b'-') => Some(Self::Sign),
            (Self::Exponent | Self::Sign | Self::Power, b'0'..=b'9') => Some(Self::Power),
            _ => None,
        }
    }
}

impl GrammarChecker {
    /// Objects and arrays may be nested `depth` times.
    #[must_use]
    pub fn new(depth: usize) -> Self {
        let depth = depth.min(JsonLimits::DEEPEST);
        Self { open: Vec::with_capacity(depth), depth, expect: Expect::Value { close: false }, line: 1, column: 0 }
    }

    /// Checks the next bytes.
    ///
    /// # Errors
    /// At the first byte that is not allowed in its position.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), JsonError> {
        bytes.iter().try_for_each(|byte| self.step(*byte))
    }

    /// All bytes have been pushed.
    ///
    /// # Errors
    /// If something is still open.
    pub fn finish(self) -> Result<(), JsonError> {
        let ended = match self.expect {
            Expect::After => true,
            Expect::Number(digits) => digits.is_whole(),
            _ => false,
        };
        if ended && self.open.is_empty() { Ok(()) } else { Err(self.syntax("unexpected end of text")) }
    }

    fn step(&mut self, byte: u8) -> Result<(), JsonError> {
        self.column += 1;
        match self.expect {
            Expect::Text { key } => match byte {
                b'"' if key => self.expect = Expect::Colon,
                b'"' => self.expect = Expect::After,
                b'\\' => self.expect = Expect::Escape { key },
                0..0x20 => return Err(self.syntax("control character in a string")),
                _ => {}
            },
            Expect::Escape { key } => match byte {
                b'u' => self.expect = Expect::Hex { key, left: 4 },
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.expect = Expect::Text { key },
                _ => return Err(self.syntax("invalid escape")),
            },
            Expect::Hex { key, left } if byte.is_ascii_hexdigit() => {
                self.expect = if left == 1 { Expect::Text { key } } else { Expect::Hex { key, left: left - 1 } };
            }
            Expect::Hex { .. } => return Err(self.syntax("expected four hexadecimal digits")),
            Expect::Word(rest) => match rest.split_first() {
                Some((next, rest)) if *next == byte => {
                    self.expect = if rest.is_empty() { Expect::After } else { Expect::Word(rest) };
                }
                _ => return Err(self.syntax("invalid literal")),
            },
            Expect::Number(digits) => match digits.next(byte) {
                Some(digits) => self.expect = Expect::Number(digits),
                None if digits.is_whole() => {
                    self.expect = Expect::After;
                    self.between(byte)?;
                }
                None => return Err(self.syntax("incomplete number")),
            },
            Expect::Value { .. } | Expect::Key { .. } | Expect::Colon | Expect::After => self.between(byte)?,
        }
        Ok(())
    }

    /// A byte outside of strings, literals and numbers.
    fn between(&mut self, byte: u8) -> Result<(), JsonError> {
        match (byte, self.expect) {
            (b'\n', _) => {
                self.line += 1;
                self.column = 0;
            }
            (b' ' | b'\t' | b'\r', _) => {}
            (b'{', Expect::Value { .. }) => self.open(true)?,
            (b'[', Expect::Value { .. }) => self.open(false)?,
            (b'"', Expect::Value { .. }) => self.expect = Expect::Text { key: false },
            (b't', Expect::Value { .. }) => self.expect = Expect::Word(b"rue"),
            (b'f', Expect::Value { .. }) => self.expect = Expect::Word(b"alse"),
            (b'n', Expect::Value { .. }) => self.expect = Expect::Word(b"ull"),
            (b'-', Expect::Value { .. }) => self.expect = Expect::Number(Digits::Minus),
            (b'0', Expect::Value { .. }) => self.expect = Expect::Number(Digits::Zero),
            (b'1'..=b'9', Expect::Value { .. }) => self.expect = Expect::Number(Digits::Whole),
            (b'"', Expect::Key { .. }) => self.expect = Expect::Text { key: true },
            (b':', Expect::Colon) => self.expect = Expect::Value { close: false },
            (b',', Expect::After) if self.open.last() == Some(&true) => self.expect = Expect::Key { close: false },
            (b',', Expect::After) if self.open.last() == Some(&false) => self.expect = Expect::Value { close: false },
            (b'}', Expect::After | Expect::Key { close: true }) if self.open.last() == Some(&true) => self.close(),
            (b']', Expect::After | Expect::Value { close: true }) if self.open.last() == Some(&false) => self.close(),
            (_, expect) => return Err(self.syntax(expect.to_sentence(self.open.is_empty()))),
        }
        Ok(())
    }

    fn open(&mut self, object: bool) -> Result<(), JsonError> {
        if self.open.len() == self.depth {
            return Err(JsonError::TooDeep { limit: self.depth, line: self.line, column: self.column });
        }
        self.open.push(object);
        self.expect = if object { Expect::Key { close: true } } else { Expect::Value { close: true } };
        Ok(())
    }

    fn close(&mut self) {
        self.open.pop();
        self.expect = Expect::After;
    }

    fn syntax(&self, message: &str) -> JsonError {
        let (line, column) = (self.line, self.column);
        JsonError::Syntax { message: format!("{message} at line {line} column {column}"), line, column }
    }
}

impl Expect {
    fn to_sentence(self, outermost: bool) -> &'static str {
        match self {
            Self::Key { .. } => "expected a key",
            Self::Colon => "expected a colon",
            Self::After if outermost => "trailing characters",
            Self::After => "expected a comma or a closing bracket",
            _ => "expected a value",
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, prop_assert_eq, prop_oneof, proptest};
    use proptest::strategy::Strategy;

    use super::*;
    use crate::json;

    fn check_in_steps(text: &[u8], step: usize) -> Result<(), JsonError> {
        let mut checker = GrammarChecker::new(64);
        text.chunks(step).try_for_each(|piece| checker.push(piece))?;
        checker.finish()
    }

    #[track_caller]
    fn takes(text: &str) {
        for step in 1..4 {
            assert_eq!(check_in_steps(text.as_bytes(), step), Ok(()), "{text}");
        }
    }

    #[track_caller]
    fn refuses(text: &str, expect: &str) {
        for step in 1..4 {
            let error = check_in_steps(text.as_bytes(), step).unwrap_err();
            assert_eq!(error.to_string(), expect, "{text}");
        }
    }

    #[test]
    fn json_is_taken() {
        for text in [
            "null",
            "true",
            "false",
            "0",
            "-0",
            "12",
            "-1.50",
            "1e9",
            "1E-9",
            "0.5e+10",
            r#""""#,
            "[]",
            "{}",
            " [ ] ",
            "[1]",
            "[[],{},[1,2]]",
            r#"{"a":1,"b":[true,null,"x"]}"#,
            "\n{\n \"a\" : 1 ,\t\"b\": 2\r\n}\n",
            r#""\"\\\/\b\f\n\r\t\u00e9é""#,
            r#"{"a":1,"a":2}"#,
            "1e999999",
        ] {
            takes(text);
        }
    }

    #[test]
    fn other_text_is_rejected_with_its_position() {
        refuses("", "unexpected end of text at line 1 column 0");
        refuses("[1,\n 2", "unexpected end of text at line 2 column 2");
        refuses("[1,]", "expected a value at line 1 column 4");
        refuses("[1 2]", "expected a comma or a closing bracket at line 1 column 4");
        refuses("{a:1}", "expected a key at line 1 column 2");
        refuses(r#"{"a" 1}"#, "expected a colon at line 1 column 6");
        refuses(r#"{"a":1,}"#, "expected a key at line 1 column 8");
        refuses("[}", "expected a value at line 1 column 2");
        refuses("{]", "expected a key at line 1 column 2");
        refuses("[1}", "expected a comma or a closing bracket at line 1 column 3");
        refuses("1 2", "trailing characters at line 1 column 3");
        refuses("]", "expected a value at line 1 column 1");
        refuses("nul", "unexpected end of text at line 1 column 3");
        refuses("nulL", "invalid literal at line 1 column 4");
        refuses("NaN", "expected a value at line 1 column 1");
        refuses("01", "trailing characters at line 1 column 2");
        refuses("-", "unexpected end of text at line 1 column 1");
        refuses("1.", "unexpected end of text at line 1 column 2");
        refuses("[1.]", "incomplete number at line 1 column 4");
        refuses("[1e]", "incomplete number at line 1 column 4");
        refuses("+1", "expected a value at line 1 column 1");
        refuses(r#""\x""#, "invalid escape at line 1 column 3");
        refuses(r#""\u00g0""#, "expected four hexadecimal digits at line 1 column 6");
        refuses("\"a\nb\"", "control character in a string at line 1 column 3");
        refuses("\"a", "unexpected end of text at line 1 column 2");
        refuses("// no\n1", "expected a value at line 1 column 1");
        refuses("\u{feff}1", "expected a value at line 1 column 1");
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        takes(&nested(64));
        refuses(&nested(65), "nested deeper than 64 levels at line 1 column 65");
    }

    /// Texts that are JSON, almost JSON, or nothing of the kind.
    fn texts() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            prop::sample::select(vec![
                "{", "}", "[", "]", ",", ":", "\"", "\"a\"", "\\", "\\n", "\\u12", "0", "1", "-", ".", "e", "true",
                "null", " ", "\n", "é", "\u{1}",
            ])
            .prop_map(str::to_owned),
            any::<char>().prop_map(String::from),
        ];
        prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn it_agrees_with_the_parser(text in texts(), step in 1_usize..5) {
            let parsed = json::parse(&text, JsonLimits { bytes: 1 << 20, ..JsonLimits::ARGUMENTS });
            let checked = check_in_steps(text.as_bytes(), step);
            match parsed {
                Ok(_) => prop_assert_eq!(checked, Ok(())),
                // Faults of values, which are not checked here: these pass.
                Err(JsonError::DuplicateKey { .. }) => {}
                Err(JsonError::Syntax { message, .. })
                    if message.contains("out of range") || message.contains("surrogate")
                        || message.contains("hex escape") => {}
                Err(_) => prop_assert_eq!(checked.is_err(), true, "{}", text),
            }
        }
    }
}
