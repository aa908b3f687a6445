//! Bytes as hexadecimal digits, two for each.
//!
//! Digits are written in lower case and read in either.

use std::fmt;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The two digits of a byte.
#[must_use]
pub fn digits(byte: u8) -> [u8; 2] {
    [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]
}

/// The byte of two digits; `None` if they are none.
#[must_use]
pub fn byte(high: u8, low: u8) -> Option<u8> {
    let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(high)? << 4 | digit(low)?)
}

#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    push(&mut text, bytes);
    text
}

/// Appends the digits of `bytes`: for a text that is erased after use, and so must not be copied.
pub fn push(text: &mut String, bytes: &[u8]) {
    bytes.iter().for_each(|byte| text.extend(digits(*byte).map(char::from)));
}

/// Writes the digits of `bytes`, for an implementation of [`fmt::Display`].
///
/// # Errors
/// Those of the formatter.
pub fn write(formatter: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
}

/// The bytes of a text; `None` if it has an odd length or anything but digits.
#[must_use]
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    pairs.map(|pair| byte(pair[0], pair[1])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_read_as_it_was_written() {
        let bytes: Vec<u8> = (0..=u8::MAX).collect();
        let text = encode(&bytes);
        assert!(text.starts_with("000102") && text.ends_with("fdfeff"), "{text}");
        assert_eq!(decode(&text), Some(bytes.clone()));
        assert_eq!(decode(&text.to_uppercase()), Some(bytes));
    }

    #[test]
    fn what_is_not_pairs_of_digits_is_not_read() {
        for bad in ["0", "000", "0g", "+1", " 1", "0x", "é"] {
            assert_eq!(decode(bad), None, "{bad}");
        }
        assert_eq!(decode(""), Some(Vec::new()));
    }
}
