//! The encodings in which a secret may be echoed: an API need not repeat it as it was sent.

use base64::{
    Engine as _,
    prelude::{BASE64_STANDARD, BASE64_URL_SAFE},
};
use bosun_core::{hex, percent};

/// Shorter texts are not secrets; redacting them would garble ordinary words.
const SHORTEST: usize = 4;

/// Every encoding of `value`, the longest first, so that none is left over as a part of another.
pub(super) fn of(value: &str) -> Vec<String> {
    if value.len() < SHORTEST {
        return Vec::new();
    }
    let (standard, for_urls) = (BASE64_STANDARD.encode(value), BASE64_URL_SAFE.encode(value));
    // Some encoders keep the characters that are allowed in a path.
    let in_path =
        percent::encode_except(value.as_bytes(), |byte| percent::is_unreserved(byte) || b"/:".contains(&byte));
    let hexadecimal = hex::encode(value.as_bytes());
    let mut forms = vec![
        value.to_owned(),
        json_escaped(value),
        percent::encode(value),
        in_path.to_lowercase(),
        in_path.replace("%20", "+"),
        in_path,
        format!("{value:?}").trim_matches('"').to_owned(),
        standard.trim_end_matches('=').to_owned(),
        for_urls.trim_end_matches('=').to_owned(),
        hexadecimal.to_uppercase(),
        hexadecimal,
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

#[cfg(test)]
mod tests {
    use super::*;

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
            "612F6220632264",
            "612f6220632264",
        ] {
            assert!(forms.iter().any(|known| known == form), "{form} {forms:?}");
        }
        assert!(of("abc").is_empty());
    }
}
