//! Streaming validation of content, without holding it in memory.

use super::MediaType;
use crate::json::{JsonError, JsonLimits, checker::GrammarChecker};

/// Validates a stream of bytes against its media type.
#[derive(Debug)]
pub struct ContentCheck {
    utf8: Utf8,
    /// `None` for text, which may be any.
    json: Option<GrammarChecker>,
}

/// Why bytes are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadContent {
    #[error("the bytes are not UTF-8 from {at} on")]
    NotUtf8 { at: u64 },
    #[error(transparent)]
    NotJson(#[from] JsonError),
}

impl ContentCheck {
    #[must_use]
    pub fn new(media_type: &MediaType) -> Self {
        Self { utf8: Utf8::default(), json: media_type.is_json().then(|| GrammarChecker::new(JsonLimits::BODY.depth)) }
    }

    /// Validates the next bytes.
    ///
    /// # Errors
    /// As soon as the whole is certainly invalid.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), BadContent> {
        self.utf8.push(bytes)?;
        if let Some(json) = &mut self.json {
            json.push(bytes)?;
        }
        Ok(())
    }

    /// All bytes have been pushed.
    ///
    /// # Errors
    /// If they end too early.
    pub fn finish(self) -> Result<(), BadContent> {
        self.utf8.finish()?;
        Ok(self.json.map_or(Ok(()), GrammarChecker::finish)?)
    }
}

/// Validates UTF-8, also where a character is split between two chunks.
#[derive(Debug, Default)]
struct Utf8 {
    /// The bytes before the incomplete character.
    passed: u64,
    begun: Vec<u8>,
}

impl Utf8 {
    fn push(&mut self, bytes: &[u8]) -> Result<(), BadContent> {
        let mut rest = bytes;
        while !self.begun.is_empty() {
            let Some((next, after)) = rest.split_first() else { return Ok(()) };
            self.begun.push(*next);
            rest = after;
            match str::from_utf8(&self.begun) {
                Ok(_) => {
                    self.passed += self.begun.len() as u64;
                    self.begun.clear();
                }
                Err(error) if error.error_len().is_some() => return Err(BadContent::NotUtf8 { at: self.passed }),
                Err(_) => {}
            }
        }
        match str::from_utf8(rest) {
            Ok(_) => self.passed += rest.len() as u64,
            Err(error) => {
                self.passed += error.valid_up_to() as u64;
                if error.error_len().is_some() {
                    return Err(BadContent::NotUtf8 { at: self.passed });
                }
                self.begun.extend_from_slice(&rest[error.valid_up_to()..]);
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<(), BadContent> {
        if self.begun.is_empty() { Ok(()) } else { Err(BadContent::NotUtf8 { at: self.passed }) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::*;

    fn check_in_steps(media_type: &MediaType, bytes: &[u8], step: usize) -> Result<(), BadContent> {
        let mut check = ContentCheck::new(media_type);
        bytes.chunks(step).try_for_each(|piece| check.push(piece))?;
        check.finish()
    }

    #[track_caller]
    fn check(bytes: &[u8], expect: Result<(), u64>) {
        for step in 1..=bytes.len() + 1 {
            let found = check_in_steps(&MediaType::plain_text(), bytes, step);
            assert_eq!(found, expect.map_err(|at| BadContent::NotUtf8 { at }), "in steps of {step}");
        }
    }

    #[test]
    fn text_is_utf8_wherever_it_is_cut() {
        check(b"", Ok(()));
        check("a é 待 😀".as_bytes(), Ok(()));
        check(b"ab\xffcd", Err(2));
        check(b"ab\xc3", Err(2));
        check(b"\xe2\x82", Err(0));
        check(b"ok \xe2\x28\xa1", Err(3));
        // A surrogate, and an overlong form.
        check(b"\xed\xa0\x80", Err(0));
        check(b"x\xc0\x80", Err(1));
    }

    #[test]
    fn json_must_be_both() {
        let json = MediaType::json();
        assert_eq!(check_in_steps(&json, r#"{"a": "é"}"#.as_bytes(), 1), Ok(()));
        assert!(matches!(check_in_steps(&json, b"{\"a\": \"\xff\"}", 3), Err(BadContent::NotUtf8 { at: 7 })));
        assert!(matches!(check_in_steps(&json, b"{\"a\": 1", 3), Err(BadContent::NotJson(_))));
    }

    proptest! {
        #[test]
        fn chunks_get_the_same_verdict_as_the_whole(bytes in any::<Vec<u8>>(), step in 1_usize..8) {
            let whole = str::from_utf8(&bytes).map(|_| ()).map_err(|error| {
                BadContent::NotUtf8 { at: error.valid_up_to() as u64 }
            });
            prop_assert_eq!(check_in_steps(&MediaType::plain_text(), &bytes, step), whole);
        }
    }
}
