//! The encodings in which a secret may be echoed: an API need not repeat it as it was sent.

use std::fmt::Write as _;

/// Shorter texts are not secrets; redacting them would garble ordinary words.
const SHORTEST: usize = 4;

/// Every encoding of `value`, the longest first, so that none is left over as a part of another.
pub(super) fn of(value: &str) -> Vec<String> {
    if value.len() < SHORTEST {
        return Vec::new();
    }
    let standard = base64(value.as_bytes(), b"+/");
    let for_urls = base64(value.as_bytes(), b"-_");
    let mut forms = vec![
        value.to_owned(),
        json_escaped(value),
        percent_encoded(value, false),
        percent_encoded(value, true),
        percent_encoded(value, false).to_lowercase(),
        percent_encoded(value, false).replace("%20", "+"),
        format!("{value:?}").trim_matches('"').to_owned(),
        standard.trim_end_matches('=').to_owned(),
        for_urls.trim_end_matches('=').to_owned(),
        hexadecimal(value),
        hexadecimal(value).to_uppercase(),
        standard,
        for_urls,
    ];
    forms.sort_by(|left, right| right.len().cmp(&left.len()).then_with(|| left.cmp(right)));
    forms.dedup();
    forms
}

fn json_escaped(value: &str) -> String {
    let quoted = serde_json::Value::from(value).to_string();
    quoted.get(1..quoted.len() - 1).unwrap_or_default().to_owned()
}

/// With `all`, characters that are allowed in a path are encoded too.
fn percent_encoded(value: &str, all: bool) -> String {
    let mut text = String::with_capacity(value.len());
    for byte in value.bytes() {
        let is_plain = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
        if is_plain || (!all && matches!(byte, b'/' | b':')) {
            text.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

fn hexadecimal(value: &str) -> String {
    value.bytes().fold(String::with_capacity(value.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn base64(bytes: &[u8], last_two: &[u8; 2]) -> String {
    let digit = |index: u32| match index {
        0..26 => b'A' + index as u8,
        26..52 => b'a' + (index - 26) as u8,
        52..62 => b'0' + (index - 52) as u8,
        62 => last_two[0],
        _ => last_two[1],
    };
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().fold(0_u32, |group, byte| group << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let is_filling = place > chunk.len();
            let sextet = group >> (18 - 6 * place) & 63;
            text.push(if is_filling { '=' } else { char::from(digit(sextet)) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_matches_the_standard() {
        for (text, expect) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(text.as_bytes(), b"+/"), expect);
        }
        assert_eq!(base64(&[0xfb, 0xff], b"-_"), "-_8=");
    }

    #[test]
    fn a_value_has_all_its_encodings() {
        let forms = of("a/b c\"d");
        for form in [
            "a/b c\"d",
            "a/b c\\\"d",
            "a/b%20c%22d",
            "a%2Fb%20c%22d",
            "a/b+c%22d",
            "YS9iIGMiZA==",
            "YS9iIGMiZA",
            "612f6220632264",
        ] {
            assert!(forms.iter().any(|known| known == form), "{form} {forms:?}");
        }
        assert!(of("abc").is_empty());
    }
}
