//! Percent-encoding, as in URLs (RFC 3986, section 2.1).

use crate::hex;

/// Whether a character may appear anywhere in a URL: a letter, a digit, `-`, `.`, `_` or `~`.
#[must_use]
pub fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// A text with everything encoded but unreserved characters: for one segment of a path, or one part of a query.
#[must_use]
pub fn encode(text: &str) -> String {
    encode_except(text.as_bytes(), is_unreserved)
}

/// The same with another choice of the bytes that stay as they are.
#[must_use]
pub fn encode_except(bytes: &[u8], stays: impl Fn(u8) -> bool) -> String {
    let mut text = String::with_capacity(bytes.len());
    push_except(&mut text, bytes, stays);
    text
}

/// Appends `bytes` encoded, but for those that stay as they are. Only ASCII may stay.
pub fn push_except(text: &mut String, bytes: &[u8], stays: impl Fn(u8) -> bool) {
    for byte in bytes.iter().copied() {
        if byte.is_ascii() && stays(byte) {
            text.push(char::from(byte));
        } else {
            text.push('%');
            text.extend(hex::digits(byte).map(|digit| char::from(digit.to_ascii_uppercase())));
        }
    }
}

/// The decoded text; `None` if a `%` is followed by anything but two digits, or the bytes are not UTF-8.
#[must_use]
pub fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'%' { hex::byte(rest.next()?, rest.next()?)? } else { byte });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_as_it_was_written() {
        for (text, expect) in [
            ("", ""),
            ("a-Z_0.9~", "a-Z_0.9~"),
            ("a b/c?d=e&f%", "a%20b%2Fc%3Fd%3De%26f%25"),
            ("ä€😀", "%C3%A4%E2%82%AC%F0%9F%98%80"),
            ("\u{0}\n+", "%00%0A%2B"),
        ] {
            assert_eq!(encode(text), expect);
            assert_eq!(decode(expect).as_deref(), Some(text));
            assert_eq!(decode(&expect.to_lowercase()), Some(text.to_lowercase()));
        }
    }

    #[test]
    fn the_caller_chooses_what_stays() {
        assert_eq!(encode_except(b"a/b c", |byte| byte != b' '), "a/b%20c");
        assert_eq!(encode_except("é".as_bytes(), |_| true), "%C3%A9", "only ASCII stays");
    }

    #[test]
    fn what_is_not_an_encoded_text_is_not_read() {
        for bad in ["%", "%4", "a%4", "%zz", "%+1", "%ff", "%C3"] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }
}
