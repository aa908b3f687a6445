//! The text of an address.

use bosun_core::percent;

/// An address with everything percent-encoded that none has; slots have nothing of it either.
pub(crate) fn encoded(address: &str) -> String {
    let mut encoded = String::with_capacity(address.len());
    for letter in address.chars() {
        if letter.is_control() || letter.is_whitespace() || letter == '\\' {
            encoded.push_str(&percent::encode(letter.encode_utf8(&mut [0; 4])));
        } else {
            encoded.push(letter);
        }
    }
    encoded
}
