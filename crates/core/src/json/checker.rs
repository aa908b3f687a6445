//! JSON that is too large to be parsed: its grammar, checked byte by byte.
//!
//! A [`Checker`] takes a text in pieces and needs one bit for each open object or array, whatever is
//! in them. It knows the grammar of RFC 8259 and the depth, and nothing of values: keys that stand
//! twice and numbers that no program can hold pass, since nobody here reads them. That the bytes are
//! UTF-8 is for somebody else to see.

use super::{JsonError, Limits};

/// Reads one JSON value that fills the whole text.
#[derive(Debug)]
pub struct Checker {
    /// What is open, the innermost last: true for an object.
    open: Vec<bool>,
    depth: usize,
    expect: Expect,
    line: usize,
    column: usize,
}

/// What may come next.
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
    /// A comma, or the end of what is open; or nothing more, if nothing is.
    After,
    /// In a string, which is a key or a value.
    Text {
        key: bool,
    },
    Escape {
        key: bool,
    },
    /// So many hexadecimal digits of an escape.
    Hex {
        key: bool,
        left: u8,
    },
    /// The rest of `true`, `false` or `null`.
    Word(&'static [u8]),
    Number(Digits),
}

/// Where in a number.
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

    /// Where the number goes on; `None` if it does not.
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

impl Checker {
    /// Objects and arrays may be inside each other `depth` times.
    #[must_use]
    pub fn new(depth: usize) -> Self {
        let depth = depth.min(Limits::DEEPEST);
        Self { open: Vec::with_capacity(depth), depth, expect: Expect::Value { close: false }, line: 1, column: 0 }
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// At the first byte that cannot stand where it does.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), JsonError> {
        bytes.iter().try_for_each(|byte| self.step(*byte))
    }

    /// All bytes have been there.
    ///
    /// # Errors
    /// If something is still open.
    pub fn finish(self) -> Result<(), JsonError> {
        let ended = match self.expect {
            Expect::After => true,
            Expect::Number(digits) => digits.is_whole(),
            _ => false,
        };
        if ended && self.open.is_empty() { Ok(()) } else { Err(self.syntax("the text ends too early")) }
    }

    fn step(&mut self, byte: u8) -> Result<(), JsonError> {
        self.column += 1;
        match self.expect {
            Expect::Text { key } => match byte {
                b'"' if key => self.expect = Expect::Colon,
                b'"' => self.expect = Expect::After,
                b'\\' => self.expect = Expect::Escape { key },
                0..0x20 => return Err(self.syntax("a control character stands in a string")),
                _ => {}
            },
            Expect::Escape { key } => match byte {
                b'u' => self.expect = Expect::Hex { key, left: 4 },
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.expect = Expect::Text { key },
                _ => return Err(self.syntax("there is no such escape")),
            },
            Expect::Hex { key, left } if byte.is_ascii_hexdigit() => {
                self.expect = if left == 1 { Expect::Text { key } } else { Expect::Hex { key, left: left - 1 } };
            }
            Expect::Hex { .. } => return Err(self.syntax("an escape has four hexadecimal digits")),
            Expect::Word(rest) => match rest.split_first() {
                Some((next, rest)) if *next == byte => {
                    self.expect = if rest.is_empty() { Expect::After } else { Expect::Word(rest) };
                }
                _ => return Err(self.syntax("there is no such word")),
            },
            Expect::Number(digits) => match digits.next(byte) {
                Some(digits) => self.expect = Expect::Number(digits),
                None if digits.is_whole() => {
                    self.expect = Expect::After;
                    self.between(byte)?;
                }
                None => return Err(self.syntax("a number is not whole")),
            },
            Expect::Value { .. } | Expect::Key { .. } | Expect::Colon | Expect::After => self.between(byte)?,
        }
        Ok(())
    }

    /// A byte that is not inside a string, a word or a number.
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
            Self::Key { .. } => "a key must stand here",
            Self::Colon => "a colon must stand here",
            Self::After if outermost => "there is more behind the value",
            Self::After => "a comma or an end must stand here",
            _ => "a value must stand here",
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
        let mut checker = Checker::new(64);
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
    fn other_text_is_refused_with_its_place() {
        refuses("", "the text ends too early at line 1 column 0");
        refuses("[1,\n 2", "the text ends too early at line 2 column 2");
        refuses("[1,]", "a value must stand here at line 1 column 4");
        refuses("[1 2]", "a comma or an end must stand here at line 1 column 4");
        refuses("{a:1}", "a key must stand here at line 1 column 2");
        refuses(r#"{"a" 1}"#, "a colon must stand here at line 1 column 6");
        refuses(r#"{"a":1,}"#, "a key must stand here at line 1 column 8");
        refuses("[}", "a value must stand here at line 1 column 2");
        refuses("{]", "a key must stand here at line 1 column 2");
        refuses("[1}", "a comma or an end must stand here at line 1 column 3");
        refuses("1 2", "there is more behind the value at line 1 column 3");
        refuses("]", "a value must stand here at line 1 column 1");
        refuses("nul", "the text ends too early at line 1 column 3");
        refuses("nulL", "there is no such word at line 1 column 4");
        refuses("NaN", "a value must stand here at line 1 column 1");
        refuses("01", "there is more behind the value at line 1 column 2");
        refuses("-", "the text ends too early at line 1 column 1");
        refuses("1.", "the text ends too early at line 1 column 2");
        refuses("[1.]", "a number is not whole at line 1 column 4");
        refuses("[1e]", "a number is not whole at line 1 column 4");
        refuses("+1", "a value must stand here at line 1 column 1");
        refuses(r#""\x""#, "there is no such escape at line 1 column 3");
        refuses(r#""\u00g0""#, "an escape has four hexadecimal digits at line 1 column 6");
        refuses("\"a\nb\"", "a control character stands in a string at line 1 column 3");
        refuses("\"a", "the text ends too early at line 1 column 2");
        refuses("// no\n1", "a value must stand here at line 1 column 1");
        refuses("\u{feff}1", "a value must stand here at line 1 column 1");
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
            let parsed = json::parse(&text, Limits { bytes: 1 << 20, ..Limits::ARGUMENTS });
            let checked = check_in_steps(text.as_bytes(), step);
            match parsed {
                Ok(_) => prop_assert_eq!(checked, Ok(())),
                // What only a reader of values minds: these pass.
                Err(JsonError::DuplicateKey { .. }) => {}
                Err(JsonError::Syntax { message, .. })
                    if message.contains("out of range") || message.contains("surrogate")
                        || message.contains("hex escape") => {}
                Err(_) => prop_assert_eq!(checked.is_err(), true, "{}", text),
            }
        }
    }
}
